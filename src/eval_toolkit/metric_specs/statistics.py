"""Metrics of arbitrary columns of records: multiclass, regression, ranking."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from numpy.typing import NDArray

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.column_statistics import (
    CallableStatistic,
    Statistic,
    columns_of,
)
from eval_toolkit.inference.columns import Columns
from eval_toolkit.metric_specs.base import OfRecords, checked_columns
from eval_toolkit.metric_specs.columns import Direction, check_bounds, direction


@dataclass(frozen=True)
class StatisticSpec(OfRecords):
    """Statistic of several columns of records, as returned by `from_columns`.

    Examples
    --------
    >>> spec = from_columns("accuracy", ["gold", "answer"], lambda g, a: (g == a).mean())
    >>> spec.name, spec.columns
    ('accuracy', ('gold', 'answer'))
    """

    family: ClassVar[str] = "columns"
    name: str
    columns: tuple[str, ...]
    statistic: Statistic = field(repr=False)
    higher_is_better: bool | None = True
    """Whether higher is better; None if neither direction is better."""

    def data_of(self, values: Mapping[str, NDArray[Any]]) -> Columns:
        """Return the columns of records under the names used by the statistic."""
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
    """Return a metric of arbitrary columns, such as multiclass accuracy, RMSE or nDCG.

    Parameters
    ----------
    name : str
        Name of the metric.
    columns : sequence of str
        Columns of the records, in the order of the metric's arguments. Each attempt is a row; rows
        with missing values are excluded. Attempts at a unit and units in a group are resampled
        together.
    metric : callable or Statistic
        Function that takes the columns as arrays and returns a number, called for each resample; or
        an `inference.ColumnStatistic`, which evaluates 64 resamples per call.
    higher_is_better : bool, None or "by name", default "by name"
        Direction, for gates and comparisons; by default derived from the metric's name, and None
        for unknown names.
    bounds : tuple of float
        Smallest and largest possible value of a function, if known; statistics define their own.

    Returns
    -------
    StatisticSpec
        Spec for `summarise` and `compare_records`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is empty, the number of columns is zero or does not match the statistic, the
        metric is not callable, or the bounds are not increasing.

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
    from eval_toolkit.inference.statistics import is_statistic

    named = checked_columns(name, columns)
    if len(set(named)) < len(named):
        raise InvalidInputError(f"`columns` is {columns!r}; names must be unique")
    check_bounds(bounds)
    up = direction(higher_is_better, name)
    if not is_statistic(metric):
        if not callable(metric):
            raise InvalidTypeError(f"`metric` is {metric!r}; it must be callable or a statistic")
        wrapped = CallableStatistic(metric, bounds, label=name, columns=named)
        return StatisticSpec(name, named, wrapped, up)
    statistic: Statistic = metric  # type: ignore[assignment]
    read = columns_of(statistic)
    if len(read) != len(columns):
        raise InvalidInputError(
            f"`columns` is {columns!r}; {statistic.name} needs {len(read)} columns: {', '.join(map(repr, read))}"
        )
    return StatisticSpec(name, named, statistic, up)
