"""Findings and reports of leakage checks, and `run_leakage_checks`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.plain import plain
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.protocols import LeakageCheck

Severity: TypeAlias = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Severities in descending order."""

LEAKAGE_CODES: dict[str, str] = {
    "ExactDuplicateCheck": "LK001",
    "NearDuplicateCheck": "LK002",
    "NormalizedFormLeakageCheck": "LK003",
    "TokenizationLeakageCheck": "LK004",
    "LabelConflictCheck": "LK005",
    "CrossSplitLeakageCheck": "LK006",
    "GroupLeakageCheck": "LK007",
    "TemporalLeakageCheck": "LK008",
    "ConfusableFormLeakageCheck": "LK009",
    "TargetLeakageCheck": "LK010",
    "NgramContaminationCheck": "LK011",
}
"""Stable codes of the built-in checks, documented in ``docs/leakage/<code>.md``."""


@dataclass(frozen=True, slots=True, repr=False)
class LeakageFinding(Displayed):
    """Result of a leakage check.

    Parameters
    ----------
    check_name : str
        Name of the check.
    severity : {"error", "warning", "info"}
        Severity of the finding. Only errors stop a run.
    drop_indices : dict of str to list of int, or None
        Rows to drop, by split; ``{}`` if nothing was found, None if the finding is not about rows.
    evidence : dict
        Details of the finding.
    message : str
        One-line message.
    n_affected : int
        Number of affected rows (or columns); 0 if nothing was found.
    code : str
        Stable code of a built-in check, see `LEAKAGE_CODES`; empty for others.

    Raises
    ------
    InvalidInputError
        If the severity is unknown, or a row or count is not a non-negative integer.

    Examples
    --------
    >>> finding = LeakageFinding(
    ...     check_name="LengthCheck", severity="warning", drop_indices={"test": [3]},
    ...     evidence={}, message="1 row is too long", n_affected=1,
    ... )
    >>> print(finding)
    LengthCheck: 1 row is too long
    """

    check_name: str
    severity: Severity
    drop_indices: dict[str, list[int]] | None
    evidence: dict[str, Any]
    message: str
    n_affected: int
    code: str = ""

    def __post_init__(self) -> None:
        validation.choice(self.severity, "severity", SEVERITIES)
        n_affected = validation.integer(self.n_affected, "n_affected")
        object.__setattr__(self, "n_affected", n_affected)
        if self.drop_indices is not None:
            object.__setattr__(self, "drop_indices", _plain_rows(self.drop_indices))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "check_name": self.check_name,
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "n_affected": self.n_affected,
            "drop_indices": None if self.drop_indices is None else dict(self.drop_indices),
            "evidence": plain(self.evidence),
        }

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "LeakageFinding":
        """Build a finding from its dict; unknown keys are ignored."""
        needed = ("check_name", "severity", "message", "n_affected")
        missing = [key for key in needed if key not in payload]
        if missing:
            raise InvalidInputError(
                f"a finding needs the key {missing[0]!r}; it has {sorted(payload)}"
            )
        return cls(
            check_name=payload["check_name"],
            severity=payload["severity"],
            drop_indices=payload.get("drop_indices"),
            evidence=dict(payload.get("evidence") or {}),
            message=payload["message"],
            n_affected=payload["n_affected"],
            code=payload.get("code", ""),
        )

    def __str__(self) -> str:
        return f"{self.code} {self.check_name}: {self.message}".lstrip()


