"""Isotonic least-squares regression by pooling adjacent violators, in near-linear time."""

import numpy as np

from eval_toolkit._internal.validation import FloatArray, IntArray

# Minimum share of blocks pooled per vectorised round; below it, a single stack pass is faster.
_WORTHWHILE = 0.1


def pav(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the non-decreasing sequence closest to ``values`` in weighted least squares.

    Parameters
    ----------
    values : array of shape (n,)
        Finite values, in the order in which the fit must be non-decreasing.
    weights : array of shape (n,), optional
        Positive weights; 1 by default.

    Returns
    -------
    array of shape (n,)
        Fitted values, constant on blocks; each block has the weighted mean of its values.

    Notes
    -----
    Pool adjacent violators [1]_: as long as neighbouring blocks decrease, they are replaced by
    their mean. The order of pooling does not matter. Decreasing runs are pooled in vectorised
    passes as long as the problem shrinks geometrically; a single pass with a stack completes the
    fit.

    References
    ----------
    .. [1] Barlow, Bartholomew, Bremner & Brunk (1972), Statistical Inference under Order
       Restrictions.

    Examples
    --------
    >>> import numpy as np
    >>> pav(np.array([1.0, 3.0, 2.0])).tolist()
    [1.0, 2.5, 2.5]
    """
    mass = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    total = values * mass
    size = np.ones(len(values), dtype=np.int64)
    while True:
        mean = total / mass
        starts = np.flatnonzero(np.concatenate(([True], mean[1:] > mean[:-1])))
        n_pooled = len(mean) - len(starts)
        if n_pooled == 0:
            return np.repeat(mean, size)
        total, mass, size = (np.add.reduceat(part, starts) for part in (total, mass, size))
        if n_pooled < _WORTHWHILE * len(mean):
            return _pool_with_stack(total, mass, size)


def _pool_with_stack(total: FloatArray, mass: FloatArray, size: IntArray) -> FloatArray:
    """Pool blocks from left to right, merging the last two while they decrease."""
    blocks: list[tuple[float, float, int]] = []
    for total_k, mass_k, size_k in zip(total.tolist(), mass.tolist(), size.tolist(), strict=True):
        while blocks and blocks[-1][0] / blocks[-1][1] >= total_k / mass_k:
            previous_total, previous_mass, previous_size = blocks.pop()
            total_k += previous_total
            mass_k += previous_mass
            size_k += previous_size
        blocks.append((total_k, mass_k, size_k))
    means = [block_total / block_mass for block_total, block_mass, _ in blocks]
    return np.repeat(means, [block_size for _, _, block_size in blocks])
