"""Threshold-free metrics as `scorecard` takes them: ``from eval_toolkit import metric_specs as ms``.

A spec is any object with a ``name`` and ``compute(y_true, y_score)``; these carry a prepared
statistic as well, which makes their intervals fast. Metrics that need a threshold live in
`eval_toolkit.op_metric_specs`, where the threshold's provenance is part of the spec.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit import _validate, metrics
from eval_toolkit._validate import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.calibration_statistics import (
    EqualMassError,
    EqualWidthError,
    SmoothError,
    score_itself,
)
from eval_toolkit.inference.prepared import Ranked
from eval_toolkit.inference.statistics import (
    BRIER,
    LOG_LOSS,
    AveragePrecision,
    CallableStatistic,
    ColumnMean,
    RecallAtFpr,
    RocAuc,
    Statistic,
)

__all__ = [
    "ColumnSpec",
    "ScoreSpec",
    "brier",
    "ece",
    "log_loss",
    "make_spec_name",
    "mean_of",
    "partial_roc_auc",
    "pass_at_k",
    "pass_hat_k",
    "pr_auc",
    "recall_at_fpr",
    "roc_auc",
    "smooth_ece",
]


@dataclass(frozen=True)
class ScoreSpec:
    """A named metric of labels and scores with a prepared statistic.

    Examples
    --------
    >>> pr_auc.name, pr_auc.compute([0, 1, 1], [0.1, 0.8, 0.9])
    ('pr_auc', 1.0)
    """

    name: str
    function: Callable[..., float] = field(repr=False)
    """``function(y_true, y_score, sample_weight=None)``."""
    statistic: Statistic = field(repr=False)
    higher_is_better: bool = True

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Return the metric, or raise `UndefinedMetricError`."""
        return float(self.function(y_true, y_score))


@dataclass(frozen=True)
class ColumnSpec:
    """The mean of a column of records; made by `mean_of`."""

    name: str
    column: str
    higher_is_better: bool = True
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value, where known."""
    k: int | None = None
    """Attempts that are looked at together: of `pass_at_k` and `pass_hat_k`."""
    every: bool = False
    """Whether all of them must succeed."""

    def of_attempts(self, n: IntArray, n_correct: IntArray) -> tuple[FloatArray, BoolArray]:
        """Return one value per unit from its attempts, and which units have enough of them."""
        k = self.k or 1
        enough = n >= k
        values = np.zeros(len(n))
        function = metrics.pass_hat_k if self.every else metrics.pass_at_k
        if enough.any():
            values[enough] = function(n[enough], n_correct[enough], k)
        return values, enough

    @property
    def statistic(self) -> Statistic:
        """Mean of the label or score column."""
        column = _label_itself if self._reads_labels() else score_itself
        bounds = (0.0, 1.0) if self.column == "label" else self.bounds
        return ColumnMean(self.name, column, self.compute, bounds)

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Return the mean of the label or score column; records have more columns."""
        values = y_true if self._reads_labels() else y_score
        return float(np.mean(_validate.vector(values, self.column)))

    def proportion(self, data: Ranked) -> tuple[float, float] | None:
        """Return successes and trials where the column holds nothing but 0 and 1."""
        values = data.labels if self._reads_labels() else data.scores
        binary = values.dtype == np.bool_ or bool(np.isin(values, (0.0, 1.0)).all())
        return (float(values.sum()), float(data.n)) if binary else None

    def _reads_labels(self) -> bool:
        if self.column not in ("label", "score"):
            raise InvalidInputError(
                f"mean_of({self.column!r}) needs records with that column: use `summarise`; "
                "labels and scores alone offer 'label' and 'score'"
            )
        return self.column == "label"


def _label_itself(labels: BoolArray, scores: FloatArray) -> FloatArray:
    """Return the labels as numbers."""
    return labels.astype(np.float64)


pr_auc = ScoreSpec("pr_auc", metrics.pr_auc, AveragePrecision())
roc_auc = ScoreSpec("roc_auc", metrics.roc_auc, RocAuc())
brier = ScoreSpec("brier", metrics.brier_score, BRIER, higher_is_better=False)
log_loss = ScoreSpec("log_loss", metrics.log_loss, LOG_LOSS, higher_is_better=False)
smooth_ece = ScoreSpec("smooth_ece", metrics.smooth_ece, SmoothError(), higher_is_better=False)


def make_spec_name(prefix: str, **kwargs: Any) -> str:
    """Return the prefix followed by alphabetised ``_key_value`` parts.

    Examples
    --------
    >>> make_spec_name("ece", strategy="uniform", n_bins=15)
    'ece_n_bins_15_strategy_uniform'
    """
    return "".join([prefix, *(f"_{key}_{kwargs[key]}" for key in sorted(kwargs))])


def ece(*, n_bins: int = 15, strategy: str = "uniform") -> ScoreSpec:
    """Expected calibration error over equal-width ("uniform") or equal-mass ("quantile") bins.

    Parameters
    ----------
    n_bins : int, default 15
        Number of bins, at least 2.
    strategy : {"uniform", "quantile"}, default "uniform"
        How the bins are cut.

    Returns
    -------
    ScoreSpec
        Equal arguments give the identical object.

    Raises
    ------
    InvalidInputError
        If an argument is out of range.

    Examples
    --------
    >>> ece(n_bins=10) is ece(n_bins=10)
    True
    """
    return _ece(
        _validate.integer(n_bins, "n_bins", low=2),
        _validate.choice(strategy, "strategy", ("uniform", "quantile")),
    )


