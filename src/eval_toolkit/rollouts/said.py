"""What was said in rollouts, as a table with one row per conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Graph, Node
from eval_toolkit.runs.answers import AnswersTable

_FAILED = "failed"


class SaidTable(AnswersTable):
    """Conversations of a run; from `said_table`.

    The columns are ``id``, ``prompt``, ``turns`` (their number), ``reply``, one for each scorer,
    ``failed`` (whether the target failed; None if unknown) and ``error``. The reply is the one by
    which the target failed, else the last one, and the scores are those of that reply.
    ``attempt``, ``category`` and, with several turns, the whole ``conversation`` are added where
    there are any.

    Examples
    --------
    >>> graph = Graph("Hi", [Node("Hi", "Hello", "Go away.", scores={"rude": 1.0}, event=True)], "u")
    >>> said_table([graph]).wrong().rows()[0]["reply"]
    'Go away.'
    """

    def wrong(self) -> SaidTable:
        """Return the conversations in which the target failed."""
        failed = self.columns[_FAILED].tolist()
        return self.take([at for at, one in enumerate(failed) if one])  # type: ignore[return-value]


def said_table(graphs: Iterable[Graph[Any, Any]], prompts: Sequence[Any] = ()) -> SaidTable:
    """Return what was said in rollouts.

    There is one row per conversation, in order. In a tree, every path from the seed prompt to a
    last turn is a conversation.

    Examples
    --------
    >>> graph = Graph("Hi", [Node("Hi", "Hello", "Go away.", scores={"rude": 1.0})], "u1")
    >>> said_table([graph]).rows()[0]["reply"]
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
    return SaidTable({name: _objects(cells) for name, cells in columns.items()}, tuple(scorers))


def _ending(path: Sequence[Node[Any, Any]], scorers: Sequence[str]) -> dict[str, Any]:
    """Return the number of turns, the reply that counts, its scores and the outcome."""
    answered = [node for node in path if node.response is not None]
    failing = next((node for node in answered if node.event), None)
    told = failing or (answered[-1] if answered else None)
    known = bool(path) and all(node.event is not None for node in path)
    broken = bool(path) and path[-1].status not in ("ok", "ended")
    scores = {} if told is None else told.scores
    return {
        **{name: scores.get(name) for name in scorers},
        "turns": len(answered),
        "reply": None if told is None else str(told.response),
        _FAILED: True if failing else False if known else None,
        "error": str(redact_secrets(path[-1].reason)) if broken else None,
    }


def _seed_prompt(graph: Graph[Any, Any]) -> str:
    context = graph.context
    return context.goal if isinstance(context, Conversation) else str(context)


def _conversation(path: Sequence[Node[Any, Any]]) -> str:
    turns = ((node.probe, node.response) for node in path if node.response is not None)
    return "\n".join(f"tester: {probe}\ntarget: {reply}" for probe, reply in turns)


def _objects(cells: Sequence[Any]) -> NDArray[Any]:
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column
