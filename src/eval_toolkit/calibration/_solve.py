"""Solvers for calibrators: bisection, and logistic regression by Newton's method."""

from collections.abc import Callable

import numpy as np

from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.metrics.logistic import fit_logistic

RIDGE = 1e-9
"""Ridge penalty on standardised slopes; negligible, except that it keeps fits to separable data
finite."""


def bisect(decreasing: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a decreasing function, or the end of the interval closest to it."""
    if decreasing(low) <= 0:
        return low
    if decreasing(high) >= 0:
        return high
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if decreasing(middle) > 0:
            low = middle
        else:
            high = middle


def logistic_regression(features: FloatArray, targets: FloatArray) -> tuple[FloatArray, float]:
    """Return slopes and intercept of the maximum-likelihood logistic fit to targets in [0, 1].

    The features are standardised first, so the ridge penalty does not depend on their scale.
    """
    # Divide by the largest value, so that squares neither underflow nor overflow.
    unit = np.abs(features).max(axis=0)
    unit = np.where(unit > 0.0, unit, 1.0)
    relative = features / unit
    centre, spread = relative.mean(axis=0), relative.std(axis=0)
    # A constant feature is uninformative; rounding can leave it with a spread of 1e-17.
    scale = np.where(spread > 1e-12, spread, np.inf)
    design = np.column_stack([(relative - centre) / scale, np.ones(len(features))])
    penalty = np.append(np.full(features.shape[1], RIDGE), 0.0)
    theta = fit_logistic(design, targets, penalty=penalty)
    slopes = theta[:-1] / scale
    return slopes / unit, float(theta[-1] - slopes @ centre)
