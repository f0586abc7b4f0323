"""Cells of a scorecard: one value per metric, with intervals from shared resamples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit._internal.words import without_interval
from eval_toolkit.errors import InfeasibleError, InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.plans import MIN_UNITS, Plan
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.metric_specs.families import is_of_column, is_of_sums
from eval_toolkit.metrics import is_metric_defined_for_slice
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import MetricResult
from eval_toolkit.scorecards.specs import Intervals

if TYPE_CHECKING:
    from eval_toolkit.inference.column_statistics import Statistic
    from eval_toolkit.scorecards.prior_shift import PriorShift


def metric_cells(
    data: Columns,
    specs: Sequence[MetricSpec],
    plan: Plan,
    how: Intervals,
    shift: PriorShift | None = None,
) -> dict[str, MetricResult]:
    """Return one cell per spec for the columns, with intervals from shared resamples."""
    drafts = {spec.name: _Draft.of(spec, data, shift) for spec in specs}
    if how.n_resamples:
        _bootstrap([draft for draft in drafts.values() if draft.status == "ok"], data, plan, how)
    return {name: draft.cell(plan) for name, draft in drafts.items()}


def weighted_cells(
    labels: BoolArray,
    scores: FloatArray,
    weights: FloatArray,
    groups: ArrayLike | None,
    specs: Sequence[MetricSpec],
    plan: Plan,
    how: Intervals,
) -> dict[str, MetricResult]:
    """Return one cell per spec for weighted rows."""
    from eval_toolkit.inference.weighted import weighted_ci, weighted_metric

    cells = {}
    for spec in specs:
        draft = _Draft(spec)
        try:
            _, _, function = weighted_metric(spec)
            draft.value = float(function(labels, scores, weights))
        except (UndefinedMetricError, InfeasibleError) as error:
            draft._stop("skipped", str(error))
        except InvalidInputError as error:
            draft._stop("error", str(error))
        if draft.value is not None and how.n_resamples:
            try:
                draft.ci = weighted_ci(
                    labels,
                    scores,
                    spec,
                    sample_weight=weights,
                    groups=groups,
                    n_resamples=how.n_resamples,
                    confidence=how.confidence,
                    seed=how.seed,
                )
            except (UndefinedMetricError, InvalidInputError) as error:
                draft.reason = without_interval(error)
        cells[spec.name] = draft.cell(plan)
    return cells


@dataclass(eq=False)
class _Draft:
    """Builder of a cell, which sets the value first and then the interval."""

    spec: MetricSpec
    statistic: Statistic | None = None
    details: dict[str, Any] = field(default_factory=dict)
    value: float | None = None
    status: str = "ok"
    reason: str = ""
    ci: BootstrapCI | None = None
    proportion: tuple[float, float] | None = None

    @classmethod
    def of(cls, spec: MetricSpec, data: Columns, shift: PriorShift | None) -> _Draft:
        draft = cls(spec)
        # The mean of a column named "pr_auc" is a plain mean and does not need both classes.
        scored = data.rank == "score" and not is_of_column(spec)
        single = scored and data.n_positive in (0, data.n)
        if not is_metric_defined_for_slice(spec.name, is_single_class=single):
            which = "positive" if data.n_positive else "negative"
            draft._stop("skipped", f"{spec.name} is undefined: all {data.n} rows are {which}")
            return draft
        try:
            draft._evaluate(data, shift)
        except (MemoryError, RecursionError):
            raise
        except (UndefinedMetricError, InfeasibleError) as error:
            draft._stop("skipped", str(error))
        except Exception as error:
            draft._stop("error", f"{type(error).__name__}: {error}")
        return draft

    def _evaluate(self, data: Columns, shift: PriorShift | None) -> None:
        if shift is not None:
            self.statistic, self.details = shift.bind(self.spec, data)
        elif hasattr(self.spec, "bind"):
            self.statistic, self.details = self.spec.bind(data)
        elif is_of_sums(self.spec):
            self.statistic = self.spec.statistic
        else:
            from eval_toolkit.inference.statistics import statistic_for  # not needed for sums

            self.statistic = statistic_for(self.spec)
            if is_of_column(self.spec):
                self.proportion = self.spec.proportion(data)
        # Specs of other libraries are evaluated with their own `compute`; ours agree with their
        # statistics.
        value = self.statistic.point(data)
        if not math.isfinite(value):
            self._stop("error", f"ValueError: {self.spec.name} returned {value}")
            return
        self.value = float(value)

    def give_closed(self, data: Columns, plan: Plan, confidence: float) -> bool:
        """Set the closed-form interval, or the reason for its absence."""
        if self.statistic is None or self.value is None:
            return False
        if self.proportion is not None and plan.is_plain_rows:
            self.ci = _share_interval(self.proportion, confidence, plan)
            return True
        if is_of_sums(self.spec):
            return False
        from eval_toolkit.inference.score_intervals import closed_ci, has_closed_form

        if has_closed_form(self.statistic, plan):
            try:
                self.ci = closed_ci(self.statistic, data, plan, self.value, confidence)
            except UndefinedMetricError as error:
                self.reason = without_interval(error)
            return True
        return False

    def _stop(self, status: str, reason: str) -> None:
        self.status, self.reason, self.statistic = status, reason, None

    def cell(self, plan: Plan) -> MetricResult:
        return MetricResult(
            value=self.value,
            status=self.status,  # type: ignore[arg-type]
            reason=self.reason,
            ci=self.ci,
            details=self.details,
            n_units=plan.n_rows,
            n_groups=plan.n_groups,
        )


def _bootstrap(drafts: list[_Draft], data: Columns, plan: Plan, how: Intervals) -> None:
    """Set the bootstrap interval for every draft, or the reason for its absence."""
    resampled = []
    for draft in drafts:
        if why := getattr(draft.statistic, "no_interval", ""):  # it never has one
            draft.reason = f"no interval: {why}"
        elif how.method is not None or not draft.give_closed(data, plan, how.confidence):
            resampled.append(draft)
    if not resampled:
        return
    if plan.n_units < MIN_UNITS:
        what = "rows" if plan.unit_of_row is None else "groups"
        for draft in resampled:
            draft.reason = (
                f"bootstrap unavailable: {plan.n_units} {what}; at least {MIN_UNITS} are needed"
            )
        return
    for sharing in _sharing_draws(resampled, plan):
        _resample(sharing, data, plan, how)


def _sharing_draws(drafts: list[_Draft], plan: Plan) -> list[list[_Draft]]:
    """Group the drafts so that a cell's resamples do not depend on the other metrics.

    All metrics share one set of resamples, except those at a threshold with independent rows, which
    resample the confusion counts at that threshold instead of rows.
    """
    from eval_toolkit.inference.statistics import AtThreshold

    parts: dict[float | None, list[_Draft]] = {}
    for draft in drafts:
        by_cells = plan.is_plain_rows and isinstance(draft.statistic, AtThreshold)
        threshold = draft.statistic.threshold if by_cells else None  # type: ignore[union-attr]
        parts.setdefault(threshold, []).append(draft)
    return list(parts.values())


def _resample(drafts: list[_Draft], data: Columns, plan: Plan, how: Intervals) -> None:
    """Set the intervals (or reasons for their absence) of drafts that share resamples."""
    from eval_toolkit.inference.bootstrap_intervals import bootstrap_problem
    from eval_toolkit.inference.resampling import Problem

    statistics = [draft.statistic for draft in drafts if draft.statistic is not None]
    problem = Problem((data,), tuple(statistics), plan, how.seed)
    (cells,) = bootstrap_problem(
        problem,
        n_resamples=how.n_resamples,
        confidence=how.confidence,
        method=how.method,
        executor=how.executor,
        points=[[draft.value for draft in drafts if draft.value is not None]],
    )
    for draft, result in zip(drafts, cells, strict=True):
        if isinstance(result, BootstrapCI):
            draft.ci, draft.reason = result, result.reason
        else:
            draft.reason = without_interval(result)


def _share_interval(proportion: tuple[float, float], confidence: float, plan: Plan) -> BootstrapCI:
    successes, n = proportion
    low, high = score_interval(successes / n, n, confidence=confidence)
    return BootstrapCI(
        successes / n,
        low,
        high,
        confidence,
        0,
        "wilson",
        n_units=plan.n_rows,
        n_groups=plan.n_groups,
    )
