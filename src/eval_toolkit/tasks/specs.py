"""The parts of a composed task: where its data are, its prompt, what is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit._internal.validation import choice as one_of
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.tasks.answers import ANSWER_KINDS, Choices, read_choices, right_choices
from eval_toolkit.tasks.hooks import place_of
from eval_toolkit.tasks.templates import FieldSpec, Template
from eval_toolkit.tasks.types import NO_SUBJECT

if TYPE_CHECKING:
    from eval_toolkit.tasks.flags import Flags
    from eval_toolkit.tasks.styles import TaskStyler

__all__ = ["ChoicesSpec", "CompletionSpec", "DataSpec", "Prompt", "as_field"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """Where the rows of a task are, and what their fields mean.

    Parameters
    ----------
    path : path, or mapping of split to path, optional
        As `BaseTask` takes ``data``; None where the rows are given.
    sample_split, fewshot_split : str
        Splits that are asked about and that examples are drawn from.
    id_field : str, optional
        Field with the key of an item: every item must have one of its own. By default "id" where
        that is so, else items are known by their content.
    group_field : str, optional
        Field whose equal values say that items are not independent, of one subject or of several:
        the translations of a question, say. Numbers that start again in each subject are no groups;
        join them with the subject first.
    subjects : sequence
        Subjects there are, where the data do not say it themselves.
    subject_field : str, optional
        Field with the subject of an item.
    label_files : sequence of str
        Files of labels beside the files of rows, as "{stem}-labels.lst".
    context_fields : sequence of str
        Fields that graders read beside the reference, such as the tests of a program: a sample's
        ``context`` holds them by name, None where an item has none. At least one item has each.
    pattern_field, pattern : str
        A field with a whole question in it, and a regular expression that takes it apart: its named
        groups are fields of the item. Items without that field have theirs already.
    flag_field : str, optional
        Field in which the data set marks its own errors. Items whose mark is none of ``ok_flags``
        are left out, as questions and as examples, and counted in the run's notes.
    ok_flags : sequence of str, default ("ok",)
        Marks of items without an error; case, ``_`` and ``-`` do not matter.
    correction_field : str, optional
        Field with the right choice of a marked item, for ``Task(corrected=True)``.
    config, revision : str, optional
        Config of a dataset of the hub.

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
        """Return what is done about marked items; None where the data mark none."""
        correctable = self.flag_field and self.correction_field
        if corrected and not (correctable and isinstance(response, ChoicesSpec)):
            raise InvalidInputError(
                "`corrected`: it is for tasks with choices whose data have corrections; name "
                "flag_field and correction_field"
            )
        if self.flag_field is None:
            return None
        from eval_toolkit.tasks.flags import Flags

        return Flags(self.flag_field, self.ok_flags, self.correction_field if corrected else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The texts of a prompt, as templates with ``{field}`` in them.

    Parameters
    ----------
    instruction : str
        The question.
    cue : str
        What the answer begins with.
    system : str
        System message.
    initial : str
        Before the first message.
    target : str, optional
        Answer of an example, after the cue; the reference by default.
    style : str or TaskStyler, optional
        "mc" (options with letters, letters are scored), "mc_completion" (same, the text is
        generated), "cloze" (texts are scored), "bpb" (the right text alone is scored). By name it
        adds to the instruction nothing but the options.
    without_brackets : bool, default False
        Take marks such as "[step]" out of the question and the choices; " [title]" ends a
        sentence.

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
        """The style as an object."""
        if not isinstance(self.style, str):
            return self.style
        from eval_toolkit.tasks.styles import STYLES

        made: TaskStyler = STYLES[self.style](question_prefix="", cue_text=self.cue)  # type: ignore[assignment]
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSpec:
    """The model writes an answer.

    Parameters
    ----------
    answer : str or FieldSpec, optional
        Field with the reference, or with a list of them; None where there is none.
    stop : sequence of str
        Where the answer ends.
    max_tokens : int, optional
        At most this many.

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
    """The model chooses.

    Parameters
    ----------
    choices : str, FieldSpec, or sequence of str
        Field with the choices: a list of texts, a list of ``{"text": …, "label": …}``,
        ``{"text": […], "label": […]}``, or an object from text to 1 (right) or 0. A sequence holds
        the choices themselves, as templates: ``["no", "yes"]``, ``["{sol1}", "{sol2}"]``.
    answer : str or FieldSpec, optional
        Field with the right one; not needed where the choices say it.
    answer_is : {"auto", "index", "number", "letter", "label", "text"}
        How it says it: counted from 0, counted from 1, by letter, by the choice's label, or by its
        text. "auto" takes labels where there are any, numbers and true/false as an index, and texts
        as texts; it refuses what can be read in two ways.
    answer_map : mapping of str to str or int
        Texts or places (from 0) that values of the field stand for.
    blank : str
        Where the choices belong into the question: each is put in the place of the first such text,
        and what follows it is scored after each of them.
    stop, max_tokens
        As in `CompletionSpec`, for styles that generate.

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
        """Return the choices of an item, whichever is right."""
        if isinstance(self.choices, (str, FieldSpec)):
            value = as_field(self.choices).read(row)
        else:
            value = [Template(text).render(row) for text in self.choices]
        return read_choices(value, place_of(row))

    def right(self, row: Mapping[str, Any]) -> tuple[list[str], list[int]]:
        """Return the choices of an item and which of them are right.

        Parameters
        ----------
        row : mapping
            Row of the data.

        Returns
        -------
        tuple of list of str and list of int
            Texts, and places counted from 0.

        Raises
        ------
        MissingColumnError, InvalidInputError
            If the item does not say it, or says it in two ways.
        """
        place, found = place_of(row), self.read(row)
        if self.answer is None:
            if not found.right:
                raise InvalidInputError(
                    f"{place}: nothing says which choice is right; set `answer`"
                )
            return found.texts, found.right
        answer = as_field(self.answer).read(row)
        return found.texts, [right_choices(answer, found, self.answer_is, self.answer_map, place)]


def as_field(given: str | FieldSpec) -> FieldSpec:
    """Return a field by its name, or as it is."""
    return FieldSpec(given) if isinstance(given, str) else given
