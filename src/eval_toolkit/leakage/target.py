"""Target leakage: individual columns that predict the label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from eval_toolkit._internal import frames, validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, MissingColumnError, UndefinedMetricError
from eval_toolkit.inference import clopper_pearson_interval, delong_ci
from eval_toolkit.leakage._parts import (
    BuiltInCheck,
    checked_severity,
    chosen_splits,
    count,
    names_tuple,
    nothing_found,
)
from eval_toolkit.leakage.findings import LeakageFinding, Severity
from eval_toolkit.slices import EvalSlice

_MAX_CATEGORIES = 50
"""Maximum number of distinct values of numeric columns that are also tested as categorical."""


@dataclass(frozen=True, slots=True)
class TargetLeakageCheck(BuiltInCheck):
    """LK010: a single column predicts the label implausibly well.

    Parameters
    ----------
    columns : sequence of str, optional
        Columns to check; by default all except the label, and except row id and group unless they
        are features.
    target_splits : sequence of str, optional
        Splits to check, pooled; all by default.
    severity : {"error", "warning", "info"}, default "error"
        Severity of the finding.
    bound : float, default 0.95
        Columns are flagged if the lower confidence bound exceeds this value.
    confidence : float, default 0.95
        Confidence level of the intervals.

    Notes
    -----
    Numeric columns are assessed by ROC AUC in either direction, with DeLong's interval. Categories
    (and missingness) are assessed by predicting a row's label from the other rows in its category,
    so that unique ids predict nothing; the measure is the smaller recall of the two classes, with a
    Clopper-Pearson interval. Small samples are not flagged: perfect prediction of 30 rows per class
    has a lower bound of 0.88. Columns whose estimate, but not lower bound, exceeds ``bound`` are
    listed under ``evidence["suspects"]``. The remedy is to remove the column, so no rows are
    reported (``drop_indices`` is None).

    Examples
    --------
    >>> y = [0, 1] * 100
    >>> columns = {"text": ["t"] * 200, "label": y, "refund": [10.0 * label for label in y]}
    >>> finding = TargetLeakageCheck().validate({"train": EvalSlice("train", columns)})
    >>> finding.message
    '1 column predicts the label on its own: refund (auc 1.000, at least 0.964)'
    """

    columns: Sequence[str] | None = None
    target_splits: Sequence[str] | None = None
    severity: Severity = "error"
    bound: float = field(default=0.95, kw_only=True)
    confidence: float = field(default=0.95, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", names_tuple(self.columns, "columns"))
        object.__setattr__(self, "target_splits", names_tuple(self.target_splits, "target_splits"))
        object.__setattr__(self, "bound", validation.fraction(self.bound, "bound"))
        object.__setattr__(self, "confidence", validation.fraction(self.confidence, "confidence"))
        checked_severity(self.severity, "severity")

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the columns that predict the label, with their intervals, as evidence."""
        parts = {
            name: part
            for name, part in chosen_splits(splits, self.target_splits, self.name).items()
            if part.n
        }
        evidence: dict[str, Any] = {"bound": self.bound, "confidence": self.confidence}
        if not parts:
            return nothing_found(self, self.severity, evidence, "no rows to check")
        labels = np.concatenate([part.y_true for part in parts.values()]) == 1
        if labels.all() or not labels.any():
            return nothing_found(self, self.severity, evidence, "not checked: one class only")
        judged = {
            column: best
            for column in self._candidates(parts)
            if (best := self._judged(_pooled(parts, column), labels)) is not None
        }
        leaking = {column: best for column, best in judged.items() if best["low"] > self.bound}
        evidence |= {
            "n_columns": len(judged),
            "columns": leaking,
            "suspects": {
                column: best
                for column, best in judged.items()
                if best["estimate"] > self.bound >= best["low"]
            },
        }
        if not leaking:
            message = (
                f"no single column predicts the label ({count(len(judged), 'column')} checked)"
            )
            return nothing_found(self, self.severity, evidence, message)
        named = ", ".join(
            f"{column} ({best['measure']} {best['estimate']:.3f}, at least {best['low']:.3f})"
            for column, best in leaking.items()
        )
        verb = "predicts" if len(leaking) == 1 else "predict"
        message = f"{count(len(leaking), 'column')} {verb} the label on its own: {named}"
        return self.finding(self.severity, None, evidence, message, len(leaking))

    def _candidates(self, parts: Mapping[str, EvalSlice]) -> list[str]:
        if self.columns is not None:
            for split, part in parts.items():
                have = frames.names(part.df)
                for column in self.columns:
                    if column not in have:
                        raise MissingColumnError(
                            f"{self.name}: split {split!r}: there is no column {column!r}; "
                            f"the columns are {', '.join(map(repr, have))}"
                        )
                    if column == part.label_col:
                        raise InvalidInputError(
                            f"`columns` contains {column!r}, the label column of split {split!r}; remove it"
                        )
            return list(self.columns)
        skip: set[str | None] = set()
        for part in parts.values():
            features = [part.feature_col] if isinstance(part.feature_col, str) else part.feature_col
            # Ids and groups are not seen by the scorer.
            skip |= {part.label_col} | ({part.id_col, part.group_col} - set(features))
        first, *rest = (frames.names(part.df) for part in parts.values())
        return [name for name in first if name not in skip and all(name in names for names in rest)]

    def _judged(self, values: list[Any], labels: BoolArray) -> dict[str, Any] | None:
        """Return a column's best predictive measure; None if undefined."""
        missing = np.array([validation.is_missing(value) for value in values], dtype=bool)
        known = [value for value, gone in zip(values, missing.tolist(), strict=True) if not gone]
        known_labels = labels[~missing]
        ways = []
        if known and len(known) < len(values):
            ways.append(("missing", len(values), self._purity(missing.tolist(), labels)))
        numbers = _as_numbers(known)
        if numbers is not None:
            ways.append(("auc", len(known), self._auc(numbers, known_labels)))
        if numbers is None or len(np.unique(numbers)) <= _MAX_CATEGORIES:
            ways.append(("purity", len(known), self._purity(known, known_labels)))
        found: list[dict[str, Any]] = [
            {"measure": measure, "estimate": judged[0], "low": judged[1], "n": n}
            for measure, n, judged in ways
            if judged is not None
        ]
        return max(found, key=itemgetter("low"), default=None)

    def _auc(self, numbers: FloatArray, labels: BoolArray) -> tuple[float, float] | None:
        ranks = np.unique(numbers, return_inverse=True)[1]  # infinities can be ranked too
        try:
            ci = delong_ci(labels, ranks, confidence=self.confidence)
        except UndefinedMetricError:
            return None
        if ci.point_estimate >= 0.5:
            return ci.point_estimate, ci.ci_low
        return 1.0 - ci.point_estimate, 1.0 - ci.ci_high

    def _purity(self, values: list[Any], labels: BoolArray) -> tuple[float, float] | None:
        """Return the smaller recall of predictions from categories, and its lower bound."""
        counts: dict[Any, list[int]] = {}
        try:
            for value, label in zip(values, labels.tolist(), strict=True):
                counts.setdefault(value, [0, 0])[label] += 1
        except TypeError:  # unhashable values such as lists
            return None
        judged = []
        for label in (0, 1):
            total = sum(own[label] for own in counts.values())
            if not total:
                return None
            # Leave the row itself out: the majority label of the other rows in its category counts.
            hits = sum(own[label] for own in counts.values() if own[label] - 1 > own[1 - label])
            low = clopper_pearson_interval(hits, total, confidence=self.confidence).low
            judged.append((hits / total, low or 0.0))
        return min(judged)


def _pooled(parts: Mapping[str, EvalSlice], column: str) -> list[Any]:
    """Return the pooled column as plain values, with times converted to numbers."""
    values: list[Any] = []
    for part in parts.values():
        array = frames.column(part.df, column)
        if array.dtype.kind == "M":
            times = array.astype("datetime64[us]").astype(np.float64)
            array = np.where(np.isnat(array), np.nan, times)
        values += array.tolist()
    return values


def _as_numbers(values: list[Any]) -> FloatArray | None:
    """Return the values as numbers, or None if they are not numeric."""
    if not values:
        return None
    try:
        return np.array([validation.as_float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        return None
