"""Named columns, sorted at most once, and what a block of 64 resamples makes of them.

`Columns` are the named columns of one system: labels and scores, numbers, texts. A `View` collects
what its statistics need (terms to add up, thresholds at which to add) and lays the rows out for the
kernel. A `Block` is a view under the counts of 64 resamples; it computes each kernel pass at most
once, however many statistics read it.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import kernel
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.plans import Plan
from eval_toolkit.metrics import ConfusionCounts, confusion_counts
from eval_toolkit.metrics.cumulative import ScoreGroups, sorted_score_groups

__all__ = ["SCORED", "Block", "Columns", "Needs", "Summand", "Term", "View"]

SCORED = ("label", "score")
"""The columns of scored rows."""


@dataclass(frozen=True)
class Term:
    """A number per row, made of named columns, which a resample adds up: a squared error, a hit.

    Examples
    --------
    >>> hit = Term(lambda gold, answer: gold == answer, ("gold", "answer"))
    >>> hit.of(Columns({"gold": np.array(["a", "b"]), "answer": np.array(["a", "c"])}))
    array([1., 0.])
    """

    function: Callable[..., Any]
    """Takes the columns in their order, and returns a number for each row."""
    columns: tuple[str, ...] = SCORED

    def of(self, data: "Columns") -> FloatArray:
        """Return the number of each row."""
        return self.apply(data.__getitem__)

    def apply(self, read: Callable[[str], NDArray[Any]]) -> FloatArray:
        """Return the numbers made of columns that are read by name."""
        return np.asarray(self.function(*map(read, self.columns)), dtype=np.float64)


Summand: TypeAlias = str | Term
"""What a resample adds up: a column of numbers, by its name, or a term."""


@dataclass(frozen=True, eq=False)
class Needs:
    """What a statistic reads from a block."""

    sums: tuple[Summand, ...] = ()
    """What is added up over each resample."""
    thresholds: FloatArray = field(default_factory=lambda: np.empty(0))
    """Scores at or above which cumulative sums are wanted."""
    rows: bool = False
    """Whether the statistic asks for the rows of a resample themselves."""


class _Once:
    """Values that are made once and read by several statistics."""

    _made: dict[Hashable, FloatArray]

    def once(self, key: Hashable, make: Callable[[], FloatArray]) -> FloatArray:
        """Return what ``make`` returned the first time it was asked for under this key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


