"""Metrics at an operating point, such as F1 and recall, with the threshold's provenance.

Each factory takes an operating point: a threshold, a fitted operating point, or a selector that
chooses the threshold on the evaluated data. The interval policy is explicit:

``ci_policy="fixed"``
    The threshold is fixed during resampling: how well does *this* threshold perform?
``ci_policy="refit"``
    The selector is rerun on every resample: how well does *this selection method* perform?

Examples
--------
>>> from eval_toolkit import scorecard
>>> card = scorecard([0, 1] * 10, [0.2, 0.7] * 10, metrics=[op_f1(0.5), op_recall(0.5)])
>>> card["op_f1_at_0.5"].value, card["op_f1_at_0.5"].details["threshold_source"]
(1.0, 'fixed')
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.column_statistics import CallableStatistic, Statistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.statistics import AtThreshold, CountsFn
from eval_toolkit.metrics import confusion, confusion_counts
from eval_toolkit.protocols import ThresholdSelector
from eval_toolkit.thresholds.operating_points import FittedOperatingPoint

__all__ = [
    "OpSpec",
    "op_accuracy",
    "op_balanced_accuracy",
    "op_f1",
    "op_fnr",
    "op_fpr",
    "op_kappa",
    "op_mcc",
    "op_net_benefit",
    "op_precision",
    "op_recall",
    "op_specificity",
]


@dataclass(frozen=True)
class _Quantity:
    """Function of confusion counts, with its denominator if it is a proportion."""

    name: str
    function: CountsFn
    bounds: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    trials: str = "both"


_QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        _Quantity("f1", confusion.f1_of),
        _Quantity(
            "precision",
            confusion.precision_of,
            trials="predicted",
        ),
        _Quantity("recall", confusion.recall_of, trials="positive"),
        _Quantity(
            "specificity",
            confusion.specificity_of,
            trials="negative",
        ),
        _Quantity(
            "accuracy",
            confusion.accuracy_of,
            trials="all",
        ),
        _Quantity(
            "fpr",
            confusion.fpr_of,
            higher_is_better=False,
            trials="negative",
        ),
        _Quantity(
            "fnr",
            confusion.fnr_of,
            higher_is_better=False,
            trials="positive",
        ),
        _Quantity("balanced_accuracy", confusion.balanced_accuracy_of),
        _Quantity("mcc", confusion.mcc_of, (-1.0, 1.0)),
        _Quantity("kappa", confusion.kappa_of, (-1.0, 1.0)),
    )
}


@dataclass(frozen=True)
class _NetBenefit:
    """Net benefit as a function of confusion counts."""

    odds: float

    def __call__(self, tn: Any, fp: Any, fn: Any, tp: Any) -> Any:
        return confusion.net_benefit_of(tn, fp, fn, tp, self.odds)


@dataclass(frozen=True)
class OpSpec:
    """Metric at an operating point, as returned by the ``op_*`` functions."""

    name: str
    metric: str
    at: "float | ThresholdSelector | FittedOperatingPoint"
    ci_policy: str
    higher_is_better: bool = True
    _quantity: _Quantity | None = field(default=None, repr=False)

    def threshold_for(self, y_true: Any, y_score: Any) -> float:
        """Return the threshold, which is fixed, previously fitted, or selected on these rows."""
        if isinstance(self.at, FittedOperatingPoint):
            return float(self.at.threshold)
        if isinstance(self.at, ThresholdSelector):
            return float(self.at.select(y_true, y_score).threshold)
        return self.at

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Return the metric at the operating point, or raise `UndefinedMetricError`."""
        if self._quantity is None:  # net benefit uses the odds of the threshold
            validation.probability_pair(y_true, y_score)
        threshold = self.threshold_for(y_true, y_score)
        return self._at(threshold).of_counts(confusion_counts(y_true, y_score, threshold))

    def bind(self, data: Columns) -> tuple[Statistic, dict[str, Any]]:
        """Return the statistic for the data, and the source of its threshold."""
        if self._quantity is None:
            validation.probability_pair(data.labels, data.scores)
        threshold = self.threshold_for(data.labels, data.scores)
        details = self._provenance(threshold)
        if self.ci_policy == "refit":
            bounds = self._at(threshold).bounds
            return CallableStatistic(self.compute, bounds, label=self.name), details
        return self._at(threshold), details

    @property
    def statistic(self) -> Statistic:
        """Statistic; available if it does not depend on the data (fixed threshold or refitting)."""
        if self.ci_policy == "refit":
            return CallableStatistic(self.compute, label=self.name)
        if isinstance(self.at, ThresholdSelector):
            raise InvalidInputError(
                f"{self.name} selects a threshold for each scorer separately; compare scorers with "
                "ci_policy='refit' or `paired_bootstrap_op_point_diff`"
            )
        return self._at(self.threshold_for(None, None))

    def _at(self, threshold: float) -> AtThreshold:
        if self._quantity is None:
            if not 0.0 < threshold < 1.0:
                raise UndefinedMetricError(
                    f"{self.metric} is undefined at threshold {threshold:g}: the threshold must be a "
                    "probability strictly between 0 and 1"
                )
            odds = threshold / (1.0 - threshold)
            return AtThreshold(self.metric, threshold, _NetBenefit(odds), (-odds, 1.0))
        quantity = self._quantity
        return AtThreshold(
            self.metric, threshold, quantity.function, quantity.bounds, quantity.trials
        )

    def _provenance(self, threshold: float) -> dict[str, Any]:
        details: dict[str, Any] = {
            "threshold": threshold if math.isfinite(threshold) else None,
            "ci_policy": self.ci_policy,
        }
        if isinstance(self.at, FittedOperatingPoint):
            fitted = self.at
            return {
                **details,
                "threshold_source": "fitted",
                "criterion": fitted.criterion,
                "fitted_on_slice": fitted.fitted_on_slice,
                "n_fit": fitted.n_fit,
            }
        if isinstance(self.at, ThresholdSelector):
            return {
                **details,
                "threshold_source": "selected on the evaluated rows",
                "criterion": self.at.criterion,
            }
        return {**details, "threshold_source": "fixed"}


