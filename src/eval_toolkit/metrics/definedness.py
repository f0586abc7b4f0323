"""Where a metric exists at all, and what to hand back where it does not."""

from collections.abc import Callable, Collection
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._validate import choice
from eval_toolkit.errors import UndefinedMetricError

__all__ = [
    "SINGLE_CLASS_INCOMPATIBLE_METRICS",
    "EmptyStrategy",
    "SkippedMetric",
    "is_metric_defined_for_slice",
]

EmptyStrategy: TypeAlias = Literal["raise", "return_none", "skipped_metric"]
SkippedMetric: TypeAlias = dict[str, Any]

SINGLE_CLASS_INCOMPATIBLE_METRICS = frozenset({"auprc", "auroc", "pr_auc", "roc_auc"})


def is_metric_defined_for_slice(
    metric_name: str,
    *,
    is_single_class: bool,
    incompatible_metrics: Collection[str] = SINGLE_CLASS_INCOMPATIBLE_METRICS,
) -> bool:
    """Tell whether a metric exists on a slice, knowing only if the slice has a single class.

    Parameters
    ----------
    metric_name : str
        Name of the metric.
    is_single_class : bool
        Whether all labels of the slice are equal.
    incompatible_metrics : collection of str
        Metrics that need both classes.

    Returns
    -------
    bool
        False only for a metric that needs both classes on a slice that has one.

    Examples
    --------
    >>> is_metric_defined_for_slice("roc_auc", is_single_class=True)
    False
    >>> is_metric_defined_for_slice("brier_score", is_single_class=True)
    True
    """
    return not (is_single_class and metric_name in incompatible_metrics)


def with_empty_strategy(
    strategy: EmptyStrategy,
    metric: str,
    y_true: ArrayLike,
    y_score: ArrayLike,
    compute: Callable[[], float],
) -> float | SkippedMetric | None:
    """Return ``compute()``; on data where the metric does not exist, do what was asked for."""
    choice(strategy, "empty_strategy", ("raise", "return_none", "skipped_metric"))
    if strategy == "raise":
        return compute()
    if np.size(y_true) == 0 and np.size(y_score) == 0:
        reason = f"{metric} is undefined: there are no rows"
    else:
        try:
            return compute()
        except UndefinedMetricError as error:
            reason = str(error)
    if strategy == "return_none":
        return None
    labels = np.asarray(y_true)
    details = {"n": labels.size, "n_positive": int(np.count_nonzero(labels == 1))}
    return {"value": None, "status": "skipped", "reason": reason, "details": details}
