"""Default intervals for proportions and for means of bounded or unbounded values.

All intervals for means are computed here, so the same column always gets the same interval.
ADR 0018 documents the formulas, their sources and alternatives.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.distributions import critical_value, negligible, upper_tail
from eval_toolkit.inference.mean_variances import MeanVariance, mean_variance
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI

UNBOUNDED = (-math.inf, math.inf)

MIN_GROUPS = 3
"""Minimum number of groups."""

MIN_NUMBERS = 4
"""Minimum effective number of units for unbounded values."""

MAX_SKEW = 0.8
"""Maximum |skewness| / √n; it is 1 if one value differs from n − 1 equal ones, 0.71 if two do."""

_SKEW_FACTOR = 1.25
"""Factor that corrects the downward bias of sample skewness, from simulations (ADR 0018)."""

_PSEUDO_GROUP = 0.3
"""Size of the pseudo-group at the bound in the design effect, in groups (ADR 0018)."""

_MAX_ATOMS = 4096
"""Number of clusters above which they are merged into bins, preserving the variance."""

_CERTAIN = 1e6
"""Finite substitute for an infinite deviate, if no weights can reach the hypothetical mean."""

_Pivot = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class MeanPivot:
    """Mean with the pivotal statistic that determines its interval.

    Examples
    --------
    >>> result = mean_pivot([0.2, 0.4, 0.9, 0.4, 0.1], bounds=(0.0, 1.0))
    >>> result.mean, result.df, result.pivot(0.4)
    (0.4, 4.0, 0.0)
    """

    mean: float
    se: float
    df: float
    n_units: int
    n_groups: int
    method: str
    pivot: _Pivot
    """Test statistic for a hypothetical mean; follows Student's t with ``df`` under the null."""
    ends: Callable[[float], tuple[float, float]]
    """Function that returns the interval for a critical value of the statistic."""

    def interval(self, confidence: float) -> BootstrapCI:
        """Return the interval at the given confidence level."""
        low, high = self.ends(critical_value(confidence, self.df))
        return BootstrapCI(
            self.mean,
            low,
            high,
            confidence,
            0,
            self.method,
            n_units=self.n_units,
            n_groups=self.n_groups,
        )

    def p_value(self, null: float = 0.0) -> float:
        """Return the two-sided p-value for a hypothetical mean, consistent with the interval."""
        return min(1.0, 2.0 * upper_tail(abs(self.pivot(null)), self.df))


def mean_interval(
    values: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    bounds: tuple[float, float] = UNBOUNDED,
    share: bool = False,
    confidence: float = DEFAULT_CONFIDENCE,
) -> BootstrapCI:
    """Return the default confidence interval for a mean, as used by scorecards.

    Parameters
    ----------
    values : array-like of shape (n,)
        One number per unit.
    groups : array-like of shape (n,), optional
        Group of each unit; units in the same group are not independent.
    bounds : tuple of float
        Smallest and largest possible value, if known.
    share : bool, default False
        Whether the values are binary, i.e. can only be 0 or 1.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    BootstrapCI
        Interval computed without resampling. ``method`` is "wilson" for proportions, "gaffke" for
        values with two finite bounds and "skewness-corrected t" for others, with the suffix ",
        groups" if there are groups.

    Raises
    ------
    InvalidInputError
        If the arrays are invalid, or ``share`` is True and a value is neither 0 nor 1.
    UndefinedMetricError
        If there is no reliable interval; the message gives the reason. Proportions with groups need
        at least three groups, and bounded values three units or groups. Other values need at least
        four effective units, more than one distinct value, and no single value that accounts for
        nearly all of the variance.

    Notes
    -----
    *Proportions*: the Wilson interval as corrected by `score_interval`; with groups, for the
    effective number of units [1]_. *Bounded values*: the mean of the sample and one pseudo-value at
    the bound, under random weights [2]_ [3]_, which allows for unseen values even if all observed
    values are equal; the bounds are computed by a saddlepoint approximation. *Other values*:
    Student's t interval, widened if the sample is skewed [4]_ [5]_. With groups, the variance is
    CR2 with Bell-McCaffrey degrees of freedom (`mean_variance`).

    References
    ----------
    .. [1] Korn & Graubard (1998), Survey Methodology 24(2):193-201.
    .. [2] Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean
       of a nonnegative variable, Mathematical Methods of Statistics 14(4):451-467.
    .. [3] Learned-Miller & Thomas (2019), A new confidence interval for the mean of a bounded
       random variable, arXiv:1905.06208.
    .. [4] Hall (1992), JRSS B 54(1):221-228.
    .. [5] Willink (2005), Communications in Statistics: Theory and Methods 34(4):753-766.

    Examples
    --------
    >>> f"{mean_interval([1] * 30, share=True):.3f}"
    '1.000 [0.886, 1.000]'
    >>> f"{mean_interval([5.0] * 11 + [4.0], bounds=(1.0, 5.0)):.2f}"
    '4.92 [3.69, 5.00]'
    >>> mean_interval([1.0] * 12)
    Traceback (most recent call last):
    eval_toolkit.errors.UndefinedMetricError: no interval: all 12 values are 1 and ...
    """
    level = validation.fraction(confidence, "confidence")
    if not share:
        return mean_pivot(values, groups=groups, bounds=bounds).interval(level)
    x = validation.vector(values, "values")
    if not np.isin(x, (0.0, 1.0)).all():
        row = int(np.argmin(np.isin(x, (0.0, 1.0))))
        raise InvalidInputError(f"values[{row}] is {x[row]:g}; with `share` it must be 0 or 1")
    codes, n_groups = _codes(groups, len(x))
    if codes is not None:
        _enough(n_groups, "groups")
    low, high = share_ends(x, codes, n_groups, level)
    method = "wilson" if codes is None else "wilson, groups"
    return BootstrapCI(
        float(x.mean()), low, high, level, 0, method, n_units=len(x), n_groups=n_groups
    )


