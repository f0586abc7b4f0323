"""Chronological splitters."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.times import read_times
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits._folds import Fold, checked_slice, column_of, fold_of, refuse_groups

_DEFAULT_TIME_COL = "timestamp"


@dataclass(frozen=True, slots=True)
class TimeSeriesSplitter:
    """K folds with an expanding window: each fold trains on all earlier rows.

    Rows are sorted by time (stable for ties). The test blocks are those of scikit-learn's
    ``TimeSeriesSplit`` on the sorted rows. Training rows with the same time as the first test row
    are excluded, because their order is unknown.

    Parameters
    ----------
    k : int, default 5
        Number of folds, at least 2. The rows are cut into k + 1 blocks.
    time_col : str, optional
        Column of numbers, dates or ISO 8601 strings. By default the slice's ``time_col``; without
        it, rows are assumed to be in chronological order.
    ignore_groups : bool, default False
        Whether to ignore the groups of a slice.

    Raises
    ------
    InvalidInputError
        If ``k`` < 2; when splitting, if there are too few rows, a time is missing or invalid, no
        row precedes the first test block, or the slice has a ``group_col`` or ``groups`` are
        passed.
    MissingColumnError
        When splitting, if the column is missing (also a KeyError).

    Examples
    --------
    >>> rows = {"text": list("dacb"), "label": [0, 1, 0, 1], "day": [4, 1, 3, 2]}
    >>> folds = TimeSeriesSplitter(k=3, time_col="day").iter_folds(EvalSlice("all", rows))
    >>> [(fold["train"].features, fold["test"].features) for fold in folds]
    [(['a'], ['b']), (['a', 'b'], ['c']), (['a', 'b', 'c'], ['d'])]
    """

    k: int = 5
    time_col: str | None = None
    ignore_groups: bool = field(default=False, kw_only=True)
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", validation.integer(self.k, "k", low=2))

    def iter_folds(self, slice_: EvalSlice, *, groups: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield ``k`` folds, earliest first."""
        from sklearn.model_selection import TimeSeriesSplit

        slice_ = checked_slice(slice_)
        refuse_groups(
            slice_, groups, self.ignore_groups, "TimeSeriesSplitter", "GroupKFoldSplitter"
        )
        if slice_.n < self.k + 1:
            raise InvalidInputError(
                f"slice {slice_.name!r} has {slice_.n} row(s) for k={self.k} folds in time; "
                f"at least k + 1 = {self.k + 1} are needed"
            )
        column = self.time_col if self.time_col is not None else slice_.time_col
        times = np.arange(slice_.n) if column is None else _times(slice_, column)
        order = np.argsort(times, kind="stable")
        for fold, (train, test) in enumerate(TimeSeriesSplit(self.k).split(order)):
            past = order[train][times[order[train]] < times[order[test[0]]]]
            if not len(past):
                raise InvalidInputError(
                    f"slice {slice_.name!r}: fold {fold} of {self.k} has no training row: no time "
                    f"is before {times[order[test[0]]]}, the first test time; use a smaller k or "
                    "times of finer resolution"
                )
            yield fold_of(slice_, past, order[test])

    def get_n_splits(self, slice_: EvalSlice | None = None) -> int:
        """Return ``k``."""
        return self.k


