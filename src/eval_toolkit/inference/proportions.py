"""Intervals for a proportion, given k successes in n trials or clusters of trials.

The Wald interval ``p ± 1.96 √(p (1 − p) / n)`` has a coverage of only 64 % for n = 20 and p = 0.95,
unlike the intervals in this module.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.distributions import critical_value
from eval_toolkit.inference.results import Interval, in_own_order
from eval_toolkit.metrics.wilson import wilson_bounds

_FEW = 3.0 + 1e-9
"""Largest count for which the Wilson bound near 0 or 1 is corrected by a Poisson limit."""

_COARSE_POINTS = 61
_MU_POINTS = 301
_RHO_POINTS = 121
_LOGIT_RANGE = 40.0
_NEGLIGIBLE_LOG_DENSITY = 40.0
_MAX_ZOOMS = 12


@in_own_order
@dataclass(frozen=True, repr=False)
class ProportionInterval(Interval[float | None]):
    """Interval for a proportion, with its counts and method.

    Examples
    --------
    >>> interval = ProportionInterval(0.7, 0.97, 0.95, "wilson", successes=18, n=20)
    >>> interval.proportion, interval.method
    (0.9, 'wilson')
    """

    ci_low: float | None
    """Lower bound; None if there are no trials (see ``reason``)."""
    ci_high: float | None
    confidence: float
    _: KW_ONLY
    successes: int
    n: int
    n_groups: int | None = None
    """Number of clusters, for clustered counts."""

    @property
    def proportion(self) -> float | None:
        """Observed proportion; None if n is 0."""
        return self.successes / self.n if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload: dict[str, Any] = {
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "successes": self.successes,
            "n": self.n,
            "proportion": self.proportion,
            "method": self.method,
        }
        if self.n_groups is not None:
            payload["n_groups"] = self.n_groups
        if self.reason:
            payload["reason"] = self.reason
        return payload


WilsonInterval: TypeAlias = ProportionInterval


def wilson_interval(
    successes: SupportsIndex, n: SupportsIndex, *, confidence: float = 0.95
) -> ProportionInterval:
    """Return the Wilson score interval for a proportion (the default for rates).

    Parameters
    ----------
    successes, n : int
        Number of successes and of trials, ``0 <= successes <= n``.
    confidence : float, default 0.95
        Two-sided confidence level, strictly between 0 and 1.

    Returns
    -------
    ProportionInterval
        Bounds inside [0, 1]; None with a reason when n is 0.

    Raises
    ------
    InvalidInputError
        If a count is negative, ``successes > n``, or the confidence is not in (0, 1).

    Notes
    -----
    The interval contains the proportions that the score test does not reject [1]_; its mean
    coverage is close to nominal for every n [2]_.

    References
    ----------
    .. [1] Wilson (1927), JASA 22(158):209-212.
    .. [2] Brown, Cai & DasGupta (2001), Statistical Science 16(2):101-133.

    Examples
    --------
    >>> interval = wilson_interval(18, 20)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.699, 0.972)
    """
    hits, total, level = _counts(successes, n, confidence)
    if total == 0:
        return _no_trials(level, "wilson")
    low, high = wilson_bounds(hits, total, level)
    return ProportionInterval(low, high, level, "wilson", successes=hits, n=total)


def score_interval(
    value: float, n_effective: float, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the Wilson interval, corrected near 0 and 1, for real-valued n.

    Parameters
    ----------
    value : float
        Proportion, in [0, 1].
    n_effective : float
        Effective number of independent units; positive, not necessarily an integer.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    tuple of float
        Lower and upper end, inside [0, 1].

    Raises
    ------
    InvalidInputError
        If the proportion is outside [0, 1], n is not positive or the confidence is not in (0, 1).

    Notes
    -----
    With at most 3 successes, and fewer successes than failures, the Wilson lower bound is too high,
    and the coverage drops to 0.83 for proportions just below it. The bound is then at most the
    one-sided Poisson limit ``χ²_{2x, 1−confidence} / (2n)`` for x successes; the upper bound is
    treated analogously if there are few failures [1]_.

    References
    ----------
    .. [1] Brown, Cai & DasGupta (2001), Statistical Science 16(2):101-133, section 4.1.

    Examples
    --------
    >>> [round(end, 4) for end in score_interval(0.02, 50)]
    [0.001, 0.105]
    """
    share = validation.number(value, "value", low=0.0, high=1.0)
    n = validation.number(n_effective, "n_effective", low=0.0, include_low=False)
    level = validation.fraction(confidence, "confidence")
    hits, misses = share * n, (1.0 - share) * n
    low, high = wilson_bounds(hits, n, level)
    if 0.0 < hits < misses and hits <= _FEW:
        low = min(low, _poisson_limit(hits, level) / n)
    elif 0.0 < misses < hits and misses <= _FEW:
        high = max(high, 1.0 - _poisson_limit(misses, level) / n)
    return low, high


