"""Rendering of viewer pages, with the templates of the viewer and of the report."""

import functools
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from eval_toolkit.report import rendering as report
from eval_toolkit.report.sections import Chapter

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@functools.cache
def environment() -> "Environment":
    """Return the report's Jinja environment, with the viewer's templates under ``viewer/``."""
    from jinja2 import ChoiceLoader, PackageLoader, PrefixLoader

    own = PrefixLoader({"viewer": PackageLoader("eval_toolkit.report.viewer")})
    made = report.environment().overlay(
        loader=ChoiceLoader([own, PackageLoader("eval_toolkit.report")])
    )
    made.globals["static_url"] = static_url
    return made


@functools.cache
def static_files() -> dict[str, tuple[str, bytes]]:
    """Return the media type and the bytes of each static file by name."""
    texts = {"style.css": report.stylesheet(), "report.js": report.asset("report.js")}
    for found in resources.files("eval_toolkit.report.viewer").joinpath("assets").iterdir():
        if found.name.rpartition(".")[2] in _TYPES:
            texts[found.name] = found.read_text(encoding="utf-8")
    return {name: (_TYPES[name.rpartition(".")[2]], text.encode()) for name, text in texts.items()}


@functools.cache
def charts_file() -> tuple[str, bytes]:
    """Return the chart library, read on first use."""
    return "text/javascript", report.chart_library().encode()


@functools.cache
def static_url(name: str) -> str:
    """Return the versioned URL of a static file, so that browsers can cache the file."""
    found = charts_file() if name == "charts.js" else static_files()[name]
    return f"/static/{name}?v={hashlib.sha256(found[1]).hexdigest()[:12]}"


def chapters(given: Sequence[Chapter]) -> "Markup":
    """Return chapters of a report as an HTML fragment."""
    from markupsafe import Markup

    html = environment().get_template("chapters.html").render(chapters=given)
    return Markup(html)  # noqa: S704 - output of templates that escape all text


def page(template: str, **context: Any) -> str:
    """Render a page of the viewer.

    All text of the context is escaped.
    """
    from eval_toolkit import __version__

    least: dict[str, Any] = {"version": __version__, "charts": False, "crumbs": [], "menu": []}
    least["altered"] = []  # runs with altered files, and how they were altered
    made = environment().get_template(f"viewer/{template}").render(**{**least, **context})
    return made.encode("utf-8", "backslashreplace").decode()
