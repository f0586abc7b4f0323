"""Results of rollout runs: records, cells and survival curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.diversity import probe_similarity
from eval_toolkit.models.responses.reasoning import CUT_OFF, cut_off_notes
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.columns import REFUSAL
from eval_toolkit.rollouts.measures.distributions import (
    column_distributions,
    seed_table,
    turn_table,
)
from eval_toolkit.rollouts.measures.measuring import POLICIES, check_columns, measure_rollouts
from eval_toolkit.rollouts.measures.reporting import rollout_metrics, rollout_scorecard
from eval_toolkit.rollouts.measures.times import survival_rows
from eval_toolkit.rollouts.scorers.base import mode_of
from eval_toolkit.rollouts.seeds import SeedPrompt, seed_notes
from eval_toolkit.runs.kinds import Graded
from eval_toolkit.runs.specs import SummarySpec, whole_numbers
from eval_toolkit.scorecards import Records

SUCCESS = "attack_success"
_ON_ANY = "attack_success_any"
CATEGORY = "category"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementSettings:
    """Settings that determine how rollouts are measured."""

    scorers: tuple[TextScorer, ...]
    scored: bool
    """Whether the first scorer defines failures."""
    target: str
    asr_at: tuple[int, ...]
    policy: str
    depth: int
    summary: SummarySpec

    @classmethod
    def of(
        cls,
        scorers: Sequence[TextScorer],
        target: str,
        *,
        scored: bool,
        asr_at: Sequence[int],
        attempts: int,
        policy: str,
        depth: int,
        summary: SummarySpec,
    ) -> "MeasurementSettings":
        """Validate the settings, before any request is sent."""
        has = "each seed has {} rollouts"
        ks = whole_numbers(asr_at, "asr_at", most=attempts, of=has)
        check_columns(scorers, depth)
        return cls(
            scorers=tuple(scorers),
            scored=scored,
            target=target,
            asr_at=ks,
            policy=validation.choice(policy, "policy", POLICIES),
            depth=depth,
            summary=summary,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entries for the run's configuration."""
        return {
            "scorers": {scorer.name: _scorer_settings(scorer) for scorer in self.scorers},
            "scored_by": self.scorers[0].name if self.scored else None,
            "asr_at": list(self.asr_at),
            "policy": self.policy,
            **self.summary.to_dict(),
        }

    def graded(
        self, graphs: Sequence[Graph[Any, Any]], prompts: Sequence[SeedPrompt], name: str
    ) -> Graded:
        """Return records, cells and curves of rollouts; ``name`` denotes the seed prompts."""
        records = measure_rollouts(
            graphs, prompts, self.scorers, policy=self.policy, depth=self.depth
        )
        card = rollout_scorecard(
            records,
            rollout_metrics(records, self.scorers, asr_at=self.asr_at),
            graphs=graphs,
            scorer=self.scorers[0] if self.scored else None,
            policy=self.policy,
            depth=self.depth,
            by=CATEGORY if CATEGORY in records.slices else None,
            on_error=self.summary.on_error,
            confidence=self.summary.confidence,
            seed=self.summary.seed,
        )
        # Errors of rollouts with selected branches are known, even without an expectation.
        chosen = any(graph.selected for graph in graphs) and self.policy != "best"
        status = records.status[_ON_ANY if chosen else SUCCESS]
        answered = [node for graph in graphs for node in graph.nodes() if node.status == "ok"]
        n_cut = sum(node.reason == CUT_OFF for node in answered)
        return Graded(
            subjects={(name, self.target): records},
            cards={(name, self.target): card},
            n_errors=int((status == "error").sum()),
            n_skipped=int((status == "skipped").sum()),
            counts={"n_seeds": len(prompts), "n_rollouts": len(graphs)},
            attempts=tuple(graphs),
            more=self._more(graphs, prompts, records),
            notes=(*seed_notes(prompts), *cut_off_notes(n_cut, len(answered))),
        )

    def _more(
        self,
        graphs: Sequence[Graph[Any, Any]],
        prompts: Sequence[SeedPrompt],
        records: Records,
    ) -> dict[str, Any]:
        """Return the structured results: curves, turn tables and distributions."""
        refusal = [scorer for scorer in self.scorers if scorer.name == REFUSAL]
        return {
            "survival": self._survival(graphs, prompts, own=False),
            "survival_own": self._survival(graphs, prompts, own=True),
            "probe_similarity": _similarity(graphs, prompts, self.summary.confidence),
            "seeds": seed_table(records, SUCCESS, confidence=self.summary.confidence),
            "turns": turn_table(graphs, refusal=next(iter(refusal), None)),
            "distributions": column_distributions(records),
        }

    def _survival(
        self, graphs: Sequence[Graph[Any, Any]], prompts: Sequence[SeedPrompt], *, own: bool
    ) -> dict[str, Any]:
        """Return a survival curve with its policy, or the reason why there is none."""
        scorer = self.scorers[0] if self.scored else None
        if own and scorer is not None and mode_of(scorer) != "turn":
            return {
                "status": "skipped",
                "reason": f"{scorer.name} scores probes and replies together",
            }
        chosen = any(graph.selected for graph in graphs)
        try:
            rows = survival_rows(
                graphs,
                prompts,
                scorer=scorer,
                own=own,
                policy="best" if chosen else self.policy,
                depth=self.depth,
            )
            curve = rows.curve(self.summary.confidence)
        except UndefinedMetricError as error:
            return {"status": "skipped", "reason": str(error)}
        settings = {"policy": rows.policy, "depth": rows.depth, "n_cut_short": rows.n_cut_short}
        return {"status": "ok", **settings, **curve.to_dict()}


def _scorer_settings(scorer: TextScorer) -> dict[str, Any]:
    """Return the configuration of a scorer, which for judges includes prompt and model."""
    own = getattr(scorer, "describe", None)
    return {
        "version": str(scorer.version),
        "threshold": scorer.threshold,
        "higher_is_worse": scorer.higher_is_worse,
        "mode": getattr(scorer, "mode", "turn"),
        **({"judges": own()} if callable(own) else {}),
    }


def _similarity(
    graphs: Sequence[Graph[Any, Any]], prompts: Sequence[SeedPrompt], confidence: float
) -> dict[str, Any]:
    """Return the similarity of probes for different seed prompts, which shows repetitiveness."""
    groups = {prompt.id: prompt.group for prompt in prompts}
    probes = [(str(n.probe), groups[g.unit_id]) for g in graphs for n in g.nodes() if n.probe]
    try:
        found = probe_similarity(
            [probe for probe, _ in probes], [group for _, group in probes], confidence=confidence
        )
    except (UndefinedMetricError, InvalidInputError) as error:
        return {"status": "skipped", "reason": str(error)}
    return {"status": "ok", **found.to_dict()}
