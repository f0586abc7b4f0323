"""Paired tests of "no difference": McNemar's test and the sign-flip permutation test."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.distributions import ROUNDING
from eval_toolkit.seeds import SeedLike, resolve_seed

McNemarMethod: TypeAlias = Literal["exact", "mid-p", "chi2", "chi2-corrected"]
Alternative: TypeAlias = Literal["two-sided", "greater", "less"]

_MAX_EXACT_GROUPS = 20
_CHUNK_CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class McNemarResult(Displayed):
    """Result of McNemar's test for equal accuracy.

    Examples
    --------
    >>> result = mcnemar_from_table([[30, 12], [3, 55]])
    >>> result.n_01, result.n_10, result.delta
    (12, 3, 0.09)
    """

    delta: float
    """Accuracy of B minus accuracy of A."""
    p_value: float | None
    """Two-sided p-value; None if the statistic is undefined (see ``reason``)."""
    statistic: float | None
    """Chi-squared statistic with one degree of freedom; None for the exact and mid-p tests."""
    n_01: int
    """Number of units on which only B is correct."""
    n_10: int
    """Number of units on which only A is correct."""
    n: int
    method: str
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = ("delta", "p_value", "statistic", "n_01", "n_10", "n", "method")
        payload = {name: getattr(self, name) for name in names}
        return payload | ({"reason": self.reason} if self.reason else {})


@dataclass(frozen=True, slots=True)
class SignFlipResult(Displayed):
    """Result of a paired permutation test for the mean difference B − A.

    Examples
    --------
    >>> result = sign_flip_test([0, 0, 0, 0], [1, 1, 1, 1])
    >>> result.p_value, result.method
    (0.125, 'exact')
    """

    delta: float
    """mean(B) − mean(A)."""
    p_value: float
    alternative: str
    n_units: int
    n_groups: int | None
    """Number of flipped groups; None if units are flipped individually."""
    n_permutations: int
    """Number of sign patterns evaluated, exhaustive or random."""
    method: str
    """"exact" or "monte-carlo"."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "delta": self.delta,
            "p_value": self.p_value,
            "alternative": self.alternative,
            "n_units": self.n_units,
            "n_groups": self.n_groups,
            "n_permutations": self.n_permutations,
            "method": self.method,
        }


def mcnemar_test(
    correct_a: ArrayLike, correct_b: ArrayLike, *, method: McNemarMethod = "exact"
) -> McNemarResult:
    """Test whether A and B have equal accuracy on the same units.

    Parameters
    ----------
    correct_a, correct_b : array-like of shape (n,)
        1 if the system is correct and 0 otherwise, for the same units in the same order.
    method : {"exact", "mid-p", "chi2", "chi2-corrected"}, default "exact"
        See `mcnemar_from_table`.

    Returns
    -------
    McNemarResult
        P-value, statistic and counts; ``delta`` is the accuracy of B minus that of A.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, of equal length and 0/1, or the method is unknown.

    Notes
    -----
    Units must be independent; for grouped units, use `sign_flip_test` with ``groups``.

    References
    ----------
    .. [1] McNemar (1947), Psychometrika 12(2):153-157.

    Examples
    --------
    >>> result = mcnemar_test([1, 1, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1, 1, 1])
    >>> result.delta, result.p_value
    (0.625, 0.0625)
    """
    a = validation.binary_labels(correct_a, "correct_a")
    b = validation.binary_labels(correct_b, "correct_b")
    validation.same_length(a, b, ("correct_a", "correct_b"))
    n_01, n_10 = int(np.count_nonzero(~a & b)), int(np.count_nonzero(a & ~b))
    return _mcnemar(n_01, n_10, len(a), method)


