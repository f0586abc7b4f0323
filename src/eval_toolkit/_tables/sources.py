"""A file as a duckdb source: a FROM clause with its parameters, and the columns it has."""

import atexit
import codecs
import contextlib
import csv
import glob
import gzip
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._files import check_gzip, pieces_of
from eval_toolkit._tables.formats import CSV, JSON, JSONL, PARQUET, TSV
from eval_toolkit._tables.pages import check_pages
from eval_toolkit.errors import ArtifactError, InvalidInputError

if TYPE_CHECKING:
    import duckdb

__all__ = ["Source", "connection", "literal", "plain_errors", "quoted", "source_of"]


_MAX_LINE = 1 << 26  # bytes of one CSV line or JSON object; prompts can be long


@dataclass(frozen=True)
class Source:
    """One file as a FROM clause with its parameters, and the columns it has."""

    path: Path
    sql: str
    parameters: list[Any]
    names: list[str]
    is_json: bool = False
    typed: frozenset[str] = frozenset()
    """Columns that are no text in the file."""


_databases: "dict[int, duckdb.DuckDBPyConnection]" = {}
"""By process: a fork must not use its parent's."""


@contextlib.contextmanager
def connection() -> "Iterator[duckdb.DuckDBPyConnection]":
    """Yield a connection of its own to the process's one database in memory.

    A database takes a hundred times as long to open as a connection, and longer than most files
    take to read. It keeps nothing: no table, no file, no cache.
    """
    import duckdb

    con = _database().cursor()
    try:
        con.execute("SET enable_progress_bar = false")  # it would go to stdout, amid data
        yield con
    except BaseException:
        try:
            con.execute("SELECT 1")
        except duckdb.Error:  # after an error of its own a database answers nothing any more
            _databases.pop(os.getpid(), None)
        raise
    finally:
        con.close()


def _database() -> "duckdb.DuckDBPyConnection":
    import duckdb

    found = _databases.get(os.getpid())
    if found is not None:
        return found
    # One thread: rows keep their order and bytes repeat. Nothing is ever fetched from a network.
    made = duckdb.connect(
        config={
            "threads": 1,
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            # Pushed into the CSV reader, TRY_CAST would fail there instead of giving NULL here.
            "disabled_optimizers": "type_pushdown",
        }
    )
    with contextlib.suppress(duckdb.CatalogException):  # versions before 1.3 have no such cache
        made.execute("SET enable_external_file_cache = false")
    return _databases.setdefault(os.getpid(), made)


@atexit.register
def _close() -> None:
    """Close the database before duckdb itself goes."""
    made = _databases.pop(os.getpid(), None)
    if made is not None:
        made.close()


@contextlib.contextmanager
def plain_errors(path: Path) -> "Iterator[None]":
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


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_OTHER_FORMATS = {
    b"PAR1": "a Parquet file; name it .parquet",
    b"\x1f\x8b": "compressed with gzip; let its name end in .gz",
    b"PK\x03\x04": "a zip archive or an Excel file; save the table as CSV or Parquet",
    b"\xff\xfe": "encoded as UTF-16; save it as UTF-8",
    b"\xfe\xff": "encoded as UTF-16; save it as UTF-8",
}


def _refuse_other_formats(path: Path) -> None:
    """Raise if a file begins like one of another format than its name says."""
    check_gzip(path)  # duckdb unpacks without a look at lengths and checksums
    begin = next(pieces_of(path), b"")[:4]
    for magic, what in _OTHER_FORMATS.items():
        if begin.startswith(magic):
            raise ArtifactError(f"{path}: is {what}")


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}


def _refuse_other_separator(path: Path, names: Sequence[str], delimiter: str) -> None:
    """Raise if the one column is several names, joined by what separates in other files."""
    (name,) = names
    for other, word in _SEPARATORS.items():
        parts = name.split(other)
        if other != delimiter and len(parts) > 1 and all(part.strip() for part in parts):
            fix = " (a file separated by tabs is named .tsv)" if other == "\t" else ""
            raise ArtifactError(
                f"{path}: the columns seem to be separated by {word}: the first line is one cell, "
                f"{name!r:.80}; separate them by {_SEPARATORS[delimiter]}{fix}, or name the one "
                "column yourself (header)"
            )


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


