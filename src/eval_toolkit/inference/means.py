"""Means with standard errors: one set of values, or two on the same units, clustered or not."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import _validate
from eval_toolkit._display import Displayed
from eval_toolkit._validate import FloatArray
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference._distributions import critical_value, negligible, upper_tail
from eval_toolkit.inference.clustered import cluster_robust_se
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI

__all__ = ["MeanSE", "PairedMeanResult", "mean_se", "paired_mean_diff", "t_interval"]


@dataclass(frozen=True, slots=True)
class MeanSE(Displayed):
    """A mean and its standard error.

    Examples
    --------
    >>> MeanSE(0.8, 0.04, 100, None, "clt").to_dict()["se"]
    0.04
    """

    mean: float
    se: float
    n_units: int
    n_groups: int | None
    """Number of clusters; None when every unit stands for itself."""
    method: str
    """"clt" or "cluster-robust"."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "mean": self.mean,
            "se": self.se,
            "n_units": self.n_units,
            "n_groups": self.n_groups,
            "method": self.method,
        }


@dataclass(frozen=True, slots=True)
class PairedMeanResult(Displayed):
    """The mean difference B − A on the same units, with its test and interval.

    Examples
    --------
    >>> paired_mean_diff([0, 1, 0, 1], [1, 1, 0, 1]).delta
    0.25
    """

    delta: float
    """mean(B) − mean(A)."""
    se: float
    ci_low: float
    ci_high: float
    t: float | None
    """None when the differences do not vary; ``reason`` says so."""
    p_value: float | None
    """Two-sided, of "no difference"."""
    correlation: float | None
    """Correlation of A and B over units: what pairing gains. None when one of them is constant."""
    n_units: int
    n_groups: int | None
    method: str
    """"paired-t" or "paired-t-clustered"."""
    confidence: float
    df: int
    mean_a: float
    mean_b: float
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        names = (
            *("delta", "se", "ci_low", "ci_high", "t", "p_value", "correlation", "n_units"),
            *("n_groups", "method", "confidence", "df", "mean_a", "mean_b"),
        )
        payload = {name: getattr(self, name) for name in names}
        return payload | ({"reason": self.reason} if self.reason else {})


def mean_se(values: ArrayLike, *, groups: ArrayLike | None = None) -> MeanSE:
    """Mean of 0/1 or real values with its standard error, cluster-robust when units come in groups.

    Parameters
    ----------
    values : array-like of shape (n,)
        One number per unit (average repeated attempts at a unit first).
    groups : array-like of shape (n,), optional
        Units that are not independent: questions on one passage, translations of one item.

    Returns
    -------
    MeanSE
        Mean, standard error, and how many units and clusters it rests on.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and equally long.
    UndefinedMetricError
        If there are fewer than two units, or fewer than two clusters.

    Notes
    -----
    ``sd / √n`` with the n − 1 divisor, or with groups the CR1 estimator of `cluster_robust_se`.
    The two agree for clusters of one. Reference [1]_ adds the cross terms within clusters to
    the former without the factor G/(G−1), which is too small when clusters are few.

    References
    ----------
    .. [1] Miller (2024), Adding error bars to evals, arXiv:2411.00640.

    Examples
    --------
    >>> result = mean_se([1, 1, 0, 1])
    >>> result.mean, result.se
    (0.75, 0.25)
    >>> mean_se([1, 1, 0, 0], groups=["a", "a", "b", "b"]).se
    0.5
    """
    x = _at_least_two(_validate.vector(values, "values"), "values")
    mean = float(x.mean())
    if groups is None:
        return MeanSE(mean, float(x.std(ddof=1)) / math.sqrt(len(x)), len(x), None, "clt")
    _, n_groups = _validate.group_codes(groups, len(x))
    return MeanSE(mean, cluster_robust_se(x, groups), len(x), n_groups, "cluster-robust")


