"""Normal, Student's t and binomial distributions for closed-form intervals.

Importing scipy.special takes as long as computing a scorecard with intervals. The functions needed
for closed forms are therefore implemented here and agree with scipy to 1e-10 or better; the tails
of Student's t, and its quantiles for few degrees of freedom, use scipy. Tail probabilities are
computed from ``erfc`` and the incomplete beta function rather than as ``1 − cdf``, so a p-value of
1e-30 does not become 0.
"""

import math
from statistics import NormalDist

import numpy as np

from eval_toolkit._internal.validation import FloatArray, IntArray

ROUNDING = 1e-12
"""Relative tolerance within which replicates count as equal. Sums of n numbers in different orders
differ by about √n half-ulps, relatively 4e-13 for ten million numbers; distinct values are that
close with a probability of about 1e-12.
"""

_STANDARD_NORMAL = NormalDist()
_MANY = 1000
"""Minimum degrees of freedom for expanding Student's quantile about the normal quantile."""


def _double_exponential(n: int, reach: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes in (0, 1) and weights of a quadrature (Takahasi & Mori 1974)."""
    at = np.linspace(-reach, reach, n + 1)
    inner = math.pi / 2.0 * np.sinh(at)
    weights = (at[1] - at[0]) * math.pi / 4.0 * np.cosh(at) / np.cosh(inner) ** 2
    return 1.0 / (1.0 + np.exp(-2.0 * inner)), weights


_NODES, _WEIGHTS = _double_exponential(64, 3.2)


def normal_cdf(z: float) -> float:
    """Return P(X ≤ z) of the standard normal distribution."""
    return math.erfc(-z / math.sqrt(2.0)) / 2.0


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return _STANDARD_NORMAL.inv_cdf(probability)


def critical_value(confidence: float, df: float | None = None) -> float:
    """Return the critical value of a two-sided normal interval, or of Student's t given ``df``."""
    # The lower tail retains precision if the confidence is close to 1.
    tail = (1.0 - confidence) / 2.0
    if df is None:
        return -normal_quantile(tail)
    if df >= _MANY:
        return _expanded_quantile(-normal_quantile(tail), df)
    from scipy.special import stdtrit

    return -float(stdtrit(df, tail))


def _expanded_quantile(z: float, df: float) -> float:
    """Return a quantile of Student's t, expanded about the normal one (Fisher & Cornish 1960)."""
    y = z * z
    terms = (
        (y + 1.0) / 4.0,
        ((5.0 * y + 16.0) * y + 3.0) / 96.0,
        (((3.0 * y + 19.0) * y + 17.0) * y - 15.0) / 384.0,
        ((((79.0 * y + 776.0) * y + 1482.0) * y - 1920.0) * y - 945.0) / 92160.0,
    )
    return z * (1.0 + sum(term / df**power for power, term in enumerate(terms, 1)))


def owens_t(h: float, a: float) -> float:
    """Return Owen's T: ∫₀^arctan(a) exp(−h² / (2 cos² φ)) dφ / 2π, by quadrature."""
    reach = math.atan(a if abs(h) * a < 9.0 else 9.0 / abs(h))  # negligible beyond
    inner = np.exp(-0.5 * (h * np.tan(reach * _NODES)) ** 2)
    return math.exp(-0.5 * h * h) * reach * float(inner @ _WEIGHTS) / (2.0 * math.pi)


def binomial_cdf(n: int, p: float) -> tuple[IntArray, FloatArray]:
    """Return the numbers of successes k in n trials, and P(X ≤ k) for each.

    Numbers more than ten standard deviations plus ten away from n p are omitted; p is in (0, 1).
    """
    reach = math.ceil(10.0 * math.sqrt(n * p * (1.0 - p))) + 10
    mode = math.floor((n + 1) * p)
    counts = np.arange(max(0, mode - reach), min(n, mode + reach) + 1)
    # Ratios of successive probabilities; products starting at the mode are numerically stable.
    ratio = (n - counts[:-1]) / counts[1:] * (p / (1.0 - p))
    at = mode - int(counts[0])
    below, above = np.cumprod(1.0 / ratio[:at][::-1])[::-1], np.cumprod(ratio[at:])
    cumulative = np.cumsum(np.concatenate([below, [1.0], above]))
    return counts, cumulative / cumulative[-1]


def upper_tail(statistic: float, df: float | None = None) -> float:
    """Return P(X > statistic) for the standard normal, or for Student's t given ``df``."""
    if df is None:
        return math.erfc(statistic / math.sqrt(2.0)) / 2.0
    from scipy.special import stdtr

    return float(stdtr(df, -statistic))


def logit_interval(point: float, se: float, confidence: float) -> tuple[float, float]:
    """Return an interval around a point in (0, 1) that is symmetric on the logit scale.

    The standard error of the logit is SE / (point (1 − point)) by the delta method.
    """
    spread = point * (1.0 - point)
    centre = math.log(point / (1.0 - point))
    reach = critical_value(confidence) * se / spread
    # (1 + tanh(x/2)) / 2 is the inverse logit, without overflow.
    low, high = ((1.0 + math.tanh(x / 2.0)) / 2.0 for x in (centre - reach, centre + reach))
    return low, high


def negligible(spread: float, scale: float) -> bool:
    """Return whether a spread is within the rounding error of values of size ``scale``."""
    return spread <= 8.0 * float(np.finfo(np.float64).eps) * scale
