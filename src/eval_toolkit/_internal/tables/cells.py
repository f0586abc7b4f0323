"""Conversion of fetched columns to plain numpy arrays."""

import contextlib
import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.tables.numbers import decimal_of


def joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate a column of several files."""
    if len(arrays) == 1:
        return arrays[0]
    if len({array.dtype.kind for array in arrays if len(array)}) > 1 and any(
        array.dtype == object for array in arrays
    ):  # numbers in one file, words in another: text, as for a single file
        arrays = [array if array.dtype == object else array.astype(str) for array in arrays]
        return np.concatenate([array.astype(object) for array in arrays])
    return np.concatenate(arrays)


def without_mask(column: Any) -> NDArray[Any]:
    """Return a plain array; masked entries become NaN in float columns, None in others."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    if not column.mask.any():
        return np.asarray(column.data)
    if column.dtype.kind == "f":
        return np.asarray(column.filled(np.nan))
    if column.dtype.kind in "mM":
        return np.asarray(column.filled(np.datetime64("NaT")))
    plain = column.data.astype(object)
    plain[column.mask] = None
    return np.asarray(plain)


def parsed(column: NDArray[Any]) -> NDArray[Any]:
    """Parse a column of JSON strings; a column of only numbers becomes a numeric array."""
    values = [None if cell is None else json.loads(cell) for cell in column.tolist()]
    types = {type(value) for value in values}
    if values and types <= {bool}:
        return np.array(values, dtype=np.bool_)
    if values and types <= {int, float}:
        with contextlib.suppress(OverflowError):
            return np.array(values, dtype=np.int64 if types == {int} else np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def guessed(column: NDArray[Any], decimal: str | None = ".") -> NDArray[Any]:
    """Return a CSV column as numbers if all cells are numbers; "007" and "" count as strings.

    The decimal mark is detected if None.
    """
    if column.dtype != object or not len(column):
        return column
    cells = column.tolist()
    if None in cells or "" in cells:
        return column
    if (decimal or decimal_of(cells)) == ",":
        if any("." in cell for cell in cells):
            return column
        cells = [cell.replace(",", ".") for cell in cells]
    for pattern, dtype in ((_INTEGER, np.int64), (_DECIMAL, np.float64)):
        if all(map(pattern.fullmatch, cells)):
            try:
                return np.array(cells, dtype=object).astype(dtype)
            except ValueError:  # "." and "e5" match the pattern but are not numbers
                return column
    return column
