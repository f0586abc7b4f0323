"""Whether something is at a path; a name that no file can have is nowhere.

Before Python 3.14, the methods of `pathlib.Path` raise OSError for names that are too long. Names
stand in files of other people, and "no such file" is the answer to every one that is none.
"""

import os

__all__ = ["is_file", "is_folder", "is_there"]

_Path = str | os.PathLike[str]


def is_there(path: _Path) -> bool:
    r"""Return whether anything is at a path.

    Examples
    --------
    >>> is_there("."), is_there("x" * 5000), is_there("a\0b")
    (True, False, False)
    """
    return os.path.exists(path)  # noqa: PTH110


def is_file(path: _Path) -> bool:
    """Return whether a regular file, or a link to one, is at a path.

    Examples
    --------
    >>> is_file("."), is_file("x" * 5000)
    (False, False)
    """
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: _Path) -> bool:
    """Return whether a folder, or a link to one, is at a path.

    Examples
    --------
    >>> is_folder("."), is_folder("x" * 5000)
    (True, False)
    """
    return os.path.isdir(path)  # noqa: PTH112
