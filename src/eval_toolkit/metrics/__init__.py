"""Metrics for binary labels and scores, implemented in numpy and tested against scikit-learn.

Every function takes ``y_true`` (0 or 1) and ``y_score`` (higher means more positive) as
array-likes. Metrics that are undefined for the data raise `UndefinedMetricError`; invalid data
raise `InvalidInputError` naming the argument and the row. No function returns NaN.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.metrics.agreement import cohen_kappa, krippendorff_alpha
    from eval_toolkit.metrics.attempts import pass_at_k, pass_hat_k
    from eval_toolkit.metrics.calibration_error import (
        expected_calibration_error,
        expected_calibration_error_debiased,
        expected_calibration_error_equal_mass,
        expected_calibration_error_l2,
        expected_calibration_error_l2_debiased,
        maximum_calibration_error,
        smooth_ece,
    )
    from eval_toolkit.metrics.calibration_fit import CalibrationFit, calibration_slope_intercept
    from eval_toolkit.metrics.catalogue import CATALOGUE, MetricInfo
    from eval_toolkit.metrics.confusion import (
        DEFAULT_ASSUMED_PRIORS,
        ConfusionCounts,
        ThresholdResult,
        confusion_counts,
        metrics_at_threshold,
        net_benefit,
        precision_at_prior,
        single_class_threshold_metrics,
    )
    from eval_toolkit.metrics.curves import (
        PrCurve,
        ReliabilityCurve,
        RocCurve,
        calibration_curve,
        pr_curve,
        roc_curve,
    )
    from eval_toolkit.metrics.definedness import (
        SINGLE_CLASS_INCOMPATIBLE_METRICS,
        EmptyStrategy,
        SkippedMetric,
        is_metric_defined_for_slice,
    )
    from eval_toolkit.metrics.directions import known_direction
    from eval_toolkit.metrics.diversity import distinct_n, self_similarity
    from eval_toolkit.metrics.probability import brier_decomposition, brier_score, log_loss
    from eval_toolkit.metrics.ranking import RecallAtFprResult, pr_auc, recall_at_fpr, roc_auc
    from eval_toolkit.metrics.stratified import (
        quantile_stratified_pr_auc,
        quantile_stratified_report,
        score_distribution_summary,
        stratified_recall,
    )
    from eval_toolkit.metrics.votes import maj_at_k

__all__ = [
    "CATALOGUE",
    "DEFAULT_ASSUMED_PRIORS",
    "SINGLE_CLASS_INCOMPATIBLE_METRICS",
    "CalibrationFit",
    "ConfusionCounts",
    "EmptyStrategy",
    "MetricInfo",
    "PrCurve",
    "RecallAtFprResult",
    "ReliabilityCurve",
    "RocCurve",
    "SkippedMetric",
    "ThresholdResult",
    "brier_decomposition",
    "brier_score",
    "calibration_curve",
    "calibration_slope_intercept",
    "cohen_kappa",
    "confusion_counts",
    "distinct_n",
    "expected_calibration_error",
    "expected_calibration_error_debiased",
    "expected_calibration_error_equal_mass",
    "expected_calibration_error_l2",
    "expected_calibration_error_l2_debiased",
    "is_metric_defined_for_slice",
    "known_direction",
    "krippendorff_alpha",
    "log_loss",
    "maj_at_k",
    "maximum_calibration_error",
    "metrics_at_threshold",
    "net_benefit",
    "pass_at_k",
    "pass_hat_k",
    "pr_auc",
    "pr_curve",
    "precision_at_prior",
    "quantile_stratified_pr_auc",
    "quantile_stratified_report",
    "recall_at_fpr",
    "roc_auc",
    "roc_curve",
    "score_distribution_summary",
    "self_similarity",
    "single_class_threshold_metrics",
    "smooth_ece",
    "stratified_recall",
]

__getattr__ = names_on_use(
    __name__,
    {
        "agreement": "cohen_kappa krippendorff_alpha",
        "attempts": "pass_at_k pass_hat_k",
        "calibration_error": (
            "expected_calibration_error expected_calibration_error_debiased "
            "expected_calibration_error_equal_mass expected_calibration_error_l2 "
            "expected_calibration_error_l2_debiased maximum_calibration_error smooth_ece"
        ),
        "calibration_fit": "CalibrationFit calibration_slope_intercept",
        "catalogue": "CATALOGUE MetricInfo",
        "confusion": (
            "DEFAULT_ASSUMED_PRIORS ConfusionCounts ThresholdResult confusion_counts "
            "metrics_at_threshold net_benefit precision_at_prior "
            "single_class_threshold_metrics"
        ),
        "curves": "PrCurve ReliabilityCurve RocCurve calibration_curve pr_curve roc_curve",
        "definedness": (
            "SINGLE_CLASS_INCOMPATIBLE_METRICS EmptyStrategy SkippedMetric "
            "is_metric_defined_for_slice"
        ),
        "directions": "known_direction",
        "diversity": "distinct_n self_similarity",
        "probability": "brier_decomposition brier_score log_loss",
        "ranking": "RecallAtFprResult pr_auc recall_at_fpr roc_auc",
        "stratified": (
            "quantile_stratified_pr_auc quantile_stratified_report score_distribution_summary "
            "stratified_recall"
        ),
        "votes": "maj_at_k",
    },
)
