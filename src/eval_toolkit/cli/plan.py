"""``eval-toolkit plan``: plan the number of rows or samples of an evaluation."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import click

from eval_toolkit._internal.display import Estimate, Page
from eval_toolkit.cli._options import Sampling, column_options, output_options, sampling_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._plan_models import attempts, labels, variance
from eval_toolkit.cli._planning import (
    Above,
    Between,
    Share,
    answer,
    assumptions,
    clusters,
    confidence_option,
    groups_options,
    percent,
    power_option,
    width_option,
    within,
)
from eval_toolkit.errors import InfeasibleError
from eval_toolkit.inference import (
    BoundSize,
    SampleSize,
    bootstrap_ci,
    n_for_bound,
    n_for_power,
    n_for_width,
    roc_auc_sd,
)
from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.loaders.columns import Wanted
from eval_toolkit.loaders.predictions import read_predictions
from eval_toolkit.metric_specs.names import named

_disagree = click.option(
    "--disagree", type=Share, help="Share of rows on which the two systems differ (0/1 values)."
)


@click.group()
def plan() -> None:
    """Plan the number of rows or samples of an evaluation."""


plan.add_command(attempts)
plan.add_command(labels)
plan.add_command(variance)


@plan.command()
@click.option("--width", type=Above, help="Full width of the interval, from lower to upper bound.")
@click.option(
    "--at-most",
    type=Between,
    help=("Upper bound that the interval must not exceed, instead of --width."),
)
@click.option(
    "--expected",
    type=Share,
    help="Expected rate.  [default: 0.5, the worst case; with --at-most 0]",
)
@click.option(
    "--power",
    type=Between,
    help="Power: probability of success at the expected rate, with --at-most.  [default: 0.8]",
)
@confidence_option
@groups_options
@output_options
def rate(
    width: float | None,
    at_most: float | None,
    expected: float | None,
    power: float | None,
    confidence: float,
    output: Output,
    **groups: Any,
) -> None:
    """Plan an interval for a rate: accuracy, recall, exact match, attack success.

    \b
    eval-toolkit plan rate --width 0.1 --expected 0.9
    eval-toolkit plan rate --at-most 0.01 --expected 0.002
    """  # noqa: D301
    if (width is None) == (at_most is None) or (power is not None and at_most is None):
        raise click.UsageError("pass either --width, or --at-most and optionally --power")
    assumed, told = click.get_current_context().params, clusters(groups)
    if width is not None:
        assumed["expected"] = expected = 0.5 if expected is None else expected
        size = n_for_width(width, proportion=expected, confidence=confidence, **told)
        answer(size, f"to estimate a rate near {expected:g} {within(width, confidence)}", output)
    else:
        assumed |= {"expected": expected or 0.0, "power": power or 0.8}
        told |= {"expected": assumed["expected"], "power": assumed["power"]}
        bound = n_for_bound(at_most, confidence=confidence, **told)  # type: ignore[arg-type]
        answer(bound, _shown_below(bound, at_most, expected, confidence), output)


def _shown_below(
    size: BoundSize, at_most: float | None, expected: float | None, confidence: float
) -> str:
    """Describe what the rows can demonstrate, and how many of them may fail."""
    end = f"upper end of the {percent(confidence)} interval"
    most = f"at most {size.n_allowed:,} fail" if size.n_allowed else "none fails"
    chance = f" (probability {size.power:.2f} at a rate of {expected:g})" if expected else ""
    return f"to show a rate of at most {at_most:g} ({end}), if {most}{chance}"


@plan.command()
@width_option
@click.option("--sd", required=True, type=Above, help="Standard deviation of one value.")
@confidence_option
@groups_options
@output_options
def mean(width: float, sd: float, confidence: float, output: Output, **groups: Any) -> None:
    """Plan an interval for the mean of real values, such as rewards or judge scores.

    \b
    eval-toolkit plan mean --width 0.2 --sd 1.1
    """  # noqa: D301
    size = n_for_width(width, sd=sd, confidence=confidence, **clusters(groups))
    answer(size, f"to estimate the mean {within(width, confidence)}", output)


@plan.command()
@width_option
@click.option("--expected", required=True, type=Between, help="Expected ROC-AUC.")
@click.option("--positives", required=True, type=Between, help="Share of positive rows.")
@confidence_option
@groups_options
@output_options
def auc(
    width: float,
    expected: float,
    positives: float,
    confidence: float,
    output: Output,
    **groups: Any,
) -> None:
    """Plan an interval for a ROC-AUC, using the variance of Hanley and McNeil.

    \b
    eval-toolkit plan auc --width 0.05 --expected 0.85 --positives 0.1
    """  # noqa: D301
    size = n_for_width(
        width, sd=roc_auc_sd(expected, positives), confidence=confidence, **clusters(groups)
    )
    words = f"to estimate a ROC-AUC near {expected:g} {within(width, confidence)}"
    answer(size, f"{words}, {percent(positives)} of them positive", output)


@plan.command()
@click.option("--effect", type=float, help="Difference to detect, e.g. 0.03.")
@click.option(
    "--rows",
    type=click.IntRange(2),
    help="Number of available rows; if given, the smallest detectable difference is reported.",
)
@_disagree
@click.option("--expected", type=Share, help="Expected rate of the first system (0/1 values).")
@click.option("--sd", type=Above, help="Standard deviation of one value, or of the differences.")
@click.option(
    "--correlation", type=click.FloatRange(-1, 1), help="Correlation of the two systems' values."
)
@click.option("--different-rows", is_flag=True, help="Evaluate the two systems on different rows.")
@power_option
@confidence_option
@groups_options
@output_options
def difference(
    effect: float | None,
    rows: int | None,
    different_rows: bool,
    output: Output,
    **assumed: Any,
) -> None:
    """Plan a test of the difference between two systems.

    The share on which two runs differ is n_discordant / n_units from `compare RUN_A RUN_B --json`.

    \b
    eval-toolkit plan difference --effect 0.03 --disagree 0.2
    eval-toolkit plan difference --effect 0.03 --expected 0.8 --different-rows
    eval-toolkit plan difference --rows 500 --disagree 0.2
    """  # noqa: D301
    if (effect is None) == (rows is None):
        raise click.UsageError("pass --effect (rows needed) or --rows (smallest effect)")
    if effect is not None and abs(effect) > 1.0 and assumed["sd"] is None:
        raise click.UsageError(f"--effect is {effect:g}; pass a share: {effect / 100:g}")
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
            **clusters(assumed),
        )

    where = "on different rows, for each system" if different_rows else "on the same rows"
    chance = f"with power {percent(assumed['power'])}"
    if effect is not None:
        answer(needed(effect), f"to detect a difference of {effect:g} {where}, {chance}", output)
        return
    smallest = _smallest_effect(rows or 0, needed, _largest_effect(assumed))
    payload = {"question": "difference", "assumed": assumptions(), "effect": smallest}
    lead = f"{rows:,} rows detect a difference of {smallest:.3g} {where}, {chance}."
    output.emit(Page("Plan", payload, [lead]))


def _check_described(different_rows: bool, assumed: dict[str, Any]) -> None:
    """Raise if the options do not determine the variance."""
    has = {
        name for name in ("disagree", "expected", "sd", "correlation") if assumed[name] is not None
    }
    if different_rows and not has & {"expected", "sd"}:
        raise click.UsageError("pass --expected (0/1 values) or --sd (real values)")
    if not different_rows and not (has & {"disagree", "sd"} or has >= {"expected", "correlation"}):
        raise click.UsageError(
            "pass --disagree, or --expected and --correlation (0/1 values), or --sd (real values)"
        )


def _largest_effect(assumed: dict[str, Any]) -> float:
    """Return the largest possible difference under the assumptions; 10 SD for real values."""
    if assumed["sd"] is not None:
        return 10.0 * float(assumed["sd"])
    if assumed["disagree"] is not None:
        return float(assumed["disagree"])
    return 1.0 - float(assumed["expected"] or 0.0)


def _smallest_effect(rows: int, needed: Callable[[float], SampleSize], largest: float) -> float:
    """Return the smallest effect detectable with a number of rows, by bisection."""
    if largest <= 0.0:
        raise InfeasibleError("no difference is possible under these assumptions")
    if needed(largest).n > rows:
        raise InfeasibleError(
            f"{rows} rows detect no difference under these assumptions; even a difference of "
            f"{largest:g} needs {needed(largest).n} rows"
        )
    low, high = 0.0, largest
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if needed(middle).n > rows else (low, middle)
    return high


@plan.command("no-worse")
@click.option(
    "--margin",
    required=True,
    type=Above,
    help="Non-inferiority margin: the largest acceptable loss.",
)
@_disagree
@click.option("--sd", type=Above, help="Standard deviation of the differences (for real values).")
@power_option
@confidence_option
@groups_options
@output_options
def no_worse(
    margin: float,
    disagree: float | None,
    sd: float | None,
    power: float,
    confidence: float,
    output: Output,
    **groups: Any,
) -> None:
    """Plan a test that a new system is no worse than the old one on the same rows.

    The power is the probability that, if both are equally good, the interval for new minus old
    excludes a loss as large as the margin.

    \b
    eval-toolkit plan no-worse --margin 0.02 --disagree 0.1
    """  # noqa: D301
    if (disagree is None) == (sd is None):
        raise click.UsageError("pass --disagree (0/1 values) or --sd (real values)")
    spread = sd if disagree is None else math.sqrt(disagree)
    size = n_for_power(margin, sd=spread, alpha=1.0 - confidence, power=power, **clusters(groups))
    words = f"to show that one system is at most {margin:g} worse than an equal one"
    answer(size, f"{words}, with power {percent(power)}", output)


@plan.command()
@click.argument("preds", nargs=-1, required=True, metavar="PREDS...")
@width_option
@click.option(
    "--metric",
    default="roc_auc",
    show_default=True,
    help=("Metric to plan for; any metric of `score`."),
)
@column_options(by=False)
@sampling_options(methods=False)
@output_options
def pilot(
    preds: Sequence[str],
    width: float,
    metric: str,
    wanted: Wanted,
    sampling: Sampling,
    output: Output,
) -> None:
    """Plan the number of similar rows needed for any metric, from existing predictions.

    \b
    eval-toolkit plan pilot preds.csv --metric pr_auc --width 0.05
    """  # noqa: D301
    if len(wanted.scores) > 1:
        raise click.UsageError("pass exactly one --score")
    spec = named(metric)
    found = read_predictions(preds, wanted)
    (scores,) = found.scores.values()
    units = found.n_groups
    ci = bootstrap_ci(
        found.y_true,
        scores,
        spec,
        groups=None if found.groups is None else found.groups.codes,
        n_resamples=sampling.n_resamples,
        confidence=sampling.confidence,
        seed=sampling.seed,
    )
    now = ci.ci_high - ci.ci_low
    # The half-width is z sd / sqrt(units), so the pilot determines the sd per unit.
    sd = now / (2.0 * critical_value(sampling.confidence)) * math.sqrt(units)
    size = n_for_width(width, sd=sd, confidence=sampling.confidence)
    unit = "rows" if found.groups is None else "groups of rows"
    known = Estimate(ci.point_estimate, ci.ci_low, ci.ci_high)
    words = f"like these {units:,}, which give {spec.name} {known}, to estimate it"
    answer(size, f"{words} {within(width, sampling.confidence)}", output, unit, found.rows.files)
