"""Data sources of tasks: rows in memory, files, or the ``datasets`` library."""

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from eval_toolkit._internal import tables
from eval_toolkit._internal.files import is_file, is_folder, is_there
from eval_toolkit._internal.hashing import canonical_json, content_hash, sha256_file, sha256_text
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    MissingFileError,
)
from eval_toolkit.models.hub import hub_quietly
from eval_toolkit.tasks.reading import Row, checked_rows, read_labels, read_rows

_SAVED = ("dataset_dict.json", "state.json")
_SUBJECT, _SPLIT = "{subject}", "{split}"


class Source(Protocol):
    """Data source that returns rows by split, and by subject if it distinguishes subjects."""

    @property
    def by_subject(self) -> bool:
        """Whether `rows` requires a subject; otherwise, it returns the rows of all subjects."""
        ...

    def subjects(self) -> list[str]:
        """Return the available subjects, sorted, or an empty list if they are unknown."""
        ...

    def rows(self, split: str, subject: str | None) -> Sequence[Row]:
        """Return the rows of a split; if it does not exist, the error lists the existing splits."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the path, the revision, the hash and the files, as a JSON-serialisable dict."""
        ...


class MemorySource:
    """Data source for rows in memory: a list (the sample split), or one list per split."""

    by_subject = False

    def __init__(self, rows: Mapping[str, Any] | Sequence[Any], sample_split: str) -> None:
        given = rows if isinstance(rows, Mapping) else {sample_split: rows}
        self._rows = {
            split: checked_rows(part, f"rows[{split!r}]" if rows is given else "`rows`")
            for split, part in given.items()
        }

    def subjects(self) -> list[str]:
        """Return an empty list, because the rows are not divided by subject."""
        return []

    def rows(self, split: str, subject: str | None) -> list[Row]:
        """Return the rows of a split."""
        if split not in self._rows:
            raise InvalidInputError(
                f"`rows` has no split {split!r}; the splits are "
                f"{', '.join(map(repr, self._rows)) or 'none'}"
            )
        return self._rows[split]

    def describe(self) -> dict[str, Any]:
        """Return the hash of all rows."""
        return {"path": None, "revision": None, "sha256": rows_hash(self._rows), "files": {}}


def rows_hash(splits: Mapping[str, Sequence[Row]]) -> str:
    """Return the SHA-256 hash of all rows of all splits."""
    parts = (
        f"{split}\n" + "\n".join(content_hash(row, None) for row in splits[split])
        for split in sorted(splits)
    )
    return sha256_text("\n".join(parts))


