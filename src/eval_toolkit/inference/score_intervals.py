"""Default intervals for metrics of labels and scores, from effective counts.

The sample variance is unreliable if few rows determine the result, e.g. if there are few positives,
few errors or tied scores. A score interval contains the true values that are consistent with the
data. Here, an estimate v in [0, 1] with variance s² is treated as a proportion of n_eff = v (1 − v)
/ s² trials, reduced if s² is estimated from few rows (Korn & Graubard 1998) and limited by the size
of the smaller class; the interval is the Wilson interval for n_eff trials. For functions of several
rates, the score intervals of the rates are propagated (MOVER; Zou & Donner 2008, Newcombe 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference.distributions import (
    ROUNDING,
    binomial_cdf,
    critical_value,
    normal_cdf,
    normal_quantile,
    owens_t,
)
from eval_toolkit.inference.jackknife import jackknife_se
from eval_toolkit.inference.mean_intervals import mean_interval
from eval_toolkit.inference.plans import Plan
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.inference.statistics import (
    AtThreshold,
    AveragePrecision,
    ColumnMean,
    RecallAtFpr,
    RocAuc,
)

if TYPE_CHECKING:
    from eval_toolkit.inference.column_statistics import Statistic
    from eval_toolkit.inference.columns import Columns
    from eval_toolkit.metrics.cumulative import ScoreGroups

Bounds = tuple[float, float, str]
"""Tuple of lower bound, upper bound and method."""

MIN_CLASS = 3
"""Minimum number of independent rows per class."""

TRUSTED = 30
"""Size of the smaller class above which the observed variance is used uncorrected."""

_ENOUGH = 8.0
"""Effective number of rows in DeLong's variance above which the normal model is down-weighted."""

_FEWEST = 6.0
"""Minimum degrees of freedom for a variance dominated by a single row (ADR 0017)."""

_LIMIT = 45.0
"""Size of the smaller class below which it limits the equivalent number of trials."""

_HALVINGS = 60
_ANGLES = np.linspace(0.0, math.pi / 2.0, 13)


def effective_rows(statistic: Statistic, data: Columns, plan: Plan) -> float:
    """Return the effective number of independent rows in the smallest relevant class."""
    return min((plan.effective_among(mask) for mask in statistic.support(data)), default=0.0)


def check_classes(
    statistic: Statistic,
    data: Columns,
    plan: Plan,
    support: tuple[BoolArray, ...] | None = None,
) -> None:
    """Raise `UndefinedMetricError` if a two-class metric has too few rows of a class.

    ``support`` contains row masks; by default, those of the metric.
    """
    support = statistic.support(data) if support is None else support
    if len(support) < 2:
        return
    counts = [plan.effective_among(mask) for mask in support]
    fewest = int(np.argmin(counts))
    if counts[fewest] >= MIN_CLASS - 1e-9:
        return
    which = "positive" if data.labels[support[fewest]].any() else "negative"
    what = "rows" if plan.is_independent else "groups (effective number)"
    if counts[fewest] == 1.0 and plan.is_independent:
        what = "row"
    among = getattr(statistic, "among", "") if which == "negative" else ""
    raise UndefinedMetricError(
        f"{counts[fewest]:.3g} {which} {what}{among}; an interval for {statistic.name} needs at least "
        f"{MIN_CLASS} of each class"
    )


def has_closed_form(statistic: Statistic, plan: Plan) -> bool:
    """Return whether the default interval for a metric has a closed form."""
    if isinstance(statistic, AtThreshold) and statistic.is_share_of_fixed_rows:
        return plan.members is None  # rows or groups
    if isinstance(statistic, ColumnMean):
        return plan.members is None  # rows or groups
    closed = type(statistic) in _CLOSED or hasattr(statistic, "closed_interval")
    return closed and plan.is_independent


def closed_ci(
    statistic: Statistic, data: Columns, plan: Plan, point: float, confidence: float
) -> BootstrapCI:
    """Return the default interval for a statistic with `has_closed_form`, or raise."""
    check_classes(statistic, data, plan)
    low, high, method = closed_interval(statistic, data, plan, confidence)
    return BootstrapCI(
        point, low, high, confidence, 0, method, n_units=plan.n_rows, n_groups=plan.n_groups
    )


def closed_interval(statistic: Statistic, data: Columns, plan: Plan, confidence: float) -> Bounds:
    """Return the closed-form interval for a metric; see `has_closed_form`.

    Raise `UndefinedMetricError` if there are too few rows.
    """
    if isinstance(statistic, ColumnMean):
        return _mean_interval(statistic, data, plan, confidence)
    if isinstance(statistic, AtThreshold) and not plan.is_independent:
        return _grouped_share(statistic, data, plan, confidence)
    if type(statistic) in _CLOSED:
        return _CLOSED[type(statistic)](statistic, data, confidence)
    own: Bounds = statistic.closed_interval(data, confidence)  # type: ignore[attr-defined]
    return own


