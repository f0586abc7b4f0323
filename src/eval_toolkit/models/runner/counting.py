"""Counts of requests and their usage."""

from collections.abc import Iterable, Sequence
from typing import Any

from eval_toolkit.models.responses import REASONING_TAGS, RawCompletion
from eval_toolkit.models.responses.reasoning import Tags
from eval_toolkit.models.runner.jobs import JobResult


def counts_of(outcomes: Sequence[JobResult], tags: Tags = REASONING_TAGS) -> dict[str, Any]:
    """Return the numbers of sent, reused, cached and failed requests, and their usage.

    ``usage`` counts all answers, and ``usage_now`` those requested in this run; without prices
    their ``cost`` is None. If there is
    reasoning between ``tags``, both have ``reasoning_tokens``, which are part of ``completion_tokens``.

    Examples
    --------
    >>> counts_of([])["usage"]["completion_tokens"]
    0
    """
    new = [outcome for outcome in outcomes if not outcome.reused]
    asked = [one for one in new if one.response is None or not one.response.usage.cached]
    usage, usage_now = _usage(outcomes, tags), _usage(asked, tags)
    if not usage["cost"]:
        usage["cost"] = usage_now["cost"] = None
    return {
        "n_requests": len(outcomes),
        "n_asked": len(asked),
        "n_reused": len(outcomes) - len(new),
        "n_cached": len(new) - len(asked),
        "n_failed_requests": sum(not outcome.ok for outcome in outcomes),
        "usage": usage,
        "usage_now": usage_now,
    }


def _usage(outcomes: Iterable[JobResult], tags: Tags) -> dict[str, Any]:
    """Return the total usage of all answers."""
    reasoning = 0
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
        if isinstance(response, RawCompletion):
            reasoning += response.parts(tags).tokens or 0
    return {**total, "reasoning_tokens": reasoning} if reasoning else total
