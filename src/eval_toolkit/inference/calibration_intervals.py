"""Intervals for calibration errors, from simulated labels.

The interval is for the error over the metric's bins. Errors that cancel within a bin are ignored:
if the scores are too low in one half of a bin and too high in the other half, the binned error may
be zero.
"""

import functools
from typing import Any, cast

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.calibration_statistics import CalibrationError, EqualMassError
from eval_toolkit.inference.column_statistics import CallableStatistic, Statistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.inference.intervals import quantiles
from eval_toolkit.inference.plans import Plan
from eval_toolkit.inference.results import BootstrapCI, PairedBootstrapCI
from eval_toolkit.inference.statistics import statistic_for
from eval_toolkit.seeds import derive_seed

INTERVAL_REASON = "norm-ball interval for the binned error; gaps within a bin may cancel"
"""Reason attached to the interval for a binned error."""

SMOOTH_REASON = "norm-ball interval, as calibration errors are biased upwards"
"""Reason attached to the interval for the smooth error."""

NO_COMPARISON = (
    "calibration errors are not tested against each other: their bias depends on the number of "
    "rows and the spread of the scores, so two calibrated scorers would differ; compare brier or "
    "log_loss"
)
"""Why a difference between calibration errors has no p-value, and what to use instead."""

WEIGHTED_REASON = (
    "the bias of a calibration error is known only for equally weighted rows, not {}; use brier "
    "or log_loss, which have intervals"
)
"""Why a weighted calibration error has no interval; the placeholder describes the weights."""

_DEBIASED = {
    metrics.expected_calibration_error_debiased: "l1",
    metrics.expected_calibration_error_l2_debiased: "l2",
}
_AT_ONCE = 256  # draws per batch, to bound memory


def calibration_statistic(statistic: Statistic) -> CalibrationError | None:
    """Return the calibration error on which an interval is based; None for other metrics.

    A debiased error estimates the same population error as the uncorrected one over the same bins,
    so both have the same interval.
    """
    if hasattr(statistic, "label_draws"):
        return cast("CalibrationError", statistic)
    if not isinstance(statistic, CallableStatistic):
        return None
    function: Any = statistic.function
    keywords: dict[str, Any] = {}
    if isinstance(function, functools.partial):
        function, keywords = function.func, function.keywords
    try:
        norm = _DEBIASED.get(function)
    except TypeError:  # unhashable callables
        return None
    return None if norm is None else EqualMassError(keywords.get("n_bins", 10), norm)


def is_calibration_error(metric: Any) -> bool:
    """Return whether a metric, spec or prepared statistic is a calibration error.

    Examples
    --------
    >>> from eval_toolkit import metric_specs
    >>> is_calibration_error(metric_specs.ece()), is_calibration_error(metric_specs.brier)
    (True, False)
    >>> is_calibration_error(metrics.expected_calibration_error_l2_debiased)
    True
    """
    try:
        return calibration_statistic(statistic_for(metric)) is not None
    except (
        InvalidInputError,
        InvalidTypeError,
    ):  # metric of columns other than labels and scores
        return False


def calibration_interval(
    error: CalibrationError,
    data: Columns,
    point: float,
    *,
    n_draws: int,
    confidence: float,
    seed: int,
) -> tuple[float, float]:
    """Return the interval for a calibration error over independent rows.

    ``point`` is the (debiased) error; the interval always includes it. The result does not depend
    on the row order.

    Notes
    -----
    Let g be the gaps in the data, e noise drawn from frequencies with pseudo-counts, and tail =
    (1 − confidence) / 2. Then:

    - lower end ``‖g‖ − q(‖e‖)`` (triangle inequality), or 0 if ‖g‖ is consistent with a calibrated
    scorer (consistency resampling, Bröcker & Smith 2007);
    - upper end: the larger of ``q(‖g + e‖)`` and ``q(‖a + e‖)``, where a are the gaps under
    the frequencies from which e is drawn.

    q is the 1 − tail quantile. The noise is drawn from the frequency (positives + mean prediction +
    pseudo) / (rows + 1 + 2 pseudo), which is not 0 or 1 in bins without errors.
    """
    generator = np.random.Generator(np.random.Philox(derive_seed(seed, "labels", error.name)))
    noise, near_data, near_assumed, calibrated, here = _sizes(error, data, generator, n_draws)
    tail = (1.0 - confidence) / 2.0
    reach, above, assumed, chance = (
        quantiles(sizes, [1.0 - tail])[0] for sizes in (noise, near_data, near_assumed, calibrated)
    )
    low = 0.0 if here <= chance else max(0.0, here - reach)
    return min(low, point), min(1.0, max(above, assumed, here, point))


