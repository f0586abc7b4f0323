"""Embed charts in a page: one specification for light and dark mode, and a static image."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit._internal import optional
from eval_toolkit._internal.display import Table
from eval_toolkit._internal.plain import plain
from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.sections import Bar, Figure

_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--c-muted)",
        "titleColor": "var(--c-muted)",
        "gridColor": "var(--c-line)",
        "domainColor": "var(--c-line)",
        "tickColor": "var(--c-line)",
        "titleFontWeight": 500,
        "labelFontSize": 12,
        "titleFontSize": 12,
    },
    "legend": {
        "labelColor": "var(--c-ink)",
        "titleColor": "var(--c-muted)",
        "labelFontSize": 12,
        "orient": "top",
        "direction": "horizontal",
        "title": None,
    },
    "text": {"color": "var(--c-ink)"},
    "title": {"color": "var(--c-ink)"},
    "header": {"labelColor": "var(--c-ink)", "titleColor": "var(--c-muted)"},
}
"""Colours are CSS variables, so charts follow the theme without being redrawn."""

STILL_WIDTH = 560
"""Width of the static image, which the page scales."""


def themed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Vega-Lite specification whose colours are CSS variables of the page."""
    from eval_toolkit.report.plots.style import NEUTRALS, PALETTE, PLOT_STYLE

    known = {**PALETTE, **NEUTRALS}
    names = {colour.lower(): f"var(--c-{name})" for name, colour in known.items()}
    shown: dict[str, Any] = _coloured(dict(spec), names)
    style = _merged(_coloured(dict(PLOT_STYLE), names), shown.get("config") or {})
    shown["config"] = _merged(style, _CONFIG)
    shown.pop("$schema", None)  # a URL; the script is given the format separately
    return shown


def _coloured(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        # Data is not searched: its texts may look like colours.
        return {
            key: inner if key in ("data", "datasets") else _coloured(inner, names)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_coloured(inner, names) for inner in value]
    return names.get(value.lower(), value) if isinstance(value, str) else value


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; the second takes precedence."""
    merged = dict(one)
    for key, value in other.items():
        inner = merged.get(key)
        merged[key] = (
            _merged(inner, value)
            if isinstance(inner, Mapping) and isinstance(value, dict)
            else value
        )
    return merged


def _seen(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification without the invisible layers that provide tooltips."""
    shown = dict(spec)
    for parts in ("layer", "hconcat", "vconcat"):
        if parts in shown:
            shown[parts] = [_seen(part) for part in shown[parts] if not _is_invisible(part)]
    return shown


def _is_invisible(part: Mapping[str, Any]) -> bool:
    mark = part.get("mark")
    return isinstance(mark, Mapping) and mark.get("opacity") == 0


def _own_ids(svg: str) -> str:
    """Return an SVG image with unique ids, because duplicate ids would mix up clip paths."""
    mark = hashlib.sha256(svg.encode()).hexdigest()[:10]
    return re.sub(r'(?<= id="|url\(#)(?=clip\d)', f"still-{mark}-", svg)


def drawn(
    chart: Any,
    *,
    anchor: str,
    title: str,
    caption: str = "",
    table: Table | None = None,
    bars: Sequence[Bar] = (),
) -> Figure:
    """Return a chart as a figure for a page.

    The description of the chart becomes the alternative text. On narrow screens, ``bars`` are shown
    instead of the chart. The figure consists of a specification that fills the width of its
    container and a static image.
    """
    from markupsafe import Markup

    from eval_toolkit.report.plots.static_images import picture, shown_spec

    optional.require("vl_convert", feature="charts in reports", extra="report")
    # The chart is our own; validation would take longer than drawing.
    given = shown_spec(plain(chart.to_dict(validate=False)))
    spec = themed(given)
    spec.pop("title", None)  # shown by the page
    still = {**_seen(spec), "$schema": given.get("$schema", ""), "width": STILL_WIDTH}
    try:
        svg = Markup(_own_ids(picture(still, "svg").decode("utf-8")))  # noqa: S704 - vl-convert escapes
    except ArtifactError as error:  # the image is missing, but the table below remains
        svg = Markup("<p>{}</p>").format(str(error))
    wide = "hconcat" in spec or "facet" in spec or "vconcat" in spec
    live = spec if wide else {**spec, "width": "container"}
    return Figure(
        id=anchor,
        title=title,
        spec=live,
        svg=svg,
        caption=caption,
        table=table,
        bars=bars,
    )
