"""A page as one HTML file in the look of the report; every text in it is escaped and bounded."""

import html
import re
from collections.abc import Iterator, Sequence

from eval_toolkit.report.meaning import meaning, numeric, stated, value_and_interval
from eval_toolkit.report.pages import Page, Table
from eval_toolkit.report.rendering import content_policy, stylesheet
from eval_toolkit.report.words import one_line, visible

__all__ = ["html_page"]

_LONG = 24
"""Texts beyond this get a column that is wide enough to read."""
_BETWEEN = re.compile(r"[_/](?=\w)")
_CLASSES = {
    "good": "better",
    "bad": "worse",
    "warning": "worse",
    "error": "status-error",
    "skipped": "status-skipped",
}


def html_page(page: Page) -> str:
    """Return a page that loads nothing and runs nothing.

    Parameters
    ----------
    page : Page
        What there is to say.

    Returns
    -------
    str
        A whole HTML document.
    """
    body = "\n".join(_body(page))
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(content_policy([]))}">'
        f"<title>{_escaped(page.title)}</title>\n<style>{stylesheet()}</style></head>\n"
        f'<body>\n<main class="wrap">\n{body}\n</main>\n</body>\n</html>'
    )


def _body(page: Page) -> Iterator[str]:
    yield f"<h1>{_escaped(page.title)}</h1>"
    if page.lead:
        said, *how = map(_escaped, page.lead)
        rest = "".join(f'<p class="how">{line}</p>' for line in how)
        yield f'<div class="answer"><p class="said">{said}</p>{rest}</div>'
    yield from map(_table, page.tables)
    if page.notes:
        items = "".join(f"<li>{_escaped(note)}</li>" for note in page.notes)
        yield f'<ul class="notes">{items}</ul>'


def _table(table: Table) -> str:
    numbers = numeric(table)
    states = stated(table, numbers)
    title = _escaped(table.title)
    caption = f"<caption>{title}</caption>" if table.title else ""
    head = "".join(
        f'<th scope="col" class="num">{_escaped(name)}</th>'
        if number
        else f'<th scope="col">{_escaped(name)}</th>'
        for name, number in zip(table.header, numbers, strict=True)
    )
    body = "".join(f"<tr>{_row(row, numbers, states)}</tr>\n" for row in table.rows)
    label = title or _escaped(", ".join(filter(None, table.header))) or "Table"
    # The box scrolls where the table is wider than the screen, by keyboard too.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>{caption}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _row(row: Sequence[str], numbers: Sequence[bool], states: Sequence[bool]) -> str:
    cells = list(zip(row, numbers, states, strict=True))
    first, number, state = cells[0]
    kind = "name num" if number else "name"
    named = f'<th scope="row" class="{kind}">{_breakable(_content(first, state))}</th>'
    return named + "".join(_cell(*cell) for cell in cells[1:])


def _cell(text: str, number: bool, state: bool) -> str:
    kind = "num" if number else "words" if len(text) > _LONG else ""
    return (
        f'<td class="{kind}">{_content(text, state)}</td>'
        if kind
        else (f"<td>{_content(text, state)}</td>")
    )


def _content(text: str, state: bool) -> str:
    """Return a cell: its interval is quieter than its value, its state looks like what it is."""
    if pair := value_and_interval(text):
        value, ends = map(_escaped, pair)
        return f'<span class="value">{value}</span> <span class="ci">{ends}</span>'
    kind = _CLASSES.get(meaning(text), "") if state else ""
    if not kind:
        return _escaped(text)
    word, colon, reason = text.partition(":")
    rest = f' <span class="reason">{_escaped(reason.strip())}</span>' if colon else ""
    return f'<span class="{kind}">{_escaped(word)}</span>{rest}'


def _breakable(name: str) -> str:
    """Return an escaped name that a narrow screen breaks between its words."""
    return name if "<" in name else _BETWEEN.sub(r"\g<0><wbr>", name)


def _escaped(text: str) -> str:
    return html.escape(visible(one_line(text)))
