"""Application of stopping rules to runs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks.sequential_draws import (
    DrawnUnits,
    Known,
    Looks,
    in_drawn_order,
    known_values,
    looks,
)
from eval_toolkit.tasks.types import Sample

MACRO = "_macro"
"""Name suffix of means over subjects."""
_MORE = 10
"""Inverse growth rate of batches: each batch adds at least 1/10 of the units requested so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Decision of a stopping rule after some number of units.

    Examples
    --------
    >>> Decision(stop=True, reason="enough", metric="right", n_used=300, n_total=1000).n_saved
    700
    """

    stop: bool
    reason: str
    metric: str
    n_used: int
    """Number of counted units, i.e. units up to the first at which the rule was satisfied."""
    n_total: int
    """Number of planned units."""
    interval: BootstrapCI | None = None
    """Interval of the metric, or of its difference from the other run; None without units."""
    verdict: str = ""
    """Verdict of a comparison: "better", "worse", "different" (unknown direction), "equivalent", or
    "undecided"."""

    @property
    def n_saved(self) -> int:
        """Number of units that need not be requested."""
        return self.n_total - self.n_used

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "stop": self.stop,
            "reason": self.reason,
            "metric": self.metric,
            "n_used": self.n_used,
            "n_total": self.n_total,
            "n_saved": self.n_saved,
            "interval": None if self.interval is None else self.interval.to_dict(),
            **({"verdict": self.verdict} if self.verdict else {}),
        }


class Rule(Protocol):
    """Interface of stopping rules."""

    @property
    def scope(self) -> str:
        """Target of the means: "benchmark" (all planned units) or "population"."""
        ...

    def holds(self, found: Looks) -> BoolArray:
        """Return, for each number of draws, whether the rule is satisfied."""
        ...

    def said(self, name: str, ci: BootstrapCI, holds: bool) -> tuple[str, str]:
        """Return the reason for stopping and the verdict, for a metric whose higher values are better."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """Stopping rule bound to a run; created by the ``watch`` method of the rule."""

    rule: Rule
    spec: ColumnSpec
    """Metric to watch."""
    macro: bool
    samples: tuple[Sample, ...] = field(repr=False)
    """Planned samples, in drawn order."""
    drawn: DrawnUnits = field(repr=False)
    confidence: float
    other: Known | None = field(default=None, repr=False)
    """Values of the units in the other run, for comparisons."""

    @property
    def metric(self) -> str:
        """Name of the metric being watched."""
        return f"{self.spec.name}{MACRO}" if self.macro else self.spec.name

    def look(self, records: Records) -> Decision:
        """Apply the rule to records.

        Parameters
        ----------
        records : Records
            Records with all attempts of each unit; units after the first gap in the drawn order are
            ignored.

        Returns
        -------
        Decision
            Decision, which is the same for all records that reach the unit at which the rule is
            first satisfied.

        Raises
        ------
        InvalidInputError
            If the records do not contain the column.
        """
        return self.decide(self.known(records))

    def known(self, records: Records) -> Known:
        """Return the bounds of the units' values, as input of `decide`."""
        if self.spec.column not in records.columns:
            raise InvalidInputError(
                f"the records have no column {self.spec.column!r}; they have "
                f"{sorted(records.columns)}"
            )
        return known_values(records, self.spec)

    def decide(self, known: Known) -> Decision:
        """Apply the rule to the bounds of the units' values."""
        low, high = bounds = self.spec.bounds
        if self.other is not None:
            known = _differences(known, self.other)
            bounds = (low - high, high - low)
        found = looks(self.drawn, known, bounds, confidence=self.confidence, whole=self.whole)
        n_total = len(self.drawn.ids)
        if not len(found):
            return Decision(
                stop=False,
                reason="no unit is complete",
                metric=self.metric,
                n_used=0,
                n_total=n_total,
            )
        # The mean of values in random order is almost never outside; distrust other orders.
        sound = (found.low <= found.means) & (found.means <= found.high)
        holding = self.rule.holds(found) & sound
        holds = bool(holding.any())
        n_draws = int(holding.argmax()) + 1 if holds else len(found)
        interval = found.at(n_draws)
        n_used = self.drawn.n_units(n_draws)
        reason, verdict = self.rule.said(self.metric, interval, holds)
        if verdict in ("better", "worse") and self.spec.higher_is_better is not True:
            swapped = "worse" if verdict == "better" else "better"
            verdict = "different" if self.spec.higher_is_better is None else swapped
        if not holds and n_used == n_total:
            reason = f"all {n_total} units are used; {reason}"
        return Decision(
            stop=holds or n_used == n_total,
            reason=reason,
            metric=self.metric,
            n_used=n_used,
            n_total=n_total,
            interval=interval,
            verdict=verdict,
        )

    @property
    def whole(self) -> bool:
        """Whether the target is the mean over all planned units."""
        return self.rule.scope == "benchmark"

    def counted(self, decision: Decision) -> tuple[Sample, ...]:
        """Return the samples that a decision counts."""
        return self.samples[: decision.n_used]


