"""Formats of tabular files, and expansion of paths and globs."""

import codecs
import glob
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eval_toolkit._internal.files import is_file, is_there, named_alike
from eval_toolkit._internal.tables.spool import STDIN, shown, stdin_file
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError

CSV = "text/csv"
TSV = "text/tab-separated-values"
JSONL = "application/jsonl"
JSON = "application/json"
PARQUET = "application/vnd.apache.parquet"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

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
    XLSX: XLSX,
}
"""Maps supported media types to the canonical media type of their format."""

_SUFFIXES = {
    ".csv": CSV,
    ".tsv": TSV,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".json": JSON,
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".xlsx": XLSX,
}


@dataclass(frozen=True)
class FileFormat:
    """Format of tabular files; settings are detected per file if None.

    Parameters
    ----------
    media_type : str, optional
        Media type; inferred from the file name by default.
    quoting : bool, default True
        Whether quotes enclose cells; otherwise CSV and TSV cells are read literally.
    header : tuple of str, optional
        Column names, for CSV and TSV files without a header.
    separator : str, optional
        Separator of cells in CSV and TSV files.
    decimal : {".", ","}, optional
        Decimal mark of numbers in CSV and TSV files.

    Raises
    ------
    InvalidInputError
        If the separator or the decimal mark is invalid.

    Examples
    --------
    >>> FileFormat(separator=";", decimal=",").quoting
    True
    """

    media_type: str | None = None
    quoting: bool = True
    header: tuple[str, ...] | None = None
    separator: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        mark = self.separator
        if mark is not None and (len(mark) != 1 or mark in '"\r\n' or not mark.isascii()):
            raise InvalidInputError(
                f"`separator` is {mark!r}; it must be one ASCII character, such as ; or | (on the command line also: tab)"
            )
        if self.decimal not in (None, ".", ","):
            raise InvalidInputError(f"`decimal` is {self.decimal!r}; it must be . or ,")
        if self.header is not None:
            object.__setattr__(self, "header", tuple(self.header))


def media_type_of(path: str | Path) -> str:
    """Return the media type for a file name, ignoring a ``.gz`` suffix.

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
        f"{path}: cannot infer the format from the name; it must end in "
        f"{', '.join(_SUFFIXES)} (optionally with .gz); the format of standard input, -, is detected"
    )


def expand_paths(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """Expand paths and globs to files; matches of a glob are sorted.

    ``-`` denotes standard input, which is copied to a private file.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if sum(str(path) == STDIN for path in given) > 1:
        raise InvalidInputError("- was given twice; standard input can be read only once")
    files: list[Path] = []
    for path in given:
        if str(path) == STDIN:
            files.append(stdin_file(_suffix_of))
            continue
        if is_there(path) or not glob.has_magic(str(path)):
            files.append(Path(path))
            continue
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207
        if not matches:
            raise MissingFileError(f"{path}: no file matches")
        files += map(Path, matches)
    if not files:
        raise InvalidInputError("no files were given")
    for file in files:
        check_file(file)
    return files


def check_file(path: Path) -> None:
    if not is_there(path):
        raise MissingFileError(f"{path}: no such file{named_alike(path)}")
    if not is_file(path):
        pipe = " (a pipe is read from standard input: pass -)" if path.is_fifo() else ""
        raise ArtifactError(f"{path}: not a file{pipe}")
    if path.stat().st_size == 0:
        raise ArtifactError(f"{shown(path)}: the file is empty (0 bytes)")


def format_of(path: Path, media_type: str | None) -> str:
    if media_type is None:
        return media_type_of(path)
    if media_type not in MEDIA_TYPES:
        raise InvalidInputError(
            f"{path}: no built-in reader supports the media type {media_type!r}; "
            f"use one of {', '.join(MEDIA_TYPES)}"
        )
    return MEDIA_TYPES[media_type]


def _suffix_of(begin: bytes) -> str:
    """Return the file name suffix that matches the first bytes of a file."""
    if begin.startswith(b"PAR1"):
        return ".parquet"
    if begin.startswith(b"PK\x03\x04"):
        return ".xlsx"
    text = begin.removeprefix(codecs.BOM_UTF8).lstrip()
    if text.startswith(b"["):
        return ".json"
    if text.startswith(b"{"):
        # An object on a single line indicates JSONL, one over several lines a JSON document.
        return ".jsonl" if text.split(b"\n", 1)[0].rstrip().endswith(b"}") else ".json"
    return ".csv"