def clopper_pearson_interval(
    successes: SupportsIndex, n: SupportsIndex, *, confidence: float = 0.95
) -> ProportionInterval:
    """Return the exact (conservative) Clopper-Pearson interval.

    Parameters
    ----------
    successes, n : int
        Number of successes and of trials, ``0 <= successes <= n``.
    confidence : float, default 0.95
        Two-sided confidence level, strictly between 0 and 1.

    Returns
    -------
    ProportionInterval
        Bounds inside [0, 1]; None with a reason when n is 0.

    Raises
    ------
    InvalidInputError
        If a count is negative, ``successes > n``, or the confidence is not in (0, 1).

    Notes
    -----
    The interval contains the proportions that neither one-sided binomial test rejects at (1 −
    confidence) / 2 [1]_; the bounds are Beta(k, n − k + 1) and Beta(k + 1, n − k) quantiles.

    References
    ----------
    .. [1] Clopper & Pearson (1934), Biometrika 26(4):404-413.

    Examples
    --------
    >>> interval = clopper_pearson_interval(0, 10)
    >>> interval.low, round(interval.high, 3)
    (0.0, 0.308)
    """
    from scipy.special import betaincinv

    hits, total, level = _counts(successes, n, confidence)
    if total == 0:
        return _no_trials(level, "clopper-pearson")
    tail = (1.0 - level) / 2.0
    low = float(betaincinv(hits, total - hits + 1, tail)) if hits else 0.0
    # By symmetry, 1 − the lower bound of the failures, which keeps the precision of the small tail.
    high = 1.0 - float(betaincinv(total - hits, hits + 1, tail)) if hits < total else 1.0
    return ProportionInterval(low, high, level, "clopper-pearson", successes=hits, n=total)


def jeffreys_interval(
    successes: SupportsIndex, n: SupportsIndex, *, confidence: float = 0.95
) -> ProportionInterval:
    """Return the Jeffreys interval: equal tails of the Beta(k + ½, n − k + ½) posterior.

    Parameters
    ----------
    successes, n : int
        Number of successes and of trials, ``0 <= successes <= n``.
    confidence : float, default 0.95
        Two-sided confidence level, strictly between 0 and 1.

    Returns
    -------
    ProportionInterval
        Bounds inside [0, 1]; None with a reason when n is 0.

    Raises
    ------
    InvalidInputError
        If a count is negative, ``successes > n``, or the confidence is not in (0, 1).

    Notes
    -----
    The lower bound is 0 when k = 0, and the upper bound is 1 when k = n, as recommended by Brown,
    Cai & DasGupta, because the coverage of the unmodified interval drops to 0 there [1]_.

    References
    ----------
    .. [1] Brown, Cai & DasGupta (2001), Statistical Science 16(2):101-133, section 4.1.

    Examples
    --------
    >>> interval = jeffreys_interval(20, 20)
    >>> round(interval.low, 3), interval.high
    (0.883, 1.0)
    """
    hits, total, level = _counts(successes, n, confidence)
    if total == 0:
        return _no_trials(level, "jeffreys")
    low, high = _beta_tails(hits + 0.5, total - hits + 0.5, level)
    return ProportionInterval(
        0.0 if hits == 0 else low,
        1.0 if hits == total else high,
        level,
        "jeffreys",
        successes=hits,
        n=total,
    )


def agresti_coull_interval(
    successes: SupportsIndex, n: SupportsIndex, *, confidence: float = 0.95
) -> ProportionInterval:
    """Return the Agresti-Coull interval: the Wald interval after adding z²/2 of each outcome.

    Parameters
    ----------
    successes, n : int
        Number of successes and of trials, ``0 <= successes <= n``.
    confidence : float, default 0.95
        Two-sided confidence level, strictly between 0 and 1.

    Returns
    -------
    ProportionInterval
        Bounds clipped to [0, 1]; None with a reason when n is 0.

    Raises
    ------
    InvalidInputError
        If a count is negative, ``successes > n``, or the confidence is not in (0, 1).

    Notes
    -----
    The interval has the same centre as Wilson's and is never narrower [1]_.

    References
    ----------
    .. [1] Agresti & Coull (1998), The American Statistician 52(2):119-126.

    Examples
    --------
    >>> interval = agresti_coull_interval(18, 20)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.687, 0.984)
    """
    hits, total, level = _counts(successes, n, confidence)
    if total == 0:
        return _no_trials(level, "agresti-coull")
    z = critical_value(level)
    padded = total + z * z
    centre = (hits + z * z / 2.0) / padded
    reach = z * math.sqrt(centre * (1.0 - centre) / padded)
    return ProportionInterval(
        max(centre - reach, 0.0),
        min(centre + reach, 1.0),
        level,
        "agresti-coull",
        successes=hits,
        n=total,
    )


