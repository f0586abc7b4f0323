"""Bootstrap intervals: rows, groups, (label, group) units, strata of groups, folds."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import _validate
from eval_toolkit._validate import FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.engine import Executor, Problem, delete_blocks, replicate
from eval_toolkit.inference.intervals import (
    METHODS,
    basic_interval,
    bca_interval,
    exact_at_bound,
    percentile_interval,
)
from eval_toolkit.inference.plans import (
    Plan,
    groups_plan,
    label_group_plan,
    label_stratified_plan,
    rows_plan,
)
from eval_toolkit.inference.prepared import Ranked
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    DEFAULT_METHOD,
    DEFAULT_N_RESAMPLES,
    BootstrapCI,
)
from eval_toolkit.inference.statistics import MetricFn, Statistic, statistic_for
from eval_toolkit.inference.studentized import studentized_interval
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

__all__ = [
    "MIN_UNITS",
    "block_bootstrap_on_folds",
    "bootstrap_ci",
    "bootstrap_problem",
    "cluster_bootstrap_ci",
    "stratified_cluster_bootstrap_ci",
]

MIN_UNITS = 10
"""Fewer independent units than this do not support a bootstrap interval."""

MAX_UNDEFINED = 0.05
"""Above this share of undefined resamples the draws are stratified by label."""

Key = TypeVar("Key")


def bootstrap_ci(
    y_true: ArrayLike,
    y_score: ArrayLike,
    metric: MetricFn | Any,
    *,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    method: str = DEFAULT_METHOD,
    seed: SeedLike = None,
    rng: SeedLike = None,
    groups: ArrayLike | None = None,
    stratified: bool = False,
    executor: Executor | None = None,
    return_samples: bool = False,
) -> BootstrapCI:
    """Bootstrap interval of any metric of labels and scores.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    metric : callable or metric spec
        A function of (y_true, y_score). This package's own metrics are recognised and evaluated
        hundreds of times faster; any other callable works on the rows of each resample.
    n_resamples : int, default 1000
        200 for a glance, 5000 for publication.
    confidence : float, default 0.95
        Nominal coverage.
    method : {"BCa", "percentile", "basic", "studentized"}, default "BCa"
        "basic" undercovers for bounded metrics and is never a default.
    seed, rng : int, Generator, …, default 42
        Two spellings of one argument.
    groups : array-like of shape (n,), optional
        Rows that are not independent of each other share a group; whole groups are drawn.
    stratified : bool, default False
        Draw positives and negatives apart.
    executor : Executor, optional
        Anything with ``concurrent.futures.Executor.map``; results are the same bits.
    return_samples : bool, default False
        Keep the replicates in ``samples``.

    Returns
    -------
    BootstrapCI
        With ``n_undefined``, and ``method`` saying what was really done: "exact-degenerate" when
        every replicate sits at the metric's bound, "…, label-stratified" when more than 5 % of
        the draws lacked a class.

    Raises
    ------
    InvalidInputError
        If the input is unusable or has fewer than 10 independent units.
    UndefinedMetricError
        If the metric does not exist for the data, or on more than 5 % of all draws.

    Notes
    -----
    BCa after Efron (1987); the acceleration comes from closed-form leave-one-out values, or from
    at most 200 left-out blocks where there is no closed form.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> scores = [0.02 * i + 0.3 * label for i, label in enumerate(y)]
    >>> ci = bootstrap_ci(y, scores, roc_auc)
    >>> ci.method, ci.n_resamples, 0.4 < ci.ci_low < ci.point_estimate < ci.ci_high < 0.9
    ('BCa', 1000, True)
    """
    labels, scores = _validate.binary_pair(y_true, y_score)
    if groups is not None and stratified:
        raise InvalidInputError(
            "give `groups` or `stratified`, not both; `cluster_bootstrap_ci` draws groups by label"
        )
    if groups is not None:
        plan = groups_plan(groups, n=len(labels))
    else:
        plan = label_stratified_plan(labels) if stratified else rows_plan(len(labels))
    data = Ranked(labels, scores)
    problem = Problem.of([data], [statistic_for(metric, data)], plan, resolve_seed(seed, rng))
    return _single(
        problem,
        n_resamples=n_resamples,
        confidence=confidence,
        method=method,
        executor=executor,
        return_samples=return_samples,
    )


def _single(problem: Problem, **options: Any) -> BootstrapCI:
    """Return the interval of the only statistic, or raise."""
    (result,) = bootstrap_problem(problem, **options)[0]
    if isinstance(result, Exception):
        raise result
    return result


def bootstrap_problem(
    problem: Problem,
    *,
    n_resamples: int,
    confidence: float,
    method: str,
    executor: Executor | None = None,
    return_samples: bool = False,
    samples: FloatArray | None = None,
    points: Sequence[Sequence[float | UndefinedMetricError]] | None = None,
) -> list[list[BootstrapCI | UndefinedMetricError]]:
    """Return an interval, or the reason there is none, per scorer and statistic.

    ``samples`` and ``points`` may hold the replicates and the values on the data already.
    """
    n_resamples = _validate.integer(n_resamples, "n_resamples", low=1)
    confidence = _validate.fraction(confidence, "confidence")
    method = _validate.choice({"bca": "BCa"}.get(method, method), "method", METHODS)
    enough_units(problem.plan)
    if points is None:
        points = [
            [_point(statistic, data) for statistic in problem.statistics] for data in problem.data
        ]
    if samples is None:
        samples = replicate(problem, n_resamples, executor=executor)
    interval = _Intervals(problem, n_resamples, confidence, method, executor, return_samples)
    return [
        [
            point if isinstance(point, Exception) else interval(scorer, row, point, draws)
            for row, (point, draws) in enumerate(zip(row_points, scorer_samples, strict=True))
        ]
        for scorer, (row_points, scorer_samples) in enumerate(zip(points, samples, strict=True))
    ]


def enough_units(plan: Plan) -> None:
    """Raise unless the plan draws at least ten independent units."""
    n_drawn = int(plan.strata[-1])
    if n_drawn < MIN_UNITS:
        what = "rows" if plan.unit_of_row is None else "groups"
        raise InvalidInputError(f"the bootstrap needs at least {MIN_UNITS} {what}, got {n_drawn}")


def _point(statistic: Statistic, data: Ranked) -> float | UndefinedMetricError:
    try:
        return finite(statistic.point(data), statistic.name)
    except UndefinedMetricError as error:
        return error


def finite(value: float, name: str) -> float:
    """Return a metric's value on the data, or raise: foreign functions may answer NaN."""
    if not math.isfinite(value):
        raise UndefinedMetricError(f"{name} is {value} on this data")
    return float(value)


