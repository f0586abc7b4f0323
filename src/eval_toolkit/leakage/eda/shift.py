"""Distribution shift between two samples: proxy A-distance, MMD and neighbour purity."""

import warnings
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.intervals import percentile_interval
from eval_toolkit.inference.options import DRAWING, Drawing
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.leakage.eda._inputs import feature_pair
from eval_toolkit.leakage.eda.discrepancy import (
    ROUNDING,
    MeanDiscrepancy,
    check_pairs,
    from_middle,
    maximum_mean_discrepancy,
    squared_distances,
)
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

_BLOCK = 512
"""Number of rows per block of the distance matrix."""
_UNDECIDED = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyADistance(Displayed):
    """Proxy A-distance, with classifier errors.

    Examples
    --------
    >>> found = proxy_a_distance([[0.0], [0.1]] * 5, [[5.0], [5.1]] * 5)
    >>> found.distance, found.error
    (2.0, 0.0)
    """

    distance: float
    """max(0, 2 (1 − 2 ``error``)): 0 if the samples are indistinguishable, 2 if separable."""
    error: float
    """Balanced error (mean over both samples); about 0.5 without a shift."""
    error_a: float
    """Fraction of rows of A classified as B."""
    error_b: float
    n_folds: int
    n_a: int
    n_b: int
    ci: BootstrapCI | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload = {name: getattr(self, name) for name in self.__slots__ if name != "ci"}
        return payload if self.ci is None else {**payload, "ci": self.ci.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourPurity(Displayed):
    """Fraction of nearest neighbours from the same sample as the row.

    Examples
    --------
    >>> knn_purity([[0.0], [0.1]], [[5.0], [5.1]], k=1).to_dict()["purity"]
    1.0
    """

    purity: float
    expected: float
    """Expected value for a random split into samples of the same sizes."""
    purity_a: float
    """Purity over the rows of A."""
    purity_b: float
    k: int
    n_a: int
    n_b: int

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionShift(Displayed):
    """Three measures of distribution shift.

    Examples
    --------
    >>> a, b = [[0.0], [0.1]] * 5, [[5.0], [5.1]] * 5
    >>> sorted(distribution_shift(a, b, n_permutations=19).to_dict())
    ['discrepancy', 'neighbours', 'proxy_a']
    """

    proxy_a: ProxyADistance
    discrepancy: MeanDiscrepancy
    neighbours: NeighbourPurity

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name).to_dict() for name in self.__slots__}


