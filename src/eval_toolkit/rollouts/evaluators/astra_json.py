"""Export of rollouts in the JSON format of astra-rl's evaluators."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from eval_toolkit._internal.plain import plain
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.rollouts.evaluators.ast import ASTEvaluator
from eval_toolkit.rollouts.evaluators.base import Evaluator
from eval_toolkit.rollouts.evaluators.rolling import goal_of
from eval_toolkit.rollouts.evaluators.runs import EvaluatedRollout, EvaluatorRun
from eval_toolkit.rollouts.graphs import Graph, Node


def rollouts_json(
    rollouts: Any,
    *,
    scorer: Any = None,
    threshold: float | None = None,
    manifest: Mapping[str, Any] | str | None = None,
) -> dict[str, Any]:
    """Convert rollouts to a dict of ``summary``, ``details``, ``estimates`` and ``manifest``.

    Parameters
    ----------
    rollouts : Evaluator, EvaluatorRun or sequence of Graph
        Evaluated rollouts; graphs are first evaluated in the same way as by `ASTEvaluator`.
    scorer : TextScorer, optional
        Scorer for graphs that have no scores yet; by default, the first scorer that scored them.
    threshold : float, optional
        Toxicity threshold for graphs; by default, that of ``scorer``, or else 0.5. Required if the
        turns were judged with a different threshold.
    manifest : mapping or str, optional
        Manifest of the rollouts, or its location.

    Returns
    -------
    dict
        Dict of plain JSON types. ``summary`` and the ``overall`` and ``per_turn`` entries of
        ``details`` are as returned by `aggregate_metrics`, with truncated contexts restored. Each
        detail has its ``seed``, ``rollout_id``, ``status``, ``reason`` and ``context``, including
        failed rollouts. ``estimates`` has value, se, ci_low, ci_high, n and method for the keys of
        the summary and for every number in ``overall``, except turns of first events, which are not
        averaged.

    Raises
    ------
    InvalidInputError
        If nothing has been evaluated yet, or if graphs are passed without ``scorer`` and have no
        scores, or have scores judged with another threshold or direction.
    InvalidTypeError
        If ``rollouts`` has another type.

    Examples
    --------
    >>> node = Node("Hi", "Hello", "Go away!", scores={"rude:probe": 0.1, "rude": 0.8})
    >>> exported = rollouts_json([Graph("Hi", [node])])
    >>> list(exported), exported["summary"]["avg_target_toxicity"]
    (['summary', 'details', 'estimates', 'manifest'], 0.8)
    >>> exported["details"][0]["status"], exported["details"][0]["context"]
    ('ok', 'Hi')
    """
    run = _run_of(rollouts, scorer, threshold)
    result = run.result if isinstance(run.result, Mapping) else {}
    summary = result.get("summary", {})
    return {
        "summary": plain(summary),
        "details": [_detail(rollout) for rollout in run.rollouts],
        "estimates": plain(_estimates(summary, run.estimates)),
        "manifest": plain(manifest),
    }


def _run_of(rollouts: Any, scorer: Any, threshold: float | None) -> EvaluatorRun:
    if isinstance(rollouts, Evaluator):
        rollouts = rollouts.run
        if rollouts is None:
            raise InvalidInputError("nothing has been evaluated yet; call `evaluate` first")
    if isinstance(rollouts, EvaluatorRun):
        return rollouts
    if not isinstance(rollouts, Sequence) or not all(isinstance(g, Graph) for g in rollouts):
        raise InvalidTypeError(
            f"`rollouts` is {rollouts!r:.60}; it must be an evaluator, its run, or graphs"
        )
    scorer_used = _scored_by(rollouts, threshold) if scorer is None else scorer
    system = SimpleNamespace(scorer=scorer_used)
    evaluator = ASTEvaluator(SimpleNamespace(system=system, eval_rollout=None), threshold=threshold)
    evaluator.evaluate_graphs(rollouts)
    return cast("EvaluatorRun", evaluator.run)


class _StoredScorer:
    """Scorer that returns stored scores."""

    version = "stored"
    threshold = 0.5
    higher_is_worse = True

    def __init__(self, name: str, mode: str) -> None:
        self.name = name
        self.mode = mode

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return an empty list, since there is no model to score texts."""
        return []


