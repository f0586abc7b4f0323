"""Tables of typed cells, a renderer for each output format, and mixins that display results."""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._internal.display.cells import *
    from eval_toolkit._internal.display.results import *
    from eval_toolkit._internal.display.tables import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "cells": (
            "MISSING Cell CellLike Count Estimate Interval Missing Number Rows Share Status Text"
        ),
        "results": "Displayed Tabled short_repr",
        "tables": "Alert Column Page Table",
    },
)
