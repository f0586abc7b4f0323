"""The statistics engine: resampling plans, intervals, paired tests, multiplicity, planning."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.inference.agreement import alpha_interval, clustered_rate, kappa_interval
    from eval_toolkit.inference.attempts_design import AttemptsDesign
    from eval_toolkit.inference.bootstrap import bootstrap_ci, cluster_bootstrap_ci
    from eval_toolkit.inference.bound_planning import BoundSize, n_for_bound
    from eval_toolkit.inference.clustered import ClusteredOLS, cluster_robust_se, ols_cluster
    from eval_toolkit.inference.column_statistics import ColumnStatistic
    from eval_toolkit.inference.columns import Columns, Needs, Term
    from eval_toolkit.inference.combined import (
        block_bootstrap_on_folds,
        stratified_cluster_bootstrap_ci,
    )
    from eval_toolkit.inference.comparison import ScorerComparison, compare_scorers
    from eval_toolkit.inference.curve_bands import CurveBand, pr_band, roc_band
    from eval_toolkit.inference.delong import DeLongResult, delong_ci, delong_roc_variance
    from eval_toolkit.inference.diversity import probe_similarity
    from eval_toolkit.inference.equivalence import (
        EquivalenceResult,
        NonInferiorityResult,
        equivalence_from_paired,
        equivalence_test,
        non_inferiority_from_paired,
        non_inferiority_test,
    )
    from eval_toolkit.inference.executors import Executor
    from eval_toolkit.inference.folds import (
        CorrectedTResult,
        FoldValues,
        corrected_resampled_t,
        cross_validate_metric,
        cv_clt_ci,
    )
    from eval_toolkit.inference.intervals import basic_interval, bca_interval, percentile_interval
    from eval_toolkit.inference.jackknife import jackknife_logit_ci, jackknife_se
    from eval_toolkit.inference.judged import (
        CorrectedDifference,
        CorrectedRate,
        CorrectionRule,
        LabelPlan,
        LabelRule,
        corrected_difference,
        corrected_rate,
        plan_labels,
        ppi_mean,
        rogan_gladen,
    )
    from eval_toolkit.inference.leaderboards import RankedSystem, Ranking, SystemPair, rank_systems
    from eval_toolkit.inference.macro import MacroMean, macro_mean
    from eval_toolkit.inference.mean_intervals import mean_interval
    from eval_toolkit.inference.means import (
        MeanSE,
        PairedMeanResult,
        mean_se,
        paired_mean_diff,
        t_interval,
    )
    from eval_toolkit.inference.missing_outcomes import (
        MissingBounds,
        bounded_macro_mean,
        bounded_mean,
        missing_bounds,
    )
    from eval_toolkit.inference.multiplicity import (
        CorrectionMethod,
        bonferroni_correct,
        correct_p_values,
        fdr_bh_correct,
    )
    from eval_toolkit.inference.paired import (
        bootstrap_p_value,
        paired_bootstrap_diff,
        paired_bootstrap_ece_diff,
        paired_mde,
    )
    from eval_toolkit.inference.paired_intervals import mover_interval
    from eval_toolkit.inference.paired_proportions import paired_macro_interval, tango_interval
    from eval_toolkit.inference.paired_tests import (
        McNemarResult,
        SignFlipResult,
        mcnemar_from_table,
        mcnemar_test,
        sign_flip_test,
    )
    from eval_toolkit.inference.planning import (
        MDEEstimate,
        SampleSize,
        mde_from_ci,
        n_for_power,
        n_for_width,
        roc_auc_sd,
    )
    from eval_toolkit.inference.plans import (
        Plan,
        groups_in_strata_plan,
        groups_plan,
        label_group_plan,
        label_stratified_plan,
        rows_plan,
        two_level_plan,
    )
    from eval_toolkit.inference.position_bias import RotationTest, rotation_test
    from eval_toolkit.inference.proportions import (
        ProportionInterval,
        WilsonInterval,
        agresti_coull_interval,
        beta_binomial_interval,
        clopper_pearson_interval,
        jeffreys_interval,
        score_interval,
        wilson_interval,
    )
    from eval_toolkit.inference.raters import (
        AgreementMatrix,
        JudgeAgreement,
        agreement_matrix,
        judge_agreement,
    )
    from eval_toolkit.inference.refitted_thresholds import (
        ThresholdedMetricFn,
        ThresholdFn,
        paired_bootstrap_op_point_diff,
    )
    from eval_toolkit.inference.resample_blocks import Block
    from eval_toolkit.inference.results import (
        DEFAULT_CONFIDENCE,
        DEFAULT_METHOD,
        DEFAULT_N_RESAMPLES,
        BootstrapCI,
        Interval,
        PairedBootstrapCI,
    )
    from eval_toolkit.inference.sequences import ConfidenceSequence, confidence_sequence
    from eval_toolkit.inference.statistics import MetricFn
    from eval_toolkit.inference.survival import SurvivalCurve, SurvivalMethod, kaplan_meier
    from eval_toolkit.inference.survival_arms import survival_difference
    from eval_toolkit.inference.variance import Purchase, VarianceComponents, variance_components
    from eval_toolkit.inference.weighted import weighted_ci
    from eval_toolkit.seeds import DEFAULT_SEED

__all__ = [
    "DEFAULT_CONFIDENCE",
    "DEFAULT_METHOD",
    "DEFAULT_N_RESAMPLES",
    "DEFAULT_SEED",
    "AgreementMatrix",
    "AttemptsDesign",
    "Block",
    "BootstrapCI",
    "BoundSize",
    "ClusteredOLS",
    "ColumnStatistic",
    "Columns",
    "ConfidenceSequence",
    "CorrectedDifference",
    "CorrectedRate",
    "CorrectedTResult",
    "CorrectionMethod",
    "CorrectionRule",
    "CurveBand",
    "DeLongResult",
    "EquivalenceResult",
    "Executor",
    "FoldValues",
    "Interval",
    "JudgeAgreement",
    "LabelPlan",
    "LabelRule",
    "MDEEstimate",
    "MacroMean",
    "McNemarResult",
    "MeanSE",
    "MetricFn",
    "MissingBounds",
    "Needs",
    "NonInferiorityResult",
    "PairedBootstrapCI",
    "PairedMeanResult",
    "Plan",
    "ProportionInterval",
    "Purchase",
    "RankedSystem",
    "Ranking",
    "RotationTest",
    "SampleSize",
    "ScorerComparison",
    "SignFlipResult",
    "SurvivalCurve",
    "SurvivalMethod",
    "SystemPair",
    "Term",
    "ThresholdFn",
    "ThresholdedMetricFn",
    "VarianceComponents",
    "WilsonInterval",
    "agreement_matrix",
    "agresti_coull_interval",
    "alpha_interval",
    "basic_interval",
    "bca_interval",
    "beta_binomial_interval",
    "block_bootstrap_on_folds",
    "bonferroni_correct",
    "bootstrap_ci",
    "bootstrap_p_value",
    "bounded_macro_mean",
    "bounded_mean",
    "clopper_pearson_interval",
    "cluster_bootstrap_ci",
    "cluster_robust_se",
    "clustered_rate",
    "compare_scorers",
    "confidence_sequence",
    "correct_p_values",
    "corrected_difference",
    "corrected_rate",
    "corrected_resampled_t",
    "cross_validate_metric",
    "cv_clt_ci",
    "delong_ci",
    "delong_roc_variance",
    "equivalence_from_paired",
    "equivalence_test",
    "fdr_bh_correct",
    "groups_in_strata_plan",
    "groups_plan",
    "jackknife_logit_ci",
    "jackknife_se",
    "jeffreys_interval",
    "judge_agreement",
    "kaplan_meier",
    "kappa_interval",
    "label_group_plan",
    "label_stratified_plan",
    "macro_mean",
    "mcnemar_from_table",
    "mcnemar_test",
    "mde_from_ci",
    "mean_interval",
    "mean_se",
    "missing_bounds",
    "mover_interval",
    "n_for_bound",
    "n_for_power",
    "n_for_width",
    "non_inferiority_from_paired",
    "non_inferiority_test",
    "ols_cluster",
    "paired_bootstrap_diff",
    "paired_bootstrap_ece_diff",
    "paired_bootstrap_op_point_diff",
    "paired_macro_interval",
    "paired_mde",
    "paired_mean_diff",
    "percentile_interval",
    "plan_labels",
    "ppi_mean",
    "pr_band",
    "probe_similarity",
    "rank_systems",
    "roc_auc_sd",
    "roc_band",
    "rogan_gladen",
    "rotation_test",
    "rows_plan",
    "score_interval",
    "sign_flip_test",
    "stratified_cluster_bootstrap_ci",
    "survival_difference",
    "t_interval",
    "tango_interval",
    "two_level_plan",
    "variance_components",
    "weighted_ci",
    "wilson_interval",
]

__getattr__ = names_on_use(
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
