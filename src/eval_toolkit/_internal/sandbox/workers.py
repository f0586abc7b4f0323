"""Caller side of the sandbox: workers that are killed and replaced at their limits."""

import atexit
import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._internal.sandbox import wire
from eval_toolkit._internal.sandbox.errors import Failed, Overrun
from eval_toolkit._internal.sandbox.folders import remove_folder
from eval_toolkit._internal.sandbox.jail import bubblewrap_command
from eval_toolkit._internal.sandbox.limits import Limits
from eval_toolkit._internal.sandbox.view import BUBBLEWRAP, Sandbox

_START_SECONDS = 120.0
"""Time limit in seconds for a worker's imports before the first call."""
_TOLD = 300
"""Maximum number of characters of a dead worker's output quoted in a message."""
_OURS = str(Path(__file__).parents[3])
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""Environment variables that an interpreter may need to start; secrets are not passed on."""


@dataclass(frozen=True, slots=True)
class Contained:
    """Function that runs in a separate process with limits.

    Equal instances share workers. Calls from several threads run in parallel in separate workers;
    workers are reused and end with this process.

    ``target`` is ``package.module:function``; its arguments and result must be JSON. ``seconds`` of
    the limits applies to each call, excluding the import of the module. A call that exceeds the
    limits raises `Overrun`; an exception in the function raises `Failed`.

    Examples
    --------
    >>> root = Contained("math:sqrt", Limits(seconds=5.0))
    >>> root(16.0)
    4.0
    >>> root(-1.0)
    Traceback (most recent call last):
    ...
    eval_toolkit._internal.sandbox.errors.Failed: math:sqrt: ValueError: math domain error
    """

    target: str
    limits: Limits = field(default_factory=Limits)
    sandbox: Sandbox | None = None

    def __call__(self, *arguments: Any, apart: Any = None) -> Any:
        """Call the function and return its result.

        ``apart`` is a message that the function reads itself with `wire.read_apart`.
        """
        worker = _taken(self)
        try:
            result = worker.call(arguments, apart)
        except Failed:
            if self.sandbox is not None and self.sandbox.forks:  # a program may have removed it
                worker.kill()
            else:
                _given_back(self, worker)
            raise
        except BaseException:  # also on interrupts: its unfinished work is abandoned
            worker.kill()
            raise
        _given_back(self, worker)
        return result


class _Worker:
    """A worker process and its pipes."""

    def __init__(self, contained: Contained) -> None:
        self.contained = contained
        self._late = False
        self.folder = tempfile.mkdtemp(prefix="eval-toolkit-")
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own file
                _command(contained.sandbox),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                bufsize=0,
                env=_environment(contained.sandbox),
                cwd=self.folder,
                start_new_session=True,
            )
        except OSError:  # no such interpreter, or process limit reached
            self._printed.close()
            remove_folder(self.folder)
            raise
        with _LOCK:
            _ALIVE.add(self)
        assert self.process.stdin is not None  # noqa: S101 - for the types
        assert self.process.stdout is not None  # noqa: S101
        self._to, self._from = self.process.stdin.fileno(), self.process.stdout.fileno()
        try:
            sandbox = contained.sandbox and contained.sandbox.to_dict()
            self._reply_to([contained.target, contained.limits.to_dict(), sandbox], _START_SECONDS)
        except Overrun as overrun:  # not caused by the call: none was sent yet
            self.kill()
            raise Failed(f"no worker could be started: {overrun}") from None
        except BaseException:
            self.kill()
            raise

    def call(self, arguments: tuple[Any, ...], apart: Any = None) -> Any:
        return self._reply_to(list(arguments), self.contained.limits.seconds, apart)

    def _reply_to(self, message: Any, seconds: float, apart: Any = None) -> Any:
        target = self.contained.target
        try:
            packed = wire.packed(message) + (b"" if apart is None else wire.packed(apart))
        except (TypeError, ValueError) as error:  # nothing was sent; the worker is still waiting
            raise Failed(f"{target} cannot be called: {error}") from None
        try:
            with _deadline(self, seconds) as wait:
                wire.send(self._to, packed)
                reply = wire.read(self._from, wait)
        except (EOFError, ConnectionError, ValueError):
            raise self._ended() from None
        except TimeoutError:
            raise self._too_slow() from None
        if "failed" in reply:
            raise Failed(f"{target}: {': '.join(reply['failed'])}")
        if "overrun" in reply:
            most = self.contained.limits.memory_mb
            raise Overrun(reply["overrun"], f"{target} needs more than {most} MB")
        return reply["result"]

    def _too_slow(self) -> Overrun:
        seconds = self.contained.limits.seconds
        return Overrun("time", f"{self.contained.target} took longer than {seconds:g} s")

    def _ended(self) -> Overrun:
        """Return the error for a closed pipe."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        code = self.process.returncode
        if self._late:
            return self._too_slow()
        self._printed.seek(max(0, self._printed.seek(0, os.SEEK_END) - _TOLD))
        printed = " ".join(self._printed.read().decode("utf-8", "replace").split())
        return Overrun("crash", f"{self.contained.target} ended with code {code}: {printed}")

    def stop(self) -> None:
        """Kill the process immediately."""
        self._late = True
        if self.process.poll() is None and hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def kill(self) -> None:
        """Kill the process and remove its folder."""
        self.stop()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._printed):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        remove_folder(self.folder)
        with _LOCK:
            _ALIVE.discard(self)


