"""Charts on a page: a ``python figure CAPTION`` fence is rendered as code followed by its chart.

A page with figures is executed when the site is built, as in the tests. Charts are inline SVG with the
colour variables of the page, so they follow the light and dark themes.
"""

import hashlib
import html
import re
from pathlib import Path
from typing import Any

import vl_convert
from docs._ext.blocks import fences, run_page
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from eval_toolkit.report.figures import themed

__all__ = ["picture", "setup"]


def picture(chart: Any) -> str:
    """Return a chart as an accessible SVG element with the page's colours."""
    spec = chart.to_dict()
    shown = {**themed(spec), "$schema": spec["$schema"]}
    svg = vl_convert.vegalite_to_svg(shown, allowed_base_urls=[])
    mark = hashlib.sha256(svg.encode()).hexdigest()[:10]
    svg = re.sub(r'(?<= id="|url\(#)(?=clip\d)', f"figure-{mark}-", svg)  # ids of no other figure
    said = html.escape(spec.get("description", ""), quote=True)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{said}" ', 1)


def _draw(app: Sphinx, doctree: nodes.document) -> None:
    """Insert the chart below the code of every figure."""
    source = Path(app.env.doc2path(app.env.docname))
    if source.suffix != ".md":
        return
    python = [fence for fence in fences(source.read_text("utf-8")) if fence.language == "python"]
    if not any(fence.is_figure for fence in python):
        return
    try:
        charts = run_page(source, compare=False).figures
    except Exception as error:
        raise ExtensionError(f"{source.name} does not run: {error}", error) from error
    blocks = [
        node for node in doctree.findall(nodes.literal_block) if node.get("language") == "python"
    ]
    for fence, block in zip(python, blocks, strict=True):
        if not fence.is_figure:
            continue
        if block.astext().strip() != fence.code.strip():
            raise ExtensionError(f"{source.name}, line {fence.line}: not the block on the page")
        caption = f"<figcaption>{html.escape(fence.caption)}</figcaption>" if fence.caption else ""
        element = f'<figure class="chart">{picture(charts[fence.line])}{caption}</figure>'
        place = block.parent.index(block) + 1
        block.parent.insert(place, nodes.raw("", element, format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("doctree-read", _draw)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
