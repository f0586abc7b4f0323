"""Intervals from bootstrap replicates, with degenerate cases and fallbacks."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.calibration_intervals import (
    INTERVAL_REASON,
    SMOOTH_REASON,
    calibration_interval,
    calibration_statistic,
    labels_suffice,
    widened_for_groups,
)
from eval_toolkit.inference.calibration_statistics import CalibrationError, SmoothError
from eval_toolkit.inference.column_statistics import CallableStatistic, ColumnStatistic, Statistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.distributions import ROUNDING, critical_value
from eval_toolkit.inference.intervals import (
    METHODS,
    basic_interval,
    bca_interval,
    exact_at_bound,
    percentile_interval,
)
from eval_toolkit.inference.plans import (
    MIN_UNITS,
    Plan,
    label_group_plan,
    label_stratified_plan,
)
from eval_toolkit.inference.resample_blocks import Block
from eval_toolkit.inference.resampling import (
    Executor,
    Problem,
    check_executor,
    delete_blocks,
    replicate,
)
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.inference.score_intervals import (
    TRUSTED,
    check_classes,
    closed_ci,
    effective_rows,
    has_closed_form,
    resampled_interval,
)
from eval_toolkit.inference.studentized import studentized_interval

MAX_UNDEFINED = 0.05
"""Fraction of undefined resamples above which resampling is stratified by label."""

EXACT = ("exact-degenerate",)
FEW_RESAMPLES = "too few resamples to estimate the tails"
PLAN_NOTES = {
    "rows": "",
    "label-stratified": ", label-stratified",
    "groups": ", groups",
    "groups-in-strata": ", groups in strata",
    "label-groups": ", groups by label",
    "two-level": ", two-level",
}


def bootstrap_problem(
    problem: Problem,
    *,
    n_resamples: int,
    confidence: float,
    method: str | None,
    executor: Executor | None = None,
    return_samples: bool = False,
    samples: FloatArray | None = None,
    points: Sequence[Sequence[float | UndefinedMetricError]] | None = None,
) -> list[list[BootstrapCI | UndefinedMetricError]]:
    """Return an interval, or an error that explains its absence, for each system and statistic.

    Without a ``method``, each statistic gets its default interval from `score_intervals`;
    replicates are drawn only if needed. ``samples`` and ``points`` may contain precomputed
    replicates and values.
    """
    n_resamples = validation.integer(n_resamples, "n_resamples", low=1)
    confidence = validation.fraction(confidence, "confidence")
    if method is not None:
        method = validation.choice({"bca": "BCa"}.get(method, method), "method", METHODS)
    if any(method is not None or not has_closed_form(s, problem.plan) for s in problem.statistics):
        enough_units(problem.plan)
    check_executor(executor)
    if points is None:
        points = [
            [_point(statistic, data) for statistic in problem.statistics] for data in problem.data
        ]
    if samples is None:
        problem = problem.in_canonical_order()
    distances: dict[int, FloatArray] = {}
    if samples is None:
        drawn = [
            row
            for row, statistic in enumerate(problem.statistics)
            if (return_samples and has_enough_units(problem.plan))
            or _reads_draws(statistic, problem.plan, method)
        ]
        samples, distances = _replicate_some(problem, drawn, n_resamples, executor)
    interval = _Intervals(problem, n_resamples, confidence, method, executor, return_samples)
    interval.distances = distances
    return [
        [
            point if isinstance(point, Exception) else interval(scorer, row, point, draws)
            for row, (point, draws) in enumerate(zip(row_points, scorer_samples, strict=True))
        ]
        for scorer, (row_points, scorer_samples) in enumerate(zip(points, samples, strict=True))
    ]


def has_enough_units(plan: Plan) -> bool:
    """Return whether the plan has enough units for resampling."""
    if plan.kind == "label-groups":
        return int(np.diff(plan.strata).min()) > 1
    return int(plan.strata[-1]) >= MIN_UNITS


def enough_units(plan: Plan) -> None:
    """Raise unless the plan has ten units, or two groups for each separately resampled label."""
    if has_enough_units(plan):
        return
    if plan.kind == "label-groups":
        raise InvalidInputError(
            "the bootstrap needs at least 2 groups for every label it resamples; "
            "one label has rows in a single group"
        )
    n_drawn = int(plan.strata[-1])
    what = "rows" if plan.unit_of_row is None else "groups"
    raise InvalidInputError(f"the bootstrap needs at least {MIN_UNITS} {what}, got {n_drawn}")


def _point(statistic: Statistic, data: Columns) -> float | UndefinedMetricError:
    try:
        return finite(statistic.point(data), statistic.name)
    except UndefinedMetricError as error:
        return error


def finite(value: float, name: str) -> float:
    """Return the value of a metric on the data; raise if it is not finite."""
    if not math.isfinite(value):
        raise UndefinedMetricError(f"{name} is {value} on this data")
    return float(value)


def drawn_by_label(problem: Problem) -> Problem | None:
    """Return the problem stratified by label; None if it already is or cannot be."""
    if problem.labels.all() or not problem.labels.any():  # a single class
        return None
    if problem.plan.kind == "rows":
        return problem.with_plan(label_stratified_plan(problem.labels))
    if problem.plan.kind == "groups" and problem.plan.unit_of_row is not None:
        plan = label_group_plan(problem.labels, problem.plan.unit_of_row)
        return problem.with_plan(plan) if np.diff(plan.strata).min() > 1 else None
    return None


def undefined_error(statistic: Statistic, undefined: int, n: int) -> UndefinedMetricError:
    """Return the error for a statistic that is undefined on too many resamples."""
    first = ""
    if isinstance(statistic, CallableStatistic) and statistic.failures:
        first = f" (first: {statistic.failures[0]})"
    return UndefinedMetricError(
        f"{statistic.name} is undefined on {undefined} of {n} resamples{first}; "
        "for an interval, it must be defined on at least 95 %"
    )


class _Distance(ColumnStatistic):
    """Distances between the calibration gaps of each resample and of the data."""

    def __init__(self, error: CalibrationError) -> None:
        self.error = error
        self.name = f"distance of {error.name}"
        self.bounds = (0.0, math.inf)
        self.needs = error.needs

    def point(self, data: Columns) -> float:
        return 0.0

    def replicate(self, block: Block) -> FloatArray:
        return self.error.distance(block)


def _replicate_with_distances(
    problem: Problem, n_resamples: int, executor: Executor | None
) -> tuple[FloatArray, dict[int, FloatArray]]:
    """Return the replicates, and the distances used for grouped calibration errors."""
    errors = [calibration_statistic(statistic) for statistic in problem.statistics]
    found = {row: error for row, error in enumerate(errors) if error is not None}
    rows = [] if labels_suffice(problem.plan) else list(found)
    if rows:
        companions = [_Distance(found[row]) for row in rows]
        problem = problem.with_statistics([*problem.statistics, *companions])
    values = replicate(problem, n_resamples, executor=executor)
    n = len(problem.statistics) - len(rows)
    return values[:, :n], {row: values[:, n + place] for place, row in enumerate(rows)}


def _reads_draws(statistic: Statistic, plan: Plan, method: str | None) -> bool:
    """Return whether the interval for a statistic uses replicates."""
    if calibration_statistic(statistic) is not None:
        return not labels_suffice(plan)
    return method is not None or not has_closed_form(statistic, plan)


def _replicate_some(
    problem: Problem, rows: list[int], n_resamples: int, executor: Executor | None
) -> tuple[FloatArray, dict[int, FloatArray]]:
    """Return the replicates and distances of the selected statistics; NaN for the others."""
    samples = np.full((len(problem.data), len(problem.statistics), n_resamples), np.nan)
    if not rows:
        return samples, {}
    part = problem.with_statistics([problem.statistics[row] for row in rows])
    samples[:, rows], distances = _replicate_with_distances(part, n_resamples, executor)
    return samples, {rows[place]: values for place, values in distances.items()}


class _Intervals:
    """Computes the interval for one statistic from its replicates, reusing common results."""

    def __init__(
        self,
        problem: Problem,
        n_resamples: int,
        confidence: float,
        method: str | None,
        executor: Executor | None,
        return_samples: bool,
    ) -> None:
        self.problem = problem
        self.n_resamples = n_resamples
        self.confidence = confidence
        self.method = method
        self.executor = executor
        self.return_samples = return_samples
        self.distances: dict[int, FloatArray] = {}
        self.note = ""

    def __call__(
        self, scorer: int, row: int, point: float, samples: FloatArray
    ) -> BootstrapCI | UndefinedMetricError:
        problem, statistic = self.problem, self.problem.statistics[row]
        try:
            if self.method is None and has_closed_form(statistic, problem.plan):
                found = closed_ci(
                    statistic, problem.data[scorer], problem.plan, point, self.confidence
                )
                return self._with_samples(found, samples)
            check_classes(statistic, problem.data[scorer], problem.plan)
            if getattr(statistic, "independent_only", False) and not problem.plan.is_independent:
                raise UndefinedMetricError(
                    f"{statistic.name} has an interval for independent rows only, not for groups"
                )
        except UndefinedMetricError as error:
            return error
        undefined = 0
        if _reads_draws(statistic, problem.plan, self.method):
            undefined = int(np.count_nonzero(np.isnan(samples)))
        if undefined > MAX_UNDEFINED * len(samples):
            apart = drawn_by_label(problem.only(scorer, row))
            if apart is None:
                return undefined_error(statistic, undefined, len(samples))
            alone = copy.copy(self)
            alone.problem = apart
            alone.note = (
                f"undefined on {undefined} of {len(samples)} resamples, so labels are resampled "
                "separately"
            )
            samples, alone.distances = _replicate_with_distances(
                apart, self.n_resamples, self.executor
            )
            return alone(0, 0, point, samples[0, 0])
        defined = samples[~np.isnan(samples)] if undefined else samples
        try:
            low, high, method, reason = self._bounds(scorer, row, point, defined)
        except UndefinedMetricError as error:  # the interval may be undefined
            return error
        return BootstrapCI(
            point_estimate=point,
            ci_low=low,
            ci_high=high,
            confidence=self.confidence,
            n_resamples=self.n_resamples,
            method=method if method in EXACT else method + PLAN_NOTES[problem.plan.kind],
            samples=defined if self.return_samples else None,
            n_undefined=undefined,
            reason="; ".join(part for part in (self.note, reason) if part),
            n_units=problem.plan.n_rows,
            n_groups=problem.plan.n_groups,
        )

    def _with_samples(self, found: BootstrapCI, samples: FloatArray) -> BootstrapCI:
        if not self.return_samples or np.isnan(samples).all():
            return found
        return replace(found, samples=samples[~np.isnan(samples)])

    def _bounds(
        self, scorer: int, row: int, point: float, samples: FloatArray
    ) -> tuple[float, float, str, str]:
        """Return the bounds, the method, and a reason if the requested method was not used."""
        statistic = self.problem.statistics[row]
        error = calibration_statistic(statistic)
        if error is not None:
            return self._norm_ball(scorer, row, point, samples, error)
        if self.method is None and np.isfinite(statistic.bounds).all():
            ends = resampled_interval(
                statistic,
                self.problem.data[scorer],
                self.problem.plan,
                point,
                float(np.var(samples, ddof=1)),
                self.confidence,
            )
            return *ends, "score", ""
        largest = max(abs(point), float(np.abs(samples).max()))
        if np.abs(samples - point).max() <= ROUNDING * largest:
            return self._degenerate(scorer, row, point)
        few = self._caution(scorer, row)
        if self.method is None and few:
            return self._by_standard_error(scorer, row, point, samples)
        if self.method == "percentile":
            return *percentile_interval(samples, self.confidence), "percentile", few
        if self.method == "basic":
            bounds = basic_interval(samples, point, self.confidence)
            return *_clipped(bounds, statistic.bounds), "basic", few
        if self.method == "studentized":
            bounds = studentized_interval(
                self.problem,
                scorer,
                row,
                point,
                samples,
                self.confidence,
                self.n_resamples,
                self.executor,
            )
            return *_clipped(bounds, statistic.bounds), "studentized", few
        corrected = bca_interval(samples, point, self._left_out(scorer, row), self.confidence)
        if corrected is None:
            reason = "BCa is unreliable: nearly all resamples lie on one side of the estimate"
            return *percentile_interval(samples, self.confidence), "percentile", reason
        return *corrected, "BCa", few

    def _caution(self, scorer: int, row: int) -> str:
        """Return why quantiles of the replicates are unreliable, or ""."""
        if self.n_resamples * (1.0 - self.confidence) < 1.0:
            return FEW_RESAMPLES
        statistic = self.problem.statistics[row]
        effective = effective_rows(statistic, self.problem.data[scorer], self.problem.plan)
        if effective >= TRUSTED:
            return ""
        what = (
            "rows of one class" if len(statistic.support(self.problem.data[scorer])) > 1 else "rows"
        )
        if not self.problem.plan.is_independent:
            what = what.replace("rows", "groups")
        return f"{effective:.3g} {what}: bootstrap coverage may be below the nominal level"

    def _by_standard_error(
        self, scorer: int, row: int, point: float, samples: FloatArray
    ) -> tuple[float, float, str, str]:
        """Return Student's t interval for an unbounded metric on few rows."""
        statistic = self.problem.statistics[row]
        effective = effective_rows(statistic, self.problem.data[scorer], self.problem.plan)
        df = max(1.0, effective - 1.0)
        reach = critical_value(self.confidence, df) * float(np.std(samples, ddof=1))
        ends = _clipped((point - reach, point + reach), statistic.bounds)
        return *ends, "bootstrap SE, t", ""

    def _degenerate(self, scorer: int, row: int, point: float) -> tuple[float, float, str, str]:
        """Return the interval for a statistic with identical replicates."""
        statistic, data, plan = (
            self.problem.statistics[row],
            self.problem.data[scorer],
            self.problem.plan,
        )
        n = min(plan.n_groups_among(rows) for rows in statistic.support(data))
        exact = exact_at_bound(point, statistic.bounds, n, self.confidence)
        if exact is not None:
            return *exact, "exact-degenerate", "every resample attains the metric's bound"
        raise UndefinedMetricError(
            f"every resample of {statistic.name} has the same value, so its spread is unknown"
        )

    def _norm_ball(
        self, scorer: int, row: int, point: float, samples: FloatArray, error: CalibrationError
    ) -> tuple[float, float, str, str]:
        """Return the interval for a calibration error, which is biased upwards."""
        problem = self.problem
        low, high = calibration_interval(
            error,
            problem.data[scorer],
            point,
            n_draws=self.n_resamples,
            confidence=self.confidence,
            seed=problem.seed,
        )
        if not labels_suffice(problem.plan):
            if row not in self.distances:
                alone = problem.with_statistics([problem.statistics[row]])
                self.distances[row] = _replicate_with_distances(
                    alone, self.n_resamples, self.executor
                )[1][0]
            low, high = widened_for_groups(
                (low, high),
                point,
                self.distances[row][scorer],
                samples,
                n_groups=problem.plan.n_groups,
                confidence=self.confidence,
            )
        reason = SMOOTH_REASON if isinstance(error, SmoothError) else INTERVAL_REASON
        return low, high, "norm-ball", reason

    def _left_out(self, scorer: int, row: int) -> FloatArray:
        """Return leave-one-out values: in closed form for rows, leave-one-block-out otherwise."""
        if self.problem.plan.kind in ("rows", "label-stratified"):
            values = self.problem.statistics[row].leave_one_out(self.problem.data[scorer])
            if values is not None:
                return values
        values = delete_blocks(self.problem.only(scorer, row))[0, 0]
        defined: FloatArray = values[~np.isnan(values)]
        return defined if len(defined) else np.zeros(1)


def _clipped(interval: tuple[float, float], bounds: tuple[float, float]) -> tuple[float, float]:
    """Clip an interval to the range of the metric."""
    return max(interval[0], bounds[0]), min(interval[1], bounds[1])
