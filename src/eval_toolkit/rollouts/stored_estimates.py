"""Re-estimation of stored rollout metrics that are not column means, such as failure rates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.models.responses.reasoning import REASONING_TAGS
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.rollouts.measures.reporting import rollout_scorecard
from eval_toolkit.rollouts.turns import TURNS, rollouts_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.manifest_checks import missing_setting
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.scorecards import MetricResult, Records

if TYPE_CHECKING:
    from eval_toolkit.runs.kind_display import Estimator


def stored_estimator(run: Run, summary: SummarySpec) -> "Estimator | None":
    """Return a function that recomputes the cells of a stored rollout run as the run itself did.

    The function maps records and metrics to the cells of column metrics. Returns None if the run
    does not contain its turns or its measurement settings, or if ``summary`` specifies an interval
    method, since these apply to means but not to survival curves.
    """
    config = run.manifest.get("config") or {}
    if summary.method is not None or "imported" in config or missing_setting(config, _NEEDED):
        return None
    if TURNS not in run.manifest["artifacts"]:
        return None
    tags = (config.get("system") or {}).get("reasoning_tags", REASONING_TAGS)
    graphs = {(graph.unit_id, graph.attempt): graph for graph in rollouts_of(run, tags)}

    def estimated(records: Records, metrics: Sequence[MetricSpec]) -> Mapping[str, MetricResult]:
        keys = zip(records.unit_id.tolist(), records.attempt.tolist(), strict=True)
        of_columns = [spec for spec in metrics if isinstance(spec, ColumnSpec)]
        return rollout_scorecard(
            records,
            of_columns,
            graphs=[graphs[key] for key in keys],
            scorer=config.get("scored_by"),
            policy=config["policy"],
            depth=config["depth"],
            by=None,
            on_error=summary.on_error,
            confidence=summary.confidence,
            seed=summary.seed,
        )

    return estimated


_NEEDED = ("policy", "depth")
"""Settings in a run's configuration that the estimates require."""
