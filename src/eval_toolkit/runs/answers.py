"""Table of the answers of a run: question, answer, reference, grades, tokens, error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.display import Table, Tabled
from eval_toolkit._internal.plain import objects
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.graders.judges.requests import apart
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.models.messages import Role
from eval_toolkit.models.responses import REASONING_TAGS, RawCompletion, RawLoglikelihood
from eval_toolkit.models.responses.reasoning import Tags
from eval_toolkit.models.runner.jobs import JobResult
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.runs.folder import Run
from eval_toolkit.runs.kind_display import kind_named
from eval_toolkit.runs.multipart import joined
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.runs.units import Unit, shown_input
from eval_toolkit.scorecards import Records

Subject: TypeAlias = tuple[str, str]
_CORRECT = "correct"
_OF_UNITS = ("input", "reference")
_GRADED = "ok"
_SHOWN_CHARACTERS = 200
_HEAD = (
    *("slice", "system", "id", "attempt", "question", "answer", "reference"),
    *("prompt_tokens", "completion_tokens", "error"),
)


@dataclass(frozen=True, eq=False, repr=False)
class AnswersTable(Tabled):
    """Answers of a run with one row per sample and attempt, as returned by `answers_table`.

    The columns are ``id``, ``question``, ``answer``, ``reference``, one for each grade, ``correct``
    (whether the first grade counts as correct; None if unknown), ``prompt_tokens``,
    ``completion_tokens`` and ``error``. ``attempt``, ``slice`` and ``system`` are added if there is
    more than one.

    Examples
    --------
    >>> from eval_toolkit.scorecards import Records
    >>> records = Records.from_columns({"exact_match": [1, 0]}, unit_id=["q1", "q2"])
    >>> units = [Unit(id="q1", input="2 + 2?", reference="4"), Unit(id="q2", input="1 + 1?")]
    >>> found = answers_of({("quiz", "m"): records}, units)
    >>> found.wrong().rows()[0]["question"], len(found)
    ('1 + 1?', 2)
    """

    columns: Mapping[str, NDArray[Any]]
    """Columns of equal length; missing numbers are masked."""
    grades: tuple[str, ...] = ()
    """Names of the columns with grades."""
    by: str = ""
    """Grade that determines ``correct``; empty if there is none."""
    name: str = field(default="", compare=False)
    """Name of the run."""

    def __len__(self) -> int:
        return len(self.columns["id"])

    @property
    def texts(self) -> list[str | None]:
        """Answers as strings in row order; None for failed requests."""
        found: list[str | None] = self.columns["answer"].tolist()
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per answer."""
        cells = (values.tolist() for values in self.columns.values())
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*cells, strict=True)]

    def wrong(self) -> AnswersTable:
        """Return the incorrect answers, including those that failed.

        Raises
        ------
        InvalidInputError
            If no grade indicates whether an answer is correct.
        """
        if not self.by:
            raise InvalidInputError(
                f"{self.name or 'the run'}: no grade indicates whether an answer is correct"
                + (f"; the columns are {', '.join(self.grades)}" if self.grades else "")
            )
        correct = self.columns[_CORRECT]
        return self.take([at for at, one in enumerate(correct.tolist()) if one is not True])

    def take(self, places: Iterable[int]) -> AnswersTable:
        """Return the answers at the given positions."""
        at = np.array(list(places), dtype=np.int64)
        return replace(self, columns={name: one[at] for name, one in self.columns.items()})

    def write(self, path: str | Path) -> Path:
        """Write the answers to a CSV, TSV, JSON, JSON Lines or Parquet file.

        In CSV files, strings that a spreadsheet would interpret as a formula are prefixed with an
        apostrophe.
        """
        from eval_toolkit._internal.plain import csv_text, objects, whole_text
        from eval_toolkit._internal.tables import write_table
        from eval_toolkit._internal.tables.formats import CSV, TSV, format_of

        clean = csv_text if format_of(Path(path), None) in (CSV, TSV) else whole_text
        columns = {
            name: objects(None if one is None else clean(str(one)) for one in values.tolist())
            if values.dtype == object
            else values
            for name, values in self.columns.items()
        }
        return write_table(columns, path)

    def table(self, longest: int = _SHOWN_CHARACTERS, limit: int | None = None) -> Table:
        """Return a table for display, with long strings truncated.

        Parameters
        ----------
        longest : int, default 200
            Maximum number of characters per cell.
        limit : int, optional
            Maximum number of rows; a note gives the number of omitted ones.
        """
        # A single grade of 0 and 1 equals `correct`.
        left_out = {_CORRECT} if len(self.grades) == 1 else set()
        shown = [name for name in self.columns if name not in left_out]
        some = self if limit is None else self.take(range(min(limit, len(self))))
        rows = [[_display_value(row[name], longest) for name in shown] for row in some.rows()]
        more = len(self) - len(some)
        notes = (f"{more:,} more",) if more else ()
        return Table(shown, rows, notes=notes).without_empty()

    def _as_table(self) -> Table:
        return self.table()


