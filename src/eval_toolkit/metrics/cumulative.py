"""Cumulative counts by score, for rank metrics, curves and threshold selectors."""

from dataclasses import dataclass

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class ScoreGroups:
    """Cumulative (weighted) counts at every distinct score, in descending order.

    Rows with equal scores cannot be separated by a threshold, so they form a group. Counts are
    float64; unweighted counts are exact integers.
    """

    thresholds: FloatArray
    """Distinct scores, strictly descending."""
    tp: FloatArray
    """Positives with score >= threshold; the last entry is ``n_positive``."""
    fp: FloatArray
    """Negatives with score >= threshold; the last entry is ``n_negative``."""
    n_positive: float
    n_negative: float


def score_groups(
    labels: BoolArray, scores: FloatArray, weights: FloatArray | None = None
) -> ScoreGroups:
    """Sort rows by descending score, group ties, and accumulate the counts of both classes.

    The arrays must already be validated. Rows with zero weight are dropped, so their scores are not
    thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> groups = score_groups(np.array([True, False, True]), np.array([0.9, 0.4, 0.4]))
    >>> groups.thresholds.tolist(), groups.tp.tolist(), groups.fp.tolist()
    ([0.9, 0.4], [1.0, 2.0], [0.0, 1.0])
    """
    if weights is not None and not weights.all():
        kept = weights > 0.0
        labels, scores, weights = labels[kept], scores[kept], weights[kept]
    order = np.argsort(scores)[::-1]
    return sorted_score_groups(
        labels[order], scores[order], None if weights is None else weights[order]
    )


def sorted_score_groups(
    labels: BoolArray, scores: FloatArray, weights: FloatArray | None = None
) -> ScoreGroups:
    """Group ties and accumulate the counts of both classes, for rows sorted by descending score.

    Examples
    --------
    >>> import numpy as np
    >>> sorted_score_groups(np.array([True, False]), np.array([0.9, 0.4])).fp.tolist()
    [0.0, 1.0]
    """
    last_of_group = np.append(np.flatnonzero(scores[1:] != scores[:-1]), len(scores) - 1)
    if weights is None:
        tp = np.cumsum(labels, dtype=np.float64)[last_of_group]
        fp = last_of_group + 1.0 - tp
    else:
        tp = np.cumsum(np.where(labels, weights, 0.0))[last_of_group]
        fp = np.cumsum(np.where(labels, 0.0, weights))[last_of_group]
    return ScoreGroups(
        thresholds=scores[last_of_group],
        tp=tp,
        fp=fp,
        n_positive=float(tp[-1]),
        n_negative=float(fp[-1]),
    )
