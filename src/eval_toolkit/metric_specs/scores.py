"""Metrics of labels and scores, read from the columns of that name or from others."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.calibration_statistics import (
    EqualMassError,
    EqualWidthError,
    SmoothError,
)
from eval_toolkit.inference.column_statistics import CallableStatistic, Statistic
from eval_toolkit.inference.prepared import SCORED
from eval_toolkit.inference.statistics import BRIER, LOG_LOSS, AveragePrecision, RecallAtFpr, RocAuc

__all__ = [
    "SCORED",
    "ScoreSpec",
    "brier",
    "ece",
    "log_loss",
    "make_spec_name",
    "on_columns",
    "partial_roc_auc",
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
    columns: tuple[str, str] = SCORED
    """Where records hold the labels and the scores."""
    source: str = ""
    """Name of the metric that `on_columns` made it of."""

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Return the metric, or raise `UndefinedMetricError`."""
        return float(self.function(y_true, y_score))


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
        validation.bin_count(n_bins),
        validation.choice(strategy, "strategy", ("uniform", "quantile")),
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
    return _recall_at_fpr(validation.number(target_fpr, "target_fpr", low=0.0, high=1.0))


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
    limit = validation.number(max_fpr, "max_fpr", low=0.0, high=1.0, include_low=False)
    function = functools.partial(metrics.roc_auc, max_fpr=limit)
    name = make_spec_name("roc_auc", max_fpr=_shortest(limit))
    return ScoreSpec(name, function, CallableStatistic(function, (0.0, 1.0)))


def on_columns(spec: ScoreSpec, *, label: str, score: str, name: str | None = None) -> ScoreSpec:
    """Metric of labels and scores, read from other columns of records than ``label`` and ``score``.

    Parameters
    ----------
    spec : ScoreSpec
        Such as ``ece()``, `brier` or `roc_auc`.
    label : str
        A column of 0 and 1, such as whether an answer was right.
    score : str
        A column of scores, such as the confidence in the answer.
    name : str, optional
        Name of the metric; ``<score>_<metric>`` by default.

    Returns
    -------
    ScoreSpec
        Attempts at one unit need not agree on the label, so that each of them counts as a row, and
        the attempts at a unit are drawn together; ``n_attempts`` in the details of a cell says how
        many there are.

    Raises
    ------
    InvalidTypeError
        If the spec is no metric of labels and scores.
    InvalidInputError
        If a name is empty.

    Examples
    --------
    >>> from eval_toolkit.scorecards import Records, summarise
    >>> records = Records.from_columns({"right": [1, 0, 1], "sure": [0.9, 0.4, 0.8]})
    >>> spec = on_columns(brier, label="right", score="sure", name="confidence_brier")
    >>> round(summarise(records, [spec])["confidence_brier"].value, 3)
    0.07
    """
    if not isinstance(spec, ScoreSpec):
        raise InvalidTypeError(f"`spec` is {spec!r}; it must be a metric of labels and scores")
    for argument, given in (("label", label), ("score", score), ("name", name)):
        if (given is None and argument != "name") or given == "":
            raise InvalidInputError(f"`{argument}` is {given!r}; it must be a name")
    source = spec.source or spec.name
    name = name or f"{score}_{source}"
    return replace(spec, name=name, columns=(label, score), source=source)