def beta_binomial_interval(
    successes: SupportsIndex | Sequence[int] | NDArray[Any],
    n: SupportsIndex | Sequence[int] | NDArray[Any],
    *,
    confidence: float = 0.95,
    prior: tuple[float, float] = (1.0, 1.0),
) -> ProportionInterval:
    """Return a Bayesian interval for a proportion, for small n or clusters of trials.

    Parameters
    ----------
    successes, n : int or sequence of int
        Two counts, or one pair of counts per cluster (e.g. per question with repeated attempts).
        Clusters may be empty.
    confidence : float, default 0.95
        Posterior probability of the equal-tailed interval.
    prior : tuple of float, default (1.0, 1.0)
        Beta prior of the proportion; (1, 1) is uniform, (0.5, 0.5) is Jeffreys'.

    Returns
    -------
    ProportionInterval
        Bounds inside [0, 1]; None with a reason when there are no trials.

    Raises
    ------
    InvalidInputError
        If a count is negative or exceeds the number of trials, the sequences differ in length, or
        the prior is not a pair of positive numbers.

    Notes
    -----
    Two counts give the Beta(a + k, b + n − k) posterior. With clusters, each cluster has its own
    success probability, drawn from a Beta distribution with mean μ and intra-cluster correlation ρ,
    so counts k_j are beta-binomial. The interval is taken from the posterior of μ, with the given
    prior on μ and a uniform prior on ρ, by deterministic quadrature over (logit μ, logit ρ). The
    cost grows with the size of the largest cluster, not with the number of clusters. Clusters of
    one trial give the same interval as the pooled counts. Because the interval is equal-tailed, it
    never includes 0 or 1, even if all trials have the same outcome. Such intervals have good
    coverage with tens of questions, unlike normal approximations [1]_.

    References
    ----------
    .. [1] Bowyer, Aitchison & Ivanova (2025), Don't use the CLT in LLM evals with fewer than a
       few hundred datapoints, ICML position paper.

    Examples
    --------
    >>> interval = beta_binomial_interval(18, 20)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.696, 0.97)

    Five attempts at each of four questions are less informative than twenty questions:

    >>> interval = beta_binomial_interval([5, 5, 5, 3], [5, 5, 5, 5])
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.497, 0.974)
    """
    level = validation.fraction(confidence, "confidence")
    a, b = _prior(prior)
    if np.ndim(successes) or np.ndim(n):  # type: ignore[arg-type]
        hits, totals = _cluster_counts(successes, n)
        k, total = int(hits.sum()), int(totals.sum())
        if total == 0:
            return _no_trials(level, "beta-binomial", len(totals))
        low, high = _beta_binomial_tails(hits, totals, (a, b), level)
        return ProportionInterval(
            low, high, level, "beta-binomial", successes=k, n=total, n_groups=len(totals)
        )
    k, total, level = _counts(successes, n, level)  # type: ignore[arg-type]
    if total == 0:
        return _no_trials(level, "beta")
    low, high = _beta_tails(a + k, b + total - k, level)
    return ProportionInterval(low, high, level, "beta", successes=k, n=total)


def _counts(
    successes: SupportsIndex, n: SupportsIndex, confidence: float
) -> tuple[int, int, float]:
    hits = validation.integer(successes, "successes")
    total = validation.integer(n, "n")
    if hits > total:
        raise InvalidInputError(f"`successes` is {hits} but `n` is {total}; it must not exceed n")
    return hits, total, validation.fraction(confidence, "confidence")


def _poisson_limit(count: float, confidence: float) -> float:
    """Return the one-sided lower limit of a Poisson mean."""
    from scipy.special import gammaincinv

    return float(gammaincinv(count, 1.0 - confidence))


def _no_trials(confidence: float, method: str, n_groups: int | None = None) -> ProportionInterval:
    reason = "no trials, so the proportion is undefined"
    return ProportionInterval(
        None, None, confidence, method, reason, successes=0, n=0, n_groups=n_groups
    )


def _prior(prior: tuple[float, float]) -> tuple[float, float]:
    if np.shape(prior) != (2,):
        raise InvalidInputError(f"`prior` is {prior!r}; it must be two positive numbers (a, b)")
    a, b = (
        validation.number(value, f"prior[{i}]", low=0.0, include_low=False)
        for i, value in enumerate(prior)
    )
    return a, b


