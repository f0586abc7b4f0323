"""``eval-toolkit import``: convert logs from other tools to runs, checked against their samples."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display import CellLike, Number, Page, Table
from eval_toolkit.analysis.directions import direction_hint
from eval_toolkit.cli._cells import with_interval
from eval_toolkit.cli._options import direction_options, form_options, label_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._suggestions import next_line
from eval_toolkit.integrations.importing import Checked, Imported, Wanted, import_logs
from eval_toolkit.integrations.importing.reported import cell_names
from eval_toolkit.scorecards import MetricResult

_MOST_ROWS = 60


@click.command("import")
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path)
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the runs, one per task and model; if omitted, only a summary is printed.",
)
@click.option("--task", metavar="NAME", help="Name of the task.")
@click.option("--model", metavar="NAME", help="Name of the model.")
@click.option(
    "--rename",
    metavar="OLD=NEW",
    multiple=True,
    help="Rename a metric, e.g. to compare runs of two tools. Repeatable.",
)
@click.option("--input-field", metavar="F", help="Field of each item that contains the input.")
@click.option("--target-field", metavar="F", help="Field of each item that contains the target.")
@click.option(
    "--group", metavar="F", help="Group field; items with the same value are not independent."
)
@click.option(
    "--by", metavar="F", multiple=True, help=("Field to slice the results by. Repeatable.")
)
@click.option("--id", "id_field", metavar="F", help="Tables: column with row ids.")
@click.option(
    "--column", "columns", metavar="F", multiple=True, help="Tables: numeric column. Repeatable."
)
@label_options
@direction_options
@click.option("--overwrite", is_flag=True, help="Replace existing runs.")
@form_options
def import_(
    paths: Sequence[Path],
    out: Path | None,
    task: str | None,
    model: str | None,
    rename: Sequence[str],
    higher_is_better: Mapping[str, bool],
    overwrite: bool,
    output: Output,
    **fields: Any,
) -> None:
    """Import logs from other tools as runs.

    PATH is a log or a folder of logs: Inspect (.eval, .json), lm-eval (results and samples),
    lighteval, HELM, eval-framework, astra-rl, garak, a run folder of eval-toolkit 1, or a table of
    predictions (in the formats of score; - for standard input). The tools need not be installed.

    \b
    eval-toolkit import logs/ --out runs
    eval-toolkit import preds.csv --id row --column correct
    """  # noqa: D301
    if overwrite and out is None:
        raise click.UsageError("--overwrite needs --out; without it nothing is written")
    found = import_logs(
        paths,
        out,
        wanted=Wanted(
            input_field=fields["input_field"],
            target_field=fields["target_field"],
            group_field=fields["group"],
            by=tuple(fields["by"]),
            id_field=fields["id_field"],
            columns=tuple(fields["columns"]),
            labels=fields["labels"],
        ),
        task=task,
        model=model,
        rename=dict(map(_pair, rename)),
        higher_is_better=higher_is_better,
        overwrite=overwrite,
    )
    output.emit(_page(found, out))


def _pair(given: str) -> tuple[str, str]:
    old, equals, new = given.partition("=")
    if not equals or not old or not new:
        raise click.UsageError(f"--rename {given!r} must be OLD=NEW")
    return old, new


def _page(found: Sequence[Imported], out: Path | None) -> Page:
    rows = [row for one in found for row in _rows(one)]
    shown = rows[:_MOST_ROWS]
    header = ["task", "model", "metric", "value", "n", "value in the log", "check"]
    tools = ", ".join(sorted({one.log.tool for one in found}))
    n_samples = sum(len(one.log.samples) for one in found)
    lead = [f"{_counted(len(found), 'log')} of {tools}, {_counted(n_samples, 'sample')}"]
    notes = list(dict.fromkeys(_noted(found)))
    if len(rows) > len(shown):
        notes.append(f"{len(rows) - len(shown)} more rows in --json")
    notes += _directions(found)
    written = list(dict.fromkeys(str(one.run.path) for one in found if one.run is not None))
    payload = {"logs": [one.to_dict() for one in found], "written": written}
    return Page(
        title="import",
        payload=payload,
        lead=lead,
        tables=[Table(header, shown)],
        notes=[*notes, *_next(written, found, out)],
    )


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _rows(one: Imported) -> Iterator[list[CellLike]]:
    """Yield one row per cell or reported number of a log."""
    cells = dict(one.cells)
    checked = dict(zip(cell_names(one.log.stated), one.checked, strict=True))
    for name in dict.fromkeys([*cells, *checked]):
        cell, found = cells.get(name), checked.get(name)
        n = None if cell is None else cell.n_units
        value = None if cell is None else with_interval(cell)
        said = None if found is None else _stated(found)
        yield [one.log.task, one.log.model, name, value, n, said, _verdict(cell, found)]


def _verdict(cell: MetricResult | None, found: Checked | None) -> str:
    """Return the result of the check, or the reason why a number has no interval."""
    said = [] if found is None else [found.verdict]
    if cell is not None and cell.ci is None and not cell.details.get("stated") and cell.reason:
        said.append(cell.reason)
    return "; ".join(said)


def _stated(line: Checked) -> CellLike:
    if line.stated_stderr is None:
        return Number(line.stated, ".6g")
    return f"{line.stated:.6g} ± {line.stated_stderr:.3g}"


def _noted(found: Sequence[Imported]) -> Iterator[str]:
    several = len({(one.log.task, one.log.model) for one in found}) > 1
    for one in found:
        for note in one.notes:
            yield f"{one.log.task}: {note}" if several else note


def _directions(found: Sequence[Imported]) -> list[str]:
    """Return notes on metrics for which lower is better or whose direction is unknown."""
    lower: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for one in found:
        for name, cell in one.cells.items():
            up = cell.details.get("higher_is_better", True)
            if up is False:
                lower[name] = None
            elif up is None and name not in one.log.higher_is_better:
                unknown[name] = None
    return [
        *([f"lower is better: {', '.join(lower)}"] if lower else []),
        *([direction_hint([*unknown])] if unknown else []),
    ]


def _next(written: Sequence[str], found: Sequence[Imported], out: Path | None) -> list[str]:
    """Describe what was written, and suggest the next commands."""
    if out is None:
        return ["nothing was written; --out FOLDER writes runs"]
    whole = [str(one.run.path) for one in found if one.run is not None and one.records is not None]
    lines = [f"wrote {_counted(len(written), 'run')} to {out}"]
    lines += [next_line("report", (whole or written)[0]), next_line("view", out)]
    paired = [one for one in found if one.records is not None and one.run is not None]
    for at, one in enumerate(paired):
        for other in paired[at + 1 :]:
            if one.log.task == other.log.task and one.run is not None and other.run is not None:
                return [*lines, next_line("compare", one.run.path, other.run.path)]
    return lines
