"""Files of seed prompts as texts and rows, each with the place where it stands."""

import gzip
import json
from pathlib import Path
from typing import Any

from eval_toolkit import _tables
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError

__all__ = ["Item", "read_items"]

Item = tuple[str, Any]
"""Where something is, for messages, and what it is: a text or a mapping."""


def read_items(path: Path) -> list[Item]:
    """Return the prompts in a file, as texts or as rows."""
    if not path.is_file():
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
        return [_checked(place, _parsed(line, place)) for place, line in _lines(path)]
    if media == _tables.JSON:
        payload = _parsed(_content(path), str(path))
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
    numbered = enumerate(_content(path).split("\n"), 1)
    return [(f"{path}: line {n}", line) for n, line in numbered if line.strip()]


def _content(path: Path) -> str:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            text = str(stream.read(), "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: byte {error.start} is not UTF-8") from None
    except (OSError, EOFError) as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error
    if not text.strip():
        raise ArtifactError(f"{path}: the file is empty")
    return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{place}: not JSON: {error}") from None
