"""``eval-toolkit answers``: print or export the answers of a run."""

from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display import Page, Table
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._options import form_options
from eval_toolkit.cli._output import Output, refuse_target
from eval_toolkit.runs import AnswersTable, Run, answers_table

_ROWS = 50


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--wrong", is_flag=True, help="Print only wrong or failed answers.")
@click.option(
    "--grade",
    metavar="NAME",
    help="Grade that determines which answers are wrong.  [default: the first 0/1 grade]",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help=f"Maximum number of answers.  [default: {_ROWS}; all in a file]",
)
@click.option(
    "--out",
    metavar="FILE",
    help="Output file with complete texts: .csv, .tsv, .jsonl, .json or .parquet.",
)
@form_options
def answers(
    run: str, wrong: bool, grade: str | None, limit: int | None, out: str | None, output: Output
) -> None:
    """Print questions, answers, references and grades of a run.

    Text is truncated on screen but written in full with --json and --out.

    \b
    eval-toolkit answers runs/today --wrong
    eval-toolkit answers runs/today --out answers.csv
    """  # noqa: D301
    found = answers_table(Run.open(run), grade=grade)
    n, n_wrong = len(found), len(found.wrong()) if found.by or wrong else None
    if wrong:
        found = found.wrong()
    if out is not None:
        refuse_target(Path(out), "--out", [run])
        some = found if limit is None else found.take(range(min(limit, len(found))))
        some.write(out)
        say(f"wrote {out}: {len(some):,} answers", err=True)
        return
    output.emit(_page(found, limit or _ROWS, n, n_wrong))


def _page(found: AnswersTable, limit: int, n: int, n_wrong: int | None) -> Page:
    lead = f"{n:,} answers"
    if n_wrong is not None:
        lead += f", {n_wrong:,} wrong or failed by {found.by}"
    table = found.table(limit=limit)
    more = "; --limit N shows more, --out FILE writes all" if table.notes else ""
    shown = found.take(range(min(limit, len(found))))
    payload: dict[str, Any] = {
        "run": found.name,
        "n_answers": n,
        "n_not_right": n_wrong,
        "grade": found.by or None,
        "answers": shown.rows(),
    }
    notes = [f"{note}{more}" for note in table.notes]
    tables = [Table(table.header, table.rows)] if len(found) else []
    return Page("answers", payload, [lead], tables, notes)
