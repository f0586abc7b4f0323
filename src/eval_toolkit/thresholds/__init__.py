"""Threshold selection over all distinct scores, and metrics at the selected thresholds."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.inference.proportions import WilsonInterval, wilson_interval
    from eval_toolkit.metrics import RecallAtFprResult, ThresholdResult, recall_at_fpr
    from eval_toolkit.protocols import ThresholdSelector
    from eval_toolkit.thresholds.ci_safe import CISafeThresholdSelector
    from eval_toolkit.thresholds.policy import ThresholdPolicyMetadata, select_threshold
    from eval_toolkit.thresholds.selectors import (
        CostSensitiveSelector,
        MaxF1Selector,
        TargetFPRSelector,
        TargetPrecisionSelector,
        TargetRecallSelector,
        YoudenJSelector,
    )

__all__ = [
    "CISafeThresholdSelector",
    "CostSensitiveSelector",
    "MaxF1Selector",
    "RecallAtFprResult",
    "TargetFPRSelector",
    "TargetPrecisionSelector",
    "TargetRecallSelector",
    "ThresholdPolicyMetadata",
    "ThresholdResult",
    "ThresholdSelector",
    "WilsonInterval",
    "YoudenJSelector",
    "recall_at_fpr",
    "select_threshold",
    "wilson_interval",
]

__getattr__ = names_on_use(
    __name__,
    {
        "ci_safe": "CISafeThresholdSelector",
        "eval_toolkit.inference.proportions": "WilsonInterval wilson_interval",
        "eval_toolkit.metrics": "RecallAtFprResult ThresholdResult recall_at_fpr",
        "eval_toolkit.protocols": "ThresholdSelector",
        "policy": "ThresholdPolicyMetadata select_threshold",
        "selectors": (
            "CostSensitiveSelector MaxF1Selector TargetFPRSelector TargetPrecisionSelector "
            "TargetRecallSelector YoudenJSelector"
        ),
    },
)
