"""Base class of benchmarks, `BaseTask`."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.prompts import Formatter, format_prompt, joined_choice
from eval_toolkit.models.responses import REASONING_TAGS, ResponseType
from eval_toolkit.models.responses.reasoning import checked_tags
from eval_toolkit.plugins import TYPED, Origin
from eval_toolkit.protocols import Grader
from eval_toolkit.seeds import DEFAULT_SEED, resolve_seed
from eval_toolkit.tasks.dataset import SubjectT
from eval_toolkit.tasks.hooks import TaskPrompts, place_of
from eval_toolkit.tasks.identity import question_of
from eval_toolkit.tasks.order import shuffled
from eval_toolkit.tasks.rows_on_disk import ItemsOnDisk, samples_on_disk, unit_ids_of
from eval_toolkit.tasks.subjects import subject_name
from eval_toolkit.tasks.types import NO_SUBJECT, Item, Part, Sample

_FINGERPRINTED = 8
"""Number of units whose prompts are part of a task's fingerprint."""


class BaseTask(TaskPrompts[SubjectT]):
    """Base class of benchmarks; subclasses set three class attributes and define two hooks.

    Parameters
    ----------
    num_fewshot : int, default 0
        Number of few-shot examples.
    rows : mapping of split to rows, or sequence of rows, optional
        Rows of the data by split; a plain sequence is used as the sample split.
    data : path or mapping of split to path, optional
        Location of the data, overriding ``DATASET_PATH``: a file, a folder with one file per split,
        a pattern with ``{split}`` or ``{subject}``, or a dataset on the Hub. Since cells of CSV and
        TSV files are strings, rows with numbers have different ids than in JSON or Parquet files.
    seed : int, default 42
        Random seed of the item order, the few-shot examples and the choice order. All of them are
        drawn independently for each item and do not depend on limits, subjects or other items.
    subjects : sequence, optional
        Subjects to keep; elements of tuple subjects may be "*".
    revision : str, optional
        Revision of a Hub dataset; overrides ``REVISION`` and the lock file.
    user_prompt_suffix : str, optional
        String appended to the question, but not to the examples; only for completion tasks.
    shuffle_choices : bool, default False
        Whether to shuffle the choices of each item.

    Raises
    ------
    InvalidInputError
        If the class lacks a required name, or an option does not fit the task.
    ArtifactError
        If local data are missing or malformed (when they are read).

    Notes
    -----
    A unit is identified by the item's key (``ID_FIELD``, or by default the field "id" if its values
    are unique), or else by its content. Runs with a different prompt, number of examples or limit
    therefore have the same units.

    Examples
    --------
    >>> class Capitals(BaseTask[str]):
    ...     NAME = "Capitals"
    ...     DATASET_PATH = "capitals.jsonl"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    ...     def _get_instruction_text(self, item):
    ...         return f"Question: What is the capital of {item['country']}?"
    ...     def _get_ground_truth(self, item):
    ...         return item["capital"]
    ...     def _get_cue_text(self, item):
    ...         return "Answer:"
    >>> task = Capitals(1, rows={
    ...     "test": [{"country": "Italy", "capital": "Rome"}],
    ...     "train": [{"country": "Germany", "capital": "Berlin"}],
    ... })
    >>> [message.content for message in task.samples()[0].messages][1:]
    ['Answer: Berlin', 'Question: What is the capital of Italy?', 'Answer:']
    """

    RESPONSE_TYPE: ResponseType
    METRICS: Sequence[Any] | None = None
    PRIMARY_METRICS: Sequence[str] | None = None
    LANGUAGE: Any = None
    VERSION: str = "1"
    _named_in: Origin = TYPED
    """Origin of the grader names in ``METRICS``: code for classes, a file for declared tasks."""

    stop_sequences: Sequence[str] | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    attempts: int = 1
    """Default number of attempts per sample."""
    reasoning_tags: Sequence[tuple[str, str]] = REASONING_TAGS
    """Tag pairs that delimit a model's reasoning, which is not graded; () to grade it as well."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        styler = cls.__dict__.get("TASK_STYLER")
        if styler is not None and "RESPONSE_TYPE" not in cls.__dict__:
            cls.RESPONSE_TYPE = styler.response_type

    def __init__(
        self,
        num_fewshot: int = 0,
        *,
        rows: Mapping[str, Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]] | None = None,
        data: str | Path | Mapping[str, str | Path] | None = None,
        seed: int = DEFAULT_SEED,
        subjects: Sequence[Any] | None = None,
        revision: str | None = None,
        user_prompt_suffix: str | None = None,
        shuffle_choices: bool = False,
    ) -> None:
        kind = type(self).__name__
        if not isinstance(self.NAME, str) or not self.NAME:
            raise InvalidInputError(f"the task class {kind} has no name; set NAME")
        if not isinstance(getattr(self, "RESPONSE_TYPE", None), ResponseType):
            raise InvalidInputError(
                f"the task class {kind} has no response type; set RESPONSE_TYPE to "
                "ResponseType.COMPLETION or ResponseType.LOGLIKELIHOODS"
            )
        self.num_fewshot = validation.integer(num_fewshot, "num_fewshot")
        self.seed = resolve_seed(seed)
        self.user_prompt_suffix = user_prompt_suffix
        self.shuffle_choices = shuffle_choices
        self.hf_revision = revision or self._pinned_revision(rows, data)
        is_completion = self.RESPONSE_TYPE is ResponseType.COMPLETION
        if user_prompt_suffix and not is_completion:
            raise InvalidInputError("`user_prompt_suffix` is only supported by completion tasks")
        if shuffle_choices and is_completion and self.TASK_STYLER is None:
            raise InvalidInputError(f"`shuffle_choices`: the task {self.NAME!r} has no choices")
        self._set_data(rows, data, subjects)
        self._set_prompts()

    @classmethod
    def with_overwrite(
        cls,
        num_fewshot: int,
        *,
        custom_subjects: Sequence[Any] | None = None,
        custom_hf_revision: str | None = None,
        user_prompt_suffix: str | None = None,
        seed: int = DEFAULT_SEED,
        **options: Any,
    ) -> "BaseTask[SubjectT]":
        """Create the task with other subjects or revision; part of the eval-framework interface.

        Parameters
        ----------
        num_fewshot, user_prompt_suffix, seed
            See the class.
        custom_subjects, custom_hf_revision
            Alternative names of ``subjects`` and ``revision``.
        **options
            Other options of the class.

        Returns
        -------
        BaseTask
            New task of this class.
        """
        return cls(
            num_fewshot,
            subjects=custom_subjects,
            revision=custom_hf_revision,
            user_prompt_suffix=user_prompt_suffix,
            seed=seed,
            **options,
        )

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> list[Sample]:
        """Return the samples of every subject.

        Parameters
        ----------
        limit : int, optional
            Maximum number of items per subject; a smaller limit selects a prefix of a larger one.
        order : {"shuffled", "file"}
            Whether a limit selects random items or the first items of the file.

        Returns
        -------
        list of Sample
            Samples, grouped by subject.

        Raises
        ------
        InvalidInputError
            If an item cannot be converted to a sample; the message names its row.
        """
        return list(self.iterate_samples(limit, order=order))

    def iterate_samples(
        self, num_samples: int | None = None, *, order: str = "shuffled"
    ) -> Iterator[Sample]:
        """Yield the samples in the order of `samples`."""
        validation.choice(order, "order", ("shuffled", "file"))
        if num_samples is not None:
            validation.integer(num_samples, "limit", low=1)
        for subject in self.subjects:
            items = self._items(subject, self.SAMPLE_SPLIT)
            places: Sequence[int] = range(len(items))
            if order == "shuffled":
                places = shuffled(unit_ids_of(items), self.seed)
            if isinstance(items, ItemsOnDisk):
                one, name = _is_default(self), subject_name(subject)
                some = places[:num_samples]
                yield from samples_on_disk(items, some, self._samples_of, name, one=one)
                continue
            for at in places[:num_samples]:
                yield from self._samples_of(items[at])

    def _samples_of(self, item: Item) -> list[Sample]:
        try:
            made = self._create_samples(item, item.index, item.subject)
        except EvalToolkitError as error:
            if str(error).startswith(("split ", "subject ")):  # the error names a row
                raise
            raise InvalidInputError(f"{item.place}: {error}") from error
        except Exception as error:  # a hook may raise any exception for an unexpected row
            raise InvalidInputError(
                f"{item.place}: task {self.NAME!r} fails: {type(error).__name__}: {error}; the "
                f"fields are {', '.join(map(repr, item))}"
            ) from error
        if len(made) == 1 and made[0].content_hash == item.content_hash:
            return made  # created by the default, which has the item
        group = item.group if item.group is not None or len(made) == 1 else item.unit_id
        return [
            replace(sample, **_identity(item, n), group=group) for n, sample in enumerate(made, 1)
        ]

    def _create_samples(self, item: dict[str, Any], index: int, subject: str) -> list[Sample]:
        """Return the samples of an item; override to create several samples per item."""
        messages = tuple(self.construct_prompt(item))
        choices: Any = self._get_possible_completions(item)
        truth: Any = self._get_ground_truth(item)
        parts: tuple[Part, ...] = ()
        if self.RESPONSE_TYPE is ResponseType.LOGLIKELIHOODS:
            choices, truth = self._scored(item, choices, truth, messages[-1].content)
            parts = self._parts(item, messages, len(choices))
        sample = Sample(
            messages=messages,
            ground_truth=truth,
            possible_completions=choices,
            context=self._get_context(item),
            parts=parts,
            **self._known(item, index, subject),
        )
        return [sample]

    def _known(self, item: dict[str, Any], index: int, subject: str) -> dict[str, Any]:
        """Return the identity of a sample."""
        if isinstance(item, Item):
            return {**_identity(item), "group": item.group}
        return {"id": str(index), "subject": subject, "index": index}

    def _get_contexts(self, item: dict[str, Any]) -> tuple[list[str], str] | None:
        """Return a question for each choice, and the continuation to score after it.

        By default, returns None: the choices themselves are scored after a single question.
        """
        return None

    def _parts(
        self, item: dict[str, Any], messages: tuple[Message, ...], n_choices: int
    ) -> tuple[Part, ...]:
        """Return one request per choice if each choice has its own question."""
        found = self._get_contexts(item)
        if found is None:
            return ()
        questions, ending = found
        if len(questions) != n_choices:
            raise InvalidInputError(
                f"{place_of(item)}: got {len(questions)} questions for {n_choices} choices; "
                "_get_contexts must return one per choice"
            )
        if self.shuffle_choices:
            questions = [questions[at] for at in self._choice_order(item, n_choices)]
        question_at = max(at for at, turn in enumerate(messages) if turn.role is Role.USER)
        return tuple(
            Part((*messages[:question_at], Message(Role.USER, question)), (ending,))
            for question in questions
        )

    def _scored(
        self, item: dict[str, Any], choices: Any, truth: Any, prompt_end: str
    ) -> tuple[list[str], Any]:
        """Return the choices to score, in the order of this item, and the reference."""
        if not choices:
            raise InvalidInputError(
                f"{place_of(item)}: a log-likelihood task needs choices; define "
                "_get_possible_completions"
            )
        if isinstance(choices, str) or not all(isinstance(choice, str) for choice in choices):
            raise InvalidTypeError(
                f"{place_of(item)}: the choices are {choices!r}; they must be strings"
            )
        scored = [joined_choice(prompt_end, choice) for choice in choices]
        if self.shuffle_choices and self.TASK_STYLER is None:
            scored = [scored[at] for at in self._choice_order(item, len(scored))]
        if truth is None:
            return scored, None
        several = isinstance(truth, (list, tuple))
        right = [joined_choice(prompt_end, text) for text in (truth if several else [truth])]
        if not set(right) & set(scored):
            raise InvalidInputError(
                f"{place_of(item)}: the reference {truth!r} is not one of the choices "
                f"{list(choices)!r}"
            )
        return scored, right if several else right[0]

    def graders(self) -> list[Grader]:
        """Return the graders, given by ``METRICS``, the styler or the response type."""
        from eval_toolkit.graders.loading import default_graders, named_grader

        given = self.METRICS
        if given is None and self.TASK_STYLER is not None:
            given = self.TASK_STYLER.metrics
        if given is None:
            return default_graders(self.RESPONSE_TYPE)
        made = [one() if isinstance(one, type) else one for one in given]
        return [named_grader(one, {}, origin=self._named_in) for one in made]

    def prompt_fingerprint(self) -> str:
        """Return a SHA-256 hash of the number of examples and of the first prompts.

        The hash detects changes to the prompts. It covers the messages, choices and references of
        the 8 items with the smallest ids, regardless of the limit. Changes that affect only other
        items are not detected; changes to the rows are covered by the hashes of the data, and other
        changes to the code of the task by ``VERSION``.
        """
        places = (
            (unit_id, place, at)
            for place, subject in enumerate(self.subjects)
            for at, unit_id in enumerate(unit_ids_of(self._items(subject, self.SAMPLE_SPLIT)))
        )
        first = [
            self._items(self.subjects[place], self.SAMPLE_SPLIT)[at]
            for _, place, at in heapq.nsmallest(_FINGERPRINTED, places)
        ]
        prompts = [
            [
                sample.id,
                [message.to_dict() for message in sample.messages],
                sample.possible_completions,
                sample.ground_truth,
                *sample.as_asked().values(),
            ]
            for item in first
            for sample in self._samples_of(item)
        ]
        return sha256_text(canonical_json([self.num_fewshot, prompts]))

    def describe(self) -> dict[str, Any]:
        """Return the description of the task for the manifest, which requires reading the data."""
        names = [subject_name(subject) for subject in self.subjects]
        fingerprint = self.prompt_fingerprint()
        counts: dict[str, int] = {}
        for splits in self._splits.values():
            for split, items in splits.items():
                counts[split] = counts.get(split, 0) + len(items)
        tags = checked_tags(self.reasoning_tags)
        return {
            "name": self.NAME,
            "version": str(self.VERSION),
            "class": f"{type(self).__module__}:{type(self).__qualname__}",
            "response_type": self.RESPONSE_TYPE.value,
            "num_fewshot": self.num_fewshot,
            "sample_split": self.SAMPLE_SPLIT,
            "fewshot_split": self.FEWSHOT_SPLIT,
            "subjects": [] if names == [NO_SUBJECT] else names,
            "language": None if self.LANGUAGE is None else str(self.LANGUAGE),
            "seed": self.seed,
            "shuffle_choices": self.shuffle_choices,
            "user_prompt_suffix": self.user_prompt_suffix,
            "stop_sequences": list(self.stop_sequences or ()),
            "max_tokens": self.max_tokens,
            **({} if tags == REASONING_TAGS else {"reasoning_tags": [list(pair) for pair in tags]}),
            "prompt_fingerprint": fingerprint,
            "dataset": {**self._source.describe(), "n_rows": counts},
        }

    def get_metadata(self) -> dict[str, Any]:
        """Return the task's metadata without reading data; part of the eval-framework interface."""
        style = {} if self.TASK_STYLER is None else self.TASK_STYLER.get_extra_metadata()
        primary = {} if self.PRIMARY_METRICS is None else {"primary_metrics": self.PRIMARY_METRICS}
        return {
            "dataset_path": self.DATASET_PATH,
            "sample_split": self.SAMPLE_SPLIT,
            "fewshot_split": self.FEWSHOT_SPLIT,
            "response_type": self.RESPONSE_TYPE.value,
            "metrics": [grader.name for grader in self.graders()],
            "subjects": [subject_name(subject) for subject in self.SUBJECTS],
            **primary,
            **style,
        }

    def markdown_doc(self, formatters: Sequence[Formatter] = ("plain",)) -> str:
        """Return a documentation page with the task's metadata and a prompt in each format."""
        sample = next(self.iterate_samples(1, order="file"))
        lines = [f"# {self.NAME}", ""]
        lines += [f"- {name}: {value}" for name, value in self.get_metadata().items()]
        for formatter in formatters:
            prompt = format_prompt(sample.messages, formatter)
            if not isinstance(prompt, str):
                prompt = "\n".join(f"[{turn.role.value}] {turn.content}" for turn in prompt)
            lines += ["", f"## Prompt ({formatter})", "", "```text", prompt, "```"]
        return "\n".join([*lines, ""])


