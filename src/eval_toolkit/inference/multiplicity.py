"""Adjustment of p-values for multiple tests: family-wise error or false discovery rate."""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError

CorrectionMethod: TypeAlias = Literal["bh", "by", "holm", "hochberg", "bonferroni", "none"]

_METHODS = ("bh", "by", "holm", "hochberg", "bonferroni", "none")


def correct_p_values(p: ArrayLike, *, method: CorrectionMethod = "bh") -> FloatArray:
    """Adjust p-values for multiple tests.

    Parameters
    ----------
    p : array-like of shape (m,)
        P-values of the m tests.
    method : {"bh", "by", "holm", "hochberg", "bonferroni", "none"}, default "bh"
        Method of adjustment; see Notes.

    Returns
    -------
    ndarray of shape (m,)
        Adjusted p-values in [0, 1], in the order of the input.

    Raises
    ------
    InvalidInputError
        If ``p`` is empty, not 1-D, contains a value outside [0, 1], or the method is unknown.

    Notes
    -----
    With p₍₁₎ ≤ … ≤ p₍ₘ₎:

    ============ ============================================== ==============================
    method       adjusted p₍ᵢ₎                                  controls
    ============ ============================================== ==============================
    bonferroni   m p₍ᵢ₎                                         family-wise error, always
    holm         max_{j≤i} (m − j + 1) p₍ⱼ₎                     the same, never less powerful
    hochberg     min_{j≥i} (m − j + 1) p₍ⱼ₎                     the same, independent tests
    bh           min_{j≥i} m p₍ⱼ₎ / j                           false discovery rate,
                                                                independent or positively
                                                                dependent tests
    by           bh times 1 + 1/2 + … + 1/m                     false discovery rate, always
    ============ ============================================== ==============================

    all capped at 1 [1]_ [2]_ [3]_ [4]_.

    References
    ----------
    .. [1] Holm (1979), Scandinavian J. Statistics 6(2):65-70.
    .. [2] Hochberg (1988), Biometrika 75(4):800-802.
    .. [3] Benjamini & Hochberg (1995), J. Royal Statistical Society B 57(1):289-300.
    .. [4] Benjamini & Yekutieli (2001), Annals of Statistics 29(4):1165-1188.

    Examples
    --------
    >>> correct_p_values([0.01, 0.04, 0.03], method="holm").round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    values = _p_values(p)
    validation.choice(method, "method", _METHODS)
    if method == "none":
        return values.copy()
    m = len(values)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    rank = np.arange(1, m + 1)
    if method == "bonferroni":
        adjusted = m * ranked
    elif method == "holm":
        adjusted = np.maximum.accumulate((m - rank + 1) * ranked)
    elif method == "hochberg":
        adjusted = _running_minimum((m - rank + 1) * ranked)
    else:
        dependence = float((1.0 / rank).sum()) if method == "by" else 1.0
        adjusted = _running_minimum(dependence * m / rank * ranked)
    result = np.empty(m)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def fdr_bh_correct(p: ArrayLike) -> FloatArray:
    """Adjust p-values by Benjamini and Hochberg's false discovery rate procedure.

    Parameters
    ----------
    p : array-like of shape (m,)
        P-values of the m tests.

    Returns
    -------
    ndarray of shape (m,)
        Adjusted p-values in [0, 1], in the order of the input.

    Raises
    ------
    InvalidInputError
        If ``p`` is empty, not 1-D, or contains a value outside [0, 1].

    Notes
    -----
    Equivalent to ``correct_p_values(p, method="bh")``.

    References
    ----------
    .. [1] Benjamini & Hochberg (1995), J. Royal Statistical Society B 57(1):289-300.

    Examples
    --------
    >>> fdr_bh_correct([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    return correct_p_values(p, method="bh")


def bonferroni_correct(p: ArrayLike) -> FloatArray:
    """Adjust p-values by multiplying them by the number of tests.

    Parameters
    ----------
    p : array-like of shape (m,)
        P-values of the m tests.

    Returns
    -------
    ndarray of shape (m,)
        Adjusted p-values in [0, 1], in the order of the input.

    Raises
    ------
    InvalidInputError
        If ``p`` is empty, not 1-D, or contains a value outside [0, 1].

    Notes
    -----
    Equivalent to ``correct_p_values(p, method="bonferroni")``. The method "holm" controls the same
    error rate and rejects at least as often.

    Examples
    --------
    >>> bonferroni_correct([0.01, 0.04, 0.5]).round(3).tolist()
    [0.03, 0.12, 1.0]
    """
    return correct_p_values(p, method="bonferroni")


def _p_values(p: ArrayLike) -> FloatArray:
    values = validation.vector(p, "p")
    outside = (values < 0.0) | (values > 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise InvalidInputError(f"p[{row}] is {values[row]}; p-values lie in [0, 1]")
    return values


def _running_minimum(values: FloatArray) -> FloatArray:
    """Return the minimum from each position to the end."""
    return np.minimum.accumulate(values[::-1])[::-1]
