"""``eval-toolkit demo``: compare two classifiers on real data, with intervals."""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal.display import Count, Estimate, Number, Page, Status, Table
from eval_toolkit._internal.words import p_value
from eval_toolkit.calibration import reliability_curve
from eval_toolkit.cli._demo_study import N_COPIES, Study, Tour, study, tour
from eval_toolkit.cli._options import form_options
from eval_toolkit.cli._output import Output
from eval_toolkit.cli._suggestions import next_line
from eval_toolkit.inference import delong_roc_variance
from eval_toolkit.metric_specs import at_threshold as op
from eval_toolkit.report.cells import Cell, main_block
from eval_toolkit.report.comparison_page import answer, comparison_page

SPECS = (
    ms.pr_auc,
    ms.roc_auc,
    ms.recall_at_fpr(0.05),
    ms.brier,
    ms.log_loss,
    ms.ece(n_bins=10),
    op.op_f1(0.5),
    op.op_recall(0.5),
)


@click.command()
@click.option(
    "--seed",
    default=42,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Random seed for the split, the models and the intervals.",
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for both runs and a report.html.",
)
@form_options
def demo(seed: int, out: Path | None, output: Output) -> None:
    """Train two classifiers on scikit-learn data and compare them.

    The demo finds and drops training rows that leaked into the test set, stores both classifiers as
    runs, compares the runs without running a model again, and checks one of them against claims.
    """
    started = time.perf_counter()
    done = study(seed)
    if out is not None:
        page = _page(done, tour(done, SPECS, out, seed, report=True), out)
    else:
        with tempfile.TemporaryDirectory() as folder:
            page = _page(done, tour(done, SPECS, Path(folder), seed, report=False), None)
    took = f"{time.perf_counter() - started:.1f} s in total; reproducible with seed {seed}"
    output.emit(Page(page.title, page.payload, page.lead, page.tables, [*page.notes, took]))


def _page(done: Study, made: Tour, out: Path | None) -> Page:
    a, b = made.runs
    cells = {name: _cells(made, name) for name in made.runs}
    curves = {name: reliability_curve(done.labels, score) for name, score in done.scores.items()}
    test = delong_roc_variance(done.labels, done.scores[a], done.scores[b])
    found = made.leakage
    slipped = (
        f"{N_COPIES} training rows were added to the test rows on purpose: {found['code']} found "
    )
    lead = [
        answer(made.compared.cells, a, b),
        f"{len(done.labels)} test rows of the breast-cancer data, {int(done.labels.sum())} malignant",
        f"{slipped}{found['n_affected']}, {found['n_dropped']} were dropped",
    ]
    compared = comparison_page(made.compared, [], "")
    tables = [
        _scorecards(cells),
        replace(compared.tables[0], title=f"{b} - {a}, on the same rows"),
        *(_reliability(name, curve) for name, curve in curves.items()),
        Table(
            ["result", "claim"],
            [[Status("pass" if one.passed else "FAIL"), one.name] for one in made.gate.claims],
            f"gate: claims on the {b}",
        ),
    ]
    payload = {
        "scorecards": {name: _stored_cells(made, name) for name in made.runs},
        "differences": {cell.metric: cell.to_dict() for cell in made.compared.cells},
        "delong": test.to_dict(),
        "reliability": curves,
        "leakage": dict(found),
        "gate": made.gate.to_dict(),
    }
    return Page("Two classifiers", payload, lead, tables, _notes(test.p_value, made, out))


def _notes(delong_p: float | None, made: Tour, out: Path | None) -> list[str]:
    notes = [
        f"DeLong's test of the ROC-AUC difference, without resampling: p = {p_value(delong_p)}"
    ]
    if out is None:
        return [*notes, "pass --out FOLDER to keep the runs and write a report.html"]
    notes.append(f"runs: {', '.join(str(out / name) for name in made.runs)}")
    report = f"no report: {made.no_report}" if made.report is None else f"report: {made.report}"
    return [*notes, report, next_line("view", out)]


def _stored_cells(made: Tour, name: str) -> dict[str, Any]:
    """Return the cells stored in a block, without its other entries."""
    block = made.runs[name].cells.block("test", "model")
    return {spec.name: block[spec.name] for spec in SPECS}


def _cells(made: Tour, name: str) -> Mapping[str, Cell]:
    block = main_block(made.runs[name])
    return {} if block is None else block.cells


def _scorecards(cells: Mapping[str, Mapping[str, Cell]]) -> Table:
    """Return a table with one row per metric and one column per classifier."""
    rows = [
        [
            spec.name,
            *(card[spec.name].shown if spec.name in card else None for card in cells.values()),
        ]
        for spec in SPECS
    ]
    return Table(["metric", *cells], rows, "95 % intervals")


def _reliability(name: str, curve: Mapping[str, Any]) -> Table:
    """Return a table of predicted and observed shares by bin, with Wilson intervals."""
    columns = ("prob_pred", "prob_true", "ci_low", "ci_high", "n_per_bin")
    rows = [
        [
            Number(predicted, ".2f"),
            Estimate(seen, low, high, ".2f"),
            Count(n),
        ]
        for predicted, seen, low, high, n in zip(*(curve[key] for key in columns), strict=True)
    ]
    title = f"{name}: predicted and observed share of malignant"
    return Table(["predicted", "observed", "rows"], rows, title)