def share_ends(
    values: FloatArray, codes: IntArray | None, n_groups: int, confidence: float
) -> tuple[float, float]:
    """Return the interval for the proportion of 1s, and the effective number of units.

    ``codes`` are the groups, at least two, numbered from 0; None if units are independent.

    Notes
    -----
    Korn and Graubard's effective number of units is n over the design effect, times (z/t)². Here, a
    fraction of an all-wrong group (for the lower bound) or an all-correct group (for the upper
    bound) is added to the design effect, because few failures in few groups do not show whether
    failures cluster. If all units are equal, every group counts as one unit.

    If group means depend on group sizes (test at 5 % on the log sizes), a few large groups
    dominate, and samples tend to lack the largest. The interval is then extended to include the
    skewness-corrected interval (`mean_interval` for numbers).

    Examples
    --------
    >>> low, high = share_ends(np.ones(40), np.arange(4).repeat(10), 4, 0.95)
    >>> round(low, 2), high  # four unanimous groups count as four units
    (0.51, 1.0)
    """
    share = float(values.mean())
    worth = effective_trials(values, codes, n_groups, confidence)
    low, _ = score_interval(share, worth[0], confidence=confidence)
    _, high = score_interval(share, worth[1], confidence=confidence)
    if codes is None or n_groups == len(values):
        return low, high
    found = mean_variance(values, codes, n_groups)
    if not _goes_with_size(found):
        return low, high
    try:
        ends = _skewed(found)[1](critical_value(confidence, found.df))
    except UndefinedMetricError:  # too few groups
        return low, high
    return max(0.0, min(low, ends[0])), min(1.0, max(high, ends[1]))


def _wider(
    pivot: _Pivot, ends: Callable[[float], tuple[float, float]], found: MeanVariance
) -> tuple[_Pivot, Callable[[float], tuple[float, float]]]:
    """Return a statistic whose interval includes the skewness-corrected one, and its inverse."""
    try:
        other, other_ends = _skewed(found)
    except UndefinedMetricError:  # too few groups
        return pivot, ends

    def least(mean: float) -> float:
        return min(pivot(mean), other(mean), key=abs)

    def both(critical: float) -> tuple[float, float]:
        first, second = ends(critical), other_ends(critical)
        return min(first[0], second[0]), max(first[1], second[1])

    return least, both


def _goes_with_size(found: MeanVariance) -> bool:
    """Return whether group means correlate with group sizes, by a t test at 5 %."""
    sizes, means = np.log(found.sizes), found.totals / found.sizes
    n = len(sizes)
    if n < MIN_NUMBERS or min(float(sizes.std()), float(means.std())) <= 1e-9:
        return False
    r = float(np.corrcoef(sizes, means)[0, 1])
    return abs(r) * math.sqrt(n - 2.0) > critical_value(0.95, n - 2.0) * math.sqrt(
        max(0.0, 1.0 - r * r)
    )


