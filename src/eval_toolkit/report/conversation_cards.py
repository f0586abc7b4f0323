"""One rollout as a page shows it: a conversation turn by turn, and where the target failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit._words import number
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import ENDED, Graph, Node

__all__ = ["Scoring", "conversation_card", "scores_of", "worst_path"]

_PROBE = ":probe"
_REFUSAL = "refusal"
MAX_SCORES = 5
"""Scores beside a message."""


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Which scorers a run had, and which of them says whether the target failed."""

    decides: str | None = None
    scorers: Mapping[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Scoring":
        """Return what a run's configuration says.

        Examples
        --------
        >>> Scoring.of({"scored_by": "toxicity", "scorers": {"toxicity": {"threshold": 0.1}}}).rule
        'toxicity ≥ 0.1'
        """
        name = config.get("scored_by")
        scorers = config.get("scorers")
        return cls(
            decides=None if name is None else str(name),
            scorers=scorers if isinstance(scorers, Mapping) else {},
        )

    @property
    def higher_is_worse(self) -> bool:
        """Of the scorer that decides."""
        return bool(self._told(self.decides).get("higher_is_worse", True))

    @property
    def rule(self) -> str:
        """What makes the target fail, in words; empty where nothing does."""
        if self.decides is None:
            return ""
        sign = "≥" if self.higher_is_worse else "≤"
        return f"{self.decides} {sign} {self._told(self.decides).get('threshold', '')}".strip()

    def refuses(self, scores: Mapping[str, float]) -> bool:
        """Return whether a reply counts as a refusal."""
        threshold = self._told(_REFUSAL).get("threshold", 0.5)
        return _REFUSAL in scores and scores[_REFUSAL] >= float(threshold)

    def _told(self, name: str | None) -> Mapping[str, Any]:
        told = self.scorers.get(name) if name is not None else None
        return told if isinstance(told, Mapping) else {}


def worst_path(graph: Graph[Any, Any], scoring: Scoring) -> list[Node[Any, Any]]:
    """Return the conversation to show: the earliest failure, else what came nearest to one.

    Parameters
    ----------
    graph : Graph
        A rollout; a chain has one conversation.
    scoring : Scoring
        Says which scores are bad.

    Returns
    -------
    list of Node
        From the first turn to the last; empty where nothing was said.

    Examples
    --------
    >>> turns = [Node("Hi", "a", "no", scores={"s": 0.2}), Node("Hi", "b", "yes", scores={"s": 0.9})]
    >>> graph = Graph("Hi", turns, "u")
    >>> worst_path(graph, Scoring(decides="s", scorers={"s": {}}))[0].probe
    'b'
    """
    paths = [[node for node in path if node.status != ENDED] for path in graph.paths()]
    told = [path for path in paths if path]
    if not told:
        return []
    sign = 1.0 if scoring.higher_is_worse else -1.0

    def rank(path: Sequence[Node[Any, Any]]) -> tuple[float, float, int]:
        failed = next((node.depth for node in path if node.event), None)
        scores = [
            sign * node.scores[scoring.decides] for node in path if scoring.decides in node.scores
        ]
        return (
            float("inf") if failed is None else failed,
            -max(scores, default=float("-inf")),
            -len(path),
        )

    return min(told, key=rank)


def conversation_card(graph: Graph[Any, Any], scoring: Scoring) -> dict[str, Any]:
    """Return a rollout for the template ``conversation_card.html``.

    Parameters
    ----------
    graph : Graph
        One rollout.
    scoring : Scoring
        Of the run.

    Returns
    -------
    dict
        Seed prompt, turns with their scores, how it ended, and what of the tree is not shown.
    """
    path = worst_path(graph, scoring)
    first = next((node for node in path if node.event), None)
    context = graph.context
    opens = isinstance(context, Conversation) and context.opening
    return {
        "unit": graph.unit_id,
        "attempt": graph.attempt,
        "goal": context.goal if isinstance(context, Conversation) else str(context),
        "goal_label": "Seed prompt, which begins the conversation" if opens else "Seed prompt",
        "turns": [_turn(node, scoring, node is first) for node in path],
        "failed_in": None if first is None else first.depth,
        "failures": sum(node.event is True for node in path),
        "ended": _ended(path),
        "branches": _branches(graph, path),
    }


def _turn(node: Node[Any, Any], scoring: Scoring, first: bool) -> dict[str, Any]:
    probe_scores, scores = scores_of(node, scoring)
    return {
        "number": node.depth,
        "attack": node.attack,
        "probe": None if not node.probe and node.status != "ok" else str(node.probe),
        "probe_scores": probe_scores,
        "response": None if node.response is None else str(node.response),
        "scores": scores,
        "unscored": [f"{name}: {why}" for name, why in node.unscored.items()],
        "event": node.event,
        "first": first,
        "echo": node.event is True and node.echo is True,
        "refuses": scoring.refuses(node.scores),
        "status": node.status,
        "reason": node.reason,
        "reward": None if node.reward is None else number(node.reward),
    }


def scores_of(
    node: Node[Any, Any], scoring: Scoring
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the scores to show of a probe and of the reply to it, each by the scorer's name.

    Parameters
    ----------
    node : Node
        A turn.
    scoring : Scoring
        Of the run.

    Returns
    -------
    pair of list of dict
        ``name``, ``value`` in words, and whether it ``decides``.

    Examples
    --------
    >>> node = Node("Hi", "a", "b", scores={"s": 0.2, "s:probe": 0.5, "refusal:probe": 0.0})
    >>> probe, reply = scores_of(node, Scoring(decides="s", scorers={}))
    >>> [(one["name"], one["value"]) for one in (*probe, *reply)]
    [('s', '0.500'), ('s', '0.200')]
    """
    # That a tester refuses is nothing that anybody asks for.
    of_probe = {
        name.removesuffix(_PROBE): value
        for name, value in node.scores.items()
        if name.endswith(_PROBE) and not name.startswith(_REFUSAL)
    }
    of_reply = {name: value for name, value in node.scores.items() if not name.endswith(_PROBE)}
    return _scores(of_probe, scoring), _scores(of_reply, scoring)


def _scores(scores: Mapping[str, float], scoring: Scoring) -> list[dict[str, Any]]:
    """Return scores to show: the one that decides first; of kinds of harm the worst alone."""
    names = sorted((name for name in scores if "/" not in name), key=lambda n: n != scoring.decides)
    kinds = [name for name in scores if name.startswith(f"{scoring.decides}/")]
    if len(kinds) > 1:
        names.append(max(kinds, key=scores.__getitem__))
    return [
        {"name": name, "value": number(scores[name]), "decides": name == scoring.decides}
        for name in names[:MAX_SCORES]
    ]


def _ended(path: Sequence[Node[Any, Any]]) -> dict[str, str] | None:
    """Return how a conversation ended that did not come to its end."""
    if not path:
        return {"status": "skipped", "reason": "there is no turn"}
    last = path[-1]
    return None if last.status == "ok" else {"status": last.status, "reason": last.reason}


def _branches(graph: Graph[Any, Any], path: Sequence[Node[Any, Any]]) -> str:
    """Say what of a tree is not shown."""
    leaves = [node for node in graph.leaves() if node.status != ENDED or node.parent is not None]
    if len(leaves) < 2:
        return ""
    failed = sum(any(node.event for node in leaf.path()) for leaf in leaves)
    which = (
        "where the target failed first"
        if any(node.event for node in path)
        else "nearest to a failure"
    )
    kept = "; only the branches that came nearest were gone on with" if graph.selected else ""
    return (
        f"One of {len(leaves):,} branches, {which} (node {path[-1].id if path else '–'}); it failed "
        f"on {failed:,} of them{kept}."
    )
