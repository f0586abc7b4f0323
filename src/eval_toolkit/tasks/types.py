"""Data types of tasks: items, samples and their parts."""

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
"""Name of the single subject of a task without subjects."""


class Item(dict[str, Any]):
    """Row of a task's data with its identity; hooks use it as a dict.

    ``unit_id`` and ``content_hash`` identify the item, and items with the same ``group`` are
    dependent. ``place`` is the location of the item, for error messages, and ``index`` its
    zero-based row.
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
    """One of several requests for a sample: a prompt with the continuations to score.

    Parameters
    ----------
    prompt : str or sequence of Message
        String, which is sent unchanged, or messages, which are formatted like other prompts of the
        run.
    continuations : sequence of str
        Strings to score after the prompt.
    rolling : bool, default False
        Whether to score complete strings from their first token; the prompt must then be "".

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
        """Return a JSON-serialisable dict."""
        prompt = self.prompt
        return {
            "prompt": prompt if isinstance(prompt, str) else [turn.to_dict() for turn in prompt],
            "continuations": list(self.continuations),
            "rolling": self.rolling,
        }


@dataclass(frozen=True, slots=True)
class Sample:
    """Question for a model, with prompt, possible answers and reference.

    Parameters
    ----------
    id : str
        Unit id of the sample, which does not depend on prompt, limit, order or subjects.
    subject : str
        Subject of the sample; "no_subject" if the task has none.
    messages : sequence of Message
        Complete prompt, including few-shot examples and cue.
    ground_truth : str, list of str or None
        Reference or references.
    possible_completions : sequence of str, optional
        Strings to score in a log-likelihood task, including the space at the word boundary.
    context : object
        Additional data for the graders of the task.
    content_hash : str
        Hash of the original row, which does not depend on the prompt.
    group : str, optional
        Group of dependent samples, for example questions about the same passage.
    index : int
        Zero-based index of the row in the data.
    text : str, optional
        Prompt that the task builds as a single string; the formatter "plain" sends it.
    parts : sequence of Part
        Requests of the sample, if there are several; their concatenated log-likelihoods correspond
        to ``possible_completions``.
    question : str, optional
        Original question in the data.

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
        """Return a JSON-serialisable dict; a non-scalar context is converted to a string."""
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

    def loaded(self) -> "Sample":
        """Return the sample with its texts in memory."""
        return self

    def as_asked(self) -> dict[str, Any]:
        """Return ``text`` and ``parts``, if present, as a JSON-serialisable dict."""
        fields: dict[str, Any] = {} if self.text is None else {"text": self.text}
        return (
            {**fields, "parts": [part.to_dict() for part in self.parts]} if self.parts else fields
        )


def _truth(given: Any, place: str) -> str | tuple[str, ...] | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Sequence):
        return _texts(given, place, "ground_truth")
    raise InvalidTypeError(
        f"{place}: `ground_truth` is {given!r}; it must be a string, a list of strings or None"
    )


def _texts(given: Iterable[Any], place: str, name: str = "possible_completions") -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidTypeError(
            f"{place}: `{name}` is a single string; it must be a list of strings"
        )
    texts = tuple(given)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidTypeError(f"{place}: {name}[{at}] is {text!r}; it must be a string")
    return texts