class FileSource:
    """Data source for a file, a folder, a pattern with {split} or {subject}, or a path per split.

    Parameters
    ----------
    given : path, or mapping from split to path
        A file with the sample split; a folder with one file per split (``test.jsonl``,
        ``test-00000-of-00002.parquet``, ``arc_test.json``), optionally in one subfolder per
        subject; or a path per split.
    sample_split : str
        Split that a single file contains.
    labels : sequence of str
        Name patterns of label files next to the data files, with one label per line; "{stem}" is
        replaced by the name of the data file. The first file that exists provides the field
        "label".
    """

    def __init__(
        self,
        given: str | Path | Mapping[str, str | Path],
        sample_split: str,
        labels: Sequence[str] = (),
    ) -> None:
        self._given = dict(given) if isinstance(given, Mapping) else str(given)
        self._sample_split = sample_split
        self._labels = labels
        self._files: dict[Path, str] = {}
        self._cache: dict[tuple[Path, str], Sequence[Row]] = {}
        patterns = self._given.values() if isinstance(self._given, dict) else [self._given]
        self.by_subject = any(_SUBJECT in str(pattern) for pattern in patterns)

    def subjects(self) -> list[str]:
        """Return the subjects found in the file names of the sample split."""
        if not self.by_subject:
            return []
        pattern = self._pattern(self._sample_split) or ""
        # Search only one folder: a pattern may name the subject at every level of a large disk.
        head, tail = pattern.split(_SUBJECT, 1)
        first, slash, _ = tail.partition("/")
        start = head.rpartition("/")[2]
        exact = f"{re.escape(start)}(?P<subject>[^/]+)"
        exact += "(?P=subject)".join(map(re.escape, first.split(_SUBJECT)))
        before, after = glob.escape(head), "*".join(map(glob.escape, first.split(_SUBJECT)))
        paths = glob.glob(f"{before}*{after}")  # noqa: PTH207
        matches = [re.fullmatch(exact, path.rpartition("/")[2]) for path in paths]
        subjects = {match["subject"] for match in matches if match}
        found = sorted(
            one for one in subjects if not slash or is_there(Path(pattern.replace(_SUBJECT, one)))
        )
        if not found:
            raise MissingFileError(f"{pattern}: no file matches the pattern")
        return found

    def rows(self, split: str, subject: str | None) -> Sequence[Row]:
        """Return the rows in the files of a split; those of a single large file stay on disk."""
        paths = self._paths(split, subject)
        for path, only_named in paths:
            if (path, split) not in self._cache:
                self._cache[path, split] = self._read(path, split, only_named)
        if len(paths) == 1:
            return self._cache[paths[0][0], split]
        return [row for path, _ in paths for row in self._cache[path, split]]

    def _read(self, path: Path, split: str, only_named: bool) -> Sequence[Row]:
        rows = read_rows(path, split, only_named=only_named)
        self._files[path] = sha256_file(path)
        labels = self._label_file(path, rows)
        if labels is None:
            return rows
        self._files[labels] = sha256_file(labels)
        values = read_labels(labels)
        if len(values) != len(rows):
            raise ArtifactError(
                f"{labels}: contains {len(values)} labels, but {path} contains {len(rows)} rows"
            )
        return [{**row, "label": value} for row, value in zip(rows, values, strict=True)]

    def _label_file(self, path: Path, rows: Sequence[Row]) -> Path | None:
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
        tried = [path.parent / pattern.replace("{stem}", stem) for pattern in self._labels]
        found = next((file for file in tried if is_file(file)), None)
        if tried and found is None and not all("label" in row for row in rows):
            raise MissingFileError(
                f"{path}: the file has no label file next to it; looked for "
                f"{', '.join(file.name for file in tried)}"
            )
        return found

    def _pattern(self, split: str) -> str | None:
        if isinstance(self._given, dict):
            found = self._given.get(split)
            return None if found is None else str(found)
        return self._given.replace(_SPLIT, split)

    def _paths(self, split: str, subject: str | None) -> list[tuple[Path, bool]]:
        """Return the files of a split, and whether each file name must contain the split's name."""
        pattern = self._pattern(split)
        if pattern is None:
            raise InvalidInputError(
                f"`data` has no path for the split {split!r}; it has "
                f"{', '.join(map(repr, self._given))}"
            )
        if subject is not None:
            pattern = pattern.replace(_SUBJECT, subject)
        path = Path(pattern)
        if is_folder(path):
            return [(file, False) for file in _files_of_split(path, split)]
        names_split = isinstance(self._given, dict) or _SPLIT in self._given
        if not names_split and split != self._sample_split:
            if is_file(path) and tables.media_type_of(path) == tables.JSON:
                return [(path, True)]
            raise InvalidInputError(
                f"{path}: a single file provides only the split {self._sample_split!r}, not "
                f"{split!r}; pass a folder with a file named after each split, or a path with "
                "{split} in it"
            )
        if not is_file(path):
            raise MissingFileError(f"{path}: no such file")
        return [(path, False)]

    def describe(self) -> dict[str, Any]:
        """Return the names and hashes of the files read so far."""
        names = _names_apart(list(self._files))
        files = dict(sorted(zip(names, self._files.values(), strict=True)))
        one = next(iter(files.values())) if len(files) == 1 else None
        given = self._given
        return {
            "path": Path(given).name
            if isinstance(given, str)
            else {split: Path(path).name for split, path in given.items()},
            "revision": None,
            "sha256": one or sha256_text(canonical_json(files)),
            "files": files,
        }


def _names_apart(paths: Sequence[Path]) -> list[str]:
    """Return the shortest unique paths of files."""
    if not paths:
        return []
    common = os.path.commonpath([path.absolute().parent for path in paths])
    parts = [path.absolute().relative_to(common).parts for path in paths]
    for n in range(1, max(map(len, parts))):
        if len({part[-n:] for part in parts}) == len(parts):
            return ["/".join(part[-n:]) for part in parts]
    return ["/".join(part) for part in parts]


def _files_of_split(folder: Path, split: str) -> list[Path]:
    """Return the files in a folder whose names contain the name of the split."""
    named = re.compile(rf"(.*[-_.])?{re.escape(split)}([-_.].*)?")
    below = list(islice(folder.rglob("*"), _MOST_FILES + 1))
    if len(below) > _MOST_FILES:
        raise InvalidInputError(
            f"{folder}: contains more than {_MOST_FILES} files; pass only the data folder"
        )
    files = [file for file in sorted(below) if _is_table(file)]
    found = [
        file
        for file in files
        if named.fullmatch(file.name.split(".", 1)[0]) or file.parent.name == split
    ]
    if not found:
        there = ", ".join(file.name for file in files[:8]) or "none"
        raise InvalidInputError(
            f"{folder}: no data file is named after the split {split!r}; the files are {there}"
        )
    return found


