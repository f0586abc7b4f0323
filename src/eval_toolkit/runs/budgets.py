"""Limits on the number of requests and tokens."""

from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal import validation


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on requests to testers and targets.

    Requests at the same depth are sent in seed order; requests beyond the budget are skipped and
    counted. Existing answers count like new ones, so that a resumed run ends at the same point as
    an uninterrupted one.

    Parameters
    ----------
    calls : int, optional
        Maximum number of requests.
    tokens : int, optional
        Maximum number of prompt and answer tokens. Usage is checked after at most 64 requests, so
        the last requests may exceed the limit.

    Raises
    ------
    InvalidInputError
        If a limit is below 1.

    Examples
    --------
    >>> Budget(calls=100).tokens is None
    True
    """

    calls: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, validation.integer(value, name, low=1))

    def to_dict(self) -> dict[str, int | None]:
        """Return a JSON-serialisable dict."""
        return {"calls": self.calls, "tokens": self.tokens}


def tokens_of(response: Any) -> int | None:
    """Return the number of prompt and answer tokens; None if unknown."""
    usage = response.usage
    prompt = usage.prompt_tokens or response.prompt_tokens
    answer = usage.completion_tokens or getattr(response, "completion_tokens", None)
    return None if prompt is None and answer is None else (prompt or 0) + (answer or 0)
