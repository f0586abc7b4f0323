"""Maximum mean discrepancy between two samples of features."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.intervals import percentile_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.leakage.eda._inputs import feature_pair, features
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

MOST_ROWS = 20_000
"""Maximum total number of rows; the matrix over all pairs then takes 3.2 GB."""
ROUNDING = 1e-14
"""Relative error of an inner product."""
_SAME = 1e-12
_BLOCK = 256
"""Number of draws, or rows, per block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDiscrepancy(Displayed):
    """Squared maximum mean discrepancy, with the p-value of a test for a shift.

    Examples
    --------
    >>> found = maximum_mean_discrepancy([[0.0], [1.0]], [[0.0], [1.0]], n_permutations=99)
    >>> found.p_value, found.to_dict()["n_a"]
    (1.0, 2)
    """

    mmd_squared: float
    """Unbiased estimate; may be negative if there is no shift."""
    p_value: float | None
    """P-value of the permutation test; None without permutations."""
    bandwidth: float | None
    """Kernel bandwidth; None if all rows are equal, as it is then irrelevant."""
    n_permutations: int
    n_a: int
    n_b: int
    ci: BootstrapCI | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload = {name: getattr(self, name) for name in self.__slots__ if name != "ci"}
        return payload if self.ci is None else {**payload, "ci": self.ci.to_dict()}


def median_bandwidth(
    x: ArrayLike, *, max_samples: int = 1000, seed: SeedLike = None, rng: SeedLike = None
) -> float:
    """Return the median distance between rows, a common bandwidth of Gaussian kernels.

    Parameters
    ----------
    x : array-like of shape (n, d)
        Features; for a two-sample test, the features of both samples.
    max_samples : int, default 1000
        Maximum number of rows; larger samples are subsampled.
    seed, rng : int, Generator, …, default 0
        Random seed or generator; pass only one of the two.

    Returns
    -------
    float
        Positive bandwidth. If more than half of all pairs have distance 0, the median over the
        other pairs.

    Raises
    ------
    InvalidInputError
        If the features are not a 2-D table of finite numbers, or ``max_samples`` is below 2.
    UndefinedMetricError
        If there are fewer than two distinct rows.

    Examples
    --------
    >>> median_bandwidth([[0.0], [1.0], [3.0]])
    2.0
    """
    table = features(x, "x")
    most = validation.integer(max_samples, "max_samples", low=2)
    start = resolve_seed(seed, rng, default=0)
    if len(table) > most:
        drawn = np.random.default_rng(derive_seed(start, "bandwidth"))
        table = table[np.sort(drawn.choice(len(table), most, replace=False))]
    moved, unit = from_middle(table)
    squares = squared_distances(moved, moved)[np.triu_indices(len(table), 1)]
    middle = float(np.median(np.sqrt(squares))) if len(squares) else 0.0
    if middle == 0.0:
        apart = squares[squares > 0.0]
        if not len(apart):
            raise UndefinedMetricError(
                f"median_bandwidth is undefined: all {len(table)} rows are equal"
            )
        middle = float(np.median(np.sqrt(apart)))
    return middle * unit


