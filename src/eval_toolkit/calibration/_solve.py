"""The two small solvers behind the calibrators: bisection, and logistic regression by Newton."""

from collections.abc import Callable

import numpy as np

from eval_toolkit._validate import FloatArray
from eval_toolkit.errors import InfeasibleError

__all__ = ["bisect", "logistic_loss", "logistic_regression", "sigmoid"]

RIDGE = 1e-9
"""Penalty on standardised slopes: invisible on ordinary data, finite answers on separable data."""


def sigmoid(values: FloatArray) -> FloatArray:
    """Return 1/(1+exp(−x)) without overflow at either end."""
    decay = np.exp(-np.abs(values))
    return np.where(values >= 0, 1.0, decay) / (1.0 + decay)


def bisect(decreasing: Callable[[float], float], low: float, high: float) -> float:
    """Return where a decreasing function crosses zero, or the end where it comes closest."""
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


def logistic_loss(linear: FloatArray, targets: FloatArray) -> float:
    """Return −Σ t·log σ(x) + (1−t)·log(1−σ(x))."""
    return float(np.sum(np.logaddexp(0.0, linear) - targets * linear))


def logistic_regression(
    features: FloatArray, targets: FloatArray, *, max_iter: int = 200
) -> tuple[FloatArray, float]:
    """Return slopes and intercept of the maximum-likelihood logistic fit to targets in [0, 1].

    Damped Newton steps on standardised features; the loss is convex, so every step that does not
    raise it is progress.
    """
    centre = features.mean(axis=0)
    spread = features.std(axis=0)
    # A constant feature carries nothing; rounding can leave it a spread of 1e-17.
    scale = np.where(spread > 1e-12 * (1.0 + np.abs(centre)), spread, np.inf)
    design = np.column_stack([(features - centre) / scale, np.ones(len(features))])
    penalty = np.append(np.full(features.shape[1], RIDGE), 0.0)
    rate = targets.mean()
    theta = np.append(np.zeros(features.shape[1]), np.log(rate / (1.0 - rate)))

    def objective(parameters: FloatArray) -> float:
        return logistic_loss(design @ parameters, targets) + 0.5 * float(penalty @ parameters**2)

    loss = objective(theta)
    for _ in range(max_iter):
        fitted = sigmoid(design @ theta)
        gradient = design.T @ (fitted - targets) + penalty * theta
        curvature = design.T @ (design * (fitted * (1.0 - fitted))[:, None]) + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        decrement = float(gradient @ step)
        slack = 1e-12 * (1.0 + loss)
        while (trial := objective(theta - step)) > loss + slack:
            step = step / 2
        theta, loss = theta - step, trial
        # Newton squares its error: after a step that promised this little, nothing is left.
        if decrement <= 1e-12:
            slopes = theta[:-1] / scale
            return slopes, float(theta[-1] - slopes @ centre)
    raise InfeasibleError(f"the logistic fit did not converge in {max_iter} Newton steps")
