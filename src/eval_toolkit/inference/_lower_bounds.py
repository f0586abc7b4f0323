"""Lower bounds for a mean that hold simultaneously at all sample sizes.

Values are in [0, 1]. An upper bound is one minus the lower bound for ``1 − value``. Each class
keeps running state, so the cost of an update does not depend on the number of earlier values.

Bets and bounds follow Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables
by betting, JRSS-B 86(1):1-27, with and without replacement.
"""

import math
from typing import Protocol

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray

_FRACTIONS = (0.8 * 2.5 ** -np.arange(7.0))[:, None, None]
"""Bets as fractions of the capital, from large (for few values) to small (for 100 000 values)."""
_STEPS = 4_000
"""Number of steps in the grid of candidate means; bounds are rounded outwards to the grid."""
_TINY = 1e-12
_LARGEST_BET = 0.5
_HALVINGS = 50
_PRIOR = 0.5
"""Both shape parameters of the beta prior (Jeffreys)."""


class LowerBound(Protocol):
    """Interface of the confidence sequence methods."""

    least_width: float
    """Minimum width of an interval; narrower intervals indicate contradictory values."""

    def add(self, x: FloatArray, ceiling: float) -> FloatArray:
        """Add values and return the bound after each one; means above the ceiling are excluded."""
        ...


class BettingBound:
    """Lower bound from betting against every candidate mean; excludes means against which bets win.

    If the mean is m, betting that the next value exceeds m has no expected gain: a capital of 1
    ever grows to 1/α with probability at most α. Equal parts of the capital are bet with each of
    `_FRACTIONS`. The gain decreases in m, so the excluded means are the smallest.
    """

    least_width = 0.5 / _STEPS  # two consistent sides never exclude the same candidate

    def __init__(self, alpha: float, n_total: int | None, running: bool) -> None:
        self._needed = len(_FRACTIONS) / alpha
        self._n_total = n_total
        self._running = running
        self._means = np.arange(1, _STEPS) / _STEPS
        self._wealth = np.ones((len(_FRACTIONS), len(self._means)))
        """Wealth of each part of the capital, by candidate mean."""
        self._low = 0.0
        self._n, self._sum = 0, 0.0

    def add(self, x: FloatArray, ceiling: float) -> FloatArray:
        """Return the bound after each value."""
        if self._running:
            self._keep(self._means < ceiling + 1.5 / _STEPS)  # plus one to detect exclusion
        sums = _summed(self._sum, x)
        expected = self._means[None, :]
        if self._n_total is not None:  # mean of the remaining values, given the population mean
            left = self._n_total - self._n - np.arange(len(x))
            expected = (self._n_total * expected - sums[:-1, None]) / left[:, None]
            expected = np.clip(expected, _TINY, 1.0)
        wealth = _FRACTIONS * (x[:, None] / expected - 1.0) + 1.0
        with np.errstate(over="ignore"):  # infinite wealth also excludes a mean
            wealth[:, 0] *= self._wealth
            np.cumprod(wealth, axis=1, out=wealth)
            n_out = (wealth.sum(axis=0) >= self._needed).sum(axis=1)
        self._wealth = wealth[:, -1].copy()
        self._n, self._sum = self._n + len(x), float(sums[-1])
        bounds: FloatArray = np.concatenate(([self._low], self._means))[n_out]
        if self._running:
            bounds = np.maximum.accumulate(bounds)
            self._low = float(bounds[-1])
            self._keep(self._means > self._low)
        return bounds

    def _keep(self, possible: BoolArray) -> None:
        if not possible.all():
            self._means, self._wealth = self._means[possible], self._wealth[:, possible]