def bounded_interval(
    value: float,
    bounds: tuple[float, float],
    variance: float,
    effective: float,
    confidence: float,
    df: float | None = None,
    most: float = math.inf,
) -> tuple[float, float]:
    """Return the score interval for a value in a finite range.

    ``effective`` is the effective number n of independent rows of the smaller class. The equivalent
    number of trials is at most n for n up to 45, and at most n²/45 for larger n. ``most`` is an
    additional limit, e.g. the number of rows of a proportion. ``df`` is the number of degrees of
    freedom of the variance, by default ``effective − 1``.

    Examples
    --------
    >>> low, high = bounded_interval(1.0, (0.0, 1.0), 0.0, 6.0, 0.95)
    >>> round(low, 3), high
    (0.61, 1.0)
    """
    low, width = bounds[0], bounds[1] - bounds[0]
    share = min(1.0, max(0.0, (value - low) / width))
    limit = effective * max(1.0, effective / _LIMIT)
    df = max(1.0, effective - 1.0) if df is None else df
    n = min(_equivalent_trials(share, variance / width**2, df, confidence), limit, most)
    ends = score_interval(share, n, confidence=confidence)
    return low + width * ends[0], low + width * ends[1]


def resampled_interval(
    statistic: Statistic,
    data: Columns,
    plan: Plan,
    value: float,
    variance: float,
    confidence: float,
) -> tuple[float, float]:
    """Return the score interval for a bounded metric from the variance of replicates.

    With groups, the number of rows is divided by the variance inflation over resampled groups, at
    most by the mean group size.
    """
    groups = effective_rows(statistic, data, plan)
    rows = float(min(np.count_nonzero(mask) for mask in statistic.support(data)))
    inflation = max(1.0, rows / groups) if groups else 1.0
    alone = _variance_of_rows(statistic, data)
    if alone:
        inflation = min(inflation, max(1.0, variance / alone))
    df = max(1.0, groups - 1.0)
    if isinstance(statistic, RocAuc):
        m, n = data.n_positive, data.n - data.n_positive
        worth = _equivalent_trials(value, variance, df, confidence)
        return _inverted(
            value, lambda true: min(worth, _auc_trials(true, m, n) / inflation), confidence
        )
    most = rows / inflation if isinstance(statistic, AtThreshold) else math.inf
    return bounded_interval(
        value, statistic.bounds, variance, rows / inflation, confidence, df, most
    )


def _variance_of_rows(statistic: Statistic, data: Columns) -> float:
    """Return the variance of a metric over independent rows; 0 without a closed form."""
    left_out = statistic.leave_one_out(data)
    return 0.0 if left_out is None else jackknife_se(left_out) ** 2


def _equivalent_trials(share: float, variance: float, df: float, confidence: float) -> float:
    """Return the number of trials with this variance, reduced for few degrees of freedom."""
    spread = share * (1.0 - share)
    if variance <= (ROUNDING * share) ** 2 or spread <= 0.0:
        return math.inf
    return spread / variance * (critical_value(confidence) / critical_value(confidence, df)) ** 2


def groups_of(plan: Plan) -> IntArray | None:
    """Return the group of each row; None if rows are independent."""
    if plan.is_independent:
        return None
    return plan.unit_of_row if plan.group_of_row is None else plan.group_of_row


def _grouped_share(statistic: AtThreshold, data: Columns, plan: Plan, confidence: float) -> Bounds:
    """Return the interval for a proportion of grouped rows."""
    hits, groups = statistic.hits(data.labels, data.scores), groups_of(plan)
    among = ~np.isnan(hits)
    ci = mean_interval(
        hits[among],
        groups=None if groups is None else groups[among],
        share=True,
        confidence=confidence,
    )
    return ci.ci_low, ci.ci_high, ci.method


def _mean_interval(statistic: ColumnMean, data: Columns, plan: Plan, confidence: float) -> Bounds:
    ci = mean_interval(
        statistic.of_rows(data),
        groups=groups_of(plan),
        bounds=statistic.range_on(data),
        confidence=confidence,
    )
    return ci.ci_low, ci.ci_high, ci.method


