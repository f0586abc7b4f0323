"""Columns of files as arrays: all rows, or some of them picked inside duckdb."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

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

__all__ = ["AS_NAMED", "KEY", "ROW", "RowPick", "column_names", "distinct_values", "read_table"]

_Read = TypeVar("_Read")

ROW, KEY = "\0row", "\0key"
"""What `read_table` adds to picked rows: the number in the file, from 1, and the sample's key."""


@dataclass(frozen=True)
class RowPick:
    """Some of a file's rows, picked inside duckdb: the others are never held in memory."""

    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Column to the values it may have, compared as text."""
    limit: int | None = None
    """The first rows that satisfy ``where``."""
    sample_size: int | None = None
    """A random sample instead; a smaller sample of the same seed is part of a larger one."""
    seed: int = 42
    key: str | None = None
    """Column that identifies a row for the sample; its place in the file by default."""
    salt: str = ""
    """Tells the places in one file from those in another."""


AS_NAMED = FileFormat()
"""As the name of a file and its content say."""


def column_names(path: str | Path, file_format: FileFormat = AS_NAMED) -> list[str]:
    """Return the names of a file's columns (of the first file, for a glob)."""
    file = expand_paths(path)[0]
    return _opened(file, file_format, lambda con, source: source.names)


def distinct_values(
    path: str | Path, column: str, file_format: FileFormat = AS_NAMED
) -> dict[str | None, int]:
    """Return a column's values as text, each with the first row it occurs in, in that order."""
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
    """Return what is read of a file; one that mixes line ends is rewritten first."""
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
    r"""Read columns of one or more files of rows.

    Parameters
    ----------
    paths : path or iterable of paths
        Files or globs; rows follow each other in the order of the files.
    numbers : iterable of str
        Columns that must hold a finite number in every row; float64.
    labels : iterable of str
        Columns of labels, for `classes_of`: float64 if every one of a file is 0 or 1, true or
        false; else text.
    texts : iterable of str
        Columns to read as text; object arrays of str, with None where a cell is empty.
    columns : iterable of str, optional
        Columns in the types the file has; in CSV a column of nothing but numbers becomes int64
        or float64 and the rest text. All columns when nothing is named.
    file_format : FileFormat, optional
        How the files are written, where their names and contents do not say it.
    pick : RowPick, optional
        Read some of each file's rows.

    Returns
    -------
    dict of str to ndarray
        In the order the columns were asked for; with ``pick`` also the columns `ROW` and `KEY`.

    Raises
    ------
    ArtifactError
        If a file is missing, empty, truncated or malformed.
    MissingColumnError
        If a column is not there.
    InvalidInputError
        If a column of numbers holds something else; the message names file, row and column.

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
    """Read the wanted columns of one file in one pass, then check the numbers."""
    also = () if pick is None else (*pick.where, *([pick.key] if pick.key else []))
    _check_columns(source, (*wanted, *also))
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


def _as_stored(source: Source, column: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return a column of texts, or one in the types of its file."""
    if kind == "text":
        return column
    if source.is_json:
        return parsed(column)
    if source.separator is None:
        return column
    # Between commas a cell with a comma is quoted, and may be a list as well as a number.
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
    """Return the source with some of its rows, and with their numbers and keys behind."""
    parameters = list(source.parameters)
    row, key = _unused("row_number", source.names), _unused("sample_key", source.names)
    of_row = _expression(pick.key, "text", source) if pick.key else row
    conditions = []
    for name, values in pick.where.items():
        conditions.append(
            f"{_expression(name, 'text', source)} IN ({', '.join('?' * len(values))})"
        )
        parameters += values
    # md5 is the same in every release; duckdb's own hash and sampling need not be.
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
        return _cast(column, kind, name in source.typed, source.decimal)
    return f"CAST({column} AS VARCHAR)" if kind == "text" else column


def _cast(column: str, kind: str, typed: bool, decimal: str | None) -> str:
    """Return a number or NULL; of labels also 1 and 0 for true and false."""
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
    return f"CASE WHEN contains({column}, '_') THEN NULL ELSE {cast} END"  # 1_0 is no number


def _numbers(
    con: "duckdb.DuckDBPyConnection",
    source: Source,
    name: str,
    column: Any,
    rows: NDArray[Any] | None,
    commas: dict[str, str],
) -> NDArray[np.float64]:
    """Return numbers; those that have no decimal point may have a comma, which is noted."""
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
    """Raise if one column of numbers has decimal commas and another points: 1.234 may be 1234."""
    name, cell = next(iter(commas.items()))
    for other in (other for other in names if other not in commas):
        column = _expression(other, "text", source)
        found = con.execute(
            f"SELECT {column} FROM {source.sql} WHERE contains({column}, '.') LIMIT 1",  # noqa: S608
            source.parameters,
        ).fetchone()
        if found:
            raise InvalidInputError(
                f"{source.path}: {name!r} has decimal commas ({cell!r}) and {other!r} points "
                f"({found[0]!r}): {MARKS}"
            )
