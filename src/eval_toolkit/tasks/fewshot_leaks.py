"""Leakage through few-shot examples: near-duplicate questions, and answers in the prompt."""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import ProportionInterval, wilson_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.identity import identity_of
from eval_toolkit.tasks.ngram_contamination import answers, questions
from eval_toolkit.tasks.types import Item
from eval_toolkit.text_dedup import cross_dedup_pairs, normalize_text_for_dedup

_WORD = re.compile(r"\w+")
_Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SharedQuestion:
    """Pair of an item and an example with the same or nearly the same question."""

    unit_id: str
    example_id: str
    similarity: float
    """Cosine similarity of the questions; 1.0 if they differ at most in case and whitespace."""
    shown: bool
    """Whether the item's own prompt contains the example."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FewshotLeakage(Displayed):
    """Leakage through the few-shot examples of a task."""

    task: str
    num_fewshot: int
    n_items: int
    n_examples: int
    """Number of examples in the pool."""
    threshold: float
    shared: tuple[SharedQuestion, ...]
    rate: ProportionInterval
    """Fraction of items with a near-duplicate among the examples."""
    answer_in_shots: tuple[str, ...]
    """Ids of units whose answer occurs verbatim in the examples of their own prompt."""
    n_answer_in_other_shots: int
    """The same count with the examples of another item, i.e. by chance; high for "yes" or "B"."""

    @property
    def leaked_ids(self) -> tuple[str, ...]:
        """Sorted ids of units with a near-duplicate among the examples."""
        return tuple(sorted({pair.unit_id for pair in self.shared}))

    @property
    def shown_ids(self) -> tuple[str, ...]:
        """Sorted ids of units whose own prompt contains a near-duplicate."""
        return tuple(sorted({pair.unit_id for pair in self.shared if pair.shown}))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "task": self.task,
            "num_fewshot": self.num_fewshot,
            "n_items": self.n_items,
            "n_examples": self.n_examples,
            "threshold": self.threshold,
            "rate": self.rate.to_dict(),
            "leaked_ids": list(self.leaked_ids),
            "shown_ids": list(self.shown_ids),
            "shared": [pair.to_dict() for pair in self.shared],
            "answer_in_shots": list(self.answer_in_shots),
            "n_answer_in_other_shots": self.n_answer_in_other_shots,
        }


def fewshot_leakage(
    task: BaseTask[Any], *, threshold: float = 0.9, confidence: float = DEFAULT_CONFIDENCE
) -> FewshotLeakage:
    """Search few-shot examples for near-duplicates of items and for the answers of items.

    Parameters
    ----------
    task : BaseTask
        Task with ``num_fewshot`` above 0.
    threshold : float, default 0.9
        Minimum TF-IDF cosine similarity of near-duplicate questions.
    confidence : float, default 0.95
        Confidence level of the interval of the rate.

    Returns
    -------
    FewshotLeakage
        Pairs of items and near-duplicate examples, units whose own prompt contains such an example,
        and units whose answer occurs in their examples, with the chance level.

    Raises
    ------
    InvalidInputError
        If the task has no few-shot examples.

    Examples
    --------
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task
    >>> rows = {"test": [{"q": "Capital of Italy?", "a": "Rome"}],
    ...         "train": [{"q": "capital of  Italy?", "a": "Roma"}, {"q": "2 + 2?", "a": "4"}]}
    >>> prompt, answer = Prompt(instruction="{q}"), CompletionSpec(answer="a")
    >>> found = fewshot_leakage(Task("quiz", prompt, answer, rows=rows, num_fewshot=2))
    >>> len(found.leaked_ids), len(found.shown_ids), found.shared[0].similarity
    (1, 1, 1.0)
    """
    if not isinstance(task, BaseTask):
        raise InvalidTypeError(f"`task` is {task!r:.80}; it must be a task")
    validation.fraction(threshold, "threshold")
    if not task.num_fewshot:
        raise InvalidInputError(
            f"task {task.NAME!r} has no few-shot examples; set `num_fewshot` as in the run"
        )
    shared: list[SharedQuestion] = []
    told: list[str] = []
    n_items = n_examples = n_chance = 0
    for subject in task.subjects:
        items = sorted(task._items(subject, task.SAMPLE_SPLIT), key=lambda item: item.unit_id)
        shots = [task._sample_fewshot_examples(item) for item in items]
        pool = _pool(task, items, shots)
        shared += _shared(task, items, pool, shots, threshold)
        said = [_words(*_spoken(task, examples)) for examples in shots]
        wanted = [[_words(answer) for answer in answers(task, item)] for item in items]
        own = map(_stands, wanted, said)
        told += [item.unit_id for item, stands in zip(items, own, strict=True) if stands]
        if len(items) > 1:
            n_chance += sum(map(_stands, wanted, [*said[1:], said[0]]))
        n_items, n_examples = n_items + len(items), n_examples + len(pool)
    leaked = len({pair.unit_id for pair in shared})
    return FewshotLeakage(
        task=task.NAME,
        num_fewshot=task.num_fewshot,
        n_items=n_items,
        n_examples=n_examples,
        threshold=threshold,
        shared=tuple(shared),
        rate=wilson_interval(leaked, n_items, confidence=confidence),
        answer_in_shots=tuple(sorted(told)),
        n_answer_in_other_shots=n_chance,
    )


def _pool(task: BaseTask[Any], items: list[Item], shots: list[list[_Row]]) -> list[_Row]:
    """Return the pool of examples, or the selected examples if the task selects them itself."""
    if task._draws_examples():
        return list(task._pool(items[0]))
    used = {_id(task, example): example for examples in shots for example in examples}
    return list(used.values())


def _id(task: BaseTask[Any], example: _Row) -> str:
    return identity_of(example, task.ID_FIELD)[0]


def _shared(
    task: BaseTask[Any],
    items: list[Item],
    pool: list[_Row],
    shots: list[list[_Row]],
    threshold: float,
) -> list[SharedQuestion]:
    """Return pairs of items and other rows of the pool with near-duplicate questions."""
    shown = [{_id(task, example) for example in examples} for examples in shots]
    pairs = cross_dedup_pairs(
        ["\n".join(questions(task, example)) for example in pool],
        ["\n".join(questions(task, item)) for item in items],
        threshold,
    )
    return [
        SharedQuestion(items[at].unit_id, key, similarity, key in shown[at])
        for at, of, similarity in pairs
        if pool[of] is not items[at]
        for key in [_id(task, pool[of])]
    ]


def _spoken(task: BaseTask[Any], examples: list[_Row]) -> list[str]:
    return [turn.content for example in examples for turn in task._shot(example)]


def _words(*texts: str) -> str:
    """Return the words of texts in lower case, separated and surrounded by spaces."""
    found = [word for text in texts for word in _WORD.findall(normalize_text_for_dedup(text))]
    return f" {' '.join(found)} "


def _stands(wanted: list[str], said: str) -> bool:
    return any(answer.strip() and answer in said for answer in wanted)
