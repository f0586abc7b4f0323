"""Difference in a metric on the common units of A and B, with interval and p-value."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit._internal.words import without_interval
from eval_toolkit.analysis.resampled import Redrawn
from eval_toolkit.analysis.units import CommonUnits, right_or_wrong
from eval_toolkit.errors import InfeasibleError, UndefinedMetricError
from eval_toolkit.inference import paired_bootstrap_diff, paired_mean_diff
from eval_toolkit.inference.calibration_intervals import NO_COMPARISON, is_calibration_error
from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.inference.paired import requires_resamples
from eval_toolkit.inference.paired_intervals import paired_shares
from eval_toolkit.inference.paired_macro import paired_macro_diff
from eval_toolkit.inference.plans import MIN_UNITS
from eval_toolkit.inference.resampling import Executor
from eval_toolkit.inference.results import Interval, PairedBootstrapCI, in_own_order
from eval_toolkit.inference.statistics import AtThreshold, statistic_for
from eval_toolkit.metric_specs import ColumnSpec, StatisticSpec, SumsSpec
from eval_toolkit.metric_specs.scores import SCORED
from eval_toolkit.metric_specs.sums import columns_read
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import Status
from eval_toolkit.scorecards.parts import WHOLE

_UNTESTED = (
    f"{NO_COMPARISON}; no interval is shown, since a paired interval would not be narrower than "
    "the two separate intervals (paired_bootstrap_ece_diff)"
)
_SAME_QUESTION = "a mean over parts is tested beside its metric only if requested by name"


@dataclass(frozen=True, slots=True)
class Draws:
    """Settings of the intervals."""

    n_resamples: int
    confidence: float
    seed: int
    executor: Executor | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Threshold of each run for a metric at an operating point."""

    threshold_a: float
    threshold_b: float


@dataclass(frozen=True, slots=True)
class CurveOf:
    """Fraction of rollouts in which the target has failed by a given turn."""

    turn: int
    depth: int
    broken_failed: bool = False
    """Whether an error in a turn counts as a failure."""


@dataclass(frozen=True, slots=True)
class Task:
    """Metric to compare: its spec, or the reason why it cannot be computed from the records."""

    name: str
    spec: MetricSpec | None
    higher_is_better: bool | None = None
    decision: Decision | None = None
    """Whether scores are first converted to decisions with each run's own threshold."""
    reason: str = ""
    macro_by: str | None = None
    """Named slice of the records, over whose parts the metric is averaged with equal weights."""
    tested: bool = True
    """Whether the difference gets a p-value and a verdict, and so counts in the family of tests."""
    curve: CurveOf | None = None
    """Survival curve from which failure rates are estimated if conversations were cut short."""


