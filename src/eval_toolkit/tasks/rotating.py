"""Rotation of the choices of multiple-choice tasks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.choices import ChoicePosition
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.protocols import Model
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.tasks.base import BaseTask, derived
from eval_toolkit.tasks.running import run_task


class _Rotated:
    """Method overrides of a rotated task."""

    rotation: int
    shuffle_choices: bool
    _was_shuffled: bool

    def _choice_order(self, item: Mapping[str, Any], n: int) -> list[int]:
        order = list(range(n))
        if self._was_shuffled:
            order = super()._choice_order(item, n)  # type: ignore[misc]
        by = self.rotation % n
        return order[by:] + order[:by]

    def _get_example_messages(self, item: dict[str, Any]) -> Any:
        # Do not rotate examples: only the order of the question's own choices is studied.
        by, self.rotation = self.rotation, 0
        try:
            return super()._get_example_messages(item)  # type: ignore[misc]
        finally:
            self.rotation = by

    def describe(self) -> dict[str, Any]:
        """Return the description of the task, including its rotation."""
        description: dict[str, Any] = super().describe()  # type: ignore[misc]
        return {
            **description,
            "shuffle_choices": self._was_shuffled,
            "rotate_choices": self.rotation,
        }


def rotated(task: BaseTask[Any], by: int) -> BaseTask[Any]:
    """Return a copy of a task with rotated choices.

    Parameters
    ----------
    task : BaseTask
        Task whose prompts contain the choices (style "mc").
    by : int
        Number of choices to move from the beginning to the end, modulo the number of choices of a
        question. Few-shot examples are not rotated.

    Returns
    -------
    BaseTask
        Task with the same name and units; for 0, the task itself.

    Raises
    ------
    InvalidInputError
        If the task does not score choices, or its prompts do not contain them.

    Examples
    --------
    >>> from eval_toolkit.tasks import ChoicesSpec, Prompt, Task
    >>> task = Task(
    ...     "capitals", Prompt(instruction="Capital of {country}?", style="mc"),
    ...     ChoicesSpec(choices=["Rome", "Madrid"], answer="capital"),
    ...     rows=[{"country": "Italy", "capital": "Rome"}],
    ... )
    >>> print(rotated(task, 1).samples()[0].messages[0].content.strip())
    Capital of Italy?
    A. Madrid
    B. Rome
    """
    if not isinstance(task, BaseTask):
        raise InvalidTypeError(f"`task` is {task!r:.80}; it must be a task")
    by = validation.integer(by, "by")
    styler = task.TASK_STYLER
    if task.RESPONSE_TYPE is not ResponseType.LOGLIKELIHOODS:
        raise InvalidInputError(
            f"task {task.NAME!r} generates its answers; only tasks that score choices can be rotated"
        )
    shown = [
        None if styler is None else styler.get_instruction_text("", choices)
        for choices in (["a", "b"], ["b", "a"])
    ]
    if shown[0] == shown[1]:
        raise InvalidInputError(
            f"task {task.NAME!r}: the prompts do not contain the choices, so positions have no "
            "effect; use the style 'mc'"
        )
    if isinstance(task, _Rotated):
        raise InvalidInputError(f"task {task.NAME!r} is already rotated; pass the original task")
    if by == 0:
        return task
    # A shuffled task calls _choice_order, which is overridden here.
    state = {"rotation": by, "_was_shuffled": task.shuffle_choices, "shuffle_choices": True}
    made: BaseTask[Any] = derived(task, _Rotated, **state)
    return made


def run_rotations(
    task: BaseTask[Any],
    model: Model | None = None,
    out: str | Path | None = None,
    *,
    graders: Sequence[Any] | None = None,
    **options: Any,
) -> list[Outcome]:
    """Run a task under every rotation of its choices.

    Parameters
    ----------
    task : BaseTask
        Task to run, as in `rotated`.
    model : Model, optional
        Model to query.
    out : path, optional
        Folder for the runs, which are named ``rotation-0``, ``rotation-1``, ….
    graders : sequence, optional
        Graders to use instead of the task's graders; `graders.ChoicePosition` is added.
    **options
        Additional options of `run_task`.

    Returns
    -------
    list of Outcome
        One outcome per rotation, as many as the maximum number of choices. Questions with fewer
        choices repeat earlier prompts, which a ``cache`` avoids sending again.

    Raises
    ------
    InvalidInputError, ArtifactError, ModelError
        As in `rotated` and `run_task`.

    Examples
    --------
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import ChoicesSpec, Prompt, Task
    >>> task = Task(
    ...     "capitals", Prompt(instruction="Capital of {country}?", style="mc"),
    ...     ChoicesSpec(choices=["Rome", "Madrid"], answer="capital"),
    ...     rows=[{"country": "Italy", "capital": "Rome"}],
    ... )
    >>> first = ScriptedModel(lambda request: [-0.1, -3.0])  # for any question
    >>> [run.card["accuracy"].value for run in run_rotations(task, first)]
    [1.0, 0.0]
    """
    task = rotated(task, 0)
    given = {key: options[key] for key in ("limit", "order") if options.get(key) is not None}
    n = max(len(sample.possible_completions or ()) for sample in task.samples(**given))
    chosen = [*(task.graders() if graders is None else graders)]
    if not any(one == "choice_position" or isinstance(one, ChoicePosition) for one in chosen):
        chosen.append(ChoicePosition())
    return [
        run_task(
            rotated(task, by),
            model,
            None if out is None else Path(out) / f"rotation-{by}",
            graders=chosen,
            **options,
        )
        for by in range(n)
    ]
