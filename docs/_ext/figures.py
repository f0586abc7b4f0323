"""Charts on a page: a ``python figure CAPTION`` fence is shown as code with its picture below it.

A page with figures is run when the site is built, block by block, as the tests run it. The pictures
are inline SVG whose colours are variables of the page, so that they follow light and dark.
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
    """Return a chart as an SVG element that speaks its description and uses the page's colours."""
    spec = chart.to_dict()
    shown = {**themed(spec), "$schema": spec["$schema"]}
    svg = vl_convert.vegalite_to_svg(shown, allowed_base_urls=[])
    mark = hashlib.sha256(svg.encode()).hexdigest()[:10]
    svg = re.sub(r'(?<= id="|url\(#)(?=clip\d)', f"figure-{mark}-", svg)  # ids of no other figure
    said = html.escape(spec.get("description", ""), quote=True)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{said}" ', 1)


def _draw(app: Sphinx, doctree: nodes.document) -> None:
    """Put below every figure's code its picture."""
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
    """Draw when a page has been read."""
    app.connect("doctree-read", _draw)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