@dataclass(frozen=True, slots=True)
class PurgedKFoldSplitter:
    """K chronological blocks, each tested once, with adjacent training rows purged.

    For look-ahead labels (did the price rise within a week?), a training row close in time to a
    test row reveals part of its label. Rows are sorted by time and cut into equal blocks. Each fold
    tests one block and trains on the others, excluding ``purge_gap`` rows on either side, another
    ``int(embargo_pct * n)`` rows after the block (embargo) [1]_, and rows with the same time as the
    block's first or last row.

    Parameters
    ----------
    n_splits : int, default 5
        Number of folds, at least 2.
    purge_gap : int, default 0
        Number of rows dropped on either side of the test block.
    embargo_pct : float, default 0.0
        Fraction of all rows to drop after the test block and its gap; in [0, 1).
    time_col : str, default "timestamp"
        Column of numbers, dates or ISO 8601 strings. The slice's ``time_col`` takes precedence over
        the default.
    ignore_groups : bool, default False
        Whether to ignore the groups of a slice.

    Raises
    ------
    InvalidInputError
        If an argument is out of range; when splitting, if there are fewer rows than folds, a time
        is missing or invalid, a fold has no training row left, or the slice has a ``group_col`` or
        ``groups`` are passed.
    MissingColumnError
        When splitting, if the column is missing (also a KeyError).

    References
    ----------
    .. [1] López de Prado (2018), Advances in Financial Machine Learning, chapter 7.

    Examples
    --------
    >>> rows = {"text": list("abcdef"), "label": [0, 1] * 3, "timestamp": range(6)}
    >>> folds = PurgedKFoldSplitter(n_splits=3, purge_gap=1).iter_folds(EvalSlice("all", rows))
    >>> [(fold["train"].features, fold["test"].features) for fold in folds]
    [(['d', 'e', 'f'], ['a', 'b']), (['a', 'f'], ['c', 'd']), (['a', 'b', 'c'], ['e', 'f'])]
    """

    n_splits: int = 5
    purge_gap: int = 0
    embargo_pct: float = 0.0
    time_col: str = _DEFAULT_TIME_COL
    ignore_groups: bool = field(default=False, kw_only=True)
    version: ClassVar[str] = "1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_splits", validation.integer(self.n_splits, "n_splits", low=2))
        object.__setattr__(self, "purge_gap", validation.integer(self.purge_gap, "purge_gap"))
        share = validation.number(
            self.embargo_pct, "embargo_pct", low=0.0, high=1.0, include_high=False
        )
        object.__setattr__(self, "embargo_pct", share)

    def iter_folds(self, slice_: EvalSlice, *, groups: ArrayLike | None = None) -> Iterator[Fold]:
        """Yield ``n_splits`` folds, earliest test block first."""
        slice_ = checked_slice(slice_)
        refuse_groups(
            slice_, groups, self.ignore_groups, "PurgedKFoldSplitter", "GroupKFoldSplitter"
        )
        n = slice_.n
        if n < self.n_splits:
            raise InvalidInputError(
                f"slice {slice_.name!r} has {n} row(s) for n_splits={self.n_splits}; every fold "
                "needs one to test"
            )
        times = _times(slice_, self._column(slice_))
        order = np.argsort(times, kind="stable")
        embargo = int(self.embargo_pct * n)
        for fold, block in enumerate(np.array_split(np.arange(n), self.n_splits)):
            before = order[: max(0, block[0] - self.purge_gap)]
            before = before[times[before] < times[order[block[0]]]]
            after = order[block[-1] + 1 + self.purge_gap + embargo :]
            after = after[times[after] > times[order[block[-1]]]]
            if not len(before) + len(after):
                raise InvalidInputError(
                    f"slice {slice_.name!r}: fold {fold} of {self.n_splits} has no training row "
                    f"left: purge_gap={self.purge_gap}, an embargo of {embargo} rows and equal "
                    "times exclude all; reduce them"
                )
            yield fold_of(slice_, np.concatenate([before, after]), order[block])

    def _column(self, slice_: EvalSlice) -> str:
        if self.time_col == _DEFAULT_TIME_COL and slice_.time_col is not None:
            return slice_.time_col
        return self.time_col

    def get_n_splits(self, slice_: EvalSlice | None = None) -> int:
        """Return ``n_splits``."""
        return self.n_splits


def compute_label_overlap(t_train: ArrayLike, t_test: ArrayLike, horizon: Any) -> BoolArray:
    """Return a mask of training labels that overlap in time with test rows.

    Parameters
    ----------
    t_train, t_test : array-like of shape (n_train,) and (n_test,)
        Times as numbers or dates.
    horizon : float or timedelta
        Look-ahead horizon of a label, in the unit of the times; not negative.

    Returns
    -------
    ndarray of bool of shape (n_train, n_test)
        Whether the two times are less than the horizon apart; all False for a horizon of 0.

    Raises
    ------
    InvalidInputError
        If the horizon is negative, a time is missing, or numbers are mixed with dates.

    Examples
    --------
    >>> compute_label_overlap([0, 5, 9], [6], horizon=3).tolist()
    [[False], [True], [False]]
    """
    given = read_times(np.asarray(t_train), "t_train"), read_times(np.asarray(t_test), "t_test")
    if given[0].kind != given[1].kind:
        raise InvalidInputError(
            f"`t_train` contains {given[0].kind}s and `t_test` {given[1].kind}s; they must have the "
            "same type"
        )
    train, test = (times.complete() for times in given)
    dated = train.dtype.kind == "M"
    if isinstance(horizon, (timedelta, np.timedelta64)) != dated:
        kind = "a timedelta for dates" if dated else "a number for times that are numbers"
        raise InvalidTypeError(f"`horizon` is {horizon!r}; it must be {kind}")
    reach: Any
    if dated:
        reach = np.timedelta64(horizon)
        if not reach >= np.timedelta64(0):
            raise InvalidInputError(f"`horizon` is {horizon}; it must not be negative")
    else:
        reach = validation.number(horizon, "horizon", low=0.0)
    overlap: BoolArray = np.abs(train[:, None] - test[None, :]) < reach
    return overlap


def _times(slice_: EvalSlice, column: str) -> NDArray[Any]:
    """Return one time per row."""
    try:
        values = column_of(slice_, column)
    except MissingColumnError as error:
        raise MissingColumnError(f"{error}; specify the column of times with time_col=…") from None
    return read_times(values, column).complete()
