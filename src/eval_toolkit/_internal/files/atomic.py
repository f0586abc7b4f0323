"""Atomic file writes: write to a temporary file, sync, rename."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replace_atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, renamed to ``path`` on exit.

    On an exception, the old file is unchanged and the temporary file is removed.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(6)}.tmp"
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def write_atomic(path: str | Path, data: str | bytes) -> Path:
    """Write a file atomically, strings as UTF-8; readers see either the old or the new content."""
    with replace_atomic(path) as temporary:
        temporary.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return Path(path)


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk so that a rename survives a power loss, if supported."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
