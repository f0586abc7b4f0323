"""Helpers for the selectors: rates at each distinct score, and labels of targets."""

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.metrics import ThresholdResult
from eval_toolkit.metrics.cumulative import ScoreGroups
from eval_toolkit.metrics.ranking import ranked


def thresholds_of(y_true: ArrayLike, y_score: ArrayLike, criterion: str) -> ScoreGroups:
    """Return cumulative counts at every distinct score, highest first; requires both classes.

    Collinear points of the ROC curve are kept: with tied scores, the best feasible threshold may be
    one of them.
    """
    return ranked(y_true, y_score, None, f"threshold selection by {criterion}")


def precisions(groups: ScoreGroups) -> FloatArray:
    """Return the precision at each threshold."""
    return groups.tp / (groups.tp + groups.fp)


def f1_scores(groups: ScoreGroups) -> FloatArray:
    """Return F1 at each threshold, computed so that exact ties compare equal."""
    return 2.0 * groups.tp / (groups.n_positive + groups.tp + groups.fp)


def most_recall(groups: ScoreGroups, allowed: IntArray) -> int:
    """Return the feasible threshold with the largest recall; the smallest FPR breaks ties.

    False positives never decrease as the threshold falls, so the highest threshold with the largest
    recall has the fewest.
    """
    return int(allowed[np.argmax(groups.tp[allowed])])


def result_at(groups: ScoreGroups, index: int, criterion: str) -> ThresholdResult:
    """Return the threshold at ``index`` with its metrics."""
    return ThresholdResult(
        threshold=float(groups.thresholds[index]),
        f1=float(f1_scores(groups)[index]),
        precision=float(precisions(groups)[index]),
        recall=float(groups.tp[index] / groups.n_positive),
        criterion=criterion,
    )


def number_label(value: float) -> str:
    """Format a number exactly, with at least two decimals.

    Examples
    --------
    >>> number_label(0.9), number_label(0.001), number_label(1)
    ('0.90', '0.001', '1.00')
    """
    return np.format_float_positional(float(value), min_digits=2)
