"""Intervals and p-values for paired differences of any metric.

Proportions use Tango's interval, and means of row values the mean of the differences. For other
metrics, the intervals for both estimates are combined with their correlation (MOVER). P-values
match the intervals: they are at most 1 − confidence iff the interval excludes zero.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference.bootstrap_intervals import PLAN_NOTES, bootstrap_problem
from eval_toolkit.inference.delong import placements, variance_parts
from eval_toolkit.inference.distributions import ROUNDING, critical_value, negligible, upper_tail
from eval_toolkit.inference.mean_intervals import mean_pivot
from eval_toolkit.inference.means import PairedMeanResult, paired_mean_diff
from eval_toolkit.inference.resampling import Problem
from eval_toolkit.inference.results import BootstrapCI, PairedBootstrapCI
from eval_toolkit.inference.score_intervals import (
    MIN_CLASS,
    carriers_of,
    check_classes,
    effective_rows,
    groups_of,
    pooled_count,
)
from eval_toolkit.inference.statistics import AtThreshold, AveragePrecision, ColumnMean, RocAuc

_CARRIERS = 5.0
"""Effective number of rows above which rank metrics no longer allow for unseen failures."""

_CARRIERS_ON_TOP = 4.0
"""The same limit for the top-ranked negatives, which affect PR-AUC most."""

_ENOUGH = 200.0
"""Size of the smaller class above which the scorers' own intervals allow for rare failures."""

_NOTEWORTHY = 1.25
"""Ratio of widths above which the reason for a wider interval is reported."""


def mover_interval(a: BootstrapCI, b: BootstrapCI, correlation: float = 0.0) -> tuple[float, float]:
    """Return an interval for B − A from the intervals for A and B (MOVER).

    Parameters
    ----------
    a, b : BootstrapCI
        Estimates with intervals of equal confidence.
    correlation : float, default 0.0
        Correlation of the two estimates.

    Returns
    -------
    tuple of float
        Lower and upper bound. The interval inherits the skewness of both intervals, and has zero
        width only if both of them do.

    Notes
    -----
    The lower bound is ``δ − √((b − l_b)² + (u_a − a)² − 2ρ (b − l_b)(u_a − a))``; the upper bound
    is analogous [1]_.

    References
    ----------
    .. [1] Zou & Donner (2008), Statistics in Medicine 27(10):1693-1702.

    Examples
    --------
    >>> a = BootstrapCI(0.8, 0.7, 0.9, 0.95, 0, "score")
    >>> b = BootstrapCI(0.9, 0.8, 1.0, 0.95, 0, "score")
    >>> low, high = mover_interval(a, b)
    >>> round(low, 3), round(high, 3)
    (-0.041, 0.241)
    """
    delta = b.point_estimate - a.point_estimate
    down = _combined(b.point_estimate - b.ci_low, a.ci_high - a.point_estimate, correlation)
    up = _combined(b.ci_high - b.point_estimate, a.point_estimate - a.ci_low, correlation)
    return delta - down, delta + up


def _combined(first: float, second: float, correlation: float) -> float:
    first, second = max(0.0, first), max(0.0, second)  # a BCa interval may exclude its estimate
    square = first**2 + second**2 - 2.0 * correlation * first * second
    return math.sqrt(max(0.0, square))


def p_of_interval(
    delta: float, low: float, high: float, confidence: float, df: float | None = None
) -> float:
    """Return the two-sided p-value for "no difference" that matches an interval.

    It is at most ``1 − confidence`` iff the interval excludes zero: the distance to zero, relative
    to the length of the interval on that side, times the critical value is treated as a normal
    statistic, or as Student's t with ``df``.

    Examples
    --------
    >>> round(p_of_interval(0.1, 0.0, 0.3, 0.95), 3)
    0.05
    """
    reach = delta - low if delta > 0.0 else high - delta
    if delta == 0.0:
        return 1.0
    if reach <= 0.0:  # if the interval excludes its estimate, use the far end
        return 0.0 if not low <= 0.0 <= high else 1.0
    return 2.0 * upper_tail(critical_value(confidence, df) * abs(delta) / reach, df)


