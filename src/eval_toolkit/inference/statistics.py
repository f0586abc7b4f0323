"""Prepared statistics: our own metrics in a form that 64 resamples at a time can be read from.

A statistic knows its value on the data (`point`), on a block of resamples (`replicate`, NaN where
undefined) and, where there is a closed form, with each row left out (`leave_one_out`). Any other
callable works too, through the rows of each resample.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._validate import BoolArray, FloatArray, IntArray, both_classes
from eval_toolkit.errors import InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.prepared import Block, Needs, View
from eval_toolkit.metrics import ConfusionCounts
from eval_toolkit.metrics._binning import equal_width_index
from eval_toolkit.metrics.ranking import average_precision_of, roc_area_of

__all__ = [
    "AtThreshold",
    "AveragePrecision",
    "CallableStatistic",
    "ColumnMean",
    "EqualWidthError",
    "MetricFn",
    "RecallAtFpr",
    "RocAuc",
    "Statistic",
    "statistic_for",
]

MetricFn: TypeAlias = Callable[[Any, Any], float]


class Statistic(Protocol):
    """A metric that can be evaluated on many resamples at once."""

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        ...

    @property
    def needs(self) -> Needs:
        """What it reads from a block."""
        ...

    def point(self, view: View) -> float:
        """Return the value on the data, or raise `UndefinedMetricError`."""
        ...

    def replicate(self, block: Block) -> FloatArray:
        """Return the value on each of the block's 64 resamples, NaN where undefined."""
        ...

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return the values with each row left out, in any order; None without a closed form."""
        ...

    def effective_n(self, view: View) -> int:
        """Return how many independent rows a value at the bound rests on."""
        ...


def _smaller_class(view: View) -> int:
    return min(view.n_positive, view.n - view.n_positive)


@dataclass(frozen=True)
class _RankStatistic:
    """What average precision and ROC-AUC share."""

    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    needs: Needs = field(default=Needs(), init=False)

    def effective_n(self, view: View) -> int:
        """Return the size of the smaller class."""
        return _smaller_class(view)


def _per_group(view: View) -> tuple[FloatArray, FloatArray]:
    """Return positives and negatives of each distinct score, from the top."""
    groups = view.groups
    return np.diff(groups.tp, prepend=0.0), np.diff(groups.fp, prepend=0.0)


@dataclass(frozen=True)
class AveragePrecision(_RankStatistic):
    """`metrics.pr_auc`."""

    name: str = "pr_auc"

    def point(self, view: View) -> float:
        """Return the average precision."""
        both_classes(view.labels, self.name)
        return average_precision_of(view.groups)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return block.average_precision

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return all n values in one pass: prefix and suffix sums over tie groups.

        With p, T = TP + FP and TP per tie group and P positives, AP = Σ p TP / T / P. Leaving out
        a row of group h leaves groups above h alone and lowers T (and TP, for a positive) below.
        """
        if _smaller_class(view) < 2:
            return None
        p, negatives = _per_group(view)
        tp, total = view.groups.tp, view.groups.n_positive
        seen = tp + view.groups.fp
        term = p * tp / seen
        above = np.cumsum(term) - term
        with np.errstate(divide="ignore", invalid="ignore"):
            after_negative = np.where(seen > 1, p * tp / (seen - 1), 0.0)
            after_positive = np.where(seen > 1, p * (tp - 1) / (seen - 1), 0.0)
            own = np.where(seen > 1, (p - 1) * (tp - 1) / (seen - 1), 0.0)
        from_here = np.cumsum(after_negative[::-1])[::-1]
        below = np.cumsum(after_positive[::-1])[::-1] - after_positive
        without_negative = (above + from_here) / total
        without_positive = (above + own + below) / (total - 1)
        return np.concatenate(
            [
                np.repeat(without_positive, p.astype(np.int64)),
                np.repeat(without_negative, negatives.astype(np.int64)),
            ]
        )


@dataclass(frozen=True)
class RocAuc(_RankStatistic):
    """`metrics.roc_auc`."""

    name: str = "roc_auc"

    def point(self, view: View) -> float:
        """Return the area."""
        both_classes(view.labels, self.name)
        return roc_area_of(view.groups)

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return block.roc_auc

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return all n values from placements: a left-out row takes its own wins with it."""
        if _smaller_class(view) < 2:
            return None
        p, negatives = _per_group(view)
        tp, n_positive, n_negative = view.groups.tp, view.n_positive, view.n - view.n_positive
        negatives_below = n_negative - view.groups.fp
        won_by_positive = negatives_below + 0.5 * negatives
        lost_by_negative = tp - p + 0.5 * p
        wins = float(p @ won_by_positive)
        return np.concatenate(
            [
                np.repeat(
                    (wins - won_by_positive) / ((n_positive - 1) * n_negative),
                    p.astype(np.int64),
                ),
                np.repeat(
                    (wins - lost_by_negative) / (n_positive * (n_negative - 1)),
                    negatives.astype(np.int64),
                ),
            ]
        )


@dataclass(frozen=True)
class RecallAtFpr:
    """Recall of `metrics.recall_at_fpr` at a bounded false-positive rate."""

    target: float
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)
    needs: Needs = field(default=Needs(), init=False)

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"recall_at_fpr_{self.target:g}"

    def point(self, view: View) -> float:
        """Return the recall."""
        return metrics.recall_at_fpr(view.labels, view.scores, self.target).recall

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return block.recall_at_fpr(self.target)

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return None: the best threshold may move with any row."""
        return None

    def effective_n(self, view: View) -> int:
        """Return the size of the smaller class."""
        return _smaller_class(view)


