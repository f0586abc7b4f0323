"""Storage and retrieval of questions and references of a run's samples."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.choices import right_choices
from eval_toolkit.models.messages import Role
from eval_toolkit.models.responses import Loglikelihood
from eval_toolkit.runs import Run
from eval_toolkit.runs.units import Unit
from eval_toolkit.tasks.rows_on_disk import SampleOnDisk
from eval_toolkit.tasks.types import Sample

_OF_CHOICES = frozenset({"doc", "choices", "right"})
"""Keys of a sample's context that may contain the indices of the correct choices."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference of a sample, as stored in a run.

    Examples
    --------
    >>> read_reference(" Rome", "[2]")
    Reference(text=' Rome', correct=(2,))
    """

    text: str | None
    """Reference text; a JSON list for several references or several correct choices."""
    correct: tuple[int, ...] | None = None
    """Zero-based indices of the correct choices in prompt order; None if unknown."""


def sample_units(samples: Iterable[Sample]) -> list[Unit]:
    """Convert the samples of a task to units with question and reference.

    The question makes it possible to match units with runs of other tools, whose ids, hashes and
    prompts may differ.

    "correct" contains the indices of the correct choices as a JSON list.

    Examples
    --------
    >>> from eval_toolkit.models.messages import Message
    >>> ask = [Message("user", "Capital of Italy?")]
    >>> (unit,) = sample_units([Sample("q", "", ask, "Rome", (" Bonn", " Rome"))])
    >>> unit.input, unit.reference, unit.more
    ('Capital of Italy?', ' Rome', {'correct': '[1]'})
    """
    return [
        _UnitOnDisk(sample) if isinstance(sample, SampleOnDisk) else _unit(sample)
        for sample in samples
    ]


class _UnitOnDisk(Unit):
    """Unit of a sample on disk."""

    __slots__ = ("sample",)

    sample: Sample

    def __init__(self, sample: Sample) -> None:
        own: dict[str, Any] = {"id": sample.id, "group": sample.group, "row": sample.index}
        for name, value in {**own, "sample": sample, "parts": {}, "slice": None}.items():
            object.__setattr__(self, name, value)

    @property
    def content_hash(self) -> str:
        """Hash of the raw row."""
        return self.sample.content_hash

    @property
    def input(self) -> Any:
        """Question."""
        return self.loaded().input

    @property
    def reference(self) -> Any:
        """Reference, as JSON types."""
        return self.loaded().reference

    @property
    def more(self) -> Mapping[str, Any]:
        """Indices of the correct choices."""
        return self.loaded().more

    def loaded(self) -> Unit:
        """Return the unit with its input in memory."""
        return _unit(self.sample.loaded())


def _unit(sample: Sample) -> Unit:
    right = _reference(sample)
    turns = (turn.content for turn in reversed(sample.messages) if turn.role is Role.USER)
    return Unit(
        id=sample.id,
        content_hash=sample.content_hash,
        group=sample.group,
        input=next(turns, None) if sample.question is None else sample.question,
        reference=right.text,
        more={"correct": None if right.correct is None else json.dumps(right.correct)},
        row=sample.index,
    )


def references_of(run: Run, unit_ids: Iterable[str]) -> dict[str, Reference]:
    """Return the references of selected units of a run.

    The result is empty if the run does not contain references.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
    ...     rows=[{"id": "q1", "q": "2 + 2?", "a": "4"}], graders=["exact_match"])
    >>> done = run_task(task, ScriptedModel("5"), tempfile.mkdtemp() + "/r")
    >>> [one.text for one in references_of(done.run, done.records.unit_id).values()]
    ['4']
    """
    units = run.units
    if units is None or "reference" not in units.columns:
        return {}
    columns = [name for name in ("reference", "correct") if name in units.columns]
    found = units.rows(columns, sorted(map(str, unit_ids)))
    return {unit: read_reference(*cells) for unit, cells in found.items()}


def read_reference(text: Any, correct: Any = None) -> Reference:
    """Parse a stored reference; invalid indices are treated as unknown.

    Examples
    --------
    >>> read_reference("4", None), read_reference("a", "[-1]").correct
    (Reference(text='4', correct=None), None)
    """
    return Reference(None if text is None else str(text), _places(correct))


def _places(cell: Any) -> tuple[int, ...] | None:
    if not isinstance(cell, str):
        return None
    try:
        read = json.loads(cell)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, list) or not all(type(at) is int and at >= 0 for at in read):
        return None
    return tuple(read)


def _reference(sample: Sample) -> Reference:
    """Return the reference of a sample: its correct choices if known, or else its ground truth."""
    truth, choices = sample.ground_truth, sample.possible_completions or ()
    right = _right(sample)
    if right:
        return Reference(_shown([choices[at] for at in right]), right)
    return Reference(_shown([truth] if isinstance(truth, str) else list(truth or ())), None)


def _right(sample: Sample) -> tuple[int, ...] | None:
    """Return the indices of the correct choices, as determined by the graders of choices."""
    choices, context = sample.possible_completions, sample.context
    if not choices:
        return None
    if isinstance(context, Mapping) and context.keys() >= _OF_CHOICES:
        # Use indices: the same choices may occur again, scored without context.
        places, asked = context["right"], context["choices"]
        if isinstance(places, list) and isinstance(asked, list):
            known = range(min(len(asked), len(choices)))
            fits = all(type(at) is int and at in known for at in places)
            return tuple(sorted(set(places))) if fits else None
    scored = Loglikelihood([0.0] * len(choices), choices, ground_truth=sample.ground_truth)
    try:
        return tuple(sorted(right_choices(scored)))
    except InvalidInputError:  # a grader of the task may support it
        return None


def _shown(texts: Sequence[str]) -> str | None:
    several = list(dict.fromkeys(texts))
    if len(several) > 1:
        return json.dumps(several, ensure_ascii=False, indent=1)
    return several[0] if several else None