class _Intervals:
    """Turns the replicates of one statistic into its interval; shares what several need."""

    def __init__(
        self,
        problem: Problem,
        n_resamples: int,
        confidence: float,
        method: str,
        executor: Executor | None,
        return_samples: bool,
    ) -> None:
        self.problem = problem
        self.n_resamples = n_resamples
        self.confidence = confidence
        self.method = method
        self.executor = executor
        self.return_samples = return_samples

    def __call__(
        self, scorer: int, row: int, point: float, samples: FloatArray
    ) -> BootstrapCI | UndefinedMetricError:
        problem, statistic = self.problem, self.problem.statistics[row]
        undefined = int(np.count_nonzero(np.isnan(samples)))
        if undefined > MAX_UNDEFINED * len(samples) and problem.plan.kind == "rows":
            stratified = label_stratified_plan(problem.labels)
            alone = copy.copy(self)
            alone.problem = problem.only(scorer, row).with_plan(stratified)
            samples = replicate(alone.problem, self.n_resamples, executor=self.executor)
            return alone(0, 0, point, samples[0, 0])
        if undefined > MAX_UNDEFINED * len(samples):
            return UndefinedMetricError(
                f"{statistic.name} is undefined on {undefined} of {len(samples)} resamples; "
                "an interval needs at least 95 % of them"
            )
        defined = samples[~np.isnan(samples)] if undefined else samples
        try:
            low, high, method, reason = self._bounds(scorer, row, point, defined)
        except UndefinedMetricError as error:  # the studentized interval may not exist
            return error
        return BootstrapCI(
            point_estimate=point,
            ci_low=low,
            ci_high=high,
            confidence=self.confidence,
            n_resamples=self.n_resamples,
            method=method if method in _EXACT else method + PLAN_NOTES[problem.plan.kind],
            samples=defined if self.return_samples else None,
            n_undefined=undefined,
            reason=reason,
            n_units=problem.plan.n_rows,
            n_groups=problem.plan.n_groups,
        )

    def _bounds(
        self, scorer: int, row: int, point: float, samples: FloatArray
    ) -> tuple[float, float, str, str]:
        """Return the bounds, the method that made them and why it is not the one asked for."""
        statistic, data = self.problem.statistics[row], self.problem.data[scorer]
        if np.ptp(samples) <= 1e-12 * max(1.0, abs(point)):
            # Where labels are drawn apart, the value rests on the units of the rarer one.
            n = min(statistic.effective_n(data), int(np.diff(self.problem.plan.strata).min()))
            exact = exact_at_bound(point, statistic.bounds, n, self.confidence)
            if exact is not None:
                return *exact, "exact-degenerate", "every resample sits at the metric's bound"
            return point, point, "degenerate", "every resample has the same value"
        if self.method == "percentile":
            return *percentile_interval(samples, self.confidence), "percentile", ""
        if self.method == "basic":
            return *basic_interval(samples, point, self.confidence), "basic", ""
        if self.method == "studentized":
            bounds = studentized_interval(
                self.problem, scorer, row, point, samples, self.confidence, self.n_resamples
            )
            return *bounds, "studentized", ""
        corrected = bca_interval(samples, point, self._left_out(scorer, row), self.confidence)
        if corrected is None:
            reason = "BCa does not exist here: all resamples lie on one side of the estimate"
            return *percentile_interval(samples, self.confidence), "percentile", reason
        return *corrected, "BCa", ""

    def _left_out(self, scorer: int, row: int) -> FloatArray:
        """Return leave-one-out values: closed form for rows, left-out blocks otherwise."""
        if self.problem.plan.kind in ("rows", "label-stratified"):
            values = self.problem.statistics[row].leave_one_out(self.problem.data[scorer])
            if values is not None:
                return values
        values = delete_blocks(self.problem.only(scorer, row))[0, 0]
        defined: FloatArray = values[~np.isnan(values)]
        return defined if len(defined) else np.zeros(1)


