"""The metric cell under its storage name, and its absent forms as dicts."""

from typing import Any

from eval_toolkit.scorecards import MetricResult

__all__ = ["MetricState", "error_metric", "skipped_metric"]

MetricState = MetricResult
"""One class, two names: a cell in a scorecard is a cell on disk."""


def skipped_metric(reason: str, **details: Any) -> dict[str, Any]:
    """Return the cell of a metric that is absent on principle.

    Examples
    --------
    >>> skipped_metric("n_resamples below floor", n=5)["status"]
    'skipped'
    """
    return MetricState(None, "skipped", reason, details=details).to_dict()


def error_metric(reason: str, **details: Any) -> dict[str, Any]:
    """Return the cell of a metric that failed unexpectedly.

    Examples
    --------
    >>> error_metric("ZeroDivisionError", numerator=0, denominator=0)["status"]
    'error'
    """
    return MetricState(None, "error", reason, details=details).to_dict()
