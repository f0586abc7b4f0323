"""Tables of typed cells with one renderer per format, and results as people look at them."""

from eval_toolkit._internal.display.cells import (
    MISSING,
    Cell,
    CellLike,
    Count,
    Estimate,
    Interval,
    Missing,
    Number,
    Rows,
    Share,
    Status,
    Text,
)
from eval_toolkit._internal.display.results import Displayed, Tabled, short_repr
from eval_toolkit._internal.display.tables import Alert, Column, Page, Table

__all__ = [
    "MISSING",
    "Alert",
    "Cell",
    "CellLike",
    "Column",
    "Count",
    "Displayed",
    "Estimate",
    "Interval",
    "Missing",
    "Number",
    "Page",
    "Rows",
    "Share",
    "Status",
    "Table",
    "Tabled",
    "Text",
    "short_repr",
]
