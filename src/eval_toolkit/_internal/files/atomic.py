"""Files that are there whole or not at all: written beside their place, synced, renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replace_atomic", "sync_folder", "write_atomic"]


@contextmanager
def replace_atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; it takes the place of ``path`` at the end.

    After an exception the old file stands as it was and the temporary one is gone.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(6)}.tmp"
    try:
        yield temporary
        _sync(temporary)
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def write_atomic(path: str | Path, data: str | bytes) -> Path:
    """Write a whole file, text as UTF-8; readers see the old content or the new."""
    with replace_atomic(path) as temporary:
        temporary.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return Path(path)


def sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can sync folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
