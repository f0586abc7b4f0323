"""Options that say which task, which of its items and with how many examples."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.loading import load_task

__all__ = ["load_chosen_task", "task_options"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--data", metavar="PATH", help="The task's data: a file, a folder, a pattern."),
    click.option("--limit", type=click.IntRange(1), help="Items per subject."),
    click.option("--fewshot", "num_fewshot", type=click.IntRange(0), metavar="K",
                 help="Examples before each question."),
    click.option("--subject", "subjects", multiple=True, help="Only this subject. Repeatable."),
    click.option("--order", type=click.Choice(["shuffled", "file"]), default="shuffled",
                 show_default=True, help="Which items a limit takes."),
    click.option("--shuffle-choices", is_flag=True, default=None, help="Draw the choices' order."),
    click.option("--revision", help="Commit of a dataset of the hub."),
    click.option("--seed", type=click.IntRange(0), help="Of examples, order and draws; 42."),
)  # fmt: skip


def task_options(command: _Command) -> _Command:
    """Add the options of a task; the command gets them as ``options``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = ("data", "limit", "num_fewshot", "subjects", "order", "shuffle_choices")
        options = {name: kwargs.pop(name) for name in (*names, "revision", "seed")}
        options["subjects"] = list(options["subjects"]) or None
        return command(*args, options=options, **kwargs)

    decorated: Any = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def load_chosen_task(name: str, options: dict[str, Any]) -> BaseTask[Any]:
    """Return the task; ``limit`` and ``order`` are of its samples, not of itself."""
    return load_task(name, **{k: v for k, v in options.items() if k not in ("limit", "order")})