def effective_trials(
    values: FloatArray, codes: IntArray | None, n_groups: int, confidence: float
) -> tuple[float, float]:
    """Return the effective number of independent 0/1 values for the lower and the upper bound.

    Takes the arguments of `share_ends`; the results are positive and at most n.

    Examples
    --------
    >>> round(effective_trials(np.ones(40), np.arange(4).repeat(10), 4, 0.95)[0], 1)
    4.0
    """
    n = len(values)
    if codes is None or n_groups == n:
        return float(n), float(n)
    found = mean_variance(values, codes, n_groups)
    sure = (critical_value(confidence) / critical_value(confidence, found.df)) ** 2
    if found.spread == 0.0:  # no estimated variance, hence no uncertainty about it
        sure = 1.0
    below, above = (min(1.0, sure / _design_effect(found, bound)) * n for bound in (0.0, 1.0))
    return below, above


def mean_pivot(
    values: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    bounds: tuple[float, float] = UNBOUNDED,
) -> MeanPivot:
    """Return the pivotal statistic for intervals and tests of a mean.

    Takes the arguments of `mean_interval`. Interval and p-value are consistent by construction.

    Examples
    --------
    >>> result = mean_pivot([0.1, 0.2, -0.1, 0.3, 0.2, 0.1, 0.4, 0.0])
    >>> round(result.p_value(), 3), f"{result.interval(0.95):.3f}"
    (0.033, '0.150 [0.016, 0.284]')
    """
    x = validation.vector(values, "values")
    codes, n_groups = _codes(groups, len(x))
    _enough(n_groups, "values" if codes is None else "groups")
    bounded = all(map(math.isfinite, bounds))
    if bounded:
        _inside(x, bounds)
        origin, scale = bounds[0], bounds[1] - bounds[0]
    else:
        origin = float(x[0])
        scale = float(np.abs(x - origin).max())
        if negligible(scale, float(np.abs(x).max())):
            raise UndefinedMetricError(
                f"no interval: all {len(x)} values are {origin:g} and their bounds are not known; "
                "declare bounds, or kind='share' for yes/no values"
            )
    found = _spread((x - origin) / scale, codes, n_groups)
    pivot, ends = (_gaffke if bounded else _skewed)(found)
    if bounded and codes is not None and _goes_with_size(found):
        pivot, ends = _wider(pivot, ends, found)

    def scaled(critical: float) -> tuple[float, float]:
        low, high = (origin + scale * end for end in ends(critical))
        return max(low, bounds[0]), min(high, bounds[1])

    return MeanPivot(
        mean=float(x.mean()),
        se=scale * math.sqrt(found.cr2),
        df=found.df,
        n_units=len(x),
        n_groups=n_groups,
        method=("gaffke" if bounded else "skewness-corrected t")
        + ("" if codes is None else ", groups"),
        pivot=lambda mean: pivot((mean - origin) / scale),
        ends=scaled,
    )


def _codes(groups: ArrayLike | None, n: int) -> tuple[IntArray | None, int]:
    """Return the group codes (None if every unit is its own group) and the number of groups."""
    if groups is None:
        return None, n
    codes, n_groups = validation.group_codes(groups, n)
    return (None, n) if n_groups == n else (codes, n_groups)


def _spread(values: FloatArray, codes: IntArray | None, n_groups: int) -> MeanVariance:
    """Return the variance of the mean, ignoring groups that add no variance.

    Groups whose means are more similar than expected by chance carry no information about the shape
    of the distribution, so only their CR2 variance and degrees of freedom are kept.
    """
    found = mean_variance(values, codes, n_groups)
    if codes is None:
        return found
    alone = mean_variance(values, None, len(values))
    # Without variance, the correlation within groups cannot be estimated.
    if alone.variance == 0.0 or found.variance > alone.variance * (1.0 + 1e-9):
        return found
    return replace(alone, cr2=found.cr2, df=found.df)


def _enough(n: int, what: str) -> None:
    if n < MIN_GROUPS:
        raise UndefinedMetricError(f"no interval: {n} {what}; at least {MIN_GROUPS} are needed")


