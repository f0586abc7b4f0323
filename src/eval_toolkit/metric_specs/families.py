"""Type checks for metric specs, without importing the spec classes."""

from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from eval_toolkit.metric_specs.columns import ColumnSpec
    from eval_toolkit.metric_specs.statistics import StatisticSpec
    from eval_toolkit.metric_specs.sums import SumsSpec


def is_of_column(spec: Any) -> "TypeGuard[ColumnSpec]":
    """Return whether a metric is the mean of a column of records."""
    return getattr(spec, "family", "") == "column"


def is_of_sums(spec: Any) -> "TypeGuard[SumsSpec]":
    """Return whether a metric is a function of column sums."""
    return getattr(spec, "family", "") == "sums"


def is_of_columns(spec: Any) -> "TypeGuard[StatisticSpec]":
    """Return whether a metric is a statistic of several columns."""
    return getattr(spec, "family", "") == "columns"
