"""Differences between scorers at thresholds refitted on every resample."""

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.kernel import LANES
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InfeasibleError, InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.bootstrap_intervals import finite
from eval_toolkit.inference.paired import paired_result
from eval_toolkit.inference.plans import Plan, rows_plan
from eval_toolkit.inference.resampling import Executor, row_cost, spread
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    DEFAULT_N_RESAMPLES,
    PairedBootstrapCI,
)
from eval_toolkit.inference.score_intervals import MIN_CLASS, TRUSTED
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed

ThresholdFn: TypeAlias = Callable[[Any, Any], float]
ThresholdedMetricFn: TypeAlias = Callable[[Any, Any, float], float]


def paired_bootstrap_op_point_diff(
    val_y: ArrayLike,
    val_score_a: ArrayLike,
    val_score_b: ArrayLike,
    test_y: ArrayLike,
    test_score_a: ArrayLike,
    test_score_b: ArrayLike,
    threshold_fn: ThresholdFn | Any,
    metric_fn: ThresholdedMetricFn,
    *,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: SeedLike = None,
    rng: SeedLike = None,
    executor: Executor | None = None,
) -> PairedBootstrapCI:
    """Return metric(B) − metric(A) at thresholds refitted on every resample.

    Validation and test rows are resampled independently. In each resample, both thresholds are
    refitted on the same validation rows, and both scorers are evaluated on the same test rows, so
    the interval includes the uncertainty of threshold selection.

    Parameters
    ----------
    val_y, val_score_a, val_score_b : array-like of shape (m,)
        Validation labels and scores, on which thresholds are selected.
    test_y, test_score_a, test_score_b : array-like of shape (n,)
        Test labels and scores, on which the metric is computed; these must be other rows.
    threshold_fn : callable or ThresholdSelector
        ``threshold_fn(y_true, y_score) -> threshold``.
    metric_fn : callable
        ``metric_fn(y_true, y_score, threshold) -> value``.
    n_resamples, confidence, seed, rng, executor
        As in `paired_bootstrap_diff`.

    Returns
    -------
    PairedBootstrapCI
        Interval for the difference; ``n_resamples`` counts the usable resamples. With fewer than 30
        rows of a class, ``reason`` warns that the coverage of bootstrap quantiles may be too low.

    Raises
    ------
    InvalidInputError
        If the validation or the test data have fewer than 10 rows, or ``test_y`` is the same object
        as ``val_y``.
    InfeasibleError
        If fewer than half of the resamples are usable.
    UndefinedMetricError
        If the validation or the test data have fewer than 3 rows of a class.

    Examples
    --------
    >>> from eval_toolkit.metrics import metrics_at_threshold
    >>> y = [0, 1] * 15
    >>> a = [0.03 * i + 0.1 * label for i, label in enumerate(y)]
    >>> b = [0.03 * i + 0.8 * label for i, label in enumerate(y)]
    >>> diff = paired_bootstrap_op_point_diff(
    ...     y, a, b, list(y), a, b,
    ...     lambda y_true, y_score: float(np.median(y_score)),
    ...     lambda y_true, y_score, t: metrics_at_threshold(y_true, y_score, t)["recall"],
    ...     n_resamples=200,
    ... )
    >>> diff.delta > 0
    True
    """
    if val_y is test_y:
        raise InvalidInputError(
            "`val_y` and `test_y` are the same object; thresholds must be evaluated on different rows"
        )
    val = _TwoScorers.checked(val_y, val_score_a, val_score_b, "val_")
    test = _TwoScorers.checked(test_y, test_score_a, test_score_b, "test_")
    n_resamples = validation.integer(n_resamples, "n_resamples", low=1)
    confidence = validation.fraction(confidence, "confidence")
    select = _threshold_of(threshold_fn)
    started = time.perf_counter()
    values = [
        finite(metric_fn(test.y, score, select(val.y, val_score)), "`metric_fn`")
        for score, val_score in zip(test.scores, val.scores, strict=True)
    ]
    took = time.perf_counter() - started
    run = functools.partial(
        _refitted, val, test, select, metric_fn, resolve_seed(seed, rng), n_resamples
    )
    work = LANES * row_cost(2 * (len(val.y) + len(test.y)), took)
    parts = spread(run, range(0, n_resamples, LANES), work, executor)
    differences = np.concatenate(parts)[:n_resamples]
    usable = int(np.count_nonzero(~np.isnan(differences)))
    if usable < 0.5 * n_resamples:
        raise InfeasibleError(
            f"both scorers have a threshold and a value on only {usable} of {n_resamples} resamples; "
            "at least half are needed"
        )
    found = paired_result(
        differences, values[0], values[1], confidence, "percentile, thresholds refitted"
    )
    fewest = min(val.fewest, test.fewest)
    if fewest >= TRUSTED or found.reason:
        return found
    reason = f"{fewest} rows of one class: bootstrap coverage may be below the nominal level"
    return replace(found, reason=reason)


