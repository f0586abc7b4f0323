"""Requests to models, for generation and log-likelihoods.

A request contains exactly those settings that may change the answer, so its fingerprint identifies
it in caches, journals and replays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import Message, read_messages

__all__ = ["GenerateRequest", "LoglikelihoodRequest", "Request", "request_hash"]

Prompt: TypeAlias = str | tuple[Message, ...]


def _prompt(given: Any) -> Prompt:
    if isinstance(given, str):
        return given
    if not isinstance(given, Iterable):
        raise InvalidTypeError(f"`prompt` is {given!r}; it must be a string or messages")
    messages = read_messages(given)
    if not messages:
        raise InvalidInputError("`prompt` is empty; pass a string or at least one message")
    return messages


def _prompt_json(prompt: Prompt) -> Any:
    if isinstance(prompt, str):
        return prompt
    return [[message.role.value, message.content] for message in prompt]


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Request to continue a conversation or a string.

    Parameters
    ----------
    prompt : str or sequence of Message
        String to continue, or a conversation. A final assistant message is a cue that the answer
        continues.
    max_tokens : int, optional
        Maximum number of tokens; by default, the model's limit.
    temperature : float or None, default 0.0
        Sampling temperature; 0 is greedy decoding. None uses the server's default; in-process
        models then decode greedily.
    top_p : float, optional
        Nucleus sampling probability.
    stop : tuple of str
        Stop strings, which are not part of the answer.
    seed : int, optional
        Random seed, if the model supports it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument has the wrong type or is out of range.

    Examples
    --------
    >>> GenerateRequest("2 + 2 =", max_tokens=4).fingerprint[:8]
    '4eec9ea7'
    """

    prompt: Prompt
    max_tokens: int | None = None
    temperature: float | None = 0.0
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", _prompt(self.prompt))
        object.__setattr__(self, "stop", _texts(self.stop, "stop"))
        if "" in self.stop:
            raise InvalidInputError(
                f"stop[{self.stop.index('')}] is empty; it would end every answer immediately"
            )
        if self.max_tokens is not None:
            limit = validation.integer(self.max_tokens, "max_tokens", low=1)
            object.__setattr__(self, "max_tokens", limit)
        if self.temperature is not None:
            heat = _number(self.temperature, "temperature", low=0.0)
            object.__setattr__(self, "temperature", heat)
        if self.top_p is not None:
            share = _number(self.top_p, "top_p", low=0.0, high=1.0, include_low=False)
            object.__setattr__(self, "top_p", share)
        if self.seed is not None:
            object.__setattr__(self, "seed", validation.integer(self.seed, "seed"))

    @property
    def heat(self) -> float:
        """Temperature for models that have no default: 0 unless it is set."""
        return self.temperature or 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return all fields that determine the answer, as a JSON-serialisable dict."""
        return {
            "kind": "generate",
            "prompt": _prompt_json(self.prompt),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "stop": list(self.stop),
            "seed": self.seed,
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 hash of the request."""
        return sha256_text(canonical_json(self.to_dict()))


@dataclass(frozen=True, slots=True)
class LoglikelihoodRequest:
    """Request for the log-likelihoods of continuations of one prompt.

    Parameters
    ----------
    prompt : str or sequence of Message
        Context; must be "" with ``rolling``.
    continuations : tuple of str
        Strings to score independently, each including its leading space, if any.
    rolling : bool, default False
        Whether to score whole documents from their first token, in windows if they exceed the
        context length.

    Examples
    --------
    >>> LoglikelihoodRequest("The capital of Italy is", (" Rome", " Madrid")).rolling
    False
    """

    prompt: Prompt
    continuations: tuple[str, ...]
    rolling: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", _prompt(self.prompt))
        object.__setattr__(self, "continuations", _texts(self.continuations, "continuations"))
        if not self.continuations:
            raise InvalidInputError("`continuations` is empty; there is nothing to score")
        if "" in self.continuations:
            at = self.continuations.index("")
            raise InvalidInputError(
                f"continuations[{at}] is empty; pass a non-empty string to score"
            )
        if self.rolling and self.prompt != "":
            raise InvalidInputError("rolling log-likelihoods take no prompt; pass prompt=''")

    def to_dict(self) -> dict[str, Any]:
        """Return all fields that determine the answer, as a JSON-serialisable dict."""
        return {
            "kind": "loglikelihood",
            "prompt": _prompt_json(self.prompt),
            "continuations": list(self.continuations),
            "rolling": self.rolling,
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 hash of the request."""
        return sha256_text(canonical_json(self.to_dict()))


Request: TypeAlias = GenerateRequest | LoglikelihoodRequest


def _number(value: Any, name: str, **limits: Any) -> float:
    """Validate a finite number; booleans are rejected."""
    if isinstance(value, bool):
        raise InvalidTypeError(f"`{name}` must be a number, got {value!r}")
    return validation.number(value, name, **limits)


def _texts(given: Iterable[str] | str, name: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidInputError(f"`{name}` is a single string; pass a sequence of strings")
    if not isinstance(given, Iterable):
        raise InvalidTypeError(f"`{name}` is {given!r}; pass a sequence of strings")
    texts = tuple(given)
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(f"{name}[{at}] is {text!r}; it must be a string")
    return texts


def request_hash(request: Request, model: Mapping[str, Any] | str) -> str:
    """Return a hash that identifies a request to a model.

    Parameters
    ----------
    request : GenerateRequest or LoglikelihoodRequest
        Request to hash.
    model : mapping or str
        Result of ``Model.describe()``, or its canonical JSON.

    Returns
    -------
    str
        SHA-256 hash.

    Examples
    --------
    >>> request = GenerateRequest("Hello")
    >>> request_hash(request, {"kind": "a"}) == request_hash(request, {"kind": "b"})
    False
    """
    identity = model if isinstance(model, str) else canonical_json(model)
    return sha256_text(f"{identity}\n{canonical_json(request.to_dict())}")
