"""Running untrusted programs and their tests in a worker.

Two forks of the worker run the program and its tests in a temporary folder, each with its own
limits. The program is connected only to a socket pair, through which the tests call it. Only the
tests hold the pipe that reports a pass, and no code of the program runs in their process.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from eval_toolkit._internal.sandbox import program_side, tests_side, wire
from eval_toolkit._internal.sandbox.disk_usage import written_too_much
from eval_toolkit._internal.sandbox.filters import filter_calls
from eval_toolkit._internal.sandbox.folders import empty_folder
from eval_toolkit._internal.sandbox.jail import drop_privileges, end_with_parent
from eval_toolkit._internal.sandbox.landlock import restrict_files
from eval_toolkit._internal.sandbox.limits import Limits, hold
from eval_toolkit._internal.sandbox.probing import probed
from eval_toolkit._internal.sandbox.view import DEVICES, LANDLOCK, View

_READY, _PASSED, _APART = b"-", b"+", b"!"
"""Messages for a started child, passed tests, and tests that cannot run separately.

Any other message reports a failure.
"""
_NAME = "program"
_LOOK = 0.05
"""Seconds between checks of a program's disk usage."""
_THREADS = 256
_LONGEST = 4096
_HIDDEN: list[ModuleType] = []
"""Modules hidden from programs, because unloading them would take longer than a fork."""
_FEW = 10
"""Maximum process id that indicates a fresh PID namespace."""