@dataclass(frozen=True)
class ColumnMean:
    """Mean of a value per row: Brier score, log-loss, or a column of its own."""

    name: str
    column: Callable[[BoolArray, FloatArray], FloatArray]
    function: MetricFn
    bounds: tuple[float, float] = (-math.inf, math.inf)

    @property
    def needs(self) -> Needs:
        """One column, no cuts."""
        return Needs(columns=(self.column,))

    def point(self, view: View) -> float:
        """Return the mean."""
        return float(self.function(view.labels, view.scores))

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        positives, negatives = block.totals()
        return block.total(self.column) / (positives + negatives)

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return (S − x) / (n − 1)."""
        values = self.column(view.sorted_labels, view.sorted_scores)
        return np.asarray((values.sum() - values) / (view.n - 1))

    def effective_n(self, view: View) -> int:
        """Return the number of rows."""
        return view.n


def squared_error(labels: BoolArray, scores: FloatArray) -> FloatArray:
    """Return the Brier score's terms."""
    return (scores - labels) ** 2


def surprise(labels: BoolArray, scores: FloatArray) -> FloatArray:
    """Return the log-loss's terms, clipped as `metrics.log_loss` does."""
    eps = np.finfo(np.float64).eps
    return -np.log(np.clip(np.where(labels, scores, 1.0 - scores), eps, None))


def score_itself(labels: BoolArray, scores: FloatArray) -> FloatArray:
    """Return the scores."""
    return scores


@dataclass(frozen=True)
class EqualWidthError:
    """`metrics.expected_calibration_error`: weighted mean gap over equal-width bins."""

    n_bins: int = 10
    bounds: tuple[float, float] = field(default=(0.0, 1.0), init=False)

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"expected_calibration_error_{self.n_bins}"

    @property
    def needs(self) -> Needs:
        """Score sums at the bins' cuts."""
        return Needs(columns=(score_itself,), cuts=self._cuts)

    def _cuts(self, descending: FloatArray) -> IntArray:
        """Return the number of rows in the top k bins, k = 1, …, n_bins."""
        ascending_bins = equal_width_index(descending[::-1], self.n_bins)
        below = np.searchsorted(ascending_bins, np.arange(self.n_bins - 1, -1, -1), side="left")
        return len(descending) - below

    def point(self, view: View) -> float:
        """Return the error."""
        return metrics.expected_calibration_error(view.labels, view.scores, self.n_bins)

    def replicate(self, block: Block) -> FloatArray:
        """Return Σ |Σ w (s − y)| / Σ w over the bins of each resample."""
        cuts = np.concatenate(([0], self._cuts(block.view.sorted_scores)))
        positives, _ = block.leading_counts(cuts)
        gaps = np.diff(block.leading_sum(score_itself, cuts) - positives, axis=0)
        n = sum(block.totals())
        return np.asarray(np.abs(gaps).sum(axis=0) / n)

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return (Σ|D| − |D_b| + |D_b − d|) / (n − 1) for a row with gap d in bin b."""
        bin_ = equal_width_index(view.sorted_scores, self.n_bins)
        gap = view.sorted_scores - view.sorted_labels
        total = np.bincount(bin_, gap, self.n_bins)
        own = total[bin_]
        changed = np.abs(total).sum() - np.abs(own) + np.abs(own - gap)
        return np.asarray(changed / (view.n - 1))

    def effective_n(self, view: View) -> int:
        """Return the number of rows."""
        return view.n


CountsFn: TypeAlias = Callable[[Any, Any, Any, Any], Any]
"""(tn, fp, fn, tp) → value, on numbers or arrays; NaN where undefined."""


@dataclass(frozen=True)
class AtThreshold:
    """A function of the confusion counts at a fixed threshold."""

    name: str
    threshold: float
    function: CountsFn
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def needs(self) -> Needs:
        """One cut."""
        return Needs(cuts=self.cut)

    def cut(self, descending: FloatArray) -> IntArray:
        """Return the number of rows predicted positive."""
        above = np.searchsorted(-descending, -self.threshold, side="right")
        return np.array([above], dtype=np.int64)

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
        """Return the value on numbers or arrays, NaN where a denominator is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.function(
                *(np.asarray(part, dtype=np.float64) for part in (tn, fp, fn, tp))
            )
        return np.where(np.isfinite(value), value, np.nan)

    def point(self, view: View) -> float:
        """Return the value at the threshold."""
        return self.of_counts(view.confusion(self.threshold))

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        tp, fp = (part[0] for part in block.leading_counts(self.cut(block.view.sorted_scores)))
        positives, negatives = block.totals()
        return np.asarray(self.evaluate(negatives - fp, fp, positives - tp, tp))

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return the four distinct values, each as often as its cell has rows."""
        counts = view.confusion(self.threshold)
        cells = np.array([counts.tn, counts.fp, counts.fn, counts.tp], dtype=np.int64)
        occupied = np.flatnonzero(cells)
        values = self.evaluate(*(cells[:, None] - np.eye(4)[:, occupied]))
        if np.isnan(values).any():
            return None
        return np.repeat(values, cells[occupied])

    def effective_n(self, view: View) -> int:
        """Return the size of the smaller class."""
        return max(_smaller_class(view), 1)


@dataclass(frozen=True)
class CallableStatistic:
    """Any function of labels and scores, evaluated on the rows of each resample."""

    function: MetricFn
    bounds: tuple[float, float] = (-math.inf, math.inf)
    needs: Needs = field(default=Needs(rows=True), init=False)

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def point(self, view: View) -> float:
        """Return the value on the data."""
        return float(self.function(view.labels.astype(np.int64), view.scores))

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample; a resample on which the function fails is undefined."""
        labels = block.view.labels.astype(np.int64)
        return np.array(
            [self._on(labels, block.view.scores, block.rows(lane)) for lane in range(64)]
        )

    def _on(self, labels: IntArray, scores: FloatArray, rows: IntArray) -> float:
        try:
            value = float(self.function(labels[rows], scores[rows]))
        except (MemoryError, RecursionError):
            raise
        except Exception:  # whatever a foreign function raises: it has no value here
            return math.nan
        return value if math.isfinite(value) else math.nan

    def leave_one_out(self, view: View) -> FloatArray | None:
        """Return None: n calls would cost too much."""
        return None

    def effective_n(self, view: View) -> int:
        """Return the size of the smaller class."""
        return max(_smaller_class(view), 1)


