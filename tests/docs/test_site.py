"""The site: links lead somewhere, lists are whole, a page with a figure is built as it should be."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs._ext.api import api_pages, documented_names
from docs._ext.blocks import fences
from tests.docs.pages import DOCS, ROOT, named, pages
from tests.support.each import each

PAGES = pages()
LINK = re.compile(r"\]\((?P<target>[^)\s#]*)(?:#(?P<anchor>[^)\s]*))?(?:\s+\"[^\"]*\")?\)")
SETTINGS = """
import sys
sys.path.insert(0, {root!r})
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["docs._ext.figures", "docs._ext.repository"]
html_theme = "furo"
html_show_sphinx = False
smartquotes = False
nitpicky = True
autodoc_typehints = "none"
napoleon_use_param = napoleon_use_rtype = False


def setup(app):
    from docs._ext.reference import _prepare, _without_foreign_links

    app.connect("autodoc-process-docstring", _prepare, priority=400)
    app.connect("doctree-read", _without_foreign_links)
"""
CHART = """# A page

See [the changes](../CHANGELOG.md), [a file](../setup.py) and [this page](#a-part).

## A part

```python
values = {"Wald": (0.87, 0.85, 0.88), "Wilson <b>": (0.95, 0.94, 0.96)}
```

```python figure Coverage <of> both
from eval_toolkit.report import plots
chart = plots.plot_forest(values, value_label="coverage")
```
"""


def prose(page: Path) -> str:
    """Return a page without its code."""
    text = page.read_text("utf-8")
    for fence in fences(text):
        text = text.replace(fence.code, "")
    return re.sub(r"`[^`\n]+`", "", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: of its headings, as GitHub makes them, and ``(name)=``."""
    text = page.read_text("utf-8")
    found = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    labels = set(re.findall(r"^\(([\w-]+)\)=$", text, flags=re.MULTILINE))
    return labels | {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


@each("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer(prose(page)):
        target, anchor = link["target"], link["anchor"]
        if re.match(r"[a-z]+:", target):
            continue
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"{named(page)} links to {target}"
        assert place.is_relative_to(ROOT), f"{named(page)} links to {target}, outside"
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{named(page)} links to {target}#{anchor}"


@each("page", PAGES, ids=named)
def test_a_page_has_one_title(page: Path) -> None:
    text = page.read_text("utf-8")
    for fence in fences(text):
        text = text.replace(fence.code, "")
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", text, flags=re.MULTILINE)) == 1


def test_the_list_of_decisions_is_whole() -> None:
    listed = re.findall(
        r"^- \[(\d+)\]\((.+?)\): (.+)$", (DOCS / "adr" / "index.md").read_text("utf-8"), re.M
    )
    found = sorted((DOCS / "adr").glob("0*.md"))
    titles = [path.read_text("utf-8").splitlines()[0] for path in found]
    assert [f"# ADR {number}: {title}" for number, _, title in listed] == titles
    assert [file for _, file, _ in listed] == [path.name for path in found]


@pytest.mark.parametrize("folder", ["methodology", "howto"])
def test_the_list_of_a_folder_is_whole(folder: str) -> None:
    index = (DOCS / folder / "index.md").read_text("utf-8")
    listed = dict(re.findall(r"^- \[(.+)\]\((\w+)\.md\)$", index, flags=re.MULTILINE))
    found = {
        path.read_text("utf-8").splitlines()[0].removeprefix("# "): path.stem
        for path in (DOCS / folder).glob("*.md")
        if path.stem != "index"
    }
    assert listed == found


def test_nothing_is_fetched() -> None:
    """Neither the settings nor our own files of the site name an address."""
    for path in [DOCS / "conf.py", *(DOCS / "_static").iterdir(), *(DOCS / "_ext").glob("*.py")]:
        assert not re.search(r"https?://", path.read_text("utf-8")), path.name


def test_a_page_with_a_figure(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="`make docs` installs what builds the site")
    from sphinx.util.inventory import InventoryFile

    source = tmp_path / "docs"
    source.mkdir()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "setup.py"):
        (tmp_path / name).write_text("# Title\n", "utf-8")
    (source / "conf.py").write_text(SETTINGS.format(root=str(ROOT)), "utf-8")
    (source / "index.md").write_text(
        CHART + "\n```{toctree}\n:glob:\nreference/made/*\n```\n", "utf-8"
    )
    # One page of the API, with a function, a class and data: `-W` refuses a link to no entry.
    made = source / "reference" / "made"
    made.mkdir(parents=True)
    (made / "seeds.rst").write_text(api_pages()["seeds"], "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", "html"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "index.html").read_text("utf-8")
    figure = re.findall(r'<figure class="chart">.*?</figure>', page, flags=re.DOTALL)
    assert len(figure) == 1
    assert 'role="img" aria-label="coverage by slice. Wald: 0.870' in figure[0]
    assert "Wilson &lt;b&gt;" in figure[0]
    assert "<b>" not in figure[0]
    assert "var(--c-ink)" in figure[0]
    assert "<figcaption>Coverage &lt;of&gt; both</figcaption>" in figure[0]
    assert 'href="reference/made/changelog.html"' in page
    assert "a file" in page
    assert "setup.py" not in page
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(\w+:[^"]+)"', page)
    assert loaded == []
    names = InventoryFile.loads((tmp_path / "html" / "objects.inv").read_bytes(), uri="").data
    entries = {name for kind, found in names.items() if kind.startswith("py:") for name in found}
    listed = {f"eval_toolkit.seeds.{name}" for name in documented_names()["seeds"]}
    assert listed <= entries
    assert [name for name in entries if name.count("eval_toolkit.") > 1] == []
