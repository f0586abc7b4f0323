"""Stored rollouts under other scorers: nobody talks again, and judges alone are asked."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_toolkit import _validate
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.judges.asking import apart
from eval_toolkit.provenance import redact_secrets
from eval_toolkit.responses.reasoning import REASONING_TAGS, Tags
from eval_toolkit.rollouts.asking import Asking
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.lockstep import scored
from eval_toolkit.rollouts.measures.results import Measuring
from eval_toolkit.rollouts.rolloutrun import RolloutRun
from eval_toolkit.rollouts.scorers import asked_through
from eval_toolkit.rollouts.seeds.tables import SEEDS, seeds_of
from eval_toolkit.rollouts.system import made_scorers
from eval_toolkit.rollouts.turns import TURNS, rollouts_of, turns_table
from eval_toolkit.runner import JobResult, read_entries, read_outcomes, to_columns
from eval_toolkit.runner.counting import counts_of
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import Run, run_state, write_run

__all__ = ["rescore_rollouts"]

_MEASURED = ("scorers", "scored_by", "asr_at", "policy", "on_error", "confidence")
_COUNTED = ("n_rollouts", "n_requests", "n_failed_requests", "n_errors", "n_skipped")


def rescore_rollouts(
    run: Run | str | Path,
    scorer: Any = None,
    out: str | Path | None = None,
    *,
    refusal: Any = True,
    asr_at: Sequence[int] | None = None,
    policy: str | None = None,
    on_error: str = "exclude",
    max_error_rate: float = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
    run_id: str | None = None,
    reasoning_tags: Tags | None = None,
) -> RolloutRun:
    """Score and measure the rollouts of a stored run again, with other scorers or thresholds.

    Parameters
    ----------
    run : Run or path
        Of rollouts; it stays as it is.
    scorer : TextScorer, callable or sequence of them
        As in `System`. A judge among them is asked what the run does not hold already; tester and
        target are not.
    out : path, optional
        Folder of the new run; without one nothing is written.
    refusal : bool or TextScorer, default True
        As in `System`.
    asr_at, policy
        As in `run_rollouts`; by default what the run had.
    on_error, max_error_rate, confidence, run_id
        As in `run_rollouts`.
    reasoning_tags : sequence of (str, str), optional
        What the reasoning of a reply stands between, which scorers do not see; by default what the
        run had, and for runs stored with the reasoning in their replies `REASONING_TAGS`.

    Returns
    -------
    RolloutRun
        Its answers are those of the run, with the verdicts of these judges in the place of the
        run's; requests and usage are of judges alone. Where the run ended conversations or chose
        branches by its own scorer, that stays as it was, and a note says so.

    Raises
    ------
    ArtifactError
        If it is no run of rollouts, or the folder is taken.
    InvalidInputError, InvalidTypeError
        If an option does not fit.
    ModelError
        If a judge fails for good.

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
    started = time.monotonic()
    stored = run if isinstance(run, Run) else Run.open(run)
    config = stored.manifest.get("config") or {}
    if config.get("kind") != "rollout":
        raise ArtifactError(f"{stored.path}: is no run of rollouts")
    if out is not None:
        _refuse_taken(Path(out), stored)
    decides, scorers = made_scorers(scorer, refusal)
    tags = reasoning_tags
    if tags is None:
        tags = (config.get("system") or {}).get("reasoning_tags", REASONING_TAGS)
    graphs, prompts = rollouts_of(stored, tags), seeds_of(stored)
    measuring = Measuring.of(
        scorers,
        stored.subjects[0][1],
        scored=decides,
        asr_at=config["asr_at"] if asr_at is None else asr_at,
        attempts=int(config["rollouts_per_seed"]),
        policy=config["policy"] if policy is None else policy,
        depth=int(config["depth"]),
        on_error=on_error,
        confidence=_validate.fraction(confidence, "confidence"),
        max_error_rate=max_error_rate,
        seed=int(config["seed"]),
    )
    # A judge of the run is not asked again where its threshold alone is another.
    with (
        Asking(finished=read_entries(stored.table(RESPONSES))) as asking,
        asked_through(scorers, asking),
    ):
        _score_again(graphs, scorers, decides=decides)
    told = {**{k: v for k, v in config.items() if k not in _MEASURED}, **measuring.to_dict()}
    settings = redact_secrets(sanitize_for_json({**told, **_stopped_by(config)}))
    name = run_id or (Path(out).resolve().name if out is not None else stored.run_id)
    done = measuring.measured(graphs, prompts, asking, settings, name)
    done = replace(done, **counts_of(asking.verdicts), elapsed_s=time.monotonic() - started)
    done = replace(done, notes=(*_notes(stored, done, settings), *done.notes))
    if out is None:
        return done
    return replace(done, run=_written(stored, done, asking.verdicts, out, settings))


