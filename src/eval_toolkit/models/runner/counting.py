"""Counts of requests, and their usage."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval_toolkit.models.payloads import Response
from eval_toolkit.models.responses import REASONING_TAGS, RawCompletion
from eval_toolkit.models.responses.reasoning import Tags
from eval_toolkit.models.runner.jobs import JobResult

CUT_REASONS = {
    "length": "at the token limit",
    "model_length": "at the context length",
    "max_tokens": "at the token limit",
    "content_filter": "by a content filter",
}
"""Finish reasons of truncated answers."""
_NOTED = 0.01
"""Minimum share of truncated answers for a note."""


def cut_answers(outcomes: Iterable[JobResult]) -> dict[str, int]:
    """Return the number of truncated answers by finish reason, and of empty answers.

    Examples
    --------
    >>> from eval_toolkit.models.requests import GenerateRequest
    >>> from eval_toolkit.models.runner.jobs import Job
    >>> raw = RawCompletion("", finish_reason="length")
    >>> cut_answers([JobResult(Job("q", 1, GenerateRequest("?")), raw, None, False)])
    {'length': 1, 'empty': 1}
    """
    found = Counter[str]()
    for outcome in outcomes:
        reply = outcome.response
        reason = reply.finish_reason if isinstance(reply, RawCompletion) else None
        if reason in CUT_REASONS:
            found[str(reason)] += 1
            found["empty"] += not reply.text.strip()  # type: ignore[union-attr]
    return {name: found[name] for name in (*CUT_REASONS, "empty") if found[name]}


def cut_notes(cut: Mapping[str, int], total: int) -> list[str]:
    """Return a note on truncated answers if there are more than 1 %.

    Examples
    --------
    >>> cut_notes({"length": 5, "empty": 2}, 100)
    ['5 of 100 answers were truncated: 5 at the token limit; 2 are empty and graded as such; raise
    max_tokens']
    """
    n = sum(number for name, number in cut.items() if name != "empty")
    if n <= _NOTED * total:
        return []
    how = ", ".join(f"{cut[name]:,} {cause}" for name, cause in CUT_REASONS.items() if name in cut)
    empty = f"; {cut['empty']:,} are empty and graded as such" if "empty" in cut else ""
    advice = "" if set(cut) <= {"content_filter", "empty"} else "; raise max_tokens"
    return [f"{n:,} of {total:,} answers were truncated: {how}{empty}{advice}"]


def counts_of(outcomes: Sequence[JobResult], tags: Tags = REASONING_TAGS) -> dict[str, Any]:
    """Count sent, reused, cached and failed requests, and add up their usage.

    Tokens are counted as in `Usage`. ``usage`` covers all answers, and ``usage_now`` those
    requested in this run; without prices, their ``cost`` is None. If there are any, both include
    ``cached_tokens``, which are part of ``prompt_tokens``, and ``reasoning_tokens`` (between
    ``tags`` or as counted by the server), which are part of ``completion_tokens``.

    Examples
    --------
    >>> counts_of([])["usage"]["completion_tokens"]
    0
    """
    n = Counter[str]()
    total, now = dict(_NO_USAGE), dict(_NO_USAGE)
    for outcome in outcomes:
        response = outcome.response  # read only once: it may be on disk
        told = None if response is None else _usage(response, tags)
        cached = told is not None and bool(told["n_cached"])
        source = "n_reused" if outcome.reused else "n_cached" if cached else "n_asked"
        n[source] += 1
        n["n_failed_requests"] += response is None
        for name, number in (told or {}).items():
            total[name] += number
            now[name] += number if source == "n_asked" else 0
    usage, usage_now = (
        {name: number for name, number in sums.items() if number or name not in _IF_ANY}
        for sums in (total, now)
    )
    if not usage["cost"]:
        usage["cost"] = usage_now["cost"] = None
    return {
        "n_requests": len(outcomes),
        **{name: n[name] for name in ("n_asked", "n_reused", "n_cached", "n_failed_requests")},
        "usage": usage,
        "usage_now": usage_now,
    }


_NO_USAGE: Mapping[str, Any] = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "cost": 0.0,
    "n_cached": 0,
    "n_retries": 0,
    "cached_tokens": 0,
    "reasoning_tokens": 0,
}
_IF_ANY = ("cached_tokens", "reasoning_tokens")


def _usage(response: Response, tags: Tags) -> dict[str, Any]:
    """Return the usage of one answer."""
    usage, is_text = response.usage, isinstance(response, RawCompletion)
    completed = usage.completion_tokens or getattr(response, "completion_tokens", 0) or 0
    return {
        "prompt_tokens": usage.prompt_tokens or response.prompt_tokens or 0,
        "completion_tokens": completed,
        "cost": usage.cost,
        "n_cached": int(usage.cached),
        "n_retries": max(0, usage.tries - 1),
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": (response.parts(tags).tokens or 0) if is_text else 0,  # type: ignore[union-attr]
    }
