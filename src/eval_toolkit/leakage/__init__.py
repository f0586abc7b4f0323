"""Leakage checks: find, report and drop rows that leak between splits.

A check takes named splits and returns a `LeakageFinding`. Built-in checks have stable codes
(`LEAKAGE_CODES`), documented in ``docs/leakage``.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.leakage.conflicts import *
    from eval_toolkit.leakage.contamination import *
    from eval_toolkit.leakage.duplicates import *
    from eval_toolkit.leakage.findings import *
    from eval_toolkit.leakage.forms import *
    from eval_toolkit.leakage.membership import *
    from eval_toolkit.leakage.near import *
    from eval_toolkit.leakage.policies import *
    from eval_toolkit.leakage.target import *
    from eval_toolkit.protocols import LeakageCheck as LeakageCheck
    from eval_toolkit.protocols import Versioned as Versioned

__all__, __getattr__ = names_on_use(
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
