"""``eval-toolkit robustness``: runs of perturbed questions against the run of the plain ones."""

from collections.abc import Sequence
from typing import Any

import click

from eval_toolkit.cli._names import nearest
from eval_toolkit.cli._options import Sampling, output_options, sampling_options
from eval_toolkit.cli._show import Output, Page, Table
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.runs import Run
from eval_toolkit.tasks.perturbed_runs import WORST, Robustness, RobustnessCell
from eval_toolkit.tasks.perturbed_runs import robustness as compared

__all__ = ["robustness"]


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("perturbed", nargs=-1, required=True, metavar="PERTURBED... | NAME=PERTURBED...")
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Only these; every stored one by default. Repeatable.",
)
@click.option(
    "--adjust",
    type=click.Choice(["holm", "bh", "by", "hochberg", "bonferroni", "none"]),
    default="holm",
    show_default=True,
    help="Correction of a metric's p-values for the number of perturbations.",
)
@sampling_options(methods=False)
@output_options("json", "md", "html")
def robustness(
    run: str,
    perturbed: Sequence[str],
    metrics: Sequence[str],
    adjust: Any,
    sampling: Sampling,
    output: Output,
) -> None:
    """Say what typos, case and other words cost: perturbed runs against the plain one.

    RUN is of the task as it is, each PERTURBED of the same items put differently (`run
    --perturb`); they are compared item by item. "worst" counts each item with its worst value
    over all runs: for right or wrong, the share that is right however it is asked.

    \b
    eval-toolkit robustness runs/plain runs/typos runs/upper --metric exact_match
    """  # noqa: D301
    plain = Run.open(run)
    _check_stored(plain, metrics)
    found = compared(
        plain,
        _named(perturbed),
        metrics=list(metrics) or None,
        adjust=adjust,
        confidence=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
    )
    inputs = [run, *(given.partition("=")[2] or given for given in perturbed)]
    output.emit(_page(found, sampling), inputs=inputs)


def _check_stored(run: Run, metrics: Sequence[str]) -> None:
    """Raise for a metric that the run has not."""
    stored = {
        name: None
        for slice_name, scorer in run.subjects
        for name in run.results["by_slice"][slice_name]["by_scorer"][scorer]
    }
    for name in metrics:
        if name not in stored:
            raise InvalidInputError(
                f"{run.path}: there is no metric {name!r}; {nearest(name, list(stored))}"
            )


def _named(given: Sequence[str]) -> dict[str, str] | list[str]:
    """Return a list of runs, or where they have names, the run of each."""
    if not any("=" in text for text in given):
        return list(given)
    named: dict[str, str] = {}
    for text in given:
        name, _, path = text.partition("=")
        if not name or not path or name in named:
            raise click.UsageError(f"{text!r}: name every run (NAME=RUN) differently, or none")
        named[name] = path
    return named


def _page(found: Robustness, sampling: Sampling) -> Page:
    cells = [cell for cell in found.cells if cell.perturbation != WORST]
    worst = [cell for cell in found.cells if cell.perturbation == WORST]
    by_slice = len({cell.difference.slice for cell in cells}) > 1
    p = "p" if found.adjust == "none" else f"p ({found.adjust})"
    header = ["perturbation", *(["slice"] if by_slice else []), "metric", "items", "plain"]
    tables = [
        Table(
            [*header, "perturbed", "difference", "interval", p, "perturbed is"],
            [[*_row(cell, by_slice), _p_value(cell), cell.difference.verdict] for cell in cells],
        )
    ]
    if worst:
        rows = [_row(cell, by_slice)[1:] for cell in worst]
        title = "the worst of all runs, item by item"
        tables.append(Table([*header[1:], "worst", "difference", "interval"], rows, title))
    reasons = {
        f"{cell.perturbation}, {cell.difference.metric}: {cell.difference.reason}": None
        for cell in found.cells
        if cell.difference.reason
    }
    notes = ["the worst is never better than the plain run; it is no test"] if worst else []
    lead = [
        f"plain run {found.run} against {', '.join(found.perturbations)}",
        f"perturbed − plain on the same items, {sampling}",
    ]
    return Page("robustness", found.to_dict(), lead, tables, [*notes, *reasons])


def _row(cell: RobustnessCell, by_slice: bool) -> list[str]:
    found = cell.difference
    low, high = found.ci_low, found.ci_high
    return [
        cell.perturbation,
        *([found.slice] if by_slice else []),
        found.metric,
        str(found.n_units),
        _number(found.value_a),
        _number(found.value_b),
        _number(found.delta, "+"),
        "" if low is None else f"[{_number(low, '+')}, {_number(high, '+')}]",
    ]


def _number(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.3f}"


def _p_value(cell: RobustnessCell) -> str:
    """Return a p-value; one that rounds to nothing is not nothing."""
    value = cell.difference.p_adjusted
    return "<0.001" if value is not None and value < 0.0005 else _number(value)
