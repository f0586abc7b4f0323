"""Analyses of stored predictions and runs: differences, comparisons, leaderboards, drift.

Metrics with intervals (`bootstrap_metric_from_predictions`), candidate against baseline
(`paired_diff_from_prediction_refs`), the rows in a region of a curve (`rows_at`), drift of a scorer
(`drift`), and differences between two runs (`compare_runs`).
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.analysis.comparison import compare_records, compare_runs
    from eval_toolkit.analysis.configs import ConfigDifference, config_differences
    from eval_toolkit.analysis.differences import RunDifference
    from eval_toolkit.analysis.directions import with_directions
    from eval_toolkit.analysis.drifting import Drift, MovedRow, drift
    from eval_toolkit.analysis.judge_studies import JudgeStudy, judge_study, variance_study
    from eval_toolkit.analysis.leaderboards import Leaderboard, TaskUnits, leaderboard
    from eval_toolkit.analysis.matching import MatchSpec
    from eval_toolkit.analysis.name_directions import higher_is_better, metric_named
    from eval_toolkit.analysis.predictions import (
        bootstrap_metric_from_predictions,
        load_prediction_arrays,
        paired_diff_from_prediction_refs,
    )
    from eval_toolkit.analysis.regions import RowsAt, rows_at
    from eval_toolkit.analysis.run_comparison import RunComparison
    from eval_toolkit.artifacts import CsvPredictionReader, JsonlPredictionReader, PredictionArrays

__all__ = [
    "ConfigDifference",
    "CsvPredictionReader",
    "Drift",
    "JsonlPredictionReader",
    "JudgeStudy",
    "Leaderboard",
    "MatchSpec",
    "MovedRow",
    "PredictionArrays",
    "RowsAt",
    "RunComparison",
    "RunDifference",
    "TaskUnits",
    "bootstrap_metric_from_predictions",
    "compare_records",
    "compare_runs",
    "config_differences",
    "drift",
    "higher_is_better",
    "judge_study",
    "leaderboard",
    "load_prediction_arrays",
    "metric_named",
    "paired_diff_from_prediction_refs",
    "rows_at",
    "variance_study",
    "with_directions",
]

__getattr__ = names_on_use(
    __name__,
    {
        "comparison": "compare_records compare_runs",
        "configs": "ConfigDifference config_differences",
        "differences": "RunDifference",
        "directions": "with_directions",
        "drifting": "Drift MovedRow drift",
        "eval_toolkit.artifacts": "CsvPredictionReader JsonlPredictionReader PredictionArrays",
        "judge_studies": "JudgeStudy judge_study variance_study",
        "leaderboards": "Leaderboard TaskUnits leaderboard",
        "matching": "MatchSpec",
        "name_directions": "higher_is_better metric_named",
        "predictions": (
            "bootstrap_metric_from_predictions load_prediction_arrays "
            "paired_diff_from_prediction_refs"
        ),
        "regions": "RowsAt rows_at",
        "run_comparison": "RunComparison",
    },
)
