"""Copy selected rows of a file to new files, byte for byte; write all files or none."""

import csv
import glob
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import tables
from eval_toolkit._internal.files import replace_atomic
from eval_toolkit._internal.tables import FileFormat
from eval_toolkit._internal.tables.sources import connection, literal, plain_errors
from eval_toolkit.errors import ArtifactError, InvalidInputError

_VALUE = re.compile(r"[^,\s]")


@dataclass(frozen=True)
class Copy:
    """A source file, and the target files to which its rows are copied."""

    source: Path
    n_rows: int
    """Expected number of rows; a source with any other number is rejected."""
    targets: Mapping[Path, NDArray[Any]]
    """Zero-based row numbers of each target; rows are written in the order of the source."""


def copy_rows(
    copies: Sequence[Copy],
    file_format: FileFormat = tables.AS_NAMED,
    *,
    inputs: Iterable[Path] = (),
) -> None:
    """Copy rows of files to new files of the same format; text formats byte for byte.

    Rows of Excel files are written as CSV. ``inputs`` are additional files that must not be
    overwritten. If the rows of a source cannot be separated, nothing is written.
    """
    used = {file.resolve() for file in (*(copy.source for copy in copies), *inputs)}
    for target in (target for copy in copies for target in copy.targets):
        if target.resolve() in used:
            raise InvalidInputError(f"{target}: is an input file; choose another folder")
    try:
        # Files replace their targets when the stack unwinds, after the last row has been written.
        with ExitStack() as stack:
            for copy in copies:
                written = {
                    stack.enter_context(replace_atomic(target)): rows
                    for target, rows in copy.targets.items()
                }
                _copy(replace(copy, targets=written), file_format)
    except OSError as error:
        where = next(iter(copies[0].targets)).parent
        raise InvalidInputError(f"{where}: cannot write: {error.strerror or error}") from error


def _copy(copy: Copy, how: FileFormat) -> None:
    media = tables.media_type_of(copy.source)
    if media == tables.PARQUET:
        for target, rows in copy.targets.items():
            _copy_parquet(copy.source, target, rows)
        return
    if media == tables.XLSX:
        columns = tables.read_table(copy.source, texts=tables.column_names(copy.source))
        for target, rows in copy.targets.items():
            kept = {name: column[np.sort(rows)] for name, column in columns.items()}
            tables.write_table(kept, target, media_type=tables.CSV)
        return
    wanted = {target: frozenset(rows.tolist()) for target, rows in copy.targets.items()}
    with ExitStack() as stack:
        stream = stack.enter_context(_opened(copy.source, "r", copy.source.suffix))
        outs = {
            target: stack.enter_context(_opened(target, "w", copy.source.suffix))
            for target in wanted
        }
        if media == tables.JSON:
            n = _copy_json(stream.read(), outs, wanted)
        elif media == tables.JSONL:
            n = _copy_records((line for line in stream if line.strip()), outs, wanted)
        else:
            separator, _ = tables.dialect_of(copy.source, media, how)
            records = _csv_records(stream, separator, how.quoting)
            names = "" if how.header is not None else next(records)
            for out in outs.values():
                out.write(names)
            n = _copy_records(records, outs, wanted)
    if n != copy.n_rows:
        raise ArtifactError(
            f"{copy.source}: its {copy.n_rows} rows cannot be separated (irregular line "
            "ends or quotes, see --no-quoting); nothing was written"
        )


def _opened(path: Path, mode: str, suffix: str) -> IO[str]:
    """Open a text file such that its bytes are preserved when read and written."""
    raw: Any = path.open(f"{mode}b")
    if suffix.lower() == ".gz":
        # no file name or timestamp, so that equal rows give equal bytes
        raw = _Gzip(raw, mode)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="")


class _Gzip(gzip.GzipFile):
    """A gzip stream that also closes the underlying file."""

    def __init__(self, raw: IO[bytes], mode: str) -> None:
        super().__init__(filename="", mode=f"{mode}b", fileobj=raw, mtime=0)
        self.raw = raw

    def close(self) -> None:
        """Close the gzip stream and the underlying file."""
        super().close()
        self.raw.close()


def _csv_records(stream: Iterable[str], delimiter: str, quoting: bool) -> Iterator[str]:
    """Yield the raw text of each record, i.e. the lines that the csv module parses as one row."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in stream:
            taken.append(line)
            yield line

    reader = (
        csv.reader(lines(), delimiter=delimiter)
        if quoting
        else csv.reader(lines(), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    )
    only_one = None
    for cells in reader:
        if only_one is None:
            only_one = len(cells) == 1
        if cells or only_one:  # a blank line is a missing value if there is only one column
            yield "".join(taken)
        taken.clear()


def _copy_records(
    records: Iterable[str], outs: Mapping[Path, IO[str]], wanted: Mapping[Path, frozenset[int]]
) -> int:
    n = 0
    for row, record in enumerate(records):
        n = row + 1
        for target, out in outs.items():
            if row in wanted[target]:
                out.write(record)
    return n


def _copy_json(
    text: str, outs: Mapping[Path, IO[str]], wanted: Mapping[Path, frozenset[int]]
) -> int:
    """Copy the selected values of a JSON array or of JSON lines; return the number of values."""
    decoder = json.JSONDecoder()
    text = text.removeprefix("\ufeff")
    is_array = text.lstrip().startswith("[")
    values, at = [], text.index("[") + 1 if is_array else 0
    while True:
        begin = _VALUE.search(text, at)
        if begin is None or begin[0] == "]":
            break
        at = decoder.raw_decode(text, begin.start())[1]
        values.append(text[begin.start() : at])
    for target, out in outs.items():
        kept = [value for row, value in enumerate(values) if row in wanted[target]]
        body = (",\n" if is_array else "\n").join(kept)
        out.write(f"[{body}]\n" if is_array else f"{body}\n")
    return len(values)


def _copy_parquet(source: Path, target: Path, rows: NDArray[Any]) -> None:
    number = "row_number_of_file"
    names = {name.lower() for name in tables.column_names(source)}
    while number in names:
        number += "_"
    kept = {"row": np.asarray(rows, dtype=np.int64)}
    file = literal(glob.escape(str(source)))
    with connection() as con, plain_errors(source):
        con.register("kept", kept)
        # Libraries store what Parquet cannot represent here: categories, time zones, an index.
        stored = con.execute(f"SELECT key, value FROM parquet_kv_metadata({file})").fetchall()  # noqa: S608
        metadata = ", ".join(
            f"{literal(key)}: {literal(value)}" for key, value in _metadata(stored).items()
        )
        also = f", KV_METADATA {{{metadata}}}" if metadata else ""
        con.execute(
            f"COPY (SELECT * EXCLUDE ({number}) FROM ("  # noqa: S608
            f"SELECT *, row_number() OVER () - 1 AS {number} "
            f"FROM read_parquet({file}, hive_partitioning = false)) "
            f"WHERE {number} IN (SELECT row FROM kept) ORDER BY {number}) "
            f"TO {literal(str(target))} (FORMAT parquet, COMPRESSION zstd{also})"
        )


def _metadata(stored: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the metadata that can be written: UTF-8 strings with names unique ignoring case."""
    found: dict[str, tuple[str, str]] = {}
    for key, value in stored:
        try:
            name, text = key.decode(), value.decode()
        except UnicodeDecodeError:
            continue
        if name:
            found.setdefault(name.lower(), (name, text))
    return dict(found.values())
