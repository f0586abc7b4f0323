"""Hostile programs: each ends within its limit as a wrong answer and leaves nothing behind.

Every program here would come to an end by itself, and do little harm before: should containment
fail, the test fails, and not the machine.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from eval_toolkit._contained import Contained, Limits, Overrun, calling, close_workers
from eval_toolkit._contained.isolation import _CALLS
from eval_toolkit.graders import CodeTests
from eval_toolkit.responses import Completion

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine not in _CALLS,
    reason="what contains these programs is Linux's",
)
SECONDS = 0.5
PATIENCE = 20.0
"""Seconds for programs that are to pass, on a machine that is busy with other things."""

HOSTILE = {
    "fork bomb": "import os\nfor _ in range(6): os.fork()\ntime.sleep(2)",
    "processes": "import subprocess\nsubprocess.run(['sleep', '5'])",
    "multiprocessing": "import multiprocessing as m\np = m.Process(target=print)\np.start()",
    "loop": "end = time.time() + 60\nwhile time.time() < end: pass",
    "ten gigabytes": "x = bytearray(10**10)",
    "long file": "open('big', 'wb').write(bytes(10**9))",
    "closes all": "import os\nos.closerange(0, 1000)",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "kills its group": "import os\nos.killpg(0, 9)",
    "limits its parent": "import os, resource as r\nr.prlimit(os.getppid(), r.RLIMIT_CPU, (0, 0))",
    "lifts its limits": "import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))",
    "socket": "import socket\nsocket.socket()",
    "deep recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "deep nesting": "(" * 100_000 + ")" * 100_000,
    "segmentation fault": "import ctypes\nctypes.string_at(0)",
    "reads the keyboard": "input()",
    "another program": "import os\nos.execv('/bin/sleep', ['sleep', '60'])",
    "ignores the alarm": "import signal\nsignal.signal(signal.SIGALRM, print)\ntime.sleep(60)",
    "a power": "9**9**9",
    "a null": "x = 1\x00",
}
MISCHIEF = {
    "locks its folder": "import os\nos.makedirs('a/b')\nos.chmod('a', 0)\nos.chmod('.', 0)",
    "removes its folder": "import os\nos.rmdir(os.getcwd())",
    "links out": "import os\nos.symlink('/', 'root')",
    "leaves a thread": "import threading\nthreading.Thread(target=time.sleep, args=(60,)).start()",
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


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory):
    """Of an ordinary process, where the system gives it some."""
    leave = Contained("eval_toolkit._contained.isolation:leave")
    if not leave(str(tmp_path_factory.mktemp("left"))):
        pytest.skip("this system gives an ordinary process no namespaces")


@pytest.fixture(autouse=True)
def _no_process_stays():
    yield
    assert children(*worker_pids()) == []


def worker_pids():
    return [worker.process.pid for worker in calling._ALIVE]


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


def grade(code, seconds=PATIENCE):
    tests = {"test": "assert done"}
    text = f"import time\n{code}\ndone = True"
    return CodeTests(seconds=seconds).grade(Completion(text, context=tests))


@pytest.mark.parametrize("code", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_programs_are_wrong_within_their_limit(code):
    grade("x = 1", seconds=SECONDS)  # a worker is there
    start = time.monotonic()
    grades = grade(code, seconds=SECONDS)
    assert grades["code_pass"] == 0.0
    assert time.monotonic() - start < 30.0  # the longest would take a minute
    assert grade("x = 1")["code_pass"] == 1.0  # the next one runs as ever


@pytest.mark.parametrize("code", MISCHIEF.values(), ids=list(MISCHIEF))
def test_mischief_leaves_nothing_behind(code):
    assert grade(code)["code_pass"] == 1.0
    assert grade("import os\nassert os.listdir() == []")["code_pass"] == 1.0


def test_one_worker_outlives_them():
    close_workers()
    grade("x = 1")
    before = worker_pids()
    for code in ("import os\nos.kill(os.getppid(), 9)", "x = bytearray(10**10)", "0/0"):
        grade(code)
    assert worker_pids() == before


@pytest.mark.usefixtures("namespaces")
def test_nothing_is_written_elsewhere(tmp_path):
    target = tmp_path / "evil"
    grades = grade(f"open({str(target)!r}, 'w').write('x')")
    assert grades["code_pass"] == 0.0
    assert not target.exists()


@pytest.mark.usefixtures("namespaces")
def test_files_may_take_so_much_together():
    code = "for i in range(20): open(f'f{i}', 'wb').write(bytes(10**7))"
    assert grade(code)["code_pass"] == 0.0
    assert grade("open('f', 'wb').write(bytes(10**7))")["code_pass"] == 1.0


def test_it_is_without_network_and_says_so():
    assert grade("x = 1")["code_pass_offline"] == 1.0


def test_no_secret_is_in_its_environment(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush")
    code = "import os\nassert set(os.environ) <= {'HOME', 'TMPDIR', 'LC_ALL'}, os.environ\n"
    home = "assert os.getcwd() == os.environ['HOME'] == os.environ['TMPDIR']"
    assert grade(code + home)["code_pass"] == 1.0


@pytest.mark.usefixtures("namespaces")
def test_the_environment_of_the_grader_cannot_be_read():
    assert grade(f"open('/proc/{os.getpid()}/environ').read()")["code_pass"] == 0.0


class TestWithoutNamespaces:
    """As in most containers: the filter of system calls is all there is."""

    @staticmethod
    def run(code, how="without_namespaces"):
        path = str(Path(__file__).parent)
        if path not in sys.path:
            sys.path.append(path)
        run = Contained(f"unisolated:{how}", Limits(SECONDS + 2, None))
        return run(f"import time\n{code}", Limits(SECONDS, 512).to_dict())

    @pytest.mark.parametrize(
        "name", ["fork bomb", "processes", "kills its parent", "socket", "loop", "ten gigabytes"]
    )
    def test_hostile_programs_are_wrong(self, name):
        ended = self.run(HOSTILE[name])
        assert ended["passed"] is False
        assert ended["offline"] is True
        assert ended["timed_out"] is (name == "loop")

    @pytest.mark.parametrize("code", MISCHIEF.values(), ids=list(MISCHIEF))
    def test_mischief_leaves_nothing_behind(self, code):
        assert self.run(code)["passed"] is True
        assert self.run("import os\nassert os.listdir() == []")["passed"] is True


class TestWithoutFilter:
    """As on other processors and systems: groups of processes, and limits."""

    def run(self, code):
        return TestWithoutNamespaces.run(code, "without_anything")

    def test_it_says_that_there_may_be_a_network(self):
        assert self.run("x = 1") == {"passed": True, "timed_out": False, "offline": False}

    def test_a_child_goes_with_its_group(self):
        if os.getuid() != 0:
            pytest.skip("who is not root can start no process there")
        ended = self.run("import os\nif os.fork() == 0: time.sleep(5)\n")
        assert ended["passed"] is True

    def test_whoever_kills_its_parent_ends_the_worker_and_itself(self):
        with pytest.raises(Overrun) as ended:
            self.run("import os\nos.kill(os.getppid(), 9)\ntime.sleep(30)")
        assert ended.value.kind == "crash"
        time.sleep(0.2)
        assert not [name for _, name in children(1) if "worker" in name]
        assert self.run("x = 1")["passed"] is True
