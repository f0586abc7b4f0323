"""Loaders of in-memory data."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal import frames, validation
from eval_toolkit._internal.tables import LabelMap, Rows
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.loaders._croissant import description
from eval_toolkit.slices import EvalSlice


@dataclass(frozen=True, slots=True)
class DataFrameLoader:
    """Loader of one slice per value of a column.

    Parameters
    ----------
    df : DataFrame or dict of columns
        pandas, polars or pyarrow, or a plain dict of equal-length columns.
    split_col : str
        Column with each row's split.
    feature_col, label_col, strata_col : str
        Column roles, as in `EvalSlice`.
    name, description, cite_as, license, url : str
        Metadata for `describe`.
    group_col, id_col, time_col : str, optional
        Other column roles.
    label_map : mapping of label to 0 or 1, optional
        Classes of labels other than 0 and 1.

    Raises
    ------
    MissingColumnError
        If a column is missing (also a KeyError).
    InvalidInputError
        When loading, if a split or a label is missing, or a label is neither 0 nor 1.

    Examples
    --------
    >>> rows = {"text": ["a", "b", "c"], "label": [0, 1, 1], "split": ["train", "test", "train"]}
    >>> DataFrameLoader(rows, "split").load_splits()
    {'train': EvalSlice('train', n=2, n_positive=1), 'test': EvalSlice('test', n=1, n_positive=1)}
    """

    df: Any
    split_col: str
    feature_col: str = "text"
    label_col: str = "label"
    strata_col: str | None = None
    name: str = ""
    description: str = ""
    cite_as: str = ""
    license: str = ""
    url: str = ""
    _: KW_ONLY
    group_col: str | None = None
    id_col: str | None = None
    time_col: str | None = None
    label_map: Mapping[Any, int] | None = None

    def __post_init__(self) -> None:
        have = frames.names(self.df)
        roles = ("split", "feature", "label", "strata", "group", "id", "time")
        for role in roles:
            column = getattr(self, f"{role}_col")
            if column is not None and column not in have:
                raise MissingColumnError(
                    f"there is no column {column!r} ({role}_col); the columns are "
                    f"{', '.join(map(repr, have))}"
                )
        LabelMap.of_mapping(self.label_map)

    def load_splits(self) -> dict[str, EvalSlice]:
        """Return one slice per split, in order of first occurrence."""
        splits = frames.column(self.df, self.split_col)
        distinct, codes = validation.object_codes(splits.astype(object), self.split_col)
        for code, value in enumerate(distinct):
            if validation.is_missing(value) or not str(value):
                row = int(np.argmax(codes == code))
                raise InvalidInputError(
                    f"{self.split_col}[{row}] is missing; every row needs a split"
                )
        frame = self._labelled()
        return {
            str(value): EvalSlice(
                name=str(value),
                df=frames.take(frame, codes == code),
                feature_col=self.feature_col,
                label_col=self.label_col,
                strata_col=self.strata_col,
                group_col=self.group_col,
                id_col=self.id_col,
                time_col=self.time_col,
            )
            for code, value in enumerate(distinct)
        }

    def _labelled(self) -> Any:
        """Return the frame with its labels mapped, if there is a label map."""
        labels = frames.column(self.df, self.label_col)
        if self.label_map is None and labels.dtype.kind in "biuf":
            return self.df  # EvalSlice reports any other problem with labels
        rows = Rows({self.label_col: labels}, title="`df`")
        mapped = rows.classes(self.label_col, LabelMap.of_mapping(self.label_map))
        return frames.with_column(self.df, self.label_col, mapped.astype(np.int64))

    def describe(self) -> dict[str, object]:
        """Return a Croissant description; without a file, ``distribution`` is empty."""
        return description(self, [], n_total_rows=frames.n_rows(self.df), split_col=self.split_col)


@dataclass(frozen=True, slots=True)
class SingleSliceLoader:
    """Loader of one slice under the name "all".

    Parameters
    ----------
    slice_ : EvalSlice
        Slice to load.
    name, description : str
        Metadata for `describe`; by default those of the slice.

    Examples
    --------
    >>> slice_ = EvalSlice("demo", {"text": ["a", "b"], "label": [0, 1]})
    >>> SingleSliceLoader(slice_).load_splits()
    {'all': EvalSlice('all', n=2, n_positive=1)}
    """

    slice_: EvalSlice
    name: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.slice_, EvalSlice):
            raise InvalidTypeError(
                f"`slice_` is a {type(self.slice_).__name__}; it must be an EvalSlice"
            )

    def load_splits(self) -> dict[str, EvalSlice]:
        """Return ``{"all": slice}``."""
        return {"all": self.slice_.renamed("all")}

    def describe(self) -> dict[str, object]:
        """Return a Croissant description; without a file, ``distribution`` is empty."""
        described = description(self, [], n_total_rows=self.slice_.n)
        described["name"] = self.name or self.slice_.name
        described["description"] = self.description or self.slice_.description
        return described
