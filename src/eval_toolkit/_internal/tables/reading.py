"""Read file columns into arrays, optionally with row selection in duckdb."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.files import limits
from eval_toolkit._internal.tables.cells import guessed, joined, parsed, without_mask
from eval_toolkit._internal.tables.formats import FileFormat, check_file, expand_paths, format_of
from eval_toolkit._internal.tables.numbers import MARKS, decimal_of, not_numbers, numbers_in
from eval_toolkit._internal.tables.sources import (
    Source,
    connection,
    literal,
    may_mix_line_ends,
    plain_errors,
    quoted,
    source_of,
    with_equal_lines,
)
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError

if TYPE_CHECKING:
    import duckdb

_Read = TypeVar("_Read")

ROW, KEY = "\0row", "\0key"
"""Columns added to selected rows: row number in the file (from 1), and sample key."""


@dataclass(frozen=True)
class RowPick:
    """Row selection, applied in duckdb so that other rows are never loaded."""

    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Allowed values per column, compared as strings."""
    limit: int | None = None
    """Maximum number of rows (the first that satisfy ``where``)."""
    sample_size: int | None = None
    """Size of a random sample; samples with the same seed are nested."""
    seed: int = 42
    key: str | None = None
    """Column that identifies rows for sampling; by default the row number."""
    salt: str = ""
    """Salt that distinguishes row numbers of different files."""


AS_NAMED = FileFormat()
"""Default format, inferred from file name and content."""


def column_names(path: str | Path, file_format: FileFormat = AS_NAMED) -> list[str]:
    """Return the column names of a file (of the first file, for a glob)."""
    file = expand_paths(path)[0]
    return _opened(file, file_format, lambda con, source: source.names)


def distinct_values(
    path: str | Path, column: str, file_format: FileFormat = AS_NAMED
) -> dict[str | None, int]:
    """Return the distinct values of a column as strings with their first rows, in order."""
    file = Path(path)
    check_file(file)

    def read(con: "duckdb.DuckDBPyConnection", source: Source) -> dict[str | None, int]:
        _check_columns(source, [column])
        found = con.execute(
            f"SELECT v, min(r) FROM (SELECT {_expression(column, 'text', source)} AS v, "  # noqa: S608
            f"row_number() OVER () AS r FROM {source.sql}) GROUP BY v ORDER BY min(r)",
            source.parameters,
        ).fetchall()
        return dict(found)

    return _opened(file, file_format, read)


def _opened(
    file: Path,
    file_format: FileFormat,
    read: "Callable[[duckdb.DuckDBPyConnection, Source], _Read]",
) -> _Read:
    """Open a file and return the result of ``read``; mixed line endings are normalised."""
    with connection() as con, plain_errors(file):
        source = source_of(con, file, file_format, format_of(file, file_format.media_type))
        try:
            return read(con, source)
        except Exception as error:
            if not may_mix_line_ends(source, error):
                raise
            return read(con, with_equal_lines(source, file_format))


