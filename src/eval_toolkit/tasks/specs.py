"""Specifications that make up a task: data, prompt and response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit._internal.validation import choice as one_of
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.tasks.answers import ANSWER_KINDS, Choices, read_choices, right_choices
from eval_toolkit.tasks.hooks import place_of
from eval_toolkit.tasks.templates import FieldSpec, Template, field_value
from eval_toolkit.tasks.types import NO_SUBJECT

if TYPE_CHECKING:
    from eval_toolkit.tasks.erroneous_items import Flags
    from eval_toolkit.tasks.styles import TaskStyler


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """Location of a task's data, and the meaning of their fields.

    Parameters
    ----------
    path : path, or mapping of split to path, optional
        Location of the data, as in `BaseTask`; None if rows are passed.
    sample_split, fewshot_split : str
        Splits that contain the samples and the few-shot examples.
    id_field : str, optional
        Field with a unique key of each item. By default, "id" if its values are unique; otherwise,
        items are identified by their content.
    group_field : str, optional
        Field with the group of an item. Items of a group are dependent, within and across subjects,
        such as the translations of a question. Numbers that start again in each subject do not
        identify groups; combine them with the subject first.
    subjects : sequence
        Subjects, if they cannot be read from the data.
    subject_field : str, optional
        Field with the subject of an item.
    label_files : sequence of str
        Name patterns of label files next to the data files, such as "{stem}-labels.lst".
    context_fields : sequence of str
        Additional fields that graders need, such as unit tests of a program. They are stored by
        name in the ``context`` of a sample, with None for missing fields. Each field must occur in
        at least one item.
    pattern_field, pattern : str
        Field with a complete question, and a regular expression that parses it, whose named groups
        become fields of the item. Items without the field are used unchanged.
    flag_field : str, optional
        Field in which the dataset marks erroneous items. Items with a mark that is not in
        ``ok_flags`` are excluded, also as examples, and the notes of the run state their number.
    ok_flags : sequence of str, default ("ok",)
        Marks of items without errors; case, ``_`` and ``-`` are ignored.
    correction_field : str, optional
        Field with the corrected choice of a marked item, for ``Task(corrected=True)``.
    config, revision : str, optional
        Configuration and revision of a Hub dataset.

    Examples
    --------
    >>> DataSpec(path="questions.jsonl", group_field="passage").sample_split
    'test'
    """

    path: str | Path | Mapping[str, str | Path] | None = None
    sample_split: str = "test"
    fewshot_split: str = "train"
    id_field: str | None = None
    group_field: str | None = None
    subjects: Sequence[Any] = (NO_SUBJECT,)
    subject_field: str | None = None
    label_files: Sequence[str] = ()
    context_fields: Sequence[str] = ()
    pattern_field: str = ""
    pattern: str = ""
    flag_field: str | None = None
    ok_flags: Sequence[str] = ("ok",)
    correction_field: str | None = None
    config: str | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        compiled(self.pattern, "pattern")

    def flags(self, corrected: bool, response: CompletionSpec | ChoicesSpec) -> Flags | None:
        """Return the settings for erroneous items, or None if the data have no marks."""
        correctable = self.flag_field and self.correction_field
        if corrected and not (correctable and isinstance(response, ChoicesSpec)):
            raise InvalidInputError(
                "`corrected` requires a task with choices and data with corrections; set "
                "flag_field and correction_field"
            )
        if self.flag_field is None:
            return None
        from eval_toolkit.tasks.erroneous_items import Flags

        return Flags(self.flag_field, self.ok_flags, self.correction_field if corrected else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Parts of a prompt, as templates with ``{field}`` placeholders.

    Parameters
    ----------
    instruction : str
        Text of the question.
    cue : str
        Beginning of the answer.
    system : str
        System message.
    initial : str
        Text before the first message.
    target : str, optional
        Answer of a few-shot example, after the cue; by default, the reference.
    style : str or TaskStyler, optional
        "mc" (lettered options in the prompt, letters are scored), "mc_completion" (lettered
        options, the answer is generated; items without choices are sent unchanged), "cloze"
        (choices are scored), or "bpb" (only the correct choice is scored). A style specified by
        name only adds the options to the instruction.
    without_brackets : bool, default False
        Whether to remove marks such as "[step]" from the question and the choices; " [title]" is
        replaced by the end of a sentence.

    Examples
    --------
    >>> Prompt(instruction="Question: {question}", cue="Answer:").style is None
    True
    """

    instruction: str
    cue: str = ""
    system: str = ""
    initial: str = ""
    target: str | None = None
    style: str | TaskStyler | None = None
    without_brackets: bool = False

    def __post_init__(self) -> None:
        for text in (self.instruction, self.cue, self.system, self.initial, self.target or ""):
            Template(text)
        if isinstance(self.style, str):
            from eval_toolkit.tasks.styles import STYLES

            one_of(self.style, "style", tuple(STYLES))

    @property
    def styler(self) -> TaskStyler | None:
        """Style object, created if the style is specified by name."""
        if not isinstance(self.style, str):
            return self.style
        from eval_toolkit.tasks.styles import STYLES

        made: TaskStyler = STYLES[self.style](question_prefix="", cue_text=self.cue)  # type: ignore[assignment]
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSpec:
    """Response that the model generates.

    Parameters
    ----------
    answer : str or FieldSpec, optional
        Field with the reference or a list of references; None without references.
    stop : sequence of str
        Stop sequences that end the answer.
    max_tokens : int, optional
        Maximum number of generated tokens.

    Examples
    --------
    >>> CompletionSpec(answer=FieldSpec("answer", after="#### "), max_tokens=256).stop
    ()
    """

    answer: str | FieldSpec | None = None
    stop: Sequence[str] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicesSpec:
    """Response for which the model selects one of several choices.

    Parameters
    ----------
    choices : str, FieldSpec, or sequence of str
        Field with the choices: a list of strings, a list of ``{"text": …, "label": …}``, ``{"text":
        […], "label": […]}``, or an object that maps each choice to 1 (correct) or 0. A sequence
        contains the choices themselves, as templates: ``["no", "yes"]``, ``["{sol1}", "{sol2}"]``.
    answer : str or FieldSpec, optional
        Field with the correct choice; not needed if it is marked in the choices.
    answer_is : {"auto", "index", "number", "letter", "label", "text"}
        Format of the answer: zero-based index, one-based number, letter, label of the choice, or
        text of the choice. "auto" uses labels if there are any, reads numbers and booleans as
        indices and strings as choices; ambiguous values are rejected.
    answer_map : mapping of str to str or int
        Mapping from values of the answer field to strings or zero-based indices.
    blank : str
        Placeholder in the question: each choice is inserted at its first occurrence, and the text
        after it is scored.
    stop, max_tokens
        As in `CompletionSpec`, for styles with generated answers.

    Examples
    --------
    >>> ChoicesSpec(choices=["no", "yes"], answer="answer").right({"answer": True})
    (['no', 'yes'], [1])
    """

    choices: str | FieldSpec | Sequence[str]
    answer: str | FieldSpec | None = None
    answer_is: str = "auto"
    answer_map: Mapping[str, str | int] = field(default_factory=dict)
    blank: str = ""
    stop: Sequence[str] = ()
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        one_of(self.answer_is, "answer_is", ANSWER_KINDS)
        if not isinstance(self.choices, (str, FieldSpec)):
            for text in self.choices:
                Template(text)

    def read(self, row: Mapping[str, Any]) -> Choices:
        """Return the choices of an item; the correct choice may be unknown."""
        if isinstance(self.choices, (str, FieldSpec)):
            value = as_field(self.choices).read(row)
        else:
            value = [Template(text).render(row) for text in self.choices]
        return read_choices(value, place_of(row))

    def absent(self, row: Mapping[str, Any]) -> bool:
        """Return whether an item has no choices; its answer is then free-form."""
        if not isinstance(self.choices, (str, FieldSpec)):
            return False
        try:
            return field_value(row, as_field(self.choices).field) in ("", [], {})
        except MissingColumnError:
            return True

    def right(self, row: Mapping[str, Any]) -> tuple[list[str], list[int]]:
        """Return the choices of an item and the indices of the correct choices.

        Parameters
        ----------
        row : mapping
            Row of the data.

        Returns
        -------
        tuple of list of str and list of int
            Choices, and zero-based indices of the correct choices.

        Raises
        ------
        MissingColumnError, InvalidInputError
            If the correct choice is missing or ambiguous.
        """
        place, found = place_of(row), self.read(row)
        if self.answer is None:
            if not found.right:
                raise InvalidInputError(
                    f"{place}: no choice is marked as correct; set `answer` to the field with the correct choice"
                )
            return found.texts, found.right
        answer = as_field(self.answer).read(row)
        return found.texts, [right_choices(answer, found, self.answer_is, self.answer_map, place)]


def as_field(given: str | FieldSpec) -> FieldSpec:
    """Convert a field name to a `FieldSpec`."""
    return FieldSpec(given) if isinstance(given, str) else given
