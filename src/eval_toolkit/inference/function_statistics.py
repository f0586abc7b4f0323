"""Statistics for the package's metric functions."""

import functools
from collections.abc import Callable
from typing import Any

from eval_toolkit import metrics
from eval_toolkit._internal.validation import number
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.calibration_statistics import (
    EqualMassError,
    EqualWidthError,
    SmoothError,
)
from eval_toolkit.inference.column_statistics import CallableStatistic, Statistic
from eval_toolkit.inference.partial_area import PartialRocAuc
from eval_toolkit.inference.statistics import (
    BRIER,
    LOG_LOSS,
    AveragePrecision,
    MetricFn,
    RocAuc,
)


def _maximum_error(n_bins: int = 10, strategy: str = "quantile") -> Statistic:
    over = EqualMassError if strategy == "quantile" else EqualWidthError
    return over(n_bins, "max")


def _roc_area(*, max_fpr: float | None = None) -> Statistic:
    if max_fpr is None or max_fpr == 1.0:
        return RocAuc()
    number(max_fpr, "max_fpr", low=0.0, high=1.0, include_low=False)
    return PartialRocAuc.up_to(max_fpr)


_BUILDERS: dict[Any, Callable[..., Statistic]] = {
    metrics.pr_auc: AveragePrecision,
    metrics.roc_auc: _roc_area,
    metrics.brier_score: lambda: BRIER,
    metrics.log_loss: lambda: LOG_LOSS,
    metrics.expected_calibration_error: EqualWidthError,
    metrics.expected_calibration_error_equal_mass: EqualMassError,
    metrics.smooth_ece: SmoothError,
    metrics.maximum_calibration_error: _maximum_error,
    metrics.expected_calibration_error_l2: functools.partial(EqualMassError, norm="l2"),
}


def statistic_of_function(metric: Any) -> Statistic:
    """Return the statistic for a metric function; third-party functions are wrapped."""
    if isinstance(metric, functools.partial) and "sample_weight" in metric.keywords:
        raise InvalidInputError(
            "`metric` has a fixed `sample_weight`, which does not match the resampled rows; "
            "use `weighted_ci`"
        )
    if isinstance(metric, functools.partial) and metric.func in _BUILDERS and not metric.args:
        try:
            return _BUILDERS[metric.func](**metric.keywords)
        except TypeError:  # an argument that has no prepared form, such as max_fpr
            return _wrapped(metric, metric.func)
    if not callable(metric):
        raise InvalidTypeError(
            f"`metric` must be a function of (y_true, y_score) or a metric spec, got {metric!r}"
        )
    try:
        builder = _BUILDERS.get(metric)
    except TypeError:  # unhashable callables are third-party
        builder = None
    return builder() if builder else _wrapped(metric, metric)


def _wrapped(metric: MetricFn, function: Any) -> CallableStatistic:
    """Wrap a callable as a statistic, with bounds from the catalogue for built-in functions."""
    for info in metrics.CATALOGUE.values():
        if info.function is function:
            return CallableStatistic(metric, info.bounds)
    return CallableStatistic(metric, foreign=True)
