"""Tokenization of whole batches with a few calls to the tokenizer."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models import _tokens
from eval_toolkit.models.huggingface.tokenizer import HubTokenizer
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import LoglikelihoodRequest, Request

_WORDS = re.compile(r"[A-Za-z] [A-Za-z]")
_TRIES = 32
"""Number of word boundaries to try from the end of a prompt."""


class BatchEncoder:
    """Tokenizer wrapper that encodes and caches the strings of a batch together.

    The rules are those of `eval_toolkit.models._tokens`; strings are just encoded earlier and in
    one call.
    """

    def __init__(self, tokenizer: HubTokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, bool], list[int]] = {}
        self._tails: dict[str, str] = {}
        self._rendered: dict[int, str] = {}
        self.lead = tokenizer.lead
        self.start = tokenizer.start

    def encode(self, text: str, *, control: bool) -> list[int]:
        """Return the token ids of a string, without special tokens."""
        known = self._known.get((text, control))
        if known is None:
            self._prefetch([text], control=control)
            known = self._known[text, control]
        return known

    def render(self, messages: Sequence[Message]) -> str:
        """Render messages with the chat template, ready for the answer."""
        key = id(messages)
        if key not in self._rendered:
            self._rendered[key] = self._tokenizer.render(messages)
        return self._rendered[key]

    def prompts(self, requests: Iterable[Request]) -> list[tuple[str, list[int]] | ModelError]:
        """Return the text and token ids of each prompt, or an error."""
        texts: list[str] = []
        spoken: list[str] = []
        listed = list(requests)
        for request in listed:
            if isinstance(request.prompt, str):
                texts.append(whole_text(request.prompt))
                continue
            spoken += [message.content for message in request.prompt]
            with suppress(ModelError):  # raised again for the request that caused it
                texts.append(self.render(request.prompt))
        self._prefetch(texts, control=True)
        self._prefetch(spoken, control=True)
        self._prefetch(spoken, control=False)
        return [self._prompt(request) for request in listed]

    def _prompt(self, request: Request) -> tuple[str, list[int]] | ModelError:
        try:
            return _tokens.read_prompt(self, request)
        except ModelError as error:
            return error

    def continuations(
        self, requests: Sequence[tuple[str, LoglikelihoodRequest]]
    ) -> list[list[list[int]] | ModelError]:
        """Return the token ids of each prompt's continuations, or an error."""
        choices = [choice for _, request in requests for choice in request.continuations]
        self._prefetch(choices, control=False)
        self._prefetch(choices, control=True)
        self._find_tails([text for text, _ in requests])
        self._prefetch(
            [
                self._tails[text] + choice
                for text, request in requests
                for choice in request.continuations
            ],
            control=True,
        )
        return [self._choices(self._tails[text], request) for text, request in requests]

    def _choices(self, tail: str, request: LoglikelihoodRequest) -> list[list[int]] | ModelError:
        try:
            return [
                _tokens.continuation_ids(self, tail, choice) for choice in request.continuations
            ]
        except ModelError as error:
            return error

    def _find_tails(self, texts: Iterable[str]) -> None:
        """Find the tails of prompts whose tokens do not depend on the preceding text.

        A continuation's tokens depend on the prompt only back to the last space between words, if
        no token contains such a space and the prompt's tokens end with those of its tail.
        """
        found = {text: _tail(text) if self._tokenizer.parts_words else text for text in texts}
        self._prefetch(found.values(), control=True)
        self._prefetch(found, control=True)
        for text, tail in found.items():
            own, whole = self._known[tail, True], self._known[text, True]
            self._tails[text] = tail if whole[len(whole) - len(own) :] == own else text

    def _prefetch(self, texts: Iterable[str], *, control: bool) -> None:
        """Encode all strings that are not yet cached in one call."""
        new = [text for text in dict.fromkeys(texts) if (text, control) not in self._known]
        if not new:
            return
        for text, ids in zip(new, self._tokenizer.encode_all(new, control=control), strict=True):
            self._known[text, control] = ids
            if not self._tokenizer.mentions_control(text):
                self._known[text, not control] = ids


def _tail(text: str) -> str:
    """Return the part of a string that starts at its last space between words."""
    at = len(text) - 1
    for _ in range(_TRIES):
        at = text.rfind(" ", 0, at)
        if at < 1:
            break
        if _WORDS.match(text, at - 1):
            return text[at:]
    return text
