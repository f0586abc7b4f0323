"""Metric cells in stored form, with skipped and failed cells as dicts."""

from typing import Any

from eval_toolkit.scorecards import MetricResult

MetricState = MetricResult
"""Alias of `MetricResult`: cells in scorecards and on disk are the same class."""


def skipped_metric(reason: str, **details: Any) -> dict[str, Any]:
    """Return the cell of a metric that is undefined, as a dict.

    Examples
    --------
    >>> skipped_metric("n_resamples below floor", n=5)["status"]
    'skipped'
    """
    return MetricState(None, "skipped", reason, details=details).to_dict()


def error_metric(reason: str, **details: Any) -> dict[str, Any]:
    """Return the cell of a metric that failed unexpectedly, as a dict.

    Examples
    --------
    >>> error_metric("ZeroDivisionError", numerator=0, denominator=0)["status"]
    'error'
    """
    return MetricState(None, "error", reason, details=details).to_dict()
