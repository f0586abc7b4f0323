"""Links to repository files that are not pages: removed on the site.

``CHANGELOG.md`` and ``CONTRIBUTING.md`` are also pages of the site, and are linked there.
"""

import logging
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

__all__ = ["on_site", "setup"]

COPIED = {
    "CHANGELOG.md": "reference/made/changelog.md",
    "CONTRIBUTING.md": "reference/made/contributing.md",
}
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]+)\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_FENCES = re.compile(r"(^```.*?^```[ ]*$)", flags=re.MULTILINE | re.DOTALL)


def on_site(text: str, *, page: str, docs: Path, origin: str = "") -> str:
    """Return a page with its links adapted to the site.

    Parameters
    ----------
    text : str
        Markdown.
    page : str
        Path of the page relative to ``docs`` on the site.
    docs : Path
        Folder of the pages.
    origin : str, optional
        Path of the page relative to ``docs`` in the repository, if different.
    """
    here = PurePosixPath(page).parent
    start = docs / PurePosixPath(origin or page).parent

    def link(found: re.Match[str]) -> str:
        path = Path(os.path.normpath(start / found["target"]))
        anchor = found["anchor"] or ""
        below_root = os.path.relpath(path, docs.parent)
        if below_root in COPIED:
            path = docs / COPIED[below_root]
        elif path.is_relative_to(docs) and path.is_dir() and (path / "README.md").is_file():
            path = path / "README.md"
        elif path.is_relative_to(docs) and path.is_dir() and (path / "index.md").is_file():
            path = path / "index.md"
        elif not path.is_relative_to(docs) and path.exists():
            return found["text"]
        target = os.path.relpath(path, docs / here)
        return f"[{found['text']}]({PurePosixPath(target)}{anchor})"

    parts = _FENCES.split(text)
    return "".join(part if i % 2 else _LINK.sub(link, part) for i, part in enumerate(parts))


def _copied(app: Sphinx) -> None:
    docs = Path(app.srcdir)
    for name, page in COPIED.items():
        text = (docs.parent / name).read_text("utf-8")
        made = on_site(text, page=page, docs=docs, origin=f"../{name}")
        path = docs / page
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text("utf-8") != made:
            path.write_text(made, "utf-8")


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        page = path.relative_to(app.srcdir).as_posix()
        source[0] = on_site(source[0], page=page, docs=Path(app.srcdir))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension: copy pages, and adapt the links of each page."""
    # A folder of pages may still be empty, and that warning has no name to suppress it by.
    logging.getLogger("sphinx.sphinx.directives.other").addFilter(
        lambda record: "glob pattern" not in str(record.msg)
    )
    for name in ("csv", "tsv", "jsonl"):  # fences of files, shown as they are
        app.add_lexer(name, TextLexer)
    app.connect("builder-inited", _copied)
    app.connect("source-read", _read)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
