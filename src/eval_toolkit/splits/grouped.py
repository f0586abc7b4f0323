"""Splitters that keep groups of rows together."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.seeds import resolve_seed
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits._folds import (
    Fold,
    checked_slice,
    column_of,
    enough_groups,
    enough_per_class,
    fold_of,
    group_codes,
    sklearn_seed,
)


@dataclass(frozen=True, slots=True)
class GroupKFoldSplitter:
    """K folds of approximately equal size that never split a group between train and test.

    The folds are those of scikit-learn's ``GroupKFold``. They depend only on the groups and their
    sizes, not on the order of the rows.

    Parameters
    ----------
    k : int, default 5
        Number of folds, at least 2.
    group_col : str, optional
        Column of the group ids; by default the slice's ``group_col``. The ``groups`` argument of
        `iter_folds` overrides both.

    Raises
    ------
    InvalidInputError
        If ``k`` < 2; when splitting, if there are no groups, a group is missing, or there are fewer
        groups than folds.
    MissingColumnError
        When splitting, if the column is missing (also a KeyError).

    Examples
    --------
    >>> rows = {"text": list("abcdef"), "label": [0, 1] * 3, "author": [1, 1, 2, 2, 3, 3]}
    >>> slice_ = EvalSlice("all", rows, group_col="author")
    >>> [fold["test"].features for fold in GroupKFoldSplitter(k=3).iter_folds(slice_)]
    [['e', 'f'], ['c', 'd'], ['a', 'b']]
    """

    k: int = 5
    group_col: str | None = None
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", validation.integer(self.k, "k", low=2))

    def iter_folds(self, slice_: EvalSlice, *, groups: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield ``k`` folds."""
        from sklearn.model_selection import GroupKFold

        slice_ = checked_slice(slice_)
        codes, n_groups = group_codes(slice_, groups, self.group_col, "GroupKFoldSplitter")
        enough_groups(slice_, n_groups, self.k)
        for train, test in GroupKFold(self.k).split(np.zeros(slice_.n), groups=codes):
            yield fold_of(slice_, train, test)

    def get_n_splits(self, slice_: EvalSlice | None = None) -> int:
        """Return ``k``."""
        return self.k


