"""Reading of seed prompt files."""

import re
from pathlib import Path
from typing import Any

from eval_toolkit._internal import tables
from eval_toolkit._internal.files import is_file
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError

_NAME = re.compile(r'"?[\w.-]+"?')
_SEPARATOR = re.compile("[,;\t]")

Item = tuple[str, Any]
"""Location of an item, for error messages, and the item itself: a string or a mapping."""


def read_items(path: Path, *, columns: bool = False) -> list[Item]:
    """Read the items of a prompt file, as strings or rows; ``-`` is standard input.

    Standard input without a header is read as one prompt per line, unless ``columns`` is True.
    """
    if str(path) != tables.STDIN and not is_file(path):
        raise MissingFileError(f"{path}: no such file")
    if str(path) == tables.STDIN and not columns and (lines := _prose(path)):
        return lines
    if path.name.lower().removesuffix(".gz").endswith(".txt"):
        return [(f"{path}: line {n}", line.strip()) for n, line in tables.read_lines(path)]
    try:
        items = tables.read_records(path)
    except InvalidInputError as error:
        if "cannot infer the format" in str(error):
            raise InvalidInputError(f"{error}, or in .txt with a prompt per line") from None
        raise
    for place, value in items:
        if not isinstance(value, (str, dict)):
            raise ArtifactError(f"{place} is {value!r:.60}; it must be a string or an object")
    return items


def _prose(path: Path) -> list[Item]:
    """Return the lines of standard input, or none if it starts like JSON or with a header."""
    (file,) = tables.expand_paths([path])
    if tables.media_type_of(file) not in (tables.CSV, tables.TSV):
        return []
    lines = tables.read_lines(file)
    if all(_NAME.fullmatch(cell.strip()) for cell in _SEPARATOR.split(lines[0][1])):
        return []
    return [(f"stdin: line {n}", line.strip()) for n, line in lines]
