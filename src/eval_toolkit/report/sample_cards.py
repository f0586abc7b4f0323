"""One sample of a task as a page shows it: what was asked, what was answered, what it came to."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from eval_toolkit._words import number
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.choices import softmax
from eval_toolkit.judges.asking import apart, judge_of
from eval_toolkit.report.picking import outcomes_of_units
from eval_toolkit.requests import LoglikelihoodRequest
from eval_toolkit.responses import REASONING_TAGS, RawCompletion, RawLoglikelihood
from eval_toolkit.responses.reasoning import Tags
from eval_toolkit.runner import JobResult
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import is_text
from eval_toolkit.tasks.joining import joined
from eval_toolkit.tasks.references import Reference, references_of

__all__ = ["cards_at"]

MAX_CHOICES = 8
_SHOWN_OF_A_CHOICE = 300
_SAME = 1e-9
"""Numbers that differ by less are one: bits and log-likelihoods are each other's multiples."""


def cards_at(run: Run, records: Records, places: Iterable[int]) -> list[dict[str, Any]]:
    """Return the samples at some places of the records, each with all that is known about it.

    Parameters
    ----------
    run : Run
        Of a task.
    records : Records
        Of the run.
    places : iterable of int
        In the order in which they are wanted.

    Returns
    -------
    list of dict
        For the template ``sample_card.html``.
    """
    chosen = list(places)
    units = [str(records.unit_id[at]) for at in chosen]
    try:
        outcomes = outcomes_of_units(run, units)
    except ArtifactError:  # a run without responses still has grades
        outcomes = []
    try:
        references = references_of(run, units)
    except ArtifactError:
        references = {}
    answers, verdicts = apart(outcomes)
    found = joined(answers)
    asked: dict[tuple[str, int], list[JobResult]] = {}
    for outcome in answers:
        asked.setdefault((outcome.job.unit_id, outcome.job.attempt), []).append(outcome)
    judged: dict[tuple[str, int], list[JobResult]] = {}
    for outcome in verdicts:
        judged.setdefault((outcome.job.unit_id, outcome.job.attempt), []).append(outcome)
    task = (run.manifest.get("config") or {}).get("task")
    tags = task.get("reasoning_tags", REASONING_TAGS) if isinstance(task, dict) else REASONING_TAGS
    cards = []
    for at in chosen:
        key = (str(records.unit_id[at]), int(records.attempt[at]))
        card = _card(records, at, found.get(key), asked.get(key, []), judged.get(key, []))
        answer = found.get(key)
        cards.append(card | _answers(records, at, answer, references.get(key[0]), tags))
    return cards


def _card(
    records: Records,
    at: int,
    answer: JobResult | None,
    asked: Sequence[JobResult],
    judged: Sequence[JobResult],
) -> dict[str, Any]:
    several = len(records.attempt) > 1 and int(records.attempt.max()) > 1
    return {
        "unit": str(records.unit_id[at]),
        "attempt": int(records.attempt[at]) if several else None,
        "parts": [f"{name}: {values[at]}" for name, values in records.slices.items()],
        "prompts": [_prompt(outcome) for outcome in asked],
        "error": _error(answer),
        "grades": list(_grades(records, at)),
        "verdicts": [_verdict(outcome) for outcome in judged],
        "facts": _facts(answer, asked),
    }


def _answers(
    records: Records, at: int, answer: JobResult | None, reference: Reference | None, tags: Tags
) -> dict[str, Any]:
    """Return what was thought and answered, and what would have been right."""
    response = None if answer is None else answer.response
    scored = response if isinstance(response, RawLoglikelihood) else None
    known = None if reference is None else reference.correct
    choices = None if scored is None else _choices(records, at, answer, scored, known)
    text = None if reference is None else reference.text
    parts = response.parts(tags) if isinstance(response, RawCompletion) else None
    return {
        "choices": choices,
        "text": None if parts is None else parts.answer,
        "reasoning": None if parts is None else parts.reasoning or None,
        "cut_off": parts is not None and parts.cut_off,
        "finish": getattr(response, "finish_reason", None),
        "reference": None if choices is not None and text in choices["told"] else text,
        "referenced": text is not None,
    }


def _prompt(outcome: JobResult) -> dict[str, Any]:
    """Return a prompt as it was sent, and as the model was shown it where that differs."""
    request = outcome.job.request
    prompt = request.prompt
    turns = (
        [{"role": "", "text": prompt}]
        if isinstance(prompt, str)
        else [{"role": str(turn.role.value), "text": turn.content} for turn in prompt]
    )
    shown = getattr(outcome.response, "prompt", "")
    rendered = shown if isinstance(shown, str) and shown != prompt else ""
    return {"turns": turns, "rendered": rendered, "params": _params(request)}


def _params(request: Any) -> str:
    """Return how an answer was asked for."""
    if isinstance(request, LoglikelihoodRequest):
        return "the likelihood of whole texts" if request.rolling else ""
    told = {name: value for name, value in request.to_dict().items() if value not in (None, [])}
    shown = ("max_tokens", "temperature", "top_p", "stop", "seed")
    return ", ".join(f"{name} {told[name]!r}" for name in shown if name in told)


def _error(answer: JobResult | None) -> str:
    if answer is None:
        return ""
    error = answer.error or getattr(answer.response, "error", None)
    return "" if error is None else f"{error.kind}: {error.message}"


