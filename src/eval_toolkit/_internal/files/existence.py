r"""Existence checks for paths that never raise for invalid names.

Before Python 3.14, the methods of `pathlib.Path` raise OSError for names that are too long. Names
may come from untrusted files; here, an invalid name is simply a file that does not exist.

>>> is_there("."), is_there("x" * 5000), is_there("a\0b"), is_file("."), is_folder(".")
(True, False, False, False, True)
"""

import os

is_there = os.path.exists
is_file = os.path.isfile
is_folder = os.path.isdir
