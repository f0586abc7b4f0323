"""Intervals for the difference between two proportions on the same units.

Only discordant units contribute to the difference. If there are few, or all favour the same system,
the variance of the differences is too small; if there are none, it is 0. These intervals never have
zero width.
"""

import math
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.distributions import critical_value, upper_tail
from eval_toolkit.inference.macro import macro_mean
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI

_HALVINGS = 60
"""Number of bisection steps, sufficient for machine precision on an interval of length 2."""


def tango_interval(
    n_01: SupportsIndex,
    n_10: SupportsIndex,
    n: SupportsIndex,
    *,
    confidence: float = DEFAULT_CONFIDENCE,
) -> BootstrapCI:
    """Return Tango's score interval for a paired difference of proportions, B − A.

    Parameters
    ----------
    n_01, n_10 : int
        Numbers of units on which only B (``n_01``) or only A (``n_10``) is correct.
    n : int
        Total number of units, including those on which A and B agree; units must be independent.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    BootstrapCI
        Interval inside [-1, 1], never of zero width; ``method`` is "tango", ``n_resamples`` 0.

    Raises
    ------
    InvalidInputError
        If a count is negative, there are no units, or ``n_01 + n_10`` exceeds ``n``.

    Notes
    -----
    The interval contains the differences Δ that the score test does not reject [1]_: those for
    which ``|n₀₁ − n₁₀ − nΔ|`` is at most z times ``√(n (2q + Δ (1 − Δ)))``, with q the
    maximum-likelihood fraction of units on which only A is correct, given Δ. Without discordant
    units the bounds are ``± z² / (n + z²)``, Wilson's bound for 0 of n. Recommended by [2]_ for
    this design.

    At Δ = 0, the score test is McNemar's chi-squared test without correction. The exact McNemar
    test is conservative, so in borderline cases the two may disagree: the interval excludes 0 while
    the exact p-value is above 1 − confidence.

    References
    ----------
    .. [1] Tango (1998), Statistics in Medicine 17(8):891-908.
    .. [2] Fagerland, Lydersen & Laake (2014), Statistics in Medicine 33(16):2850-2875.

    Examples
    --------
    >>> f"{tango_interval(5, 0, 30):.3f}"
    '0.167 [0.034, 0.336]'
    >>> f"{tango_interval(0, 0, 20):.3f}"
    '0.000 [-0.161, 0.161]'
    """
    gained, lost, total = _counts(n_01, n_10, n)
    level = validation.fraction(confidence, "confidence")
    z = critical_value(level)
    return BootstrapCI(
        (gained - lost) / total,
        _lower_bound(gained, lost, total, z),
        # The upper end follows by swapping A and B.
        -_lower_bound(lost, gained, total, z),
        level,
        0,
        "tango",
        n_units=total,
    )


def paired_share(
    hits_a: BoolArray, hits_b: BoolArray, confidence: float
) -> tuple[float, float, float]:
    """Return Tango's interval and its p-value for a paired difference of proportions.

    Units must be independent. The p-value is from McNemar's score test, which rejects iff Tango's
    interval excludes zero. Its size is at most 5.4 % at a nominal 5 % [1]_.

    References
    ----------
    .. [1] Fagerland, Lydersen & Laake (2013), BMC Medical Research Methodology 13:91.

    Examples
    --------
    >>> a, b = np.zeros(50, dtype=bool), np.arange(50) < 5
    >>> [round(x, 3) for x in paired_share(a, b, 0.95)]
    [0.022, 0.214, 0.025]
    """
    gained = int(np.count_nonzero(hits_b & ~hits_a))
    lost = int(np.count_nonzero(hits_a & ~hits_b))
    interval = tango_interval(gained, lost, len(hits_a), confidence=confidence)
    p_value = 1.0
    if gained != lost:
        p_value = 2.0 * upper_tail(abs(gained - lost) / math.sqrt(gained + lost))
    return interval.ci_low, interval.ci_high, p_value


