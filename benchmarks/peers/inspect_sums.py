"""Inspect AI task with the sums of `benchmarks.language_models`: ``-T rows=FILE``."""

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def sums(rows: str) -> Task:
    """Ask each question and compare the answer with the reference."""
    return Task(
        dataset=json_dataset(rows, FieldSpec(input="question", target="answer", id="id")),
        solver=generate(),
        scorer=match(location="exact"),
    )
