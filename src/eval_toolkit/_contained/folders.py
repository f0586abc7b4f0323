"""Folders that go away again, whatever was done in them."""

import os
import shutil
from pathlib import Path

__all__ = ["remove_folder"]


def remove_folder(folder: str | Path) -> None:
    """Remove a folder with all that is in it, also what a program has locked against it."""
    shutil.rmtree(folder, ignore_errors=True)
    if Path(folder).exists():
        Path(folder).chmod(0o700)
        for place, names, _ in os.walk(folder):
            for name in names:
                if not (inner := Path(place) / name).is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
