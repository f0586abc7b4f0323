"""A rule that watches a run: it looks after each unit, and the run stops at the first that will do."""

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
from eval_toolkit.tasks.drawing import Drawn, Known, Looks, in_drawn_order, known_values, looks
from eval_toolkit.tasks.types import Sample

__all__ = ["MACRO", "Asked", "Decision", "Rule", "Watch", "ask_until", "is_bounded", "set_watch"]

MACRO = "_macro"
"""At the end of the name of a mean over subjects."""
_MORE = 10
"""Each time, at least one in so many of what has been asked is asked in addition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a rule says after some units.

    Examples
    --------
    >>> Decision(stop=True, reason="enough", metric="right", n_used=300, n_total=1000).n_saved
    700
    """

    stop: bool
    reason: str
    metric: str
    n_used: int
    """Units that count: those up to the first look at which the rule held."""
    n_total: int
    """Units that could have been asked."""
    interval: BootstrapCI | None = None
    """Of the metric, or of the difference to the other run; None before the first unit."""
    verdict: str = ""
    """Of a comparison: "better", "worse", "different" (nothing says what is better),
    "equivalent", or "undecided"."""

    @property
    def n_saved(self) -> int:
        """Units that need not be asked."""
        return self.n_total - self.n_used

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
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
    """When a run may stop."""

    @property
    def scope(self) -> str:
        """Say "benchmark" where means are those of all units that may be asked."""
        ...

    def holds(self, found: Looks) -> BoolArray:
        """Return after which draws the rule holds."""
        ...

    def said(self, name: str, ci: BootstrapCI, holds: bool) -> tuple[str, str]:
        """Return the reason and the verdict where a higher value is better."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """A rule set to watch a run; made by the rule's ``watch``."""

    rule: Rule
    spec: ColumnSpec
    """The metric that is watched."""
    macro: bool
    samples: tuple[Sample, ...] = field(repr=False)
    """All that may be asked, in the order to ask."""
    drawn: Drawn = field(repr=False)
    confidence: float
    other: Known | None = field(default=None, repr=False)
    """Of the run that is compared with."""

    @property
    def metric(self) -> str:
        """Name of what is watched."""
        return f"{self.spec.name}{MACRO}" if self.macro else self.spec.name

    def look(self, records: Records) -> Decision:
        """Return what the rule says to some records.

        Parameters
        ----------
        records : Records
            Records of whole units, all attempts of each. Those count that come first in the drawn
            order without a gap, whatever else is there.

        Returns
        -------
        Decision
            The same for every set of records that reaches the unit at which the rule first holds.

        Raises
        ------
        InvalidInputError
            If the records lack the column.
        """
        return self.decide(self.known(records))

    def known(self, records: Records) -> Known:
        """Return what `decide` needs of some records."""
        if self.spec.column not in records.columns:
            raise InvalidInputError(
                f"the records have no column {self.spec.column!r}; they have "
                f"{sorted(records.columns)}"
            )
        return known_values(records, self.spec)

    def decide(self, known: Known) -> Decision:
        """Return what the rule says to what is known of some units."""
        low, high = bounds = self.spec.bounds
        if self.other is not None:
            known = _differences(known, self.other)
            bounds = (low - high, high - low)
        found = looks(self.drawn, known, bounds, confidence=self.confidence, whole=self.whole)
        n_total = len(self.drawn.ids)
        if not len(found):
            return Decision(
                stop=False, reason="no unit is whole", metric=self.metric, n_used=0, n_total=n_total
            )
        # Of values in random order the mean is hardly ever outside: do not trust others.
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
        """Whether means are those of all units that may be asked."""
        return self.rule.scope == "benchmark"

    def counted(self, decision: Decision) -> tuple[Sample, ...]:
        """Return the samples that count under a decision."""
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
    """Return a rule set to watch a run; the order of a file is refused."""
    if validation.choice(order, "order", ("shuffled", "file")) == "file":
        raise InvalidInputError(
            "`order` is 'file': the first units of a file are no random sample, so a run in that "
            "order cannot stop early; use 'shuffled'"
        )
    ordered = in_drawn_order(samples, seed)
    return Watch(
        rule=rule,
        spec=spec,
        macro=macro,
        samples=tuple(ordered),
        drawn=Drawn.of(ordered, macro=macro),
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
    """What was asked under a rule, and what it came to."""

    outcomes: tuple[JobResult, ...] = field(repr=False)
    """All answers, those beyond the last unit that counts among them."""
    decision: Decision
    counted: tuple[Sample, ...] = field(repr=False)
    """The samples that count."""
    n_beyond: int
    """Units that were asked and do not count: they were under way when the rule held."""
    notes: tuple[str, ...] = ()
    """What those who asked had to say."""


def ask_until(
    watch: Watch,
    jobs: Sequence[Job],
    ask: Callable[[Sequence[Job]], Sequence[JobResult]],
    measure: Callable[[Sequence[Sample], Sequence[JobResult]], Records],
    *,
    at_once: int = 64,
) -> Asked:
    """Ask part by part until a rule holds.

    Parameters
    ----------
    watch : Watch
        Watch of the stopping rule.
    jobs : sequence of Job
        Jobs of all samples; those of samples that the watch leaves out are not asked.
    ask : callable
        Asks some jobs, as `run_jobs` does.
    measure : callable
        Makes records of some samples and their outcomes, as `measuring.measure` does.
    at_once : int, default 64
        At least so many units are asked between two looks. Changes what is asked beyond the last
        unit that counts, and nothing else. Those who ask and give up after some failures in a row
        need as many at once.

    Returns
    -------
    Asked
        Equal answers give an equal decision, however many are asked at once.

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
    >>> asked = ask_until(watch, jobs, ask, measure)
    >>> asked.decision.n_used, asked.decision.n_saved, asked.n_beyond
    (64, 936, 0)
    """
    at_once = validation.integer(at_once, "at_once", low=1)
    by_unit: dict[str, list[Job]] = {}
    for job in jobs:
        by_unit.setdefault(job.unit_id, []).append(job)
    for sample in watch.samples:
        if sample.id not in by_unit:
            raise InvalidInputError(f"`jobs` lack the sample {sample.id!r}")
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
    """Yield samples in drawn order, whole draws together, more at a time as they grow many."""
    n_draws, done = 0, 0
    while n_draws < len(watch.drawn):
        goal = done + max(at_once, done // _MORE)
        while n_draws < len(watch.drawn) and watch.drawn.n_units(n_draws) < goal:
            n_draws += 1
        end = watch.drawn.n_units(n_draws)
        yield watch.samples[done:end]
        done = end
