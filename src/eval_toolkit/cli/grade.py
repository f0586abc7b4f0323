"""``eval-toolkit grade``: grade stored answers from any source."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.tables import STDIN
from eval_toolkit.cli._exit import EXIT_FAILED
from eval_toolkit.cli._models import server_options
from eval_toolkit.cli._query_options import QueryOptions, asking_options, progress_bar, resumable
from eval_toolkit.cli._task_page import answers_page
from eval_toolkit.tasks.external_answers import ANSWER_ROLES, answer_rows, grade_answers

_Command = TypeVar("_Command", bound=Callable[..., Any])


_ALSO = {
    "answer": ("--answer",),
    "reference": ("--reference",),
    "id": ("--id",),
    "subject": ("--by",),
    "group": ("--group",),
}
"""Short names of these options, some of them as in other commands."""


def _column_options(command: _Command) -> _Command:
    decorated: Any = command
    for role, usual in reversed(list(ANSWER_ROLES.items())):
        names = ", ".join(usual[:3]) + (", …" if len(usual) > 3 else "")
        decorated = click.option(
            f"--{role}-column",
            *_ALSO.get(role, ()),
            f"{role}_column",
            metavar="NAME",
            help=f"Column of the {role}.  [default: {names}]",
        )(decorated)
    return decorated  # type: ignore[no-any-return]


@click.command()
@click.argument("file", metavar="FILE")
@_column_options
@click.option(
    "--grader",
    "graders",
    multiple=True,
    metavar="NAME",
    help="Grader: exact_match, includes, \"number_match{where='first'}\", judge{model=openai:NAME}, "
    "… (see `graders list`). Repeatable.  [default: match; for free text also "
    "exact_match, includes and f1]",
)
@click.option(
    "--name",
    metavar="NAME",
    help=("Name of the system that produced the answers.  [default: the name of FILE]"),
)
@server_options
@asking_options
def grade(
    file: str,
    graders: Sequence[str],
    name: str | None,
    asked: QueryOptions,
    **given: str | None,
) -> None:
    """Grade stored answers from any source, without a model.

    FILE is CSV, JSON lines, Parquet or Excel, or - for standard input, with one row per answer.
    Only judges query a model. The result is a regular run, for use with `compare`, `report`, `gate`
    and `answers`.

    \b
    eval-toolkit grade answers.csv
    eval-toolkit grade answers.jsonl --grader includes --out runs/graded
    eval-toolkit grade answers.csv --answer-column gpt4 --grader judge{model=openai:gpt-4o}
    """  # noqa: D301
    stem = "stdin" if file == STDIN else Path(file).stem
    columns = {role: column for role in ANSWER_ROLES if (column := given[f"{role}_column"])}
    rows = answer_rows(file)
    told = {"rows": sha256_text(canonical_json(rows)), "columns": columns}
    folder = asked.folder(f"grade-{stem}", told)
    with resumable(folder), progress_bar(asked.quiet or not graders) as bar:
        done = grade_answers(
            rows,
            columns=columns,
            graders=list(graders) or None,
            out=folder,
            name=stem,
            model=name or stem,
            on_progress=bar,
            **asked.counted,
            **asked.engine,
        )
    asked.output.emit(answers_page(done), summary=True)
    if done.too_many_errors:
        raise click.exceptions.Exit(EXIT_FAILED)