@dataclass(eq=False)
class Columns(_Once):
    """Named columns of the same rows, of any type; statistics take their value from them.

    Rows are sorted at most once, by the column ``rank``. Without one they keep their order, and
    sums run from the last row to the first.

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
            raise InvalidInputError(f"columns must have one row count; {sizes or 'there are none'}")

    @classmethod
    def scored(cls, labels: BoolArray, scores: FloatArray) -> "Columns":
        """Return the usual columns: labels, and scores that rank the rows."""
        return cls({"label": labels, "score": scores}, "score")

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self.values[name]
        except KeyError:
            there = ", ".join(map(repr, self.values))
            records = "; `summarise` reads the columns of records" if name not in SCORED else ""
            raise InvalidInputError(
                f"there is no column {name!r}; there are {there}{records}"
            ) from None

    # Everything is made when first asked for: counts at a threshold, say, need no sorting.

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values.values())))

    @functools.cached_property
    def labels(self) -> BoolArray:
        """Whether each row is positive; no row is where there is no column of such labels."""
        found = self.values.get("label")
        if found is None or found.dtype != np.bool_:
            return np.zeros(self.n, dtype=np.bool_)
        return found

    @functools.cached_property
    def scores(self) -> FloatArray:
        """What the rows are ranked by: their number where there is no such column."""
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
        """Place of each row in rank order."""
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
        return sorted_score_groups(self.sorted_labels, self.sorted_scores)

    @functools.cached_property
    def has_ties(self) -> bool:
        """Whether two rows have the same score."""
        return bool((self.sorted_scores[1:] == self.sorted_scores[:-1]).any())

    def unranked(self) -> list[NDArray[Any]]:
        """Return the columns beside labels and scores."""
        known = (self.labels, self.scores)
        return [one for one in self.values.values() if all(one is not other for other in known)]

    def take(self, rows: IntArray) -> "Columns":
        """Return these rows, in this order, as often as they are named."""
        return Columns({name: column[rows] for name, column in self.values.items()}, self.rank)

    def reordered(self, order: IntArray) -> "Columns":
        """Return the same rows in another order; what depends on the rank order alone is kept."""
        new = self.take(order)
        kept = {"n_positive", "sorted_labels", "sorted_scores", "groups", "has_ties"}
        new.__dict__.update({k: made for k, made in self.__dict__.items() if k in kept})
        if not self.has_ties:
            place = np.empty(self.n, dtype=np.int64)
            place[order] = np.arange(self.n)
            new.__dict__["order"] = place[self.order]
        return new

    def leading(self, thresholds: FloatArray) -> IntArray:
        """Return how many rows score at or above each threshold."""
        ascending = self.sorted_scores[::-1]
        return self.n - np.searchsorted(ascending, thresholds, side="left")

    def summed(self, summand: Summand) -> FloatArray:
        """Return the numbers that are added up, in rank order."""
        return self.once(("sum", summand), lambda: self._summed(summand))

    def _summed(self, summand: Summand) -> FloatArray:
        if isinstance(summand, Term):
            return summand.apply(self._in_rank_order)
        values = self._in_rank_order(summand)
        if values.dtype.kind not in "biuf":
            raise InvalidTypeError(f"the column {summand!r} holds no numbers to be added up")
        return values.astype(np.float64, copy=False)

    def _in_rank_order(self, name: str) -> NDArray[Any]:
        column = self[name]
        if column is self.scores:
            return self.sorted_scores
        return self.sorted_labels if column is self.labels else column[self.order]

    def confusion(self, threshold: float) -> ConfusionCounts:
        """Return the confusion counts at a threshold; each is counted once."""
        if threshold not in self._confusion:
            self._confusion[threshold] = confusion_counts(self.labels, self.scores, threshold)
        return self._confusion[threshold]


@dataclass(eq=False)
class View:
    """Rows laid out for the kernel, as a plan and the statistics' needs want them."""

    data: Columns
    plan: Plan
    needs: Sequence[Needs] = ()
    in_rank_order: bool = False
    """Whether counts come in rank order (one scorer, rows drawn by themselves)."""
    _cut_indexes: dict[bytes, IntArray] = field(default_factory=dict, init=False)

    @functools.cached_property
    def _summands(self) -> dict[Summand, int]:
        """Place of each summand among the sums, after positives and negatives."""
        wanted = dict.fromkeys(summand for need in self.needs for summand in need.sums)
        return {summand: 2 + place for place, summand in enumerate(wanted)}

    @functools.cached_property
    def _cuts(self) -> IntArray:
        """Numbers of leading rows at which any statistic wants the sums, and all rows."""
        wanted = [self.data.leading(need.thresholds) for need in self.needs]
        cuts = np.unique(np.concatenate([*wanted, [self.data.n]])).astype(np.int64)
        return cuts[cuts > 0]

    @functools.cached_property
    def unit_index(self) -> NDArray[np.int32] | None:
        """Unit of each row in rank order, as the kernel reads it."""
        if self.in_rank_order:
            return None
        unit = self.plan.unit_of_row
        order = self.data.order
        return kernel.spare(order if unit is None else unit[order])

    @functools.cached_property
    def rank_layout(self) -> kernel.RankLayout:
        """Segments for average precision and ROC-AUC."""
        data = self.data
        return kernel.RankLayout.from_sorted(
            data.sorted_labels, data.sorted_scores, self.unit_index
        )

    @functools.cached_property
    def sums_layout(self) -> kernel.SumsLayout:
        """Summands and cuts of all statistics together."""
        labels = self.data.sorted_labels
        values = [self.data.summed(summand) for summand in self._summands]
        table = np.stack(values) if values else np.empty((0, self.data.n))
        return kernel.SumsLayout(
            labels.astype(np.uint8),
            np.ascontiguousarray(table, dtype=np.float64),
            self._cuts,
            self.unit_index,
        )

    @functools.cached_property
    def mass_layout(self) -> kernel.MassLayout:
        """Rows to be cut by mass."""
        data = self.data
        return kernel.MassLayout.from_sorted(
            data.sorted_labels, data.sorted_scores, self.unit_index
        )

    def sum_index(self, summand: Summand) -> int:
        """Return where the sums hold a summand."""
        return self._summands[summand]

    def cut_index(self, thresholds: FloatArray) -> IntArray:
        """Return where the cumulative sums hold the rows at or above each threshold."""
        key = thresholds.tobytes()  # every block asks again
        if key not in self._cut_indexes:
            rows = self.data.leading(thresholds)
            found = np.searchsorted(self._cuts, rows, side="left") + (rows > 0)
            self._cut_indexes[key] = found
        return self._cut_indexes[key]


