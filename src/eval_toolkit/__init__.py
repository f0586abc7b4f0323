"""Statistics with confidence intervals for evaluating machine-learning systems.

The most common names are importable from here and loaded on first use (PEP 562), which keeps
``import eval_toolkit`` fast. Import all other names from their packages.

>>> from eval_toolkit import bootstrap_ci, pr_auc
>>> y = [0, 1] * 20
>>> ci = bootstrap_ci(y, [0.1 * (i % 7) + 0.3 * label for i, label in enumerate(y)], pr_auc)
>>> ci.ci_low < ci.point_estimate < ci.ci_high
True
"""

import importlib
from typing import Any

from eval_toolkit._internal.moved import MOVED, MOVED_NAMES, elsewhere, find_moved

__version__ = "1.0.0.dev0"

_EXPORTS = {
    "errors": "EvalToolkitError InvalidInputError UndefinedMetricError",
    "protocols": """
        DatasetLoader LeakageCheck MetricSpec Scorer SimilarityStrategy SliceAwareScorer
        Splitter ThresholdSelector Versioned
    """,
    "seeds": "set_global_seeds",
    "metrics": """
        ThresholdResult brier_score expected_calibration_error
        expected_calibration_error_debiased expected_calibration_error_equal_mass
        expected_calibration_error_l2 expected_calibration_error_l2_debiased
        is_metric_defined_for_slice log_loss metrics_at_threshold pr_auc roc_auc
    """,
    "inference": """
        BootstrapCI bootstrap_ci cluster_bootstrap_ci mcnemar_test n_for_power
        paired_bootstrap_diff paired_bootstrap_op_point_diff paired_mean_diff
        wilson_interval
    """,
    "thresholds": "MaxF1Selector select_threshold",
    "thresholds.operating_points": "FittedOperatingPoint OperatingPointSpec",
    "scorecards": "MetricResult Records Scorecard scorecard summarise",
    "artifacts": """
        MetricState PredictionArtifactRef PredictionColumns error_metric load_predictions
        skipped_metric validate_payload write_predictions
    """,
    "slices": "EvalSlice",
    "harness.scorers": "as_scorer",
    "text_dedup": """
        EmbeddingCosineStrategy ExactNormalizedHashStrategy JaccardNgramStrategy
        MinHashLSHStrategy TfidfCosineStrategy cross_dedup near_dedup
    """,
    "splits": "GroupKFoldSplitter StratifiedKFoldSplitter",
    "loaders": "FileLoader",
    "leakage": """
        CrossSplitLeakageCheck LabelConflictCheck LeakageFinding NearDuplicateCheck
        NormalizedFormLeakageCheck run_leakage_checks
    """,
    "manifest": "build_manifest write_manifest",
    "runs": "Run open_run rescore write_run",
    "analysis": """
        bootstrap_metric_from_predictions compare_runs load_prediction_arrays
        paired_diff_from_prediction_refs
    """,
    "claims": "evaluate_claims evaluate_gate",
    "harness": "RunResult evaluate evaluate_folded save_run score_predictions",
    "models.messages": "Message Role",
    "models": "load_model",
    "tasks": "BaseTask ask load_task run_task",
    "rollouts": "Evaluator run_rollouts",
    "report": "write_report",
    "integrations.importing": "import_logs",
    "integrations.exporting": "export_run",
}
"""Maps modules to the names that the package root exports."""
_MODULES = [
    "analysis",
    "artifacts",
    "calibration",
    "claims",
    "errors",
    "graders",
    "harness",
    "inference",
    "integrations",
    "leakage",
    "loaders",
    "manifest",
    "metric_specs",
    "metrics",
    "models",
    "plugins",
    "protocols",
    "provenance",
    "report",
    "rollouts",
    "runs",
    "scorecards",
    "seeds",
    "slices",
    "splits",
    "tasks",
    "testing",
    "text_dedup",
    "thresholds",
]


def _homes(table: dict[str, str]) -> dict[str, str]:
    return {name: module for module, names in table.items() for name in names.split()}


_HOME = _homes(_EXPORTS)
_OLD_HOME = _homes(MOVED_NAMES)

__all__ = sorted([*_HOME, "__version__", "metric_specs", "op_metric_specs"])


def __getattr__(name: str) -> Any:
    if (home := _HOME.get(name) or _OLD_HOME.get(name)) is not None:
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    elif name in _MODULES or name in MOVED:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        value = elsewhere(__name__, name)
    globals()[name] = value  # looked up once
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


find_moved()
