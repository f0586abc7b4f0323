"""Evaluate named columns on blocks of 64 resamples.

A `View` collects what the statistics require of some `Columns` (terms to sum, thresholds at which
to accumulate) and arranges the rows for the kernel. A `Block` is a view with the counts of 64
resamples; it runs each kernel pass at most once, regardless of the number of statistics.
"""

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import kernel
from eval_toolkit._internal.kernel.layouts import MassLayout, RankLayout, SumsLayout
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.inference.columns import Columns, Needs, Once, Summand
from eval_toolkit.inference.plans import Plan


@dataclass(eq=False)
class View:
    """Rows arranged for the kernel, given a plan and the requirements of the statistics."""

    data: Columns
    plan: Plan
    needs: Sequence[Needs] = ()
    in_rank_order: bool = False
    """Whether counts are in rank order (one scorer, rows drawn individually)."""
    _cut_indexes: dict[bytes, IntArray] = field(default_factory=dict, init=False)

    @functools.cached_property
    def _summands(self) -> dict[Summand, int]:
        """Index of each summand in the sums; positives and negatives come first."""
        requested = dict.fromkeys(summand for need in self.needs for summand in need.sums)
        return {summand: 2 + place for place, summand in enumerate(requested)}

    @functools.cached_property
    def _cuts(self) -> IntArray:
        """Row counts at which statistics need cumulative sums; the last one is n."""
        requested = [self.data.leading(need.thresholds) for need in self.needs]
        cuts = np.unique(np.concatenate([*requested, [self.data.n]])).astype(np.int64)
        return cuts[cuts > 0]

    @functools.cached_property
    def unit_index(self) -> NDArray[np.int32] | None:
        """Unit of each row in rank order, in the format expected by the kernel."""
        if self.in_rank_order:
            return None
        unit = self.plan.unit_of_row
        order = self.data.order
        return kernel.spare(order if unit is None else unit[order])

    @functools.cached_property
    def rank_layout(self) -> RankLayout:
        """Segments for average precision and ROC-AUC."""
        data = self.data
        return RankLayout.from_sorted(data.sorted_labels, data.sorted_scores, self.unit_index)

    @functools.cached_property
    def sums_layout(self) -> SumsLayout:
        """Layout of the summands and cuts of all statistics."""
        labels = self.data.sorted_labels
        values = [self.data.summed(summand) for summand in self._summands]
        table = np.stack(values) if values else np.empty((0, self.data.n))
        return SumsLayout(
            labels.astype(np.uint8),
            np.ascontiguousarray(table, dtype=np.float64),
            self._cuts,
            self.unit_index,
        )

    @functools.cached_property
    def mass_layout(self) -> MassLayout:
        """Layout for equal-mass cuts."""
        data = self.data
        return MassLayout.from_sorted(data.sorted_labels, data.sorted_scores, self.unit_index)

    def sum_index(self, summand: Summand) -> int:
        """Return the index of a summand in the sums."""
        return self._summands[summand]

    def cut_index(self, thresholds: FloatArray) -> IntArray:
        """Return the index of each threshold in the cumulative sums."""
        key = thresholds.tobytes()  # cached, since every block needs it
        if key not in self._cut_indexes:
            rows = self.data.leading(thresholds)
            found = np.searchsorted(self._cuts, rows, side="left") + (rows > 0)
            self._cut_indexes[key] = found
        return self._cut_indexes[key]


@dataclass(eq=False)
class Block(Once):
    """View with the counts of 64 resamples; its arrays have one entry per resample."""

    view: View
    counts: NDArray[np.uint8]
    largest: int
    _made: dict[Hashable, FloatArray] = field(default_factory=dict, init=False)

    @functools.cached_property
    def _rank(self) -> FloatArray:
        return kernel.rank(self.counts, self.largest, self.view.rank_layout)

    @property
    def average_precision(self) -> FloatArray:
        """Average precision; NaN if a class is missing."""
        return np.where(self._rank[3] > 0, self._rank[0], np.nan)

    @property
    def roc_auc(self) -> FloatArray:
        """Area under the ROC curve; NaN if a class is missing."""
        area: FloatArray = self._rank[1]
        return area

    def recall_at_fpr(self, target: float) -> FloatArray:
        """Return the largest recall at an FPR of at most ``target``; NaN if a class is missing."""
        totals = np.ascontiguousarray(self._rank[2:])
        reached = kernel.recall(
            self.counts, self.largest, self.view.rank_layout, totals=totals, target=target
        )
        return np.where((totals[0] > 0) & (totals[1] > 0), reached, np.nan)

    @functools.cached_property
    def _cumulative(self) -> FloatArray:
        """Cumulative sums at each cut, from no rows to all rows: (cuts + 1, 2 + k, 64)."""
        sums = kernel.sums(self.counts, self.largest, self.view.sums_layout)
        head = np.zeros((1, *sums.shape[1:]))
        return np.cumsum(np.concatenate([head, sums]), axis=0)

    def counts_above(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the positives and negatives at or above each threshold, each (thresholds, 64)."""
        at = self._cumulative[self.view.cut_index(thresholds)]
        return at[:, 0], at[:, 1]

    def sum_above(self, summand: Summand, thresholds: FloatArray) -> FloatArray:
        """Return the sum over the rows at or above each threshold, of shape (thresholds, 64)."""
        at = self._cumulative[self.view.cut_index(thresholds)]
        return at[:, self.view.sum_index(summand)]

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Return the numbers of positives and negatives in each resample."""
        return self._cumulative[-1, 0], self._cumulative[-1, 1]

    def total(self, summand: Summand) -> FloatArray:
        """Return the sum of a summand over each resample."""
        total: FloatArray = self._cumulative[-1, self.view.sum_index(summand)]
        return total

    def size(self) -> FloatArray:
        """Return the number of rows in each resample, including repeats."""
        ranked = self.view.data.rank is not None
        return np.add(*(self._rank[2:] if ranked else self.totals()))

    def top(self, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return positives and score sums in the top ``cuts`` (k, 64) draws of each resample."""
        sums = kernel.masses(self.counts, self.view.mass_layout, np.ascontiguousarray(cuts))
        return sums[:, 0], sums[:, 1]

    def row_counts(self) -> NDArray[np.uint8]:
        """Count of each row, in row order: (rows, 64)."""
        return self._by_row(self.counts)

    def rows(self, lane: int) -> IntArray:
        """Return the rows of one resample, repeated as often as they were drawn."""
        return np.repeat(np.arange(self.view.data.n), self._by_row(self.counts[:, lane]))

    def _by_row(self, counts: NDArray[np.uint8]) -> NDArray[np.uint8]:
        if self.view.in_rank_order:
            return counts[self.view.data.position]
        unit = self.view.plan.unit_of_row
        return counts if unit is None else counts[unit]
