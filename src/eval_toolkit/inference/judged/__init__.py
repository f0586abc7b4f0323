"""Rates measured by a judge model, corrected with human labels for a subset of the units."""

from eval_toolkit.inference.judged.error_rates import rogan_gladen
from eval_toolkit.inference.judged.label_planning import LabelPlan, LabelRule, plan_labels
from eval_toolkit.inference.judged.prediction_powered import ppi_mean
from eval_toolkit.inference.judged.rates import (
    CorrectionRule,
    corrected_difference,
    corrected_rate,
)
from eval_toolkit.inference.judged.results import CorrectedDifference, CorrectedRate

__all__ = [
    "CorrectedDifference",
    "CorrectedRate",
    "CorrectionRule",
    "LabelPlan",
    "LabelRule",
    "corrected_difference",
    "corrected_rate",
    "plan_labels",
    "ppi_mean",
    "rogan_gladen",
]
