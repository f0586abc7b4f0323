"""``eval-toolkit plan labels``, ``attempts`` and ``variance``: plans for language models."""

import math
from collections.abc import Sequence
from typing import Any

import click

from eval_toolkit._internal.display import Number, Page, Rows, Table
from eval_toolkit._internal.display import Share as ShareCell
from eval_toolkit.analysis import variance_study
from eval_toolkit.cli._human_labels import LABEL_RULES, Judged, judged_options, label_plans
from eval_toolkit.cli._messages import in_options
from eval_toolkit.cli._options import output_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._planning import (
    Above,
    Share,
    assumed_table,
    assumptions,
    clusters,
    confidence_option,
    groups_options,
    percent,
    power_option,
    width_option,
)
from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference import AttemptsDesign, VarianceComponents
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records

_TRIED = (1, 2, 4, 8)
_DESIGNS = {
    "paired": "between two systems on the same items",
    "independent": "between two systems on different items, for each of them",
    "one-sample": "between one system and a fixed value",
}
_RUN = "run"


@click.command()
@judged_options
@width_option
@click.option(
    "--method",
    "methods",
    multiple=True,
    type=click.Choice(LABEL_RULES),
    help="Estimation method to plan for; all by default. Repeatable.",
)
@confidence_option
@output_options
def labels(judged: Judged, width: float, methods: Any, confidence: float, output: Output) -> None:
    """Plan how many human labels to collect, given a judge's verdicts and some labels.

    FILE or RUN is given as for `judge study`, with at least 20 labels on a random sample.

    \b
    eval-toolkit plan labels verdicts.csv --judge refusal --human label --width 0.1
    """  # noqa: D301
    found = label_plans(judged, width, confidence, methods or LABEL_RULES)
    if not found.plans:
        name, reason = next(iter(found.left_out.items()))
        raise InfeasibleError(f"--width {width:g}, {name}: {reason}")
    name, plan = next(iter(found.plans.items()))
    lead = [f"{plan.n_more:,} more labels, {plan.n_labels:,} in total, by {name}."]
    payload = {"question": "labels", **found.to_dict()}
    notes = [f"{percent(confidence)} intervals", *judged.notes, *found.notes()]
    page = Page("Plan", payload, lead, [found.table()], [in_options(note) for note in notes])
    output.emit(page, inputs=judged.files)


@click.command()
@click.option("--effect", type=float, help="Difference to detect, e.g. 0.03.")
@click.option(
    "--items",
    type=click.IntRange(2),
    help="Number of available items; if given, the smallest detectable difference is reported.",
)
@click.option(
    "--attempts",
    "tries",
    multiple=True,
    type=click.IntRange(1),
    metavar="K",
    help="Number of attempts per item. Repeatable. [default: 1, 2, 4, 8]",
)
@click.option(
    "--item-sd",
    required=True,
    type=click.FloatRange(0),
    help="Standard deviation of the items' true means, or of their true differences.",
)
@click.option(
    "--within-sd",
    type=click.FloatRange(0),
    help="Standard deviation between attempts at the same item (real values).",
)
@click.option("--expected", type=Share, help="Expected rate of the first system (0/1 values).")
@click.option(
    "--correlation",
    type=click.FloatRange(-1, 1),
    help="Correlation of the two systems' item means; needed with --expected.",
)
@click.option(
    "--different-items", is_flag=True, help="Evaluate the two systems on different items."
)
@click.option("--one-system", is_flag=True, help="Compare one system with a fixed value.")
@click.option(
    "--judge-sd",
    type=Above,
    help="Standard deviation of the judge's error per attempt (for real values).",
)
@click.option(
    "--sensitivity",
    type=Share,
    help="Sensitivity of the judge: share of correct answers that it accepts (for 0/1 values).",
)
@click.option(
    "--specificity",
    type=Share,
    help="Specificity of the judge: share of wrong answers that it rejects (for 0/1 values).",
)
@power_option
@confidence_option
@groups_options
@output_options
def attempts(
    effect: float | None,
    items: int | None,
    tries: Sequence[int],
    different_items: bool,
    one_system: bool,
    output: Output,
    **assumed: Any,
) -> None:
    """Plan the number of items and of attempts per item.

    Also report how many items can be saved by more attempts, and how many more are needed because
    of judge errors. `plan variance` estimates --item-sd and --within-sd from a run with several
    attempts.

    \b
    eval-toolkit plan attempts --effect 0.03 --item-sd 0.15 --within-sd 0.35
    eval-toolkit plan attempts --effect 0.03 --item-sd 0.3 --expected 0.7 --correlation 0.9 \\
      --sensitivity 0.9 --specificity 0.9
    eval-toolkit plan attempts --items 500 --item-sd 0.15 --within-sd 0.35
    """  # noqa: D301
    if (effect is None) == (items is None):
        raise click.UsageError("pass --effect (items needed) or --items (smallest effect)")
    if different_items and one_system:
        raise click.UsageError("pass either --different-items or --one-system, not both")
    design = "independent" if different_items else "one-sample" if one_system else "paired"
    level = {"alpha": 1.0 - assumed["confidence"], "power": assumed["power"]}
    rows = []
    for k in sorted(set(tries or _TRIED)):
        planned = _design(design, k, assumed)
        if effect is not None:
            size = planned.n_for_power(effect, **level)
            n_answers = size.n * k * (1 if one_system else 2)
            rows.append({"attempts": k, **size.to_dict(), "n_answers": n_answers})
        else:
            rows.append({"attempts": k, "effect": planned.mde(items or 0, **level)})
    payload = {"question": "attempts", "assumed": assumptions(), "designs": rows}
    output.emit(_attempts_page(payload, rows, effect, items, f"{_DESIGNS[design]}", assumed))


