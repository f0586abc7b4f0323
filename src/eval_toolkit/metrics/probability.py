"""Proper scoring rules for predicted probabilities, and decompositions of the Brier score."""

from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.validation import (
    BoolArray,
    FloatArray,
    bin_count,
    choice,
    probability_pair,
    sample_weights,
)
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.metrics.cumulative import score_groups
from eval_toolkit.metrics.definedness import (
    EmptyStrategy,
    SkippedMetric,
    check_strategy,
    placeholder,
)
from eval_toolkit.metrics.isotonic import pav


def weighted_mean(values: FloatArray, weights: FloatArray | None) -> float:
    """Return the mean of ``values``, weighted if ``weights`` are given."""
    if weights is None:
        return float(values.mean())
    # Avoid `@`: with BLAS, the order of summation depends on the machine and its threads.
    return float((values * weights).sum()) / float(weights.sum())


@overload
def brier_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["raise"] = "raise",
) -> float: ...


@overload
def brier_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["return_none"],
) -> float | None: ...


@overload
def brier_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: Literal["skipped_metric"],
) -> float | SkippedMetric: ...


def brier_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    empty_strategy: EmptyStrategy = "raise",
) -> float | SkippedMetric | None:
    """Return the Brier score: the mean squared difference between probability and label.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    empty_strategy : {"raise", "return_none", "skipped_metric"}, default "raise"
        Behaviour for empty data; see `pr_auc`.

    Returns
    -------
    float
        A value in [0, 1]; lower is better.

    Raises
    ------
    InvalidInputError
        If the data are invalid or a score is outside [0, 1].

    Notes
    -----
    ``mean((p − y)²)`` [1]_; equal to ``sklearn.metrics.brier_score_loss`` to 1e-12.

    References
    ----------
    .. [1] Brier (1950), Monthly Weather Review 78(1):1-3.

    Examples
    --------
    >>> round(brier_score([0, 1, 1], [0.1, 0.8, 0.6]), 4)
    0.07
    """
    check_strategy(empty_strategy)
    try:
        labels, scores = probability_pair(y_true, y_score)
        weights = sample_weights(sample_weight, len(labels))
        return weighted_mean((scores - labels) ** 2, weights)
    except EvalToolkitError as error:
        return placeholder(empty_strategy, error, y_true, y_score, "brier_score")


def log_loss(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the mean negative log-likelihood of the labels.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        A value in [0, 36.05]; lower is better. Predicting 0.5 for every row gives ln 2 ≈ 0.693.

    Raises
    ------
    InvalidInputError
        If the data are invalid or a score is outside [0, 1].

    Notes
    -----
    ``−mean(y ln p + (1 − y) ln(1 − p))`` with probabilities clipped to [ε, 1 − ε], ε = 2⁻⁵², so
    a confident wrong prediction costs 36.04 instead of infinity. Equal to
    ``sklearn.metrics.log_loss`` to 1e-12.

    Examples
    --------
    >>> round(log_loss([0, 1, 1], [0.1, 0.8, 0.6]), 4)
    0.2798
    """
    labels, scores = probability_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    epsilon = np.finfo(np.float64).eps
    likelihood = np.clip(np.where(labels, scores, 1.0 - scores), epsilon, 1.0 - epsilon)
    return -weighted_mean(np.log(likelihood), weights)


def brier_decomposition(
    y_true: ArrayLike,
    y_score: ArrayLike,
    n_bins: int = 10,
    *,
    method: str = "binned",
    sample_weight: ArrayLike | None = None,
) -> dict[str, float]:
    """Decompose the Brier score into miscalibration, discrimination and uncertainty.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of equal-mass bins, at least 2; used by ``method="binned"`` only.
    method : {"binned", "corp"}, default "binned"
        Murphy's partition on equal-mass bins [1]_, or CORP [2]_, which recalibrates by isotonic
        regression and does not use bins.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    dict
        ``brier``, ``reliability`` (lower is better), ``resolution`` (higher is better) and
        ``uncertainty``. With "corp", also the same components under the names of [2]_: ``mcb``
        (miscalibration), ``dsc`` (discrimination) and ``unc``.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or there are fewer rows than bins.

    Notes
    -----
    Binned: with mean prediction p̄_k and frequency ȳ_k in bin k of n_k rows, reliability is ``Σ
    n_k/n (p̄_k − ȳ_k)²``, resolution ``Σ n_k/n (ȳ_k − ȳ)²``, uncertainty ``ȳ (1 − ȳ)``; ``brier =
    reliability − resolution + uncertainty`` holds up to the variance within bins. CORP: with S, S_C
    and S_R the Brier scores of the predictions, the isotonic fit and the base rate, ``mcb = S −
    S_C``, ``dsc = S_R − S_C``, ``unc = S_R``; the identity is exact.

    References
    ----------
    .. [1] Murphy (1973), Journal of Applied Meteorology 12(4):595-600.
    .. [2] Dimitriadis, Gneiting & Jordan (2021), PNAS 118(8):e2016191118.

    Examples
    --------
    >>> parts = brier_decomposition([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.8], method="corp")
    >>> round(parts["brier"], 3), round(parts["mcb"], 3), parts["dsc"], parts["unc"]
    (0.2, 0.075, 0.125, 0.25)
    """
    from eval_toolkit.metrics.binning import equal_mass_bins

    choice(method, "method", ("binned", "corp"))
    n_bins = bin_count(n_bins)
    labels, scores = probability_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    if method == "corp":
        parts = corp_decomposition(labels, scores, weights)
        return parts | {
            "mcb": parts["reliability"],
            "dsc": parts["resolution"],
            "unc": parts["uncertainty"],
        }
    bins = equal_mass_bins(labels, scores, weights, n_bins)
    base_rate = weighted_mean(labels.astype(np.float64), weights)
    return {
        "brier": weighted_mean((scores - labels) ** 2, weights),
        "reliability": bins.average(bins.gaps**2),
        "resolution": bins.average((bins.fraction_positive - base_rate) ** 2),
        "uncertainty": base_rate * (1.0 - base_rate),
    }


def corp_decomposition(
    labels: BoolArray, scores: FloatArray, weights: FloatArray | None
) -> dict[str, float]:
    """Return the CORP decomposition of the squared error; scores may be any real numbers."""
    groups = score_groups(labels, scores, weights)
    mass = np.diff(groups.tp + groups.fp, prepend=0.0)[::-1]
    frequency = np.diff(groups.tp, prepend=0.0)[::-1] / mass
    recalibrated = pav(frequency, mass)
    # Within a tie group the error is f (1 − f) plus the squared distance to f, so S, S_C and S_R
    # differ only through the group frequencies.
    share = mass / mass.sum()
    base_rate = float(share @ frequency)
    inside_groups = float(share @ (frequency * (1.0 - frequency)))
    recalibration_error = float(share @ (recalibrated - frequency) ** 2)
    brier = inside_groups + float(share @ (groups.thresholds[::-1] - frequency) ** 2)
    uncertainty = base_rate * (1.0 - base_rate)
    return {
        "brier": brier,
        "reliability": max(0.0, brier - inside_groups - recalibration_error),
        "resolution": max(0.0, uncertainty - inside_groups - recalibration_error),
        "uncertainty": uncertainty,
    }
