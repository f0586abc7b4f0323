"""A task put together from parts: where the data are, the prompt, what is asked for, graders."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._validate import choice as one_of
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.messages import Message, Role
from eval_toolkit.prompts import joined_choice
from eval_toolkit.responses import ResponseType
from eval_toolkit.seeds import DEFAULT_SEED
from eval_toolkit.tasks.answers import ANSWER_KINDS, read_choices, right_choices
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.hooks import place_of
from eval_toolkit.tasks.styles import STYLES, TaskStyler
from eval_toolkit.tasks.templates import FieldSpec, Template, text_of, without_brackets
from eval_toolkit.tasks.types import NO_SUBJECT, Item, Sample

__all__ = ["ChoicesSpec", "CompletionSpec", "DataSpec", "Prompt", "Task"]


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
    config, revision : str, optional
        Of a dataset of the hub.

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
    config: str | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidInputError(
                f"`pattern` is {self.pattern!r}; it is no pattern: {error}"
            ) from None


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
            one_of(self.style, "style", tuple(STYLES))

    @property
    def styler(self) -> TaskStyler | None:
        """The style as an object."""
        if not isinstance(self.style, str):
            return self.style
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

    def right(self, row: Mapping[str, Any]) -> tuple[list[str], list[int]]:
        """Return the choices of an item and which of them are right.

        Parameters
        ----------
        row : mapping
            An item.

        Returns
        -------
        tuple of list of str and list of int
            Texts, and places counted from 0.

        Raises
        ------
        MissingColumnError, InvalidInputError
            If the item does not say it, or says it in two ways.
        """
        place = place_of(row)
        if isinstance(self.choices, (str, FieldSpec)):
            value = _spec(self.choices).read(row)
        else:
            value = [Template(text).render(row) for text in self.choices]
        found = read_choices(value, place)
        if self.answer is None:
            if not found.right:
                raise InvalidInputError(
                    f"{place}: nothing says which choice is right; set `answer`"
                )
            return found.texts, found.right
        answer = _spec(self.answer).read(row)
        return found.texts, [right_choices(answer, found, self.answer_is, self.answer_map, place)]


def _spec(given: str | FieldSpec) -> FieldSpec:
    return FieldSpec(given) if isinstance(given, str) else given


class Task(BaseTask[str]):
    """A task made of parts instead of hooks.

    Parameters
    ----------
    name : str
        What tables call it.
    prompt : Prompt
        The texts.
    response : CompletionSpec or ChoicesSpec
        What the model is asked for, and what is right.
    data : DataSpec, path, or mapping of split to path, optional
        Where the rows are.
    rows : mapping of split to rows, or sequence of rows, optional
        The rows themselves.
    graders : sequence, optional
        Graders or their names; by default those of the style or of the response.
    version : str
        Changes when its numbers may.
    num_fewshot, seed, subjects, revision, user_prompt_suffix, shuffle_choices
        As in `BaseTask`.

    Raises
    ------
    InvalidInputError
        If the parts do not fit together.

    Examples
    --------
    >>> task = Task(
    ...     "capitals",
    ...     Prompt(instruction="The capital of {country} is"),
    ...     ChoicesSpec(choices=["Rome", "Madrid"], answer="capital"),
    ...     rows=[{"country": "Italy", "capital": "Rome"}],
    ... )
    >>> task.samples()[0].possible_completions
    (' Rome', ' Madrid')
    """

    def __init__(
        self,
        name: str,
        prompt: Prompt,
        response: CompletionSpec | ChoicesSpec,
        *,
        data: DataSpec | str | Path | Mapping[str, str | Path] | None = None,
        rows: Any = None,
        graders: Sequence[Any] | None = None,
        version: str = "1",
        num_fewshot: int = 0,
        seed: int = DEFAULT_SEED,
        subjects: Sequence[Any] | None = None,
        revision: str | None = None,
        user_prompt_suffix: str | None = None,
        shuffle_choices: bool = False,
    ) -> None:
        spec = data if isinstance(data, DataSpec) else DataSpec(path=data)
        styler = prompt.styler
        if styler is not None and not isinstance(response, ChoicesSpec):
            raise InvalidInputError(
                f"task {name!r}: the style {prompt.style!r} needs choices (ChoicesSpec)"
            )
        self.NAME, self.VERSION, self.METRICS = name, version, graders
        self.TASK_STYLER = styler
        if styler is not None:
            self.RESPONSE_TYPE = styler.response_type
        else:
            chosen = isinstance(response, ChoicesSpec)
            self.RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS if chosen else ResponseType.COMPLETION
        self.SAMPLE_SPLIT, self.FEWSHOT_SPLIT = spec.sample_split, spec.fewshot_split
        self.SUBJECTS, self.SUBJECT_FIELD = list(spec.subjects), spec.subject_field
        self.ID_FIELD, self.GROUP_FIELD = spec.id_field, spec.group_field
        self.LABEL_FILES, self.DATASET_CONFIG = spec.label_files, spec.config
        self.REVISION = spec.revision
        self.DATASET_PATH = str(spec.path or "")
        self.stop_sequences = list(response.stop) or None
        self.max_tokens = response.max_tokens
        self._prompt, self._response = prompt, response
        self._context_fields = tuple(spec.context_fields)
        self._apart = (spec.pattern_field, re.compile(spec.pattern)) if spec.pattern else None
        if styler is not None and isinstance(response, ChoicesSpec) and response.blank:
            raise InvalidInputError(f"task {name!r}: choices in a blank take no style")
        self._last_right: tuple[Any, tuple[list[str], list[int]]] = (None, ([], []))
        super().__init__(
            num_fewshot,
            rows=rows,
            data=spec.path if rows is None else None,
            seed=seed,
            subjects=subjects,
            revision=revision,
            user_prompt_suffix=user_prompt_suffix,
            shuffle_choices=shuffle_choices,
        )

    def _identified(self, rows: Sequence[Any], subject: Any, split: str) -> list[Item]:
        items = super()._identified(rows, subject, split)
        name, pattern = self._apart or ("", re.compile(""))
        for item in items:  # known by what was published, not by what is read from it
            if name and name in item:
                found = pattern.search(str(item[name]))
                if found is None:
                    raise InvalidInputError(
                        f"{item.place}: the pattern finds nothing in the field {name!r}"
                    )
                item.update(found.groupdict())
        return items

    def iterate_samples(
        self, num_samples: int | None = None, *, order: str = "shuffled"
    ) -> Iterator[Sample]:
        """Yield the samples one by one; as `samples` returns them."""
        self._check_context_fields()
        yield from super().iterate_samples(num_samples, order=order)

    def _check_context_fields(self) -> None:
        """Raise if graders are to read a field that no row has."""
        missing = dict.fromkeys(self._context_fields)
        fields: dict[str, None] = {}
        for subject in self.subjects:
            for item in self._items(subject, self.SAMPLE_SPLIT) if missing else ():
                fields.update(dict.fromkeys(item))
                missing = {name: None for name in missing if name not in item}
                if not missing:
                    return
        if missing:
            raise MissingColumnError(
                f"task {self.NAME!r}: no row has the field {next(iter(missing))!r}, which `context` "
                f"names; the fields are {', '.join(map(repr, fields))}"
            )

    def _get_contexts(self, item: dict[str, Any]) -> tuple[list[str], str] | None:
        blank = self._response.blank if isinstance(self._response, ChoicesSpec) else ""
        if not blank:
            return None
        before, found, after = self._get_instruction_text(item).partition(blank)
        if not found or not after:
            raise InvalidInputError(
                f"{place_of(item)}: the question needs {blank!r} with something after it"
            )
        return [before + choice for choice in self._right(item)[0]], after

    def _shot(self, example: dict[str, Any]) -> tuple[Message, ...]:
        found = self._get_contexts(example)
        if found is None:
            return super()._shot(example)
        questions, ending = found
        question = questions[self._get_correct_index(example)]
        return (Message(Role.USER, question), Message(Role.ASSISTANT, ending))

    def _rendered(self, text: str, item: dict[str, Any]) -> str:
        rendered = Template(text).render(item) if text else ""
        return without_brackets(rendered) if self._prompt.without_brackets else rendered

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        return self._rendered(self._prompt.instruction, item)

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        if self.TASK_STYLER is not None:
            return super()._get_instruction_text(item)
        return self._rendered(self._prompt.instruction, item)

    def _get_cue_text(self, item: dict[str, Any]) -> str:
        if self.TASK_STYLER is not None and not self._prompt.cue:
            return self.TASK_STYLER.get_cue_text()
        return self._rendered(self._prompt.cue, item)

    def _get_system_prompt_text(self, item: dict[str, Any]) -> str:
        return self._rendered(self._prompt.system, item)

    def _get_initial_prompt_text(self, item: dict[str, Any]) -> str:
        return self._rendered(self._prompt.initial, item)

    def _get_fewshot_target_text(self, item: dict[str, Any]) -> str:
        if self._prompt.target is None and self.TASK_STYLER is None:
            return super()._get_fewshot_target_text(item)
        cue = self._get_cue_text(item)
        if self._prompt.target is not None:
            return cue + joined_choice(cue, self._rendered(self._prompt.target, item))
        return cue + joined_choice(cue, str(self._get_ground_truth(item)))

    def _get_context(self, item: dict[str, Any]) -> dict[str, Any] | None:
        return {name: item.get(name) for name in self._context_fields} or None

    def _right(self, item: dict[str, Any]) -> tuple[list[str], list[int]]:
        if not isinstance(self._response, ChoicesSpec):
            raise InvalidTypeError(f"task {self.NAME!r} has no choices")
        # Several hooks ask this about one row after the other; rows of the data do not change.
        last, found = self._last_right
        if last is not item or not isinstance(item, Item):
            texts, right = self._response.right(item)
            if self._prompt.without_brackets:
                texts = [without_brackets(text) for text in texts]
            found = texts, right
            self._last_right = (item, found)
        texts, right = found
        return list(texts), list(right)

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        return self._right(item)[0]

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        right = self._right(item)[1]
        if len(right) != 1:
            raise InvalidInputError(
                f"{place_of(item)}: {len(right)} choices are right; a style needs exactly one"
            )
        return right[0]

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str] | None:
        if self.TASK_STYLER is not None:
            return super()._get_possible_completions(item)
        return self._right(item)[0] if isinstance(self._response, ChoicesSpec) else None

    def _get_ground_truth(self, item: dict[str, Any]) -> str | list[str] | None:
        if self.TASK_STYLER is not None:
            return super()._get_ground_truth(item)
        if isinstance(self._response, ChoicesSpec):
            choices, right = self._right(item)
            return choices[right[0]] if len(right) == 1 else [choices[at] for at in right]
        if self._response.answer is None:
            return None
        value = _spec(self._response.answer).read(item)
        what = f"{place_of(item)}: the reference"
        return (
            [text_of(one, what) for one in value]
            if isinstance(value, list)
            else text_of(value, what)
        )
