"""Leakage policies: raise, record, skip or drop."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit.errors import InvalidInputError, LeakageError, MissingColumnError
from eval_toolkit.leakage._parts import chosen_splits
from eval_toolkit.leakage.findings import LeakageFinding, LeakageReport, run_leakage_checks
from eval_toolkit.protocols import LeakageCheck
from eval_toolkit.slices import EvalSlice

LeakagePolicy: TypeAlias = Literal["raise", "record", "skip", "drop"]
LEAKAGE_POLICIES: tuple[LeakagePolicy, ...] = get_args(LeakagePolicy)


@dataclass(frozen=True, slots=True, repr=False)
class CleanedSplits(Displayed):
    """Splits without flagged rows, with one report per round.

    Examples
    --------
    >>> from eval_toolkit.leakage import ExactDuplicateCheck
    >>> part = EvalSlice("all", {"text": ["a", "b", "A"], "label": [0, 1, 0]})
    >>> cleaned = drop_until_clean([ExactDuplicateCheck()], {"all": part})
    >>> cleaned.kept, cleaned.n_dropped, len(cleaned.reports)
    ({'all': [0, 1]}, 1, 2)
    """

    splits: dict[str, EvalSlice]
    kept: dict[str, list[int]]
    """Original row numbers of the kept rows, by split."""
    n_dropped: int
    reports: list[LeakageReport]
    """Reports of each round; the first is for the original data, the last for ``splits``."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, without the data."""
        return {
            "kept": self.kept,
            "n_dropped": self.n_dropped,
            "reports": [report.to_dict() for report in self.reports],
        }


def drop_leakage(splits: Mapping[str, EvalSlice], report: LeakageReport) -> dict[str, EvalSlice]:
    """Return the splits without the rows flagged by a report.

    Parameters
    ----------
    splits : mapping of str to EvalSlice
        Splits that were checked.
    report : LeakageReport
        Findings of any severity; findings that are not about rows have no effect.

    Returns
    -------
    dict of str to EvalSlice
        All splits, in the same order; splits without dropped rows are returned unchanged.

    Raises
    ------
    MissingColumnError
        If the report refers to a missing split (also a KeyError).
    InvalidInputError
        If the report refers to a nonexistent row.

    Examples
    --------
    >>> from eval_toolkit.leakage import ExactDuplicateCheck
    >>> part = EvalSlice("all", {"text": ["a", "b", "A"], "label": [0, 1, 0]})
    >>> report = run_leakage_checks([ExactDuplicateCheck()], {"all": part})
    >>> drop_leakage({"all": part}, report)["all"].features
    ['a', 'b']
    """
    kept = _kept_rows(splits, report)
    return {name: part.take(kept[name]) if name in kept else part for name, part in splits.items()}


def _kept_rows(splits: Mapping[str, EvalSlice], report: LeakageReport) -> dict[str, Any]:
    """Return the rows to keep, for each split with dropped rows."""
    kept = {}
    for name, rows in report.merged_drop_indices().items():
        if name not in splits:
            raise MissingColumnError(
                f"the report names the split {name!r}; the splits are "
                f"{', '.join(map(repr, splits)) or 'none'}"
            )
        n = splits[name].n
        if rows[-1] >= n:
            raise InvalidInputError(
                f"the report names row {rows[-1]} of split {name!r}, which has {n} rows; "
                "it belongs to other data"
            )
        kept[name] = np.delete(np.arange(n), rows)
    return kept


