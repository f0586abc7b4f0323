"""``run.lock``: one process per run; locks of dead processes are ignored."""

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import file_mode, read_regular
from eval_toolkit.errors import ArtifactError

__all__ = ["LOCK", "lock_holder", "run_lock"]

LOCK = "run.lock"
_LOOKS = 5
_PAUSE_S = 0.02


@contextlib.contextmanager
def run_lock(folder: str | Path) -> Iterator[None]:
    """Hold the lock of a run's folder; a lock of a dead process is taken over.

    Parameters
    ----------
    folder : path
        Existing folder.

    Raises
    ------
    ArtifactError
        If another process, or another thread of this one, holds the lock.

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
    mine = json.dumps({**owner, "key": secrets.token_hex(8)})
    while not _taken(path, mine):
        holder = lock_holder(folder)
        if holder:
            raise ArtifactError(
                f"{folder}: another process is writing this run ({holder}); wait for it, or "
                f"delete {LOCK} if it no longer runs"
            )
        _remove_stale(path)
    try:
        yield
    finally:
        if _content(path) == mine:
            path.unlink(missing_ok=True)


def _taken(path: Path, mine: str) -> bool:
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, file_mode())
    except FileExistsError:
        return False
    try:
        os.write(handle, mine.encode())
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    return True


def lock_holder(folder: str | Path) -> str | None:
    """Return the holder of a folder's lock; None if no running process holds it."""
    path = Path(folder) / LOCK
    for look in range(_LOOKS):
        if not path.exists():
            return None
        owner = _owner(path)
        if owner is not None:
            return _alive(owner)
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


def _alive(owner: dict[str, Any]) -> str | None:
    who = f"process {owner['pid']} on {owner.get('host')}"
    if owner.get("host") != socket.gethostname():
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
    """Return the start time of a process, since process ids are reused."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return fields.rpartition(")")[2].split()[19]


def _remove_stale(path: Path) -> None:
    """Move a stale lock aside; restore it if another process has just taken it over."""
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
