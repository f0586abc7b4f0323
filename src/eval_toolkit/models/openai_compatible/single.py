"""Score single-token choices with one request for the next token."""

from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.proving import PROBES, TOLERANCE
from eval_toolkit.models.openai_compatible.scored import Score, top_tokens
from eval_toolkit.models.openai_compatible.scoring import (
    MISSING,
    Once,
    Scoring,
    Server,
    WholeText,
    Work,
    split_tokens,
)

_ANCHOR = "Answer:"
"""Text prepended to a choice to count its tokens."""
_LONGEST = 8
"""Maximum length in characters of a choice that may be a single token."""
_DIGITS = 3
"""The same for numbers."""
_MOST = (20, 5)
"""Numbers of log-probabilities to request: the limits of vLLM and of OpenAI."""
_FEW = 3
"""Number of log-probabilities to compare with the verified method."""


def may_be_single(continuations: Sequence[str]) -> bool:
    """Return whether choices are short enough to be single tokens.

    Tokenizers split numbers, most of them after at most three digits.
    """
    words = [text.split() for text in continuations]
    return len(words) > 1 and all(
        len(word) == 1 and len(word[0]) <= (_DIGITS if word[0].isdigit() else _LONGEST)
        for word in words
    )


class SingleTokens:
    """Score choices that are single tokens by the log-probabilities of the next token.

    The prompt is sent once, and the server can reuse its prefix cache. This method is used only if
    its log-probabilities agree with those of the verified method.
    """

    def __init__(self, server: Server, scoring: Scoring) -> None:
        self._server = server
        self._scoring = scoring
        self._n = 0
        self._by_id = False
        self._proven = Once(self._prove)
        self._ids: dict[str, int | None] = {}

    async def scores(
        self, prompt: str | Sequence[int], continuations: Sequence[str], work: Work
    ) -> list[Score] | None:
        """Return the scores; None if a choice has several tokens or too low a probability."""
        try:
            ids = await self._tokens(continuations)
            if ids is None or not await self._proven():
                return None
        except ModelError as error:
            if error.kind in MISSING:
                return None
            raise
        if not (self._by_id or "".join(continuations).isascii()):
            return None  # spellings of parts of characters are not unique
        found, n_prompt = await self._ask(prompt, ids, work)
        keys: Sequence[int | str] = ids if self._by_id else continuations
        if not all(key in found for key in keys):
            return None
        best = max(found.values())
        return [Score(min(found[key], 0.0), 1, found[key] >= best - 1e-6, n_prompt) for key in keys]

    async def _tokens(self, continuations: Sequence[str]) -> list[int] | None:
        """Return the token of each choice; None if a choice has several tokens."""
        new = [text for text in continuations if text not in self._ids]
        if new:
            _, after = await split_tokens(self._server, _ANCHOR, new)
            for text, tokens in zip(new, after, strict=True):
                self._ids[text] = tokens[0] if len(tokens) == 1 else None
        found = [self._ids[text] for text in continuations]
        return None if None in found else [token for token in found if token is not None]

    async def _ask(
        self, prompt: str | Sequence[int], ids: Sequence[int], work: Work
    ) -> tuple[Mapping[int | str, float], int | None]:
        """Return log-probabilities by token id or string, and the token count of the prompt."""
        fields: dict[str, Any] = {"logprobs": self._n}
        if self._by_id:  # vLLM's fields
            fields |= {"return_tokens_as_token_ids": True, "logprob_token_ids": list(ids)}
        reply = await self._server.next_choice(prompt, fields, work)
        return top_tokens(reply.value[0]), reply.tokens[0]

    async def _prove(self) -> bool:
        before, _ = await self._server.tokens(PROBES[0])
        for self._n in _MOST:
            for self._by_id in (True, False):
                try:
                    found, _ = await self._ask(PROBES[0], [], Work())
                    if len(found) >= _FEW and await self._agrees(before, found):
                        return True
                except ModelError as error:
                    if error.kind not in MISSING:
                        raise
        return False

    async def _agrees(self, before: Sequence[int], found: Mapping[int | str, float]) -> bool:
        order = sorted(found, key=lambda key: -found[key])
        some: Sequence[int | str] = [order[0], order[len(order) // 2], order[-1]]
        if self._by_id:
            ids = [[key] for key in some if isinstance(key, int)]
            if len(ids) < len(some):
                return False
            scores = await self._scoring.by_ids(before, ids, Work())
        else:
            texts = [key for key in order if isinstance(key, str) and key.strip().isalpha()]
            some = [key for key in texts if key.isascii()][:_FEW]
            if len(some) < _FEW or not isinstance(self._scoring, WholeText):
                return False
            (whole,) = await self._server.scored([PROBES[0]], self._scoring.name)
            if whole.starts(PROBES[0]) is None:
                return False  # spellings without their spaces are not unique
            scores = await self._scoring.scores(PROBES[0], [str(key) for key in some], Work())
        return all(
            score.n_tokens == 1 and abs(score.logprob - found[key]) <= TOLERANCE
            for key, score in zip(some, scores, strict=True)
        )
