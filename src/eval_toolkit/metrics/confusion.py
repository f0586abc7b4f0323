"""Metrics at a threshold; a row is predicted positive if ``score >= threshold``."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import (
    BoolArray,
    FloatArray,
    as_float,
    binary_pair,
    both_classes,
    fraction,
    probability_pair,
    sample_weights,
)
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError

DEFAULT_ASSUMED_PRIORS = (0.001, 0.01, 0.05)


# --- formulas for scalars and arrays; zero denominators are handled by the caller ---------------


def precision_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``tp / (tp + fp)``."""
    return tp / (tp + fp)


def recall_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``tp / (tp + fn)``."""
    return tp / (tp + fn)


def specificity_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``tn / (tn + fp)``."""
    return tn / (tn + fp)


def fpr_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``fp / (tn + fp)``."""
    return fp / (tn + fp)


def fnr_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``fn / (tp + fn)``."""
    return fn / (tp + fn)


def accuracy_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``(tp + tn) / n``."""
    return (tp + tn) / (tn + fp + fn + tp)


def f1_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``2 tp / (2 tp + fp + fn)``."""
    return 2 * tp / (2 * tp + fp + fn)


def balanced_accuracy_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return the mean of recall and specificity."""
    return (tp / (tp + fn) + tn / (tn + fp)) / 2


def mcc_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``(tp tn − fp fn) / √((tp + fp)(tp + fn)(tn + fp)(tn + fn))``."""
    # Use two square roots, because the product of all four margins may overflow 64 bits.
    scale = np.sqrt((tp + fp) * (tp + fn)) * np.sqrt((tn + fp) * (tn + fn))
    return np.clip((tp * tn - fp * fn) / scale, -1.0, 1.0)


def net_benefit_of(tn: Any, fp: Any, fn: Any, tp: Any, odds: float) -> Any:
    """Return the net benefit at a threshold with the given odds."""
    return (tp - odds * fp) / (tn + fp + fn + tp)


