"""Calibration errors: gaps between predicted probabilities and observed frequencies."""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    bin_count,
    choice,
    integer,
    probability_pair,
    sample_weights,
)
from eval_toolkit.metrics.binning import (
    ReliabilityCurve,
    equal_mass_bins,
    equal_mass_cuts,
    equal_width_bins,
)
from eval_toolkit.metrics.smoothing import smooth_calibration_error
from eval_toolkit.seeds import SeedLike, resolve_seed

# Approximate number of label draws per block, to bound memory.
_DRAWS_AT_ONCE = 1 << 22


def _bins(
    y_true: ArrayLike,
    y_score: ArrayLike,
    n_bins: int,
    sample_weight: ArrayLike | None,
    strategy: str,
) -> ReliabilityCurve:
    n_bins = bin_count(n_bins)
    labels, scores = probability_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    bins = equal_mass_bins if strategy == "quantile" else equal_width_bins
    return bins(labels, scores, weights, n_bins)


def _over_bins(bins: ReliabilityCurve, values: FloatArray) -> float:
    """Return the weighted mean of ``values`` over bins, clipped to 1 to remove rounding errors."""
    return min(1.0, bins.average(values))


def expected_calibration_error(
    y_true: ArrayLike,
    y_score: ArrayLike,
    n_bins: int = 10,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the expected calibration error over bins of equal width.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of bins on [0, 1], at least 2; bin k is [k/n_bins, (k+1)/n_bins), and the last bin is
        closed.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        A value in [0, 1]; lower is better.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or ``n_bins`` < 2.

    Notes
    -----
    ``Σ_k n_k/n |p̄_k − ȳ_k|`` [1]_. It ignores discrimination: predicting the base rate for every
    row gives 0. Errors that cancel within a bin are not detected. The estimate is biased upwards,
    especially for small bins and widely spread scores; to compare scorers, use `brier_score` or
    `log_loss` instead. See also `expected_calibration_error_debiased` and `smooth_ece`.

    References
    ----------
    .. [1] Naeini, Cooper & Hauskrecht (2015), AAAI 29.

    Examples
    --------
    >>> round(expected_calibration_error([0, 0, 1, 1, 1], [0.25, 0.25, 0.55, 0.75, 0.75], 2), 4)
    0.29
    """
    bins = _bins(y_true, y_score, n_bins, sample_weight, "uniform")
    return _over_bins(bins, np.abs(bins.gaps))


def expected_calibration_error_equal_mass(
    y_true: ArrayLike,
    y_score: ArrayLike,
    n_bins: int = 10,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the expected calibration error over bins of equal mass.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of bins, at least 2 and at most n.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        A value in [0, 1]; lower is better.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or there are fewer rows than bins.

    Notes
    -----
    ``Σ_k n_k/n |p̄_k − ȳ_k|`` over the bins of `calibration_curve` with ``strategy="quantile"``:
    the sorted rows are cut at ``⌊k n / n_bins⌋``, and tied rows are divided evenly across a cut.

    Examples
    --------
    >>> round(expected_calibration_error_equal_mass([0, 1, 0, 1], [0.1, 0.2, 0.6, 0.9], 2), 4)
    0.3
    """
    bins = _bins(y_true, y_score, n_bins, sample_weight, "quantile")
    return _over_bins(bins, np.abs(bins.gaps))


def expected_calibration_error_l2(
    y_true: ArrayLike,
    y_score: ArrayLike,
    n_bins: int = 10,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the root mean squared calibration error over bins of equal mass.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of bins, at least 2 and at most n.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        A value in [0, 1]; lower is better.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or there are fewer rows than bins.

    Notes
    -----
    The plug-in estimate ``√(Σ_k n_k/n (p̄_k − ȳ_k)²)`` is inflated by sampling noise in ȳ_k; see
    `expected_calibration_error_l2_debiased`.

    Examples
    --------
    >>> p = [0.25, 0.25, 0.55, 0.75, 0.75]
    >>> round(expected_calibration_error_l2([0, 0, 1, 1, 1], p, 2), 4)
    0.2918
    """
    bins = _bins(y_true, y_score, n_bins, sample_weight, "quantile")
    return math.sqrt(_over_bins(bins, bins.gaps**2))


def expected_calibration_error_l2_debiased(
    y_true: ArrayLike, y_score: ArrayLike, n_bins: int = 10
) -> float:
    """Return the root mean squared calibration error, debiased for sampling noise.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of equal-mass bins, at least 2 and at most n.

    Returns
    -------
    float
        A value in [0, 1]; lower is better. 0 if sampling noise explains all gaps.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or there are fewer rows than bins.

    Notes
    -----
    ``√max(0, Σ_k n_k/n [(p̄_k − ȳ_k)² − ȳ_k (1 − ȳ_k) / (n_k − 1)])``, the estimator of [1]_: the
    subtracted term is the unbiased estimate of the variance of ȳ_k. Bins with a single row have no
    such estimate and are left uncorrected. Row weights are not supported, because the correction
    depends on the number of independent rows.

    References
    ----------
    .. [1] Kumar, Liang & Ma (2019), NeurIPS 32, section 5.

    Examples
    --------
    >>> y, p = [0, 1, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]
    >>> expected_calibration_error_l2_debiased(y, p, 2)
    0.0
    """
    bins = _bins(y_true, y_score, n_bins, None, "quantile")
    frequency = bins.fraction_positive
    variance = np.where(bins.n > 1.0, frequency * (1.0 - frequency), 0.0)
    noise = variance / np.maximum(bins.n - 1.0, 1.0)
    return math.sqrt(max(0.0, _over_bins(bins, bins.gaps**2 - noise)))


def expected_calibration_error_debiased(
    y_true: ArrayLike,
    y_score: ArrayLike,
    n_bins: int = 10,
    *,
    n_sweep: int = 200,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> float:
    """Return the equal-mass calibration error minus its expectation under perfect calibration.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of equal-mass bins, at least 2 and at most n.
    n_sweep : int, default 200
        Number of simulated label vectors, at least 10.
    seed, rng : int, SeedSequence, Generator or None
        Random seed or generator; give at most one of the two. By default 42.

    Returns
    -------
    float
        A value in [0, 1]; lower is better. 0 if chance explains all gaps.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], there are fewer rows than bins, or
        ``n_sweep`` < 10.

    Notes
    -----
    ``max(0, ECE(y, p) − mean_b ECE(y*_b, p))`` with labels y*_b drawn from Bernoulli(p); ECE is
    `expected_calibration_error_equal_mass`. Row weights are not supported, because a weight does
    not determine a number of independent labels.

    Examples
    --------
    >>> expected_calibration_error_debiased([0, 1] * 10, [0.5] * 20, 2)
    0.0
    """
    n_bins = bin_count(n_bins)
    n_sweep = integer(n_sweep, "n_sweep", low=10)
    labels, scores = probability_pair(y_true, y_score)
    bins = equal_mass_bins(labels, scores, None, n_bins)
    observed = _over_bins(bins, np.abs(bins.gaps))
    generator = np.random.default_rng(resolve_seed(seed, rng))
    ascending = np.sort(scores)
    cuts = equal_mass_cuts(len(scores), n_bins, whole_rows=True).astype(np.int64)
    at_once = max(1, _DRAWS_AT_ONCE // len(scores))
    simulated = 0.0
    for done in range(0, n_sweep, at_once):
        n_draws = min(at_once, n_sweep - done)
        draws = generator.random((n_draws, len(scores))) < ascending
        gaps = bins.mean_predicted - _positives_per_bin(draws, ascending, cuts) / bins.n
        simulated += float((np.abs(gaps) @ bins.n).sum()) / len(scores)
    return max(0.0, observed - simulated / n_sweep)


def _positives_per_bin(draws: BoolArray, ascending: FloatArray, cuts: IntArray) -> FloatArray:
    """Count the simulated positives between cuts; ties at a cut are split as in `binning`."""
    n = len(ascending)
    first_of_tie = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    boundaries = np.append(first_of_tie, n)
    tie = np.searchsorted(boundaries, cuts, side="right") - 1
    start, stop = boundaries[tie], boundaries[np.minimum(tie + 1, len(boundaries) - 1)]
    share = (cuts - start) / np.maximum(stop - start, 1)
    positions = np.union1d(start, stop)
    pieces = [np.count_nonzero(draws[:, left:right], axis=1) for left, right in pairwise(positions)]
    up_to = np.cumsum([np.zeros(len(draws)), *pieces], axis=0)
    up_to_start = up_to[np.searchsorted(positions, start)]
    up_to_stop = up_to[np.searchsorted(positions, stop)]
    up_to_cut = up_to_start + share[:, None] * (up_to_stop - up_to_start)
    per_bin: FloatArray = np.diff(up_to_cut, axis=0).T
    return per_bin


def maximum_calibration_error(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_bins: int = 10,
    strategy: str = "quantile",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the largest gap between mean prediction and observed frequency over the bins.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1; a single class is allowed.
    y_score : array-like of shape (n,)
        Predicted probabilities of the positive class, in [0, 1].
    n_bins : int, default 10
        Number of bins, at least 2.
    strategy : {"quantile", "uniform"}, default "quantile"
        Bins of equal mass or of equal width, as in `calibration_curve`.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        A value in [0, 1]; lower is better.

    Raises
    ------
    InvalidInputError
        If the data are invalid, a score is outside [0, 1], or there are fewer rows than
        equal-mass bins.

    Notes
    -----
    ``max_k |p̄_k − ȳ_k|`` over nonempty bins. Small bins are noisy, so with equal-width bins the
    maximum is mostly noise.

    Examples
    --------
    >>> p = [0.25, 0.25, 0.55, 0.75, 0.75]
    >>> round(maximum_calibration_error([0, 0, 1, 1, 1], p, n_bins=2), 4)
    0.3167
    """
    choice(strategy, "strategy", ("quantile", "uniform"))
    bins = _bins(y_true, y_score, n_bins, sample_weight, strategy)
    return float(np.abs(bins.gaps).max())


def smooth_ece(
    y_true: ArrayLike, y_score: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the smooth calibration error (smECE), with a kernel width equal to the error itself.

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
        A value in [0, 1]; lower is better.

    Raises
    ------
    InvalidInputError
        If the data are invalid or a score is outside [0, 1].

    Notes
    -----
    SmoothECE [1]_. For a width σ let ``smECE_σ = ∫₀¹ |mean_i (y_i − p_i) K_σ(t, p_i)| dt``, where
    K_σ is the Gaussian density of standard deviation σ reflected at 0 and 1. It decreases in σ; the
    returned value is the unique σ with ``smECE_σ = σ``. Unlike binned errors it is a continuous
    function of the predictions. It is computed on a grid of 2¹⁵ cells, with an error of about 1e-8.

    References
    ----------
    .. [1] Błasiok & Nakkiran (2024), Smooth ECE: Principled Reliability Diagrams via Kernel
       Smoothing, ICLR.

    Examples
    --------
    >>> round(smooth_ece([1, 1, 0, 0], [0.9, 0.6, 0.4, 0.1]), 4)
    0.1491
    """
    labels, scores = probability_pair(y_true, y_score)
    weights = sample_weights(sample_weight, len(labels))
    share = 1.0 / len(labels) if weights is None else weights / weights.sum()
    return smooth_calibration_error(scores, (labels - scores) * share)
