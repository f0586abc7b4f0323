"""How rollouts become results: scores and turns to records, cells and curves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit import _validate
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.diversity import probe_similarity
from eval_toolkit.protocols import TextScorer
from eval_toolkit.responses.reasoning import CUT_OFF, cut_off_notes
from eval_toolkit.rollouts.asking import Asking
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
from eval_toolkit.rollouts.rolloutrun import RolloutRun
from eval_toolkit.rollouts.scorers.base import mode_of
from eval_toolkit.rollouts.seeds import SeedPrompt, seed_notes
from eval_toolkit.runner.counting import counts_of
from eval_toolkit.runs.cells import card_entry
from eval_toolkit.scorecards import Records

__all__ = ["Measuring"]

SUCCESS = "attack_success"
_ON_ANY = "attack_success_any"
_CATEGORY = "category"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """How rollouts become results."""

    scorers: tuple[TextScorer, ...]
    scored: bool
    """Whether the first of them says whether the target failed."""
    target: str
    asr_at: tuple[int, ...]
    policy: str
    depth: int
    on_error: str
    confidence: float
    max_error_rate: float
    seed: int

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
        on_error: str,
        confidence: float,
        max_error_rate: float,
        seed: int,
    ) -> "Measuring":
        """Check everything before anything is asked."""
        if not isinstance(asr_at, Iterable):
            raise InvalidTypeError(f"`asr_at` is {asr_at!r}; it must be a list of numbers")
        ks = tuple(dict.fromkeys(_validate.integer(k, "asr_at", low=1) for k in asr_at))
        for k in ks:
            if k > attempts:
                raise InvalidInputError(
                    f"`asr_at` is {k}, but each seed has {attempts} rollouts; ask for at least {k}"
                )
        check_columns(scorers, depth)
        return cls(
            scorers=tuple(scorers),
            scored=scored,
            target=target,
            asr_at=ks,
            policy=_validate.choice(policy, "policy", POLICIES),
            depth=depth,
            on_error=_validate.choice(on_error, "on_error", ("exclude", "as_zero", "fail")),
            confidence=_validate.fraction(confidence, "confidence"),
            max_error_rate=_validate.number(max_error_rate, "max_error_rate", low=0.0, high=1.0),
            seed=seed,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a configuration says about it."""
        return {
            "scorers": {scorer.name: _scorer_settings(scorer) for scorer in self.scorers},
            "scored_by": self.scorers[0].name if self.scored else None,
            "asr_at": list(self.asr_at),
            "policy": self.policy,
            "on_error": self.on_error,
            "confidence": self.confidence,
        }

    def measured(
        self,
        graphs: Sequence[Graph[Any, Any]],
        prompts: Sequence[SeedPrompt],
        asking: Asking | None,
        config: Mapping[str, Any],
        run_id: str,
    ) -> RolloutRun:
        """Return records, cells, curves and counts; without ``asking`` nobody was asked."""
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
            by=_CATEGORY if _CATEGORY in records.slices else None,
            on_error=self.on_error,
            confidence=self.confidence,
            seed=self.seed,
        )
        # What a rollout with chosen branches broke on is known, even where it has no expectation.
        chosen = any(graph.selected for graph in graphs) and self.policy != "best"
        status = records.status[_ON_ANY if chosen else SUCCESS]
        n_errors = int((status == "error").sum())
        rate = n_errors / len(records)
        return RolloutRun(
            graphs=tuple(graphs),
            records=records,
            card=card,
            results={
                "schema_version": "v1",
                "run_id": run_id,
                "config": config,
                "by_slice": {
                    str(config["seeds"]["name"]): card_entry(
                        self.target, records, card, by=_CATEGORY
                    )
                },
            },
            more=self._more(graphs, prompts, records),
            **counts_of([] if asking is None else asking.outcomes),
            n_calls=0 if asking is None else asking.n_calls,
            n_errors=n_errors,
            n_skipped=int((status == "skipped").sum()),
            error_rate=rate,
            too_many_errors=rate > self.max_error_rate,
            notes=(
                *seed_notes(prompts),
                *_cut_off(graphs),
                *([] if asking is None else asking.notes),
            ),
        )

    def _more(
        self,
        graphs: Sequence[Graph[Any, Any]],
        prompts: Sequence[SeedPrompt],
        records: Records,
    ) -> dict[str, Any]:
        """Return what is no single number: curves, turns, distributions."""
        refusal = [scorer for scorer in self.scorers if scorer.name == REFUSAL]
        return {
            "survival": self._survival(graphs, prompts, own=False),
            "survival_own": self._survival(graphs, prompts, own=True),
            "probe_similarity": _similarity(graphs, prompts, self.confidence),
            "seeds": seed_table(records, SUCCESS, confidence=self.confidence),
            "turns": turn_table(graphs, refusal=next(iter(refusal), None)),
            "distributions": column_distributions(records),
        }

    def _survival(
        self, graphs: Sequence[Graph[Any, Any]], prompts: Sequence[SeedPrompt], *, own: bool
    ) -> dict[str, Any]:
        """Return a curve with the policy it is of, or why there is none."""
        scorer = self.scorers[0] if self.scored else None
        if own and scorer is not None and mode_of(scorer) != "turn":
            return {
                "status": "skipped",
                "reason": f"{scorer.name} sees probes and replies together",
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
            curve = rows.curve(self.confidence)
        except UndefinedMetricError as error:
            return {"status": "skipped", "reason": str(error)}
        told = {"policy": rows.policy, "depth": rows.depth, "n_cut_short": rows.n_cut_short}
        return {"status": "ok", **told, **curve.to_dict()}


def _scorer_settings(scorer: TextScorer) -> dict[str, Any]:
    """Return what a configuration says about a scorer; of a judge, by what prompt and model."""
    own = getattr(scorer, "describe", None)
    return {
        "version": str(scorer.version),
        "threshold": scorer.threshold,
        "higher_is_worse": scorer.higher_is_worse,
        "mode": getattr(scorer, "mode", "turn"),
        **({"judges": own()} if callable(own) else {}),
    }


def _cut_off(graphs: Sequence[Graph[Any, Any]]) -> list[str]:
    nodes = [node for graph in graphs for node in graph.nodes() if node.status == "ok"]
    return cut_off_notes(sum(node.reason == CUT_OFF for node in nodes), len(nodes))


def _similarity(
    graphs: Sequence[Graph[Any, Any]], prompts: Sequence[SeedPrompt], confidence: float
) -> dict[str, Any]:
    """Return how alike the probes to different seeds are: a tester that repeats itself tests less."""
    groups = {prompt.id: prompt.group for prompt in prompts}
    said = [(str(n.probe), groups[g.unit_id]) for g in graphs for n in g.nodes() if n.probe]
    try:
        found = probe_similarity(
            [probe for probe, _ in said], [group for _, group in said], confidence=confidence
        )
    except (UndefinedMetricError, InvalidInputError) as error:
        return {"status": "skipped", "reason": str(error)}
    return {"status": "ok", **found.to_dict()}
