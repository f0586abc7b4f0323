"""One metric on the common units of A and B: both values, the difference, interval and p-value."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._display import Displayed
from eval_toolkit._validate import BoolArray, FloatArray
from eval_toolkit.analysis.redrawn import Redrawn
from eval_toolkit.analysis.units import CommonUnits
from eval_toolkit.errors import InfeasibleError, UndefinedMetricError
from eval_toolkit.inference import (
    BootstrapCI,
    PairedMeanResult,
    macro_mean,
    mcnemar_test,
    paired_bootstrap_diff,
    paired_mean_diff,
    sign_flip_test,
)
from eval_toolkit.inference._distributions import critical_value, upper_tail
from eval_toolkit.inference.assemble import MIN_UNITS
from eval_toolkit.inference.engine import Executor
from eval_toolkit.inference.paired_proportions import paired_macro_interval, tango_interval
from eval_toolkit.inference.results import PairedBootstrapCI
from eval_toolkit.metric_specs import ColumnSpec, SumsSpec
from eval_toolkit.metric_specs.scores import SCORED
from eval_toolkit.metric_specs.sums import columns_read
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import Status

__all__ = ["CurveOf", "Decision", "Draws", "RunDifference", "Task", "difference"]


@dataclass(frozen=True, slots=True)
class Draws:
    """How intervals are made."""

    n_resamples: int
    confidence: float
    seed: int
    executor: Executor | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The threshold each run holds for a metric at an operating point."""

    threshold_a: float
    threshold_b: float


@dataclass(frozen=True, slots=True)
class CurveOf:
    """The share of rollouts in which the target has failed by a turn, of so many planned."""

    turn: int
    depth: int
    broken_failed: bool = False
    """Whether a turn that broke counts as a failure."""


