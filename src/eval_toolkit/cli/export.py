"""``eval-toolkit export``: write runs in formats of other tools, and as tables for papers."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from eval_toolkit.cli._messages import reader_may_go, say
from eval_toolkit.cli._output import refuse_target
from eval_toolkit.integrations.exporting import EXPORT_FORMATS, export_files, export_run
from eval_toolkit.integrations.exporting.writing import SINGLE_FILE
from eval_toolkit.runs import Run

_PRINTED = "-"


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--to", "format_name", required=True, type=click.Choice(EXPORT_FORMATS), help="Output format."
)
@click.option(
    "-o",
    "--out",
    metavar="PATH",
    help=(
        "Output file, or folder for formats with several files; - prints to standard output.  "
        "[default: - for formats with one file]"
    ),
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
@click.option(
    "--samples/--no-samples",
    default=None,
    help="lm-eval and every-eval-ever: write one line per sample.  [default: if there are records]",
)
@click.option(
    "--metric",
    metavar="NAME",
    help="predictions: metric whose value per unit is exported as the score.",
)
@click.option("--slice", "slice_name", metavar="NAME", help="predictions: slice to export.")
@click.option("--scorer", metavar="NAME", help="predictions: scorer to export.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the paths of the written files as JSON."
)
def export(
    runs: Sequence[str],
    format_name: str,
    out: str | None,
    overwrite: bool,
    as_json: bool,
    slice_name: str | None,
    **chosen: Any,
) -> None:
    """Write runs in another tool's format, or as a table.

    RUN is the folder of a finished run of any kind. Tables combine several runs; in other tools'
    formats, each run has its own folder. Missing values are exported as missing with the reason,
    never as 0.

    \b
    eval-toolkit export runs/today --to markdown
    eval-toolkit export runs/today --to lm-eval -o lm_eval_output
    eval-toolkit export runs/last runs/today --to latex -o table.tex
    """  # noqa: D301
    opened = [Run.open(path) for path in runs]
    options = {**chosen, "slice": slice_name}
    target = out or _PRINTED
    if target == _PRINTED:
        if format_name not in SINGLE_FILE:
            raise click.UsageError(
                f"{format_name} consists of several files; pass a folder: -o FOLDER"
            )
        if as_json:
            raise click.UsageError("--json lists the written files; pass a file with -o")
        made = export_files(opened, format_name, **options)
        if len(made) > 1:
            raise click.UsageError(
                f"{format_name} writes several files for several runs; pass a folder: -o FOLDER"
            )
        _print(next(iter(made.values())))
        return
    refuse_target(Path(target), "-o", runs)
    written = export_run(opened, target, format_name, overwrite=overwrite, **options)
    if as_json:
        told = {"format": format_name, "runs": [run.run_id for run in opened]}
        say(json.dumps({**told, "files": list(map(str, written))}, allow_nan=False, indent=2))
        return
    more = "" if len(written) == 1 else f" and {len(written) - 1} more"
    say(f"wrote {written[0]}{more}", err=True)


def _print(content: bytes) -> None:
    """Print a file, escaping control characters on a terminal."""
    if sys.stdout is not None and sys.stdout.isatty():
        text = content.decode("utf-8").replace("\r\n", "\n")
        say("".join(c if c.isprintable() or c in "\n\t" else " " for c in text), nl=False)
        return
    with reader_may_go():
        # raw bytes; text-only streams, as in notebooks, get decoded text
        whole = hasattr(sys.stdout, "buffer")
        click.echo(content if whole else content.decode("utf-8"), nl=False)