def calibration_difference(a: BootstrapCI, b: BootstrapCI) -> PairedBootstrapCI:
    """Return the difference error(B) − error(A) with an interval but no p-value.

    The interval extends from ``b.ci_low − a.ci_high`` to ``b.ci_high − a.ci_low`` and excludes zero
    only if the two intervals are disjoint. The noise of A and B may have opposite signs, so pairing
    does not narrow it.

    Examples
    --------
    >>> a = BootstrapCI(0.02, 0.0, 0.05, 0.95, 1000, "norm-ball")
    >>> b = BootstrapCI(0.06, 0.0, 0.11, 0.95, 1000, "norm-ball")
    >>> diff = calibration_difference(a, b)
    >>> f"{diff:.2f}", diff.overlaps_zero, diff.p_value
    ('+0.04 [-0.05, +0.11]', True, None)
    """
    low, high = b.ci_low - a.ci_high, b.ci_high - a.ci_low
    return PairedBootstrapCI(
        delta=b.point_estimate - a.point_estimate,
        ci_low=low,
        ci_high=high,
        overlaps_zero=low <= 0.0 <= high,
        confidence=a.confidence,
        n_resamples=a.n_resamples,
        method=f"from both intervals: {a.method}",
        value_a=a.point_estimate,
        value_b=b.point_estimate,
        reason=NO_COMPARISON,
    )


def labels_suffice(plan: Plan) -> bool:
    """Return whether rows are independent, in which case it is sufficient to simulate labels."""
    return plan.kind in ("rows", "label-stratified")


def widened_for_groups(
    interval: tuple[float, float],
    point: float,
    distances: FloatArray,
    samples: FloatArray,
    *,
    n_groups: int,
    confidence: float,
) -> tuple[float, float]:
    """Return the interval, widened by the variation over resampled groups.

    ``distances`` are between the resampled and the observed gaps; ``samples`` are the resampled
    errors. Both are scaled from a normal to a Student t quantile with n_groups − 1 degrees of
    freedom and by √(G / (G − 1)), because few groups underestimate their spread.
    """
    df = max(1, n_groups - 1)
    stretch = critical_value(confidence, df) / critical_value(confidence) * ((df + 1) / df) ** 0.5
    level = [(1.0 + confidence) / 2.0]
    (reach,) = quantiles(distances[~np.isnan(distances)], level)
    (above,) = quantiles(samples[~np.isnan(samples)], level)
    low, high = interval
    low = min(low, max(0.0, point - stretch * reach))
    return low, max(high, min(1.0, point + stretch * (above - point)))


def _sizes(
    error: CalibrationError, data: Columns, generator: "np.random.Generator", n_draws: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
    """Return the norms of the noise alone, and added to the observed and to the assumed gaps."""
    draw = error.label_draws(data)
    parts: list[list[FloatArray]] = []
    for done in range(0, n_draws, _AT_ONCE):
        fields = draw(generator, min(_AT_ONCE, n_draws - done))
        around_data, around_assumed = fields.observed + fields.noise, fields.assumed + fields.noise
        drawn = (fields.noise, around_data, around_assumed, fields.calibrated)
        parts.append([error.size(one) for one in drawn])
    noise, near_data, near_assumed, calibrated = map(np.concatenate, zip(*parts, strict=True))
    return noise, near_data, near_assumed, calibrated, float(error.size(fields.observed)[0])
