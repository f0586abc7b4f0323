"""Charts of a page: small, and with a still picture of what is seen."""

import re
from pathlib import Path

import numpy as np
from tests.report_runs import written_rows

from eval_toolkit.plots import plot_threshold_curves
from eval_toolkit.report.figures import drawn
from eval_toolkit.report.rendering import chart_library, stylesheet
from eval_toolkit.report.sections import Wanted
from eval_toolkit.report.writing import report_html


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
