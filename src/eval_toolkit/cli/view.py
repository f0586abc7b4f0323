"""``eval-toolkit view``: browse the runs of a folder in a local web viewer."""

from collections.abc import Sequence
from pathlib import Path

import click

from eval_toolkit.cli._messages import say
from eval_toolkit.errors import MissingFileError


@click.command()
@click.argument("runs_dir", metavar="RUNS_DIR")
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    help="Port on 127.0.0.1.  [default: any free port]",
)
@click.option("--browser/--no-browser", default=True, help="Open the URL in a browser.")
@click.option(
    "--export", metavar="DIR", help="Write the pages as static files instead of serving them."
)
@click.option(
    "--compare",
    "pairs",
    metavar="A B",
    nargs=2,
    multiple=True,
    help=(
        "With --export: also write a comparison of runs A and B, given by id or folder. Repeatable."
    ),
)
def view(
    runs_dir: str, port: int, browser: bool, export: str | None, pairs: Sequence[tuple[str, str]]
) -> None:
    """Browse runs in a web browser.

    Runs are found at any depth below RUNS_DIR and are never modified. The printed URL contains a
    token that is required for access. Press Ctrl-C to stop.

    \b
    eval-toolkit view runs
    eval-toolkit view runs --no-browser --port 8123
    eval-toolkit view runs --export site
    eval-toolkit view runs --export site --compare old new
    """  # noqa: D301
    if not Path(runs_dir).is_dir():
        raise MissingFileError(f"{runs_dir}: no such folder")
    if pairs and export is None:
        raise click.UsageError("--compare needs --export; the viewer compares any two runs")
    if export is not None:
        from eval_toolkit.report.viewer.export import export_site

        written = export_site(runs_dir, export, compare=pairs)
        say(f"wrote {written}; open index.html in any browser")
        return
    from eval_toolkit.report.viewer.serving import serve

    serve(runs_dir, port=port, open_browser=browser, started=_started)


def _started(address: str) -> None:
    say(address)
    say("press Ctrl-C to stop the viewer", err=True)
