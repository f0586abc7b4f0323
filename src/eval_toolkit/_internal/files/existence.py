r"""Existence checks that never raise for invalid paths.

Before Python 3.14, the methods of `pathlib.Path` raise OSError for names that are too long. Names
may come from untrusted files, so an invalid name is treated as a missing file.

>>> is_there("."), is_there("x" * 5000), is_there("a\0b"), is_file("."), is_folder(".")
(True, False, False, False, True)
"""

import difflib
import os
from pathlib import Path

is_there = os.path.exists
is_file = os.path.isfile
is_folder = os.path.isdir


def named_alike(path: str | Path) -> str:
    """Return a question about a file of a similar name in the same folder; "" if there is none.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "questions.jsonl").write_text("")
    >>> named_alike(folder / "question.jsonl"), named_alike(folder / "other.csv")
    ('; did you mean questions.jsonl?', '')
    """
    try:
        names = [entry.name for entry in os.scandir(Path(path).parent)]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(Path(path).name, names, n=1, cutoff=0.8)
    return f"; did you mean {near[0]}?" if near else ""
