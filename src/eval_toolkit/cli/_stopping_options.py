"""Options that stop a run early: at a target interval width, or once a comparison is decided."""

from typing import TypeAlias

import click

from eval_toolkit.cli._options import passing
from eval_toolkit.runs import Run
from eval_toolkit.tasks.stopping import UntilDecided, UntilWidth

Until: TypeAlias = UntilWidth | UntilDecided | None
_OPTIONS = (
    click.option("--until-width", type=click.FloatRange(0, min_open=True), metavar="W",
                 help="Stop when the interval of the first metric, or of --until-metric, is "
                     "at most W wide."),
    click.option("--until-decided", is_flag=True,
                 help="Stop when this run is significantly better or worse than --against."),
    click.option("--against", type=click.Path(exists=True, file_okay=False), metavar="RUN",
                 help="Run to compare with, item by item, for --until-decided."),
    click.option("--until-metric", metavar="NAME",
                 help="Metric used by --until-width and --until-decided."),
    click.option("--until-scope", type=click.Choice(["population", "benchmark"]),
                 default="population", show_default=True,
                 help="What the intervals refer to: the population of items, or only these items."),
    click.option("--margin", type=click.FloatRange(0), metavar="D",
                 help="Difference D that --until-decided treats as negligible."),
)  # fmt: skip


def _rule(
    until_width: float | None,
    until_decided: bool,
    against: str | None,
    until_metric: str | None,
    until_scope: str,
    margin: float | None,
) -> Until:
    if until_decided != (against is not None):
        raise click.UsageError("--until-decided and --against RUN must be used together")
    if until_width is not None and against is not None:
        raise click.UsageError("pass either --until-width or --until-decided, not both")
    if margin is not None and against is None:
        raise click.UsageError("--margin needs --until-decided")
    if until_width is not None:
        return UntilWidth(until_width, until_metric, until_scope)
    if against is not None:
        return UntilDecided(Run.open(against), until_metric, margin or 0.0, until_scope)
    if until_metric is not None:
        raise click.UsageError("--until-metric needs --until-width or --until-decided")
    return None


until_options = passing("until", _rule, _OPTIONS)
"""Add the options; the command receives the stopping rule, or None, as ``until``."""
