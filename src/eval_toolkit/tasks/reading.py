"""Files of items as rows: JSONL, JSON, CSV, TSV and Parquet, also gzipped; nested values stay.

Rows keep the types of the file. A cell of a CSV file is text, always: whether "7" is a number must
not depend on the other rows, since a row is known by its content.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any

from eval_toolkit import _tables
from eval_toolkit._files import is_file, parse_json
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    MissingFileError,
)

__all__ = ["Row", "checked_rows", "plain_value", "read_labels", "read_rows"]

Row = dict[str, Any]

_SEPARATORS = (",", ";", "\t", "|")


def read_rows(path: Path, split: str, *, only_named: bool = False) -> list[Row]:
    """Return the rows of one split in a file.

    Parameters
    ----------
    path : Path
        A file of rows. A JSON file holds a list of objects, an object with the list under
        "examples", or an object with one list per split.
    split : str
        Which split is wanted.
    only_named : bool
        Take rows only where the file itself says that they are of this split.

    Raises
    ------
    ArtifactError
        If the file is missing, empty or malformed; the message names the line.
    InvalidInputError
        If the split is not in the file.
    """
    if not is_file(path):
        raise MissingFileError(f"{path}: no such file")
    media = _tables.media_type_of(path)
    if media == _tables.JSON:
        return _of_document(path, split, only_named)
    if only_named:
        raise InvalidInputError(f"{path}: the file holds one split, and not {split!r}")
    if media == _tables.PARQUET:
        columns = _tables.read_table(path)
        lists = [[plain_value(cell) for cell in column.tolist()] for column in columns.values()]
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*lists, strict=True)]
    if media == _tables.JSONL:
        return _lines(path)
    return _cells(path, None if media == _tables.CSV else "\t")


def _lines(path: Path) -> list[Row]:
    numbered = [
        (n, line) for n, line in enumerate(_tables.read_text(path).split("\n"), 1) if line.strip()
    ]
    return [
        _object(parse_json(line, f"{path}: line {n}"), f"{path}: line {n}") for n, line in numbered
    ]


def _object(value: Any, place: str) -> Row:
    if not isinstance(value, dict):
        raise ArtifactError(f"{place}: holds {value!r:.60}; every row must be an object")
    return value


def _of_document(path: Path, split: str, only_named: bool) -> list[Row]:
    payload = parse_json(_tables.read_text(path), str(path))
    if isinstance(payload, dict) and isinstance(payload.get(split), list):
        payload = payload[split]
    elif only_named:
        raise InvalidInputError(f"{path}: there is no list of rows under {split!r}")
    elif isinstance(payload, dict) and isinstance(payload.get("examples"), list):
        payload = payload["examples"]
    if not isinstance(payload, list):
        keys = f" with {', '.join(map(repr, payload))}" if isinstance(payload, dict) else ""
        raise ArtifactError(
            f"{path}: holds {type(payload).__name__}{keys:.200}; it must hold a list of objects, "
            f"or one under 'examples' or {split!r}"
        )
    return [_object(value, f"{path}: row {n}") for n, value in enumerate(payload, 1)]


def _cells(path: Path, separator: str | None) -> list[Row]:
    text = _tables.read_text(path)
    if separator is None:
        first = text.split("\n", 1)[0]
        separator = max(
            _SEPARATORS, key=lambda sign: len(next(csv.reader([first], delimiter=sign)))
        )
    csv.field_size_limit(1 << 26)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[Row] = []
    try:
        header = next(lines)
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise ArtifactError(f"{path}: the column {twice!r} occurs twice in the first line")
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(header):
                raise ArtifactError(
                    f"{path}: line {lines.line_num}: {len(cells)} cells, but the first line names "
                    f"{len(header)} columns"
                )
            rows.append(dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise ArtifactError(f"{path}: line {lines.line_num}: {error}") from None
    return rows


def read_labels(path: Path) -> list[Any]:
    """Return the labels of a file with one per line: numbers as numbers, the rest as text."""
    lines = [line.strip() for line in _tables.read_text(path).splitlines() if line.strip()]
    return [int(line) if line.lstrip("-").isdecimal() else line for line in lines]


def plain_value(value: Any) -> Any:
    """Return a cell in JSON types; what is not a number becomes None."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(inner) for inner in value]
    if isinstance(value, (date, time)):
        return value.isoformat()
    return plain_value(value.tolist()) if hasattr(value, "tolist") else str(value)


def checked_rows(rows: Iterable[Any], place: str) -> list[Row]:
    """Return rows given as objects; anything else is refused by its place."""
    if isinstance(rows, (str, bytes, Mapping)):
        raise InvalidInputError(f"{place} is {type(rows).__name__}; it must be a list of rows")
    checked = list(rows)
    for n, row in enumerate(checked, 1):
        if not isinstance(row, Mapping):
            raise InvalidInputError(f"{place}: row {n} is {row!r:.60}; every row must be a mapping")
    return checked
