"""Resampled statistics that are functions of column sums, such as ratios and corpus scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference.columns import Columns, Needs, Summand, Term

if TYPE_CHECKING:
    from eval_toolkit.inference.resample_blocks import Block

SumsFn: TypeAlias = Callable[[FloatArray], FloatArray]
"""Function of sums, shape (draws, summands), that returns one value per draw, NaN if undefined."""


def values_of_sums(function: SumsFn, sums: FloatArray, name: str) -> FloatArray:
    """Return the values of a function of sums; NaN for non-finite values.

    Raise an error unless the function returns one value per row.

    Examples
    --------
    >>> values_of_sums(lambda s: s[:, 0] / s[:, 1], np.array([[1.0, 2.0], [1.0, 0.0]]), "share")
    array([0.5, nan])
    """
    with np.errstate(all="ignore"):
        values = np.asarray(function(sums), dtype=np.float64)
    if values.shape != (len(sums),):
        raise InvalidTypeError(
            f"{name}: the function returned an array of shape {values.shape} for {len(sums)} draws; it must "
            "return one value per draw"
        )
    return np.where(np.isfinite(values), values, np.nan)


@dataclass(frozen=True)
class SumsStatistic:
    """Statistic that is a function of sums of columns or terms.

    Examples
    --------
    >>> ratio = SumsStatistic("share", ("hits", "words"), lambda sums: sums[:, 0] / sums[:, 1])
    >>> ratio.point(Columns({"hits": np.array([1.0, 2.0]), "words": np.array([2.0, 4.0])}))
    0.5
    """

    name: str
    summands: tuple[Summand, ...]
    function: SumsFn
    bounds: tuple[float, float] = (-math.inf, math.inf)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the summed columns and of the columns of terms."""
        read = (one.columns if isinstance(one, Term) else (one,) for one in self.summands)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(read)))

    @property
    def needs(self) -> Needs:
        """Sums without cuts."""
        return Needs(sums=self.summands)

    def point(self, data: Columns) -> float:
        """Return the value on the data."""
        value = float(self._of(self._table(data).sum(axis=0, keepdims=True))[0])
        if math.isnan(value):
            raise UndefinedMetricError(f"{self.name} is undefined for the sums of these units")
        return value

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample."""
        return self._of(np.stack([block.total(one) for one in self.summands], axis=1))

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return the leave-one-out values; None if one is undefined."""
        table = self._table(data)
        values = self._of(table.sum(axis=0) - table)
        return None if np.isnan(values).any() else values

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return all rows."""
        return (np.ones(data.n, dtype=np.bool_),)

    def _table(self, data: Columns) -> FloatArray:
        return np.stack([data.summed(one) for one in self.summands], axis=1)

    def _of(self, sums: FloatArray) -> FloatArray:
        return values_of_sums(self.function, sums, self.name)