def mcnemar_from_table(table: ArrayLike, *, method: McNemarMethod = "exact") -> McNemarResult:
    """Compute McNemar's test from the 2×2 table of joint outcomes.

    Parameters
    ----------
    table : array-like of shape (2, 2)
        Counts: ``table[i][j]`` units have outcome i under A and j under B, where 0 is incorrect and
        1 correct.
    method : {"exact", "mid-p", "chi2", "chi2-corrected"}, default "exact"
        "exact" is conservative; "mid-p" is closer to the nominal level and rarely exceeds it;
        "chi2" is the large-sample test, "chi2-corrected" adds the continuity correction (R's
        default).

    Returns
    -------
    McNemarResult
        P-value, statistic and counts. Without discordant units, the exact p-values are 1, and the
        chi-squared p-values are None with a reason.

    Raises
    ------
    InvalidInputError
        If the table is not a non-empty 2×2 array of non-negative integers, or the method is
        unknown.

    Notes
    -----
    Given m = n₀₁ + n₁₀ discordant units, n₀₁ is Binomial(m, ½) under the null. exact:
    2 P(X ≤ min(n₀₁, n₁₀)), at most 1; mid-p: 2 P(X ≤ min) − P(X = min), and 1 − ½ P(X = n₀₁)
    when n₀₁ = n₁₀ [2]_; chi2: (n₀₁ − n₁₀)²/m; chi2-corrected: (|n₀₁ − n₁₀| − 1)²/m, and 0 when
    n₀₁ = n₁₀.

    References
    ----------
    .. [1] McNemar (1947), Psychometrika 12(2):153-157.
    .. [2] Fagerland, Lydersen & Laake (2013), BMC Medical Research Methodology 13:91.

    Examples
    --------
    >>> round(mcnemar_from_table([[30, 12], [3, 55]]).p_value, 4)
    0.0352
    >>> round(mcnemar_from_table([[30, 12], [3, 55]], method="mid-p").p_value, 4)
    0.0213
    """
    shape = "of shape (2, 2)"
    counts = validation.as_array(table, "table", shape=shape)
    if counts.shape != (2, 2):
        raise InvalidInputError(f"`table` must be {shape}, got {counts.shape}")
    flat = validation.vector(counts.reshape(-1), "table")
    if (flat < 0).any() or (flat != np.floor(flat)).any() or not flat.any():
        raise InvalidInputError(
            f"`table` is {counts.tolist()}; it must contain whole numbers >= 0, not all zero"
        )
    return _mcnemar(int(flat[1]), int(flat[2]), int(flat.sum()), method)


def sign_flip_test(
    a: ArrayLike,
    b: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    n_permutations: SupportsIndex = 10_000,
    seed: SeedLike = None,
    rng: SeedLike = None,
    alternative: Alternative = "two-sided",
) -> SignFlipResult:
    """Test whether the mean difference is zero by swapping A and B within units or groups.

    Parameters
    ----------
    a, b : array-like of shape (n,)
        Values of A and B for the same units in the same order, 0/1 or real.
    groups : array-like of shape (n,), optional
        Group of each unit; A and B are swapped for whole groups.
    n_permutations : int, default 10000
        Number of random sign patterns, used if there are too many to enumerate.
    seed, rng : int, sequence of int, SeedSequence, Generator, BitGenerator or None
        Random seed or generator; pass at most one of the two. By default 42.
    alternative : {"two-sided", "greater", "less"}, default "two-sided"
        Alternative hypothesis; "greater" is B > A.

    Returns
    -------
    SignFlipResult
        Mean difference B − A and its p-value.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, or an argument is out of range.

    Notes
    -----
    If A and B are exchangeable within a group, flipping the sign of a group's summed difference
    does not change its distribution; the p-value is the fraction of sign patterns whose mean is at
    least as extreme as the observed one. All 2^G patterns are evaluated for up to 20 groups with a
    non-zero difference; otherwise p = (1 + count)/(1 + n_permutations), which is valid for any
    number of random patterns [1]_. For ungrouped 0/1 values this is the exact McNemar test.

    References
    ----------
    .. [1] Phipson & Smyth (2010), Statistical Applications in Genetics and Molecular Biology
       9(1):39.

    Examples
    --------
    >>> a = [0.61, 0.55, 0.70, 0.48, 0.66]
    >>> b = [0.64, 0.60, 0.69, 0.55, 0.71]
    >>> sign_flip_test(a, b).p_value
    0.125
    """
    first, second = validation.vector(a, "a"), validation.vector(b, "b")
    validation.same_length(first, second, ("a", "b"))
    n_draws = validation.integer(n_permutations, "n_permutations", low=1)
    validation.choice(alternative, "alternative", ("two-sided", "greater", "less"))
    seed_ = resolve_seed(seed, rng)
    sums, n_groups = second - first, None
    if groups is not None:
        codes, n_groups = validation.group_codes(groups, len(first))
        sums = np.bincount(codes, weights=sums).astype(np.float64)
    observed = float(sums.sum())
    # Flipping the sign of zero changes nothing, so those groups need not be flipped.
    sizes = np.abs(sums[sums != 0.0])
    exact = len(sizes) <= _MAX_EXACT_GROUPS
    totals = _all_totals(sizes) if exact else _random_totals(sizes, n_draws, seed_)
    count, n_seen = _count_extreme(totals, observed, float(sizes.sum()), alternative)
    return SignFlipResult(
        delta=observed / len(first),
        p_value=count / n_seen if exact else (1 + count) / (1 + n_seen),
        alternative=alternative,
        n_units=len(first),
        n_groups=n_groups,
        n_permutations=n_seen,
        method="exact" if exact else "monte-carlo",
    )