@in_own_order
@dataclass(frozen=True, kw_only=True, repr=False)
class RunDifference(Interval[float | None]):
    """Cell of a comparison: a metric of A and of B on their common units.

    Examples
    --------
    >>> cell = RunDifference(slice="test", scorer="guard", scorer_b="guard", metric="pr_auc",
    ...     status="skipped", reason="no unit in common")
    >>> cell.verdict
    'skipped'
    """

    slice: str
    part: str = WHOLE
    """Part of the slice, such as ``subject=Africa``; "all" for the whole."""
    scorer: str
    """Name of the scorer in A."""
    scorer_b: str
    metric: str
    status: Status = "ok"
    reason: str = ""
    value_a: float | None = None
    value_b: float | None = None
    """Value of B. Both values are computed on the common units only."""
    delta: float | None = None
    """Difference B − A."""
    ci_low: float | None = None
    ci_high: float | None = None
    confidence: float = 0.95
    p_value: float | None = None
    p_adjusted: float | None = None
    """p-value corrected for the number of metrics and slices; see `compare_runs`."""
    method: str = ""
    """Method of the interval."""
    test: str = ""
    """Source of the p-value."""
    n_resamples: int = 0
    """Number of resamples of the interval; 0 for a closed form."""
    higher_is_better: bool | None = None
    n_units: int = 0
    """Number of common units with a value in both A and B."""
    n_groups: int = 0
    n_discordant: int | None = None
    """For proportions: number of these units on which A and B differ; used by `n_for_power`."""
    n_failed: int = 0
    """Number of common units without a value in A, B or both."""
    n_lost: int = 0
    """Number of these units with a value in A, i.e. units that failed or were skipped in B."""
    n_only_a: int = 0
    """Number of units that are only in A."""
    n_only_b: int = 0
    n_mismatched: int = 0
    """Number of units with the same id but different content or labels, which are excluded."""
    n_unhashed: int = 0
    """Number of units paired by id only."""
    n_folds: int = 0
    """Number of folds whose differences were averaged; 0 if units were compared."""
    n_folds_failed: int = 0
    """Folds without a value in A or B."""
    unseen: float | None = field(default=None, compare=False, repr=False)
    """Possible shift of an unbounded mean by kinds of units that were not observed."""
    samples: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def verdict(self) -> str:
        """Verdict on B, such as "better", "worse", "different" or "no significant difference".

        It is "not tested" or "" if there is no test, "different" for metrics without a known
        direction, and "skipped" or "error" for cells without values.
        """
        if self.status != "ok" or self.delta is None:
            return self.status
        p = self.p_adjusted if self.p_adjusted is not None else self.p_value
        if p is None:
            return "not tested"
        if p > round(1.0 - self.confidence, 12) or self.delta == 0.0:
            return "no significant difference"
        if self.higher_is_better is None:
            return "different"
        return "better" if (self.delta > 0.0) == self.higher_is_better else "worse"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        left_out = ("samples", "unseen")
        names = [name for name in self.__dataclass_fields__ if name not in left_out]
        return {**{name: getattr(self, name) for name in names}, "verdict": self.verdict}


def difference(cell: RunDifference, task: Task, units: CommonUnits, draws: Draws) -> RunDifference:
    """Fill in a cell: values, difference, interval and p-value, or why they are missing."""
    cell = replace(
        cell,
        higher_is_better=task.higher_is_better,
        confidence=draws.confidence,
        n_only_a=units.n_only_a,
        n_only_b=units.n_only_b,
        n_mismatched=units.n_mismatched,
        n_unhashed=units.n_unhashed,
    )
    if task.spec is None:
        return replace(cell, status="skipped", reason=task.reason)
    if not len(units):
        return replace(cell, status="skipped", reason="A and B have no unit in common")
    try:
        spec = task.spec
        columns = columns_read(spec)
        for column in columns:
            if lacking := units.lacking(column):
                reason = f"the records of {lacking} have no column {column!r}"
                return replace(cell, status="skipped", reason=reason)
        values = _Values.of(units, columns, task)
        cell = replace(
            cell,
            n_units=values.n,
            n_groups=values.n_groups,
            n_failed=len(units) - values.n,
            n_lost=values.n_lost,
        )
        if not values.n:
            reason = f"none of {len(units)} common units has a value on both sides"
            reason = "; ".join([reason, *units.failures(columns)])
            return replace(cell, status="skipped", reason=reason)
        if isinstance(spec, ColumnSpec):
            if task.macro_by is not None:
                found = _macro_difference(cell, values, draws)
                return found if task.tested else _untested(found)
            return _mean_difference(cell, values, spec.bounds, draws)
        if isinstance(spec, (SumsSpec, StatisticSpec)) or columns != SCORED:
            return _redrawn_difference(cell, spec, values, draws)
        return _scored_difference(cell, task, spec, values, draws)
    except (MemoryError, RecursionError):
        raise
    except (UndefinedMetricError, InfeasibleError) as error:
        return replace(cell, status="skipped", reason=str(error))
    except Exception as error:  # one metric must not stop the others
        return replace(cell, status="error", reason=f"{type(error).__name__}: {error}")


