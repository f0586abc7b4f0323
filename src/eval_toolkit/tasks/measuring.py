"""Grading of answers into records, without querying a model.

For each sample, three steps can fail without affecting other samples: the model's answer, the
post-processing, and a grader. A failure is stored as an error with a reason in all columns that it
affects.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eval_toolkit._internal import validation
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import ColumnInfo, Grade, load_grader
from eval_toolkit.graders.base import columns_of
from eval_toolkit.graders.judges.requests import Attempt, apart, is_judge, replies_in
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.responses import (
    REASONING_TAGS,
    Completion,
    Loglikelihood,
    RawCompletion,
    RawLoglikelihood,
)
from eval_toolkit.models.responses.reasoning import CUT_OFF
from eval_toolkit.models.runner import JobResult
from eval_toolkit.protocols import Grader
from eval_toolkit.runs.multipart import joined
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import LARGEST_VALUE
from eval_toolkit.tasks.types import NO_SUBJECT, Sample

_REASON_LENGTH = 300
_UNFILLED = Grade.skipped("the grader returned no value")
_NO_ANSWER = f"no answer: {CUT_OFF}"
_ANY = ColumnInfo()
_ROUNDING = 1e-9
"""Tolerance for grades outside their bounds, which are clipped to the bounds."""


class Measurable(Protocol):
    """Interface that a task must implement so that its answers can be graded."""

    def post_process_generated_completion(self, text: str, sample: Any = None) -> str:
        """Return the part of an answer to grade."""
        ...

    def graders(self) -> Sequence[Grader]:
        """Return the graders of the task."""
        ...


def measure(
    task: Measurable,
    samples: Sequence[Sample],
    outcomes: Iterable[JobResult],
    *,
    graders: Sequence[Grader | str | Mapping[str, Any]] | None = None,
) -> Records:
    """Grade the answers to a task's samples, returning one record per sample and attempt.

    Parameters
    ----------
    task : BaseTask
        Task that post-processes answers and provides the default graders.
    samples : sequence of Sample
        Samples of the run; samples without an answer have records, too.
    outcomes : iterable of JobResult
        Outcomes of `run_jobs`, in any order, including the verdicts of judges.
    graders : sequence of Grader, str or mapping, optional
        Graders, or specs as in `graders.load_grader`; by default, the task's graders.

    Returns
    -------
    Records
        Records with the columns of all graders, each with status and reason, and the slice
        ``subject`` if the task has subjects. Times, costs and token counts are not included.

    Raises
    ------
    InvalidInputError
        If there are no samples or no graders, or two graders define the same column.

    Examples
    --------
    >>> from eval_toolkit.models.requests import GenerateRequest
    >>> from eval_toolkit.models.responses import RawCompletion
    >>> from eval_toolkit.models.runner import Job
    >>> class Echo:
    ...     def post_process_generated_completion(self, text, sample=None):
    ...         return text.strip()
    ...     def graders(self):
    ...         return []
    >>> sample = Sample("q1", "no_subject", [Message("user", "Capital of Italy?")], "Rome")
    >>> job = Job("q1", 1, GenerateRequest(sample.messages))
    >>> answered = JobResult(job, RawCompletion(" Rome"), None, False)
    >>> measure(Echo(), [sample], [answered], graders=["exact_match"]).columns["exact_match"]
    array([1.])
    """
    if not samples:
        raise InvalidInputError("`samples` is empty; pass at least one sample")
    chosen = [load_grader(one) for one in (task.graders() if graders is None else graders)]
    answers, verdicts = apart(outcomes)
    found, replies = joined(answers), replies_in(verdicts)
    attempts = sorted({attempt for _, attempt in found}) or [1]
    columns = grader_columns(chosen)
    table = _Table.of(columns)
    lines = [(sample, attempt) for sample in samples for attempt in attempts]
    for sample, attempt in lines:
        place = (sample.id, attempt)
        said, verdicts_of = found.get(place), replies.get(place) or {}
        outcome = None if said is None else said.loaded()
        graded = _graded(task, sample.loaded(), outcome, chosen, columns, verdicts_of)
        table.add(dict.fromkeys(table.values, graded) if isinstance(graded, Grade) else graded)
    subjects = [sample.subject for sample, _ in lines]
    return Records.from_columns(
        table.values,
        unit_id=[sample.id for sample, _ in lines],
        attempt=[attempt for _, attempt in lines],
        group=[sample.id if sample.group is None else sample.group for sample, _ in lines],
        slices={} if set(subjects) == {NO_SUBJECT} else {"subject": subjects},
        content_hash=[sample.content_hash for sample, _ in lines],
        status=table.status,
        reason=table.reason,
    )


def grader_columns(graders: Iterable[Grader]) -> dict[str, ColumnInfo]:
    """Return the columns that graders define, with their types and directions.

    Raises an error if two graders define the same column.

    Examples
    --------
    >>> list(grader_columns([load_grader("exact_match"), load_grader("f1")]))
    ['exact_match', 'f1']
    """
    columns: dict[str, ColumnInfo] = {}
    owners: dict[str, str] = {}
    for grader in graders:
        for column, info in columns_of(grader).items():
            if column in columns:
                raise InvalidInputError(
                    f"graders {owners[column]!r} and {grader.name!r} both define the column "
                    f"{column!r}; give one of them a different `name`"
                )
            columns[column], owners[column] = info, grader.name
    if not columns:
        raise InvalidInputError("there are no graders; pass at least one")
    return columns


@dataclass(slots=True)
class _Table:
    """Table of grades that is built row by row."""

    values: dict[str, list[float | str | None]]
    status: dict[str, list[str]]
    reason: dict[str, list[str]]
    n: int = 0

    @classmethod
    def of(cls, columns: Iterable[str]) -> "_Table":
        names = list(columns)
        return cls({n: [] for n in names}, {n: [] for n in names}, {n: [] for n in names})

    def add(self, line: Mapping[str, float | str | Grade]) -> None:
        """Append a row; a new column is marked as skipped in all earlier rows."""
        if not line.keys() <= self.values.keys():
            for column in sorted(line.keys() - self.values.keys()):
                self.values[column] = [None] * self.n
                self.status[column] = ["skipped"] * self.n
                self.reason[column] = [_UNFILLED.reason] * self.n
        for column, values in self.values.items():
            given = line.get(column, _UNFILLED)
            if isinstance(given, Grade):
                values.append(given.content)
                self.status[column].append(given.status)
                self.reason[column].append(whole_text(given.reason))
            else:
                values.append(given)
                self.status[column].append("ok")
                self.reason[column].append("")
        self.n += 1


def _graded(
    task: Measurable,
    sample: Sample,
    outcome: JobResult | None,
    graders: Sequence[Grader],
    columns: Mapping[str, ColumnInfo],
    replies: Mapping[str, RawCompletion],
) -> Mapping[str, float | str | Grade] | Grade:
    """Return the grades of a sample by column; without an answer, one grade for all columns."""
    response = answered(task, sample, outcome)
    if isinstance(response, Grade):
        return response
    line: dict[str, float | str | Grade] = {}
    for grader in graders:
        given = (response, replies) if is_judge(grader) else (response,)
        line.update(grades_by(grader, columns, *given))
    if getattr(response, "cut_off", False):
        return {column: _without_answer(grade) for column, grade in line.items()}
    return line


def _without_answer(grade: float | str | Grade) -> Grade:
    """Return the grade of a missing answer, which states why it is missing."""
    return Grade.of(grade, _NO_ANSWER)


def built_responses(
    task: Measurable, samples: Sequence[Sample], outcomes: Iterable[JobResult]
) -> dict[Attempt, Any]:
    """Build the responses to grade from outcomes, omitting failures.

    They are ordered by sample, then by attempt.

    Examples
    --------
    >>> from eval_toolkit.models.requests import LoglikelihoodRequest
    >>> from eval_toolkit.models.runner import Job
    >>> sample = Sample("q", "", [Message("user", "Capital?")], " Rome", (" Rome", " Bonn"))
    >>> job = Job("q", 1, LoglikelihoodRequest("Capital?", (" Rome", " Bonn")))
    >>> raw = RawLoglikelihood([-1.0, -2.0], [" Rome", " Bonn"])
    >>> list(built_responses(None, [sample], [JobResult(job, raw)]))
    [('q', 1)]
    """
    return dict(each_response(task, samples, outcomes))


def each_response(
    task: Measurable, samples: Sequence[Sample], outcomes: Iterable[JobResult]
) -> Iterator[tuple[Attempt, Any]]:
    """Yield what `built_responses` returns."""
    found = joined(apart(outcomes)[0])
    attempts = sorted({attempt for _, attempt in found})
    for sample in samples:
        for attempt in attempts:
            said = found.get((sample.id, attempt))
            built = None if said is None else answered(task, sample.loaded(), said.loaded())
            if said is not None and not isinstance(built, Grade):
                yield (sample.id, attempt), built


def answered(task: Measurable, sample: Sample, outcome: JobResult | None) -> Any:
    """Return the response to grade, or without one the grade to use for all graders."""
    if outcome is None:
        return Grade.error("the model was not queried")
    error = outcome.error or getattr(outcome.response, "error", None)
    if error is not None:
        return Grade.error(_line(f"{error.kind}: {error.message}"))
    try:
        return build_response(task, sample, outcome)
    except Exception as failure:  # the task's own code may raise any exception
        return Grade.error(_failure("post-processing", failure))


def grades_by(
    grader: Any, columns: Mapping[str, ColumnInfo], *given: Any
) -> Mapping[str, float | str | Grade]:
    """Return the validated grades of a grader; if it raises, all of its columns are errors."""
    try:
        found = {
            column: _read(value, column, columns.get(column, _ANY))
            for column, value in grader.grade(*given).items()
        }
    except Exception as failure:  # the grader's own code may raise any exception
        return dict.fromkeys(columns_of(grader), Grade.error(_failure(grader.name, failure)))
    # Skipping it would silently remove it from the denominator.
    lacking = Grade.error(f"{grader.name} returned no value")
    return {**dict.fromkeys(columns_of(grader), lacking), **found}


def _read(value: Any, column: str, info: ColumnInfo) -> float | str | Grade:
    """Convert the number in a grade to float; invalid values become errors."""
    if isinstance(value, Grade):
        if value.status != "ok":
            return value
        value = value.content
    if info.text:
        if isinstance(value, str):
            return whole_text(value)
        return Grade.error(f"the grade {column!r} is {value!r:.100}; it must be a string")
    if type(value) is not float or not math.isfinite(value):
        value = validation.number(value, "grade")
    if abs(value) > LARGEST_VALUE:
        return Grade.error(
            f"the grade {column!r} is {value:g}; it must lie within ±{LARGEST_VALUE:g}"
        )
    low, high = info.bounds
    if info.binary and value not in (0.0, 1.0):
        return Grade.error(f"the grade {column!r} is {value:g}; it must be 0 or 1")
    if low <= value <= high:
        return float(value)
    bound = low if value < low else high
    if math.isclose(value, bound, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        return bound
    return Grade.error(
        f"the grade {column!r} is {value:g}; it must lie between {low:g} and {high:g}"
    )


def _failure(where: str, failure: Exception) -> str:
    return _line(f"{where} failed: {type(failure).__name__}: {failure}")


def _line(text: str) -> str:
    return " ".join(text.split())[:_REASON_LENGTH]


def n_cut_off(records: Records) -> int:
    """Return the number of replies that were cut off inside their reasoning.

    Examples
    --------
    >>> n_cut_off(Records.from_columns({"exact_match": [1.0]}, unit_id=["q1"]))
    0
    """
    found = [(why == _NO_ANSWER).nonzero()[0].tolist() for why in records.reason.values()]
    return len({row for rows in found for row in rows})


def build_response(task: Measurable, sample: Sample, outcome: JobResult) -> Any:
    """Build the input of graders and judges from a sample and the model's reply.

    All graders and judges receive responses built by this function, which separates reasoning from
    the answer using the task's ``reasoning_tags``. Runs store the complete reply.

    Examples
    --------
    >>> from eval_toolkit.models.requests import LoglikelihoodRequest
    >>> from eval_toolkit.models.runner import Job
    >>> sample = Sample("q", "", [Message("user", "Capital?")], " Rome", (" Rome", " Bonn"))
    >>> job = Job("q", 1, LoglikelihoodRequest("Capital?", (" Rome", " Bonn")))
    >>> raw = RawLoglikelihood([-1.0, -2.0], [" Rome", " Bonn"])
    >>> build_response(None, sample, JobResult(job, raw, None, False)).best
    0
    """
    raw, prompt = outcome.response, outcome.job.request.prompt
    about: dict[str, Any] = {
        "id": sample.id,
        "subject": sample.subject,
        "ground_truth": sample.ground_truth,
        "attempt": outcome.job.attempt,
        "prompt": prompt if isinstance(prompt, str) else "",
        "prompt_tokens": raw.prompt_tokens if raw else None,
        "context": sample.context,
    }
    if isinstance(raw, RawLoglikelihood):
        return Loglikelihood(
            raw.loglikelihoods,
            (sample.possible_completions if sample.parts else raw.choices)
            or outcome.job.request.continuations,  # type: ignore[union-attr]
            n_tokens=raw.n_tokens,
            is_greedy=raw.is_greedy,
            usage=raw.usage,
            **about,
        )
    if raw is None:
        raise InvalidInputError(f"sample {sample.id!r} has no response")
    sent = prompt if isinstance(prompt, str) else prompt[-1].content
    parts = raw.parts(getattr(task, "reasoning_tags", REASONING_TAGS), prompt=sent)
    return Completion(
        task.post_process_generated_completion(parts.answer, sample),
        raw_completion=parts.answer,
        messages=with_reply(sample.messages, parts.answer),
        reasoning=parts.reasoning,
        cut_off=parts.cut_off,
        completion_tokens=raw.completion_tokens,
        finish_reason=raw.finish_reason,
        usage=raw.usage,
        **about,
    )


def with_reply(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Append the reply to a conversation, as a continuation of the cue or as a new message.

    Examples
    --------
    >>> with_reply([Message("assistant", "Answer:")], " Rome")[-1].content
    'Answer: Rome'
    """
    *before, last = messages
    if last.role is Role.ASSISTANT:
        return (*before, Message(Role.ASSISTANT, last.content + text))
    return (*before, last, Message(Role.ASSISTANT, text))
