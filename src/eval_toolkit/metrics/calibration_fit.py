"""Calibration slope and intercept by logistic recalibration."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import (
    BoolArray,
    FloatArray,
    both_classes,
    probability_pair,
    sample_weights,
)
from eval_toolkit.errors import InfeasibleError, UndefinedMetricError
from eval_toolkit.metrics.logistic import fit_logistic


@dataclass(frozen=True, slots=True)
class CalibrationFit(Displayed):
    """Logistic recalibration of a model; a calibrated model has slope 1 and intercepts 0.

    Examples
    --------
    >>> CalibrationFit(1.0, 0.0, 0.0).to_dict()
    {'slope': 1.0, 'intercept': 0.0, 'calibration_in_the_large': 0.0}
    """

    slope: float
    """Below 1 if predictions are too extreme, above 1 if they are not extreme enough."""
    intercept: float
    """Intercept fitted together with the slope."""
    calibration_in_the_large: float
    """Intercept with the slope fixed at 1; above 0 if predictions are too low on average."""

    def to_dict(self) -> dict[str, float]:
        """Return a JSON-serialisable dict."""
        return {
            "slope": self.slope,
            "intercept": self.intercept,
            "calibration_in_the_large": self.calibration_in_the_large,
        }


def calibration_slope_intercept(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> CalibrationFit:
    """Fit ``logit P(y = 1) = intercept + slope · logit(p)`` (Cox's logistic recalibration).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, strictly between 0 and 1.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    CalibrationFit
        Slope, intercept, and the intercept at slope 1 (calibration in the large).

    Raises
    ------
    InvalidInputError
        If the data are invalid or a score is outside [0, 1].
    UndefinedMetricError
        If only one class is present, all scores are equal, a score is exactly 0 or 1 (infinite
        logit), or the scores separate the classes (no maximum of the likelihood).

    Notes
    -----
    Unpenalised maximum likelihood [1]_ by Newton's method; agrees with statsmodels' binomial GLM.

    References
    ----------
    .. [1] Cox (1958), Biometrika 45(3/4):562-565.

    Examples
    --------
    >>> fit = calibration_slope_intercept([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.8])
    >>> round(fit.slope, 3), round(abs(fit.intercept), 3)
    (1.102, 0.0)
    """
    labels, scores = probability_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    if weights is not None:
        kept = weights > 0.0
        labels, scores, weights = labels[kept], scores[kept], weights[kept]
    both_classes(labels, "calibration_slope_intercept")
    _logit_fit_exists(labels, scores)
    logit = np.log(scores) - np.log1p(-scores)
    ones = np.ones((len(scores), 1))
    try:
        both = fit_logistic(np.column_stack((ones, logit)), labels, weights=weights)
        alone = fit_logistic(ones, labels, weights=weights, offset=logit)
    except InfeasibleError as error:
        raise UndefinedMetricError(f"calibration_slope_intercept is undefined: {error}") from None
    (intercept, slope), (in_the_large,) = both.tolist(), alone.tolist()
    return CalibrationFit(slope, intercept, in_the_large)


def _logit_fit_exists(labels: BoolArray, scores: FloatArray) -> None:
    metric = "calibration_slope_intercept"
    low, high = float(scores.min()), float(scores.max())
    if low == 0.0 or high == 1.0:
        extreme = low if low == 0.0 else high
        raise UndefinedMetricError(
            f"{metric} is undefined: a score is exactly {extreme:g}, whose logit is infinite; "
            "clip the scores to an interval inside (0, 1) first"
        )
    if low == high:
        raise UndefinedMetricError(
            f"{metric} is undefined: all scores are {low:g}, so no slope can be fitted"
        )
    positive, negative = scores[labels], scores[~labels]
    if positive.min() >= negative.max() or negative.min() >= positive.max():
        raise UndefinedMetricError(
            f"{metric} is undefined: the scores separate the classes, so the slope is infinite"
        )
