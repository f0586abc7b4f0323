"""Files of seed prompts as texts and rows, each with the place where it stands."""

from pathlib import Path
from typing import Any

from eval_toolkit import _tables
from eval_toolkit._files import is_file, parse_json
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError

__all__ = ["Item", "read_items"]

Item = tuple[str, Any]
"""Where something is, for messages, and what it is: a text or a mapping."""


def read_items(path: Path) -> list[Item]:
    """Return the prompts in a file, as texts or as rows."""
    if not is_file(path):
        raise MissingFileError(f"{path}: no such file")
    plain = path.name.lower().removesuffix(".gz")
    if plain.endswith(".txt"):
        return [(place, line.strip()) for place, line in _lines(path)]
    try:
        media = _tables.media_type_of(path)
    except InvalidInputError:
        raise InvalidInputError(
            f"{path}: cannot tell the format from the name; it must end in .txt, .json, .jsonl, "
            ".csv, .tsv or .parquet"
        ) from None
    if media == _tables.JSONL:
        return [_checked(place, parse_json(line, place)) for place, line in _lines(path)]
    if media == _tables.JSON:
        payload = parse_json(_tables.read_text(path), str(path))
        if not isinstance(payload, list):
            raise ArtifactError(
                f"{path}: holds {type(payload).__name__}; it must hold a list of texts or objects"
            )
        return [_checked(f"{path}: row {n}", value) for n, value in enumerate(payload, 1)]
    return _cells(path, typed=media == _tables.PARQUET)


def _cells(path: Path, *, typed: bool) -> list[Item]:
    # a cell of a CSV file is text: whether "007" is a number must not depend on the other rows
    texts = () if typed else _tables.column_names(path)
    columns = _tables.read_table(path, texts=texts)
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [
        (f"{path}: row {n}", dict(zip(columns, cells, strict=True)))
        for n, cells in enumerate(rows, 1)
    ]


def _checked(place: str, value: Any) -> Item:
    if not isinstance(value, (str, dict)):
        raise ArtifactError(f"{place}: holds {value!r:.60}; it must be a text or an object")
    return place, value


def _lines(path: Path) -> list[tuple[str, str]]:
    numbered = enumerate(_tables.read_text(path).split("\n"), 1)
    return [(f"{path}: line {n}", line) for n, line in numbered if line.strip()]
