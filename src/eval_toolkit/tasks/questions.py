"""Tasks created from tables of questions, whose columns are recognised by name."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal import frames, tables
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.graders.extraction.numbers import read_number
from eval_toolkit.graders.match import GRADER_FIELD, grader_of_item
from eval_toolkit.loaders.columns import id_names
from eval_toolkit.protocols import Grader
from eval_toolkit.tasks.composed import Task
from eval_toolkit.tasks.reading import Row, read_rows
from eval_toolkit.tasks.rows_on_disk import RowsOnDisk, cells_of, names_of
from eval_toolkit.tasks.specs import ChoicesSpec, CompletionSpec, DataSpec, Prompt
from eval_toolkit.tasks.templates import FieldSpec, Template
from eval_toolkit.tasks.types import Sample

_NAMES: Mapping[str, Sequence[str]] = {
    "question": ("question", "prompt", "input", "query", "instruction", "problem", "user", "text"),
    "answer": (
        *("answer", "answers", "target", "targets", "reference", "references", "expected"),
        *("reference answer", "expected answer", "expected output", "correct answer"),
        *("ground truth", "gold", "ideal", "solution", "label", "output"),
    ),
    "choices": ("choices", "options"),
    "subject": ("subject", "category", "topic"),
    "group": ("group", "group id"),
    "grader": (GRADER_FIELD,),
    "system": ("system", "system prompt"),
}
"""Common column names by role; case, spaces, ``-`` and ``_`` are ignored."""
_IDS = ("id", "question id", "item id", "uid", "key")
_LETTERED = re.compile(r"(?:option|choice|answer)?[ _-]*([a-h])", re.IGNORECASE)
_MOST_SUBJECTS = 50
_SPLITS = ("test", "validation", "train")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Roles of the columns in a question table; None for roles without a column.

    Examples
    --------
    >>> guess_columns([{"Question": "2 + 2?", "target": "4"}]).question
    'Question'
    """

    question: str | None = None
    answer: str | None = None
    choices: str | FieldSpec | tuple[str, ...] | None = None
    answer_is: str = "auto"
    id: str | None = None
    subject: str | None = None
    group: str | None = None
    grader: str | None = None
    system: str | None = None

    def told(self) -> str:
        """Return a note that lists the column of each role."""
        choices = self.choices.field if isinstance(self.choices, FieldSpec) else self.choices
        if isinstance(choices, tuple):
            choices = ", ".join(Template(one).fields[0] for one in choices)
        found = {
            "question": self.question,
            "system message": self.system,
            "choices": choices,
            "reference": self.answer,
            "grader": self.grader,
            "id": self.id,
            "subject": self.subject,
            "group": self.group,
        }
        return "columns: " + ", ".join(
            f"{what} {name!r}" for what, name in found.items() if name is not None
        )


class QuestionsTask(Task):
    """Task created from a table of questions."""

    guessed: tuple[str, ...] = ()
    kept_rows: Sequence[Row] = ()
    """Rows of a large file, which are not read again while the task is in use."""
    by_match: bool = False
    """Whether the default grader is used."""
    lacking: str = ""
    """Why the default grader cannot be used; "" if it can."""

    def graders(self) -> list[Grader]:
        """Return the graders; raise an error if the default grader has no references."""
        if self.lacking:
            raise MissingColumnError(self.lacking)
        return super().graders()

    def how_graded(self, samples: Iterable[Sample]) -> list[str]:
        """Describe how the default grader grades the samples."""
        ways: Counter[str] = Counter()
        for sample in samples if self.by_match else ():
            context = sample.context if isinstance(sample.context, Mapping) else {}
            truth = sample.ground_truth
            several = [truth] if isinstance(truth, str) else truth or ()
            if context.get(GRADER_FIELD):
                ways[f"by {context[GRADER_FIELD]}"] += 1
            elif "options" in context:
                ways["by the choice"] += 1
            elif several and all(read_number(one) is not None for one in several):
                ways["by the number"] += 1
            elif several:
                ways["by the string after normalisation"] += 1
        most_first = sorted(ways.items(), key=lambda way: (-way[1], way[0]))
        told = ", ".join(f"{n:,} {way}" for way, n in most_first)
        return [f"graded: {told}"] if ways else []

    @property
    def data_notes(self) -> list[str]:
        """Notes about the columns and the data read so far."""
        return [*self.guessed, *super().data_notes]


