"""Lossless conversion of tables to JSON and back, without NaN or infinities."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from eval_toolkit._internal.display.cells import (
    Cell,
    Count,
    Estimate,
    Interval,
    Missing,
    Number,
    Share,
    Status,
    Text,
    exact,
)
from eval_toolkit._internal.display.tables import Table

_CELLS: dict[str, type[Cell]] = {
    made.kind: made for made in (Missing, Status, Number, Count, Share, Interval, Estimate)
}


def json_table(table: Table) -> dict[str, Any]:
    """Return a table as a JSON-serialisable dict.

    Each cell has its type, text and values; non-finite values are None.

    Examples
    --------
    >>> json_table(Table(["n"], [[12]]))["rows"]
    [[{'kind': 'count', 'text': '12', 'value': 12}]]
    """
    return {
        "title": table.title,
        "columns": [{"name": column.name, "kind": column.kind} for column in table.columns],
        "rows": [[_told(cell) for cell in row] for row in table.rows],
        "notes": list(table.notes),
    }


def _told(cell: Cell) -> dict[str, Any]:
    data = {"kind": cell.kind, "text": cell.text}
    if isinstance(cell, Text):
        return data
    return data | {item.name: exact(getattr(cell, item.name)) for item in fields(cell)}


def table_of_json(data: Mapping[str, Any]) -> Table:
    """Restore a table from `json_table`; non-finite numbers become text.

    Examples
    --------
    >>> table = Table(["n"], [[12]], "a title")
    >>> table_of_json(json_table(table)) == table
    True
    """
    rows = [[_cell(cell) for cell in row] for row in data["rows"]]
    header = [column["name"] for column in data["columns"]]
    return Table(header, rows, data["title"], data["notes"])


def _cell(data: Mapping[str, Any]) -> Cell:
    if data["kind"] == Text.kind:
        return Text(data["text"])
    made_of = {name: value for name, value in data.items() if name not in ("kind", "text")}
    cell = _CELLS[data["kind"]](**made_of)
    return cell if cell or not data["text"] else Text(data["text"])