def _inside(values: FloatArray, bounds: tuple[float, float]) -> None:
    outside = (values < bounds[0]) | (values > bounds[1])
    if outside.any():
        raise UndefinedMetricError(
            f"no interval: a value is {values[outside][0]:g}, outside the declared bounds "
            f"({bounds[0]:g}, {bounds[1]:g})"
        )


def _design_effect(found: MeanVariance, bound: float) -> float:
    """Return the design effect, at least 1.

    Both variances include a fraction of an average group at the bound, because unseen values may be
    clustered.
    """
    n, size = float(found.sizes.sum()), float(found.sizes.mean())
    extra = _PSEUDO_GROUP * size
    total = n + extra
    mean = (n * found.mean + extra * bound) / total
    # Ensures that identical units count as one unit per group.
    variance = n**2 * found.variance + extra * (1.0 + extra / n) * size * (bound - mean) ** 2
    spread = n * (found.spread + (found.mean - mean) ** 2) + extra * (bound - mean) ** 2
    return max(1.0, variance / spread) if spread > 0.0 else 1.0


def _skewed(found: MeanVariance) -> tuple[_Pivot, Callable[[float], tuple[float, float]]]:
    """Return Student's statistic corrected for skewness, and its inverse.

    Uses Hall's cubic transformation with Willink's inverse, or Student's t if it is closer to zero,
    because the correction overshoots if both tails are heavy.
    """
    if found.df + 1.0 < MIN_NUMBERS:
        raise UndefinedMetricError(
            f"no interval: {found.df + 1.0:.2g} effective units; values without known bounds need "
            f"at least {MIN_NUMBERS}"
        )
    se = math.sqrt(found.variance)
    residual = found.totals - found.sizes * found.mean
    if negligible(se, float(np.abs(found.totals / found.sizes).max())):
        raise UndefinedMetricError("no interval: zero variance, all values are equal")
    skewness = 0.0
    if not negligible(float(np.abs(residual).max()), float(np.abs(found.totals).max())):
        squares = float((residual**2).sum())
        skewness = float((residual**3).sum()) / (squares * math.sqrt(squares))
    if abs(skewness) > MAX_SKEW:
        raise UndefinedMetricError(
            f"no interval: one of {len(residual)} values or groups accounts for nearly all "
            "of the variance; declare the bounds of the column, or collect more values"
        )
    n = len(residual)
    small = math.sqrt(n * (n - 1)) / (n - 2)
    a = _SKEW_FACTOR * skewness * small / 6.0

    def pivot(mean: float) -> float:
        t = (found.mean - mean) / se
        corrected = t + a + 2.0 * a * t**2 + 4.0 / 3.0 * a**2 * t**3
        if t * corrected <= 0.0:
            return 0.0
        return math.copysign(min(abs(t), abs(corrected)), t)

    def inverse(critical: float) -> float:
        if abs(a) < 1e-8:
            return critical
        return (math.cbrt(1.0 + 6.0 * a * (critical - a)) - 1.0) / (2.0 * a)

    def ends(critical: float) -> tuple[float, float]:
        above = max(critical, inverse(critical))
        below = min(-critical, inverse(-critical))
        return found.mean - above * se, found.mean - below * se

    return pivot, ends


def _gaffke(found: MeanVariance) -> tuple[_Pivot, Callable[[float], tuple[float, float]]]:
    """Return the statistic of values in [0, 1] with one pseudo-value at the bound.

    The mean of the groups and of a pseudo-group at the bound, each weighted by an exponential
    variable (a gamma variable of shape ½ to 1 for the pseudo-group), is beyond a hypothetical
    mean with a probability that Lugannani and Rice's formula gives as a normal deviate. It is
    scaled to the CR2 variance and compared with Student's t.
    """
    totals, sizes, counts = _atoms(found)
    squares = float((counts * (totals - sizes * found.mean) ** 2).sum())
    n = float(found.sizes.sum())
    n_groups = len(found.totals)
    scale = math.sqrt(n_groups / (n_groups - 1))
    if squares > 0.0:
        scale = n * math.sqrt(found.variance / squares)

    def side(bound: float) -> _Pivot:
        size = min(_design_effect(found, bound), float(found.sizes.mean()))
        reach = size * abs(bound - found.mean)
        weight = 1.0 - 0.5 * min(1.0, squares / reach**2) if reach > 0.0 else 1.0
        shapes = np.append(counts, weight)

        def pivot(mean: float) -> float:
            coefficients = np.append(totals - sizes * mean, size * (bound - mean))
            return -_deviate(coefficients, shapes) / scale

        return pivot

    below, above = side(0.0), side(1.0)

    def pivot(mean: float) -> float:
        if mean == found.mean:
            return 0.0
        if mean < found.mean:
            return max(0.0, below(mean))
        return min(0.0, above(mean))

    def ends(critical: float) -> tuple[float, float]:
        # Two steps of the normal interval, and the pseudo-value: the end is hardly ever beyond.
        step = 2.0 * (critical * math.sqrt(found.variance) + critical**2 / (critical**2 + n_groups))
        low, high = found.mean - step, found.mean + step
        return (
            _root(lambda mean: below(mean) - critical, found.mean, 0.0, low),
            _root(lambda mean: -above(mean) - critical, found.mean, 1.0, high),
        )

    return pivot, ends


