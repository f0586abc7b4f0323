"""Rank metrics: ROC-AUC, average precision and recall at a bounded false-positive rate."""

import math
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import (
    FloatArray,
    binary_pair,
    both_classes,
    number,
    sample_weights,
)
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.metrics.cumulative import ScoreGroups, score_groups
from eval_toolkit.metrics.definedness import (
    EmptyStrategy,
    SkippedMetric,
    check_strategy,
    placeholder,
)


def ranked(
    y_true: ArrayLike, y_score: ArrayLike, sample_weight: ArrayLike | None, metric: str
) -> ScoreGroups:
    """Validate the input, require both classes, and sort by score."""
    labels, scores = binary_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    both_classes(labels, metric, weights)
    return score_groups(labels, scores, weights)


def roc_points(groups: ScoreGroups) -> tuple[FloatArray, FloatArray]:
    """Return false and true positive rates at every distinct threshold, starting at (0, 0)."""
    fpr = np.concatenate(([0.0], groups.fp / groups.n_negative))
    tpr = np.concatenate(([0.0], groups.tp / groups.n_positive))
    return fpr, tpr


@overload
def pr_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["raise"] = "raise",
) -> float: ...


@overload
def pr_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["return_none"],
) -> float | None: ...


@overload
def pr_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["skipped_metric"],
) -> float | SkippedMetric: ...


def pr_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: EmptyStrategy = "raise",
) -> float | SkippedMetric | None:
    """Return average precision, the area under the precision-recall step function.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores on any scale; higher means more positive.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    empty_strategy : {"raise", "return_none", "skipped_metric"}, default "raise"
        Behaviour for empty data or a single class: raise, return None, or return a dict with
        ``value`` None, ``status`` "skipped", ``reason`` and ``details``.

    Returns
    -------
    float
        A value in (0, 1]; chance level is the prevalence.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, or labels are not 0/1.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    ``Σ_k (R_k − R_{k−1}) P_k`` over the distinct scores from the highest down, with precision P and
    recall R at ``score >= threshold``; tied rows are added together, so the row order does not
    matter. Agrees with ``sklearn.metrics.average_precision_score`` to 1e-12, except that a single
    class raises instead of returning 0.0 or 1.0.

    Examples
    --------
    >>> round(pr_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    0.8333
    """
    check_strategy(empty_strategy)
    try:
        return average_precision_of(ranked(y_true, y_score, sample_weight, "pr_auc"))
    except EvalToolkitError as error:
        return placeholder(empty_strategy, error, y_true, y_score, "pr_auc")


@overload
def roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    max_fpr: float | None = None,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["raise"] = "raise",
) -> float: ...


@overload
def roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    max_fpr: float | None = None,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["return_none"],
) -> float | None: ...


@overload
def roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    max_fpr: float | None = None,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["skipped_metric"],
) -> float | SkippedMetric: ...


def roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    max_fpr: float | None = None,
    sample_weight: ArrayLike | None = None,
    empty_strategy: EmptyStrategy = "raise",
) -> float | SkippedMetric | None:
    """Return the area under the ROC curve: P(positive score > negative score), ties counted half.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores on any scale; higher means more positive.
    max_fpr : float, optional
        Maximum false-positive rate, in (0, 1], of a partial area, which is standardised to 0.5 for
        chance and 1 for a perfect ranking.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    empty_strategy : {"raise", "return_none", "skipped_metric"}, default "raise"
        Behaviour for empty data or a single class; see `pr_auc`.

    Returns
    -------
    float
        A value in [0, 1]; chance level is 0.5.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, labels are not 0/1, or ``max_fpr`` is
        not in (0, 1].
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    Computed as the Mann-Whitney statistic [1]_ in O(n log n). With ``max_fpr`` = m and the area A
    of the linearly interpolated curve over [0, m], the value [2]_ is
    ``(1 + (A − m²/2) / (m − m²/2)) / 2``. Agrees with ``sklearn.metrics.roc_auc_score`` to 1e-12,
    except that a single class raises an error instead of returning NaN.

    References
    ----------
    .. [1] Hanley & McNeil (1982), Radiology 143(1):29-36.
    .. [2] McClish (1989), Medical Decision Making 9(3):190-195.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    >>> round(roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], max_fpr=0.5), 4)
    0.6667
    """
    limit = 1.0
    if max_fpr is not None:
        limit = number(max_fpr, "max_fpr", low=0.0, high=1.0, include_low=False)
    check_strategy(empty_strategy)
    try:
        groups = ranked(y_true, y_score, sample_weight, "roc_auc")
        return roc_area_of(groups) if limit == 1.0 else _partial_area(groups, limit)
    except EvalToolkitError as error:
        return placeholder(empty_strategy, error, y_true, y_score, "roc_auc")


