"""Confidence sequences: intervals for a mean that are valid at every sample size.

Intervals for a fixed sample size are invalid under continuous monitoring with optional stopping:
after sufficiently many looks, one of them excludes the mean almost surely. A confidence sequence
contains the mean at *all* sample sizes with the stated confidence, so data may be inspected at any
time, and sampling may stop or resume for any reason.
"""

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference._lower_bounds import (
    BernsteinBound,
    BettingBound,
    BinomialBound,
    LowerBound,
)
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI

METHODS = ("betting", "empirical-bernstein", "beta-binomial")
_BLOCK = 16
"""Initial block size, chosen to fit the cache; increases as means are excluded."""
_ROUNDING = 1e-9
"""Tolerance for values outside the bounds, relative to the range."""


class ConfidenceSequence:
    """Interval for a mean of bounded values that holds simultaneously at all sample sizes.

    Parameters
    ----------
    bounds : tuple of float, default (0.0, 1.0)
        Smallest and largest possible value, known in advance: (-1, 1) for differences of scores in
        [0, 1].
    confidence : float, default 0.95
        Probability that all intervals contain the mean.
    method : {"betting", "empirical-bernstein", "beta-binomial"}, default "betting"
        Betting adapts to the variance of the values and is usually the narrowest; its bounds are
        rounded outwards to 1/4000 of the range. Empirical Bernstein has a closed form, which is
        faster but wider. Beta-binomial requires values equal to one of the bounds (right or wrong),
        and is narrower for fewer than about 100 values.
    n_total : int, optional
        Population size, if the values are drawn without replacement in random order. The interval
        is then for the population mean, and has zero width once all values have been drawn. By
        default, values are independent draws.
    running : bool, default True
        Whether means stay excluded once they have been excluded, which narrows the intervals and
        preserves the confidence level. If False, the latest interval alone determines which means
        are excluded.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an option is out of range.

    Notes
    -----
    Values must be in random (exchangeable) order. Combine dependent values (e.g. questions about
    the same passage) into one value, such as their mean if groups have equal sizes.

    If the values contradict every possible mean, which has probability at most 1 − confidence for
    values in random order, the interval becomes the whole range (see ``reason``).

    References
    ----------
    .. [1] Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting,
       JRSS-B 86(1):1-27.
    .. [2] Waudby-Smith and Ramdas (2020), Confidence sequences for sampling without replacement,
       NeurIPS 33.

    Examples
    --------
    >>> accuracy = ConfidenceSequence()
    >>> _ = accuracy.update([1, 1, 0, 1] * 25)
    >>> f"{accuracy.interval:.2f}"
    '0.75 [0.59, 0.87]'
    >>> _ = accuracy.update([1, 1, 0, 1] * 225)  # continue after inspecting the interval
    >>> f"{accuracy.interval:.2f}"
    '0.75 [0.70, 0.79]'
    """

    def __init__(
        self,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
        confidence: float = DEFAULT_CONFIDENCE,
        method: str = "betting",
        n_total: int | None = None,
        running: bool = True,
    ) -> None:
        self.bounds = _bounds(bounds)
        self.confidence = validation.fraction(confidence, "confidence")
        self.method = validation.choice(method, "method", METHODS)
        self.n_total = None if n_total is None else validation.integer(n_total, "n_total", low=1)
        self.running = bool(running)
        self.n = 0
        """Number of values added."""
        self._below, self._above = (
            _lower_bound(self.method, 1.0 - self.confidence, self.n_total, self.running)
            for _ in range(2)
        )
        self._sum, self._contradicted = 0.0, False
        self._low, self._high = 0.0, 1.0  # bounds of the method
        self._shown = (0.0, 1.0)  # combined with certain bounds

    @property
    def low(self) -> float:
        """Lower end of the current interval; the lower bound before the first value."""
        return self._scaled(self._shown[0])

    @property
    def high(self) -> float:
        """Upper end of the current interval; the upper bound before the first value."""
        return self._scaled(self._shown[1])

    @property
    def interval(self) -> BootstrapCI:
        """Current mean and interval; raises `UndefinedMetricError` before the first value."""
        if not self.n:
            raise UndefinedMetricError("the interval is undefined: there are no values yet")
        return BootstrapCI(
            self._scaled(self._sum / self.n),
            self.low,
            self.high,
            self.confidence,
            0,
            f"{self.method} sequence",
            n_units=self.n,
            n_groups=self.n,
            reason="the values are inconsistent with every mean; check that they are in random "
            "order"
            if self._contradicted
            else "",
        )

    def update(self, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Add values in the order of observation.

        Parameters
        ----------
        values : array-like of shape (n,)
            Numbers within the bounds.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            The interval after each value. The result does not depend on how values are split into
            updates.

        Raises
        ------
        InvalidInputError
            If a value is outside the bounds, a value is not equal to a bound (for "beta-binomial"),
            or there are more than ``n_total`` values.
        """
        x = self._checked(values)
        lower, upper = np.empty(len(x)), np.empty(len(x))
        at = 0
        while at < len(x):
            width = (self._high - self._low) if self.running else 1.0
            size = min(1024, int(_BLOCK / max(width, 1e-9)))
            block = slice(at, at + size)
            lower[block], upper[block] = self._add(x[block])
            at += size
        start, end = self.bounds
        return start + (end - start) * lower, start + (end - start) * upper

    def _checked(self, values: ArrayLike) -> FloatArray:
        """Return values rescaled to [0, 1]."""
        given = validation.vector(values, "values")
        low, high = self.bounds
        x = (given - low) / (high - low)
        outside = (x < -_ROUNDING) | (x > 1.0 + _ROUNDING)
        if outside.any():
            row = int(np.argmax(outside))
            raise InvalidInputError(
                f"values[{row}] is {given[row]:g}; it must lie within the bounds, "
                f"{low:g} and {high:g}"
            )
        x = np.clip(x, 0.0, 1.0)
        if self.method == "beta-binomial" and not np.isin(x, (0.0, 1.0)).all():
            row = int(np.argmin(np.isin(x, (0.0, 1.0))))
            raise InvalidInputError(
                f"values[{row}] is {given[row]:g}; the method 'beta-binomial' needs values of "
                f"{low:g} and {high:g} only: use 'betting'"
            )
        if self.n_total is not None and self.n + len(x) > self.n_total:
            raise InvalidInputError(
                f"there are now {self.n + len(x)} `values`, but `n_total` is {self.n_total}"
            )
        return x

    def _add(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the interval after each value, on the [0, 1] scale."""
        low = self._below.add(x, self._high)
        high = 1.0 - self._above.add(1.0 - x, 1.0 - self._low)
        sums = np.cumsum(np.concatenate(([self._sum], x)))[1:]
        n = self.n + np.arange(1, len(x) + 1)
        self.n, self._sum = int(n[-1]), float(sums[-1])
        if self.running:
            low = np.maximum.accumulate(np.maximum(low, self._low))
            high = np.minimum.accumulate(np.minimum(high, self._high))
        crossed = high - low < self._below.least_width
        if self._contradicted or crossed.any():
            first = 0 if self._contradicted else int(np.argmax(crossed))
            self._contradicted = True
            low[first:], high[first:] = 0.0, 1.0
        self._low, self._high = float(low[-1]), float(high[-1])
        if self.n_total is not None:  # certain bounds, for any remaining values
            least, most = sums / self.n_total, (sums + self.n_total - n) / self.n_total
            most = np.maximum(most, least)
            low, high = np.clip(low, least, most), np.clip(high, least, most)
        self._shown = (float(low[-1]), float(high[-1]))
        return low, high

    def _scaled(self, share: float) -> float:
        low, high = self.bounds
        return low + (high - low) * share


def confidence_sequence(
    values: ArrayLike,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    confidence: float = DEFAULT_CONFIDENCE,
    method: str = "betting",
    n_total: int | None = None,
    running: bool = True,
) -> tuple[FloatArray, FloatArray]:
    """Return intervals for a mean that hold simultaneously after each value.

    Parameters
    ----------
    values : array-like of shape (n,)
        Values in the order of observation, which must be random.
    bounds, confidence, method, n_total, running
        As in `ConfidenceSequence`.

    Returns
    -------
    lower, upper : ndarray of shape (n,)
        Bounds after each value. The probability that the mean is ever outside is at most 1 −
        confidence.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As in `ConfidenceSequence`.

    Examples
    --------
    >>> lower, upper = confidence_sequence([1, 0, 1, 1] * 50, n_total=200)
    >>> f"{lower[99]:.2f} to {upper[99]:.2f}"  # after 100 of 200 values
    '0.63 to 0.84'
    >>> f"{lower[-1]:.2f} to {upper[-1]:.2f}"
    '0.75 to 0.75'
    """
    sequence = ConfidenceSequence(
        bounds=bounds, confidence=confidence, method=method, n_total=n_total, running=running
    )
    return sequence.update(values)


def _bounds(given: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = given
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"`bounds` is {given!r}; it must be the smallest and the largest value"
        ) from None
    low, high = validation.number(low, "bounds[0]"), validation.number(high, "bounds[1]")
    if low >= high:
        raise InvalidInputError(f"`bounds` is {given!r}; the first must be below the second")
    return low, high


def _lower_bound(method: str, alpha: float, n_total: int | None, running: bool) -> LowerBound:
    if method == "beta-binomial":
        return BinomialBound(alpha, n_total, running)
    kind = BettingBound if method == "betting" else BernsteinBound
    return kind(alpha / 2.0, n_total, running)
