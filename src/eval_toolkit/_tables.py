"""Files of rows, read and written through duckdb: CSV, TSV, JSONL, JSON and Parquet, also gzipped.

Columns come back as numpy arrays, so that no dataframe library is needed. Cells are converted by
what the caller needs of a column (numbers, texts), never by what a sniffer guessed: the id "007"
stays "007", and a word in a column of numbers is an error that names the file and the row.
"""

import contextlib
import csv
import glob
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._files import replace_atomic
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingColumnError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

__all__ = [
    "MEDIA_TYPES",
    "RowPick",
    "column_names",
    "distinct_values",
    "expand_paths",
    "joined",
    "media_type_of",
    "read_table",
    "write_table",
]

CSV = "text/csv"
TSV = "text/tab-separated-values"
JSONL = "application/jsonl"
JSON = "application/json"
PARQUET = "application/vnd.apache.parquet"

MEDIA_TYPES = {
    CSV: CSV,
    TSV: TSV,
    JSONL: JSONL,
    "application/x-ndjson": JSONL,
    "application/x-jsonlines": JSONL,
    JSON: JSON,
    PARQUET: PARQUET,
    "application/parquet": PARQUET,
    "application/x-parquet": PARQUET,
}
"""Every spelling we read, and the format it stands for."""


class MissingFileError(ArtifactError, FileNotFoundError):
    """A file is not there, or a glob matches none; caught by ``FileNotFoundError`` too."""


_SUFFIXES = {
    ".csv": CSV,
    ".tsv": TSV,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".json": JSON,
    ".parquet": PARQUET,
    ".pq": PARQUET,
}
_MAX_LINE = 1 << 26  # bytes of one CSV line or JSON object; prompts can be long
_NUMBER = "TRY_CAST({} AS DOUBLE)"


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


def media_type_of(path: str | Path) -> str:
    """Return the media type that a file's name says, looking through ``.gz``.

    Examples
    --------
    >>> media_type_of("predictions.csv.gz")
    'text/csv'
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in _SUFFIXES:
        return _SUFFIXES[suffixes[-1]]
    raise InvalidInputError(
        f"{path}: cannot tell the format from the name; it must end in "
        f"{', '.join(_SUFFIXES)} (or one of them with .gz)"
    )


def expand_paths(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return the files that paths and globs name, each glob's matches sorted."""
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    files: list[Path] = []
    for path in given:
        if Path(path).exists() or not glob.has_magic(str(path)):
            files.append(Path(path))
            continue
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207
        if not matches:
            raise MissingFileError(f"{path}: no file matches")
        files += map(Path, matches)
    if not files:
        raise InvalidInputError("no file was given")
    for file in files:
        _check_file(file)
    return files


def _check_file(path: Path) -> None:
    if not path.exists():
        raise MissingFileError(f"{path}: no such file")
    if not path.is_file():
        raise ArtifactError(f"{path}: not a file")
    if path.stat().st_size == 0:
        raise ArtifactError(f"{path}: the file is empty (0 bytes)")


@dataclass(frozen=True)
class _Source:
    """One file as a FROM clause with its parameters, and the columns it has."""

    path: Path
    sql: str
    parameters: list[Any]
    names: list[str]
    is_json: bool = False


