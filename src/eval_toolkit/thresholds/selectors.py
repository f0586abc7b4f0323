"""Threshold selectors for labelled scores.

Every distinct score is a candidate, so the selected threshold is optimal by the selector's
criterion. Both classes must be present. A row is predicted positive if its score is at least the
threshold.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit.calibration import CostMatrix
from eval_toolkit.errors import InfeasibleError, InvalidTypeError
from eval_toolkit.metrics import ThresholdResult, metrics_at_threshold
from eval_toolkit.thresholds._curve import (
    f1_scores,
    most_recall,
    number_label,
    precisions,
    result_at,
    thresholds_of,
)


@dataclass(frozen=True, slots=True)
class MaxF1Selector:
    """Select the threshold with the highest F1 (the lowest in case of ties).

    Examples
    --------
    >>> MaxF1Selector().select([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).threshold
    0.35
    """

    criterion: str = "max_f1"

    def select(self, y_true: ArrayLike, y_score: ArrayLike) -> ThresholdResult:
        """Return the selected threshold and its metrics.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.
        UndefinedMetricError
            If only one class is present.
        """
        groups = thresholds_of(y_true, y_score, self.criterion)
        f1 = f1_scores(groups)
        # Thresholds descend, so the last maximum is the lowest threshold.
        return result_at(groups, len(f1) - 1 - int(np.argmax(f1[::-1])), self.criterion)


@dataclass(frozen=True, slots=True)
class TargetRecallSelector:
    """Select the highest threshold with at least a target recall.

    Such a threshold always exists; the highest one has the lowest false-positive rate.

    Examples
    --------
    >>> selector = TargetRecallSelector(0.9)
    >>> selector.criterion
    'recall_0.90'
    >>> selector.select([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).threshold
    0.35
    """

    recall: float
    """Target value in (0, 1]."""

    def __post_init__(self) -> None:
        validation.number(self.recall, "recall", low=0.0, high=1.0, include_low=False)

    @property
    def criterion(self) -> str:
        """Name of the criterion: ``recall_`` and the target, with at least two decimals."""
        return f"recall_{number_label(self.recall)}"

    def select(self, y_true: ArrayLike, y_score: ArrayLike) -> ThresholdResult:
        """Return the selected threshold and its metrics.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.
        UndefinedMetricError
            If only one class is present.
        """
        groups = thresholds_of(y_true, y_score, self.criterion)
        reached = groups.tp / groups.n_positive >= self.recall
        return result_at(groups, int(np.argmax(reached)), self.criterion)


@dataclass(frozen=True, slots=True)
class TargetPrecisionSelector:
    """Select the threshold with the largest recall at or above a target precision.

    Ties in recall are broken by the lowest false-positive rate, which gives the highest precision
    and the highest threshold. Precision is not monotone in the threshold, so every distinct score
    is considered.

    Examples
    --------
    >>> selector = TargetPrecisionSelector(0.6)
    >>> selector.criterion
    'precision_0.60'
    >>> selector.select([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).threshold
    0.35
    """

    precision: float
    """Target value in (0, 1]."""

    def __post_init__(self) -> None:
        validation.number(self.precision, "precision", low=0.0, high=1.0, include_low=False)

    @property
    def criterion(self) -> str:
        """Name of the criterion: ``precision_`` and the target, with at least two decimals."""
        return f"precision_{number_label(self.precision)}"

    def select(self, y_true: ArrayLike, y_score: ArrayLike) -> ThresholdResult:
        """Return the selected threshold and its metrics.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.
        UndefinedMetricError
            If only one class is present.
        InfeasibleError
            If no threshold reaches the precision; the message states the highest precision.
        """
        groups = thresholds_of(y_true, y_score, self.criterion)
        precision = precisions(groups)
        reached = np.flatnonzero(precision >= self.precision)
        if len(reached) == 0:
            best = int(np.argmax(precision))
            raise InfeasibleError(
                f"no threshold reaches precision {self.precision}; the highest is "
                f"{precision[best]:.6g}, at threshold {groups.thresholds[best]:.6g}"
            )
        return result_at(groups, most_recall(groups, reached), self.criterion)


@dataclass(frozen=True, slots=True)
class TargetFPRSelector:
    """Select the threshold with the largest recall at or below a false-positive rate.

    Ties in recall are broken by the lowest false-positive rate, i.e. the highest threshold.

    Examples
    --------
    >>> selector = TargetFPRSelector(0.5)
    >>> selector.criterion
    'fpr_0.50'
    >>> selector.select([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).threshold
    0.35
    """

    fpr: float
    """Maximum false-positive rate, in [0, 1]."""

    def __post_init__(self) -> None:
        validation.number(self.fpr, "fpr", low=0.0, high=1.0)

    @property
    def criterion(self) -> str:
        """Name of the criterion: ``fpr_`` and the limit, with at least two decimals."""
        return f"fpr_{number_label(self.fpr)}"

    def select(self, y_true: ArrayLike, y_score: ArrayLike) -> ThresholdResult:
        """Return the selected threshold and its metrics.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.
        UndefinedMetricError
            If only one class is present.
        InfeasibleError
            If even the highest threshold exceeds the limit.
        """
        groups = thresholds_of(y_true, y_score, self.criterion)
        within = np.flatnonzero(groups.fp / groups.n_negative <= self.fpr)
        if len(within) == 0:
            raise InfeasibleError(
                f"no threshold keeps the false positive rate within {self.fpr}: the highest "
                f"score, {groups.thresholds[0]:.6g}, is shared by {groups.fp[0]:.0f} of "
                f"{groups.n_negative:.0f} negatives"
            )
        return result_at(groups, most_recall(groups, within), self.criterion)


@dataclass(frozen=True, slots=True)
class YoudenJSelector:
    """Select the threshold with the largest TPR − FPR (the highest in case of ties).

    Examples
    --------
    >>> YoudenJSelector().select([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).threshold
    0.8
    """

    criterion: str = "youden_j"

    def select(self, y_true: ArrayLike, y_score: ArrayLike) -> ThresholdResult:
        """Return the selected threshold and its metrics.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.
        UndefinedMetricError
            If only one class is present.
        """
        groups = thresholds_of(y_true, y_score, self.criterion)
        # J scaled by both class sizes: integers, so that ties are exact.
        scaled_j = groups.tp * groups.n_negative - groups.fp * groups.n_positive
        return result_at(groups, int(np.argmax(scaled_j)), self.criterion)


@dataclass(frozen=True, slots=True)
class CostSensitiveSelector:
    """Select the Bayes threshold for a cost matrix, independent of the data.

    Examples
    --------
    >>> selector = CostSensitiveSelector(CostMatrix(prior=0.5, fp_cost=1.0, fn_cost=1.0))
    >>> selector.criterion
    'cost_sensitive_prior=0.5_fp=1.0_fn=1.0'
    >>> selector.select([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).threshold
    0.5
    """

    cost_matrix: CostMatrix

    def __post_init__(self) -> None:
        if not isinstance(self.cost_matrix, CostMatrix):
            raise InvalidTypeError(f"`cost_matrix` must be a CostMatrix, got {self.cost_matrix!r}")

    @property
    def criterion(self) -> str:
        """Name of the criterion: ``cost_sensitive`` and the numbers that define the threshold."""
        costs = self.cost_matrix
        label = (
            f"cost_sensitive_prior={float(costs.prior)}"
            f"_fp={float(costs.fp_cost)}_fn={float(costs.fn_cost)}"
        )
        if costs.score_prior != 0.5:
            label += f"_score_prior={float(costs.score_prior)}"
        return label

    def select(self, y_true: ArrayLike, y_score: ArrayLike) -> ThresholdResult:
        """Return the threshold of the cost matrix, with its metrics on the data.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.
        """
        threshold = self.cost_matrix.bayes_threshold
        observed = metrics_at_threshold(y_true, y_score, threshold)
        return ThresholdResult(
            threshold=threshold,
            f1=observed["f1"],
            precision=observed["precision"],
            recall=observed["recall"],
            criterion=self.criterion,
        )