def _command(sandbox: Sandbox | None) -> list[str]:
    """Return the command that starts a worker, inside bubblewrap if requested."""
    options = ["-s", "-S", "-P", "-B", str(Path(__file__).with_name("worker.py"))]
    if sandbox is None or sandbox.way != BUBBLEWRAP:
        return [sys.executable, *options]
    around = bubblewrap_command(sandbox.view)
    if around is None:
        raise FileNotFoundError("bubblewrap is not installed")
    return [*around, os.path.realpath(sys.executable), *options]


def _environment(sandbox: Sandbox | None) -> dict[str, str]:
    if sandbox is None:
        # Our folder last, in case it was not imported from the path.
        paths = [path or os.getcwd() for path in [*sys.path, _OURS]]  # noqa: PTH109
    else:
        paths = [*sandbox.view.modules, _OURS]
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    # Fixed hash seed: iteration over sets is reproducible.
    given = {"EVAL_TOOLKIT_PATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
    return {**kept, **given, "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def _deadline(worker: _Worker, seconds: float) -> Iterator[Callable[[], None]]:
    """Return a function that waits for data and raises after a deadline."""
    if not hasattr(select, "poll"):  # Windows cannot poll a pipe: a thread kills the worker
        timer = threading.Timer(seconds, worker.stop)
        timer.start()
        try:
            yield lambda: None
        finally:
            timer.cancel()
        return
    end = time.monotonic() + seconds
    ready = select.poll()
    ready.register(worker._from, select.POLLIN)

    def wait() -> None:
        if not ready.poll(max(0.0, (end - time.monotonic()) * 1000)):
            raise TimeoutError

    yield wait


# --- worker pool --------------------------------------------------------------------------------

_LOCK = threading.Lock()
_IDLE: dict[Contained, list[_Worker]] = {}
_ALIVE: set[_Worker] = set()


def _taken(contained: Contained) -> _Worker:
    with _LOCK:
        idle = _IDLE.get(contained)
        worker = idle.pop() if idle else None
    if worker is not None and worker.process.poll() is not None:
        worker.kill()
        return _taken(contained)
    return _Worker(contained) if worker is None else worker


def _given_back(contained: Contained, worker: _Worker) -> None:
    with _LOCK:
        _IDLE.setdefault(contained, []).append(worker)


def close_workers() -> None:
    """Stop all idle workers; later calls start new ones."""
    with _LOCK:
        idle = [worker for workers in _IDLE.values() for worker in workers]
        _IDLE.clear()
    for worker in idle:
        worker.kill()


def _close_all() -> None:
    close_workers()
    for worker in list(_ALIVE):
        worker.kill()


def _forget() -> None:
    """Forget the workers after a fork, since they belong to the parent process."""
    global _LOCK
    _LOCK = threading.Lock()
    for worker in _ALIVE:
        worker.process.returncode = 0  # not a child of this process
    _IDLE.clear()
    _FORGOTTEN.extend(_ALIVE)
    _ALIVE.clear()


_FORGOTTEN: list[_Worker] = []
"""References that keep forgotten workers from being garbage-collected, and so closed."""

atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
