"""Files as duckdb sources (FROM clauses)."""

import atexit
import codecs
import contextlib
import csv
import glob
import gzip
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.files import check_gzip, is_gzip, open_regular, pieces_of
from eval_toolkit._internal.tables.dialect import MAX_LINE, dialect_of
from eval_toolkit._internal.tables.formats import CSV, JSON, JSONL, PARQUET, TSV, XLSX, FileFormat
from eval_toolkit._internal.tables.spool import copied, named
from eval_toolkit._internal.tables.workbooks import checked_names, write_lines
from eval_toolkit.errors import ArtifactError, EvalToolkitError, InvalidInputError

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Source:
    """A file as a FROM clause with its parameters and column names."""

    path: Path
    sql: str
    parameters: list[Any]
    names: list[str]
    is_json: bool = False
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Types of the columns of a Parquet file, as duckdb names them."""
    separator: str | None = None
    """Separator of cells in CSV and TSV files."""
    decimal: str | None = None
    """Decimal mark specified for CSV and TSV files."""


_databases: "dict[int, duckdb.DuckDBPyConnection]" = {}
"""Database by process id, because a fork must not use its parent's database."""


_DISABLED = "type_pushdown"
"""Pushed into the CSV reader, TRY_CAST would fail there instead of giving NULL here."""


@contextlib.contextmanager
def without_statistics(con: "duckdb.DuckDBPyConnection") -> "Iterator[None]":
    """Write columns read from Parquet as those in memory, although they are known to have no NULL."""
    con.execute(f"SET disabled_optimizers = '{_DISABLED},statistics_propagation'")
    try:
        yield
    finally:
        con.execute(f"SET disabled_optimizers = '{_DISABLED}'")


@contextlib.contextmanager
def connection() -> "Iterator[duckdb.DuckDBPyConnection]":
    """Yield a new connection to the in-memory database of this process.

    The database is shared because opening it takes longer than reading most files. It stores
    nothing: no table, no file, no cache.
    """
    import duckdb

    con = _database().cursor()
    try:
        con.execute("SET enable_progress_bar = false")  # it would be printed to stdout between data
        yield con
    except BaseException:
        try:
            con.execute("SELECT 1")
        except duckdb.Error:  # a fatal error invalidates the whole database
            _databases.pop(os.getpid(), None)
        raise
    finally:
        con.close()


def _database() -> "duckdb.DuckDBPyConnection":
    import duckdb

    found = _databases.get(os.getpid())
    if found is not None:
        return found
    # One thread: row order and output bytes are reproducible. No network access.
    made = duckdb.connect(
        config={
            "threads": 1,
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "disabled_optimizers": _DISABLED,
        }
    )
    with contextlib.suppress(duckdb.CatalogException):  # no such cache before version 1.3
        made.execute("SET enable_external_file_cache = false")
    return _databases.setdefault(os.getpid(), made)


@atexit.register
def _close() -> None:
    """Close the database before duckdb is unloaded."""
    made = _databases.pop(os.getpid(), None)
    if made is not None:
        made.close()


