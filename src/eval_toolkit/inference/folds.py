"""Intervals and tests over the folds of a cross-validation."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.distributions import critical_value, negligible, upper_tail
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI, Interval, in_own_order
from eval_toolkit.seeds import SeedLike, resolve_seed

_NO_SPREAD = "zero variance: all folds have the same value"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FoldValues(Displayed):
    """Values of a metric by fold, and the reasons why it is undefined on the other folds.

    Behaves like an array of the defined values, so it can be passed to `cv_clt_ci` and
    `corrected_resampled_t`.

    Examples
    --------
    >>> import numpy as np
    >>> folds = FoldValues(np.array([0.8, 0.9]), (0, 2), 3, {1: "one class only"})
    >>> folds.n_undefined, round(float(np.mean(folds)), 3)
    (1, 0.85)
    """

    values: FloatArray
    """Values on the folds where the metric is defined."""
    fold_index: tuple[int, ...]
    """Fold of each value."""
    k: int
    reasons: dict[int, str]
    """Reason for each fold on which the metric is undefined."""

    @property
    def n_undefined(self) -> int:
        """Number of folds without a value."""
        return len(self.reasons)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        # Always copy, so that the frozen result cannot be modified.
        return np.array(self.values, dtype=dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, with None for a fold without a value."""
        by_fold = dict(zip(self.fold_index, self.values.tolist(), strict=True))
        return {
            "values": [by_fold.get(fold) for fold in range(self.k)],
            "n_undefined": self.n_undefined,
            "reasons": {str(fold): reason for fold, reason in self.reasons.items()},
        }


@in_own_order
@dataclass(frozen=True, kw_only=True, repr=False)
class CorrectedTResult(Interval[float]):
    """Mean over folds (or over fold differences) with the corrected resampled t-test.

    Examples
    --------
    >>> result = corrected_resampled_t([0.1, 0.2, 0.0], n_train=90, n_test=10)
    >>> result.df, result.method
    (2, 'nadeau-bengio')
    """

    mean: float
    se: float
    t: float | None
    """t statistic; None if all folds have the same value (see ``reason``)."""
    p_value: float | None
    """Two-sided p-value."""
    p_greater: float | None
    """P-value of the one-sided test; small if the mean is above ``null_value``."""
    df: int
    ci_low: float
    ci_high: float
    confidence: float
    k: int
    null_value: float = 0.0
    method: str = "nadeau-bengio"
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = (
            *("mean", "se", "t", "p_value", "p_greater", "df", "ci_low", "ci_high"),
            *("confidence", "k", "null_value", "method"),
        )
        return self._plain(names)


def cv_clt_ci(
    fold_metrics: ArrayLike | FoldValues, *, confidence: float = DEFAULT_CONFIDENCE
) -> BootstrapCI:
    """Return Student's t interval for the mean over K folds.

    Parameters
    ----------
    fold_metrics : array-like of shape (K,)
        One value per fold, at least two; undefined folds of a `FoldValues` are excluded.
    confidence : float, default 0.95
        Two-sided confidence level.

    Returns
    -------
    BootstrapCI
        Interval with method "cv_t"; ``n_resamples`` is the number of folds used. Equal fold values
        give [mean, mean] and a reason.

    Raises
    ------
    InvalidInputError
        If there are fewer than two folds or a value is not finite.

    Notes
    -----
    ``mean ± t_{K−1} sd/√K``. With a normal quantile, coverage would be 81 % (K = 3), 88 % (K = 5)
    and 92 % (K = 10) instead of 95 %. The interval assumes independent folds;
    `corrected_resampled_t` allows for the shared training rows of cross-validation.

    Examples
    --------
    >>> ci = cv_clt_ci([0.80, 0.82, 0.78, 0.81, 0.79])
    >>> f"{ci:.3f}", ci.method, ci.n_resamples
    ('0.800 [0.780, 0.820]', 'cv_t', 5)
    """
    values = _fold_values(fold_metrics)
    level = validation.fraction(confidence, "confidence")
    mean, sd, flat = _mean_and_spread(values)
    k = len(values)
    reach = critical_value(level, k - 1) * sd / math.sqrt(k)
    return BootstrapCI(
        mean,
        mean - reach,
        mean + reach,
        level,
        k,
        "cv_t",
        n_undefined=fold_metrics.n_undefined if isinstance(fold_metrics, FoldValues) else 0,
        reason=_NO_SPREAD if flat else "",
    )


