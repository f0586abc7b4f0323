"""Reliability: bins as scikit-learn's, cells of the run beside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from tests.support.report_runs import plain, written_rows

from eval_toolkit.inference import clustered_rate
from eval_toolkit.metrics import expected_calibration_error
from eval_toolkit.report import calibration
from eval_toolkit.report.cells import Cell
from eval_toolkit.report.scored_rows import scored_of
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run


def test_bins_are_those_of_scikit_learn(rows_run: Run) -> None:
    section = calibration.build(rows_run, Wanted(charts=False))
    assert section is not None
    for part, one in zip(section.data["parts"], scored_of(rows_run), strict=True):
        positive, predicted = calibration_curve(one.labels, one.scores, n_bins=10)
        assert [row[3] for row in part["table"].texts()] == [f"{share:.3f}" for share in positive]
        assert [row[2] for row in part["table"].texts()] == [f"{mean:.3f}" for mean in predicted]
        assert sum(int(row[1]) for row in part["table"].texts()) == len(one.labels)


def test_rows_of_one_group_do_not_count_as_independent(rows_run: Run, twice_run: Run) -> None:
    """Intervals are `clustered_rate` of the rows of a bin: by author, by row where seeds repeat it."""
    for run in (rows_run, twice_run):
        section = calibration.build(run, Wanted())
        assert section is not None
        assert "account for groups" in section.data["figures"][0].caption
        one = scored_of(run)[0]
        assert one.groups is not None
        bins = np.minimum((one.scores * 10).astype(int), 9)
        told = {row[0]: row[4] for row in section.data["figures"][0].table.texts()}
        narrower = 0
        for at in range(10):
            inside = bins == at
            if inside.any():
                hits, groups = one.labels[inside] == 1, one.groups[inside]
                rate = clustered_rate(hits, groups)
                assert told[f"{at / 10:.2f} to {at / 10 + 0.1:.2f}"] == (
                    f"[{rate.low:.3f}, {rate.high:.3f}]"
                )
                plain_rate = clustered_rate(hits, None)
                narrower += plain_rate.high - plain_rate.low < rate.high - rate.low
        assert narrower > 2  # most bins hold one row per group, and are as wide without
    assert "a row counts once per seed: these 120 rows are 60 distinct ones" in section.notes[0]


@pytest.mark.parametrize(
    ("true", "said"),
    [
        # each bin is barely outside its interval; three at once are not chance
        ((1.0, 1.0, 1.0), "too low from 0.6 to 0.9."),
        ((0.65, 0.75, 1.0), "about right (only 80 rows): of 4 bins, 1 lies outside the interval"),
        ((0.65, 0.75, 0.85), "Probabilities are about right (only 80 rows)."),
    ],
)
def test_the_sentence_follows_the_intervals_of_the_bins(
    true: tuple[float, ...], said: str, tmp_path: Path
) -> None:
    labels: list[int] = []
    scores: list[float] = []
    for rate, at in zip((0.05, *true), (0.05, 0.65, 0.75, 0.83), strict=True):
        labels += [int(i < 20 * rate) for i in range(20)]
        scores += [at] * 20
    section = calibration.build(written_rows(tmp_path, labels, scores), Wanted(charts=False))
    assert section is not None
    assert said in section.data["parts"][0]["said"]


@pytest.mark.parametrize(
    ("ends", "said"),
    [((1.43, 2.0), "not extreme enough (slope 1.71 [1.43, 2.00])"), ((0.9, 2.0), "")],
)
def test_the_slope_tells_how_scores_are_spread(
    ends: tuple[float, float], said: str, rows_run: Run
) -> None:
    low, high = ends
    cell = Cell(name="calibration_slope", value=1.71, low=low, high=high, details={})
    assert calibration._spread(cell) == said
    one = scored_of(rows_run)[0]
    assert said in calibration.verdict(one, Wanted(), said)


def test_cells_of_the_run_stand_beside_it(rows_run: Run, shown: Callable[[Section], Any]) -> None:
    section = calibration.build(rows_run, Wanted(charts=False))
    assert section is not None
    block = rows_run.results["by_slice"]["test"]["by_scorer"]["good"]
    tiles = {plain(tile["text"]) for tile in shown(section).all("div", class_="tile")}
    for name in ("brier", "log_loss"):
        cell = block[name]
        ends = f"[{cell['ci']['ci_low']:.3f}, {cell['ci']['ci_high']:.3f}]"
        assert f"{name}{cell['value']:.3f} {ends}" in tiles


def test_a_calibration_error_that_the_run_lacks_is_measured(tmp_path: Path) -> None:
    labels, scores = [0, 1, 1, 0] * 10, [0.1, 0.8, 0.6, 0.4] * 10
    section = calibration.build(written_rows(tmp_path, labels, scores), Wanted(charts=False))
    assert section is not None
    tiles = {cell.name: cell for cell in section.data["parts"][0]["tiles"]}
    wide = tiles["ece, 10 equal-width bins"]
    assert wide.value == pytest.approx(expected_calibration_error(labels, scores, 10))
    assert wide.low is None  # no interval is claimed for it


def test_the_chart_has_the_numbers_behind_it(rows_run: Run) -> None:
    section = calibration.build(rows_run, Wanted())
    assert section is not None
    assert [figure.title for figure in section.data["figures"]] == [
        "Reliability: good",
        "Reliability: bad",
    ]
    assert all(figure.table.texts() for figure in section.data["figures"])


def test_scores_that_are_no_probabilities(tmp_path: Path) -> None:
    """Where the run was asked for such metrics their absence is told; else there is no section."""
    labels, scores = [0, 1] * 10, [float(i) for i in range(20)]
    assert calibration.build(written_rows(tmp_path, labels, scores), Wanted()) is None
    skipped = {"brier": {"value": None, "status": "skipped", "reason": "no probabilities"}}
    run = written_rows(tmp_path, labels, scores, cells=skipped, run_id="asked")
    section = calibration.build(run, Wanted())
    assert section is not None
    (why,) = section.data["absent"]
    assert why == "model: its scores are not probabilities: some lie outside [0, 1]"


def test_one_class_has_no_curve(tmp_path: Path) -> None:
    section = calibration.build(written_rows(tmp_path, [1] * 12, [0.5] * 12), Wanted())
    assert section is not None
    assert section.data["absent"] == ["model: all 12 rows are positive"]
