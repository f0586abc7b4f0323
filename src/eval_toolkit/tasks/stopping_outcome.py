"""Outcome of a run with a stopping rule: counted samples and adjusted cells."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import ArtifactError
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.models.runner import Job, JobResult, JobResults
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.tasks.sequential_draws import DrawnUnits, Looks, in_drawn_order
from eval_toolkit.tasks.stopped_cells import stopped_card
from eval_toolkit.tasks.stopping_watch import Decision, Watch, ask_until
from eval_toolkit.tasks.types import Sample

AskPart: TypeAlias = Callable[[Sequence[Job]], JobResults]
MeasurePart: TypeAlias = Callable[[Sequence[Sample], Sequence[JobResult]], Records]


@dataclass(frozen=True, slots=True)
class StoppingOutcome:
    """Stopping rule and its decision."""

    watch: Watch = field(repr=False)
    decision: Decision
    n_beyond: int = 0
    """Number of samples that were requested but are not counted."""

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Samples that are counted."""
        return self.watch.counted(self.decision)

    def card(self, card: Scorecard, records: Records, metrics: Sequence[MetricSpec]) -> Scorecard:
        """Adjust the intervals of a scorecard for early stopping."""
        return stopped_card(card, records, metrics, self.watch, self.decision)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, in which ``n_saved`` counts only unrequested samples."""
        decision = self.decision.to_dict()
        return {
            **decision,
            "n_beyond": self.n_beyond,
            "n_saved": decision["n_saved"] - self.n_beyond,
        }

    @classmethod
    def stored(
        cls,
        told: Mapping[str, Any],
        rule: Mapping[str, Any],
        samples: Sequence[Sample],
        counted: Collection[str],
        *,
        seed: int,
        confidence: float,
    ) -> "StoppingOutcome":
        """Reconstruct the decision of a stored run in order to rescore its answers.

        ``told`` and ``rule`` are the stored decision and rule, and ``counted`` contains the ids of
        the counted units.

        Raises an error if, with the current groups of the task, only part of a group is counted.
        """
        ordered = in_drawn_order(samples, seed)
        used = [sample for sample in ordered if sample.id in counted]
        left = [sample for sample in ordered if sample.id not in counted]
        _refuse_cut_groups(used, left)
        could = (*used, *left[: int(told["n_total"]) - len(used)])
        watch = Watch(
            rule=_StoredRule(str(rule["scope"])),
            spec=ms.mean_of(str(told["metric"]), bounds=(0.0, 1.0)),
            macro=False,
            samples=could,
            drawn=DrawnUnits.of(could, macro=False),
            confidence=confidence,
        )
        decision = Decision(
            stop=True,
            reason=str(told["reason"]),
            metric=str(told["metric"]),
            n_used=len(used),
            n_total=len(could),
            verdict=str(told.get("verdict", "")),
        )
        return cls(watch, decision, int(told.get("n_beyond", 0)))


def _refuse_cut_groups(used: Sequence[Sample], left: Sequence[Sample]) -> None:
    """Raise an error if only part of a group is counted, because the draws would then differ."""
    cut = {one.group for one in used if one.group} & {one.group for one in left}
    if cut:
        raise ArtifactError(
            f"the run counts only part of the group {min(map(str, cut))!r} ({len(cut)} such "
            "groups), because the groups of the task have changed since the run, and its "
            "interval is no longer valid; run the task again in another folder"
        )


@dataclass(frozen=True, slots=True)
class _StoredRule:
    """Stopping rule of a finished run."""

    scope: str

    def holds(self, found: Looks) -> BoolArray:
        raise NotImplementedError("the run is finished")

    def said(self, name: str, ci: BootstrapCI, holds: bool) -> tuple[str, str]:
        raise NotImplementedError("the run is finished")


def ask_until_decided(
    watch: Watch, jobs: Sequence[Job], ask: AskPart, measure: MeasurePart, at_once: int
) -> tuple[JobResults, StoppingOutcome]:
    """Run jobs in batches until the rule is satisfied; return all outcomes and the decision."""
    outcome = ask_until(watch, jobs, ask, measure, at_once=at_once)
    outcomes = JobResults(outcome.outcomes, notes=outcome.notes)
    return outcomes, StoppingOutcome(watch, outcome.decision, outcome.n_beyond)
