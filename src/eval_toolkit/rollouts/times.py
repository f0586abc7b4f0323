"""When targets fail: each conversation's first failure, or up to when it was seen not to fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from eval_toolkit import _validate
from eval_toolkit._validate import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import Grade
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measuring import seeds_by_id
from eval_toolkit.rollouts.paths import Look, Turn, event_of, own_event_of
from eval_toolkit.rollouts.seeds import SeedPrompt

__all__ = ["SurvivalRows", "survival_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalRows:
    """Conversations as `inference.kaplan_meier` takes them: one row each.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> chain = Graph("Hi", [Node("Hi", "Hello", "Grr.", event=True)], unit_id="s1")
    >>> survival_rows([chain]).times.tolist()
    [1]
    """

    times: IntArray
    """The turn of the first failure, or the last turn known to be without one; 0 where none is."""
    events: BoolArray
    groups: list[str]
    weights: FloatArray
    """Path weights; those of a rollout add up to 1."""
    policy: str
    n_cut_short: int
    """Conversations that ended early because a turn failed, was not allowed or was not scored."""


def survival_rows(
    graphs: Sequence[Graph[Any, Any]],
    seeds: Mapping[str, SeedPrompt] | Sequence[SeedPrompt] | None = None,
    *,
    scorer: TextScorer | str | None = None,
    own: bool = False,
    policy: str | None = None,
) -> SurvivalRows:
    """Return when each conversation failed first, or up to when it was seen not to.

    Parameters
    ----------
    graphs : sequence of Graph
        Scored.
    seeds : mapping of id to SeedPrompt, or sequence of SeedPrompt, optional
        Say which rollouts are of one topic; without them each unit is a group.
    scorer : TextScorer or str, optional
        Who decided whether the target failed, or its name.
    own : bool, default False
        Whether replies that merely repeat the tester are no failures.
    policy : {"expectation", "best"}, optional
        One row per conversation, weighted by its path, or one per rollout: the earliest failure on
        any branch. By default the second where only chosen branches were followed, else the first.

    Returns
    -------
    SurvivalRows
        A conversation is censored at the last turn before one of which nothing is known.

    Raises
    ------
    InvalidInputError
        If there are no rollouts, a seed prompt is missing, the policy is unknown, or it is the
        expectation and only chosen branches were followed.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> second = Node("Hi", "And?", None, status="error", reason="timeout")
    >>> first = Node("Hi", "Hello", "No.", event=False, children=[second])
    >>> rows = survival_rows([Graph("Hi", [first], unit_id="s1")])
    >>> rows.times.tolist(), rows.events.tolist(), rows.n_cut_short
    ([1], [False], 1)
    """
    if not graphs:
        raise InvalidInputError("`graphs` is empty; there is nothing to follow")
    selected = any(graph.selected for graph in graphs)
    chosen = policy or ("best" if selected else "expectation")
    _validate.choice(chosen, "policy", ("expectation", "best"))
    if selected and chosen == "expectation":
        raise InvalidInputError(
            "only chosen branches were followed, so path weights are no chances; use policy='best'"
        )
    known = None if seeds is None else seeds_by_id(seeds)
    name = scorer if scorer is None or isinstance(scorer, str) else scorer.name
    look: Look = partial(own_event_of if own else event_of, scorer=name)
    rows = [
        (*row, _group(graph, known))
        for graph in graphs
        for row in _rows(graph, look, best=chosen == "best")
    ]
    times, events, weights, cut, groups = zip(*rows, strict=True)
    return SurvivalRows(
        np.array(times, dtype=np.int64),
        np.array(events, dtype=np.bool_),
        list(groups),
        np.array(weights, dtype=np.float64),
        chosen,
        sum(cut),
    )


def _group(graph: Graph[Any, Any], known: Mapping[str, SeedPrompt] | None) -> str:
    if known is None:
        return graph.unit_id
    if graph.unit_id not in known:
        raise InvalidInputError(
            f"a rollout is of the unit {graph.unit_id!r}, which is not among the {len(known)} seed "
            "prompts; pass those that were rolled out"
        )
    return known[graph.unit_id].group


def _rows(graph: Graph[Any, Any], look: Look, *, best: bool) -> list[tuple[int, bool, float, bool]]:
    """Return time, event, weight and whether it was cut short, of each conversation or of one."""
    if not graph.children:
        return [(0, False, 1.0, False)]
    rows = [(*_seen(path, look), path[-1].weight) for path in graph.paths()]
    if not best:
        return [(time, event, weight, cut) for time, event, cut, weight in rows]
    failed = [time for time, event, _, _ in rows if event]
    if failed:
        return [(min(failed), True, 1.0, False)]
    # Without a failure up to a turn is what no branch that got there has failed by.
    cut = [time for time, _, short, _ in rows if short]
    return [(min(cut, default=max(time for time, *_ in rows)), False, 1.0, bool(cut))]


def _seen(path: Sequence[Turn], look: Look) -> tuple[int, bool, bool]:
    """Return the turn up to which a conversation was seen, how that ended, and if too early."""
    seen_by = 0
    for node in path:
        seen = look(node)
        if isinstance(seen, Grade):
            return seen_by, False, True
        if seen:
            return node.depth, True, False
        if seen is not None:
            seen_by = node.depth
    return seen_by, False, False