def questions_task(
    given: Any,
    *,
    prompt: str | None = None,
    system: str | None = None,
    answer: str | None = None,
    by: str | None = None,
    name: str | None = None,
    graders: Sequence[Any] | None = None,
    **sampling: Any,
) -> Task:
    """Create a task from a table of questions.

    Parameters
    ----------
    given : path, DataFrame, dataset, or sequence of mappings or strings
        Questions, one per row. Columns are recognised by their names: question, prompt or input;
        answer, target, reference or expected; choices or options, or A, B, C, D; id; subject;
        group; system; grader.
    prompt : str, optional
        Text of the question, with columns in braces: ``"{question} Answer with one word."``
    system : str, optional
        System message, which may also have columns in braces.
    answer : str, optional
        Column of references, if its name is not recognised.
    by : str, optional
        Column of subjects, for which results are also reported separately; by default, subject,
        category or topic.
    name : str, optional
        Name of the task; by default, the name of the file.
    graders : sequence, optional
        Graders; by default, each item is graded according to its fields, as in `graders.Match`.
    **sampling
        Additional options of `Task`, such as ``seed``, ``subjects`` and ``shuffle_choices``.

    Returns
    -------
    Task
        Task whose notes list the inferred columns.

    Raises
    ------
    MissingColumnError
        If no column contains the questions.
    InvalidInputError, InvalidTypeError
        If there are no rows, or a row is neither a string nor a mapping.

    Examples
    --------
    >>> task = questions_task([{"question": "2 + 2?", "answer": 4}], prompt="Briefly: {question}")
    >>> task.samples()[0].messages[0].content
    'Briefly: 2 + 2?'
    """
    path = given if isinstance(given, (str, Path)) else None
    if path is None:
        splits, split = _splits(given)
        rows: Sequence[Row] = splits[split]
    else:
        rows = read_rows(Path(path).expanduser(), "test")
        splits, split = {}, "test"
    place = "the rows" if path is None else str(path)
    if not rows:
        raise InvalidInputError(f"{place}: contains no questions")
    found = guess_columns(rows, prompt=prompt, answer=answer, by=by, place=place)
    chosen = graders or ["match"]
    task = QuestionsTask(
        name or ("questions" if path is None else Path(path).name.partition(".")[0]),
        _prompt(found, prompt, system),
        _response(found),
        data=_data(found, None if path is None else Path(path).expanduser(), split),
        rows=splits if path is None else None,
        graders=chosen,
        **sampling,
    )
    task.guessed = (found.told(),)
    task.kept_rows = rows if isinstance(rows, RowsOnDisk) else ()
    task.by_match = "match" in chosen
    if graders is None and found.answer is None:
        columns = ", ".join(map(repr, names_of(rows)))
        task.lacking = (
            f"{place}: no column contains the reference (answer, target, reference, expected …); "
            f"the columns are {columns}; specify it with --answer COLUMN (answer= in Python), or "
            "choose "
            "graders that need none with --grader (graders=)"
        )
    return task


def _prompt(found: Columns, prompt: str | None, system: str | None) -> Prompt:
    return Prompt(
        instruction=f"{{{found.question}}}" if prompt is None else prompt,
        system=system or (f"{{{found.system}}}" if found.system else ""),
        style="mc_completion" if found.choices else None,
    )


