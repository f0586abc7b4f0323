"""Display of a sample: prompt, choices or answer, reference and verdicts."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval_toolkit.graders.choices import softmax
from eval_toolkit.models.responses import REASONING_TAGS, RawCompletion, RawLoglikelihood
from eval_toolkit.models.runner import JobResult
from eval_toolkit.runs.blocks import Block, Choice, Choices, Group, Note, Text
from eval_toolkit.runs.multipart import PART, joined
from eval_toolkit.runs.selected_units import StoredRequest, StoredUnit
from eval_toolkit.runs.unit_display import (
    asked_of,
    error_of,
    facts_of,
    hidden_requests,
    input_blocks,
    prompt_blocks,
    request_group,
    verdicts,
)
from eval_toolkit.tasks.references import Reference, references_of

MAX_CHOICES = 8
"""Maximum number of choices on a card; a separate page shows all choices."""
_SHOWN_OF_A_CHOICE = 300
_SAME = 1e-9
"""Relative tolerance for comparing log-likelihoods, which may have been converted from bits."""


def sample_blocks(unit: StoredUnit) -> list[Block]:
    """Return the display blocks of a sample: request, answer, reference and verdicts of judges.

    Several requests that together form an answer are shown as a single answer.
    """
    asked = asked_of(unit)
    own = [one for one in asked if _is_answer(one)]
    outcomes = [one.outcome for one in own if one.outcome is not None]
    answer = next(iter(joined(outcomes).values()), None)
    reference = unit.of_all(references_of)
    choices = None if answer is None else _choices(unit, answer, reference)
    if len(outcomes) > 1 and answer is not None and error_of(answer):
        blocks = list(_apart(outcomes, reference))
    else:
        blocks = [*_prompts(outcomes), *_answered(unit, answer, choices, len(outcomes))]
    blocks += [request_group(one) for one in asked if one not in own or one.outcome is None]
    text = None if reference is None else reference.text
    # A card marks a single short correct choice, so its reference text would be redundant.
    told = choices is not None and not unit.whole and text in _redundant_reference(choices)
    right = [Text(text, "Reference", "reference")] if text is not None and not told else []
    return [
        *input_blocks(unit, "Question" if asked else "Row"),
        *([Group("Requests and answers", tuple(blocks))] if blocks else []),
        *([Group("Expected answer", tuple(right))] if right else []),
        *verdicts(unit),
        *hidden_requests(unit),
    ]


def _is_answer(request: StoredRequest) -> bool:
    return not request.step or request.step.startswith(PART)


def _prompts(outcomes: Sequence[JobResult]) -> list[Block]:
    """Return the blocks of the prompts; only the first prompt is expanded."""
    if len(outcomes) < 2:
        return [block for outcome in outcomes for block in prompt_blocks(outcome)]
    return [
        Group(f"Request {at} of {len(outcomes)}", tuple(prompt_blocks(outcome)), folded=at > 1)
        for at, outcome in enumerate(outcomes, 1)
    ]


def _answered(
    unit: StoredUnit, answer: JobResult | None, choices: Choices | None, n: int
) -> list[Block]:
    """Return the blocks of an answer: choices, or reasoning and text, with its usage."""
    if answer is None:
        return []
    requests = [("requests", f"{n:,}")] if n > 1 else []
    blocks: list[Block] = facts_of(answer, requests, ended=False)  # the answer's title shows it
    blocks += [] if choices is None else [choices]
    error = error_of(answer)
    blocks += [Note(error, "error")] if error else []
    response = answer.response
    if not isinstance(response, RawCompletion):
        return blocks
    task = unit.config.get("task")
    tags = task.get("reasoning_tags", REASONING_TAGS) if isinstance(task, Mapping) else None
    parts = response.parts(REASONING_TAGS if tags is None else tags)
    if parts.reasoning:
        inside = (Text(parts.reasoning, "Reasoning"),)
        blocks.append(Group("Reasoning (not graded)", inside, folded=True))
    if parts.cut_off:
        blocks.append(Note("No answer: the reply ends inside its reasoning.", "error"))
    finish = response.finish_reason
    title = f"Answer, ended by {finish}" if finish else "Answer"
    blocks.append(Text(parts.answer, title, "answer"))
    return [*blocks, Note("The answer is empty.")] if not parts.answer else blocks


def _apart(outcomes: Sequence[JobResult], reference: Reference | None) -> Iterator[Block]:
    """Yield the requests of an attempt individually, because some of them failed."""
    for outcome, right in right_by_part(outcomes, reference):
        blocks = [*prompt_blocks(outcome), *facts_of(outcome)]
        response, error = outcome.response, error_of(outcome)
        if isinstance(response, RawLoglikelihood):
            blocks.append(_listed(outcome, response, None, right, range(len(response.choices))))
        blocks += [Note(error, "error")] if error else []
        yield Group(outcome.job.step, tuple(blocks))


def right_by_part(
    outcomes: Sequence[JobResult], reference: Reference | None
) -> list[tuple[JobResult, set[int]]]:
    """Return each request with the indices of its correct choices, relative to its part."""
    known = () if reference is None else reference.correct or ()
    sizes = [len(getattr(one.job.request, "continuations", ())) for one in outcomes]
    if sum(sizes) < 2:
        known = ()
    begins: dict[int, int] = {}
    before = 0
    for at in sorted(range(len(outcomes)), key=lambda at: _part(outcomes[at].job.step)):
        begins[at] = before
        before += sizes[at]
    return [
        (one, {place - begins[at] for place in known if 0 <= place - begins[at] < sizes[at]})
        for at, one in enumerate(outcomes)
    ]


def _part(step: str) -> int:
    found = step.removeprefix(PART)
    return int(found) if found.isdecimal() else 0


# --- choices --------------------------------------------------------------------------------------


def _choices(unit: StoredUnit, answer: JobResult, reference: Reference | None) -> Choices | None:
    """Return the choices with their log-likelihoods, marking the picked and the correct choices."""
    response = answer.response
    if not isinstance(response, RawLoglikelihood):
        return None
    numbers = list(response.loglikelihoods)
    chosen = _value(unit.place.values, "choice")
    best = max(range(len(numbers)), key=numbers.__getitem__) if numbers else None
    taken = best if chosen is None else int(chosen)
    known = None if reference is None else reference.correct
    right = _all_right(unit, numbers, taken, known)
    shown = range(len(numbers)) if unit.whole else _likely(numbers, right, taken)
    found = _listed(answer, response, taken, right, shown)
    return replace(found, referenced=reference is not None and reference.text is not None)


def _listed(
    answer: JobResult,
    response: RawLoglikelihood,
    taken: int | None,
    right: Collection[int],
    shown: Sequence[int],
) -> Choices:
    numbers = list(response.loglikelihoods)
    texts = list(response.choices) or list(getattr(answer.job.request, "continuations", ()))
    texts += [""] * (len(numbers) - len(texts))
    shares = softmax(numbers)
    several = len(numbers) > 1
    listed = tuple(
        Choice(
            text=texts[place],
            loglikelihood=numbers[place] if math.isfinite(numbers[place]) else None,
            share=shares[place] if math.isfinite(numbers[place]) else 0.0,
            chosen=place == taken and several,
            right=place in right and (several or taken is None),
        )
        for place in shown
    )
    return Choices(choices=listed, n_hidden=len(numbers) - len(listed))


def _likely(numbers: Sequence[float], right: Collection[int], taken: int | None) -> list[int]:
    """Return the sorted indices of the most likely, the correct and the picked choices."""
    ranked = sorted(range(len(numbers)), key=lambda place: -numbers[place])
    likely = [place for place in ranked if place in right][:MAX_CHOICES]
    return sorted({*ranked[:MAX_CHOICES], *likely, *([] if taken is None else [taken])})


def _redundant_reference(choices: Choices) -> Collection[str]:
    """Return the reference if it is redundant because it is a choice that is shown in full."""
    right = [one.text for one in choices.choices if one.right]
    return {right[0]} if len(right) == 1 and len(right[0]) <= _SHOWN_OF_A_CHOICE else ()


def _all_right(
    unit: StoredUnit, numbers: Sequence[float], taken: int | None, known: Sequence[int] | None
) -> set[int]:
    """Return the correct choices, as stored or, on cards, as inferred from the grades."""
    if known is not None:
        return {place for place in known if place < len(numbers)}
    inferred = None if unit.whole else right_by_grades(unit.place.values, numbers, taken)
    return set() if inferred is None else {inferred}


def _value(values: Mapping[str, float | str], name: str) -> float | None:
    found = values.get(name)
    return None if found is None or isinstance(found, str) else found


def right_by_grades(
    values: Mapping[str, Any], numbers: Sequence[float], taken: int | None
) -> int | None:
    """Infer the correct choice from the grades, for runs without references.

    Returns the picked choice if it is graded as correct, the other choice if there are only two, or
    else the choice whose log-likelihood matches ``bits``, the value for the reference.
    """
    accuracy = _value(values, "accuracy")
    if accuracy is None or taken is None:
        return None
    if accuracy == 1.0:
        return taken
    if len(numbers) == 2:
        return 1 - taken
    bits = _value(values, "bits")
    if bits is None:
        return None
    expected = -bits * math.log(2.0)
    same = [
        place
        for place, value in enumerate(numbers)
        if place != taken and math.isclose(value, expected, rel_tol=_SAME, abs_tol=_SAME)
    ]
    return same[0] if len(same) == 1 else None
