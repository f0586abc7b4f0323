"""Time to the first failure of each conversation, possibly censored."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.graders.base import Grade
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.inference.survival import SurvivalCurve, kaplan_meier
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.measuring import POLICIES, seeds_by_id
from eval_toolkit.rollouts.measures.paths import (
    Look,
    Turn,
    conversations,
    event_of,
    own_event_of,
    stopped,
)
from eval_toolkit.rollouts.seeds import SeedPrompt


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalRows:
    """Survival data of conversations, one row each, for `inference.kaplan_meier`.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> chain = Graph("Hi", [Node("Hi", "Hello", "Grr.", event=True)], unit_id="s1")
    >>> survival_rows([chain]).times.tolist()
    [1]
    """

    times: IntArray
    """Turn of the first failure, or last turn known not to be a failure; 0 if there is none."""
    events: BoolArray
    groups: list[str]
    weights: FloatArray
    """Path weights, scaled so that all observed seed prompts have equal totals."""
    rollouts: IntArray
    """Index of the rollout to which each row belongs."""
    cut: NDArray[np.str_]
    """Why a conversation was cut short, or "" if it was not.

    It is "error" if a turn ended in an error, and "skipped" if a turn exceeded the budget or was
    not scored.
    """
    policy: str
    depth: int
    """Number of planned turns; a conversation that ends by itself counts as not failed by then."""
    blind: int
    """Last turn that was not observed because the scorer only scores the end of conversations."""

    @property
    def n_cut_short(self) -> int:
        """Number of conversations that were cut short."""
        return int((self.cut != "").sum())

    def groups_of(self, only: BoolArray) -> list[str]:
        """Return the groups of the selected rows."""
        return [group for group, here in zip(self.groups, only.tolist(), strict=True) if here]

    def curve(
        self,
        confidence: float = DEFAULT_CONFIDENCE,
        *,
        only: BoolArray | None = None,
        grouped: bool = False,
    ) -> SurvivalCurve:
        """Return the Kaplan–Meier curve of the rows, or of a subset.

        With ``grouped``, rows are treated as grouped even if every group has only one row.
        """
        here = np.ones(len(self.times), dtype=np.bool_) if only is None else only
        groups, weights = self.groups_of(here), self.weights[here]
        seen = weights[self.times[here] > 0]
        return kaplan_meier(
            self.times[here],
            self.events[here],
            groups=groups if grouped or len(set(groups)) < len(groups) else None,
            weights=None if np.allclose(seen, 1.0) else weights,
            confidence=confidence,
        )

    def part_failed_by(self, turn: int, part: BoolArray, *, only: BoolArray) -> float:
        """Return the cumulative incidence of a failure type by a turn.

        ``part`` is a mask of the rows with failures of that type. The Aalen–Johansen estimate
        weights each failure by the survival probability just before it, so the estimates of all
        types add up to the failure rate of the curve.
        """
        share, left = 0.0, 1.0
        for now in range(1, turn + 1):
            at_risk = float(self.weights[only & (self.times >= now)].sum())
            failing = only & self.events & (self.times == now)
            if at_risk > 0.0:
                share += left * float(self.weights[failing & part].sum()) / at_risk
                left *= 1.0 - float(self.weights[failing].sum()) / at_risk
        return share


def survival_rows(
    graphs: Sequence[Graph[Any, Any]],
    seeds: Mapping[str, SeedPrompt] | Sequence[SeedPrompt] | None = None,
    *,
    scorer: TextScorer | str | None = None,
    own: bool = False,
    policy: str | None = None,
    depth: int | None = None,
) -> SurvivalRows:
    """Return the failure or censoring time of each conversation.

    Parameters
    ----------
    graphs : sequence of Graph
        Scored rollouts.
    seeds : mapping of id to SeedPrompt, or sequence of SeedPrompt, optional
        Seed prompts, whose topics define the groups; without them, each unit is a group.
    scorer : TextScorer or str, optional
        Scorer that defines failures, or its name.
    own : bool, default False
        Whether to exclude replies that merely repeat the tester from failures.
    policy : {"expectation", "first", "best", "all leaves"}, optional
        As in `measure_rollouts`. Under "best", there is one row per rollout, with the earliest
        failure on any branch; otherwise, one per conversation. By default, "best" if only selected
        branches were continued, else "expectation".
    depth : int, optional
        Number of planned turns; by default, the length of the longest conversation.

    Returns
    -------
    SurvivalRows
        A conversation that ended in an error is censored at the last turn with a known outcome;
        under "best", so is a rollout in which one branch ended in an error before another failed. A
        conversation that ended by itself counts as not failed by the last planned turn. Every seed
        prompt has equal weight, regardless of how many of its rollouts were observed.

    Raises
    ------
    InvalidInputError
        If there are no rollouts, a seed prompt is missing, the policy is unknown, or it is not
        "best" although only selected branches were continued.
    UndefinedMetricError
        If ``own`` is True and it is unknown whether some failures are echoes, since omitting only
        these would bias the estimate.

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
        raise InvalidInputError("`graphs` is empty; it must contain at least one rollout")
    chosen = policy or common_policy(graphs)
    validation.choice(chosen, "policy", POLICIES)
    if chosen != "best" and any(graph.selected for graph in graphs):
        raise InvalidInputError(
            "only selected branches were continued, so path weights are not probabilities; use "
            "policy='best'"
        )
    known = None if seeds is None else seeds_by_id(seeds)
    groups = [_group(graph, known) for graph in graphs]
    name = scorer if scorer is None or isinstance(scorer, str) else scorer.name
    if own:
        nodes = (node for graph in graphs for node in graph.nodes())
        if unclear := sum(node.event is True and node.echo is None for node in nodes):
            raise UndefinedMetricError(
                f"it is unknown whether {unclear} of the failures merely repeat the tester"
            )
    look: Look = partial(own_event_of if own else event_of, scorer=name)
    planned = deepest(graphs) if depth is None else validation.integer(depth, "depth", low=1)
    return followed(graphs, groups, look, chosen, planned)


