"""Files: written whole or not at all, read within limits that every reader shares.

`limits` says how deep, how long and how large what is read may be; `regular` opens files that
cannot block and unpacks gzip with its checksum; `documents` parses JSON, TOML and YAML; `malformed` tells what no reader expects in them. A file that
breaks a rule is refused in one line that names the file, the place, the rule and what to do.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.files.malformed import malformed  # the module has its name
from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._internal.files.atomic import replace_atomic, sync_folder, write_atomic
    from eval_toolkit._internal.files.documents import (
        parse_json,
        parse_toml,
        parse_yaml,
        read_document,
    )
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
    from eval_toolkit._internal.files.there import is_file, is_folder, is_there

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
        "there": "is_file is_folder is_there",
    },
)
