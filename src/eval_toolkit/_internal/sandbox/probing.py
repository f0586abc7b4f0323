"""Attempted violations that determine the level of a sandbox."""

import contextlib
import fcntl
import os
import resource
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eval_toolkit._internal.sandbox.view import DEVICES

_GIVEN = {"HOME", "TMPDIR", "LC_ALL"}


def probed(outside: Mapping[str, Any], *, alone: bool) -> dict[str, bool]:
    """Attempt violations and return, for each name, whether the sandbox prevented it.

    ``outside`` contains an existing ``file`` and ``folder`` outside the sandbox and the caller's
    ``pid``. ``alone`` indicates whether the worker is the first process of its namespace.
    """
    attempts: dict[str, Callable[[], Any]] = {
        "start a process": _fork,
        "run a program": _execute,
        "open a socket": socket.socket,
        "send a signal": lambda: os.kill(os.getppid(), 0),
        "trigger a signal": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()),
        "change a priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, 19),
        "read a file": lambda: Path(outside["file"]).read_bytes(),
        "write a file": lambda: Path(outside["folder"], "probe").open("w").close(),
        "read an environment": lambda: Path(f"/proc/{outside['pid']}/environ").read_bytes(),
        "change memory": lambda: Path(f"/proc/{os.getppid()}/mem").open("r+b").close(),
        "change a mode": _change_a_mode,
        "open the terminal": lambda: Path("/dev/tty").open("w").close(),
    }
    held = {name: _is_prevented(attempt) for name, attempt in attempts.items()}
    held["see a device"] = _devices() <= {Path(device).name for device in DEVICES}
    held["read a variable"] = set(os.environ) <= _GIVEN
    held["run without limits"] = _is_limited()
    held["see other processes"] = alone
    return held


def _is_prevented(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except OSError:
        return True
    return False


def _change_a_mode() -> None:
    file = Path("mode")
    file.write_bytes(b"")
    file.chmod(0o400)
    if file.stat().st_mode & 0o777 != 0o400:
        raise PermissionError("no change")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _execute() -> None:
    with contextlib.suppress(FileNotFoundError):  # if it were visible, it would run
        os.execv("/no/such/program", ["program"])  # noqa: S606


def _devices() -> set[str]:
    try:
        return set(os.listdir("/dev"))  # noqa: PTH208
    except OSError:
        return set()


def _is_limited() -> bool:
    wanted = (
        resource.RLIMIT_AS,
        resource.RLIMIT_CPU,
        resource.RLIMIT_FSIZE,
        resource.RLIMIT_NOFILE,
    )
    return all(resource.getrlimit(one)[1] != resource.RLIM_INFINITY for one in wanted)
