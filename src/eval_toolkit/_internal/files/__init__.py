"""Safe file access: size and depth limits, regular files only, atomic writes.

`limits` defines the maximum depth and size of input; `regular` opens regular files without blocking
and decompresses gzip with checksum verification; `documents` parses JSON, TOML and YAML;
`malformed` reports unexpected structure. A file that violates a rule raises a one-line error that
names the file, the location, the rule and the remedy.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.files.malformed import malformed  # a module of the same name exists
from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._internal.files.atomic import replace_atomic, sync_folder, write_atomic
    from eval_toolkit._internal.files.documents import (
        parse_json,
        parse_toml,
        parse_yaml,
        read_document,
    )
    from eval_toolkit._internal.files.existence import is_file, is_folder, is_there
    from eval_toolkit._internal.files.private import file_mode, make_private, private_folder
    from eval_toolkit._internal.files.regular import (
        check_gzip,
        is_gzip,
        lines_of,
        open_for_appending,
        open_regular,
        pieces_of,
        read_regular,
        read_unpacked,
        read_up_to,
    )

__all__ = [
    "check_gzip",
    "file_mode",
    "is_file",
    "is_folder",
    "is_gzip",
    "is_there",
    "limits",
    "lines_of",
    "make_private",
    "malformed",
    "open_for_appending",
    "open_regular",
    "parse_json",
    "parse_toml",
    "parse_yaml",
    "pieces_of",
    "private_folder",
    "read_document",
    "read_regular",
    "read_unpacked",
    "read_up_to",
    "replace_atomic",
    "sync_folder",
    "write_atomic",
]

__getattr__ = names_on_use(
    __name__,
    {
        "atomic": "replace_atomic sync_folder write_atomic",
        "documents": "parse_json parse_toml parse_yaml read_document",
        "private": "file_mode make_private private_folder",
        "regular": (
            "check_gzip is_gzip lines_of open_for_appending open_regular pieces_of "
            "read_regular read_unpacked read_up_to"
        ),
        "existence": "is_file is_folder is_there",
    },
)
