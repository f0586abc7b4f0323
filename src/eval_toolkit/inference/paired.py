"""Paired comparisons: the same resamples for every scorer, so that differences are honest."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import _validate
from eval_toolkit._kernel import LANES
from eval_toolkit._validate import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InfeasibleError, InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.bootstrap import (
    MAX_UNDEFINED,
    PLAN_NOTES,
    bootstrap_problem,
    enough_units,
    finite,
)
from eval_toolkit.inference.engine import Executor, Problem, replicate
from eval_toolkit.inference.intervals import percentile_interval
from eval_toolkit.inference.multiplicity import correct_p_values
from eval_toolkit.inference.planning import MDEEstimate, mde_from_ci
from eval_toolkit.inference.plans import (
    Plan,
    groups_plan,
    label_stratified_plan,
    rows_plan,
)
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    DEFAULT_METHOD,
    DEFAULT_N_RESAMPLES,
    BootstrapCI,
    PairedBootstrapCI,
)
from eval_toolkit.inference.statistics import MetricFn, statistic_for
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

__all__ = [
    "ScorerComparison",
    "ThresholdFn",
    "ThresholdedMetricFn",
    "bootstrap_p_value",
    "compare_scorers",
    "paired_bootstrap_diff",
    "paired_bootstrap_ece_diff",
    "paired_bootstrap_op_point_diff",
    "paired_mde",
]

ThresholdFn: TypeAlias = Callable[[Any, Any], float]
ThresholdedMetricFn: TypeAlias = Callable[[Any, Any, float], float]


def bootstrap_p_value(differences: ArrayLike) -> float:
    """Two-sided bootstrap p-value of "no difference": twice the smaller tail beyond zero.

    Parameters
    ----------
    differences : array-like of shape (R,)
        Bootstrap replicates of the difference.

    Returns
    -------
    float
        ``min(1, 2 min(1 + #{d ≤ 0}, 1 + #{d ≥ 0}) / (R + 1))``: never zero, since R resamples
        cannot show less than 1 / (R + 1) (Davison & Hinkley 1997, ch. 4).

    Raises
    ------
    InvalidInputError
        If the array is empty or not finite.

    Examples
    --------
    >>> bootstrap_p_value([0.1] * 99)
    0.02
    """
    values = _validate.vector(differences, "differences")
    tail = min(np.count_nonzero(values <= 0.0), np.count_nonzero(values >= 0.0))
    return min(1.0, 2.0 * (1 + int(tail)) / (len(values) + 1))


def _paired_result(
    differences: FloatArray,
    value_a: float,
    value_b: float,
    confidence: float,
    method: str,
) -> PairedBootstrapCI:
    """Assemble a percentile interval of B − A from replicates, undefined ones left out."""
    defined = differences[~np.isnan(differences)]
    delta = value_b - value_a
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
        reason="" if np.ptp(defined) > 0.0 else "every resample has the same difference",
    )


def paired_bootstrap_diff(
    y_true: ArrayLike,
    y_score_a: ArrayLike,
    y_score_b: ArrayLike,
    metric: MetricFn | Any,
    *,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
    groups: ArrayLike | None = None,
    executor: Executor | None = None,
) -> PairedBootstrapCI:
    """Bootstrap the difference metric(B) − metric(A) of two scorers on the same rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score_a, y_score_b : array-like of shape (n,)
        Scores of A and of B for the same rows.
    metric : callable or metric spec
        A function of (y_true, y_score).
    n_resamples, confidence, seed, rng, groups, executor
        As in `bootstrap_ci`.

    Returns
    -------
    PairedBootstrapCI
        Percentile interval, two-sided p-value, and the replicates in ``samples``.

    Raises
    ------
    InvalidInputError
        If the input is unusable or has fewer than 10 independent units.
    UndefinedMetricError
        If the metric does not exist for the data, or on more than 5 % of the draws even when
        they are stratified by label.

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
    labels, a = _validate.binary_pair(y_true, y_score_a, score_name="y_score_a")
    _, b = _validate.binary_pair(y_true, y_score_b, score_name="y_score_b")
    n_resamples = _validate.integer(n_resamples, "n_resamples", low=1)
    confidence = _validate.fraction(confidence, "confidence")
    plan = rows_plan(len(labels)) if groups is None else groups_plan(groups, n=len(labels))
    enough_units(plan)
    statistic = statistic_for(metric)
    problem = Problem(labels, (a, b), (statistic,), plan, resolve_seed(seed, rng))
    value_a, value_b = (finite(statistic.point(data), statistic.name) for data in problem.data)
    problem, samples = _shared_draws(problem, n_resamples, executor)
    method = f"percentile{PLAN_NOTES[problem.plan.kind]}"
    return _paired_result(samples[1] - samples[0], value_a, value_b, confidence, method)


def _shared_draws(
    problem: Problem, n_resamples: int, executor: Executor | None
) -> tuple[Problem, FloatArray]:
    """Return each scorer's replicates; stratified by label where too many lack a value.

    Differences need resamples on which every scorer has a value.
    """
    samples = replicate(problem, n_resamples, executor=executor)[:, 0]
    undefined = int(np.count_nonzero(np.isnan(samples).any(axis=0)))
    if undefined <= MAX_UNDEFINED * n_resamples:
        return problem, samples
    if problem.plan.kind == "rows":
        stratified = problem.with_plan(label_stratified_plan(problem.labels))
        return _shared_draws(stratified, n_resamples, executor)
    raise UndefinedMetricError(
        f"{problem.statistics[0].name} is undefined on {undefined} of {n_resamples} "
        "resamples; a difference needs at least 95 % of them"
    )


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
    """Bootstrap the difference of a calibration error, ``ece_fn(y_true, y_score, n_bins)``.

    Parameters
    ----------
    y_true, y_score_a, y_score_b : array-like of shape (n,)
        Labels, and the probabilities of A and B.
    ece_fn : callable
        One of the calibration errors, or any function with their signature.
    n_resamples, confidence, seed, rng, executor
        As in `paired_bootstrap_diff`.
    n_bins : int, default 10
        Passed on to ``ece_fn``.

    Returns
    -------
    PairedBootstrapCI
        Of error(B) − error(A); negative means that B is better calibrated.

    Raises
    ------
    InvalidInputError
        As in `paired_bootstrap_diff`.

    Examples
    --------
    >>> from eval_toolkit.metrics import expected_calibration_error
    >>> y = [0, 1] * 20
    >>> diff = paired_bootstrap_ece_diff(
    ...     y, [0.2, 0.8] * 20, [0.4, 0.6] * 20, ece_fn=expected_calibration_error
    ... )
    >>> round(diff.delta, 3)
    0.2
    """
    n_bins = _validate.integer(n_bins, "n_bins", low=2)
    metric: Any = functools.partial(ece_fn, n_bins=n_bins)
    if statistic_for(metric).needs.rows:  # not one of ours: its third argument may have any name
        metric = _WithBins(ece_fn, n_bins)
    return paired_bootstrap_diff(
        y_true,
        y_score_a,
        y_score_b,
        metric,
        n_resamples=n_resamples,
        confidence=confidence,
        seed=seed,
        rng=rng,
        executor=executor,
    )


@dataclass(frozen=True)
class _WithBins:
    """``ece_fn`` with its third argument filled in; picklable."""

    ece_fn: Callable[..., float]
    n_bins: int

    def __call__(self, y_true: Any, y_score: Any) -> float:
        return self.ece_fn(y_true, y_score, self.n_bins)


def paired_bootstrap_op_point_diff(
    val_y: ArrayLike,
    val_score_a: ArrayLike,
    val_score_b: ArrayLike,
    test_y: ArrayLike,
    test_score_a: ArrayLike,
    test_score_b: ArrayLike,
    threshold_fn: ThresholdFn | Any,
    metric_fn: ThresholdedMetricFn,
    *,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
    executor: Executor | None = None,
) -> PairedBootstrapCI:
    """Bootstrap the difference at thresholds that are refitted on every resample.

    Validation and test rows are drawn independently. On each draw both scorers refit their
    threshold on the same validation rows and are measured on the same test rows, so that the
    interval includes the uncertainty of choosing the threshold.

    Parameters
    ----------
    val_y, val_score_a, val_score_b : array-like of shape (m,)
        Validation labels and scores: where thresholds are chosen.
    test_y, test_score_a, test_score_b : array-like of shape (n,)
        Test labels and scores: where they are judged. Not the validation rows again.
    threshold_fn : callable or ThresholdSelector
        ``threshold_fn(y_true, y_score) -> threshold``.
    metric_fn : callable
        ``metric_fn(y_true, y_score, threshold) -> value``.
    n_resamples, confidence, seed, rng, executor
        As in `paired_bootstrap_diff`.

    Returns
    -------
    PairedBootstrapCI
        Of metric(B) − metric(A); ``n_resamples`` counts the usable draws.

    Raises
    ------
    InvalidInputError
        If a part has fewer than 10 rows, or the test labels are the validation labels themselves.
    InfeasibleError
        If fewer than half of the draws are usable.

    Examples
    --------
    >>> from eval_toolkit.metrics import metrics_at_threshold
    >>> y = [0, 1] * 15
    >>> a = [0.03 * i + 0.1 * label for i, label in enumerate(y)]
    >>> b = [0.03 * i + 0.8 * label for i, label in enumerate(y)]
    >>> diff = paired_bootstrap_op_point_diff(
    ...     y, a, b, list(y), a, b,
    ...     lambda y_true, y_score: float(np.median(y_score)),
    ...     lambda y_true, y_score, t: metrics_at_threshold(y_true, y_score, t)["recall"],
    ...     n_resamples=200,
    ... )
    >>> diff.delta > 0
    True
    """
    if val_y is test_y:
        raise InvalidInputError(
            "`val_y` and `test_y` are the same object; thresholds must be judged on other rows"
        )
    val = _TwoScorers.checked(val_y, val_score_a, val_score_b, "val_")
    test = _TwoScorers.checked(test_y, test_score_a, test_score_b, "test_")
    n_resamples = _validate.integer(n_resamples, "n_resamples", low=1)
    confidence = _validate.fraction(confidence, "confidence")
    select = _threshold_of(threshold_fn)
    values = [
        finite(metric_fn(test.y, score, select(val.y, val_score)), "`metric_fn`")
        for score, val_score in zip(test.scores, val.scores, strict=True)
    ]
    run = functools.partial(
        _refitted, val, test, select, metric_fn, resolve_seed(seed, rng), n_resamples
    )
    tasks = range(0, n_resamples, LANES)
    parts = executor.map(run, tasks) if executor else map(run, tasks)
    differences = np.concatenate(list(parts))[:n_resamples]
    usable = int(np.count_nonzero(~np.isnan(differences)))
    if usable < 0.5 * n_resamples:
        raise InfeasibleError(
            f"only {usable} of {n_resamples} resamples gave both scorers a threshold and a value; "
            "at least half must"
        )
    return _paired_result(
        differences, values[0], values[1], confidence, "percentile, thresholds refitted"
    )


@dataclass(frozen=True)
class _TwoScorers:
    """One part of the data under two scorers."""

    y: IntArray
    scores: tuple[FloatArray, FloatArray]

    @classmethod
    def checked(cls, y: ArrayLike, a: ArrayLike, b: ArrayLike, prefix: str) -> "_TwoScorers":
        labels: BoolArray = _validate.binary_labels(y, f"{prefix}y")
        pair = []
        for name, values in (("score_a", a), ("score_b", b)):
            scores = _validate.vector(values, prefix + name)
            _validate.same_length(labels, scores, (f"{prefix}y", prefix + name))
            pair.append(scores)
        if len(labels) < 10:
            raise InvalidInputError(f"`{prefix}y` has {len(labels)} rows; at least 10 are needed")
        return cls(labels.astype(np.int64), (pair[0], pair[1]))

    def rows(self, plan: Plan, seed: int, first: int) -> list[IntArray]:
        """Return the rows of 64 resamples."""
        counts = np.empty((len(self.y), LANES), dtype=np.uint8)
        plan.draw(counts, seed=seed, first=first)
        return [np.repeat(np.arange(len(self.y)), counts[:, lane]) for lane in range(LANES)]


def _threshold_of(threshold_fn: ThresholdFn | Any) -> ThresholdFn:
    if hasattr(threshold_fn, "select"):
        return functools.partial(_selected, threshold_fn)
    chosen: ThresholdFn = threshold_fn
    return chosen


def _selected(selector: Any, y_true: Any, y_score: Any) -> float:
    return float(selector.select(y_true, y_score).threshold)


def _refitted(
    val: _TwoScorers,
    test: _TwoScorers,
    select: ThresholdFn,
    metric_fn: ThresholdedMetricFn,
    seed: int,
    n_resamples: int,
    first: int,
) -> FloatArray:
    """Return the differences on up to 64 resamples from ``first``; NaN where there is none."""
    val_rows = val.rows(rows_plan(len(val.y)), derive_seed(seed, "validation"), first)
    test_rows = test.rows(rows_plan(len(test.y)), seed, first)
    out = np.full(min(LANES, n_resamples - first), math.nan)
    for lane in range(len(out)):
        at_val, at_test = val_rows[lane], test_rows[lane]
        try:
            a, b = (
                float(metric_fn(test.y[at_test], t[at_test], select(val.y[at_val], v[at_val])))
                for v, t in zip(val.scores, test.scores, strict=True)
            )
        except (ValueError, ArithmeticError, LookupError, RuntimeError):
            continue
        out[lane] = b - a
    return np.where(np.isfinite(out), out, math.nan)


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
    """Smallest true difference that a paired comparison of this size would usually detect.

    Parameters
    ----------
    y_true, y_score_a, y_score_b, metric
        As in `paired_bootstrap_diff`.
    alpha : float, default 0.05
        Two-sided significance level.
    power : float, default 0.8
        Probability of detecting it.
    n_resamples, seed, rng, executor
        As in `paired_bootstrap_diff`.

    Returns
    -------
    MDEEstimate
        ``(z_{1−α/2} + z_power) σ`` with σ from the 95 % interval of the difference.

    Raises
    ------
    InfeasibleError
        If the interval has no width.

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


@dataclass(frozen=True, slots=True)
class ScorerComparison:
    """Several scorers on the same rows: each one's interval, and its difference to a baseline."""

    baseline: str
    scorers: dict[str, BootstrapCI]
    differences: dict[str, PairedBootstrapCI]
    """Scorer minus baseline; the baseline itself is not listed."""
    adjusted_p_values: dict[str, float]
    correction: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "baseline": self.baseline,
            "correction": self.correction,
            "scorers": {name: ci.to_dict() for name, ci in self.scorers.items()},
            "differences": {
                name: {**diff.to_dict(), "adjusted_p_value": self.adjusted_p_values[name]}
                for name, diff in self.differences.items()
            },
        }


def compare_scorers(
    y_true: ArrayLike,
    scorers: Mapping[str, ArrayLike],
    metric: MetricFn | Any,
    *,
    baseline: str | None = None,
    correction: str = "holm",
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    method: str = DEFAULT_METHOD,
    seed: SeedLike = None,
    rng: SeedLike = None,
    groups: ArrayLike | None = None,
    executor: Executor | None = None,
) -> ScorerComparison:
    """Compare several scorers on one set of resamples: intervals, differences, adjusted p-values.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    scorers : mapping of name to array-like of shape (n,)
        At least two scorers' scores for the same rows.
    metric : callable or metric spec
        A function of (y_true, y_score).
    baseline : str, optional
        Name of the scorer the others are compared with; the first by default.
    correction : {"holm", "hochberg", "bonferroni", "bh", "by", "none"}, default "holm"
        Correction of the p-values for the number of comparisons.
    n_resamples, confidence, method, seed, rng, groups, executor
        As in `bootstrap_ci`.

    Returns
    -------
    ScorerComparison
        Eight scorers cost a few times as much as one: they share the draws.

    Raises
    ------
    InvalidInputError
        If there are fewer than two scorers or the baseline is none of them.
    UndefinedMetricError
        As in `bootstrap_ci`.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> result = compare_scorers(
    ...     y,
    ...     {"a": [0.02 * i + 0.1 * t for i, t in enumerate(y)],
    ...      "b": [0.02 * i + 0.5 * t for i, t in enumerate(y)]},
    ...     roc_auc,
    ... )
    >>> result.baseline, list(result.differences)
    ('a', ['b'])
    """
    names = list(scorers)
    if len(names) < 2:
        raise InvalidInputError(f"`scorers` has {len(names)} entry; a comparison needs two")
    first = names[0] if baseline is None else baseline
    if first not in scorers:
        raise InvalidInputError(f"`baseline` is {first!r}; it must be one of {names}")
    labels = _validate.binary_labels(y_true)
    scores = tuple(
        _validate.binary_pair(y_true, values, score_name=f"scorers[{name!r}]")[1]
        for name, values in scorers.items()
    )
    n_resamples = _validate.integer(n_resamples, "n_resamples", low=1)
    confidence = _validate.fraction(confidence, "confidence")
    plan = rows_plan(len(labels)) if groups is None else groups_plan(groups, n=len(labels))
    enough_units(plan)
    statistic = statistic_for(metric)
    problem = Problem(labels, scores, (statistic,), plan, resolve_seed(seed, rng))
    points = [[finite(statistic.point(data), statistic.name)] for data in problem.data]
    problem, samples = _shared_draws(problem, n_resamples, executor)
    cells = bootstrap_problem(
        problem,
        n_resamples=n_resamples,
        confidence=confidence,
        method=method,
        executor=executor,
        samples=samples[:, None],
        points=points,
    )
    intervals: dict[str, BootstrapCI] = {}
    for name, (cell,) in zip(names, cells, strict=True):
        if isinstance(cell, Exception):
            raise cell
        intervals[name] = cell
    base = names.index(first)
    differences = {
        name: _paired_result(
            samples[row] - samples[base],
            intervals[first].point_estimate,
            intervals[name].point_estimate,
            confidence,
            f"percentile{PLAN_NOTES[problem.plan.kind]}",
        )
        for row, name in enumerate(names)
        if name != first
    }
    adjusted = correct_p_values([d.p_value or 0.0 for d in differences.values()], method=correction)  # type: ignore[arg-type]
    return ScorerComparison(
        baseline=first,
        scorers=intervals,
        differences=differences,
        adjusted_p_values=dict(zip(differences, [float(p) for p in adjusted], strict=True)),
        correction=correction,
    )
