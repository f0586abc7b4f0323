"""Label conflicts: equal rows with different labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, IntArray
from eval_toolkit.leakage._parts import (
    EVIDENCE_CAP,
    SCOPES,
    BuiltInCheck,
    EqualRows,
    Scope,
    checked_severity,
    chosen_splits,
    count,
    equal_rows,
    names_tuple,
    nothing_found,
)
from eval_toolkit.leakage.duplicates import exact_keys
from eval_toolkit.leakage.findings import LeakageFinding, Severity
from eval_toolkit.slices import EvalSlice


@dataclass(frozen=True, slots=True)
class LabelConflictCheck(BuiltInCheck):
    """LK005: rows that are duplicates (see `ExactDuplicateCheck`) but have different labels.

    Parameters
    ----------
    target_splits : sequence of str, optional
        Splits to check; all by default.
    severity : {"error", "warning", "info"}, default "error"
        Severity of the finding.
    scope : {"both", "within", "across"}, default "both"
        Whether to look for conflicts within splits, across splits, or both.

    Notes
    -----
    All conflicting rows are dropped, because the correct label is unknown.

    Examples
    --------
    >>> train = EvalSlice("train", {"text": ["call me", "win"], "label": [0, 1]})
    >>> test = EvalSlice("test", {"text": ["Call me", "win"], "label": [1, 1]})
    >>> finding = LabelConflictCheck().validate({"train": train, "test": test})
    >>> finding.drop_indices, finding.message
    ({'train': [0], 'test': [0]}, '1 text with both labels (2 rows)')
    """

    target_splits: Sequence[str] | None = None
    severity: Severity = "error"
    scope: Scope = field(default="both", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "target_splits", names_tuple(self.target_splits, "target_splits"))
        checked_severity(self.severity, "severity")
        validation.choice(self.scope, "scope", SCOPES)

    def validate(self, splits: Mapping[str, EvalSlice]) -> LeakageFinding:
        """Return the conflicts; ``evidence["conflicts"]`` lists the first rows and labels."""
        parts = chosen_splits(splits, self.target_splits, self.name)
        rows = equal_rows({split: exact_keys(split, part) for split, part in parts.items()})
        labels = np.concatenate([np.zeros(0, np.int64), *(part.y_true for part in parts.values())])
        codes = rows.code_within() if self.scope == "within" else rows.code
        mixed = _has(codes, labels == 0) & _has(codes, labels == 1)
        if self.scope == "across":
            # With two labels and two splits, some rows of different splits disagree.
            mixed &= np.add.reduce([_has(codes, rows.owner == k) for k in range(len(parts))]) > 1
        at = np.flatnonzero(mixed[codes])
        n_conflicts = int(mixed.sum())
        evidence: dict[str, Any] = {
            "scope": self.scope,
            "n_conflicts": n_conflicts,
            "conflicts": _listed(rows, labels, codes, at),
            "listed_at_most": EVIDENCE_CAP,
        }
        if not n_conflicts:
            return nothing_found(self, self.severity, evidence, "no text has both labels")
        message = f"{count(n_conflicts, 'text')} with both labels ({count(len(at), 'row')})"
        return self.finding(self.severity, rows.rows_by_split(at), evidence, message, len(at))


def _has(codes: IntArray, chosen: BoolArray) -> BoolArray:
    """Return, for each code, whether a selected row has it."""
    has = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.bool_)
    has[codes[chosen]] = True
    return has


def _listed(
    rows: EqualRows, labels: IntArray, codes: IntArray, at: IntArray
) -> list[dict[str, Any]]:
    """Return the rows and labels of the first conflicts, ordered by their first row."""
    conflicts: dict[int, dict[str, list[Any]]] = {}
    for position in at.tolist():
        code = int(codes[position])
        if code not in conflicts and len(conflicts) == EVIDENCE_CAP:
            continue
        conflict = conflicts.setdefault(code, {"rows": [], "labels": []})
        if len(conflict["rows"]) < EVIDENCE_CAP:
            split = rows.splits[int(rows.owner[position])]
            conflict["rows"].append({"split": split, "row": int(rows.row[position])})
            conflict["labels"].append(int(labels[position]))
    return list(conflicts.values())