@dataclass(frozen=True, eq=False)
class _Values:
    """Columns of A and of B on the common units measured on both sides."""

    a: list[NDArray[Any]]
    b: list[NDArray[Any]]
    n: int
    n_lost: int
    """Number of units measured in A but not in B."""
    groups: NDArray[Any] | None
    """Group of each unit; None if the units are independent."""
    parts: NDArray[Any] | None = None
    """Part of each unit, for a mean over parts."""
    rates: bool = False
    """Whether every record is 0 or 1; means of several attempts may lie between."""
    share: bool = True
    """Whether the stored column is binary."""

    @classmethod
    def of(cls, units: CommonUnits, columns: tuple[str, ...], task: Task) -> "_Values":
        spec = task.spec if isinstance(task.spec, ColumnSpec) else None
        sides = [units.both(column, spec) for column in columns]
        share = spec is None or spec.may_be_share
        parts = None if task.macro_by is None else units.part(task.macro_by)
        in_a: BoolArray = np.all([a for _, _, a, _ in sides], axis=0)
        measured: BoolArray = in_a & np.all([b for _, _, _, b in sides], axis=0)
        n = int(measured.sum())
        groups = units.groups
        if groups is not None:
            groups = groups[measured]
            groups = groups if len(np.unique(groups)) < n else None
        return cls(
            [a[measured] for a, *_ in sides],
            [b[measured] for _, b, *_ in sides],
            n,
            int(in_a.sum()) - n,
            groups,
            None if parts is None else parts[measured],
            share and all(map(units.right_or_wrong, columns)),
            share,
        )

    @property
    def right_or_wrong(self) -> bool:
        """Whether all possible values are zeros and ones."""
        return self.share and all(map(right_or_wrong, (*self.a, *self.b)))

    @property
    def n_groups(self) -> int:
        return self.n if self.groups is None else len(np.unique(self.groups))


def _scored_difference(
    cell: RunDifference, task: Task, spec: MetricSpec, values: _Values, draws: Draws
) -> RunDifference:
    (labels, a), (_, b) = values.a, values.b
    reason = task.reason
    if task.decision is not None:
        a = (a >= task.decision.threshold_a).astype(np.float64)
        b = (b >= task.decision.threshold_b).astype(np.float64)
    statistic = statistic_for(spec)
    value_a, value_b = float(spec.compute(labels, a)), float(spec.compute(labels, b))
    if is_calibration_error(statistic):
        return _without_interval(cell, value_a, value_b, _joined(reason, _UNTESTED))
    try:
        if isinstance(statistic, AtThreshold) and statistic.is_share_of_fixed_rows:
            hits_a, hits_b = (statistic.hits(labels == 1.0, scores) for scores in (a, b))
            cell = replace(cell, value_a=value_a, value_b=value_b, delta=value_b - value_a)
            among = ~np.isnan(hits_a)
            groups = None if values.groups is None else values.groups[among]
            return _shares(cell, hits_a[among], hits_b[among], groups, draws, reason)
        if cell.n_groups < MIN_UNITS and requires_resamples(statistic):
            raise UndefinedMetricError(_few(cell, values))
        diff = paired_bootstrap_diff(
            labels,
            a,
            b,
            spec,
            n_resamples=draws.n_resamples,
            confidence=draws.confidence,
            seed=draws.seed,
            groups=values.groups,
            executor=draws.executor,
        )
    except UndefinedMetricError as error:
        return _without_interval(cell, value_a, value_b, _joined(reason, without_interval(error)))
    return _bootstrapped(cell, diff, reason, made_of_draws=requires_resamples(statistic))


def _redrawn_difference(
    cell: RunDifference, spec: MetricSpec, values: _Values, draws: Draws
) -> RunDifference:
    """Return the difference of a metric whose columns or labels differ between the runs."""
    both = Redrawn.of(spec, values.a, values.b)
    if is_calibration_error(spec):
        return _without_interval(cell, *both.values(), _UNTESTED)
    try:
        if cell.n_groups < MIN_UNITS:
            raise UndefinedMetricError(_few(cell, values))
        diff = both.difference(
            values.groups,
            n_resamples=draws.n_resamples,
            confidence=draws.confidence,
            seed=draws.seed,
            executor=draws.executor,
        )
    except UndefinedMetricError as error:
        return _without_interval(cell, *both.values(), without_interval(error))
    return _bootstrapped(cell, diff, "")


def _few(cell: RunDifference, values: _Values) -> str:
    what = "units" if values.groups is None else "groups"
    return f"{cell.n_groups} common {what}; at least {MIN_UNITS} are needed"


def _without_interval(
    cell: RunDifference, value_a: float, value_b: float, reason: str
) -> RunDifference:
    delta = value_b - value_a
    return replace(cell, value_a=value_a, value_b=value_b, delta=delta, reason=reason)