@dataclass(frozen=True, slots=True)
class Task:
    """A metric to compare: its spec, or why it cannot be had from the records."""

    name: str
    spec: MetricSpec | None
    higher_is_better: bool | None = None
    decision: Decision | None = None
    """Scores become decisions first: 1.0 at or above each run's own threshold."""
    reason: str = ""
    macro_by: str | None = None
    """A slice of the records over whose parts the mean is taken, each counting the same."""
    curve: CurveOf | None = None
    """Set where conversations were cut short: the shares are then read off survival curves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference(Displayed):
    """One cell of a comparison: a metric of A and of B on the units they have in common.

    Examples
    --------
    >>> cell = RunDifference(slice="test", scorer="guard", scorer_b="guard", metric="pr_auc",
    ...     status="skipped", reason="no unit in common")
    >>> cell.verdict
    'skipped'
    """

    slice: str
    scorer: str
    """Name of the scorer in A."""
    scorer_b: str
    metric: str
    status: Status = "ok"
    reason: str = ""
    value_a: float | None = None
    value_b: float | None = None
    """On the common units, which need not be all units of either run."""
    delta: float | None = None
    """B − A."""
    ci_low: float | None = None
    ci_high: float | None = None
    confidence: float = 0.95
    p_value: float | None = None
    p_adjusted: float | None = None
    """Corrected for the number of slices; see `compare_runs` for which slices count."""
    method: str = ""
    """How the interval was made."""
    test: str = ""
    """Where the p-value comes from."""
    n_resamples: int = 0
    higher_is_better: bool | None = None
    n_units: int = 0
    """Common units with a value on both sides."""
    n_groups: int = 0
    n_failed: int = 0
    """Common units without a value on one side."""
    n_lost: int = 0
    """Of these, units that A has a value for: they failed or were skipped in B."""
    n_only_a: int = 0
    """Units of A that B does not have."""
    n_only_b: int = 0
    n_mismatched: int = 0
    """Units of one id but different content or label, left out."""
    n_unhashed: int = 0
    """Units paired by id alone."""
    n_folds: int = 0
    """Folds whose differences were averaged; 0 where units were compared."""
    n_folds_failed: int = 0
    """Folds without a value on one side."""
    samples: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def verdict(self) -> str:
        """What B is: "better", "worse", "different", "no clear difference", "not tested" or absent.

        "different" is for metrics whose direction is not known, "skipped" and "error" for cells
        without values.
        """
        if self.status != "ok" or self.delta is None:
            return self.status
        p = self.p_adjusted if self.p_adjusted is not None else self.p_value
        if p is None:
            return "not tested"
        if p > round(1.0 - self.confidence, 12) or self.delta == 0.0:
            return "no clear difference"
        if self.higher_is_better is None:
            return "different"
        return "better" if (self.delta > 0.0) == self.higher_is_better else "worse"

    @property
    def disagreement(self) -> str:
        """What to know where interval and p-value, two methods, are on different sides of a border."""
        if self.p_value is None or self.ci_low is None or self.ci_high is None:
            return ""
        level = round(1.0 - self.confidence, 12)
        apart = not self.ci_low <= 0.0 <= self.ci_high
        if apart == (self.p_value <= level):
            return ""
        said = "leaves 0 out" if apart else "holds 0"
        return (
            f"the interval ({self.method}) {said} and p ({self.test}) is {self.p_value:.3f}: two "
            "methods, apart at the border; the verdict goes by p"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        names = [name for name in self.__dataclass_fields__ if name != "samples"]
        return {**{name: getattr(self, name) for name in names}, "verdict": self.verdict}


def difference(cell: RunDifference, task: Task, units: CommonUnits, draws: Draws) -> RunDifference:
    """Fill a cell: values, difference, interval and p-value, or the reason there are none."""
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
                return _macro_difference(cell, values, draws)
            return _mean_difference(cell, values, draws)
        if isinstance(spec, SumsSpec) or columns != SCORED:
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
    """Columns of A and of B on the common units that both have measured."""

    a: list[FloatArray]
    b: list[FloatArray]
    n: int
    n_lost: int
    """Units that A has measured and B has not."""
    groups: NDArray[Any] | None
    """None when the units are independent."""
    parts: NDArray[Any] | None = None
    """To which part each unit belongs, for a mean over parts."""
    rates: bool = False
    """Whether every single record is right or wrong; the mean of several may lie between."""

    @classmethod
    def of(cls, units: CommonUnits, columns: tuple[str, ...], task: Task) -> "_Values":
        spec = task.spec if isinstance(task.spec, ColumnSpec) else None
        sides = [units.both(column, spec) for column in columns]
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
            all(map(units.right_or_wrong, columns)),
        )

    @property
    def right_or_wrong(self) -> bool:
        """Whether these are zeros and ones of independent units."""
        return self.groups is None and all(
            bool(np.isin(side, (0.0, 1.0)).all()) for side in (*self.a, *self.b)
        )

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
    if cell.n_groups < MIN_UNITS:
        value_a, value_b = float(spec.compute(labels, a)), float(spec.compute(labels, b))
        return _without_interval(cell, value_a, value_b, values, reason)
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
    return _bootstrapped(cell, diff, reason)


def _redrawn_difference(
    cell: RunDifference, spec: MetricSpec, values: _Values, draws: Draws
) -> RunDifference:
    """Return the difference of a metric whose columns are all the run's own, labels included."""
    both = Redrawn.of(spec, values.a, values.b)
    if cell.n_groups < MIN_UNITS:
        return _without_interval(cell, *both.values(), values, "")
    diff = both.difference(
        values.groups,
        n_resamples=draws.n_resamples,
        confidence=draws.confidence,
        seed=draws.seed,
        executor=draws.executor,
    )
    return _bootstrapped(cell, diff, "")


def _without_interval(
    cell: RunDifference, value_a: float, value_b: float, values: _Values, reason: str
) -> RunDifference:
    what = "units" if values.groups is None else "groups"
    few = f"no interval: {cell.n_groups} common {what}, at least {MIN_UNITS} are needed"
    delta = value_b - value_a
    return replace(cell, value_a=value_a, value_b=value_b, delta=delta, reason=_joined(reason, few))


def _bootstrapped(cell: RunDifference, diff: PairedBootstrapCI, reason: str) -> RunDifference:
    return replace(
        cell,
        value_a=diff.value_a,
        value_b=diff.value_b,
        delta=diff.delta,
        ci_low=diff.ci_low,
        ci_high=diff.ci_high,
        p_value=diff.p_value,
        method=diff.method,
        test="bootstrap",
        n_resamples=diff.n_resamples,
        reason=_joined(reason, diff.reason),
        samples=diff.samples,
    )


