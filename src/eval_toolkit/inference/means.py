"""Means and paired mean differences, with standard errors."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.distributions import critical_value, negligible
from eval_toolkit.inference.mean_intervals import UNBOUNDED, mean_interval, mean_pivot
from eval_toolkit.inference.mean_variances import mean_variance
from eval_toolkit.inference.paired_proportions import paired_share
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI, Interval, in_own_order


@dataclass(frozen=True, slots=True)
class MeanSE(Displayed):
    """Mean and standard error.

    Examples
    --------
    >>> MeanSE(0.8, 0.04, 100, None, "clt").to_dict()["se"]
    0.04
    """

    mean: float
    se: float
    n_units: int
    n_groups: int | None
    """Number of clusters; None if units are independent."""
    method: str
    """"clt" or "cluster-robust"."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "mean": self.mean,
            "se": self.se,
            "n_units": self.n_units,
            "n_groups": self.n_groups,
            "method": self.method,
        }


@in_own_order
@dataclass(frozen=True, kw_only=True, repr=False)
class PairedMeanResult(Interval[float | None]):
    """Mean difference B − A on the same units, with test and interval.

    Examples
    --------
    >>> paired_mean_diff([0, 1, 0, 1], [1, 1, 0, 1]).delta
    0.25
    """

    delta: float
    """mean(B) − mean(A)."""
    se: float
    ci_low: float | None
    """Lower bound; None if there is no reliable interval (see ``reason``)."""
    ci_high: float | None
    t: float | None
    """t statistic, ``delta / se``; None if there is no interval."""
    p_value: float | None
    """Two-sided p-value for "no difference"; at most 1 − confidence iff the interval excludes 0."""
    correlation: float | None
    """Correlation of A and B over units; None if one of them is constant."""
    n_units: int
    n_groups: int | None
    method: str
    """As in `mean_interval` with the prefix "paired "; "tango" for independent proportions."""
    confidence: float
    df: float
    """Degrees of freedom; with groups, the effective number of groups minus one."""
    mean_a: float
    mean_b: float
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = (
            *("delta", "se", "ci_low", "ci_high", "t", "p_value", "correlation", "n_units"),
            *("n_groups", "method", "confidence", "df", "mean_a", "mean_b"),
        )
        return self._plain(names)


def mean_se(values: ArrayLike, *, groups: ArrayLike | None = None) -> MeanSE:
    """Return the mean and its standard error, cluster-robust for grouped units.

    Parameters
    ----------
    values : array-like of shape (n,)
        One value per unit; repeated attempts at a unit must be averaged first.
    groups : array-like of shape (n,), optional
        Group of each unit, e.g. questions on the same passage or translations of the same item.

    Returns
    -------
    MeanSE
        Mean, standard error, and numbers of units and clusters.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length.
    UndefinedMetricError
        If there are fewer than two units, or fewer than two clusters.

    Notes
    -----
    ``sd / √n`` with divisor n − 1 or, with groups, the CR2 estimator [1]_, which is unbiased for
    clusters of any size if units are independent. Both agree for clusters with a single unit.
    The formula of [2]_ includes the cross terms within clusters but no small-sample factor, so it
    underestimates the standard error if there are few clusters.

    References
    ----------
    .. [1] Bell & McCaffrey (2002), Survey Methodology 28(2):169-181.
    .. [2] Miller (2024), Adding error bars to evals, arXiv:2411.00640.

    Examples
    --------
    >>> result = mean_se([1, 1, 0, 1])
    >>> result.mean, result.se
    (0.75, 0.25)
    >>> mean_se([1, 1, 0, 0], groups=["a", "a", "b", "b"]).se
    0.5
    """
    x = _at_least_two(validation.vector(values, "values"), "values")
    mean = float(x.mean())
    if groups is None:
        return MeanSE(mean, float(x.std(ddof=1)) / math.sqrt(len(x)), len(x), None, "clt")
    codes, n_groups = validation.group_codes(groups, len(x))
    if n_groups < 2:
        raise UndefinedMetricError(
            "a cluster-robust standard error is undefined: `groups` has only one cluster; "
            "at least two are needed"
        )
    se = math.sqrt(mean_variance(x, codes, n_groups).cr2)
    return MeanSE(mean, se, len(x), n_groups, "cluster-robust")