def _bootstrapped(
    cell: RunDifference, diff: PairedBootstrapCI, reason: str, *, made_of_draws: bool = True
) -> RunDifference:
    return replace(
        cell,
        value_a=diff.value_a,
        value_b=diff.value_b,
        delta=diff.delta,
        ci_low=diff.ci_low,
        ci_high=diff.ci_high,
        p_value=diff.p_value,
        method=diff.method,
        test=diff.method,
        n_resamples=diff.n_resamples if made_of_draws else 0,
        reason=_joined(reason, diff.reason),
        samples=diff.samples,
    )


def _mean_difference(
    cell: RunDifference, values: _Values, bounds: tuple[float, float], draws: Draws
) -> RunDifference:
    """Return the difference of means: Tango's interval for shares, `mean_interval` otherwise."""
    (a,), (b,), groups = values.a, values.b, values.groups
    value_a, value_b = float(a.mean()), float(b.mean())
    cell = replace(cell, value_a=value_a, value_b=value_b, delta=value_b - value_a)
    if cell.n_groups < 2:
        return replace(cell, reason="no interval: a standard error needs two units or groups")
    if values.right_or_wrong:
        return _shares(cell, a, b, groups, draws)
    bounds = (0.0, 1.0) if values.rates else bounds
    known = all(map(math.isfinite, bounds))
    if not known:
        bounds = (-math.inf, math.inf)
        cell = replace(cell, unseen=_reach_of_unseen(a, b, cell.n_groups, draws.confidence))
    mean = paired_mean_diff(
        a, b, groups=groups, bounds=bounds, share=False, confidence=draws.confidence
    )
    if mean.ci_low is None:
        return replace(cell, reason=without_interval(mean.reason))
    return replace(
        cell,
        ci_low=mean.ci_low,
        ci_high=mean.ci_high,
        p_value=mean.p_value,
        method=mean.method,
        test=mean.method,
        reason=mean.reason,
    )


def _reach_of_unseen(a: FloatArray, b: FloatArray, n: int, confidence: float) -> float:
    """Return how far unobserved failures may shift a mean difference.

    With no failure among n units or groups, up to z²/(n + z²) of all units may fail (the upper end
    of the score interval at 0 of n), each by as much as the range of both systems' values.
    """
    square = critical_value(confidence) ** 2
    return square / (n + square) * float(max(a.max(), b.max()) - min(a.min(), b.min()))


def _shares(
    cell: RunDifference,
    a: FloatArray,
    b: FloatArray,
    groups: NDArray[Any] | None,
    draws: Draws,
    reason: str = "",
) -> RunDifference:
    """Return the difference between two paired proportions; same method for rows and runs."""
    cell = replace(cell, n_discordant=int((a != b).sum()))
    try:
        low, high, p_value, method = paired_shares(a, b, groups=groups, confidence=draws.confidence)
    except UndefinedMetricError as error:
        return replace(cell, reason=_joined(reason, without_interval(error)))
    return replace(
        cell,
        ci_low=low,
        ci_high=high,
        p_value=p_value,
        method=method,
        test="mcnemar-score" if groups is None else method,
        reason=reason,
    )


def _macro_difference(cell: RunDifference, values: _Values, draws: Draws) -> RunDifference:
    """Return the difference of means over parts, from the unit differences in each part."""
    (a,), (b,) = values.a, values.b
    if values.parts is None:
        return replace(cell, status="skipped", reason="the records of A do not contain the parts")
    of_part = [values.parts == name for name in np.unique(values.parts)]
    groups = values.groups
    found = paired_macro_diff(
        [a[at] for at in of_part],
        [b[at] for at in of_part],
        groups=None if groups is None else [groups[at] for at in of_part],
        share=values.right_or_wrong,
        confidence=draws.confidence,
    )
    value_a = float(np.mean([a[at].mean() for at in of_part]))
    return replace(
        cell,
        value_a=value_a,
        value_b=value_a + found.delta,
        delta=found.delta,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        p_value=found.p_value,
        method=found.method,
        test=found.method,
        reason=found.reason,
    )


def _untested(cell: RunDifference) -> RunDifference:
    """Keep the estimate and its interval, without a test."""
    return replace(cell, p_value=None, test="", reason=_joined(cell.reason, _SAME_QUESTION))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
