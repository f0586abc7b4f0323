"""Shared options and output of the ``plan`` commands."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from eval_toolkit._internal.display import Number, Page, Table
from eval_toolkit.cli._output import Output
from eval_toolkit.inference import SampleSize

Between = click.FloatRange(0, 1, min_open=True, max_open=True)
Share = click.FloatRange(0, 1)
Above = click.FloatRange(0, min_open=True)
_NOT_ASSUMED = ("as_json", "as_md", "as_html", "out")


def groups_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for grouped rows."""
    size = click.option(
        "--group-size",
        type=click.FloatRange(1),
        default=1.0,
        help="Mean number of rows per group, if rows are grouped.",
    )
    correlation = click.option(
        "--group-correlation",
        type=Share,
        default=0.0,
        help="Intraclass correlation of rows in the same group, from 0 to 1.",
    )
    return size(correlation(command))


def clusters(groups: dict[str, Any]) -> dict[str, Any]:
    """Return the options for grouped rows as keyword arguments for the library."""
    return {"cluster_size": groups["group_size"], "icc": groups["group_correlation"]}


confidence_option = click.option(
    "--confidence",
    type=Between,
    default=0.95,
    show_default=True,
    help="Confidence level of the interval; the significance level of a test is 1 - LEVEL.",
)
power_option = click.option(
    "--power",
    type=Between,
    default=0.8,
    show_default=True,
    help="Power: probability that the test succeeds, given the assumptions.",
)
width_option = click.option(
    "--width",
    required=True,
    type=Above,
    help="Full width of the interval, from lower to upper bound.",
)


def percent(share: float) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:g} %"


def within(width: float, confidence: float) -> str:
    """Return a phrase for the target interval."""
    return f"to a {percent(confidence)} interval of width {width:g}"


def assumptions() -> dict[str, Any]:
    """Return the values of the running command's options, including defaults."""
    given = click.get_current_context().params
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if name not in _NOT_ASSUMED and value is not None and value != ()
    }


def assumed_table(assumed: Mapping[str, Any]) -> Table:
    """Return a table of the assumptions, without rounding."""
    rows = [
        [
            name.replace("_", " "),
            Number(value, "r")
            if isinstance(value, int | float) and not isinstance(value, bool)
            else str(value),
        ]
        for name, value in assumed.items()
    ]
    return Table(["assumed", "value"], rows)


def answer(
    size: SampleSize,
    words: str,
    output: Output,
    unit: str = "rows",
    inputs: Sequence[Path] = (),
) -> None:
    """Print the number of rows and the assumptions."""
    context, assumed = click.get_current_context(), assumptions()
    groups = f" in {size.n_groups:,} groups" if size.design_effect > 1.0 else ""
    payload = {"question": context.info_name, "assumed": assumed, **size.to_dict()}
    lead = [f"{size.n:,} {unit}{groups} {words}."]
    output.emit(Page("Plan", payload, lead, [assumed_table(assumed)]), inputs=inputs)