def run_program(
    code: str, limits: dict[str, Any], way: str, view: dict[str, Any]
) -> dict[str, Any]:
    """Run a program and its tests in two forks of this process (workers only).

    The tests are Python code that uses the program's definitions and are sent as a separate
    message. They are read in their own process, so no program finds them in its memory. A
    program passes if the last line of the tests is reached.

    The result contains ``passed``, ``timed_out`` and ``apart``, the reason if the tests cannot run
    in a separate process. Raises RuntimeError if no process could be started.
    """
    ours, theirs = socket.socketpair()

    def program(module: ModuleType) -> bytes:
        compiled = compile(code, f"{_NAME}.py", "exec", dont_inherit=True)
        program_side.serve(module, compiled, ours.fileno())
        return b""

    def testing(module: ModuleType, tests: str) -> bytes:
        try:
            tests_side.run_tests(tests, module, theirs.fileno())
        except tests_side.NotSeparable as error:
            return _APART + str(error).encode()[: _LONGEST // 2]
        return _PASSED

    with _Place(Limits(**limits), way, View(**view)) as place:
        with ours, theirs:
            begun = place.start(program, ours.fileno(), reports=False)
            ended = place.start(testing, theirs.fileno(), first=wire.read_apart)
        reports = [place.read_report(begun, 1), place.read_report(ended, _LONGEST)]
        statuses = place.end()
    for report in reports:
        if report[:1] != _READY and not place.late:
            raise RuntimeError(f"the program could not be started: {_text(report)}")
    timed_out = place.late or any(_used_up(status) for status in statuses)
    done = reports[1][1:]
    return {
        "passed": done == _PASSED and not timed_out,
        "timed_out": timed_out,
        "apart": _text(done[1:]) if done[:1] == _APART else "",
    }


def measure(outside: dict[str, Any], limits: dict[str, Any], way: str, view: dict[str, Any]) -> Any:
    """Attempt violations from inside the sandbox (workers only).

    ``outside`` contains the targets of `probing.probed`.
    """
    with _Place(Limits(**limits), way, View(**view)) as place:
        alone = way != LANDLOCK and os.getpid() < _FEW
        child = place.start(lambda _: json.dumps(probed(outside, alone=alone)).encode("ascii"))
        report = place.read_report(child, _LONGEST)
    if report[:1] != _READY:
        raise RuntimeError(f"the probe could not be started: {_text(report)}")
    return json.loads(report[1:])


def _text(report: bytes) -> str:
    return report.decode("utf-8", "replace") or "it ended without a message"


def _used_up(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU


gc.collect()
gc.freeze()  # keeps forks from copying existing objects


class _Place:
    """Temporary folder with a deadline and the processes that run in it."""

    def __init__(self, limits: Limits, way: str, view: View) -> None:
        self._limits, self._way, self._view = limits, way, view
        self._end = time.monotonic() + limits.seconds
        self._home = Path.cwd()
        self._folder = self._home / f"{_NAME}{time.monotonic_ns():x}"
        self._children: list[int] = []
        self._reports: list[int] = []
        self.late = False

    def __enter__(self) -> "_Place":
        empty_folder(self._home)  # remaining files raise and end this worker
        self._folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for report in self._reports:
            os.close(report)
        with contextlib.suppress(OSError):
            empty_folder(self._home)

    def start(
        self,
        work: Callable[..., bytes],
        *kept: int,
        reports: bool = True,
        first: Callable[[], Any] | None = None,
    ) -> int:
        """Start a process with only these files open; return the descriptor of its report pipe.

        ``work`` is called with its module and the result of ``first``. Without ``reports``, only
        the start is reported.
        """
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            self._run(work, writing, kept, reports, first)
        os.close(writing)
        self._children.append(child)
        self._reports.append(reading)
        return reading

    def read_report(self, reading: int, n: int) -> bytes:
        """Return up to `n` bytes of a process's report, fewer if it ends or the deadline passes."""
        received = b""
        while len(received) < n and not self.late:
            left = self._end - time.monotonic()
            if select.select([reading], [], [], max(0.0, min(left, _LOOK)))[0]:
                part = os.read(reading, n)
                received += part
                if not part:
                    return received
            else:
                self.late = left <= 0
            # The folder of a namespace has its own size limit.
            children = self._children if self._way == LANDLOCK else ()
            if written_too_much(self._home, children):
                return received
        return received

    def end(self) -> list[int]:
        """Kill the remaining processes and return their exit statuses."""
        if self._children and self._way != LANDLOCK:  # all processes in its namespace
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        statuses = []
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            statuses.append(os.waitpid(child, 0)[1])
        self._children.clear()
        return statuses

    # --- in the child ---------------------------------------------------------------------------

    def _run(
        self,
        work: Callable[..., bytes],
        writing: int,
        kept: Iterable[int],
        reports: bool,
        first: Callable[[], Any] | None,
    ) -> NoReturn:
        # Save references before the program can replace the functions.
        tell, stop = os.write, os._exit
        try:
            given = [first()] if first else []
            module = self._prepared({writing, *kept})
            self._restrain()
            tell(writing, _READY)
        except BaseException as error:
            tell(writing, f"{type(error).__name__}: {error}".encode()[:_LONGEST])
            stop(2)
        if not reports:
            os.close(writing)
        try:
            tell(writing, work(module, *given))
        except BaseException:
            stop(1)
        stop(0)

    def _prepared(self, kept: set[int]) -> ModuleType:
        """Drop the worker's state, and return the module in which the program runs."""
        os.setsid()
        os.chdir(self._folder)
        _close_all_but(kept)
        folder = str(self._folder)
        os.environ.clear()
        os.environ.update(HOME=folder, TMPDIR=folder, LC_ALL="C.UTF-8")
        module = ModuleType(_NAME)
        known = {*sys.stdlib_module_names, "__main__"}
        others = [name for name in sys.modules if name.partition(".")[0] not in known]
        _HIDDEN.extend(sys.modules.pop(name) for name in others)
        sys.modules[_NAME] = module
        sys.argv[:] = [f"{_NAME}.py"]
        sys.path[:] = self._view.modules
        return module

    def _restrain(self) -> None:
        """Drop all privileges before running a program."""
        limits = self._limits
        signal.setitimer(signal.ITIMER_REAL, limits.seconds + 1)  # in case the worker has died
        end_with_parent()
        drop_privileges()
        outside = self._way == LANDLOCK
        # Process limits count per user: in a namespace only this worker's processes, else all of
        # the user's.
        hold(limits, cpu_seconds=limits.seconds + 1, processes=None if outside else _THREADS)
        if outside and not restrict_files(self._view.readable, DEVICES, str(self._folder)):
            raise RuntimeError("Landlock failed")
        if not filter_calls():
            raise RuntimeError("the kernel rejected the system call filter")


def _close_all_but(kept: set[int]) -> None:
    """Close all file descriptors except these, and redirect the standard streams."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    first = 3
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, 1024)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
