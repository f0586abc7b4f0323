"""Formats and paths: what a file's name says, and which files a glob means."""

import glob
from collections.abc import Iterable
from pathlib import Path

from eval_toolkit._files import is_file, is_there
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError

__all__ = [
    "CSV",
    "JSON",
    "JSONL",
    "MEDIA_TYPES",
    "PARQUET",
    "TSV",
    "check_file",
    "expand_paths",
    "format_of",
    "media_type_of",
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

_SUFFIXES = {
    ".csv": CSV,
    ".tsv": TSV,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".json": JSON,
    ".parquet": PARQUET,
    ".pq": PARQUET,
}


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
        if is_there(path) or not glob.has_magic(str(path)):
            files.append(Path(path))
            continue
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207
        if not matches:
            raise MissingFileError(f"{path}: no file matches")
        files += map(Path, matches)
    if not files:
        raise InvalidInputError("no file was given")
    for file in files:
        check_file(file)
    return files


def check_file(path: Path) -> None:
    if not is_there(path):
        raise MissingFileError(f"{path}: no such file")
    if not is_file(path):
        raise ArtifactError(f"{path}: not a file")
    if path.stat().st_size == 0:
        raise ArtifactError(f"{path}: the file is empty (0 bytes)")


def format_of(path: Path, media_type: str | None) -> str:
    if media_type is None:
        return media_type_of(path)
    if media_type not in MEDIA_TYPES:
        raise InvalidInputError(
            f"{path}: there is no built-in reader for the media type {media_type!r}; "
            f"there are readers for {', '.join(MEDIA_TYPES)}"
        )
    return MEDIA_TYPES[media_type]
