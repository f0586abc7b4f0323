"""Grading of stored answers of any origin: questions, answers and references in a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._internal import frames, tables
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.validation import is_missing
from eval_toolkit.errors import (
    EvalToolkitError,
    InvalidInputError,
    MissingColumnError,
    ModelError,
)
from eval_toolkit.graders import Grade
from eval_toolkit.graders.base import columns_of
from eval_toolkit.graders.extraction.numbers import read_number
from eval_toolkit.graders.judges.asking import is_judge
from eval_toolkit.graders.loading import named_grader
from eval_toolkit.models.asking import Place
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.models.responses.fields import Usage
from eval_toolkit.plugins import read_from
from eval_toolkit.protocols import Grader
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.tasks.composed import Task
from eval_toolkit.tasks.grading import GraderLike
from eval_toolkit.tasks.reading import checked_rows
from eval_toolkit.tasks.running import run_task
from eval_toolkit.tasks.specs import CompletionSpec, DataSpec, Prompt

__all__ = ["ANSWER_ROLES", "answer_rows", "grade_answers"]

_SAID = ("response", "output", "completion", "prediction", "model_answer", "generated", "reply")
ANSWER_ROLES: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "prompt", "input", "query", "problem", "instruction"),
    "answer": (*_SAID, "answer"),
    "reference": (
        *("reference", "expected", "target", "gold", "ground_truth", "truth", "correct_answer"),
        *("ideal", "solution", "label", "answer"),
    ),
    "id": ("id", "unit_id", "question_id"),
    "choices": ("choices", "options"),
    "grader": ("grader",),
}
"""Usual names of columns by role, the likeliest first; ``answer`` is the reference beside a
``response``."""
_USUAL = ("exact_match", "includes", "f1")


def grade_answers(
    answers: Any,
    *,
    columns: Mapping[str, str] | None = None,
    graders: Sequence[GraderLike] | None = None,
    out: str | Path | None = None,
    name: str = "answers",
    model: str = "stored answers",
    **options: Any,
) -> Outcome:
    """Grade stored answers of any origin; no model is queried, except for judges.

    Parameters
    ----------
    answers : path, frame, mapping of columns, or sequence of mappings
        One row per answer, with the columns ``question``, ``answer`` (or ``response``, ``output``,
        …) and ``reference`` (or ``expected``, ``target``, …), and optionally ``id``, ``choices``
        (a list) and ``grader`` (the name of the grader of that row).
    columns : mapping of str to str, optional
        Column by role (``question``, ``answer``, ``reference``, ``id``, ``choices``, ``grader``),
        for columns with other names.
    graders : sequence of Grader, str or mapping, optional
        As in `run_task`; by default exact match ignoring nothing but white space, inclusion of the
        reference and token F1; number match if every reference is a number, letter match if every
        reference is a letter of the choices.
    out : path, optional
        Folder of the run, which can be compared, reported and gated like any other.
    name, model : str
        Names of the task and of the system in tables and in the run.
    **options
        Further options of `run_task`, such as ``confidence`` or ``cache``.

    Returns
    -------
    Outcome
        Outcome, as of a run of a task.

    Raises
    ------
    MissingColumnError
        If a column is missing; the message lists the existing ones.
    InvalidInputError
        If there are no rows, or a row has no reference.

    Examples
    --------
    >>> done = grade_answers([
    ...     {"question": "Capital of Italy?", "answer": "It is Rome.", "reference": "Rome"},
    ...     {"question": "Capital of Spain?", "answer": "Lisbon", "reference": "Madrid"},
    ... ])
    >>> done.card["includes"].value, done.card["exact_match"].value
    (0.5, 0.0)
    """
    rows = answer_rows(answers)
    if not rows:
        raise InvalidInputError(f"{name}: there are no rows")
    roles = _roles(rows, columns or {}, name)
    given = [_row(n, row, roles, name) for n, row in enumerate(rows, 1)]
    chosen = _graders(rows, given, roles, graders, name)
    task = _StoredAnswersTask(
        name,
        Prompt(instruction="{question}"),
        CompletionSpec(answer="reference" if "reference" in roles else None),
        data=DataSpec(
            id_field="id" if "id" in roles else None,
            context_fields=[role for role in ("choices", "grader") if role in roles],
        ),
        rows=given,
        graders=chosen,
    )
    texts = [_text(row.get(roles["answer"])) for row in rows]
    task.notes = _notes(roles, texts)
    by_unit = {sample.id: texts[sample.index] for sample in task.samples(order="file")}
    return run_task(task, _StoredAnswersModel(model, by_unit), out, **options)


def answer_rows(answers: Any) -> list[dict[str, Any]]:
    """Return the rows of a file, a frame, a mapping of columns or a sequence of mappings.

    Examples
    --------
    >>> answer_rows({"answer": ["4"], "reference": ["4"]})
    [{'answer': '4', 'reference': '4'}]
    """
    if isinstance(answers, str | Path):
        return checked_rows((row for _, row in tables.read_records(answers)), str(answers))
    if isinstance(answers, Sequence):
        return checked_rows(answers, "`answers`")
    names = frames.names(answers)
    cells = [[tables.plain_value(one) for one in frames.column(answers, n).tolist()] for n in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]


class _StoredAnswersTask(Task):
    """Task whose prompts are questions that were asked elsewhere."""

    notes: Sequence[str] = ()

    @property
    def data_notes(self) -> list[str]:
        """Columns that were used, and empty answers."""
        return [*self.notes, *super().data_notes]


@dataclass(frozen=True)
class _StoredAnswersModel:
    """Model that answers as the rows do."""

    name: str
    answers: Mapping[str, str] = field(repr=False)

    def describe(self) -> dict[str, Any]:
        """Return the hash of the answers."""
        return {
            "kind": "stored_answers",
            "sha256": sha256_text(canonical_json(dict(self.answers))),
        }

    async def answer_at(self, request: Request, place: Place) -> RawCompletion:
        """Return the stored answer of a unit."""
        return RawCompletion(self.answers[place.job[0]], usage=Usage(0, 0, 0.0, cached=True))

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Raise, since answers belong to rows and not to prompts."""
        raise ModelError("stored answers answer no other questions", kind="unsupported")

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise, since stored answers are texts."""
        raise ModelError("stored answers have no log-likelihoods", kind="unsupported")


@dataclass(frozen=True)
class _OfSomeRows:
    """Grader of the rows that name it."""

    grader: Grader
    named: str
    """Name as written in the rows."""

    @property
    def name(self) -> str:
        """Name of the grader."""
        return self.grader.name

    @property
    def version(self) -> str:
        """Version of the grader."""
        return str(self.grader.version)

    def columns(self) -> Mapping[str, Any]:
        """Return the columns of the grader."""
        return columns_of(self.grader)

    def grade(self, response: Any) -> Any:
        """Return the grades of a row that names the grader; others are skipped."""
        if response.context["grader"] != self.named:
            return dict.fromkeys(self.columns(), Grade.skipped("another grader is named"))
        return self.grader.grade(response)


# --- columns --------------------------------------------------------------------------------------


def _roles(
    rows: Sequence[Mapping[str, Any]], asked: Mapping[str, str], name: str
) -> dict[str, str]:
    """Return the column of each role, as asked or by its usual name."""
    have = list(dict.fromkeys(column for row in rows for column in row))
    unknown = [role for role in asked if role not in ANSWER_ROLES]
    if unknown:
        raise InvalidInputError(
            f"`columns` names {unknown[0]!r}; the roles are {', '.join(ANSWER_ROLES)}"
        )
    listed = f"the columns are {', '.join(map(repr, have))}"
    for role, column in asked.items():
        if column not in have:
            raise MissingColumnError(f"{name}: there is no column {column!r} ({role}); {listed}")
    found = dict(asked)
    lower = {column.strip().lower().replace(" ", "_"): column for column in reversed(have)}
    for role, usual in ANSWER_ROLES.items():
        free = [lower[one] for one in usual if one in lower and lower[one] not in found.values()]
        if role not in found and free:
            found[role] = free[0]
    if "answer" not in found:
        raise MissingColumnError(
            f"{name}: no column holds the answers; name it with `columns`={{'answer': …}}; {listed}"
        )
    return found


def _row(n: int, row: Mapping[str, Any], roles: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the item of a row: what was asked and is right, without the answer."""
    question = _text(row.get(roles["question"])) if "question" in roles else ""
    item: dict[str, Any] = {"question": question or f"row {n}"}
    if "id" in roles:
        item["id"] = _text(row.get(roles["id"]))
    if "reference" in roles:
        right = row.get(roles["reference"])
        item["reference"] = (
            [_text(one) for one in right] if isinstance(right, list | tuple) else _text(right)
        )
    if "choices" in roles:
        item["choices"] = _choices(row.get(roles["choices"]), f"{name}: row {n}")
    if "grader" in roles:
        item["grader"] = _text(row.get(roles["grader"])).strip() or _USUAL[0]
    return item


