"""Labels as the data spells them, made 0 and 1."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _validate
from eval_toolkit._validate import IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

__all__ = ["as_binary", "checked_label_map"]

_SPELLINGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_SHOWN = 6


def checked_label_map(label_map: Mapping[Any, int] | None) -> dict[Any, int] | None:
    """Return the map if it is one onto 0 and 1."""
    if label_map is None:
        return None
    if not isinstance(label_map, Mapping) or not label_map:
        raise InvalidTypeError(
            f"`label_map` is {label_map!r}; it must be a dict like {{'ham': 0, 'spam': 1}}"
        )
    for key, value in label_map.items():
        if isinstance(value, (bool, np.bool_)) or value not in (0, 1):
            raise InvalidInputError(f"label_map[{key!r}] is {value!r}; labels must be 0 or 1")
    return {key: int(value) for key, value in label_map.items()}


def as_binary(
    values: NDArray[Any],
    label_map: Mapping[Any, int] | None,
    *,
    column: str,
    place: Callable[[int], str],
) -> IntArray:
    """Return labels as 0 and 1.

    Parameters
    ----------
    values : ndarray of shape (n,)
        As read.
    label_map : mapping of label to 0 or 1, optional
        A key may be the value itself or its text. Without a map, numbers, booleans and their
        texts are taken.
    column : str
        For messages.
    place : callable
        Says where a row is, "file.csv: row 7".
    """
    codes: dict[Any, int] = {}
    labels = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values.tolist()):
        try:
            labels[row] = codes[value]
        except (KeyError, TypeError):  # not met before, or a list or a dict
            label = _label(value, label_map)
            if label is None:
                raise InvalidInputError(_refusal(values, row, label_map, column, place)) from None
            labels[row] = codes[value] = label
    return labels


def _label(value: Any, label_map: Mapping[Any, int] | None) -> int | None:
    if _validate.is_missing(value) or isinstance(value, (list, dict)):
        return None
    if label_map is not None:
        return label_map.get(value, label_map.get(str(value)))
    return _SPELLINGS.get(str(value).strip().lower())


def _refusal(
    values: NDArray[Any],
    row: int,
    label_map: Mapping[Any, int] | None,
    column: str,
    place: Callable[[int], str],
) -> str:
    value = values[row]
    if _validate.is_missing(value):
        return f"{place(row)}: {column!r} is missing; every row needs a label"
    plain = value.item() if isinstance(value, np.generic) else value
    where = f"{place(row)}: {column!r} is {plain!r}"
    if label_map is not None:
        known = ", ".join(map(repr, label_map))
        return f"{where}, which is not in label_map ({known}); add it there"
    found = sorted({str(other) for other in values.tolist() if not _validate.is_missing(other)})
    example = ", ".join(f"{name!r}: {int(i == 1)}" for i, name in enumerate(found[:_SHOWN]))
    more = ", …" if len(found) > _SHOWN else ""
    return f"{where}; labels must be 0 or 1: pass label_map={{{example}{more}}} with 1 for positive"