@dataclass(frozen=True, slots=True)
class StratifiedGroupKFoldSplitter:
    """K folds with whole groups and approximately equal proportions of positives.

    The folds are those of scikit-learn's ``StratifiedGroupKFold`` for the same seed.

    Parameters
    ----------
    k : int, default 5
        Number of folds, at least 2.
    group_col : str, optional
        Column of the group ids; by default the slice's ``group_col``. The ``groups`` argument of
        `iter_folds` overrides both.
    shuffle : bool, default True
        Whether to shuffle groups with equal class counts.
    seed : int, default 42
        Random seed of the shuffle.

    Raises
    ------
    InvalidInputError
        If ``k`` < 2; when splitting, if there are no groups, a group is missing, or there are too
        few groups or rows of a class.
    MissingColumnError
        When splitting, if the column is missing (also a KeyError).

    Examples
    --------
    >>> rows = {"text": list("abcdefgh"), "label": [0, 1] * 4, "author": [1, 1, 2, 2, 3, 3, 4, 4]}
    >>> splitter = StratifiedGroupKFoldSplitter(k=2, group_col="author")
    >>> [fold["test"].n_positive for fold in splitter.iter_folds(EvalSlice("all", rows))]
    [2, 2]
    """

    k: int = 5
    group_col: str | None = None
    shuffle: bool = True
    seed: int = 42
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", validation.integer(self.k, "k", low=2))
        object.__setattr__(self, "seed", resolve_seed(self.seed))

    def iter_folds(self, slice_: EvalSlice, *, groups: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield ``k`` folds."""
        from sklearn.model_selection import StratifiedGroupKFold

        slice_ = checked_slice(slice_)
        name = "StratifiedGroupKFoldSplitter"
        codes, n_groups = group_codes(slice_, groups, self.group_col, name)
        enough_groups(slice_, n_groups, self.k)
        enough_per_class(slice_, self.k)
        random_state = sklearn_seed(self.seed) if self.shuffle else None
        splitter = StratifiedGroupKFold(self.k, shuffle=self.shuffle, random_state=random_state)
        for train, test in splitter.split(np.zeros(slice_.n), slice_.y_true, groups=codes):
            if not len(test) or not len(train):
                raise InvalidInputError(
                    f"slice {slice_.name!r}: the groups are too uneven for k={self.k} stratified "
                    "folds; use a smaller k or GroupKFoldSplitter"
                )
            yield fold_of(slice_, train, test)

    def get_n_splits(self, slice_: EvalSlice | None = None) -> int:
        """Return ``k``."""
        return self.k

    def reseeded(self, seed: int) -> "StratifiedGroupKFoldSplitter":
        """Return a copy of the splitter with another seed."""
        return replace(self, seed=seed)


@dataclass(frozen=True, slots=True)
class SourceDisjointKFoldSplitter:
    """Folds with disjoint training and test sources.

    The distinct sources are sorted, shuffled with the seed and dealt to the folds, so the folds do
    not depend on the order of the rows.

    Parameters
    ----------
    source_col : str
        Column with the source of each row.
    k : int, default 3
        Number of folds, at least 2; the number of sources if there are fewer.
    seed : int, default 42
        Random seed of the shuffle.

    Raises
    ------
    InvalidInputError
        If ``k`` < 2; when splitting, if a source is missing, there is only one, or ``groups`` are
        passed in addition to the column.
    MissingColumnError
        When splitting, if the column is missing (also a KeyError).

    Warns
    -----
    UserWarning
        If there are fewer sources than ``k``.

    Examples
    --------
    >>> rows = {"text": list("abcd"), "label": [0, 1, 0, 1], "source": ["web", "mail"] * 2}
    >>> splitter = SourceDisjointKFoldSplitter("source", k=2, seed=0)
    >>> [fold["test"].features for fold in splitter.iter_folds(EvalSlice("all", rows))]
    [['b', 'd'], ['a', 'c']]
    """

    source_col: str
    k: int = 3
    seed: int = 42
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", validation.integer(self.k, "k", low=2))
        object.__setattr__(self, "seed", resolve_seed(self.seed))

    def iter_folds(self, slice_: EvalSlice, *, groups: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield one fold per set of test sources."""
        slice_ = checked_slice(slice_)
        if groups is not None:
            raise InvalidInputError(
                "SourceDisjointKFoldSplitter splits by its source_col, but `groups` was given; "
                "use GroupKFoldSplitter for groups"
            )
        codes, n_sources = self._sources(slice_)
        k = min(self.k, n_sources)
        if k < self.k:
            warnings.warn(
                f"slice {slice_.name!r} has {n_sources} sources in {self.source_col!r}; "
                f"yielding {k} folds instead of {self.k}",
                UserWarning,
                stacklevel=2,
            )
        place = np.empty(n_sources, dtype=np.int64)
        place[np.random.default_rng(self.seed).permutation(n_sources)] = np.arange(n_sources) % k
        fold_of_row = place[codes]
        for fold in range(k):
            in_test = fold_of_row == fold
            yield fold_of(slice_, ~in_test, in_test)

    def _sources(self, slice_: EvalSlice) -> tuple[IntArray, int]:
        values = column_of(slice_, self.source_col)
        codes, n_sources = validation.group_codes(values, slice_.n, self.source_col)
        if n_sources < 2:
            raise InvalidInputError(
                f"slice {slice_.name!r} has one source in {self.source_col!r}; at least two are "
                "needed to hold one out"
            )
        return codes, n_sources

    def get_n_splits(self, slice_: EvalSlice) -> int:
        """Return ``k``, or the number of sources if it is smaller."""
        return min(self.k, self._sources(checked_slice(slice_))[1])

    def reseeded(self, seed: int) -> "SourceDisjointKFoldSplitter":
        """Return a copy of the splitter with another seed."""
        return replace(self, seed=seed)