@contextlib.contextmanager
def _connection() -> "Iterator[duckdb.DuckDBPyConnection]":
    import duckdb

    # One thread: rows keep their order and bytes repeat. Nothing is ever fetched from a network.
    connection = duckdb.connect(
        config={
            "threads": 1,
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            # Pushed into the CSV reader, TRY_CAST would fail there instead of giving NULL here.
            "disabled_optimizers": "type_pushdown",
        }
    )
    try:
        connection.execute("SET enable_progress_bar = false")  # it would go to stdout, amid data
        yield connection
    finally:
        connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_record(path: Path, delimiter: str, quoting: bool) -> list[str]:
    """Return the cells of the first record, as the csv module reads them."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    csv.field_size_limit(_MAX_LINE)
    try:
        with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as head:
            lines = csv.reader(
                head, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE
            )
            return next(lines, [])
    except (OSError, EOFError, csv.Error) as error:
        raise ArtifactError(f"{path}: cannot read the first line: {error}") from error


def _csv_source(path: Path, delimiter: str, quoting: bool, header: Sequence[str] | None) -> _Source:
    first = _first_record(path, delimiter, quoting)
    names = list(header) if header is not None else first
    if not any(name.strip() for name in names):
        raise ArtifactError(f"{path}: the first line is empty; it must hold the column names")
    # A frame saved with its index has a column without a name.
    names = [name if name.strip() else f"Unnamed: {i}" for i, name in enumerate(names)]
    seen: set[str] = set()
    for name in names:
        # duckdb compares column names without case
        if name.lower() in seen:
            raise ArtifactError(
                f"{path}: the column {name!r} occurs twice in the first line; rename one"
            )
        seen.add(name.lower())
    if header is not None and len(first) != len(names):
        raise ArtifactError(
            f"{path}: the first line has {len(first)} cells but {len(names)} columns are named"
        )
    columns = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in names)
    quote = "'\"'" if quoting else "''"
    sql = (
        f"read_csv(?, auto_detect=false, header={'false' if header is not None else 'true'}, "
        f"delim={_literal(delimiter)}, quote={quote}, escape={quote}, "
        # by itself duckdb would take a buffer of sixteen lines of the largest size: a gigabyte
        f"columns={{{columns}}}, max_line_size={_MAX_LINE}, buffer_size={_MAX_LINE})"
    )
    return _Source(path, sql, [glob.escape(str(path))], names)


def _json_source(con: "duckdb.DuckDBPyConnection", path: Path, media: str) -> _Source:
    style = "newline_delimited" if media == JSONL else "auto"
    options = f"format='{style}', maximum_object_size={_MAX_LINE}"
    parameters = [glob.escape(str(path))]
    # Every row is looked at: a key that first occurs late is a column too.
    described = con.execute(
        f"DESCRIBE SELECT * FROM read_json(?, {options}, sample_size=-1, maximum_depth=1)",  # noqa: S608
        parameters,
    ).fetchall()
    names = [row[0] for row in described]
    lowered = {name.lower(): name for name in names}
    for name in names:
        # duckdb calls the second of two keys that differ by case A_1, and finds nothing under it
        stem = re.sub(r"_\d+$", "", name)
        if stem not in names and stem.lower() in lowered:
            raise ArtifactError(
                f"{path}: the keys {lowered[stem.lower()]!r} and {stem!r} differ by case only; "
                "rename one"
            )
    columns = ", ".join(f"{_literal(name)}: 'JSON'" for name in names)
    return _Source(
        path, f"read_json(?, {options}, columns={{{columns}}})", parameters, names, is_json=True
    )


def _parquet_source(con: "duckdb.DuckDBPyConnection", path: Path) -> _Source:
    parameters = [glob.escape(str(path))]
    described = con.execute("DESCRIBE SELECT * FROM read_parquet(?)", parameters).fetchall()
    return _Source(path, "read_parquet(?)", parameters, [row[0] for row in described])


def _source(
    con: "duckdb.DuckDBPyConnection",
    path: Path,
    media: str,
    quoting: bool,
    header: Sequence[str] | None,
) -> _Source:
    if media in (CSV, TSV):
        return _csv_source(path, "," if media == CSV else "\t", quoting, header)
    if header is not None:
        raise InvalidInputError(f"{path}: `header` is for CSV and TSV files, this is {media}")
    return _parquet_source(con, path) if media == PARQUET else _json_source(con, path, media)


def _format(path: Path, media_type: str | None) -> str:
    if media_type is None:
        return media_type_of(path)
    if media_type not in MEDIA_TYPES:
        raise InvalidInputError(
            f"{path}: there is no built-in reader for the media type {media_type!r}; "
            f"there are readers for {', '.join(MEDIA_TYPES)}"
        )
    return MEDIA_TYPES[media_type]


@contextlib.contextmanager
def _plain_errors(path: Path) -> "Iterator[None]":
    """Turn duckdb's errors, which run over several lines, into one that names the file."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = re.sub(r"^[\w ]+ Error: ", "", lines[0]) if lines else type(error).__name__
        where = re.search(r"CSV Error on Line: (\d+)", text)
        if where:
            # The rule stands before the advice, and after the line itself, however long that is.
            advice = next((i for i, li in enumerate(lines) if li.startswith("Possible")), 0)
            rule = lines[advice - 1].rstrip(".")
            quotes = "; quoting=False takes quotes as they stand" if "quote" in rule else ""
            text = f"line {where[1]}: {rule}{quotes}"
        raise ArtifactError(f"{path}: {text}") from error


