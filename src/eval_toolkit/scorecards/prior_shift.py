"""A whole scorecard at another prevalence: classes reweighted, scores left alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit import _validate
from eval_toolkit._validate import BoolArray
from eval_toolkit.calibration import prior_shift_weights
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.prepared import Ranked
from eval_toolkit.inference.statistics import AtThreshold, CallableStatistic, Statistic
from eval_toolkit.protocols import MetricSpec

__all__ = ["PriorShift"]


@dataclass(frozen=True)
class PriorShift:
    """From the data's prevalence to an assumed one."""

    eval_prior: float
    assumed_prior: float

    @classmethod
    def to(cls, labels: BoolArray, assumed_prior: float) -> "PriorShift":
        """Check the prior; both classes must be present."""
        prior = _validate.fraction(assumed_prior, "assumed_prior")
        _validate.both_classes(labels, "a scorecard at an assumed prior")
        return cls(float(np.mean(labels)), prior)

    def details(self) -> dict[str, Any]:
        """Return what the cells say about the shift."""
        return {"eval_prior": self.eval_prior, "assumed_prior": self.assumed_prior}

    def statistic_for(self, spec: MetricSpec, data: Ranked) -> Statistic:
        """Return the spec's statistic at the assumed prior.

        Raises
        ------
        InvalidInputError
            If the spec offers neither confusion counts nor a weighted metric.
        """
        if hasattr(spec, "bind"):
            bound, _ = spec.bind(data)
            if isinstance(bound, AtThreshold):
                shifted = _ShiftedCounts(bound, self.assumed_prior)
                return AtThreshold(bound.name, bound.threshold, shifted, bound.bounds)
        elif hasattr(spec, "function"):
            carried: Statistic = spec.statistic  # type: ignore[attr-defined]
            weighted = _WeightedMetric(spec.function, self.assumed_prior)
            return CallableStatistic(weighted, carried.bounds)
        raise InvalidInputError(
            f"{spec.name} cannot be reported at an assumed prior: it takes no sample weights"
        )


@dataclass(frozen=True)
class _WeightedMetric:
    """A metric with weights that give the classes their assumed shares."""

    function: Any
    prior: float

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "metric")

    def __call__(self, y_true: Any, y_score: Any) -> float:
        weights = prior_shift_weights(y_true, to_prior=self.prior)
        return float(self.function(y_true, y_score, sample_weight=weights))


@dataclass(frozen=True)
class _ShiftedCounts:
    """A function of confusion counts after each class is scaled to its assumed share."""

    statistic: AtThreshold
    prior: float

    def __call__(self, tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        positives, negatives = tp + fn, tn + fp
        n = positives + negatives
        up, down = self.prior * n / positives, (1.0 - self.prior) * n / negatives
        return self.statistic.function(tn * down, fp * down, fn * up, tp * up)
