"""Threshold selection, and metadata about the selection policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.metrics import ThresholdResult
from eval_toolkit.protocols import ThresholdSelector

_OLD_NAMES = {
    "max_f1": "MaxF1Selector()",
    "recall_0.90": "TargetRecallSelector(recall=0.90)",
    "precision_0.90": "TargetPrecisionSelector(precision=0.90)",
    "fpr_0.05": "TargetFPRSelector(fpr=0.05)",
    "youden_j": "YoudenJSelector()",
    "cost_sensitive": "CostSensitiveSelector(CostMatrix(...))",
    "ci_safe": "CISafeThresholdSelector(max_fpr=...)",
}


def select_threshold(
    y_true: ArrayLike, y_score: ArrayLike, criterion: ThresholdSelector
) -> ThresholdResult:
    """Select a threshold from labelled scores with a selector object.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels, 0 or 1.
    y_score : array-like of shape (n,)
        Scores; higher means more positive.
    criterion : ThresholdSelector
        Selector of this package, or any object with a ``criterion`` and a ``select`` method.

    Returns
    -------
    ThresholdResult
        The threshold with its F1, precision and recall.

    Raises
    ------
    InvalidTypeError
        If ``criterion`` is not a selector, e.g. a string.
    InfeasibleError
        If the selector finds no feasible threshold.

    Examples
    --------
    >>> from eval_toolkit.thresholds import TargetRecallSelector
    >>> select_threshold([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], TargetRecallSelector(0.5)).threshold
    0.8
    """
    if isinstance(criterion, type) or not isinstance(criterion, ThresholdSelector):
        mapping = "; ".join(f"{old!r} -> {new}" for old, new in _OLD_NAMES.items())
        raise InvalidTypeError(
            f"`criterion` must be a selector object, got {criterion!r}; pass an object instead of "
            f"a name: {mapping}"
        )
    return criterion.select(y_true, y_score)


@dataclass(frozen=True, slots=True, repr=False)
class ThresholdPolicyMetadata(Displayed):
    """Origin of a threshold: slice, scores and selection rule.

    Attributes
    ----------
    calibration_slice : str
        Slice on which the threshold was selected.
    score_column : str
        Column of the scores.
    selector : str
        The ``criterion`` of the selector.
    constraints : mapping
        Constraints of the selection; empty if there are none.
    claim_enabled : bool, default False
        Whether the threshold may be used in claims.
    notes : str
        Additional notes.

    Raises
    ------
    InvalidInputError
        If the slice, the column or the selector is empty.

    Examples
    --------
    >>> policy = ThresholdPolicyMetadata("val", "score", "fpr_0.01", {"fpr": 0.01})
    >>> policy.to_dict()["claim_enabled"]
    False
    """

    calibration_slice: str
    score_column: str
    selector: str
    constraints: Mapping[str, Any]
    claim_enabled: bool = False
    notes: str = ""

    def __post_init__(self) -> None:
        for name in ("calibration_slice", "score_column", "selector"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InvalidInputError(f"`{name}` is {value!r}; it must be a non-empty string")
        object.__setattr__(self, "constraints", dict(self.constraints))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "calibration_slice": self.calibration_slice,
            "score_column": self.score_column,
            "selector": self.selector,
            "constraints": dict(self.constraints),
            "claim_enabled": self.claim_enabled,
            "notes": self.notes,
        }
