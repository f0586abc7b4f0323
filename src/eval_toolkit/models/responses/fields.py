"""Fields shared by all answers: usage, errors, and alternative names."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import read_messages

ABSENT: Any = object()
_NEGATIVE_INFINITY = "-inf"
"""String that represents -inf, the log-probability of impossible choices, in strict JSON."""


class ResponseType(StrEnum):
    """Response type of a task."""

    COMPLETION = "completion"
    LOGLIKELIHOODS = "loglikelihoods"


@dataclass(frozen=True, slots=True)
class Usage(Displayed):
    """Resources used by an answer, counted in the same way by every adapter.

    ``prompt_tokens`` counts all input tokens, of prompts and scored choices, each time they are
    sent; ``cached_tokens`` counts those found in the server's cache. ``completion_tokens`` counts
    all generated tokens, including reasoning. `RawLoglikelihood.prompt_tokens` counts only the
    tokens of the prompt, without the choices.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a number of tokens is not a non-negative integer.

    Examples
    --------
    >>> Usage(prompt_tokens=12, completion_tokens=3).total_tokens
    15
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """Cost in the currency of the prices; 0 if there are no prices."""
    latency_s: float = 0.0
    """Latency of the successful attempt in seconds."""
    tries: int = 1
    cached: bool = False
    """Whether the answer comes from a cache."""
    cached_tokens: int = 0
    """Cached prompt tokens, included in ``prompt_tokens``."""
    first_token_s: float | None = None
    """Seconds until the first token, if the answer was streamed."""

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                object.__setattr__(self, name, validation.integer(value, name))

    @property
    def total_tokens(self) -> int:
        """Total number of prompt and answer tokens, including cached and reasoning tokens."""
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; unset counts of cached tokens and times are omitted."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        if not self.cached_tokens:
            del fields["cached_tokens"]
        if self.first_token_s is None:
            del fields["first_token_s"]
        return fields

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "Usage":
        """Create the object from its dict; unknown fields are ignored."""
        fields = {name: payload[name] for name in cls.__slots__ if name in payload}
        for name in ("cost", "latency_s", "tries", "cached", "first_token_s"):
            if not isinstance(fields.get(name, 0), (int, float)):
                raise InvalidTypeError(f"{name} is {fields[name]!r:.80}; it must be a number")
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Reason why there is no answer.

    Examples
    --------
    >>> ErrorInfo("timeout", "no answer within 60 s", tries=5).to_dict()["kind"]
    'timeout'
    """

    kind: str
    """Kind of the error, as in `ModelError`: "timeout", "rate_limited", "server" …"""
    message: str
    """Error message, with lone surrogates replaced by the replacement character."""
    status: int | None = None
    """HTTP status code, if there was a response."""
    tries: int = 1
    retryable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", storable(self.message, "message"))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "ErrorInfo":
        """Create the object from its dict; unknown fields are ignored."""
        return cls(**{name: payload[name] for name in cls.__slots__ if name in payload})


def one(name: str, value: Any, other: str, alias: Any, default: Any = ABSENT) -> Any:
    """Return the value passed under either of two names."""
    if alias is ABSENT:  # fast path for the common case
        if value is not ABSENT:
            return value
        if default is ABSENT:
            raise InvalidInputError(f"`{name}` is missing")
        return default
    if value is not ABSENT and value != alias:
        raise InvalidInputError(f"`{name}` and `{other}` are the same field; pass only one")
    return alias


def count(name: str, value: Any, other: str, alias: Any) -> int | None:
    """Return the number of tokens passed under either of two names; None if unknown."""
    number = one(name, value, other, alias, None)
    if number is None or (type(number) is int and number >= 0):
        return number
    return validation.integer(number, name)


def storable(text: Any, name: str) -> str:
    """Return a string in storable form; raise an error if it is not a string."""
    if not isinstance(text, str):
        raise InvalidInputError(f"`{name}` is {text!r}; it must be a string")
    return whole_text(text)


def encoded_numbers(numbers: Iterable[float]) -> list[float | str]:
    """Encode log-probabilities as strict JSON; `Fields.from_dict` decodes them."""
    return [_NEGATIVE_INFINITY if number == -math.inf else number for number in numbers]


def _decoded_numbers(given: Any) -> Any:
    """Convert every ``"-inf"`` in numbers to a float."""
    if isinstance(given, Mapping):
        return dict(zip(given, _decoded_numbers(list(given.values())), strict=True))
    if not isinstance(given, list):
        return given
    return [-math.inf if value == _NEGATIVE_INFINITY else value for value in given]


class Fields:
    """Base class that provides equality, repr and JSON for fields with two names."""

    __slots__: tuple[str, ...] = ()
    prompt_tokens: int | None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict that `from_dict` accepts."""
        return {name: _json(getattr(self, name)) for name in self.__slots__}

    def model_dump(self) -> dict[str, Any]:
        """Return the result of `to_dict`; provided for compatibility with pydantic."""
        return self.to_dict()

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> Self:
        """Create the object from its dict, or from a dict of the published interface."""
        make: Any = cls
        answer: Self = make(**_read(payload))
        return answer

    prompt_sequence_positions = property(
        lambda self: self.prompt_tokens, doc="Tokens of the prompt."
    )


def _json(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return [_json(inner) for inner in value] if isinstance(value, tuple) else value


def _read(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a payload to constructor arguments."""
    given = dict(payload)
    for name, kind in (("usage", Usage), ("error", ErrorInfo)):
        value = given.get(name)
        if isinstance(value, Mapping):
            given[name] = kind.from_dict(value)
        elif value is not None and not isinstance(value, kind):
            raise InvalidTypeError(f"{name} is {value!r:.80}; it must be an object")
    if given.get("messages") is not None:
        given["messages"] = read_messages(given["messages"])
    if "loglikelihoods" in given:
        given["loglikelihoods"] = _decoded_numbers(given["loglikelihoods"])
    return given
