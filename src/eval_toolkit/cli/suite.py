"""``eval-toolkit suite``: evaluate a model on every task of a suite."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display import Estimate, Page, Rows, Status, Table
from eval_toolkit.cli._cells import estimate
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._messages import in_options, say
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._options import form_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._query_options import progress_bar
from eval_toolkit.cli._tasks import sandbox_option
from eval_toolkit.tasks.suites import Leaf, Suite, SuiteRun, SuiteValue, load_suite, run_suite


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--model",
    required=True,
    metavar="MODEL",
    help="Model to query: embedded, openai:NAME, … (see `models list`).",
)
@click.option(
    "--limit", type=click.IntRange(1), help="Maximum number of items per subject; overrides FILE."
)
@click.option("--concurrency", type=click.IntRange(1), help="Number of concurrent requests.")
@click.option(
    "--allow-code", is_flag=True, help="Allow Python code referenced by FILE and its tasks."
)
@sandbox_option
@model_options
@click.option("--cache", type=click.Path(dir_okay=False), help="SQLite file that caches answers.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Folder for the runs, with one subfolder per task; by default below runs/.",
)
@form_options
@click.option("--quiet", is_flag=True, help="Do not show progress on standard error.")
def suite(
    file: str,
    model: str,
    choose: Callable[..., ModelChoice],
    limit: int | None,
    concurrency: int | None,
    allow_code: bool,
    cache: str | None,
    out: str | None,
    quiet: bool,
    output: Output,
) -> None:
    """Evaluate a model on every task of a suite.

    FILE is TOML or YAML with `name`, `tasks`, settings and `aggregates`. Run the same command
    again to resume. A task that fails does not stop the others; exit with code 3 if one fails, or
    if a mean over tasks cannot be computed.
    """
    read = load_suite(file, allow_code=allow_code)
    asked = choose(model, concurrency=concurrency).load()
    folder = Path(out) if out else Path("runs") / f"{read.name}-{asked.name}".replace("/", "-")
    if limit is not None:
        read = _with_settings(read, {"limit": limit})

    def begin(label: str, task: Any) -> None:
        if not quiet:
            say(f"{label}:", err=True)

    with progress_bar(quiet) as bar:
        done = run_suite(
            read,
            asked,
            folder,
            cache=cache,
            concurrency=concurrency,
            on_task=begin,
            on_progress=bar,
        )
    output.emit(_page(done))
    if done.failed or any(one.value is None for one in done.aggregates.values()):
        raise click.exceptions.Exit(EXIT_FAILED)


def _with_settings(suite: Suite, settings: Mapping[str, Any]) -> Suite:
    """Return the suite with settings overridden by the options of the command."""
    tasks: list[Any] = []
    for one in suite.tasks:
        if isinstance(one, Suite):
            tasks.append(_with_settings(one, settings))
        else:
            leaf = one if isinstance(one, Leaf) else Leaf(one)
            tasks.append(replace(leaf, settings={**leaf.settings, **settings}))
    return replace(suite, tasks=tasks)


def _page(done: SuiteRun) -> Page:
    rows: Rows = [
        [
            label,
            name,
            *estimate(cell, ".4f").split(),
            cell.n_units or 0,
            run.n_errors,
        ]
        for label, run in done.runs.items()
        for name, cell in run.card.items()
    ]
    rows += [[label, Status("failed"), *[None] * 4] for label in done.failures]
    means: Rows = [
        [
            name,
            one.method,
            *Estimate(one.value, one.ci_low, one.ci_high, ".4f").split(),
            one.n_units,
            Status("", _remark(one)),
        ]
        for name, one in done.aggregates.items()
    ]
    tables = [Table(["task", "metric", "value", "interval", "items", "errors"], rows)]
    if means:
        header = ["over tasks", "how", "value", "interval", "items", "remark"]
        tables.append(Table(header, means, "mean over tasks"))
    return Page(
        title=f"suite {done.name}",
        payload=done.to_dict(),
        lead=[f"suite {done.name}, {_counted(done)}, {done.model}; {_confidence(done)}intervals"],
        tables=tables,
        notes=[
            *(
                f"{label} did not finish: {in_options(reason)}"
                for label, reason in done.failures.items()
            ),
            *([f"runs: {done.path}"] if done.path else []),
        ],
    )


def _confidence(done: SuiteRun) -> str:
    """Return the confidence level of the intervals if it is the same for all tasks."""
    said = {run.results["config"]["confidence"] for run in done.runs.values()}
    return f"{100 * said.pop():g} % " if len(said) == 1 else ""


def _remark(one: SuiteValue) -> str:
    """Return the reason why a value is missing; errors of tasks are shown below the table."""
    what, unfinished, _ = one.reason.partition(" was not finished")
    return what + unfinished if unfinished else one.reason


def _counted(done: SuiteRun) -> str:
    n = len(done.runs) + len(done.failures)
    tasks = "1 task" if n == 1 else f"{n} tasks"
    return f"{tasks}, {len(done.failures)} not finished" if done.failures else tasks
