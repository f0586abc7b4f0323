"""Hostile programs against every level of the sandbox: nothing is reached, nothing stays behind."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.faults.escapes import (
    CHEATS,
    ESCAPES,
    EXHAUSTION,
    HARMLESS,
    HIDDEN,
    RIGHT,
    TESTED,
    TOOLS,
    Outside,
)
from tests.support.each import each

from eval_toolkit._internal.sandbox import (
    ALLOW_WEAKER,
    Contained,
    Limits,
    Overrun,
    close_workers,
    levels,
    workers,
)
from eval_toolkit._internal.sandbox.filters import has_filter
from eval_toolkit._internal.sandbox.levels import Level
from eval_toolkit._internal.sandbox.view import BUBBLEWRAP, LANDLOCK, NAMESPACES
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.graders import CodeTests
from eval_toolkit.models.responses import Completion

pytestmark = pytest.mark.skipif(not has_filter(), reason="the sandbox is Linux's")
WAYS = (BUBBLEWRAP, NAMESPACES, LANDLOCK)
SECONDS = 0.5
PATIENCE = 120.0
"""Seconds for programs that are to pass, on a machine that is busy with other things."""
REFUSING = Path(__file__).with_name("refusing.py")
MISCHIEF = {
    "locks its folder": "import os\nos.makedirs('a/b')\nos.chmod('a', 0)\nos.chmod('.', 0)",
    "removes its folder": "import os\nos.rmdir(os.getcwd())",
    "links out": "import os\nos.symlink('/', 'root')",
    "writes beside its folder": "open('../x', 'w').write('an answer')",
    "fills the space beside it": "for i in range(4): open(f'../big{i}', 'wb').write(bytes(15 << 20))",
    "locks the folder above": "import os\nos.chmod('..', 0o500)",
    "a file in the place of its folder": (
        "import os\nd = os.getcwd()\nos.chdir('/')\nos.rmdir(d)\nopen(d, 'w').close()"
    ),
    "a link in the place of its folder": (
        "import os\nd = os.getcwd()\nos.chdir('/')\nos.rmdir(d)\nos.symlink('/dev/null', d)"
    ),
    "nests folders": "import os\nfor _ in range(500): os.mkdir('d' * 50); os.chdir('d' * 50)",
    "leaves a thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()"
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory):
    """Where workers have their folders; empty again at the end."""
    close_workers()
    place = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(place))
        yield
        close_workers()
    assert list(place.iterdir()) == []


@pytest.fixture(scope="module", params=WAYS)
def way(request):
    """Each way that this system has; the others are skipped, by name."""
    missing = levels._missing(request.param)
    if not missing:
        try:
            levels._tried(request.param)
        except EvalToolkitError as error:
            missing = str(error)
    if missing:
        pytest.skip(f"{request.param}: {missing}")
    return request.param


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    with Outside(tmp_path_factory.mktemp("user")) as there:
        yield there


def run(way, code, tests="assert done", seconds=PATIENCE):
    sandbox = levels.program_sandbox(way)
    worker = Limits(seconds + 20.0, None)
    call = Contained("eval_toolkit._internal.sandbox.programs:run_program", worker, sandbox)
    return call(code, Limits(seconds, 512).to_dict(), way, sandbox.view.to_dict(), apart=tests)


def children(*parents):
    """Processes that have one of these as their parent."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            name, _, rest = (entry / "stat").read_text().rpartition(")")
        except (OSError, ValueError):
            continue
        if entry.name.isdecimal() and int(rest.split()[1]) in parents:
            found.append((entry.name, name))
    return found


