"""File permissions of runs, owner-only by default.

Runs contain prompts, responses and rows of data. Folders are created with mode 700 and files with
mode 600; ``EVAL_TOOLKIT_RUN_MODE=750`` sets another mode for folders and, without the execute bits,
for files. Existing folders keep their mode.
"""

import os
from pathlib import Path

from eval_toolkit.errors import InvalidInputError

_VARIABLE = "EVAL_TOOLKIT_RUN_MODE"


def _folder_mode() -> int:
    given = os.environ.get(_VARIABLE, "").strip() or "700"
    try:
        mode = int(given, 8)
    except ValueError:
        mode = -1
    if mode & ~0o777 or mode & 0o700 != 0o700:
        raise InvalidInputError(
            f"{_VARIABLE} is {given!r}; it must be an octal mode that gives the owner all permissions, such "
            "as 700, 750 or 755"
        )
    return mode


def file_mode() -> int:
    """Return the mode of a run's files.

    Examples
    --------
    >>> oct(file_mode())
    '0o600'
    """
    return _folder_mode() & 0o666


def private_folder(folder: Path, *, exist_ok: bool = True) -> None:
    """Create a run folder with private permissions; an existing folder is unchanged."""
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
    mode = _folder_mode()
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not exist_ok or not folder.is_dir():
            raise
    else:
        folder.chmod(mode)  # so that the umask does not remove requested bits


def make_private(file: Path) -> None:
    """Set the permissions of a run's file."""
    file.chmod(file_mode())