def _plain_rows(drop_indices: Mapping[str, Iterable[Any]]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for split, given in drop_indices.items():
        values = given.tolist() if isinstance(given, np.ndarray) else list(given)
        # Check types first, since built-in checks may return a million rows, all plain ints.
        if any(type(row) is not int or row < 0 for row in values):
            values = [validation.integer(row, f"drop_indices[{split!r}]") for row in values]
        rows[split] = values
    return rows


@dataclass(frozen=True, slots=True, repr=False)
class LeakageReport(Displayed):
    """Findings of several checks, in order.

    Examples
    --------
    >>> report = LeakageReport()
    >>> report.has_errors(), report.to_dict()
    (False, {'findings': []})
    """

    findings: list[LeakageFinding] = field(default_factory=list)

    def has_errors(self) -> bool:
        """Return whether any non-empty finding has severity "error"."""
        return bool(self.errors())

    def errors(self) -> list[LeakageFinding]:
        """Return the non-empty findings of severity "error"."""
        return self._affecting("error")

    def warnings(self) -> list[LeakageFinding]:
        """Return the non-empty findings of severity "warning"."""
        return self._affecting("warning")

    def _affecting(self, severity: Severity) -> list[LeakageFinding]:
        return [found for found in self.findings if found.severity == severity and found.n_affected]

    def merged_drop_indices(self) -> dict[str, list[int]]:
        """Return the rows to drop from all findings, by split, sorted and without duplicates."""
        merged: dict[str, set[int]] = {}
        for finding in self.findings:
            for split, rows in (finding.drop_indices or {}).items():
                merged.setdefault(split, set()).update(rows)
        return {split: sorted(rows) for split, rows in merged.items() if rows}

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {"findings": [finding.to_dict() for finding in self.findings]}

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> "LeakageReport":
        """Build a report from its dict.

        Examples
        --------
        >>> LeakageReport.from_dict({"findings": []}) == LeakageReport()
        True
        """
        if not isinstance(payload.get("findings"), Sequence):
            raise InvalidInputError(
                f"a leakage report needs a list under 'findings'; it has the keys {sorted(payload)}"
            )
        return cls([LeakageFinding.from_dict(finding) for finding in payload["findings"]])


def run_leakage_checks(checks: Iterable[LeakageCheck], splits: Mapping[str, Any]) -> LeakageReport:
    """Run leakage checks on the same splits.

    Parameters
    ----------
    checks : iterable of LeakageCheck
        Checks with ``name`` and ``validate(splits)``, built-in or custom.
    splits : mapping of str to EvalSlice
        Splits, e.g. one fold: ``{"train": …, "test": …}``.

    Returns
    -------
    LeakageReport
        One finding per check, in the order of the checks.

    Raises
    ------
    MissingColumnError
        If a check refers to a missing split or column (also a KeyError).
    InvalidTypeError
        If an object is not a check, or a check does not return a finding.

    Examples
    --------
    >>> from eval_toolkit.leakage import ExactDuplicateCheck
    >>> from eval_toolkit.slices import EvalSlice
    >>> train = EvalSlice("train", {"text": ["good", "bad"], "label": [0, 1]})
    >>> test = EvalSlice("test", {"text": ["GOOD ", "fine"], "label": [0, 0]})
    >>> report = run_leakage_checks([ExactDuplicateCheck()], {"train": train, "test": test})
    >>> report.merged_drop_indices(), report.has_errors()
    ({'test': [0]}, True)
    """
    if not isinstance(checks, Iterable):
        raise InvalidTypeError(
            f"`checks` is a {type(checks).__name__}; pass a list of checks, even for a single check"
        )
    if not isinstance(splits, Mapping):
        raise InvalidTypeError(
            f"`splits` is a {type(splits).__name__}; pass a dict of split name to EvalSlice"
        )
    findings = []
    for place, check in enumerate(checks):
        if isinstance(check, type) or not isinstance(check, LeakageCheck):
            what = f"the class {check.__name__}" if isinstance(check, type) else repr(check)
            raise InvalidTypeError(
                f"checks[{place}] is {what}; a check is an object with `name` and "
                "`validate(splits)`"
            )
        finding = check.validate(splits)
        if not isinstance(finding, LeakageFinding):
            raise InvalidTypeError(
                f"check {check.name!r} returned a {type(finding).__name__}; "
                "`validate` must return a LeakageFinding"
            )
        findings.append(finding)
    return LeakageReport(findings)