def paired_difference(
    problem: Problem, samples: FloatArray, n_drawn: int, confidence: float
) -> PairedBootstrapCI:
    """Return metric(B) − metric(A) for a problem with two scorers, with interval and p-value.

    ``samples`` contains the replicates of both scorers on shared resamples, which determine the
    correlation.

    Raises `UndefinedMetricError` if the rows do not support an interval.
    """
    statistic = problem.statistics[0]
    data_a, data_b = problem.data
    values = statistic.point(data_a), statistic.point(data_b)
    slack = ROUNDING * max(map(abs, values))
    delta = values[1] - values[0] if abs(values[1] - values[0]) > slack else 0.0
    differences = samples[1] - samples[0]
    defined = differences[~np.isnan(differences)]
    reason = ""
    if isinstance(statistic, ColumnMean):
        low, high, p_value, method = _of_means(problem, statistic, confidence)
    elif isinstance(statistic, AtThreshold) and statistic.is_share_of_fixed_rows:
        low, high, p_value, method = _of_shares(problem, statistic, confidence)
    else:
        low, high, p_value, method, reason = _of_estimates(problem, samples, delta, confidence)
    return PairedBootstrapCI(
        delta=delta,
        ci_low=low,
        ci_high=high,
        overlaps_zero=low <= 0.0 <= high,
        confidence=confidence,
        n_resamples=len(defined),
        method=method,
        n_undefined=n_drawn - len(defined),
        reason=reason,
        p_value=p_value,
        samples=defined,
        value_a=values[0],
        value_b=values[1],
    )


_Found = tuple[float, float, float | None, str]


def _of_estimates(
    problem: Problem, samples: FloatArray, delta: float, confidence: float
) -> tuple[float, float, float, str, str]:
    """Return the bounds, the p-value, the method, and the reason if the interval was widened."""
    cells = bootstrap_problem(
        problem,
        n_resamples=samples.shape[1],
        confidence=confidence,
        method=None,
        samples=samples[:, None],
    )
    effective = min(
        effective_rows(problem.statistics[0], data, problem.plan) for data in problem.data
    )
    (a,), (b,) = cells
    rates = isinstance(problem.statistics[0], AtThreshold) and problem.plan.is_independent
    unseen = _unseen(problem, confidence) if problem.plan.is_independent else 0.0
    seen = combined_difference(a, b, samples, delta, effective, rates=rates)
    found = combined_difference(a, b, samples, delta, effective, rates=rates, least=unseen)
    reason = ""
    if found[1] - found[0] > _NOTEWORTHY * (seen[1] - seen[0]):
        fewer = min(np.count_nonzero(problem.labels), np.count_nonzero(~problem.labels))
        reason = f"allows for failures too rare to occur in {fewer} rows of the smaller class"
    return *found, "mover" + PLAN_NOTES[problem.plan.kind], reason


def _unseen(problem: Problem, confidence: float) -> float:
    """Return the possible effect of unseen rows on the difference of a rank metric.

    If none of n rows fails, up to z²/(n + z²) of all rows may fail (the upper bound of the score
    interval for 0 of n). A positive fails if it scores below all negatives, and a negative if it
    scores above all positives. The more rows determine the observed difference (k = n over the
    kurtosis), the less likely are unseen kinds of rows: n is multiplied by k/5, and the number of
    top-ranked negatives by (4/k)².
    """
    if not isinstance(problem.statistics[0], (RocAuc, AveragePrecision)):
        return 0.0
    labels = problem.labels
    m, n = int(np.count_nonzero(labels)), int(np.count_nonzero(~labels))
    if min(m, n) < MIN_CLASS:  # no interval
        return 0.0
    a, b = (placements(labels, data.scores) for data in problem.data)
    order = np.lexsort((b, a, labels))  # so that the order of the rows cannot move a bit
    moved, positive = (b - a)[order], labels[order]
    parts = variance_parts(positive, moved, m, n)
    carriers = 0.0
    if sum(parts) > 0.0:
        counts = [carriers_of(moved[mask]) for mask in (positive, ~positive)]
        carriers = pooled_count(parts, counts)
    square = critical_value(confidence) ** 2
    reach = square / (min(m, n) * max(1.0, carriers / _CARRIERS) + square)
    if isinstance(problem.statistics[0], AveragePrecision):
        # Negatives on top: the precision at the i-th positive is i / (i + on_top).
        on_top = square / max(1.0, carriers / _CARRIERS_ON_TOP) ** 2
        reach = max(reach, on_top / m * math.log1p(m / on_top))
    return reach


