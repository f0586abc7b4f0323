"""Token counts, cost and latency of answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Total requests and usage of a model.

    Examples
    --------
    >>> Totals(n_requests=2, n_answers=1, n_failures=1).to_dict()["n_failures"]
    1
    """

    n_requests: int = 0
    """Number of requests sent, including retries."""
    n_answers: int = 0
    n_failures: int = 0
    """Number of failed attempts."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    latency_s: float = 0.0
    """Total latency of the answers in seconds."""
    in_flight: int = 0
    limit: int = 0
    """Current concurrency limit."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


class Tokens(NamedTuple):
    """Token counts of an answer; None if unknown."""

    prompt: int | None = None
    completion: int | None = None
    """Generated tokens, including reasoning."""
    cached: int = 0
    """Cached prompt tokens, included in the prompt tokens."""
    reasoning: int = 0
    """Reasoning tokens, included in the completion tokens."""


class Reply(Generic[T]):
    """Parsed answer with its usage."""

    __slots__ = ("first_token_s", "latency_s", "tokens", "tries", "value")

    def __init__(self, value: T, tokens: "Tokens", latency_s: float) -> None:
        self.value = value
        self.tokens = tokens
        self.latency_s = latency_s
        self.tries = 1
        self.first_token_s: float | None = None
        """Seconds until the first text, if the answer was streamed."""


def read_usage(payload: Mapping[str, Any]) -> Tokens:
    """Read the token counts of prompt and answer from a response.

    Answer tokens include reasoning tokens, even if the server adds these only to its total.
    """
    usage = payload.get("usage")
    if type(usage) is not dict:
        return Tokens()
    given, generated = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    total = count(usage.get("total_tokens"))
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    cached = cached or count(usage.get("prompt_cache_hit_tokens")) or 0  # DeepSeek
    if given is not None and generated is not None and total == given + generated + reasoning:
        generated += reasoning
    return Tokens(given, generated, min(cached, given or 0), min(reasoning, generated or 0))


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    return (count(details.get(name)) if type(details) is dict else None) or 0


def count(given: Any) -> int | None:
    """Return a token count; None if it is invalid."""
    return given if type(given) is int and 0 <= given < 1 << 53 else None
