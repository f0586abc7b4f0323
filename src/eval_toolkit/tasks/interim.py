"""Interim grading of answers while a run is in progress."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from eval_toolkit.graders.code import CodeTests
from eval_toolkit.graders.judges.requests import is_judge
from eval_toolkit.runs.interim import Grading
from eval_toolkit.tasks.measuring import grader_columns, measure

if TYPE_CHECKING:
    from eval_toolkit.models.runner.entries import Entry
    from eval_toolkit.models.runner.jobs import Job
    from eval_toolkit.protocols import Grader
    from eval_toolkit.tasks.kind import TaskKind


def task_grading(kind: TaskKind) -> Grading | None:
    """Return the function that grades answers during a run, or None if there is none.

    The grades are the values of the first bounded column of a grader that queries no model and runs
    no programs. Returns None if there is no such column, if samples have groups, if they are not
    requested in random order, or if they need several requests, since interim means would then be
    misleading.
    """
    samples = {sample.id: sample for sample in kind.samples}
    jobs = {job.unit_id: job for job in kind.jobs if job.attempt == 1 and not job.step}
    random = kind.settings.get("order") == "shuffled"
    if not random or jobs.keys() != samples.keys():
        return None
    if any(sample.group not in (None, sample.id) for sample in kind.samples):
        return None
    quick = (
        one for one in kind.measuring.graders if not (is_judge(one) or isinstance(one, CodeTests))
    )
    fitting = (
        (grader, column, info.bounds)
        for grader in quick
        for column, info in grader_columns([grader]).items()
        if info.metric and all(map(math.isfinite, info.bounds))
    )
    grader, column, bounds = next(fitting, (None, "", (0.0, 1.0)))
    if grader is None:
        return None
    grade = partial(_grades, kind, grader, column, jobs)
    return Grading(metric=column, bounds=bounds, units=list(samples), grade=grade)


def _grades(
    kind: TaskKind, grader: Grader, column: str, jobs: Mapping[str, Job], entries: Sequence[Entry]
) -> dict[str, float | None]:
    """Return the grade of each first attempt, or None for failed attempts."""
    first = {one.unit_id: one for one in entries if one.attempt == 1 and not one.step}
    answers = [
        answer
        for unit, entry in first.items()
        if unit in jobs and (answer := entry.answer(jobs[unit], entry.request_hash)) is not None
    ]
    answered = {answer.job.unit_id for answer in answers}
    samples = [sample for sample in kind.samples if sample.id in answered]
    values: dict[str, float | None] = dict.fromkeys(first)
    if samples:
        records = measure(kind.task, samples, answers, graders=[grader])
        known = records.status[column] == "ok"
        for unit, value, ok in zip(records.unit_id, records.columns[column], known, strict=True):
            values[str(unit)] = float(value) if ok else None
    return values
