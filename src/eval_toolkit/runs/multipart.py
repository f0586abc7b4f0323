"""Combine several requests into one answer per attempt."""

from collections.abc import Iterable, Sequence
from typing import Any

from eval_toolkit.models.responses import RawLoglikelihood, Usage
from eval_toolkit.models.runner import Job, JobResult

PART = "part:"
"""Prefix of the step of a partial request, followed by its number."""


def joined(outcomes: Iterable[JobResult]) -> dict[tuple[str, int], JobResult]:
    """Combine partial outcomes into one answer per sample and attempt.

    Outcomes with a step ``part:<number>`` are combined by concatenating their numbers, or into the
    error of the first failed part. Outcomes with any other step are ignored.

    Examples
    --------
    >>> from eval_toolkit.models.requests import LoglikelihoodRequest
    >>> parts = [
    ...     JobResult(
    ...         Job("q1", 1, LoglikelihoodRequest(text, (" fits.",)), f"part:{at}"),
    ...         RawLoglikelihood([number], [" fits."]),
    ...     )
    ...     for at, (text, number) in enumerate([("The trophy", -3.0), ("The box", -1.0)])
    ... ]
    >>> joined(parts)["q1", 1].response.loglikelihoods
    [-3.0, -1.0]
    """
    whole: dict[tuple[str, int], JobResult] = {}
    parts: dict[tuple[str, int], list[JobResult]] = {}
    for outcome in outcomes:
        job = outcome.job
        if not job.step:
            whole[job.unit_id, job.attempt] = outcome
        elif job.step.startswith(PART):
            parts.setdefault((job.unit_id, job.attempt), []).append(outcome)
    return whole | {key: _together(found) for key, found in parts.items()}


def _together(found: Sequence[JobResult]) -> JobResult:
    """Combine the parts of an attempt into one outcome, with the request of the first part."""
    parts = sorted(found, key=lambda part: int(part.job.step.removeprefix(PART)))
    first = parts[0]
    job = Job(first.job.unit_id, first.job.attempt, first.job.request)
    for part in parts:
        error = part.error or getattr(part.response, "error", None)
        if error is not None:
            return JobResult(job, error=error, reused=part.reused)
    answers: list[Any] = [part.response for part in parts]
    usages = [answer.usage for answer in answers]
    response = RawLoglikelihood(
        [number for answer in answers for number in answer.loglikelihoods],
        [
            text
            for part, answer in zip(parts, answers, strict=True)
            for text in answer.choices or part.job.request.continuations  # type: ignore[union-attr]
        ],
        n_tokens=_all_of(answers, "n_tokens"),
        is_greedy=_all_of(answers, "is_greedy"),
        prompt=answers[0].prompt,
        prompt_tokens=answers[0].prompt_tokens,
        usage=Usage(
            prompt_tokens=sum(usage.prompt_tokens for usage in usages),
            completion_tokens=sum(usage.completion_tokens for usage in usages),
            cost=sum(usage.cost for usage in usages),
            latency_s=sum(usage.latency_s for usage in usages),
            tries=max(usage.tries for usage in usages),
            cached=all(usage.cached for usage in usages),
        ),
    )
    return JobResult(job, response, reused=all(part.reused for part in parts))


def _all_of(answers: Sequence[Any], name: str) -> list[Any] | None:
    """Concatenate a field of every answer over its choices; None if an answer lacks it."""
    fields = [getattr(answer, name) for answer in answers]
    if any(values is None for values in fields):
        return None
    return [value for values in fields for value in values]