def t_interval(
    values: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> BootstrapCI:
    """Return Student's t interval for a mean, without resampling.

    Parameters
    ----------
    values : array-like of shape (n,)
        One number per unit.
    groups : array-like of shape (n,), optional
        Cluster of each unit. With groups, `mean_interval` is used, which accounts for few and
        unequal clusters; values that are all 0 or 1 are treated as a proportion.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    BootstrapCI
        ``n_resamples`` is 0; ``method`` is "t" or, with groups, as in `mean_interval`.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length.
    UndefinedMetricError
        If there are fewer than two units, or fewer than two clusters, or all values are equal, so
        their variance is unknown.

    Notes
    -----
    ``mean ± t_{n−1} s / √n``; exact for normal values. Use `mean_interval` (the default of
    scorecards) for skewed or bounded values, and `wilson_interval` for 0/1 values.

    References
    ----------
    .. [1] Student (1908), Biometrika 6(1):1-25.

    Examples
    --------
    >>> f"{t_interval([0.8, 0.7, 0.9, 0.8]):.3f}"
    '0.800 [0.670, 0.930]'
    """
    level = validation.fraction(confidence, "confidence")
    x = validation.vector(values, "values")
    summary = mean_se(x, groups=groups)
    if groups is not None:
        return mean_interval(x, groups=groups, share=_yes_and_no(x), confidence=level)
    if negligible(summary.se, float(np.abs(x).max())):
        raise UndefinedMetricError("a t interval is undefined: zero variance, all values are equal")
    reach = critical_value(level, len(x) - 1) * summary.se
    low, high = summary.mean - reach, summary.mean + reach
    return BootstrapCI(summary.mean, low, high, level, 0, "t", n_units=len(x))


def paired_mean_diff(
    a: ArrayLike,
    b: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    bounds: tuple[float, float] = UNBOUNDED,
    share: bool | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> PairedMeanResult:
    """Compare two means on the same units by an interval for their difference B − A.

    Parameters
    ----------
    a, b : array-like of shape (n,)
        Values of A and B for the same units in the same order, 0/1 or real.
    groups : array-like of shape (n,), optional
        Cluster of each unit; units in the same cluster are not independent.
    bounds : tuple of float
        Smallest and largest possible value of A and of B, if known.
    share : bool, optional
        Whether values are binary: 1 for yes and 0 for no. By default True if both 0 and 1 and no
        other values occur, unless ``bounds`` specify another range.
    confidence : float, default 0.95
        Two-sided confidence level of the interval for the difference.

    Returns
    -------
    PairedMeanResult
        Difference, standard error, interval, p-value, and the correlation between A and B. The
        p-value is at most ``1 − confidence`` iff the interval excludes 0.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, or a proportion has values other than
        0 and 1.
    UndefinedMetricError
        If there are fewer than two units, or fewer than two clusters.

    Notes
    -----
    The standard error is computed from the unit differences, so variation common to A and B
    cancels: ``var(b̄ − ā) = var(ā) + var(b̄) − 2 cov(ā, b̄)`` [1]_. With groups it is
    cluster-robust. The interval is the `mean_interval` of the differences, whose bounds are plus
    and minus the range of the values. Proportions of independent units use Tango's interval and
    McNemar's score test (`tango_interval`), and so do grouped proportions if all differences are
    equal; each group then counts as one unit.

    References
    ----------
    .. [1] Miller (2024), Adding error bars to evals, arXiv:2411.00640, section 4.

    Examples
    --------
    >>> a, b = [0.2, 0.5, 0.1, 0.7, 0.3, 0.6], [0.4, 0.6, 0.2, 0.9, 0.3, 0.8]
    >>> result = paired_mean_diff(a, b)
    >>> round(result.delta, 2), round(result.se, 3), round(result.p_value, 3)
    (0.13, 0.033, 0.096)
    """
    first, second = validation.vector(a, "a"), validation.vector(b, "b")
    validation.same_length(first, second, ("a", "b"))
    level = validation.fraction(confidence, "confidence")
    _at_least_two(first, "a")
    share, bounds = _as_share(np.concatenate([first, second]), share, bounds)
    summary = mean_se(second - first, groups=groups)
    scale = float(max(np.abs(first).max(), np.abs(second).max()))
    flat = negligible(summary.se, scale)
    df, reason, found = (summary.n_groups or summary.n_units) - 1.0, "", None
    try:
        if share and (groups is None or np.ptp(second - first) == 0.0):
            found = _tango(first, second, groups, level)
        else:
            found, df = _mean_difference(second - first, groups, bounds, scale, level)
    except UndefinedMetricError as error:
        reason = str(error)
    low, high, p_value, method = found or (None, None, None, "")
    return PairedMeanResult(
        delta=summary.mean,
        se=0.0 if flat else summary.se,
        ci_low=low,
        ci_high=high,
        t=None if found is None or flat else summary.mean / summary.se,
        p_value=p_value,
        correlation=_correlation(first, second),
        n_units=summary.n_units,
        n_groups=summary.n_groups,
        method=method,
        confidence=level,
        df=df,
        mean_a=float(first.mean()),
        mean_b=float(second.mean()),
        reason=reason,
    )


_Found = tuple[float, float, float, str]
"""Lower bound, upper bound, p-value and method."""


def _as_share(
    values: FloatArray, share: bool | None, bounds: tuple[float, float]
) -> tuple[bool, tuple[float, float]]:
    """Return whether values are binary, and their bounds."""
    if share is None:
        share = bounds in (UNBOUNDED, (0.0, 1.0)) and _yes_and_no(values)
    elif share and not np.isin(values, (0.0, 1.0)).all():
        other = values[~np.isin(values, (0.0, 1.0))][0]
        raise InvalidInputError(f"`share` is True, but a value is {other:g}; it must be 0 or 1")
    return share, (0.0, 1.0) if share else bounds


def _tango(a: FloatArray, b: FloatArray, groups: ArrayLike | None, confidence: float) -> _Found:
    """Return Tango's interval; if all differences are equal, each group counts as one unit."""
    if groups is None:
        return *paired_share(a == 1.0, b == 1.0, confidence), "tango"
    first = np.unique(np.asarray(groups), return_index=True)[1]
    return *paired_share(a[first] == 1.0, b[first] == 1.0, confidence), "tango, groups"


def _mean_difference(
    differences: FloatArray,
    groups: ArrayLike | None,
    bounds: tuple[float, float],
    scale: float,
    confidence: float,
) -> tuple[_Found, float]:
    """Return the interval, the p-value and the degrees of freedom of a mean difference."""
    if not all(map(math.isfinite, bounds)) and negligible(float(np.ptp(differences)), scale):
        raise UndefinedMetricError("zero variance: all differences are equal")
    reach = bounds[1] - bounds[0]
    pivot = mean_pivot(differences, groups=groups, bounds=(-reach, reach))
    ends = pivot.interval(confidence)
    return (ends.ci_low, ends.ci_high, pivot.p_value(), f"paired {pivot.method}"), pivot.df


def _at_least_two(values: FloatArray, name: str) -> FloatArray:
    if len(values) < 2:
        raise UndefinedMetricError(
            f"a standard error is undefined: `{name}` has one value; it needs at least two"
        )
    return values


def _yes_and_no(values: FloatArray) -> bool:
    """Return whether both 0 and 1 occur, and no other values."""
    return bool(np.isin(values, (0.0, 1.0)).all()) and float(np.ptp(values)) == 1.0


def _correlation(a: FloatArray, b: FloatArray) -> float | None:
    if any(negligible(float(x.std()), float(np.abs(x).max())) for x in (a, b)):
        return None
    return min(1.0, max(-1.0, float(np.corrcoef(a, b)[0, 1])))
