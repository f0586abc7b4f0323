"""What a model answers, as it came (``Raw…``) and beside the sample it answers.

Names follow the published task interface; both of its spellings are accepted and readable:
``text`` and ``completion``, ``completion_text`` and ``completion``, ``prompt_tokens`` and
``prompt_sequence_positions``; log-likelihoods as a list in the order of the choices, or as a
mapping from choice to number.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.messages import Message, Role, read_messages

__all__ = [
    "Completion",
    "ErrorInfo",
    "Loglikelihood",
    "RawCompletion",
    "RawLoglikelihood",
    "ResponseType",
    "Usage",
]

_ABSENT: Any = object()


class ResponseType(StrEnum):
    """What a task wants of a model."""

    COMPLETION = "completion"
    LOGLIKELIHOODS = "loglikelihoods"


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took; none of it is part of a measurement.

    Examples
    --------
    >>> Usage(prompt_tokens=12, completion_tokens=3).total_tokens
    15
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """In the currency of the prices that were given; 0 without prices."""
    latency_s: float = 0.0
    """Of the try that succeeded."""
    tries: int = 1
    cached: bool = False

    @property
    def total_tokens(self) -> int:
        """Tokens of prompt and answer."""
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Usage":
        """Return what `to_dict` wrote; fields of later versions are left out."""
        return cls(**{name: payload[name] for name in cls.__slots__ if name in payload})


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Why there is no answer.

    Examples
    --------
    >>> ErrorInfo("timeout", "no answer within 60 s", tries=5).to_dict()["kind"]
    'timeout'
    """

    kind: str
    """One word, as in `ModelError`: "timeout", "rate_limited", "server" …"""
    message: str
    status: int | None = None
    """Of the HTTP answer, where there was one."""
    tries: int = 1
    retryable: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "ErrorInfo":
        """Return what `to_dict` wrote; fields of later versions are left out."""
        return cls(**{name: payload[name] for name in cls.__slots__ if name in payload})


def _one(name: str, value: Any, other: str, alias: Any, default: Any = _ABSENT) -> Any:
    """Return the one value that was given under either of its names."""
    if alias is _ABSENT:  # as nearly always: answers are made by the thousand
        if value is not _ABSENT:
            return value
        if default is _ABSENT:
            raise InvalidInputError(f"`{name}` is missing")
        return default
    if value is not _ABSENT and value != alias:
        raise InvalidInputError(f"`{name}` and `{other}` are one field; give one")
    return alias


