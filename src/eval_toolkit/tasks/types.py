"""What a task is made of: a sample, and the types its requests and answers have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.messages import Message, Role, read_messages
from eval_toolkit.responses import (
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
        Of the raw row: equal for the same item under another prompt.
    group : str, optional
        Samples of one group are not independent (a passage, a prompt family).
    index : int
        Row in the data, counted from 0.

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

    def __post_init__(self) -> None:
        place = f"sample {self.id!r}"
        set_ = object.__setattr__
        set_(self, "id", str(self.id))
        set_(self, "messages", read_messages(self.messages))
        set_(self, "ground_truth", _truth(self.ground_truth, place))
        if self.possible_completions is not None:
            set_(self, "possible_completions", _texts(self.possible_completions, place))

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
        }


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
