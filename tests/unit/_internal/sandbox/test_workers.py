"""Contained calls: what comes back, what is stopped, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eval_toolkit._internal.sandbox import (
    Contained,
    Failed,
    Limits,
    Overrun,
    close_workers,
    wire,
    workers,
)
from eval_toolkit._internal.sandbox.levels import best_sandbox, measured_level

LINUX = sys.platform.startswith("linux")


@pytest.fixture(autouse=True)
def no_workers_stay():
    yield
    close_workers()


def is_running(pid):
    """Whether a process is there and is more than an entry in a table."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_within(pid, seconds):
    end = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_running(pid)


class TestWhatComesBack:
    def test_the_result_of_the_function(self):
        assert Contained("math:hypot")(3, 4) == 5.0

    def test_one_worker_serves_many_calls(self):
        pid = Contained("os:getpid")
        assert pid() == Contained("os:getpid")() != os.getpid()

    def test_texts_of_any_length_with_any_character(self):
        assert Contained("builtins:len")("x" * 10_000_000) == 10_000_000
        assert Contained("builtins:str")("\ud800é\x00") == "\ud800é\x00"

    def test_what_is_printed_is_no_answer(self):
        assert Contained("builtins:print")('{"result": 1}') is None

    def test_an_error_has_its_name_and_the_worker_lives_on(self):
        root, pid = Contained("math:sqrt"), Contained("os:getpid")
        before = pid()
        with pytest.raises(Failed, match="math:sqrt: ValueError: math domain error"):
            root(-1.0)
        assert root(4.0) == 2.0
        assert pid() == before

    def test_what_is_no_json_is_an_error(self):
        with pytest.raises(Failed, match="TypeError: Object of type object"):
            Contained("builtins:object")()

    def test_arguments_that_cannot_be_sent_are_no_crash_of_the_work(self, monkeypatch):
        length = Contained("builtins:len")
        length("x")
        before = {worker.process.pid for worker in workers._ALIVE}
        with pytest.raises(Failed, match="builtins:len cannot be called: Object of type object"):
            length(object())
        monkeypatch.setattr(wire, "MOST", 1000)
        with pytest.raises(Failed, match="builtins:len cannot be called: a message of 1004 bytes"):
            length("x" * 1000)
        assert length("x" * 900) == 900
        assert {worker.process.pid for worker in workers._ALIVE} == before

    @pytest.mark.parametrize("target", ["no_such_module:f", "math:no_such_function"])
    def test_a_function_that_is_not_there(self, target):
        with pytest.raises(Failed, match="no_such"):
            Contained(target)()

    def test_a_worker_that_cannot_start_is_not_the_works_doing(self, monkeypatch, tmp_path):
        """Else a broken installation would count as wrong answers."""
        monkeypatch.setattr(workers, "_OURS", str(tmp_path))
        monkeypatch.setattr(sys, "path", [])
        with pytest.raises(Failed, match=r"no worker could be started: .*ModuleNotFoundError"):
            Contained("math:cos")(1.0)

    def test_threads_wait_side_by_side(self, tmp_path, monkeypatch):
        """Four calls that each end when all four are there: one after the other none would."""
        monkeypatch.syspath_prepend(Path(__file__).parent)
        meet = Contained("contained_target:meet", Limits(seconds=60.0))
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda name: meet(str(tmp_path), name, 4), "abcd")) == [4] * 4


class TestWhatIsStopped:
    def test_time(self):
        with pytest.raises(Overrun, match=r"time:sleep took longer than 0.3 s") as stopped:
            Contained("time:sleep", Limits(seconds=0.3))(60)
        assert stopped.value.kind == "time"

    def test_code_that_never_looks_up(self):
        """A C function that holds the interpreter, which no signal handler of Python's ends."""
        with pytest.raises(Overrun) as stopped:
            Contained("builtins:pow", Limits(seconds=0.5))(7, 10**9)
        assert stopped.value.kind == "time"

    @pytest.mark.skipif(not LINUX, reason="only Linux keeps to a limit of memory")
    def test_memory(self):
        with pytest.raises(Overrun, match="more than 200 MB") as stopped:
            Contained("builtins:bytes", Limits(memory_mb=200))(10**10)
        assert stopped.value.kind == "memory"

    @pytest.mark.parametrize("call", [("os:_exit", 3), ("ctypes:string_at", 0), ("os:abort",)])
    def test_a_crash(self, call):
        target, *arguments = call
        with pytest.raises(Overrun, match=f"{target} ended with code") as stopped:
            Contained(target)(*arguments)
        assert stopped.value.kind == "crash"

    def test_the_next_call_has_a_new_worker(self):
        limits = Limits(seconds=0.3)
        nap, pid = Contained("time:sleep", limits), Contained("os:getpid", limits)
        before = pid()
        with pytest.raises(Overrun):
            nap(60)
        assert nap(0) is None
        assert pid() == before  # another function's workers are not touched

    def test_a_worker_that_died_while_it_waited_is_replaced(self):
        pid = Contained("os:getpid")
        first = pid()
        os.kill(first, signal.SIGKILL)
        assert gone_within(first, 5)
        assert pid() != first