def _auc_interval(statistic: RocAuc, data: Columns, confidence: float) -> Bounds:
    """Return the score interval for the ROC-AUC.

    The variance at a true value θ is the largest of three: DeLong's, with Student's quantile; the
    variance for two normal distributions with this θ (Owen's T), with decreasing weight as DeLong's
    variance is based on more rows; and Newcombe's (2006, method 5), with decreasing weight above 15
    rows of the smaller class.
    """
    from eval_toolkit.inference.delong import placements, variance_parts

    m, n = data.n_positive, data.n - data.n_positive
    # In rank order, so that the order of the rows cannot move a bit of the sums below.
    above = placements(data.labels, data.scores)[data.order]
    positive = data.labels[data.order]
    auc = float(above[positive].sum()) / (m * n)
    worth, carriers = math.inf, 0.0
    if min(m, n) > 1:
        parts = variance_parts(positive, above, m, n)
        variance = sum(parts)
        if variance > 0.0:
            counts = [carriers_of(above[mask]) for mask in (positive, ~positive)]
            carriers = pooled_count(parts, counts)
            df = min(
                max(pooled_count(parts, (m - 1, n - 1)), min(m, n) - 1.0),
                pooled_count(parts, [_df_of(k, of) for k, of in zip(counts, (m, n), strict=True)]),
            )
            worth = _equivalent_trials(auc, variance, df, confidence)
    low, high = _inverted(
        auc, lambda true: min(worth, _auc_trials(true, m, n, carriers)), confidence
    )
    return low, high, "score"


def pooled_count(parts: Sequence[float], counts: Sequence[float]) -> float:
    """Return the equivalent count for a sum of variances (Satterthwaite)."""
    total = sum(part**2 / count for part, count in zip(parts, counts, strict=True) if part > 0.0)
    return sum(parts) ** 2 / total


def carriers_of(values: FloatArray) -> float:
    """Return the effective number of values that determine a variance: n over the kurtosis."""
    squares = (values - values.mean()) ** 2
    fourth = float((squares**2).sum())
    return float(squares.sum()) ** 2 / fourth if fourth > 0.0 else 1.0


def _df_of(carriers: float, n: int) -> float:
    """Return the degrees of freedom of a variance from n values.

    The relative variance of a sample variance is (κ − 1)/n, and that of a chi-squared variable is
    2/df; κ is n over ``carriers``. The result is at least 6.
    """
    return max(_FEWEST, 2.0 / (1.0 / carriers - 1.0 / n)) if carriers < n - 1e-9 else 2.0 * n


def _auc_trials(auc: float, m: int, n: int, carriers: float = 0.0) -> float:
    """Return the equivalent number of trials of an AUC, by the normal model or by Newcombe."""
    spread = auc * (1.0 - auc)
    if spread <= 0.0:
        return math.inf
    overlap = 1.0 - 2.0 * owens_t(normal_quantile(auc), 1.0 / math.sqrt(3.0)) / spread
    normal = m * n / (1.0 + (m + n - 2) * max(0.0, overlap)) * max(1.0, carriers / _ENOUGH)
    half = (m + n) / 2.0 - 1.0
    newcombe = m * n / (1.0 + half * ((1.0 - auc) / (2.0 - auc) + auc / (1.0 + auc)))
    return min(normal, newcombe * max(1.0, min(m, n) / 15.0))


def _inverted(
    value: float, trials: Callable[[float], float], confidence: float
) -> tuple[float, float]:
    """Return the values θ with |value − θ| ≤ z √(θ (1 − θ) / trials(θ)), by bisection."""
    z = critical_value(confidence)

    ends = []
    for far in (0.0, 1.0):
        inside, outside = value, far
        if value == far:
            ends.append(far)
            continue
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2.0
            error = z * math.sqrt(middle * (1.0 - middle) / trials(middle))
            rejected = abs(value - middle) > error
            inside, outside = (inside, middle) if rejected else (middle, outside)
        ends.append(inside)
    return ends[0], ends[1]


def _average_precision_interval(
    statistic: AveragePrecision, data: Columns, confidence: float
) -> Bounds:
    """Return the interval from the jackknife variance (Boyd, Eng & Page 2013 for few rows)."""
    left_out = statistic.leave_one_out(data)
    fewer = float(min(data.n_positive, data.n - data.n_positive))
    variance, df = 0.0, fewer - 1.0
    if left_out is not None:
        variance = jackknife_se(left_out) ** 2
        df = min(df, _df_of(carriers_of(left_out), data.n))
    ends = bounded_interval(
        statistic.point(data), statistic.bounds, variance, fewer, confidence, df
    )
    return *ends, "score"


