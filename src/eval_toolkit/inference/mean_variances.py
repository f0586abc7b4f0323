"""Variance of the mean of clustered values, with degrees of freedom."""

from dataclasses import dataclass

import numpy as np

from eval_toolkit._internal.validation import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class MeanVariance:
    """Variance of the mean of clustered units, with degrees of freedom.

    Examples
    --------
    >>> result = mean_variance(np.array([1.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 2]), 3)
    >>> round(result.cr2, 4), round(result.df, 2)
    (0.0417, 1.8)
    """

    mean: float
    totals: FloatArray
    """Sum of the values of each cluster."""
    sizes: FloatArray
    spread: float
    """Variance of the units about the mean, divided by n."""
    cr2: float
    """CR2 estimate; unbiased if units are independent."""
    variance: float
    """Larger of the model variance and CR2, scaled to be unbiased at the estimated correlation."""
    df: float
    """Degrees of freedom of CR2 (Bell and McCaffrey): effective number of clusters minus one."""


def mean_variance(values: FloatArray, codes: IntArray | None, n_groups: int) -> MeanVariance:
    """Return the CR2 variance of a mean with Satterthwaite's degrees of freedom, in O(n).

    ``codes`` are the clusters, at least two, numbered from 0; None if units are independent.

    Notes
    -----
    With S_g the sum of the residuals of cluster g and w_g its fraction of the units, CR2 is ``Σ
    S_g² / (1 − w_g) / n²`` [1]_, [2]_. Its degrees of freedom are derived for independent units
    with equal variances. If units are correlated and clusters differ in size, both are biased. The
    variance is therefore multiplied by the ratio of the true variance to the expected CR2 at the
    ANOVA estimate of the correlation ρ, and is at least ``s² Σ_g (n_g (1 − ρ) + ρ n_g²) / n²``, the
    variance of equally correlated units.

    References
    ----------
    .. [1] Bell & McCaffrey (2002), Survey Methodology 28(2):169-181.
    .. [2] Pustejovsky & Tipton (2018), J. Business & Economic Statistics 36(4):672-683.

    Examples
    --------
    >>> result = mean_variance(np.array([1.0, 2.0, 3.0]), None, 3)
    >>> round(result.variance, 4), result.df  # s² / n and n − 1
    (0.3333, 2.0)
    """
    n = len(values)
    mean = float(values.mean())
    squares = float(((values - mean) ** 2).sum())
    spread = squares / n
    if codes is None or n_groups == n:
        variance = squares / (n - 1) / n
        return MeanVariance(mean, values, np.ones(n), spread, variance, variance, float(n - 1))
    sizes = np.bincount(codes, minlength=n_groups).astype(np.float64)
    residual = np.bincount(codes, values - mean, n_groups).astype(np.float64)
    correlation = _intraclass(residual, sizes, squares)
    shares = sizes / n
    # Under the working model, with M the matrix of the quadratic form, tr M and tr M².
    raw = float((residual**2 / (1.0 - shares)).sum()) / n**2
    df = _quadratic_form(sizes, sizes)[1]
    correlated = sizes * (1.0 - correlation) + correlation * sizes**2
    scale = float(correlated.sum()) / _quadratic_form(sizes, correlated)[0]
    model = squares / (n - 1) * float(correlated.sum()) / n**2
    totals = residual + sizes * mean
    return MeanVariance(mean, totals, sizes, spread, raw, max(raw * scale, model), df)


def _intraclass(residual: FloatArray, sizes: FloatArray, squares: float) -> float:
    """Return the ANOVA estimate of the intra-class correlation, inside [0, 1]."""
    n, n_groups = float(sizes.sum()), len(sizes)
    between = float((residual**2 / sizes).sum())
    among = between / (n_groups - 1)
    within = max(squares - between, 0.0) / (n - n_groups)
    typical = (n - float((sizes**2).sum()) / n) / (n_groups - 1)
    total = among + (typical - 1.0) * within
    return min(1.0, max(0.0, (among - within) / total)) if total > 0.0 else 0.0


def _quadratic_form(sizes: FloatArray, variances: FloatArray) -> tuple[float, float]:
    """Return the expectation and degrees of freedom of n² CR2 for the given cluster variances.

    The clusters' adjusted residual sums have the covariance
    ``diag(c) − a bᵀ − b aᵀ + v a aᵀ`` with d = 1/√(1 − w), a = d w, b = d v_g, c = d² v_g.
    """
    shares = sizes / sizes.sum()
    adjusted = 1.0 / np.sqrt(1.0 - shares)
    a, b, c = adjusted * shares, adjusted * variances, adjusted**2 * variances
    total = float(variances.sum())
    half = total * a / 2.0 - b  # the covariance is diag(c) + a halfᵀ + half aᵀ
    trace = float(c.sum() + 2.0 * (a @ half))
    squared = float(c @ c + 4.0 * (c @ (a * half)) + 2.0 * (a @ half) ** 2)
    return trace, trace**2 / (squared + 2.0 * float((a @ a) * (half @ half)))