def maximum_mean_discrepancy(
    x_a: ArrayLike,
    x_b: ArrayLike,
    *,
    bandwidth: float | None = None,
    n_permutations: int = 1000,
    n_resamples: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> MeanDiscrepancy:
    """Return the squared maximum mean discrepancy, with a permutation test for a shift.

    Parameters
    ----------
    x_a, x_b : array-like of shape (n_a, d) and (n_b, d)
        Features of the samples, such as embeddings; rows must be independent.
    bandwidth : float, optional
        Bandwidth σ of the kernel exp(−‖x − y‖² / 2σ²); by default the `median_bandwidth` of both
        samples.
    n_permutations : int, default 1000
        Number of permutations; 0 for no test.
    n_resamples : int, default 0
        Number of bootstrap resamples for the interval; 0 for none.
    confidence : float, default 0.95
        Confidence level of the interval.
    seed, rng : int, Generator, …, default 0
        Random seed or generator; pass only one of the two.

    Returns
    -------
    MeanDiscrepancy
        Estimate and test, with ``p_value`` = (1 + permutations with at least this discrepancy) / (1
        + permutations).

    Raises
    ------
    InvalidInputError
        If the features are not finite 2-D tables with equal columns and at least two rows each, the
        total number of rows exceeds 20 000, or an option is out of range.

    Notes
    -----
    The unbiased estimate [1]_ is the mean kernel value over pairs within A, plus the mean over
    pairs within B, minus twice the mean over pairs across samples; rows are not paired with
    themselves. The test is exact for any sample size, since the bandwidth does not depend on the
    assignment to A and B. It rejects too often if rows are dependent, e.g. several rows from the
    same document.

    The interval is a percentile bootstrap: rows of each sample are drawn with replacement, copies
    of a row are not paired with each other, and the bandwidth is fixed. It quantifies the size of a
    shift; to detect a shift, use the test, because the estimate is degenerate without a shift.

    References
    ----------
    .. [1] Gretton et al. (2012), A kernel two-sample test, Journal of Machine Learning Research
       13:723-773, Lemma 6.

    Examples
    --------
    >>> a = [[0.1 * i] for i in range(20)]
    >>> near = maximum_mean_discrepancy(a, [[0.1 * i + 0.05] for i in range(20)])
    >>> far = maximum_mean_discrepancy(a, [[0.1 * i + 2.0] for i in range(20)])
    >>> near.p_value > 0.5, far.p_value, round(far.mmd_squared, 2)
    (True, 0.000999000999000999, 0.97)
    """
    tables = feature_pair(x_a, x_b, least=2, why="the discrepancy needs")
    n_a, n_b = len(tables[0]), len(tables[1])
    pooled = np.concatenate(tables)
    check_pairs(len(pooled))
    permutations = validation.integer(n_permutations, "n_permutations")
    resamples = validation.integer(n_resamples, "n_resamples")
    level = validation.fraction(confidence, "confidence")
    start = resolve_seed(seed, rng, default=0)
    width = _bandwidth(pooled, bandwidth, start)
    kernel = _gaussian(pooled, width)
    value = _discrepancy(kernel, n_a)
    p_value = None
    if permutations:
        drawn = np.random.default_rng(derive_seed(start, "permutations"))
        count = _count_as_large(kernel, n_a, value, permutations, drawn)
        p_value = (1 + count) / (1 + permutations)
    ci = None
    if resamples:
        drawn = np.random.default_rng(derive_seed(start, "resamples"))
        samples = _resampled(kernel, n_a, resamples, drawn)
        low, high = percentile_interval(samples, level)
        ci = BootstrapCI(value, low, high, level, resamples, "percentile", n_units=n_a + n_b)
    return MeanDiscrepancy(
        mmd_squared=value,
        p_value=p_value,
        bandwidth=width,
        n_permutations=permutations,
        n_a=n_a,
        n_b=n_b,
        ci=ci,
    )


def check_pairs(n: int) -> None:
    """Raise if the pairwise matrix of n rows would be too large."""
    if n > MOST_ROWS:
        raise InvalidInputError(
            f"`x_a` and `x_b` have {n} rows in total; all pairs are compared, so pass a "
            f"random sample of at most {MOST_ROWS} rows"
        )


def from_middle(x: FloatArray) -> tuple[FloatArray, float]:
    """Return the rows, centred at the median and rescaled, and the scale.

    Inner products lose precision far from the origin, and squares may underflow or overflow. The
    scale is a power of two, so rescaling is exact.

    Examples
    --------
    >>> rows, unit = from_middle(np.array([[1.0], [2.0], [5.0]]))
    >>> rows.ravel().tolist(), unit
    ([-0.5, 0.0, 1.5], 2.0)
    """
    moved = x - np.median(x, axis=0)
    power = int(np.frexp(np.abs(moved).max())[1]) - 1
    return np.ldexp(moved, -power), math.ldexp(1.0, power)


def _gaussian(rows: FloatArray, width: float | None) -> FloatArray:
    """Return the kernel matrix with a zero diagonal."""
    moved, unit = from_middle(rows)
    kernel = squared_distances(moved, moved)
    ratio = 0.0 if width is None else unit / width
    # Finite, since 0 · inf is NaN, yet large enough that only equal rows have kernel value 1.
    kernel *= -0.5 * min(ratio * ratio, 1e300)
    np.exp(kernel, out=kernel)
    np.fill_diagonal(kernel, 0.0)
    return kernel


def squared_distances(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the squared Euclidean distances between two sets of rows.

    Rounding errors in the distances of equal rows are set to 0.

    Examples
    --------
    >>> rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> squared_distances(rows, rows).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    of_x, of_y = (x**2).sum(axis=1)[:, None], (y**2).sum(axis=1)[None, :]
    squares: FloatArray = x @ y.T
    for first in range(0, len(x), _BLOCK):  # limits memory
        part = squares[first : first + _BLOCK]
        lengths = of_x[first : first + _BLOCK] + of_y
        part *= -2.0
        part += lengths
        part[part <= ROUNDING * lengths] = 0.0
    return squares


def _bandwidth(pooled: FloatArray, given: float | None, seed: int) -> float | None:
    if given is not None:
        return validation.number(given, "bandwidth", low=0.0, include_low=False)
    if (pooled == pooled[0]).all():
        return None
    drawn = derive_seed(seed, "median bandwidth")
    try:
        return median_bandwidth(pooled, seed=drawn)
    except UndefinedMetricError:  # no distinct rows in the subsample
        return median_bandwidth(pooled, max_samples=len(pooled), seed=drawn)


def _discrepancy(kernel: FloatArray, n_a: int) -> float:
    """Return the estimate from a kernel matrix with a zero diagonal and the rows of A first."""
    n_b = len(kernel) - n_a
    within_a = kernel[:n_a, :n_a].sum() / (n_a * (n_a - 1))
    within_b = kernel[n_a:, n_a:].sum() / (n_b * (n_b - 1))
    return float(within_a + within_b - 2.0 * kernel[:n_a, n_a:].mean())


def _count_as_large(
    kernel: FloatArray, n_a: int, value: float, n: int, drawn: np.random.Generator
) -> int:
    """Return the number of permutations whose discrepancy is at least the observed one."""
    n_b = len(kernel) - n_a
    rows = kernel.sum(axis=1)
    total = rows.sum()
    side = np.zeros(len(kernel))
    side[:n_a] = 1.0
    count = 0
    for first in range(0, n, _BLOCK):
        sides = drawn.permuted(np.tile(side, (min(_BLOCK, n - first), 1)), axis=1)
        # Sums over pairs within B and across follow from those within A and the row sums.
        within_a = ((sides @ kernel) * sides).sum(axis=1)
        of_a = sides @ rows
        across = of_a - within_a
        within_b = total - of_a - across
        values = within_a / (n_a * (n_a - 1)) + within_b / (n_b * (n_b - 1))
        values -= across * (2.0 / (n_a * n_b))
        # Tolerate rounding errors, so that reorderings of the observed split are counted.
        count += int(np.count_nonzero(values >= value - _SAME))
    return count


def _resampled(kernel: FloatArray, n_a: int, n: int, drawn: np.random.Generator) -> FloatArray:
    """Return the estimate on n bootstrap resamples of each sample."""
    n_b = len(kernel) - n_a
    parts = []
    for first in range(0, n, _BLOCK):
        size = min(_BLOCK, n - first)
        times_a = _times(n_a, size, drawn)
        times_b = _times(n_b, size, drawn)
        within_a = ((times_a @ kernel[:n_a, :n_a]) * times_a).sum(axis=1)
        within_b = ((times_b @ kernel[n_a:, n_a:]) * times_b).sum(axis=1)
        across = ((times_a @ kernel[:n_a, n_a:]) * times_b).sum(axis=1)
        parts.append(
            within_a / (n_a**2 - (times_a**2).sum(axis=1))
            + within_b / (n_b**2 - (times_b**2).sum(axis=1))
            - across * (2.0 / (n_a * n_b))
        )
    return np.concatenate(parts)


def _times(n: int, size: int, drawn: np.random.Generator) -> FloatArray:
    """Return bootstrap counts of n rows; at least two distinct rows are drawn."""
    counts = drawn.multinomial(n, np.full(n, 1.0 / n), size=size)
    while (alone := counts.max(axis=1) == n).any():
        counts[alone] = drawn.multinomial(n, np.full(n, 1.0 / n), size=int(alone.sum()))
    return counts.astype(np.float64)