_EXACT = ("exact-degenerate", "degenerate")
PLAN_NOTES = {
    "rows": "",
    "label-stratified": ", label-stratified",
    "groups": ", groups",
    "groups-in-strata": ", groups in strata",
    "label-groups": ", groups by label",
    "two-level": ", two-level",
}


def cluster_bootstrap_ci(
    y_true: ArrayLike,
    y_score: ArrayLike,
    groups: ArrayLike,
    statistic: MetricFn | Any,
    *,
    resample_labels: Sequence[int] = (0, 1),
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
    executor: Executor | None = None,
    return_samples: bool = False,
) -> BootstrapCI:
    """Percentile interval from whole (label, group) units, each label drawn apart.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n,)
        Labels and scores.
    groups : array-like of shape (n,)
        Group of each row. A group with both labels becomes two units, so that no draw lacks a
        class.
    statistic : callable or metric spec
        A function of (y_true, y_score).
    resample_labels : sequence of int, default (0, 1)
        Labels whose groups are drawn; rows of other labels are in every draw once.
    n_resamples, confidence, seed, rng, executor, return_samples
        As in `bootstrap_ci`.

    Returns
    -------
    BootstrapCI
        With method "cluster_percentile".

    Raises
    ------
    InvalidInputError
        If the input is unusable or a listed label does not occur.
    UndefinedMetricError
        If the statistic does not exist for the data, or on more than 5 % of the draws.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> scores = [0.02 * i + 0.3 * label for i, label in enumerate(y)]
    >>> cluster_bootstrap_ci(y, scores, [i // 4 for i in range(60)], roc_auc).method
    'cluster_percentile'
    """
    labels, scores = _validate.binary_pair(y_true, y_score)
    plan = label_group_plan(labels, groups, resample_labels=tuple(resample_labels))
    problem = Problem(labels, (scores,), (statistic_for(statistic),), plan, resolve_seed(seed, rng))
    result = _single(
        problem,
        n_resamples=n_resamples,
        confidence=confidence,
        method="percentile",
        executor=executor,
        return_samples=return_samples,
    )
    return _renamed(result, "cluster_percentile")


