"""The explorer shows what `metrics_at_threshold` computes, at thresholds of the scores."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.report_runs import written_rows

from eval_toolkit.metrics import metrics_at_threshold
from eval_toolkit.report import thresholds
from eval_toolkit.report.scored_rows import scored_of
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run

SCORES = st.floats(-1e6, 1e6, allow_subnormal=False)
COARSE = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])


@st.composite
def labelled(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 40))
    scores = draw(hnp.arrays(np.float64, n, elements=draw(st.sampled_from([SCORES, COARSE]))))
    return draw(hnp.arrays(np.int64, n, elements=st.integers(0, 1))), scores


@given(labelled(), st.lists(COARSE, max_size=3))
def test_counts_are_those_of_the_library(
    data: tuple[np.ndarray, np.ndarray], also: list[float]
) -> None:
    labels, scores = data
    grid = thresholds.grid_of(labels, scores, also)
    for threshold, tp, fp in zip(grid.thresholds, grid.tp, grid.fp, strict=True):
        at = metrics_at_threshold(labels, scores, float(threshold))
        assert (tp, fp) == (at["tp"], at["fp"])
        assert (grid.n_positive - tp, grid.n_negative - fp) == (at["fn"], at["tn"])
    assert {*scores.tolist(), *also} <= {*grid.thresholds.tolist()}
    assert (np.diff(grid.thresholds) > 0).all()


@given(labelled())
def test_the_last_threshold_lets_nothing_through(data: tuple[np.ndarray, np.ndarray]) -> None:
    grid = thresholds.grid_of(*data)
    assert grid.tp[-1] == grid.fp[-1] == 0
    assert grid.tp[0] + grid.fp[0] == len(data[0])


def test_many_scores_are_thinned_by_rank() -> None:
    """Every 222nd of the rows has a threshold; each is a score, with exact counts."""
    rng = np.random.default_rng(0)
    scores = rng.beta(0.3, 0.3, 20_000)
    labels = (rng.random(20_000) < scores).astype(np.int64)
    grid = thresholds.grid_of(labels, scores, [0.5])
    assert len(grid.thresholds) <= 1.1 * thresholds.MAX_THRESHOLDS
    above = grid.tp + grid.fp
    assert np.abs(np.diff(above)).max() <= 20_000 / 221 + 1
    for at in range(0, len(grid.thresholds), 97):
        exact = metrics_at_threshold(labels, scores, float(grid.thresholds[at]))
        assert (grid.tp[at], grid.fp[at]) == (exact["tp"], exact["fp"])


def test_the_cheapest_threshold_and_low_alarm_rates_are_among_them() -> None:
    """A rare class, as detectors have it; the oracle tries every score."""
    rng = np.random.default_rng(4)
    labels = np.zeros(20_000, dtype=np.int64)
    labels[:60] = 1
    scores = rng.normal(size=20_000) + 2.5 * labels
    thinned = thresholds.grid_of(labels, scores)
    falling = np.argsort(-scores)
    tp = np.append(0, np.cumsum(labels[falling]))
    fp = np.arange(20_001) - tp
    for alarm, miss in ((1, 1), (1, 30), (1, 300), (3, 7), (0, 1), (1, 0)):
        shown = alarm * thinned.fp + miss * (60 - thinned.tp)
        assert shown.min() == (alarm * fp + miss * (60 - tp)).min()
    rates = thinned.fp / 19_940
    assert np.count_nonzero(rates < 0.001) >= 10
    assert np.count_nonzero(rates < 0.01) >= 50


class TestSection:
    @pytest.fixture
    def section(self, rows_run: Run) -> Section:
        made = thresholds.build(rows_run, Wanted(charts=False))
        assert made is not None
        return made

    def test_the_page_holds_the_counts(
        self, section: Section, rows_run: Run, shown: Callable[[Section], Any]
    ) -> None:
        page = shown(section)
        held = [json.loads(one["text"]) for one in page.all("script", class_="counts")]
        assert len(held) == 2
        for counts, one in zip(held, scored_of(rows_run), strict=True):
            for at, threshold in enumerate(counts["thresholds"]):
                exact = metrics_at_threshold(one.labels, one.scores, threshold)
                assert (counts["tp"][at], counts["fp"][at]) == (exact["tp"], exact["fp"])
            assert (counts["n_positive"], counts["n_negative"]) == (
                one.n_positive,
                len(one.labels) - one.n_positive,
            )
        sliders = page.all("input", type="range")
        assert [(float(one["min"]), float(one["max"])) for one in sliders] == [
            (counts["thresholds"][0], counts["thresholds"][-1]) for counts in held
        ]

    def test_a_stored_threshold_can_be_jumped_to(
        self, section: Section, rows_run: Run, shown: Callable[[Section], Any]
    ) -> None:
        policy = {
            entry["scorer_name"]: entry["threshold"]
            for entry in rows_run.results["threshold_policy"]["thresholds"]
        }
        page = shown(section)
        for button, counts, name in zip(
            [one for one in page.all("button") if "data-jump" in one],
            [json.loads(one["text"]) for one in page.all("script", class_="counts")],
            ("good", "bad"),
            strict=True,
        ):
            place = int(button["data-jump"])
            assert counts["thresholds"][place] == policy[name]
            assert counts["start"] == place
            assert "max_f1, chosen on val" in button["text"]

    def test_without_a_script_a_table_stands_there(self, section: Section, rows_run: Run) -> None:
        one = scored_of(rows_run)[0]
        table = section.data["panels"][0]["table"]
        tenths = [row for row in table.texts() if row[-1] == ""]
        assert [row[0] for row in tenths] == ["0", *(f"0.{i}" for i in range(1, 10)), "1"]
        for row in tenths:
            at = metrics_at_threshold(one.labels, one.scores, float(row[0]))
            for told, name in zip(row[1:5], ("precision", "recall", "fpr", "f1"), strict=True):
                expected = "undefined" if name in at["undefined"] else f"{at[name]:.3f}"
                assert told == expected
            assert row[5:9] == [str(at[name]) for name in ("tp", "fp", "fn", "tn")]
        assert tenths[-1][1] == "undefined"  # at 1 nothing is positive; 0 or 1 would be a lie

    def test_every_control_has_a_label(
        self, section: Section, shown: Callable[[Section], Any]
    ) -> None:
        page = shown(section)
        labelled = {label["for"] for label in page.all("label")}
        controls = [one["id"] for one in (*page.all("input"), *page.all("select"))]
        assert controls
        assert set(controls) <= labelled
        assert len(set(page.ids)) == len(page.ids)


def test_one_class_has_no_thresholds(tmp_path: Any) -> None:
    run = written_rows(tmp_path, labels=[1] * 12, scores=[0.1] * 12)
    assert thresholds.build(run, Wanted(charts=False)) is None


def test_scores_that_are_no_probabilities(tmp_path: Any) -> None:
    run = written_rows(tmp_path, labels=[0, 1] * 10, scores=[3.0 * i for i in range(20)])
    section = thresholds.build(run, Wanted(charts=False))
    assert section is not None
    payload = section.data["panels"][0]["payload"]
    assert payload["thresholds"][-1] > 57.0
    assert payload["thresholds"][payload["start"]] == pytest.approx(28.5, abs=1.6)  # the median