def kappa_of(tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
    """Return ``2 (tp tn − fp fn) / ((tp + fp)(fp + tn) + (tp + fn)(fn + tn))``."""
    return 2 * (tp * tn - fp * fn) / ((tp + fp) * (fp + tn) + (tp + fn) * (fn + tn))


@dataclass(frozen=True, slots=True)
class ConfusionCounts(Displayed):
    """Confusion counts and the rates derived from them.

    Counts are ints, or floats if rows are weighted. Accessing a rate with a zero denominator raises
    `UndefinedMetricError`.

    Examples
    --------
    >>> counts = ConfusionCounts(tn=5, fp=1, fn=2, tp=2)
    >>> counts.recall, counts.accuracy
    (0.5, 0.7)
    """

    tn: float
    fp: float
    fn: float
    tp: float

    @property
    def n(self) -> float:
        """Number of rows, or their total weight."""
        return self.tn + self.fp + self.fn + self.tp

    @property
    def n_positive(self) -> float:
        """Number of positives."""
        return self.tp + self.fn

    @property
    def n_negative(self) -> float:
        """Number of negatives."""
        return self.tn + self.fp

    @property
    def n_predicted(self) -> float:
        """Number of rows predicted positive."""
        return self.tp + self.fp

    def _rate(self, of: Callable[..., Any], exists: object, why: str) -> float:
        """Return a rate, or raise with the reason why it is undefined."""
        if not exists:
            name = of.__name__.removesuffix("_of")
            raise UndefinedMetricError(f"{name} is undefined: {why}")
        return float(of(self.tn, self.fp, self.fn, self.tp))

    @property
    def precision(self) -> float:
        """Fraction of predicted positives that are positive."""
        return self._rate(precision_of, self.n_predicted, "no row is predicted positive")

    @property
    def recall(self) -> float:
        """Fraction of positives that are predicted positive."""
        return self._rate(recall_of, self.n_positive, "there are no positives")

    @property
    def specificity(self) -> float:
        """Fraction of negatives that are predicted negative."""
        return self._rate(specificity_of, self.n_negative, "there are no negatives")

    @property
    def fpr(self) -> float:
        """Fraction of negatives that are predicted positive."""
        return self._rate(fpr_of, self.n_negative, "there are no negatives")

    @property
    def fnr(self) -> float:
        """Fraction of positives that are predicted negative."""
        return self._rate(fnr_of, self.n_positive, "there are no positives")

    @property
    def accuracy(self) -> float:
        """Fraction of rows predicted correctly."""
        return self._rate(accuracy_of, self.n, "there are no rows")

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        why = "there are no positives and no row is predicted positive"
        return self._rate(f1_of, self.n_positive or self.n_predicted, why)

    @property
    def balanced_accuracy(self) -> float:
        """Mean of recall and specificity."""
        exists = self.n_positive and self.n_negative
        return self._rate(balanced_accuracy_of, exists, "both classes are required")

    @property
    def mcc(self) -> float:
        """Matthews correlation coefficient of labels and predictions."""
        n_rejected = self.tn + self.fn
        exists = self.n_positive and self.n_negative and self.n_predicted and n_rejected
        why = "both classes must occur among the labels and among the predictions"
        return self._rate(mcc_of, exists, why)

    @property
    def kappa(self) -> float:
        """Cohen's kappa of labels and predictions."""
        # The denominator is zero iff all rows are in one diagonal cell.
        exists = self.fp or self.fn or (self.tn and self.tp)
        return self._rate(kappa_of, exists, "labels and predictions are constant and equal")

    def to_dict(self) -> dict[str, float]:
        """Return the four counts as a dict."""
        return {"tn": self.tn, "fp": self.fp, "fn": self.fn, "tp": self.tp}


_RATES: dict[str, Callable[[ConfusionCounts], float]] = {
    "f1": lambda counts: counts.f1,
    "precision": lambda counts: counts.precision,
    "recall": lambda counts: counts.recall,
    "accuracy": lambda counts: counts.accuracy,
    "specificity": lambda counts: counts.specificity,
    "balanced_accuracy": lambda counts: counts.balanced_accuracy,
    "mcc": lambda counts: counts.mcc,
    "fpr": lambda counts: counts.fpr,
    "fnr": lambda counts: counts.fnr,
}


@dataclass(frozen=True, slots=True)
class ThresholdResult(Displayed):
    """Selected threshold, its criterion, and metrics on the data used for selection.

    Examples
    --------
    >>> ThresholdResult(0.4, 0.8, 1.0, 0.6667, "max_f1").to_dict()["criterion"]
    'max_f1'
    """

    threshold: float
    f1: float
    precision: float
    recall: float
    criterion: str

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict; an infinite threshold becomes None."""
        return {
            "threshold": _json_number(self.threshold),
            "f1": self.f1,
            "precision": self.precision,
            "recall": self.recall,
            "criterion": self.criterion,
        }


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def checked_threshold(threshold: float) -> float:
    """Return the threshold; raise if it is NaN, but allow infinite values."""
    try:
        value = as_float(threshold)
    except (TypeError, ValueError, OverflowError):
        raise InvalidTypeError(f"`threshold` must be a number, got {threshold!r}") from None
    if math.isnan(value):
        raise InvalidInputError("`threshold` is nan; it must be a number or ±inf")
    return value


def _count(
    labels: BoolArray, scores: FloatArray, threshold: float, weights: FloatArray | None
) -> ConfusionCounts:
    predicted = scores >= threshold
    if weights is None:
        tp, n_predicted, n_positive = (
            int(np.count_nonzero(rows)) for rows in (predicted & labels, predicted, labels)
        )
        fp, fn = n_predicted - tp, n_positive - tp
        return ConfusionCounts(tn=len(labels) - n_positive - fp, fp=fp, fn=fn, tp=tp)
    cell = 2 * labels.astype(np.int64) + predicted
    return ConfusionCounts(*np.bincount(cell, weights, 4).tolist())


def confusion_counts(
    y_true: ArrayLike,
    y_score: ArrayLike,
    threshold: float,
    *,
    sample_weight: ArrayLike | None = None,
) -> ConfusionCounts:
    """Count true and false positives and negatives at a threshold.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; a row is predicted positive iff its score is at least the threshold.
    threshold : float
        Decision threshold; may be infinite.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    ConfusionCounts
        The four counts, with rates as properties.

    Raises
    ------
    InvalidInputError
        If the data are invalid or the threshold is NaN.

    Examples
    --------
    >>> confusion_counts([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.4)
    ConfusionCounts(tn=1, fp=1, fn=1, tp=1)
    """
    labels, scores = binary_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    return _count(labels, scores, checked_threshold(threshold), weights)


def metrics_at_threshold(
    y_true: ArrayLike,
    y_score: ArrayLike,
    threshold: float,
    *,
    sample_weight: ArrayLike | None = None,
) -> dict[str, Any]:
    """Return common rates and the confusion counts at a threshold as a dict.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; a row is predicted positive iff its score is at least the threshold.
    threshold : float
        Decision threshold; may be infinite.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    dict
        ``threshold``, ``f1``, ``precision``, ``recall``, ``accuracy``, ``specificity``,
        ``balanced_accuracy``, ``mcc``, ``fpr``, ``fnr``, the counts ``tn``, ``fp``, ``fn``, ``tp``
        (ints without weights), and ``undefined``: a dict from each rate with a zero denominator to
        the reason. Such rates are reported as 0.0; check ``undefined`` to distinguish them from
        true zeros, or use `confusion_counts`, whose rates raise instead.

    Raises
    ------
    InvalidInputError
        If the data are invalid or the threshold is NaN.

    Examples
    --------
    >>> at = metrics_at_threshold([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.9)
    >>> at["recall"], at["tn"], at["undefined"]["precision"]
    (0.0, 2, 'precision is undefined: no row is predicted positive')
    """
    counts = confusion_counts(y_true, y_score, threshold, sample_weight=sample_weight)
    rates: dict[str, float] = {}
    undefined: dict[str, str] = {}
    for name, rate in _RATES.items():
        try:
            rates[name] = rate(counts)
        except UndefinedMetricError as error:
            rates[name], undefined[name] = 0.0, str(error)
    return {
        "threshold": float(threshold),
        **rates,
        **counts.to_dict(),
        "undefined": undefined,
    }


def single_class_threshold_metrics(
    y_true: ArrayLike, y_score: ArrayLike, threshold: float
) -> dict[str, Any]:
    """Return the metrics at a threshold for a slice with a single class.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, all 0 or all 1.
    y_score : array-like of shape (n,)
        Scores; a row is predicted positive iff its score is at least the threshold.
    threshold : float
        Decision threshold; may be infinite.

    Returns
    -------
    dict
        ``threshold``, ``n``, ``n_positive``, ``n_negative``, ``tp``, ``fp``, ``tn``, ``fn``,
        ``slice_class`` ("all_positive" or "all_negative"), and ``recall@threshold``, or
        ``fpr@threshold`` with ``specificity@threshold``.

    Raises
    ------
    InvalidInputError
        If the data are invalid, the threshold is NaN, or both classes are present.

    Examples
    --------
    >>> single_class_threshold_metrics([0, 0, 0, 0], [0.1, 0.2, 0.3, 0.9], 0.5)["fpr@threshold"]
    0.25
    """
    counts = confusion_counts(y_true, y_score, threshold)
    if counts.n_positive and counts.n_negative:
        raise InvalidInputError(
            f"`y_true` contains both classes ({counts.n_positive} of {counts.n} positive); "
            "use metrics_at_threshold"
        )
    metrics: dict[str, Any] = {
        "threshold": float(threshold),
        "n": counts.n,
        "n_positive": counts.n_positive,
        "n_negative": counts.n_negative,
        "tp": counts.tp,
        "fp": counts.fp,
        "tn": counts.tn,
        "fn": counts.fn,
    }
    if counts.n_positive:
        return metrics | {"slice_class": "all_positive", "recall@threshold": counts.recall}
    return metrics | {
        "slice_class": "all_negative",
        "fpr@threshold": counts.fpr,
        "specificity@threshold": counts.specificity,
    }


def precision_at_prior(
    y_true: ArrayLike, y_score: ArrayLike, threshold: float, assumed_prior: float
) -> dict[str, Any]:
    """Project precision to another prevalence, with recall and false-positive rate unchanged.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; a row is predicted positive iff its score is at least the threshold.
    threshold : float
        Decision threshold; may be infinite.
    assumed_prior : float
        Prevalence in deployment, in (0, 1).

    Returns
    -------
    dict
        ``tpr``, ``fpr``, ``eval_prior``, ``assumed_prior``, ``precision_at_eval_prior``,
        ``precision_at_assumed_prior`` and ``threshold``. If no row is predicted positive, both
        precisions are None and ``reason`` is added.

    Raises
    ------
    InvalidInputError
        If the data are invalid, the threshold is NaN, or the prior is not in (0, 1).
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    By Bayes' rule precision at prevalence π is ``π TPR / (π TPR + (1 − π) FPR)``. It assumes that
    only the class proportions change, not the score distribution of each class.

    Examples
    --------
    >>> shifted = precision_at_prior([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.3, 0.01)
    >>> round(shifted["precision_at_eval_prior"], 3), shifted["precision_at_assumed_prior"]
    (0.667, 0.0198...)
    """
    prior = fraction(assumed_prior, "assumed_prior")
    threshold = checked_threshold(threshold)
    labels, scores = binary_pair(y_true, y_score)
    both_classes(labels, "precision_at_prior")
    counts = _count(labels, scores, threshold, None)
    tpr, fpr, eval_prior = counts.recall, counts.fpr, counts.n_positive / counts.n

    def precision(prevalence: float) -> float | None:
        flagged = prevalence * tpr + (1.0 - prevalence) * fpr
        return prevalence * tpr / flagged if flagged else None

    projected = {
        "tpr": tpr,
        "fpr": fpr,
        "eval_prior": eval_prior,
        "assumed_prior": prior,
        "precision_at_eval_prior": precision(eval_prior),
        "precision_at_assumed_prior": precision(prior),
        "threshold": threshold,
    }
    if counts.n_predicted:
        return projected
    return projected | {"reason": "precision is undefined: no row is predicted positive"}


def net_benefit(
    y_true: ArrayLike,
    y_score: ArrayLike,
    threshold: float,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the net benefit: net true positives per row, at a threshold probability.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    threshold : float
        Threshold probability in (0, 1): rows with ``score >= threshold`` are treated.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        At most the prevalence; 0 is the net benefit of treating no row.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or the threshold outside (0, 1).

    Notes
    -----
    ``TP/n − FP/n · t/(1 − t)`` [1]_: at the threshold probability t, treatment and no treatment
    have equal expected utility, so a false positive costs as much as t/(1 − t) true positives gain.

    References
    ----------
    .. [1] Vickers & Elkin (2006), Medical Decision Making 26(6):565-574.

    Examples
    --------
    >>> round(net_benefit([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.2), 4)
    0.4375
    """
    odds = fraction(threshold, "threshold") / (1.0 - float(threshold))
    labels, scores = probability_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    counts = _count(labels, scores, float(threshold), weights)
    return float(net_benefit_of(counts.tn, counts.fp, counts.fn, counts.tp, odds))
