"""Cluster-robust standard errors of means and linear models, with one- or two-way clustering."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.distributions import critical_value, negligible, upper_tail
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE


@dataclass(frozen=True, slots=True, repr=False)
class ClusteredOLS(Displayed):
    """Least-squares coefficients with robust standard errors; the intercept is first.

    Examples
    --------
    >>> fit = ols_cluster([1.0, 2.0, 2.0, 4.0], [0, 1, 2, 3], groups=["a", "a", "b", "b"])
    >>> fit.method, fit.n_groups, fit.df
    ('CR1', (2,), 1)
    """

    coef: tuple[float, ...]
    se: tuple[float, ...]
    t: tuple[float | None, ...]
    """t statistic; None if the standard error is zero (see ``reason``)."""
    p_value: tuple[float | None, ...]
    """Two-sided p-value for the hypothesis that the coefficient is zero."""
    ci_low: tuple[float, ...]
    ci_high: tuple[float, ...]
    confidence: float
    df: int
    n_units: int
    n_groups: tuple[int, ...]
    """Number of clusters for each key; empty without clusters."""
    method: str
    """"HC0", "HC1", "CR0", "CR1", "CR0-two-way" or "CR1-two-way"."""
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload: dict[str, Any] = {
            name: list(getattr(self, name))
            for name in ("coef", "se", "t", "p_value", "ci_low", "ci_high", "n_groups")
        }
        for name in ("confidence", "df", "n_units", "method"):
            payload[name] = getattr(self, name)
        if self.reason:
            payload["reason"] = self.reason
        return payload


def cluster_robust_se(
    values: ArrayLike, groups: ArrayLike, *, groups2: ArrayLike | None = None
) -> float:
    """Return the cluster-robust standard error of a mean.

    Parameters
    ----------
    values : array-like of shape (n,)
        Value of each unit, 0/1 or real.
    groups : array-like of shape (n,)
        Cluster of each unit; units within a cluster may be correlated, clusters are independent.
    groups2 : array-like of shape (n,), optional
        Second clustering key, crossed with the first (e.g. prompt template with topic, or annotator
        with item).

    Returns
    -------
    float
        The standard error.

    Raises
    ------
    InvalidInputError
        If the arrays are not 1-D, finite and of equal length, or a group id is missing.
    UndefinedMetricError
        If a key has only one cluster.

    Notes
    -----
    ``√(G/(G−1) Σ_g (Σ_{i∈g} (x_i − x̄))²) / n``, the CR1 estimator of a regression on a constant;
    with one unit per cluster it is the usual sd/√n. With two keys, the variance is the sum of the
    variances for each key minus the variance for their intersection [1]_; if that is not positive,
    the larger one-way variance is used.

    References
    ----------
    .. [1] Cameron, Gelbach & Miller (2011), J. Business & Economic Statistics 29(2):238-249.

    Examples
    --------
    >>> round(cluster_robust_se([1, 1, 0, 0], ["a", "a", "b", "b"]), 3)
    0.5
    >>> round(cluster_robust_se([1, 1, 0, 0], ["a", "b", "c", "d"]), 3)
    0.289
    """
    x = validation.vector(values, "values")
    keys = _keys(groups, groups2, len(x))
    influence = (x - x.mean())[:, np.newaxis] / len(x)
    variance, _ = _robust_variance(influence, keys, correction=True)
    return math.sqrt(float(variance[0]))


def ols_cluster(
    y: ArrayLike,
    X: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    groups2: ArrayLike | None = None,
    add_intercept: bool = True,
    correction: bool = True,
    confidence: float = DEFAULT_CONFIDENCE,
) -> ClusteredOLS:
    """Fit ordinary least squares with White or cluster-robust standard errors.

    Parameters
    ----------
    y : array-like of shape (n,)
        Response.
    X : array-like of shape (n,) or (n, k)
        Regressors, without the constant.
    groups, groups2 : array-like of shape (n,), optional
        One or two crossed cluster keys. Without them, White's heteroscedasticity-robust standard
        errors are used.
    add_intercept : bool, default True
        Whether to add a constant column before ``X``.
    correction : bool, default True
        Small-sample factor: ``n/(n−k)`` for White (HC1), ``G/(G−1)·(n−1)/(n−k)`` for clusters
        (CR1). False gives HC0 and CR0.
    confidence : float, default 0.95
        Two-sided confidence level of the coefficient intervals.

    Returns
    -------
    ClusteredOLS
        Coefficients with standard errors, t tests and intervals. The degrees of freedom are n − k
        or, with clusters, the smaller number of clusters minus one.

    Raises
    ------
    InvalidInputError
        If shapes do not match, a value is not finite, or the columns are linearly dependent.
    UndefinedMetricError
        If a key has only one cluster.

    Notes
    -----
    Sandwich estimator ``(XᵀX)⁻¹ (Σ_g X_gᵀ e_g e_gᵀ X_g) (XᵀX)⁻¹``; two keys as in
    `cluster_robust_se` [1]_. Matches statsmodels' ``cov_type="cluster"`` (``tests/reference``) and
    Petersen's published values.

    References
    ----------
    .. [1] Cameron, Gelbach & Miller (2011), J. Business & Economic Statistics 29(2):238-249.
    .. [2] Petersen (2009), Review of Financial Studies 22(1):435-480.

    Examples
    --------
    >>> fit = ols_cluster([1, 2, 2, 4, 5, 7], [0, 1, 2, 3, 4, 5], groups=[0, 0, 1, 1, 2, 2])
    >>> [round(value, 3) for value in fit.coef], [round(value, 3) for value in fit.se]
    ([0.571, 1.171], [0.555, 0.144])
    """
    response = validation.vector(y, "y")
    design = _design(X, len(response), add_intercept=add_intercept)
    level = validation.fraction(confidence, "confidence")
    if groups is None and groups2 is not None:
        raise InvalidInputError("`groups2` requires `groups`; pass a single key as `groups`")
    keys = [] if groups is None else _keys(groups, groups2, len(response))
    q, r = np.linalg.qr(design)
    coef = np.linalg.solve(r, q.T @ response)
    residual = response - design @ coef
    # The influence of row i is (XᵀX)⁻¹ x_i e_i; the sandwich is the sum of squared influences.
    influence = np.linalg.solve(r, (q * residual[:, np.newaxis]).T).T
    variance, reason = _robust_variance(influence, keys, correction=correction)
    kind = ("CR" if keys else "HC") + str(int(correction)) + ("-two-way" if len(keys) > 1 else "")
    n_groups = tuple(count for _, count in keys)
    df = min(n_groups) - 1 if n_groups else len(response) - design.shape[1]
    return _inference(coef, np.sqrt(variance), df, level, len(response), n_groups, kind, reason)


def _inference(
    coef: FloatArray,
    se: FloatArray,
    df: int,
    confidence: float,
    n: int,
    n_groups: tuple[int, ...],
    method: str,
    reason: str,
) -> ClusteredOLS:
    factor = critical_value(confidence, df)
    t = [None if negligible(s, abs(b)) else float(b / s) for b, s in zip(coef, se, strict=True)]
    if None in t:
        reason = "; ".join(
            filter(None, [reason, "a standard error is zero, so its coefficient cannot be tested"])
        )
    return ClusteredOLS(
        coef=tuple(coef.tolist()),
        se=tuple(se.tolist()),
        t=tuple(t),
        p_value=tuple(None if v is None else 2.0 * upper_tail(abs(v), df) for v in t),
        ci_low=tuple((coef - factor * se).tolist()),
        ci_high=tuple((coef + factor * se).tolist()),
        confidence=confidence,
        df=df,
        n_units=n,
        n_groups=n_groups,
        method=method,
        reason=reason,
    )


def _design(X: ArrayLike, n: int, *, add_intercept: bool) -> FloatArray:
    shape = "of shape (n,) or (n, k)"
    raw = validation.as_array(X, "X", shape=shape)
    if raw.ndim not in (1, 2) or raw.size == 0:
        raise InvalidInputError(f"`X` must be {shape}, got {raw.shape}")
    columns = raw.reshape(len(raw), -1).T
    if len(raw) != n:
        raise InvalidInputError(f"`X` has {len(raw)} rows but `y` has {n}")
    checked = [validation.vector(column, f"X[:, {i}]") for i, column in enumerate(columns)]
    design = np.column_stack([np.ones(n), *checked] if add_intercept else checked)
    if n <= design.shape[1]:
        raise InvalidInputError(f"{n} rows are too few to estimate {design.shape[1]} coefficients")
    if np.linalg.matrix_rank(design) < design.shape[1]:
        extra = " (a constant column besides the intercept?)" if add_intercept else ""
        raise InvalidInputError(f"the columns of `X` are linearly dependent{extra}")
    return design


def _keys(groups: ArrayLike, groups2: ArrayLike | None, n: int) -> list[tuple[IntArray, int]]:
    keys = [validation.group_codes(groups, n)]
    if groups2 is not None:
        keys.append(validation.group_codes(groups2, n, "groups2"))
    for name, (_, count) in zip(("groups", "groups2"), keys, strict=False):
        if count < 2:
            raise UndefinedMetricError(
                f"a cluster-robust standard error is undefined: `{name}` has only one cluster; "
                "at least two are needed"
            )
    return keys


def _robust_variance(
    influence: FloatArray, keys: list[tuple[IntArray, int]], *, correction: bool
) -> tuple[FloatArray, str]:
    """Return the variance of each coefficient, and a reason if a fallback estimator was used."""
    n, k = influence.shape
    if not keys:
        return (influence**2).sum(axis=0) * (n / (n - k) if correction else 1.0), ""
    variances = [_one_way(influence, codes, count, correction=correction) for codes, count in keys]
    if len(keys) == 1:
        return variances[0], ""
    (codes, _), (codes2, count2) = keys
    both, n_both = validation.group_codes(codes * count2 + codes2, n)
    crossed = _one_way(influence, both, n_both, correction=correction)
    variance = variances[0] + variances[1] - crossed
    larger = np.maximum(variances[0], variances[1])
    if (variance > 0.0).all():
        return variance, ""
    reason = "a two-way variance was not positive; the larger one-way variance is used instead"
    return np.where(variance > 0.0, variance, larger), reason


def _one_way(
    influence: FloatArray, codes: IntArray, n_groups: int, *, correction: bool
) -> FloatArray:
    n, k = influence.shape
    sums = np.column_stack(
        [np.bincount(codes, weights=column, minlength=n_groups) for column in influence.T]
    )
    factor = n_groups / (n_groups - 1) * (n - 1) / (n - k) if correction else 1.0
    return np.asarray((sums**2).sum(axis=0) * factor, dtype=np.float64)
