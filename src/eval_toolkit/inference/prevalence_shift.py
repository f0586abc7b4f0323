"""Metrics at an assumed prevalence, with intervals from the per-class rates.

Reweighting cannot account for unseen errors: 50 negatives without a false positive give a precision
of 1 at any prevalence. Metrics at another prevalence are therefore computed from the true-positive
and false-positive rates and their intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray, both_classes
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference.calibration_intervals import WEIGHTED_REASON
from eval_toolkit.inference.column_statistics import CallableStatistic
from eval_toolkit.inference.columns import SCORED, Columns, Needs
from eval_toolkit.inference.mean_intervals import mean_interval
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.inference.statistics import ColumnMean, MetricFn

if TYPE_CHECKING:
    from eval_toolkit.inference.resample_blocks import Block


def seen_at(prior: float, n_negative: int) -> float:
    """Return the weight of all true positives relative to one false positive.

    If the result is below 1, a single false positive more than halves the precision at this
    prevalence, so the data are not informative about precisions near 1.

    Examples
    --------
    >>> round(seen_at(0.01, 50), 3)
    0.505
    """
    return n_negative * prior / (1.0 - prior)


@dataclass(frozen=True)
class _Shifted:
    """Base class of metrics at an assumed prevalence."""

    function: MetricFn
    """Metric of labels and scores, at the assumed prevalence."""
    prior: float
    bounds: tuple[float, float] = (0.0, 1.0)
    needs: Needs = field(default=Needs(rows=True), init=False)
    columns = SCORED
    independent_only = True

    @property
    def name(self) -> str:
        """Name used in messages."""
        return f"{getattr(self.function, '__name__', 'metric')} at a prevalence of {self.prior:g}"

    def point(self, data: Columns) -> float:
        """Return the value."""
        both_classes(data.labels, self.name)
        return float(self.function(data.labels.astype(np.int64), data.scores))

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return CallableStatistic(self.function, self.bounds).replicate(block)

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return None; the interval uses the per-class rates."""
        return None

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return both classes."""
        return data.labels, ~data.labels


@dataclass(frozen=True)
class ShiftedAveragePrecision(_Shifted):
    """Average precision at an assumed prevalence."""

    def point(self, data: Columns) -> float:
        """Return the value, or raise if the prevalence is too far from the observed one."""
        n_negative = data.n - data.n_positive
        if data.n_positive and n_negative and seen_at(self.prior, n_negative) < 1.0:
            needed = math.ceil((1.0 - self.prior) / self.prior)
            raise UndefinedMetricError(
                f"{n_negative} negatives are too few to estimate PR-AUC at a prevalence of "
                f"{self.prior:g}: one false positive would halve the precision; {needed} are needed"
            )
        return super().point(data)

    def closed_interval(self, data: Columns, confidence: float) -> tuple[float, float, str]:
        """Return the interval from the bounds of the false-positive rates and of the recall.

        All false-positive rates are set to the same end of their intervals, which is conservative.
        """
        groups, n_negative = data.groups, data.n - data.n_positive
        ends = rates_interval(
            groups.tp / data.n_positive,
            groups.fp / n_negative,
            self.prior,
            (data.n_positive, n_negative),
            confidence,
        )
        return *ends, "score, propagated"


def rates_interval(
    recall: FloatArray,
    fpr: FloatArray,
    prior: float,
    effective: tuple[float, float],
    confidence: float,
) -> tuple[float, float]:
    """Return the bounds of the average precision from the bounds of a ROC curve.

    The curve starts at the highest threshold; ``effective`` contains the effective numbers of
    positives and negatives.

    Examples
    --------
    >>> curve = np.array([0.5, 1.0, 1.0]), np.array([0.0, 0.0, 1.0])
    >>> low, high = rates_interval(*curve, 0.5, (50, 50), 0.95)
    >>> round(low, 3), high
    (0.881, 1.0)
    """
    distinct, place = np.unique(fpr, return_inverse=True)
    ends = np.array(
        [score_interval(rate, effective[1], confidence=confidence) for rate in distinct]
    )[place]
    value = _area(recall, fpr, prior)
    worst, best = _area(recall, ends[:, 1], prior), _area(recall, ends[:, 0], prior)
    low, high = score_interval(min(1.0, value), effective[0], confidence=confidence)
    return (
        max(0.0, value - math.hypot(value - low, value - worst)),
        min(1.0, value + math.hypot(high - value, best - value)),
    )


def _area(recall: FloatArray, fpr: FloatArray, prior: float) -> float:
    """Return the average precision of a ROC curve at a given prevalence."""
    true, false = prior * recall, (1.0 - prior) * fpr
    with np.errstate(invalid="ignore"):
        precision = np.where(true + false > 0.0, true / (true + false), 0.0)
    return float((np.diff(recall, prepend=0.0) * precision).sum())


@dataclass(frozen=True)
class ShiftedError(_Shifted):
    """Calibration error at an assumed prevalence, without an interval."""

    no_interval = WEIGHTED_REASON.format("at an assumed prevalence")


@dataclass(frozen=True)
class ShiftedMean(_Shifted):
    """Brier score or log-loss at an assumed prevalence: a weighted mean over classes."""

    of: ColumnMean | None = None

    def closed_interval(self, data: Columns, confidence: float) -> tuple[float, float, str]:
        """Return the interval obtained from the intervals for the class means (MOVER)."""
        assert self.of is not None  # noqa: S101 - `PriorShift.bind` sets it
        values = self.of.of_rows(data)
        bounds = self.of.range_on(data)
        value, squares = self.point(data), [0.0, 0.0]
        for mask, weight in ((data.labels, self.prior), (~data.labels, 1.0 - self.prior)):
            ci = mean_interval(values[mask], bounds=bounds, confidence=confidence)
            squares[0] += (weight * (ci.point_estimate - ci.ci_low)) ** 2
            squares[1] += (weight * (ci.ci_high - ci.point_estimate)) ** 2
        low, high = value - math.sqrt(squares[0]), value + math.sqrt(squares[1])
        return max(self.bounds[0], low), min(self.bounds[1], high), "mover"