def t_interval(
    values: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> BootstrapCI:
    """Student's interval of a mean; no resampling.

    Parameters
    ----------
    values : array-like of shape (n,)
        One number per unit.
    groups : array-like of shape (n,), optional
        Clusters; the standard error is then cluster-robust with one degree of freedom less than
        there are clusters.
    confidence : float, default 0.95
        Two-sided confidence.

    Returns
    -------
    BootstrapCI
        ``n_resamples`` is 0, ``method`` "t" or "t-clustered". Values without spread give
        [mean, mean] and a reason.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and equally long.
    UndefinedMetricError
        If there are fewer than two units, or fewer than two clusters.

    Notes
    -----
    ``mean ± t_{df} SE``; exact for normal values, and for 0/1 values less accurate than
    `wilson_interval` when the mean is near 0 or 1.

    References
    ----------
    .. [1] Student (1908), Biometrika 6(1):1-25.

    Examples
    --------
    >>> f"{t_interval([0.8, 0.7, 0.9, 0.8]):.3f}"
    '0.800 [0.670, 0.930]'
    """
    level = _validate.fraction(confidence, "confidence")
    x = _validate.vector(values, "values")
    summary = mean_se(x, groups=groups)
    df = (summary.n_groups or summary.n_units) - 1
    flat = negligible(summary.se, float(np.abs(x).max()))
    reach = 0.0 if flat else critical_value(level, df) * summary.se
    return BootstrapCI(
        summary.mean,
        summary.mean - reach,
        summary.mean + reach,
        level,
        0,
        "t" if groups is None else "t-clustered",
        reason=_no_spread("values", groups) if flat else "",
        n_units=summary.n_units,
        n_groups=summary.n_groups,
    )


def paired_mean_diff(
    a: ArrayLike,
    b: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> PairedMeanResult:
    """Compare two means on the same units, B − A, by the paired (clustered) t test.

    Parameters
    ----------
    a, b : array-like of shape (n,)
        Values of A and B for the same units in the same order, 0/1 or real.
    groups : array-like of shape (n,), optional
        Clusters of units that are not independent.
    confidence : float, default 0.95
        Two-sided confidence of the interval of the difference.

    Returns
    -------
    PairedMeanResult
        Difference, standard error, interval, t test, and the correlation between A and B.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and equally long.
    UndefinedMetricError
        If there are fewer than two units, or fewer than two clusters.

    Notes
    -----
    The standard error of the unit differences, so that what A and B have in common cancels:
    ``var(b̄ − ā) = var(ā) + var(b̄) − 2 cov(ā, b̄)`` [1]_. With groups it is cluster-robust.

    References
    ----------
    .. [1] Miller (2024), Adding error bars to evals, arXiv:2411.00640, section 4.

    Examples
    --------
    >>> result = paired_mean_diff([0, 1, 0, 1, 0], [1, 1, 0, 1, 1])
    >>> round(result.delta, 2), round(result.se, 3), round(result.p_value, 3)
    (0.4, 0.245, 0.178)
    """
    first, second = _validate.vector(a, "a"), _validate.vector(b, "b")
    _validate.same_length(first, second, ("a", "b"))
    level = _validate.fraction(confidence, "confidence")
    _at_least_two(first, "a")
    summary = mean_se(second - first, groups=groups)
    df = (summary.n_groups or summary.n_units) - 1
    flat = negligible(summary.se, float(max(np.abs(first).max(), np.abs(second).max())))
    reach = 0.0 if flat else critical_value(level, df) * summary.se
    t = None if flat else summary.mean / summary.se
    return PairedMeanResult(
        delta=summary.mean,
        se=0.0 if flat else summary.se,
        ci_low=summary.mean - reach,
        ci_high=summary.mean + reach,
        t=t,
        p_value=None if t is None else 2.0 * upper_tail(abs(t), df),
        correlation=_correlation(first, second),
        n_units=summary.n_units,
        n_groups=summary.n_groups,
        method="paired-t" if groups is None else "paired-t-clustered",
        confidence=level,
        df=df,
        mean_a=float(first.mean()),
        mean_b=float(second.mean()),
        reason=_no_spread("differences", groups) if flat else "",
    )


def _at_least_two(values: FloatArray, name: str) -> FloatArray:
    if len(values) < 2:
        raise UndefinedMetricError(
            f"a standard error is undefined: `{name}` has one value; it needs at least two"
        )
    return values


def _no_spread(what: str, groups: ArrayLike | None) -> str:
    return f"zero spread: all {what} are equal" + ("" if groups is None else " between clusters")


def _correlation(a: FloatArray, b: FloatArray) -> float | None:
    if any(negligible(float(x.std()), float(np.abs(x).max())) for x in (a, b)):
        return None
    return min(1.0, max(-1.0, float(np.corrcoef(a, b)[0, 1])))