def column_names(
    path: str | Path,
    *,
    media_type: str | None = None,
    quoting: bool = True,
    header: Sequence[str] | None = None,
) -> list[str]:
    """Return the names of a file's columns (of the first file, for a glob)."""
    file = expand_paths(path)[0]
    media = _format(file, media_type)
    with _connection() as con, _plain_errors(file):
        return _source(con, file, media, quoting, header).names


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
    _check_file(file)
    with _connection() as con, _plain_errors(file):
        source = _source(con, file, _format(file, media_type), quoting, header)
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
        media = _format(path, media_type)
        with _connection() as con, _plain_errors(path):
            source = _source(con, path, media, quoting, header)
            wanted = kinds or dict.fromkeys(source.names, "any")
            parts.append(_read(con, source, wanted, media in (CSV, TSV), pick))
    if any(part.keys() != parts[0].keys() for part in parts[1:]):
        odd = next(i for i, part in enumerate(parts) if part.keys() != parts[0].keys())
        raise ArtifactError(
            f"{expand_paths(paths)[odd]}: columns {list(parts[odd])} differ from those of the "
            f"first file, {list(parts[0])}"
        )
    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Return one file's column below another's, as if the files were one."""
    if len(arrays) == 1:
        return arrays[0]
    if len({array.dtype.kind for array in arrays if len(array)}) > 1 and any(
        array.dtype == object for array in arrays
    ):  # numbers in one file, words in another: text, as if it were one file
        arrays = [array if array.dtype == object else array.astype(str) for array in arrays]
        return np.concatenate([array.astype(object) for array in arrays])
    return np.concatenate(arrays)


def _read(
    con: "duckdb.DuckDBPyConnection",
    source: _Source,
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
        selected += [f"{_quoted(name)} AS {name}" for name in source.names[-2:]]
    fetched = con.execute(
        f"SELECT {', '.join(selected)} FROM {source.sql}",  # noqa: S608
        source.parameters,
    ).fetchnumpy()
    result = {}
    if pick is not None:
        result = {ROW: fetched[source.names[-2]], KEY: fetched[source.names[-1]]}
    for i, (name, kind) in enumerate(wanted.items()):
        column = fetched[f"c{i}"]
        if kind == "number":
            result[name] = _checked_numbers(con, source, name, column, result.get(ROW))
        else:
            plain = _without_mask(column)
            if kind == "any" and source.is_json:
                plain = _parsed(plain)
            result[name] = _guessed(plain) if kind == "any" and guess else plain
    return result


def _check_columns(source: _Source, columns: Iterable[str]) -> None:
    for name in columns:
        if name not in source.names:
            raise MissingColumnError(
                f"{source.path}: there is no column {name!r}; the columns are "
                f"{', '.join(map(repr, source.names))}"
            )


def _picked(source: _Source, pick: RowPick) -> _Source:
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
        f"SELECT *, md5({_literal(f'{pick.seed}:{pick.salt}:')} || {of_row}) AS {key} "  # noqa: S608
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


def _expression(name: str, kind: str, source: _Source) -> str:
    column = _quoted(name)
    if source.is_json:
        if kind == "any":
            return column
        column = f"({column}->>'$')"
    if kind == "number":
        return _NUMBER.format(column)
    return f"CAST({column} AS VARCHAR)" if kind == "text" else column


def _without_mask(column: Any) -> NDArray[Any]:
    """Return a plain array: None in objects, NaN in floats, None in a masked integer column."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    if not column.mask.any():
        return np.asarray(column.data)
    if column.dtype.kind == "f":
        return np.asarray(column.filled(np.nan))
    if column.dtype.kind in "mM":
        return np.asarray(column.filled(np.datetime64("NaT")))
    plain = column.data.astype(object)
    plain[column.mask] = None
    return np.asarray(plain)


def _checked_numbers(
    con: "duckdb.DuckDBPyConnection",
    source: _Source,
    name: str,
    column: Any,
    rows: NDArray[Any] | None,
) -> NDArray[np.float64]:
    values = np.asarray(np.ma.filled(column, np.nan), dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        shown = (
            f"({_quoted(name)}->>'$')" if source.is_json else f"CAST({_quoted(name)} AS VARCHAR)"
        )
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


def _parsed(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column of JSON texts as values; numbers alone become a numeric array."""
    values = [None if cell is None else json.loads(cell) for cell in column.tolist()]
    types = {type(value) for value in values}
    if values and types <= {bool}:
        return np.array(values, dtype=np.bool_)
    if values and types <= {int, float}:
        with contextlib.suppress(OverflowError):
            return np.array(values, dtype=np.int64 if types == {int} else np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def _guessed(column: NDArray[Any]) -> NDArray[Any]:
    """Return a CSV column as numbers if every cell is one; "007" and "" keep it text."""
    if column.dtype != object or not len(column):
        return column
    cells = column.tolist()
    for pattern, dtype in ((_INTEGER, np.int64), (_DECIMAL, np.float64)):
        if all(cell is not None and cell != "" and pattern.fullmatch(cell) for cell in cells):
            try:
                return np.array(cells, dtype=object).astype(dtype)
            except ValueError:  # "." and "e5" match the pattern but are no numbers
                return column
    return column


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
    """Write columns as a file of rows; equal columns give equal bytes.

    Parameters
    ----------
    columns : mapping of str to array-like
        Equal lengths; object columns hold text or None.
    path : path
        Replaced as a whole or not at all.
    media_type : str, optional
        By default what the name says.

    Returns
    -------
    Path
        ``path``.

    Raises
    ------
    InvalidInputError
        If there is no column, lengths differ, or a text cannot be encoded.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.jsonl"
    >>> print(write_table({"id": ["a"], "score": [0.5]}, path).read_text(), end="")
    {"id":"a","score":0.5}
    """
    target = Path(path)
    media = _format(target, media_type)
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
        # an all-empty object column has no type of its own
        f"CAST({_quoted(name)} AS VARCHAR) AS {_quoted(name)}"
        if array.dtype == object
        else _quoted(name)
        for name, array in arrays.items()
    )
    gzipped = ", COMPRESSION gzip" if target.suffix.lower() == ".gz" and media != PARQUET else ""
    with _connection() as con, _plain_errors(target), replace_atomic(target) as temporary:
        con.register("rows_to_write", arrays)
        con.execute(
            f"COPY (SELECT {selected} FROM rows_to_write) TO {_literal(str(temporary))} "  # noqa: S608
            f"({_COPY[media]}{gzipped})"
        )
    return target


def _column(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind in "US" else array
