"""Render a page as a single HTML file in the style of reports, with all text escaped."""

import html
from collections.abc import Iterator

from eval_toolkit._internal.display import Page
from eval_toolkit._internal.display.to_html import html_table, html_text
from eval_toolkit.report.rendering import content_policy, stylesheet


def html_page(page: Page) -> str:
    """Return a page as an HTML document without scripts or external resources."""
    body = "\n".join(_body(page))
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(content_policy([]))}">'
        f"<title>{html_text(page.title)}</title>\n<style>{stylesheet()}</style></head>\n"
        f'<body>\n<main class="wrap">\n{body}\n</main>\n</body>\n</html>'
    )


def _body(page: Page) -> Iterator[str]:
    yield f"<h1>{html_text(page.title)}</h1>"
    if page.lead:
        said, *how = map(html_text, page.lead)
        rest = "".join(f'<p class="how">{line}</p>' for line in how)
        yield f'<div class="answer"><p class="said">{said}</p>{rest}</div>'
    yield from map(html_table, page.tables)
    if page.notes:
        items = "".join(f"<li>{html_text(note)}</li>" for note in page.notes)
        yield f'<ul class="notes">{items}</ul>'
