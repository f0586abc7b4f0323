"""Statistics for the metrics of this package, evaluated on 64 resamples at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._internal.validation import BoolArray, FloatArray, both_classes
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference.columns import SCORED, Columns, Needs, Summand, Term
from eval_toolkit.metrics.ranking import (
    average_precision_of,
    most_positives_at_fpr,
    roc_area_of,
)

if TYPE_CHECKING:
    from eval_toolkit.inference.column_statistics import Statistic
    from eval_toolkit.inference.resample_blocks import Block
    from eval_toolkit.metrics import ConfusionCounts

MetricFn: TypeAlias = Callable[[Any, Any], float]


def _smaller_class(data: Columns) -> int:
    return min(data.n_positive, data.n - data.n_positive)


@dataclass(frozen=True)
class _RankStatistic:
    """Base class of average precision and ROC-AUC."""

    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    needs: Needs = field(default=Needs(), init=False)
    columns = SCORED

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return both classes."""
        return data.labels, ~data.labels


def _per_group(data: Columns) -> tuple[FloatArray, FloatArray]:
    """Return the positives and negatives at each distinct score, in descending order."""
    groups = data.groups
    positives = data.once("positives per score", lambda: np.diff(groups.tp, prepend=0.0))
    negatives = data.once("negatives per score", lambda: np.diff(groups.fp, prepend=0.0))
    return positives, negatives


@dataclass(frozen=True)
class AveragePrecision(_RankStatistic):
    """`metrics.pr_auc`."""

    name: str = "pr_auc"

    def point(self, data: Columns) -> float:
        """Return the average precision."""
        both_classes(data.labels, self.name)
        return average_precision_of(data.groups)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return block.average_precision

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return all n values in one pass, using prefix and suffix sums over tie groups.

        With p, T = TP + FP and TP per tie group and P positives, AP = Σ p TP / T / P. Leaving out a
        row of group h does not affect groups above h, and lowers T (and TP, for a positive) in
        group h and below.
        """
        if _smaller_class(data) < 2:
            return None
        every, _ = _per_group(data)
        at = np.flatnonzero(every)  # groups without positives do not contribute
        p, tp, total = every[at], data.groups.tp[at], data.groups.n_positive
        seen = tp + data.groups.fp[at]
        term = p * tp / seen
        down_to = np.cumsum(term)
        # Only leaving out the very first row can leave no rows; its terms are then 0 or unused.
        fewer = np.maximum(seen - 1.0, 1.0)
        after_negative = p * tp / fewer
        after_positive = p * (tp - 1.0) / fewer
        own = (p - 1.0) * (tp - 1.0) / fewer
        from_here = np.cumsum(after_negative[::-1])[::-1]
        below = np.cumsum(after_positive[::-1])[::-1] - after_positive
        between = (np.append(0.0, down_to) + np.append(from_here, 0.0)) / total
        without_negative = np.repeat(between, np.diff(at, prepend=-1, append=len(every) - 1))
        without_positive = without_negative.copy()
        without_positive[at] = (down_to - term + own + below) / (total - 1)
        return _per_row(data, without_positive, without_negative)


def _per_row(data: Columns, positive: FloatArray, negative: FloatArray) -> FloatArray:
    """Return each row's value, given the values of positives and negatives at each distinct score."""
    if len(positive) == data.n:  # no ties
        return np.where(data.sorted_labels, positive, negative)
    p, negatives = _per_group(data)
    return np.concatenate(
        [np.repeat(positive, p.astype(np.int64)), np.repeat(negative, negatives.astype(np.int64))]
    )