def common_policy(*sides: Sequence[Graph[Any, Any]]) -> str:
    """Return a policy that suits all rollouts: "best" if only selected branches were continued.

    Raises an error if one side continued only selected branches and the other continued all.

    Examples
    --------
    >>> common_policy([Graph("Hi", [])])
    'expectation'
    """
    chosen = [any(graph.selected for graph in side) for side in sides]
    if not any(chosen):
        return "expectation"
    for side, selected in zip(sides, chosen, strict=True):
        if not selected and not all(graph.is_chain for graph in side):
            raise InvalidInputError(
                "one side continued only selected branches, the other continued all of them; pass "
                "policy='best' to compare whether any branch failed"
            )
    return "best"


def deepest(graphs: Sequence[Graph[Any, Any]]) -> int:
    """Return the length of the longest conversation in turns, at least 1.

    Examples
    --------
    >>> deepest([Graph("Hi", [])])
    1
    """
    return max((node.depth for graph in graphs for node in graph.nodes()), default=1)


def followed(
    graphs: Sequence[Graph[Any, Any]], groups: Sequence[str], look: Look, policy: str, depth: int
) -> SurvivalRows:
    """Compute the survival rows of rollouts, given a function that observes turns.

    ``look`` returns whether the target failed in a turn; the other parameters are as in
    `survival_rows`.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> followed([Graph("", [Node("", "", "No.", event=False)])], [""], event_of, "best", 3).times
    array([3])
    """
    rows = [
        (at, row) for at, graph in enumerate(graphs) for row in _rows(graph, look, policy, depth)
    ]
    times = np.array([row.time for _, row in rows], dtype=np.int64)
    rollouts = np.array([at for at, _ in rows], dtype=np.int64)
    return SurvivalRows(
        times=times,
        events=np.array([row.event for _, row in rows], dtype=np.bool_),
        groups=[groups[at] for at, _ in rows],
        weights=_weights(graphs, rollouts, times, np.array([row.weight for _, row in rows])),
        rollouts=rollouts,
        cut=np.array([row.cut for _, row in rows], dtype=np.str_),
        policy=policy,
        depth=depth,
        blind=max(row.blind for _, row in rows),
    )


def _weights(
    graphs: Sequence[Graph[Any, Any]], rollouts: IntArray, times: IntArray, by_path: FloatArray
) -> FloatArray:
    """Return weights with equal totals for all seed prompts, averaging 1 per rollout."""
    units = np.unique([graph.unit_id for graph in graphs], return_inverse=True)[1][rollouts]
    seen = times > 0
    if not seen.any():
        return by_path
    of_unit = np.bincount(units[seen], by_path[seen], int(units.max()) + 1)
    each = len(np.unique(rollouts[seen])) / len(np.unique(units[seen]))
    shares = np.divide(each, of_unit, out=np.ones_like(of_unit), where=of_unit > 0.0)
    return np.asarray(by_path * shares[units], dtype=np.float64)


def _group(graph: Graph[Any, Any], known: Mapping[str, SeedPrompt] | None) -> str:
    if known is None:
        return graph.unit_id
    if graph.unit_id not in known:
        raise InvalidInputError(
            f"a rollout has the unit {graph.unit_id!r}, which is not among the {len(known)} seed "
            "prompts; pass the seed prompts of all rollouts"
        )
    return known[graph.unit_id].group


class _Row(NamedTuple):
    time: int
    event: bool = False
    cut: str = ""
    blind: int = 0
    weight: float = 1.0


def _rows(graph: Graph[Any, Any], look: Look, policy: str, depth: int) -> list[_Row]:
    """Return one row per conversation, or under "best" one row per rollout."""
    counting = conversations(graph, policy)
    if not counting:
        return [_Row(0)]
    whole = math.fsum(weight for _, weight in counting)
    rows = [_seen(path, look, depth)._replace(weight=share / whole) for path, share in counting]
    if policy != "best":
        return rows
    blind = max(row.blind for row in rows)
    failed = min((row.time for row in rows if row.event), default=None)
    # From the turn of the first failure on, the other branches do not matter.
    cut = [row for row in rows if row.cut and (failed is None or row.time + 1 < failed)]
    if cut:
        first = min(cut, key=lambda row: (row.time, row.cut != "error"))
        return [_Row(first.time, cut=first.cut, blind=blind)]
    if failed is not None:
        return [_Row(failed, event=True, blind=blind)]
    return [_Row(max(row.time for row in rows), blind=blind)]


def _seen(path: Sequence[Turn], look: Look, depth: int) -> _Row:
    """Return the last observed turn of a conversation, and its outcome."""
    seen_by = blind = 0
    for node in path:
        seen = look(node)
        if isinstance(seen, Grade):
            return _Row(seen_by, cut=seen.status, blind=blind)
        if seen:
            # Without an earlier observation, only failure by the end is known, not its turn.
            return _Row(max(depth, node.depth) if blind else node.depth, event=True, blind=blind)
        if seen is None:
            blind = node.depth
        else:
            seen_by = node.depth
    if blind == len(path) or stopped(path, depth):  # unobserved end, or stopped early
        return _Row(seen_by, cut="skipped", blind=blind)
    return _Row(max(depth, len(path)), blind=blind)
