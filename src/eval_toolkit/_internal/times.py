"""Parsing of times (numbers, dates, ISO 8601 strings) for splitters and checks."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError

Clock: TypeAlias = Literal["number", "date", "date with a time zone"]


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a column, all of the same kind."""

    name: str
    n: int
    kind: Clock
    rows: IntArray
    """Rows with a time."""
    values: NDArray[Any]
    """Times of these rows: numbers, or datetime64 (in UTC if they have a time zone)."""

    def complete(self) -> NDArray[Any]:
        """Return one time per row; raise for the first row without a time."""
        if len(self.rows) < self.n:
            row = int(np.setdiff1d(np.arange(self.n), self.rows)[0])
            raise InvalidInputError(f"{self.name}[{row}] is missing; every row needs a time")
        return self.values


def read_times(values: NDArray[Any], name: str) -> Times:
    """Parse an array of times; missing times are allowed.

    Times are finite numbers, dates, timestamps or ISO 8601 strings, and None, NaN or NaT if
    missing. Numbers, naive times and time-zone-aware times cannot be mixed.
    """
    if values.dtype.kind == "M":
        rows = np.flatnonzero(~np.isnat(values))
        return Times(name, len(values), "date", rows, values[rows])
    if values.dtype.kind in "iuf":
        rows = np.flatnonzero(~np.isnan(values))
        return Times(name, len(values), "number", rows, _numbers(values[rows], rows, name))
    given = values.astype(object).tolist()
    present = [row for row, value in enumerate(given) if not validation.is_missing(value)]
    moments = [_moment(given[row], f"{name}[{row}]") for row in present]
    kinds = [_kind(moment) for moment in moments]
    for row, kind in zip(present, kinds, strict=True):
        if kind != kinds[0]:
            raise InvalidInputError(
                f"{name}[{row}] is {given[row]!r}, a {kind}, but {name}[{present[0]}] is a "
                f"{kinds[0]}; all times must be of the same kind to be ordered"
            )
    clock: Clock = kinds[0] if kinds else "date"
    rows = np.array(present, dtype=np.int64)
    if clock == "number":
        return Times(name, len(given), clock, rows, _numbers(np.array(moments), rows, name))
    if clock == "date with a time zone":
        moments = [moment.astimezone(UTC).replace(tzinfo=None) for moment in moments]
    return Times(name, len(given), clock, rows, np.array(moments, dtype="M8[us]"))


def _numbers(values: NDArray[Any], rows: IntArray, name: str) -> NDArray[Any]:
    """Return finite numbers that can be subtracted: int64 if they fit, else float64."""
    if values.dtype.kind not in "iuf":  # integers beyond 64 bits
        values = values.astype(np.float64)
    infinite = ~np.isfinite(values)
    if infinite.any():
        at = int(np.argmax(infinite))
        raise InvalidInputError(f"{name}[{rows[at]}] is {values[at]}; a time must be finite")
    if values.dtype.kind == "f":
        return values
    fits = values.max(initial=0) <= np.iinfo(np.int64).max
    return values.astype(np.int64 if fits else np.float64)


def _kind(moment: Any) -> Clock:
    if not isinstance(moment, datetime):
        return "number"
    return "date" if moment.tzinfo is None else "date with a time zone"


def _moment(value: Any, where: str) -> Any:
    """Convert one time to a number or a datetime."""
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            pass  # refused below
    elif hasattr(value, "to_pydatetime"):  # a pandas Timestamp; nanoseconds are truncated
        return value.to_pydatetime(warn=False)
    elif isinstance(value, datetime):
        return value
    elif isinstance(value, date):
        return datetime.combine(value, time())
    elif isinstance(value, (int, np.integer)):
        if not isinstance(value, bool):
            return int(value)
    elif isinstance(value, (Real, Decimal)):
        return float(value)
    raise InvalidInputError(
        f"{where} is {value!r}; times must be numbers, dates or ISO 8601 text "
        "like '2026-01-31T12:00:00'"
    )
