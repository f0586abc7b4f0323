"""Assumption-free bounds for a mean with missing outcomes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.distributions import critical_value, upper_tail
from eval_toolkit.inference.macro import macro_mean
from eval_toolkit.inference.means import MeanSE, mean_se
from eval_toolkit.inference.proportions import wilson_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, Interval

_HALVINGS = 60
_ADDED = 2
"""Number of units added at each bound, as in the Agresti-Coull interval."""


@dataclass(frozen=True, slots=True)
class MissingBounds(Displayed):
    """Range of a mean over all possible missing outcomes.

    Examples
    --------
    >>> result = missing_bounds([1, 1, 0, 1], 1)
    >>> result.low, result.high
    (0.6, 0.8)
    """

    low: float
    """Mean if every missing outcome were the smallest possible value."""
    high: float
    """Mean if every missing outcome were the largest possible value."""
    ci: Interval[float]
    """Interval that covers the mean at the stated confidence, for any values of the missing
    outcomes; method "wilson", "t" or "macro", with Imbens and Manski's critical value."""
    observed: float | None
    """Mean of the observed outcomes."""
    n: int
    n_missing: int

    @property
    def ci_low(self) -> float:
        """Lower end of the interval."""
        return self.ci.ci_low

    @property
    def ci_high(self) -> float:
        """Upper end of the interval."""
        return self.ci.ci_high

    @property
    def confidence(self) -> float:
        """Nominal coverage of the interval."""
        return self.ci.confidence

    @property
    def method(self) -> str:
        """Method of the interval."""
        return self.ci.method

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = ("low", "high", "ci_low", "ci_high", "observed", "n", "n_missing")
        return {name: getattr(self, name) for name in (*names, "confidence", "method")}