def _is_table(file: Path) -> bool:
    try:
        return is_file(file) and bool(tables.media_type_of(file))
    except InvalidInputError:
        return False


_MOST_FILES = 20_000
"""Maximum number of files in a data folder and its subfolders."""
_BUILDERS = (
    *("arrow", "audiofolder", "cache", "csv", "eval", "generator", "hdf5", "imagefolder", "json"),
    *("pandas", "parquet", "pdffolder", "spark", "sql", "text", "videofolder", "webdataset", "xml"),
)
"""Names that the library reserves for generic readers, such as pandas and sql."""


class HubSource:
    """Data source for the ``datasets`` library: a dataset on the Hub, or a saved folder."""

    by_subject = True

    def __init__(self, path: str, revision: str | None, load: Callable[..., Any]) -> None:
        self._path = path
        self._revision = revision
        self._load = load
        self._loaded: dict[str | None, Any] = {}
        self._hashes: dict[str, str] = {}

    def subjects(self) -> list[str]:
        """Return an empty list, because subjects are configurations named by the task."""
        return []

    def rows(self, split: str, subject: str | None) -> list[Row]:
        """Return the rows of a split in the configuration named after the subject."""
        if subject not in self._loaded:
            self._loaded[subject] = self._load(path=self._path, name=subject)
        loaded = self._loaded[subject]
        if split not in loaded:
            raise InvalidInputError(
                f"{self._path}: there is no split {split!r}; the splits are "
                f"{', '.join(map(repr, loaded))}"
            )
        rows = [tables.plain_value(dict(row)) for row in loaded[split]]
        self._hashes[f"{subject or ''}/{split}"] = rows_hash({split: rows})
        return rows

    def describe(self) -> dict[str, Any]:
        """Return the path, the revision and the hash of the rows read so far."""
        listing = "\n".join(f"{name} {self._hashes[name]}" for name in sorted(self._hashes))
        return {
            "path": Path(self._path).name if is_folder(self._path) else self._path,
            "revision": self._revision,
            "sha256": sha256_text(listing),
            "files": {},
        }


def _packaged(datasets: Any) -> Iterable[str]:
    """Return the names of the library's generic file readers, which are not datasets."""
    modules = getattr(datasets, "packaged_modules", None)
    return getattr(modules, "_PACKAGED_DATASETS_MODULES", ())


def load_hub(path: str, name: str | None, revision: str | None) -> Any:
    """Load a dataset with the ``datasets`` library and return a mapping from split to rows."""
    datasets = require("datasets", feature=f"the dataset {path}", extra="hf")
    if path.lower() in {*_BUILDERS, *_packaged(datasets)}:
        raise InvalidInputError(
            f"{path}: is a file format of the datasets library, not a dataset; pass the path of "
            "the data file as `data`"
        )
    folder, reached = Path(path), ""
    try:
        if is_folder(folder) and any(is_file(folder / saved) for saved in _SAVED):
            loaded = datasets.load_from_disk(str(folder))
        else:
            with hub_quietly(datasets.config) as reached:
                loaded = datasets.load_dataset(path, name, revision=revision)
    except Exception as error:  # including errors of the network and of pyarrow
        reason = " ".join(str(error).split())
        raise ArtifactError(
            f"{path}: datasets cannot load it: {reached}{type(error).__name__}: {reason}"
        ) from error
    return loaded if isinstance(loaded, dict) else {str(loaded.split or "all"): loaded}


def open_source(
    given: str | Path | Mapping[str, str | Path],
    *,
    sample_split: str,
    labels: Sequence[str],
    revision: str | None,
    load: Callable[..., Any],
) -> Source:
    """Return the data source of a path: existing files, or else a dataset on the Hub."""
    for one in given.values() if isinstance(given, Mapping) else [given]:
        if not isinstance(one, (str, Path)):
            raise InvalidInputError(f"`data` is {one!r:.60}; it must be a path")
    if isinstance(given, Mapping):
        return FileSource(given, sample_split, labels)
    if str(given).startswith("~"):
        given = Path(given).expanduser()
    path = Path(given)
    if is_folder(path) and any(is_file(path / saved) for saved in _SAVED):
        return HubSource(str(given), revision, load)
    if is_there(path) or _SUBJECT in str(given) or _SPLIT in str(given):
        return FileSource(given, sample_split, labels)
    if isinstance(given, Path) or path.is_absolute() or str(given).startswith("."):
        raise MissingFileError(f"{given}: no such file or folder")
    try:
        tables.media_type_of(path)
    except InvalidInputError:  # not a file name: a dataset on the Hub
        return HubSource(str(given), revision, load)
    raise MissingFileError(f"{given}: no such file")
