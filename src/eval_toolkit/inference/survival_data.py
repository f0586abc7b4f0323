"""Computations for survival curves: counts at each time, and influences of groups."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.distributions import critical_value

_CELLS_AT_ONCE = 2_000_000
_LARGEST_EXPONENT = 700.0
NO_VARIANCE = 1e-24
"""Variance of log survival below which it is attributed to rounding errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Observed rows, and their counts at every distinct time."""

    at: IntArray
    """Index of each row's time in ``times``."""
    events: BoolArray
    weights: FloatArray
    codes: IntArray
    """Group of each row; the row number if rows are independent."""
    ids: NDArray[np.object_]
    """Group ids by code."""
    grouped: bool
    weighted: bool
    n_units: int
    """Number of rows, including unobserved rows."""
    times: FloatArray
    at_risk: FloatArray
    failed: FloatArray
    hazard: FloatArray
    survival: FloatArray

    @property
    def n_groups(self) -> int:
        """Number of groups with an observed row."""
        return len(self.ids)

    def last_at(self, time: float) -> int:
        """Return the index of the last time that is not after ``time``; −1 if there is none."""
        return int(np.searchsorted(self.times, time, side="right")) - 1

    def plain_share_of(self, time: float) -> int:
        """Return the number of rows if survival is a simple proportion, else 0."""
        early = ~self.events & (self.times[self.at] < time)
        if self.grouped or self.weighted or early.any() or len(self.at) < self.n_units:
            return 0
        return len(self.at)

    def worth(self, time: float) -> float:
        """Return the effective number of independent groups at risk at a time.

        This is Kish's effective number, which equals the number of groups if weights are equal.
        """
        there = self.times[self.at] >= time
        of_groups = np.bincount(self.codes[there], self.weights[there])
        squares = float((of_groups**2).sum())
        return float(of_groups.sum()) ** 2 / squares if squares > 0.0 else 0.0

    def variances(self, *, by_row: bool = False) -> FloatArray:
        """Return the variance of log survival at every time, from squared influences."""
        total = np.zeros(len(self.times))
        for part in self._surprises(by_row=by_row):
            total += (np.cumsum(part, axis=1) ** 2).sum(axis=0)
        return total

    def influences(self, factors: FloatArray, *, by_row: bool = False) -> FloatArray:
        """Return each group's influence: minus the sum of its residuals times the factors."""
        parts = [-(part @ factors) for part in self._surprises(by_row=by_row)]
        return np.concatenate(parts)

    def _surprises(self, *, by_row: bool) -> Iterator[FloatArray]:
        """Yield observed minus expected events by time and group, divided by the survivors."""
        m = len(self.times)
        survivors = self.at_risk - self.failed
        # Where no unit survives, what is observed is what was expected, row by row.
        per_survivor = np.divide(1.0, survivors, out=np.zeros(m), where=survivors > 0.0)
        codes = np.arange(len(self.at)) if by_row else self.codes
        n = len(self.at) if by_row else self.n_groups
        order = np.argsort(codes, kind="stable")
        step = max(1, _CELLS_AT_ONCE // m)
        for first in range(0, n, step):
            size = min(step, n - first)
            ends = np.searchsorted(codes[order], [first, first + size])
            rows = order[ends[0] : ends[1]]
            cells = (codes[rows] - first) * m + self.at[rows]
            shape = (size, m)
            left = np.bincount(cells, self.weights[rows], size * m).reshape(shape)
            at_risk = np.cumsum(left[:, ::-1], axis=1)[:, ::-1]
            failing = self.weights[rows] * self.events[rows]
            failed = np.bincount(cells, failing, size * m).reshape(shape)
            yield (failed - self.hazard * at_risk) * per_survivor


def observed(
    times: ArrayLike, events: ArrayLike, groups: ArrayLike | None, weights: ArrayLike | None
) -> Observed:
    """Return the validated rows with their counts."""
    until = validation.vector(times, "times")
    failing = validation.binary_labels(events, "events")
    validation.same_length(until, failing, ("times", "events"))
    if until.min() < 0.0:
        row = int(np.argmax(until < 0.0))
        raise InvalidInputError(f"times[{row}] is {until[row]:g}; times must not be negative")
    wrong = failing & (until == 0.0)
    if wrong.any():
        raise InvalidInputError(
            f"times[{int(np.argmax(wrong))}] is 0 with an event; time 0 means that nothing was "
            "observed, so the first event can be at turn 1"
        )
    mass = np.ones(len(until)) if weights is None else _weights(weights, len(until))
    if groups is None:
        codes, ids = np.arange(len(until)), np.arange(len(until)).astype(object)
    else:
        codes, n_groups = validation.group_codes(groups, len(until))
        ids = np.empty(n_groups, dtype=object)
        ids[codes] = validation.identifiers(groups, "groups").astype(object)
    seen = (until > 0.0) & (mass > 0.0)
    if not seen.any():
        raise UndefinedMetricError(
            f"a survival curve is undefined: none of the {len(until)} rows was observed "
            "(every time or weight is 0)"
        )
    kept, codes = np.unique(codes[seen], return_inverse=True)
    distinct, at = np.unique(until[seen], return_inverse=True)
    mass, failing = mass[seen], failing[seen]
    at_risk: FloatArray = np.cumsum(np.bincount(at, mass)[::-1])[::-1].astype(np.float64)
    failed: FloatArray = np.bincount(at, mass * failing, len(distinct)).astype(np.float64)
    hazard = failed / at_risk
    return Observed(
        at=at.astype(np.int64),
        events=failing,
        weights=mass,
        codes=codes.astype(np.int64),
        ids=ids[kept],
        grouped=groups is not None,
        weighted=weights is not None,
        n_units=len(until),
        times=distinct,
        at_risk=at_risk,
        failed=failed,
        hazard=hazard,
        survival=np.cumprod(1.0 - hazard).astype(np.float64),
    )


def _weights(weights: ArrayLike, n: int) -> FloatArray:
    mass = validation.vector(weights, "weights")
    if len(mass) != n:
        raise InvalidInputError(f"`weights` has {len(mass)} rows but `times` has {n}")
    if mass.min() < 0.0:
        row = int(np.argmax(mass < 0.0))
        raise InvalidInputError(f"weights[{row}] is {mass[row]:g}; weights must not be negative")
    return mass


def _log_log_bounds(survival: float, variance: float, factor: float) -> tuple[float, float]:
    """Return bounds that are symmetric on the log(−log S) scale, for S in (0, 1)."""
    log = math.log(survival)
    reach = min(factor * math.sqrt(variance) / -log, _LARGEST_EXPONENT)
    # Avoid overflow of exp; the bound is then 0.
    down = math.exp(max(log * math.exp(reach), -_LARGEST_EXPONENT))
    return down, math.exp(log * math.exp(-reach))


def logit_bounds(share: float, se: float, factor: float) -> tuple[float, float]:
    """Return bounds that are symmetric on the logit scale, for proportions in (0, 1)."""
    centre, reach = math.log(share / (1.0 - share)), factor * se / (share * (1.0 - share))
    low, high = ((1.0 + math.tanh(x / 2.0)) / 2.0 for x in (centre - reach, centre + reach))
    return low, high


def no_event_bound(n: float, confidence: float) -> float:
    """Return the Clopper-Pearson upper bound for no event in n independent units."""
    return 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / n) if n > 0.0 else 1.0