BRIER = ColumnMean("brier_score", squared_error, metrics.brier_score, (0.0, 1.0))
LOG_LOSS = ColumnMean("log_loss", surprise, metrics.log_loss, (0.0, math.inf))

_BUILDERS: dict[Any, Callable[..., Statistic]] = {
    metrics.pr_auc: AveragePrecision,
    metrics.roc_auc: RocAuc,
    metrics.brier_score: lambda: BRIER,
    metrics.log_loss: lambda: LOG_LOSS,
    metrics.expected_calibration_error: EqualWidthError,
}


def statistic_for(metric: Any, view: View | None = None) -> Statistic:
    """Return the prepared statistic of a metric: ours by recognition, any callable as it is.

    Recognised are this package's metric functions, ``functools.partial`` of them with keyword
    arguments they have in prepared form, statistics themselves, and metric specs (objects with
    ``compute``), which may carry a ``statistic``.

    Raises
    ------
    InvalidTypeError
        If the metric is neither callable nor a spec.

    Examples
    --------
    >>> from eval_toolkit.metrics import pr_auc
    >>> statistic_for(pr_auc).name
    'pr_auc'
    """
    if hasattr(metric, "replicate"):
        ready: Statistic = metric
        return ready
    if view is not None and hasattr(metric, "bind"):  # its threshold may depend on the data
        bound: Statistic = metric.bind(view)[0]
        return bound
    if hasattr(type(metric), "statistic") or hasattr(metric, "statistic"):
        carried: Statistic = metric.statistic
        return carried
    if hasattr(metric, "compute"):
        return CallableStatistic(metric.compute)
    if isinstance(metric, functools.partial) and metric.func in _BUILDERS and not metric.args:
        try:
            return _BUILDERS[metric.func](**metric.keywords)
        except TypeError:  # an argument that has no prepared form, such as max_fpr
            return CallableStatistic(metric, _bounds_of(metric.func))
    if not callable(metric):
        raise InvalidTypeError(
            f"`metric` must be a function of (y_true, y_score) or a metric spec, got {metric!r}"
        )
    try:
        builder = _BUILDERS.get(metric)
    except TypeError:  # unhashable callables are nobody we know
        builder = None
    return builder() if builder else CallableStatistic(metric, _bounds_of(metric))


def _bounds_of(metric: Any) -> tuple[float, float]:
    """Return the bounds the catalogue knows for one of our functions."""
    for info in metrics.CATALOGUE.values():
        if info.function is metric:
            return info.bounds
    return (-math.inf, math.inf)
