r"""Existence checks that never raise for invalid paths.

Before Python 3.14, the methods of `pathlib.Path` raise OSError for names that are too long. Names
may come from untrusted files, so an invalid name is treated as a missing file.

>>> is_there("."), is_there("x" * 5000), is_there("a\0b"), is_file("."), is_folder(".")
(True, False, False, False, True)
"""

import os

is_there = os.path.exists
is_file = os.path.isfile
is_folder = os.path.isdir
