"""``eval-toolkit plan``: how many rows or samples an evaluation needs."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from eval_toolkit.cli import _names
from eval_toolkit.cli._options import Sampling, column_options, output_options, sampling_options
from eval_toolkit.cli._rows import Wanted, read_predictions
from eval_toolkit.cli._show import Output, Page, Table
from eval_toolkit.errors import InfeasibleError
from eval_toolkit.inference import SampleSize, bootstrap_ci, n_for_power, n_for_width, roc_auc_sd
from eval_toolkit.inference._distributions import critical_value

__all__ = ["plan"]

_Between = click.FloatRange(0, 1, min_open=True, max_open=True)
_Share = click.FloatRange(0, 1)
_Above = click.FloatRange(0, min_open=True)
_NOT_ASSUMED = ("as_json", "out")


@click.group()
def plan() -> None:
    """Say how many rows or samples you need."""


def _groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of rows that come in groups."""
    size = click.option(
        "--group-size",
        type=click.FloatRange(1),
        default=1.0,
        help="Mean number of rows per group, where rows come in groups.",
    )
    correlation = click.option(
        "--group-correlation",
        type=_Share,
        default=0.0,
        help="How alike the rows of one group are, from 0 to 1.",
    )
    return size(correlation(command))


def _clusters(groups: dict[str, Any]) -> dict[str, Any]:
    """Return those options under the library's names."""
    return {"cluster_size": groups["group_size"], "icc": groups["group_correlation"]}


_confidence = click.option(
    "--confidence",
    type=_Between,
    default=0.95,
    show_default=True,
    help="Confidence of the interval; the level of a test is 1 minus it.",
)
_power = click.option(
    "--power",
    type=_Between,
    default=0.8,
    show_default=True,
    help="Probability of success where the assumptions hold.",
)
_width = click.option(
    "--width",
    required=True,
    type=_Above,
    help="Full width of the interval, from the low to the high end.",
)
_disagree = click.option(
    "--disagree", type=_Share, help="Share of rows on which the two differ (0/1 values)."
)


@plan.command()
@_width
@click.option(
    "--expected", type=_Share, default=0.5, show_default=True, help="Rate you expect; 0.5 is worst."
)
@_confidence
@_groups
@output_options("json")
def rate(width: float, expected: float, confidence: float, output: Output, **groups: Any) -> None:
    """Plan for the interval of a rate: accuracy, recall, exact match, attack success.

    \b
    eval-toolkit plan rate --width 0.1 --expected 0.9
    """  # noqa: D301
    size = n_for_width(width, proportion=expected, confidence=confidence, **_clusters(groups))
    _answer(size, f"to know a rate near {expected:g} {_within(width, confidence)}", output)


@plan.command()
@_width
@click.option("--sd", required=True, type=_Above, help="Standard deviation of one value.")
@_confidence
@_groups
@output_options("json")
def mean(width: float, sd: float, confidence: float, output: Output, **groups: Any) -> None:
    """Plan for the interval of a mean of real values: a reward, a judge's score.

    \b
    eval-toolkit plan mean --width 0.2 --sd 1.1
    """  # noqa: D301
    size = n_for_width(width, sd=sd, confidence=confidence, **_clusters(groups))
    _answer(size, f"to know the mean {_within(width, confidence)}", output)


@plan.command()
@_width
@click.option("--expected", required=True, type=_Between, help="ROC-AUC you expect.")
@click.option("--positives", required=True, type=_Between, help="Share of positive rows.")
@_confidence
@_groups
@output_options("json")
def auc(
    width: float,
    expected: float,
    positives: float,
    confidence: float,
    output: Output,
    **groups: Any,
) -> None:
    """Plan for the interval of a ROC-AUC, by Hanley and McNeil's variance.

    \b
    eval-toolkit plan auc --width 0.05 --expected 0.85 --positives 0.1
    """  # noqa: D301
    size = n_for_width(
        width, sd=roc_auc_sd(expected, positives), confidence=confidence, **_clusters(groups)
    )
    words = f"to know a ROC-AUC near {expected:g} {_within(width, confidence)}"
    _answer(size, f"{words}, {_percent(positives)} of them positive", output)


