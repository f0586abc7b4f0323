"""Scoring of turns, recording reasons for missing scores."""

from collections.abc import Sequence
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Node
from eval_toolkit.rollouts.scorers.base import (
    categories_of,
    check_scorers,
    is_event,
    mode_of,
    takes_turns,
)
from eval_toolkit.rollouts.scorers.checking import (
    Scored,
    checked_categories,
    checked_scores,
    checked_turns,
)
from eval_toolkit.rollouts.scorers.echoes import mark_echoes

_NO_REPLY = "skipped: no reply"
_EMPTY = "skipped: empty reply"


def score_nodes(
    nodes: Sequence[Node[Any, Any]],
    scorers: Sequence[TextScorer],
    *,
    conversations: Sequence[Any] | None = None,
    keys: Sequence[tuple[str, int, str]] | None = None,
    final: bool = False,
    decides: bool = True,
) -> None:
    """Score turns, setting their ``scores``, ``unscored``, ``event`` and ``echo``.

    Each scorer is called once for all turns, and receives each distinct text once. Existing scores
    are not recomputed; failures are retried.

    Parameters
    ----------
    nodes : sequence of Node
        Turns to score. The columns are ``name`` (of the response, or of all responses up to and
        including it for the modes "cumulative" and "final"), ``name:probe`` and ``name/category``.
    scorers : sequence of TextScorer
        Scorers of the turns. The threshold of the first defines ``event``, which is None for turns
        without a reply or score, and False for empty replies.
    conversations : sequence, optional
        Conversation up to each turn, for scorers that judge answers; by default, the turn's
        context, probe and response.
    keys : sequence of (str, int, str), optional
        Unit id, attempt and position of each turn, under which a judge's verdicts are stored.
    final : bool, default False
        Whether the conversations have ended; if so, scorers with mode "final" score the last turns.
    decides : bool, default True
        Whether the first scorer defines failures; otherwise, ``event`` and ``echo`` remain None.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the lists have different lengths, two scorers have the same name, or a scorer does not
        return one number per text.
    MissingExtraError, ArtifactError, ModelError
        If a scorer is not available.

    Examples
    --------
    >>> from eval_toolkit.rollouts.scorers import KeywordScorer
    >>> node = Node(Conversation("Insult me"), "Insult me, fool.", "You idiot.")
    >>> score_nodes([node], [KeywordScorer(["idiot", "fool"])])
    >>> node.scores, node.event, node.echo
    ({'keywords': 1.0, 'keywords:probe': 1.0}, True, False)
    """
    check_scorers(scorers)
    for name, given in (("conversations", conversations), ("keys", keys)):
        if given is not None and len(given) != len(nodes):
            raise InvalidInputError(f"`{name}` has {len(given)} entries for {len(nodes)} nodes")
    for scorer in scorers:
        _Scoring(scorer, nodes, conversations, keys, final).fill()
    if scorers and decides:
        _decide(nodes, scorers[0])


