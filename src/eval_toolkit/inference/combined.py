"""Percentile intervals for metrics that are combined over strata or folds."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.bootstrap_intervals import MAX_UNDEFINED, finite
from eval_toolkit.inference.distributions import ROUNDING
from eval_toolkit.inference.intervals import percentile_interval
from eval_toolkit.inference.plans import Plan, groups_plan
from eval_toolkit.inference.resampling import Executor, Problem, replicate
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    DEFAULT_N_RESAMPLES,
    BootstrapCI,
)
from eval_toolkit.inference.statistics import MetricFn, statistic_for
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

Key = TypeVar("Key")


def stratified_cluster_bootstrap_ci(
    strata: Mapping[Key, tuple[ArrayLike, ArrayLike, ArrayLike]],
    per_stratum_metric: MetricFn | Any,
    combine: Callable[[dict[Key, float]], float],
    *,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
    executor: Executor | None = None,
    return_samples: bool = False,
) -> BootstrapCI:
    """Return a percentile interval for a combination of per-stratum metrics, resampling groups.

    Parameters
    ----------
    strata : mapping of key to (y_true, y_score, groups)
        Labels, scores and groups of each stratum.
    per_stratum_metric : callable or metric spec
        Function of (y_true, y_score).
    combine : callable
        Function that maps ``{key: value}`` to a number, such as a mean or a difference.
    n_resamples, confidence, seed, rng, executor, return_samples
        As in `bootstrap_ci`.

    Returns
    -------
    BootstrapCI
        Interval with method "stratified_cluster_percentile".

    Raises
    ------
    InvalidInputError
        If there is no stratum or a stratum is invalid.
    UndefinedMetricError
        If the combination is undefined for the data or on more than 5 % of the resamples.

    Examples
    --------
    >>> from eval_toolkit.metrics import brier_score
    >>> data = ([0, 1] * 10, [0.2, 0.7] * 5 + [0.4, 0.9] * 5, list(range(20)))
    >>> ci = stratified_cluster_bootstrap_ci(
    ...     {"a": data, "b": data}, brier_score, lambda v: sum(v.values()) / len(v)
    ... )
    >>> ci.method
    'stratified_cluster_percentile'
    """
    if not strata:
        raise InvalidInputError("`strata` is empty; pass at least one stratum")
    n_resamples = validation.integer(n_resamples, "n_resamples", low=1)
    confidence = validation.fraction(confidence, "confidence")
    base = resolve_seed(seed, rng)
    statistic = statistic_for(per_stratum_metric)
    draws: dict[Key, FloatArray] = {}
    points: dict[Key, float] = {}
    n_units = n_groups = 0
    for key, part in strata.items():
        labels, scores, plan = _stratum(key, part)
        problem = Problem.scored(labels, [scores], [statistic], plan, derive_seed(base, str(key)))
        points[key] = finite(statistic.point(problem.data[0]), statistic.name)
        draws[key] = replicate(problem, n_resamples, executor=executor)[0, 0]
        n_units, n_groups = n_units + plan.n_rows, n_groups + plan.n_groups
    point = finite(combine(points), "`combine`")
    samples = np.array(
        [_combined(combine, {key: draws[key][r] for key in draws}) for r in range(n_resamples)]
    )
    return _percentile_result(
        point,
        samples,
        confidence,
        "stratified_cluster_percentile",
        n_units,
        n_groups,
        return_samples,
    )


def _stratum(key: Any, part: Any) -> tuple[BoolArray, FloatArray, Plan]:
    """Validate the data of a stratum; messages name the stratum."""
    try:
        y_true, y_score, groups = part
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"strata[{key!r}] must be (y_true, y_score, groups), got {type(part).__name__}"
        ) from None
    try:
        labels, scores = validation.binary_pair(y_true, y_score)
        plan = groups_plan(groups, n=len(labels))
    except InvalidInputError as error:
        raise InvalidInputError(f"strata[{key!r}]: {error}") from None
    if plan.n_groups < 2:
        raise InvalidInputError(
            f"strata[{key!r}] has only one group; every stratum needs at least two"
        )
    return labels, scores, plan


def _combined(combine: Callable[[dict[Key, float]], float], values: dict[Key, float]) -> float:
    defined = {key: float(value) for key, value in values.items() if not math.isnan(value)}
    try:
        return float(combine(defined)) if len(defined) == len(values) else math.nan
    except (ValueError, ArithmeticError, LookupError):
        return math.nan


def _percentile_result(
    point: float,
    samples: FloatArray,
    confidence: float,
    method: str,
    n_units: int,
    n_groups: int,
    return_samples: bool = False,
) -> BootstrapCI:
    """Return a percentile interval from the replicates."""
    defined = samples[np.isfinite(samples)]
    n_undefined = len(samples) - len(defined)
    if n_undefined > MAX_UNDEFINED * len(samples):
        raise UndefinedMetricError(
            f"the statistic is undefined on {n_undefined} of {len(samples)} resamples; "
            "for an interval, it must be defined on at least 95 %"
        )
    spread = float(np.ptp(defined)) > ROUNDING * max(1.0, abs(point))
    low, high = percentile_interval(defined, confidence) if spread else (point, point)
    return BootstrapCI(
        point_estimate=point,
        ci_low=low,
        ci_high=high,
        confidence=confidence,
        n_resamples=len(samples),
        method=method,
        samples=defined if return_samples else None,
        n_undefined=n_undefined,
        reason="" if spread else "every resample has the same value",
        n_units=n_units,
        n_groups=n_groups,
    )


def block_bootstrap_on_folds(
    fold_metrics: ArrayLike,
    *,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> BootstrapCI:
    """Return a percentile interval for the mean over folds, resampling folds.

    With few folds this interval is too narrow; prefer `cv_clt_ci` (t) or `corrected_resampled_t`.

    Parameters
    ----------
    fold_metrics : array-like of shape (K,)
        One value per fold, K ≥ 2.
    n_resamples, confidence, seed, rng
        As in `bootstrap_ci`.

    Returns
    -------
    BootstrapCI
        Interval with method "block_bootstrap"; equal fold values give [mean, mean] with a reason.

    Raises
    ------
    InvalidInputError
        If there are fewer than two folds or a value is not finite.

    Examples
    --------
    >>> ci = block_bootstrap_on_folds([0.8, 0.9, 0.85])
    >>> ci.method, 0.8 <= ci.ci_low <= ci.ci_high <= 0.9
    ('block_bootstrap', True)
    """
    values = validation.vector(fold_metrics, "fold_metrics")
    if len(values) < 2:
        raise InvalidInputError(f"`fold_metrics` needs at least 2 folds, got {len(values)}")
    n_resamples = validation.integer(n_resamples, "n_resamples", low=1)
    confidence = validation.fraction(confidence, "confidence")
    generator = np.random.Generator(np.random.Philox(key=resolve_seed(seed, rng)))
    counts = generator.multinomial(
        len(values), np.full(len(values), 1.0 / len(values)), size=n_resamples
    )
    k = len(values)
    return _percentile_result(
        float(values.mean()), counts @ values / k, confidence, "block_bootstrap", k, k
    )
