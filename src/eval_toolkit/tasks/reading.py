"""Reading of data files as rows, preserving nested values."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal import tables
from eval_toolkit._internal.files import is_file, named_alike
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError
from eval_toolkit.tasks.rows_on_disk import rows_on_disk

Row = dict[str, Any]


def read_rows(path: Path, split: str, *, only_named: bool = False) -> Sequence[Row]:
    """Read the rows of one split from a file.

    A JSON file contains a list of objects, an object with the list under "examples", or an object
    with one list per split. With ``only_named``, rows are returned only if the file itself names
    this split. Rows of a large JSON Lines file stay on disk.
    """
    if not is_file(path):
        raise MissingFileError(f"{path}: no such file{named_alike(path)}")
    if only_named and tables.media_type_of(path) != tables.JSON:
        raise InvalidInputError(f"{path}: the file contains a single split, which is not {split!r}")

    large = rows_on_disk(path)
    if large is not None:
        return large

    def list_in(payload: Any) -> Any:
        if isinstance(payload, dict) and isinstance(payload.get(split), list):
            return payload[split]
        if only_named:
            raise InvalidInputError(f"{path}: contains no list of rows under {split!r}")
        if isinstance(payload, dict) and isinstance(payload.get("examples"), list):
            return payload["examples"]
        if not isinstance(payload, list):
            keys = f" with {', '.join(map(repr, payload))}" if isinstance(payload, dict) else ""
            raise ArtifactError(
                f"{path}: contains {type(payload).__name__}{keys:.200}; it must contain a list of "
                f"objects, or one under 'examples' or {split!r}"
            )
        return payload

    rows = []
    for place, row in tables.read_records(path, list_in=list_in):
        if not isinstance(row, dict):
            raise ArtifactError(f"{place}: contains {row!r:.60}; every row must be an object")
        rows.append(row)
    return rows


def read_labels(path: Path) -> list[Any]:
    """Read labels from a file with one label per line; numeric labels become numbers."""
    lines = [line.strip() for line in tables.read_text(path).splitlines() if line.strip()]
    return [int(line) if line.lstrip("-").isdecimal() else line for line in lines]


def checked_rows(rows: Iterable[Any], place: str) -> list[Row]:
    """Check that every row is a mapping and return the rows."""
    if isinstance(rows, (str, bytes, Mapping)):
        raise InvalidInputError(f"{place} is {type(rows).__name__}; it must be a list of rows")
    checked = list(rows)
    for n, row in enumerate(checked, 1):
        if not isinstance(row, Mapping):
            raise InvalidInputError(f"{place}: row {n} is {row!r:.60}; every row must be a mapping")
    return checked
