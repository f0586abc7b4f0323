"""Grading of stored answers from any source, given as a table with references."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._internal import frames, tables
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.validation import is_missing
from eval_toolkit.errors import InvalidInputError, MissingColumnError, ModelError
from eval_toolkit.models.request_positions import Place
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.models.responses.fields import Usage
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.tasks.grading import GraderLike
from eval_toolkit.tasks.questions import questions_task
from eval_toolkit.tasks.reading import checked_rows
from eval_toolkit.tasks.running import run_task

_SAID = (
    "response",
    "output",
    "completion",
    "prediction",
    "model_answer",
    "model_output",
    "generated",
    "reply",
)
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
    "subject": ("subject", "category", "topic"),
    "group": ("group",),
}
"""Common column names by role, most likely first.

If there is a column ``response``, ``answer`` is the reference. Other columns are ignored, so that
files of several systems have the same items.
"""
_USUAL = ("match", "exact_match", "includes", "f1")


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
    """Grade stored answers from any source without querying a model, except for judges.

    Parameters
    ----------
    answers : path, frame, mapping of columns, or sequence of mappings
        Table with one row per answer and the columns ``question``, ``answer`` (or ``response``,
        ``output``, …) and ``reference`` (or ``expected``, ``target``, …), and optionally ``id``,
        ``choices`` (a list) and ``grader`` (the name of the grader to use for that row).
    columns : mapping of str to str, optional
        Maps roles (``question``, ``answer``, ``reference``, ``id``, ``choices``, ``grader``) to
        columns, if they have other names.
    graders : sequence of Grader, str or mapping, optional
        As in `run_task`; by default, ``match``, which selects a grader for each row (the row's own
        grader, or one for choices, numbers or strings), and for strings also exact match, inclusion
        and F1.
    out : path, optional
        Folder in which to store the run, which can be compared, reported and gated like any other.
    name, model : str
        Names of the task and of the system, used in tables and in the run.
    **options
        Additional options of `run_task`, such as ``confidence`` or ``cache``.

    Returns
    -------
    Outcome
        Outcome of the run, as returned by `run_task`.

    Raises
    ------
    MissingColumnError
        If a column is missing; the message lists the existing columns.
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
        raise InvalidInputError(f"{name}: contains no rows")
    roles = _roles(rows, columns or {}, name)
    if graders is None:
        _refuse_without_references(rows, roles, name)
        graders = _USUAL[:1] if "choices" in roles else _USUAL
    task = questions_task(
        [_item(n, row, roles) for n, row in enumerate(rows, 1)],
        answer="reference" if "reference" in roles else None,
        name=name,
        graders=list(graders),
    )
    texts = [_text(row.get(roles["answer"])) for row in rows]
    task.guessed = tuple(_notes(roles, texts))  # type: ignore[attr-defined]  # of its own kind
    by_unit = {sample.id: texts[sample.index] for sample in task.samples(order="file")}
    return run_task(task, _StoredAnswersModel(model, by_unit), out, **options)


def answer_rows(answers: Any) -> list[dict[str, Any]]:
    """Convert a file, a data frame, a mapping of columns or a sequence of mappings to rows.

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


@dataclass(frozen=True)
class _StoredAnswersModel:
    """Model that returns the stored answers."""

    name: str
    answers: Mapping[str, str] = field(repr=False)

    def describe(self) -> dict[str, Any]:
        """Return the hash of the answers."""
        return {
            "kind": "stored_answers",
            "sha256": sha256_text(canonical_json(dict(self.answers))),
        }

    async def answer_at(self, request: Request, place: Place) -> RawCompletion:
        """Return the stored answer for a unit."""
        return RawCompletion(self.answers[place.job[0]], usage=Usage(0, 0, 0.0, cached=True))

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Raise an error, because answers are stored by row, not by prompt."""
        raise ModelError("stored answers cannot be reused for other prompts", kind="unsupported")

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise an error, because stored answers have no log-likelihoods."""
        raise ModelError("stored answers have no log-likelihoods", kind="unsupported")


# --- columns --------------------------------------------------------------------------------------


def _roles(
    rows: Sequence[Mapping[str, Any]], asked: Mapping[str, str], name: str
) -> dict[str, str]:
    """Return the column of each role, either specified or found by a common name."""
    have = list(dict.fromkeys(column for row in rows for column in row))
    unknown = [role for role in asked if role not in ANSWER_ROLES]
    if unknown:
        raise InvalidInputError(
            f"`columns` contains {unknown[0]!r}, which is not a role; the roles are "
            f"{', '.join(ANSWER_ROLES)}"
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
            f"{name}: no column contains the answers; specify it with `columns`={{'answer': …}}; {listed}"
        )
    return found


def _item(n: int, row: Mapping[str, Any], roles: Mapping[str, str]) -> dict[str, Any]:
    """Return the item of a row: question and reference, without the answer."""
    item = {role: row.get(column) for role, column in roles.items() if role != "answer"}
    item["question"] = _text(item.get("question")) or f"row {n}"
    right = item.get("reference")
    if right is not None:
        several = [_text(one) for one in right] if isinstance(right, list | tuple) else None
        item["reference"] = _text(right) if several is None else several
    return item


def _text(value: Any) -> str:
    """Convert a cell to a string; whole floats, which may be converted integers, lose ".0"."""
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


def _refuse_without_references(
    rows: Sequence[Mapping[str, Any]], roles: Mapping[str, str], name: str
) -> None:
    """Raise an error if the default graders have no references to compare answers with."""
    if "reference" not in roles:
        raise MissingColumnError(
            f"{name}: no column contains the references; specify it with `columns`={{'reference': …}}, or "
            "choose `graders` that need none; the columns are "
            f"{', '.join(map(repr, dict.fromkeys(column for row in rows for column in row)))}"
        )
    column = roles["reference"]
    lacking = [n for n, row in enumerate(rows, 1) if row.get(column) in ("", [], None)]
    if lacking:
        some = ", ".join(map(str, lacking[:5])) + (", …" if len(lacking) > 5 else "")
        raise InvalidInputError(
            f"{name}: {len(lacking)} rows have no reference (row {some}); add references or "
            "remove these rows"
        )