def _response(found: Columns) -> CompletionSpec | ChoicesSpec:
    if found.choices is None:
        return CompletionSpec(answer=found.answer)
    return ChoicesSpec(choices=found.choices, answer=found.answer, answer_is=found.answer_is)


def _data(found: Columns, path: Path | None, split: str) -> DataSpec:
    return DataSpec(
        path=path,
        sample_split=split,
        id_field=found.id,
        group_field=found.group,
        subject_field=found.subject,
        context_fields=(found.grader,) if found.grader else (),
    )


# --- rows -----------------------------------------------------------------------------------------


def _splits(given: Any) -> tuple[dict[str, list[Row]], str]:
    """Return the rows by split, and the split that contains the samples."""
    if isinstance(given, Mapping) and given and not _is_columns(given):
        splits = {str(name): _rows(part) for name, part in given.items()}
        if len(splits) == 1:
            return splits, next(iter(splits))
        split = next((name for name in _SPLITS if name in splits), None)
        if split is None:
            raise InvalidInputError(
                f"the data set has the splits {', '.join(map(repr, splits))}; pass one of them"
            )
        return splits, split
    return {"test": _rows(given)}, "test"


def _is_columns(given: Mapping[Any, Any]) -> bool:
    """Return whether a mapping maps columns to values, rather than splits to rows."""
    first = next(iter(given.values()))
    if hasattr(first, "column_names") or hasattr(first, "columns"):
        return False
    cells = list(first)[:1] if isinstance(first, Iterable) and not isinstance(first, str) else [""]
    return not (cells and isinstance(cells[0], Mapping))


def _rows(given: Any) -> list[Row]:
    """Convert a data frame, dataset, dict of columns or list to rows; strings are questions."""
    if isinstance(given, Mapping) or hasattr(given, "columns") or hasattr(given, "schema"):
        columns = {name: frames.column(given, name).tolist() for name in frames.names(given)}
        cells = zip(*columns.values(), strict=True)
        return [
            {name: tables.plain_value(value) for name, value in zip(columns, row, strict=True)}
            for row in cells
        ]
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidTypeError(
            f"the questions are {type(given).__name__} {given!r:.60}; pass a file, a DataFrame, a "
            "dataset, or a list of rows such as {'question': …, 'answer': …}"
        )
    rows: list[Row] = []
    for n, row in enumerate(given, 1):
        if isinstance(row, str):
            row = {"question": row}
        if not isinstance(row, Mapping):
            raise InvalidTypeError(
                f"row {n} is {type(row).__name__} {row!r:.60}; it must be a question or a mapping "
                "such as {'question': …, 'answer': …}"
            )
        rows.append({str(key): tables.plain_value(value) for key, value in row.items()})
    return rows


# --- guesses --------------------------------------------------------------------------------------


