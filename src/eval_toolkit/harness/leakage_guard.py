"""Leakage checks that run before the evaluation, and the policy for their findings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.leakage import (
    LEAKAGE_POLICIES,
    apply_leakage_policy,
    drop_until_clean,
    run_leakage_checks,
)
from eval_toolkit.protocols import LeakageCheck


@dataclass(frozen=True)
class GuardedSlices:
    """Slices remaining after the leakage checks, and the report of the checks."""

    slices: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Indices of the rows kept in each slice under the policy "drop"."""

    def precomputed(
        self, scores: Mapping[tuple[str, str], ArrayLike], sizes: Mapping[str, int]
    ) -> dict[tuple[str, str], Any]:
        """Return the precomputed scores of the rows that were kept."""
        left: dict[tuple[str, str], Any] = {}
        for (name, scorer), values in scores.items():
            array = np.asarray(values)
            if name in self.kept:
                if array.shape[:1] != (sizes[name],):
                    raise InvalidInputError(
                        f"precomputed_scores[{(name, scorer)!r}] has shape {array.shape}; the "
                        f"slice has {sizes[name]} rows"
                    )
                array = array[np.asarray(self.kept[name], dtype=np.int64)]
            left[name, scorer] = array
        return left


def checked_checks(checks: Any) -> list[LeakageCheck]:
    """Validate the checks and return them as a list."""
    if isinstance(checks, str) or not isinstance(checks, Iterable):
        raise InvalidTypeError(f"`leakage_checks` is {checks!r}; it must be a list of checks")
    listed = list(checks)
    for index, check in enumerate(listed):
        if isinstance(check, type) or not isinstance(check, LeakageCheck):
            raise InvalidTypeError(
                f"leakage_checks[{index}] is {check!r}; it must be an object with `name` "
                "and `validate(splits)`"
            )
    return listed


def guarded(
    slices: Mapping[str, Any], checks: Sequence[LeakageCheck], policy: str
) -> GuardedSlices:
    """Run the checks on all slices together and apply the policy.

    Raises `LeakageError` under "raise" for findings of severity "error", and under "drop" for
    findings that dropping rows cannot resolve.
    """
    validation.choice(policy, "on_leakage", LEAKAGE_POLICIES)
    given = dict(slices)
    if not checks:
        return GuardedSlices(given)
    record: dict[str, Any] = {"on_leakage": policy, "leakage_checks": [c.name for c in checks]}
    if policy == "skip":
        return GuardedSlices(given, record)
    if policy == "drop":
        cleaned = drop_until_clean(checks, given)
        record |= {
            "leakage_report": cleaned.reports[-1].to_dict(),
            "leakage_report_before_drop": cleaned.reports[0].to_dict(),
            "n_dropped": {n: given[n].n - len(rows) for n, rows in cleaned.kept.items()},
        }
        return GuardedSlices(dict(cleaned.splits), record, cleaned.kept)
    report = run_leakage_checks(checks, given)
    apply_leakage_policy(report, given, policy)  # type: ignore[arg-type]
    return GuardedSlices(given, record | {"leakage_report": report.to_dict()})