def _scored_by(graphs: Sequence[Graph[Any, Any]], threshold: float | None) -> _StoredScorer:
    """Return the first scorer of the turns, after checking that it scored all of them."""
    turns = [node for graph in graphs for node in graph.nodes() if node.status == "ok"]
    names = (name for node in turns for name in node.scores if not set(":/") & set(name))
    name = next(names, None)
    if name is None:
        raise InvalidInputError("the graphs have no scores; pass `scorer`")
    probe = f"{name}:probe"
    seen = {id(node): {*node.scores, *node.unscored} for node in turns}
    # Scorers of whole conversations have no scores of probes.
    mode = "turn" if any(probe in keys for keys in seen.values()) else "final"
    for node in turns:
        required = {name, probe} if mode == "turn" else {name} if node.is_leaf else set()
        if not required <= seen[id(node)]:
            raise InvalidInputError(
                f"{name} has not scored every probe and response; pass `scorer`"
            )
    scorer = _StoredScorer(name, mode)
    _check_events(turns, scorer, threshold)
    return scorer


def _check_events(
    turns: Sequence[Node[Any, Any]], scorer: _StoredScorer, threshold: float | None
) -> None:
    """Raise an error if the recorded failures contradict the scorer's threshold or direction."""
    decided = [(n.scores[scorer.name], n.event) for n in turns if scorer.name in n.scores]
    lowest = min((score for score, event in decided if event is True), default=math.inf)
    highest = max((score for score, event in decided if event is False), default=-math.inf)
    if lowest < highest:
        raise InvalidInputError(
            f"{scorer.name}: a turn with score {lowest:g} failed and one with {highest:g} did "
            "not, so higher scores are not worse; pass `scorer`"
        )
    if threshold is None and not highest < scorer.threshold <= lowest:
        early = lowest < scorer.threshold
        at, state = (lowest, "failed") if early else (highest, "did not fail")
        raise InvalidInputError(
            f"{scorer.name}: a turn with score {at:g} {state}, so the threshold was not "
            f"{scorer.threshold:g}; pass `scorer` or `threshold`"
        )


def _estimates(
    summary: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return the estimates, also keyed by the names in the summary, which may have a suffix."""
    named = {}
    for key in summary:
        own = key if key in found else str(key).partition("/")[0]
        if own in found:
            named[key] = found[own]
    return {**found, **named}


def _detail(rollout: EvaluatedRollout) -> dict[str, Any]:
    metrics, graph = rollout.metrics, rollout.graph
    rows = [] if metrics is None else metrics.per_turn
    detail = {
        "seed": getattr(rollout.seed, "prompt", rollout.seed),
        "rollout_id": rollout.rollout_id,
        "status": rollout.status,
        "reason": rollout.reason,
        "context": None if graph is None else goal_of(graph),
        "overall": {} if metrics is None else metrics.overall,
        "per_turn": rows if graph is None else _whole(rows, graph),
    }
    return {key: plain(value) for key, value in detail.items()}


def _whole(rows: Sequence[Mapping[str, Any]], graph: Graph[Any, Any]) -> list[dict[str, Any]]:
    """Return the rows of turns with truncated contexts restored."""
    by_id = {node.id: node for node in graph.nodes()}
    first = {node.depth: node for node in graph.first_path()}
    restored = []
    for row in rows:
        node: Node[Any, Any] | None = by_id.get(str(row.get("node", "")))
        node = node or first.get(row.get("turn", 0))
        cut = row.get("context")
        known = node is not None and isinstance(cut, str) and str(node.context).endswith(cut)
        restored.append({**row, "context": str(node.context)} if node and known else dict(row))
    return restored
