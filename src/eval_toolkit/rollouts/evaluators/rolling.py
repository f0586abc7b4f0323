"""Sampling of rollouts with any sampler, one by one or in lockstep, recording failures."""

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any, Protocol

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    MissingExtraError,
    ModelError,
    PluginError,
)
from eval_toolkit.models.runner import Progress
from eval_toolkit.rollouts.evaluators.runs import EvaluatedRollout, identities
from eval_toolkit.rollouts.graphs import Graph, as_graph
from eval_toolkit.runs.context import Context
from eval_toolkit.runs.specs import AskSpec

_LONGEST_REASON = 500


class Tell(Protocol):
    """Callback that receives the number of finished rollouts."""

    def __call__(self, done: int) -> None:
        """Report the number of finished rollouts."""


def rolled(sampler: Any, seeds: list[Any], attempts: int, tell: Tell) -> Iterator[EvaluatedRollout]:
    """Yield rollouts in the order of the seeds, including rollouts that failed."""
    known = identities(seeds)
    tries = range(1, attempts + 1)
    if _goes_in_lockstep(sampler):
        graphs = _all_at_once(sampler, seeds, attempts, tell)
        places = ((s, i, n) for s, i in zip(seeds, known, strict=True) for n in tries)
        for (seed, identity, attempt), graph in zip(places, graphs, strict=True):
            yield judged(EvaluatedRollout(seed, identity, attempt, graph))
        return
    numbered = attempts > 1 and _takes(sampler.eval_rollout, "attempt")
    for seed, identity in zip(seeds, known, strict=True):
        for attempt in tries:
            rollout = EvaluatedRollout(seed, identity, attempt)
            try:
                graph = _one(sampler, seed, {"attempt": attempt} if numbered else {})
            except Exception as error:  # a failed rollout must not end the others
                if _is_final(error):
                    raise
                yield dataclasses.replace(rollout, status="error", reason=one_line(error))
                continue
            yield judged(dataclasses.replace(rollout, graph=graph))


def _one(sampler: Any, seed: Any, more: dict[str, Any]) -> Graph[Any, Any]:
    roll = sampler.eval_rollout
    named = _takes(roll, "seed") or _takes(roll, None)
    graph: Graph[Any, Any] = roll(seed=seed, **more) if named else roll(seed, **more)
    return graph


def _all_at_once(
    sampler: Any, seeds: list[Any], attempts: int, tell: Tell
) -> list[Graph[Any, Any]]:
    roll = sampler.eval_rollouts
    n = len(seeds) * attempts

    def told(progress: Progress) -> None:
        tell(n * progress.done // max(1, progress.total))

    if _takes(roll, "asking"):
        with Context(AskSpec(on_progress=told)) as asking:
            graphs = list(roll(seeds, attempts=attempts, asking=asking))
    else:
        graphs = list(roll(seeds, attempts=attempts))
    if len(graphs) != n:
        raise InvalidInputError(f"eval_rollouts returned {len(graphs)} graphs for {n} rollouts")
    return graphs


def _goes_in_lockstep(sampler: Any) -> bool:
    """Return whether rollouts can be sampled in lockstep, with no overridden ``eval_rollout``."""
    if not callable(getattr(sampler, "eval_rollouts", None)):
        return False
    for kind in type(sampler).__mro__:
        if "eval_rollouts" in vars(kind):
            return True
        if "eval_rollout" in vars(kind):
            return False
    return True


def _takes(function: Any, name: str | None) -> bool:
    """Return whether a function has the named parameter or, if None, accepts any keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.kind is p.VAR_KEYWORD if name is None else p.name == name for p in parameters)


def _is_final(error: Exception) -> bool:
    """Return whether an error must propagate, because every rollout would fail in the same way."""
    final = (ArtifactError, InvalidInputError, MissingExtraError, PluginError, NotImplementedError)
    return isinstance(error, final) or (isinstance(error, ModelError) and error.fatal)


def one_line(error: Exception) -> str:
    """Format an exception as a single line."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    return str(redact_secrets(text[:_LONGEST_REASON]))


def goal_of(graph: Graph[Any, Any]) -> Any:
    """Return the prompt from which a rollout started."""
    return getattr(graph.context, "goal", graph.context)


def judged(rollout: EvaluatedRollout) -> EvaluatedRollout:
    """Return the rollout with a status derived from its turns; raise if it is not a tree."""
    try:
        graph = as_graph(rollout.graph)
        graph.relink()
    except InvalidInputError as error:
        error.add_note(f"in the rollout from seed {rollout.seed!r:.200}")
        raise
    for status in ("error", "skipped"):
        for node in graph.nodes():
            if node.status == status:
                reason = f"turn {node.depth}: {node.reason or 'no reason given'}"
                return dataclasses.replace(rollout, graph=graph, status=status, reason=reason)
    return dataclasses.replace(rollout, graph=graph)
