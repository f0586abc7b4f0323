"""Style of all charts: colours and Vega-Lite configuration."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError

PALETTE: Mapping[str, str] = MappingProxyType(
    {
        "negative": "#004488",
        "positive": "#BB5566",
        "accent": "#DDAA33",
        "baseline": "#999999",
    }
)
"""Read-only blue, red and yellow, distinguishable for colour-blind readers and in greyscale."""

NEUTRALS: Mapping[str, str] = MappingProxyType(
    {"paper": "#FFFFFF", "faint": "#E6E6E6", "muted": "#6B6B6B", "ink": "#1F1F1F"}
)
"""All other colours used in charts; pages with a dark theme replace these and `PALETTE`."""

DEFAULT_FIGSIZE = (6.0, 4.0)
"""Default width and height in inches, at 72 pixels per inch."""

_HEX = re.compile(r"#[0-9A-Fa-f]{6}")

_AXIS = {
    "labelColor": NEUTRALS["ink"],
    "titleColor": NEUTRALS["ink"],
    "labelFontSize": 11,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "titlePadding": 8,
    "labelLimit": 220,
    "titleLimit": 420,
    "domainColor": NEUTRALS["muted"],
    "tickColor": NEUTRALS["muted"],
    "tickSize": 4,
    "gridColor": NEUTRALS["faint"],
    "gridWidth": 0.75,
}

PLOT_STYLE: Mapping[str, Any] = MappingProxyType(
    {
        "background": NEUTRALS["paper"],
        "font": "sans-serif",
        "autosize": {"type": "fit", "contains": "padding"},
        "padding": 6,
        "view": {"stroke": None, "continuousWidth": 432, "continuousHeight": 288},
        "axis": _AXIS,
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "fontSize": 13,
            "fontWeight": 600,
            "color": NEUTRALS["ink"],
            "subtitleColor": NEUTRALS["muted"],
            "subtitleFontSize": 11,
            "offset": 10,
            "limit": 600,
        },
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "title": None,
            "labelColor": NEUTRALS["ink"],
            "labelFontSize": 11,
            "labelLimit": 220,
            "symbolStrokeWidth": 2.5,
            "offset": 6,
        },
        "text": {"color": NEUTRALS["ink"], "fontSize": 11},
        "style": {
            "muted": {"color": NEUTRALS["muted"]},
            "error": {"color": PALETTE["positive"], "fontWeight": "bold"},
            "on-fill": {"color": NEUTRALS["paper"]},
        },
    }
)
"""Vega-Lite ``config``, including the colours of all text."""


def make_palette(**extras: str) -> Mapping[str, str]:
    """Return a copy of the palette with added or replaced colours.

    Parameters
    ----------
    **extras : str
        Colours to add or replace, by name, written as ``#RRGGBB``.

    Returns
    -------
    mapping of str to str
        Read-only palette; `PALETTE` is unchanged.

    Raises
    ------
    InvalidInputError
        If a colour is not written as ``#RRGGBB``.

    Examples
    --------
    >>> make_palette(model_b="#117733")["model_b"]
    '#117733'
    """
    for name, colour in extras.items():
        if not isinstance(colour, str) or not _HEX.fullmatch(colour):
            raise InvalidInputError(
                f"`{name}` is {colour!r:.80}; colours must be written as #RRGGBB"
            )
    return MappingProxyType({**PALETTE, **extras})


def set_plot_style() -> None:
    """Use `PLOT_STYLE` as the theme of all Altair charts in this session.

    Charts from this package and other Altair charts are then styled like those saved by `save_figure`.

    Raises
    ------
    MissingExtraError
        If Altair is not installed.

    Examples
    --------
    >>> set_plot_style()
    >>> import altair
    >>> altair.theme.active
    'eval_toolkit'
    >>> _ = altair.theme.enable("default")
    """
    altair = require("altair", feature="set_plot_style", extra="report")

    @altair.theme.register("eval_toolkit", enable=True)  # type: ignore[untyped-decorator, unused-ignore]
    def theme() -> Any:
        return {"config": dict(PLOT_STYLE)}