@dataclass(frozen=True)
class _TwoScorers:
    """Labels, and the scores of two scorers, on the validation or the test data."""

    y: IntArray
    scores: tuple[FloatArray, FloatArray]

    @classmethod
    def checked(cls, y: ArrayLike, a: ArrayLike, b: ArrayLike, prefix: str) -> "_TwoScorers":
        labels: BoolArray = validation.binary_labels(y, f"{prefix}y")
        pair = []
        for name, values in (("score_a", a), ("score_b", b)):
            scores = validation.vector(values, prefix + name)
            validation.same_length(labels, scores, (f"{prefix}y", prefix + name))
            pair.append(scores)
        if len(labels) < 10:
            raise InvalidInputError(f"`{prefix}y` has {len(labels)} rows; at least 10 are needed")
        two_scorers = cls(labels.astype(np.int64), (pair[0], pair[1]))
        if two_scorers.fewest < MIN_CLASS:
            raise UndefinedMetricError(
                f"`{prefix}y` has {two_scorers.fewest} rows of one class; a comparison with refitted "
                f"thresholds needs at least {MIN_CLASS} of each"
            )
        return two_scorers

    @property
    def fewest(self) -> int:
        """Number of rows of the smaller class."""
        return int(np.bincount(self.y, minlength=2).min())

    def rows(self, plan: Plan, seed: int, first: int) -> list[IntArray]:
        """Return the rows of 64 resamples."""
        counts = np.empty((len(self.y), LANES), dtype=np.uint8)
        plan.draw(counts, seed=seed, first=first)
        return [np.repeat(np.arange(len(self.y)), counts[:, lane]) for lane in range(LANES)]


def _threshold_of(threshold_fn: ThresholdFn | Any) -> ThresholdFn:
    if hasattr(threshold_fn, "select"):
        return functools.partial(_selected, threshold_fn)
    chosen: ThresholdFn = threshold_fn
    return chosen


def _selected(selector: Any, y_true: Any, y_score: Any) -> float:
    return float(selector.select(y_true, y_score).threshold)


def _refitted(
    val: _TwoScorers,
    test: _TwoScorers,
    select: ThresholdFn,
    metric_fn: ThresholdedMetricFn,
    seed: int,
    n_resamples: int,
    firsts: Sequence[int],
) -> FloatArray:
    """Return the differences on blocks of 64 resamples; NaN if undefined."""
    blocks = [_block(val, test, select, metric_fn, seed, n_resamples, first) for first in firsts]
    return np.concatenate(blocks)


def _block(
    val: _TwoScorers,
    test: _TwoScorers,
    select: ThresholdFn,
    metric_fn: ThresholdedMetricFn,
    seed: int,
    n_resamples: int,
    first: int,
) -> FloatArray:
    val_rows = val.rows(rows_plan(len(val.y)), derive_seed(seed, "validation"), first)
    test_rows = test.rows(rows_plan(len(test.y)), seed, first)
    out = np.full(min(LANES, n_resamples - first), math.nan)
    for lane in range(len(out)):
        at_val, at_test = val_rows[lane], test_rows[lane]
        try:
            a, b = (
                float(metric_fn(test.y[at_test], t[at_test], select(val.y[at_val], v[at_val])))
                for v, t in zip(val.scores, test.scores, strict=True)
            )
        except (ValueError, ArithmeticError, LookupError, RuntimeError):
            continue
        out[lane] = b - a
    return np.where(np.isfinite(out), out, math.nan)
