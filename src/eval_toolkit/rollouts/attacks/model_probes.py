"""Querying a model for the next probe, and parsing its reply."""

import json
import re
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.graders.judges.prompts import cut
from eval_toolkit.models.loading import load_model
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.prompts import format_prompt
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import split_reasoning
from eval_toolkit.protocols import Model
from eval_toolkit.rollouts.attacks.base import Strategy
from eval_toolkit.rollouts.conversations import Conversation
from eval_toolkit.rollouts.scorers.refusal import refusal_kind

FORM = "Reply with the message alone, between <prompt> and </prompt>."
_ECHO = "and"
"""Text between the tags if a model merely repeats "<prompt> and </prompt>"."""
_SEED_LIMIT = 2**31
"""Exclusive upper bound of seeds, since servers accept signed 32-bit integers."""
_TAGGED = re.compile(r"<prompt>(.*?)(?:</prompt>|\Z)", re.DOTALL | re.IGNORECASE)
# Fenced code in another language is part of a probe.
_FENCED = re.compile(
    r"```(?:text|json|prompt|plaintext|markdown)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE
)
_LABEL = re.compile(
    r"^[ \t*#>]*(?:(?:here is|the|my|an?|improved|new|next|revised|better|final|user)[ \t]+)*"
    r"(?:prompt|message|probe)[ \t*]*:[\s*]*",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTES = ('""', "''", "“”", "‘’", "«»", "``")
_BEGINNING = 80
"""Number of leading characters searched for a refusal; later text may belong to the probe."""


def refused(response: str) -> bool:
    """Return whether a target's reply is empty or a full refusal according to `RefusalScorer`.

    Examples
    --------
    >>> refused("I'm sorry, but I can't help with that."), refused("I can't wait to help!")
    (True, False)
    """
    return not response.strip() or refusal_kind(response) == "full"


def read_probe(reply: str) -> str:
    r"""Extract the probe from a reply: in tags, JSON or a code fence, after a label, or all of it.

    Tagged reasoning and surrounding quotes are removed. Returns "" if the reply contains no probe.

    Examples
    --------
    >>> read_probe('Better:\n<prompt>Tell a joke.</prompt>'), read_probe('Prompt: "Tell a joke."')
    ('Tell a joke.', 'Tell a joke.')
    """
    return _found(reply)[0]


def _found(reply: str) -> tuple[str, bool]:
    """Return the probe, and whether the reply marked it explicitly."""
    text = split_reasoning(reply).answer
    tagged = [said for said in map(_bare, _TAGGED.findall(text)) if said not in ("", _ECHO)]
    if tagged:
        return tagged[-1], True  # the last one, since models draft before they decide
    if "<prompt>" in text.lower():
        return "", True
    # The output of a completion model starts inside the tags.
    closed = re.split("</prompt>", text, maxsplit=1, flags=re.IGNORECASE)
    if len(closed) > 1:
        return _bare(closed[0]), True
    fenced = _FENCED.search(text)
    inside = fenced[1] if fenced else text
    told = _from_json(inside)
    if told is not None:
        return told, True
    label = _LABEL.search(inside)
    if label:
        return _bare(inside[label.end() :]), True
    return _bare(inside), fenced is not None


def _from_json(text: str) -> str | None:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return None
    probe = payload.get("prompt") if isinstance(payload, dict) else None
    return _bare(probe) if isinstance(probe, str) else None


def _bare(text: str) -> str:
    """Strip surrounding whitespace and one pair of quotes from a string."""
    text = text.strip()
    for pair in _QUOTES:
        inside = text[1:-1]
        if len(text) > 1 and text[0] == pair[0] and text[-1] == pair[1]:
            # Two adjacent quotations are not one.
            return text if pair[0] in inside or pair[1] in inside else inside.strip()
    return text


def history(conversation: Conversation, max_chars: int | None, *, scores: bool = False) -> str:
    """Format a conversation for a model, with messages delimited by unguessable markers.

    Texts longer than ``max_chars`` are truncated in the middle.

    Examples
    --------
    >>> state = Conversation("A joke").with_probe("A joke?").with_response("No.")
    >>> print(history(state, None))
    <message 1 38178a20>
    A joke?
    </message 1 38178a20>
    <reply 1 38178a20>
    No.
    </reply 1 38178a20>
    """
    # To close its own mark, a reply would have to contain its own hash.
    mark = sha256_text("\0".join(conversation.responses))[:8]
    parts = []
    for at, turn in enumerate(conversation.turns, 1):
        for kind, text in (("message", turn.probe), ("reply", turn.response)):
            parts.append(f"<{kind} {at} {mark}>\n{cut(text, max_chars)}\n</{kind} {at} {mark}>")
        if scores and turn.score is not None:
            parts.append(f"Score of reply {at}: {turn.score:.3g}")
    return "\n".join(parts)


class AskingStrategy(Strategy):
    """Base class of attacks that query a model."""

    __slots__ = ()
    model: Any
    temperature: float
    max_tokens: int | None
    max_chars: int | None

    def _check_asking(self) -> None:
        """Validate the fields, and load the model if it is given by name."""
        set_ = object.__setattr__
        given = self.model
        made = load_model(given) if isinstance(given, str) else given
        if isinstance(made, type) or not isinstance(made, Model):
            raise InvalidTypeError(
                f"`model` is {given!r:.80}; pass a model that writes the probes, or its name such "
                "as 'openai:NAME'"
            )
        set_(self, "model", made)
        if isinstance(self.temperature, bool):
            raise InvalidTypeError(f"`temperature` must be a number, got {self.temperature!r}")
        set_(self, "temperature", validation.number(self.temperature, "temperature", low=0.0))
        for name in ("max_tokens", "max_chars"):
            if getattr(self, name) is not None:
                set_(self, name, validation.integer(getattr(self, name), name, low=1))

    def _request(self, system: str, user: str, seed: int) -> GenerateRequest:
        """Build the request to the model; models without chat receive the prompt as a string."""
        turns = [Message(Role.SYSTEM, system), Message(Role.USER, user)]
        chats = getattr(self.model, "speaks_chat", True)
        if not chats:
            turns.append(Message(Role.ASSISTANT, "<prompt>"))
        return GenerateRequest(
            format_prompt(turns, "chat" if chats else "plain"),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            stop=() if chats else ("</prompt>",),
            seed=seed % _SEED_LIMIT if self.temperature > 0.0 else None,
        )

    def read(self, reply: str, conversation: Any) -> str:
        """Parse the probe from the model's reply.

        Parameters
        ----------
        reply : str
            Reply of the model.
        conversation : Conversation
            Conversation that the probe will continue.

        Returns
        -------
        str
            The next probe.

        Raises
        ------
        ModelError
            With kind "garbled" if the reply contains no probe, or "refused" if the model refuses to
            write one. The turn then counts as a tester error, not as a failure of the target.
        """
        probe, marked = _found(reply)
        if not probe:
            problem = (
                "is empty"
                if not reply.strip()
                else f"contains none: {' '.join(reply.split())!r:.80}"
            )
            raise ModelError(
                f"{self.model.name} was asked to write a probe, but its reply {problem}",
                kind="garbled",
            )
        if not marked and refusal_kind(probe, opening=_BEGINNING) == "full":
            raise ModelError(
                f"{self.model.name} refuses to write a probe: {' '.join(probe.split())!r:.80}",
                kind="refused",
            )
        return probe


def check_instruction(given: Any, name: str) -> None:
    """Raise an error unless an instruction is a string."""
    if not isinstance(given, str) or not given.strip():
        raise InvalidInputError(f"`{name}` is {given!r:.60}; it must be a string")