def _cluster_counts(successes: Any, n: Any) -> tuple[IntArray, IntArray]:
    hits, totals = _whole_numbers(successes, "successes"), _whole_numbers(n, "n")
    validation.same_length(hits, totals, ("successes", "n"))
    if (hits > totals).any():
        row = int(np.argmax(hits > totals))
        raise InvalidInputError(
            f"successes[{row}] is {hits[row]} but n[{row}] is {totals[row]}; it must not exceed n"
        )
    return hits, totals


def _whole_numbers(values: Any, name: str) -> IntArray:
    floats = validation.vector(values, name)
    wrong = (floats < 0) | (floats != np.floor(floats))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInputError(f"{name}[{row}] is {floats[row]:g}; counts are whole numbers >= 0")
    return floats.astype(np.int64)


def _beta_tails(a: float, b: float, confidence: float) -> tuple[float, float]:
    from scipy.special import betaincinv

    tail = (1.0 - confidence) / 2.0
    return float(betaincinv(a, b, tail)), 1.0 - float(betaincinv(b, a, tail))


def _beta_binomial_tails(
    successes: IntArray, n: IntArray, prior: tuple[float, float], confidence: float
) -> tuple[float, float]:
    from scipy.interpolate import CubicSpline
    from scipy.special import expit

    mu_range, rho_range = _posterior_ranges(successes, n, prior)
    logit_mu = np.linspace(*mu_range, _MU_POINTS)
    logit_rho = np.linspace(*rho_range, _RHO_POINTS)
    log_posterior = _log_posterior(logit_mu, logit_rho, successes, n, prior)
    # Trapezoid sums over logit ρ: spectrally accurate, as the integrand dies out at both ends.
    density = np.exp(log_posterior - log_posterior.max()).sum(axis=1)
    cumulative = CubicSpline(logit_mu, density).antiderivative()
    tail = (1.0 - confidence) / 2.0
    total = float(cumulative(logit_mu[-1]))
    low, high = (cumulative.solve(share * total, extrapolate=False) for share in (tail, 1 - tail))
    return float(expit(low[0])), float(expit(high[-1]))


def _posterior_ranges(
    successes: IntArray, n: IntArray, prior: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ranges of logit μ and logit ρ with non-negligible posterior density."""
    mu_range = rho_range = (-_LOGIT_RANGE, _LOGIT_RANGE)
    for _ in range(_MAX_ZOOMS):
        logit_mu = np.linspace(*mu_range, _COARSE_POINTS)
        logit_rho = np.linspace(*rho_range, _COARSE_POINTS)
        log_posterior = _log_posterior(logit_mu, logit_rho, successes, n, prior)
        matters = log_posterior > log_posterior.max() - _NEGLIGIBLE_LOG_DENSITY
        ranges = _extent(logit_mu, matters.any(axis=1)), _extent(logit_rho, matters.any(axis=0))
        if ranges == (mu_range, rho_range):
            break
        mu_range, rho_range = ranges
    return mu_range, rho_range


def _extent(grid: FloatArray, matters: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the range of the selected points, extended by one point on each side."""
    where = np.flatnonzero(matters)
    first, last = max(where[0] - 1, 0), min(where[-1] + 1, len(grid) - 1)
    return float(grid[first]), float(grid[last])


def _log_posterior(
    logit_mu: FloatArray,
    logit_rho: FloatArray,
    successes: IntArray,
    n: IntArray,
    prior: tuple[float, float],
) -> FloatArray:
    """Return log p(logit μ, logit ρ | counts) up to a constant, as a matrix μ × ρ.

    The beta-binomial probability is a ratio of rising factorials; with θ = ρ / (1 − ρ) it is
    ∏_{i<k} (μ + iθ) ∏_{i<n−k} (1 − μ + iθ) / ∏_{i<n} (1 + iθ). The i-th factor occurs once for
    every cluster with more than i successes (failures, trials), so only the number of such clusters
    is required.
    """
    from scipy.special import expit, log_expit

    mu, failure = expit(logit_mu)[:, np.newaxis], expit(-logit_mu)[:, np.newaxis]
    theta = np.exp(logit_rho)[np.newaxis, :]
    a, b = prior
    # The last factors are the Jacobian of both logits: uniform in μ, ρ is not uniform in logits.
    result = np.add.outer(
        a * log_expit(logit_mu) + b * log_expit(-logit_mu),
        log_expit(logit_rho) + log_expit(-logit_rho),
    )
    for base, counts, sign in ((mu, successes, 1), (failure, n - successes, 1), (1.0, n, -1)):
        for i, repeats in enumerate(_exceedance_counts(counts)):
            result += sign * repeats * np.log(base + i * theta)
    return np.asarray(result, dtype=np.float64)


def _exceedance_counts(counts: IntArray) -> IntArray:
    """Return, for i = 0, 1, …, max − 1, the number of counts greater than i."""
    return (len(counts) - np.cumsum(np.bincount(counts)))[:-1].astype(np.int64)
