"""Contracts for graders and tasks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.graders.base import Grade, columns_of
from eval_toolkit.models.messages import Role
from eval_toolkit.models.responses import (
    Completion,
    Loglikelihood,
    ResponseType,
)
from eval_toolkit.protocols import Grader, MetricSpec
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.types import Sample
from eval_toolkit.testing.inputs import ODD_TEXTS
from eval_toolkit.testing.rules import (
    Suite,
    describes_itself,
    expect,
    has_a_version,
    has_members,
    is_named,
)

__all__ = ["GRADER", "TASK"]


# --- graders ------------------------------------------------------------------------------------


def _texts() -> tuple[Completion, ...]:
    return tuple(
        Completion(text, id=str(row), ground_truth=truth, prompt="Question?")
        for row, (text, truth) in enumerate(
            (
                ("Rome", "Rome"),
                ("The answer is Rome.", ["Rome", "Roma"]),
                ("I think it is 42, or 43.", "42"),
                ("Madrid", "Rome"),
                ("", "Rome"),
            )
        )
    )


def _choices() -> tuple[Loglikelihood, ...]:
    return tuple(
        Loglikelihood(
            numbers,
            [" Rome", " Madrid", " Oslo"],
            n_tokens=[1, 2, 1],
            is_greedy=[True, False, False],
            id=str(row),
            ground_truth=" Rome",
        )
        for row, numbers in enumerate(([-0.2, -2.0, -3.5], [-2.0, -0.4, -2.1], [-1.0, -1.0, -1.0]))
    )


@dataclass(frozen=True)
class _Responses:
    """Responses to grade; by default a few of each type in the grader's `response_types`."""

    responses: Sequence[Any] | None = None

    def of(self, grader: Any) -> list[Any]:
        """Return responses of the grader's types."""
        if self.responses is not None:
            return list(self.responses)
        kinds = getattr(grader, "response_types", (ResponseType.COMPLETION,))
        texts = _texts() if ResponseType.COMPLETION in kinds else ()
        return [*texts, *(_choices() if ResponseType.LOGLIKELIHOODS in kinds else ())]


def response_types_are_valid(grader: Any, given: _Responses) -> None:
    """`response_types`, if defined, is a non-empty tuple of response types."""
    kinds = getattr(grader, "response_types", (ResponseType.COMPLETION,))
    fine = isinstance(kinds, tuple) and kinds and all(isinstance(k, ResponseType) for k in kinds)
    expect(fine, "`response_types`", kinds)


def grades_are_valid(grader: Any, given: _Responses) -> None:
    """Every response gets one value per column: a finite number, or a Grade with a reason.

    Columns declared as text contain strings.
    """
    infos = columns_of(grader)
    for response in given.of(grader):
        _expect_values(grader.grade(response), response, infos)


def _expect_values(grades: Any, response: object, infos: Mapping[str, Any]) -> None:
    expect(isinstance(grades, Mapping) and grades, response, grades)
    for column, value in grades.items():
        expect(isinstance(column, str) and column, response, f"the column {column!r}")
        if isinstance(value, Grade):
            expect(value.status == "ok" or value.reason.strip(), response, value)
        else:
            is_text = column in infos and infos[column].text
            fits = isinstance(value, str) if is_text else _is_number(value)
            expect(fits, response, f"{column!r} is {value!r}")


def fills_declared_columns(grader: Any, given: _Responses) -> None:
    """The grader fills the columns listed by `columns()`, by default one with its own name."""
    known = set(columns_of(grader))
    for response in given.of(grader):
        filled = set(grader.grade(response))
        expect(filled == known, f"the columns {sorted(known)}", f"{sorted(map(str, filled))}")


def grades_within_bounds(grader: Any, given: _Responses) -> None:
    """Numbers lie within the bounds of their column; in binary columns they are 0 or 1."""
    infos = columns_of(grader)
    for response in given.of(grader):
        _expect_bounds(grader.grade(response), infos)


def _expect_bounds(grades: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
    for column, value in grades.items():
        number: Any = value.value if isinstance(value, Grade) else value
        info = infos.get(column)
        if info is None or not _is_number(number):
            continue
        low, high = info.bounds
        expect(low - 1e-9 <= number <= high + 1e-9, f"bounds of {column!r}", number)
        expect(not info.binary or number in (0, 1), f"0 or 1 in {column!r}", number)


def grading_is_deterministic(grader: Any, given: _Responses) -> None:
    """The same response gets the same grades, regardless of what was graded before."""
    responses = given.of(grader)
    first = [dict(grader.grade(one)) for one in responses]
    again = [dict(grader.grade(one)) for one in responses[::-1]][::-1]
    for response, one, other in zip(responses, first, again, strict=True):
        expect(one == other, response, (one, other))


def does_not_modify_responses(grader: Any, given: _Responses) -> None:
    """Grading does not modify responses."""
    for response in given.of(grader):
        before = response.to_dict()
        grader.grade(response)
        expect(response.to_dict() == before, before, response.to_dict())


def grades_unusual_texts(grader: Any, given: _Responses) -> None:
    """Empty, long and unusual completions get grades within bounds, or an EvalToolkitError."""
    infos = columns_of(grader)
    for response in given.of(grader):
        if not isinstance(response, Completion):
            continue
        for text in ODD_TEXTS:
            odd = Completion.from_dict({**response.to_dict(), "completion": text})
            odd.context = response.context
            try:
                grades = grader.grade(odd)
            except EvalToolkitError:
                continue
            except Exception as error:
                expect(False, text, f"{type(error).__name__}: {error}")
            _expect_values(grades, text, infos)
            _expect_bounds(grades, infos)
        return


def answer_is_string(grader: Any, given: _Responses) -> None:
    """`answer(response)`, if defined, returns a string or None."""
    answer = getattr(grader, "answer", None)
    if callable(answer):
        for response in given.of(grader):
            told = answer(response)
            expect(told is None or isinstance(told, str), response, told)


def metrics_are_valid(grader: Any, given: _Responses) -> None:
    """`metrics()`, if defined, lists metrics with unique names."""
    metrics = getattr(grader, "metrics", None)
    if callable(metrics):
        names = []
        for spec in metrics():
            named = isinstance(spec, MetricSpec) or hasattr(spec, "name")
            expect(named and isinstance(spec.name, str) and spec.name, "`metrics()`", spec)
            names.append(spec.name)
        expect(len(set(names)) == len(names), "unique metric names", names)


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, str) and math.isfinite(value)
    except TypeError:
        return False