@dataclass(frozen=True)
class RocAuc(_RankStatistic):
    """`metrics.roc_auc`."""

    name: str = "roc_auc"

    def point(self, data: Columns) -> float:
        """Return the area."""
        both_classes(data.labels, self.name)
        return roc_area_of(data.groups)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return block.roc_auc

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return all leave-one-out values from placements."""
        if _smaller_class(data) < 2:
            return None
        p, negatives = _per_group(data)
        tp, n_positive, n_negative = data.groups.tp, data.n_positive, data.n - data.n_positive
        negatives_below = n_negative - data.groups.fp
        won_by_positive = negatives_below + 0.5 * negatives
        lost_by_negative = tp - p + 0.5 * p
        wins = float((p * won_by_positive).sum())
        return _per_row(
            data,
            (wins - won_by_positive) / ((n_positive - 1) * n_negative),
            (wins - lost_by_negative) / (n_positive * (n_negative - 1)),
        )


@dataclass(frozen=True)
class RecallAtFpr:
    """Recall of `metrics.recall_at_fpr` at a bounded false-positive rate."""

    target: float
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    needs: Needs = field(default=Needs(), init=False)
    columns = SCORED

    @property
    def name(self) -> str:
        """Name used in messages."""
        return f"recall_at_fpr_{self.target:g}"

    def point(self, data: Columns) -> float:
        """Return the recall."""
        both_classes(data.labels, self.name)
        return most_positives_at_fpr(data.groups, self.target) / data.n_positive

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return block.recall_at_fpr(self.target)

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return the distinct leave-one-out values with their frequencies.

        If a negative is left out, the denominator of the false-positive rate is N − 1; if that
        negative was above the threshold, one more false positive is allowed.
        """
        if _smaller_class(data) < 2:
            return None
        tp, fp = data.groups.tp, data.groups.fp
        n_positive, n_negative = data.n_positive, data.n - data.n_positive
        caught = int(most_positives_at_fpr(data.groups, self.target))
        n_allowed, n_with_room = (
            int(np.searchsorted((fp - room) / (n_negative - 1), self.target, side="right"))
            for room in (0.0, 1.0)
        )
        without_low, without_high = (
            float(tp[k - 1]) / n_positive if k else 0.0 for k in (n_allowed, n_with_room)
        )
        n_high = int(fp[n_with_room - 1]) if n_with_room else 0
        values = [(caught - 1) / (n_positive - 1), caught / (n_positive - 1)]
        times = [caught, n_positive - caught, n_high, n_negative - n_high]
        return np.repeat([*values, without_high, without_low], times)

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return both classes."""
        return data.labels, ~data.labels


@dataclass(frozen=True)
class ColumnMean:
    """Mean of a column or of a term, such as the squared error in the Brier score."""

    name: str
    summand: Summand
    function: Callable[..., float]
    """Function that computes the mean from the columns."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    of_labels: bool = False
    """Whether a row's value depends on its label, as for losses."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns read by the term, or the column itself."""
        return self.summand.columns if isinstance(self.summand, Term) else (self.summand,)

    def of_rows(self, data: Columns) -> FloatArray:
        """Return one number per row."""
        if isinstance(self.summand, Term):
            return self.summand.of(data)
        return data[self.summand].astype(np.float64, copy=False)

    def range_on(self, data: Columns) -> tuple[float, float]:
        """Return the value range for the interval.

        For losses, the upper bound is the largest observed loss or, if larger, the root mean square
        of the losses with flipped labels, whose maximum is unbounded for scores near 0 and 1.
        """
        if not self.of_labels:
            return self.bounds
        seen = float(self.of_rows(data).max())
        other = self.of_rows(Columns.scored(~data.labels, data.scores))
        turned = math.sqrt(float((other**2).mean()))
        return self.bounds[0], min(self.bounds[1], max(seen, turned))

    @property
    def needs(self) -> Needs:
        """One sum, no cuts."""
        return Needs(sums=(self.summand,))

    def point(self, data: Columns) -> float:
        """Return the mean."""
        return float(self.function(*map(data.__getitem__, self.columns)))

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        positives, negatives = block.totals()
        return block.total(self.summand) / (positives + negatives)

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return (S − x) / (n − 1)."""
        values = data.summed(self.summand)
        return np.asarray((values.sum() - values) / (data.n - 1))

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return all rows."""
        return (np.ones(data.n, dtype=np.bool_),)


def squared_error(labels: BoolArray, scores: FloatArray) -> FloatArray:
    """Return the terms of the Brier score."""
    return (scores - labels) ** 2


def surprise(labels: BoolArray, scores: FloatArray) -> FloatArray:
    """Return the terms of the log-loss, clipped as in `metrics.log_loss`."""
    eps = np.finfo(np.float64).eps
    likelihood = np.where(labels, scores, 1.0 - scores)
    return np.asarray(-np.log(np.clip(likelihood, eps, None)))


CountsFn: TypeAlias = Callable[[Any, Any, Any, Any], Any]
"""Function of (tn, fp, fn, tp), numbers or arrays; NaN where undefined."""