def _choices(given: Any, place: str) -> list[str]:
    """Return choices given as a list, or as a JSON list in a cell of text."""
    if isinstance(given, str) and given.strip().startswith("["):
        try:
            given = json.loads(given)
        except ValueError:
            raise InvalidInputError(f"{place}: the choices {given:.60} are not a list") from None
    return [_text(one) for one in given] if isinstance(given, list | tuple) else []


def _text(value: Any) -> str:
    """Return a cell as text: whole floats, as frames make of integers, as integers."""
    if isinstance(value, str):
        return value
    if value is None or is_missing(value):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _notes(roles: Mapping[str, str], texts: Sequence[str]) -> list[str]:
    used = ", ".join(f"{role} from {column!r}" for role, column in roles.items())
    n_empty = sum(not text.strip() for text in texts)
    return [f"columns: {used}", *([f"{n_empty:,} answers are empty"] if n_empty else [])]


# --- graders --------------------------------------------------------------------------------------


def _graders(
    rows: Sequence[Mapping[str, Any]],
    given: Sequence[Mapping[str, Any]],
    roles: Mapping[str, str],
    graders: Sequence[GraderLike] | None,
    name: str,
) -> list[Any]:
    """Return the graders: as asked, as named by the rows, or those that fit the references."""
    if graders is not None:
        return list(graders)
    if "reference" not in roles:
        raise MissingColumnError(
            f"{name}: no column holds the references; name it with `columns`={{'reference': …}}, or "
            "choose `graders` that need none; the columns are "
            f"{', '.join(map(repr, dict.fromkeys(c for row in rows for c in row)))}"
        )
    lacking = [n for n, item in enumerate(given, 1) if item["reference"] in ("", [])]
    if lacking:
        some = ", ".join(map(str, lacking[:5])) + (", …" if len(lacking) > 5 else "")
        raise InvalidInputError(
            f"{name}: {len(lacking)} rows have no reference (row {some}); add it or remove them"
        )
    if "grader" in roles:
        return _named_by_rows(given, name)
    return _fitting(given)