def _atoms(found: MeanVariance) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return totals, sizes and counts of clusters, merging those with nearly equal residuals."""
    totals, sizes = found.totals, found.sizes
    if len(totals) <= _MAX_ATOMS:
        return totals, sizes, np.ones(len(totals))
    residual = totals - sizes * found.mean
    low, width = residual.min(), np.ptp(residual)
    if width == 0.0:
        return totals[:1], sizes[:1], np.array([float(len(totals))])
    bins = ((residual - low) / width * (_MAX_ATOMS - 1)).astype(np.int64)
    counts = np.bincount(bins)
    kept = counts > 0
    n = counts[kept].astype(np.float64)
    return np.bincount(bins, totals)[kept] / n, np.bincount(bins, sizes)[kept] / n, n


def _root(function: _Pivot, inner: float, outer: float, near: float) -> float:
    """Return the root of a function that changes sign between ``inner`` and ``outer``.

    Uses the Illinois method, because scipy.optimize is slow to import. The interval up to ``near``,
    in which the function is less steep, is searched first.
    """
    below = function(inner)
    if min(inner, outer) < near < max(inner, outer):
        value = function(near)
        if value > 0.0:
            outer, above = near, min(value, 100.0)
        else:
            inner, below, above = near, value, min(function(outer), 100.0)
    else:
        above = min(function(outer), 100.0)
    side = 0  # which end moved last: the other counts half where it stays twice
    for _ in range(200):
        if abs(outer - inner) <= 1e-13:
            break
        middle = outer - above * (outer - inner) / (above - below)
        value = function(middle)
        if value > 0.0:
            outer, above = middle, min(value, 100.0)
            below /= 2.0 if side > 0 else 1.0
            side = 1
        else:
            inner, below = middle, value
            above /= 2.0 if side < 0 else 1.0
            side = -1
        if abs(value) < 1e-10:
            return middle
    return outer


def _deviate(coefficients: FloatArray, shapes: FloatArray) -> float:
    """Return the normal deviate z with Φ(−z) = P(Σ c_i G_i > 0) for gamma variables G_i.

    The saddlepoint minimises the cumulant generating function −Σ a_i log(1 − s c_i), which is
    self-concordant, so damped Newton steps converge from 0 and stay inside its domain.
    """
    largest = float(np.abs(coefficients).max())
    if largest == 0.0:
        return 0.0
    c = coefficients / largest
    if not (c < 0.0).any() or not (c > 0.0).any():
        return math.copysign(_CERTAIN, -float(c.sum()))
    least = float(shapes.min())
    s = 0.0
    for _ in range(200):
        ratio = c / (1.0 - s * c)
        first, second = float(shapes @ ratio), float(shapes @ ratio**2)
        decrement = abs(first) / math.sqrt(least * second)
        s -= first / second / (1.0 + decrement if decrement > 0.25 else 1.0)
        if decrement < 1e-9:
            break
    ratio = c / (1.0 - s * c)
    second, third = float(shapes @ ratio**2), 2.0 * float(shapes @ ratio**3)
    root = math.copysign(math.sqrt(max(0.0, 2.0 * float(shapes @ np.log1p(-s * c)))), s)
    if abs(root) < 1e-4:
        return root + third / (6.0 * second * math.sqrt(second))
    return float(min(_CERTAIN, root + math.log(s * math.sqrt(second) / root) / root))