GRADER = Suite(
    "grader",
    (
        has_members(Grader),
        is_named,
        has_a_version,
        response_types_are_valid,
        grades_are_valid,
        fills_declared_columns,
        grades_within_bounds,
        grading_is_deterministic,
        does_not_modify_responses,
        grades_unusual_texts,
        answer_is_string,
        metrics_are_valid,
    ),
    _Responses,
)


# --- tasks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Limit:
    """Maximum number of items per subject of the task."""

    limit: int = 5


def is_a_task(task: Any, given: _Limit) -> None:
    """The task is an instance of BaseTask."""
    expect(isinstance(task, BaseTask), "an object", task)


def task_has_name_and_version(task: Any, given: _Limit) -> None:
    """NAME and VERSION are single-line strings."""
    for name in ("NAME", "VERSION"):
        told = getattr(task, name, None)
        expect(isinstance(told, str) and told.strip() and told.isprintable(), f"`{name}`", told)


def has_samples(task: Any, given: _Limit) -> None:
    """The task has samples, each with a non-empty prompt."""
    samples = task.samples(given.limit)
    expect(samples, f"the first {given.limit} items", samples)
    for sample in samples:
        expect(isinstance(sample, Sample), "a sample", sample)
        expect(sample.messages, f"sample {sample.id!r}", "no message")
        has_prompt = any(
            turn.role is Role.USER and turn.content.strip() for turn in sample.messages
        )
        expect(has_prompt or sample.text, f"sample {sample.id!r}", sample.messages)


def sample_ids_are_unique(task: Any, given: _Limit) -> None:
    """Sample ids are unique."""
    ids = [sample.id for sample in task.samples(given.limit)]
    expect(all(ids) and len(set(ids)) == len(ids), "unique ids", ids)


def choices_include_reference(task: Any, given: _Limit) -> None:
    """Multiple-choice samples have at least two choices, including the reference."""
    if task.RESPONSE_TYPE is not ResponseType.LOGLIKELIHOODS:
        return
    for sample in task.samples(given.limit):
        choices, truth = sample.possible_completions or (), sample.ground_truth
        expect(len(choices) > 1, f"sample {sample.id!r}", choices)
        right = set(truth) if isinstance(truth, tuple) else {truth}
        expect(truth is None or right & set(choices), choices, truth)


def samples_are_deterministic(task: Any, given: _Limit) -> None:
    """Loading the samples again gives the same samples in the same order."""
    first, again = ([s.to_dict() for s in task.samples(given.limit)] for _ in range(2))
    expect(first == again, f"the first {given.limit} items", "other samples")


def limits_are_nested(task: Any, given: _Limit) -> None:
    """Samples selected with a smaller limit are also selected with a larger one."""
    few = {sample.id for sample in task.samples(1)}
    many = {sample.id for sample in task.samples(given.limit)}
    expect(few <= many, f"limit 1 within limit {given.limit}", sorted(few - many))


def graders_are_compatible(task: Any, given: _Limit) -> None:
    """The graders accept the task's response type, and no two fill the same column."""
    graders = task.graders()
    expect(graders, "`graders()`", graders)
    columns: list[str] = []
    for grader in graders:
        kinds = getattr(grader, "response_types", (task.RESPONSE_TYPE,))
        expect(task.RESPONSE_TYPE in kinds, task.RESPONSE_TYPE, f"{grader.name} grades {kinds}")
        columns += columns_of(grader)
    expect(len(set(columns)) == len(columns), "unique columns", columns)


def task_description_is_json(task: Any, given: _Limit) -> None:
    """The description for the manifest is JSON and does not change between calls."""
    describes_itself(task, given)


TASK = Suite(
    "task",
    (
        is_a_task,
        task_has_name_and_version,
        has_samples,
        sample_ids_are_unique,
        choices_include_reference,
        samples_are_deterministic,
        limits_are_nested,
        graders_are_compatible,
        task_description_is_json,
    ),
    _Limit,
)
