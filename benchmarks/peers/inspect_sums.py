"""The sums of `benchmarks.language_models` as a task of Inspect AI: ``-T rows=FILE``."""

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def sums(rows: str) -> Task:
    """Ask each question; the answer must be the reference."""
    return Task(
        dataset=json_dataset(rows, FieldSpec(input="question", target="answer", id="id")),
        solver=generate(),
        scorer=match(location="exact"),
    )
