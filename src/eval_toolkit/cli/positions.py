"""``eval-toolkit positions``: measure a model's position bias on multiple-choice items."""

from collections.abc import Callable
from typing import Any

import click

from eval_toolkit._internal.display import Estimate, Number, Page, Rows, Table
from eval_toolkit.cli._cells import with_interval
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._query_options import QueryOptions, asking_options, progress_bar, resumable
from eval_toolkit.cli._tasks import load_chosen_task, task_options
from eval_toolkit.tasks import PositionBias, position_bias, run_rotations
from eval_toolkit.tasks.base import BaseTask


@click.command()
@click.argument("task")
@click.option(
    "--model",
    required=True,
    metavar="MODEL",
    help="Model to query: embedded, openai:NAME, … (see `models list`).",
)
@task_options
@model_options
@asking_options
def positions(
    task: str,
    model: str,
    options: dict[str, Any],
    choose: Callable[..., ModelChoice],
    asked: QueryOptions,
) -> None:
    """Measure a model's position bias on a multiple-choice task.

    Every item is queried once for each position of its answer; the runs are stored in subfolders of
    --out, one per position.

    \b
    eval-toolkit positions capitals --model embedded --limit 5
    """  # noqa: D301
    items = {name: options.pop(name) for name in ("limit", "order")}
    chosen = load_chosen_task(task, options)
    loaded = choose(model).load()
    told = {"task": chosen.describe(), "model": dict(loaded.describe()), "order": items["order"]}
    folder = asked.folder(f"{chosen.NAME}-{loaded.name}-positions", told)
    with resumable(folder), progress_bar(asked.quiet) as bar:
        runs = run_rotations(
            chosen,
            loaded,
            folder,
            on_progress=bar,
            **items,
            **asked.counted,
            **asked.engine,
        )
    found = position_bias(runs, confidence=asked.counted["confidence"], seed=chosen.seed)
    asked.output.emit(_page(chosen, loaded.name, found, None if folder is None else str(folder)))
    if any(run.too_many_errors for run in runs):
        raise click.exceptions.Exit(EXIT_FAILED)


def _page(task: BaseTask[Any], model: str, found: PositionBias, folder: str | None) -> Page:
    gap, percent = found.difference, f"{100 * found.confidence:g}"
    matter = "significant position bias" if found.biased else "no significant position bias"
    rows: Rows = [
        [one.label, with_interval(one.picked), Number(one.expected), with_interval(one.accuracy)]
        for one in found.positions
    ]
    together: Rows = [
        ["accuracy over all positions", with_interval(found.accuracy)],
        ["same choice in every position", with_interval(found.consistency)],
        [
            f"accuracy at {gap.best} minus at {gap.worst}",
            Estimate(gap.value, gap.ci_low, gap.ci_high),
        ],
    ]
    left = [f"{found.n_left_out} items without an answer in every position are omitted"]
    return Page(
        title=f"positions of {task.NAME}",
        payload=found.to_dict(),
        lead=[
            (
                f"task {task.NAME}, model {model}: {found.n_units} items in every position; "
                f"{percent} % intervals"
            ),
            f"{matter} (p = {found.test.p_value:.4f})",
        ],
        tables=[
            Table(["position", "picked", "if uniform", "accuracy if the answer is here"], rows),
            Table(["", ""], together, "over all positions"),
        ],
        notes=[
            *(left if found.n_left_out else []),
            (
                "the largest difference was selected after seeing the data; its interval accounts for "
                "that"
            ),
            *([f"runs: {folder}"] if folder else []),
        ],
    )
