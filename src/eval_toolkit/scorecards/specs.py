"""Scorecard options: metrics and interval settings."""

from collections.abc import Sequence
from dataclasses import dataclass

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.executors import Executor
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES
from eval_toolkit.metric_specs.names import At, chosen_metrics
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.seeds import DEFAULT_SEED


@dataclass(frozen=True)
class Intervals:
    """Interval settings; ``n_resamples=0`` disables intervals."""

    n_resamples: int = DEFAULT_N_RESAMPLES
    confidence: float = DEFAULT_CONFIDENCE
    method: str | None = None
    """Interval method; None for the default method of `bootstrap_ci`."""
    seed: int = DEFAULT_SEED
    executor: Executor | None = None


def check_specs(metrics: Sequence[MetricSpec | str] | None, *, at: At = None) -> list[MetricSpec]:
    """Return the specs of `chosen_metrics`; raise unless they have unique names and ``compute``."""
    specs = chosen_metrics(metrics, at=at)
    seen: dict[str, int] = {}
    for index, spec in enumerate(specs):
        if not isinstance(spec, MetricSpec):
            raise InvalidInputError(
                f"metrics[{index}] is {spec!r}; a metric spec has a `name` and a `compute` "
                "method (see eval_toolkit.metric_specs)"
            )
        if spec.name in seen:
            raise InvalidInputError(
                f"metrics[{index}] has the name {spec.name!r} of metrics[{seen[spec.name]}]; "
                "names must be unique"
            )
        seen[spec.name] = index
    return specs
