"""Atomic and deterministic writing of columns to tabular files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.files import replace_atomic
from eval_toolkit._internal.tables.formats import CSV, JSON, JSONL, PARQUET, TSV, format_of
from eval_toolkit._internal.tables.sources import connection, literal, plain_errors, quoted
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


def write_tables(tables: Mapping[Path, Mapping[str, Any]]) -> None:
    """Write several tables like `write_table`, sharing one connection."""
    with connection() as con:
        for path, columns in tables.items():
            _write(con, columns, path, format_of(path, None))


def _write(
    con: "duckdb.DuckDBPyConnection", columns: Mapping[str, Any], target: Path, media: str
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
    gzipped = ", COMPRESSION gzip" if target.suffix.lower() == ".gz" and media != PARQUET else ""
    with plain_errors(target), replace_atomic(target) as temporary:
        con.register("rows_to_write", arrays)
        con.execute(
            f"COPY (SELECT {selected} FROM rows_to_write) TO {literal(str(temporary))} "  # noqa: S608
            f"({_COPY[media]}{gzipped})"
        )
    con.unregister("rows_to_write")


def _column(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):  # masked entries become null
        return values
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind in "US" else array
