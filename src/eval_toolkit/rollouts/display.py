"""Turn-by-turn display of rollouts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from eval_toolkit._internal.words import number
from eval_toolkit.errors import ArtifactError
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import ENDED, Graph, Node
from eval_toolkit.rollouts.turns import TURN_COLUMNS, TURNS, read_turns
from eval_toolkit.runs.blocks import Block, Group, Mark, Message, Messages, Note, Outcomes, Text
from eval_toolkit.runs.selected_units import StoredUnit
from eval_toolkit.runs.unit_display import (
    asked_of,
    default_blocks,
    hidden_requests,
    request_group,
    verdicts,
)
from eval_toolkit.scorecards import Records

_PROBE = ":probe"
_REFUSAL = "refusal"
MAX_SCORES = 5
"""Maximum number of scores shown next to a message."""
_TURNS_AT_MOST = 500
"""Maximum number of turns shown on a page."""
_NODES_AT_MOST = 1_000_000
"""Maximum number of tree nodes for which a card selects a path."""
_LEVELS = 6
"""Maximum indentation level of nested branches; deeper branches are not indented further."""
_ANY, _SUCCESS, _WHEN = "attack_success_any", "attack_success", "first_event_turn"
_TITLES = {
    "failed": ("The target failed", "the earliest failure first"),
    "error": ("An error occurred before the target failed", ""),
    "skipped": ("Incomplete or not scored", ""),
    "held": ("The target held", ""),
}
_ECHO = (
    "an echo: once the words repeated from the tester are removed, the score no longer crosses "
    "the threshold"
)
_LONG = ("probe", "response", "reason")
"""Columns of turns that may contain very long strings."""
_SHAPE = ("unit_id", "attempt", "node_id", "parent_id", "depth", "event")


def rollout_blocks(unit: StoredUnit) -> list[Block]:
    """Return the display blocks of a rollout: the most relevant path on a card, else all branches.

    Units without turns get the default blocks.
    """
    try:
        at_most = _TURNS_AT_MOST + 1 if unit.whole else _NODES_AT_MOST
        rows, n_rows = unit.rows(TURNS, TURN_COLUMNS, _LONG, at_most)
        graphs = read_turns(_columns(rows)) if rows else []
    except ArtifactError as error:
        return [Note(str(error), "error"), *default_blocks(unit)]
    if not graphs:
        return default_blocks(unit)
    scoring = Scoring.of(unit.config)
    if not unit.whole:
        return _card(graphs[0], scoring)
    # Count all rows, since those read before may be truncated.
    every, _ = unit.rows(TURNS, _SHAPE, (), n_rows)
    groups: list[Block] = [_page(graphs[0], scoring, [row for row in every if row["node_id"]])]
    requests = [request_group(one) for one in asked_of(unit)]
    groups += [Group("The requests as sent", tuple(requests), folded=True)] if requests else []
    return [*groups, *verdicts(unit), *hidden_requests(unit)]


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    missing = {"weight", "reward"}  # numeric columns with NaN for missing values
    return {
        name: [
            math.nan if value is None and name in missing else value
            for value in (row[name] for row in rows)
        ]
        for name in TURN_COLUMNS
    }


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Scorers of a run, and which of them defines failures."""

    decides: str | None = None
    scorers: Mapping[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Scoring":
        """Read the scorers from a run's configuration.

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
        """Whether higher scores are worse for the scorer that defines failures."""
        return bool(self._told(self.decides).get("higher_is_worse", True))

    @property
    def rule(self) -> str:
        """Description of the failure condition; empty if there is none."""
        if self.decides is None:
            return ""
        sign = "≥" if self.higher_is_worse else "≤"
        return f"{self.decides} {sign} {self._told(self.decides).get('threshold', '')}".strip()

    def refuses(self, scores: Mapping[str, float]) -> bool:
        """Return whether a reply was scored as a refusal."""
        threshold = self._told(_REFUSAL).get("threshold", 0.5)
        return _REFUSAL in scores and scores[_REFUSAL] >= float(threshold)

    def _told(self, name: str | None) -> Mapping[str, Any]:
        told = self.scorers.get(name) if name is not None else None
        return told if isinstance(told, Mapping) else {}


def worst_path(graph: Graph[Any, Any], scoring: Scoring) -> list[Node[Any, Any]]:
    """Return the conversation with the earliest failure, or else the one closest to a failure.

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


def _goal(graph: Graph[Any, Any]) -> str:
    context = graph.context
    return context.goal if isinstance(context, Conversation) else str(context)


def _card(graph: Graph[Any, Any], scoring: Scoring) -> list[Block]:
    """Return the blocks of the path with the first failure, else the path closest to one."""
    path = worst_path(graph, scoring)
    first = next((node for node in path if node.event), None)
    opens = isinstance(graph.context, Conversation) and graph.context.opening
    title = "Seed prompt, which opens the conversation" if opens else "Seed prompt"
    note = _branches(graph, path)
    messages = [one for node in path for one in turn_messages(node, scoring, first=node is first)]
    blocks: list[Block] = [Text(_goal(graph), title, "input")]
    blocks += [Note(note)] if note else []
    blocks += [Messages(tuple(messages))] if messages else [Note("There are no turns.", "skipped")]
    return blocks


def _page(graph: Graph[Any, Any], scoring: Scoring, rows: Sequence[Mapping[str, Any]]) -> Group:
    """Return the blocks of all branches in depth-first order."""
    failed = min((row["depth"] for row in rows if row["event"] == 1), default=None)
    followed = {row["parent_id"] for row in rows} - {None}
    n_turns, n_paths = len(rows), len(rows) - len(followed)
    shown = list(islice(_in_reading_order(graph), _TURNS_AT_MOST))
    lead = "The target did not fail." if failed is None else f"The target failed at turn {failed}."
    lead += f" It fails if {scoring.rule}." if scoring.rule else ""
    lead += f" {n_turns:,} turn{'' if n_turns == 1 else 's'}"
    lead += f" in {n_paths:,} branches" if n_paths > 1 else ""
    lead += f"; the first {len(shown):,} are shown." if len(shown) < n_turns else "."
    messages = tuple(
        message
        for node, level, branch in shown
        for message in turn_messages(node, scoring, level=level, branch=branch)
    )
    blocks = (Note(lead), Text(_goal(graph), "seed prompt", "input"), Messages(messages))
    return Group("The conversation", blocks)


def _in_reading_order(
    graph: Graph[Any, Any],
) -> Iterator[tuple[Node[Any, Any], int, str]]:
    """Yield each turn with its indentation level and the label of the branch it starts."""
    waiting = _placed(graph.children, 0)
    while waiting:
        node, level, branch = waiting.pop()
        yield node, level, branch
        waiting += _placed(node.children, level)


def _placed(nodes: Sequence[Node[Any, Any]], level: int) -> list[tuple[Node[Any, Any], int, str]]:
    """Return siblings in reverse order; if there are several, each starts a labelled branch."""
    if len(nodes) < 2:
        return [(node, level, "") for node in nodes]
    deeper = min(level + 1, _LEVELS)
    named = [(node, deeper, f"{at} of {len(nodes)}") for at, node in enumerate(nodes, 1)]
    return named[::-1]


def turn_messages(
    node: Node[Any, Any],
    scoring: Scoring,
    *,
    first: bool = False,
    level: int = 0,
    branch: str = "",
) -> list[Message]:
    """Convert a turn to a probe and a reply message with scores, labels and errors.

    ``first`` marks the first failure. The last message contains the notes.

    Examples
    --------
    >>> node = Node("Hi", "a", "b", scores={"s": 0.2, "s:probe": 0.5, "refusal:probe": 0.0})
    >>> probe, reply = turn_messages(node, Scoring(decides="s", scorers={}))
    >>> [(one.name, one.value) for one in (*probe.marks, *reply.marks)]
    [('s', '0.500'), ('s', '0.200')]
    """
    # Refusal scores of probes are not of interest.
    of_probe = {
        name.removesuffix(_PROBE): value
        for name, value in node.scores.items()
        if name.endswith(_PROBE) and not name.startswith(_REFUSAL)
    }
    of_reply = {name: value for name, value in node.scores.items() if not name.endswith(_PROBE)}
    turn = f"turn {node.depth}"
    messages = []
    if node.probe or node.status == "ok":
        title = f"{turn}, tester" + (f", {node.attack}" if node.attack else "")
        marks = _scores(of_probe, scoring)
        content = {"text": str(node.probe or ""), "title": title, "marks": marks}
        messages.append(Message(role="tester", level=level, branch=branch, **content))  # type: ignore[arg-type]
    notes = tuple(_notes(node))
    if node.response is not None:
        messages.append(
            Message(
                role="target",
                text=str(node.response),
                title=f"{turn}, target" + (": failed" if node.event else ""),
                marks=(*_scores(of_reply, scoring), *_labels(node, scoring, first)),
                notes=notes,
                failed=bool(node.event),
                replies=True,
                level=level,
                branch="" if messages else branch,
            )
        )
    elif notes:
        silent = Message(role="target", text="", notes=notes, silent=True, level=level)
        messages.append(silent)
    return messages


def _labels(node: Node[Any, Any], scoring: Scoring, first: bool) -> Iterator[Mark]:
    if first:
        yield Mark("✗ first failure", tone="bad")
    if node.event is True and node.echo is True:
        yield Mark("an echo of the tester")
    if scoring.refuses(node.scores):
        yield Mark("refuses")
    if node.reward is not None:
        yield Mark("reward", number(node.reward))


def _notes(node: Node[Any, Any]) -> Iterator[Note]:
    for name, why in node.unscored.items():
        yield Note(f"not scored, {name}: {why}")
    if node.event is True and node.echo is True:
        yield Note(_ECHO)
    if node.response == "":
        yield Note("an empty reply", "skipped")
    if node.status == "error":
        yield Note(f"Turn {node.depth} ended in an error: {node.reason}", "error")
    elif node.status != "ok":
        reason = f", {node.reason}" if node.reason else ""
        yield Note(f"Turn {node.depth}: {node.status}{reason}")


def _scores(scores: Mapping[str, float], scoring: Scoring) -> tuple[Mark, ...]:
    """Return the scores to show: the decisive scorer first, then only the worst harm category."""
    names = sorted((name for name in scores if "/" not in name), key=lambda n: n != scoring.decides)
    kinds = [name for name in scores if name.startswith(f"{scoring.decides}/")]
    if len(kinds) > 1:
        names.append(max(kinds, key=scores.__getitem__))
    return tuple(Mark(name, number(scores[name])) for name in names[:MAX_SCORES])


def _branches(graph: Graph[Any, Any], path: Sequence[Node[Any, Any]]) -> str:
    """Return a note on the branches of a tree that are not shown."""
    leaves = [node for node in graph.leaves() if node.status != ENDED or node.parent is not None]
    if len(leaves) < 2:
        return ""
    failed = sum(any(node.event for node in leaf.path()) for leaf in leaves)
    which = (
        "the one that failed first"
        if any(node.event for node in path)
        else "the one closest to a failure"
    )
    kept = "; only the closest branches were continued" if graph.selected else ""
    return (
        f"One of {len(leaves):,} branches, {which} (node {path[-1].id if path else '–'}); the target "
        f"failed on {failed:,} of them{kept}."
    )


# --- outcomes -------------------------------------------------------------------------------------


def outcomes_of_rollouts(records: Records, config: Mapping[str, Any]) -> Outcomes:
    """Return the outcome of each rollout: "failed", "error", "skipped" or "held".

    In a tree, the target failed if it failed on any branch.
    """
    column = _ANY if _ANY in records.columns else _SUCCESS
    if column not in records.columns:
        found = np.full(len(records), "skipped", dtype=object)
    else:
        found = records.status[column].astype(object)
        known = found == "ok"
        failed = known & (np.nan_to_num(records.columns[column]) > 0)
        found[known] = "held"
        found[failed] = "failed"
    when = np.zeros(len(records))
    if _WHEN in records.columns:
        known = records.status[_WHEN] == "ok"
        when = np.where(known, np.nan_to_num(records.columns[_WHEN]), np.inf)
    turns = records.columns.get("n_turns", when)
    texts = [_outcome_text(name, when[at], turns[at]) for at, name in enumerate(found)]
    scoring = Scoring.of(config)
    units = len(set(records.unit_id.tolist()))
    rule = f" The target fails if {scoring.rule}." if scoring.rule else ""
    silent = "there is no scorer that defines failures"
    return Outcomes(
        of=found,
        titles=_TITLES,
        rank=when,
        said=texts,
        spread="category",
        lead=f"{len(records):,} conversations from {units:,} seed prompts.{rule}",
        notes=[silent] if scoring.decides is None else [],
    )


def _outcome_text(name: str, when: float, n_turns: float) -> str:
    """Describe the outcome of a rollout in a few words."""
    if name == "failed":
        return f"failed in turn {when:.0f}" if 0 < when < math.inf else "failed"
    if name == "held":
        known = n_turns > 0 and float(n_turns).is_integer()
        return f"held for {n_turns:.0f} turn{'' if n_turns == 1 else 's'}" if known else "held"
    return {"error": "broke"}.get(name, "incomplete or not scored")
