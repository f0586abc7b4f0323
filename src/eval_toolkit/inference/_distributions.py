"""Quantiles and tail probabilities of the normal and Student distributions, for the closed forms.

Tails go through ``erfc`` and the incomplete beta function rather than ``1 − cdf``, so that a
p-value of 1e-30 is 1e-30 and not 0.
"""

import math
from statistics import NormalDist

import numpy as np

__all__ = [
    "ROUNDING",
    "critical_value",
    "logit_interval",
    "negligible",
    "normal_quantile",
    "upper_tail",
]

ROUNDING = 1e-12
"""Replicates are one value where they differ by no more than this share of their size.

Totals of n numbers added in another order differ by about √n half-ulps, 4e-13 of their size for ten
million; that two different values come so close is a matter of chance, one in 10¹² for a spread as
large as the value.
"""

_STANDARD_NORMAL = NormalDist()


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return _STANDARD_NORMAL.inv_cdf(probability)


def critical_value(confidence: float, df: float | None = None) -> float:
    """Return the factor of a two-sided interval: normal, or Student t with ``df``."""
    # The lower tail keeps its digits when the confidence is close to 1.
    tail = (1.0 - confidence) / 2.0
    if df is None:
        return -normal_quantile(tail)
    from scipy.special import stdtrit

    return -float(stdtrit(df, tail))


def upper_tail(statistic: float, df: float | None = None) -> float:
    """Return P(X > statistic) for a standard normal, or Student t with ``df``."""
    if df is None:
        return math.erfc(statistic / math.sqrt(2.0)) / 2.0
    from scipy.special import stdtr

    return float(stdtr(df, -statistic))


def logit_interval(point: float, se: float, confidence: float) -> tuple[float, float]:
    """Return the interval of a point in (0, 1) that is symmetric on the logit scale.

    The standard error of the logit is SE / (point (1 − point)) by the delta method.
    """
    spread = point * (1.0 - point)
    centre = math.log(point / (1.0 - point))
    reach = critical_value(confidence) * se / spread
    # (1 + tanh(x/2)) / 2 is the inverse logit, without overflow.
    low, high = ((1.0 + math.tanh(x / 2.0)) / 2.0 for x in (centre - reach, centre + reach))
    return low, high


def negligible(spread: float, scale: float) -> bool:
    """Return True when a spread is no more than the rounding of values as large as ``scale``."""
    return spread <= 8.0 * float(np.finfo(np.float64).eps) * scale