def answers_table(run: Run, *, grade: str | None = None) -> AnswersTable:
    """Return the answers of a stored run with their questions, references and grades.

    Parameters
    ----------
    run : Run
        Run whose units have one answer each; conversations are not supported.
    grade : str, optional
        Grade that determines which answers are correct; by default, the first grade whose values
        are all 0 or 1, else the first grade.

    Returns
    -------
    AnswersTable
        One row per sample and attempt.

    Raises
    ------
    InvalidInputError
        If the run has conversations, or the grade does not exist.
    ArtifactError
        If a table of the run cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
    ...     rows=[{"id": "q1", "q": "2 + 2?", "a": "4"}], graders=["exact_match"])
    >>> run = run_task(task, ScriptedModel("5"), tempfile.mkdtemp() + "/r").run
    >>> row = answers_table(run).rows()[0]
    >>> row["question"], row["answer"], row["reference"], row["exact_match"]
    ('2 + 2?', '5', '4', 0.0)
    """
    if kind_named(run.kind).words.multi_turn:
        raise InvalidInputError(
            f"{run.path}: the run has conversations; print them with eval-toolkit transcripts {run.path}"
        )
    config = run.results.get("config") or {}
    task = config.get("task")
    tags = task.get("reasoning_tags") if isinstance(task, Mapping) else None
    found = answers_of(
        {subject: run.records(*subject) for subject in run.subjects},
        _stored_units(run),
        outcomes_of(run) if RESPONSES in run.manifest["artifacts"] else (),
        metrics=[cell.metric for cell in run.cells],
        grade=grade,
        tags=REASONING_TAGS if tags is None else tags,
    )
    return replace(found, name=str(run.path))


def answers_of(
    subjects: Mapping[Subject, Records],
    units: Iterable[Unit] = (),
    outcomes: Iterable[JobResult] = (),
    *,
    metrics: Iterable[str] | None = None,
    grade: str | None = None,
    tags: Tags = REASONING_TAGS,
) -> AnswersTable:
    """Return the answers of an in-memory evaluation; see `answers_table`.

    Parameters
    ----------
    subjects : mapping of (slice, system) to Records
        Graded records.
    units : iterable of Unit
        Questions and references.
    outcomes : iterable of JobResult
        Outcomes of the requests; those to judges are ignored.
    metrics : iterable of str, optional
        Names of the metrics of the run: a column is a grade if a metric is named after it. By
        default, every numeric column is a grade.
    grade : str, optional
        See `answers_table`.
    tags : sequence of (str, str)
        Tags that enclose reasoning, which is removed from the answers.

    Returns
    -------
    AnswersTable
        One row per record, in order.

    Examples
    --------
    >>> records = Records.from_columns({"short": [1, 0]}, unit_id=["q1", "q2"])
    >>> answers_of({("quiz", "m"): records}).wrong().rows()[0]["id"]
    'q2'
    """
    results = joined(apart(outcomes)[0])
    about = {(unit.slice, unit.id): unit for unit in units}
    names = dict.fromkeys(name for one in subjects.values() for name in one.columns)
    columns: dict[str, list[Any]] = {name: [] for name in _HEAD}
    graded: dict[str, list[Any]] = {name: [] for name in names}
    for (slice_name, system), records in subjects.items():
        for at, unit_id in enumerate(records.unit_id.tolist()):
            attempt = int(records.attempt[at])
            unit = about.get((slice_name, unit_id)) or about.get((None, unit_id))
            outcome = results.get((unit_id, attempt))
            outcome = None if outcome is None else outcome.loaded()
            row = _row(unit, outcome, records, at, tags)
            for name, value in zip(
                _HEAD, (slice_name, system, unit_id, attempt, *row), strict=True
            ):
                columns[name].append(value)
            for name, values in graded.items():
                known = name in records.columns and records.status[name][at] == _GRADED
                values.append(records.columns[name][at] if known else None)
    return _table(columns, graded, names, subjects, metrics, grade)


