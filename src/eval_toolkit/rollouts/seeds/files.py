"""Files of seed prompts as texts and rows with locations."""

from pathlib import Path
from typing import Any

from eval_toolkit._internal import tables
from eval_toolkit._internal.files import is_file
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError

Item = tuple[str, Any]
"""Location, for messages, and the item: a text or a mapping."""


def read_items(path: Path) -> list[Item]:
    """Return the prompts in a file as texts or rows; ``-`` is standard input."""
    if str(path) != tables.STDIN and not is_file(path):
        raise MissingFileError(f"{path}: no such file")
    if path.name.lower().removesuffix(".gz").endswith(".txt"):
        return [(f"{path}: line {n}", line.strip()) for n, line in tables.read_lines(path)]
    try:
        items = tables.read_records(path)
    except InvalidInputError as error:
        if "cannot tell the format" in str(error):
            raise InvalidInputError(f"{error}, or in .txt with a prompt per line") from None
        raise
    for place, value in items:
        if not isinstance(value, (str, dict)):
            raise ArtifactError(f"{place} is {value!r:.60}; it must be a text or an object")
    return items
