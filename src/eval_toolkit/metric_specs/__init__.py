"""Metric specs for `scorecard`, as objects or by name.

`named` parses a metric name such as ``f1@0.5`` or ``recall@fpr=0.01``; see `metric_specs.names` for
the grammar.

A spec is any object with ``name`` and ``compute(y_true, y_score)``; built-in specs also have a
vectorised statistic for fast intervals. Metrics that need a threshold are in
`eval_toolkit.metric_specs.at_threshold`; their specs record the provenance of the threshold.

Metrics of labels and scores are predefined; `on_columns` applies them to other columns of records.
`mean_of`, `pass_at_k`, `pass_hat_k`, `asr_at_k` and `maj_at_k` use one column, `ratio_of` and
`from_sums` use the sums of several columns, and `from_columns` defines arbitrary statistics of
columns, including string columns.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.metric_specs.calibration import *
    from eval_toolkit.metric_specs.columns import *
    from eval_toolkit.metric_specs.names import *
    from eval_toolkit.metric_specs.scores import *
    from eval_toolkit.metric_specs.statistics import *
    from eval_toolkit.metric_specs.sums import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "calibration": "ece smooth_ece",
        "columns": "ColumnKind ColumnSpec asr_at_k maj_at_k mean_of pass_at_k pass_hat_k",
        "names": "METRIC_NAMES chosen_metrics named stored_name",
        "scores": (
            "DEFAULT_METRICS ScoreSpec brier log_loss make_spec_name on_columns partial_roc_auc "
            "pr_auc recall_at_fpr roc_auc"
        ),
        "statistics": "StatisticSpec from_columns",
        "sums": "SumsSpec from_sums ratio_of",
    },
)
