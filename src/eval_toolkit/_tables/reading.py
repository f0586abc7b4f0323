"""Columns of files as arrays: all rows, or some of them picked inside duckdb."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._tables.cells import guessed, joined, parsed, without_mask
from eval_toolkit._tables.formats import CSV, TSV, check_file, expand_paths, format_of
from eval_toolkit._tables.sources import (
    Source,
    connection,
    literal,
    plain_errors,
    quoted,
    source_of,
)
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError

if TYPE_CHECKING:
    import duckdb

__all__ = ["KEY", "ROW", "RowPick", "column_names", "distinct_values", "read_table"]

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


def column_names(
    path: str | Path,
    *,
    media_type: str | None = None,
    quoting: bool = True,
    header: Sequence[str] | None = None,
) -> list[str]:
    """Return the names of a file's columns (of the first file, for a glob)."""
    file = expand_paths(path)[0]
    media = format_of(file, media_type)
    with connection() as con, plain_errors(file):
        return source_of(con, file, media, quoting, header).names


def distinct_values(
    path: str | Path,
    column: str,
    *,
    media_type: str | None = None,
    quoting: bool = True,
    header: Sequence[str] | None = None,
) -> dict[str | None, int]:
    """Return a column's values as text, each with the first row it occurs in, in that order."""
    file = Path(path)
    check_file(file)
    with connection() as con, plain_errors(file):
        source = source_of(con, file, format_of(file, media_type), quoting, header)
        _check_columns(source, [column])
        found = con.execute(
            f"SELECT v, min(r) FROM (SELECT {_expression(column, 'text', source)} AS v, "  # noqa: S608
            f"row_number() OVER () AS r FROM {source.sql}) GROUP BY v ORDER BY min(r)",
            source.parameters,
        ).fetchall()
    return dict(found)


def read_table(
    paths: str | Path | Iterable[str | Path],
    *,
    numbers: Iterable[str] = (),
    texts: Iterable[str] = (),
    columns: Iterable[str] | None = None,
    media_type: str | None = None,
    quoting: bool = True,
    header: Sequence[str] | None = None,
    pick: RowPick | None = None,
) -> dict[str, NDArray[Any]]:
    r"""Read columns of one or more files of rows.

    Parameters
    ----------
    paths : path or iterable of paths
        Files or globs; rows follow each other in the order of the files.
    numbers : iterable of str
        Columns that must hold a finite number in every row; float64.
    texts : iterable of str
        Columns to read as text; object arrays of str, with None where a cell is empty.
    columns : iterable of str, optional
        Columns in the types the file has; in CSV a column of nothing but numbers becomes int64
        or float64 and the rest text. All columns that are neither ``numbers`` nor ``texts`` when
        all three are left out.
    media_type : str, optional
        By default what each file's name says.
    quoting : bool, default True
        False reads CSV and TSV cells as they stand, quotes included.
    header : sequence of str, optional
        Column names of CSV and TSV files that have none.
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
    kinds = {**dict.fromkeys(numbers, "number"), **kinds}
    parts: list[dict[str, NDArray[Any]]] = []
    for path in expand_paths(paths):
        media = format_of(path, media_type)
        with connection() as con, plain_errors(path):
            source = source_of(con, path, media, quoting, header)
            wanted = kinds or dict.fromkeys(source.names, "any")
            parts.append(_read(con, source, wanted, media in (CSV, TSV), pick))
    if any(part.keys() != parts[0].keys() for part in parts[1:]):
        odd = next(i for i, part in enumerate(parts) if part.keys() != parts[0].keys())
        raise ArtifactError(
            f"{expand_paths(paths)[odd]}: columns {list(parts[odd])} differ from those of the "
            f"first file, {list(parts[0])}"
        )
    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def _read(
    con: "duckdb.DuckDBPyConnection",
    source: Source,
    wanted: Mapping[str, str],
    guess: bool,
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
    for i, (name, kind) in enumerate(wanted.items()):
        column = fetched[f"c{i}"]
        if kind == "number":
            result[name] = _checked_numbers(con, source, name, column, result.get(ROW))
        else:
            plain = without_mask(column)
            if kind == "any" and source.is_json:
                plain = parsed(plain)
            result[name] = guessed(plain) if kind == "any" and guess else plain
    return result


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
    if kind == "number":
        cast = f"TRY_CAST({column} AS DOUBLE)"
        if name in source.typed:
            return cast
        return f"CASE WHEN contains({column}, '_') THEN NULL ELSE {cast} END"  # 1_0 is no number
    return f"CAST({column} AS VARCHAR)" if kind == "text" else column


def _checked_numbers(
    con: "duckdb.DuckDBPyConnection",
    source: Source,
    name: str,
    column: Any,
    rows: NDArray[Any] | None,
) -> NDArray[np.float64]:
    values = np.asarray(np.ma.filled(column, np.nan), dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        shown = f"({quoted(name)}->>'$')" if source.is_json else f"CAST({quoted(name)} AS VARCHAR)"
        cell = con.execute(
            f"SELECT {shown} FROM {source.sql} LIMIT 1 OFFSET {row}",  # noqa: S608
            source.parameters,
        ).fetchone()
        text = cell[0] if cell else None
        what = "is missing" if text is None else f"is {text!r}"
        raise InvalidInputError(
            f"{source.path}: row {row + 1 if rows is None else rows[row]}: {name!r} {what}; "
            "it must be a finite number"
        )
    return values
