"""Display of results: short reprs, notebook tables, Markdown and LaTeX."""

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from eval_toolkit._internal.display.cells import MISSING, Cell, Number, Rows, Text
from eval_toolkit._internal.display.tables import Table
from eval_toolkit._internal.display.to_html import bare_html_table
from eval_toolkit._internal.display.to_latex import latex_table
from eval_toolkit._internal.display.to_markdown import markdown_table
from eval_toolkit._internal.display.to_text import text_table
from eval_toolkit._internal.optional import require

_MOST_ROWS = 25
_MOST_COLUMNS = 12
_MOST_ITEMS = 6
_MOST_CHARACTERS = 60
"""Maximum length of a string in a `repr`."""


class Displayed:
    """Mixin that displays a result's fields as a table in notebooks.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, slots=True, repr=False)
    ... class Score(Displayed):
    ...     value: float
    ...     curve: tuple[float, ...]
    >>> Score(0.25, tuple(range(100)))
    Score(value=0.25, curve=100 values)
    >>> "<td>value</td><td>0.25</td>" in Score(0.25, ())._repr_html_()
    True
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return short_repr(self)

    def __str__(self) -> str:
        tables = _tables(self) if type(self).__repr__ is Displayed.__repr__ else []
        return "\n\n".join(map(_text, tables)) if len(tables) > 1 else repr(self)

    def _repr_html_(self) -> str:
        pieces = [bare_html_table(table) for table in _tables(self)]
        return pieces[0] if len(pieces) == 1 else f"<div>{''.join(pieces)}</div>"


class Tabled(Displayed):
    """Mixin for tabular results; all formats are derived from `rows`."""

    __slots__ = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per row."""
        raise NotImplementedError

    def _as_table(self) -> Table:
        """Return the table and notes used by all formats."""
        rows = self.rows()
        header = list(rows[0]) if rows else []
        return Table(header, [[_cell(value) for value in row.values()] for row in rows])

    def to_pandas(self) -> Any:
        """Return `rows` as a pandas DataFrame; needs the ``dataframe`` extra."""
        feature = f"{type(self).__name__}.to_pandas"
        return require("pandas", feature=feature, extra="dataframe").DataFrame(self.rows())

    def to_polars(self) -> Any:
        """Return `rows` as a polars DataFrame; needs polars."""
        polars = require("polars", feature=f"{type(self).__name__}.to_polars")
        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def to_markdown(self) -> str:
        """Return a Markdown table followed by its notes."""
        return markdown_table(self._as_table())

    def to_latex(self) -> str:
        """Return a LaTeX ``tabular`` followed by its notes; needs booktabs."""
        return latex_table(self._as_table())

    def __str__(self) -> str:
        return _text(_cut(self._as_table()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return bare_html_table(_cut(self._as_table()))


def _text(table: Table) -> str:

    return text_table(table.footnoted(_MOST_CHARACTERS))


def _cut(table: Table) -> Table:
    """Truncate a table; the last row states the number of omitted rows."""
    more = len(table.rows) - _MOST_ROWS
    if more <= 0:
        return table
    rest = [Text(f"… {more} more"), *[MISSING] * (len(table.header) - 1)]
    return dataclasses.replace(table, rows=[*table.rows[:_MOST_ROWS], rest])


def short_repr(result: Any) -> str:
    """Return a one-line representation of a dataclass; long values are replaced by their sizes.

    Examples
    --------
    >>> from dataclasses import make_dataclass
    >>> short_repr(make_dataclass("Point", ["x", "by"])(1.5, dict.fromkeys(range(9))))
    'Point(x=1.5, by=9 entries)'
    """
    parts = (f"{name}={_brief(value)}" for name, value in _fields(result))
    return f"{type(result).__name__}({', '.join(parts)})"


def _fields(result: Any) -> list[tuple[str, Any]]:
    return [
        (item.name, getattr(result, item.name))
        for item in dataclasses.fields(result)
        if item.repr and not item.name.startswith("_")
    ]


def _brief(value: Any) -> str:
    """Return a short representation of a value for a ``repr``."""
    if _is_array(value):
        return f"{math.prod(value.shape)} values"
    if isinstance(value, Mapping) and type(value).__repr__ is dict.__repr__:
        return repr(value) if len(repr(value)) <= _MOST_CHARACTERS else f"{len(value)} entries"
    if isinstance(value, str | list | tuple) and not _is_named_tuple(value):
        whole = repr(value)
        if len(whole) <= _MOST_CHARACTERS:
            return whole
        if isinstance(value, str):
            return f"{value[: _MOST_CHARACTERS - 10]!r}…"
        return f"{len(value)} {'items' if value and _is_record(value[0]) else 'values'}"
    if isinstance(value, Displayed) and len(repr(value)) > _MOST_CHARACTERS:
        return _estimate(value) or f"{type(value).__name__}(…)"
    return repr(value)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and value.shape != ()


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _tables(result: Any) -> list[Table]:
    """Return a table of a result's fields, and one table for each list of results."""
    facts: list[tuple[str, Cell]] = []
    tables: list[Table] = []
    for name, value in _fields(result):
        records = _records_in(value)
        if isinstance(value, Tabled):
            facts.append((name, Text("below")))
            tables.append(_cut(value._as_table()))
        elif records:
            facts.append((name, Text(f"{len(records)}, below")))
            tables.append(_record_table(name, records))
        elif _is_nested(value):
            facts.append((name, Text("below")))
            tables += _tables(value)
        else:
            facts.append((name, _cell(value)))
    return [Table([type(result).__name__, ""], facts), *tables]


def _is_nested(value: Any) -> bool:
    """Return whether a value is a result that contains results, which do not fit in a cell."""
    return (
        isinstance(value, Displayed)
        and type(value).__repr__ is Displayed.__repr__
        and _is_record(value)
        and any(isinstance(item, Displayed) for _, item in _fields(value))
    )


def _records_in(value: Any) -> list[tuple[str, Any]]:
    """Return the results contained in a field, by name or number."""
    if isinstance(value, Mapping):
        found = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple) and not _is_record(value):
        found = [(str(number), item) for number, item in enumerate(value)]
    else:
        return []
    kinds = {type(item) for _, item in found}
    return found if len(kinds) == 1 and _is_record(found[0][1]) else []


def _record_table(name: str, records: list[tuple[str, Any]]) -> Table:
    lines = [{field: _cell(value) for field, value in _fields(record)} for _, record in records]
    columns = [field for field in lines[0] if any(line[field] for line in lines)][:_MOST_COLUMNS]
    rows: Rows = [
        [key, *(line[field] for field in columns)]
        for (key, _), line in zip(records, lines, strict=True)
    ]
    return _cut(Table([name, *columns], rows))


def _cell(value: Any) -> Cell:
    """Convert a value to a cell: a number, a short string, or an empty cell for None."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, float):
        return Number(value, ".6g")
    if isinstance(value, int) and not isinstance(value, bool):
        return Number(value, "d")  # may be a seed: no thousands separators
    return MISSING if value is None else Text(_shown(value))


def _shown(value: Any) -> str:
    """Return a short string for a value, with the first items of mappings, lists and arrays."""
    if _is_array(value):
        return _array_shown(value)
    if isinstance(value, Mapping) and not isinstance(value, Displayed):
        items = [f"{key}: {_cell(item)}" for key, item in list(value.items())[:_MOST_ITEMS]]
        return _listed(items, len(value))
    if isinstance(value, list | tuple | set | frozenset):
        return _listed([str(_cell(item)) for item in list(value)[:_MOST_ITEMS]], len(value))
    if isinstance(value, Displayed):
        return _estimate(value) or repr(value)
    return str(value)


def _estimate(value: Displayed) -> str:
    """Return an estimate with its interval; "" for other results and estimates without numbers."""
    try:
        if type(value).__format__ is not object.__format__:
            return format(value)
        ends = value.ci_low, value.ci_high  # type: ignore[attr-defined]
        return "{:.3f} [{:.3f}, {:.3f}]".format(value.proportion, *ends)  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):
        return ""


def _listed(items: list[str], n: int) -> str:
    return ", ".join(items) + (f", … ({n} in total)" if n > len(items) else "")


def _array_shown(array: Any) -> str:
    n = math.prod(array.shape)
    if n <= _MOST_ITEMS:
        return ", ".join(str(_cell(item)) for item in array.ravel().tolist())
    if array.dtype.kind in "iuf":
        return f"{n} values from {_cell(array.min().item())} to {_cell(array.max().item())}"
    return f"{n} values, first: {_cell(array.ravel()[0])}"
