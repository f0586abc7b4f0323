"""Wilson score interval for a proportion, for scalars and arrays."""

from statistics import NormalDist
from typing import Any, overload

import numpy as np

from eval_toolkit._internal.validation import FloatArray


@overload
def wilson_bounds(successes: float, n: float, confidence: float) -> tuple[float, float]: ...


@overload
def wilson_bounds(
    successes: FloatArray, n: FloatArray | float, confidence: float
) -> tuple[FloatArray, FloatArray]: ...


def wilson_bounds(successes: Any, n: Any, confidence: float) -> Any:
    """Return the lower and upper Wilson bounds of ``successes / n``; ``n`` must be positive.

    Parameters
    ----------
    successes, n : float or array
        Counts with ``0 <= successes <= n`` and ``n > 0``; not validated here.
    confidence : float
        Two-sided confidence level, strictly between 0 and 1.

    Returns
    -------
    tuple
        ``(low, high)`` in [0, 1]; ``low`` is exactly 0 without successes, ``high`` exactly 1
        without failures.

    Notes
    -----
    With z the normal quantile of (1 + confidence) / 2, the bounds are
    ``(k + z²/2 ± z √(k (n − k) / n + z²/4)) / (n + z²)`` [1]_.

    References
    ----------
    .. [1] Wilson (1927), JASA 22(158):209-212.

    Examples
    --------
    >>> low, high = wilson_bounds(18, 20, 0.95)
    >>> round(low, 4), round(high, 4)
    (0.699, 0.9721)
    """
    z = -NormalDist().inv_cdf((1.0 - confidence) / 2.0)
    hits, total = np.asarray(successes, dtype=np.float64), np.asarray(n, dtype=np.float64)
    centre = hits + z * z / 2.0
    reach = z * np.sqrt(hits * (total - hits) / total + z * z / 4.0)
    low = np.where(hits == 0.0, 0.0, np.maximum(centre - reach, 0.0) / (total + z * z))
    high = np.where(hits == total, 1.0, np.minimum((centre + reach) / (total + z * z), 1.0))
    return (low, high) if low.ndim else (float(low), float(high))