def _recall_interval(statistic: RecallAtFpr, data: Columns, confidence: float) -> Bounds:
    """Return the interval for the recall at a bounded false-positive rate.

    There are two independent sources of error: the threshold (order statistics of the negatives)
    and the recall above it. The bounds are the extremes over all pairs of errors at a joint
    distance of z, so jumps at tied scores are fully included.
    """
    groups, target = data.groups, statistic.target
    m, n = data.n_positive, data.n - data.n_positive
    if n * target < MIN_CLASS:
        raise UndefinedMetricError(
            f"{n} negative rows are too few for a threshold at a false-positive rate of {target:g}: "
            f"an interval needs at least {math.ceil(MIN_CLASS / target) if target else 'infinitely many'}"
        )
    allowed = math.floor(target * n + 1e-9)
    z = critical_value(confidence)
    low = high = statistic.point(data)
    ranges = _binomial_ranges(n, target, z * np.sin(_ANGLES))
    for angle, (fewer, more) in zip(_ANGLES, ranges, strict=True):
        level = 2.0 * normal_cdf(max(z * math.cos(angle), 1e-6)) - 1.0
        below = _recall_with(groups, min(fewer, allowed), m) if fewer else 0.0
        above = _recall_with(groups, max(more, allowed), m)
        low = min(low, score_interval(below, m, confidence=level)[0])
        high = max(high, score_interval(above, m, confidence=level)[1])
    return low, high, "score, propagated"


def _recall_with(groups: ScoreGroups, n_false: int, n_positive: int) -> float:
    """Return the recall at the lowest threshold with at most a given number of false positives."""
    place = int(np.searchsorted(groups.fp, n_false, side="right"))
    return float(groups.tp[place - 1]) / n_positive if place else 0.0


def _binomial_ranges(n: int, p: float, distances: FloatArray) -> list[tuple[int, int]]:
    """Return the quantiles of Binomial(n, p) at Φ(−z) and Φ(z) for each distance z."""
    if p >= 1.0:
        return [(n, n)] * len(distances)
    counts, cumulative = binomial_cdf(n, p)
    levels = np.array([[normal_cdf(-z), normal_cdf(z)] for z in distances])
    places = np.minimum(np.searchsorted(cumulative, levels), len(counts) - 1)
    return [(int(low), int(high)) for low, high in counts[places]]


def _threshold_interval(statistic: AtThreshold, data: Columns, confidence: float) -> Bounds:
    """Return the interval for a proportion or for a function of recall, FPR and prevalence."""
    counts = data.confusion(statistic.threshold)
    tn, fp, fn, tp = (float(part) for part in (counts.tn, counts.fp, counts.fn, counts.tp))
    trials = {"positive": tp + fn, "negative": tn + fp, "predicted": tp + fp, "all": float(data.n)}
    value = statistic.point(data)
    if statistic.trials in trials:
        ends = score_interval(value, trials[statistic.trials], confidence=confidence)
        return *ends, "wilson"
    rates = [(tp, tp + fn), (fp, tn + fp), (tp + fn, float(data.n))]
    return *propagated(statistic, value, rates, confidence), "score, propagated"


def propagated(
    statistic: AtThreshold,
    value: float,
    rates: list[tuple[float, float]],
    confidence: float,
) -> tuple[float, float]:
    """Propagate the score intervals for recall, false-positive rate and prevalence to a metric.

    Each rate is set to the bounds of its interval while the other rates keep their observed values.
    The resulting downward and upward changes of the metric are combined as root sums of squares.
    """
    observed = [hits / trials for hits, trials in rates]
    squares = [0.0, 0.0]
    for place, (hits, trials) in enumerate(rates):
        ends = score_interval(hits / trials, trials, confidence=confidence)
        moves = [0.0]
        for end in ends:
            moved = _at_rates(statistic, [*observed[:place], end, *observed[place + 1 :]])
            if math.isfinite(moved):
                moves.append(moved - value)
        squares[0] += min(moves) ** 2
        squares[1] += max(moves) ** 2
    low, high = statistic.bounds
    return max(low, value - math.sqrt(squares[0])), min(high, value + math.sqrt(squares[1]))


def _at_rates(statistic: AtThreshold, rates: list[float]) -> float:
    recall, fpr, prevalence = rates
    return float(
        statistic.evaluate(
            (1.0 - prevalence) * (1.0 - fpr),
            (1.0 - prevalence) * fpr,
            prevalence * (1.0 - recall),
            prevalence * recall,
        )
    )


_CLOSED: dict[type, Callable[..., Bounds]] = {
    RocAuc: _auc_interval,
    AveragePrecision: _average_precision_interval,
    RecallAtFpr: _recall_interval,
    AtThreshold: _threshold_interval,
}
