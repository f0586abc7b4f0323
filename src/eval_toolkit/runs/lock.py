"""Lock file ``run.lock``: one process per run; locks of dead processes are ignored.

The file names the process and the host. It is locked with ``flock``, which the system releases when
the process ends and which is visible from other containers and hosts.
"""

import contextlib
import importlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import file_mode, open_regular, read_regular
from eval_toolkit.errors import ArtifactError

_fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

LOCK = "run.lock"
_held: set[int] = set()
"""File descriptors of the locks of this process, which a forked process must close."""
_LOOKS = 5
_PAUSE_S = 0.02


@contextlib.contextmanager
def run_lock(folder: str | Path) -> Iterator[None]:
    """Hold the lock of a run folder, taking over the lock of a dead process.

    Parameters
    ----------
    folder : path
        Existing folder.

    Raises
    ------
    ArtifactError
        If another process, or another thread of this process, holds the lock.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with run_lock(folder):
    ...     (Path(folder) / "run.lock").exists()
    True
    """
    path = Path(folder) / LOCK
    pid = os.getpid()
    owner = {"pid": pid, "started": _started(pid), "host": socket.gethostname()}
    owner["key"] = secrets.token_hex(8)
    while (acquired := _create_lock(path, owner)) is None:
        holder = lock_holder(folder)
        if holder:
            raise ArtifactError(
                f"{folder}: another process is writing this run ({holder}); wait for it, or "
                f"delete {LOCK} if that process is no longer running"
            )
        _remove_stale(path)
    handle, mine = acquired
    _held.add(handle)
    try:
        yield
    finally:
        if _content(path) == mine:
            path.unlink(missing_ok=True)
        _held.discard(handle)
        os.close(handle)


def _create_lock(path: Path, owner: Mapping[str, Any]) -> tuple[int, str] | None:
    """Create and lock the file; return its descriptor and contents, or None if it exists."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, file_mode())
    except FileExistsError:
        return None
    try:
        mine = json.dumps({**owner, "flock": _locks(handle)})
        os.write(handle, mine.encode())
    except BaseException:
        os.close(handle)
        path.unlink(missing_ok=True)
        raise
    return handle, mine


def _locks(handle: int, *, shared: bool = False) -> bool:
    """Try to lock a file; return whether this succeeded."""
    if _fcntl is None:
        return False
    try:
        _fcntl.flock(handle, (_fcntl.LOCK_SH if shared else _fcntl.LOCK_EX) | _fcntl.LOCK_NB)
    except OSError:  # locked by another process, or by no file system of this kind
        return False
    return True


def _is_locked(path: Path) -> bool:
    """Return whether any process holds the lock on the file."""
    try:
        with open_regular(path) as stream:
            return not _locks(stream.fileno(), shared=True)
    except (OSError, ArtifactError):
        return False


def _forget() -> None:
    """Close the locks in a forked process, so that they end with the process that acquired them."""
    for handle in _held:
        os.close(handle)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def lock_holder(folder: str | Path) -> str | None:
    """Describe the process that holds the lock of a folder; None if there is none."""
    path = Path(folder) / LOCK
    for look in range(_LOOKS):
        if not path.exists():
            return None
        owner = _owner(path)
        if owner is not None:
            return _alive(owner, path)
        if look + 1 < _LOOKS:  # just created, content not yet written
            time.sleep(_PAUSE_S)
    return None


def _content(path: Path) -> str | None:
    try:
        return read_regular(path).decode()
    except (ArtifactError, UnicodeDecodeError):
        return None


def _owner(path: Path) -> dict[str, Any] | None:
    try:
        owner = json.loads(_content(path) or "")
    except ValueError:
        return None
    return owner if isinstance(owner, dict) and isinstance(owner.get("pid"), int) else None


def _alive(owner: dict[str, Any], path: Path) -> str | None:
    who = f"process {owner['pid']} on {owner.get('host')}"
    here = owner.get("host") == socket.gethostname()
    if owner.get("flock") is True and (here or _is_locked(path)):
        return who if _is_locked(path) else None  # another container may have the same host name
    if not here:
        return who  # cannot be checked from this host
    try:
        os.kill(owner["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return None
    except OSError:  # exists, but belongs to another user
        pass
    now = _started(owner["pid"])
    reused = now is not None and owner.get("started") not in (None, now)
    return None if reused else who


def _started(pid: int) -> str | None:
    """Return the start time of a process, which identifies it if its id is reused."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return fields.rpartition(")")[2].split()[19]


def _remove_stale(path: Path) -> None:
    """Move a stale lock aside; restore it if another process has taken it over meanwhile."""
    before = _content(path)
    aside = path.with_name(f".{LOCK}.{secrets.token_hex(6)}")
    try:
        path.rename(aside)
    except FileNotFoundError:  # another process was faster
        return
    if _content(aside) != before:
        with contextlib.suppress(OSError):
            os.link(aside, path)
    aside.unlink(missing_ok=True)
