"""How much may be asked in a run, and what an answer took of it."""

from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal import validation

__all__ = ["Budget", "tokens_of"]


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be asked, of testers and targets together.

    The first requests of a depth are asked, in the order of the seeds; what the budget does not
    allow is skipped and counted. Answers that were there already count like new ones, so that a
    run that was interrupted ends where it would have ended.

    Parameters
    ----------
    calls : int, optional
        Requests.
    tokens : int, optional
        Total tokens of prompts and answers; no request is begun once they are used up. They are
        counted after every few requests, as many as fit by what those before took, and 64 at most:
        the last few may go beyond.

    Raises
    ------
    InvalidInputError
        If one is below 1.

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
        """Return plain JSON types."""
        return {"calls": self.calls, "tokens": self.tokens}


def tokens_of(response: Any) -> int | None:
    """Return how many tokens prompt and answer have, None where it does not say."""
    usage = response.usage
    prompt = usage.prompt_tokens or response.prompt_tokens
    answer = usage.completion_tokens or getattr(response, "completion_tokens", None)
    return None if prompt is None and answer is None else (prompt or 0) + (answer or 0)
