"""``eval-toolkit demo``: two classifiers on real data, compared with honest intervals."""

import json
import time
from pathlib import Path
from typing import Any

import click

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit._validate import BoolArray
from eval_toolkit.calibration import reliability_curve
from eval_toolkit.cli._text import say
from eval_toolkit.cli._tour import study, tour
from eval_toolkit.inference import PairedBootstrapCI, delong_roc_variance, paired_bootstrap_diff
from eval_toolkit.metrics import pr_auc, roc_auc
from eval_toolkit.scorecards import Scorecard, scorecard

__all__ = ["demo"]

SPECS = (
    ms.pr_auc,
    ms.roc_auc,
    ms.recall_at_fpr(0.01),
    ms.brier,
    ms.log_loss,
    ms.ece(n_bins=10),
    op.op_f1(0.5),
    op.op_recall(0.5),
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option(
    "--seed",
    default=42,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Seed of split, models and intervals.",
)
@click.option(
    "--out",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep both as runs there, and go on: leakage, comparison, gate, report.html.",
)
def demo(as_json: bool, seed: int, out: Path | None) -> None:
    """Train two classifiers on scikit-learn's breast-cancer data and compare them.

    With --out it is a tour: what leaked is found and dropped, runs are stored, compared and held
    to claims, and a report is written.
    """
    started = time.perf_counter()
    done = study(seed)
    labels, scores = done.labels, done.scores
    cards = {
        name: scorecard(labels, score, metrics=SPECS, seed=seed) for name, score in scores.items()
    }
    a, b = scores
    differences = {
        metric.__name__: paired_bootstrap_diff(labels, scores[a], scores[b], metric, seed=seed)
        for metric in (pr_auc, roc_auc)
    }
    test = delong_roc_variance(labels, scores[a], scores[b])
    reliability = {name: reliability_curve(labels, score) for name, score in scores.items()}
    if as_json:
        payload = {
            "scorecards": {name: card.to_dict() for name, card in cards.items()},
            "differences": {name: diff.to_dict() for name, diff in differences.items()},
            "delong": test.to_dict(),
            "reliability": reliability,
        }
        click.echo(json.dumps(payload, allow_nan=False, indent=2))
        return
    _show(labels, cards, differences, test.p_value, reliability, (a, b))
    for line in tour(done, out, seed) if out is not None else ():
        say(line)
    click.echo(f"\n{time.perf_counter() - started:.1f} s in all; seed {seed} gives this again.")


def _show(
    labels: BoolArray,
    cards: dict[str, Scorecard],
    differences: dict[str, PairedBootstrapCI],
    delong_p: float | None,
    reliability: dict[str, dict[str, Any]],
    names: tuple[str, str],
) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    n_positive = int(labels.sum())
    console.print(
        f"Breast-cancer data, {len(labels)} test rows, {n_positive} of them malignant.\n"
        "Two classifiers, trained on the other half of the data:"
    )
    for name, card in cards.items():
        console.print(f"\n[bold]{name}[/bold]")
        console.print(card)
    table = Table("metric", "difference", "95 % interval", "p", "verdict")
    for metric, diff in differences.items():
        verdict = "could be chance" if diff.overlaps_zero else "a real difference"
        table.add_row(
            metric,
            f"{diff.delta:+.3f}",
            f"[{diff.ci_low:+.3f}, {diff.ci_high:+.3f}]".replace("[", r"\["),
            "" if diff.p_value is None else f"{diff.p_value:.3f}",
            verdict,
        )
    console.print(f"\n[bold]{names[1]} − {names[0]}[/bold], on the same rows")
    console.print(table)
    if delong_p is not None:
        console.print(f"DeLong's test of the same ROC-AUC difference: p = {delong_p:.3f}")
    for name, curve in reliability.items():
        console.print(f"\n[bold]{name}[/bold]: predicted (▒) and observed (█) share of malignant")
        _reliability_plot(console, curve)


def _reliability_plot(console: Any, curve: dict[str, Any], width: int = 40) -> None:
    """Draw one pair of bars per bin, with the Wilson interval of the observed share."""
    for predicted, observed, low, high, n in zip(
        curve["prob_pred"],
        curve["prob_true"],
        curve["ci_low"],
        curve["ci_high"],
        curve["n_per_bin"],
        strict=True,
    ):
        console.print(f"  {predicted:5.2f}  {'▒' * round(predicted * width)}", markup=False)
        interval = f"{low:.2f}–{high:.2f}"
        bar = "█" * round(observed * width)
        console.print(
            f"  {observed:5.2f}  {bar:<{width}}  {interval}, n = {n:g}",
            markup=False,
            highlight=False,
        )
