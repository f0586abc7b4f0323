"""Scorecards at an assumed prevalence: classes are reweighted, scores are unchanged."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.calibration_intervals import calibration_statistic
from eval_toolkit.inference.column_statistics import CallableStatistic, Statistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.prevalence_shift import (
    ShiftedAveragePrecision,
    ShiftedError,
    ShiftedMean,
)
from eval_toolkit.inference.statistics import (
    AtThreshold,
    AveragePrecision,
    ColumnMean,
    RecallAtFpr,
    RocAuc,
)
from eval_toolkit.metric_specs import ScoreSpec
from eval_toolkit.protocols import MetricSpec


@dataclass(frozen=True)
class PriorShift:
    """Shift from the prevalence of the data to an assumed prevalence."""

    eval_prior: float
    assumed_prior: float

    @classmethod
    def to(cls, labels: BoolArray, assumed_prior: float) -> "PriorShift":
        """Return the shift to a validated prior."""
        return cls(float(np.mean(labels)), validation.fraction(assumed_prior, "assumed_prior"))

    def bind(self, spec: MetricSpec, data: Columns) -> tuple[Statistic, dict[str, Any]]:
        """Return the spec's statistic at the assumed prior, and the cell details.

        Both classes must be present, and the spec must support confusion counts or sample weights.
        """
        validation.both_classes(data.labels, f"{spec.name} at an assumed prior")
        details = {"eval_prior": self.eval_prior, "assumed_prior": self.assumed_prior}
        if hasattr(spec, "bind"):
            bound, provenance = spec.bind(data)
            if isinstance(bound, AtThreshold):
                return self._counts(bound), {**provenance, **details}
        elif isinstance(spec, ScoreSpec):
            return self._scores(spec), details
        raise InvalidInputError(
            f"{spec.name} cannot be reported at an assumed prior: it does not support sample weights"
        )

    def _counts(self, bound: AtThreshold) -> AtThreshold:
        """Return the function of counts with classes scaled to the assumed prevalence."""
        if bound.trials in ("positive", "negative"):  # independent of prevalence
            return bound
        shifted = _ShiftedCounts(bound, self.assumed_prior)
        return AtThreshold(bound.name, bound.threshold, shifted, bound.bounds)

    def _scores(self, spec: ScoreSpec) -> Statistic:
        """Return the statistic of the weighted metric.

        ROC-AUC and recall at a false-positive rate do not depend on the prevalence.
        """
        own = spec.statistic
        if isinstance(own, (RocAuc, RecallAtFpr)):
            return own
        is_error = calibration_statistic(own) is not None
        if is_error and math.isclose(self.assumed_prior, self.eval_prior):
            return own  # all weights are equal
        weighted = _WeightedMetric(spec.function, self.assumed_prior)
        if is_error:
            return ShiftedError(weighted, self.assumed_prior, own.bounds)
        if isinstance(own, AveragePrecision):
            return ShiftedAveragePrecision(weighted, self.assumed_prior)
        if isinstance(own, ColumnMean):
            return ShiftedMean(weighted, self.assumed_prior, own.bounds, of=own)
        return CallableStatistic(weighted, own.bounds)


@dataclass(frozen=True)
class _WeightedMetric:
    """Metric with sample weights that reweight the classes to the assumed prevalence."""

    function: Any
    prior: float

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "metric")

    def __call__(self, y_true: Any, y_score: Any) -> float:
        from eval_toolkit.calibration import prior_shift_weights

        weights = prior_shift_weights(y_true, to_prior=self.prior)
        return float(self.function(y_true, y_score, sample_weight=weights))


@dataclass(frozen=True)
class _ShiftedCounts:
    """Function of confusion counts, with the classes scaled to the assumed prevalence."""

    statistic: AtThreshold
    prior: float

    def __call__(self, tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        positives, negatives = tp + fn, tn + fp
        n = positives + negatives
        up, down = self.prior * n / positives, (1.0 - self.prior) * n / negatives
        return self.statistic.function(tn * down, fp * down, fn * up, tp * up)
