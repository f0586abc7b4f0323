"""Safe file access: size and depth limits, regular files only, atomic writes.

`limits` defines the maximum depth and size of input; `regular` opens regular files without blocking
and decompresses gzip with checksum verification; `documents` parses JSON, TOML and YAML;
`malformed` reports unexpected structure. A file that violates a rule raises a one-line error that
names the file, the location, the rule and the remedy.
"""

from typing import TYPE_CHECKING

# A module of the same name exists, so that this one cannot wait for its use.
from eval_toolkit._internal.files.malformed import malformed as malformed
from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._internal.files.atomic import *
    from eval_toolkit._internal.files.documents import *
    from eval_toolkit._internal.files.existence import *
    from eval_toolkit._internal.files.parts import *
    from eval_toolkit._internal.files.private import *
    from eval_toolkit._internal.files.regular import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "atomic": "replace_atomic sync_folder write_atomic",
        "documents": "parse_json parse_toml parse_yaml read_document",
        "parts": "FileParts Span",
        "private": "file_mode make_private private_folder",
        "regular": (
            "check_gzip is_gzip lines_of open_for_appending open_regular pieces_of "
            "read_regular read_unpacked read_up_to"
        ),
        "existence": "is_file is_folder is_there named_alike",
    },
)
