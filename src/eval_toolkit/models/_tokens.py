"""Tokenisation of prompts, continuations, windows and stop strings.

Used by all models that have their own tokenizer. Three rules apply:

- Control tokens are parsed in string prompts and in the markup of a chat template, never in the
content of a message, so a user cannot end a turn by writing ``<|im_end|>``.
- A continuation is scored after exactly the tokens of its prompt. Its tokens are those after the
  prompt in the joint tokenisation; if a token would span the boundary, the continuation is
  tokenised separately.
- Prompts are never truncated. A prompt that does not fit raises an error.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import Request


class Encoder(Protocol):
    """Interface of a tokenizer."""

    @property
    def lead(self) -> Sequence[int]:
        """Tokens prepended to every text: the beginning-of-text token or nothing."""
        ...

    @property
    def start(self) -> int | None:
        """Token that serves as context when there is no prompt."""
        ...

    def encode(self, text: str, *, control: bool) -> list[int]:
        """Return the token ids of a text; control tokens are parsed if ``control`` is true."""
        ...


class ChatEncoder(Encoder, Protocol):
    """Interface of a tokenizer with a chat template."""

    def render(self, messages: Sequence[Message]) -> str:
        """Render messages with the chat template."""
        ...


def read_prompt(encoder: ChatEncoder, request: Request) -> tuple[str, list[int]]:
    """Return the text and the token ids of a request's prompt."""
    if isinstance(request.prompt, str):
        text = whole_text(request.prompt)
        return text, prompt_ids(encoder, text)
    text = encoder.render(request.prompt)
    return text, prompt_ids(encoder, text, request.prompt)


def prompt_ids(encoder: Encoder, text: str, messages: Sequence[Message] = ()) -> list[int]:
    """Return the token ids (at least one) of a text, or of messages rendered as ``text``."""
    spoken = [
        message.content
        for message in messages
        if encoder.encode(message.content, control=True)
        != encoder.encode(message.content, control=False)
    ]
    ids: list[int] = []
    for part, is_spoken in _parts(text, spoken):
        ids += encoder.encode(part, control=not is_spoken)
    lead = list(encoder.lead)
    if not messages and ids[: len(lead)] != lead:
        ids = lead + ids
    if ids:
        return ids
    if encoder.start is None:
        raise ModelError(
            "the prompt is empty and the tokenizer has no beginning-of-text token; pass a prompt",
            kind="unsupported",
        )
    return [encoder.start]


def _parts(text: str, spoken: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a rendered conversation, and whether each is the content of a message."""
    at = 0
    for content in spoken:
        found = text.find(content, at)
        if found < 0:  # templates may strip the content
            content = content.strip()
            found = text.find(content, at)
        if found < 0:
            raise ModelError(
                "a message contains a control token of the model, which the chat template "
                "changes; remove the token",
                kind="bad_request",
            )
        yield text[at:found], False
        yield content, True
        at = found + len(content)
    yield text[at:], False


def continuation_ids(encoder: Encoder, text: str, continuation: str) -> list[int]:
    """Return the token ids of a continuation of ``text``; no token spans the two."""
    apart = encoder.encode(continuation, control=False)
    if encoder.encode(continuation, control=True) == apart:
        own = encoder.encode(text, control=True)
        joint = encoder.encode(text + continuation, control=True)
        apart = joint[len(own) :] if joint[: len(own)] == own else _mid_text(encoder, continuation)
    if not apart:
        raise ModelError(f"continuation {continuation!r} has no tokens", kind="bad_request")
    return apart


def _mid_text(encoder: Encoder, continuation: str) -> list[int]:
    """Return the token ids of a text without the leading space that some tokenizers add."""
    mark = encoder.encode("\n", control=False)
    marked = encoder.encode(f"\n{continuation}", control=False)
    if marked[: len(mark)] == mark:
        return marked[len(mark) :]
    return encoder.encode(continuation, control=False)


def rolling_windows(
    ids: Sequence[int], start: int, length: int
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (context, scored) windows that score each id once, with at most ``length`` inputs.

    Windows do not overlap, except for the last one, which takes as much context as fits.
    """
    if not ids:
        raise ModelError("a text has no tokens to score; pass a non-empty text", kind="bad_request")
    sequence = [start, *ids]
    for at in range(0, len(ids), length):
        end = min(at + length, len(ids))
        yield sequence[max(0, end - length) : at + 1], sequence[at + 1 : end + 1]


def stop_position(text: str, stops: Sequence[str]) -> int | None:
    """Return the position of the first stop string in a text, or None."""
    found = [at for at in (text.find(stop) for stop in stops if stop) if at >= 0]
    return min(found, default=None)
