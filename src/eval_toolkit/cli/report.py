"""``eval-toolkit report``: write one self-contained HTML report."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from eval_toolkit.analysis import with_directions
from eval_toolkit.artifacts.remote import is_remote
from eval_toolkit.cli._messages import say
from eval_toolkit.cli._options import direction_options
from eval_toolkit.cli._output import refuse_target
from eval_toolkit.cli._remote import run_at
from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.report import Wanted, write_report
from eval_toolkit.runs import Run

_OWN = "report.html"
"""File name of the report in a run folder, where no other file may be added."""


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    help="File to write.  [default: report.html in the run folder]",
)
@click.option("--title", metavar="TEXT", help="Title of the report.  [default: names of the runs]")
@click.option(
    "--samples",
    default=20,
    show_default=True,
    type=click.IntRange(0, 1000),
    help="Maximum number of samples, of worst errors and of conversations to show.",
)
@click.option(
    "--charts/--no-charts",
    default=True,
    help="Include charts, which require an extra.  [default: charts]",
)
@click.option(
    "--claims",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=(
        "TOML file of claims, as for `gate`, whose verdicts are shown first. With several runs, "
        "the first run is the baseline."
    ),
)
@direction_options
@click.option("--json", "as_json", is_flag=True, help="Print the path of the report as JSON.")
def report(
    runs: Sequence[str],
    out: str | None,
    title: str | None,
    samples: int,
    charts: bool,
    claims: Path | None,
    higher_is_better: Mapping[str, bool],
    as_json: bool,
) -> None:
    """Write one self-contained HTML report about runs.

    RUN is the folder of a finished run of any kind. With several runs, the first is the baseline,
    and the report starts with paired differences from it.

    \b
    eval-toolkit report runs/today -o report.html
    eval-toolkit report runs/last runs/today -o compared.html --claims claims.toml
    """  # noqa: D301
    if out is None and any(map(is_remote, runs)):
        raise InvalidInputError("pass a path for the report of a run at a URL: -o report.html")
    opened = with_directions([run_at(path, "a report") for path in runs], higher_is_better)
    target = _target(opened, out)
    try:
        written = write_report(
            opened,
            target,
            title=title,
            wanted=Wanted(n_samples=samples, charts=charts),
            claims=claims,
        )
    except MissingExtraError as error:
        raise MissingExtraError(f"{error}, or pass --no-charts") from error
    size = written.stat().st_size
    if as_json:
        told = {"path": str(written), "runs": [run.run_id for run in opened], "bytes": size}
        say(json.dumps(told, allow_nan=False, indent=2))
        return
    say(f"wrote {written} ({size / 1e6:.1f} MB); open it in any browser")


def _target(runs: Sequence[Run], out: str | None) -> Path:
    """Return the path of the report; run folders accept only their own report."""
    if out is None:
        if len(runs) > 1:
            raise InvalidInputError("pass a path for the report of several runs: -o report.html")
        return runs[0].path / _OWN
    target = Path(out)
    if target.is_dir():
        raise InvalidInputError(f"{target}: is a folder; name a file, as in -o {target}/{_OWN}")
    if target.name == _OWN and target.parent.resolve() in [run.path.resolve() for run in runs]:
        return target
    refuse_target(target, "-o", [run.path for run in runs])
    return target
