"""Loaders for CSV, TSV, JSONL, JSON, Parquet and Excel files, also gzipped and by glob."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import frames, tables, validation
from eval_toolkit._internal.tables import FileFormat, LabelMap, RowPick, Rows, read_rows
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.loaders._croissant import description, field_of, local_file, record_set
from eval_toolkit.seeds import resolve_seed
from eval_toolkit.slices import EvalSlice

Paths = str | Path | Sequence[str | Path]
_TEXT_ROLES = ("strata_col", "group_col", "id_col")


@dataclass(frozen=True, slots=True)
class FileLoader:
    r"""Loader of slices from files of rows.

    Files are read through duckdb. ``columns``, ``where``, ``limit`` and ``sample_size`` are
    applied while reading, so a file far larger than memory can be used if the selected part
    fits.

    Parameters
    ----------
    source : path, list of paths, or mapping of split name to either
        Files or globs: .csv, .tsv, .jsonl, .ndjson, .json, .parquet, .pq, .xlsx (with openpyxl),
        text formats also with .gz; ``-`` for standard input. Without a mapping or
        ``split_col``, there is one slice, "all".
    split_col : str, optional
        Column with each row's split; one slice per value, in order of first occurrence.
    feature_col, label_col, strata_col, group_col, id_col, time_col : str
        Column roles, as in `EvalSlice`. ``feature_col`` may be several columns.
    label_map : mapping of label to 0 or 1, optional
        Class of each string label: ``{"ham": 0, "spam": 1}``. By default labels are 0 and 1
        or true and false, as numbers or as strings (``TRUE``, ``1.00``).
    columns : sequence of str, optional
        Columns to keep in addition to those with a role; by default all, ``[]`` for none.
    text_cols : sequence of str, optional
        Feature columns read as strings regardless of their content; by default ``feature_col`` if it
        is one column. Strata, groups, ids and splits are always strings.
    missing_text : str, optional
        Text for empty cells of text columns; by default they are an error.
    where : mapping of str to value or sequence of values, optional
        Keep only rows whose column has one of the values, compared as strings.
    limit : int, optional
        Maximum number of rows of each split, taken from the start.
    sample_size : int, optional
        Size of a random sample of each split, in file order; all rows if there are fewer. With an
        ``id_col`` the sample depends only on ids. Smaller samples of the same seed are subsets of
        larger ones.
    seed : int, default 42
        Random seed of the sample.
    media_type : str, optional
        Media type, if the file names do not determine it.
    quoting : bool, default True
        Whether quotes are interpreted in CSV and TSV files.
    header : sequence of str, optional
        Column names of CSV and TSV files without a header.
    separator, decimal : str, optional
        Separator of cells and decimal mark of CSV and TSV files; detected by default.
    backend : {"pandas", "polars", "pyarrow", "columns"}, optional
        Library of the slices' frames; by default the first that is installed.
    name, description, cite_as, license, url : str
        Metadata for `describe`.

    Raises
    ------
    ArtifactError
        When loading, if a file is missing (also a FileNotFoundError), empty or malformed.
    MissingColumnError
        When loading, if a column is missing (also a KeyError).
    InvalidInputError
        If arguments contradict each other; when loading, if a label, a text or a split is
        missing or invalid. The message names file, row and value.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sms.tsv"
    >>> _ = path.write_text("ham\tsee you\nspam\tWIN now\n")
    >>> loader = FileLoader(
    ...     path, header=["label", "text"], quoting=False, label_map={"ham": 0, "spam": 1}
    ... )
    >>> loader.load_splits()
    {'all': EvalSlice('all', n=2, n_positive=1)}
    """

    source: Paths | Mapping[str, Paths]
    _: KW_ONLY
    split_col: str | None = None
    feature_col: str | Sequence[str] = "text"
    label_col: str = "label"
    strata_col: str | None = None
    group_col: str | None = None
    id_col: str | None = None
    time_col: str | None = None
    label_map: Mapping[Any, int] | None = None
    columns: Sequence[str] | None = None
    text_cols: Sequence[str] | None = None
    missing_text: str | None = None
    where: Mapping[str, Any] | None = None
    limit: int | None = None
    sample_size: int | None = None
    seed: int = 42
    media_type: str | None = None
    quoting: bool = True
    header: Sequence[str] | None = None
    separator: str | None = None
    decimal: str | None = None
    backend: str | None = None
    name: str = ""
    description: str = ""
    cite_as: str = ""
    license: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.source, Mapping):
            if not self.source:
                raise InvalidInputError("`source` is empty; pass at least one split")
            if self.split_col is not None:
                raise InvalidInputError(
                    "`source` and `split_col` both define the splits; pass only one of them"
                )
        if self.limit is not None and self.sample_size is not None:
            raise InvalidInputError(
                "pass either `limit` (first rows) or `sample_size` (random), not both"
            )
        for name in ("limit", "sample_size"):
            if getattr(self, name) is not None:
                validation.integer(getattr(self, name), name, low=1)
        for name in ("columns", "text_cols", "header"):
            if isinstance(getattr(self, name), str):
                raise InvalidTypeError(f"`{name}` is {getattr(self, name)!r}; it must be a list")
        for column, values in (self.where or {}).items():
            if not _as_texts(values):
                raise InvalidInputError(f"where[{column!r}] is empty; pass at least one value")
        object.__setattr__(self, "seed", resolve_seed(self.seed))
        self._format()
        LabelMap.of_mapping(self.label_map)

    def load_splits(self) -> dict[str, EvalSlice]:
        """Read the files and return the slices by name."""
        if isinstance(self.source, Mapping):
            found = {name: tables.expand_paths(paths) for name, paths in self.source.items()}
            return {name: self._slice(name, files, self._pick()) for name, files in found.items()}
        files = tables.expand_paths(self.source)
        if self.split_col is None:
            return {"all": self._slice("all", files, self._pick())}
        return {
            split: self._slice(split, files, self._pick({self.split_col: [split]}))
            for split in self._split_values(files)
        }

    def _split_values(self, files: list[Path]) -> list[str]:
        """Return the values of the split column that ``where`` allows."""
        column = self.split_col or ""
        seen: dict[str, None] = {}
        for file in files:
            found = tables.distinct_values(file, column, self._format())
            for value, row in found.items():
                if not value:
                    raise InvalidInputError(
                        f"{file}: row {row}: {column!r} is missing; every row needs a split"
                    )
                seen[value] = None
        allowed = (self.where or {}).get(column)
        return [value for value in seen if allowed is None or value in _as_texts(allowed)]

    def _pick(self, also: Mapping[str, list[str]] | None = None) -> RowPick:
        where = {name: _as_texts(values) for name, values in (self.where or {}).items()}
        return RowPick(
            where={**where, **(also or {})},
            limit=self.limit,
            sample_size=self.sample_size,
            seed=self.seed,
            key=self.id_col,
        )

    def _format(self) -> FileFormat:
        header = None if self.header is None else tuple(self.header)
        return FileFormat(self.media_type, self.quoting, header, self.separator, self.decimal)

    def _features(self) -> list[str]:
        return [self.feature_col] if isinstance(self.feature_col, str) else list(self.feature_col)

    def _texts(self) -> list[str]:
        if self.text_cols is not None:
            return list(self.text_cols)
        return [self.feature_col] if isinstance(self.feature_col, str) else []

    def _slice(self, name: str, files: list[Path], pick: RowPick) -> EvalSlice:
        roles = [getattr(self, role) for role in _TEXT_ROLES]
        texts = [*self._texts(), *(role for role in (*roles, self.split_col) if role is not None)]
        texts = [text for text in dict.fromkeys(texts) if text != self.label_col]
        typed = [*self._features(), *([self.time_col] if self.time_col else [])]
        some = pick.where or pick.limit is not None or pick.sample_size is not None
        rows = read_rows(
            files,
            texts=texts,
            labels=[self.label_col],
            columns=[*typed, *(self.columns or ())],
            rest=self.columns is None,
            pick=pick if some else None,
            file_format=self._format(),
            may_be_empty=True,
        )
        if self.where and not len(rows):
            raise InvalidInputError(
                f"{files[0]}: no row of split {name!r} satisfies where={dict(self.where)}"
            )
        return EvalSlice(
            name=name,
            df=frames.from_columns(self._cleaned(rows), self.backend),
            description=self.description,
            feature_col=self.feature_col,
            label_col=self.label_col,
            strata_col=self.strata_col,
            group_col=self.group_col,
            id_col=self.id_col,
            time_col=self.time_col,
        )

    def _cleaned(self, rows: Rows) -> dict[str, NDArray[Any]]:
        """Return the columns with labels as 0 and 1, and missing texts replaced or rejected."""
        columns = dict(rows.columns)
        labels = rows.classes(self.label_col, LabelMap.of_mapping(self.label_map))
        columns[self.label_col] = labels.astype(np.int64)
        for name in self._texts():
            gaps = np.array([cell is None for cell in columns[name].tolist()], dtype=bool)
            if not gaps.any():
                continue
            if self.missing_text is None:
                raise InvalidInputError(
                    f"{rows.where(int(np.argmax(gaps)))}: {name!r} is empty; pass missing_text='' "
                    "to read it as an empty string"
                )
            columns[name] = np.where(gaps, self.missing_text, columns[name]).astype(object)
        return columns

    def describe(self) -> dict[str, object]:
        """Return the Croissant description with the hashes of all files."""
        splits = self.source if isinstance(self.source, Mapping) else {"all": self.source}
        found = {split: tables.expand_paths(paths) for split, paths in splits.items()}
        names = _short_names([file for files in found.values() for file in files])
        entries = {
            file: local_file(file, name, self.media_type or tables.media_type_of(file))
            for file, name in names.items()
        }
        records = [
            record_set(
                split if len(files) == 1 else f"{split}/{names[file]}", self._fields(entries[file])
            )
            for split, files in found.items()
            for file in files
        ]
        extras = {} if self.split_col is None else {"split_col": self.split_col}
        return description(self, list(entries.values()), records, **extras)

    def _fields(self, file: Mapping[str, Any]) -> list[dict[str, Any]]:
        texts = [*self._texts(), *(getattr(self, role) for role in _TEXT_ROLES), self.split_col]
        kinds = {name: "sc:Text" for name in texts if name is not None}
        kinds[self.label_col] = "sc:Integer" if self.label_map is None else "sc:Text"
        return [field_of(name, kind, file) for name, kind in kinds.items()]


@dataclass(frozen=True, slots=True)
class ParquetGlobLoader:
    """Loader of one slice per split from Parquet files; `FileLoader` is more general.

    Parameters
    ----------
    splits : mapping of str to str
        Glob by split name; matches are sorted and concatenated.
    feature_col, label_col, strata_col : str
        Column roles, as in `EvalSlice`.
    name, description, cite_as, license, url : str
        Metadata for `describe`.

    Raises
    ------
    ArtifactError
        When loading, if a glob matches nothing (also a FileNotFoundError).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from eval_toolkit._internal.tables import write_table
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = write_table({"text": ["a", "b"], "label": [0, 1]}, folder / "test-0.parquet")
    >>> ParquetGlobLoader({"test": str(folder / "test-*.parquet")}).load_splits()
    {'test': EvalSlice('test', n=2, n_positive=1)}
    """

    splits: Mapping[str, str]
    feature_col: str = "text"
    label_col: str = "label"
    strata_col: str | None = None
    name: str = ""
    description: str = ""
    cite_as: str = ""
    license: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.splits, Mapping):
            raise InvalidTypeError(
                f"`splits` is {self.splits!r}; it must be a dict of split name to glob"
            )
        self._files()

    def _files(self) -> FileLoader:
        return FileLoader(
            self.splits,
            feature_col=self.feature_col,
            label_col=self.label_col,
            strata_col=self.strata_col,
            media_type=tables.PARQUET,
            name=self.name or type(self).__name__,
            description=self.description,
            cite_as=self.cite_as,
            license=self.license,
            url=self.url,
        )

    def load_splits(self) -> dict[str, EvalSlice]:
        """Read the files and return the slices by name."""
        return self._files().load_splits()

    def describe(self) -> dict[str, object]:
        """Return the Croissant description with the hashes of all files."""
        return self._files().describe()


def _as_texts(values: Any) -> list[str]:
    several = isinstance(values, Iterable) and not isinstance(values, (str, bytes))
    return [
        str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)
        for value in (values if several else [values])
    ]


def _short_names(files: list[Path]) -> dict[Path, str]:
    """Return a short unique name for each file: the last part of its path, or more if needed."""
    distinct = list(dict.fromkeys(files))
    if len({file.name for file in distinct}) == len(distinct):
        return {file: file.name for file in distinct}
    shared = os.path.commonpath([file.absolute() for file in distinct])
    return {file: file.absolute().relative_to(shared).as_posix() for file in distinct}