@contextlib.contextmanager
def plain_errors(path: Path) -> "Iterator[None]":
    """Convert duckdb errors to a one-line error that names the file."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise ArtifactError(f"{named(str(path))}: {_one_line(error)}") from error
    except EvalToolkitError as error:
        if named(str(error)) == str(error):
            raise
        raise type(error)(named(str(error))) from None


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = re.sub(r"^[\w ]+ Error: ", "", lines[0]) if lines else type(error).__name__
    where = re.search(r"CSV Error on Line: (\d+)", text)
    if not where:
        return text
    # duckdb's rule comes after the quoted line, of any length, and before its advice.
    advice = next((i for i, li in enumerate(lines) if li.startswith("Possible")), 0)
    rule = lines[advice - 1].rstrip(".")
    if "not utf-8 encoded" in rule:
        rule = "a character is not UTF-8; save the file as UTF-8"
    quotes = "; quoting=False treats quotes as ordinary characters" if "quote" in rule else ""
    return f"line {where[1]}: {rule}{quotes}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_OTHER_FORMATS = {
    b"PAR1": "a Parquet file; rename it to .parquet",
    b"\x1f\x8b": "compressed with gzip; rename it to end in .gz",
    b"PK\x03\x04": "a zip archive or an Excel file; rename an Excel file to .xlsx",
    b"\xff\xfe": "encoded as UTF-16; save it as UTF-8",
    b"\xfe\xff": "encoded as UTF-16; save it as UTF-8",
}


def _refuse_other_formats(path: Path, media: str) -> None:
    """Raise if the first bytes of a file do not match its name."""
    check_gzip(path)  # duckdb decompresses without verifying lengths and checksums
    begin = next(pieces_of(path), b"")[:64]
    for magic, what in _OTHER_FORMATS.items():
        if begin.startswith(magic):
            raise ArtifactError(f"{path}: is {what}")
    text = begin.removeprefix(codecs.BOM_UTF8).lstrip()
    if media in (CSV, TSV) and text.startswith((b'{"', b"[{", b"[\n")):
        raise ArtifactError(
            f"{path}: contains JSON; rename it to .jsonl (one object per line) or .json"
        )
    if media == JSONL and text.startswith(b"["):
        raise ArtifactError(f"{path}: contains a JSON array; rename it to .json")


def _csv_source(path: Path, media: str, how: FileFormat) -> Source:
    separator, first = dialect_of(path, media, how)
    names = checked_names(path, list(first if how.header is None else how.header))
    if how.header is not None and len(first) != len(names):
        raise ArtifactError(
            f"{path}: the first line has {len(first)} cells but `header` has {len(names)} names"
        )
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    quote = "'\"'" if how.quoting else "''"
    sql = (
        f"read_csv(?, auto_detect=false, hive_partitioning=false, header={'true' if how.header is None else 'false'}, "
        f"delim={literal(separator)}, quote={quote}, escape={quote}, "
        # by default duckdb would allocate sixteen lines of the maximum size: a gigabyte
        f"columns={{{columns}}}, max_line_size={MAX_LINE}, buffer_size={MAX_LINE})"
    )
    parameters = [glob.escape(str(path))]
    return Source(path, sql, parameters, names, separator=separator, decimal=how.decimal)


def may_mix_line_ends(source: Source, error: Exception) -> bool:
    """Return whether mixed line endings may be the reason for a CSV error."""
    signs = ("reached an invalid state", "unterminated quote")
    return (
        source.separator is not None
        and any(sign in str(error) for sign in signs)
        and any(b"\r" in piece for piece in pieces_of(source.path))
    )


def with_equal_lines(source: Source, how: FileFormat) -> Source:
    """Return a source with uniform line endings."""
    mark = str(source.separator)

    def write(path: Path, target: Path) -> None:
        opener = gzip.open if is_gzip(path) else open
        try:
            with (
                opener(path, "rt", encoding="utf-8-sig", newline="") as lines,
                target.open("x", encoding="utf-8", newline="") as copy,
            ):
                records = csv.reader(
                    lines,
                    delimiter=mark,
                    quoting=csv.QUOTE_MINIMAL if how.quoting else csv.QUOTE_NONE,
                    strict=True,
                )
                kept = (cells or [""] for cells in records if cells or len(source.names) == 1)
                csv.writer(copy, quoting=csv.QUOTE_ALL).writerows(kept)
        except UnicodeDecodeError:
            raise ArtifactError(f"{path}: a character is not UTF-8; save it as UTF-8") from None
        except csv.Error as error:
            raise ArtifactError(f"{path}: line {records.line_num}: {error}") from None

    copy = copied(source.path, f".{ord(mark)}.{how.quoting}.csv", write)
    read = _csv_source(copy, CSV, replace(how, separator=",", quoting=True))
    return replace(read, path=source.path, separator=source.separator)


_BLANKS = b" \t\r\n"


def _refuse_open_array(path: Path) -> None:
    """Raise if a JSON array is not closed; duckdb accepts a trailing comma as the end."""
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
        raise ArtifactError(f"{path}: the file contains no JSON value")
    if last != b"]":
        raise ArtifactError(
            f"{path}: the JSON array is truncated: it ends at byte {after} with "
            f"{last.decode('latin-1')!r} instead of ']'; restore the complete file"
        )


def _json_source(
    con: "duckdb.DuckDBPyConnection", path: Path, media: str, copy: Path | None = None
) -> Source:
    if media == JSON:
        _refuse_open_array(path)
    style = "auto" if media == JSON else "newline_delimited"
    options = f"format='{style}', maximum_object_size={MAX_LINE}"
    parameters = [glob.escape(str(copy or path))]
    # Scan every row: a key that first occurs late is also a column.
    described = con.execute(
        f"DESCRIBE SELECT * FROM read_json(?, hive_partitioning=false, {options}, sample_size=-1, maximum_depth=1)",  # noqa: S608
        parameters,
    ).fetchall()
    names = [row[0] for row in described]
    lowered = {name.lower(): name for name in names}
    for name in names:
        # duckdb renames the second of two keys that differ only by case to A_1, and finds no values
        # for it
        stem = re.sub(r"_\d+$", "", name)
        if stem not in names and stem.lower() in lowered:
            raise ArtifactError(
                f"{path}: the keys {lowered[stem.lower()]!r} and {stem!r} differ only in case; "
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
"""Maximum depth of a Parquet schema (two levels per list); duckdb's time is exponential in it."""


def _depth(n_children: Sequence[int]) -> int:
    """Return the depth of a tree from the number of children per node in preorder."""
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
    from eval_toolkit._internal.tables.parquet_pages import check_pages

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
        # duckdb renames the second of two names that differ only by case to A_1
        stem = re.sub(r"_\d+$", "", name)
        raise ArtifactError(
            f"{path}: the column {stem!r} occurs twice, or differs from another only in case; "
            "rename one"
        )
    return Source(
        path,
        "read_parquet(?, hive_partitioning = false)",
        parameters,
        [row[0] for row in described],
        kinds={name: kind for name, kind, *_ in described},
    )


def checked_place(con: "duckdb.DuckDBPyConnection", path: Path) -> str:
    """Verify a Parquet file, and return its path escaped for use in a query."""
    from eval_toolkit._internal.tables.parquet_pages import check_pages

    open_regular(path).close()  # opening a pipe would block the database
    check_pages(con, path)
    return glob.escape(str(path))


def source_of(con: "duckdb.DuckDBPyConnection", path: Path, how: FileFormat, media: str) -> Source:
    if media in (CSV, TSV):
        _refuse_other_formats(path, media)
        return _csv_source(path, media, how)
    if how.header is not None:
        raise InvalidInputError(
            f"{path}: `header` applies to CSV and TSV files; this file is {media}"
        )
    if media == PARQUET:
        return _parquet_source(con, path)
    if media == XLSX:
        return _json_source(con, path, media, copied(path, ".jsonl", write_lines))
    _refuse_other_formats(path, media)
    return _json_source(con, path, media)