def _row(
    unit: Unit | None, outcome: JobResult | None, records: Records, at: int, tags: Tags
) -> tuple[Any, ...]:
    """Return question, answer, reference, tokens and error of a record."""
    usage = None if outcome is None else getattr(outcome.response, "usage", None)
    tokens: tuple[int | None, int | None] = (None, None)
    if usage is not None and usage.total_tokens > 0:  # logs of other tools may lack it
        tokens = (usage.prompt_tokens, usage.completion_tokens)
    question = None if unit is None else shown_input(unit.input)
    return (
        _last_user_message(outcome) if question is None else question,
        _answer(outcome, records, at, tags),
        None if unit is None else shown_input(unit.reference),
        *tokens,
        _error(outcome, records, at),
    )


def _last_user_message(outcome: JobResult | None) -> str | None:
    """Return the last user message of a prompt."""
    prompt = None if outcome is None else outcome.job.request.prompt
    if prompt is None or isinstance(prompt, str):
        return prompt
    return next((one.content for one in reversed(prompt) if one.role is Role.USER), None)


def _answer(outcome: JobResult | None, records: Records, at: int, tags: Tags) -> str | None:
    """Return the answer without its reasoning, or the selected choice."""
    response = None if outcome is None else outcome.response
    if isinstance(response, RawCompletion):
        return response.parts(tags).answer
    if outcome is None or not isinstance(response, RawLoglikelihood):
        return None
    texts = list(response.choices) or list(getattr(outcome.job.request, "continuations", ()))
    numbers = list(response.loglikelihoods)
    chosen = int(np.argmax(numbers)) if numbers else -1
    if "choice" in records.numbers and records.status["choice"][at] == _GRADED:
        chosen = int(records.numbers["choice"][at])
    return texts[chosen].strip() if 0 <= chosen < len(texts) else None


def _error(outcome: JobResult | None, records: Records, at: int) -> str | None:
    """Return the reason why there is no answer or no grade."""
    failed = None
    if outcome is not None:
        failed = outcome.error or getattr(outcome.response, "error", None)
    if failed is not None:
        return f"{failed.kind}: {failed.message}"
    broken = (name for name, states in records.status.items() if states[at] == "error")
    reasons = (str(records.reason[name][at]) for name in broken if name in records.reason)
    return next(iter(reasons), None)


# --- columns --------------------------------------------------------------------------------------


