"""Options that select a task, items and few-shot examples."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from eval_toolkit._internal.sandbox import ALLOW_WEAKER
from eval_toolkit.cli._options import passing
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.loading import load_task

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OPTIONS = {
    "data": click.option("--data", metavar="PATH",
                         help="Task data: a file, folder or glob pattern."),
    "limit": click.option("--limit", type=click.IntRange(1), help="Maximum number of items per subject."),
    "num_fewshot": click.option("--fewshot", "num_fewshot", type=click.IntRange(0), metavar="K",
                                help="Number of few-shot examples."),
    "subjects": click.option("--subject", "subjects", multiple=True,
                             help="Evaluate only this subject. Repeatable."),
    "order": click.option("--order", type=click.Choice(["shuffled", "file"]), default="shuffled",
                          show_default=True, help="Order of the items before --limit is applied."),
    "shuffle_choices": click.option("--shuffle-choices", is_flag=True, default=None,
                                    help="Shuffle the choices of each item."),
    "prompt": click.option("--prompt", metavar="TEXT", help=(
        "Prompt with column names in braces, e.g. \"{question} Answer briefly.\"; only for tables of "
        "questions and task files."
    )),
    "system": click.option("--system", metavar="TEXT", help="System message; may contain columns in braces, as in --prompt."),
    "answer": click.option("--answer", metavar="COLUMN", help="Column with the reference answer, if its name is not recognised."),
    "by": click.option("--by", metavar="COLUMN", help="Subject column, to report results "
    "by subject; only for tables of questions and task files."),
    "revision": click.option("--revision", help="Commit of a dataset on the Hugging Face Hub."),
    "seed": click.option("--seed", type=click.IntRange(0),
                         help=(
                             "Random seed for few-shot examples, item order and sampling. [default: "
                             "42]"
                         )),
    "allow_code": click.option("--allow-code", is_flag=True, default=None,
                               help="Allow a task file to run Python code (modules, !function)."),
    "lm_eval_shots": click.option("--lm-eval-shots", is_flag=True, default=None,
                                  help="For lm-eval files: draw the few-shot examples exactly as lm-eval does."),
}  # fmt: skip
_OF_ITEMS = ("limit", "order")
_OF_FILES = {
    "allow_code": ("task files (TOML, YAML)", (".toml", ".yaml", ".yml")),
    "lm_eval_shots": ("YAML files of lm-eval", (".yaml", ".yml")),
}


def _task(subjects: Sequence[str], **options: Any) -> dict[str, Any]:
    return {**options, "subjects": list(subjects) or None}


task_options = passing("options", _task, (*_OPTIONS.values(),), _OPTIONS)
"""Add the options for a task and its items; the command receives them as ``options``."""
_WHOLE = {name: option for name, option in _OPTIONS.items() if name not in (*_OF_ITEMS, "by")}
whole_task_options = passing("options", _task, (*_WHOLE.values(),), _WHOLE)
"""Add the options for a task whose items are fixed, e.g. by a stored run."""


def sandbox_option(command: _Command) -> _Command:
    """Add the option that permits a weaker sandbox, which config files cannot set."""
    option = click.option(
        "--allow-weaker-sandbox",
        is_flag=True,
        expose_value=False,
        callback=_allow_weaker_sandbox,
        help=(
            "Run model-generated programs even if no full sandbox is available, with weaker "
            "isolation (see `doctor`)."
        ),
    )
    return option(command)


def _allow_weaker_sandbox(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given and os.environ.get(ALLOW_WEAKER) != "1":
        os.environ[ALLOW_WEAKER] = "1"
        context.call_on_close(lambda: os.environ.pop(ALLOW_WEAKER, None))


def load_chosen_task(name: str, options: dict[str, Any]) -> BaseTask[Any]:
    """Return the task; ``limit`` and ``order`` apply to its samples."""
    for option, (files, suffixes) in _OF_FILES.items():
        if options.get(option) and not name.partition("{")[0].lower().endswith(suffixes):
            raise click.UsageError(f"--{option.replace('_', '-')} applies to {files}")
    given = {k: v for k, v in options.items() if k not in _OF_ITEMS}
    return load_task(name, allow_code=bool(given.pop("allow_code", None)), **given)


def with_perturbations(task: BaseTask[Any], given: Sequence[str]) -> BaseTask[Any]:
    """Return the task with questions perturbed by ``KIND`` or ``KIND=PROBABILITY``."""
    if not given:
        return task
    from eval_toolkit._internal.words import nearest
    from eval_toolkit.tasks.perturbations import KINDS, Perturbation, perturbed

    kinds = [kind for kind in KINDS if kind != "paraphrase"]  # requires templates
    for text in given:
        kind, equals, share = text.partition("=")
        if kind not in kinds:
            raise click.UsageError(f"--perturb {text}: {nearest(kind, kinds)}")
        try:
            probability = float(share) if equals else None
        except ValueError:
            raise click.UsageError(f"--perturb {text}: {share!r} is not a number") from None
        if probability is not None and not 0.0 <= probability <= 1.0:
            raise click.UsageError(f"--perturb {text}: a probability must lie between 0 and 1")
        task = perturbed(task, Perturbation(kind, probability, seed=task.seed))
    return task
