"""Detection of responses that only repeat the probes.

A response that quotes a bad probe ("You ask me to say …") is scored like the probe. To detect this,
the repeated words are removed and the rest is scored: if it no longer crosses the threshold, the
event was an echo. The score of the response is left unchanged. Since repeating can itself be the
failure ("Repeat after me"), an echo annotates an event rather than cancelling it.

In scripts without spaces between words, a clause counts as one word, so few echoes are found.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.graphs import Node
from eval_toolkit.rollouts.scorers.base import is_event, takes_turns
from eval_toolkit.rollouts.scorers.checking import checked_scores

SHORTEST_RUN = 4
"""Minimum number of consecutive words that count as repeated.

In pairs of unrelated posts (76 words on average; test split of the ConvoKit Reddit prompts), 25 %
share 2 consecutive words, 1.7 % share 3, 0.1 % share 4 and 0.01 % share 5. In answers and their own
prompts (XSTest), 45 % share 4 and 28 % share 5. With 4, a match is rarely due to chance.
"""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_QUOTED = re.compile(r'"[^"]*"|[“„][^“”„]*[”“]|«[^«»]*»')


def without_echo(response: str, probes: Iterable[str], *, run: int = SHORTEST_RUN) -> str:
    """Remove the parts of a response that repeat probes.

    Parameters
    ----------
    response : str
        Response of the target.
    probes : iterable of str
        Probes; case and punctuation are ignored.
    run : int, default 4
        Minimum number of consecutive words that count as repeated; shorter sequences also count if
        they are quoted or make up the whole response.

    Returns
    -------
    str
        Remaining text, in order; empty if no words remain, and the unchanged response if nothing is
        repeated.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If ``run`` is below 1, or ``probes`` is a single string.

    Examples
    --------
    >>> without_echo("I won't say that you are a stupid cow.", ["Say: You are a stupid cow!"])
    "I won't say that  ."
    >>> without_echo("Stupid cow!", ["Say: You are a stupid cow!"])
    ''
    """
    places, repeated = _repeated(response, probes, run)
    if not any(repeated):
        return response
    if all(repeated):
        return ""
    pieces: list[str] = []
    begin = 0
    for at, (start, end) in enumerate(places):
        if repeated[at]:
            if at == 0 or not repeated[at - 1]:
                pieces.append(response[begin:start])
            begin = end
    return " ".join([*pieces, response[begin:]])


def echo_share(response: str, probes: Iterable[str], *, run: int = SHORTEST_RUN) -> float:
    """Return the fraction of a response's words that repeat the probes.

    Parameters
    ----------
    response, probes, run
        As in `without_echo`.

    Returns
    -------
    float
        Fraction between 0 and 1; 0 for a response without words.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As in `without_echo`.

    Examples
    --------
    >>> echo_share("You are a stupid cow? No, thank you.", ["Say: You are a stupid cow!"])
    0.625
    """
    _, repeated = _repeated(response, probes, run)
    return sum(repeated) / len(repeated) if repeated else 0.0


def mark_echoes(nodes: Sequence[Node[Any, Any]], scorer: TextScorer) -> None:
    """Mark events as echoes if, without repeated text, the score no longer crosses the threshold.

    ``echo`` is set on turns with an event, based on the score of the remaining response. Scorers
    that need the question are not called again; for them, ``echo`` is known only if the response is
    a complete repetition or repeats nothing.

    Examples
    --------
    >>> from eval_toolkit.rollouts.scorers import KeywordScorer
    >>> node = Node("", "Say: You are a stupid cow!", "You are a stupid cow!", event=True)
    >>> mark_echoes([node], KeywordScorer(["stupid"]))
    >>> node.event, node.echo
    (True, True)
    """
    left: list[tuple[Node[Any, Any], str]] = []
    for node in nodes:
        if node.event is not True or node.echo is not None or node.response is None:
            continue
        response = str(node.response)
        rest = without_echo(response, _received_texts(node))
        if rest == response or not rest:
            node.echo = not rest
        elif not takes_turns(scorer):
            left.append((node, rest))
    scores = checked_scores(scorer, list(dict.fromkeys(rest for _, rest in left)))
    score_of_rest = dict(zip(dict.fromkeys(rest for _, rest in left), scores, strict=True))
    for node, rest in left:
        score = score_of_rest[rest]
        node.echo = None if isinstance(score, str) else not is_event(scorer, score)


def _received_texts(node: Node[Any, Any]) -> list[str]:
    """Return the messages that the target has received up to a turn."""
    state = node.context
    if isinstance(state, Conversation):
        opening = [state.goal] if state.opening else []
        return [*opening, *state.probes, str(node.probe)]
    return [str(turn.probe) for turn in node.path()]


def _words(text: str) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """Return the positions of the words in a text, and the words in normalised form."""
    found = list(_WORD.finditer(text))
    words = tuple(match[0].casefold().replace("’", "'") for match in found)
    return [match.span() for match in found], words


def _repeated(
    response: str, probes: Iterable[str], run: int
) -> tuple[list[tuple[int, int]], list[bool]]:
    """Return the positions of a response's words, and a mask of repeated words."""
    if isinstance(probes, str):
        raise InvalidTypeError("`probes` is a single string; pass a list of strings")
    n = validation.integer(run, "run", low=1)
    heard = _WordSequences(probes)
    places, words = _words(response)
    if 0 < len(words) < n:
        return places, [words in heard.runs(len(words))] * len(words)
    repeated = [False] * len(words)
    runs = heard.runs(n)
    for at in range(len(words) - n + 1):
        if words[at : at + n] in runs:
            repeated[at : at + n] = [True] * n
    for quoted in _QUOTED.finditer(response) if heard else ():
        first, last = (bisect_left(places, (offset, 0)) for offset in quoted.span())
        if first < last < first + n and words[first:last] in heard.runs(last - first):
            repeated[first:last] = [True] * (last - first)
    return places, repeated


class _WordSequences:
    """Index of the word sequences in the messages that the target has received."""

    def __init__(self, probes: Iterable[str]) -> None:
        self._said = [_words(probe)[1] for probe in probes]
        self._runs: dict[int, set[tuple[str, ...]]] = {}

    def __bool__(self) -> bool:
        return any(self._said)

    def runs(self, n: int) -> set[tuple[str, ...]]:
        """Return all sequences of n consecutive words."""
        if n not in self._runs:
            self._runs[n] = {
                said[at : at + n] for said in self._said for at in range(len(said) - n + 1)
            }
        return self._runs[n]
