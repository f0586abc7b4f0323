"""Metrics that are functions of column sums: ratios and corpus-level scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.inference.column_sums import SumsFn, SumsStatistic, values_of_sums
from eval_toolkit.inference.columns import SCORED, Columns
from eval_toolkit.metric_specs.base import OfRecords, checked_columns
from eval_toolkit.metric_specs.columns import ColumnSpec, Direction, check_bounds, direction
from eval_toolkit.metric_specs.families import is_of_columns, is_of_sums
from eval_toolkit.protocols import MetricSpec


def columns_read(spec: MetricSpec) -> tuple[str, ...]:
    """Return the record columns that a metric reads.

    Examples
    --------
    >>> from eval_toolkit.metric_specs import mean_of, roc_auc
    >>> columns_read(roc_auc), columns_read(mean_of("reward"))
    (('label', 'score'), ('reward',))
    """
    if isinstance(spec, ColumnSpec):
        return (spec.column,)
    if is_of_sums(spec) or is_of_columns(spec):
        return spec.columns
    from eval_toolkit.metric_specs.scores import ScoreSpec

    return spec.columns if isinstance(spec, ScoreSpec) else SCORED


@dataclass(frozen=True)
class SumsSpec(OfRecords):
    """Function of the sums of several columns of records, as returned by `from_sums`.

    Examples
    --------
    >>> spec = from_sums("share", ["hits", "words"], lambda sums: sums[:, 0] / sums[:, 1])
    >>> spec.of_sums([[1.0, 4.0], [1.0, 0.0]]).tolist()
    [0.25, nan]
    """

    family: ClassVar[str] = "sums"
    name: str
    columns: tuple[str, ...]
    function: SumsFn = field(repr=False)
    higher_is_better: bool | None = True
    """Whether higher is better; None if neither direction is better."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value, if known."""

    def __post_init__(self) -> None:
        check_bounds(self.bounds)

    def of_sums(self, sums: Any) -> FloatArray:
        """Return the value for each row of sums; NaN if undefined."""
        return values_of_sums(self.function, np.asarray(sums, dtype=np.float64), self.name)

    @property
    def statistic(self) -> SumsStatistic:
        """Statistic of the summed columns."""
        return SumsStatistic(self.name, self.columns, self.function, self.bounds)

    def data_of(self, values: Mapping[str, NDArray[Any]]) -> Columns:
        """Return the columns that are summed."""
        return Columns({column: values[column] for column in self.columns})


def ratio(sums: FloatArray) -> FloatArray:
    """Return the first sum divided by the second."""
    values: FloatArray = sums[:, 0] / sums[:, 1]
    return values


def ratio_of(
    name: str,
    above: str,
    below: str,
    *,
    higher_is_better: Direction = "by name",
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> SumsSpec:
    """Return a metric that is a ratio of two column sums, such as bits per byte.

    Parameters
    ----------
    name : str
        Name of the metric.
    above, below : str
        Columns of the numerator and the denominator.
    higher_is_better, bounds
        As in `from_sums`.

    Returns
    -------
    SumsSpec
        Spec that `compare_runs` can reconstruct from a stored run.

    Raises
    ------
    InvalidInputError
        If a name is empty, or the bounds are not increasing.

    Examples
    --------
    >>> ratio_of("bits_per_byte_total", "bits", "bytes").of_sums([[6.0, 4.0]])
    array([1.5])
    """
    return from_sums(name, [above, below], ratio, higher_is_better=higher_is_better, bounds=bounds)


def from_sums(
    name: str,
    columns: Sequence[str],
    function: SumsFn,
    *,
    higher_is_better: Direction = "by name",
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> SumsSpec:
    """Return a metric that is a function of column sums, such as a ratio or corpus BLEU.

    Parameters
    ----------
    name : str
        Name of the metric.
    columns : sequence of str
        Columns of the records to sum. Attempts at a unit are first reduced to one value per column
        (their mean by default); units with missing values are excluded.
    function : callable
        Function that takes sums of shape (n_draws, len(columns)) and returns one value per draw,
        NaN if undefined. It is called for many resamples at once.
    higher_is_better : bool, None or "by name", default "by name"
        Direction, for gates and comparisons; by default derived from the metric's name, and None
        for unknown names.
    bounds : tuple of float
        Smallest and largest possible value, if known; intervals stay within these bounds.

    Returns
    -------
    SumsSpec
        Spec for `summarise` and `compare_records`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a name is empty, there are no columns, the function is not callable, or the bounds are
        not increasing.

    Examples
    --------
    >>> from eval_toolkit.scorecards import Records, summarise
    >>> records = Records.from_columns({"bits": [8.0, 30.0], "bytes": [4.0, 6.0]})
    >>> spec = from_sums("bits_per_byte", ["bits", "bytes"], lambda sums: sums[:, 0] / sums[:, 1])
    >>> summarise(records, [spec])["bits_per_byte"].value
    3.8
    """
    named = checked_columns(name, columns)
    if not callable(function):
        raise InvalidTypeError(f"`function` is {function!r}; it must be callable")
    up = direction(higher_is_better, name)
    return SumsSpec(name, named, function, up, bounds)