class BernsteinBound:
    """Empirical Bernstein bound: weighted mean minus a margin that depends on the spread."""

    least_width = -_TINY

    def __init__(self, alpha: float, n_total: int | None, running: bool) -> None:
        self._log = math.log(1.0 / alpha)
        self._n_total = n_total
        self._n, self._sum, self._squares = 0, 0.0, 0.25
        self._weight, self._weighted, self._spread = 0.0, 0.0, 0.0

    def add(self, x: FloatArray, ceiling: float) -> FloatArray:
        """Return the bound after each value."""
        t = self._n + np.arange(1, len(x) + 1)
        sums = _summed(self._sum, x)
        means, guesses = (0.5 + sums[1:]) / (t + 1), (0.5 + sums[:-1]) / t
        squares = _summed(self._squares, (x - means) ** 2)
        variances = squares[:-1] / t  # predictable: computed from earlier values
        bets = np.sqrt(2.0 * self._log / (variances * t * np.log1p(t)))
        bets = np.minimum(bets, _LARGEST_BET)
        left = np.inf if self._n_total is None else self._n_total - t + 1
        weight = _summed(self._weight, bets * (1.0 + (t - 1) / left))[1:]
        weighted = _summed(self._weighted, bets * (x + sums[:-1] / left))[1:]
        spread = _summed(self._spread, (x - guesses) ** 2 * (-np.log1p(-bets) - bets))[1:]
        self._n, self._sum, self._squares = int(t[-1]), float(sums[-1]), float(squares[-1])
        self._weight, self._weighted = float(weight[-1]), float(weighted[-1])
        self._spread = float(spread[-1])
        return np.maximum((weighted - self._log - spread) / weight, 0.0)


class BinomialBound:
    """Bound for binary values, from a likelihood ratio against a mixture.

    The mixture is over all means with Jeffreys' prior or, without replacement, over all numbers of
    ones in the population (prior-posterior ratio). One mixture covers both sides, so it uses the
    whole α; the other methods use half per side.
    """

    least_width = -_TINY

    def __init__(self, alpha: float, n_total: int | None, running: bool) -> None:
        self._log = math.log(1.0 / alpha)
        self._n_total = n_total
        self._n, self._sum = 0, 0

    def add(self, x: FloatArray, ceiling: float) -> FloatArray:
        """Return the bound after each value."""
        from scipy.special import betaln

        n = self._n + np.arange(1, len(x) + 1)
        ones = self._sum + np.cumsum(x.astype(np.int64))
        self._n, self._sum = int(n[-1]), int(ones[-1])
        mixture = betaln(_PRIOR + ones, _PRIOR + n - ones) - betaln(_PRIOR, _PRIOR)
        least = mixture - self._log  # means with a smaller likelihood are excluded
        if self._n_total is None:
            return _smallest_mean(ones, n, least)
        return _smallest_count(ones, n, least, self._n_total) / self._n_total


def _summed(before: float, x: FloatArray) -> FloatArray:
    """Return the running sums before and after each value, added in order for reproducibility."""
    return np.cumsum(np.concatenate(([before], x)))


def _smallest_mean(ones: IntArray, n: IntArray, least: FloatArray) -> FloatArray:
    """Return the smallest mean with sufficient likelihood, rounded down."""
    low, high = np.zeros(len(n)), ones / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        inside = ones * np.log(np.maximum(middle, _TINY)) + (n - ones) * np.log1p(-middle) > least
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    return np.where(ones > 0, low, 0.0)


def _smallest_count(ones: IntArray, n: IntArray, least: FloatArray, n_total: int) -> FloatArray:
    """Return the smallest number of ones in the population with sufficient likelihood."""
    from scipy.special import gammaln

    def likelihood(count: IntArray) -> FloatArray:
        rest = n_total - count
        return np.asarray(
            gammaln(count + 1.0)
            - gammaln(count - ones + 1.0)
            + gammaln(rest + 1.0)
            - gammaln(rest - (n - ones) + 1.0)
            - gammaln(n_total + 1.0)
            + gammaln(n_total - n + 1.0)
        )

    # The likelihood increases up to the most likely number, which is never excluded.
    low = ones.copy()
    high = np.minimum(ones * (n_total + 1) // n, n_total - (n - ones))
    while (low < high).any():
        middle = (low + high) // 2
        inside = likelihood(middle) > least
        low, high = (
            np.where(inside, low, np.minimum(middle + 1, high)),
            np.where(inside, middle, high),
        )
    return low.astype(np.float64)
