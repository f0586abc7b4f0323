"""Tasks composed of data, prompt, response type and graders: `Task`."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, Unpack

from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit._internal.sandbox.patterns import groups_in
from eval_toolkit._internal.words import one_line
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.prompts import joined_choice
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.plugins import origin_in_force
from eval_toolkit.seeds import DEFAULT_SEED
from eval_toolkit.tasks.answers import Choices
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.hooks import place_of
from eval_toolkit.tasks.specs import ChoicesSpec, CompletionSpec, DataSpec, Prompt, as_field
from eval_toolkit.tasks.templates import Template, text_of, without_brackets
from eval_toolkit.tasks.types import Item, Sample


class _SamplingOptions(TypedDict, total=False):
    """Options that `Task` shares with every `BaseTask`."""

    num_fewshot: int
    seed: int
    subjects: Sequence[Any] | None
    revision: str | None
    user_prompt_suffix: str | None
    shuffle_choices: bool


class Task(BaseTask[str]):
    """Task that is composed of specifications instead of overriding hooks.

    Parameters
    ----------
    name : str
        Name of the task.
    prompt : Prompt
        Templates of the prompt.
    response : CompletionSpec or ChoicesSpec
        Type of the response, and how to obtain the reference.
    data : DataSpec, path, or mapping of split to path, optional
        Location of the rows.
    rows : mapping of split to rows, or sequence of rows, optional
        Rows of the data.
    graders : sequence, optional
        Graders or their names; by default, the graders of the style or the response type.
    version : str
        Version of the task; change it when results may change.
    corrected : bool, default False
        Whether to include erroneous items that have exactly one corrected choice; requires
        ``flag_field`` and ``correction_field`` of `DataSpec`.
    num_fewshot, seed, subjects, revision, user_prompt_suffix, shuffle_choices
        As in `BaseTask`.

    Raises
    ------
    InvalidInputError
        If the specifications are incompatible.

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

    @gathers(
        _SamplingOptions,
        num_fewshot=0,
        seed=DEFAULT_SEED,
        subjects=None,
        revision=None,
        user_prompt_suffix=None,
        shuffle_choices=False,
    )
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
        corrected: bool = False,
        **sampling: Unpack[_SamplingOptions],
    ) -> None:
        spec = data if isinstance(data, DataSpec) else DataSpec(path=data)
        styler = prompt.styler
        if styler is not None and not isinstance(response, ChoicesSpec):
            raise InvalidInputError(
                f"task {name!r}: the style {prompt.style!r} needs choices (ChoicesSpec)"
            )
        self.NAME, self.VERSION, self.METRICS = name, version, graders
        self._named_in = origin_in_force()
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
        self._flags = spec.flags(corrected, response)
        self._apart = (
            (spec.pattern_field, compiled(spec.pattern, "pattern")) if spec.pattern else None
        )
        if styler is not None and isinstance(response, ChoicesSpec) and response.blank:
            raise InvalidInputError(f"task {name!r}: `blank` cannot be combined with a style")
        self._last_right: tuple[Any, tuple[list[str], list[int]]] = (None, ([], []))
        super().__init__(
            sampling["num_fewshot"],
            rows=rows,
            data=spec.path if rows is None else None,
            seed=sampling["seed"],
            subjects=sampling["subjects"],
            revision=sampling["revision"],
            user_prompt_suffix=sampling["user_prompt_suffix"],
            shuffle_choices=sampling["shuffle_choices"],
        )

    def _identified(self, rows: Sequence[Any], subject: Any, split: str) -> Sequence[Item]:
        items = super()._identified(rows, subject, split)
        name, pattern = self._apart or ("", compiled("", "pattern"))
        if not name and self._flags is None:
            return items
        items = list(items)  # items on disk cannot be changed
        for item in items:  # identified by the published content, not by the values parsed from it
            if name and name in item:
                item.update(_groups(pattern, item, name))
        if self._flags is None:
            return items
        return self._flags.kept(items, self._read_choices, counted=split == self.SAMPLE_SPLIT)

    def _read_choices(self, item: Item) -> Choices:
        if not isinstance(self._response, ChoicesSpec):
            raise InvalidTypeError(f"task {self.NAME!r} has no choices")
        return self._response.read(item)

    @property
    def data_notes(self) -> list[str]:
        """Notes on the data read so far."""
        return [*super().data_notes, *([] if self._flags is None else self._flags.notes)]

    def describe(self) -> dict[str, Any]:
        """Return the description of the task for the manifest, which requires reading the data."""
        description = super().describe()
        if self._flags is not None:
            description["dataset"]["flags"] = self._flags.describe()
        return description

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> list[Sample]:
        """Return the samples of every subject, as `BaseTask.samples` does.

        Raises
        ------
        InvalidInputError
            As in `BaseTask.samples`, or if answers are generated and all prompts are identical.
        """
        made = super().samples(limit, order=order)
        if self.RESPONSE_TYPE is ResponseType.COMPLETION:
            self._refuse_one_prompt(made)
        return made

    def _refuse_one_prompt(self, samples: Sequence[Sample]) -> None:
        """Raise an error if all items have the same prompt because it has no placeholder."""
        if len(samples) < 2 or any(
            sample.messages != samples[0].messages for sample in islice(samples, 1, None)
        ):
            return
        parts = self._prompt.system, self._prompt.initial, self._prompt.instruction
        text = " ".join(filter(None, parts))
        items = (
            item for subject in self.subjects for item in self._items(subject, self.SAMPLE_SPLIT)
        )
        fields = list(dict.fromkeys(name for item in items for name in item))
        template = Template(text)
        if template.fields or set(template.doubled) & set(fields):
            return
        wrong = next(iter(template.doubled), None)
        near = difflib.get_close_matches(wrong or "question", fields, n=1, cutoff=0.5) or fields
        what = "it has no placeholder" if wrong is None else f"there is no field {wrong!r}"
        fix = (
            f"insert a field, such as {{{near[0]}}} (the fields are {', '.join(map(repr, fields))})"
            if fields
            else "no item has a field to insert"
        )
        raise InvalidInputError(
            f"task {self.NAME!r}: all {len(samples)} prompts would be the same, "
            f"{one_line(text)!r:.80}: {what}; {fix}"
        )

    def iterate_samples(
        self, num_samples: int | None = None, *, order: str = "shuffled"
    ) -> Iterator[Sample]:
        """Yield the samples in the order of `samples`."""
        self._check_context_fields()
        yield from super().iterate_samples(num_samples, order=order)

    def _check_context_fields(self) -> None:
        """Raise an error if a field that the graders require is missing in every row."""
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
                f"{place_of(item)}: the question must contain {blank!r}, followed by text"
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

    def _is_styled(self, item: Mapping[str, Any]) -> bool:
        """Return whether an item uses the style; items without choices are open-ended."""
        if self.TASK_STYLER is None or not isinstance(self._response, ChoicesSpec):
            return False
        return self.RESPONSE_TYPE is not ResponseType.COMPLETION or not self._response.absent(item)

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        if self._is_styled(item):
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
        context = {name: item.get(name) for name in self._context_fields}
        if self.RESPONSE_TYPE is ResponseType.COMPLETION and self._is_styled(item):
            context["options"] = self._styled(item)[1]  # as they are lettered in the prompt
        return context or None

    def _right(self, item: dict[str, Any]) -> tuple[list[str], list[int]]:
        if not isinstance(self._response, ChoicesSpec):
            raise InvalidTypeError(f"task {self.NAME!r} has no choices")
        # Several hooks request this for the same row in succession; rows of the data do not change.
        last, found = self._last_right
        if last is not item or not isinstance(item, Item):
            place = self._corrected_place(item)
            if place is None:
                texts, right = self._response.right(item)
            else:
                texts, right = self._response.read(item).texts, [place]
            if self._prompt.without_brackets:
                texts = [without_brackets(text) for text in texts]
            found = texts, right
            self._last_right = (item, found)
        texts, right = found
        return list(texts), list(right)

    def _corrected_place(self, item: dict[str, Any]) -> int | None:
        if self._flags is None or not isinstance(item, Item):
            return None
        return self._flags.corrected.get(item.unit_id)

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        return self._right(item)[0]

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        right = self._right(item)[1]
        if len(right) != 1:
            raise InvalidInputError(
                f"{place_of(item)}: {len(right)} choices are correct; a style needs exactly one"
            )
        return right[0]

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str] | None:
        if self.TASK_STYLER is not None:
            return super()._get_possible_completions(item) if self._is_styled(item) else None
        return self._right(item)[0] if isinstance(self._response, ChoicesSpec) else None

    def _get_ground_truth(self, item: dict[str, Any]) -> str | list[str] | None:
        if self._is_styled(item):
            return super()._get_ground_truth(item)
        if isinstance(self._response, ChoicesSpec) and self.TASK_STYLER is None:
            choices, right = self._right(item)
            return choices[right[0]] if len(right) == 1 else [choices[at] for at in right]
        if self._response.answer is None:
            return None
        value = as_field(self._response.answer).read(item)
        what = f"{place_of(item)}: the reference"
        return (
            [text_of(one, what) for one in value]
            if isinstance(value, list)
            else text_of(value, what)
        )


def _groups(pattern: re.Pattern[str], item: Item, name: str) -> dict[str, str | None]:
    """Match a field of an item with the task's pattern and return the named groups."""
    from eval_toolkit._internal.sandbox import Overrun

    try:
        found = groups_in(str(item[name]), pattern)
    except Overrun as error:
        raise InvalidInputError(
            f"{item.place}: matching the pattern in the field {name!r} takes too long: {error}"
        ) from None
    if found is None:
        raise InvalidInputError(f"{item.place}: the pattern does not match the field {name!r}")
    return found
