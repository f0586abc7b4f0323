"""Logistic regression by damped Newton steps: calibration slopes, Platt and beta calibration."""

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InfeasibleError

_MAX_STEPS = 200


def sigmoid(values: FloatArray) -> FloatArray:
    """Return 1/(1+exp(−x)) without overflow."""
    decay = np.exp(-np.abs(values))
    return np.where(values >= 0, 1.0, decay) / (1.0 + decay)


def logistic_loss(linear: FloatArray, targets: FloatArray | BoolArray) -> FloatArray:
    """Return −t·log σ(x) − (1−t)·log(1−σ(x)) per row."""
    return np.asarray(np.logaddexp(0.0, linear) - targets * linear)


def fit_logistic(
    design: FloatArray,
    targets: FloatArray | BoolArray,
    *,
    weights: FloatArray | None = None,
    offset: FloatArray | float = 0.0,
    penalty: FloatArray | float = 0.0,
) -> FloatArray:
    """Return the coefficients b that minimise the logistic loss of ``offset + design @ b``.

    Parameters
    ----------
    design : array of shape (n, k)
        Features, with a column of ones for an intercept.
    targets : array of shape (n,)
        Labels or fractions in [0, 1].
    weights : array of shape (n,), optional
        Row weights.
    offset : array of shape (n,) or float
        Fixed part of the linear predictor.
    penalty : array of shape (k,) or float
        Ridge penalty of each coefficient; keeps the fit finite on separable data.

    Raises
    ------
    InfeasibleError
        If there is no finite minimum because the classes are (nearly) separated.
    """
    weight = np.ones(len(targets)) if weights is None else weights
    ridge = np.broadcast_to(np.asarray(penalty, dtype=np.float64), design.shape[1])

    def objective(coefficients: FloatArray) -> float:
        loss = weight @ logistic_loss(design @ coefficients + offset, targets)
        return float(loss + 0.5 * ridge @ coefficients**2)

    coefficients = np.zeros(design.shape[1])
    reached = objective(coefficients)
    for _ in range(_MAX_STEPS):
        linear = design @ coefficients + offset
        gradient = design.T @ (weight * (targets - sigmoid(linear))) - ridge * coefficients
        # Use σ(x) σ(−x) instead of σ (1 − σ), which loses all curvature to rounding for large |x|.
        variance = sigmoid(linear) * sigmoid(-linear)
        information = (design * (weight * variance)[:, None]).T @ design
        try:
            step = np.linalg.solve(information + np.diag(ridge), gradient)
        except np.linalg.LinAlgError:
            break
        while np.abs(step).max() > 1e-12 * (1.0 + np.abs(coefficients).max()):
            attempt = objective(coefficients + step)
            # Near the minimum, changes of the loss are rounding errors: accept the Newton step.
            if attempt <= reached + 1e-10 * abs(reached):
                break
            step /= 2.0
        else:
            return coefficients + step
        coefficients, reached = coefficients + step, attempt
        # Newton's method converges quadratically: after a step this small, the error is negligible.
        if gradient @ step <= 1e-12 * reached:
            return coefficients
    raise InfeasibleError("the logistic fit did not converge: the classes are (nearly) separated")
