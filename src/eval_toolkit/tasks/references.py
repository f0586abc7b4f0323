"""What the samples of a run asked, and what the right answer to each was, for people to read."""

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
from eval_toolkit.tasks.types import Sample

__all__ = ["Reference", "read_reference", "references_of", "sample_units"]

_OF_CHOICES = frozenset({"doc", "choices", "right"})
"""What a context holds that says itself which choices are right, by their places."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What is right about one sample, as a run stores it.

    Examples
    --------
    >>> read_reference(" Rome", "[2]")
    Reference(text=' Rome', correct=(2,))
    """

    text: str | None
    """The reference; of several, or of several right choices, a JSON list with a line for each."""
    correct: tuple[int, ...] | None = None
    """Places of the right choices, from 0 in the order asked; None where nothing tells them."""


def sample_units(samples: Iterable[Sample]) -> list[Unit]:
    """Return the samples of a task as units: the question, and what is right.

    Runs of other tools have other ids, hashes and prompts for an item, but not another question.

    Parameters
    ----------
    samples : iterable of Sample
        In any order.

    Returns
    -------
    list of Unit
        "correct" has the places of the right choices, as a JSON list.

    Examples
    --------
    >>> from eval_toolkit.models.messages import Message
    >>> ask = [Message("user", "Capital of Italy?")]
    >>> (unit,) = sample_units([Sample("q", "", ask, "Rome", (" Bonn", " Rome"))])
    >>> unit.input, unit.reference, unit.more
    ('Capital of Italy?', ' Rome', {'correct': '[1]'})
    """
    return [_unit(sample, _reference(sample)) for sample in samples]


def _unit(sample: Sample, right: Reference) -> Unit:
    return Unit(
        id=sample.id,
        content_hash=sample.content_hash,
        group=sample.group,
        input=_asked(sample),
        reference=right.text,
        more={"correct": None if right.correct is None else json.dumps(right.correct)},
        row=sample.index,
    )


def _asked(sample: Sample) -> str | None:
    """Return what a sample asks: as the data has it, or else as the last turn of the user does."""
    turns = (turn.content for turn in reversed(sample.messages) if turn.role is Role.USER)
    return sample.question if sample.question is not None else next(turns, None)


def references_of(run: Run, unit_ids: Iterable[str]) -> dict[str, Reference]:
    """Return the references of some units of a run.

    Parameters
    ----------
    run : Run
        Run of a task.
    unit_ids : iterable of str
        Unit ids, as in the records.

    Returns
    -------
    dict of str to Reference
        By unit; empty for a run that was stored without references.

    Raises
    ------
    ArtifactError
        If the table cannot be read.

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
    """Return a stored reference; places that are none count as not known.

    Parameters
    ----------
    text, correct : str or None
        The cells of a row.

    Returns
    -------
    Reference
        The reference of the row.

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
    """Return what is right about a sample: of choices those that are, else what was given."""
    truth, choices = sample.ground_truth, sample.possible_completions or ()
    right = _right(sample)
    if right:
        return Reference(_shown([choices[at] for at in right]), right)
    return Reference(_shown([truth] if isinstance(truth, str) else list(truth or ())), None)


def _right(sample: Sample) -> tuple[int, ...] | None:
    """Return the places of the right choices, as the graders of choices find them."""
    choices, context = sample.possible_completions, sample.context
    if not choices:
        return None
    if isinstance(context, Mapping) and context.keys() >= _OF_CHOICES:
        # Known by place: the same choices may follow again, scored after nothing.
        places, asked = context["right"], context["choices"]
        if isinstance(places, list) and isinstance(asked, list):
            known = range(min(len(asked), len(choices)))
            fits = all(type(at) is int and at in known for at in places)
            return tuple(sorted(set(places))) if fits else None
    scored = Loglikelihood([0.0] * len(choices), choices, ground_truth=sample.ground_truth)
    try:
        return tuple(sorted(right_choices(scored)))
    except InvalidInputError:  # a grader of the task's own may know better
        return None


def _shown(texts: Sequence[str]) -> str | None:
    several = list(dict.fromkeys(texts))
    if len(several) > 1:
        return json.dumps(several, ensure_ascii=False, indent=1)
    return several[0] if several else None
