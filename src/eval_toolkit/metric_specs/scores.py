"""Metrics of labels and scores, which are read from the default or other record columns."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.columns import SCORED
from eval_toolkit.inference.statistics import (
    BRIER,
    LOG_LOSS,
    AveragePrecision,
    RecallAtFpr,
    RocAuc,
)

if TYPE_CHECKING:
    from eval_toolkit.inference.column_statistics import Statistic

__all__ = [
    "DEFAULT_METRICS",
    "SCORED",
    "ScoreSpec",
    "brier",
    "log_loss",
    "make_spec_name",
    "on_columns",
    "partial_roc_auc",
    "pr_auc",
    "recall_at_fpr",
    "roc_auc",
]


@dataclass(frozen=True)
class ScoreSpec:
    """Named metric of labels and scores, with a vectorised statistic.

    Examples
    --------
    >>> pr_auc.name, pr_auc.compute([0, 1, 1], [0.1, 0.8, 0.9])
    ('pr_auc', 1.0)
    """

    name: str
    function: Callable[..., float] = field(repr=False)
    """Function called as ``function(y_true, y_score, sample_weight=None)``."""
    statistic: Statistic = field(repr=False)
    higher_is_better: bool = True
    columns: tuple[str, str] = SCORED
    """Columns of records with the labels and the scores."""
    source: str = ""
    """Name of the original metric, for specs returned by `on_columns`."""

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Return the metric, or raise `UndefinedMetricError`."""
        return float(self.function(y_true, y_score))


pr_auc = ScoreSpec("pr_auc", metrics.pr_auc, AveragePrecision())
roc_auc = ScoreSpec("roc_auc", metrics.roc_auc, RocAuc())
brier = ScoreSpec("brier", metrics.brier_score, BRIER, higher_is_better=False)
log_loss = ScoreSpec("log_loss", metrics.log_loss, LOG_LOSS, higher_is_better=False)
DEFAULT_METRICS = (pr_auc, roc_auc, brier, log_loss)
"""Default metrics of `scorecard`, `evaluate`, `score` and `compare`."""


def make_spec_name(prefix: str, **kwargs: Any) -> str:
    """Return the prefix followed by the parameters as ``_key_value``, in alphabetical order.

    Examples
    --------
    >>> make_spec_name("ece", strategy="uniform", n_bins=15)
    'ece_n_bins_15_strategy_uniform'
    """
    return "".join([prefix, *(f"_{key}_{kwargs[key]}" for key in sorted(kwargs))])


def _shortest(value: float) -> str:
    """Return the shortest string that represents a number exactly."""
    return np.format_float_positional(value, trim="-")


def recall_at_fpr(target_fpr: float) -> ScoreSpec:
    """Return a spec for the maximum recall at a false-positive rate of at most a target.

    Parameters
    ----------
    target_fpr : float
        Maximum false-positive rate, in [0, 1].

    Returns
    -------
    ScoreSpec
        Spec with a name such as ``recall_at_fpr_0.01``; equal arguments return the identical
        object.

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
    """Recall at a false-positive rate as a function of labels and scores."""

    target: float

    def __call__(self, y_true: Any, y_score: Any, *, sample_weight: Any = None) -> float:
        result = metrics.recall_at_fpr(y_true, y_score, self.target, sample_weight=sample_weight)
        return result.recall


def partial_roc_auc(max_fpr: float) -> ScoreSpec:
    """Return a spec for ROC-AUC up to a false-positive rate, standardised to 0.5 for chance.

    Examples
    --------
    >>> partial_roc_auc(0.1).name
    'roc_auc_max_fpr_0.1'
    """
    from eval_toolkit.inference.partial_area import PartialRocAuc

    limit = validation.number(max_fpr, "max_fpr", low=0.0, high=1.0, include_low=False)
    function = functools.partial(metrics.roc_auc, max_fpr=limit)
    name = make_spec_name("roc_auc", max_fpr=_shortest(limit))
    return ScoreSpec(name, function, PartialRocAuc.up_to(limit) if limit < 1.0 else RocAuc())


def on_columns(spec: ScoreSpec, *, label: str, score: str, name: str | None = None) -> ScoreSpec:
    """Return a metric of labels and scores that reads other columns of records.

    Parameters
    ----------
    spec : ScoreSpec
        Metric such as ``ece()``, `brier` or `roc_auc`.
    label : str
        Column of 0 and 1, such as whether an answer was correct.
    score : str
        Column of scores, such as the confidence in the answer.
    name : str, optional
        Name of the metric; ``<score>_<metric>`` by default.

    Returns
    -------
    ScoreSpec
        Spec that treats each attempt as a row, since attempts at a unit may have different labels;
        a unit's attempts are resampled together. Cell details contain ``n_attempts``.

    Raises
    ------
    InvalidTypeError
        If the spec is not a metric of labels and scores.
    InvalidInputError
        If a name is empty.

    Examples
    --------
    >>> from eval_toolkit.scorecards import Records, summarise
    >>> records = Records.from_columns({"correct": [1, 0, 1], "confidence": [0.9, 0.4, 0.8]})
    >>> spec = on_columns(brier, label="correct", score="confidence")
    >>> round(summarise(records, [spec])["confidence_brier"].value, 3)
    0.07
    """
    if not isinstance(spec, ScoreSpec):
        raise InvalidTypeError(f"`spec` is {spec!r}; it must be a metric of labels and scores")
    for argument, given in (("label", label), ("score", score), ("name", name)):
        if (given is None and argument != "name") or given == "":
            raise InvalidInputError(f"`{argument}` is {given!r}; it must be a non-empty string")
    source = spec.source or spec.name
    name = name or f"{score}_{source}"
    return replace(spec, name=name, columns=(label, score), source=source)
