"""``eval-toolkit suite``: every task of a suite put to a model, with means over tasks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from eval_toolkit.cli._asking import progress_bar
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._models import ModelChoice, model_options
from eval_toolkit.cli._show import Output, Page, Table
from eval_toolkit.cli._text import say
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.tasks.suites import SuiteRun, SuiteValue, load_suite, run_suite

__all__ = ["suite"]


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--model", required=True, metavar="MODEL", help="embedded, openai:NAME, …")
@click.option("--limit", type=click.IntRange(1), help="Items per subject, where FILE is silent.")
@click.option("--concurrency", type=click.IntRange(1), help="Requests at once.")
@model_options
@click.option("--cache", type=click.Path(dir_okay=False), help="SQLite file of earlier answers.")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Of the runs, one folder per task; by default below runs/.",
)
@click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")
@click.option("--md", "as_md", is_flag=True, help="Print Markdown.")
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def suite(
    file: str,
    model: str,
    choose: Callable[..., ModelChoice],
    limit: int | None,
    concurrency: int | None,
    cache: str | None,
    out: str | None,
    as_json: bool,
    as_md: bool,
    quiet: bool,
) -> None:
    """Put every task of a suite to a model: a run per task, means over tasks with intervals.

    FILE is TOML or YAML with `name`, `tasks`, settings and `aggregates`. The same command goes on
    where it was. A task whose model fails does not stop the others; exit code 3 says that one did.
    """
    output = Output.of({"json": as_json, "md": as_md}, None)
    read = load_suite(file)
    told = {"concurrency": concurrency} if concurrency and model.startswith("openai:") else {}
    asked = choose(model, **told).load()
    folder = Path(out) if out else Path("runs") / f"{read.name}-{asked.name}".replace("/", "-")
    settings: dict[str, Any] = {} if limit is None else {"limit": limit}

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
            **settings,
        )
    output.emit(_page(done))
    if done.failed:
        raise click.exceptions.Exit(EXIT_FAILED)


def _page(done: SuiteRun) -> Page:
    rows = [
        [
            label,
            name,
            _number(cell.value),
            _interval(cell),
            str(cell.n_units or 0),
            str(run.n_errors),
        ]
        for label, run in done.runs.items()
        for name, cell in run.card.items()
    ]
    rows += [[label, "failed", "", "", "", ""] for label in done.failures]
    means = [
        [name, one.method, _number(one.value), _ends(one), str(one.n_units), one.reason]
        for name, one in done.aggregates.items()
    ]
    tables = [Table(["task", "metric", "value", "95 % interval", "items", "errors"], rows)]
    if means:
        header = ["over tasks", "", "value", "95 % interval", "items", ""]
        tables.append(Table(header, means, "means over tasks"))
    return Page(
        title=f"suite {done.name}",
        payload=done.to_dict(),
        lead=[f"suite {done.name}, {len(done.runs)} tasks, {done.model}"],
        tables=tables,
        notes=[
            *(f"{label} was not finished: {reason}" for label, reason in done.failures.items()),
            *([f"runs: {done.path}"] if done.path else []),
        ],
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _interval(cell: MetricResult) -> str:
    return "" if cell.ci is None else f"{cell.ci.ci_low:.4f} to {cell.ci.ci_high:.4f}"


def _ends(one: SuiteValue) -> str:
    if one.ci_low is None or one.ci_high is None:
        return ""
    return f"{one.ci_low:.4f} to {one.ci_high:.4f}"
