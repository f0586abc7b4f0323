"""Benchmarks of a six-metric scorecard, and of metrics at a fixed threshold."""

from functools import partial

import numpy as np

from benchmarks._case import Bar, Case, Measurement, require_agreement
from benchmarks._data import Labels, Scores, binormal
from benchmarks._timing import Effort, race
from benchmarks.ranks import N_RESAMPLES, sklearn_loop
from eval_toolkit import bootstrap_ci, metric_specs, op_metric_specs, scorecard

N_BINS = 15
MAX_FPR = 0.01

SIX = (
    metric_specs.pr_auc,
    metric_specs.roc_auc,
    metric_specs.recall_at_fpr(MAX_FPR),
    metric_specs.brier,
    metric_specs.log_loss,
    metric_specs.ece(n_bins=N_BINS),
)


def plain_ece(y: Labels, scores: Scores) -> float:
    """Return the equal-width calibration error, in three lines of numpy."""
    bins = np.minimum((scores * N_BINS).astype(np.int64), N_BINS - 1)
    gaps = np.bincount(bins, scores - y, N_BINS)
    return float(np.abs(gaps).sum() / len(y))


def curve_recall(y: Labels, scores: Scores) -> float:
    """Return the recall at a false-positive rate of at most 1 %, from scikit-learn's curve."""
    from sklearn.metrics import roc_curve

    fpr, tpr, _ = roc_curve(y, scores)
    return float(tpr[np.searchsorted(fpr, MAX_FPR, side="right") - 1])


def _six_metrics(effort: Effort) -> Measurement:
    from sklearn.metrics import (
        average_precision_score,
        brier_score_loss,
        log_loss,
        roc_auc_score,
    )

    y, scores = binormal(50_000)
    peer_metrics = (
        average_precision_score,
        roc_auc_score,
        curve_recall,
        brier_score_loss,
        log_loss,
        plain_ece,
    )
    peer_resamples = 2

    # Percentiles on both sides: replicates are all the loop makes.
    card_by = partial(scorecard, y, scores, metrics=SIX, n_resamples=N_RESAMPLES)
    bca, ours = (partial(card_by, method=method) for method in ("BCa", "percentile"))
    card = ours()
    require_agreement(
        [card[spec.name].value for spec in SIX],
        [metric(y, scores) for metric in peer_metrics],
        1e-9,
    )
    times = race(
        {
            "ours": ours,
            "peer": partial(sklearn_loop, y, scores, peer_metrics, peer_resamples),
            "bca": bca,
            "default": card_by,
        },
        rounds=effort.rounds,
    )
    peer = times["peer"].scaled(measured=peer_resamples, target=N_RESAMPLES)
    ratio = peer.best_ns / times["bca"].best_ns
    default = peer.best_ns / times["default"].best_ns
    note = f"percentiles on both sides; with BCa {ratio:,.0f}×, by default {default:,.0f}×"
    return Measurement(times["ours"], peer, note=note)


def _at_threshold(effort: Effort) -> Measurement:
    y, scores = binormal(1_000_000)
    factories = (
        op_metric_specs.op_f1,
        op_metric_specs.op_precision,
        op_metric_specs.op_recall,
        op_metric_specs.op_accuracy,
        op_metric_specs.op_balanced_accuracy,
        op_metric_specs.op_mcc,
    )
    six = [factory(0.5) for factory in factories]
    times = race(
        {
            "f1": lambda: bootstrap_ci(y, scores, six[0], n_resamples=2000, method="BCa"),
            "six": lambda: scorecard(y, scores, metrics=six, n_resamples=2000, method="BCa"),
        },
        rounds=effort.rounds,
    )
    return Measurement(
        times["f1"], note=f"a scorecard of six such metrics: {times['six'].seconds * 1e3:.1f} ms"
    )


CASES = (
    Case(
        "scorecard_6",
        "six intervals (AP, ROC, recall at 1 % FPR, Brier, log-loss, ECE), n = 50 000",
        Bar("speed-up", 1000),
        _six_metrics,
        "loop over scikit-learn's functions and a numpy ECE",
    ),
    Case(
        "threshold_1m",
        "F1 interval at a fixed threshold, n = 1 000 000, R = 2 000",
        Bar("seconds", 0.010),
        _at_threshold,
    ),
)