def _encodable(text: Any, name: str) -> str:
    """Return a text that can be stored: half a surrogate pair becomes the replacement sign."""
    if not isinstance(text, str):
        raise InvalidInputError(f"`{name}` is {text!r}; it must be text")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _scores(given: Any, choices: Iterable[str]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return numbers and choices in the order of the choices."""
    if isinstance(given, Mapping):
        choices = tuple(choices) or tuple(given)
        if set(choices) != set(given):
            raise InvalidInputError("`loglikelihoods` and `choices` do not name the same texts")
        given = [given[choice] for choice in choices]
    numbers, texts = tuple(float(value) for value in given), tuple(choices)
    if texts and len(texts) != len(numbers):
        raise InvalidInputError(
            f"`loglikelihoods` has {len(numbers)} numbers but there are {len(texts)} choices"
        )
    for at, number in enumerate(numbers):
        if math.isnan(number) or number == math.inf:
            raise InvalidInputError(
                f"loglikelihoods[{at}] is {number}; it must be a log-probability"
            )
    return numbers, texts


class _Fields:
    """Equality, a short repr and JSON for classes whose constructors accept two spellings."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; `from_dict` reads them back."""
        return {name: _json(getattr(self, name)) for name in self.__slots__}


def _json(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return [_json(inner) for inner in value] if isinstance(value, tuple) else value


def _read(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments in a payload that `to_dict` or the published interface wrote."""
    given = dict(payload)
    for name, kind in (("usage", Usage), ("error", ErrorInfo)):
        if isinstance(given.get(name), Mapping):
            given[name] = kind.from_dict(given[name])
    if given.get("messages") is not None:
        given["messages"] = read_messages(given["messages"])
    return given


class RawCompletion(_Fields):
    """The text a model generated, untouched.

    Parameters
    ----------
    text : str
        What was generated; ``completion`` is another name.
    prompt : str
        The exact text that was sent, where there is one.
    prompt_tokens, completion_tokens : int, optional
        None where the model does not say; ``…_sequence_positions`` are other names.
    finish_reason : str, optional
        "stop", "length", "content_filter" …
    usage : Usage
        What it took.
    error : ErrorInfo, optional
        Why there is no text; ``raw_completion_error`` is another name.

    Examples
    --------
    >>> RawCompletion(text=" Rome").completion
    ' Rome'
    """

    __slots__ = (
        "completion_tokens",
        "error",
        "finish_reason",
        "prompt",
        "prompt_tokens",
        "text",
        "usage",
    )

    def __init__(
        self,
        text: str = _ABSENT,
        *,
        completion: str = _ABSENT,
        prompt: str = "",
        prompt_tokens: int | None = _ABSENT,
        prompt_sequence_positions: int | None = _ABSENT,
        completion_tokens: int | None = _ABSENT,
        completion_sequence_positions: int | None = _ABSENT,
        finish_reason: str | None = None,
        usage: Usage | None = None,
        error: ErrorInfo | None = _ABSENT,
        raw_completion_error: ErrorInfo | None = _ABSENT,
    ) -> None:
        self.text = _encodable(_one("text", text, "completion", completion), "text")
        self.prompt = prompt
        self.prompt_tokens: int | None = _one(
            "prompt_tokens",
            prompt_tokens,
            "prompt_sequence_positions",
            prompt_sequence_positions,
            None,
        )
        self.completion_tokens: int | None = _one(
            "completion_tokens",
            completion_tokens,
            "completion_sequence_positions",
            completion_sequence_positions,
            None,
        )
        self.finish_reason = finish_reason
        self.usage = usage or Usage()
        self.error: ErrorInfo | None = _one(
            "error", error, "raw_completion_error", raw_completion_error, None
        )

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "RawCompletion":
        """Return what `to_dict` wrote."""
        return cls(**_read(payload))

    completion = property(lambda self: self.text, doc="The text, by its other name.")
    prompt_sequence_positions = property(
        lambda self: self.prompt_tokens, doc="Tokens of the prompt."
    )
    completion_sequence_positions = property(
        lambda self: self.completion_tokens, doc="Tokens of the text."
    )
    raw_completion_error = property(lambda self: self.error, doc="The error, by its other name.")


class RawLoglikelihood(_Fields):
    """How likely each choice is, in the order of the choices.

    Parameters
    ----------
    loglikelihoods : sequence of float, or mapping from choice to float
        Natural logarithms, summed over the tokens of a choice; equal choices keep their own.
    choices : sequence of str
        The texts that were scored.
    n_tokens : sequence of int, optional
        Tokens of each choice; ``loglikelihoods_sequence_positions`` is another name.
    is_greedy : sequence of bool, optional
        Whether each choice is what the model would have generated.
    prompt, prompt_tokens, usage, error
        As in `RawCompletion`.

    Examples
    --------
    >>> raw = RawLoglikelihood({" Rome": -0.5, " Madrid": -3.0})
    >>> raw.loglikelihoods, raw.by_choice[" Rome"]
    ([-0.5, -3.0], -0.5)
    """

    __slots__ = (
        "_numbers",
        "choices",
        "error",
        "is_greedy",
        "n_tokens",
        "prompt",
        "prompt_tokens",
        "usage",
    )

    def __init__(
        self,
        loglikelihoods: Sequence[float] | Mapping[str, float],
        choices: Sequence[str] = (),
        *,
        n_tokens: Sequence[int] | Mapping[str, int] | None = _ABSENT,
        loglikelihoods_sequence_positions: Sequence[int] | Mapping[str, int] | None = _ABSENT,
        is_greedy: Sequence[bool] | None = None,
        prompt: str = "",
        prompt_tokens: int | None = _ABSENT,
        prompt_sequence_positions: int | None = _ABSENT,
        usage: Usage | None = None,
        error: ErrorInfo | None = _ABSENT,
        raw_loglikelihood_error: ErrorInfo | None = _ABSENT,
    ) -> None:
        self._numbers, self.choices = _scores(loglikelihoods, choices)
        self.n_tokens: tuple[int, ...] | None = _counts(
            _one(
                "n_tokens",
                n_tokens,
                "loglikelihoods_sequence_positions",
                loglikelihoods_sequence_positions,
                None,
            ),
            self.choices,
            len(self._numbers),
        )
        self.is_greedy = None if is_greedy is None else tuple(map(bool, is_greedy))
        self.prompt = prompt
        self.prompt_tokens: int | None = _one(
            "prompt_tokens",
            prompt_tokens,
            "prompt_sequence_positions",
            prompt_sequence_positions,
            None,
        )
        self.usage = usage or Usage()
        self.error: ErrorInfo | None = _one(
            "error", error, "raw_loglikelihood_error", raw_loglikelihood_error, None
        )

    @property
    def loglikelihoods(self) -> list[float]:
        """One number per choice, in the order of the choices."""
        return list(self._numbers)

    @property
    def by_choice(self) -> dict[str, float]:
        """From choice to number; of equal choices the first."""
        return dict(zip(reversed(self.choices), reversed(self._numbers), strict=True))

    prompt_sequence_positions = property(
        lambda self: self.prompt_tokens, doc="Tokens of the prompt."
    )
    raw_loglikelihood_error = property(lambda self: self.error, doc="The error, by its other name.")

    @property
    def loglikelihoods_sequence_positions(self) -> dict[str, int]:
        """From choice to its tokens; empty where they are not known."""
        return dict(zip(self.choices, self.n_tokens or (), strict=False))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; `from_dict` reads them back."""
        payload = _Fields.to_dict(self)
        return {"loglikelihoods": payload.pop("_numbers"), **payload}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "RawLoglikelihood":
        """Return what `to_dict` wrote."""
        return cls(**_read(payload))


def _counts(given: Any, choices: tuple[str, ...], n: int) -> tuple[int, ...] | None:
    if given is None or (isinstance(given, Mapping) and not given):
        return None
    counts = [given[choice] for choice in choices] if isinstance(given, Mapping) else list(given)
    if len(counts) != n:
        raise InvalidInputError(f"`n_tokens` has {len(counts)} numbers but there are {n} choices")
    return tuple(int(count) for count in counts)


class _Answered(_Fields):
    """What both kinds of answers say about the sample they answer."""

    __slots__ = ()
    ground_truth: str | tuple[str, ...] | None

    @property
    def ground_truth_list(self) -> list[Any]:
        """The references; ``[None]`` where there is none."""
        truth = self.ground_truth
        return list(truth) if isinstance(truth, tuple) else [truth]


def _truth(given: Any) -> str | tuple[str, ...] | None:
    return tuple(given) if isinstance(given, (list, tuple)) else given


class Completion(_Answered):
    """A sample and the text a model answered it with: what graders of completions read.

    Parameters
    ----------
    completion : str
        The text after the task's post-processing; ``completion_text`` is another name.
    id : str
        Unit of the sample.
    subject : str
        Its subject.
    ground_truth : str, list of str or None
        Reference or references.
    messages : sequence of Message, optional
        The conversation with the reply: appended to a cue, else a message of its own.
    raw_completion : str, optional
        The text as the model gave it; ``completion`` by default.
    attempt : int
        Number of the try at the unit.
    prompt : str
        The text that was sent.
    prompt_tokens, completion_tokens : int, optional
        ``prompt_sequence_positions`` and ``raw_completion_sequence_positions`` are other names.
    finish_reason : str, optional
        As in `RawCompletion`.
    context : object
        What else the task gives its graders.
    usage : Usage
        What it took.
    error : ErrorInfo, optional
        Why there is no text; graders are not asked then.

    Examples
    --------
    >>> answer = Completion(completion_text="Rome", ground_truth=["Rome", "Roma"])
    >>> answer.completion, answer.ground_truth_list
    ('Rome', ['Rome', 'Roma'])
    """

    __slots__ = (
        "attempt",
        "completion",
        "completion_tokens",
        "context",
        "error",
        "finish_reason",
        "ground_truth",
        "id",
        "messages",
        "prompt",
        "prompt_tokens",
        "raw_completion",
        "subject",
        "usage",
    )

    def __init__(
        self,
        completion: str = _ABSENT,
        *,
        completion_text: str = _ABSENT,
        id: str = "",  # noqa: A002 - the published name
        subject: str = "",
        ground_truth: str | Sequence[str] | None = None,
        messages: Iterable[Message | Mapping[str, Any]] | None = None,
        raw_completion: str | None = None,
        attempt: int = 1,
        prompt: str = "",
        prompt_tokens: int | None = _ABSENT,
        prompt_sequence_positions: int | None = _ABSENT,
        completion_tokens: int | None = _ABSENT,
        raw_completion_sequence_positions: int | None = _ABSENT,
        finish_reason: str | None = None,
        context: Any = None,
        usage: Usage | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        text = _one("completion", completion, "completion_text", completion_text)
        self.completion = _encodable(text, "completion")
        self.id = id
        self.subject = subject
        self.ground_truth = _truth(ground_truth)
        self.messages = None if messages is None else read_messages(messages)
        self.raw_completion = self.completion if raw_completion is None else raw_completion
        self.attempt = attempt
        self.prompt = prompt
        self.prompt_tokens: int | None = _one(
            "prompt_tokens",
            prompt_tokens,
            "prompt_sequence_positions",
            prompt_sequence_positions,
            None,
        )
        self.completion_tokens: int | None = _one(
            "completion_tokens",
            completion_tokens,
            "raw_completion_sequence_positions",
            raw_completion_sequence_positions,
            None,
        )
        self.finish_reason = finish_reason
        self.context = context
        self.usage = usage or Usage()
        self.error = error

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Completion":
        """Return what `to_dict` wrote."""
        return cls(**_read(payload))

    completion_text = property(lambda self: self.completion, doc="The text, by its other name.")
    prompt_sequence_positions = property(
        lambda self: self.prompt_tokens, doc="Tokens of the prompt."
    )
    raw_completion_sequence_positions = property(
        lambda self: self.completion_tokens, doc="Tokens of the text as it came."
    )

    def _said_by(self, *roles: Role) -> list[str]:
        return [message.content for message in self.messages or () if message.role in roles]

    @property
    def system_user_instruction(self) -> str:
        """What system and user said, joined by blank lines."""
        return "\n\n".join(self._said_by(Role.SYSTEM, Role.USER))

    @property
    def user_instruction(self) -> str:
        """What the user said, joined by blank lines."""
        return "\n\n".join(self._said_by(Role.USER))

    @property
    def first_user_instruction(self) -> str:
        """What the user said first; "" where there is nothing."""
        return next(iter(self._said_by(Role.USER)), "")

    @property
    def all_but_first_user_instruction(self) -> str:
        """What the user said after that, joined by blank lines."""
        return "\n\n".join(self._said_by(Role.USER)[1:])

    @property
    def last_user_instruction(self) -> str:
        """What the user said last; "" where there is nothing."""
        return next(reversed(self._said_by(Role.USER)), "")

    @property
    def sanitized_completion(self) -> str:
        """The text with ``<|…|>`` broken up, so that no reader takes it for a control token."""
        return self.completion.replace("<|", "< |").replace("|>", "| >")


class Loglikelihood(_Answered):
    """A sample and how likely a model finds its choices: what graders of choices read.

    Parameters
    ----------
    loglikelihoods : sequence of float, or mapping from choice to float
        As in `RawLoglikelihood`.
    choices, n_tokens, is_greedy
        As in `RawLoglikelihood`.
    id, subject, ground_truth, attempt, prompt, prompt_tokens, context, usage, error
        As in `Completion`.

    Examples
    --------
    >>> answer = Loglikelihood([-0.5, -3.0], [" Rome", " Madrid"], ground_truth=" Rome")
    >>> answer.best, answer.margin
    (0, 2.5)
    """

    __slots__ = (
        "_numbers",
        "attempt",
        "choices",
        "context",
        "error",
        "ground_truth",
        "id",
        "is_greedy",
        "n_tokens",
        "prompt",
        "prompt_tokens",
        "subject",
        "usage",
    )

    def __init__(
        self,
        loglikelihoods: Sequence[float] | Mapping[str, float],
        choices: Sequence[str] = (),
        *,
        n_tokens: Sequence[int] | Mapping[str, int] | None = _ABSENT,
        loglikelihoods_sequence_positions: Sequence[int] | Mapping[str, int] | None = _ABSENT,
        is_greedy: Sequence[bool] | None = None,
        id: str = "",  # noqa: A002 - the published name
        subject: str = "",
        ground_truth: str | Sequence[str] | None = None,
        attempt: int = 1,
        prompt: str = "",
        prompt_tokens: int | None = _ABSENT,
        prompt_sequence_positions: int | None = _ABSENT,
        context: Any = None,
        usage: Usage | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        raw = RawLoglikelihood(
            loglikelihoods,
            choices,
            n_tokens=n_tokens,
            loglikelihoods_sequence_positions=loglikelihoods_sequence_positions,
            is_greedy=is_greedy,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            prompt_sequence_positions=prompt_sequence_positions,
            usage=usage,
        )
        self._numbers, self.choices = raw._numbers, raw.choices
        self.n_tokens, self.is_greedy = raw.n_tokens, raw.is_greedy
        self.prompt, self.prompt_tokens = raw.prompt, raw.prompt_tokens
        self.usage = raw.usage
        self.id = id
        self.subject = subject
        self.ground_truth = _truth(ground_truth)
        self.attempt = attempt
        self.context = context
        self.error = error

    @property
    def loglikelihoods(self) -> list[float]:
        """One number per choice, in the order of the choices."""
        return list(self._numbers)

    @property
    def by_choice(self) -> dict[str, float]:
        """From choice to number; of equal choices the first."""
        return dict(zip(reversed(self.choices), reversed(self._numbers), strict=True))

    @property
    def best(self) -> int:
        """Position of the likeliest choice; of equally likely ones the first."""
        return max(range(len(self._numbers)), key=self._numbers.__getitem__)

    @property
    def margin(self) -> float | None:
        """By how much the likeliest choice leads the next; None with a single choice."""
        if len(self._numbers) < 2:
            return None
        first, second = sorted(self._numbers, reverse=True)[:2]
        return 0.0 if first == second else first - second

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; `from_dict` reads them back."""
        payload = _Fields.to_dict(self)
        return {"loglikelihoods": payload.pop("_numbers"), **payload}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Loglikelihood":
        """Return what `to_dict` wrote."""
        return cls(**_read(payload))
