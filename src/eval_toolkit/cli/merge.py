"""``eval-toolkit merge``: join the shards of a run into one run."""

from collections.abc import Sequence
from typing import Any

import click

from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._options import form_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._tasks import load_chosen_task, sandbox_option, whole_task_options
from eval_toolkit.runs import merge_runs


@click.command()
@click.argument("shards", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False),
                metavar="SHARD...")  # fmt: skip
@click.option("--out", required=True, type=click.Path(file_okay=False), metavar="FOLDER",
              help="Folder for the merged run; it must not exist.")  # fmt: skip
@click.option("--partial", is_flag=True,
              help="Merge an incomplete set of shards; the result can be merged with the missing shards later.")  # fmt: skip
@click.option("--task", metavar="TASK",
              help="Task of the shards, if it cannot be restored.")  # fmt: skip
@whole_task_options
@click.option("--grader", "graders", multiple=True, metavar="NAME",
              help="Grader of the shards, if it cannot be restored. Repeatable.")  # fmt: skip
@sandbox_option
@click.option("--max-error-rate", default=0.0, show_default=True, type=click.FloatRange(0, 1),
              help="Maximum share of failed attempts; exit with code 3 if it is exceeded.")  # fmt: skip
@form_options
def merge(
    shards: Sequence[str],
    out: str,
    partial: bool,
    task: str | None,
    options: dict[str, Any],
    graders: Sequence[str],
    max_error_rate: float,
    output: Output,
) -> None:
    """Join the shards of a run, written with --shard i/n.

    SHARD is the folder of a finished shard. The merged run is byte-identical to a single run on all
    items; no model is queried. Missing shards and shards of different runs are errors.

    \b
    eval-toolkit run quiz.jsonl --model openai:m --shard 1/2 --out runs/quiz-1
    eval-toolkit run quiz.jsonl --model openai:m --shard 2/2 --out runs/quiz-2
    eval-toolkit merge runs/quiz-1 runs/quiz-2 --out runs/quiz
    """  # noqa: D301
    told: dict[str, Any] = {"graders": list(graders)} if graders else {}
    if task is not None:
        told["task"] = load_chosen_task(task, options)
    elif given := [name for name, value in options.items() if value is not None]:
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --task")
    done = merge_runs(shards, out, partial=partial, max_error_rate=max_error_rate, **told)
    output.emit(_page(done))
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)


def _page(done: Any) -> Any:
    """Return the page for this kind of run."""
    kind = done.run.kind
    if kind == "task":
        from eval_toolkit.cli._task_page import task_page

        return task_page(done, asks=False)
    if kind == "rollout":
        from eval_toolkit.cli._rollout_page import rescored_page as rollouts_page

        return rollouts_page(done)
    from eval_toolkit.cli._rescore_pages import rescored_page

    return rescored_page(done)
