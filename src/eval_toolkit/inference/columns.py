"""Named columns of one system (labels, scores, numbers, strings), sorted at most once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import kernel
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from eval_toolkit.metrics import ConfusionCounts
    from eval_toolkit.metrics.cumulative import ScoreGroups

SCORED = ("label", "score")
"""Names of the columns of scored rows."""


@dataclass(frozen=True)
class Term:
    """Summand that is computed for each row from named columns, such as a squared error.

    Examples
    --------
    >>> hit = Term(lambda gold, answer: gold == answer, ("gold", "answer"))
    >>> hit.of(Columns({"gold": np.array(["a", "b"]), "answer": np.array(["a", "c"])}))
    array([1., 0.])
    """

    function: Callable[..., Any]
    """Function that takes the columns in order and returns one number per row."""
    columns: tuple[str, ...] = SCORED

    def of(self, data: Columns) -> FloatArray:
        """Return one number per row."""
        return self.apply(data.__getitem__)

    def apply(self, read: Callable[[str], NDArray[Any]]) -> FloatArray:
        """Return one number per row of a mapping of columns."""
        return np.asarray(self.function(*map(read, self.columns)), dtype=np.float64)


Summand: TypeAlias = str | Term
"""Column name or term to be summed over a resample."""


@dataclass(frozen=True, eq=False)
class Needs:
    """Inputs that a statistic requires from a block."""

    sums: tuple[Summand, ...] = ()
    """Summands of each resample."""
    thresholds: FloatArray = field(default_factory=lambda: np.empty(0))
    """Thresholds at which cumulative sums are required."""
    rows: bool = False
    """Whether the statistic requires the rows of each resample."""


class Once:
    """Cache shared by several statistics."""

    _made: dict[Hashable, FloatArray]

    def once(self, key: Hashable, make: Callable[[], FloatArray]) -> FloatArray:
        """Return the cached value of a key, computed by ``make`` on first use."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


@dataclass(eq=False)
class Columns(Once):
    """Named columns of equal length and any type, from which statistics are computed.

    Rows are sorted at most once, by the column ``rank``. Without a rank column they keep their
    order, and cumulative sums run from the last row to the first.

    Examples
    --------
    >>> data = Columns({"answer": np.array(["a", "b"]), "weight": np.array([1.0, 2.0])})
    >>> data.n, data["answer"].tolist()
    (2, ['a', 'b'])
    """

    values: Mapping[str, NDArray[Any]]
    rank: str | None = None
    _confusion: dict[float, ConfusionCounts] = field(default_factory=dict, init=False)
    _made: dict[Hashable, FloatArray] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if len({len(column) for column in self.values.values()}) != 1:
            sizes = ", ".join(f"{name!r} has {len(one)}" for name, one in self.values.items())
            raise InvalidInputError(
                f"columns must have equal lengths; {sizes or 'there are no columns'}"
            )

    @classmethod
    def scored(cls, labels: BoolArray, scores: FloatArray) -> Columns:
        """Build columns of labels and scores, ranked by score."""
        return cls({"label": labels, "score": scores}, "score")

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self.values[name]
        except KeyError:
            there = ", ".join(map(repr, self.values))
            records = "; use `summarise` for columns of records" if name not in SCORED else ""
            raise InvalidInputError(
                f"there is no column {name!r}; the columns are {there}{records}"
            ) from None

    # All properties are lazy: counts at a threshold, for example, need no sorting.

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values.values())))

    @functools.cached_property
    def labels(self) -> BoolArray:
        """Whether each row is positive; all False if there is no column of boolean labels."""
        found = self.values.get("label")
        if found is None or found.dtype != np.bool_:
            return np.zeros(self.n, dtype=np.bool_)
        return found

    @functools.cached_property
    def scores(self) -> FloatArray:
        """Ranking column; row numbers if there is none."""
        return np.arange(float(self.n)) if self.rank is None else self[self.rank]

    @functools.cached_property
    def n_positive(self) -> int:
        """Number of positive rows."""
        return int(np.count_nonzero(self.labels))

    @functools.cached_property
    def order(self) -> IntArray:
        """Rows in rank order: descending scores, positives first within ties."""
        return kernel.rank_order(self.labels, self.scores)

    @functools.cached_property
    def position(self) -> IntArray:
        """Position of each row in rank order."""
        position = np.empty(self.n, dtype=np.int64)
        position[self.order] = np.arange(self.n)
        return position

    @functools.cached_property
    def sorted_labels(self) -> BoolArray:
        """Labels in rank order."""
        return self.labels[self.order]

    @functools.cached_property
    def sorted_scores(self) -> FloatArray:
        """Scores in rank order."""
        return self.scores[self.order]

    @functools.cached_property
    def groups(self) -> ScoreGroups:
        """Cumulative counts at every distinct score."""
        from eval_toolkit.metrics.cumulative import sorted_score_groups

        return sorted_score_groups(self.sorted_labels, self.sorted_scores)

    @functools.cached_property
    def has_ties(self) -> bool:
        """Whether any two rows have the same score."""
        return bool((self.sorted_scores[1:] == self.sorted_scores[:-1]).any())

    def unranked(self) -> list[NDArray[Any]]:
        """Return the columns other than labels and scores."""
        known = (self.labels, self.scores)
        return [one for one in self.values.values() if all(one is not other for other in known)]

    def take(self, rows: IntArray) -> Columns:
        """Return the rows at these indices, in this order and possibly repeated."""
        return Columns({name: column[rows] for name, column in self.values.items()}, self.rank)

    def reordered(self, order: IntArray) -> Columns:
        """Return the rows in another order; cached values that depend only on ranks are kept."""
        new = self.take(order)
        kept = {"n_positive", "sorted_labels", "sorted_scores", "groups", "has_ties"}
        new.__dict__.update({k: made for k, made in self.__dict__.items() if k in kept})
        if not self.has_ties:
            place = np.empty(self.n, dtype=np.int64)
            place[order] = np.arange(self.n)
            new.__dict__["order"] = place[self.order]
        return new

    def leading(self, thresholds: FloatArray) -> IntArray:
        """Return the number of rows that score at or above each threshold."""
        ascending = self.sorted_scores[::-1]
        return self.n - np.searchsorted(ascending, thresholds, side="left")

    def summed(self, summand: Summand) -> FloatArray:
        """Return the values of a summand, in rank order."""
        return self.once(("sum", summand), lambda: self._summed(summand))

    def _summed(self, summand: Summand) -> FloatArray:
        if isinstance(summand, Term):
            return summand.apply(self._in_rank_order)
        values = self._in_rank_order(summand)
        if values.dtype.kind not in "biuf":
            raise InvalidTypeError(f"the column {summand!r} is not numeric, so it cannot be summed")
        return values.astype(np.float64, copy=False)

    def _in_rank_order(self, name: str) -> NDArray[Any]:
        column = self[name]
        if column is self.scores:
            return self.sorted_scores
        return self.sorted_labels if column is self.labels else column[self.order]

    def confusion(self, threshold: float) -> ConfusionCounts:
        """Return the confusion counts at a threshold; results are cached."""
        from eval_toolkit.metrics import confusion_counts

        if threshold not in self._confusion:
            self._confusion[threshold] = confusion_counts(self.labels, self.scores, threshold)
        return self._confusion[threshold]
