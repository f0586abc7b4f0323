"""Intervals for metrics with sample weights.

Proportions and means have closed forms from linearised values; other metrics use the rescaling
bootstrap of Rao and Wu.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.bootstrap import bootstrap_ci
from eval_toolkit.inference.bootstrap_intervals import MAX_UNDEFINED, finite
from eval_toolkit.inference.calibration_intervals import WEIGHTED_REASON, calibration_statistic
from eval_toolkit.inference.column_statistics import Statistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.distributions import ROUNDING, critical_value
from eval_toolkit.inference.mean_intervals import effective_trials, mean_interval
from eval_toolkit.inference.plans import MIN_UNITS
from eval_toolkit.inference.prevalence_shift import rates_interval
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES, BootstrapCI
from eval_toolkit.inference.score_intervals import (
    MIN_CLASS,
    Bounds,
    bounded_interval,
    propagated,
)
from eval_toolkit.inference.statistics import (
    AtThreshold,
    AveragePrecision,
    ColumnMean,
    MetricFn,
    RecallAtFpr,
    statistic_for,
)
from eval_toolkit.metrics import confusion_counts
from eval_toolkit.metrics.cumulative import score_groups
from eval_toolkit.seeds import SeedLike, resolve_seed

_HEAVIER = 2.0
"""Ratio of mean class weights above which negatives are considered heavy in a PR-AUC."""

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
    """Return a confidence interval for a metric with sample weights.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    metric : callable or metric spec
        Metric that accepts ``sample_weight``, such as the functions and specs of this package.
    sample_weight : array-like of shape (n,)
        Weight of each row: the number of population rows it represents, up to a factor.
    groups : array-like of shape (n,), optional
        Primary sampling units; rows in the same unit are not independent.
    strata : array-like of shape (n,), optional
        Strata of the survey. Units are resampled within strata, each of which must contain at least
        two.
    n_resamples, confidence, seed, rng
        As in `bootstrap_ci`.

    Returns
    -------
    BootstrapCI
        ``method`` is "wilson, weights" for proportions at a threshold, "score, propagated, weights"
        for functions of several proportions, "gaffke, weights" for means of losses, and "score,
        Rao-Wu" or "t, Rao-Wu" for other metrics. With equal weights and no strata, the result is
        that of `bootstrap_ci`.

    Raises
    ------
    InvalidInputError
        If the input is invalid, a stratum has a single unit, or there are fewer than 10 units to
        draw.
    InvalidTypeError
        If the metric does not accept weights.
    UndefinedMetricError
        If the metric is undefined for the data, there are fewer than 3 effective rows (of each
        class, for metrics of both classes), or the metric is a calibration error and the weights
        differ.

    Notes
    -----
    A weighted proportion or mean has the variance of the unweighted mean of its linearised values
    ``m + w_i (x_i − m) / w̄``. For a proportion v with variance s², the effective number of rows is
    ``v (1 − v) / s²``, times (z/t)², and at most Kish's ``(Σw)² / Σw²`` of the rows in its
    denominator [1]_ [2]_; s² includes one more row, of the largest weight, at the bound [3]_. Means
    of losses use the `mean_interval` of the linearised values, in which an unseen loss has the
    largest weight. The interval for precision, or for PR-AUC with negatives at least twice as heavy
    as positives, includes the values implied by the intervals for recall and false-positive rate.
    Rows of weight 0 have no influence.

    For other metrics, and for functions of several proportions with groups, n_h − 1 of the n_h
    units of a stratum are drawn with replacement in each replicate, and the weights of a unit drawn
    r times are multiplied by ``r n_h / (n_h − 1)`` [4]_. Kish's effective number of units of the
    smaller class replaces the number of rows.

    References
    ----------
    .. [1] Korn & Graubard (1998), Survey Methodology 24(2):193-201.
    .. [2] Kish (1965), Survey Sampling, section 8.2.
    .. [3] Fay & Feuer (1997), Statistics in Medicine 16(7):791-801.
    .. [4] Rao & Wu (1988), JASA 83(401):231-241.

    Examples
    --------
    >>> from eval_toolkit.metrics import roc_auc
    >>> y = [0, 1] * 30
    >>> scores = [0.02 * i + 0.3 * label for i, label in enumerate(y)]
    >>> ci = weighted_ci(y, scores, roc_auc, sample_weight=[1.0, 2.0] * 30)
    >>> ci.method, ci.ci_low < ci.point_estimate < ci.ci_high
    ('score, Rao-Wu', True)
    """
    labels, scores = validation.binary_pair(y_true, y_score)
    weights = validation.sample_weights(sample_weight, len(labels))
    if weights is None:
        raise InvalidInputError("`sample_weight` is None; use `bootstrap_ci` for unweighted rows")
    n_resamples = validation.integer(n_resamples, "n_resamples", low=2)
    level = validation.fraction(confidence, "confidence")
    units = (
        np.arange(len(labels)) if groups is None else validation.group_codes(groups, len(labels))[0]
    )
    if strata is None:
        kept = weights > 0.0
        labels, scores, weights, units = labels[kept], scores[kept], weights[kept], units[kept]
        if are_equal(weights):
            return bootstrap_ci(
                labels,
                scores,
                metric,
                groups=None if groups is None else units,
                n_resamples=n_resamples,
                confidence=level,
                seed=resolve_seed(seed, rng),
            )
        units = np.unique(units, return_inverse=True)[1]
    stratum = _strata_of_units(units, strata, len(labels))
    sample = _Sample(labels, scores, weights, units, stratum)
    name, bounds, function = weighted_metric(metric)
    value = finite(function(labels, scores, weights), name)
    undefined = 0
    statistic = statistic_for(metric)
    found = _closed(statistic, sample, value, level)
    if found is None:
        effective = _effective(sample, name)
        generator = np.random.default_rng(resolve_seed(seed, rng))
        replicates = _replicates(function, sample, generator, n_resamples, name)
        undefined = n_resamples - len(replicates)
        found = _drawn(value, bounds, replicates, sample, effective, level)
        if isinstance(statistic, AveragePrecision):
            found = _with_rates(found, sample, level)
    low, high, method = found
    return BootstrapCI(
        value,
        low,
        high,
        level,
        n_resamples if method.endswith("Rao-Wu") else 0,
        method,
        n_undefined=undefined,
        n_units=len(labels),
        n_groups=len(stratum),
    )


def are_equal(weights: FloatArray) -> bool:
    """Return whether all weights are equal up to rounding.

    Examples
    --------
    >>> are_equal(np.array([0.1 + 0.2, 0.3])), are_equal(np.array([1.0, 2.0]))
    (True, False)
    """
    return float(np.ptp(weights)) <= ROUNDING * float(weights.max())


@dataclass(frozen=True)
class _Sample:
    """Weighted rows with their units and strata."""

    labels: BoolArray
    scores: FloatArray
    weights: FloatArray
    units: IntArray
    stratum: IntArray

    @property
    def codes(self) -> IntArray | None:
        """Group of each row; None if every row is its own unit."""
        return None if len(self.stratum) == len(self.labels) else self.units

    @property
    def data(self) -> Columns:
        """Labels and scores."""
        return Columns.scored(self.labels, self.scores)

    def in_canonical_order(self) -> "_Sample":
        """Return the rows in canonical order, for reproducible draws."""
        order = np.lexsort((self.weights, self.scores, self.labels))
        _, first, inverse = np.unique(self.units[order], return_index=True, return_inverse=True)
        appearing = np.argsort(first, kind="stable")
        place = np.empty(len(first), dtype=np.int64)
        place[appearing] = np.arange(len(first))
        return _Sample(
            self.labels[order],
            self.scores[order],
            self.weights[order],
            place[inverse],
            self.stratum[appearing],
        )

    def effective(self, weights: FloatArray) -> float:
        """Return Kish's effective number of units with these row weights."""
        return _kish(np.bincount(self.units, weights).astype(np.float64))

    def linearised(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """Return linearised values, whose unweighted mean is the weighted mean.

        Unit deviations are centred within each stratum and scaled for its n_h − 1 degrees of
        freedom.
        """
        mean = float(np.average(values, weights=weights))
        residual = weights / weights.mean() * (values - mean)
        units, stratum = self.units, self.stratum
        n_units, sizes = len(stratum), np.bincount(stratum).astype(np.float64)
        centre = np.bincount(stratum, np.bincount(units, residual)) / sizes
        stretch = np.sqrt(sizes / (sizes - 1.0) * (n_units - 1.0) / n_units)
        of_row = stratum[units]
        rows = np.bincount(units)[units]
        return np.asarray(mean + stretch[of_row] * (residual - centre[of_row] / rows))


def _closed(
    statistic: Statistic, sample: _Sample, value: float, confidence: float
) -> Bounds | None:
    """Return the closed-form interval; None if there is none."""
    if calibration_statistic(statistic) is not None:
        raise UndefinedMetricError(WEIGHTED_REASON.format("with sample weights"))
    if isinstance(statistic, ColumnMean):
        return _mean_interval(statistic, sample, confidence)
    if isinstance(statistic, RecallAtFpr):
        negatives = _kish(np.where(sample.labels, 0.0, sample.weights))
        if negatives * statistic.target < MIN_CLASS:
            raise UndefinedMetricError(
                f"{negatives:.3g} effective negative rows are too few for a threshold at a "
                f"false-positive rate of {statistic.target:g}"
            )
    if not isinstance(statistic, AtThreshold):
        return None
    if statistic.trials == "both":
        if sample.codes is not None:
            return None
        _effective(sample, statistic.name)
        return *_from_rates(statistic, sample, value, confidence), "score, propagated, weights"
    hits = statistic.hits(sample.labels, sample.scores)
    _enough(_counted(hits, sample), sample, statistic.name)
    below, above = _effective_trials(hits, sample, confidence)
    low, _ = score_interval(value, below, confidence=confidence)
    _, high = score_interval(value, above, confidence=confidence)
    if statistic.trials == "predicted" and 0 < np.count_nonzero(sample.labels) < len(hits):
        # Rows of the other class may have larger weights than the predicted rows.
        ends = _from_rates(statistic, sample, value, confidence)
        low, high = min(low, ends[0]), max(high, ends[1])
    return low, high, "wilson, weights"


def _from_rates(
    statistic: AtThreshold, sample: _Sample, value: float, confidence: float
) -> tuple[float, float]:
    """Return the bounds implied by the intervals for recall, FPR and prevalence."""
    decided = (sample.scores >= statistic.threshold).astype(np.float64)
    rates = []
    for hits in (
        np.where(sample.labels, decided, np.nan),
        np.where(sample.labels, np.nan, decided),
        sample.labels.astype(np.float64),
    ):
        share = float(np.average(np.nan_to_num(hits), weights=_counted(hits, sample)))
        trials = min(_effective_trials(hits, sample, confidence))
        rates.append((share * trials, trials))
    return propagated(statistic, value, rates, confidence)


def _counted(hits: FloatArray, sample: _Sample) -> FloatArray:
    """Return the weights of the rows in the denominator of a proportion, 0 for others."""
    return np.where(np.isnan(hits), 0.0, sample.weights)


def _effective_trials(hits: FloatArray, sample: _Sample, confidence: float) -> tuple[float, float]:
    """Return the effective number of rows for the bounds of a weighted proportion.

    The variance includes one additional row of the largest weight at the bound (Fay & Feuer 1997),
    because unseen rows may be heavy. If the variance is zero, the result is approximately the total
    weight over the largest weight.
    """
    n, weights = len(hits), _counted(hits, sample)
    values = sample.linearised(np.nan_to_num(hits), weights)
    total, limit, extra = float(weights.sum()), _kish(weights), float(weights.max())
    share, squares = float(values.mean()), float(np.var(values, ddof=1)) * total**2 / n
    sure = 1.0
    if squares > 0.0:
        df = max(1.0, _kish(weights**2) - 1.0)  # of a sum of squares w² e², e alike
        sure = (critical_value(confidence) / critical_value(confidence, df)) ** 2
    worth = []
    counted = ~np.isnan(hits)
    rescaled = share + (values[counted] - share) * np.count_nonzero(counted) / n
    units, codes = np.unique(sample.units[counted], return_inverse=True)
    grouped = effective_trials(rescaled, codes, len(units), confidence)
    for bound, rows in zip((0.0, 1.0), grouped, strict=True):
        mean = (total * share + extra * bound) / (total + extra)
        variance = squares + (extra * (bound - mean)) ** 2
        spread = mean * (1.0 - mean) * (total + extra) ** 2
        trials = spread / variance * sure if variance > 0.0 else limit
        worth.append(min(limit, trials) * rows / len(codes))
    return worth[0], worth[1]


def _mean_interval(statistic: ColumnMean, sample: _Sample, confidence: float) -> Bounds:
    """Return the interval for linearised losses; an unseen loss has the largest weight."""
    _enough(sample.weights, sample, statistic.name)
    losses = statistic.of_rows(sample.data)
    values = sample.linearised(losses, sample.weights)
    least, most = statistic.range_on(sample.data)
    mean, weight = float(values.mean()), float(sample.weights.max() / sample.weights.mean())
    bounds = (
        min(float(values.min()), mean - weight * (mean - least)),
        max(float(values.max()), mean + weight * (most - mean)),
    )
    ci = mean_interval(values, groups=sample.codes, bounds=bounds, confidence=confidence)
    method = ci.method.replace(", groups", "") + ", weights"
    return max(least, ci.ci_low), min(most, ci.ci_high), method


def _replicates(
    function: WeightedFn,
    sample: _Sample,
    generator: "np.random.Generator",
    n_resamples: int,
    name: str,
) -> FloatArray:
    """Return the defined values of the Rao-Wu replicates."""
    n_units = len(sample.stratum)
    if n_units < MIN_UNITS:
        raise InvalidInputError(f"the bootstrap needs at least {MIN_UNITS} units, got {n_units}")
    sample = sample.in_canonical_order()
    values = np.array(
        [
            _value(function, sample.labels, sample.scores, sample.weights * factor[sample.units])
            for factor in _factors(generator, sample.stratum, n_resamples)
        ]
    )
    defined: FloatArray = values[~np.isnan(values)]
    if len(defined) < (1.0 - MAX_UNDEFINED) * n_resamples:
        raise UndefinedMetricError(
            f"{name} is undefined on {n_resamples - len(defined)} of {n_resamples} replicates; "
            "for an interval, it must be defined on at least 95 %"
        )
    return defined


def _drawn(
    value: float,
    bounds: tuple[float, float],
    replicates: FloatArray,
    sample: _Sample,
    effective: float,
    confidence: float,
) -> Bounds:
    """Return the interval from the variance of the replicates."""
    variance = float(np.var(replicates, ddof=1))
    df = max(1.0, min(effective - 1.0, len(sample.stratum) - len(np.unique(sample.stratum))))
    if np.isfinite(bounds).all():
        ends = bounded_interval(value, bounds, variance, effective, confidence, df)
        return *ends, "score, Rao-Wu"
    reach = critical_value(confidence, df) * variance**0.5
    return max(bounds[0], value - reach), min(bounds[1], value + reach), "t, Rao-Wu"


def _with_rates(found: Bounds, sample: _Sample, confidence: float) -> Bounds:
    """Return the interval for average precision, widened if negatives have large weights.

    In that case, an unseen top-ranked negative may outweigh many positives.
    """
    labels, weights = sample.labels, sample.weights
    if weights[~labels].mean() < _HEAVIER * weights[labels].mean():
        return found
    groups = score_groups(labels, sample.scores, weights)
    positive, negative = float(groups.tp[-1]), float(groups.fp[-1])
    low, high = rates_interval(
        groups.tp / positive,
        groups.fp / negative,
        positive / (positive + negative),
        (_kish(weights[labels]), _kish(weights[~labels])),
        confidence,
    )
    return min(found[0], low), max(found[1], high), found[2]


def _strata_of_units(units: IntArray, strata: ArrayLike | None, n: int) -> IntArray:
    """Return the stratum of each unit."""
    n_units = int(units.max()) + 1
    of_unit = np.zeros(n_units, dtype=np.int64)
    if strata is not None:
        codes = validation.group_codes(strata, n, "strata")[0]
        of_unit[units] = codes
        if (of_unit[units] != codes).any():
            row = int(np.argmax(of_unit[units] != codes))
            raise InvalidInputError(f"groups[{row}] lies in more than one stratum")
    if np.bincount(of_unit).min() < 2:
        raise InvalidInputError("a stratum has a single unit; each stratum needs at least two")
    return of_unit


def weighted_metric(metric: Any) -> tuple[str, tuple[float, float], WeightedFn]:
    """Return the name, the range and the weighted function of a metric."""
    statistic = statistic_for(metric)
    if isinstance(statistic, AtThreshold):
        return statistic.name, statistic.bounds, _AtThreshold(statistic)
    function = getattr(metric, "function", metric)
    if not callable(function) or not _takes_weights(function):
        raise InvalidTypeError(f"{statistic.name} does not accept `sample_weight`")
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


def _kish(weights: FloatArray) -> float:
    """Return Kish's effective number of rows."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def _enough(weights: FloatArray, sample: _Sample, name: str) -> None:
    effective = sample.effective(weights)
    if effective < MIN_CLASS - 1e-9:
        raise UndefinedMetricError(
            f"{effective:.3g} effective rows; an interval for {name} needs at least {MIN_CLASS}"
        )


def _effective(sample: _Sample, name: str) -> float:
    """Return Kish's effective number of units of the smaller class; raise if too small."""
    found = []
    for which, mask in (("positive", sample.labels), ("negative", ~sample.labels)):
        if not mask.any():
            continue
        effective = sample.effective(np.where(mask, sample.weights, 0.0))
        if effective < MIN_CLASS - 1e-9:
            raise UndefinedMetricError(
                f"{effective:.3g} effective {which} rows; an interval for {name} needs at least "
                f"{MIN_CLASS} of each class"
            )
        found.append(effective)
    return min(found)


def _factors(generator: "np.random.Generator", stratum: IntArray, n_resamples: int) -> Any:
    """Yield the weight factors of the units for each replicate."""
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
