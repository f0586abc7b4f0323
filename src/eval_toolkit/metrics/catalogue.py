"""Catalogue of all scalar metrics with their properties."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from numpy.typing import ArrayLike

from eval_toolkit.metrics.calibration_error import (
    expected_calibration_error,
    expected_calibration_error_debiased,
    expected_calibration_error_equal_mass,
    expected_calibration_error_l2,
    expected_calibration_error_l2_debiased,
    maximum_calibration_error,
    smooth_ece,
)
from eval_toolkit.metrics.calibration_fit import calibration_slope_intercept
from eval_toolkit.metrics.confusion import confusion_counts, net_benefit
from eval_toolkit.metrics.probability import brier_score, log_loss
from eval_toolkit.metrics.ranking import pr_auc, recall_at_fpr, roc_auc


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """Scalar metric and its properties.

    Examples
    --------
    >>> info = CATALOGUE["roc_auc"]
    >>> info.bounds, info.higher_is_better, info.monotone_invariant
    ((0.0, 1.0), True, True)
    """

    name: str
    function: Callable[..., float]
    """Function called as ``function(y_true, y_score)``, with ``sample_weight`` if supported."""
    bounds: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool | None
    """None if neither direction is better (calibration slope and intercepts)."""
    needs_probability: bool = False
    """Whether scores must be in [0, 1]."""
    needs_both_classes: bool = False
    """Whether a single class raises `UndefinedMetricError`, for any scores."""
    monotone_invariant: bool = False
    """Whether the metric is invariant under strictly increasing transforms of the scores."""
    label_swap: str | None = None
    """Metric with the same value for labels 1 − y and scores 1 − s ("-" for the opposite), or
    None."""
    accepts_weight: bool = True
    min_rows: int = 1
    """Minimum number of rows for the metric to be defined."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Picklable function that returns one field of a structured result."""

    function: Callable[..., Any]
    attribute: str

    def __call__(self, y_true: ArrayLike, y_score: ArrayLike, **options: Any) -> float:
        return float(getattr(self.function(y_true, y_score, **options), self.attribute))


def _ranking() -> list[MetricInfo]:
    common = partial(
        MetricInfo, higher_is_better=True, needs_both_classes=True, monotone_invariant=True
    )
    return [
        common(name="pr_auc", function=pr_auc),
        common(name="roc_auc", function=roc_auc, label_swap="roc_auc"),
        common(name="roc_auc_max_fpr_0.1", function=partial(roc_auc, max_fpr=0.1)),
        common(
            name="recall_at_fpr_0.1",
            function=_Part(partial(recall_at_fpr, target_fpr=0.1), "recall"),
        ),
    ]


def _probability() -> list[MetricInfo]:
    common = partial(MetricInfo, higher_is_better=False, needs_probability=True)
    equal_mass = partial(common, min_rows=10)
    worst_log_loss = 52.0 * math.log(2.0)
    return [
        common(name="brier_score", function=brier_score, label_swap="brier_score"),
        common(
            name="log_loss",
            function=log_loss,
            label_swap="log_loss",
            bounds=(0.0, worst_log_loss),
        ),
        common(
            name="expected_calibration_error",
            function=expected_calibration_error,
            label_swap="expected_calibration_error",
        ),
        common(name="smooth_ece", function=smooth_ece, label_swap="smooth_ece"),
        equal_mass(
            name="expected_calibration_error_equal_mass",
            function=expected_calibration_error_equal_mass,
        ),
        equal_mass(name="expected_calibration_error_l2", function=expected_calibration_error_l2),
        equal_mass(
            name="expected_calibration_error_l2_debiased",
            function=expected_calibration_error_l2_debiased,
            accepts_weight=False,
        ),
        equal_mass(
            name="expected_calibration_error_debiased",
            function=expected_calibration_error_debiased,
            accepts_weight=False,
        ),
        equal_mass(name="maximum_calibration_error", function=maximum_calibration_error),
    ]


def _calibration_fit() -> list[MetricInfo]:
    anywhere = (-math.inf, math.inf)
    swaps = {
        "calibration_slope": ("slope", "calibration_slope"),
        "calibration_intercept": ("intercept", "-calibration_intercept"),
        "calibration_in_the_large": ("calibration_in_the_large", "-calibration_in_the_large"),
    }
    return [
        MetricInfo(
            name=name,
            function=_Part(calibration_slope_intercept, attribute),
            bounds=anywhere,
            higher_is_better=None,
            needs_probability=True,
            needs_both_classes=True,
            label_swap=swap,
            min_rows=4,
        )
        for name, (attribute, swap) in swaps.items()
    ]


def _at_one_half() -> list[MetricInfo]:
    def rate(name: str, **facts: Any) -> MetricInfo:
        function = _Part(partial(confusion_counts, threshold=0.5), name)
        return MetricInfo(name=name, function=function, **{"higher_is_better": True} | facts)

    return [
        rate("accuracy", label_swap="accuracy"),
        rate("precision"),
        rate("recall", label_swap="specificity"),
        rate("specificity", label_swap="recall"),
        rate("f1"),
        rate("balanced_accuracy", label_swap="balanced_accuracy", needs_both_classes=True),
        rate("mcc", label_swap="mcc", needs_both_classes=True, bounds=(-1.0, 1.0)),
        rate("kappa", label_swap="kappa", bounds=(-1.0, 1.0)),
        rate("fpr", label_swap="fnr", higher_is_better=False),
        rate("fnr", label_swap="fpr", higher_is_better=False),
        MetricInfo(
            name="net_benefit",
            function=partial(net_benefit, threshold=0.5),
            bounds=(-1.0, 1.0),
            higher_is_better=True,
            needs_probability=True,
        ),
    ]


CATALOGUE: Mapping[str, MetricInfo] = MappingProxyType(
    {
        info.name: info
        for info in (*_ranking(), *_probability(), *_calibration_fit(), *_at_one_half())
    }
)
"""All scalar metrics by name; threshold metrics use the threshold 0.5."""
