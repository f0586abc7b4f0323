"""Evaluation kind of `Evaluator`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit.protocols import MetricSpec
from eval_toolkit.rollouts.evaluators.runs import EvaluatedRollout, records_of
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.runs.units import Unit
from eval_toolkit.scorecards import Records, Scorecard, summarise


@dataclass(frozen=True)
class EvaluatedKind(Kind[Sequence[EvaluatedRollout]]):
    """Rollouts of an evaluator, whose requests are sent by its own sampler."""

    evaluator: str
    roll: Callable[[], Sequence[EvaluatedRollout]] = field(repr=False)
    """Function that samples and measures the rollouts; called once."""
    specs: Callable[[Records | None, Sequence[EvaluatedRollout]], Sequence[MetricSpec]] = field(
        repr=False
    )
    """Function that returns the metrics that summarise the columns."""
    summary: SummarySpec

    name = "evaluator"
    asks = False

    def config(self) -> Mapping[str, Any]:
        """Return the configuration of the evaluator."""
        return {"evaluator": self.evaluator, **self.summary.to_dict()}

    def units(self) -> Sequence[Unit]:
        """Return an empty list: seeds are identified by their records."""
        return ()

    def produce(self, context: Any) -> Sequence[EvaluatedRollout]:
        """Sample and measure the rollouts."""
        return self.roll()

    def grade(self, attempts: Sequence[EvaluatedRollout]) -> Graded:
        """Return one record per rollout, and a cell per summarised column."""
        records, subject = records_of(attempts), ("rollouts", self.evaluator)
        card = Scorecard({})
        specs = self.specs(records, attempts)
        if records is not None and specs:
            card = summarise(records, specs, confidence=self.summary.confidence)
        return Graded(
            subjects={} if records is None else {subject: records},
            cards={} if records is None else {subject: card},
            attempts=tuple(attempts),
            n_errors=sum(one.status == "error" for one in attempts),
            n_skipped=sum(one.status == "skipped" for one in attempts),
            counts={"n_rollouts": len(attempts)},
        )