def set_watch(
    rule: Rule,
    spec: ColumnSpec,
    macro: bool,
    samples: Sequence[Sample],
    seed: int,
    order: str,
    confidence: float,
) -> Watch:
    """Bind a stopping rule to a run; raise an error if the samples are in file order."""
    if validation.choice(order, "order", ("shuffled", "file")) == "file":
        raise InvalidInputError(
            "`order` is 'file', but a stopping rule requires random order, since the first units "
            "of a file are not a random sample; use 'shuffled'"
        )
    ordered = in_drawn_order(samples, seed)
    return Watch(
        rule=rule,
        spec=spec,
        macro=macro,
        samples=tuple(ordered),
        drawn=DrawnUnits.of(ordered, macro=macro),
        confidence=validation.fraction(confidence, "confidence"),
    )


def is_bounded(spec: object) -> TypeGuard[ColumnSpec]:
    """Return whether a metric is a mean of values with known bounds."""
    return isinstance(spec, ColumnSpec) and all(map(math.isfinite, spec.bounds))


def _differences(known: Known, other: Known) -> dict[str, tuple[float, float]]:
    return {
        unit: (low - other[unit][1], high - other[unit][0])
        for unit, (low, high) in known.items()
        if unit in other
    }


@dataclass(frozen=True, slots=True)
class Asked:
    """Outcomes of a run with a stopping rule."""

    outcomes: tuple[JobResult, ...] = field(repr=False)
    """All outcomes, including those beyond the last counted unit."""
    decision: Decision
    counted: tuple[Sample, ...] = field(repr=False)
    """Counted samples."""
    n_beyond: int
    """Number of units requested but not counted, since the rule was satisfied without them."""
    notes: tuple[str, ...] = ()
    """Notes returned by ``ask``."""


def ask_until(
    watch: Watch,
    jobs: Sequence[Job],
    ask: Callable[[Sequence[Job]], Sequence[JobResult]],
    measure: Callable[[Sequence[Sample], Sequence[JobResult]], Records],
    *,
    at_once: int = 64,
) -> Asked:
    """Run jobs in batches until a stopping rule is satisfied.

    Parameters
    ----------
    watch : Watch
        Watch of the stopping rule.
    jobs : sequence of Job
        Jobs of all samples; jobs of samples that the watch excludes are not run.
    ask : callable
        Function that runs jobs, such as `run_jobs`.
    measure : callable
        Function that converts samples and their outcomes to records, such as `measuring.measure`.
    at_once : int, default 64
        Minimum number of units per batch, which only affects how many units are requested beyond
        the last counted unit. If ``ask`` gives up after some number of consecutive failures, pass
        at least that number.

    Returns
    -------
    Asked
        Outcomes and decision; identical answers give identical decisions for any batch size.

    Raises
    ------
    InvalidInputError
        If a sample has no job.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> from eval_toolkit.models.messages import Message
    >>> from eval_toolkit.models.requests import GenerateRequest
    >>> from eval_toolkit.models.responses import RawCompletion
    >>> from eval_toolkit.tasks.stopping import UntilWidth
    >>> samples = [Sample(f"q{n}", "", [Message("user", "?")], "yes") for n in range(1000)]
    >>> watch = UntilWidth(0.1, scope="benchmark").watch(samples, [ms.mean_of("right", bounds=(0.0, 1.0))])
    >>> jobs = [Job(sample.id, 1, GenerateRequest("?")) for sample in samples]
    >>> def ask(part):
    ...     return [JobResult(job, RawCompletion("yes")) for job in part]
    >>> def measure(part, outcomes):
    ...     return Records.from_columns({"right": [1] * len(part)}, unit_id=[s.id for s in part])
    >>> outcome = ask_until(watch, jobs, ask, measure)
    >>> outcome.decision.n_used, outcome.decision.n_saved, outcome.n_beyond
    (64, 936, 0)
    """
    at_once = validation.integer(at_once, "at_once", low=1)
    by_unit: dict[str, list[Job]] = {}
    for job in jobs:
        by_unit.setdefault(job.unit_id, []).append(job)
    for sample in watch.samples:
        if sample.id not in by_unit:
            raise InvalidInputError(f"`jobs` has no job for the sample {sample.id!r}")
    outcomes: list[JobResult] = []
    notes: dict[str, None] = {}
    known: dict[str, tuple[float, float]] = {}
    for part in _parts(watch, at_once):
        answers = ask([job for sample in part for job in by_unit[sample.id]])
        outcomes += answers
        notes |= dict.fromkeys(getattr(answers, "notes", ()))
        known |= watch.known(measure(part, answers))
        decision = watch.decide(known)
        if decision.stop:
            break
    counted = watch.counted(decision)
    return Asked(tuple(outcomes), decision, counted, len(known) - len(counted), tuple(notes))


def _parts(watch: Watch, at_once: int) -> Iterator[tuple[Sample, ...]]:
    """Yield batches of samples of growing size, in drawn order and without splitting draws."""
    n_draws, done = 0, 0
    while n_draws < len(watch.drawn):
        goal = done + max(at_once, done // _MORE)
        while n_draws < len(watch.drawn) and watch.drawn.n_units(n_draws) < goal:
            n_draws += 1
        end = watch.drawn.n_units(n_draws)
        yield watch.samples[done:end]
        done = end