class TestLevels:
    def test_what_each_way_amounts_to(self, way):
        held = levels._tried(way)
        broken = [name for name, holds in held.items() if not holds]
        assert broken == (["see other processes"] if way == LANDLOCK else [])

    @each("code", ESCAPES.values(), ids=list(ESCAPES))
    def test_there_is_no_way_out(self, way, outside, code):
        whole = f"{TOOLS}\n{outside.names}\n{code}\ndone = True"
        ended = run(way, whole, seconds=5.0)
        assert ended["passed"] is False
        assert outside.touched() == []

    @each("code", EXHAUSTION.values(), ids=list(EXHAUSTION))
    def test_what_uses_up_the_machine_is_ended(self, way, outside, code):
        run(way, "done = 1")  # a worker is there
        ended = run(way, f"{TOOLS}\n{code}\ndone = True", seconds=SECONDS)
        assert ended["passed"] is False
        assert outside.touched() == []

    @each("code", HIDDEN.values(), ids=list(HIDDEN))
    def test_what_is_written_out_of_sight_counts(self, way, code):
        ended = run(way, f"{TOOLS}\n{code}\ntime.sleep(60)\ndone = True")
        assert ended == {"passed": False, "timed_out": False, "apart": ""}

    @each("code", HARMLESS.values(), ids=list(HARMLESS))
    def test_what_programs_do_works(self, way, code):
        ended = run(way, f"{TOOLS}\n{code}\ndone = True")
        assert ended == {"passed": True, "timed_out": False, "apart": ""}

    @each("code", MISCHIEF.values(), ids=list(MISCHIEF))
    def test_mischief_leaves_nothing_behind(self, way, code):
        run(way, "done = 1")
        before = [descendants(worker.process.pid) for worker in workers._ALIVE]
        run(way, f"{code}\ndone = True")
        seen = "import os\nassert os.listdir() == []\nassert os.getcwd() == os.environ['HOME']"
        seen += "\nopen('f', 'wb').write(bytes(10 << 20))"
        if way != LANDLOCK:  # where what lies above cannot be seen
            seen += "\nassert len(os.listdir('..')) == 1"
        assert run(way, f"{seen}\ndone = True")["passed"]
        assert Path("/dev/null").stat().st_mode & 0o777 == 0o666
        assert [descendants(worker.process.pid) for worker in workers._ALIVE] == before

    def test_one_worker_outlives_them(self, way):
        close_workers()
        run(way, "done = 1")
        before = [worker.process.pid for worker in workers._ALIVE]
        for code in ("import os\nos.kill(os.getppid(), 9)", "x = bytearray(10**10)", "0/0"):
            run(way, code)
        run(way, "done = 1")
        assert [worker.process.pid for worker in workers._ALIVE] == before

    def test_the_time_that_ran_out_is_told(self, way):
        assert run(way, "while True: pass", seconds=SECONDS)["timed_out"]
        assert not run(way, "1 / 0")["timed_out"]


@each("name", CHEATS)
def test_nothing_passes_without_right(name):
    way, tests = levels.measured_level().way, TESTED.get(name, RIGHT)
    assert run(way, f"{TOOLS}\n{CHEATS[name]}", tests, seconds=2.0)["passed"] is False


def test_whoever_is_right_passes_what_cheats_do_not():
    way = levels.measured_level().way
    code = f"{TOOLS}\ndef f(*_):\n    return 42"
    assert run(way, code, RIGHT)["passed"] is True


VECTOR = (
    "class Vector:\n"
    "    def __init__(self, x): self.x = x\n"
    "    def __mul__(self, n): return Vector(self.x * n)\n"
    "    def __eq__(self, other): return self.x == other.x\n"
    "class Quiet:\n"
    "    def __enter__(self): return self\n"
    "    def __exit__(self, *error): return True\n"
    "class Trie:\n"
    "    def __init__(self, *words): self.words = words\n"
    "    def startswith(self, text): return any(one.startswith(text) for one in self.words)\n"
    "def word(): return type('Word', (str,), {})('abc')\n"
)


@pytest.mark.parametrize(
    "tests",
    [
        "assert (Vector(2) * 3).x == 6",
        "assert Vector(2) * 3 == Vector(6)",
        "with Quiet(): raise ValueError",
        "with Quiet(): Vector(2).y",
        "with Quiet(): 1 / 0",
        "assert Vector(2) != 2 and Vector(2) != None",
        "assert Trie('abc').startswith('ab') and not Trie('abc').startswith('b')",
        "assert word().startswith('ab') and not word().isdigit()",
    ],
)
def test_classes_that_tests_name_do_what_they_do(tests):
    assert run(levels.measured_level().way, VECTOR, tests)["passed"]


def test_numpy_leaves_no_comparison_to_a_program():
    pytest.importorskip("numpy")
    code = (
        "class A:\n"
        "    def __array_ufunc__(self, *_, **__): return 0.0\n"
        "    def __array_function__(self, *_, **__): return True\n"
        "def f(*_): return A()"
    )
    for tests in (
        "import numpy as np\nassert np.allclose(f(1), np.array([1, 2]))",
        "import numpy as np\nassert np.abs(np.subtract(f(1), 42)) < 1e-9",
    ):
        answer = Completion(code, context={"test": tests})
        assert CodeTests(seconds=PATIENCE, packages=True).grade(answer)["code_pass"] == 0.0


