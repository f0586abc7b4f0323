"""Prevalence shift: adjusted probabilities, row weights and prevalence estimation.

All functions assume label shift: P(score | class) is unchanged and only the class proportions differ.
"""

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.calibration._solve import bisect
from eval_toolkit.calibration.maps import probabilities
from eval_toolkit.errors import UndefinedMetricError


def adjust_for_prior(y_score: ArrayLike, *, from_prior: float, to_prior: float) -> FloatArray:
    """Return the probabilities of a calibrated scorer adjusted to another prevalence.

    Parameters
    ----------
    y_score : array-like of shape (n,)
        Probabilities calibrated at the prevalence ``from_prior``.
    from_prior, to_prior : float in (0, 1)
        Prevalence at which scores were calibrated, and prevalence to adjust to.

    Returns
    -------
    array of shape (n,)
        Probabilities calibrated at ``to_prior``; the ranking is unchanged.

    Raises
    ------
    InvalidInputError
        If scores are not finite in [0, 1] or a prior is not strictly between 0 and 1.

    Notes
    -----
    Bayes' rule with unchanged class-conditional densities [1]_: odds are multiplied by
    ``to_prior·(1−from_prior) / (from_prior·(1−to_prior))``.

    References
    ----------
    .. [1] Saerens, Latinne & Decaestecker (2002), Neural Computation 14(1):21-41.

    Examples
    --------
    >>> adjust_for_prior([0.5, 0.9], from_prior=0.5, to_prior=0.1).round(4).tolist()
    [0.1, 0.5]
    """
    scores = probabilities(validation.vector(y_score, "y_score"))
    positive, negative = _density_ratios(scores, validation.fraction(from_prior, "from_prior"))
    prior = validation.fraction(to_prior, "to_prior")
    return prior * positive / (prior * positive + (1.0 - prior) * negative)


def _density_ratios(scores: FloatArray, prior: float) -> tuple[FloatArray, FloatArray]:
    """Return P(x | positive)/P(x) and P(x | negative)/P(x) implied by calibrated scores."""
    return scores / prior, (1.0 - scores) / (1.0 - prior)


def prior_shift_weights(
    y_true: ArrayLike, *, to_prior: float, sample_weight: ArrayLike | None = None
) -> FloatArray:
    """Return row weights for estimating metrics at another prevalence.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; both must occur.
    to_prior : float in (0, 1)
        Target prevalence.
    sample_weight : array-like of shape (n,), optional
        Existing row weights, to be replaced by the result.

    Returns
    -------
    array of shape (n,)
        Weights with the same total as the existing weights (n by default); positives have a
        fraction ``to_prior`` of the total.

    Raises
    ------
    InvalidInputError
        If labels are not 0/1, the prior not strictly between 0 and 1, or weights invalid.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    Positives get ``to_prior/π̂`` and negatives ``(1−to_prior)/(1−π̂)``, where π̂ is the observed
    prevalence. TPR, FPR and ROC-AUC are unchanged; precision, PR-AUC, accuracy and calibration
    metrics change. For calibration metrics, also adjust the scores with `adjust_for_prior`.

    Examples
    --------
    >>> prior_shift_weights([1, 0, 1, 0], to_prior=0.1).round(4).tolist()
    [0.2, 1.8, 0.2, 1.8]
    """
    labels = validation.binary_labels(y_true)
    weights = validation.sample_weights(sample_weight, len(labels))
    prior = validation.fraction(to_prior, "to_prior")
    validation.both_classes(labels, "a prior shift", weights)
    mass = np.ones(len(labels)) if weights is None else weights
    observed = float(mass[labels].sum() / mass.sum())
    return mass * np.where(labels, prior / observed, (1.0 - prior) / (1.0 - observed))


def estimate_prior(y_score: ArrayLike, *, from_prior: float) -> float:
    """Estimate the prevalence in unlabelled data from calibrated scores.

    Parameters
    ----------
    y_score : array-like of shape (n,)
        Probabilities of the new, unlabelled rows, from a scorer calibrated at ``from_prior``.
    from_prior : float in (0, 1)
        Prevalence at which the scorer was calibrated.

    Returns
    -------
    float
        Maximum-likelihood estimate of the prevalence, in [0, 1].

    Raises
    ------
    InvalidInputError
        If scores are not finite in [0, 1] or the prior is not strictly between 0 and 1.
    UndefinedMetricError
        If every score equals ``from_prior``, since every prevalence is then equally likely.

    Notes
    -----
    The EM algorithm of Saerens et al. [1]_ maximises the log-likelihood
    ``Σ log(π·s/π₀ + (1−π)·(1−s)/(1−π₀))``, which is concave in π. Its derivative is decreasing, so
    bisection finds the same maximum, without the slow convergence of EM.

    References
    ----------
    .. [1] Saerens, Latinne & Decaestecker (2002), Neural Computation 14(1):21-41.

    Examples
    --------
    >>> round(estimate_prior([0.9, 0.1, 0.1, 0.1], from_prior=0.5), 4)
    0.1875
    """
    scores = probabilities(validation.vector(y_score, "y_score"))
    positive, negative = _density_ratios(scores, validation.fraction(from_prior, "from_prior"))
    gain = positive - negative
    if not gain.any():
        raise UndefinedMetricError(
            f"estimate_prior is undefined: every score equals `from_prior` ({from_prior}), so the "
            "scores do not separate the classes"
        )

    def likelihood_slope(prior: float) -> float:
        # A score of exactly 1 (or 0) makes the slope infinite at prior 0 (or 1), as it should.
        with np.errstate(divide="ignore"):
            return float(np.mean(gain / (prior * positive + (1.0 - prior) * negative)))

    return bisect(likelihood_slope, 0.0, 1.0)
