"""Paired comparisons of two scorers on shared resamples."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.inference.bootstrap_intervals import (
    MAX_UNDEFINED,
    PLAN_NOTES,
    bootstrap_problem,
    drawn_by_label,
    enough_units,
    finite,
    has_enough_units,
    undefined_error,
)
from eval_toolkit.inference.calibration_intervals import (
    calibration_difference,
    calibration_statistic,
)
from eval_toolkit.inference.column_statistics import Statistic
from eval_toolkit.inference.distributions import ROUNDING
from eval_toolkit.inference.intervals import percentile_interval
from eval_toolkit.inference.options import RESAMPLING, Resampling
from eval_toolkit.inference.paired_intervals import paired_difference
from eval_toolkit.inference.planning import MDEEstimate, mde_from_ci
from eval_toolkit.inference.plans import Plan, chosen_plan, rows_plan
from eval_toolkit.inference.resampling import Executor, Problem, replicate
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    DEFAULT_N_RESAMPLES,
    BootstrapCI,
    PairedBootstrapCI,
)
from eval_toolkit.inference.score_intervals import check_classes
from eval_toolkit.inference.statistics import AtThreshold, ColumnMean, MetricFn, statistic_for
from eval_toolkit.seeds import SeedLike, resolve_seed


def bootstrap_p_value(differences: ArrayLike) -> float:
    """Return the two-sided bootstrap p-value for "no difference" (twice the smaller tail).

    Parameters
    ----------
    differences : array-like of shape (R,)
        Bootstrap replicates of the difference.

    Returns
    -------
    float
        ``min(1, 2 min(1 + #{d ≤ 0}, 1 + #{d ≥ 0}) / (R + 1))``: never zero, because R resamples
        cannot support a p-value below 1 / (R + 1) (Davison & Hinkley 1997, ch. 4). Differences that
        are zero up to rounding error, relative to the largest difference, count as zero.

    Raises
    ------
    InvalidInputError
        If the array is empty or not finite.

    Examples
    --------
    >>> bootstrap_p_value([0.1] * 99)
    0.02
    """
    values = validation.vector(differences, "differences")
    slack = ROUNDING * float(np.abs(values).max())
    tail = min(np.count_nonzero(values <= slack), np.count_nonzero(values >= -slack))
    return min(1.0, 2.0 * (1 + int(tail)) / (len(values) + 1))


def paired_result(
    differences: FloatArray,
    value_a: float,
    value_b: float,
    confidence: float,
    method: str,
) -> PairedBootstrapCI:
    """Return a percentile interval for B − A from the defined replicates.

    Differences that are zero up to rounding error are set to zero.
    """
    slack = ROUNDING * max(abs(value_a), abs(value_b))
    defined = differences[~np.isnan(differences)]
    defined = np.where(np.abs(defined) <= slack, 0.0, defined)
    delta = value_b - value_a if abs(value_b - value_a) > slack else 0.0
    low, high = percentile_interval(defined, confidence)
    return PairedBootstrapCI(
        delta=delta,
        ci_low=low,
        ci_high=high,
        overlaps_zero=low <= 0.0 <= high,
        confidence=confidence,
        n_resamples=len(defined),
        method=method,
        n_undefined=len(differences) - len(defined),
        p_value=bootstrap_p_value(defined),
        samples=defined,
        value_a=value_a,
        value_b=value_b,
        reason="" if np.ptp(defined) > slack else "every resample has the same difference",
    )


@gathers(Resampling, **RESAMPLING)
def paired_bootstrap_diff(
    y_true: ArrayLike,
    y_score_a: ArrayLike,
    y_score_b: ArrayLike,
    metric: MetricFn | Any,
    *,
    method: str | None = None,
    groups: ArrayLike | None = None,
    plan: Plan | None = None,
    **resampling: Unpack[Resampling],
) -> PairedBootstrapCI:
    """Return metric(B) − metric(A) on the same rows, with an interval and a p-value.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score_a, y_score_b : array-like of shape (n,)
        Scores of A and of B for the same rows.
    metric : callable or metric spec
        Function of (y_true, y_score).
    method : {"percentile"}, optional
        "percentile" uses quantiles of the bootstrapped differences (not for calibration errors).
        The default is an interval that remains valid for small classes and near the bounds of the
        metric; see Notes.
    n_resamples, confidence, seed, rng, groups, plan, executor
        As in `bootstrap_ci`.

    Returns
    -------
    PairedBootstrapCI
        Interval, two-sided p-value, and replicates of the difference in ``samples`` (none with
        fewer than 10 independent units). The p-value is at most ``1 − confidence`` iff the interval
        excludes zero.

    Raises
    ------
    InvalidInputError
        If the input is invalid, or has fewer than 10 independent units and the interval needs
        resampling.
    UndefinedMetricError
        If the metric is undefined for the data, or on more than 5 % of the resamples even if these
        are stratified by label, or a class has fewer than 3 rows.

    Notes
    -----
    Accuracy, recall and other proportions of the same rows use Tango's interval and McNemar's score
    test. Brier score and log-loss use the mean of the row differences. For other metrics, the
    intervals for A and B are combined with the correlation of their replicates (MOVER [1]_); for
    ROC-AUC and PR-AUC, they also allow for failures on unseen rows. Calibration errors have no
    p-value: see `paired_bootstrap_ece_diff`. With 2 positives, percentile intervals reject 27 % of
    true null hypotheses at the 5 % level, and accept a model that is worse by the margin in 35 % of
    cases.

    References
    ----------
    .. [1] Zou & Donner (2008), Statistics in Medicine 27(10):1693-1702.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> a = [0.02 * i + 0.1 * label for i, label in enumerate(y)]
    >>> b = [0.02 * i + 0.5 * label for i, label in enumerate(y)]
    >>> diff = paired_bootstrap_diff(y, a, b, roc_auc)
    >>> diff.delta > 0, diff.overlaps_zero
    (True, False)
    """
    labels, a = validation.binary_pair(y_true, y_score_a, score_name="y_score_a")
    _, b = validation.binary_pair(y_true, y_score_b, score_name="y_score_b")
    resampling["n_resamples"] = validation.integer(resampling["n_resamples"], "n_resamples", low=1)
    resampling["confidence"] = validation.fraction(resampling["confidence"], "confidence")
    if method is not None:
        validation.choice(method, "method", ("percentile",))
    how = chosen_plan(labels, groups=groups, plan=plan)
    statistic = statistic_for(metric)
    if method is not None or requires_resamples(statistic):
        enough_units(how)
    problem = Problem.scored(
        labels, [a, b], [statistic], how, resolve_seed(resampling["seed"], resampling["rng"])
    )
    if calibration_statistic(statistic) is not None:
        return untested_difference(
            problem,
            n_resamples=resampling["n_resamples"],
            confidence=resampling["confidence"],
            executor=resampling["executor"],
        )
    value_a, value_b = (finite(statistic.point(data), statistic.name) for data in problem.data)
    problem, samples = shared_draws(problem, resampling["n_resamples"], resampling["executor"])
    if method is None:
        found = paired_difference(problem, samples, samples.shape[1], resampling["confidence"])
        return found if samples.size else replace(found, samples=None)
    for data in problem.data:
        check_classes(statistic, data, problem.plan)
    name = f"percentile{PLAN_NOTES[problem.plan.kind]}"
    return paired_result(samples[1] - samples[0], value_a, value_b, resampling["confidence"], name)


def requires_resamples(statistic: Statistic) -> bool:
    """Return whether the default interval for a difference requires resamples.

    Proportions of the same rows (Tango's interval) and means of row values do not.
    """
    if isinstance(statistic, AtThreshold):
        return not statistic.is_share_of_fixed_rows
    return not isinstance(statistic, ColumnMean)


def shared_draws(
    problem: Problem, n_resamples: int, executor: Executor | None
) -> tuple[Problem, FloatArray]:
    """Return each scorer's replicates, stratified by label if too many are undefined.

    Only resamples on which the metric is defined for every scorer are kept. The result is empty if
    there are too few units.
    """
    problem = problem.in_canonical_order()
    if not has_enough_units(problem.plan):
        return problem, np.empty((len(problem.data), 0))
    samples = replicate(problem, n_resamples, executor=executor)[:, 0]
    undefined = int(np.count_nonzero(np.isnan(samples).any(axis=0)))
    if undefined <= MAX_UNDEFINED * n_resamples:
        return problem, samples
    apart = drawn_by_label(problem)
    if apart is not None:
        return shared_draws(apart, n_resamples, executor)
    raise undefined_error(problem.statistics[0], undefined, n_resamples)


def paired_bootstrap_ece_diff(
    y_true: ArrayLike,
    y_score_a: ArrayLike,
    y_score_b: ArrayLike,
    *,
    ece_fn: Callable[..., float],
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
    n_bins: int = 10,
    executor: Executor | None = None,
) -> PairedBootstrapCI:
    """Return the difference between two calibration errors with an interval, without a test.

    Parameters
    ----------
    y_true, y_score_a, y_score_b : array-like of shape (n,)
        Labels, and the probabilities of A and B.
    ece_fn : callable
        Calibration error of this package, or a function ``ece_fn(y_true, y_score, n_bins)``.
    n_resamples, confidence, seed, rng, executor
        As in `paired_bootstrap_diff`.
    n_bins : int, default 10
        Number of bins, passed to ``ece_fn``.

    Returns
    -------
    PairedBootstrapCI
        Difference error(B) − error(A); negative if B is better calibrated. There is no p-value, as
        explained in ``reason``: the bias of a calibration error depends on the spread of the
        scores, so two calibrated scorers differ. The interval combines the intervals for both
        errors; for third-party functions it is [−1, 1].

    Raises
    ------
    InvalidInputError
        As in `paired_bootstrap_diff`.

    See Also
    --------
    paired_bootstrap_diff : valid test for probabilities, with ``brier_score`` or ``log_loss``.

    Examples
    --------
    >>> from eval_toolkit.metrics import expected_calibration_error
    >>> y = [0, 1] * 20
    >>> diff = paired_bootstrap_ece_diff(
    ...     y, [0.2, 0.8] * 20, [0.4, 0.6] * 20, ece_fn=expected_calibration_error
    ... )
    >>> round(diff.delta, 3), diff.p_value
    (0.2, None)
    """
    n_bins = validation.bin_count(n_bins)
    labels, a = validation.binary_pair(y_true, y_score_a, score_name="y_score_a")
    _, b = validation.binary_pair(y_true, y_score_b, score_name="y_score_b")
    statistic = statistic_for(functools.partial(ece_fn, n_bins=n_bins))
    if calibration_statistic(statistic) is None:  # passed by position, since its name may differ
        statistic = statistic_for(_WithBins(ece_fn, n_bins))
    plan, drawn = rows_plan(len(labels)), resolve_seed(seed, rng)
    problem = Problem.scored(labels, [a, b], [statistic], plan, drawn)
    enough_units(problem.plan)
    if calibration_statistic(statistic) is None:
        value_a, value_b = (finite(statistic.point(data), "ece_fn") for data in problem.data)
        confidence = validation.fraction(confidence, "confidence")
        ranges = (
            BootstrapCI(value, 0.0, max(1.0, value), confidence, 0, "range of a calibration error")
            for value in (value_a, value_b)
        )
        return calibration_difference(*ranges)
    return untested_difference(
        problem, n_resamples=n_resamples, confidence=confidence, executor=executor
    )


def untested_difference(
    problem: Problem, *, n_resamples: int, confidence: float, executor: Executor | None
) -> PairedBootstrapCI:
    """Return the difference between calibration errors for any plan, without a p-value."""
    intervals = []
    for (cell,) in bootstrap_problem(
        problem, n_resamples=n_resamples, confidence=confidence, method=None, executor=executor
    ):
        if isinstance(cell, Exception):
            raise cell
        intervals.append(cell)
    return calibration_difference(*intervals)


@dataclass(frozen=True)
class _WithBins:
    """``ece_fn`` with its third argument bound; picklable."""

    ece_fn: Callable[..., float]
    n_bins: int

    def __call__(self, y_true: Any, y_score: Any) -> float:
        return self.ece_fn(y_true, y_score, self.n_bins)


def paired_mde(
    y_true: ArrayLike,
    y_score_a: ArrayLike,
    y_score_b: ArrayLike,
    metric: MetricFn | Any,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    seed: SeedLike = None,
    rng: SeedLike = None,
    executor: Executor | None = None,
) -> MDEEstimate:
    """Return the smallest true difference that a paired comparison on these rows can detect.

    Parameters
    ----------
    y_true, y_score_a, y_score_b, metric
        As in `paired_bootstrap_diff`.
    alpha : float, default 0.05
        Two-sided significance level.
    power : float, default 0.8
        Probability of detection.
    n_resamples, seed, rng, executor
        As in `paired_bootstrap_diff`.

    Returns
    -------
    MDEEstimate
        ``(z_{1−α/2} + z_power) σ`` with σ from the 95 % interval for the difference.

    Raises
    ------
    InfeasibleError
        If the interval has zero width.
    UndefinedMetricError
        If there is no interval, e.g. because all differences are equal.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> a = [0.02 * i + 0.1 * label for i, label in enumerate(y)]
    >>> b = [0.03 * (i % 9) + 0.5 * label for i, label in enumerate(y)]
    >>> paired_mde(y, a, b, roc_auc).n
    60
    """
    diff = paired_bootstrap_diff(
        y_true,
        y_score_a,
        y_score_b,
        metric,
        n_resamples=n_resamples,
        seed=seed,
        rng=rng,
        executor=executor,
    )
    return replace(mde_from_ci(diff, alpha=alpha, power=power), n=len(np.asarray(y_true)))
