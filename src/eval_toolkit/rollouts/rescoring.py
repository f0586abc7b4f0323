"""Rescoring of stored conversations with other scorers, without querying tester or target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges.requests import apart
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.models.responses.reasoning import REASONING_TAGS, Tags
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.kind import Graphs, MeasuredRollouts
from eval_toolkit.rollouts.lockstep import scored
from eval_toolkit.rollouts.measures.results import MeasurementSettings
from eval_toolkit.rollouts.scorers import requests_through
from eval_toolkit.rollouts.scorers.stored import StoredScorer, stored_scorers
from eval_toolkit.rollouts.seeds.stored import seeds_of
from eval_toolkit.rollouts.system import made_scorers
from eval_toolkit.rollouts.turns import rollouts_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.kinds import Identity
from eval_toolkit.runs.manifest_checks import missing_setting
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.runs.rescoring import rescore, source_run
from eval_toolkit.runs.specs import SUMMARY_DEFAULTS, SummaryOptions, SummarySpec

_MEASURED = ("scorers", "scored_by", "asr_at", "policy", "on_error", "confidence")
_NEEDED = (
    *("seed", "depth", "width", "rollouts_per_seed", "asr_at", "policy"),
    *("seeds.name", "system.tester.name", "system.target.name"),
)
"""Settings that the configuration of a stored run must contain."""


@gathers(SummaryOptions, **SUMMARY_DEFAULTS)
def rescore_rollouts(
    run: Run | Outcome | str | Path,
    scorer: Any = None,
    out: str | Path | None = None,
    *,
    refusal: Any = True,
    asr_at: Sequence[int] | None = None,
    policy: str | None = None,
    run_id: str | None = None,
    reasoning_tags: Tags | None = None,
    **summary: Unpack[SummaryOptions],
) -> Outcome:
    """Rescore the rollouts of a stored run with other scorers or thresholds.

    Parameters
    ----------
    run : Run, Outcome or path
        Rollout run; it is not modified.
    scorer : TextScorer, callable or str, or several of them, optional
        As in `run_rollouts`: for example, a function of a reply, or "toxicity@0.9". Judges are
        queried only for verdicts that the run does not contain; tester and target are never
        queried. By default, the scores of the run are kept, and only the other options apply.
    out : path, optional
        Folder of the new run; by default, nothing is written.
    refusal : bool or TextScorer, default True
        Whether to detect refusals in addition to ``scorer``, as in `System`.
    asr_at, policy
        As in `run_rollouts`; by default, the values used in the run.
    on_error, max_error_rate, confidence
        As in `SummarySpec`.
    run_id
        As in `run_rollouts`.
    reasoning_tags : sequence of (str, str), optional
        Tags that delimit the reasoning in replies, which is hidden from scorers; by default, the
        tags used in the run, or `REASONING_TAGS` for runs stored with reasoning.

    Returns
    -------
    Outcome
        Outcome with the answers of the run, but with new verdicts in place of the stored ones;
        requests and usage count judges only. If the run's scorer ended conversations or selected
        branches, these decisions remain in effect, and a note states this.

    Raises
    ------
    ArtifactError
        If ``run`` is not a rollout run, or the folder is already in use.
    InvalidInputError, InvalidTypeError
        If an option is invalid.
    ModelError
        If a judge fails permanently.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.rollouts import System, run_rollouts
    >>> system = System(["Hello."], ["Well, grr."], lambda texts: [0.0] * len(texts))
    >>> mild = run_rollouts(system, ["Growl"], tempfile.mkdtemp() + "/r", depth=1)
    >>> strict = rescore_rollouts(mild.run, lambda texts: [float("grr" in t) for t in texts])
    >>> mild.card["attack_success"].value, strict.card["attack_success"].value
    (0.0, 1.0)
    """
    source = source_run(run)
    kind = StoredRollouts.stored(
        source,
        scorer=scorer,
        refusal=refusal,
        asr_at=asr_at,
        policy=policy,
        **summary,
        reasoning_tags=reasoning_tags,
    )
    return rescore(source, out, kind=kind, run_id=run_id)


def _refuse_incomplete(stored: Run, config: Mapping[str, Any]) -> None:
    """Raise an error if a run does not record how its conversations were generated."""
    if place := missing_setting(config, _NEEDED):
        raise ArtifactError(
            f"{stored.path / 'manifest.json'}: config has no {place}, which is required to "
            "rescore the conversations"
        )
    if not stored.subjects:
        raise ArtifactError(f"{stored.path}: the run has no records to rescore")


@dataclass(frozen=True)
class StoredRollouts(MeasuredRollouts):
    """Evaluation kind that rescores the conversations of a stored run."""

    decides: bool
    tags: Tags
    notes: tuple[str, ...] = ()

    in_place = False

    @classmethod
    def stored(
        cls,
        run: Run,
        *,
        scorer: Any = None,
        refusal: Any = True,
        asr_at: Sequence[int] | None = None,
        policy: str | None = None,
        on_error: str = "exclude",
        max_error_rate: float = 0.0,
        confidence: float = DEFAULT_CONFIDENCE,
        reasoning_tags: Tags | None = None,
    ) -> "StoredRollouts":
        """Load the conversations of a rollout run; see `rescore_rollouts`."""
        config = run.manifest.get("config") or {}
        if config.get("kind") != "rollout":
            raise ArtifactError(f"{run.path}: not a rollout run")
        given = {"asr_at": asr_at, "policy": policy}
        config = {**config, **{name: value for name, value in given.items() if value is not None}}
        _refuse_incomplete(run, config)
        decides, scorers = _scorers(run, scorer, refusal)
        tags = reasoning_tags
        if tags is None:
            tags = (config.get("system") or {}).get("reasoning_tags", REASONING_TAGS)
        summary = SummarySpec(
            on_error=on_error,
            confidence=confidence,
            max_error_rate=max_error_rate,
            seed=int(config["seed"]),
        )
        measuring = MeasurementSettings.of(
            scorers,
            run.subjects[0][1],
            scored=decides,
            asr_at=config["asr_at"],
            attempts=int(config["rollouts_per_seed"]),
            policy=config["policy"],
            depth=int(config["depth"]),
            summary=summary,
        )
        kept = {name: value for name, value in config.items() if name not in _MEASURED}
        return cls(
            measuring=measuring,
            prompts=seeds_of(run),
            settings={**kept, **_stopped_by(config)},
            decides=decides,
            tags=tags,
            notes=tuple(_notes(config)),
        )

    @property
    def keeps(self) -> bool:
        """Whether the stored scores are kept."""
        return any(isinstance(one, StoredScorer) for one in self.measuring.scorers)

    def judges(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the settings of each judge, including judges whose verdicts are kept."""
        kept = [one for one in self.measuring.scorers if isinstance(one, StoredScorer)]
        stayed = {name: settings for one in kept for name, settings in one.judges.items()}
        return {**super().judges(), **stayed}

    def identity(self) -> Identity:
        """Return the settings that identify the run: system and seed."""
        return Identity(settings=("kind", "system", "seed"))

    def restore(self, run: Run, context: Context) -> Graphs:
        """Return the stored conversations with new scores, querying only judges."""
        graphs = rollouts_of(run, self.tags)
        answers, verdicts = apart(outcomes_of(run))
        context.outcomes += answers
        if self.keeps:
            context.verdicts += verdicts
            if not run.manifest.get("joins"):
                context.notes.insert(
                    0, f"conversations and scores are from run {run.run_id}; no model was queried"
                )
            return graphs
        scorers = self.measuring.scorers
        # Judges of the run that differ only in the threshold are not queried again.
        with requests_through(scorers, context):
            _score_again(graphs, scorers, decides=self.decides)
        n = sum(not verdict.reused for verdict in context.verdicts)
        queries = f"only judges were queried, {n:,} times" if n else "no model was queried"
        context.notes.insert(0, f"the conversations are from run {run.run_id}; {queries}")
        return graphs