def missing_bounds(
    values: ArrayLike,
    n_missing: SupportsIndex,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> MissingBounds:
    """Bound the mean of bounded values, some of which are missing.

    Parameters
    ----------
    values : array-like of shape (n,)
        Observed outcomes, one per unit.
    n_missing : int
        Number of missing outcomes.
    bounds : tuple of float, default (0, 1)
        Smallest and largest possible value.
    groups : array-like of shape (n,), optional
        Group of each unit; units in the same group are not independent. Each missing outcome counts
        as a separate group.
    confidence : float, default 0.95
        Confidence level of the interval.

    Returns
    -------
    MissingBounds
        Assumption-free identification region [1]_, and a confidence interval for the mean.

    Raises
    ------
    InvalidInputError
        If there are no units, a value is outside the bounds, or the bounds are not finite.

    Notes
    -----
    The interval extends from C standard errors below the lower bound to C standard errors above the
    upper bound. The mean can be close to only one of the bounds, so C decreases from the two-sided
    critical value (nothing missing) to the one-sided critical value (wide region) [2]_. For binary
    outcomes of independent units, the Wilson bounds at the corresponding level are used instead.
    For other values, C is taken from Student's t, and the interval is extended to include the one
    with two units added at each bound, so that equal values (or groups) do not imply certainty.

    References
    ----------
    .. [1] Manski (1989), Journal of Human Resources 24(3):343-360.
    .. [2] Imbens & Manski (2004), Econometrica 72(6):1845-1857.

    Examples
    --------
    >>> result = missing_bounds([1] * 80 + [0] * 10, 10)
    >>> f"{result.low:.2f} to {result.high:.2f}, {result.ci_low:.3f} to {result.ci_high:.3f}"
    '0.80 to 0.90, 0.727 to 0.939'
    """
    lost = validation.integer(n_missing, "n_missing", low=0)
    there = np.asarray(values, dtype=np.float64)
    there = there if there.size == 0 else validation.vector(values, "values")
    _check(there, lost, *bounds)
    low, high = (np.concatenate([there, np.full(lost, bound)]) for bound in bounds)
    labels = None
    if groups is not None:
        codes, n_groups = validation.group_codes(groups, len(there))
        labels = np.concatenate([codes, n_groups + np.arange(lost)])
    found = bounded_mean(low, high, bounds=bounds, groups=labels, confidence=confidence)
    return replace(found, observed=float(there.mean()) if len(there) else None, n_missing=lost)


def bounded_mean(
    low: ArrayLike,
    high: ArrayLike,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> MissingBounds:
    """Bound the mean of interval-valued data.

    Parameters
    ----------
    low, high : array-like of shape (n,)
        Smallest and largest possible value of each unit; equal if the value is known.
    bounds, groups, confidence
        As in `missing_bounds`.

    Returns
    -------
    MissingBounds
        Bounds and interval; ``n_missing`` is the number of units with an unknown value.

    Raises
    ------
    InvalidInputError
        If the arrays are empty or differ in length, or a lower value is above the upper value.

    Examples
    --------
    >>> result = bounded_mean([1, 0, 0.5, 0], [1, 0, 1.0, 1])
    >>> result.low, result.high, result.n_missing
    (0.375, 0.75, 2)
    """
    level = validation.fraction(confidence, "confidence")
    bottom, top = bounds
    lows, highs = validation.vector(low, "low"), validation.vector(high, "high")
    if len(lows) != len(highs) or (lows > highs).any():
        raise InvalidInputError("`low` and `high` must have the same length, with `low` <= `high`")
    known = lows == highs
    region = float(lows.mean()), float(highs.mean())
    binary = np.isin(lows, (0.0, 1.0)).all() and np.isin(highs, (0.0, 1.0)).all()
    wilson = groups is None and (bottom, top) == (0.0, 1.0) and bool(binary)
    if wilson:
        right, best = int(lows.sum()), int(highs.sum())
        ends = _wilson_ends(right, best - right, len(lows), level)
    else:
        ends = _student_ends(lows, highs, bounds, groups, level)
    return MissingBounds(
        low=region[0],
        high=region[1],
        ci=Interval(*ends, level, "wilson" if wilson else "t").clipped((bottom, top)),
        observed=float(lows[known].mean()) if known.any() else None,
        n=len(lows),
        n_missing=int((~known).sum()),
    )


def bounded_macro_mean(
    low: Sequence[ArrayLike],
    high: Sequence[ArrayLike],
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: Sequence[ArrayLike] | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> MissingBounds:
    """Bound the mean over equally weighted parts of interval-valued data.

    Parameters
    ----------
    low, high : sequence of array-like
        See `bounded_mean`, by part.
    bounds, confidence
        As in `missing_bounds`.
    groups : sequence of array-like, optional
        As in `macro_mean`.

    Returns
    -------
    MissingBounds
        Bounds of the macro average, with the interval of `macro_mean` at Imbens and Manski's level.

    Examples
    --------
    >>> result = bounded_macro_mean([[1, 0, 0], [1, 1]], [[1, 0, 1], [1, 1]])
    >>> round(result.low, 3), round(result.high, 3)
    (0.667, 0.833)
    """
    level = validation.fraction(confidence, "confidence")
    means = [macro_mean(parts, groups=groups) for parts in (low, high)]
    spread = max(mean.se or 0.0 for mean in means)
    single = _single_level(means[1].mean - means[0].mean, spread, level)
    below = macro_mean(low, groups=groups, confidence=single).ci
    above = macro_mean(high, groups=groups, confidence=single).ci
    lows, highs = (np.concatenate([np.asarray(p, dtype=float) for p in x]) for x in (low, high))
    known = lows == highs
    ends = Interval(
        bounds[0] if below is None else below.ci_low,
        bounds[1] if above is None else above.ci_high,
        level,
        "macro",
    )
    return MissingBounds(
        low=means[0].mean,
        high=means[1].mean,
        ci=ends.clipped(bounds),
        observed=None,
        n=len(lows),
        n_missing=int((~known).sum()),
    )


def _check(values: FloatArray, lost: int, bottom: float, top: float) -> None:
    if not (math.isfinite(bottom) and math.isfinite(top) and bottom < top):
        raise InvalidInputError(
            f"`bounds` is {(bottom, top)}; both bounds must be finite to bound missing values"
        )
    if len(values) + lost == 0:
        raise InvalidInputError("`values` is empty and `n_missing` is 0; pass at least one unit")
    outside = (values < bottom) | (values > top)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidInputError(
            f"values[{at}] is {values[at]:g}; it must lie between {bottom:g} and {top:g}"
        )


def _wilson_ends(right: int, lost: int, n: int, level: float) -> tuple[float, float]:
    width = lost / n
    rates = right / n, (right + lost) / n
    spread = max(math.sqrt(rate * (1.0 - rate) / n) for rate in rates)
    single = _single_level(width, spread, level)
    low = wilson_interval(right, n, confidence=single).low
    high = wilson_interval(right + lost, n, confidence=single).high
    return 0.0 if low is None else low, 1.0 if high is None else high


def _student_ends(
    lows: FloatArray,
    highs: FloatArray,
    bounds: tuple[float, float],
    groups: ArrayLike | None,
    level: float,
) -> tuple[float, float]:
    n = len(lows) if groups is None else validation.group_codes(groups, len(lows))[1]
    if n < 2:
        return bounds
    plain = [mean_se(one, groups=groups) for one in (lows, highs)]
    width = plain[1].mean - plain[0].mean
    padded = [_padded(one, groups, bounds) for one in (lows, highs)]
    single = _single_level(width, max(one.se for one in (*plain, *padded)), level)
    factor = critical_value(single, n - 1)
    return (
        min(one.mean - factor * one.se for one in (plain[0], padded[0])),
        max(one.mean + factor * one.se for one in (plain[1], padded[1])),
    )


def _padded(values: FloatArray, groups: ArrayLike | None, bounds: tuple[float, float]) -> MeanSE:
    """Return the mean after adding two units (or typical groups) at a bound."""
    if groups is None:
        return mean_se(np.concatenate([values, np.repeat(bounds, _ADDED)]))
    codes, n_groups = validation.group_codes(groups, len(values))
    size = max(1, round(len(values) / n_groups))
    added = n_groups + np.repeat(np.arange(2 * _ADDED), size)
    return mean_se(
        np.concatenate([values, np.repeat(bounds, _ADDED * size)]),
        groups=np.concatenate([codes, added]),
    )


def _single_level(width: float, spread: float, level: float) -> float:
    """Return the two-sided level whose critical value is Imbens and Manski's.

    C solves Φ(C + width / spread) − Φ(−C) = level.
    """
    if spread == 0.0:
        return level if width == 0.0 else 2.0 * level - 1.0
    low, high = 0.0, critical_value(level)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        held = 1.0 - upper_tail(middle + width / spread) - upper_tail(middle)
        low, high = (middle, high) if held < level else (low, middle)
    return 1.0 - 2.0 * upper_tail(high)
