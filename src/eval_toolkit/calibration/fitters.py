"""Calibrators, fitted on held-out labels and applied to new scores.

Each calibrator has two forms: ``fit_<kind>_calibrator`` returns the calibrator,
``fit_<kind>_binary`` returns ``(parameters, apply)``. Every fitter needs both classes.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.calibration._solve import bisect, logistic_regression
from eval_toolkit.calibration.maps import (
    BetaMap,
    IsotonicMap,
    PlattFit,
    SigmoidMap,
    TemperatureMap,
    log_odds_parts,
)
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics.isotonic import pav
from eval_toolkit.metrics.logistic import logistic_loss, sigmoid

Calibrator = Callable[[ArrayLike], FloatArray]

DEFAULT_TEMPERATURE_BOUNDS = (0.05, 20.0)


def _training_pair(y_true: ArrayLike, y_score: ArrayLike) -> tuple[BoolArray, FloatArray]:
    labels, scores = validation.binary_pair(y_true, y_score)
    validation.both_classes(labels, "a calibrator")
    return labels, scores


def fit_isotonic_calibrator(y_true: ArrayLike, y_score: ArrayLike) -> IsotonicMap:
    """Fit an isotonic calibrator with linear interpolation between its steps.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; both must occur.
    y_score : array-like of shape (n,)
        Scores on any scale; higher means more positive.

    Returns
    -------
    IsotonicMap
        Calibrator that can be called on new scores; scores outside the fitted range are clipped to
        it.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, or labels are not 0/1.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    Pool-adjacent-violators on the mean label of each distinct score [1]_; equivalent to
    ``sklearn.isotonic.IsotonicRegression(out_of_bounds="clip")``.

    References
    ----------
    .. [1] Zadrozny & Elkan (2002), KDD, 694-699.

    Examples
    --------
    >>> calibrate = fit_isotonic_calibrator([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])
    >>> calibrate([0.0, 0.25, 0.35]).round(12).tolist()
    [0.0, 0.5, 0.75]
    """
    labels, scores = _training_pair(y_true, y_score)
    knots, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rates = np.bincount(group, weights=labels) / counts
    fitted = np.clip(pav(rates, counts.astype(np.float64)), 0.0, 1.0)
    # Only the two ends of a flat segment affect the interpolation.
    flat = np.zeros(len(knots), dtype=np.bool_)
    flat[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
    return IsotonicMap(scores=knots[~flat], probabilities=fitted[~flat])


def fit_isotonic_binary(y_true: ArrayLike, y_score: ArrayLike) -> tuple[None, IsotonicMap]:
    """Fit an isotonic calibrator and return ``(None, apply)``, as it has no parameters.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n,)
        See `fit_isotonic_calibrator`, which also lists the exceptions.

    Returns
    -------
    tuple of (None, IsotonicMap)
        None instead of parameters, and the calibrator.

    Examples
    --------
    >>> params, apply = fit_isotonic_binary([0, 1], [0.2, 0.8])
    >>> params is None, apply([0.5]).round(2).tolist()
    (True, [0.5])
    """
    return None, fit_isotonic_calibrator(y_true, y_score)


def fit_platt_calibrator(y_true: ArrayLike, y_score: ArrayLike) -> PlattFit:
    """Fit Platt's sigmoid 1/(1+exp(a·s+b)) to the raw scores.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; both must occur.
    y_score : array-like of shape (n,)
        Scores on any scale; higher means more positive.

    Returns
    -------
    PlattFit
        Calibrator with the parameters ``a`` (negative for an informative score) and ``b``.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, or labels are not 0/1.
    UndefinedMetricError
        If only one class is present.
    InfeasibleError
        If the fit does not converge.

    Notes
    -----
    Minimises the cross-entropy with the smoothed targets (n₊+1)/(n₊+2) and 1/(n₋+2) [1]_, which
    keep the fit finite even on separable data. The sigmoid is a function of the score itself, not
    of its log-odds.

    References
    ----------
    .. [1] Platt (1999), Probabilistic outputs for support vector machines.

    Examples
    --------
    >>> fit = fit_platt_calibrator([0, 0, 1, 1], [-1.0, -0.5, 0.5, 1.0])
    >>> fit.a < 0, fit([0.0]).round(6).tolist()
    (True, [0.5])
    """
    labels, scores = _training_pair(y_true, y_score)
    n_positive = int(labels.sum())
    n_negative = len(labels) - n_positive
    targets = np.where(labels, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
    slopes, intercept = logistic_regression(scores[:, None], targets)
    # Platt's exponent has a plus sign, so both parameters are negated logit parameters.
    transform = SigmoidMap(a=-float(slopes[0]), b=-intercept)
    return PlattFit(transform=transform, a=transform.a, b=transform.b)


def fit_platt_binary(
    y_true: ArrayLike, y_score: ArrayLike
) -> tuple[tuple[float, float], Calibrator]:
    """Fit a Platt calibrator and return ``((a, b), apply)``.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n,)
        See `fit_platt_calibrator`, which also lists the exceptions.

    Returns
    -------
    tuple of ((float, float), callable)
        Platt's a and b in 1/(1+exp(a·s+b)), and the calibrator.

    Examples
    --------
    >>> (a, b), apply = fit_platt_binary([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])
    >>> a < 0
    True
    """
    fit = fit_platt_calibrator(y_true, y_score)
    return (fit.a, fit.b), fit.transform


def fit_beta_calibrator(y_true: ArrayLike, y_score: ArrayLike) -> BetaMap:
    """Fit the beta calibration map σ(a·log s + b·log(1−s) + c), constrained to be increasing.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; both must occur.
    y_score : array-like of shape (n,)
        Probabilities in [0, 1]; clipped to [1e-7, 1 − 1e-7] before logarithms are taken.

    Returns
    -------
    BetaMap
        Calibrator with the parameters ``a``, ``b`` and ``c``; a = 1, b = −1, c = 0 is the identity.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, or labels are not 0/1 or scores not
        in [0, 1].
    UndefinedMetricError
        If only one class is present.
    InfeasibleError
        If the fit does not converge.

    Notes
    -----
    Maximum likelihood subject to a ≥ 0 and b ≤ 0 (Kull et al. [1]_ write −b for this b), which
    makes the map monotone, so calibration never reorders rows. The problem is convex: if the
    unconstrained optimum violates a sign, the constrained optimum is the best fit on the boundary.
    A ridge of 1e-9 keeps the parameters finite on separable data.

    References
    ----------
    .. [1] Kull, Silva Filho & Flach (2017), AISTATS, 623-631.

    Examples
    --------
    >>> calibrate = fit_beta_calibrator([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8])
    >>> calibrate.a >= 0 >= calibrate.b
    True
    """
    labels, scores = _training_pair(y_true, y_score)
    log_score, log_rest = log_odds_parts(scores)
    features = np.column_stack([log_score, -log_rest])
    targets = labels.astype(np.float64)
    slopes, intercept = logistic_regression(features, targets)
    if slopes.min() < 0.0:
        slopes, intercept = _best_face(features, targets)
    return BetaMap(a=float(slopes[0]), b=-float(slopes[1]), c=intercept)


def _best_face(features: FloatArray, targets: FloatArray) -> tuple[FloatArray, float]:
    """Return the best fit with one slope fixed at zero and one non-negative slope."""
    rate = targets.mean()
    fits = [(np.zeros(2), float(np.log(rate / (1.0 - rate))))]
    for column in (0, 1):
        slopes, intercept = logistic_regression(features[:, [column]], targets)
        if slopes[0] >= 0.0:
            fits.append((np.eye(2)[column] * slopes[0], intercept))
    return min(fits, key=lambda fit: logistic_loss(features @ fit[0] + fit[1], targets).sum())


def fit_beta_binary(
    y_true: ArrayLike, y_score: ArrayLike
) -> tuple[tuple[float, float, float], BetaMap]:
    """Fit a beta calibrator and return ``((a, b, c), apply)``.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n,)
        See `fit_beta_calibrator`, which also lists the exceptions.

    Returns
    -------
    tuple of ((float, float, float), BetaMap)
        The parameters of σ(a·log s + b·log(1−s) + c), and the calibrator.

    Examples
    --------
    >>> (a, b, c), apply = fit_beta_binary([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8])
    >>> a >= 0 >= b
    True
    """
    calibrate = fit_beta_calibrator(y_true, y_score)
    return (calibrate.a, calibrate.b, calibrate.c), calibrate


def fit_temperature(
    val_logits: ArrayLike,
    val_labels: ArrayLike,
    bounds: tuple[float, float] = DEFAULT_TEMPERATURE_BOUNDS,
) -> dict[str, float]:
    """Fit the temperature that divides two-class logits.

    Parameters
    ----------
    val_logits : array-like of shape (n, 2)
        Held-out logits; column 1 is the positive class.
    val_labels : array-like of shape (n,)
        Labels, 0 or 1; both must occur.
    bounds : (float, float), default (0.05, 20)
        Smallest and largest temperature considered.

    Returns
    -------
    dict
        ``temperature``; mean negative log-likelihood before (``nll_pre``) and after
        (``nll_post``); ``improvement``, their difference.

    Raises
    ------
    InvalidInputError
        If the logits are not finite or not of shape (n, 2), labels are not 0/1, or bounds are not 0
        < low < high.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    The likelihood is convex in 1/T [1]_, so bisection on its slope finds the optimum to machine
    precision. If the temperature equals a bound, the optimum may lie outside the bounds.

    References
    ----------
    .. [1] Guo, Pleiss, Sun & Weinberger (2017), ICML, 1321-1330.

    Examples
    --------
    >>> logits = [[0.0, 4.0], [0.0, 4.0], [0.0, 4.0], [0.0, -4.0]]
    >>> fit = fit_temperature(logits, [1, 1, 0, 0])
    >>> fit["temperature"] > 1, fit["improvement"] > 0
    (True, True)
    """
    shape = "of shape (n, 2)"
    logits = validation.as_array(val_logits, "val_logits", shape=shape)
    if logits.ndim != 2 or logits.shape[1] != 2:
        raise InvalidInputError(f"`val_logits` must be {shape}, got {logits.shape}")
    negative, positive = (validation.vector(logits[:, k], f"val_logits[:, {k}]") for k in (0, 1))
    log_odds = validation.vector(positive - negative, "val_logits[:, 1] - val_logits[:, 0]")
    labels = validation.binary_labels(val_labels, "val_labels")
    validation.same_length(labels, log_odds, ("val_labels", "val_logits"))
    validation.both_classes(labels, "a calibrator")
    temperature = _best_temperature(labels, log_odds, bounds)
    before = float(logistic_loss(log_odds, labels).mean())
    after = float(logistic_loss(log_odds / temperature, labels).mean())
    return {
        "temperature": temperature,
        "nll_pre": before,
        "nll_post": after,
        "improvement": before - after,
    }


def _best_temperature(
    labels: BoolArray, log_odds: FloatArray, bounds: tuple[float, float]
) -> float:
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise InvalidInputError(f"`bounds` is {bounds!r}; it must be a pair (low, high)") from None
    low = validation.number(low, "bounds[0]", low=0.0, include_low=False)
    high = validation.number(high, "bounds[1]", low=low, include_low=False)
    margin = np.where(labels, log_odds, -log_odds)
    if not margin.any():  # the logits are uninformative; all temperatures are equally good
        return min(max(1.0, low), high)

    def likelihood_slope(inverse: float) -> float:
        return float(margin @ sigmoid(-margin * inverse))

    return min(max(1.0 / bisect(likelihood_slope, 1.0 / high, 1.0 / low), low), high)


def fit_temperature_binary(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    bounds: tuple[float, float] = DEFAULT_TEMPERATURE_BOUNDS,
) -> tuple[float, TemperatureMap]:
    """Fit a temperature to the log-odds of probabilities; return ``(temperature, apply)``.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; both must occur.
    y_score : array-like of shape (n,)
        Probabilities in [0, 1]; clipped to [1e-7, 1 − 1e-7] before log-odds are taken.
    bounds : (float, float), default (0.05, 20)
        Smallest and largest temperature considered.

    Returns
    -------
    tuple of (float, TemperatureMap)
        The temperature (above 1 if the scores are overconfident) and the calibrator.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, labels are not 0/1, scores are not in
        [0, 1], or bounds are not 0 < low < high.
    UndefinedMetricError
        If only one class is present.

    Examples
    --------
    >>> temperature, apply = fit_temperature_binary([0, 1, 0, 1], [0.01, 0.99, 0.99, 0.99])
    >>> temperature > 1
    True
    """
    labels, scores = _training_pair(y_true, y_score)
    log_score, log_rest = log_odds_parts(scores)
    temperature = _best_temperature(labels, log_score - log_rest, bounds)
    return temperature, TemperatureMap(temperature)


def fit_temperature_oracle(y_true: ArrayLike, y_score: ArrayLike) -> tuple[float, TemperatureMap]:
    """Fit the temperature on the evaluation data, for an optimistic upper bound.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n,)
        See `fit_temperature_binary`, which also lists the exceptions.

    Returns
    -------
    tuple of (float, TemperatureMap)
        The temperature, and the calibrator.

    Warns
    -----
    UserWarning
        Always, because the temperature is fitted on evaluation data.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     temperature, apply = fit_temperature_oracle([0, 1, 0, 1], [0.1, 0.6, 0.7, 0.9])
    >>> temperature > 0
    True
    """
    warnings.warn(
        "the temperature is fitted on the evaluation data, so calibrated metrics are an upper "
        "bound; for valid results, use fit_temperature_binary on held-out data",
        UserWarning,
        stacklevel=2,
    )
    return fit_temperature_binary(y_true, y_score)
