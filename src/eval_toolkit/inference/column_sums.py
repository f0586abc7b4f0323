"""Functions of column sums, such as ratios and corpus scores, as statistics the engine resamples."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from eval_toolkit._validate import BoolArray, FloatArray
from eval_toolkit.errors import InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.prepared import Block, Needs, Ranked

__all__ = ["NumberedColumn", "SumsFn", "SumsStatistic", "values_of_sums"]

SumsFn: TypeAlias = Callable[[FloatArray], FloatArray]
"""Sums, one line per draw and one place per column, to one value per draw; NaN where undefined."""


def values_of_sums(function: SumsFn, sums: FloatArray, name: str) -> FloatArray:
    """Return the function's values, NaN for whatever is no number.

    Raises
    ------
    InvalidTypeError
        If it does not return one value per line.

    Examples
    --------
    >>> values_of_sums(lambda s: s[:, 0] / s[:, 1], np.array([[1.0, 2.0], [1.0, 0.0]]), "share")
    array([0.5, nan])
    """
    with np.errstate(all="ignore"):
        values = np.asarray(function(sums), dtype=np.float64)
    if values.shape != (len(sums),):
        raise InvalidTypeError(
            f"{name}: the function returned the shape {values.shape} for {len(sums)} draws; it must "
            "return one value per draw"
        )
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True, eq=False)
class NumberedColumn:
    """A column of rows that are known by their number, which stands where a score would.

    The engine sorts rows by score and asks for columns of sorted rows; a row that carries its own
    number is found again whatever the order, also among the rows of a resample.
    """

    values: FloatArray

    def __call__(self, labels: BoolArray, scores: FloatArray) -> FloatArray:
        """Return the values of the numbered rows."""
        values: FloatArray = self.values[scores.astype(np.int64)]
        return values


@dataclass(frozen=True)
class SumsStatistic:
    """A function of the sums of some columns; rows must be numbered, see `NumberedColumn`.

    Examples
    --------
    >>> columns = [NumberedColumn(np.array(values)) for values in ([1.0, 2.0], [2.0, 4.0])]
    >>> ratio = SumsStatistic("share", columns, lambda sums: sums[:, 0] / sums[:, 1])
    >>> ratio.point(Ranked(np.zeros(2, dtype=bool), np.arange(2.0)))
    0.5
    """

    name: str
    columns: Sequence[NumberedColumn]
    function: SumsFn
    bounds: tuple[float, float] = (-math.inf, math.inf)

    @property
    def needs(self) -> Needs:
        """The columns, no cuts."""
        return Needs(columns=tuple(self.columns))

    def point(self, data: Ranked) -> float:
        """Return the value on the data."""
        value = float(self._of(self._table(data).sum(axis=0, keepdims=True))[0])
        if math.isnan(value):
            raise UndefinedMetricError(f"{self.name} is undefined for the sums of these units")
        return value

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return self._of(np.stack([block.total(column) for column in self.columns], axis=1))

    def leave_one_out(self, data: Ranked) -> FloatArray | None:
        """Return the values of the sums less each row; None where one does not exist."""
        table = self._table(data)
        values = self._of(table.sum(axis=0) - table)
        return None if np.isnan(values).any() else values

    def support(self, data: Ranked) -> tuple[BoolArray, ...]:
        """Every row counts."""
        return (np.ones(data.n, dtype=np.bool_),)

    def _table(self, data: Ranked) -> FloatArray:
        return np.stack([data.column(column) for column in self.columns], axis=1)

    def _of(self, sums: FloatArray) -> FloatArray:
        return values_of_sums(self.function, sums, self.name)