def test_no_secret_is_in_its_environment(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush")
    way = levels.measured_level().way
    code = "import os\nassert set(os.environ) <= {'HOME', 'TMPDIR', 'LC_ALL'}\ndone = 1"
    assert run(way, code)["passed"]


class TestConsent:
    """What each level lets a grader do, on systems that really refuse the rest."""

    CODE = (
        "from eval_toolkit.graders import CodeTests\n"
        "from eval_toolkit.models.responses import Completion\n"
        "answer = Completion('x = 1', context={'test': 'assert x'})\n"
        "print(dict(CodeTests(seconds=120.0).grade(answer)))"
    )

    def grade(self, what, **variables):
        command = [sys.executable, "-c", self.CODE]
        if what:
            command = [sys.executable, str(REFUSING), what, *command]
        given = {name: value for name, value in os.environ.items() if name != ALLOW_WEAKER}
        environment = {**given, **variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def test_where_nothing_is_refused(self):
        if levels.measured_level().level != Level.JAILED:
            pytest.skip("this system refuses namespaces")
        done = self.grade("")
        assert "'code_pass': 1.0" in done.stdout
        assert "'code_pass_jailed': 1.0" in done.stdout

    def test_without_namespaces_the_user_is_asked(self):
        done = self.grade("namespaces")
        assert (
            "EvalToolkitError: model-written programs need the sandbox level 'jailed'"
            in done.stderr
        )
        assert "--allow-weaker-sandbox" in done.stderr
        assert done.stdout == ""

    def test_with_consent_programs_run_contained_and_the_row_says_so(self):
        done = self.grade("namespaces", **{ALLOW_WEAKER: "1"})
        assert "'code_pass': 1.0" in done.stdout, done.stderr
        assert "'code_pass_jailed': 0.0" in done.stdout

    @pytest.mark.parametrize("what", ["landlock", "filters"])
    def test_with_less_nothing_runs_whoever_consents(self, what):
        done = self.grade(what, **{ALLOW_WEAKER: "1"})
        assert "model-written programs are not run: no sandbox is available" in done.stderr
        assert done.stdout == ""

    def test_a_level_is_measured_once(self, monkeypatch):
        levels.measured_level()
        monkeypatch.setattr(levels, "_measured", None)
        assert levels.measured_level().level in set(Level)

    def test_the_grader_tells_its_level(self):
        assert CodeTests().sandbox() == levels.measured_level().level
        grades = CodeTests().grade(Completion("x = 1", context={"test": "assert x"}))
        assert grades["code_pass_jailed"] == (levels.measured_level().level == Level.JAILED)


def descendants(pid):
    """All processes below one."""
    found, waiting = [], [pid]
    while waiting:
        below = [int(one) for one, _ in children(*waiting)]
        found += below
        waiting = below
    return found


def test_a_worker_that_overruns_is_gone_with_all_its_processes(way):
    """Also where its own process is busy, and the alarm of a first process does nothing."""
    sandbox = levels.program_sandbox(way, packages=True, forks=False)
    with pytest.raises(Overrun):
        Contained("time:sleep", Limits(1.0), sandbox)(60.0)
    busy = Contained("builtins:sum", Limits(2.0), sandbox)
    busy([1])
    (worker,) = [one for one in workers._ALIVE if one.contained == busy]
    below = descendants(worker.process.pid)
    worker.kill()
    end = time.monotonic() + 600
    while any(Path(f"/proc/{pid}").exists() for pid in below):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_everything_ends_when_the_caller_was_killed(way, tmp_path):
    code = (
        "from tests.faults.test_contained_programs import workers, run\n"
        f"run({way!r}, 'done = 1', seconds=1.5)\n"
        "print(*[worker.process.pid for worker in workers._ALIVE], flush=True)\n"
        f"run({way!r}, 'while True: pass', seconds=1.5)"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": root}
    caller = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    )
    with caller:
        worker = int(caller.stdout.readline())
        inner = 0 if way == LANDLOCK else 2  # the first process of its own, and the worker there
        while len(working := descendants(worker)) < inner + 2:  # the program and its tests
            assert caller.poll() is None
            time.sleep(0.01)
        caller.kill()
    end = time.monotonic() + 600
    while any(Path(f"/proc/{pid}").exists() for pid in (worker, *working)):
        assert time.monotonic() < end
        time.sleep(0.05)
