"""Warnings about valid but suspicious labels and scores."""

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.statistics import RocAuc

_FAR_BELOW_CHANCE = 0.4
"""ROC-AUC below which labels look swapped; weak scorers may reach 0.45 by chance."""
_LEAST_PERCENT = 10.0
"""Smallest maximum score that suggests percentages rather than odds or star ratings."""


def sanity_notes(y_true: ArrayLike, y_score: ArrayLike) -> list[str]:
    """Return warnings about valid but suspicious labels and scores.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.

    Returns
    -------
    list of str
        One sentence for each problem found: a ROC-AUC with an interval far below 0.5 (swapped
        labels), 0/1 decisions instead of scores, or scores that look like percentages.

    Raises
    ------
    InvalidInputError
        If the arrays are invalid.

    Examples
    --------
    >>> sanity_notes([0, 1] * 20, [0.2, 0.7] * 20)
    []
    >>> print(sanity_notes([0, 1] * 20, [97.5, 3.99] * 20)[-1])
    the scores range from 3.99 to 97.5, like percentages: divide them by 100 if they are probabilities
    """
    labels, scores = validation.binary_pair(y_true, y_score)
    found = (_swapped(labels, scores), _not_scores(scores))
    return [note for note in found if note]


def _swapped(labels: BoolArray, scores: FloatArray) -> str:
    if labels.all() or not labels.any():
        return ""
    value = RocAuc().point(Columns.scored(labels, scores))
    if value >= _FAR_BELOW_CHANCE:
        return ""
    from eval_toolkit.inference import bootstrap_ci

    try:
        ci = bootstrap_ci(labels, scores, metrics.roc_auc)
    except (UndefinedMetricError, InvalidInputError):  # too few rows to say
        return ""
    if ci.ci_high >= _FAR_BELOW_CHANCE:
        return ""
    return (
        f"ROC-AUC is {value:.3f} [{ci.ci_low:.3f}, {ci.ci_high:.3f}], far below 0.5: the labels "
        "look swapped, or low scores mean positive; pass the other label as positive, or "
        "use 1 - score"
    )


def _not_scores(scores: FloatArray) -> str:
    if set(np.unique(scores)) == {0.0, 1.0}:
        return (
            "all scores are 0 or 1, like decisions: ROC-AUC, PR-AUC and calibration need "
            "scores before the threshold; for decisions, report f1@0.5, precision@0.5 and recall@0.5"
        )
    low, high = float(scores.min()), float(scores.max())
    if low < 0.0 or not _LEAST_PERCENT < high <= 100.0:
        return ""
    return (
        f"the scores range from {low:g} to {high:g}, like percentages: divide them by 100 if they are "
        "probabilities"
    )
