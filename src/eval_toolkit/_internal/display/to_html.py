"""Tables as HTML; text is escaped and truncated, and hidden characters are made visible."""

import html
import re
from collections.abc import Sequence

from eval_toolkit._internal.display.cells import Cell, Estimate, Status, Text, exact
from eval_toolkit._internal.display.tables import Column, Table
from eval_toolkit._internal.words import visible

_MOST_IN_A_NOTEBOOK = 300
_LONG = 24
"""Minimum text length for a wide column."""
_BETWEEN = re.compile(r"[_/=](?=\w)")
_CLASSES = {
    "good": "better",
    "bad": "worse",
    "warning": "worse",
    "error": "status-error",
    "skipped": "status-skipped",
}


def html_text(text: object, limit: int = 2000) -> str:
    """Return an escaped string of bounded length.

    Examples
    --------
    >>> html_text("<b>" + chr(0x202E))
    '&lt;b&gt;⟨U+202E⟩'
    """
    return html.escape(visible(text, limit))


def bare_html_table(table: Table) -> str:
    """Return an unstyled table, for notebooks with their own theme.

    Examples
    --------
    >>> bare_html_table(Table(["a"], [["<b>"]]))
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{_short(name)}</th>" for name in table.header)
    body = "".join(
        "<tr>" + "".join(f"<td>{_short(text)}</td>" for text in row) + "</tr>"
        for row in table.texts()
    )
    made = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    notes = "".join(f"<li>{_short(note)}</li>" for note in table.notes)
    return f"<div>{made}<ul>{notes}</ul></div>" if notes else made


def _short(text: object) -> str:
    return html_text(text, _MOST_IN_A_NOTEBOOK)


def html_table(table: Table, *, sortable: bool = False) -> str:
    """Return a table in a scrollable box, styled for the report.

    If ``sortable``, users can sort the table by clicking a column name (needs the report's
    script).

    Examples
    --------
    >>> '<td class="num">12</td>' in html_table(Table(["a", "n"], [["b", 12]]))
    True
    """
    title = html_text(table.title)
    caption = f"<caption><span>{title}</span></caption>" if table.title else ""
    head = "".join(
        f'<th scope="col"{_attributes("num" if column.numeric else "")}>{html_name(column.name, 2000)}</th>'
        for column in table.columns
    )
    body = "".join(f"<tr>{_row(row, table.columns, sortable)}</tr>\n" for row in table.rows)
    label = title or html_text(", ".join(filter(None, table.header))) or "Table"
    notes = "".join(f"<li>{html_text(note)}</li>" for note in table.notes)
    # The box scrolls, also by keyboard, if the table is wider than the screen.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"<table{' data-sortable' if sortable else ''}>{caption}"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def _row(row: Sequence[Cell], columns: list[Column], sortable: bool) -> str:
    first, *rest = row
    kind = "name num" if columns[0].numeric else "name"
    named = f'<th scope="row"{_attributes(kind)}>{_breakable(first)}</th>'
    return named + "".join(
        _cell(cell, column, sortable) for cell, column in zip(rest, columns[1:], strict=True)
    )


def _cell(cell: Cell, column: Column, sortable: bool) -> str:
    kind = "num" if column.numeric else "words" if len(cell.text) > _LONG else ""
    value = next(iter(cell.parts.values())) if sortable and cell.numeric else None
    return f"<td{_attributes(kind, value)}>{_content(cell)}</td>"


def _attributes(kind: str, value: float | None = None) -> str:
    sort = exact(value)
    return (f' class="{kind}"' if kind else "") + (
        f' data-sort="{sort!r}"' if sort is not None else ""
    )


def _content(cell: Cell) -> str:
    """Return the HTML of a cell, with styles for intervals and statuses."""
    if isinstance(cell, Estimate) and all(cell.texts):
        value, ends = map(html_text, cell.texts)
        return f'<span class="value">{value}</span> <span class="ci">{ends}</span>'
    kind = _CLASSES.get(cell.meaning, "") if isinstance(cell, Status) else ""
    if not isinstance(cell, Status) or not kind:
        return html_text(cell.text)
    rest = cell.text.removeprefix(cell.word).removeprefix(":").strip()
    why = f' <span class="reason">{html_text(rest)}</span>' if rest else ""
    return f'<span class="{kind}">{html_text(cell.word)}</span>{why}'


def _breakable(cell: Cell) -> str:
    """Insert line-break opportunities between the words of a name."""
    shown = _content(cell)
    return _broken_up(shown) if isinstance(cell, Text) else shown


def html_name(name: object, limit: int) -> str:
    """Return an escaped name of bounded length that may wrap between its words.

    Examples
    --------
    >>> html_name("recall_at_<b>", 80)
    'recall_<wbr>at_&lt;b&gt;'
    """
    return _broken_up(html_text(name, limit))


def _broken_up(shown: str) -> str:
    return _BETWEEN.sub(r"\g<0><wbr>", shown)
