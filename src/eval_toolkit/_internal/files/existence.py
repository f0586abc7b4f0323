"""Existence checks that never raise for invalid paths.

Before Python 3.14, the methods of `pathlib.Path` raise OSError for names that are too long. Names
may come from untrusted files, so an invalid name is treated as a missing file.
"""

import os

_Path = str | os.PathLike[str]


def is_there(path: _Path) -> bool:
    r"""Return whether a path exists.

    Examples
    --------
    >>> is_there("."), is_there("x" * 5000), is_there("a\0b")
    (True, False, False)
    """
    return os.path.exists(path)  # noqa: PTH110


def is_file(path: _Path) -> bool:
    """Return whether a path is a regular file or a link to one.

    Examples
    --------
    >>> is_file("."), is_file("x" * 5000)
    (False, False)
    """
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: _Path) -> bool:
    """Return whether a path is a folder or a link to one.

    Examples
    --------
    >>> is_folder("."), is_folder("x" * 5000)
    (True, False)
    """
    return os.path.isdir(path)  # noqa: PTH112