def apply_leakage_policy(
    report: LeakageReport, splits: Mapping[str, EvalSlice], policy: LeakagePolicy
) -> dict[str, EvalSlice]:
    """Apply a policy to a report: return the splits to use, or raise.

    Parameters
    ----------
    report : LeakageReport
        Findings on the splits.
    splits : mapping of str to EvalSlice
        Splits that were checked.
    policy : {"raise", "record", "skip", "drop"}
        "raise" raises for errors. "drop" drops all rows flagged by findings of any severity, and
        raises for errors that are not about rows (e.g. a leaking column). "record" and "skip"
        change nothing ("skip" is for callers that run no checks).

    Returns
    -------
    dict of str to EvalSlice
        The splits, without the dropped rows for "drop".

    Raises
    ------
    LeakageError
        For "raise" with errors, and for "drop" with errors that are not about rows (also a
        RuntimeError). The message lists the findings.
    InvalidInputError
        If the policy is unknown, or the report is for other data.

    Notes
    -----
    The report is applied once. Dropping rows can cause new findings, because TF-IDF weights depend
    on all texts; `drop_until_clean` repeats the checks until nothing is found.

    Examples
    --------
    >>> from eval_toolkit.leakage import LabelConflictCheck
    >>> part = EvalSlice("all", {"text": ["a", "b", "A"], "label": [0, 1, 1]})
    >>> report = run_leakage_checks([LabelConflictCheck()], {"all": part})
    >>> apply_leakage_policy(report, {"all": part}, "drop")["all"].features
    ['b']
    >>> apply_leakage_policy(report, {"all": part}, "raise")
    Traceback (most recent call last):
        ...
    eval_toolkit.errors.LeakageError: leakage found: LK005 LabelConflictCheck: 1 text ...
    """
    validation.choice(policy, "policy", LEAKAGE_POLICIES)
    if policy == "raise" and report.has_errors():
        raise LeakageError(
            f"leakage found: {_named(report.errors())} (remove it, or choose the policy 'drop' or "
            "'record')"
        )
    if policy != "drop":
        return dict(splits)
    _refuse_what_rows_cannot_cure(report)
    return drop_leakage(splits, report)


def _refuse_what_rows_cannot_cure(report: LeakageReport) -> None:
    beyond = [
        finding for finding in report.errors() if not any((finding.drop_indices or {}).values())
    ]
    if beyond:
        raise LeakageError(
            f"dropping rows does not remove the leakage: {_named(beyond)} (remove the cause, or choose the "
            "policy 'record')"
        )


def _named(findings: Iterable[LeakageFinding]) -> str:
    return "; ".join(map(str, findings))


def drop_until_clean(
    checks: Iterable[LeakageCheck], splits: Mapping[str, EvalSlice], *, max_rounds: int = 20
) -> CleanedSplits:
    """Run checks and drop flagged rows until no row is flagged.

    Parameters
    ----------
    checks : iterable of LeakageCheck
        Checks to run in every round.
    splits : mapping of str to EvalSlice
        Splits, e.g. one fold.
    max_rounds : int, default 20
        Maximum number of rounds; the second round usually has no findings.

    Returns
    -------
    CleanedSplits
        Splits, their original row numbers, and one report per round.

    Raises
    ------
    LeakageError
        If an error does not concern rows, or rows are still flagged after the last round.

    Examples
    --------
    >>> from eval_toolkit.leakage import ExactDuplicateCheck, LabelConflictCheck
    >>> train = EvalSlice("train", {"text": ["a", "b"], "label": [0, 1]})
    >>> test = EvalSlice("test", {"text": ["A", "B", "c"], "label": [0, 0, 1]})
    >>> cleaned = drop_until_clean(
    ...     [ExactDuplicateCheck(), LabelConflictCheck()], {"train": train, "test": test}
    ... )
    >>> cleaned.kept
    {'train': [0], 'test': [2]}
    """
    every = list(checks)
    rounds = validation.integer(max_rounds, "max_rounds", low=1)
    current = chosen_splits(splits, None, "drop_until_clean")
    kept = {name: np.arange(part.n) for name, part in current.items()}
    reports: list[LeakageReport] = []
    for _ in range(rounds + 1):
        report = run_leakage_checks(every, current)
        reports.append(report)
        _refuse_what_rows_cannot_cure(report)
        left = _kept_rows(current, report)
        if not left:
            n_dropped = sum(part.n for part in splits.values()) - sum(map(len, kept.values()))
            rows = {name: at.tolist() for name, at in kept.items()}
            return CleanedSplits(current, rows, n_dropped, reports)
        kept |= {name: kept[name][rows] for name, rows in left.items()}
        current |= {name: current[name].take(rows) for name, rows in left.items()}
    raise LeakageError(
        f"rows are still flagged after {rounds} rounds of dropping: "
        f"{_named(finding for finding in report.findings if finding.drop_indices)}"
    )
