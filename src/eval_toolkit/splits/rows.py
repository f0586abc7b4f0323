"""Splitters for independent rows."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.seeds import resolve_seed
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits._folds import (
    Fold,
    checked_slice,
    enough_per_class,
    fold_of,
    group_codes,
    refuse_groups,
    sklearn_seed,
)
from eval_toolkit.splits.parts import assign_parts


@dataclass(frozen=True, slots=True)
class HoldoutSplitter:
    """Single split into train and test.

    Rows are assigned as in scikit-learn's ``train_test_split`` with the same seed, but keep their
    order. If the slice has a ``group_col`` or ``groups`` are passed, whole groups are assigned, and
    sizes and class balance are approximate.

    Parameters
    ----------
    test_size : float, default 0.2
        Fraction of test rows, strictly between 0 and 1.
    stratify : bool, default True
        Whether to preserve the fraction of positives in both parts.
    seed : int, default 42
        Random seed of the split.

    Raises
    ------
    InvalidInputError
        If ``test_size`` is not in (0, 1); when splitting, if a part or one of its classes would be
        empty.

    Examples
    --------
    >>> slice_ = EvalSlice("all", {"text": list("abcdefghij"), "label": [0, 1] * 5})
    >>> [fold] = HoldoutSplitter(test_size=0.4).iter_folds(slice_)
    >>> fold["train"].n, fold["test"].n, fold["test"].n_positive
    (6, 4, 2)
    """

    test_size: float = 0.2
    stratify: bool = True
    seed: int = 42
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "test_size", validation.fraction(self.test_size, "test_size"))
        object.__setattr__(self, "seed", resolve_seed(self.seed))

    def iter_folds(self, slice_: EvalSlice, *, groups: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield the single fold."""
        slice_ = checked_slice(slice_)
        if groups is None and slice_.group_col is None:
            train, test = self._rows(slice_)
        else:
            codes, _ = group_codes(slice_, groups, None, "HoldoutSplitter")
            part = assign_parts(
                slice_,
                {"train": 1.0 - self.test_size, "test": self.test_size},
                stratify=self.stratify,
                blocks=codes,
                seed=self.seed,
            )
            train, test = np.flatnonzero(part == 0), np.flatnonzero(part == 1)
        yield fold_of(slice_, np.sort(train), np.sort(test))

    def _rows(self, slice_: EvalSlice) -> tuple[ArrayLike, ArrayLike]:
        from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

        stratified = self.stratify and not slice_.is_single_class
        n_test = int(np.ceil(self.test_size * slice_.n))
        n_train = slice_.n - n_test
        if n_train < 1:
            raise InvalidInputError(
                f"slice {slice_.name!r}: test_size={self.test_size} of {slice_.n} row(s) leaves "
                "no training row"
            )
        if stratified:
            enough_per_class(slice_, 2)
            if min(n_train, n_test) < 2:
                raise InvalidInputError(
                    f"slice {slice_.name!r}: test_size={self.test_size} of {slice_.n} rows gives "
                    f"{n_train} training and {n_test} test row(s); both need a row of each class "
                    "(or pass stratify=False)"
                )
        kind = StratifiedShuffleSplit if stratified else ShuffleSplit
        splitter = kind(1, test_size=self.test_size, random_state=sklearn_seed(self.seed))
        train, test = next(splitter.split(np.zeros(slice_.n), slice_.y_true))
        return train, test

    def get_n_splits(self, slice_: EvalSlice | None = None) -> int:
        """Return 1."""
        return 1

    def reseeded(self, seed: int) -> "HoldoutSplitter":
        """Return a copy of the splitter with another seed."""
        return replace(self, seed=seed)


@dataclass(frozen=True, slots=True)
class StratifiedKFoldSplitter:
    """K folds with equal proportions of positives; each row is tested once.

    The folds are those of scikit-learn's ``StratifiedKFold`` for the same seed.

    Parameters
    ----------
    k : int, default 5
        Number of folds, at least 2.
    shuffle : bool, default True
        Whether to shuffle; otherwise, the rows of each class are assigned in contiguous blocks.
    seed : int, default 42
        Random seed of the shuffle.
    ignore_groups : bool, default False
        Whether to ignore the groups of a slice.

    Raises
    ------
    InvalidInputError
        If ``k`` < 2; when splitting, if a class has fewer rows than folds, or the slice has a
        ``group_col`` or ``groups`` are passed and would be split.

    Examples
    --------
    >>> slice_ = EvalSlice("all", {"text": list("abcdefghij"), "label": [0, 1] * 5})
    >>> folds = list(StratifiedKFoldSplitter(k=5).iter_folds(slice_))
    >>> len(folds), folds[0]["test"].y_true.tolist()
    (5, [0, 1])
    """

    k: int = 5
    shuffle: bool = True
    seed: int = 42
    ignore_groups: bool = field(default=False, kw_only=True)
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", validation.integer(self.k, "k", low=2))
        object.__setattr__(self, "seed", resolve_seed(self.seed))

    def iter_folds(self, slice_: EvalSlice, *, groups: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield ``k`` folds."""
        from sklearn.model_selection import StratifiedKFold

        slice_ = checked_slice(slice_)
        refuse_groups(
            slice_,
            groups,
            self.ignore_groups,
            "StratifiedKFoldSplitter",
            "StratifiedGroupKFoldSplitter",
        )
        enough_per_class(slice_, self.k)
        random_state = sklearn_seed(self.seed) if self.shuffle else None
        splitter = StratifiedKFold(self.k, shuffle=self.shuffle, random_state=random_state)
        for train, test in splitter.split(np.zeros(slice_.n), slice_.y_true):
            yield fold_of(slice_, train, test)

    def get_n_splits(self, slice_: EvalSlice | None = None) -> int:
        """Return ``k``."""
        return self.k

    def reseeded(self, seed: int) -> "StratifiedKFoldSplitter":
        """Return a copy of the splitter with another seed."""
        return replace(self, seed=seed)