def _make(
    metric: str, at: "float | ThresholdSelector | FittedOperatingPoint", ci_policy: str | None
) -> OpSpec:
    """Validate the operating point and the interval policy, and build a named spec."""
    selects = isinstance(at, ThresholdSelector) and not isinstance(at, type)
    if isinstance(at, FittedOperatingPoint):
        label = f"{at.criterion}_fitted" + (
            f"_on_{at.fitted_on_slice}" if at.fitted_on_slice else ""
        )
    elif selects:
        label = at.criterion  # type: ignore[union-attr]
    elif isinstance(at, (int, float, np.number)) and not isinstance(at, bool):
        at = float(at)
        if math.isnan(at):
            raise InvalidInputError("`at` is nan; a threshold must be a number")
        label = np.format_float_positional(at, trim="-")
    else:
        raise InvalidTypeError(
            f"`at` must be a threshold, a ThresholdSelector or a FittedOperatingPoint, got {at!r}"
        )
    if ci_policy is None and selects:
        raise InvalidInputError(
            "`ci_policy` is required for a selector: 'fixed' keeps the selected threshold while "
            "rows are resampled, 'refit' selects again on every resample"
        )
    policy = validation.choice(ci_policy or "fixed", "ci_policy", ("fixed", "refit"))
    if policy == "refit" and not selects:
        raise InvalidInputError(
            "`ci_policy='refit'` requires a selector, but `at` is a fixed threshold"
        )
    name = f"op_{metric}_at_{label}" + ("_refit" if policy == "refit" else "")
    quantity = _QUANTITIES.get(metric)
    higher = True if quantity is None else quantity.higher_is_better
    return OpSpec(name, metric, at, policy, higher, quantity)


def op_f1(
    at: "float | ThresholdSelector | FittedOperatingPoint", *, ci_policy: str | None = None
) -> OpSpec:
    """F1 at an operating point, as a metric spec.

    Parameters
    ----------
    at : float, ThresholdSelector or FittedOperatingPoint
        Threshold (scores at or above it are positive), selector to run on the evaluated rows, or
        operating point fitted on other rows.
    ci_policy : {"fixed", "refit"}, optional
        Interval policy, described in the module docstring; required for a selector, otherwise
        "fixed".

    Returns
    -------
    OpSpec
        Spec for `scorecard` and `bootstrap_ci`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the operating point or the policy is invalid.

    Examples
    --------
    >>> op_f1(0.5).name
    'op_f1_at_0.5'
    """
    return _make("f1", at, ci_policy)


def _factory(metric: str, summary: str) -> Callable[..., OpSpec]:
    """Return a factory like `op_f1` for another metric."""

    def op(
        at: "float | ThresholdSelector | FittedOperatingPoint", *, ci_policy: str | None = None
    ) -> OpSpec:
        return _make(metric, at, ci_policy)

    op.__name__ = op.__qualname__ = f"op_{metric}"
    op.__doc__ = (op_f1.__doc__ or "").replace("F1", summary, 1).replace("op_f1", op.__name__)
    return op


op_precision = _factory("precision", "Precision")
op_recall = _factory("recall", "Recall")
op_specificity = _factory("specificity", "Specificity")
op_accuracy = _factory("accuracy", "Accuracy")
op_balanced_accuracy = _factory("balanced_accuracy", "Balanced accuracy")
op_mcc = _factory("mcc", "Matthews correlation")
op_kappa = _factory("kappa", "Cohen's kappa")
op_fpr = _factory("fpr", "False-positive rate")
op_fnr = _factory("fnr", "False-negative rate")


def op_net_benefit(
    at: "float | ThresholdSelector | FittedOperatingPoint", *, ci_policy: str | None = None
) -> OpSpec:
    """Return a spec for the net benefit (Vickers & Elkin 2006); arguments as in `op_f1`.

    Examples
    --------
    >>> op_net_benefit(0.2).compute([0, 1], [0.1, 0.9])
    0.5
    """
    spec = _make("net_benefit", at, ci_policy)
    if isinstance(spec.at, float):
        validation.fraction(spec.at, "at")
    return spec
