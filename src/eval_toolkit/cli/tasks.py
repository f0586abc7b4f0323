"""``eval-toolkit tasks``: list, write, show and check tasks and their prompts."""

from typing import Any

import click

from eval_toolkit._internal.display import Page, Table
from eval_toolkit._internal.words import one_line
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._new_task import new
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._task_check import check
from eval_toolkit.cli._tasks import load_chosen_task, task_options
from eval_toolkit.models.prompts import format_prompt
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.loading import available_tasks
from eval_toolkit.tasks.planning import default_formatter
from eval_toolkit.tasks.types import Sample


@click.group()
def tasks() -> None:
    """List, write, show and check tasks and their prompts."""


tasks.add_command(check)
tasks.add_command(new)


@tasks.command("list")
@output_options
def list_(output: Output) -> None:
    """List the built-in tasks and those of installed packages."""
    found = available_tasks()
    rows = [
        [
            info.name,
            info.response_type or "",
            "included"
            if not info.needs_data
            else f"--data, or {info.hub}"
            if info.hub
            else "--data",
            info.description,
        ]
        for info in found
    ]
    notes = [
        "custom tasks: a file of questions, a TOML, YAML or Python file, or package.module:Class"
    ]
    payload = {"tasks": [info.to_dict() for info in found]}
    header = ["task", "response", "data", "description"]
    output.emit(Page("tasks", payload, (), [Table(header, rows)], notes))


@tasks.command()
@click.argument("task")
@task_options
@output_options
def show(task: str, options: dict[str, Any], output: Output) -> None:
    """Show the definition of TASK: version, splits, data with hashes, graders."""
    chosen = load_chosen_task(task, options)
    described = chosen.describe()
    data = described["dataset"]
    graders = ", ".join(f"{grader.name} (version {grader.version})" for grader in chosen.graders())
    rows = [
        *([key.replace("_", " "), _said(described[key])] for key in described if key != "dataset"),
        *([f"data: {key}", _said(value)] for key, value in data.items() if key != "files"),
        *([f"file {name}", digest] for name, digest in (data.get("files") or {}).items()),
        ["graders", graders],
    ]
    payload = {**described, "graders": {g.name: g.version for g in chosen.graders()}}
    output.emit(Page(f"task {chosen.NAME}", payload, (), [Table(["", ""], rows)]))


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {inner}" for key, inner in value.items())
    if isinstance(value, list):  # stop sequences are often line breaks, which must be visible
        return ", ".join(
            repr(v) if isinstance(v, str) and not v.isprintable() else str(v) for v in value
        )
    return str(value)


@tasks.command()
@click.argument("task")
@task_options
@click.option(
    "--format",
    "formatter",
    metavar="NAME",
    help="Prompt format: chat, plain, concat, chatml, llama3; by default as in `run`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print strict JSON.")
def preview(task: str, options: dict[str, Any], formatter: str | None, as_json: bool) -> None:
    """Print the prompts of TASK as sent to a model; one by default, or as many as --limit."""
    chosen = load_chosen_task(task, options)
    samples = chosen.samples(options["limit"] or 1, order=options["order"])
    samples = samples if options["limit"] else samples[:1]
    form = formatter or default_formatter(chosen)
    if as_json:
        page = Page(
            "", {"task": chosen.NAME, "format": form, "samples": [s.to_dict() for s in samples]}
        )
        Output("json").emit(page)
        return
    for sample in samples:
        say(_shown(chosen, sample, form))


def _shown(task: BaseTask[Any], sample: Sample, form: str) -> str:
    """Return a prompt between horizontal rules, so that surrounding blank lines are visible."""
    made = format_prompt(sample.messages, form)
    if isinstance(made, str):
        body = _bar("prompt", made)
    else:
        body = "\n".join(_bar(message.role.value, message.content) for message in made)
    lines = [f"# {one_line(task.NAME)} {one_line(sample.id)}, format {form}", body]
    if sample.possible_completions is not None:
        lines += [f"choice {i}: {text!r}" for i, text in enumerate(sample.possible_completions)]
    lines.append(f"reference: {sample.ground_truth!r}")
    return "\n".join(lines) + "\n"


def _bar(title: str, text: str) -> str:
    return "\n".join([f"┌ {title}", *(f"│{_visible(line)}" for line in text.split("\n")), "└"])


def _visible(line: str) -> str:
    """Return a line with unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
