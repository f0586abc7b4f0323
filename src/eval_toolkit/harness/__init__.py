"""Evaluation of scorers on slices or cross-validation folds, with confidence intervals.

`evaluate` takes scorers and slices; `evaluate_folded` splits, fits and evaluates on each fold;
`score_predictions` evaluates existing predictions. `save_run` stores the result of either of the
first two as a run, which can be loaded and compared later.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.harness.cache import *
    from eval_toolkit.harness.evaluation import *
    from eval_toolkit.harness.folded import *
    from eval_toolkit.harness.predictions import *
    from eval_toolkit.harness.result import *
    from eval_toolkit.harness.saving import *
    from eval_toolkit.metric_specs import DEFAULT_METRICS as DEFAULT_METRICS
    from eval_toolkit.slices import EvalSlice as EvalSlice

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "cache": "ScoreCache",
        "eval_toolkit.metric_specs": "DEFAULT_METRICS",
        "eval_toolkit.slices": "EvalSlice",
        "evaluation": "evaluate evaluate_scorer_on_slice",
        "folded": "evaluate_folded",
        "predictions": "score_predictions",
        "result": "RunResult with_claim_report",
        "saving": "save_run write_run_result",
    },
)
