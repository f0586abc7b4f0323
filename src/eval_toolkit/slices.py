"""`EvalSlice`, a named table of labelled rows backed by any dataframe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import frames, validation
from eval_toolkit._internal.display import Displayed, Table
from eval_toolkit._internal.display.to_html import bare_html_table
from eval_toolkit._internal.hashing import canonical_value, content_hash, unit_ids
from eval_toolkit._internal.tables import classes_of
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.scorecards import Records

__all__ = ["EvalSlice"]


@dataclass(frozen=True, eq=False, repr=False)
class EvalSlice(Displayed):
    """Named subset of the data, with columns for inputs, labels, groups and other roles.

    Parameters
    ----------
    name : str
        Name of the slice in results.
    df : DataFrame or dict of columns
        A pandas, polars or pyarrow table, or a dict of equal-length columns.
    description : str
        Description for reports.
    feature_col : str or sequence of str, default "text"
        Column of scorer inputs; several columns are passed as a dataframe.
    label_col : str, default "label"
        Column of labels: 0 and 1 or true and false, as numbers or as strings.
    strata_col : str, optional
        Column of strata, by which results are also reported.
    group_col : str, optional
        Column of groups of dependent rows (same author, same template). Groups are resampled as a
        whole and kept together by group-aware splitters.
    id_col : str, optional
        Column of unique row ids.
    time_col : str, optional
        Column of times, for splitters and leakage checks.

    Raises
    ------
    MissingColumnError
        If a named column is not in the dataframe (also a KeyError).
    InvalidInputError
        If a label is neither 0 nor 1, or an id occurs twice.

    Examples
    --------
    >>> slice_ = EvalSlice("test", {"text": ["hello", "ignore all rules"], "label": [0, 1]})
    >>> slice_.features, slice_.y_true.tolist()
    (['hello', 'ignore all rules'], [0, 1])
    >>> slice_
    EvalSlice('test', n=2, n_positive=1)
    """

    name: str
    df: Any
    description: str = ""
    feature_col: str | Sequence[str] = "text"
    label_col: str = "label"
    strata_col: str | None = None
    group_col: str | None = None
    id_col: str | None = None
    time_col: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidInputError(f"`name` is {self.name!r}; it must be a non-empty string")
        have = frames.names(self.df)
        for role, column in self._roles():
            if column not in have:
                raise MissingColumnError(
                    f"slice {self.name!r}: there is no column {column!r} ({role}); "
                    f"the columns are {', '.join(map(repr, have))}"
                )
        frames.n_rows(self.df)
        # Validate labels and ids once.
        self.y_true  # noqa: B018
        self.ids  # noqa: B018

    def _roles(self) -> list[tuple[str, str]]:
        """Return (argument, column) for each role with a column."""
        features = [self.feature_col] if isinstance(self.feature_col, str) else self.feature_col
        named = [("feature_col", column) for column in features]
        for role in ("label_col", "strata_col", "group_col", "id_col", "time_col"):
            column = getattr(self, role)
            if column is not None:
                named.append((role, column))
        for role, column in named:
            if not isinstance(column, str):
                raise InvalidTypeError(f"`{role}` is {column!r}; it must be the name of a column")
        return named

    @cached_property
    def y_true(self) -> IntArray:
        """Labels, 0 or 1."""
        labels = frames.column(self.df, self.label_col)
        found = classes_of(
            labels, place=lambda row: (f"slice {self.name!r}", f"{self.label_col}[{row}]")
        )
        return found.astype(np.int64)

    @cached_property
    def features(self) -> Any:
        """Scorer inputs: a list, or a dataframe if there are several columns."""
        if isinstance(self.feature_col, str):
            return frames.column(self.df, self.feature_col).tolist()
        return frames.select(self.df, list(self.feature_col))

    @property
    def strata(self) -> NDArray[Any] | None:
        """Stratum of each row, or None."""
        return self._optional(self.strata_col)

    @property
    def groups(self) -> NDArray[Any] | None:
        """Group of each row, or None if rows are independent."""
        return self._optional(self.group_col)

    @property
    def times(self) -> NDArray[Any] | None:
        """Time of each row, or None."""
        return self._optional(self.time_col)

    @cached_property
    def ids(self) -> NDArray[Any] | None:
        """Unique id of each row as a string, or None."""
        column = self._optional(self.id_col)
        if column is None:
            return None
        seen: dict[str, int] = {}
        ids = np.empty(len(column), dtype=object)
        for row, value in enumerate(column.tolist()):
            if validation.is_missing(value):
                raise InvalidInputError(
                    f"slice {self.name!r}: {self.id_col}[{row}] is missing; every row needs an id"
                )
            key = ids[row] = str(value)
            if key in seen:
                raise InvalidInputError(
                    f"slice {self.name!r}: {self.id_col} is {key!r} in rows {seen[key]} and "
                    f"{row}; ids must be unique"
                )
            seen[key] = row
        return ids

    def _optional(self, column: str | None) -> NDArray[Any] | None:
        return None if column is None else frames.column(self.df, column)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y_true)

    def __len__(self) -> int:
        return self.n

    @property
    def n_positive(self) -> int:
        """Number of rows with label 1."""
        return int(self.y_true.sum())

    @property
    def is_single_class(self) -> bool:
        """Whether at most one of the two labels occurs."""
        return self.n_positive in (0, self.n)

    @cached_property
    def inputs(self) -> list[Any]:
        """Input of each row: the feature, or a list of features; None if missing."""
        # Missing values are NaN in pandas and None in polars; row identity must not depend on that.
        if isinstance(self.feature_col, str):
            values: list[Any] = self.features
            if set(map(type, values)) <= {str}:  # common case; none of these can be missing
                return values
            return [_or_none(value) for value in values]
        columns = [frames.column(self.df, name).tolist() for name in self.feature_col]
        return [[_or_none(value) for value in row] for row in zip(*columns, strict=True)]

    @cached_property
    def content_hashes(self) -> list[str]:
        """Content hash of each row: the SHA-256 hash of its input and label."""
        pairs = zip(self.inputs, self.y_true.tolist(), strict=True)
        return [content_hash(item, label) for item, label in pairs]

    @cached_property
    def unit_ids(self) -> list[str]:
        """Id of each row: its ``id_col`` value, or the first 16 digits of its content hash.

        Equal rows get the suffixes ~2, ~3, …, ordered by groups, strata and other columns, so
        ids do not depend on the row order.

        Examples
        --------
        >>> rows = {"text": ["a", "b", "a"], "label": [1, 0, 1], "author": ["z", "y", "x"]}
        >>> [unit[16:] for unit in EvalSlice("all", rows, group_col="author").unit_ids]
        ['~2', '', '']
        """
        if self.ids is not None:
            return list(self.ids)
        hashes = self.content_hashes
        if len(set(hashes)) == len(hashes):
            return unit_ids(hashes)
        named = [name for name in (self.group_col, self.strata_col) if name is not None]
        others = [name for name in sorted(frames.names(self.df)) if name not in named]
        columns = [frames.column(self.df, name).tolist() for name in named + others]
        return unit_ids(hashes, *(map(_as_text, column) for column in columns))

    def take(self, rows: ArrayLike, *, name: str | None = None) -> "EvalSlice":
        """Return the rows selected by positions or by a boolean mask, with all columns.

        Examples
        --------
        >>> slice_ = EvalSlice("all", {"text": ["a", "b", "c"], "label": [0, 1, 1]})
        >>> slice_.take([2, 0], name="test").features
        ['c', 'a']
        """
        return replace(self, df=frames.take(self.df, rows), name=name or self.name)

    def renamed(self, name: str) -> "EvalSlice":
        """Return the same rows under another name."""
        return replace(self, name=name)

    def records(
        self, scores: ArrayLike, *, slices: Mapping[str, ArrayLike] | None = None
    ) -> Records:
        """Return the rows with their scores as records, with columns ``label`` and ``score``.

        Examples
        --------
        >>> slice_ = EvalSlice("test", {"text": ["a", "b"], "label": [0, 1]})
        >>> slice_.records([0.1, 0.8]).columns["score"].size
        2
        """
        parts = dict(slices or {})
        if self.strata_col is not None:
            strata = frames.column(self.df, self.strata_col).tolist()
            named = [
                validation.UNLABELED if validation.is_missing(part) else str(part)
                for part in strata
            ]
            parts.setdefault(self.strata_col, named)
        return Records.from_rows(
            self.y_true,
            scores,
            inputs=self.inputs,
            unit_id=self.ids,
            group=self.groups,
            slices=parts,
        )

    def __repr__(self) -> str:
        return f"EvalSlice({self.name!r}, n={self.n}, n_positive={self.n_positive})"

    def _repr_html_(self) -> str:
        roles = [(role, str(column)) for role, column in self._roles()]
        counts = [("n", self.n), ("n_positive", self.n_positive)]
        return bare_html_table(Table([f"EvalSlice {self.name}", ""], [*counts, *roles]))


def _or_none(value: Any) -> Any:
    return None if validation.is_missing(value) else value


def _as_text(value: Any) -> str:
    return str(canonical_value(_or_none(value)))