def paired_macro_interval(
    parts: Sequence[tuple[int, int, int]], *, confidence: float = DEFAULT_CONFIDENCE
) -> BootstrapCI:
    """Return an interval for the macro average of paired differences of proportions.

    Parameters
    ----------
    parts : sequence of tuple of three int
        ``(n_01, n_10, n)`` of each part, as in `tango_interval`.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    BootstrapCI
        Interval inside [-1, 1], never of zero width.

    Raises
    ------
    InvalidInputError
        If there are no parts, or the counts of a part are inconsistent.

    Notes
    -----
    The Wald interval after adding z²/4 units of each discordant kind, spread evenly over the parts,
    as in [1]_ for one part and [2]_ for unpaired proportions. With many small parts this variance
    is too small; the unbiased variance within parts (`macro_mean`) is used if it is larger.

    References
    ----------
    .. [1] Bonett & Price (2012), Journal of Educational and Behavioral Statistics 37(4):479-488.
    .. [2] Price & Bonett (2004), Computational Statistics & Data Analysis 45(3):449-456.

    Examples
    --------
    >>> f"{paired_macro_interval([(5, 0, 30), (0, 0, 10)]):.3f}"
    '0.083 [-0.033, 0.194]'
    """
    level = validation.fraction(confidence, "confidence")
    if not parts:
        raise InvalidInputError("`parts` is empty; there must be at least one")
    gained, lost, n = np.array([_counts(*part) for part in parts], dtype=np.float64).T
    point = float(((gained - lost) / n).mean())
    z = critical_value(level)
    extra = z * z / (4.0 * len(n))
    total = n + 2.0 * extra
    up, down = (gained + extra) / total, (lost + extra) / total
    centre = float((up - down).mean())
    spread = math.sqrt(float(((up + down - (up - down) ** 2) / total).sum())) / len(n)
    if len(parts) > 1:
        spread = max(spread, macro_mean(_differences(gained, lost, n)).se or 0.0)
    reach = z * spread
    return BootstrapCI(
        point,
        min(point, max(-1.0, centre - reach)),
        max(point, min(1.0, centre + reach)),
        level,
        0,
        "adjusted-wald-paired, macro",
        n_units=int(n.sum()),
    )


def _differences(gained: FloatArray, lost: FloatArray, n: FloatArray) -> list[FloatArray]:
    """Return the unit differences (1, −1 or 0) of each part."""
    counts = np.stack([gained, lost, n - gained - lost], axis=1).astype(np.int64)
    return [np.repeat([1.0, -1.0, 0.0], part) for part in counts]


def _counts(n_01: SupportsIndex, n_10: SupportsIndex, n: SupportsIndex) -> tuple[int, int, int]:
    gained = validation.integer(n_01, "n_01", low=0)
    lost = validation.integer(n_10, "n_10", low=0)
    total = validation.integer(n, "n", low=1)
    if gained + lost > total:
        raise InvalidInputError(
            f"`n_01` is {gained} and `n_10` is {lost}, together more than the {total} units (`n`)"
        )
    return gained, lost, total


def _lower_bound(gained: int, lost: int, n: int, z: float) -> float:
    """Return the smallest difference not rejected by the score test, by bisection."""
    low, high = -1.0, (gained - lost) / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        excess = gained - lost - n * middle
        rejected = excess > z * math.sqrt(_score_variance(gained, lost, n, middle))
        low, high = (middle, high) if rejected else (low, middle)
    return high if low > -1.0 else -1.0


def _score_variance(gained: int, lost: int, n: int, delta: float) -> float:
    """Return the variance of ``gained − lost`` if the difference is ``delta`` times n.

    The share q of units lost solves 2n q² + b q − lost Δ (1 − Δ) = 0, its likelihood equation.
    """
    spread = delta * (1.0 - delta)
    b = (2 * n - gained + lost) * delta - gained - lost
    root = math.sqrt(max(0.0, b * b + 8.0 * n * lost * spread))
    # Use the form of the positive root that avoids cancellation.
    q = (root - b) / (4.0 * n) if b <= 0.0 else 2.0 * lost * spread / (root + b)
    return max(0.0, n * (2.0 * q + spread))
