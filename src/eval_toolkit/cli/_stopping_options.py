"""Options that stop a run early: at a target width, or once a comparison is decided."""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import click

from eval_toolkit.runs import Run
from eval_toolkit.tasks.stopping import UntilDecided, UntilWidth

_Command = TypeVar("_Command", bound=Callable[..., Any])
Until: TypeAlias = UntilWidth | UntilDecided | None
_OPTIONS = (
    click.option("--until-width", type=click.FloatRange(0, min_open=True), metavar="W",
                 help="Stop when the interval of the first metric, or of --until-metric, is at most W wide."),
    click.option("--until-decided", is_flag=True,
                 help="Stop when this run is significantly better or worse than --against."),
    click.option("--against", type=click.Path(exists=True, file_okay=False), metavar="RUN",
                 help="Run with which --until-decided compares, item by item."),
    click.option("--until-metric", metavar="NAME",
                 help="Metric used by --until-width and --until-decided."),
    click.option("--until-scope", type=click.Choice(["population", "benchmark"]),
                 default="population", show_default=True,
                 help="Scope of the intervals: the population of items, or exactly these items."),
    click.option("--margin", type=click.FloatRange(0), metavar="D",
                 help="Difference D that --until-decided treats as negligible."),
)  # fmt: skip
_NAMES = ("until_width", "until_decided", "against", "until_metric", "until_scope", "margin")


def until_options(command: _Command) -> _Command:
    """Add the options; the command receives the stopping rule, or None, as ``until``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return command(*args, until=_rule(*(kwargs.pop(name) for name in _NAMES)), **kwargs)

    decorated: Any = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _rule(
    width: float | None,
    decided: bool,
    against: str | None,
    metric: str | None,
    scope: str,
    margin: float | None,
) -> Until:
    if decided != (against is not None):
        raise click.UsageError("--until-decided and --against RUN must be given together")
    if width is not None and against is not None:
        raise click.UsageError("pass either --until-width or --until-decided, not both")
    if margin is not None and against is None:
        raise click.UsageError("--margin needs --until-decided")
    if width is not None:
        return UntilWidth(width, metric, scope)
    if against is not None:
        return UntilDecided(Run.open(against), metric, margin or 0.0, scope)
    if metric is not None:
        raise click.UsageError("--until-metric needs --until-width or --until-decided")
    return None
