"""Tables of typed cells, one renderer per output format, and display of results."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
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

__getattr__ = names_on_use(
    __name__,
    {
        "cells": (
            "MISSING Cell CellLike Count Estimate Interval Missing Number Rows Share Status Text"
        ),
        "results": "Displayed Tabled short_repr",
        "tables": "Alert Column Page Table",
    },
)
