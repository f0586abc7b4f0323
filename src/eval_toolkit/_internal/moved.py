"""Backward-compatible imports: old module and object names resolve to their new locations."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "bootstrap": "inference",
    "eda": "leakage.eda",
    "eda.data_audit": "leakage.eda",
    "eda.distribution_shift": "leakage.eda",
    "eda.lexical_association": "leakage.eda",
    "evidence": "claims.evidence",
    "judges": "graders.judges",
    "messages": "models.messages",
    "op_metric_specs": "metric_specs.at_threshold",
    "operating_points": "thresholds.operating_points",
    "plots": "report.plots",
    "plotting": "report.plots",
    "prompts": "models.prompts",
    "requests": "models.requests",
    "responses": "models.responses",
    "runner": "models.runner",
    "scorers": "harness.scorers",
    "viewer": "report.viewer",
}
"""Maps old module names to new names; submodules follow unless listed separately."""
MOVED_NAMES = {
    "errors": """
        ArtifactError InfeasibleError InvalidTypeError LeakageError MissingColumnError
        MissingExtraError MissingFileError ModelError PluginError
    """,
    "protocols": """
        Attack EvalSliceLike Grader Model PoolBuilder PredictionReader TextScorer
        TextTransform
    """,
    "metrics": """
        CATALOGUE CalibrationFit ConfusionCounts DEFAULT_ASSUMED_PRIORS EmptyStrategy
        MetricInfo PrCurve RecallAtFprResult ReliabilityCurve RocCurve
        SINGLE_CLASS_INCOMPATIBLE_METRICS SkippedMetric brier_decomposition
        calibration_curve calibration_slope_intercept cohen_kappa confusion_counts
        distinct_n known_direction krippendorff_alpha maj_at_k maximum_calibration_error
        net_benefit pass_at_k pass_hat_k pr_curve precision_at_prior
        quantile_stratified_pr_auc quantile_stratified_report recall_at_fpr roc_curve
        score_distribution_summary self_similarity single_class_threshold_metrics smooth_ece
        stratified_recall
    """,
    "inference": """
        AgreementMatrix AttemptsDesign ClusteredOLS ConfidenceSequence CorrectedDifference
        CorrectedRate CorrectedTResult CorrectionMethod CorrectionRule CurveBand
        DEFAULT_CONFIDENCE DEFAULT_METHOD DEFAULT_N_RESAMPLES DEFAULT_SEED DeLongResult
        EquivalenceResult Executor FoldValues JudgeAgreement LabelPlan LabelRule MDEEstimate
        MacroMean McNemarResult MeanSE MetricFn MissingBounds NonInferiorityResult
        PairedBootstrapCI PairedMeanResult Plan ProportionInterval Purchase RankedSystem
        Ranking RotationTest SampleSize ScorerComparison SignFlipResult SurvivalCurve
        SurvivalMethod SystemPair ThresholdFn ThresholdedMetricFn VarianceComponents
        WilsonInterval agreement_matrix agresti_coull_interval alpha_interval basic_interval
        bca_interval beta_binomial_interval block_bootstrap_on_folds bonferroni_correct
        bootstrap_p_value bounded_macro_mean bounded_mean clopper_pearson_interval
        cluster_robust_se clustered_rate compare_scorers confidence_sequence
        correct_p_values corrected_difference corrected_rate corrected_resampled_t
        cross_validate_metric cv_clt_ci delong_ci delong_roc_variance
        equivalence_from_paired equivalence_test fdr_bh_correct groups_in_strata_plan
        groups_plan jackknife_logit_ci jackknife_se jeffreys_interval judge_agreement
        kaplan_meier kappa_interval label_group_plan label_stratified_plan macro_mean
        mcnemar_from_table mde_from_ci mean_interval mean_se missing_bounds mover_interval
        n_for_width non_inferiority_from_paired non_inferiority_test ols_cluster
        paired_bootstrap_ece_diff paired_macro_interval paired_mde percentile_interval
        plan_labels ppi_mean pr_band probe_similarity rank_systems roc_auc_sd roc_band
        rogan_gladen rotation_test rows_plan score_interval sign_flip_test
        stratified_cluster_bootstrap_ci survival_difference t_interval tango_interval
        two_level_plan variance_components weighted_ci
    """,
    "calibration": """
        BetaMap Calibrator CostMatrix DEFAULT_FN_COST DEFAULT_FP_COST DEFAULT_N_BINS
        DEFAULT_PRIOR DEFAULT_STRATEGY DEFAULT_TEMPERATURE_BOUNDS IsotonicMap PlattFit
        SigmoidMap TemperatureMap adjust_for_prior bayes_optimal_threshold estimate_prior
        fit_beta_binary fit_beta_calibrator fit_isotonic_binary fit_isotonic_calibrator
        fit_platt_binary fit_platt_calibrator fit_temperature fit_temperature_binary
        fit_temperature_oracle prior_shift_weights reliability_curve
        reliability_diagram_data
    """,
    "thresholds": """
        CISafeThresholdSelector CostSensitiveSelector TargetFPRSelector
        TargetPrecisionSelector TargetRecallSelector ThresholdPolicyMetadata YoudenJSelector
    """,
    "thresholds.operating_points": "apply_operating_points fit_operating_points headline_metrics",
    "scorecards": "unit_starts",
    "artifacts": """
        CsvPredictionReader JsonlPredictionReader PairedPredictions ParquetPredictionReader
        PredictionArrays TsvPredictionReader json_bytes load_schema pair_predictions
        read_json sanitize_for_json schema_names schema_problems validate_manifest
        validate_prediction_artifact_ref validate_results write_json_strict
    """,
    "harness.scorers": "EstimatorScorer checked_scores",
    "text_dedup": """
        DEFAULT_DEDUP_THRESHOLD DedupReport SimilarPairs SimilarityAuditReport
        SimilarityFinding audit_source_label_similarity cross_dedup_pairs duplicate_clusters
        exact_duplicate_groups normalize_text_for_dedup sha256_text
    """,
    "splits": """
        HoldoutSplitter PurgedKFoldSplitter SourceDisjointKFoldSplitter
        StratifiedGroupKFoldSplitter TimeSeriesSplitter compute_label_overlap
        iter_folds_with_pool split_slice
    """,
    "loaders": """
        DataFrameLoader HFDatasetsLoader OodManifestLoader ParquetGlobLoader
        SingleSliceLoader ood_dataset_from_manifest
    """,
    "leakage": """
        CleanedSplits ConfusableFormLeakageCheck ExactDuplicateCheck GroupLeakageCheck
        LEAKAGE_CODES LEAKAGE_POLICIES LeakagePolicy LeakageReport NgramContaminationCheck
        Severity TargetLeakageCheck TemporalLeakageCheck TokenizationLeakageCheck
        apply_leakage_policy confusable_form drop_leakage drop_until_clean normalized_form
    """,
    "provenance": """
        FileHash FileHashMissing FileHashResult REDACTED capture_command
        capture_cuda_version capture_git_dirty capture_git_sha capture_gpu_info
        capture_hardware compute_file_hash figure_metadata file_sha256 make_run_dir
        package_versions redact_secrets
    """,
    "claims.evidence": "AggregateEvidence EvidenceAxis EvidenceStatus PairingMetadata",
    "manifest": """
        CONTAMINATION_FLAGS MANIFEST_SCHEMA_VERSION RECOMMENDED_SOURCE_ROLES RunManifest
        SourceRoleRecord collect_versions make_manifest seal_manifest validate_source_roles
    """,
    "runs": """
        AskSpec Budget DecodingSpec Inputs JournalEntry Kind OpenRun Outcome RequestCounts
        RunProgress SummarySpec Unit drive find_runs read_progress run_lock run_state
    """,
    "analysis": """
        Drift JudgeStudy Leaderboard MatchSpec MovedRow RowsAt RunComparison RunDifference
        TaskUnits compare_records drift higher_is_better judge_study leaderboard
        metric_named rows_at variance_study with_directions
    """,
    "claims": """
        Claim ClaimReport ClaimResult ClaimSpec EvidenceGate GateResult Requirement
        claim_gate external_diagnostic_gate headline_present_gate load_claims
        low_fpr_feasibility_gate metric_threshold_gate minimum_slice_size_gate
        no_leakage_errors_gate no_scorer_errors_gate paired_diff_present_gate
        required_metric_gate required_scorer_gate required_slice_gate source_role_gate
        strict_artifact_gate
    """,
    "harness": """
        DEFAULT_METRICS ScoreCache evaluate_scorer_on_slice with_claim_report
        write_run_result
    """,
    "models.requests": "GenerateRequest LoglikelihoodRequest",
    "models.responses": """
        Completion Loglikelihood RawCompletion RawLoglikelihood ResponseType Usage
    """,
    "models": "EmbeddedModel OpenAICompatible ResponseCache ScriptedModel",
    "graders": "Grade load_grader",
    "tasks": """
        Perturbation Sample Suite Task UntilDecided UntilWidth available_tasks contamination
        fewshot_leakage judge_pairs judge_run load_lm_eval_task load_suite measure_run
        perturbed position_bias robustness run_rotations run_suite
    """,
    "graders.judges": "Judge KeywordJudge PairJudge Panel RUBRICS Refusal Rubric",
    "rollouts": """
        ASTEvaluator ASTSampler Conversation Graph GraphMetrics Node Sampler SeedPrompt
        System TreeSampler load_seeds rescore_rollouts
    """,
    "report": "report_html",
    "report.plots": """
        DEFAULT_FIGSIZE PALETTE PLOT_STYLE make_palette plot_bootstrap_distribution
        plot_confusion_matrix_grid plot_lift_ci plot_metric_bars plot_pareto_frontier
        plot_pr_curve plot_reliability_diagram plot_roc_curve plot_score_histograms
        plot_slice_metric_heatmap save_figure set_plot_style
    """,
    "integrations.importing": "read_logs",
    "integrations.assertions": "assert_metric assert_no_leakage assert_not_worse",
    "integrations.sklearn": "sklearn_scorer",
    "integrations.executors": "open_executor",
}
"""Maps modules to names that are importable from the package root but not listed there."""
MOVED_PLACES = {
    "": {
        "DEFAULT_BOOTSTRAP_RESAMPLES": "inference.DEFAULT_N_RESAMPLES",
        "SimilarityAuditFinding": "text_dedup.SimilarityFinding",
    },
    "claims.evidence": {"RECOMMENDED_SOURCE_ROLES": "manifest.RECOMMENDED_SOURCE_ROLES"},
    "harness": {
        "DEFAULT_BOOTSTRAP_RESAMPLES": "inference.DEFAULT_N_RESAMPLES",
        "Scorer": "protocols.Scorer",
        "SliceAwareScorer": "protocols.SliceAwareScorer",
    },
    "loaders": {"DatasetLoader": "protocols.DatasetLoader"},
    "metrics": {"headline_metrics": "thresholds.operating_points.headline_metrics"},
    "scorecards": {"MetricSpec": "protocols.MetricSpec"},
    "splits": {"PoolBuilder": "protocols.PoolBuilder", "Splitter": "protocols.Splitter"},
    "text_dedup": {"SimilarityAuditFinding": "text_dedup.SimilarityFinding"},
}
"""Maps modules (root is "") to former names and their new locations."""
_ROOT = "eval_toolkit."


class _Alias:
    """Loader that imports a moved module under its old name."""

    def __init__(self, home: str) -> None:
        self._module = import_module(home)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def get_code(self, fullname: str) -> Any:
        """Return the code that ``python -m`` runs for the old name."""
        return self._spec.loader.get_code(self._spec.name)  # type: ignore[union-attr]

    def exec_module(self, module: ModuleType) -> None:
        old = str(module.__spec__.name)  # type: ignore[union-attr]
        module.__spec__ = self._spec  # undo the replacement by the import system
        # The import system would bind a submodule in its package and hide a function of the same
        # name (`eda.distribution_shift`); modules that are already loaded are not bound.
        for name, home in MOVED.items():
            if f"{_ROOT}{name}".startswith(f"{old}."):
                sys.modules.setdefault(f"{_ROOT}{name}", import_module(_ROOT + home))


class _OldNames:
    """Finder for modules under their old names."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(_ROOT):
            return None
        old, _, rest = fullname.removeprefix(_ROOT).partition(".")
        if old not in MOVED:
            return None
        home = ".".join(filter(None, (MOVED[old], rest)))
        return ModuleSpec(fullname, _Alias(_ROOT + home))  # type: ignore[arg-type]  # duck-typed


def elsewhere(module: str, name: str) -> Any:
    """Return the object for an old name in a module.

    Examples
    --------
    >>> elsewhere("eval_toolkit.splits", "Splitter").__module__
    'eval_toolkit.protocols'
    """
    known = MOVED_PLACES.get(f"{module}.".removeprefix(_ROOT).rstrip("."), {})
    if name not in known:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, _, meant = known[name].rpartition(".")
    return getattr(import_module(_ROOT + home), meant)


def find_moved() -> None:
    """Install the import hook for old module names.

    Examples
    --------
    >>> from eval_toolkit.messages import Message
    >>> Message.__module__
    'eval_toolkit.models.messages'
    """
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        # Insert first: the path of a moved package would import its modules a second time.
        sys.meta_path.insert(0, _OldNames())
