"""Rendering of tables in a terminal."""

import io
from typing import Any

from rich.console import Console

from eval_toolkit._internal.display import Page, Table
from eval_toolkit._internal.display.to_terminal import terminal_text


def in_terminal(*tables: Table, width: int = 80, color: Any = None, **page: Any) -> str:
    """Return the text in a terminal of a given width; without escape sequences by default."""
    console = Console(
        width=width, force_terminal=True, color_system=color, file=io.StringIO(), no_color=False
    )
    return terminal_text(Page("page", {}, tables=tables, **page), console)