def _mcnemar(n_01: int, n_10: int, n: int, method: McNemarMethod) -> McNemarResult:
    validation.choice(method, "method", ("exact", "mid-p", "chi2", "chi2-corrected"))
    discordant, gap = n_01 + n_10, abs(n_01 - n_10)
    statistic, p_value, reason = None, None, ""
    if method in ("exact", "mid-p"):
        p_value = _binomial_p_value(min(n_01, n_10), discordant, mid_p=method == "mid-p")
    elif discordant == 0:
        reason = "no discordant units: the chi-squared statistic is 0/0"
    else:
        # Capped at zero, so that the correction never makes a tie look like a difference.
        gap = max(gap - 1, 0) if method == "chi2-corrected" else gap
        statistic = gap**2 / discordant
        p_value = math.erfc(math.sqrt(statistic / 2.0))
    return McNemarResult((n_01 - n_10) / n, p_value, statistic, n_01, n_10, n, method, reason)


def _binomial_p_value(smaller: int, total: int, *, mid_p: bool) -> float:
    """Return the two-sided exact or mid-p value for Binomial(total, ½)."""
    from scipy.special import bdtr, gammaln

    two_tails = 2.0 * float(bdtr(smaller, total, 0.5))
    if mid_p and total:
        log_ways = gammaln(total + 1) - gammaln(smaller + 1) - gammaln(total - smaller + 1)
        observed = math.exp(float(log_ways) - total * math.log(2.0))
        # At the centre both tails contain the observed outcome, so half of it is subtracted.
        return 1.0 - observed / 2.0 if 2 * smaller == total else two_tails - observed
    return min(1.0, two_tails)


def _all_totals(sizes: FloatArray) -> Iterator[FloatArray]:
    """Yield the totals of all sign patterns, by doubling."""
    totals = np.zeros(1)
    for size in sizes:
        totals = np.concatenate((totals + size, totals - size))
    yield totals


def _random_totals(sizes: FloatArray, n_draws: int, seed: int) -> Iterator[FloatArray]:
    """Yield the totals of random sign patterns, in chunks of bounded memory."""
    generator = np.random.Generator(np.random.Philox(seed))
    values, counts = np.unique(sizes, return_counts=True)
    # Of m equal sizes a Binomial(m, ½) number is positive; 0/1 data need one draw per pattern.
    few_values = 8 * len(values) <= len(sizes)
    columns = values if few_values else sizes
    chunk = max(1, _CHUNK_CELLS // len(columns))
    for start in range(0, n_draws, chunk):
        rows = min(chunk, n_draws - start)
        positive: NDArray[np.integer[Any]]
        if few_values:
            positive = generator.binomial(counts, 0.5, size=(rows, len(columns)))
        else:
            packed = generator.integers(0, 256, size=(rows, -(-len(columns) // 8)), dtype=np.uint8)
            positive = np.unpackbits(packed, axis=1, count=len(columns))
        yield 2.0 * (positive @ columns) - sizes.sum()


def _count_extreme(
    chunks: Iterable[FloatArray], observed: float, scale: float, alternative: Alternative
) -> tuple[int, int]:
    """Return the number of totals at least as extreme as the observed one, and of all totals."""
    # Tolerate rounding errors, so that equal totals count as equal.
    slack = ROUNDING * scale
    count = n_seen = 0
    for totals in chunks:
        if alternative == "two-sided":
            extreme = np.abs(totals) >= abs(observed) - slack
        else:
            sign = 1.0 if alternative == "greater" else -1.0
            extreme = sign * totals >= sign * observed - slack
        count += int(np.count_nonzero(extreme))
        n_seen += len(totals)
    return count, n_seen
