"""Rows read as strings: filtered, with missing values dropped, and percentages parsed.

Reading columns with their types is several times as fast, so this module is used only for files
that need it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import tables
from eval_toolkit._internal.tables import Condition, Rows, decimal_of, not_numbers, numbers_in
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, MissingColumnError

_GAPS = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?"})
"""Spellings of a missing number, in lower case."""
_LABEL_GAPS = frozenset({"", "na", "n/a", "#n/a", "nan", "null"})
"""Spellings of a missing label, in lower case; "none" is not included, as it may be a class."""
_SHOWN = 8


@dataclass(frozen=True)
class AsWritten:
    """Rows whose numbers were read as strings."""

    rows: Rows
    percent: tuple[str, ...]
    """Columns with percent signs; they are divided by 100."""
    notes: tuple[str, ...]
    """Notes on omitted rows, with counts."""


def read_as_written(
    read: Callable[..., Rows],
    have: Sequence[str],
    *,
    numbers: Sequence[str],
    texts: Sequence[str],
    label: str,
    needed: Sequence[str],
    where: Sequence[str] = (),
    drop_missing: bool = False,
    decimal: str | None = None,
) -> AsWritten:
    """Read columns as strings, select rows, and convert numbers.

    ``read`` has the signature of `read_rows`. Missing values in the label, the numbers and the
    ``needed`` columns are an error, unless ``drop_missing`` drops such rows. ``where`` are conditions as
    in `tables.conditions_of`; at least one row must satisfy them. The decimal mark is detected by default.
    """
    conditions = _conditions(where, have)
    also = [condition.column for condition in conditions]
    rows = read(texts=list(dict.fromkeys([*numbers, *texts, label, *also])))
    notes = []
    if conditions:
        met = tables.rows_that(conditions, rows.columns)
        if not met.any():
            raise InvalidInputError(_nothing_left(rows, where, also))
        notes.append(f"{int(met.sum())} of {len(rows)} rows: {' and '.join(where)}")
        rows = rows.take(np.flatnonzero(met))
    gaps = {
        name: _missing(rows.columns[name], name in numbers, name == label)
        for name in dict.fromkeys([*numbers, label, *needed])
    }
    missing: BoolArray = np.asarray(np.logical_or.reduce(list(gaps.values())), dtype=np.bool_)
    if missing.any():
        if missing.all() or not drop_missing:
            raise InvalidInputError(_refusal(rows, missing, gaps))
        n = int(missing.sum())
        count = "1 row" if n == 1 else f"{n} rows"
        notes.append(f"dropped {count} with missing values: {_counts(gaps)}")
        rows = rows.take(np.flatnonzero(~missing))
    columns, percent = dict(rows.columns), []
    for name in numbers:
        columns[name], has_signs = _numbers(rows, name, decimal)
        if has_signs:
            percent.append(name)
    return AsWritten(replace(rows, columns=columns), tuple(percent), tuple(notes))


def _conditions(where: Sequence[str], have: Sequence[str]) -> list[Condition]:
    found = [one for text in where for one in tables.conditions_of(text)]
    for condition in found:
        if condition.column not in have:
            raise MissingColumnError(
                f"`where`: there is no column {condition.column!r}; the columns are "
                f"{', '.join(map(repr, have))}"
            )
    return found


def _missing(cells: NDArray[Any], is_number: bool, is_label: bool) -> BoolArray:
    gaps = _GAPS if is_number else _LABEL_GAPS if is_label else frozenset({""})
    return np.array(
        [cell is None or cell.strip().lower() in gaps for cell in cells.tolist()], dtype=np.bool_
    )


def _counts(gaps: dict[str, BoolArray]) -> str:
    return ", ".join(f"{name!r} in {int(gap.sum())}" for name, gap in gaps.items() if gap.any())


def _refusal(rows: Rows, missing: BoolArray, gaps: dict[str, BoolArray]) -> str:
    if missing.all():
        return f"{rows.name}: every row has a missing value: {_counts(gaps)}"
    at = np.flatnonzero(missing).tolist()
    first = next(name for name, gap in gaps.items() if gap[at[0]])
    more = ""
    if len(at) > 1:
        shown = ", ".join(rows.place(row)[1] for row in at[:5])
        more = f" ({len(at)} such rows: {shown}{', …' if len(at) > 5 else ''}; {_counts(gaps)})"
    return (
        f"{rows.where(at[0])}: {first!r} is missing{more}; fill it in, or pass drop_missing=True "
        "to leave out such rows and count them"
    )


def _nothing_left(rows: Rows, where: Sequence[str], columns: Sequence[str]) -> str:
    found_values = []
    for name in dict.fromkeys(columns):
        values = sorted({str(cell) for cell in rows.columns[name].tolist() if cell is not None})
        more = ", …" if len(values) > _SHOWN else ""
        found_values.append(f"{name!r} is {', '.join(map(repr, values[:_SHOWN]))}{more}")
    return f"{rows.name}: no row satisfies `where` {' and '.join(where)}: {'; '.join(found_values)}"


def _numbers(rows: Rows, name: str, decimal: str | None) -> tuple[FloatArray, bool]:
    """Return a column as numbers, and whether they had percent signs."""
    written = rows.columns[name].tolist()
    cells = [cell.strip() for cell in written]
    n_percent = sum(cell.endswith("%") for cell in cells)
    if n_percent == len(cells):
        cells = [cell[:-1].rstrip() for cell in cells]
    mark = decimal_of(cells) if decimal is None else decimal
    numbers = numbers_in(cells, mark or ".")
    bad = np.flatnonzero(~np.isfinite(numbers)).tolist()
    if bad:
        error = not_numbers(rows.place, name, written, bad, mark)
        if 0 < n_percent < len(cells):
            raise InvalidInputError(
                f"{error}; {n_percent} of {len(cells)} cells have a percent sign: write it in "
                "every cell or in none"
            )
        raise error
    is_percent = n_percent == len(cells)
    return numbers / 100 if is_percent else numbers, is_percent
