"""Querying of models without grading: `ask`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eval_toolkit.models.callables import as_model
from eval_toolkit.models.runner import run_jobs
from eval_toolkit.models.runner.progress import OnProgress
from eval_toolkit.runs.answers import AnswersTable, answers_of
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks.planning import decoding_of, default_formatter, plan_jobs
from eval_toolkit.tasks.questions import questions_task
from eval_toolkit.tasks.references import sample_units

_NOTHING = "nothing"


def ask(
    model: Any,
    questions: Any,
    *,
    prompt: str | None = None,
    system: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    base_url: str | Sequence[str] | None = None,
    concurrency: int | None = None,
    on_progress: OnProgress | None = None,
) -> AnswersTable:
    """Ask a model questions and return its answers, without grading or storing them.

    Parameters
    ----------
    model : Model, str, callable or object with ``invoke``
        Model, or any object that `models.as_model` can convert to one.
    questions : str, path, DataFrame, dataset, or sequence of str or mappings
        One or several questions, or a table of questions as in `tasks.questions_task`.
    prompt, system : str, optional
        Prompt, such as ``"{question} Answer briefly."``, and system message; both may contain
        columns of the table in braces.
    temperature, max_tokens : float and int, optional
        Sampling temperature (by default, that of the server, or else 0), and maximum number of
        tokens per answer.
    base_url : str or sequence of str, optional
        Address of one or several OpenAI-compatible servers, for a model specified by name.
    concurrency : int, optional
        Maximum number of concurrent requests; by default, the model's own limit.
    on_progress : callable, optional
        As in `run_jobs`.

    Returns
    -------
    AnswersTable
        Table with one row per question, in order; `to_pandas` converts it to a data frame. A failed
        request has an error instead of an answer.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the model cannot generate answers, or the questions cannot be read.
    ModelError
        If no request can succeed, e.g. because of an invalid API key.

    See Also
    --------
    run_task : Query a model, grade the answers and store them.

    Examples
    --------
    >>> found = ask(lambda prompt: prompt.upper(), ["one", "two"])
    >>> print(found)
    id  question  answer
    --  --------  ------
    1   one       ONE
    2   two       TWO
    >>> found.texts
    ['ONE', 'TWO']
    """
    from eval_toolkit.tasks.loading import is_questions_file

    if isinstance(questions, str) and not is_questions_file(questions):
        questions = [questions]
    task = questions_task(questions, prompt=prompt, system=system)
    made = as_model(model, base_url=base_url)
    samples = task.samples(order="file")
    jobs = plan_jobs(
        task,
        samples,
        formatter=default_formatter(task, made),
        decoding=decoding_of(task, made, temperature=temperature, max_tokens=max_tokens),
        seed=task.seed,
    )
    results = run_jobs(jobs, made, concurrency=concurrency, on_progress=on_progress)
    ids = [sample.id for sample in samples]
    records = Records.from_columns({_NOTHING: [0.0] * len(ids)}, unit_id=ids)  # needs a column
    found = answers_of(
        {(task.NAME, made.name): records}, sample_units(samples), results, metrics=()
    )
    place = {unit_id: at for at, unit_id in enumerate(found.columns["id"].tolist())}
    found = found.take([place[unit_id] for unit_id in ids])
    columns = {name: column for name, column in found.columns.items() if name != _NOTHING}
    if task.ID_FIELD is None:
        columns["id"] = np.array([str(n + 1) for n in range(len(ids))], dtype=object)
    return replace(found, columns=columns)