@plan.command()
@click.option("--effect", type=float, help="Difference to be found, as 0.03.")
@click.option("--rows", type=click.IntRange(2), help="Or: the rows you have; what can they show?")
@_disagree
@click.option("--expected", type=_Share, help="Rate of the first system (0/1 values).")
@click.option("--sd", type=_Above, help="Standard deviation of one value, or of the differences.")
@click.option("--correlation", type=click.FloatRange(-1, 1), help="Of the two systems' values.")
@click.option("--different-rows", is_flag=True, help="The two are evaluated on different rows.")
@_power
@_confidence
@_groups
@output_options("json")
def difference(
    effect: float | None,
    rows: int | None,
    different_rows: bool,
    output: Output,
    **assumed: Any,
) -> None:
    """Plan to find a difference between two systems.

    \b
    eval-toolkit plan difference --effect 0.03 --disagree 0.2
    eval-toolkit plan difference --effect 0.03 --expected 0.8 --different-rows
    eval-toolkit plan difference --rows 500 --disagree 0.2
    """  # noqa: D301
    if (effect is None) == (rows is None):
        raise click.UsageError("give --effect (rows needed) or --rows (smallest effect)")
    _check_described(different_rows, assumed)

    def needed(delta: float) -> SampleSize:
        return n_for_power(
            delta,
            design="independent" if different_rows else "paired",
            proportion=assumed["expected"],
            discordance=assumed["disagree"],
            sd=assumed["sd"],
            correlation=assumed["correlation"],
            alpha=1.0 - assumed["confidence"],
            power=assumed["power"],
            **_clusters(assumed),
        )

    where = "on different rows, for each system" if different_rows else "on the same rows"
    chance = f"with a chance of {_percent(assumed['power'])}"
    if effect is not None:
        _answer(needed(effect), f"to find a difference of {effect:g} {where}, {chance}", output)
        return
    smallest = _smallest_effect(rows or 0, needed, _largest_effect(assumed))
    payload = {"question": "difference", "assumed": _assumed(), "effect": smallest}
    lead = f"{rows:,} rows show a difference of {smallest:.3g} {where}, {chance}."
    output.emit(Page("Plan", payload, [lead]))


def _check_described(different_rows: bool, assumed: dict[str, Any]) -> None:
    """Refuse what does not say how much the values vary."""
    has = {
        name for name in ("disagree", "expected", "sd", "correlation") if assumed[name] is not None
    }
    if different_rows and not has & {"expected", "sd"}:
        raise click.UsageError("give --expected (0/1 values) or --sd (real values)")
    if not different_rows and not (has & {"disagree", "sd"} or has >= {"expected", "correlation"}):
        raise click.UsageError(
            "give --disagree, or --expected and --correlation (0/1 values), or --sd (real values)"
        )


def _largest_effect(assumed: dict[str, Any]) -> float:
    """Return the largest difference the assumptions allow; ten spreads for real values."""
    if assumed["sd"] is not None:
        return 10.0 * float(assumed["sd"])
    if assumed["disagree"] is not None:
        return float(assumed["disagree"])
    return 1.0 - float(assumed["expected"] or 0.0)


def _smallest_effect(rows: int, needed: Callable[[float], SampleSize], largest: float) -> float:
    """Return the smallest effect that so many rows show, by bisection."""
    if largest <= 0.0:
        raise InfeasibleError("these assumptions leave no room for a difference")
    if needed(largest).n > rows:
        raise InfeasibleError(
            f"{rows} rows show no difference under these assumptions; even one of {largest:g} "
            f"takes {needed(largest).n}"
        )
    low, high = 0.0, largest
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if needed(middle).n > rows else (low, middle)
    return high