def _fitting(given: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the usual graders of texts, and those of numbers and letters if all are."""
    truths = [
        text
        for item in given
        for text in (
            item["reference"] if isinstance(item["reference"], list) else [item["reference"]]
        )
    ]
    if all(item.get("choices") for item in given) and all(map(_is_letter, truths)):
        return ["letter_match", *_USUAL]
    numbers = all(read_number(one) is not None for one in truths)
    return ["number_match", *_USUAL] if numbers else list(_USUAL)


def _is_letter(text: str) -> bool:
    bare = text.strip(" ().:")
    return len(bare) == 1 and bare.isascii() and bare.isalpha()


def _named_by_rows(given: Sequence[Mapping[str, Any]], name: str) -> list[_OfSomeRows]:
    """Return the graders that the rows name, each for its own rows."""
    made = []
    for named in dict.fromkeys(item["grader"] for item in given):
        at = next(n for n, item in enumerate(given, 1) if item["grader"] == named)
        try:
            # The name is read from a file, which must not run code.
            grader = named_grader(named, {}, origin=read_from(name, f"row {at}"))
        except EvalToolkitError as error:
            raise InvalidInputError(f"{name}: row {at}: {error}") from error
        if is_judge(grader):
            raise InvalidInputError(
                f"{name}: row {at} names the judge {named!r}, which is asked about every row: "
                "choose it with `graders`"
            )
        made.append(_OfSomeRows(grader, named))
    return made
