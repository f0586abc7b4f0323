"""Removal of temporary folders with arbitrary content."""

import contextlib
import os
import stat
from pathlib import Path

_LOOK = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def remove_folder(folder: str | Path) -> None:
    """Remove a folder and its content, even if it is write-protected or deeply nested."""
    if os.open not in os.supports_dir_fd:  # Windows
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        empty_folder(folder)
        Path(folder).rmdir()


def empty_folder(folder: str | Path) -> None:
    """Remove the content of a folder at any depth; links are removed, not followed.

    Nested folders are moved to the top level before they are emptied, so deep nesting needs
    neither file descriptors nor recursion.
    """
    Path(folder).chmod(0o700)
    top = os.open(folder, _LOOK)
    n = 0
    try:
        while names := os.listdir(top):  # noqa: PTH208 - a folder descriptor
            for name in names:
                if not _is_folder(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                os.chmod(name, 0o700, dir_fd=top)
                inner = os.open(name, _LOOK, dir_fd=top)
                try:
                    for one in os.listdir(inner):  # noqa: PTH208
                        if _is_folder(one, inner):
                            n += 1
                            os.chmod(one, 0o700, dir_fd=inner)  # else it cannot be moved
                            os.rename(one, f"{n}.{os.getpid()}", src_dir_fd=inner, dst_dir_fd=top)
                        else:
                            os.unlink(one, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _is_folder(name: str, at: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
