"""Intervals of metrics with survey or sample weights: the rescaling bootstrap of Rao and Wu."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit import _validate
from eval_toolkit._validate import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference._distributions import critical_value
from eval_toolkit.inference.assemble import MAX_UNDEFINED, MIN_UNITS, finite
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES, BootstrapCI
from eval_toolkit.inference.score_intervals import MIN_CLASS, bounded_interval
from eval_toolkit.inference.statistics import AtThreshold, MetricFn, statistic_for
from eval_toolkit.metrics import confusion_counts
from eval_toolkit.seeds import SeedLike, resolve_seed

__all__ = ["weighted_ci", "weighted_metric"]

WeightedFn = Callable[[BoolArray, FloatArray, FloatArray], float]


def weighted_ci(
    y_true: ArrayLike,
    y_score: ArrayLike,
    metric: MetricFn | Any,
    *,
    sample_weight: ArrayLike,
    groups: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> BootstrapCI:
    """Interval of a metric of weighted rows.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    metric : callable or metric spec
        A metric that takes ``sample_weight``: this package's functions and specs do.
    sample_weight : array-like of shape (n,)
        Weight of each row: how many rows of the population it stands for, up to a factor.
    groups : array-like of shape (n,), optional
        Primary sampling units: rows of one are not independent.
    strata : array-like of shape (n,), optional
        Strata of a survey; units are drawn inside each, and each needs at least two.
    n_resamples, confidence, seed, rng
        As in `bootstrap_ci`.

    Returns
    -------
    BootstrapCI
        The score interval with the variance of the replicates; ``method`` is "score, Rao-Wu".

    Raises
    ------
    InvalidInputError
        If the input is unusable, there are fewer than 10 units, or a stratum has a single one.
    InvalidTypeError
        If the metric takes no weights.
    UndefinedMetricError
        If the metric does not exist for the data, or a class has fewer than 3 effective rows.

    Notes
    -----
    In each replicate n_h − 1 of the n_h units of a stratum are drawn with replacement, and the
    weights of a unit drawn r times are multiplied by ``r n_h / (n_h − 1)`` [1]_. The effective number
    of rows of a class is Kish's ``(Σw)² / Σw²`` over units [2]_; it limits the interval as the number
    of rows does without weights.

    References
    ----------
    .. [1] Rao & Wu (1988), JASA 83(401):231-241.
    .. [2] Kish (1965), Survey Sampling, section 8.2.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> scores = [0.02 * i + 0.3 * label for i, label in enumerate(y)]
    >>> ci = weighted_ci(y, scores, roc_auc, sample_weight=[1.0, 2.0] * 30)
    >>> ci.method, ci.ci_low < ci.point_estimate < ci.ci_high
    ('score, Rao-Wu', True)
    """
    labels, scores = _validate.binary_pair(y_true, y_score)
    weights = _validate.sample_weights(sample_weight, len(labels))
    if weights is None:
        raise InvalidInputError("`sample_weight` is None; without weights use `bootstrap_ci`")
    n_resamples = _validate.integer(n_resamples, "n_resamples", low=2)
    level = _validate.fraction(confidence, "confidence")
    units = (
        np.arange(len(labels)) if groups is None else _validate.group_codes(groups, len(labels))[0]
    )
    stratum = _strata_of_units(units, strata, len(labels))
    name, bounds, function = weighted_metric(metric)
    value = finite(function(labels, scores, weights), name)
    effective = _effective(labels, weights, units, name)
    # Rows by what they hold, units as they appear: the order of the rows must not move the draws.
    order = np.lexsort((weights, scores, labels))
    labels, scores, weights = labels[order], scores[order], weights[order]
    _, first, inverse = np.unique(units[order], return_index=True, return_inverse=True)
    appearing = np.argsort(first, kind="stable")
    place = np.empty(len(first), dtype=np.int64)
    place[appearing] = np.arange(len(first))
    units, stratum = place[inverse], stratum[appearing]
    generator = np.random.default_rng(resolve_seed(seed, rng))
    replicates = np.array(
        [
            _value(function, labels, scores, weights * factor[units])
            for factor in _factors(generator, stratum, n_resamples)
        ]
    )
    defined = replicates[~np.isnan(replicates)]
    if len(defined) < (1.0 - MAX_UNDEFINED) * n_resamples:
        raise UndefinedMetricError(
            f"{name} is undefined on {n_resamples - len(defined)} of {n_resamples} replicates; "
            "an interval needs at least 95 % of them"
        )
    variance = float(np.var(defined, ddof=1))
    df = float(min(effective - 1.0, len(stratum) - len(np.unique(stratum))))
    if np.isfinite(bounds).all():
        low, high = bounded_interval(value, bounds, variance, effective, level, max(1.0, df))
        method = "score, Rao-Wu"
    else:
        reach = critical_value(level, max(1.0, df)) * variance**0.5
        low, high, method = (
            max(bounds[0], value - reach),
            min(bounds[1], value + reach),
            "t, Rao-Wu",
        )
    return BootstrapCI(
        value,
        low,
        high,
        level,
        n_resamples,
        method,
        n_undefined=n_resamples - len(defined),
        n_units=len(labels),
        n_groups=len(stratum),
    )


def _strata_of_units(units: IntArray, strata: ArrayLike | None, n: int) -> IntArray:
    """Return the stratum of each unit."""
    n_units = int(units.max()) + 1
    of_unit = np.zeros(n_units, dtype=np.int64)
    if strata is not None:
        codes = _validate.group_codes(strata, n, "strata")[0]
        of_unit[units] = codes
        if (of_unit[units] != codes).any():
            row = int(np.argmax(of_unit[units] != codes))
            raise InvalidInputError(f"groups[{row}] lies in more than one stratum")
    if n_units < MIN_UNITS:
        raise InvalidInputError(f"the bootstrap needs at least {MIN_UNITS} units, got {n_units}")
    if np.bincount(of_unit).min() < 2:
        raise InvalidInputError("a stratum has a single unit; Rao and Wu's bootstrap needs two")
    return of_unit


def weighted_metric(metric: Any) -> tuple[str, tuple[float, float], WeightedFn]:
    """Return name, range and weighted function of a metric."""
    statistic = statistic_for(metric)
    if isinstance(statistic, AtThreshold):
        return statistic.name, statistic.bounds, _AtThreshold(statistic)
    function = getattr(metric, "function", metric)
    if not callable(function) or not _takes_weights(function):
        raise InvalidTypeError(
            f"{statistic.name} takes no `sample_weight`, so it has no weighted form"
        )
    return (
        statistic.name,
        statistic.bounds,
        lambda y, s, w: float(function(y.astype(np.int64), s, sample_weight=w)),
    )


def _takes_weights(function: Any) -> bool:
    import inspect

    try:
        return "sample_weight" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


class _AtThreshold:
    """A function of weighted confusion counts."""

    def __init__(self, statistic: AtThreshold) -> None:
        self.statistic = statistic

    def __call__(self, labels: BoolArray, scores: FloatArray, weights: FloatArray) -> float:
        counts = confusion_counts(labels, scores, self.statistic.threshold, sample_weight=weights)
        return self.statistic.of_counts(counts)


def _effective(labels: BoolArray, weights: FloatArray, units: IntArray, name: str) -> float:
    """Return Kish's effective number of units of the smaller class."""
    found = []
    for which, mask in (("positive", labels), ("negative", ~labels)):
        if not mask.any():
            continue
        totals = np.bincount(units[mask], weights=weights[mask])
        effective = float(totals.sum() ** 2 / (totals**2).sum()) if totals.any() else 0.0
        if effective < MIN_CLASS:
            raise UndefinedMetricError(
                f"{effective:.3g} effective {which} rows; an interval of {name} needs at least "
                f"{MIN_CLASS} of each class"
            )
        found.append(effective)
    return min(found)


def _factors(generator: "np.random.Generator", stratum: IntArray, n_resamples: int) -> Any:
    """Yield the factor of each unit's weight, replicate by replicate."""
    members = [np.flatnonzero(stratum == code) for code in np.unique(stratum)]
    for _ in range(n_resamples):
        factor = np.empty(len(stratum))
        for units in members:
            n = len(units)
            factor[units] = generator.multinomial(n - 1, np.full(n, 1.0 / n)) * (n / (n - 1.0))
        yield factor


def _value(
    function: WeightedFn, labels: BoolArray, scores: FloatArray, weights: FloatArray
) -> float:
    try:
        return function(labels, scores, weights)
    except (UndefinedMetricError, InvalidInputError):
        return float("nan")
