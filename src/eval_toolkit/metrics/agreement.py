"""Agreement of two labelings of the same rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._validate import FloatArray, group_codes, identifiers, sample_weights
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError

__all__ = ["cohen_kappa"]


def cohen_kappa(
    y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Agreement of two label vectors beyond what their frequencies give by chance.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Class labels of the same rows: integers, booleans or strings, any number of classes.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        A value in [-1, 1]; 0 is chance, 1 is perfect agreement.

    Raises
    ------
    InvalidInputError
        If the vectors are empty, not 1-D, not equally long, or hold values that are not labels.
    UndefinedMetricError
        If both vectors are constant with the same label: chance already agrees perfectly.

    Notes
    -----
    ``(p_o − p_e) / (1 − p_e)`` with observed agreement p_o and the agreement p_e of independent
    raters with the same marginals [1]_. Equal to ``sklearn.metrics.cohen_kappa_score`` to 1e-12.

    References
    ----------
    .. [1] Cohen (1960), Educational and Psychological Measurement 20(1):37-46.

    Examples
    --------
    >>> cohen_kappa(["cat", "dog", "cat", "dog"], ["cat", "dog", "dog", "dog"])
    0.5
    """
    n = np.size(y_true)
    group_codes(y_true, n, "y_true")
    group_codes(y_pred, n, "y_pred")
    kinds = _label_kind(np.asarray(y_true)), _label_kind(np.asarray(y_pred))
    if set(kinds) == {"numbers", "strings"}:
        raise InvalidInputError(
            f"`y_true` holds {kinds[0]} but `y_pred` holds {kinds[1]}; "
            "both must name classes the same way"
        )
    both = identifiers(y_true, "y_true"), identifiers(y_pred, "y_pred")
    codes, n_classes = group_codes(np.concatenate(both), 2 * n)
    weights = sample_weights(sample_weight, n)
    disagree = codes[:n] != codes[n:]
    observed = float(np.average(disagree, weights=weights))
    first_share, second_share = (
        _shares(np.bincount(half, weights, n_classes)) for half in (codes[:n], codes[n:])
    )
    by_chance = float(first_share @ (1.0 - second_share))
    if by_chance == 0.0:
        raise UndefinedMetricError("cohen_kappa is undefined: both vectors are constant and equal")
    return 1.0 - observed / by_chance


def _label_kind(labels: NDArray[Any]) -> str:
    return {"U": "strings", "S": "strings", "T": "strings", "O": "objects"}.get(
        labels.dtype.kind, "numbers"
    )


def _shares(counts: NDArray[Any]) -> FloatArray:
    return np.asarray(counts / counts.sum(), dtype=np.float64)
