"""Programs that nobody has read, run to their end or to their limit: what a worker does for a grader.

Each runs in a fork of the worker, with a folder, a process group and limits of its own. It has
passed if the last line of it was reached: only then is a token sent that was drawn for it. Leaving
early, printing, or closing what is open sends none. Its parts, such as code and the tests of it, are
compiled one by one before any of them runs, so that none can take in the text of the next.

A program that wants to cheat still can: it finds the token in a variable of the frame that called
it, or makes objects that are equal to everything. Nothing that runs tests and tested code in one
interpreter can prevent that. This holds what goes wrong by itself, not a model that knows how it is
graded.
"""

import os
import select
import signal
import sys
import sysconfig
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from eval_toolkit._contained.folders import remove_folder
from eval_toolkit._contained.isolation import drop_privileges, end_with_parent, forbid, leave
from eval_toolkit._contained.limits import Limits, hold

__all__ = ["run_program"]

_OFFLINE, _ONLINE = b"-", b"+"
"""What a child says before it runs its program; anything else is why it could not."""
_NAME = "program"
_HOME = Path.cwd()
_LEFT: list[bool] = []
"""Whether this worker could leave network and files behind; tried once."""


def run_program(sources: list[str], told: dict[str, Any], packages: bool = False) -> dict[str, Any]:
    """Run a program in a fork of this process; for workers alone.

    Parameters
    ----------
    sources : list of str
        Python code: parts that run one after the other in one module.
    told : dict
        Limits, as `Limits.to_dict` returns them.
    packages : bool
        Whether it may import more than the standard library.

    Returns
    -------
    dict
        ``passed`` and ``timed_out``; ``offline``: whether it had no network.

    Raises
    ------
    RuntimeError
        If the program could not be started, which says nothing about it.
    """
    if not _LEFT:
        _LEFT.append(leave(str(_HOME)))
    limits, token, label = Limits(**told), os.urandom(16), os.urandom(8).hex()
    folder = _HOME / label
    folder.mkdir()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _run(sources, limits, packages, folder, writing, token)
    os.close(writing)
    try:
        heard, timed_out = _heard(reading, limits.seconds, len(token))
    finally:
        os.close(reading)
        status = _ended(child)
        remove_folder(folder)
    if heard[:1] not in (_OFFLINE, _ONLINE):
        raise RuntimeError(f"the program could not be started: {heard.decode('utf-8', 'replace')}")
    timed_out = timed_out or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
    passed = heard[1:] == token and not timed_out
    return {"passed": passed, "timed_out": timed_out, "offline": heard[:1] == _OFFLINE}


def _heard(reading: int, seconds: float, n: int) -> tuple[bytes, bool]:
    """Return what the child reports, and whether the time ran out."""
    heard, end = b"", time.monotonic() + seconds
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return heard, True
        part = os.read(reading, 1000)
        heard += part
        # Whoever keeps the pipe open, or says more than can be true, is not listened to.
        if not part or (heard[:1] in (_OFFLINE, _ONLINE) and len(heard) > n):
            return heard, False


def _ended(child: int) -> int:
    """Kill the child with all its group, and return how it ended."""
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # no group yet, or none any more
            continue
    return os.waitpid(child, 0)[1]


# --- in the child -------------------------------------------------------------------------------


def _run(
    sources: list[str], limits: Limits, packages: bool, folder: Path, writing: int, token: bytes
) -> NoReturn:
    # Taken before the program can put its own in their place.
    tell, stop, run = os.write, os._exit, exec
    try:
        module = _prepared(packages, folder, writing)
        tell(writing, _OFFLINE if _restrained(limits) or _LEFT[0] else _ONLINE)
    except BaseException as error:
        tell(writing, f"{type(error).__name__}: {error}".encode()[:500])
        stop(2)
    try:
        parts = [compile(one, f"{_NAME}.py", "exec", dont_inherit=True) for one in sources]
        for part in parts:
            run(part, module.__dict__)
    except BaseException:
        stop(1)
    tell(writing, token)
    stop(0)


def _prepared(packages: bool, folder: Path, writing: int) -> ModuleType:
    """Leave what belongs to the worker; return the module the program runs in."""
    os.setsid()
    os.chdir(folder)
    _without_files(writing)
    os.environ.clear()
    os.environ.update(HOME=str(folder), TMPDIR=str(folder), LC_ALL="C.UTF-8")
    module = ModuleType(_NAME)
    for name in [*sys.modules]:
        if name.partition(".")[0] not in sys.stdlib_module_names and name != _NAME:
            del sys.modules[name]
    sys.modules[_NAME] = module
    sys.argv[:] = [f"{_NAME}.py"]
    if not packages:
        library = sysconfig.get_path("stdlib")
        sys.path[:] = [library, str(Path(sysconfig.get_path("platstdlib")) / "lib-dynload")]
    return module


def _restrained(limits: Limits) -> bool:
    """Give up what a program must not have; return whether sockets are among it."""
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + 1)  # should the worker be gone by then
    end_with_parent()
    drop_privileges()
    hold(limits, cpu_seconds=limits.seconds + 1)
    if forbid():
        return True
    hold(limits, processes=0)
    return False


def _without_files(writing: int) -> None:
    """Close whatever is open but the way to report, and read and write nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, writing)
    os.closerange(writing + 1, 1024)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