def corrected_resampled_t(
    fold_metrics: ArrayLike | FoldValues,
    *,
    n_train: SupportsIndex,
    n_test: SupportsIndex,
    null_value: SupportsFloat = 0.0,
    confidence: float = DEFAULT_CONFIDENCE,
) -> CorrectedTResult:
    """Compute Nadeau and Bengio's corrected resampled t test and interval.

    Parameters
    ----------
    fold_metrics : array-like of shape (K,)
        One value per (repeated) fold: the difference B − A to compare two models, or a metric.
    n_train, n_test : int
        Number of training and of test rows per fold.
    null_value : float, default 0.0
        Mean under the null hypothesis.
    confidence : float, default 0.95
        Two-sided confidence level of the interval.

    Returns
    -------
    CorrectedTResult
        t statistic, two-sided and one-sided p-values, and interval, with K − 1 degrees of freedom.
        If all folds are equal, there is no t statistic, and the interval is [mean, mean] with a
        reason.

    Raises
    ------
    InvalidInputError
        If there are fewer than two folds, a value is not finite, or a size is below 1.

    Notes
    -----
    The variance of the mean is ``(1/K + n_test/n_train) sd²`` instead of ``sd²/K``: training
    sets overlap, so folds are correlated, and the naive test rejects far too often [1]_ [2]_.

    References
    ----------
    .. [1] Nadeau & Bengio (2003), Machine Learning 52(3):239-281.
    .. [2] Bouckaert & Frank (2004), PAKDD, LNCS 3056:3-12.

    Examples
    --------
    >>> differences = [0.02, 0.01, 0.03, 0.00, 0.02]
    >>> result = corrected_resampled_t(differences, n_train=800, n_test=200)
    >>> round(result.t, 2), round(result.p_value, 3)
    (2.09, 0.105)
    """
    values = _fold_values(fold_metrics)
    train, test = (
        validation.integer(size, name, low=1)
        for size, name in ((n_train, "n_train"), (n_test, "n_test"))
    )
    null = validation.number(null_value, "null_value")
    level = validation.fraction(confidence, "confidence")
    mean, sd, flat = _mean_and_spread(values)
    k, df = len(values), len(values) - 1
    se = sd * math.sqrt(1.0 / k + test / train)
    reach = critical_value(level, df) * se
    t = None if flat else (mean - null) / se
    return CorrectedTResult(
        mean=mean,
        se=se,
        t=t,
        p_value=None if t is None else 2.0 * upper_tail(abs(t), df),
        p_greater=None if t is None else upper_tail(t, df),
        df=df,
        ci_low=mean - reach,
        ci_high=mean + reach,
        confidence=level,
        k=k,
        null_value=null,
        reason=_NO_SPREAD if flat else "",
    )


def cross_validate_metric(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    metric: Callable[[IntArray, FloatArray], float],
    k: SupportsIndex = 5,
    stratified: bool = True,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> FoldValues:
    """Evaluate a metric on each of k random folds, with fixed scores.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores.
    metric : callable
        ``metric(y_true, y_score) -> float``. The metric is undefined on a fold if it raises
        ValueError (such as `UndefinedMetricError`) or ArithmeticError, or if its value is not
        finite.
    k : int, default 5
        Number of folds, from 2 to n.
    stratified : bool, default True
        Whether all folds have the same fraction of positives.
    seed, rng : int, sequence of int, SeedSequence, Generator, BitGenerator or None
        Random seed or generator; give at most one of the two. By default 42.

    Returns
    -------
    FoldValues
        Values on the folds where the metric is defined, and a reason for every other fold.

    Raises
    ------
    InvalidInputError
        If the arrays are invalid, k is not in [2, n], or more than half of the folds are
        undefined.

    Notes
    -----
    Rows are shuffled, sorted by class if stratified, and assigned to the folds in turn, so fold
    sizes and class counts differ by at most one.

    Examples
    --------
    >>> def accuracy(y, s):
    ...     return float(((s >= 0.5) == y).mean())
    >>> folds = cross_validate_metric([0, 1] * 10, [0.2, 0.9] * 10, metric=accuracy, k=4)
    >>> folds.values.tolist(), folds.n_undefined
    ([1.0, 1.0, 1.0, 1.0], 0)
    """
    labels, scores = validation.binary_pair(y_true, y_score)
    n_folds = validation.integer(k, "k", low=2)
    if n_folds > len(labels):
        raise InvalidInputError(f"`k` is {n_folds}; it must not exceed the {len(labels)} rows")
    fold_of_row = _deal(labels, n_folds, resolve_seed(seed, rng), stratified=stratified)
    values: dict[int, float] = {}
    reasons: dict[int, str] = {}
    for fold in range(n_folds):
        rows = fold_of_row == fold
        outcome = _evaluate(metric, labels[rows].astype(np.int64), scores[rows])
        if isinstance(outcome, str):
            reasons[fold] = outcome
        else:
            values[fold] = outcome
    if 2 * len(reasons) > n_folds:
        first = min(reasons)
        raise InvalidInputError(
            f"`metric` is undefined on {len(reasons)} of {n_folds} folds, more than half; "
            f"on fold {first}: {reasons[first]}"
        )
    return FoldValues(np.array(list(values.values())), tuple(values), n_folds, reasons)


def _deal(labels: BoolArray, k: int, seed: int, *, stratified: bool) -> IntArray:
    n = len(labels)
    order = np.random.Generator(np.random.Philox(seed)).permutation(n)
    if stratified:
        order = order[np.argsort(labels[order], kind="stable")]
    fold_of_row = np.empty(n, dtype=np.int64)
    fold_of_row[order] = np.arange(n) % k
    return fold_of_row


def _evaluate(
    metric: Callable[[IntArray, FloatArray], float], labels: IntArray, scores: FloatArray
) -> float | str:
    """Return the metric's value, or the reason why it is undefined."""
    try:
        value = float(metric(labels, scores))
    except (ValueError, ArithmeticError) as error:
        return f"{type(error).__name__}: {error}"
    return value if math.isfinite(value) else f"the metric returned {value}"


def _fold_values(fold_metrics: ArrayLike | FoldValues) -> FloatArray:
    values = validation.vector(fold_metrics, "fold_metrics")
    if len(values) < 2:
        raise InvalidInputError("`fold_metrics` has one value; at least two folds are needed")
    return values


def _mean_and_spread(values: FloatArray) -> tuple[float, float, bool]:
    """Return the mean, the standard deviation, and whether the latter is only rounding error."""
    mean, sd = float(values.mean()), float(values.std(ddof=1))
    flat = negligible(sd, float(np.abs(values).max()))
    return mean, 0.0 if flat else sd, flat
