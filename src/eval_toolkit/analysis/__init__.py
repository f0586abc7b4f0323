"""Analyses of stored predictions and runs: differences, comparisons, leaderboards, drift.

For predictions: metrics with intervals (`bootstrap_metric_from_predictions`), differences between a
candidate and a baseline (`paired_diff_from_prediction_refs`), rows in a region of a curve
(`rows_at`), and changes in a scorer's output (`drift`). For runs: `compare_runs` and `leaderboard`.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.analysis.comparison import *
    from eval_toolkit.analysis.configs import *
    from eval_toolkit.analysis.differences import *
    from eval_toolkit.analysis.directions import *
    from eval_toolkit.analysis.drifting import *
    from eval_toolkit.analysis.judge_studies import *
    from eval_toolkit.analysis.leaderboards import *
    from eval_toolkit.analysis.matching import *
    from eval_toolkit.analysis.name_directions import *
    from eval_toolkit.analysis.predictions import *
    from eval_toolkit.analysis.regions import *
    from eval_toolkit.analysis.run_comparison import *
    from eval_toolkit.artifacts import (
        CsvPredictionReader as CsvPredictionReader,
    )
    from eval_toolkit.artifacts import (
        JsonlPredictionReader as JsonlPredictionReader,
    )
    from eval_toolkit.artifacts import (
        PredictionArrays as PredictionArrays,
    )

__all__, __getattr__ = names_on_use(
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
