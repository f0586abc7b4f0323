"""The statistics engine: resampling plans, intervals, paired tests, multiplicity, planning."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.inference.agreement import *
    from eval_toolkit.inference.attempts_design import *
    from eval_toolkit.inference.bootstrap import *
    from eval_toolkit.inference.bound_planning import *
    from eval_toolkit.inference.clustered import *
    from eval_toolkit.inference.column_statistics import *
    from eval_toolkit.inference.columns import *
    from eval_toolkit.inference.combined import *
    from eval_toolkit.inference.comparison import *
    from eval_toolkit.inference.curve_bands import *
    from eval_toolkit.inference.delong import *
    from eval_toolkit.inference.diversity import *
    from eval_toolkit.inference.equivalence import *
    from eval_toolkit.inference.executors import *
    from eval_toolkit.inference.folds import *
    from eval_toolkit.inference.intervals import *
    from eval_toolkit.inference.jackknife import *
    from eval_toolkit.inference.judged import *
    from eval_toolkit.inference.leaderboards import *
    from eval_toolkit.inference.macro import *
    from eval_toolkit.inference.mean_intervals import *
    from eval_toolkit.inference.means import *
    from eval_toolkit.inference.missing_outcomes import *
    from eval_toolkit.inference.multiplicity import *
    from eval_toolkit.inference.paired import *
    from eval_toolkit.inference.paired_intervals import *
    from eval_toolkit.inference.paired_proportions import *
    from eval_toolkit.inference.paired_tests import *
    from eval_toolkit.inference.planning import *
    from eval_toolkit.inference.plans import *
    from eval_toolkit.inference.position_bias import *
    from eval_toolkit.inference.proportions import *
    from eval_toolkit.inference.raters import *
    from eval_toolkit.inference.refitted_thresholds import *
    from eval_toolkit.inference.resample_blocks import *
    from eval_toolkit.inference.results import *
    from eval_toolkit.inference.sequences import (
        ConfidenceSequence as ConfidenceSequence,
    )
    from eval_toolkit.inference.sequences import (
        confidence_sequence as confidence_sequence,
    )
    from eval_toolkit.inference.statistics import *
    from eval_toolkit.inference.survival import *
    from eval_toolkit.inference.survival_arms import *
    from eval_toolkit.inference.variance import *
    from eval_toolkit.inference.weighted import *
    from eval_toolkit.seeds import DEFAULT_SEED as DEFAULT_SEED

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "agreement": "alpha_interval clustered_rate kappa_interval",
        "attempts_design": "AttemptsDesign",
        "curve_bands": "CurveBand pr_band roc_band",
        "resample_blocks": "Block",
        "bootstrap": "bootstrap_ci cluster_bootstrap_ci",
        "bound_planning": "BoundSize n_for_bound",
        "clustered": "ClusteredOLS cluster_robust_se ols_cluster",
        "column_statistics": "ColumnStatistic",
        "combined": "block_bootstrap_on_folds stratified_cluster_bootstrap_ci",
        "comparison": "ScorerComparison compare_scorers",
        "delong": "DeLongResult delong_ci delong_roc_variance",
        "diversity": "probe_similarity",
        "executors": "Executor",
        "equivalence": (
            "EquivalenceResult NonInferiorityResult equivalence_from_paired equivalence_test "
            "non_inferiority_from_paired non_inferiority_test"
        ),
        "eval_toolkit.seeds": "DEFAULT_SEED",
        "folds": (
            "CorrectedTResult FoldValues Interval corrected_resampled_t cross_validate_metric "
            "cv_clt_ci"
        ),
        "intervals": "basic_interval bca_interval percentile_interval",
        "jackknife": "jackknife_logit_ci jackknife_se",
        "judged": (
            "CorrectedDifference CorrectedRate CorrectionRule LabelPlan LabelRule "
            "corrected_difference corrected_rate plan_labels ppi_mean rogan_gladen"
        ),
        "leaderboards": "RankedSystem Ranking SystemPair rank_systems",
        "macro": "MacroMean macro_mean",
        "mean_intervals": "mean_interval",
        "means": "MeanSE PairedMeanResult mean_se paired_mean_diff t_interval",
        "missing_outcomes": "MissingBounds bounded_macro_mean bounded_mean missing_bounds",
        "multiplicity": "CorrectionMethod bonferroni_correct correct_p_values fdr_bh_correct",
        "paired": "bootstrap_p_value paired_bootstrap_diff paired_bootstrap_ece_diff paired_mde",
        "paired_intervals": "mover_interval",
        "paired_proportions": "paired_macro_interval tango_interval",
        "paired_tests": (
            "McNemarResult SignFlipResult mcnemar_from_table mcnemar_test sign_flip_test"
        ),
        "planning": "MDEEstimate SampleSize mde_from_ci n_for_power n_for_width roc_auc_sd",
        "plans": (
            "Plan groups_in_strata_plan groups_plan label_group_plan label_stratified_plan "
            "rows_plan two_level_plan"
        ),
        "columns": "Columns Needs Term",
        "proportions": (
            "ProportionInterval WilsonInterval agresti_coull_interval beta_binomial_interval "
            "clopper_pearson_interval jeffreys_interval score_interval wilson_interval"
        ),
        "raters": "AgreementMatrix JudgeAgreement agreement_matrix judge_agreement",
        "refitted_thresholds": "ThresholdFn ThresholdedMetricFn paired_bootstrap_op_point_diff",
        "results": (
            "DEFAULT_CONFIDENCE DEFAULT_METHOD DEFAULT_N_RESAMPLES BootstrapCI Interval "
            "PairedBootstrapCI"
        ),
        "position_bias": "RotationTest rotation_test",
        "sequences": "ConfidenceSequence confidence_sequence",
        "statistics": "MetricFn",
        "survival": "SurvivalCurve SurvivalMethod kaplan_meier",
        "survival_arms": "survival_difference",
        "variance": "Purchase VarianceComponents variance_components",
        "weighted": "weighted_ci",
    },
)