def _csv_source(path: Path, delimiter: str, quoting: bool, header: Sequence[str] | None) -> Source:
    first = _first_record(path, delimiter, quoting)
    names = list(header) if header is not None else first
    if not any(name.strip() for name in names):
        raise ArtifactError(f"{path}: the first line is empty; it must hold the column names")
    if header is None and len(names) == 1:
        _refuse_other_separator(path, names, delimiter)
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
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    quote = "'\"'" if quoting else "''"
    sql = (
        f"read_csv(?, auto_detect=false, hive_partitioning=false, header={'false' if header is not None else 'true'}, "
        f"delim={literal(delimiter)}, quote={quote}, escape={quote}, "
        # by itself duckdb would take a buffer of sixteen lines of the largest size: a gigabyte
        f"columns={{{columns}}}, max_line_size={_MAX_LINE}, buffer_size={_MAX_LINE})"
    )
    return Source(path, sql, [glob.escape(str(path))], names)


_BLANKS = b" \t\r\n"


def _refuse_open_array(path: Path) -> None:
    """Raise if a file begins an array and does not end it: duckdb takes a comma for the end."""
    first, last, n, after = b"", b"", 0, 0
    for piece in pieces_of(path):
        first = first or piece.removeprefix(codecs.BOM_UTF8 if n == 0 else b"").lstrip(_BLANKS)[:1]
        if first not in (b"", b"["):
            return
        kept = piece.rstrip(_BLANKS)
        if kept:
            last, after = kept[-1:], n + len(kept)
        n += len(piece)
    if not first:
        raise ArtifactError(f"{path}: the file holds no JSON value")
    if last != b"]":
        raise ArtifactError(
            f"{path}: the JSON array is cut short: it ends at byte {after} with "
            f"{last.decode('latin-1')!r} and no ']'; get the whole file"
        )


def _json_source(con: "duckdb.DuckDBPyConnection", path: Path, media: str) -> Source:
    if media == JSON:
        _refuse_open_array(path)
    style = "newline_delimited" if media == JSONL else "auto"
    options = f"format='{style}', maximum_object_size={_MAX_LINE}"
    parameters = [glob.escape(str(path))]
    # Every row is looked at: a key that first occurs late is a column too.
    described = con.execute(
        f"DESCRIBE SELECT * FROM read_json(?, hive_partitioning=false, {options}, sample_size=-1, maximum_depth=1)",  # noqa: S608
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
    columns = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
    return Source(
        path,
        f"read_json(?, hive_partitioning=false, {options}, columns={{{columns}}})",
        parameters,
        names,
        is_json=True,
    )


_COLUMN_DEPTH = 48
"""Levels of a Parquet schema, in which a list takes two; duckdb's time doubles with each later."""


def _depth(n_children: Sequence[int]) -> int:
    """Return how deep a tree is whose nodes are listed from the root, each before its children."""
    left, deepest = [1], 0
    for n in n_children:
        while left and not left[-1]:
            left.pop()
        if not left:
            break
        left[-1] -= 1
        left.append(n)
        deepest = max(deepest, len(left) - 1)
    return deepest


def _parquet_source(con: "duckdb.DuckDBPyConnection", path: Path) -> Source:
    parameters = [glob.escape(str(path))]
    described = con.execute(
        "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)", parameters
    ).fetchall()
    check_pages(con, path)
    stored = con.execute("SELECT name, num_children FROM parquet_schema(?)", parameters).fetchall()
    if _depth([row[1] or 0 for row in stored]) > _COLUMN_DEPTH:
        raise ArtifactError(
            f"{path}: a column is nested too deeply (more than {_COLUMN_DEPTH} levels)"
        )
    own = {row[0] for row in stored}
    for name in (row[0] for row in described if row[0] not in own):
        # duckdb calls the second of two names that differ by case A_1
        stem = re.sub(r"_\d+$", "", name)
        raise ArtifactError(
            f"{path}: the column {stem!r} occurs twice, or differs from another by case only; "
            "rename one"
        )
    typed = frozenset(name for name, kind, *_ in described if kind != "VARCHAR")
    return Source(
        path,
        "read_parquet(?, hive_partitioning = false)",
        parameters,
        [row[0] for row in described],
        typed=typed,
    )


def source_of(
    con: "duckdb.DuckDBPyConnection",
    path: Path,
    media: str,
    quoting: bool,
    header: Sequence[str] | None,
) -> Source:
    if media != PARQUET:
        _refuse_other_formats(path)
    if media in (CSV, TSV):
        return _csv_source(path, "," if media == CSV else "\t", quoting, header)
    if header is not None:
        raise InvalidInputError(f"{path}: `header` is for CSV and TSV files, this is {media}")
    return _parquet_source(con, path) if media == PARQUET else _json_source(con, path, media)
