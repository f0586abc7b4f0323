"""Loaders of Hugging Face datasets, from the hub or from a local folder."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import frames, tables, validation
from eval_toolkit._internal.files import is_file, is_folder
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.tables import LabelMap, Rows
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
)
from eval_toolkit.loaders._croissant import description, file_object, local_file
from eval_toolkit.slices import EvalSlice

_SAVED = ("dataset_dict.json", "dataset_info.json")
_DATA_SUFFIXES = (".arrow", ".csv", ".tsv", ".json", ".jsonl", ".parquet")
_HUB = "https://huggingface.co/datasets"


@dataclass(frozen=True, slots=True)
class HFDatasetsLoader:
    """Loader of slices from a dataset supported by the ``datasets`` library (extra ``hf``).

    Parameters
    ----------
    repo_id : str
        Dataset on the hub, or a local folder of data files or written by ``save_to_disk``. A local
        folder needs no network.
    splits : sequence of str, optional
        Splits to load; all by default.
    feature_col, label_col, strata_col : str
        Column roles, as in `EvalSlice`.
    config_name : str, optional
        Configuration of the dataset.
    feature_cols : sequence of str, optional
        Columns to join into ``feature_col``.
    feature_join : str
        Separator of joined texts.
    label_map : mapping of label to 0 or 1, optional
        Classes by label value, or by class name if the dataset has class names.
    revision : str, optional
        Branch, tag or commit on the hub; use a commit to pin the data.
    name, description, cite_as, license, url : str
        Metadata for `describe`.
    fetch_remote_metadata : bool, default True
        Whether `describe` queries the hub for files and hashes.
    group_col, id_col, time_col : str, optional
        Other column roles.
    columns : sequence of str
        Additional columns to keep.
    backend : {"pandas", "polars", "pyarrow", "columns"}, optional
        Library of the slices' frames; by default the first that is installed.
    cache_dir : path, optional
        Cache folder of ``datasets``; by default its own.

    Raises
    ------
    MissingExtraError
        When loading, if ``datasets`` is not installed (also an ImportError).
    ArtifactError
        When loading, if the dataset cannot be loaded.
    MissingColumnError
        When loading, if a split or a column is missing (also a KeyError).
    InvalidInputError
        When loading, if a text to join is missing or a label is neither 0 nor 1.

    Examples
    --------
    >>> loader = HFDatasetsLoader("fancyzhx/ag_news", ["test"], fetch_remote_metadata=False)
    >>> loader.describe()["url"]
    'https://huggingface.co/datasets/fancyzhx/ag_news'
    """

    repo_id: str
    splits: Sequence[str] | None = None
    feature_col: str = "text"
    label_col: str = "label"
    strata_col: str | None = None
    config_name: str | None = None
    feature_cols: Sequence[str] | None = None
    feature_join: str = "\n\n"
    label_map: Mapping[Any, int] | None = None
    revision: str | None = None
    name: str = ""
    description: str = ""
    cite_as: str = ""
    license: str = ""
    url: str = ""
    fetch_remote_metadata: bool = True
    _: KW_ONLY
    group_col: str | None = None
    id_col: str | None = None
    time_col: str | None = None
    columns: Sequence[str] = ()
    backend: str | None = None
    cache_dir: str | Path | None = None

    def __post_init__(self) -> None:
        for name in ("splits", "feature_cols", "columns"):
            if isinstance(getattr(self, name), str):
                raise InvalidTypeError(f"`{name}` is {getattr(self, name)!r}; it must be a list")
        if self.feature_cols is not None and not self.feature_cols:
            raise InvalidInputError("`feature_cols` is empty; specify the columns to join")
        LabelMap.of_mapping(self.label_map)

    @property
    def _folder(self) -> Path | None:
        folder = Path(self.repo_id)
        return folder if is_folder(folder) else None

    def load_splits(self) -> dict[str, EvalSlice]:
        """Load the dataset and return one slice per split."""
        loaded = self._load()
        if not isinstance(loaded, dict):  # a single split, saved by itself
            loaded = {str(loaded.split or "all"): loaded}
        wanted = list(loaded) if self.splits is None else list(self.splits)
        for split in wanted:
            if split not in loaded:
                raise MissingColumnError(
                    f"{self.repo_id}: there is no split {split!r}; the splits are "
                    f"{', '.join(map(repr, loaded))}"
                )
        return {split: self._slice(split, loaded[split]) for split in wanted}

    def _load(self) -> Any:
        datasets = require("datasets", feature="HFDatasetsLoader", extra="hf")
        folder = self._folder
        try:
            if folder is not None and any(is_file(folder / name) for name in _SAVED):
                return datasets.load_from_disk(str(folder))
            return datasets.load_dataset(
                self.repo_id,
                self.config_name,
                revision=None if folder is not None else self.revision,
                cache_dir=None if self.cache_dir is None else str(self.cache_dir),
            )
        except Exception as error:  # the library raises its own, network and pyarrow errors
            reason = " ".join(str(error).split())
            raise ArtifactError(
                f"{self.repo_id}: datasets cannot load it: {type(error).__name__}: {reason}"
            ) from error

    def _slice(self, split: str, dataset: Any) -> EvalSlice:
        joined = list(self.feature_cols or ())
        roles = [self.label_col, self.strata_col, self.group_col, self.id_col, self.time_col]
        kept = [name for name in (*roles, *self.columns) if name is not None]
        if not joined:
            kept.insert(0, self.feature_col)
        have = list(dataset.column_names)
        for name in (*joined, *kept):
            if name not in have:
                raise MissingColumnError(
                    f"{self.repo_id}: split {split!r} has no column {name!r}; the columns are "
                    f"{', '.join(map(repr, have))}"
                )

        plain = dataset.with_format(None)
        columns = {name: _array(list(plain[name])) for name in dict.fromkeys(kept)}
        named = {self.label_col: self._named(dataset, columns[self.label_col])}
        rows = Rows(named, title=f"{self.repo_id}: split {split!r}")
        if joined:
            columns[self.feature_col] = self._joined(plain, joined, rows)
        labels = rows.classes(self.label_col, LabelMap.of_mapping(self.label_map))
        columns[self.label_col] = labels.astype(np.int64)
        return EvalSlice(
            name=split,
            df=frames.from_columns(columns, self.backend),
            description=self.description,
            feature_col=self.feature_col,
            label_col=self.label_col,
            strata_col=self.strata_col,
            group_col=self.group_col,
            id_col=self.id_col,
            time_col=self.time_col,
        )

    def _joined(self, dataset: Any, names: list[str], rows: Rows) -> NDArray[Any]:
        columns = [list(dataset[name]) for name in names]
        for name, values in zip(names, columns, strict=True):
            for row, value in enumerate(values):
                if validation.is_missing(value):
                    raise InvalidInputError(
                        f"{rows.where(row)}: {name!r} is missing; every joined column needs a text"
                    )
        return _array([self.feature_join.join(map(str, row)) for row in zip(*columns, strict=True)])

    def _named(self, dataset: Any, values: NDArray[Any]) -> NDArray[Any]:
        """Return class numbers as class names if the label map uses names."""
        names = getattr(dataset.features[self.label_col], "names", None)
        if not names or self.label_map is None or not set(names) & set(self.label_map):
            return values
        return _array(
            [
                names[value] if value is not None and value >= 0 else None
                for value in values.tolist()
            ]
        )

    def describe(self) -> dict[str, object]:
        """Return the Croissant description.

        The data files of a local folder are hashed. For a dataset on the hub, the hub is queried
        (unless ``fetch_remote_metadata`` is False); if it does not respond, a RuntimeWarning is
        issued and ``distribution`` is empty.
        """
        extras: dict[str, Any] = {"config_name": self.config_name, "revision": self.revision}
        folder = self._folder
        if folder is not None:
            files = sorted(file for file in folder.rglob("*") if file.suffix in _DATA_SUFFIXES)
            entries = [
                local_file(file, file.relative_to(folder).as_posix(), _media(file))
                for file in files
            ]
            return description(self, entries, **extras)
        found = self._remote_files() if self.fetch_remote_metadata else []
        described = description(self, found, **extras)
        described["name"] = self.name or self.repo_id
        described["url"] = self.url or f"{_HUB}/{self.repo_id}"
        return described

    def _remote_files(self) -> list[dict[str, Any]]:
        try:
            hub = require("huggingface_hub", feature="metadata of the hub", extra="hf")
            info = hub.HfApi().dataset_info(
                self.repo_id, revision=self.revision, files_metadata=True
            )
        except Exception as error:  # no network, dataset or library: all are handled alike
            warnings.warn(
                f"{self.repo_id}: the hub returned no metadata ({type(error).__name__}); "
                f"describe() "
                "lists no files",
                RuntimeWarning,
                stacklevel=3,
            )
            return []
        commit = info.sha or self.revision or "main"
        return [
            file_object(
                file.rfilename,
                f"{_HUB}/{self.repo_id}/resolve/{commit}/{file.rfilename}",
                file.lfs.sha256,
                file.size,
                _media(Path(file.rfilename)),
            )
            for file in info.siblings or []
            if file.lfs is not None  # the hub has no sha256 of small files
        ]


def _array(values: list[Any]) -> NDArray[Any]:
    """Return numbers as a numeric array, other values as objects."""
    if values and {type(value) for value in values} <= {int, float}:
        return np.array(values)
    return np.fromiter(values, dtype=object, count=len(values))


def _media(file: Path) -> str:
    try:
        return tables.media_type_of(file)
    except InvalidInputError:
        is_arrow = file.suffix == ".arrow"
        return "application/vnd.apache.arrow.stream" if is_arrow else "application/octet-stream"