def _grades(records: Records, at: int) -> Iterator[dict[str, Any]]:
    """Yield the grades; columns without one for the same reason share a line."""
    absent: dict[tuple[str, str], list[str]] = {}
    for name, values in records.columns.items():
        status = str(records.status[name][at])
        reason = str(records.reason[name][at]) if name in records.reason else ""
        if status == "ok":
            value = values[at] if is_text(values) else f"{float(values[at]):.4g}"
            yield {"names": [name], "status": status, "value": value, "reason": reason}
        else:
            absent.setdefault((status, reason), []).append(name)
    for (status, reason), names in absent.items():
        yield {"names": names, "status": status, "value": None, "reason": reason}


def _verdict(outcome: JobResult) -> dict[str, Any]:
    name = judge_of(outcome.job.step) or ""
    vote = outcome.job.step.removeprefix(f"judge:{name}").strip(":")
    return {
        "judge": f"{name}, vote {vote}" if vote else name,
        "text": getattr(outcome.response, "text", "") if outcome.ok else "",
        "error": _error(outcome),
        "prompt": _prompt(outcome),
    }


def _facts(answer: JobResult | None, asked: Sequence[JobResult]) -> list[str]:
    """Return what an answer took."""
    usage = getattr(None if answer is None else answer.response, "usage", None)
    if usage is None:
        return []
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
    facts = [tokens] if usage.total_tokens else []
    facts += [f"{usage.latency_s:.2f} s"] if usage.latency_s else []
    facts += [f"cost {usage.cost:.4g}"] if usage.cost else []
    facts += [f"{usage.tries} tries"] if usage.tries > 1 else []
    facts += ["from the cache"] if usage.cached else []
    facts += [f"{len(asked)} requests"] if len(asked) > 1 else []
    return facts


# --- choices --------------------------------------------------------------------------------------


def _choices(
    records: Records,
    at: int,
    answer: JobResult | None,
    response: RawLoglikelihood,
    known: Sequence[int] | None,
) -> dict[str, Any]:
    """Return the choices with their log-likelihoods; which was taken, and which were right."""
    numbers = list(response.loglikelihoods)
    request = None if answer is None else answer.job.request
    texts = list(response.choices) or list(getattr(request, "continuations", ()))
    shares = softmax(numbers)
    chosen = _value(records, "choice", at)
    best = max(range(len(numbers)), key=numbers.__getitem__) if numbers else None
    taken = best if chosen is None else int(chosen)
    right = _all_right(records, at, numbers, taken, known)
    ranked = sorted(range(len(numbers)), key=lambda place: -numbers[place])
    likely = [place for place in ranked if place in right][:MAX_CHOICES]
    shown = {*ranked[:MAX_CHOICES], *likely, *([] if taken is None else [taken])}
    listed: list[dict[str, Any]] = [
        {
            "text": texts[place] if place < len(texts) else "",
            "number": "impossible" if math.isinf(numbers[place]) else f"{numbers[place]:.2f}",
            "share": number(shares[place], digits=2),
            "width": round(100 * shares[place], 1),
            "taken": place == taken and len(numbers) > 1,
            "right": place in right and len(numbers) > 1,
        }
        for place in range(len(numbers))
        if place in shown
    ]
    return {
        "listed": listed,
        "more": len(numbers) - len(listed),
        "right_known": bool(right),
        "several": len(numbers) > 1,
        "taken": texts[taken] if taken is not None and taken < len(texts) else None,
        "right": " or ".join(one["text"] for one in listed if one["right"]) or None,
        "missed": bool(right) and taken not in right,
        "told": _told([texts[place] for place in sorted(right) if place < len(texts)]),
    }


def _told(right: Sequence[str]) -> Collection[str]:
    """Return the reference that the marks say already: that of one choice which is shown whole."""
    return {right[0]} if len(right) == 1 and len(right[0]) <= _SHOWN_OF_A_CHOICE else ()


def _all_right(
    records: Records,
    at: int,
    numbers: Sequence[float],
    taken: int | None,
    known: Sequence[int] | None,
) -> set[int]:
    """Return which choices are right: as the run stores it, else as far as the grades tell."""
    if known is not None:
        return {place for place in known if place < len(numbers)}
    inferred = _right(records, at, numbers, taken)
    return set() if inferred is None else {inferred}


def _value(records: Records, name: str, at: int) -> float | None:
    if name not in records.columns or records.status[name][at] != "ok":
        return None
    return float(records.columns[name][at])


def _right(records: Records, at: int, numbers: Sequence[float], taken: int | None) -> int | None:
    """Return which choice is right where the grades tell, for runs without references.

    The choice that was taken where it counts as right; else the one whose log-likelihood is that of
    the reference, which ``bits`` holds; of two choices the other one.
    """
    accuracy = _value(records, "accuracy", at)
    if accuracy is None or taken is None:
        return None
    if accuracy == 1.0:
        return taken
    if len(numbers) == 2:
        return 1 - taken
    bits = _value(records, "bits", at)
    if bits is None:
        return None
    wanted = -bits * math.log(2.0)
    same = [
        place
        for place, value in enumerate(numbers)
        if place != taken and math.isclose(value, wanted, rel_tol=_SAME, abs_tol=_SAME)
    ]
    return same[0] if len(same) == 1 else None
