"""The palette, the theme, and what the charts take from them."""

from typing import Any

import altair
import pytest

from eval_toolkit.report import plots


def test_palette_is_the_published_one_and_read_only() -> None:
    # Names and values of rows.md §15.
    assert dict(plots.PALETTE) == {
        "negative": "#004488",
        "positive": "#BB5566",
        "accent": "#DDAA33",
        "baseline": "#999999",
    }
    with pytest.raises(TypeError):
        plots.PALETTE["negative"] = "#000000"  # type: ignore[index]
    assert plots.DEFAULT_FIGSIZE == (6, 4)


def test_a_palette_with_more_colours_leaves_the_first_alone() -> None:
    mine = plots.make_palette(mine="#123456", accent="#abcdef")
    assert mine["mine"] == "#123456"
    assert mine["accent"] == "#abcdef"
    assert plots.PALETTE["accent"] == "#DDAA33"


@pytest.mark.parametrize("colour", ["red", "#12345", "#1234567", 3, "url(x)"])
def test_colours_are_written_in_hex(colour: Any) -> None:
    with pytest.raises(ValueError, match="#RRGGBB"):
        plots.make_palette(mine=colour)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["ink", "muted"])
def test_text_can_be_read(name: str) -> None:
    contrast = (1.05) / (luminance(plots.NEUTRALS[name]) + 0.05)
    assert contrast >= 4.5  # WCAG 2, level AA


def test_theme_applies_to_any_chart() -> None:
    before = altair.theme.active
    try:
        plots.set_plot_style()
        spec = altair.Chart(altair.InlineData(values=[])).mark_point().to_dict()
        assert spec["config"]["font"] == plots.PLOT_STYLE["font"]
        assert spec["config"]["text"] == plots.PLOT_STYLE["text"]
    finally:
        altair.theme.enable(before)