@functools.lru_cache(maxsize=128)
def _ece(n_bins: int, strategy: str) -> ScoreSpec:
    name = make_spec_name("ece", n_bins=n_bins, strategy=strategy)
    if strategy == "uniform":
        function = functools.partial(metrics.expected_calibration_error, n_bins=n_bins)
        return ScoreSpec(name, function, EqualWidthError(n_bins), higher_is_better=False)
    function = functools.partial(metrics.expected_calibration_error_equal_mass, n_bins=n_bins)
    return ScoreSpec(name, function, EqualMassError(n_bins), higher_is_better=False)


def _shortest(value: float) -> str:
    """Return as many digits as tell a number from every other, so that names do not collide."""
    return np.format_float_positional(value, trim="-")


def recall_at_fpr(target_fpr: float) -> ScoreSpec:
    """Best recall whose false-positive rate stays at or below a target.

    Parameters
    ----------
    target_fpr : float
        Ceiling of the false-positive rate, in [0, 1].

    Returns
    -------
    ScoreSpec
        Named ``recall_at_fpr_0.01`` and so on; equal arguments give the identical object.

    Raises
    ------
    InvalidInputError
        If the target is out of range.

    Examples
    --------
    >>> recall_at_fpr(0.01).name
    'recall_at_fpr_0.01'
    """
    return _recall_at_fpr(_validate.number(target_fpr, "target_fpr", low=0.0, high=1.0))


@functools.lru_cache(maxsize=128)
def _recall_at_fpr(target: float) -> ScoreSpec:
    name = f"recall_at_fpr_{_shortest(target)}"
    return ScoreSpec(name, _RecallAt(target), RecallAtFpr(target))


@dataclass(frozen=True)
class _RecallAt:
    """Recall alone, as a function of labels and scores."""

    target: float

    def __call__(self, y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
        result = metrics.recall_at_fpr(y_true, y_score, self.target, sample_weight=sample_weight)
        return result.recall


def partial_roc_auc(max_fpr: float) -> ScoreSpec:
    """ROC-AUC up to a false-positive rate, standardised so that chance is 0.5.

    Examples
    --------
    >>> partial_roc_auc(0.1).name
    'roc_auc_max_fpr_0.1'
    """
    limit = _validate.number(max_fpr, "max_fpr", low=0.0, high=1.0, include_low=False)
    function = functools.partial(metrics.roc_auc, max_fpr=limit)
    name = make_spec_name("roc_auc", max_fpr=_shortest(limit))
    return ScoreSpec(name, function, CallableStatistic(function, (0.0, 1.0)))


def mean_of(
    column: str,
    *,
    higher_is_better: bool = True,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> ColumnSpec:
    """Mean of a column of records: accuracy, reward, toxicity, anything measured per unit.

    Parameters
    ----------
    column : str
        Name of the column.
    higher_is_better : bool, default True
        Direction, for gates and comparisons.
    bounds : tuple of float
        Smallest and largest possible value, where known; intervals stay inside.

    Returns
    -------
    ColumnSpec
        Named like the column.

    Raises
    ------
    InvalidInputError
        If the name is empty.

    Examples
    --------
    >>> mean_of("exact_match").name
    'exact_match'
    """
    return ColumnSpec(_column_name(column), column, higher_is_better, bounds)


def pass_at_k(column: str, k: int) -> ColumnSpec:
    """Chance that at least one of k attempts at a unit succeeds, averaged over units.

    Parameters
    ----------
    column : str
        A column of 0 and 1, one line per attempt.
    k : int
        Units with fewer attempts are counted as skipped.

    Returns
    -------
    ColumnSpec
        Named ``<column>_pass@<k>``.

    Raises
    ------
    InvalidInputError
        If the name is empty or k is below 1.

    Examples
    --------
    >>> pass_at_k("exact_match", 4).name
    'exact_match_pass@4'
    """
    k = _validate.integer(k, "k", low=1)
    return ColumnSpec(f"{_column_name(column)}_pass@{k}", column, True, (0.0, 1.0), k)


def pass_hat_k(column: str, k: int) -> ColumnSpec:
    """Chance that all of k attempts at a unit succeed, averaged over units.

    Parameters
    ----------
    column, k
        As in `pass_at_k`.

    Returns
    -------
    ColumnSpec
        Named ``<column>_pass^<k>``.

    Raises
    ------
    InvalidInputError
        As in `pass_at_k`.

    Examples
    --------
    >>> pass_hat_k("exact_match", 4).name
    'exact_match_pass^4'
    """
    k = _validate.integer(k, "k", low=1)
    return ColumnSpec(f"{_column_name(column)}_pass^{k}", column, True, (0.0, 1.0), k, True)


def _column_name(column: str) -> str:
    if not isinstance(column, str) or not column:
        raise InvalidInputError(f"`column` is {column!r}; it must be the name of a column")
    return column
