"""What a task is made of: a sample, and the types its requests and answers have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.models.messages import Message, Role, read_messages
from eval_toolkit.models.responses import (
    Completion,
    Loglikelihood,
    RawCompletion,
    RawLoglikelihood,
    ResponseType,
)

__all__ = [
    "NO_SUBJECT",
    "Completion",
    "Item",
    "Loglikelihood",
    "Message",
    "Part",
    "RawCompletion",
    "RawLoglikelihood",
    "ResponseType",
    "Role",
    "Sample",
]

NO_SUBJECT = "no_subject"
"""The one subject of a task that has none."""


class Item(dict[str, Any]):
    """A row of a task's data that knows what it is; hooks read it as the dict it is.

    ``unit_id`` and ``content_hash`` say which item it is, ``group`` with which others it belongs
    together, ``place`` where it stands (for error messages), ``index`` its row, counted from 0.
    """

    __slots__ = ("content_hash", "group", "index", "place", "subject", "unit_id")

    content_hash: str
    group: str | None
    index: int
    place: str
    subject: str
    unit_id: str


@dataclass(frozen=True, slots=True)
class Part:
    """One of several requests that together answer a sample: a prompt of its own, and what is scored.

    Parameters
    ----------
    prompt : str or sequence of Message
        A text is sent as it is; messages take the form of the run's prompts.
    continuations : sequence of str
        What is scored after it.
    rolling : bool, default False
        Score whole texts from their first token on; the prompt is "" then.

    Examples
    --------
    >>> Part("The trophy does not fit because the trophy", (" is too big.",)).rolling
    False
    """

    prompt: str | tuple[Message, ...]
    continuations: tuple[str, ...]
    rolling: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, str):
            object.__setattr__(self, "prompt", read_messages(self.prompt))
        texts = _texts(self.continuations, "part", "continuations")
        object.__setattr__(self, "continuations", texts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        prompt = self.prompt
        return {
            "prompt": prompt if isinstance(prompt, str) else [turn.to_dict() for turn in prompt],
            "continuations": list(self.continuations),
            "rolling": self.rolling,
        }


@dataclass(frozen=True, slots=True)
class Sample:
    """One question to a model: the prompt, what may be answered, and what is right.

    Parameters
    ----------
    id : str
        Unit of the sample: stable whatever the prompt, the limit, the order and the subjects.
    subject : str
        Part of the task it belongs to; "no_subject" where there are none.
    messages : sequence of Message
        The whole prompt, few-shot turns and cue included.
    ground_truth : str, list of str or None
        Reference or references.
    possible_completions : sequence of str, optional
        What a log-likelihood task scores; the space at the word boundary is theirs.
    context : object
        What else the graders of the task need.
    content_hash : str
        Hash of the raw row: equal for the same item under another prompt.
    group : str, optional
        Samples of one group are not independent (a passage, a prompt family).
    index : int
        Row in the data, counted from 0.
    text : str, optional
        The prompt as the one text that the task writes itself; what the formatter "plain" sends.
    parts : sequence of Part
        Where one request does not do: the requests whose numbers, one after the other, belong to
        ``possible_completions``.
    question : str, optional
        What the item asks, as the data has it and before a prompt is made of it.

    Examples
    --------
    >>> sample = Sample("1", "geography", [Message(Role.USER, "Capital of Italy?")], "Rome")
    >>> sample.messages[0].content, sample.ground_truth
    ('Capital of Italy?', 'Rome')
    """

    id: str
    subject: str
    messages: tuple[Message, ...]
    ground_truth: str | tuple[str, ...] | None = None
    possible_completions: tuple[str, ...] | None = None
    context: Any = None
    content_hash: str = ""
    group: str | None = None
    index: int = 0
    text: str | None = None
    parts: tuple[Part, ...] = ()
    question: str | None = None

    def __post_init__(self) -> None:
        place = f"sample {self.id!r}"
        set_ = object.__setattr__
        set_(self, "id", str(self.id))
        set_(self, "messages", read_messages(self.messages))
        set_(self, "ground_truth", _truth(self.ground_truth, place))
        if self.possible_completions is not None:
            set_(self, "possible_completions", _texts(self.possible_completions, place))
        set_(self, "parts", tuple(self.parts))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; the context only where it is one."""
        truth, choices = self.ground_truth, self.possible_completions
        plain = self.context is None or isinstance(self.context, (str, int, float, bool))
        return {
            "id": self.id,
            "subject": self.subject,
            "messages": [message.to_dict() for message in self.messages],
            "ground_truth": list(truth) if isinstance(truth, tuple) else truth,
            "possible_completions": None if choices is None else list(choices),
            "context": self.context if plain else str(self.context),
            "content_hash": self.content_hash,
            "group": self.group,
            "index": self.index,
            **self.as_asked(),
        }

    def as_asked(self) -> dict[str, Any]:
        """Return text and parts, where there are any, in plain JSON types."""
        asked: dict[str, Any] = {} if self.text is None else {"text": self.text}
        return {**asked, "parts": [part.to_dict() for part in self.parts]} if self.parts else asked


def _truth(given: Any, place: str) -> str | tuple[str, ...] | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Sequence):
        return _texts(given, place, "ground_truth")
    raise InvalidTypeError(
        f"{place}: `ground_truth` is {given!r}; it must be text, a list of texts or None"
    )


def _texts(given: Iterable[Any], place: str, name: str = "possible_completions") -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidTypeError(f"{place}: `{name}` is one text; it must be a list of texts")
    texts = tuple(given)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidTypeError(f"{place}: {name}[{at}] is {text!r}; it must be text")
    return texts