def guess_columns(
    rows: Sequence[Row],
    *,
    prompt: str | None = None,
    answer: str | None = None,
    by: str | None = None,
    place: str = "the rows",
) -> Columns:
    """Infer the roles of columns in a question table from their names.

    With a ``prompt``, no question column is needed; ``answer`` and ``by`` specify the columns of
    the reference and of the subject.

    Examples
    --------
    >>> guess_columns([{"input": "2 + 2?", "A": "3", "B": "4", "answer": "B"}]).choices
    ('{A}', '{B}')
    """
    names = names_of(rows)
    by_plain = {_plain(name): name for name in reversed(names)}
    known = {
        what: next((by_plain[_plain(one)] for one in some if _plain(one) in by_plain), None)
        for what, some in _NAMES.items()
    }
    if not names:
        raise MissingColumnError(f"{place}: the rows have no columns")
    there = ", ".join(map(repr, names))
    for named in (answer, by):
        if named is not None and named not in names:
            raise MissingColumnError(
                f"{place}: there is no column {named!r}; the columns are {there}"
            )
    reference = answer or known["answer"]
    if known["question"] is None and len(names) == 1:
        known["question"] = names[0]
    if known["question"] is None and prompt is None:
        raise MissingColumnError(
            f"{place}: no column contains the question (question, prompt, input …); the columns are "
            f'{there}: pass a prompt, such as --prompt "{{{names[0]}}}" (prompt= in Python)'
        )
    choices = _choices(rows, known["choices"], names)
    likely_ids = [*(by_plain.get(_plain(one)) for one in _IDS), *id_names(names, known.values())]
    if known["grader"] is not None:
        _check_graders(rows, known["grader"], place)
    return Columns(
        question=known["question"] if prompt is None else None,
        answer=reference,
        choices=choices,
        answer_is=_answer_is(rows, choices, reference),
        id=next((one for one in likely_ids if _unique(rows, one)), None),
        subject=by or (known["subject"] if _divides(rows, known["subject"]) else None),
        group=known["group"] if _in_all(rows, known["group"]) else None,
        grader=known["grader"],
        system=known["system"] if _in_all(rows, known["system"]) else None,
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", str(name)).casefold()


def _in_all(rows: Sequence[Row], name: str | None) -> bool:
    return name is not None and all(value not in (None, "") for value in cells_of(rows, name))


def _unique(rows: Sequence[Row], name: str | None) -> bool:
    return _in_all(rows, name) and len(set(map(str, cells_of(rows, str(name))))) == len(rows)


def _divides(rows: Sequence[Row], name: str | None) -> bool:
    """Return whether the parts defined by a column are large enough to report."""
    if not _in_all(rows, name):
        return False
    n = len(set(map(str, cells_of(rows, str(name)))))
    return 1 < n <= min(_MOST_SUBJECTS, len(rows) // 2)


def _choices(
    rows: Sequence[Row], name: str | None, names: Sequence[str]
) -> str | FieldSpec | tuple[str, ...] | None:
    """Return the column of choices and how to parse it, or one template per choice."""
    if name is None:
        lettered = {m[1].upper(): one for one in names if (m := _LETTERED.fullmatch(one.strip()))}
        order = [lettered[letter] for letter in sorted(lettered)]
        complete = "".join(sorted(lettered)) == "ABCDEFGH"[: len(lettered)]
        if len(order) < 2 or not complete or not all(_in_all(rows, one) for one in order):
            return None
        return tuple(f"{{{one}}}" for one in order)
    first = next((row[name] for row in rows if row.get(name)), None)
    if not isinstance(first, str):
        return None if first is None else name
    if first.lstrip().startswith(("[", "{")):
        return FieldSpec(name, parse=True)
    split = next((mark for mark in ("|", "\n", ";", ",") if mark in first), None)
    return None if split is None else FieldSpec(name, split=split)


def _answer_is(
    rows: Sequence[Row], choices: str | FieldSpec | tuple[str, ...] | None, answer: str | None
) -> str:
    """Return how references denote a choice, or "auto" if this is unclear."""
    if choices is None or answer is None:
        return "auto"
    spec = ChoicesSpec(choices=choices)
    some = [row for row in rows if not spec.absent(row) and row.get(answer) is not None]
    pairs = [(str(row[answer]).strip(), spec.read(row)) for row in some]
    if not pairs or any(found.labels for _, found in pairs):
        return "auto"
    if all(text in found.texts for text, found in pairs):
        return "text"
    if all(len(text) == 1 and text.isalpha() for text, _ in pairs):
        return "letter"
    if all(text.isdecimal() for text, _ in pairs):
        numbers = [int(text) for text, _ in pairs]
        beyond = any(int(text) == len(found.texts) for text, found in pairs)
        return "number" if beyond and 0 not in numbers else "index"
    return "auto"


def _check_graders(rows: Sequence[Row], name: str, place: str) -> None:
    for n, value in enumerate(cells_of(rows, name), 1):
        if value:
            try:
                grader_of_item(str(value))
            except (InvalidInputError, LookupError) as error:
                raise InvalidInputError(f"{place}, row {n}: {error}") from error
