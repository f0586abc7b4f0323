"""Leakage checks: find, report and drop rows that leak between splits.

A check takes named splits and returns a `LeakageFinding`. Built-in checks have stable codes
(`LEAKAGE_CODES`), documented in ``docs/leakage``.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.leakage.conflicts import LabelConflictCheck
    from eval_toolkit.leakage.contamination import NgramContaminationCheck
    from eval_toolkit.leakage.duplicates import (
        ConfusableFormLeakageCheck,
        ExactDuplicateCheck,
        NormalizedFormLeakageCheck,
        TokenizationLeakageCheck,
    )
    from eval_toolkit.leakage.findings import (
        LEAKAGE_CODES,
        LeakageFinding,
        LeakageReport,
        Severity,
        run_leakage_checks,
    )
    from eval_toolkit.leakage.forms import confusable_form, normalized_form
    from eval_toolkit.leakage.membership import GroupLeakageCheck, TemporalLeakageCheck
    from eval_toolkit.leakage.near import CrossSplitLeakageCheck, NearDuplicateCheck
    from eval_toolkit.leakage.policies import (
        LEAKAGE_POLICIES,
        CleanedSplits,
        LeakagePolicy,
        apply_leakage_policy,
        drop_leakage,
        drop_until_clean,
    )
    from eval_toolkit.leakage.target import TargetLeakageCheck
    from eval_toolkit.protocols import LeakageCheck, Versioned

__all__ = [
    "LEAKAGE_CODES",
    "LEAKAGE_POLICIES",
    "CleanedSplits",
    "ConfusableFormLeakageCheck",
    "CrossSplitLeakageCheck",
    "ExactDuplicateCheck",
    "GroupLeakageCheck",
    "LabelConflictCheck",
    "LeakageCheck",
    "LeakageFinding",
    "LeakagePolicy",
    "LeakageReport",
    "NearDuplicateCheck",
    "NgramContaminationCheck",
    "NormalizedFormLeakageCheck",
    "Severity",
    "TargetLeakageCheck",
    "TemporalLeakageCheck",
    "TokenizationLeakageCheck",
    "Versioned",
    "apply_leakage_policy",
    "confusable_form",
    "drop_leakage",
    "drop_until_clean",
    "normalized_form",
    "run_leakage_checks",
]

__getattr__ = names_on_use(
    __name__,
    {
        "conflicts": "LabelConflictCheck",
        "contamination": "NgramContaminationCheck",
        "duplicates": (
            "ConfusableFormLeakageCheck ExactDuplicateCheck NormalizedFormLeakageCheck "
            "TokenizationLeakageCheck"
        ),
        "eval_toolkit.protocols": "LeakageCheck Versioned",
        "findings": "LEAKAGE_CODES LeakageFinding LeakageReport Severity run_leakage_checks",
        "forms": "confusable_form normalized_form",
        "membership": "GroupLeakageCheck TemporalLeakageCheck",
        "near": "CrossSplitLeakageCheck NearDuplicateCheck",
        "policies": (
            "LEAKAGE_POLICIES CleanedSplits LeakagePolicy apply_leakage_policy drop_leakage "
            "drop_until_clean"
        ),
        "target": "TargetLeakageCheck",
    },
)