@plan.command("no-worse")
@click.option(
    "--margin", required=True, type=_Above, help="How much worse still counts as no worse."
)
@_disagree
@click.option("--sd", type=_Above, help="Standard deviation of the differences (real values).")
@_power
@_confidence
@_groups
@output_options("json")
def no_worse(
    margin: float,
    disagree: float | None,
    sd: float | None,
    power: float,
    confidence: float,
    output: Output,
    **groups: Any,
) -> None:
    """Plan to show that a new system is no worse than the old one on the same rows.

    If the two are equally good, the low end of the interval of new minus old will lie above
    minus the margin, with the given power.

    \b
    eval-toolkit plan no-worse --margin 0.02 --disagree 0.1
    """  # noqa: D301
    if (disagree is None) == (sd is None):
        raise click.UsageError("give --disagree (0/1 values) or --sd (real values)")
    spread = sd if disagree is None else math.sqrt(disagree)
    size = n_for_power(margin, sd=spread, alpha=1.0 - confidence, power=power, **_clusters(groups))
    words = f"to show that one system is at most {margin:g} worse than an equal one"
    _answer(size, f"{words}, with a chance of {_percent(power)}", output)


@plan.command()
@click.argument("preds", nargs=-1, required=True, metavar="PREDS...")
@_width
@click.option("--metric", default="roc_auc", show_default=True, help="Any metric that score knows.")
@column_options(by=False)
@sampling_options(methods=False)
@output_options("json")
def pilot(
    preds: Sequence[str],
    width: float,
    metric: str,
    wanted: Wanted,
    sampling: Sampling,
    output: Output,
) -> None:
    """Plan from predictions you have: more rows like these, for any metric.

    \b
    eval-toolkit plan pilot preds.csv --metric pr_auc --width 0.05
    """  # noqa: D301
    if len(wanted.scores) > 1:
        raise click.UsageError("give one --score")
    (spec,) = _names.metric_specs([metric])
    found = read_predictions(preds, wanted)
    (scores,) = found.scores.values()
    whole = found.at(None)
    units = whole.n_groups
    ci = bootstrap_ci(
        found.y_true,
        scores,
        spec,
        groups=whole.groups,
        n_resamples=sampling.n_resamples,
        confidence=sampling.confidence,
        seed=sampling.seed,
    )
    now = ci.ci_high - ci.ci_low
    if not now > 0.0:
        raise InfeasibleError(f"{spec.name} has an interval without width on these rows")
    # Half the width is z sd / sqrt(units): what one unit contributes follows from the pilot.
    sd = now / (2.0 * critical_value(sampling.confidence)) * math.sqrt(units)
    size = n_for_width(width, sd=sd, confidence=sampling.confidence)
    unit = "rows" if found.groups is None else "groups of rows"
    words = f"like these {units:,}, which give {spec.name} {ci:.3f}, to know it"
    _answer(size, f"{words} {_within(width, sampling.confidence)}", output, unit, found.rows.files)


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _within(width: float, confidence: float) -> str:
    return f"to a {_percent(confidence)} interval of width {width:g}"


def _assumed() -> dict[str, Any]:
    """Return the options of the command that runs, those given or by default."""
    given = click.get_current_context().params
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if name not in _NOT_ASSUMED and value is not None and value != ()
    }


def _answer(
    size: SampleSize,
    words: str,
    output: Output,
    unit: str = "rows",
    inputs: Sequence[Path] = (),
) -> None:
    context, assumed = click.get_current_context(), _assumed()
    groups = f" in {size.n_groups:,} groups" if size.design_effect > 1.0 else ""
    payload = {"question": context.info_name, "assumed": assumed, **size.to_dict()}
    rows = [[name.replace("_", " "), str(value)] for name, value in assumed.items()]
    lead = [f"{size.n:,} {unit}{groups} {words}."]
    output.emit(Page("Plan", payload, lead, [Table(["assumed", "value"], rows)]), inputs=inputs)