def combined_difference(
    a: BootstrapCI | UndefinedMetricError,
    b: BootstrapCI | UndefinedMetricError,
    samples: FloatArray,
    delta: float,
    effective: float,
    *,
    rates: bool = False,
    least: float = 0.0,
) -> tuple[float, float, float]:
    """Return the interval and p-value for B − A from the intervals and replicates of both scorers.

    The interval extends at least ``least`` to both sides, but no further than the interval for
    independent scorers (``_ENOUGH / effective`` times as far if there are fewer effective rows).

    With ``rates`` (functions of several rates), Student's t quantiles are used: with normal
    quantiles, balanced accuracies with six positives differ significantly in 8 to 11 % of
    comparisons of equal scorers.

    Raises `UndefinedMetricError` if one scorer has no interval.
    """
    for cell in (a, b):
        if isinstance(cell, Exception):
            raise cell
    assert isinstance(a, BootstrapCI)  # noqa: S101 - for the type checker
    assert isinstance(b, BootstrapCI)  # noqa: S101
    shared = _correlation(samples)
    if shared > 0.0:  # shrink, since it is uncertain with few rows
        shared *= max(0.0, 1.0 - 2.0 / max(effective, 2.0))
    low, high = mover_interval(a, b, shared)
    df = max(1.0, effective - 1.0)
    if rates:
        stretch = critical_value(a.confidence, df) / critical_value(a.confidence)
        low, high = delta - stretch * (delta - low), delta + stretch * (high - delta)
    # Each interval allows for unseen failures of its own scorer, well with enough rows, so that two
    # independent scorers with these intervals are the worst case.
    slack = max(1.0, _ENOUGH / max(effective, 1.0))
    below, above = (slack * abs(end - delta) for end in mover_interval(a, b, 0.0))
    low = min(low, delta - min(least, below))
    high = max(high, delta + min(least, above))
    return low, high, p_of_interval(delta, low, high, a.confidence, df)


def _correlation(samples: FloatArray) -> float:
    a, b = samples[:, ~np.isnan(samples).any(axis=0)]
    if any(negligible(float(x.std()), float(np.abs(x).max())) for x in (a, b)):
        return 0.0
    return float(np.clip(np.corrcoef(a, b)[0, 1], -1.0, 1.0))


def _of_means(problem: Problem, statistic: ColumnMean, confidence: float) -> _Found:
    a, b = map(statistic.of_rows, problem.data)
    if statistic.of_labels:
        return _of_losses(problem, statistic, b - a, confidence)
    return _found(paired_mean_diff(a, b, groups=groups_of(problem.plan), confidence=confidence))


def _of_losses(
    problem: Problem, statistic: ColumnMean, differences: FloatArray, confidence: float
) -> _Found:
    """Return the interval for a mean difference of losses, allowing for rows that dominate.

    Differences are bounded by the losses of either scorer with the actual or the flipped labels.
    The degrees of freedom are Satterthwaite's, for a mean over two classes with estimated
    proportions.
    """
    labels, plan = problem.labels, problem.plan
    classes = tuple(mask for mask in (labels, ~labels) if mask.any())
    check_classes(statistic, problem.data[0], plan, support=classes)
    counts = [plan.effective_among(mask) for mask in classes]
    reach = max(statistic.range_on(data)[1] - statistic.bounds[0] for data in problem.data)
    if float(np.ptp(differences)) <= ROUNDING * reach:
        raise UndefinedMetricError("zero variance: all differences are equal")
    pivot = mean_pivot(differences, groups=groups_of(problem.plan), bounds=(-reach, reach))
    df = min(pivot.df, _df_of_classes([differences[mask] for mask in classes], counts))
    pivot = replace(pivot, df=df)
    ends = pivot.interval(confidence)
    return ends.ci_low, ends.ci_high, pivot.p_value(), f"paired {pivot.method}"


def _df_of_classes(values: list[FloatArray], counts: list[float]) -> float:
    """Return Satterthwaite's degrees of freedom for a mean over two classes."""
    n = sum(map(len, values))
    shares = [len(x) / n for x in values]
    parts = [
        (share**2 * float(x.var(ddof=1)) / count, max(1.0, count - 1.0))
        for share, x, count in zip(shares, values, counts, strict=True)
        if len(x) > 1
    ]
    if len(values) == 2:
        between = float(values[0].mean() - values[1].mean()) ** 2
        parts.append((between * shares[0] * shares[1] / sum(counts), min(counts)))
    total = sum(part for part, _ in parts)
    return total**2 / sum(part**2 / df for part, df in parts) if total > 0.0 else math.inf


def _of_shares(problem: Problem, statistic: AtThreshold, confidence: float) -> _Found:
    hits = [statistic.hits(data.labels, data.scores) for data in problem.data]
    among = ~np.isnan(hits[0])
    groups = groups_of(problem.plan)
    return paired_shares(
        hits[0][among],
        hits[1][among],
        groups=None if groups is None else groups[among],
        confidence=confidence,
    )


def paired_shares(
    a: FloatArray, b: FloatArray, *, groups: NDArray[Any] | None, confidence: float
) -> _Found:
    """Return the interval, p-value and method for a paired difference of proportions.

    Raises `UndefinedMetricError` if the groups do not support an interval.
    """
    mean = paired_mean_diff(a, b, groups=groups, share=True, confidence=confidence)
    return _found(mean)


def _found(mean: PairedMeanResult) -> _Found:
    if mean.ci_low is None or mean.ci_high is None or mean.p_value is None:
        raise UndefinedMetricError(mean.reason)
    return mean.ci_low, mean.ci_high, mean.p_value, mean.method
