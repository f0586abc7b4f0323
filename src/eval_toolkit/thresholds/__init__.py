"""Threshold selection over all distinct scores, and metrics at the selected thresholds."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.inference.proportions import (
        WilsonInterval as WilsonInterval,
    )
    from eval_toolkit.inference.proportions import (
        wilson_interval as wilson_interval,
    )
    from eval_toolkit.metrics import (
        RecallAtFprResult as RecallAtFprResult,
    )
    from eval_toolkit.metrics import (
        ThresholdResult as ThresholdResult,
    )
    from eval_toolkit.metrics import (
        recall_at_fpr as recall_at_fpr,
    )
    from eval_toolkit.protocols import ThresholdSelector as ThresholdSelector
    from eval_toolkit.thresholds.ci_safe import *
    from eval_toolkit.thresholds.policy import *
    from eval_toolkit.thresholds.selectors import *

__all__, __getattr__ = names_on_use(
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