class _Scoring:
    """Scoring of turns with a single scorer."""

    def __init__(
        self,
        scorer: TextScorer,
        nodes: Sequence[Node[Any, Any]],
        conversations: Sequence[Any] | None,
        keys: Sequence[tuple[str, int, str]] | None,
        final: bool,
    ) -> None:
        self.scorer = scorer
        self.name = scorer.name
        self.mode = mode_of(scorer)
        self.nodes = nodes
        self.conversations = conversations
        self.keys = keys
        self.final = final

    def fill(self) -> None:
        """Score all turns that can be scored and record the reasons for the others."""
        places = self._open()
        turns = takes_turns(self.scorer)
        if self.mode == "turn":
            self._ask_probes_and_responses(places, turns=turns)
        elif not turns:
            self._put(self.name, places, self._scores([_replies(self.nodes[at]) for at in places]))
        if turns:
            self._ask_turns(places)
        if categories_of(self.scorer):
            self._ask_categories()

    def _open(self) -> list[int]:
        """Return the positions of turns to score, recording why other turns cannot be scored."""
        found = []
        for at, node in enumerate(self.nodes):
            if self.mode == "final" and not (self.final and node.is_leaf):
                continue
            if self.name in node.scores:
                continue
            if reason := _why_not(node, self.mode):
                node.unscored[self.name] = reason
            else:
                found.append(at)
        return found

    def _told(self, at: int) -> Any:
        return _told(self.nodes[at]) if self.conversations is None else self.conversations[at]

    def _ask_probes_and_responses(self, places: list[int], *, turns: bool) -> None:
        column = f"{self.name}:probe"
        probed = []
        for at, node in enumerate(self.nodes):
            if column in node.scores:
                continue
            if reason := _why_no_probe(node, turns=turns):
                node.unscored[column] = reason
            else:
                probed.append(at)
        if turns:
            return
        texts = [str(self.nodes[at].response) for at in places]
        texts += [str(self.nodes[at].probe) for at in probed]
        scores = self._scores(texts)
        self._put(self.name, places, scores[: len(places)])
        self._put(column, probed, scores[len(places) :])

    def _ask_turns(self, places: list[int]) -> None:
        conversations = [self._told(at) for at in places]
        keys = None if self.keys is None else [self.keys[at] for at in places]
        self._put(self.name, places, checked_turns(self.scorer, conversations, keys))

    def _ask_categories(self) -> None:
        names = categories_of(self.scorer)
        columns = {name: f"{self.name}/{name}" for name in names}
        places = [
            at
            for at, node in enumerate(self.nodes)
            if self.name in node.scores and any(c not in node.scores for c in columns.values())
        ]
        turn = self.mode == "turn"
        texts = [
            str(self.nodes[at].response) if turn else _replies(self.nodes[at]) for at in places
        ]
        distinct = list(dict.fromkeys(texts))
        found = checked_categories(self.scorer, distinct) if distinct else {}
        for name, scores in found.items():
            score_of = dict(zip(distinct, scores, strict=True))
            self._put(columns[name], places, [score_of[text] for text in texts])

    def _scores(self, texts: Sequence[str]) -> list[Scored]:
        distinct = list(dict.fromkeys(texts))
        score_of = dict(zip(distinct, checked_scores(self.scorer, distinct), strict=True))
        return [score_of[text] for text in texts]

    def _put(self, column: str, places: Sequence[int], scores: Sequence[Scored]) -> None:
        for at, score in zip(places, scores, strict=True):
            node = self.nodes[at]
            if isinstance(score, str):
                node.unscored[column] = score
            else:
                node.scores[column] = score
                node.unscored.pop(column, None)


def _why_not(node: Node[Any, Any], mode: str) -> str:
    """Return why the response of a turn cannot be scored, or "" if it can."""
    if node.status != "ok":
        return f"skipped: the turn has the status {node.status!r}"
    if node.response is None:
        return _NO_REPLY
    text = str(node.response) if mode == "turn" else _replies(node)
    return "" if text.strip() else _EMPTY


def _why_no_probe(node: Node[Any, Any], *, turns: bool) -> str:
    if turns:
        return "skipped: the scorer judges answers"
    if node.status != "ok":
        return f"skipped: the turn has the status {node.status!r}"
    if node.probe is None or not str(node.probe).strip():
        return "skipped: empty probe"
    return ""


def _told(node: Node[Any, Any]) -> Any:
    """Return the conversation up to and including a turn."""
    state = node.context
    if isinstance(state, Conversation):
        return state.with_probe(str(node.probe)).with_response(str(node.response))
    return f"{state}{node.probe}{node.response}"


def _replies(node: Node[Any, Any]) -> str:
    """Return all replies of the target up to and including a turn."""
    replies = (str(one.response) for one in node.path() if one.response is not None)
    return "\n\n".join(text for text in replies if text.strip())


def _decide(nodes: Sequence[Node[Any, Any]], scorer: TextScorer) -> None:
    """Set the events of turns based on the scorer's threshold, and mark echoes."""
    for node in nodes:
        score = node.scores.get(scorer.name)
        if score is not None:
            node.event = is_event(scorer, score)
        elif node.unscored.get(scorer.name) == _EMPTY:
            node.event = False
    if mode_of(scorer) == "turn":  # with several replies, it is unknown which one repeats
        mark_echoes(nodes, scorer)