def _table(
    columns: Mapping[str, list[Any]],
    graded: Mapping[str, list[Any]],
    names: Iterable[str],
    subjects: Mapping[Subject, Records],
    metrics: Iterable[str] | None,
    grade: str | None,
) -> AnswersTable:
    strings = {name for one in subjects.values() for name in one.texts}
    grades = [name for name in names if name not in strings and _is_grade(name, metrics)]
    by = _main(grades, graded) if grade is None else grade
    if grade is not None and grade not in grades:
        raise MissingColumnError(
            f"there is no grade {grade!r}; the grades are {', '.join(map(repr, grades)) or 'none'}"
        )
    reserved = {*_HEAD, _CORRECT}
    shown = {name: f"grade:{name}" if name in reserved else name for name in graded}
    several = [len(set(part)) > 1 for part in zip(*subjects, strict=True)] or [False, False]
    leading = [name for name, more in zip(_HEAD[:2], several, strict=True) if more]
    leading += ["id", *(["attempt"] if set(columns["attempt"]) - {1} else [])]
    found: dict[str, NDArray[Any]] = {
        name: _numbers(columns[name], np.int64) if name == "attempt" else objects(columns[name])
        for name in (*leading, *_HEAD[4:7])
    }
    found |= {
        shown[name]: objects(values) if name in strings else _numbers(values)
        for name, values in graded.items()
    }
    if by:
        found[_CORRECT] = _numbers(_correct(graded, by, grades), np.bool_)
    found |= {name: _numbers(columns[name], np.int64) for name in _HEAD[7:9]}
    found["error"] = objects(columns["error"])
    return AnswersTable(found, tuple(shown[name] for name in grades), shown.get(by, ""))


def _is_grade(name: str, metrics: Iterable[str] | None) -> bool:
    """Return whether a column is a grade, i.e. a metric (such as pass@k) is named after it."""
    return metrics is None or any(metric.startswith(name) for metric in metrics)


def _main(grades: Sequence[str], values: Mapping[str, Sequence[Any]]) -> str:
    """Return the grade that indicates whether an answer is correct; "" if there are no grades."""
    binary = (name for name in grades if {*values[name]} <= {0.0, 1.0, None})
    known = [name for name in (*binary, *grades) if any(one is not None for one in values[name])]
    return next(iter(known), "")


def _correct(
    graded: Mapping[str, Sequence[Any]], by: str, grades: Sequence[str]
) -> list[bool | None]:
    """Return whether each answer has the best grade; other grades replace missing ones.

    A row without the main grade, e.g. because each sample has its own grader, is judged by the
    first grade that it has.
    """
    order = [by, *(name for name in grades if name != by)]
    best = {name: _best(graded[name], known_direction(name) is not False) for name in order}
    cells = zip(*(graded[name] for name in order), strict=True)
    found = []
    for row in cells:
        known = ((name, value) for name, value in zip(order, row, strict=True) if value is not None)
        name, value = next(known, ("", None))
        found.append(None if value is None else bool(value == best[name]))
    return found


def _best(values: Sequence[Any], up: bool) -> float | None:
    """Return the best possible grade: 1 or 0 for shares, else the best value that occurs."""
    known = [float(one) for one in values if one is not None]
    if known and min(known) >= 0.0 and max(known) <= 1.0:
        return 1.0 if up else 0.0
    return (max if up else min)(known, default=None)


def _numbers(values: Sequence[Any], dtype: Any = np.float64) -> NDArray[Any]:
    """Return numbers with missing ones masked."""
    mask = [one is None for one in values]
    filled = [0 if one is None else one for one in values]
    return np.ma.MaskedArray(np.array(filled, dtype=dtype), mask=mask)


def _stored_units(run: Run) -> list[Unit]:
    """Return the stored questions and references of a run."""
    units = run.units
    if units is None:
        return []
    there = [name for name in _OF_UNITS if name in units.columns]
    read = units.read(["slice", "unit_id", *there])
    names = ("slice", "unit_id", *there)
    rows = zip(*(read[name].tolist() for name in names), strict=True)
    return [
        Unit(id=str(unit_id), slice=str(slice_name), **dict(zip(there, texts, strict=True)))
        for slice_name, unit_id, *texts in rows
    ]


def _display_value(value: Any, longest: int) -> Any:
    """Format a cell for display; strings are put on one line and truncated."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    line = " ".join(value.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
