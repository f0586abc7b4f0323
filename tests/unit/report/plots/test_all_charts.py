"""What holds for every chart: it renders, is self-contained, small, and takes any text as text."""

import json
import re
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import vl_convert
from tests.support.each import each
from tests.unit.report.plots.catalogue import CHARTS, NAMES, nodes

from eval_toolkit.inference import kaplan_meier, pr_band, roc_band
from eval_toolkit.report import plots

COLOURS = {*plots.PALETTE.values(), *plots.NEUTRALS.values()}
FIELDS = {
    *("x", "x2", "y", "y2", "t", "p", "n", "mx", "my", "low", "high", "left", "right", "middle"),
    *("floor", "top", "name", "text", "n_text", "series", "count", "share", "shade", "actual"),
    *("predicted", "row", "column", "value", "risk", "events"),
}
"""All names of columns; none comes from a caller."""

HOSTILE = [
    *("<script>alert(1)</script>", "a.b['c']\"d", "datum.x[0]", "{{7*7}} ${7*7}", "\\u0041\\"),
    *("\x00\x07\x1b[31m", "\u202egnirts", "a\nb\r\nc\u2028d", "\ud800", "'+alert(1)+'"),
    *("]]>&amp;<!--", "=HYPERLINK(1)", "x" * 100_000, "", "javascript:alert(1)"),
]


@cache
def chart_of(name: str) -> plots.Chart:
    return CHARTS[name](NAMES)


@cache
def spec_of(name: str) -> dict[str, Any]:
    return chart_of(name).to_dict()


def svg(spec: dict[str, Any]) -> str:
    config = {"config": dict(plots.PLOT_STYLE)}
    return str(vl_convert.vegalite_to_svg({**spec, **config}, allowed_base_urls=[]))


@each("name", CHARTS)
def test_renders_to_an_image_with_its_names(name: str) -> None:
    drawn = ElementTree.fromstring(svg(spec_of(name)))  # noqa: S314 - made here
    texts = " ".join(drawn.itertext())
    assert "first" in texts
    assert "NaN" not in texts
    assert "undefined" not in texts
    assert "null" not in texts


@each("name", CHARTS)
def test_is_self_contained_and_says_what_it_shows(name: str) -> None:
    spec = spec_of(name)
    json.dumps(spec, allow_nan=False)
    assert not [node for node in nodes(spec) if "url" in node or "href" in node]
    assert len(spec["description"]) > 20


@each("name", CHARTS)
def test_colours_come_from_the_palette_and_text_has_none(name: str) -> None:
    spec = {key: value for key, value in spec_of(name).items() if key != "config"}
    used = set(re.findall(r"#[0-9A-Fa-f]{3,8}\b", json.dumps(spec)))
    assert used <= COLOURS
    texts = [node for node in nodes(spec) if node.get("type") == "text"]
    assert not [mark for mark in texts if {"color", "fill", "stroke"} & set(mark)]


@each("name", CHARTS)
def test_width_can_follow_its_container_and_layers_can_be_added(name: str) -> None:
    chart = chart_of(name)
    assert chart.properties(width="container").to_dict(validate=False)["width"] == "container"
    assert not [node for node in nodes(spec_of(name)) if {"hconcat", "facet", "repeat"} & set(node)]
    twice = (chart + chart).to_dict()
    assert "config" not in {key for layer in twice["layer"] for key in layer}


# Vega-Lite writes titles into expressions and escapes quotes alone: a backslash would set one free.
BREAKING_OUT = '\\"+alert(1)+\\"'


@each("name", CHARTS)
def test_hostile_names_stay_text(name: str) -> None:
    several = [" ".join(HOSTILE[at:15:5]) for at in range(5)]  # most charts have one or two names
    for names in (several, [BREAKING_OUT, "", BREAKING_OUT + "2", HOSTILE[12], BREAKING_OUT]):
        spec = CHARTS[name](names).to_dict()
        fields = {node["field"] for node in nodes(spec) if "field" in node}
        assert fields <= FIELDS
        expressions = [
            str(node[key])
            for node in nodes(spec)
            for key in ("expr", "calculate", "filter", "test", "labelExpr")
            if key in node
        ]
        assert not [text for text in expressions if "alert" in text or "datum" in text]
        drawn = ElementTree.fromstring(svg(spec))  # noqa: S314 - made here
        assert {tag.tag.rpartition("}")[2] for tag in drawn.iter()} <= {
            *("svg", "g", "path", "text", "rect", "defs", "clipPath", "title", "desc", "line"),
        }
        assert len(json.dumps(spec)) < 60_000


def large() -> dict[str, plots.Chart]:
    rng = np.random.default_rng(5)
    y = rng.random(50_000) < 0.2
    score = 1 / (1 + np.exp(-rng.normal(size=50_000) - y))
    return {
        "roc": plots.plot_roc_curve(y, score, band=roc_band(y, score, n_resamples=20)),
        "pr": plots.plot_pr_curve(y, score, band=pr_band(y, score, n_resamples=20)),
        "thresholds": plots.plot_threshold_curves(y[:4000], score[:4000]),
        "reliability": plots.plot_reliability_diagram(y, score, n_bins=50),
        "histograms": plots.plot_score_histograms({0: score[~y], 1: score[y]}),
        "bootstrap": plots.plot_bootstrap_distribution(score, ci_low=0.2, ci_high=0.8),
        "survival": plots.plot_survival(kaplan_meier(score[:5000], y[:5000])),
    }


def test_large_data_make_small_specifications() -> None:
    sizes = {name: len(json.dumps(chart.to_dict())) for name, chart in large().items()}
    assert max(sizes.values()) < 60_000, sizes


@pytest.mark.parametrize(
    ("figsize", "message"),
    [
        ((6,), "figsize"),
        ("64", "figsize"),
        ((0, 4), r"figsize\[0\]"),
        ((4, np.nan), r"figsize\[1\]"),
    ],
)
def test_sizes_are_inches(figsize: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plots.plot_lift_ci({"a": 1}, figsize=figsize)
    assert plots.plot_lift_ci({"a": 1}, figsize=(5, 2)).to_dict()["width"] == 360


def test_titles_must_be_text() -> None:
    with pytest.raises(TypeError, match="`title`"):
        plots.plot_lift_ci({"a": 1}, title={"expr": "alert(1)"})  # type: ignore[arg-type]
