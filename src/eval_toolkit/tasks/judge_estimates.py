"""Estimation of the number and cost of a run's judge requests."""

from collections.abc import Sequence
from typing import Any

from eval_toolkit.graders.judges.requests import AskingGrader
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.measuring import built_responses
from eval_toolkit.tasks.planning import (
    CHARACTERS_PER_TOKEN,
    COUNTED,
    Estimate,
    request_text,
)

GUESSED_TOKENS = 256
"""Assumed number of tokens of an answer without a limit."""


def estimate_judges(
    task: BaseTask[Any],
    judges: Sequence[AskingGrader],
    planned: Estimate,
    *,
    limit: int | None = None,
    order: str = "shuffled",
) -> dict[str, dict[str, Any]]:
    """Estimate the requests, tokens and cost of a run's judges.

    Each judge has an entry with ``requests``, ``prompt_tokens``, ``completion_tokens`` (the
    maximum) and ``cost`` (None without prices). Answers are assumed to have their maximum length,
    or 256 tokens without a limit, and prompts to have one token per four characters. Pass
    ``judges`` as returned by `judges_in`.

    Examples
    --------
    >>> from eval_toolkit.graders import load_grader
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task, estimate
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
    ...     rows=[{"q": "2 + 2?", "a": "4"}])
    >>> judges = [load_grader("judge{model=scripted:yes}")]
    >>> estimate_judges(task, judges, estimate(task))["correctness"]["requests"]
    1
    """
    if not judges:
        return {}
    samples = task.samples(limit, order=order)
    some = samples[:: max(1, len(samples) // COUNTED)][:COUNTED]
    each = planned.completion_tokens or 0
    length = each // max(1, planned.n_requests) or GUESSED_TOKENS
    completion = RawCompletion("x" * (length * CHARACTERS_PER_TOKEN))
    answered = [JobResult(Job(sample.id, 1, GenerateRequest("")), completion) for sample in some]
    responses = built_responses(task, some, answered).values()
    found: dict[str, dict[str, Any]] = {}
    for judge in judges:
        requests = [one for response in responses for one in judge.requests(response).values()]
        scale = planned.n_requests / max(1, len(some))
        read = sum(-(-len(request_text(one)) // CHARACTERS_PER_TOKEN) for one in requests) * scale
        written = sum(one.max_tokens or GUESSED_TOKENS for one in requests) * scale
        prices = getattr(judge.asked, "prices", None)
        found[judge.name] = {
            "requests": round(len(requests) * scale),
            "prompt_tokens": round(read),
            "completion_tokens": round(written),
            "cost": None if prices is None else (read * prices[0] + written * prices[1]) / 1e6,
        }
    return found