def _design(design: Any, k: int, assumed: dict[str, Any]) -> AttemptsDesign:
    names = ("item_sd", "within_sd", "correlation", "judge_sd", "sensitivity", "specificity")
    given = {name: assumed[name] for name in names if assumed[name] is not None}
    return AttemptsDesign(
        design=design, attempts=k, proportion=assumed["expected"], **given, **clusters(assumed)
    )


def _attempts_page(
    payload: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    effect: float | None,
    items: int | None,
    where: str,
    assumed: dict[str, Any],
) -> Page:
    first, chance = rows[0], f"with power {percent(assumed['power'])}"
    each = f"{first['attempts']} attempts each" if first["attempts"] > 1 else "one attempt each"
    if effect is None:
        lead = f"{items:,} items, {each}, detect a difference of {first['effect']:.3g} {where}"
        header = ["attempts per item", "smallest difference"]
        cells: Rows = [[row["attempts"], Number(row["effect"], ".4f")] for row in rows]
    else:
        lead = f"{first['n']:,} items, {each}, to detect a difference of {effect:g} {where}"
        header = ["attempts per item", "items", "answers in total"]
        cells = [[row["attempts"], row["n"], row["n_answers"]] for row in rows]
    tables = [Table(header, cells), assumed_table(payload["assumed"])]
    return Page("Plan", payload, [f"{lead}, {chance}."], tables)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN... | NAME=RUN...")
@click.option("--metric", required=True, metavar="COLUMN", help="Column to analyse.")
@click.option(
    "--by",
    "factors",
    multiple=True,
    metavar="SLICE",
    help="Slice of the records to treat as a further factor that varies on the same items. Repeatable.",
)
@click.option(
    "--cost",
    "costs",
    multiple=True,
    metavar="WHAT=X",
    help="Additional cost of one more item, attempt or factor level; each request costs 1.",
)
@output_options
def variance(
    runs: Sequence[str],
    metric: str,
    factors: Sequence[str],
    costs: Sequence[str],
    output: Output,
) -> None:
    """Plan whether to add items or attempts.

    Report the sources of variance in a run. If several runs on the same items are given, e.g. with
    different prompts or seeds, they are the levels of a factor "run".

    \b
    eval-toolkit plan variance runs/mine --metric exact_match
    eval-toolkit plan variance short=runs/a long=runs/b --metric exact_match
    """  # noqa: D301
    records = _together(runs, metric)
    varied = [*([_RUN] if len(runs) > 1 else []), *factors]
    found = variance_study(records, metric, factors=varied)
    buys = found.next_buys(costs=_costs(costs))
    payload = {"metric": metric, **found.to_dict(), "next_buys": [buy.to_dict() for buy in buys]}
    names = [run.partition("=")[2] or run for run in runs]
    output.emit(_variance_page(found, buys, payload), inputs=names)


