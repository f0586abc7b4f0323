"""Atomic and deterministic writing of columns to tabular files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.files import replace_atomic
from eval_toolkit._internal.tables.formats import CSV, JSON, JSONL, PARQUET, TSV, format_of
from eval_toolkit._internal.tables.sources import (
    connection,
    literal,
    plain_errors,
    quoted,
    without_statistics,
)
from eval_toolkit.errors import InvalidInputError

if TYPE_CHECKING:
    import duckdb

_COPY = {
    CSV: "FORMAT csv, HEADER true",
    TSV: "FORMAT csv, HEADER true, DELIMITER '\t'",
    JSONL: "FORMAT json",
    JSON: "FORMAT json, ARRAY true",
    PARQUET: "FORMAT parquet, COMPRESSION zstd",
}

_GROUP_ROWS, _GROUP_CHARACTERS = 122_880, 1 << 25
"""Largest number of rows of a row group, and of characters, since a row group is held in memory."""
_VECTOR = 2_048
"""Rows that duckdb processes at once; sizes of row groups are multiples."""


def write_table(
    columns: Mapping[str, Any], path: str | Path, *, media_type: str | None = None
) -> Path:
    """Write columns to a tabular file; equal columns give equal bytes.

    The file is replaced atomically. Object columns contain text or None; masked entries are null.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.jsonl"
    >>> print(write_table({"id": ["a"], "score": [0.5]}, path).read_text(), end="")
    {"id":"a","score":0.5}
    """
    target = Path(path)
    with connection() as con:
        _write(con, columns, target, format_of(target, media_type))
    return target


class PartedTable:
    """Table whose rows are written to disk in parts, because it does not fit in memory.

    Written as a Parquet file, it equals the table of all rows.

    Parameters
    ----------
    folder : path
        Existing folder of the parts.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> table = PartedTable(folder)
    >>> table.add({"id": ["a", "b"], "score": [0.5, 1.0]})
    >>> table.add({"id": ["c"], "score": [0.0]})
    >>> write_tables({folder / "parts.parquet": table})
    >>> whole = {"id": ["a", "b", "c"], "score": [0.5, 1.0, 0.0]}
    >>> path = write_table(whole, folder / "whole.parquet")
    >>> path.read_bytes() == (folder / "parts.parquet").read_bytes()
    True
    """

    def __init__(self, folder: Path) -> None:
        self.n_rows = self.n_characters = 0
        self.kinds: dict[str, str] = {}
        """Kind of each column, as in `numpy.dtype.kind`."""
        self._folder = folder
        self._parts: list[Path] = []

    def add(self, columns: Mapping[str, Any]) -> None:
        """Write the next rows; every part has the same columns."""
        arrays = {name: _column(values) for name, values in columns.items()}
        part = self._folder / f"{id(self):x}-{len(self._parts)}.parquet"
        with connection() as con:
            _write(con, arrays, part, PARQUET, "FORMAT parquet, COMPRESSION snappy")
        self._parts.append(part)
        self.kinds = self.kinds or kinds_of(arrays)
        self.n_rows += n_rows_of(arrays)
        self.n_characters += _n_characters(arrays)

    def omit(self, names: Iterable[str]) -> None:
        """Remove columns."""
        self.kinds = {name: kind for name, kind in self.kinds.items() if name not in set(names)}

    def write(self, con: "duckdb.DuckDBPyConnection", target: Path) -> None:
        """Write all rows to a Parquet file, and remove the parts."""
        files = ", ".join(literal(str(part)) for part in self._parts)
        selected = ", ".join(map(quoted, self.kinds))
        how = _COPY[PARQUET] + _row_groups(self.n_rows, self.n_characters)
        with plain_errors(target), replace_atomic(target) as temporary, without_statistics(con):
            con.execute(
                f"COPY (SELECT {selected} FROM read_parquet([{files}])) "  # noqa: S608
                f"TO {literal(str(temporary))} ({how})"
            )
        for part in self._parts:
            part.unlink()


def kinds_of(table: Mapping[str, NDArray[Any]] | PartedTable) -> dict[str, str]:
    """Return the kind of each column, as in `numpy.dtype.kind`."""
    if isinstance(table, PartedTable):
        return table.kinds
    return {name: array.dtype.kind for name, array in table.items()}


def n_rows_of(table: Mapping[str, Any] | PartedTable) -> int:
    """Return the number of rows of a table.

    Examples
    --------
    >>> n_rows_of({"id": ["a", "b"]})
    2
    """
    return table.n_rows if isinstance(table, PartedTable) else len(next(iter(table.values())))


def write_tables(tables: Mapping[Path, Mapping[str, Any] | PartedTable]) -> None:
    """Write several tables like `write_table`, sharing one connection."""
    with connection() as con:
        for path, table in tables.items():
            if isinstance(table, PartedTable):
                table.write(con, path)
            else:
                _write(con, table, path, format_of(path, None))


def _write(
    con: "duckdb.DuckDBPyConnection",
    columns: Mapping[str, Any],
    target: Path,
    media: str,
    how: str | None = None,
) -> None:
    if media not in _COPY:
        raise InvalidInputError(
            f"{target}: Excel files can be read but not written; use a name that ends in .csv"
        )
    arrays = {name: _column(values) for name, values in columns.items()}
    if not arrays:
        raise InvalidInputError("`columns` is empty; a table needs at least one column")
    for name, array in arrays.items():
        if array.ndim != 1:
            raise InvalidInputError(f"column {name!r} must be 1-D, got shape {array.shape}")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(f"`columns` differ in length: {lengths}")
    selected = ", ".join(
        # the type of an all-empty object column is undetermined
        f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}"
        if array.dtype == object
        else quoted(name)
        for name, array in arrays.items()
    )
    if how is None:
        how = _COPY[media]
        if media == PARQUET:
            how += _row_groups(next(iter(lengths.values())), _n_characters(arrays))
        elif target.suffix.lower() == ".gz":
            how += ", COMPRESSION gzip"
    with plain_errors(target), replace_atomic(target) as temporary:
        con.register("rows_to_write", arrays)
        con.execute(
            f"COPY (SELECT {selected} FROM rows_to_write) TO {literal(str(temporary))} "  # noqa: S608
            f"({how})"
        )
    con.unregister("rows_to_write")


def _n_characters(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Return the total length of all strings."""
    texts = (array for array in arrays.values() if array.dtype == object)
    return sum(len(text) for array in texts for text in array.tolist() if type(text) is str)


def _row_groups(n_rows: int, n_characters: int) -> str:
    """Return the option for smaller row groups if a usual one would take too much memory."""
    fit = _GROUP_CHARACTERS * n_rows // max(1, n_characters)
    rows = max(_VECTOR, fit - fit % _VECTOR)
    return "" if rows >= min(n_rows, _GROUP_ROWS) else f", ROW_GROUP_SIZE {rows}"


def _column(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):  # masked entries become null
        return values
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind in "US" else array
