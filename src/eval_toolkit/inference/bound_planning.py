"""Sample size needed to show that a rate is below a bound."""

import math
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.inference.planning import SampleSize, sized
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE

_MOST_FAILURES = 1_000_000


@dataclass(frozen=True, slots=True)
class BoundSize(SampleSize):
    """Required number of units, and the number of failures allowed among them."""

    n_allowed: int
    """Largest number of failures for which the interval is still below the bound."""
    power: float
    """Probability of at most that many failures at the expected rate."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {**SampleSize.to_dict(self), "n_allowed": self.n_allowed, "power": self.power}


def n_for_bound(
    at_most: SupportsFloat,
    *,
    expected: SupportsFloat = 0.0,
    power: float = 0.8,
    confidence: float = DEFAULT_CONFIDENCE,
    cluster_size: SupportsFloat = 1.0,
    icc: SupportsFloat = 0.0,
) -> BoundSize:
    """Return the number of units needed to show that a rate is at most a given bound.

    Parameters
    ----------
    at_most : float
        Bound that the upper end of the Wilson interval must not exceed.
    expected : float, default 0.0
        Assumed true rate; 0 if no unit fails.
    power : float, default 0.8
        Probability that the interval is below the bound, at the expected rate.
    confidence : float, default 0.95
        Two-sided confidence level of the interval.
    cluster_size, icc
        As in `n_for_width`.

    Returns
    -------
    BoundSize
        Numbers of units, clusters and allowed failures.

    Raises
    ------
    InvalidInputError
        If an argument is out of range, or the expected rate is not below the bound.
    InfeasibleError
        If more than a million failures would have to be allowed.

    Notes
    -----
    With c failures, the upper end of the interval equals the bound b if n b − c = z √(n b (1 − b)).
    The power for that n is the binomial probability of at most c failures. The smallest c with
    sufficient power is used, and n is multiplied by the design effect as in `n_for_width`.

    Examples
    --------
    >>> none = n_for_bound(0.01)
    >>> none.n, none.n_allowed
    (381, 0)
    >>> some = n_for_bound(0.01, expected=0.002)
    >>> some.n, some.n_allowed, round(some.power, 3)
    (726, 2, 0.821)
    """
    from scipy.stats import binom

    bound = validation.fraction(at_most, "at_most")
    rate = validation.number(expected, "expected", low=0.0, high=1.0)
    if rate >= bound:
        raise InvalidInputError(f"`expected` is {rate:g}; it must be below `at_most`, {bound:g}")
    target = validation.fraction(power, "power")
    z = critical_value(validation.fraction(confidence, "confidence"))
    allowed = np.arange(1024)
    while True:
        spread = z * math.sqrt(bound * (1.0 - bound))
        root = (spread + np.sqrt(spread**2 + 4.0 * bound * allowed)) / (2.0 * bound)
        n = np.ceil(root**2 - 1e-9)
        reached = binom.cdf(allowed, n, rate)
        if reached[-1] >= target:
            break
        if len(allowed) > _MOST_FAILURES:
            raise InfeasibleError(
                f"more than {_MOST_FAILURES:,} failures would have to be allowed; `expected` is too "
                "close to `at_most`"
            )
        allowed = np.arange(4 * len(allowed))
    at = int(np.argmax(reached >= target))
    size = sized(float(n[at]), cluster_size, icc, "wilson-bound")
    n_allowed = math.floor(at * size.design_effect)
    return BoundSize(
        size.n, size.n_groups, size.n_total, size.design_effect, size.method, n_allowed,
        float(reached[at]),
    )  # fmt: skip