class TestWhatItHas:
    def test_no_secret_of_the_environment(self, monkeypatch):
        monkeypatch.setenv("SOME_API_KEY", "hush")
        assert Contained("os:getenv")("SOME_API_KEY") is None

    def test_a_folder_of_its_own(self):
        assert Contained("os:getcwd")() != os.getcwd()  # noqa: PTH109

    def test_the_same_order_of_sets_every_time(self):
        first = Contained("builtins:hash")("some text")
        close_workers()
        assert Contained("builtins:hash")("some text") == first

    def test_limits_say_what_is_there(self):
        applied = Limits().applied
        assert "time" in applied
        assert ("memory" in applied) == LINUX
        assert "memory" not in Limits(memory_mb=None).applied

    @pytest.mark.skipif(not measured_level().way, reason="there is no sandbox here")
    @pytest.mark.parametrize(
        "call", [("os:fork",), ("socket:create_server", ["127.0.0.1", 0]), ("os:kill", 1, 0)]
    )
    def test_in_a_sandbox_it_starts_no_process_and_opens_no_socket(self, call):
        target, *arguments = call
        with pytest.raises(Failed, match="PermissionError"):
            Contained(target, Limits(), best_sandbox())(*arguments)


class TestNothingIsLeftBehind:
    def test_no_process_and_no_folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with pytest.raises(Overrun):
            Contained("time:sleep", Limits(seconds=0.2))(60)
        pid = Contained("os:getpid")()
        assert len(list(tmp_path.iterdir())) == 1  # the folder of the worker that lives
        close_workers()
        assert not is_running(pid)
        assert list(tmp_path.iterdir()) == []

    def test_not_at_the_end_of_the_interpreter(self, tmp_path):
        done = self._python(
            """
            from eval_toolkit._internal.sandbox import Contained
            print(Contained("os:getpid")())
            """,
            tmp_path,
        )
        assert gone_within(int(done), 5)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(not LINUX, reason="reads /proc")
    def test_a_worker_ends_itself_when_its_caller_was_killed(self, tmp_path):
        code = """
            import sys
            from eval_toolkit._internal.sandbox import Contained, Limits
            sys.path.append(sys.argv[1])
            Contained("contained_target:tell_and_sleep", Limits(seconds=3.0))(sys.argv[2])
            """
        told, here = tmp_path / "pid", str(Path(__file__).parent)
        script = [sys.executable, "-c", textwrap.dedent(code), here, str(told)]
        caller = subprocess.Popen(script, env={**os.environ, "TMPDIR": str(tmp_path)})
        try:
            while not (told.exists() and told.read_text()):
                assert caller.poll() is None, "it ended before its worker said anything"
                time.sleep(0.01)
        finally:
            caller.kill()
            caller.wait()
        assert gone_within(int(told.read_text()), 60)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_fork_starts_workers_of_its_own(self, tmp_path):
        done = self._python(
            """
            import os
            from eval_toolkit._internal.sandbox import Contained
            pid = Contained("os:getpid")
            mine = pid()
            child = os.fork()
            if child == 0:
                os._exit(pid() == mine)
            assert os.waitpid(child, 0)[1] == 0
            assert pid() == mine
            print("fine")
            """,
            tmp_path,
        )
        assert done == "fine"

    @staticmethod
    def _python(code, folder):
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONWARNINGS": "error"}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        return done.stdout.strip()
