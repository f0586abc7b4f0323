"""Metrics for binary labels and scores, implemented in numpy and tested against scikit-learn.

Every function takes ``y_true`` (0 or 1) and ``y_score`` (higher means more positive) as
array-likes. Metrics that are undefined for the data raise `UndefinedMetricError`; invalid data
raise `InvalidInputError`, which names the argument and the row. No function returns NaN.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.metrics.agreement import *
    from eval_toolkit.metrics.attempts import *
    from eval_toolkit.metrics.calibration_error import *
    from eval_toolkit.metrics.calibration_fit import *
    from eval_toolkit.metrics.catalogue import *
    from eval_toolkit.metrics.confusion import *
    from eval_toolkit.metrics.curves import *
    from eval_toolkit.metrics.definedness import *
    from eval_toolkit.metrics.directions import *
    from eval_toolkit.metrics.diversity import *
    from eval_toolkit.metrics.probability import *
    from eval_toolkit.metrics.ranking import *
    from eval_toolkit.metrics.stratified import *
    from eval_toolkit.metrics.votes import *

__all__, __getattr__ = names_on_use(
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
