"""Generated reference pages, written to ``reference/made`` before the site is built."""

from pathlib import Path
from typing import Any

from docs._ext.api import api_pages, known_names
from docs._ext.commands import command_pages
from docs._ext.docstrings import prepared
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

__all__ = ["setup", "write_pages"]


def write_pages(folder: Path) -> None:
    """Write a page per command and module; remove obsolete pages."""
    pages = {folder / "cli" / f"{name}.md": text for name, text in command_pages().items()}
    pages |= {folder / "api" / f"{name}.rst": text for name, text in api_pages().items()}
    for old in [*folder.glob("cli/*"), *folder.glob("api/*")]:
        if old not in pages:
            old.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text("utf-8") != text:  # else it is read again
            path.write_text(text, "utf-8")


def _made(app: Sphinx) -> None:
    write_pages(Path(app.srcdir) / "reference" / "made")


def _prepare(
    _app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = prepared(lines, known_names())


def _without_foreign_links(_app: Sphinx, doctree: nodes.document) -> None:
    """Remove links to foreign names, whose lookup takes half of the build time."""
    for node in [*doctree.findall(addnodes.pending_xref)]:
        if node.get("refdomain") == "py" and not node["reftarget"].startswith("eval_toolkit."):
            node.replace_self(_short_form(node))


def _short_form(node: addnodes.pending_xref) -> list[nodes.Node]:
    """Return the text of a link: ``Path`` rather than ``pathlib.Path``."""
    offered = [one for one in node.children if isinstance(one, addnodes.pending_xref_condition)]
    short = [one for one in offered if one.get("condition") == "resolved"]
    return list(short[0].children) if short else list(node.children)


def _with_dashes(_app: Sphinx, doctree: nodes.document) -> None:
    """Replace the two hyphens between a parameter and its description by a dash."""
    for listed in doctree.findall(nodes.field):
        for text in [*listed.findall(nodes.Text)]:
            if text.startswith((" -- ", ") -- ")):
                text.parent.replace(text, nodes.Text(text.replace(" -- ", " – ", 1)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension: write pages first, and convert docstrings before napoleon."""
    app.connect("builder-inited", _made)
    app.connect("autodoc-process-docstring", _prepare, priority=400)
    app.connect("doctree-read", _without_foreign_links)
    app.connect("doctree-read", _with_dashes)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
