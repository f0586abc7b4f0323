"""ROC, precision-recall and reliability curves."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import (
    FloatArray,
    bin_count,
    choice,
    probability_pair,
    sample_weights,
)
from eval_toolkit.metrics.binning import ReliabilityCurve, equal_mass_bins, equal_width_bins
from eval_toolkit.metrics.ranking import ranked, roc_points

__all__ = [
    "PrCurve",
    "ReliabilityCurve",
    "RocCurve",
    "calibration_curve",
    "pr_curve",
    "roc_curve",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RocCurve(Displayed):
    """Points of a ROC curve, from (0, 0) to (1, 1); can be unpacked as ``fpr, tpr, thresholds``."""

    fpr: FloatArray
    tpr: FloatArray
    thresholds: FloatArray
    """Strictly descending thresholds; the first is +inf (no row is predicted positive)."""

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.fpr, self.tpr, self.thresholds))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; the infinite first threshold becomes None."""
        return {
            "fpr": self.fpr.tolist(),
            "tpr": self.tpr.tolist(),
            "thresholds": [None, *self.thresholds[1:].tolist()],
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrCurve(Displayed):
    """Points of a precision-recall curve; can be unpacked as ``precision, recall, thresholds``."""

    precision: FloatArray
    recall: FloatArray
    thresholds: FloatArray
    """Strictly ascending thresholds; one element shorter than the rates, which end at (1, 0)."""

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.precision, self.recall, self.thresholds))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "precision": self.precision.tolist(),
            "recall": self.recall.tolist(),
            "thresholds": self.thresholds.tolist(),
        }


def roc_curve(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> RocCurve:
    """Return false and true positive rates at every distinct score.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    RocCurve
        Points from (0, 0) to (1, 1).

    Raises
    ------
    InvalidInputError
        If the data are invalid.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    Collinear points are kept, because they are attainable operating points. The result equals
    ``sklearn.metrics.roc_curve(drop_intermediate=False)``.

    Examples
    --------
    >>> fpr, tpr, thresholds = roc_curve([0, 1, 1], [0.2, 0.2, 0.7])
    >>> fpr.tolist(), tpr.tolist(), thresholds.tolist()
    ([0.0, 0.0, 1.0], [0.0, 0.5, 1.0], [inf, 0.7, 0.2])
    """
    groups = ranked(y_true, y_score, sample_weight, "roc_curve")
    fpr, tpr = roc_points(groups)
    return RocCurve(fpr, tpr, np.concatenate(([np.inf], groups.thresholds)))


def pr_curve(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> PrCurve:
    """Return precision and recall at every distinct score, in ascending order.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    PrCurve
        Points in order of descending recall, ending with precision 1 at recall 0.

    Raises
    ------
    InvalidInputError
        If the data are invalid.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    The result equals ``sklearn.metrics.precision_recall_curve``. The last point is a convention and
    does not correspond to a threshold.

    Examples
    --------
    >>> precision, recall, thresholds = pr_curve([0, 1, 1], [0.2, 0.2, 0.7])
    >>> recall.tolist(), thresholds.tolist()
    ([1.0, 0.5, 0.0], [0.2, 0.7])
    """
    groups = ranked(y_true, y_score, sample_weight, "pr_curve")
    precision = groups.tp / (groups.tp + groups.fp)
    recall = groups.tp / groups.n_positive
    return PrCurve(
        precision=np.append(precision[::-1], 1.0),
        recall=np.append(recall[::-1], 0.0),
        thresholds=groups.thresholds[::-1],
    )


def calibration_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_bins: int = 10,
    strategy: str = "quantile",
    sample_weight: ArrayLike | None = None,
) -> ReliabilityCurve:
    """Return mean prediction and observed frequency per bin of predicted probability.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of bins, at least 2.
    strategy : {"quantile", "uniform"}, default "quantile"
        Bins of equal mass along the sorted rows, or of equal width on [0, 1].
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    ReliabilityCurve
        Edges, means, frequencies and sizes of the nonempty bins.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], ``n_bins`` < 2, or there are fewer
        rows than equal-mass bins.

    Notes
    -----
    Equal-width bins are [k/n, (k+1)/n), with the last one closed. Equal-mass bins cut the sorted
    rows at ``⌊k n / n_bins⌋``; rows tied across a cut are split proportionally, so the input
    order does not matter.

    Examples
    --------
    >>> curve = calibration_curve([0, 0, 1, 1], [0.1, 0.3, 0.6, 0.8], n_bins=2)
    >>> curve.fraction_positive.tolist(), curve.n.tolist()
    ([0.0, 1.0], [2.0, 2.0])
    """
    choice(strategy, "strategy", ("quantile", "uniform"))
    n_bins = bin_count(n_bins)
    labels, scores = probability_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    bins = equal_mass_bins if strategy == "quantile" else equal_width_bins
    return bins(labels, scores, weights, n_bins)