@dataclass(frozen=True)
class AtThreshold:
    """Function of the confusion counts at a fixed threshold."""

    name: str
    threshold: float
    function: CountsFn
    bounds: tuple[float, float] = (0.0, 1.0)
    trials: str = "both"
    """Rows in the denominator: "positive", "negative", "predicted", "all", or "both" classes."""
    columns = SCORED

    @property
    def needs(self) -> Needs:
        """Counts above the threshold."""
        return Needs(thresholds=np.array([self.threshold]))

    def of_counts(self, counts: ConfusionCounts) -> float:
        """Return the value, or raise `UndefinedMetricError`."""
        value = float(self.evaluate(counts.tn, counts.fp, counts.fn, counts.tp))
        if math.isnan(value):
            raise UndefinedMetricError(
                f"{self.name} is undefined at threshold {self.threshold:g}: "
                f"tn={counts.tn:g}, fp={counts.fp:g}, fn={counts.fn:g}, tp={counts.tp:g} "
                "make its denominator zero"
            )
        return value

    def evaluate(self, tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        """Return the value for numbers or arrays, NaN where a denominator is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.function(
                *(np.asarray(part, dtype=np.float64) for part in (tn, fp, fn, tp))
            )
        return np.where(np.isfinite(value), value, np.nan)

    @property
    def is_share_of_fixed_rows(self) -> bool:
        """Whether the denominator is independent of the scorer (recall, but not precision)."""
        return self.trials in ("positive", "negative", "all")

    def hits(self, labels: BoolArray, scores: FloatArray) -> FloatArray:
        """Return 1 or 0 for rows in the denominator of a proportion, NaN for others."""
        of_cell = self.evaluate(*np.eye(4))  # one row that is tn, fp, fn, tp
        decided = scores >= self.threshold
        found: FloatArray = of_cell[2 * labels.astype(np.int64) + decided]
        return found

    def point(self, data: Columns) -> float:
        """Return the value at the threshold."""
        return self.of_counts(data.confusion(self.threshold))

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        tp, fp = (part[0] for part in block.counts_above(np.array([self.threshold])))
        positives, negatives = block.totals()
        return np.asarray(self.evaluate(negatives - fp, fp, positives - tp, tp))

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return the distinct leave-one-out values with their frequencies."""
        counts = data.confusion(self.threshold)
        cells = np.array([counts.tn, counts.fp, counts.fn, counts.tp], dtype=np.int64)
        occupied = np.flatnonzero(cells)
        values = self.evaluate(*(cells[:, None] - np.eye(4)[:, occupied]))
        if np.isnan(values).any():
            return None
        return np.repeat(values, cells[occupied])

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return the rows in the denominator of the proportion."""
        parts = {
            "positive": (data.labels,),
            "negative": (~data.labels,),
            "predicted": (data.scores >= self.threshold,),
            "all": (np.ones(data.n, dtype=np.bool_),),
            "both": (data.labels, ~data.labels),
        }
        return parts[self.trials]


BRIER = ColumnMean(
    "brier_score", Term(squared_error), metrics.brier_score, (0.0, 1.0), of_labels=True
)
LOG_LOSS = ColumnMean("log_loss", Term(surprise), metrics.log_loss, (0.0, math.inf), of_labels=True)


def is_statistic(thing: Any) -> bool:
    """Return whether an object implements `Statistic` (a runtime protocol check is slow).

    Examples
    --------
    >>> from eval_toolkit.inference.column_statistics import CallableStatistic
    >>> is_statistic(CallableStatistic(len)), is_statistic(len)
    (True, False)
    """
    return all(hasattr(thing, name) for name in ("replicate", "leave_one_out", "support"))


def statistic_for(metric: Any, data: Columns | None = None) -> Statistic:
    """Return the statistic for a metric; other callables are wrapped.

    Recognises this package's metric functions (also as ``functools.partial`` with supported keyword
    arguments), statistics, and metric specs (objects with ``compute`` and optionally
    ``statistic``).

    Examples
    --------
    >>> from eval_toolkit.metrics import pr_auc
    >>> statistic_for(pr_auc).name
    'pr_auc'
    """
    if is_statistic(metric):
        ready: Statistic = metric
        return ready
    if data is not None and hasattr(metric, "bind"):  # the threshold may depend on the data
        bound: Statistic = metric.bind(data)[0]
        return bound
    if hasattr(metric, "compute"):
        carried: Any = getattr(metric, "statistic", None)
        if is_statistic(carried):
            ours: Statistic = carried
            return ours
        from eval_toolkit.inference.column_statistics import CallableStatistic

        return CallableStatistic(metric.compute, foreign=True, label=str(metric.name))
    from eval_toolkit.inference.function_statistics import statistic_of_function

    return statistic_of_function(metric)