def read_table(
    paths: str | Path | Iterable[str | Path],
    *,
    numbers: Iterable[str] = (),
    texts: Iterable[str] = (),
    labels: Iterable[str] = (),
    columns: Iterable[str] | None = None,
    file_format: FileFormat = AS_NAMED,
    pick: RowPick | None = None,
) -> dict[str, NDArray[Any]]:
    r"""Read columns of one or more tabular files.

    Parameters
    ----------
    paths : path or iterable of paths
        Files or globs; rows are concatenated in the order of the files.
    numbers : iterable of str
        Numeric columns, read as float64; every row must contain a finite number.
    labels : iterable of str
        Label columns, for `classes_of`: float64 if all labels in a file are 0/1 or true/false,
        otherwise strings.
    texts : iterable of str
        String columns, read as object arrays of str, with None for empty cells.
    columns : iterable of str, optional
        Columns read with the types of the file; numeric CSV columns become int64 or float64, other
        CSV columns strings. By default all columns.
    file_format : FileFormat, optional
        Format of the files, if it cannot be inferred from names and contents.
    pick : RowPick, optional
        Selection of rows, applied to each file.

    Returns
    -------
    dict of str to ndarray
        Columns in the requested order; with ``pick`` also the columns `ROW` and `KEY`.

    Raises
    ------
    ArtifactError
        If a file is missing, empty, truncated or malformed.
    MissingColumnError
        If a column does not exist.
    InvalidInputError
        If a numeric column contains other values; the message names file, row and column.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "preds.csv"
    >>> _ = path.write_text("id,score\n007,0.5\n008,0.75\n")
    >>> read_table(path, numbers=["score"], texts=["id"])
    {'score': array([0.5 , 0.75]), 'id': array(['007', '008'], dtype=object)}
    """
    kinds = {**dict.fromkeys(columns or (), "any"), **dict.fromkeys(texts, "text")}
    kinds = {**dict.fromkeys(numbers, "number"), **dict.fromkeys(labels, "label"), **kinds}

    def read(con: "duckdb.DuckDBPyConnection", source: Source) -> dict[str, NDArray[Any]]:
        return _read(con, source, kinds or dict.fromkeys(source.names, "any"), pick)

    files = expand_paths(paths)
    parts = [_opened(path, file_format, read) for path in files]
    if any(part.keys() != parts[0].keys() for part in parts[1:]):
        odd = next(i for i, part in enumerate(parts) if part.keys() != parts[0].keys())
        raise ArtifactError(
            f"{files[odd]}: columns {list(parts[odd])} differ from those of the first file, "
            f"{list(parts[0])}"
        )
    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def _read(
    con: "duckdb.DuckDBPyConnection",
    source: Source,
    wanted: Mapping[str, str],
    pick: RowPick | None,
) -> dict[str, NDArray[Any]]:
    """Read the requested columns of a file in one pass, then check the numbers."""
    also = () if pick is None else (*pick.where, *([pick.key] if pick.key else []))
    _check_columns(source, (*wanted, *also))
    if source.kinds:
        _refuse_repeated(con, source, wanted)
    selected = [
        f"{_expression(name, kind, source)} AS c{i}"
        for i, (name, kind) in enumerate(wanted.items())
    ]
    if pick is not None:
        source = _picked(source, pick)
        selected += [f"{quoted(name)} AS {name}" for name in source.names[-2:]]
    fetched: dict[str, Any] = con.execute(
        f"SELECT {', '.join(selected)} FROM {source.sql}",  # noqa: S608
        source.parameters,
    ).fetchnumpy()
    result: dict[str, NDArray[Any]] = {}
    if pick is not None:
        result = {ROW: fetched[source.names[-2]], KEY: fetched[source.names[-1]]}
    commas: dict[str, str] = {}
    for i, (name, kind) in enumerate(wanted.items()):
        column = fetched[f"c{i}"]
        if kind == "number":
            result[name] = _numbers(con, source, name, column, result.get(ROW), commas)
        elif kind == "label":
            found = np.asarray(np.ma.filled(column, np.nan), dtype=np.float64)
            is_binary = bool(((found == 0) | (found == 1)).all())
            result[name] = found if is_binary else _texts(con, source, name)
        else:
            result[name] = _as_stored(source, without_mask(column), kind)
    if commas:
        _refuse_points(con, source, [n for n, kind in wanted.items() if kind == "number"], commas)
    return result


def _refuse_repeated(
    con: "duckdb.DuckDBPyConnection", source: Source, wanted: Mapping[str, str]
) -> None:
    """Raise if the strings in a Parquet file expand far beyond the file size."""
    names = [name for name, kind in wanted.items() if kind != "number"]
    lengths = [_length(quoted(name), source.kinds[name]) for name in names]
    sums = ", ".join(f"sum({length})" for length in lengths if length)
    if not sums:
        return
    row: Any = con.execute(f"SELECT {sums} FROM {source.sql}", source.parameters).fetchone()  # noqa: S608
    size = source.path.stat().st_size
    n_bytes = sum(int(n or 0) for n in row)
    if n_bytes > max(limits.TEXT_BYTES, limits.RATIO * size):
        raise ArtifactError(
            f"{source.path}: its strings have {n_bytes} bytes, more than {limits.RATIO} times the "
            f"{size} bytes of the file; if this is intended, save it as CSV"
        )


def _length(column: str, kind: str) -> str:
    """Return SQL for the size of a cell in bytes, or "" for fixed-size types."""
    if kind == "BLOB":
        return f"octet_length({column})"
    if kind == "VARCHAR":
        return f"strlen({column})"
    return f"strlen(CAST({column} AS VARCHAR))" if re.search("VARCHAR|BLOB|JSON", kind) else ""