def beta_product_bounds(seen: Observed, place: int, confidence: float) -> tuple[float, float]:
    """Return the beta-product bounds at a time; a group counts as one row.

    Without censoring, the product of the beta variables is a beta variable, and the bounds are the
    Clopper-Pearson bounds; otherwise it is approximated by a beta variable with the same mean and
    variance.
    """
    scale = seen.worth(0.0) / float(seen.at_risk[0])
    failed = seen.failed[: place + 1] * scale
    survivors = seen.at_risk[: place + 1] * scale - failed
    factors = [(left + 1.0, lost) for left, lost in zip(survivors, failed, strict=True) if lost > 0]
    tail = (1.0 - confidence) / 2.0
    low = _product_quantile([*factors, (float(survivors[-1]), 1.0)], tail)
    return low, _product_quantile(factors, 1.0 - tail)


def _product_quantile(factors: list[tuple[float, float]], probability: float) -> float:
    from scipy.special import betaincinv

    if not factors:
        return 1.0
    if any(a <= 0.0 for a, _ in factors):
        return 0.0
    mean = square = 1.0
    for a, b in factors:
        mean *= a / (a + b)
        square *= a * (a + 1.0) / ((a + b) * (a + b + 1.0))
    total = (mean - square) / (square - mean * mean)
    return float(betaincinv(mean * total, (1.0 - mean) * total, probability))


def factor(seen: Observed, confidence: float) -> float:
    """Return the critical value for the bounds: normal, or Student's t if there are groups."""
    return critical_value(confidence, seen.n_groups - 1 if seen.grouped else None)


def _few_groups(seen: Observed) -> float:
    return seen.n_groups / (seen.n_groups - 1) if seen.grouped else 1.0


def log_variances(seen: Observed) -> tuple[FloatArray, bool]:
    """Return the variance of log survival at each time, and whether all groups are identical."""
    if not seen.grouped and not seen.weighted:
        survivors = seen.at_risk - seen.failed
        terms = np.divide(seen.hazard, survivors, out=np.zeros_like(survivors), where=survivors > 0)
        return np.cumsum(terms), False
    variances = _few_groups(seen) * seen.variances()
    flat = (variances < NO_VARIANCE) & (seen.survival < 1.0) & (seen.survival > 0.0)
    if flat.any():
        variances = np.where(flat, seen.variances(by_row=True), variances)
    return variances, bool(flat.any())


def variance_of_sum(seen: Observed, factors: FloatArray) -> float:
    """Return the variance of a weighted sum of residuals, over groups or rows."""
    found = _few_groups(seen) * float((seen.influences(factors) ** 2).sum())
    if seen.grouped and found < NO_VARIANCE * float((factors**2).max()):
        found = float((seen.influences(factors, by_row=True) ** 2).sum())
    return found


def without_events(seen: Observed, time: float, confidence: float) -> float:
    """Return the lower bound of survival up to a time without earlier failures."""
    if seen.grouped and seen.n_groups == 1:
        return 0.0
    return 1.0 - no_event_bound(seen.worth(time), confidence)


def log_log_band(
    seen: Observed, variances: FloatArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds at each time; exact if survival is 1 or 0.

    With groups, the lower bound is limited to the bound without failures, because a failure in one
    of few large groups must not increase it.
    """
    reach = factor(seen, confidence)
    pairs = []
    for place, (survival, variance) in enumerate(zip(seen.survival, variances, strict=True)):
        least = without_events(seen, float(seen.times[place]), confidence)
        if survival == 1.0:
            pairs.append((least, 1.0))
        elif survival == 0.0:
            pairs.append((0.0, beta_product_bounds(seen, place, confidence)[1]))
        else:
            low, high = _log_log_bounds(float(survival), float(variance), reach)
            pairs.append((min(low, least) if seen.grouped else low, high))
    low, high = np.array(pairs).T
    return low, high
