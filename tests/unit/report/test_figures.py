"""Charts of a page: small, and with a still picture of what is seen."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.report_runs import written_rows

from eval_toolkit._internal.sandbox import Contained, Limits, Overrun, close_workers
from eval_toolkit.report.figures import drawn
from eval_toolkit.report.html_report import report_html
from eval_toolkit.report.plots import plot_metric_bars, plot_threshold_curves, static_images
from eval_toolkit.report.rendering import chart_library, stylesheet
from eval_toolkit.report.sections import Wanted


def test_a_still_picture_holds_nothing_for_the_pointer() -> None:
    figure = drawn(plot_threshold_curves([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]), anchor="a", title="")
    assert 'opacity="0"' not in figure.svg
    assert sum("tooltip" in layer["encoding"] for layer in figure.spec["layer"]) == 3


def test_no_two_pictures_share_an_id() -> None:
    """Vega numbers what it cuts to from 1 on, in every picture and again on the live page."""
    ids = []
    for score in (0.35, 0.5):
        chart = plot_threshold_curves([0, 0, 1, 1], [0.1, 0.4, score, 0.8])
        svg = drawn(chart, anchor="a", title="").svg
        own = re.findall(r' id="([^"]*)"', svg)
        assert own
        assert set(re.findall(r"url\(#([^)]*)\)", svg)) == set(own)
        ids += own
    assert len(set(ids)) == len(ids)
    assert not [one for one in ids if one.startswith("clip")]


def test_six_scorers_are_a_small_page(tmp_path: Path) -> None:
    """What one scorer adds to a page, six times: few rows are the worst case, no curve is smooth."""
    rng = np.random.default_rng(2)
    labels = (rng.random(2_000) < 0.3).astype(float)
    scores = 1 / (1 + np.exp(0.6 - labels - rng.normal(size=2_000)))
    run = written_rows(tmp_path, labels.tolist(), scores.tolist())
    page = report_html(run, wanted=Wanted(n_resamples=20))
    assert page.count("<figure") >= 4
    shared = len(chart_library()) + len(stylesheet())
    assert shared + 6 * (len(page.encode()) - shared) < 3_000_000


def test_names_that_the_chart_library_cannot_draw() -> None:
    """Each of these ended the process: C0 controls, noncharacters, halves of pairs."""
    codes = [*range(0x20), 0x7F, 0x85, 0xD800, 0xDFFF, 0xFDD0, 0xFFFE, 0xFFFF, 0x1FFFE, 0x10FFFF]
    chart = plot_metric_bars({f"{code:x} {chr(code)}": 0.5 for code in codes})
    figure = drawn(chart, anchor="a", title="")
    assert figure.svg.startswith("<svg")
    for code in (0xFDD0, 0xFFFE, 0x10FFFF):
        assert f"⟨U+{code:04X}⟩" in figure.svg
    shown = json.dumps(figure.spec, ensure_ascii=False)
    assert not [code for code in codes if code not in (9, 10) and chr(code) in shown]


def test_a_chart_that_takes_too_long_is_one_picture_less(monkeypatch) -> None:
    chart = plot_metric_bars({"a": 0.5})
    with monkeypatch.context() as short:
        short.setattr(static_images, "_LIMITS", Limits(seconds=0.001, memory_mb=None))
        figure = drawn(chart, anchor="a", title="")
    assert str(figure.svg) == "<p>a chart could not be drawn: it took too long</p>"
    assert drawn(chart, anchor="a", title="").svg.startswith("<svg")


def test_the_death_of_the_process_that_draws_is_survived() -> None:
    convert = Contained("eval_toolkit._internal.sandbox.charts:convert", static_images._LIMITS)
    spec = plot_metric_bars({"a": 0.5}).to_dict()
    for _ in range(2):
        with pytest.raises(Overrun) as raised:
            convert({**spec, "title": "a\ufffe"}, "png", {})
        assert raised.value.kind == "crash"
    assert drawn(plot_metric_bars({"a": 0.5}), anchor="a", title="").svg.startswith("<svg")


def test_without_a_process_the_page_says_so(monkeypatch) -> None:
    close_workers()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    figure = drawn(plot_metric_bars({"a": 0.5}), anchor="a", title="")
    assert "the process that draws charts could not be started" in figure.svg