def proxy_a_distance(
    x_a: ArrayLike,
    x_b: ArrayLike,
    *,
    c: float = 0.1,
    n_folds: int = 5,
    n_resamples: int = 0,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> ProxyADistance:
    """Return the proxy A-distance, based on the error of a linear classifier.

    Parameters
    ----------
    x_a, x_b : array-like of shape (n_a, d) and (n_b, d)
        Features of the two samples.
    c : float, default 0.1
        Inverse of the classifier's L2 regularisation strength.
    n_folds : int, default 5
        Number of cross-validation folds. For samples of equal size, row i of both samples is in the
        same fold, so pairs are never split.
    n_resamples : int, default 0
        Number of resamples for the interval; 0 for none.
    confidence : float, default 0.95
        Confidence level of the interval.
    seed, rng : int, Generator, …, default 0
        Random seed or generator; pass only one of the two.

    Returns
    -------
    ProxyADistance
        Distance in [0, 2]. An error above 0.5 indicates no shift and gives 0.

    Raises
    ------
    InvalidInputError
        If the features are not finite 2-D tables with equal columns and at least one row per fold,
        or an option is out of range.

    Notes
    -----
    The distance is 2 (1 − 2ε) [1]_ with ε the balanced out-of-fold error of a logistic regression.
    Features are standardised on the training rows of each fold. Both samples have equal weight;
    otherwise, constant predictions would look like a shift if the samples differ in size. Undecided
    predictions count as half an error.

    The interval draws the error rate of each sample from its Jeffreys posterior, with errors
    treated as independent, which holds for stable classifiers [2]_. It describes a classifier
    fitted on this many rows, not the optimal classifier. With 60 rows per sample, 95 % intervals
    covered the mean distance in 91 to 96 % of 300 simulations.

    References
    ----------
    .. [1] Ben-David et al. (2007), Analysis of representations for domain adaptation, NIPS 19.
    .. [2] Bayle et al. (2020), Cross-validation confidence intervals for test error, NeurIPS 33.

    Examples
    --------
    >>> a = [[float(i % 7), float(i % 3)] for i in range(42)]
    >>> b = [[value + 3.0, other] for value, other in a]
    >>> proxy_a_distance(a, a).distance, round(proxy_a_distance(a, b).distance, 2)
    (0.0, 0.86)
    """
    folds = validation.integer(n_folds, "n_folds", low=2)
    tables = feature_pair(x_a, x_b, least=folds, why=f"{folds} folds need")
    penalty = validation.number(c, "c", low=0.0, include_low=False)
    resamples = validation.integer(n_resamples, "n_resamples")
    level = validation.fraction(confidence, "confidence")
    start = resolve_seed(seed, rng, default=0)
    wrong = _wrong_out_of_fold(tables, folds, penalty, start)
    n_a, n_b = len(tables[0]), len(tables[1])
    wrong_a, wrong_b = float(wrong[:n_a].sum()), float(wrong[n_a:].sum())
    error_a, error_b = wrong_a / n_a, wrong_b / n_b
    error = (error_a + error_b) / 2.0
    distance = _distance(error)
    ci = None
    if resamples:
        drawn = np.random.default_rng(derive_seed(start, "proxy A-distance"))
        rates = [
            drawn.beta(count + 0.5, size - count + 0.5, resamples)
            for count, size in ((wrong_a, n_a), (wrong_b, n_b))
        ]
        low, high = percentile_interval((rates[0] + rates[1]) / 2.0, level)
        # Without errors, the estimate lies at an end where the posterior has no mass.
        bounds = _distance(high), 2.0 if wrong_a + wrong_b == 0 else _distance(low)
        ci = BootstrapCI(distance, *bounds, level, resamples, "Jeffreys draws", n_units=n_a + n_b)
    return ProxyADistance(
        distance=distance,
        error=error,
        error_a=error_a,
        error_b=error_b,
        n_folds=folds,
        n_a=n_a,
        n_b=n_b,
        ci=ci,
    )


def knn_purity(x_a: ArrayLike, x_b: ArrayLike, *, k: int = 5) -> NeighbourPurity:
    """Return the mean fraction of a row's k nearest neighbours from its own sample.

    Parameters
    ----------
    x_a, x_b : array-like of shape (n_a, d) and (n_b, d)
        Features of the two samples, on comparable scales.
    k : int, default 5
        Number of neighbours per row.

    Returns
    -------
    NeighbourPurity
        1 if the samples are separated, about ``expected`` if they are mixed.

    Raises
    ------
    InvalidInputError
        If the features are not finite 2-D tables with equal columns, the total number of rows
        exceeds 20 000, or ``k`` is not less than that number.

    Notes
    -----
    Neighbours are determined by Euclidean distance. Rows tied for the last places are weighted
    fractionally, so the result does not depend on the order of rows or samples.

    Examples
    --------
    >>> a = [[0.0], [1.0], [2.0], [3.0]]
    >>> found = knn_purity(a, [[x + 0.1] for (x,) in a], k=1)
    >>> found.purity, round(found.expected, 3)
    (0.0, 0.429)
    """
    tables = feature_pair(x_a, x_b)
    pooled, _ = from_middle(np.concatenate(tables))
    n, n_a = len(pooled), len(tables[0])
    check_pairs(n)
    wanted = validation.integer(k, "k", low=1)
    if wanted >= n:
        raise InvalidInputError(
            f"`k` is {wanted}; it must be at most {n - 1}, since there are {n} rows"
        )
    side = np.arange(n) < n_a
    shares = np.concatenate(
        [
            _own_share(pooled, side, np.arange(first, min(first + _BLOCK, n)), wanted)
            for first in range(0, n, _BLOCK)
        ]
    )
    n_b = n - n_a
    return NeighbourPurity(
        purity=float(shares.mean()),
        expected=(n_a * (n_a - 1) + n_b * (n_b - 1)) / (n * (n - 1)),
        purity_a=float(shares[:n_a].mean()),
        purity_b=float(shares[n_a:].mean()),
        k=wanted,
        n_a=n_a,
        n_b=n_b,
    )


@gathers(Drawing, **{**DRAWING, "n_resamples": 0})
def distribution_shift(
    x_a: ArrayLike,
    x_b: ArrayLike,
    *,
    c: float = 0.1,
    n_folds: int = 5,
    bandwidth: float | None = None,
    n_permutations: int = 1000,
    k: int = 5,
    **drawing: Unpack[Drawing],
) -> DistributionShift:
    """Return proxy A-distance, maximum mean discrepancy and neighbour purity of two samples.

    Parameters
    ----------
    x_a, x_b : array-like of shape (n_a, d) and (n_b, d)
        Features of the two samples.
    c, n_folds
        As in `proxy_a_distance`.
    bandwidth, n_permutations
        As in `maximum_mean_discrepancy`.
    k
        As in `knn_purity`.
    n_resamples, confidence, seed, rng
        Options for the intervals of the first two measures and for the test.

    Returns
    -------
    DistributionShift
        Use the p-value of ``discrepancy`` to test for a shift; the other measures describe it.

    Raises
    ------
    InvalidInputError
        As in the functions that compute the three measures.

    Examples
    --------
    >>> a = [[float(i % 7), float(i % 3)] for i in range(42)]
    >>> found = distribution_shift(a, [[value + 3.0, other] for value, other in a])
    >>> found.discrepancy.p_value < 0.01, found.neighbours.purity > found.neighbours.expected
    (True, True)
    """
    start = resolve_seed(drawing["seed"], drawing["rng"], default=0)
    drawn: dict[str, Any] = {
        "n_resamples": drawing["n_resamples"],
        "confidence": drawing["confidence"],
        "seed": start,
    }
    return DistributionShift(
        proxy_a=proxy_a_distance(x_a, x_b, c=c, n_folds=n_folds, **drawn),
        discrepancy=maximum_mean_discrepancy(
            x_a, x_b, bandwidth=bandwidth, n_permutations=n_permutations, **drawn
        ),
        neighbours=knn_purity(x_a, x_b, k=k),
    )


def _distance(error: float) -> float:
    return min(2.0, max(0.0, 2.0 * (1.0 - 2.0 * error)))


def _folds(n: int, n_folds: int, seed: int) -> IntArray:
    """Return the fold of each of n rows; samples of equal size have the same folds."""
    drawn = np.random.default_rng(derive_seed(seed, "folds", n))
    return drawn.permutation(n) % n_folds


def _wrong_out_of_fold(
    tables: tuple[FloatArray, FloatArray], n_folds: int, c: float, seed: int
) -> FloatArray:
    """Return 1 for rows misclassified out of fold, else 0."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    pooled = np.concatenate(tables)
    is_a = np.arange(len(pooled)) < len(tables[0])
    fold = np.concatenate([_folds(len(table), n_folds, seed) for table in tables])
    wrong = np.zeros(len(pooled))
    for one in range(n_folds):
        held = fold == one
        centre = pooled[~held].mean(axis=0)
        spread = pooled[~held].std(axis=0)
        # Ignore constant columns, whose spread is a rounding error.
        spread[spread <= ROUNDING * np.abs(centre)] = np.inf
        scaled = (pooled - centre) / spread
        model = LogisticRegression(
            C=c, class_weight="balanced", solver="liblinear", tol=1e-6, random_state=0
        )
        with warnings.catch_warnings():
            # With a weak penalty the solver may stop early; the error then refers to that solution.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(scaled[~held], is_a[~held])
        leaning = model.decision_function(scaled[held])
        wrong[held] = (leaning > 0.0) != is_a[held]
        # Decision values that are zero up to rounding are undecided.
        wrong[np.flatnonzero(held)[np.abs(leaning) < _UNDECIDED]] = 0.5
    return wrong


def _own_share(pooled: FloatArray, side: BoolArray, rows: IntArray, k: int) -> FloatArray:
    """Return the fraction of same-sample rows in the k nearest neighbours of a block of rows."""
    squares = squared_distances(pooled[rows], pooled)
    squares[np.arange(len(rows)), rows] = np.inf
    last = np.partition(squares, k - 1, axis=1)[:, k - 1 : k]
    slack = ROUNDING * (pooled**2).sum(axis=1)
    slack = slack[rows][:, None] + slack[None, :]
    nearer = squares < last - slack
    tied = ~nearer & (squares <= last + slack)
    own = side[None, :] == side[rows][:, None]
    places = k - nearer.sum(axis=1)
    shares: FloatArray = (nearer & own).sum(axis=1) + places * (
        (tied & own).sum(axis=1) / tied.sum(axis=1)
    )
    return shares / k
