"""Stored rollouts under other scorers: nobody is asked what was said, only how bad it is."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_toolkit import _validate
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.provenance import redact_secrets
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.lockstep import scored
from eval_toolkit.rollouts.measured import Measuring
from eval_toolkit.rollouts.rolloutrun import RolloutRun
from eval_toolkit.rollouts.seed_tables import SEEDS, seeds_of
from eval_toolkit.rollouts.system import made_scorers
from eval_toolkit.rollouts.turns import TURNS, rollouts_of, turns_table
from eval_toolkit.runner.stored import RESPONSES
from eval_toolkit.runs import Run, write_run

__all__ = ["rescore_rollouts"]

_MEASURED = ("scorers", "scored_by", "asr_at", "policy", "on_error", "confidence")


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
) -> RolloutRun:
    """Score and measure the rollouts of a stored run again, with other scorers or thresholds.

    Parameters
    ----------
    run : Run or path
        Of rollouts; it stays as it is.
    scorer : TextScorer, callable or sequence of them
        As in `System`. A judge among them is asked; tester and target are not.
    out : path, optional
        Folder of the new run; without one nothing is written.
    refusal : bool or TextScorer, default True
        As in `System`.
    asr_at, policy
        As in `run_rollouts`; by default what the run had.
    on_error, max_error_rate, confidence, run_id
        As in `run_rollouts`.

    Returns
    -------
    RolloutRun
        Where the run ended conversations or chose branches by its own scorer, that stays as it was,
        and a note says so.

    Raises
    ------
    ArtifactError
        If it is no run of rollouts, or the folder is taken.
    InvalidInputError, InvalidTypeError
        If an option does not fit.

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
    if out is not None and Path(out).resolve() == stored.path.resolve():
        raise InvalidInputError(f"`out` is {out}, the run itself; choose another folder")
    decides, scorers = made_scorers(scorer, refusal)
    graphs, prompts = rollouts_of(stored), seeds_of(stored)
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
    _score_again(graphs, scorers, decides=decides)
    told = {**{k: v for k, v in config.items() if k not in _MEASURED}, **measuring.to_dict()}
    settings = redact_secrets(sanitize_for_json(told))
    name = run_id or (Path(out).resolve().name if out is not None else stored.run_id)
    done = measuring.measured(graphs, prompts, None, settings, name)
    notes = (f"what was said is of run {stored.run_id}; nobody was asked", *_ended(config))
    done = replace(done, notes=(*notes, *done.notes), elapsed_s=time.monotonic() - started)
    return done if out is None else replace(done, run=_written(stored, done, out, settings))


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


def _ended(config: Mapping[str, Any]) -> list[str]:
    """Say what the scorer of the run decided, which cannot be undone."""
    by = config.get("scored_by")
    notes = []
    if config.get("stop_on_success"):
        notes.append(f"conversations ended where {by} said that the target failed; that stays")
    if config.get("keep") is not None:
        notes.append(f"branches were chosen by {by}; that stays")
    return notes


def _written(stored: Run, done: RolloutRun, out: str | Path, config: Mapping[str, Any]) -> Run:
    versions = {
        name: version
        for name, version in (stored.manifest.get("versioned_objects") or {}).items()
        if not name.startswith("scorer:")
    }
    versions |= {f"scorer:{n}": str(told["version"]) for n, told in config["scorers"].items()}
    left_out = ("artifacts", "status", "manifest_sha256", "run_id", "captured_at")
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
            "notes": list(done.notes),
        },
        records={stored.subjects[0]: done.records},
        tables={
            RESPONSES: stored.table(RESPONSES),
            TURNS: turns_table(done.graphs),
            SEEDS: stored.table(SEEDS),
        },
    )
