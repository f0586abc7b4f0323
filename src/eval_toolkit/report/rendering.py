"""Rendering of templates and assets; all text is escaped, and scripts are allowed by hash."""

import base64
import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.display import Table
from eval_toolkit._internal.display.to_html import html_name, html_table, html_text
from eval_toolkit._internal.words import number, p_value, value_and_ends, visible
from eval_toolkit.artifacts import sanitize_for_json
from eval_toolkit.errors import ArtifactError
from eval_toolkit.runs.blocks import Block, Group

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def asset(name: str) -> str:
    """Return the content of a file in ``report/assets``."""
    found = resources.files("eval_toolkit.report").joinpath("assets").joinpath(name)
    return found.read_text(encoding="utf-8")


def stylesheet() -> str:
    """Return the CSS shared by the report, the viewer and ``--html``.

    Examples
    --------
    >>> "--accent" in stylesheet()
    True
    """
    return asset("style.css")


@functools.cache
def chart_library() -> str:
    """Return the JavaScript of Vega, Vega-Lite and Vega-Embed, from vl-convert.

    Returns "" if the process that reads it dies, for example under a memory limit; the page then
    shows static images.
    """
    from eval_toolkit._internal import optional
    from eval_toolkit.report.plots.static_images import picture

    optional.require("vl_convert", feature="charts in reports", extra="report")
    try:
        bundle = picture({}, "script").decode("utf-8")
    except ArtifactError:
        return ""
    # Wrapped in a function to keep its names out of the page's scope. The bundle contains no
    # closing script tag; if it ever does, the tag is inside a string.
    bundle = re.sub("</(?=script)", r"<\\/", bundle, flags=re.IGNORECASE)
    return "(function () {\n" + bundle.replace("<!--", r"\x3C!--") + "\n})();"


def content_policy(scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy that allows these scripts and no other resources.

    Examples
    --------
    >>> content_policy(["let a = 1;"]).split("; ")[0]
    "default-src 'none'"
    """
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    run = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {run}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def json_script(payload: Any) -> "Markup":
    """Return JSON that is safe inside a script element, which no string in it can close."""
    from markupsafe import Markup

    text = json.dumps(sanitize_for_json(payload), allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 - ASCII, with HTML's three special characters escaped


def _table(table: Table, sortable: bool) -> "Markup":
    """Return a table as HTML."""
    from markupsafe import Markup

    return Markup(html_table(table, sortable=sortable))  # noqa: S704 - all text is escaped


def _name(name: object, limit: int) -> "Markup":
    """Return a name as HTML that may wrap between its words."""
    from markupsafe import Markup

    return Markup(html_name(name, limit))  # noqa: S704 - all text is escaped


def _whole(text: object, limit: int) -> "Markup":
    """Return a sentence whose intervals stay on one line."""
    from markupsafe import Markup

    shown = re.sub(r"\[[^][]{1,32}\]", r'<span class="whole">\g<0></span>', html_text(text, limit))
    return Markup(shown)  # noqa: S704 - all text is escaped


def _verdict(text: object, limit: int) -> "Markup":
    """Return a sentence with what follows its first semicolon in smaller letters."""
    from markupsafe import Markup

    first, sign, rest = str(text).partition("; ")
    more = f'; <span class="rest">{_whole(rest, limit)}</span>' if sign else ""
    return Markup(_whole(first, limit) + Markup(more))  # noqa: S704 - all text is escaped


def _side_by_side(blocks: Sequence[Block]) -> list[Block | list[Block]]:
    """Return the blocks without group titles, with answer and reference in the same row."""
    lines: list[Block | list[Block]] = []
    beside: list[Block] = []
    for block in _ungrouped(blocks):
        if getattr(block, "role", "") not in ("answer", "reference"):
            lines.append(block)
        elif beside:
            beside.append(block)
        else:
            beside = [block]
            lines.append(beside)
    return lines


def _ungrouped(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks, replacing expanded groups by their blocks."""
    for block in blocks:
        if isinstance(block, Group) and not block.folded:
            yield from block.blocks
        else:
            yield block


@functools.cache
def environment() -> "Environment":
    """Return the Jinja environment, in which undefined names raise and all text is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("eval_toolkit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= _FILTERS
    return made


_FILTERS: Mapping[str, Any] = {
    "number": number,
    "p_value": p_value,
    "value_and_ends": value_and_ends,
    "visible": visible,
    "name": _name,
    "whole": _whole,
    "verdict": _verdict,
    "json_script": json_script,
    "table": _table,
    "block_type": lambda block: type(block).__name__,
    "side_by_side": _side_by_side,
    "moment": lambda when: visible(when, 40).replace("T", " ").replace("Z", " UTC"),
    "count": lambda value: "" if value is None else f"{value:,}",
}
