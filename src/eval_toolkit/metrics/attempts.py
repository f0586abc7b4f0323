"""pass@k and pass^k: probability that at least one of k attempts succeeds, or that all do."""

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError


def pass_at_k(n_attempts: ArrayLike, n_correct: ArrayLike, k: int) -> FloatArray:
    """Estimate the probability that at least one of k attempts at a unit succeeds (pass@k).

    Parameters
    ----------
    n_attempts, n_correct : array-like of int
        Number of attempts at each unit, and number of successes.
    k : int
        Number of attempts drawn, at least 1.

    Returns
    -------
    ndarray
        ``1 − C(n − c, k) / C(n, k)`` per unit, which is unbiased, unlike ``1 − (1 − c/n)^k``.

    Raises
    ------
    InvalidInputError
        If a count is negative, or there are more successes than attempts.
    UndefinedMetricError
        If a unit has fewer than k attempts.

    References
    ----------
    Chen et al. (2021), Evaluating large language models trained on code, arXiv:2107.03374.

    Examples
    --------
    >>> pass_at_k([4, 4], [1, 0], 2).tolist()
    [0.5, 0.0]
    """
    n, c = _counts(n_attempts, n_correct, k)
    return 1.0 - _none_of_k(n, n - c, k)


def pass_hat_k(n_attempts: ArrayLike, n_correct: ArrayLike, k: int) -> FloatArray:
    """Estimate the probability that all of k attempts at a unit succeed (pass^k).

    Parameters
    ----------
    n_attempts, n_correct, k
        As in `pass_at_k`.

    Returns
    -------
    ndarray
        ``C(c, k) / C(n, k)`` per unit.

    Raises
    ------
    InvalidInputError, UndefinedMetricError
        As in `pass_at_k`.

    Examples
    --------
    >>> pass_hat_k([4, 4], [3, 4], 2).tolist()
    [0.5, 1.0]
    """
    n, c = _counts(n_attempts, n_correct, k)
    return _none_of_k(n, c, k)


def _none_of_k(n: IntArray, m: IntArray, k: int) -> FloatArray:
    """Return C(m, k) / C(n, k) as a product of k ratios, to avoid overflow."""
    share = np.ones(len(n))
    for i in range(k):
        share *= np.maximum(m - i, 0) / (n - i)
    return share


def _counts(n_attempts: ArrayLike, n_correct: ArrayLike, k: int) -> tuple[IntArray, IntArray]:
    k = validation.integer(k, "k", low=1)
    n = np.atleast_1d(np.asarray(n_attempts))
    c = np.atleast_1d(np.asarray(n_correct))
    for name, counts in (("n_attempts", n), ("n_correct", c)):
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise InvalidInputError(
                f"`{name}` must be a vector of non-negative integers, one per unit"
            )
    if n.shape != c.shape:
        raise InvalidInputError(f"`n_attempts` has {len(n)} units but `n_correct` has {len(c)}")
    if (c > n).any():
        unit = int(np.argmax(c > n))
        raise InvalidInputError(f"n_correct[{unit}] is {c[unit]}, more than the {n[unit]} attempts")
    if (n < k).any():
        unit = int(np.argmax(n < k))
        raise UndefinedMetricError(f"unit {unit} has {n[unit]} attempts; at least k={k} are needed")
    return n.astype(np.int64), c.astype(np.int64)
