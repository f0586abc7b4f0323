"""Pointwise bootstrap bands for ROC and precision-recall curves on a grid."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.kernel import LANES
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.bootstrap_intervals import enough_units
from eval_toolkit.inference.plans import (
    Plan,
    chosen_plan,
    label_group_plan,
    label_stratified_plan,
)
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.metrics.cumulative import score_groups
from eval_toolkit.metrics.wilson import wilson_bounds
from eval_toolkit.seeds import SeedLike, resolve_seed

DEFAULT_BAND_RESAMPLES = 500
_MAX_UNDEFINED = 0.05
"""Fraction of single-class resamples above which the classes are resampled separately."""

_Counts = FloatArray | IntArray
_Reading = Callable[[_Counts, _Counts, FloatArray], FloatArray]
"""Function that returns the curve from cumulative class counts per distinct score and the grid."""

_Base = Callable[[BoolArray, FloatArray, IntArray, FloatArray], FloatArray]
"""Function of labels, scores, units and grid that returns the denominator of each rate."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CurveBand(Displayed):
    """Curve on a grid with pointwise intervals, as returned by `roc_band` and `pr_band`.

    The simultaneous coverage of the band is lower than the pointwise coverage.

    Examples
    --------
    >>> band = roc_band([0, 1] * 30, [0.02 * i + 0.3 * (i % 2) for i in range(60)], grid=[0.1, 0.5])
    >>> band.x.tolist(), bool((band.low <= band.high).all()), band.method
    ([0.1, 0.5], True, 'percentile')
    """

    x: FloatArray
    """False-positive rates (ROC) or recalls (precision-recall), ascending."""
    y: FloatArray
    """True-positive rates (ROC) or precisions (precision-recall) at each point of the grid."""
    low: FloatArray
    high: FloatArray
    confidence: float
    n_resamples: int
    """Number of usable resamples, i.e. resamples with both classes."""
    method: str
    kind: str
    """"roc" or "pr"."""
    n_rows: int
    """Number of rows."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        columns = {name: getattr(self, name).tolist() for name in ("x", "y", "low", "high")}
        names = ("confidence", "n_resamples", "method", "kind", "n_rows")
        return columns | {name: getattr(self, name) for name in names}


def roc_band(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    n_resamples: int = DEFAULT_BAND_RESAMPLES,
    seed: SeedLike = None,
    grid: ArrayLike | None = None,
) -> CurveBand:
    """Return the ROC curve on a grid of false positive rates, with a pointwise bootstrap band.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    groups : array-like of shape (n,), optional
        Group of each row; rows within a group may be dependent, and whole groups are resampled.
    confidence : float, default 0.95
        Pointwise confidence level.
    n_resamples : int, default 500
        Number of resamples, at least 20.
    seed : int, Generator, …, default 42
        Random seed; the resamples are those of `bootstrap_ci`.
    grid : array-like of shape (k,), optional
        Ascending false positive rates in [0, 1]; 0, 0.01, …, 1 by default.

    Returns
    -------
    CurveBand
        ``y`` is the true positive rate at each false positive rate.

    Raises
    ------
    InvalidInputError
        If the data or an option are invalid, or there are fewer than 10 rows or groups.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    At each rate x the curve is evaluated vertically: at its highest point if it has a step at x,
    and by linear interpolation between neighbouring thresholds otherwise. The intervals are
    percentile intervals. Resamples that lack a class are dropped; if more than 5 % do, classes are
    resampled separately, as recorded in ``method``. No interval is narrower than the Wilson
    interval for a proportion of that many positives (or groups with positives), because all
    resamples agree near 0 and 1.

    Pointwise coverage: for normal scores with 100 and 300 rows, and with 150 groups of four, 95 %
    intervals covered the true rate in 95 to 99.5 % of 1000 samples at false positive rates from
    0.05 to 0.5 (``tests/statistics``). Coverage is lower at rates that correspond to less than one
    negative: 82 % at a rate of 0.01 with 70 negatives.

    Examples
    --------
    >>> y = [0, 1] * 30
    >>> band = roc_band(y, [0.02 * i + 0.3 * label for i, label in enumerate(y)])
    >>> len(band.x), float(band.y[-1]), bool((band.low <= band.y).all())
    (101, 1.0, True)
    """
    return _band(
        _true_positive_rates,
        _positives,
        (y_true, y_score, groups),
        _grid(grid),
        confidence=confidence,
        n_resamples=n_resamples,
        seed=seed,
    )


def pr_band(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    n_resamples: int = DEFAULT_BAND_RESAMPLES,
    seed: SeedLike = None,
    grid: ArrayLike | None = None,
) -> CurveBand:
    """Return the precision-recall curve on a grid of recalls, with a pointwise bootstrap band.

    Parameters
    ----------
    y_true, y_score, groups, confidence, n_resamples, seed
        See `roc_band`.
    grid : array-like of shape (k,), optional
        Ascending recalls in [0, 1]; 0, 0.01, …, 1 by default.

    Returns
    -------
    CurveBand
        ``y`` is the precision at each recall.

    Raises
    ------
    InvalidInputError
        If the data or an option are invalid, or there are fewer than 10 rows or groups.
    UndefinedMetricError
        If only one class is present.

    Notes
    -----
    The precision at recall r is taken at the highest threshold with a recall of at least r; at
    recall 0, at the highest threshold with a true positive. There is no interpolation, because
    precision is not linear in recall [1]_; the area under this step function is `pr_auc`. Resamples
    are those of `roc_band`. No interval is narrower than the Wilson interval for a proportion of
    the rows, or groups, at or above the threshold.

    For the samples of `roc_band`, 95 % intervals covered the true precision in 93 to 99 % at
    recalls from 0.3 to 0.8. Precision near recall 1 depends on the lowest-scoring positive; its
    interval covered the true value in 80 % of samples of 100 rows at recall 0.99.

    References
    ----------
    .. [1] Davis & Goadrich (2006), ICML, 233-240.

    Examples
    --------
    >>> y = [0, 1] * 30
    >>> band = pr_band(y, [0.02 * i + 0.3 * label for i, label in enumerate(y)], grid=[0.2, 1.0])
    >>> band.y.round(3).tolist()
    [1.0, 0.577]
    """
    return _band(
        _precisions,
        _flagged,
        (y_true, y_score, groups),
        _grid(grid),
        confidence=confidence,
        n_resamples=n_resamples,
        seed=seed,
    )


def _grid(grid: ArrayLike | None) -> FloatArray:
    if grid is None:
        return np.arange(101) / 100  # unlike linspace, gives 0.29 == 29/100 exactly
    places = validation.vector(grid, "grid")
    if places.min() < 0.0 or places.max() > 1.0 or (np.diff(places) <= 0).any():
        raise InvalidInputError("`grid` must contain strictly increasing rates in [0, 1]")
    return places


def _band(
    read: _Reading,
    base: _Base,
    data: tuple[ArrayLike, ArrayLike, ArrayLike | None],
    grid: FloatArray,
    *,
    confidence: float,
    n_resamples: int,
    seed: SeedLike,
) -> CurveBand:
    y_true, y_score, groups = data
    labels, scores = validation.binary_pair(y_true, y_score)
    level = validation.fraction(confidence, "confidence")
    n_draws = validation.integer(n_resamples, "n_resamples", low=20)
    validation.both_classes(labels, "the curve")
    plan = chosen_plan(labels, groups=groups)
    enough_units(plan)
    unit = np.arange(len(labels)) if plan.unit_of_row is None else plan.unit_of_row
    number = resolve_seed(seed)
    method = "percentile" if groups is None else "percentile, groups"
    curves = _resampled(read, labels, scores, plan, grid, n_draws, number)
    if len(curves) < (1.0 - _MAX_UNDEFINED) * n_draws:
        plan = label_stratified_plan(labels) if groups is None else label_group_plan(labels, groups)
        method += ", label-stratified"
        curves = _resampled(read, labels, scores, plan, grid, n_draws, number)
    if not len(curves):  # pragma: no cover - each class is drawn now
        raise UndefinedMetricError("the curve is undefined on every resample")
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(curves, [tail, 1.0 - tail], axis=0)
    whole = score_groups(labels, scores)
    curve = read(whole.tp, whole.fp, grid)
    n = base(labels, scores, unit, grid)
    certain = n == 0
    n[certain] = 1.0
    least, most = wilson_bounds(curve * n, n, level)
    return CurveBand(
        x=grid,
        y=curve,
        low=np.where(certain, low, np.minimum(low, least)),
        high=np.where(certain, high, np.maximum(high, most)),
        confidence=level,
        n_resamples=len(curves),
        method=method,
        kind="roc" if read is _true_positive_rates else "pr",
        n_rows=len(labels),
    )


def _resampled(
    read: _Reading,
    labels: BoolArray,
    scores: FloatArray,
    plan: Plan,
    grid: FloatArray,
    n_resamples: int,
    seed: int,
) -> FloatArray:
    """Return the curve on each resample with both classes, shape (usable, grid)."""
    order = np.argsort(-scores, kind="stable")
    positive = np.flatnonzero(labels[order])
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    curves = []
    for counts in _counts(plan, order, n_resamples, seed):
        seen = np.cumsum(counts, dtype=np.int64)
        found = np.zeros(len(counts), dtype=np.int64)
        found[positive] = counts[positive]
        tp = np.cumsum(found)[last]
        fp = seen[last] - tp
        if tp[-1] and fp[-1]:
            curves.append(read(tp, fp, grid))
    return np.array(curves).reshape(-1, len(grid))


def _counts(plan: Plan, order: IntArray, n_resamples: int, seed: int) -> Iterator[IntArray]:
    """Yield the count of each row, by descending score, per resample."""
    unit = order if plan.unit_of_row is None else plan.unit_of_row[order]
    drawn = np.empty((plan.count_rows(), LANES), dtype=np.uint8)
    for first in range(0, n_resamples, LANES):
        plan.draw(drawn, seed=seed, first=first)
        by_lane = np.ascontiguousarray(drawn.T)
        for lane in range(min(LANES, n_resamples - first)):
            yield by_lane[lane][unit]


def _true_positive_rates(tp: _Counts, fp: _Counts, grid: FloatArray) -> FloatArray:
    tpr = np.concatenate(([0.0], tp / tp[-1]))
    fpr = np.concatenate(([0.0], fp / fp[-1]))
    at = np.searchsorted(fpr, grid, side="right") - 1  # highest point of a vertical step
    after = np.minimum(at + 1, len(fpr) - 1)
    width = fpr[after] - fpr[at]
    share = np.divide(grid - fpr[at], width, out=np.zeros(len(grid)), where=width > 0)
    rates: FloatArray = tpr[at] + share * (tpr[after] - tpr[at])
    return rates


def _positives(
    labels: BoolArray, scores: FloatArray, unit: IntArray, grid: FloatArray
) -> FloatArray:
    """Return the number of units with a positive row, or 0 at the last point (a rate of 1)."""
    n = float(len(np.unique(unit[labels])))
    return np.where(grid < 1.0, n, 0.0)


def _precisions(tp: _Counts, fp: _Counts, grid: FloatArray) -> FloatArray:
    at = _reaching(tp, grid)
    precisions: FloatArray = tp[at] / (tp[at] + fp[at])
    return precisions


def _reaching(tp: _Counts, grid: FloatArray) -> IntArray:
    """Return the index of the highest threshold that reaches each recall of the grid."""
    recall = tp / tp[-1]
    at = np.searchsorted(recall, grid, side="left")
    return np.maximum(at, np.searchsorted(recall, 0.0, side="right")).astype(np.int64)


def _flagged(labels: BoolArray, scores: FloatArray, unit: IntArray, grid: FloatArray) -> FloatArray:
    """Return the number of units with a row at or above the threshold of each recall."""
    order = np.argsort(-scores, kind="stable")
    new = np.zeros(len(order), dtype=np.int64)
    new[np.unique(unit[order], return_index=True)[1]] = 1
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    seen = np.cumsum(new)[last].astype(np.float64)
    counted: FloatArray = seen[_reaching(score_groups(labels, scores).tp, grid)]
    return counted
