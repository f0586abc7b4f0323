"""``eval-toolkit robustness``: compare runs on perturbed prompts with the unperturbed run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from eval_toolkit._internal.display import CellLike, Estimate, Number, Page, Status, Table
from eval_toolkit._internal.words import nearest
from eval_toolkit.cli._options import Sampling, output_options, sampling_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli.compare import refuse_nothing
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.stored import stored_metrics
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run
from eval_toolkit.scorecards.parts import WHOLE
from eval_toolkit.tasks.perturbations import perturbation_name
from eval_toolkit.tasks.robustness_comparison import WORST, Robustness, RobustnessCell
from eval_toolkit.tasks.robustness_comparison import robustness as compared


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("perturbed", nargs=-1, required=True, metavar="PERTURBED... | NAME=PERTURBED...")
@click.option(
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Metric to compare; every stored metric by default. Repeatable.",
)
@click.option(
    "--adjust",
    type=click.Choice(["holm", "bh", "by", "hochberg", "bonferroni", "none"]),
    default="holm",
    show_default=True,
    help="Correction of each metric's p-values for the number of perturbations.",
)
@sampling_options(methods=False)
@output_options
def robustness(
    run: str,
    perturbed: Sequence[str],
    metrics: Sequence[str],
    adjust: Any,
    sampling: Sampling,
    output: Output,
) -> None:
    """Measure how perturbed prompts affect a model.

    RUN is the run on the unperturbed task; each PERTURBED is a run on the same items with perturbed
    prompts (`run --perturb`); they are compared item by item. "worst" uses each item's worst value
    over all runs: for 0/1 values, the share that is correct under every perturbation.

    \b
    eval-toolkit robustness runs/plain runs/typos runs/upper --metric exact_match
    """  # noqa: D301
    plain, others = Run.open(run), _opened(perturbed)
    _check_stored(plain, metrics)
    _refuse_not_plain(plain, others)
    found = compared(
        plain,
        others,
        metrics=_wanted([plain, *_each(others)], metrics),
        adjust=adjust,
        confidence=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
    )
    found = replace(found, notes=(*found.notes, *_other_differences(plain, _each(others))))
    inputs = [run, *(given.partition("=")[2] or given for given in perturbed)]
    output.emit(_page(found, sampling), inputs=inputs)
    refuse_nothing([cell.difference for cell in found.cells])


def _stored(run: Run) -> dict[str, None]:
    """Return the names of the metrics stored in a run."""
    return dict.fromkeys(run.cells.metrics)


def _check_stored(run: Run, metrics: Sequence[str]) -> None:
    """Raise if the run does not have a metric."""
    stored = _stored(run)
    for name in metrics:
        if name not in stored:
            raise InvalidInputError(
                f"{run.path}: there is no metric {name!r}; {nearest(name, list(stored))}"
            )


def _wanted(runs: Sequence[Run], metrics: Sequence[str]) -> list[MetricSpec | str] | None:
    """Return the metrics to compare, as names or specs."""
    specs = {spec.name: spec for spec in stored_metrics(runs)}
    if not metrics and not specs:
        return None
    names = metrics or list(dict.fromkeys(name for run in runs for name in _stored(run)))
    return [specs.get(name, name) for name in names]


def _opened(given: Sequence[str]) -> dict[str, Run] | list[Run]:
    """Return the runs, or a mapping from names to runs."""
    if not any("=" in text for text in given):
        return [Run.open(path) for path in given]
    named: dict[str, Run] = {}
    for text in given:
        name, _, path = text.partition("=")
        if not name or not path or name in named:
            raise click.UsageError(
                f"{text!r}: give a different name to every run (NAME=RUN), or to none"
            )
        named[name] = Run.open(path)
    return named


def _each(runs: dict[str, Run] | list[Run]) -> list[Run]:
    return list(runs.values()) if isinstance(runs, dict) else runs


def _config(run: Run) -> Mapping[str, Any]:
    return run.manifest.get("config") or {}


def _perturbed_by(run: Run) -> list[str]:
    told = (_config(run).get("task") or {}).get("perturbations") or ()
    return [perturbation_name(one) for one in told]


def _refuse_not_plain(plain: Run, others: dict[str, Run] | list[Run]) -> None:
    """Raise if the reference run is perturbed, or is among the perturbed runs."""
    if by := _perturbed_by(plain):
        raise InvalidInputError(
            f"{plain.path}: was run with {' and '.join(by)}; RUN must be the run with unperturbed "
            "questions"
        )
    for other in _each(others):
        if other.path.resolve() == plain.path.resolve():
            raise InvalidInputError(f"{other.path}: is the unperturbed run; pass a perturbed run")


def _other_differences(plain: Run, others: Sequence[Run]) -> list[str]:
    """Return notes on runs that differ from the unperturbed run in other settings."""
    notes = []
    for other in others:
        differ = [what for what, read in _SAME.items() if read(other) != read(plain)]
        if differ:
            notes.append(
                f"{other.path} has a different {' and '.join(differ)} from the unperturbed "
                "run; differences are not only due to the perturbation"
            )
        elif _config(other).get("task") and not _perturbed_by(other):
            notes.append(f"{other.path} is not marked as perturbed")
    return notes


_SAME: dict[str, Callable[[Run], Any]] = {
    "model": lambda run: _config(run).get("model"),
    "number of examples": lambda run: (_config(run).get("task") or {}).get("num_fewshot"),
    "decoding": lambda run: _config(run).get("decoding"),
    "format": lambda run: _config(run).get("formatter"),
}
"""Settings that perturbed and unperturbed runs must share."""


def _page(found: Robustness, sampling: Sampling) -> Page:
    cells = [cell for cell in found.cells if cell.perturbation != WORST]
    worst = [cell for cell in found.cells if cell.perturbation == WORST]
    by_slice = len({_place(cell) for cell in cells}) > 1
    p = "p" if found.adjust == "none" else f"p ({found.adjust})"
    header = ["perturbation", *(["slice"] if by_slice else []), "metric", "items", "plain"]
    tables = [
        Table(
            [*header, "perturbed", "difference", "interval", p, "perturbed system"],
            [
                [
                    *_row(cell, by_slice),
                    Number(cell.difference.p_adjusted, "p"),
                    Status(cell.difference.verdict),
                ]
                for cell in cells
            ],
        )
    ]
    if worst:
        rows = [_row(cell, by_slice)[1:] for cell in worst]
        title = "minimum over all runs, per item"
        tables.append(Table([*header[1:], "worst", "difference", "interval"], rows, title))
    reasons = {
        f"{cell.perturbation}, {cell.difference.metric}: {cell.difference.reason}": None
        for cell in found.cells
        if cell.difference.reason
    }
    notes = (
        ["the worst value is never better than the unperturbed run's, so it is not tested"]
        if worst
        else []
    )
    made = sampling.made(cell.difference.n_resamples for cell in found.cells)
    lead = [
        f"unperturbed run {found.run} against {', '.join(found.perturbations)}",
        f"perturbed − unperturbed on the same items, {made}",
    ]
    return Page("robustness", found.to_dict(), lead, tables, [*found.notes, *notes, *reasons])


def _place(cell: RobustnessCell) -> str:
    found = cell.difference
    return found.slice if found.part == WHOLE else found.part


def _row(cell: RobustnessCell, by_slice: bool) -> list[CellLike]:
    found = cell.difference
    return [
        cell.perturbation,
        *([_place(cell)] if by_slice else []),
        found.metric,
        found.n_units,
        Number(found.value_a),
        Number(found.value_b),
        *Estimate(found.delta, found.ci_low, found.ci_high, "+").split(),
    ]
