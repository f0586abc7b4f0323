"""What came of a set of rollouts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._display import Displayed
from eval_toolkit.judges.asking import judge_of
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.runner import JobResult
from eval_toolkit.runner.counting import counts_of
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records, Scorecard

__all__ = ["RolloutRun", "judges_of"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RolloutRun(Displayed):
    """Rollouts, what was measured of them, and the run they are stored in.

    Examples
    --------
    >>> from eval_toolkit.rollouts import System, run_rollouts
    >>> system = System(["Please."], ["No."], lambda texts: [0.1] * len(texts))
    >>> done = run_rollouts(system, ["Tell a secret", "Tell another"], depth=1)
    >>> done.card["attack_success"].value, done.n_rollouts
    (0.0, 2)
    """

    graphs: tuple[Graph[Any, Any], ...]
    """In the order of the seeds."""
    records: Records
    """One line per seed and rollout."""
    card: Scorecard
    """A cell per metric, over all and per category."""
    results: Mapping[str, Any]
    """What ``results.json`` holds."""
    more: Mapping[str, Any]
    """Survival curves, what happened turn by turn, distributions: what ``results_full.json`` adds."""
    run: Run | None = None
    """The stored run; None where nothing was written."""
    n_requests: int = 0
    """Of testers and targets."""
    n_asked: int = 0
    n_reused: int = 0
    """Answers that were there already."""
    n_cached: int = 0
    n_failed_requests: int = 0
    n_calls: int = 0
    """How often a model or a function was turned to: a batch counts once."""
    n_errors: int = 0
    """Rollouts of which it is not known whether the target failed, because something broke."""
    n_skipped: int = 0
    """Rollouts of which that is not known because they were cut short."""
    error_rate: float = 0.0
    too_many_errors: bool = False
    """Whether the rate is above what was allowed."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """Tokens and cost of all answers, as recorded when they were asked for."""
    usage_now: Mapping[str, Any] = field(default_factory=dict)
    """The same of the answers that were asked for now."""
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the name of each judge among the scorers: its model, the counts of its requests, and their
    usage."""
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def n_rollouts(self) -> int:
        """How many rollouts there are."""
        return len(self.graphs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; rollouts and records are tables of their own."""
        shown = (
            *("n_rollouts", "n_requests", "n_asked", "n_reused", "n_cached", "n_failed_requests"),
            *("n_calls", "n_errors", "n_skipped", "error_rate", "too_many_errors", "elapsed_s"),
        )
        return {
            "run_id": self.results["run_id"],
            "path": None if self.run is None else str(self.run.path),
            "results": dict(self.results),
            **dict(self.more),
            **{name: getattr(self, name) for name in shown},
            "usage": dict(self.usage),
            "usage_now": dict(self.usage_now),
            "judges": {name: dict(judge) for name, judge in self.judges.items()},
            "notes": list(self.notes),
        }


def judges_of(
    scorers: Sequence[TextScorer], verdicts: Iterable[JobResult]
) -> dict[str, dict[str, Any]]:
    """Return of each judge among scorers its model, and what its verdicts took.

    Parameters
    ----------
    scorers : sequence of TextScorer
        Those that ask judges have ``describe``, as `JudgeScorer` does.
    verdicts : iterable of JobResult
        What came of all that they asked.

    Returns
    -------
    dict of str to dict
        By the judge's name; empty where nobody judges.

    Examples
    --------
    >>> from eval_toolkit.judges import Judge
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.rollouts.scorers import JudgeScorer
    >>> judge = Judge("harmfulness", ScriptedModel("no", name="critic"))
    >>> found = judges_of([JudgeScorer(judge)], [])
    >>> found["harmfulness"]["model"], found["harmfulness"]["n_requests"]
    ('critic', 0)
    """
    from eval_toolkit.rollouts.scorers import unwrapped

    by_judge: dict[str, list[JobResult]] = {}
    for verdict in verdicts:
        by_judge.setdefault(judge_of(verdict.job.step) or "", []).append(verdict)
    asking = [one for one in map(unwrapped, scorers) if hasattr(one, "asker")]
    described = {name: told for one in asking for name, told in one.describe().items()}
    return {
        name: {"model": _model_of(told), **counts_of(by_judge.get(name, []))}
        for name, told in described.items()
    }


def _model_of(described: Mapping[str, Any]) -> str:
    model = described.get("model")
    return str(model.get("name", "")) if isinstance(model, Mapping) else str(model or "")
