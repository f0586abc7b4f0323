"""Import of plain tables: labels with scores, or one outcome per item."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal import tables
from eval_toolkit._internal.hashing import content_hash, unit_ids
from eval_toolkit._internal.tables import (
    LabelMap,
    decimal_of,
    label_class,
    media_type_of,
    number_in,
    numbers_in,
)
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, MissingColumnError
from eval_toolkit.graders import Grade
from eval_toolkit.integrations.importing.column_names import is_beside
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, Value
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.loaders.columns import LABELS, SCORES
from eval_toolkit.tasks.identity import QUESTION_FIELDS

NAME = "predictions"
IDS = ("unit_id", "row_id", "id", "sample_id", "item_id", "doc_id", "example_id")
RIGHT_OR_WRONG = ("correct", "is_correct", "acc", "exact_match", "passed", "success")
OUTCOMES = (*RIGHT_OR_WRONG, "accuracy", "score")
"""Column names that are recognised as outcomes; the user must specify any other column."""
TARGETS = ("target", "answer", "reference", "expected", "gold")
ANSWERS = ("response", "completion", "output", "prediction", "generated")
ATTEMPTS = ("attempt", "epoch", "repeat")
_REFUSED = {
    frozenset({"attempt_id", "detector", "generations_per_prompt"}): (
        "this is a garak hit log, which contains only failures, so rates cannot be computed; "
        "import the .report.jsonl file in the same folder"
    ),
    frozenset({"entry_type"}): (
        "its lines are entries of several types ('entry_type'), not rows of a table; pass the "
        "columns to read with --column"
    ),
}
"""Reasons for rejecting files, by the columns that identify them."""
WHOLE = "all"
_EMPTY = Grade.skipped("the cell is empty")


def recognises(path: Path) -> bool:
    """Return whether a file looks like a table."""
    try:
        media_type_of(path)
        if not path.is_file():
            return False
        if path.suffix == ".json":
            with path.open("rb") as file:
                return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    except (EvalToolkitError, OSError, ValueError):
        return False
    return True


def read(path: Path, wanted: Wanted) -> list[Log]:
    r"""Read a table as one log, or as one log per model if it has a column of model names.

    Files are CSV, TSV, JSONL, JSON, Parquet or Excel, optionally gzipped. In ``wanted``,
    ``columns`` are the numeric columns; ``id_field``, ``target_field``, ``input_field``,
    ``group_field`` and ``by`` name columns; by default, columns with common names are used. Logs
    have the kind "rows" if there are labels 0 and 1 and a score; otherwise they contain outcomes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
    >>> _ = path.write_text("id,question,correct\nq1,2 + 2?,1\nq2,3 + 3?,0\n")
    >>> log = read(path, Wanted())[0]
    >>> log.task, [sample.values["correct"] for sample in log.samples]
    ('answers', [1.0, 0.0])
    """
    table = _Table.of(path, wanted)
    if table.is_scored(wanted):
        return [_rows_log(table, wanted)]
    return list(_outcome_logs(table, wanted))


@dataclass(frozen=True, slots=True)
class _Table:
    """Columns of a file as strings, and the requested column names."""

    path: Path
    columns: dict[str, list[str | None]]
    labels: LabelMap | None = None
    read: dict[str, list[float | None]] = field(default_factory=dict)
    """Columns converted to numbers, cached on first use."""

    @classmethod
    def of(cls, path: Path, wanted: Wanted) -> "_Table":
        names = tables.column_names(path)
        for marks, what in _REFUSED.items():
            if marks <= set(names) and not wanted.columns:
                raise InvalidInputError(f"{path}: {what}")
        asked = [wanted.id_field, wanted.target_field, wanted.input_field, wanted.group_field]
        for name in (*asked, *wanted.by, *wanted.columns):
            if name is not None and name not in names:
                raise MissingColumnError(
                    f"{path}: there is no column {name!r}; the columns are "
                    f"{', '.join(map(repr, names))}"
                )
        read = tables.read_table(path, texts=names)
        columns = {name: column.tolist() for name, column in read.items()}
        if not columns or not next(iter(columns.values())):
            raise InvalidInputError(f"{path}: 0 rows; there is nothing to import")
        return cls(path, columns, wanted.labels)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def first(self, asked: str | None, usual: Sequence[str]) -> str | None:
        """Return the requested column, or the first one with a common name."""
        return asked or next((name for name in usual if name in self.columns), None)

    def is_scored(self, wanted: Wanted) -> bool:
        """Return whether the table has labels 0 and 1 and a score."""
        label = self.first(wanted.target_field, LABELS)
        score = self.score(wanted, label)
        if label is None or score is None:
            return False
        if wanted.labels is not None:  # a label mapping implies that labels are wanted
            texts = np.array(self.columns[label], dtype=object)
            tables.Rows({label: texts}, title=str(self.path)).classes(label, wanted.labels)
            return True
        return None not in {label_class(text) for text in set(self.columns[label])}

    def score(self, wanted: Wanted, label: str | None) -> str | None:
        """Return the name of the score column; None if several outcomes are requested."""
        if len(wanted.columns) > 1:
            return None
        found = self.first(wanted.columns[0] if wanted.columns else None, SCORES)
        return None if found == label else found

    def value(self, name: str, row: int) -> Value:
        """Return the number in a cell, or a grade that marks the cell as empty."""
        text = self.columns[name][row]
        if text is None or not text.strip():
            return _EMPTY
        number = self.numbers(name)[row]
        if number is None or not math.isfinite(number):
            raise InvalidInputError(
                f"{self.path}: row {row + 1}: {name!r} is {text!r:.40}; it must be a finite number"
            )
        return number

    def is_numeric(self, name: str) -> bool:
        """Return whether a column contains only numbers."""
        there = [bool(text and text.strip()) for text in self.columns[name]]
        numbers = zip(self.numbers(name), there, strict=True)
        return any(there) and all(number is not None for number, filled in numbers if filled)

    def numbers(self, name: str) -> list[float | None]:
        """Return the number in each cell of a column; None for cells without a number."""
        if name not in self.read:
            cells = self.columns[name]
            if decimal_of(cells) == ",":
                found = numbers_in(cells, ",").tolist()
                self.read[name] = [None if math.isnan(number) else number for number in found]
            else:
                self.read[name] = [number_in(cell) for cell in cells]
        return self.read[name]

    def refuse_counts(self, name: str) -> None:
        """Raise if a column that is binary by name contains values outside [0, 1]."""
        for row in range(len(self) if name in RIGHT_OR_WRONG else 0):
            value = self.value(name, row)
            if isinstance(value, float) and not 0.0 <= value <= 1.0:
                raise InvalidInputError(
                    f"{self.path}: row {row + 1}: {name!r} is {value:g}; a column with this name "
                    f"must have values from 0 to 1. To use it anyway, pass --column {name}"
                )

    def filled(self, name: str, row: int) -> str:
        """Return the content of a cell; raise if it is empty."""
        text = self.columns[name][row]
        if text is None or text == "":
            raise InvalidInputError(f"{self.path}: row {row + 1}: {name!r} is missing")
        return text


@dataclass(frozen=True, slots=True)
class _Roles:
    """Names of the columns that identify and describe an item."""

    id: str | None
    input: str | None
    target: str | None
    answer: str | None
    attempt: str | None
    group: str | None
    by: tuple[str, ...]

    @property
    def taken(self) -> set[str]:
        told = (self.id, self.input, self.target, self.answer, self.attempt, self.group, *self.by)
        return {name for name in told if name is not None}


def _roles(table: _Table, wanted: Wanted, *, target: str | None) -> _Roles:
    found = _Roles(
        id=table.first(wanted.id_field, IDS),
        input=table.first(wanted.input_field, QUESTION_FIELDS),
        target=target,
        answer=table.first(None, ANSWERS),
        attempt=table.first(None, ATTEMPTS),
        group=wanted.group_field,
        by=wanted.by,
    )
    if found.id is None and found.input is None:
        raise InvalidInputError(
            f"{table.path}: no column identifies the rows, and row numbers are not ids; pass one "
            f"as id_field (--id). The columns are {', '.join(map(repr, table.columns))}"
        )
    return found


def _samples(
    table: _Table, roles: _Roles, rows: Sequence[int], columns: Sequence[str], *, label: bool
) -> Iterator[LoggedSample]:
    targets = [_target(table, roles, row, label) for row in rows]
    inputs = [None if roles.input is None else table.columns[roles.input][row] for row in rows]
    if roles.id is not None:
        ids = [table.filled(roles.id, row) for row in rows]
        groups: Sequence[str | None] = [None] * len(ids)
    else:  # identical inputs are not independent
        contents = [content_hash(*pair) for pair in zip(inputs, targets, strict=True)]
        ids, groups = unit_ids(contents), contents
    if roles.group is not None:
        groups = [table.filled(roles.group, row) for row in rows]
    for row, unit, item, target, group in zip(rows, ids, inputs, targets, groups, strict=True):
        values = {name: table.value(name, row) for name in columns}
        if label:
            values = {"label": float(target), "score": values[columns[0]]}
            if isinstance(values["score"], Grade):
                raise InvalidInputError(
                    f"{table.path}: row {row + 1}: {columns[0]!r} is missing; every row needs a score"
                )
        yield LoggedSample(
            unit_id=unit,
            values=values,
            attempt=1 if roles.attempt is None else _attempt(table, roles.attempt, row),
            input=item,
            target=target,
            group=group,
            parts={name: table.filled(name, row) for name in roles.by},
            prompt=None if label else item,
            response=None if roles.answer is None or label else table.columns[roles.answer][row],
        )


def _target(table: _Table, roles: _Roles, row: int, label: bool) -> Any:
    if roles.target is None:
        return None
    text = table.columns[roles.target][row]
    return label_class(text, table.labels) if label else text


def _attempt(table: _Table, name: str, row: int) -> int:
    number = number_in(table.columns[name][row])
    if number is None or not number.is_integer() or number < 0:
        raise InvalidInputError(
            f"{table.path}: row {row + 1}: {name!r} is {table.columns[name][row]!r}; "
            "it must be a whole number"
        )
    return int(number)


def _rows_log(table: _Table, wanted: Wanted) -> Log:
    label = table.first(wanted.target_field, LABELS)
    score = str(table.score(wanted, label))
    roles = _roles(table, wanted, target=label)
    roles = _Roles(roles.id, roles.input, label, None, None, roles.group, roles.by)
    samples = list(_samples(table, roles, range(len(table)), [score], label=True))
    known = f", rows identified by {roles.id!r}" if roles.id else ", rows identified by text"
    return Log(
        tool=NAME,
        task=WHOLE,
        model=score,
        kind="rows",
        samples=samples,
        files=[str(table.path)],
        notes=(f"columns used: label {label!r}, score {score!r}{known}",),
    )


def _outcome_logs(table: _Table, wanted: Wanted) -> Iterator[Log]:
    target = table.first(wanted.target_field, TARGETS)
    roles = _roles(table, wanted, target=target)
    columns = _outcomes(table, roles, wanted)
    known = f"items identified by {roles.id or roles.input!r}"
    note = f"columns used: {', '.join(map(repr, columns))}, {known}"
    apart: dict[tuple[str, str], list[int]] = {}
    for row in range(len(table)):
        task = table.filled("task", row) if "task" in table.columns else table.path.stem
        model = table.filled("model", row) if "model" in table.columns else "unnamed"
        apart.setdefault((task, model), []).append(row)
    for (task, model), rows in apart.items():
        samples = list(_samples(table, roles, rows, columns, label=False))
        yield Log(
            tool=NAME,
            task=task,
            model=model,
            samples=samples,
            files=[str(table.path)],
            notes=(note,),
        )


def _outcomes(table: _Table, roles: _Roles, wanted: Wanted) -> list[str]:
    """Return the outcome columns: those requested, or those with a common name."""
    if wanted.columns:
        return list(wanted.columns)
    left = [name for name in table.columns if name not in roles.taken]
    numeric = [name for name in left if name not in ("task", "model") and table.is_numeric(name)]
    usual = [name for name in OUTCOMES if name in numeric]
    for name in usual:
        table.refuse_counts(name)
    if usual:
        return usual
    if not numeric:
        raise InvalidInputError(
            f"{table.path}: no numeric column besides {', '.join(sorted(roles.taken))}; a table of "
            "predictions needs a label and a score, or an id and an outcome"
        )
    may_be = [name for name in numeric if not is_beside(name)]
    if may_be:
        hint = f"--column {may_be[0]} (in Python Wanted(columns=({may_be[0]!r},)))"
    else:
        hint = "--column NAME; by their names, these are counts, ids or settings"
    raise InvalidInputError(
        f"{table.path}: no outcome column found (one of {', '.join(OUTCOMES)}); the numeric "
        f"columns are {', '.join(map(repr, numeric))}. Pass the outcome with {hint}, or the label "
        "with --target-field"
    )
