# What type checkers see of the lazy root: every listed name at its home. Made by tools/stub.py.

from eval_toolkit import metric_specs
from eval_toolkit.analysis import (
    bootstrap_metric_from_predictions,
    compare_runs,
    load_prediction_arrays,
    paired_diff_from_prediction_refs,
)
from eval_toolkit.artifacts import (
    MetricState,
    PredictionArtifactRef,
    PredictionColumns,
    error_metric,
    load_predictions,
    skipped_metric,
    validate_payload,
    write_predictions,
)
from eval_toolkit.claims import evaluate_claims, evaluate_gate
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, UndefinedMetricError
from eval_toolkit.harness import RunResult, evaluate, evaluate_folded, save_run, score_predictions
from eval_toolkit.harness.scorers import as_scorer
from eval_toolkit.inference import (
    BootstrapCI,
    bootstrap_ci,
    cluster_bootstrap_ci,
    mcnemar_test,
    n_for_power,
    paired_bootstrap_diff,
    paired_bootstrap_op_point_diff,
    paired_mean_diff,
    wilson_interval,
)
from eval_toolkit.integrations.exporting import export_run
from eval_toolkit.integrations.importing import import_logs
from eval_toolkit.leakage import (
    CrossSplitLeakageCheck,
    LabelConflictCheck,
    LeakageFinding,
    NearDuplicateCheck,
    NormalizedFormLeakageCheck,
    run_leakage_checks,
)
from eval_toolkit.loaders import FileLoader
from eval_toolkit.manifest import build_manifest, write_manifest
from eval_toolkit.metric_specs import at_threshold as op_metric_specs
from eval_toolkit.metrics import (
    ThresholdResult,
    brier_score,
    expected_calibration_error,
    expected_calibration_error_debiased,
    expected_calibration_error_equal_mass,
    expected_calibration_error_l2,
    expected_calibration_error_l2_debiased,
    is_metric_defined_for_slice,
    log_loss,
    metrics_at_threshold,
    pr_auc,
    roc_auc,
)
from eval_toolkit.models import load_model
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.protocols import (
    DatasetLoader,
    LeakageCheck,
    MetricSpec,
    Scorer,
    SimilarityStrategy,
    SliceAwareScorer,
    Splitter,
    ThresholdSelector,
    Versioned,
)
from eval_toolkit.report import write_report
from eval_toolkit.rollouts import Evaluator, run_rollouts
from eval_toolkit.runs import Run, open_run, rescore, write_run
from eval_toolkit.scorecards import MetricResult, Records, Scorecard, scorecard, summarise
from eval_toolkit.seeds import set_global_seeds
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import GroupKFoldSplitter, StratifiedKFoldSplitter
from eval_toolkit.tasks import BaseTask, ask, load_task, run_task
from eval_toolkit.text_dedup import (
    EmbeddingCosineStrategy,
    ExactNormalizedHashStrategy,
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    TfidfCosineStrategy,
    cross_dedup,
    near_dedup,
)
from eval_toolkit.thresholds import MaxF1Selector, select_threshold
from eval_toolkit.thresholds.operating_points import FittedOperatingPoint, OperatingPointSpec

__version__: str

__all__ = [
    "BaseTask",
    "BootstrapCI",
    "CrossSplitLeakageCheck",
    "DatasetLoader",
    "EmbeddingCosineStrategy",
    "EvalSlice",
    "EvalToolkitError",
    "Evaluator",
    "ExactNormalizedHashStrategy",
    "FileLoader",
    "FittedOperatingPoint",
    "GroupKFoldSplitter",
    "InvalidInputError",
    "JaccardNgramStrategy",
    "LabelConflictCheck",
    "LeakageCheck",
    "LeakageFinding",
    "MaxF1Selector",
    "Message",
    "MetricResult",
    "MetricSpec",
    "MetricState",
    "MinHashLSHStrategy",
    "NearDuplicateCheck",
    "NormalizedFormLeakageCheck",
    "OperatingPointSpec",
    "PredictionArtifactRef",
    "PredictionColumns",
    "Records",
    "Role",
    "Run",
    "RunResult",
    "Scorecard",
    "Scorer",
    "SimilarityStrategy",
    "SliceAwareScorer",
    "Splitter",
    "StratifiedKFoldSplitter",
    "TfidfCosineStrategy",
    "ThresholdResult",
    "ThresholdSelector",
    "UndefinedMetricError",
    "Versioned",
    "__version__",
    "as_scorer",
    "ask",
    "bootstrap_ci",
    "bootstrap_metric_from_predictions",
    "brier_score",
    "build_manifest",
    "cluster_bootstrap_ci",
    "compare_runs",
    "cross_dedup",
    "error_metric",
    "evaluate",
    "evaluate_claims",
    "evaluate_folded",
    "evaluate_gate",
    "expected_calibration_error",
    "expected_calibration_error_debiased",
    "expected_calibration_error_equal_mass",
    "expected_calibration_error_l2",
    "expected_calibration_error_l2_debiased",
    "export_run",
    "import_logs",
    "is_metric_defined_for_slice",
    "load_model",
    "load_prediction_arrays",
    "load_predictions",
    "load_task",
    "log_loss",
    "mcnemar_test",
    "metric_specs",
    "metrics_at_threshold",
    "n_for_power",
    "near_dedup",
    "op_metric_specs",
    "open_run",
    "paired_bootstrap_diff",
    "paired_bootstrap_op_point_diff",
    "paired_diff_from_prediction_refs",
    "paired_mean_diff",
    "pr_auc",
    "rescore",
    "roc_auc",
    "run_leakage_checks",
    "run_rollouts",
    "run_task",
    "save_run",
    "score_predictions",
    "scorecard",
    "select_threshold",
    "set_global_seeds",
    "skipped_metric",
    "summarise",
    "validate_payload",
    "wilson_interval",
    "write_manifest",
    "write_predictions",
    "write_report",
    "write_run",
]
