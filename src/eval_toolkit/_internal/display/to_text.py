"""Tables and pages as aligned plain text of unlimited width."""

from eval_toolkit._internal.display.tables import Page, Table
from eval_toolkit._internal.words import one_line


def text_table(table: Table) -> str:
    """Return a table as aligned plain text, followed by its notes.

    Examples
    --------
    >>> print(text_table(Table(["metric", "n"], [["f1", 1200]], notes=["of all rows"])))
    metric  n
    ------  -----
    f1      1,200
    of all rows

    A header without names is left out.

    >>> print(text_table(Table(["", ""], [["samples", 60]])))
    samples  60
    """
    lines = [[one_line(cell) for cell in line] for line in (table.header, *table.texts())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines[1:1] = [["-" * width for width in widths]]
    if not any(table.header):
        del lines[:2]
    body = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    title = [one_line(table.title)] if table.title else []
    return "\n".join([*title, *body, *map(one_line, table.notes)])


def text_page(page: Page) -> str:
    """Return a page as plain text without colours or frames."""
    blocks = ["\n".join(map(one_line, page.lead))] if page.lead else []
    blocks += map(text_table, page.tables)
    if page.notes:
        blocks.append("\n".join(map(one_line, page.notes)))
    return "\n\n".join(blocks)