def derived(task: BaseTask[SubjectT], kind: type, **state: Any) -> Any:
    """Return a copy of a task whose class is extended by ``kind``; the copy shares the data.

    ``state`` contains attributes to set on the copy. The copy keeps the name, but not the rendered
    prompts.

    Examples
    --------
    >>> class Quiz(BaseTask[str]):
    ...     NAME = "Quiz"
    ...     RESPONSE_TYPE = ResponseType.COMPLETION
    >>> class Loud:
    ...     def _get_system_prompt_text(self, item):
    ...         return self.words
    >>> derived(Quiz(rows=[{"q": "?"}]), Loud, words="LOUD")._get_system_prompt_text({})
    'LOUD'
    """
    own = type(task)
    names = {"__module__": own.__module__, "__qualname__": own.__qualname__}
    made: Any = object.__new__(type(own.__name__, (kind, own), names))
    made.__dict__.update(task.__dict__, **state)
    made._set_prompts()
    return made


def _is_default(task: BaseTask[Any]) -> bool:
    """Return whether every item has exactly one sample."""
    return type(task)._create_samples is BaseTask._create_samples


def _identity(item: Item, n: int = 1) -> dict[str, Any]:
    """Return the identity of the n-th sample of an item."""
    return {
        "id": item.unit_id if n == 1 else f"{item.unit_id}#{n}",
        "subject": item.subject,
        "content_hash": item.content_hash,
        "index": item.index,
        "question": question_of(item),
    }