def average_precision_of(groups: ScoreGroups) -> float:
    """Return the average precision of sorted rows grouped by score."""
    new_positives = np.diff(groups.tp, prepend=0.0)
    precision = groups.tp / (groups.tp + groups.fp)
    return min(1.0, float((new_positives * precision).sum()) / groups.n_positive)


def roc_area_of(groups: ScoreGroups) -> float:
    """Return the area under the ROC curve of sorted rows grouped by score."""
    new_positives = np.diff(groups.tp, prepend=0.0)
    new_negatives = np.diff(groups.fp, prepend=0.0)
    negatives_below = groups.n_negative - groups.fp + new_negatives / 2.0
    wins = float((new_positives * negatives_below).sum())
    return min(1.0, wins / groups.n_positive / groups.n_negative)


def _partial_area(groups: ScoreGroups, max_fpr: float) -> float:
    fpr, tpr = roc_points(groups)
    inside = int(np.searchsorted(fpr, max_fpr, side="right"))
    # The last point at a repeated rate is the top of a vertical step, where interpolation starts.
    tpr_at_limit = np.interp(max_fpr, fpr[inside - 1 : inside + 1], tpr[inside - 1 : inside + 1])
    fpr = np.append(fpr[:inside], max_fpr)
    tpr = np.append(tpr[:inside], tpr_at_limit)
    area = float((np.diff(fpr) * (tpr[1:] + tpr[:-1])).sum()) / 2.0
    chance = max_fpr**2 / 2.0
    return min(1.0, (1.0 + (area - chance) / (max_fpr - chance)) / 2.0)


@dataclass(frozen=True, slots=True)
class RecallAtFprResult(Displayed):
    """Largest recall at a bounded false-positive rate, with its threshold.

    Examples
    --------
    >>> RecallAtFprResult(float("inf"), 0.0, 0.0, 4, 0, 4).to_dict()["threshold"] is None
    True
    """

    threshold: float
    """Threshold at or above which rows are predicted positive; +inf (no row is) if no observed
    score has positive recall within the bound."""
    recall: float
    actual_fpr: float
    n_val_neg: float
    """Number of negatives (total weight, if weighted)."""
    fp: float
    tn: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; an infinite threshold becomes None."""
        return {
            "threshold": self.threshold if math.isfinite(self.threshold) else None,
            "recall": self.recall,
            "actual_fpr": self.actual_fpr,
            "n_val_neg": self.n_val_neg,
            "fp": self.fp,
            "tn": self.tn,
        }


def recall_at_fpr(
    y_true: ArrayLike,
    y_score: ArrayLike,
    target_fpr: float,
    *,
    sample_weight: ArrayLike | None = None,
) -> RecallAtFprResult:
    """Return the maximum recall at a false-positive rate of at most the target.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    target_fpr : float
        Maximum false-positive rate, in [0, 1].
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    RecallAtFprResult
        Threshold, recall, false-positive rate and counts; counts are ints unless rows are weighted.

    Raises
    ------
    InvalidInputError
        If the data are invalid or ``target_fpr`` is not in [0, 1].
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    Every distinct score is a candidate, and so is +inf, which predicts no positives and is
    therefore always feasible. The rate is compared as ``fp / n_negative <= target_fpr``; ties in
    recall are broken by the fewest false positives.

    Examples
    --------
    >>> recall_at_fpr([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.0).threshold
    0.8
    >>> recall_at_fpr([0, 1], [0.9, 0.2], 0.5)
    RecallAtFprResult(threshold=inf, recall=0.0, actual_fpr=0.0, n_val_neg=1, fp=0, tn=1)
    """
    target = number(target_fpr, "target_fpr", low=0.0, high=1.0)
    groups = ranked(y_true, y_score, sample_weight, "recall_at_fpr")
    n_negative = groups.n_negative
    most_tp = most_positives_at_fpr(groups, target)
    threshold, fp = math.inf, 0.0
    if most_tp > 0.0:
        best = int(np.searchsorted(groups.tp, most_tp))
        threshold, fp = float(groups.thresholds[best]), float(groups.fp[best])
    count = int if sample_weight is None else float
    return RecallAtFprResult(
        threshold=threshold,
        recall=most_tp / groups.n_positive,
        actual_fpr=fp / n_negative,
        n_val_neg=count(n_negative),
        fp=count(fp),
        tn=count(n_negative - fp),
    )


def most_positives_at_fpr(groups: ScoreGroups, target: float) -> float:
    """Return the number of positives at or above the lowest threshold with an acceptable FPR."""
    n_allowed = int(np.searchsorted(groups.fp / groups.n_negative, target, side="right"))
    return float(groups.tp[n_allowed - 1]) if n_allowed else 0.0
