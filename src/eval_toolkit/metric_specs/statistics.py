"""Metrics of any named columns of records: several classes, regression, rankings."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.column_statistics import (
    CallableStatistic,
    Statistic,
    columns_of,
    is_statistic,
)
from eval_toolkit.inference.prepared import Columns
from eval_toolkit.metric_specs.columns import Direction, check_bounds, direction

__all__ = ["OfRecords", "StatisticSpec", "checked_columns", "from_columns"]


def checked_columns(name: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a metric, or raise if they or its name are no names.

    Examples
    --------
    >>> checked_columns("accuracy", ["gold", "answer"])
    ('gold', 'answer')
    """
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"`name` is {name!r}; it must be the name of a metric")
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidTypeError(f"`columns` is {columns!r}; it must be a list of names")
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise InvalidInputError(f"`columns` is {columns!r}; it must name at least one column")
    return tuple(columns)


class OfRecords:
    """A metric that needs records: labels and scores are not what it is made of."""

    name: str
    columns: tuple[str, ...]

    def compute(self, y_true: Any, y_score: Any) -> float:
        """Raise, and say which columns are needed."""
        raise InvalidInputError(
            f"{self.name} needs records with the columns {', '.join(map(repr, self.columns))}: "
            "use `summarise`"
        )


@dataclass(frozen=True)
class StatisticSpec(OfRecords):
    """A statistic of some columns of records; made by `from_columns`.

    Examples
    --------
    >>> spec = from_columns("accuracy", ["gold", "answer"], lambda g, a: (g == a).mean())
    >>> spec.name, spec.columns
    ('accuracy', ('gold', 'answer'))
    """

    name: str
    columns: tuple[str, ...]
    statistic: Statistic = field(repr=False)
    higher_is_better: bool | None = True
    """None where neither direction is better."""

    def data_of(self, values: Mapping[str, NDArray[Any]]) -> Columns:
        """Return columns of records under the names that the statistic has for them."""
        names = zip(columns_of(self.statistic), self.columns, strict=True)
        return Columns({name: values[column] for name, column in names})


def from_columns(
    name: str,
    columns: Sequence[str],
    metric: Callable[..., float] | Statistic,
    *,
    higher_is_better: Direction = "by name",
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> StatisticSpec:
    """Metric of any columns of records, numbers or texts: accuracy of classes, RMSE, nDCG.

    Parameters
    ----------
    name : str
        Name of the metric.
    columns : sequence of str
        Columns of the records, in the order in which the metric takes or names them. Each attempt
        counts as a row; a row counts if all its columns have a value. The attempts at a unit, and
        the units of a group, are drawn together.
    metric : callable or Statistic
        A function that takes the columns as arrays and returns a number, called for each resample;
        or a subclass of `inference.ColumnStatistic`, which evaluates 64 resamples at once.
    higher_is_better : bool, None or "by name", default "by name"
        Direction, for gates and comparisons; by default as the metric's name has it, None where it
        is not known.
    bounds : tuple of float
        Smallest and largest possible value of a function, where known; a statistic has its own.

    Returns
    -------
    StatisticSpec
        For `summarise` and `compare_records`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is empty, there are no columns or not as many as the statistic names, the metric
        cannot be called, or the bounds are not the smaller before the larger.

    Examples
    --------
    >>> from eval_toolkit.scorecards import Records, summarise
    >>> records = Records.from_columns(
    ...     {"gold": ["cat", "dog", "cow"], "answer": ["cat", "dog", "dog"]}
    ... )
    >>> spec = from_columns("accuracy", ["gold", "answer"], lambda g, a: (g == a).mean())
    >>> round(summarise(records, [spec])["accuracy"].value, 3)
    0.667
    """
    named = checked_columns(name, columns)
    if len(set(named)) < len(named):
        raise InvalidInputError(f"`columns` is {columns!r}; it must name each column once")
    check_bounds(bounds)
    up = direction(higher_is_better, name)
    if not is_statistic(metric):
        if not callable(metric):
            raise InvalidTypeError(f"`metric` is {metric!r}; it must be callable or a statistic")
        made = CallableStatistic(metric, bounds, label=name, columns=named)
        return StatisticSpec(name, named, made, up)
    statistic: Statistic = metric  # type: ignore[assignment]
    read = columns_of(statistic)
    if len(read) != len(columns):
        raise InvalidInputError(
            f"`columns` is {columns!r}; {statistic.name} reads {', '.join(map(repr, read))}"
        )
    return StatisticSpec(name, named, statistic, up)
