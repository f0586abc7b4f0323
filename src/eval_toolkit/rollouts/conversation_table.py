"""Table of the conversations in rollouts, with one row per conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eval_toolkit._internal.plain import objects
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.runs.answers import AnswersTable

_FAILED = "failed"


class ConversationTable(AnswersTable):
    """Table of conversations, as returned by `conversation_table`.

    The columns are ``id``, ``prompt``, ``turns`` (number of turns), ``reply``, one for each scorer,
    ``failed`` (whether the target failed; None if unknown) and ``error``. The reply is the one in
    which the target failed, or else the last one, and the scores are the scores of that reply.
    ``attempt``, ``category`` and ``conversation`` (all messages) are added if there are several
    attempts, categories or conversations of several turns.

    Examples
    --------
    >>> graph = Graph("Hi", [Node("Hi", "Hello", "Go away.", scores={"rude": 1.0}, event=True)], "u")
    >>> conversation_table([graph]).wrong().rows()[0]["reply"]
    'Go away.'
    """

    def wrong(self) -> ConversationTable:
        """Return the conversations in which the target failed."""
        failed = self.columns[_FAILED].tolist()
        return self.take([at for at, one in enumerate(failed) if one])  # type: ignore[return-value]


def conversation_table(
    graphs: Iterable[Graph[Any, Any]], prompts: Sequence[Any] = ()
) -> ConversationTable:
    """Convert rollouts to a table of all conversations, in order.

    In a tree, every path from the seed prompt to a last turn is a conversation.

    Examples
    --------
    >>> graph = Graph("Hi", [Node("Hi", "Hello", "Go away.", scores={"rude": 1.0})], "u1")
    >>> conversation_table([graph]).rows()[0]["reply"]
    'Go away.'
    """
    paths = [(graph, path) for graph in graphs for path in graph.paths() or [[]]]
    categories = {prompt.id: prompt.category for prompt in prompts if prompt.category}
    names = dict.fromkeys(name for _, path in paths for node in path for name in node.scores)
    # scores of probes and of categories are in the transcripts
    scorers = [name for name in names if ":" not in name and "/" not in name]
    columns: dict[str, list[Any]] = {"id": [graph.unit_id for graph, _ in paths]}
    if any(graph.attempt > 1 for graph, _ in paths):
        columns["attempt"] = [graph.attempt for graph, _ in paths]
    if categories:
        columns["category"] = [categories.get(graph.unit_id, "") for graph, _ in paths]
    columns["prompt"] = [_seed_prompt(graph) for graph, _ in paths]
    if any(len(path) > 1 for _, path in paths):
        columns["conversation"] = [_conversation(path) for _, path in paths]
    endings = [_ending(path, scorers) for _, path in paths]
    for name in ("turns", "reply", *scorers, _FAILED, "error"):
        columns[name] = [ending[name] for ending in endings]
    return ConversationTable(
        {name: objects(cells) for name, cells in columns.items()}, tuple(scorers)
    )


def _ending(path: Sequence[Node[Any, Any]], scorers: Sequence[str]) -> dict[str, Any]:
    """Return a conversation's number of turns, decisive reply, scores and outcome."""
    answered = [node for node in path if node.response is not None]
    failing = next((node for node in answered if node.event), None)
    decisive = failing or (answered[-1] if answered else None)
    known = bool(path) and all(node.event is not None for node in path)
    broken = bool(path) and path[-1].status not in ("ok", "ended")
    scores = {} if decisive is None else decisive.scores
    return {
        **{name: scores.get(name) for name in scorers},
        "turns": len(answered),
        "reply": None if decisive is None else str(decisive.response),
        _FAILED: True if failing else False if known else None,
        "error": str(redact_secrets(path[-1].reason)) if broken else None,
    }


def _seed_prompt(graph: Graph[Any, Any]) -> str:
    context = graph.context
    return context.goal if isinstance(context, Conversation) else str(context)


def _conversation(path: Sequence[Node[Any, Any]]) -> str:
    turns = ((node.probe, node.response) for node in path if node.response is not None)
    return "\n".join(f"tester: {probe}\ntarget: {reply}" for probe, reply in turns)