def _together(runs: Sequence[str], metric: str) -> Records:
    """Return the records of all runs, with the run name of each row as a slice column."""
    named = [(run.partition("=")[0], run.partition("=")[2] or run) for run in runs]
    parts = []
    for _, path in named:
        run = Run.open(path)
        if len(run.subjects) != 1:
            raise InvalidInputError(
                f"{path}: has records for {len(run.subjects)} pairs of slice and scorer; pass a "
                "run with exactly one"
            )
        parts.append(run.records(*run.subjects[0]))
        if metric not in parts[-1].columns:
            have = ", ".join(map(repr, parts[-1].columns))
            raise InvalidInputError(
                f"{path}: there is no column {metric!r} (--metric); it has {have}"
            )
    if len(parts) == 1:
        return parts[0]
    if len({name for name, _ in named}) < len(named):
        raise click.UsageError("run names must be unique: NAME=RUN")
    lines = [(part, row) for part in parts for row in range(len(part))]
    ok = [part.status[metric][row] == "ok" for part, row in lines]
    values = [float(part.columns[metric][row]) for part, row in lines]
    return Records.from_columns(
        {metric: [value if fine else None for value, fine in zip(values, ok, strict=True)]},
        unit_id=[str(part.unit_id[row]) for part, row in lines],
        slices={
            _RUN: [
                name for (name, _), part in zip(named, parts, strict=True) for _ in range(len(part))
            ]
        },
    )


def _costs(given: Sequence[str]) -> dict[str, float]:
    costs = {}
    for text in given:
        name, _, number = text.partition("=")
        try:
            costs[name] = float(number)
        except ValueError:
            raise InvalidInputError(f"--cost {text} must be WHAT=NUMBER, e.g. item=0.5") from None
        if not (math.isfinite(costs[name]) and costs[name] >= 0.0):
            raise InvalidInputError(f"--cost {text}: a cost must be a finite number, 0 or more")
    return costs


def _variance_page(found: VarianceComponents, buys: Any, payload: dict[str, Any]) -> Page:
    counts = ", ".join(
        f"{count:,} {name}{'s' * (count > 1)}" for name, count in found.levels.items()
    )
    lead = [
        f"{payload['metric']}: mean {found.mean:.4f}, standard error {found.se():.4f}, from {counts}",
        f"largest reduction per unit cost: one more {buys[0].what}",
    ]
    shares = found.shares
    parts: Rows = [
        [name, Number(value, ".4f"), Number(math.sqrt(value)), ShareCell(shares[name], ".0f%")]
        for name, value in found.components.items()
    ]
    bought: Rows = [
        [
            f"one more {buy.what}",
            Number(buy.se, ".4f"),
            Number(buy.saved, ".2g"),
            Number(buy.cost, "g"),
            Number(buy.per_cost, ".2g"),
        ]
        for buy in buys
    ]
    tables = [
        Table(
            ["source", "variance", "SD", "share"], parts, "sources of variance of a single value"
        ),
        Table(["", "new SE", "saved", "cost", "reduction per unit cost"], bought, "additions"),
    ]
    spread = {name: math.sqrt(found.components[name]) for name in ("item", "attempt")}
    notes = [
        *([found.reason] if found.reason else []),
        (
            f"for `plan attempts`: --item-sd {spread['item']:.3g} --within-sd "
            f"{spread['attempt']:.3g} --correlation R, where R is the correlation of the "
            "two systems' item means; without --correlation, --item-sd is the standard "
            "deviation of their differences"
        ),
    ]
    return Page("Plan", payload, lead, tables, notes)
