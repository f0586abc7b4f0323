"""What requests came to: how many were asked, reused, cached and failed, and what they took."""

from collections.abc import Iterable, Sequence
from typing import Any

from eval_toolkit.runner.jobs import Outcome

__all__ = ["counts_of"]


def counts_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return how many requests were asked, reused, cached and failed, and what they took."""
    new = [outcome for outcome in outcomes if not outcome.reused]
    asked = [outcome for outcome in new if not _is_cached(outcome)]
    return {
        "n_requests": len(outcomes),
        "n_asked": len(asked),
        "n_reused": len(outcomes) - len(new),
        "n_cached": len(new) - len(asked),
        "n_failed_requests": sum(not outcome.ok for outcome in outcomes),
        "usage": _usage(outcomes),
        "usage_now": _usage(asked),
    }


def _is_cached(outcome: Outcome) -> bool:
    return outcome.response is not None and outcome.response.usage.cached


def _usage(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the sums over all answers."""
    total = {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0, "n_cached": 0, "n_retries": 0}
    for outcome in outcomes:
        response = outcome.response
        if response is None:
            continue
        usage = response.usage
        total["prompt_tokens"] += usage.prompt_tokens or response.prompt_tokens or 0
        total["completion_tokens"] += (
            usage.completion_tokens or getattr(response, "completion_tokens", 0) or 0
        )
        total["cost"] += usage.cost
        total["n_cached"] += usage.cached
        total["n_retries"] += max(0, usage.tries - 1)
    return total