def _refuse_taken(out: Path, stored: Run) -> None:
    """Raise if the new run cannot be written there; before a judge is asked."""
    if out.resolve() == stored.path.resolve():
        raise InvalidInputError(f"`out` is {out}, the run itself; choose another folder")
    if out.exists() and run_state(out) != "not a run":
        raise ArtifactError(f"{out}: holds a run already; choose another folder")


def _score_again(
    graphs: Sequence[Graph[Any, Any]], scorers: Sequence[Any], *, decides: bool
) -> None:
    """Forget what scorers said, and ask others; once for all turns."""
    pairs = [(graph, node) for graph in graphs for node in graph.nodes()]
    for _, node in pairs:
        reward = node.unscored.get("reward")
        node.scores, node.unscored = {}, {} if reward is None else {"reward": reward}
        node.event = node.echo = None
    said = [(graph, node) for graph, node in pairs if node.status == "ok"]
    leaves = [(graph, leaf) for graph in graphs for leaf in graph.leaves()]
    for some, final in ((said, False), (leaves, True)):
        beside, nodes = [graph for graph, _ in some], [node for _, node in some]
        scored(scorers, decides, beside, nodes, final=final)


def _stopped_by(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return which scorer decided how the rollouts went on, where one did."""
    if not config.get("stop_on_success") and config.get("keep") is None:
        return {}
    return {"stopped_by": config.get("stopped_by", config.get("scored_by"))}


def _notes(stored: Run, done: RolloutRun, config: Mapping[str, Any]) -> list[str]:
    """Say who was asked, and what the scorer of the run decided, which cannot be undone."""
    by = config.get("stopped_by")
    n = done.n_asked
    asked = f"judges alone were asked, {n:,} times" if n else "nobody was asked"
    notes = [f"what was said is of run {stored.run_id}; {asked}"]
    if config.get("stop_on_success"):
        notes.append(f"conversations ended where {by} said that the target failed; that stays")
    if config.get("keep") is not None:
        notes.append(f"branches were chosen by {by}; that stays")
    return notes


def _written(
    stored: Run,
    done: RolloutRun,
    verdicts: Sequence[JobResult],
    out: str | Path,
    config: Mapping[str, Any],
) -> Run:
    answers, _ = apart(read_outcomes(stored.table(RESPONSES)))
    versions = {
        name: version
        for name, version in (stored.manifest.get("versioned_objects") or {}).items()
        if not name.startswith("text_scorer:")
    }
    versions |= {f"text_scorer:{n}": str(told["version"]) for n, told in config["scorers"].items()}
    left_out = ("artifacts", "status", "manifest_sha256", "run_id", "captured_at", "engine")
    counts = {name: getattr(done, name) for name in _COUNTED}
    head = {key: value for key, value in stored.manifest.items() if key not in left_out}
    return write_run(
        out,
        results=done.results,
        results_full={**done.results, "rollouts": dict(done.more)},
        manifest={
            **head,
            "run_id": done.results["run_id"],
            "config": config,
            "versioned_objects": versions,
            "rescored": {"run_id": stored.run_id, "manifest": stored.manifest.get("captured_at")},
            "counts": {**(stored.manifest.get("counts") or {}), **counts},
            "usage": done.usage,
            "wall_clock_seconds": done.elapsed_s,
            "notes": list(done.notes),
        },
        records={stored.subjects[0]: done.records},
        tables={
            RESPONSES: to_columns([*answers, *verdicts]),
            TURNS: turns_table(done.graphs),
            SEEDS: stored.table(SEEDS),
        },
    )
