"""Statistics of named columns: protocol, base class and function wrapper.

A statistic declares the columns it reads. It computes its value on the data (`point`), on a block
of resamples (`replicate`, NaN if undefined) and, if there is a closed form, on the data without
each row (`leave_one_out`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.kernel import LANES
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.inference.columns import SCORED, Columns, Needs

if TYPE_CHECKING:
    from eval_toolkit.inference.resample_blocks import Block


class Statistic(Protocol):
    """Metric of named columns that can be evaluated on many resamples at once."""

    @property
    def name(self) -> str:
        """Name used in messages."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns read by the statistic."""
        ...

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        ...

    @property
    def needs(self) -> Needs:
        """Columns and sums read from a block."""
        ...

    def point(self, data: Columns) -> float:
        """Return the value on the data, or raise `UndefinedMetricError`."""
        ...

    def replicate(self, block: Block) -> FloatArray:
        """Return the value on each of the block's 64 resamples, NaN where undefined."""
        ...

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return the leave-one-out values in any order; None if there is no closed form."""
        ...

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return masks of the relevant rows; the smallest one determines the sample size."""
        ...


class ColumnStatistic:
    """Base class of statistics; subclasses define ``name``, ``point`` and ``replicate``.

    Examples
    --------
    >>> from eval_toolkit.inference import Term
    >>> class Accuracy(ColumnStatistic):
    ...     name, columns, bounds = "accuracy", ("gold", "answer"), (0.0, 1.0)
    ...     hit = Term(lambda gold, answer: gold == answer, columns)
    ...     needs = Needs(sums=(hit,))
    ...     def point(self, data):
    ...         return float(self.hit.of(data).mean())
    ...     def replicate(self, block):
    ...         return block.total(self.hit) / block.size()
    >>> Accuracy().point(Columns({"gold": np.array(["a", "b"]), "answer": np.array(["a", "c"])}))
    0.5
    """

    columns: tuple[str, ...] = SCORED
    """Names of the columns read by the statistic."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Smallest and largest possible value."""
    needs: Needs = Needs()
    """Data required from a block, in addition to the row counts."""

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return None, since there is no closed form."""
        return None

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return all rows."""
        return (np.ones(data.n, dtype=np.bool_),)


def columns_of(statistic: Statistic) -> tuple[str, ...]:
    """Return the columns of a statistic; by default label and score.

    Examples
    --------
    >>> columns_of(CallableStatistic(len, columns=("answer",)))
    ('answer',)
    """
    return tuple(getattr(statistic, "columns", SCORED))


@dataclass(frozen=True)
class CallableStatistic:
    """Statistic defined by a Python function, which is called on the rows of each resample."""

    function: Callable[..., float]
    bounds: tuple[float, float] = (-math.inf, math.inf)
    foreign: bool = False
    """Whether the function is third-party. If so, resamples with a single class are undefined,
    because functions such as those of scikit-learn return NaN, 0 or 1 instead of raising an
    error."""
    label: str = ""
    """Name used in messages; by default the name of the function."""
    columns: tuple[str, ...] = SCORED
    """Arguments of the function, in order."""
    needs: Needs = field(default=Needs(rows=True), init=False)
    failures: list[str] = field(default_factory=list, init=False, compare=False, repr=False)
    """First exception raised on a resample; reported if too many resamples fail."""
    seconds: list[float] = field(default_factory=list, init=False, compare=False, repr=False)
    """Duration of the last call on the data in seconds; determines the size of tasks."""

    @property
    def name(self) -> str:
        """Name used in messages."""
        return self.label or getattr(self.function, "__name__", type(self.function).__name__)

    def point(self, data: Columns) -> float:
        """Return the value on the data."""
        started = time.perf_counter()
        value = self.function(*self._read(data))
        self.seconds[:] = [time.perf_counter() - started]
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InvalidTypeError(f"{self.name} returned {value!r}; it must be a number") from None

    def replicate(self, block: Block) -> FloatArray:
        """Return one value per resample; resamples on which the function fails are undefined."""
        data = block.view.data
        columns = self._read(data)
        both = self.foreign and "label" in self.columns and 0 < data.n_positive < data.n
        values = []
        for rows in map(block.rows, range(LANES)):
            lost = both and _is_one_class(data.labels[rows])
            values.append(math.nan if lost else self._on([column[rows] for column in columns]))
        return np.array(values)

    def _read(self, data: Columns) -> list[NDArray[Any]]:
        """Return the columns as function arguments, with labels 0 and 1."""
        columns = map(data.__getitem__, self.columns)
        return [one.astype(np.int64) if one.dtype == np.bool_ else one for one in columns]

    def _on(self, columns: list[NDArray[Any]]) -> float:
        try:
            value = float(self.function(*columns))
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # any exception of a third-party function means undefined
            if not self.failures:
                self.failures.append(f"{type(error).__name__}: {error}")
            return math.nan
        return value if math.isfinite(value) else math.nan

    def leave_one_out(self, data: Columns) -> FloatArray | None:
        """Return None, since n calls would be too expensive."""
        return None

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return a mask for each class if the function uses both, otherwise a mask of all rows."""
        labels = data.labels if "label" in self.columns else np.zeros(data.n, dtype=np.bool_)
        return tuple(mask for mask in (labels, ~labels) if mask.any())


def _is_one_class(labels: BoolArray) -> bool:
    return bool(labels.all() or not labels.any())


def seconds_of(statistic: Statistic) -> float:
    """Return the duration of a call to the statistic's Python function; 0.0 if never called."""
    return max(getattr(statistic, "seconds", ()), default=0.0)