def _renamed(result: BootstrapCI, method: str) -> BootstrapCI:
    return result if result.method in _EXACT else replace(result, method=method)


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
    """Percentile interval of a combination of per-stratum metrics, groups drawn in each stratum.

    Parameters
    ----------
    strata : mapping of key to (y_true, y_score, groups)
        The data of each stratum.
    per_stratum_metric : callable or metric spec
        A function of (y_true, y_score).
    combine : callable
        Turns ``{key: value}`` into one number, such as a mean or a gap.
    n_resamples, confidence, seed, rng, executor, return_samples
        As in `bootstrap_ci`.

    Returns
    -------
    BootstrapCI
        With method "stratified_cluster_percentile".

    Raises
    ------
    InvalidInputError
        If there is no stratum or a stratum is unusable.
    UndefinedMetricError
        If the combination does not exist for the data, or on more than 5 % of the draws.

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
        raise InvalidInputError("`strata` is empty; give at least one stratum")
    n_resamples = _validate.integer(n_resamples, "n_resamples", low=1)
    confidence = _validate.fraction(confidence, "confidence")
    base = resolve_seed(seed, rng)
    statistic = statistic_for(per_stratum_metric)
    draws: dict[Key, FloatArray] = {}
    points: dict[Key, float] = {}
    n_units = n_groups = 0
    for key, (y_true, y_score, groups) in strata.items():
        labels, scores = _validate.binary_pair(y_true, y_score)
        plan = groups_plan(groups, n=len(labels))
        problem = Problem(labels, (scores,), (statistic,), plan, derive_seed(base, repr(key)))
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
    """Assemble a percentile interval from replicates that are not the engine's."""
    defined = samples[np.isfinite(samples)]
    n_undefined = len(samples) - len(defined)
    if n_undefined > MAX_UNDEFINED * len(samples):
        raise UndefinedMetricError(
            f"the statistic is undefined on {n_undefined} of {len(samples)} resamples; "
            "an interval needs at least 95 % of them"
        )
    spread = float(np.ptp(defined)) > 1e-12 * max(1.0, abs(point))
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
    """Percentile interval of the mean over folds, drawing folds with replacement.

    With few folds this is too narrow; `cv_clt_ci` (t) and `corrected_resampled_t` are not.

    Parameters
    ----------
    fold_metrics : array-like of shape (K,)
        One value per fold, K ≥ 2.
    n_resamples, confidence, seed, rng
        As in `bootstrap_ci`.

    Returns
    -------
    BootstrapCI
        With method "block_bootstrap"; equal folds give [mean, mean] with a reason.

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
    values = _validate.vector(fold_metrics, "fold_metrics")
    if len(values) < 2:
        raise InvalidInputError(f"`fold_metrics` needs at least 2 folds, got {len(values)}")
    n_resamples = _validate.integer(n_resamples, "n_resamples", low=1)
    confidence = _validate.fraction(confidence, "confidence")
    generator = np.random.Generator(np.random.Philox(key=resolve_seed(seed, rng)))
    counts = generator.multinomial(
        len(values), np.full(len(values), 1.0 / len(values)), size=n_resamples
    )
    k = len(values)
    return _percentile_result(
        float(values.mean()), counts @ values / k, confidence, "block_bootstrap", k, k
    )