def _mean_difference(cell: RunDifference, values: _Values, draws: Draws) -> RunDifference:
    """Return the difference of means: interval, and an exact or permutation test.

    Right or wrong, of independent units: Tango's interval, since the spread of few discordant units
    says too little. Otherwise Student's, but Tango's again, of groups, where right or wrong differs
    by the same in all of them: no spread is seen then, and none is not shown.
    """
    (a,), (b,), groups = values.a, values.b, values.groups
    value_a, value_b = float(a.mean()), float(b.mean())
    cell = replace(cell, value_a=value_a, value_b=value_b, delta=value_b - value_a)
    if cell.n_groups < 2:
        return replace(cell, reason="no interval: a standard error needs two units or groups")
    mean: BootstrapCI | PairedMeanResult
    if values.right_or_wrong:
        mean = tango_interval(*_discordant(a, b), confidence=draws.confidence)
        p_value, test = mcnemar_test(a, b).p_value, "mcnemar-exact"
    else:
        if values.rates and (alike := _alike(a, b, cell.n_groups)) is not None:
            mean = tango_interval(*alike, confidence=draws.confidence)
        else:
            mean = paired_mean_diff(a, b, groups=groups, confidence=draws.confidence)
        p_value, test = _flip_test(a, b, groups, draws)
    return replace(
        cell,
        ci_low=mean.ci_low,
        ci_high=mean.ci_high,
        p_value=p_value,
        method=mean.method,
        test=test,
        reason=mean.reason,
    )


def _macro_difference(cell: RunDifference, values: _Values, draws: Draws) -> RunDifference:
    """Return the difference of means over parts, from the units' differences part by part."""
    (a,), (b,) = values.a, values.b
    if values.parts is None:
        return replace(cell, status="skipped", reason="the records of A do not name the parts")
    of_part = [values.parts == name for name in np.unique(values.parts)]
    groups = np.arange(values.n) if values.groups is None else values.groups
    result = macro_mean(
        [(b - a)[at] for at in of_part],
        groups=[groups[at] for at in of_part],
        confidence=draws.confidence,
    )
    value_a = float(np.mean([a[at].mean() for at in of_part]))
    cell = replace(cell, value_a=value_a, value_b=value_a + result.mean, delta=result.mean)
    if values.right_or_wrong:
        return _macro_of_rates(cell, a, b, of_part, draws)
    if not result.se:
        return replace(cell, reason=result.reason or "the differences do not vary within parts")
    reach = critical_value(draws.confidence, result.df) * result.se
    return replace(
        cell,
        ci_low=result.mean - reach,
        ci_high=result.mean + reach,
        p_value=2.0 * upper_tail(abs(result.mean) / result.se, result.df),
        method="paired-t, macro",
        test="t, macro",
        reason=result.reason,
    )


def _macro_of_rates(
    cell: RunDifference, a: FloatArray, b: FloatArray, of_part: list[BoolArray], draws: Draws
) -> RunDifference:
    """Return the interval that does not vanish in unanimous parts, and the permutation test."""
    mean = paired_macro_interval(
        [_discordant(a[at], b[at]) for at in of_part], confidence=draws.confidence
    )
    weight = np.sum([at / at.sum() for at in of_part], axis=0)  # each part counts the same
    p_value, test = _flip_test(a * weight, b * weight, None, draws)
    return replace(
        cell,
        ci_low=mean.ci_low,
        ci_high=mean.ci_high,
        p_value=p_value,
        method=mean.method,
        test=f"{test}, macro",
    )


def _discordant(a: FloatArray, b: FloatArray) -> tuple[int, int, int]:
    """Return how many units only B has right, how many only A, and how many there are."""
    return int((b > a).sum()), int((a > b).sum()), len(a)


def _alike(a: FloatArray, b: FloatArray, n_groups: int) -> tuple[int, int, int] | None:
    """Return the counts of `_discordant` where all groups gained, lost or kept; None elsewhere."""
    by = float(b[0] - a[0])
    if by not in (-1.0, 0.0, 1.0) or not bool((b - a == by).all()):
        return None
    return n_groups if by > 0.0 else 0, n_groups if by < 0.0 else 0, n_groups


def _flip_test(
    a: FloatArray, b: FloatArray, groups: NDArray[Any] | None, draws: Draws
) -> tuple[float, str]:
    flips = sign_flip_test(a, b, groups=groups, seed=draws.seed)
    return flips.p_value, f"sign-flip-{flips.method}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
