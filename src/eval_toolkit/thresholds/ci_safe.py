"""Selection of thresholds whose confidence bounds stay within given limits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference.bootstrap import bootstrap_ci
from eval_toolkit.inference.results import DEFAULT_METHOD
from eval_toolkit.inference.statistics import AtThreshold
from eval_toolkit.metrics import ThresholdResult, confusion
from eval_toolkit.metrics.cumulative import ScoreGroups
from eval_toolkit.metrics.wilson import wilson_bounds
from eval_toolkit.seeds import SeedLike, resolve_seed
from eval_toolkit.thresholds._curve import (
    f1_scores,
    most_recall,
    precisions,
    result_at,
    thresholds_of,
)

_LIMITS = {
    "max_fpr": "fpr_exceeds_max",
    "max_fpr_ci_upper": "fpr_ci_upper_exceeds_max",
    "min_recall": "recall_below_min",
    "min_recall_ci_lower": "recall_ci_lower_below_min",
}
"""Limits, and the rejection reason for candidates that violate them."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """All distinct scores, with their rates, Wilson bounds and violated limits."""

    groups: ScoreGroups
    fpr: FloatArray
    fpr_bounds: tuple[FloatArray, FloatArray]
    recall: FloatArray
    recall_bounds: tuple[FloatArray, FloatArray]
    broken: dict[str, BoolArray]
    """Candidates that violate a limit, by rejection reason."""

    @property
    def accepted(self) -> BoolArray:
        rejected = np.zeros(len(self.fpr), dtype=np.bool_)
        for breaks in self.broken.values():
            rejected |= breaks
        return ~rejected

    def records(self, rows: Iterable[int], confidence: float) -> Iterator[dict[str, Any]]:
        """Yield a JSON-serialisable dict for each candidate in ``rows``."""
        groups, accepted = self.groups, self.accepted
        columns: dict[str, FloatArray] = {
            "threshold": groups.thresholds,
            "fpr": self.fpr,
            "recall": self.recall,
            "precision": precisions(groups),
            "f1": f1_scores(groups),
            "fpr_ci_low": self.fpr_bounds[0],
            "fpr_ci_high": self.fpr_bounds[1],
            "recall_ci_low": self.recall_bounds[0],
            "recall_ci_high": self.recall_bounds[1],
        }
        for row in rows:
            tp, fp = groups.tp[row], groups.fp[row]
            yield {name: float(values[row]) for name, values in columns.items()} | {
                "tp": int(tp),
                "fp": int(fp),
                "tn": int(groups.n_negative - fp),
                "fn": int(groups.n_positive - tp),
                "confidence": confidence,
                "accepted": bool(accepted[row]),
                "rejection_reasons": [why for why, hit in self.broken.items() if hit[row]],
            }


@dataclass(frozen=True, slots=True)
class CISafeThresholdSelector:
    """Select the threshold with the largest recall, subject to limits on rates and Wilson bounds.

    Attributes
    ----------
    max_fpr, max_fpr_ci_upper : float in [0, 1], optional
        Maximum false-positive rate, and maximum upper end of its interval.
    min_recall, min_recall_ci_lower : float in [0, 1], optional
        Minimum recall, and minimum lower end of its interval.
    confidence : float, default 0.95
        Two-sided confidence level of the Wilson intervals.
    criterion : str, default "ci_safe"
        Name of the selector; must be unique.
    metadata : mapping
        Additional information, stored with the selected operating point.

    Raises
    ------
    InvalidInputError
        If no limit is given, or a limit is outside [0, 1].

    Notes
    -----
    The bounds are valid for a threshold fixed in advance. Because the threshold is selected on the
    same rows, validate it on other rows before relying on the limits.

    Examples
    --------
    >>> selector = CISafeThresholdSelector(max_fpr=0.5, min_recall_ci_lower=0.1)
    >>> selector.select([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).threshold
    0.35
    """

    max_fpr: float | None = None
    max_fpr_ci_upper: float | None = None
    min_recall: float | None = None
    min_recall_ci_lower: float | None = None
    confidence: float = 0.95
    criterion: str = "ci_safe"
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.constraints:
            raise InvalidInputError(f"pass at least one limit: {', '.join(_LIMITS)}")
        for name, value in self.constraints.items():
            validation.number(value, name, low=0.0, high=1.0)
        validation.fraction(self.confidence, "confidence")
        object.__setattr__(self, "metadata", dict(self.metadata))

    @property
    def constraints(self) -> dict[str, float]:
        """The specified limits, by name."""
        given = {name: getattr(self, name) for name in _LIMITS}
        return {name: value for name, value in given.items() if value is not None}

    def _candidates(self, y_true: ArrayLike, y_score: ArrayLike) -> _Candidates:
        groups = thresholds_of(y_true, y_score, self.criterion)
        fpr, recall = groups.fp / groups.n_negative, groups.tp / groups.n_positive
        fpr_bounds = wilson_bounds(groups.fp, groups.n_negative, self.confidence)
        recall_bounds = wilson_bounds(groups.tp, groups.n_positive, self.confidence)
        watched = dict(zip(_LIMITS, (fpr, fpr_bounds[1], recall, recall_bounds[0]), strict=True))
        broken = {
            _LIMITS[name]: watched[name] > limit if "max" in name else watched[name] < limit
            for name, limit in self.constraints.items()
        }
        return _Candidates(groups, fpr, fpr_bounds, recall, recall_bounds, broken)

    def _best(self, candidates: _Candidates) -> int:
        feasible = np.flatnonzero(candidates.accepted)
        if len(feasible) == 0:
            limits = ", ".join(f"{name}={value}" for name, value in self.constraints.items())
            counts = ", ".join(f"{why}: {hit.sum()}" for why, hit in candidates.broken.items())
            raise InfeasibleError(
                f"none of {len(candidates.fpr)} thresholds meets {limits} ({counts})"
            )
        return most_recall(candidates.groups, feasible)

    def select(self, y_true: ArrayLike, y_score: ArrayLike) -> ThresholdResult:
        """Return the accepted threshold with the largest recall; ties go to the smallest FPR.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.
        UndefinedMetricError
            If only one class is present.
        InfeasibleError
            If no threshold meets all limits; the message counts the violations.
        """
        candidates = self._candidates(y_true, y_score)
        return result_at(candidates.groups, self._best(candidates), self.criterion)

    def candidate_records(self, y_true: ArrayLike, y_score: ArrayLike) -> list[dict[str, Any]]:
        """Return rates, bounds and rejection reasons at every distinct score, highest first.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels, 0 or 1; both must occur.
        y_score : array-like of shape (n,)
            Scores; higher means more positive.

        Returns
        -------
        list of dict
            ``threshold, fpr, recall, precision, f1, fpr_ci_low, fpr_ci_high, recall_ci_low,
            recall_ci_high, tp, fp, tn, fn, confidence, accepted, rejection_reasons``.
        """
        candidates = self._candidates(y_true, y_score)
        return list(candidates.records(range(len(candidates.fpr)), self.confidence))

    def selected_operating_point(
        self,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        bootstrap_selected: bool = False,
        n_resamples: int = 1000,
        seed: SeedLike = None,
        rng: SeedLike = None,
    ) -> dict[str, Any]:
        """Return the record of the selected threshold, including the selection policy.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels, 0 or 1; both must occur.
        y_score : array-like of shape (n,)
            Scores; higher means more positive.
        bootstrap_selected : bool, default False
            Whether to add bootstrap intervals for recall and FPR, with the selected threshold held
            fixed.
        n_resamples : int, default 1000
            Number of bootstrap resamples.
        seed, rng : int or other seed, default 42
            Random seed or generator; pass only one of the two.

        Returns
        -------
        dict
            A candidate record with the additional keys ``criterion``, ``constraints`` and
            ``metadata``; with ``bootstrap_selected`` also ``bootstrap``, which contains the
            intervals for ``recall`` and ``fpr`` as dicts.

        Raises
        ------
        InfeasibleError
            If no threshold meets all limits.
        """
        candidates = self._candidates(y_true, y_score)
        best = self._best(candidates)
        point = next(candidates.records([best], self.confidence)) | {
            "criterion": self.criterion,
            "constraints": self.constraints,
            "metadata": dict(self.metadata),
        }
        if bootstrap_selected:
            point["bootstrap"] = _bootstrap_rates(
                y_true,
                y_score,
                float(candidates.groups.thresholds[best]),
                n_resamples=n_resamples,
                confidence=self.confidence,
                seed=resolve_seed(seed, rng),
            )
        return point


def _bootstrap_rates(
    y_true: ArrayLike, y_score: ArrayLike, threshold: float, **options: Any
) -> dict[str, Any]:
    rates = (
        AtThreshold("recall", threshold, confusion.recall_of, trials="positive"),
        AtThreshold("fpr", threshold, confusion.fpr_of, trials="negative"),
    )
    return {
        rate.name: bootstrap_ci(y_true, y_score, rate, method=DEFAULT_METHOD, **options).to_dict()
        for rate in rates
    }
