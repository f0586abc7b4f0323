"""Tasks defined by lm-eval YAML files: `LmEvalTask`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.protocols import Grader
from eval_toolkit.seeds import DEFAULT_SEED
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.hooks import place_of
from eval_toolkit.tasks.identity import make_items
from eval_toolkit.tasks.lm_eval.config import TaskConfig
from eval_toolkit.tasks.lm_eval.documents import data_of, processed, typed_rows
from eval_toolkit.tasks.lm_eval.grader import graders_of
from eval_toolkit.tasks.lm_eval.shots import drawn_for, drawn_in_turn
from eval_toolkit.tasks.lm_eval.templates import choices_of, resolved, target_of, text_of
from eval_toolkit.tasks.types import NO_SUBJECT, Item, Part, Sample

_SAMPLES = "fewshot_config.samples"
"""Name of the few-shot split if the file itself contains the examples."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """Turn of a prompt, with the delimiter that follows it in plain text."""

    role: Role
    text: str
    after: str = ""


def _apart(before: str, after: str) -> bool:
    """Return whether two strings need a delimiter between them."""
    return bool(before) and bool(after) and not (before[-1].isspace() or after[0].isspace())


def _turns(question: str, answer: str | None, prefix: str, between: str, after: str) -> list[_Turn]:
    """Return the turns of a question with its answer or with the beginning of the answer."""
    space = between if (_apart(question, prefix) if prefix else bool(answer)) else ""
    turns = [_Turn(Role.USER, question, space)]
    if answer:
        begun = prefix + (" " if _apart(prefix, answer) else "")
        turns.append(_Turn(Role.ASSISTANT, begun + answer, after))
    elif prefix:
        turns.append(_Turn(Role.ASSISTANT, prefix))
    return turns


def _text(turns: Sequence[_Turn]) -> str:
    return "".join(turn.text + turn.after for turn in turns)


class LmEvalTask(BaseTask[str]):
    """Task defined by an lm-eval file; created by `load_lm_eval_task`.

    Prompts, requests and scores are the same as in lm-eval. Items have ids and content hashes as in
    other tasks, and examples are drawn independently for each item unless ``lm_eval_shots`` is
    True.

    Parameters
    ----------
    config : TaskConfig
        Parsed and validated configuration.
    num_fewshot : int, optional
        Number of few-shot examples; overrides the file.
    rows, data, seed, revision
        As in `BaseTask`.
    lm_eval_shots : bool, default False
        Whether to draw examples as lm-eval does, using one generator for all items in sequence. As
        in lm-eval, an item may then be its own example.
    subject : str, optional
        Name of the task within its group.

    Raises
    ------
    InvalidInputError
        If an option is invalid.
    """

    def __init__(
        self,
        config: TaskConfig,
        *,
        num_fewshot: int | None = None,
        rows: Any = None,
        data: str | Path | Mapping[str, str | Path] | None = None,
        seed: int = DEFAULT_SEED,
        revision: str | None = None,
        lm_eval_shots: bool = False,
        subject: str = NO_SUBJECT,
    ) -> None:
        self.config = config
        self.lm_eval_shots = lm_eval_shots
        self._subject = subject
        self.NAME, self.VERSION = config.name, str(config.metadata.get("version", "1"))
        texts = config.output_type == "generate_until"
        self.RESPONSE_TYPE = ResponseType.COMPLETION if texts else ResponseType.LOGLIKELIHOODS
        self.SAMPLE_SPLIT = config.sample_split
        self.FEWSHOT_SPLIT = self._examples_from(config)
        self.DATASET_PATH = str(config.dataset_path or "")
        self.DATASET_CONFIG = config.dataset_name
        self.REVISION = config.dataset_kwargs.get("revision")
        if texts:
            self.stop_sequences = list(config.generation.stop) or None
            self.max_tokens = config.generation.max_tokens
            self.temperature = config.generation.temperature
            self.top_p = config.generation.top_p
            self.attempts = config.repeats
        given = rows is not None or data is not None
        if not given and config.custom_dataset is not None:
            rows = {
                str(split): list(part)
                for split, part in config.custom_dataset(
                    **config.metadata, **config.dataset_kwargs
                ).items()
            }
        elif not given:
            data = data_of(config)
        self._typed = str(config.dataset_path) == "csv" or str(data).endswith((".csv", ".tsv"))
        self._first: tuple[bool, bool] | None = None
        self._in_turn: dict[str, list[Item]] | None = None
        self._pool_of_examples: Sequence[Item] | None = None
        # Each entry keeps a reference to its example, so that the example's id() stays unique.
        self._written: dict[int, tuple[Any, list[_Turn]]] = {}
        super().__init__(
            config.num_fewshot if num_fewshot is None else num_fewshot,
            rows=rows,
            data=data,
            seed=seed,
            revision=revision,
        )

    @staticmethod
    def _examples_from(config: TaskConfig) -> str:
        """Return the split of the few-shot examples, determined as in lm-eval."""
        if config.fewshot.split is None and config.fewshot.samples is not None:
            return _SAMPLES
        splits = (config.fewshot.split, config.training_split, config.validation_split)
        return next((split for split in splits if split), config.sample_split)

    # --- documents ------------------------------------------------------------------------------

    def _load_dataset(self, subject: str) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        config, shots = self.config, self.config.fewshot
        loaded = {self.SAMPLE_SPLIT: self._documents(self.SAMPLE_SPLIT, config.process_docs)}
        if not self.num_fewshot or self.FEWSHOT_SPLIT == self.SAMPLE_SPLIT:
            return loaded
        if self.FEWSHOT_SPLIT == _SAMPLES:
            samples: Any = shots.samples() if callable(shots.samples) else shots.samples
            loaded[_SAMPLES] = [dict(row) for row in samples]
        else:
            loaded[self.FEWSHOT_SPLIT] = self._documents(self.FEWSHOT_SPLIT, shots.process_docs)
        return loaded

    def _documents(self, split: str, process: Any) -> list[dict[str, Any]]:
        rows = self._rows_of(split, NO_SUBJECT)
        return processed(typed_rows(rows) if self._typed else rows, process, self.config)

    def _identified(self, rows: Sequence[Any], subject: Any, split: str) -> Sequence[Item]:
        part = self._subject
        plain = part == NO_SUBJECT
        items = make_items(
            rows,
            subject=part,
            prefix="" if plain else f"{part}/",
            place=f"split {split!r}" if plain else f"subject {part!r}, split {split!r}",
            id_field=None,
            group_field=None,
            notes=self._odd_keys,
        )
        return list(items)  # hooks of other packages may change them

    def documents(self) -> Sequence[Item]:
        """Return all items of the sample split, in the order of the data."""
        return self._items(NO_SUBJECT, self.SAMPLE_SPLIT)

    @property
    def _shape(self) -> tuple[bool, bool]:
        """Whether the first document has several contexts, and whether it has several targets."""
        if self._first is None:
            config = self.config
            first, has_choices = self.documents()[0], config.doc_to_choice is not None
            question: Any = ""
            if config.output_type != "loglikelihood_rolling":
                question = text_of(config.doc_to_text, first, has_choices=has_choices)
            target = target_of(config.doc_to_target, first, has_choices=has_choices)
            self._first = (has_choices and isinstance(question, int), isinstance(target, list))
        return self._first

    # --- prompts --------------------------------------------------------------------------------

    def _sample_fewshot_examples(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.num_fewshot:
            return []
        if not isinstance(item, Item):
            raise InvalidInputError(f"{place_of(item)}: only items from the data have examples")
        first_n = self.config.fewshot.sampler == "first_n"
        if self.lm_eval_shots:
            if self._in_turn is None:
                self._in_turn = self._all_in_turn(first_n)
            return list(self._in_turn[item.unit_id])
        if self._pool_of_examples is None:
            pool = self._examples()
            by_id = sorted(pool, key=lambda example: example.unit_id)
            self._pool_of_examples = pool if first_n else by_id
        return list(
            drawn_for(
                item,
                self._pool_of_examples,
                self.num_fewshot,
                seed=self.seed,
                in_order=first_n,
                written=lambda example: _text(self._example(example)),
            )
        )

    def _all_in_turn(self, first_n: bool) -> dict[str, list[Item]]:
        items = self.documents()
        drawn = drawn_in_turn(
            items,
            self._examples(),
            self.num_fewshot,
            in_order=first_n,
            without_itself=self.config.fewshot.split == self.config.test_split,
        )
        return {item.unit_id: shots for item, shots in zip(items, drawn, strict=True)}

    def _examples(self) -> Sequence[Item]:
        pool = self._items(NO_SUBJECT, self.FEWSHOT_SPLIT)
        places = self.config.fewshot.indices
        return [pool[at] for at in places] if places else pool

    def _example(self, row: Mapping[str, Any]) -> list[_Turn]:
        """Return the turns of an example (cached)."""
        if id(row) not in self._written:
            self._written[id(row)] = (row, self._rendered_example(row))
        return self._written[id(row)][1]

    def _rendered_example(self, row: Mapping[str, Any]) -> list[_Turn]:
        how = self.config.fewshot
        has_choices = self.config.doc_to_choice is not None
        question: Any = text_of(how.doc_to_text, row, has_choices=has_choices)
        answer = target_of(how.doc_to_target, row, has_choices=has_choices)
        choices = choices_of(how.doc_to_choice, row) if how.doc_to_choice is not None else None
        if self._shape[0]:
            question, choices = _nth(choices or [], question, row), None
        if isinstance(question, int):
            raise InvalidInputError(
                f"{place_of(row)}: the question is {question}; it must be a string"
            )
        prefix = resolved(how.gen_prefix, row, "gen_prefix")
        written = _written(answer, choices, row)
        return _turns(question, written, prefix, how.target_delimiter, how.fewshot_delimiter)

    def _before(self, item: dict[str, Any]) -> list[_Turn]:
        """Return the turns before the question: description and examples."""
        description = resolved(self.config.description, item, "description")
        turns = [_Turn(Role.SYSTEM, description)] if description else []
        for example in self._sample_fewshot_examples(item):
            turns += self._example(example)
        return turns

    def _get_messages(self, item: dict[str, Any]) -> list[Message]:
        return list(self._create_samples(item, 0, NO_SUBJECT)[0].messages)

    def _create_samples(self, item: dict[str, Any], index: int, subject: str) -> list[Sample]:
        config = self.config
        if config.output_type == "loglikelihood_rolling":
            asked = self._whole_text(item)
        elif self._shape[0]:
            asked = self._contexts(item)
        else:
            asked = self._one_prompt(item)
        return [Sample(**asked, **self._known(item, index, subject))]

    def _whole_text(self, item: dict[str, Any]) -> dict[str, Any]:
        text = target_of(self.config.doc_to_target, item, has_choices=False)
        if not isinstance(text, str):
            raise InvalidInputError(f"doc_to_target is {text!r:.60}; it must yield a string")
        return {
            "messages": (Message(Role.USER, text),),
            "ground_truth": text,
            "possible_completions": (text,),
            "parts": (Part("", (text,), rolling=True),),
            "context": {"doc": dict(item), "text": text},
        }

    def _contexts(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the sample fields for choices that are contexts with a common ending."""
        config = self.config
        questions = choices_of(config.doc_to_choice, item)
        ending = target_of(config.doc_to_target, item, has_choices=False)
        right = text_of(config.doc_to_text, item, has_choices=True)
        prefix = resolved(config.gen_prefix, item, "gen_prefix")
        before = self._before(item)
        scored = f"{config.target_delimiter}{ending}"
        parts = [
            Part(_text([*before, *_turns(question, None, prefix, "", "")]), (scored,))
            for question in questions
        ]
        known = self._known_choices(item, questions, right)
        alone = self._alone([f"{config.target_delimiter}{question}" for question in questions])
        shown = [*before, *_turns(" / ".join(questions), None, prefix, "", "")]
        return {
            "messages": _messages(shown),
            "ground_truth": [questions[at] for at in known["right"] if 0 <= at < len(questions)],
            "possible_completions": (*questions, *(questions if alone else ())),
            "parts": (*parts, *alone),
            "context": known,
        }

    def _alone(self, scored: Sequence[str]) -> list[Part]:
        """Return the request that scores the choices without context, if a metric requires it."""
        needed = any(metric.name == "acc_mutual_info" for metric in self.config.metrics)
        return [Part("", tuple(scored))] if needed else []

    def _known_choices(self, item: dict[str, Any], choices: list[str], gold: Any) -> dict[str, Any]:
        golds = gold if isinstance(gold, list) else [gold]
        right = [
            choices.index(one) if isinstance(one, str) and one in choices else one for one in golds
        ]
        numbers = [at if isinstance(at, int) else len(choices) for at in right]
        return {"doc": dict(item), "choices": choices, "target": gold, "right": numbers}

    def _one_prompt(self, item: dict[str, Any]) -> dict[str, Any]:
        config, has_choices = self.config, self.config.doc_to_choice is not None
        question = text_of(config.doc_to_text, item, has_choices=has_choices)
        if isinstance(question, int):
            raise InvalidInputError(f"doc_to_text is the number {question}; it must be a string")
        prefix = resolved(config.gen_prefix, item, "gen_prefix")
        turns = self._before(item) + _turns(question, None, prefix, config.target_delimiter, "")
        text, target = _text(turns), target_of(config.doc_to_target, item, has_choices=has_choices)
        asked: dict[str, Any] = {"messages": _messages(turns), "text": text}
        if config.output_type == "generate_until":
            references = self._references(item, target)
            known = {"doc": dict(item), "references": references}
            return {**asked, "ground_truth": [str(one) for one in references], "context": known}
        if config.output_type == "loglikelihood":
            if not isinstance(target, str):
                raise InvalidInputError(f"doc_to_target is {target!r:.60}; it must yield a string")
            known = {"doc": dict(item)}
            scored: tuple[str, ...] = (target,)
            return {
                **asked,
                "ground_truth": target,
                "possible_completions": scored,
                "context": known,
            }
        choices = choices_of(config.doc_to_choice, item)
        scored = tuple(f"{config.target_delimiter}{choice}" for choice in choices)
        known = self._known_choices(item, choices, target)
        alone = self._alone(scored)
        if alone:
            asked["parts"] = (Part(text, scored), *alone)
        right = [scored[at] for at in known["right"] if 0 <= at < len(scored)]
        several = (*scored, *(scored if alone else ()))
        return {**asked, "ground_truth": right, "possible_completions": several, "context": known}

    def _references(self, item: dict[str, Any], target: Any) -> list[Any]:
        if self.config.doc_to_choice is not None:
            choices = choices_of(self.config.doc_to_choice, item)
            return [_nth(choices, target, item)]
        return list(target) if isinstance(target, list) else [str(target)]

    # --- metrics --------------------------------------------------------------------------------

    def graders(self) -> list[Grader]:
        """Return a list of one grader, which applies the filters and metrics of the task file."""
        n_classes = 2
        if any(metric.name == "mcc" for metric in self.config.metrics):
            given = self.config.doc_to_choice
            n_classes = max(len(choices_of(given, item)) for item in self.documents())
        return list(graders_of(self.config, max(2, n_classes)))

    def describe(self) -> dict[str, Any]:
        """Return the description of the task for the manifest; reads the data."""
        return {
            **super().describe(),
            "lm_eval": {
                "file": self.config.path.name,
                "config_sha256": self.config.digest,
                "shots": "lm_eval" if self.lm_eval_shots else "own",
            },
        }


def _messages(turns: Sequence[_Turn]) -> tuple[Message, ...]:
    return tuple(Message(turn.role, turn.text) for turn in turns)


def _nth(choices: Sequence[str], at: Any, row: Mapping[str, Any]) -> str:
    if not isinstance(at, int) or not 0 <= at < len(choices):
        raise InvalidInputError(
            f"{place_of(row)}: the target is {at!r:.60}; it must be the index of one of the "
            f"{len(choices)} choices"
        )
    return choices[at]


def _written(answer: Any, choices: Sequence[str] | None, row: Mapping[str, Any]) -> str | None:
    """Return the answer of an example as it is written in a prompt."""
    if isinstance(answer, list):
        answer = answer[0] if answer else None
    if isinstance(answer, int) and choices:
        return _nth(choices, answer, row)
    if answer is None or isinstance(answer, str):
        return answer
    raise InvalidInputError(f"{place_of(row)}: the answer is {answer!r:.60}; it must be a string")