@dataclass(eq=False)
class Block(_Once):
    """A view under the counts of 64 resamples; arrays have one entry per resample."""

    view: View
    counts: NDArray[np.uint8]
    largest: int
    _made: dict[Hashable, FloatArray] = field(default_factory=dict, init=False)

    @functools.cached_property
    def _rank(self) -> FloatArray:
        return kernel.rank(self.counts, self.largest, self.view.rank_layout)

    @property
    def average_precision(self) -> FloatArray:
        """Average precision; NaN with one class."""
        return np.where(self._rank[3] > 0, self._rank[0], np.nan)

    @property
    def roc_auc(self) -> FloatArray:
        """Area under the ROC curve; NaN with one class."""
        area: FloatArray = self._rank[1]
        return area

    def recall_at_fpr(self, target: float) -> FloatArray:
        """Largest recall with a false-positive rate of at most ``target``; NaN with one class."""
        totals = np.ascontiguousarray(self._rank[2:])
        reached = kernel.recall(
            self.counts, self.largest, self.view.rank_layout, totals=totals, target=target
        )
        return np.where((totals[0] > 0) & (totals[1] > 0), reached, np.nan)

    @functools.cached_property
    def _cumulative(self) -> FloatArray:
        """Sums over the leading rows up to each cut, from no rows to all: (cuts + 1, 2 + k, 64)."""
        sums = kernel.sums(self.counts, self.largest, self.view.sums_layout)
        head = np.zeros((1, *sums.shape[1:]))
        return np.cumsum(np.concatenate([head, sums]), axis=0)

    def counts_above(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Positives and negatives at or above each threshold: (thresholds, 64) each."""
        at = self._cumulative[self.view.cut_index(thresholds)]
        return at[:, 0], at[:, 1]

    def sum_above(self, summand: Summand, thresholds: FloatArray) -> FloatArray:
        """Sum over the rows at or above each threshold: (thresholds, 64)."""
        at = self._cumulative[self.view.cut_index(thresholds)]
        return at[:, self.view.sum_index(summand)]

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Positives and negatives in each resample."""
        return self._cumulative[-1, 0], self._cumulative[-1, 1]

    def total(self, summand: Summand) -> FloatArray:
        """Sum over each resample of what the statistic's needs name."""
        total: FloatArray = self._cumulative[-1, self.view.sum_index(summand)]
        return total

    def size(self) -> FloatArray:
        """Rows drawn in each resample, repeats included."""
        ranked = self.view.data.rank is not None
        return np.add(*(self._rank[2:] if ranked else self.totals()))

    def top(self, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Positives and score sums among the top ``cuts`` (k, 64) draws of each resample."""
        sums = kernel.masses(self.counts, self.view.mass_layout, np.ascontiguousarray(cuts))
        return sums[:, 0], sums[:, 1]

    def row_counts(self) -> NDArray[np.uint8]:
        """How often each row was drawn, in the order of the rows: (rows, 64)."""
        return self._by_row(self.counts)

    def rows(self, lane: int) -> IntArray:
        """Rows of one resample, repeated as often as they were drawn."""
        return np.repeat(np.arange(self.view.data.n), self._by_row(self.counts[:, lane]))

    def _by_row(self, counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if self.view.in_rank_order:
            return counts[self.view.data.position]
        unit = self.view.plan.unit_of_row
        return counts if unit is None else counts[unit]
