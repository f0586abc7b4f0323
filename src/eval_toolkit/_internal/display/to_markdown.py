"""Tables and pages as Markdown with links, images and markup escaped."""

import html
import re
from collections.abc import Sequence

from eval_toolkit._internal.display.tables import Page, Table
from eval_toolkit._internal.words import flat

_SIGNS = re.compile(
    r"[\\|`*~$^@]"  # cells, code, emphasis, formulas, autolinked names
    r"|!(?=\[)|\[(?![-+.\d]|$)|\](?=[(\[:])"  # images, links; brackets of intervals are kept
    r"|:(?=//)|(?<=www)\."  # URLs are autolinked
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; underscores within names are kept
    r"|^(?:#|[+-](?=\s)|-(?=--)|\d+[.)](?=\s))",  # headings, lists, rules
    re.IGNORECASE,
)


def markdown_text(text: object) -> str:
    r"""Return a string escaped for Markdown, without links, images or markup.

    Examples
    --------
    >>> print(markdown_text("a|b <i> ![x](http://e.org)"), markdown_text("pr_auc [0.1, 0.2]"))
    a\|b &lt;i&gt; \!\[x\](http\://e.org) pr_auc [0.1, 0.2]
    """
    escaped = html.escape(flat(text), quote=False)
    return _SIGNS.sub(lambda sign: f"{sign[0][:-1]}\\{sign[0][-1]}", escaped)


def markdown_table(table: Table) -> str:
    r"""Return a Markdown table with right-aligned numbers, followed by its notes as a list.

    Examples
    --------
    >>> print(markdown_table(Table(["metric", "n"], [["a|b", 12]], notes=["of all rows"])))
    | metric | n |
    |---|---:|
    | a\|b | 12 |
    <BLANKLINE>
    - of all rows
    """
    lines = [
        "| " + " | ".join(map(markdown_text, line)) + " |"
        for line in (table.header, *table.texts())
    ]
    lines.insert(1, "".join("|---:" if one.numeric else "|---" for one in table.columns) + "|")
    title = markdown_text(table.title)
    above = [f"**{title}**", ""] if title else []
    return "\n".join([*above, *lines, *(["", *_listed(table.notes)] if table.notes else [])])


def _listed(notes: Sequence[str]) -> list[str]:
    return [f"- {markdown_text(note)}" for note in notes]


def markdown_page(page: Page) -> str:
    """Return a page as Markdown."""
    blocks = [f"## {markdown_text(page.title)}", *map(markdown_text, page.lead)]
    blocks += map(markdown_table, page.tables)
    if page.notes:
        blocks.append("\n".join(_listed(page.notes)))
    return "\n\n".join(blocks)
