"""Conversion of values to JSON types."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError

Place = tuple[str, ...]
"""Keys from the root to a value."""
Absent = Callable[[Any, Place], Any]
"""Returns the replacement for a missing or non-finite value."""


_JSON = frozenset({str, int, bool})
"""Types that need no conversion."""


def plain(value: Any, absent: Absent = lambda value, place: None, place: Place = ()) -> Any:
    """Convert a value to JSON types: dict, list, str, int, float, bool or None.

    Keys become strings; objects are converted with ``to_dict`` if available, otherwise with `str`.
    ``absent`` returns the replacement for NaN, infinity or NaT, given the value and its path; the
    default replacement is None. Raises `InvalidInputError` if two keys become the same string.

    Examples
    --------
    >>> plain({1: (2, float("nan"))})
    {'1': [2, None]}
    """
    kind = type(value)
    if kind in _JSON or value is None:
        return value
    if kind is dict:
        return _plain_mapping(value, absent, place)
    if isinstance(value, Enum):
        return plain(value.value, absent, place)
    if isinstance(value, (int, str)):
        return int(value) if isinstance(value, int) else str(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else absent(number, place)
    if isinstance(value, np.ndarray):
        return _plain_array(value, absent, place)
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
        return plain(value.item(), absent, place)
    return _plain_container(value, absent, place)


def _plain_array(value: np.ndarray[Any, Any], absent: Absent, place: Place) -> Any:
    kind = value.dtype.kind
    if kind in "mM":  # `tolist` would turn nanoseconds into bare integers
        times = value.astype(str).astype(object)
        times[np.isnat(value)] = math.nan
        value = times
    finite = kind in "biu" or (kind == "f" and bool(np.isfinite(value).all()))
    return value.tolist() if finite else plain(value.tolist(), absent, place)


def _plain_container(value: Any, absent: Absent, place: Place) -> Any:
    if isinstance(value, Mapping):
        return _plain_mapping(value, absent, place)
    if not isinstance(value, type):
        if callable(getattr(value, "to_dict", None)):
            return plain(value.to_dict(), absent, place)
        if dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return _plain_mapping(fields, absent, place)
    if isinstance(value, (set, frozenset)):
        # sets are unordered, files need an order
        return sorted((plain(item, absent, place) for item in value), key=repr)
    if isinstance(value, (list, tuple)):
        kinds = set(map(type, value))  # a fast check of long lists
        finite = kinds <= {float, int, bool} and all(map(math.isfinite, value))
        if finite or kinds <= {str, int, bool, type(None)}:
            return list(value)
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray, Path, type)):
        return [plain(item, absent, (*place, str(i))) for i, item in enumerate(value)]
    return absent(value, place) if validation.is_missing(value) else str(value)


def _plain_mapping(value: Mapping[Any, Any], absent: Absent, place: Place) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        name = key if type(key) is str else str(key.value if isinstance(key, Enum) else key)
        if name in result:
            raise InvalidInputError(
                f"{where(place)} has two keys that become {name!r} as strings; JSON keys must be unique"
            )
        result[name] = plain(item, absent, (*place, name))
    return result


def objects(values: Iterable[Any]) -> np.ndarray[Any, Any]:
    """Return a 1-D object array with one entry per value, even if the values are lists."""
    return np.fromiter(values, dtype=object)


def where(place: Place) -> str:
    """Return a path as a string for messages."""
    return f"the value at {' → '.join(place)}" if place else "the payload"


def whole_text(text: str) -> str:
    r"""Replace lone surrogates in a string with the replacement character.

    Examples
    --------
    >>> whole_text("half \ud83d a pair") == "half \ufffd a pair"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Characters that start a formula in spreadsheets, including full-width forms."""


def csv_text(text: str) -> str:
    """Escape a string for CSV by prefixing formulas with an apostrophe.

    Examples
    --------
    >>> csv_text("=1+1"), csv_text("1+1")
    ("'=1+1", '1+1')
    """
    shown = whole_text(text).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA) else shown