def _as_stored(source: Source, column: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return a column as strings, or with the type of its file."""
    if kind == "text":
        return column
    if source.is_json:
        return parsed(column)
    if source.separator is None:
        return column
    # In comma-separated files, a cell with a comma is quoted and may be a list or a number.
    return guessed(column, source.decimal or ("." if source.separator == "," else None))


def _texts(con: "duckdb.DuckDBPyConnection", source: Source, name: str) -> NDArray[Any]:
    read = con.execute(
        f"SELECT {_expression(name, 'text', source)} AS c FROM {source.sql}",  # noqa: S608
        source.parameters,
    )
    return without_mask(read.fetchnumpy()["c"])


def _check_columns(source: Source, columns: Iterable[str]) -> None:
    for name in columns:
        if name not in source.names:
            raise MissingColumnError(
                f"{source.path}: there is no column {name!r}; the columns are "
                f"{', '.join(map(repr, source.names))}"
            )


def _picked(source: Source, pick: RowPick) -> Source:
    """Restrict a source to the selected rows, and append row number and key."""
    parameters = list(source.parameters)
    row, key = _unused("row_number", source.names), _unused("sample_key", source.names)
    of_row = _expression(pick.key, "text", source) if pick.key else row
    conditions = []
    for name, values in pick.where.items():
        conditions.append(
            f"{_expression(name, 'text', source)} IN ({', '.join('?' * len(values))})"
        )
        parameters += values
    # md5 is stable across releases; duckdb's own hash and sampling may not be.
    sql = (
        f"SELECT *, md5({literal(f'{pick.seed}:{pick.salt}:')} || {of_row}) AS {key} "  # noqa: S608
        f"FROM (SELECT *, row_number() OVER () AS {row} FROM {source.sql})"
        + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
    )
    if pick.sample_size is not None:
        sql = f"SELECT * FROM ({sql} ORDER BY {key}, {row} LIMIT {pick.sample_size}) ORDER BY {row}"  # noqa: S608
    elif pick.limit is not None:
        sql += f" LIMIT {pick.limit}"
    return replace(source, sql=f"({sql})", parameters=parameters, names=[*source.names, row, key])


def _unused(name: str, taken: Sequence[str]) -> str:
    while name in {other.lower() for other in taken}:
        name += "_"
    return name


def _expression(name: str, kind: str, source: Source) -> str:
    column = quoted(name)
    if source.is_json:
        if kind == "any":
            return column
        column = f"({column}->>'$')"
    if kind in ("number", "label"):
        stored_as = source.kinds.get(name, "VARCHAR")
        return _cast(column, kind, stored_as != "VARCHAR", source.decimal)
    return f"CAST({column} AS VARCHAR)" if kind == "text" else column


def _cast(column: str, kind: str, typed: bool, decimal: str | None) -> str:
    """Return SQL for a number or NULL; for labels, true and false become 1 and 0."""
    if typed:
        return f"TRY_CAST({column} AS DOUBLE)"
    written = column
    if kind == "number" and decimal == ",":
        written = (
            f"CASE WHEN contains({column}, '.') THEN NULL ELSE replace({column}, ',', '.') END"
        )
    cast = f"TRY_CAST({written} AS DOUBLE)"
    if kind == "label":
        word = f"lower(trim({column}))"
        cast = f"coalesce({cast}, CASE {word} WHEN 'true' THEN 1 WHEN 'false' THEN 0 END)"
    return f"CASE WHEN contains({column}, '_') THEN NULL ELSE {cast} END"  # 1_0 is not a number


def _numbers(
    con: "duckdb.DuckDBPyConnection",
    source: Source,
    name: str,
    column: Any,
    rows: NDArray[Any] | None,
    commas: dict[str, str],
) -> NDArray[np.float64]:
    """Return a numeric column; decimal commas are accepted if no cell contains a point."""
    values = np.asarray(np.ma.filled(column, np.nan), dtype=np.float64)
    bad = ~np.isfinite(values)
    if not bad.any():
        return values
    cells = _texts(con, source, name).tolist()
    mark = decimal_of(cells) if source.decimal is None else source.decimal
    if source.decimal is None and mark == ",":
        values = numbers_in(cells, ",")
        bad = ~np.isfinite(values)
        commas[name] = next(cell for cell in cells if cell is not None and "," in cell)
    if not bad.any():
        return values

    def place(row: int) -> tuple[str, str]:
        return str(source.path), f"row {row + 1 if rows is None else rows[row]}"

    raise not_numbers(place, name, cells, np.flatnonzero(bad).tolist(), mark)


def _refuse_points(
    con: "duckdb.DuckDBPyConnection",
    source: Source,
    names: Iterable[str],
    commas: Mapping[str, str],
) -> None:
    """Raise if some numeric columns use decimal commas and others points (1.234 may be 1234)."""
    name, cell = next(iter(commas.items()))
    for other in (other for other in names if other not in commas):
        column = _expression(other, "text", source)
        found = con.execute(
            f"SELECT {column} FROM {source.sql} WHERE contains({column}, '.') LIMIT 1",  # noqa: S608
            source.parameters,
        ).fetchone()
        if found:
            raise InvalidInputError(
                f"{source.path}: {name!r} has decimal commas ({cell!r}) but {other!r} has points "
                f"({found[0]!r}): {MARKS}"
            )