def _scorers(run: Run, scorer: Any, refusal: Any) -> tuple[bool, tuple[TextScorer, ...]]:
    """Return whether there is a harm scorer, and all scorers, which default to the run's scorers."""
    if scorer is not None:
        from eval_toolkit.rollouts.scorers.functions import reply_scorers

        return made_scorers(reply_scorers(scorer), refusal)
    if refusal is not True:
        raise InvalidInputError(
            "`refusal` is passed without `scorer`; pass both, or neither to keep the scores of "
            "the run"
        )
    return stored_scorers(run)


def _score_again(
    graphs: Sequence[Graph[Any, Any]], scorers: Sequence[Any], *, decides: bool
) -> None:
    """Discard existing scores and rescore all turns."""
    pairs = [(graph, node) for graph in graphs for node in graph.nodes()]
    for _, node in pairs:
        reward = node.unscored.get("reward")
        node.scores, node.unscored = {}, {} if reward is None else {"reward": reward}
        node.event = node.echo = None
    answered = [(graph, node) for graph, node in pairs if node.status == "ok"]
    leaves = [(graph, leaf) for graph in graphs for leaf in graph.leaves()]
    for some, final in ((answered, False), (leaves, True)):
        beside, nodes = [graph for graph, _ in some], [node for _, node in some]
        scored(scorers, decides, beside, nodes, final=final)


def _stopped_by(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name of the scorer that stopped conversations or selected branches, if any."""
    if not config.get("stop_on_success") and config.get("keep") is None:
        return {}
    return {"stopped_by": config.get("stopped_by", config.get("scored_by"))}


def _notes(config: Mapping[str, Any]) -> list[str]:
    """Return notes about decisions of the original scorer that rescoring cannot change."""
    by = _stopped_by(config).get("stopped_by")
    notes = []
    if config.get("stop_on_success"):
        notes.append(
            f"conversations ended when {by} detected a failure; rescoring does not change this"
        )
    if config.get("keep") is not None:
        notes.append(f"branches were selected by {by}; rescoring does not change this")
    return notes
