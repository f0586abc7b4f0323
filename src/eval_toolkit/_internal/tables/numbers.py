"""Parsing of numbers with a decimal point or comma, without thousands separators."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"[+-]?(?:[0-9]+,?[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_WORDS = {"true": 1.0, "false": 0.0, "nan": math.nan, "inf": math.inf, "-inf": -math.inf}
MARKS = (
    "write numbers without thousands separators and with one kind of decimal mark, or pass the mark "
    "as `decimal`"
)
_FIRST = 5


class NotNumbersError(InvalidInputError):
    """A numeric column contains cells that are not numbers."""


def decimal_of(cells: Sequence[str | None]) -> str | None:
    """Return the decimal mark of a column of strings, "." or ",", or None if ambiguous.

    The mark is a comma if some numbers contain commas and none contains a point. It is ambiguous if
    every comma may be a thousands separator (1,234).

    Examples
    --------
    >>> decimal_of(["0,5", "12", "1,234"]), decimal_of(["0.5", "12"])
    (',', '.')
    >>> decimal_of(["1,234", "5,678"]) is None
    True
    """
    if any(cell is not None and "." in cell for cell in cells):
        return "."
    may_be_thousands = False
    for cell in cells:
        if cell is None or "," not in cell:
            continue
        if _THOUSANDS.fullmatch(cell.strip()):
            may_be_thousands = True
        elif _COMMA.fullmatch(cell.strip()):
            return ","
    return None if may_be_thousands else "."


def numbers_in(cells: Sequence[str | None], decimal: str = ".") -> FloatArray:
    """Parse strings as numbers; missing and invalid values become NaN.

    Examples
    --------
    >>> numbers_in(["0,5", " 2 ", "x", None], ",").tolist()
    [0.5, 2.0, nan, nan]
    """
    try:
        return _all_numbers(cells, decimal)
    except (TypeError, ValueError):  # not every cell is a number
        pass
    pattern = _NUMBER if decimal == "." else _COMMA
    found = np.full(len(cells), math.nan)
    for row, cell in enumerate(cells):
        if cell is not None and pattern.fullmatch(text := cell.strip()):
            found[row] = float(text if decimal == "." else text.replace(",", "."))
    return found


def _all_numbers(cells: Sequence[Any], decimal: str) -> FloatArray:
    """Parse cells that are all numbers (fast path)."""
    text = "\0".join(cells)
    if not text.isascii() or "_" in text or (decimal == "," and "." in text):
        raise ValueError
    text = text if decimal == "." else text.replace(",", ".")
    found = np.array([float(cell) for cell in text.split("\0")])
    if len(found) != len(cells) or not np.isfinite(found).all():  # a cell contains a NUL
        raise ValueError
    return found


def number_in(cell: str | None) -> float | None:
    """Parse a string as a number, with 1 and 0 for true and false; None for other strings.

    Infinities and NaN are also parsed, so messages can report them.

    Examples
    --------
    >>> number_in(" 0.5 "), number_in("TRUE"), number_in("inf"), number_in("1_0")
    (0.5, 1.0, inf, None)
    """
    word = "" if cell is None else cell.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    return float(word) if _NUMBER.fullmatch(word) else None


def not_numbers(
    place: Callable[[int], tuple[str, str]],
    column: str,
    cells: Sequence[str | None],
    rows: Sequence[int],
    mark: str | None,
) -> NotNumbersError:
    """Return the error for non-numeric cells, with locations and advice on commas.

    ``mark`` is the result of `decimal_of` for the column.
    """

    def describe(row: int) -> str:
        return f"{place(row)[1]} {_shown(cells[row])}"

    hint = ""
    if mark is None:
        hint = ": the comma may separate thousands; pass decimal=',' if it is a decimal comma"
    elif any("," in (cells[row] or "") for row in rows):
        hint = f": {MARKS}"
    where = ": ".join(place(rows[0]))
    return NotNumbersError(
        f"{where}: {column!r} is {_shown(cells[rows[0]])}; it must be a finite number"
        f"{also_in(rows, describe)}{hint}"
    )


def _shown(cell: str | None) -> str:
    return "missing" if cell is None else f"{cell!r:.60}"


def also_in(rows: Sequence[int], describe: Callable[[int], str]) -> str:
    """Return the number of invalid rows and the first five in parentheses, or "" for a single row.

    Examples
    --------
    >>> also_in([2, 4], lambda row: f"row {row} 'x'")
    " (2 such rows: row 2 'x', row 4 'x')"
    """
    if len(rows) < 2:
        return ""
    more = ", …" if len(rows) > _FIRST else ""
    return f" ({len(rows)} such rows: {', '.join(map(describe, rows[:_FIRST]))}{more})"
