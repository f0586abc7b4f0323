"""Histograms, reliability, bootstrap draws, frontiers, grids and survival hold the right numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.report.plots.catalogue import SCORE, Y, rows

from eval_toolkit.calibration import reliability_curve
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import kaplan_meier
from eval_toolkit.report import plots
from eval_toolkit.report.plots.distributions import _frontier


class TestReliability:
    def test_bins_are_those_of_the_library(self) -> None:
        chart = plots.plot_reliability_diagram(Y, SCORE, n_bins=5)
        expected = reliability_curve(Y, SCORE, n_bins=5, strategy="uniform")
        (bins,) = [data for data in chart.to_dict()["datasets"].values() if "low" in data[0]]
        for column, name in (("x", "prob_pred"), ("y", "prob_true"), ("low", "ci_low")):
            assert [row[column] for row in bins] == pytest.approx(expected[name], abs=1e-4)
        assert [row["n"] for row in bins] == expected["n_per_bin"]

    def test_bars_stand_on_the_bins(self) -> None:
        # Scores on the edges of bins of equal width: [0, 0.5) and [0.5, 1].
        chart = plots.plot_reliability_diagram([0, 1, 0, 1], [0.0, 0.49, 0.5, 1.0], n_bins=2)
        (bins,) = [data for data in chart.to_dict()["datasets"].values() if "low" in data[0]]
        assert [(row["left"], row["right"]) for row in bins] == [(0.04, 0.46), (0.54, 0.96)]
        assert all(row["top"] < 0 for row in bins)

    def test_one_class_is_undefined(self) -> None:
        with pytest.raises(UndefinedMetricError, match="all 2 rows are positive"):
            plots.plot_reliability_diagram([1, 1], [0.2, 0.3])

    def test_scores_must_be_probabilities(self) -> None:
        with pytest.raises(InvalidInputError, match="probability"):
            plots.plot_reliability_diagram([0, 1], [0.2, 1.3])


class TestHistograms:
    def test_densities_have_area_one(self) -> None:
        chart = plots.plot_score_histograms({"a": SCORE[Y == 0], "b": SCORE[Y == 1]}, bins=20)
        corners = rows(chart, "x", "y", "series", "n")
        for name, size in (("a", 80), ("b", 40)):
            points = np.array([(row["x"], row["y"]) for row in corners if row["series"] == name])
            assert np.trapezoid(points[:, 1], points[:, 0]) == pytest.approx(1.0, abs=1e-3)
            assert {row["n"] for row in corners if row["series"] == name} == {size}

    def test_counts_are_counts(self) -> None:
        chart = plots.plot_score_histograms({"a": [0.1, 0.1, 0.9]}, bins=2, density=False)
        assert [row["y"] for row in rows(chart, "x", "y", "series", "n")] == [2, 2, 1, 1]

    @pytest.mark.parametrize(
        ("scores", "ends"),
        [([0.2, 0.4], (0, 1)), ([-3.0, 5.0], (-3, 5)), ([7.0, 7.0], (6.5, 7.5))],
    )
    def test_range_is_the_unit_interval_or_that_of_the_data(
        self, scores: list[float], ends: tuple[float, float]
    ) -> None:
        corners = rows(plots.plot_score_histograms({"a": scores}), "x", "y", "series", "n")
        assert (corners[0]["x"], corners[-1]["x"]) == ends

    def test_labels_and_order_are_the_callers(self) -> None:
        scores = {2: [0.2], 10: [0.3], 1: [0.1]}
        chart = plots.plot_score_histograms(
            scores, label_formatter=lambda key: f"group {key}", sort_key=lambda key: -key
        )
        names = [row["name"] for row in rows(chart, "y", "name", "n", "text")]
        assert names == ["group 10", "group 2", "group 1"]

    @pytest.mark.parametrize(
        ("scores", "error"),
        [({}, InvalidInputError), ([0.1], InvalidTypeError), ({"a": []}, InvalidInputError)],
    )
    def test_no_scores(self, scores: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="scores"):
            plots.plot_score_histograms(scores)

    @pytest.mark.parametrize(
        "scores", [[2.0, np.nextafter(2.0, 3.0)], [1e20, 1e20], [-1e5, -1e5 + 1.0]]
    )
    def test_scores_that_are_near_each_other_have_bins(self, scores: list[float]) -> None:
        with np.errstate(all="raise"):
            chart = plots.plot_score_histograms({"a": scores}, density=False)
        corners = rows(chart, "x", "y", "series", "n")
        assert sum(row["y"] for row in corners) == 2 * len(scores)
        assert len({row["x"] for row in corners}) == 31

    def test_scores_that_are_too_far_apart_are_refused(self) -> None:
        with pytest.raises(InvalidInputError, match=r"`scores` ranges from -1e.308 to 1e.308"):
            plots.plot_score_histograms({"a": [-1e308, 1e308]})


class TestBootstrapDistribution:
    def test_bars_far_from_zero_have_a_width(self) -> None:
        draws = 1e6 + np.random.default_rng(0).normal(size=500)
        chart = plots.plot_bootstrap_distribution(draws, ci_low=1e6 - 2, ci_high=1e6 + 2)
        assert all(row["x"] < row["x2"] for row in rows(chart, "x", "x2", "y"))

    def test_every_draw_is_counted_once(self) -> None:
        draws = np.random.default_rng(0).normal(size=777)
        chart = plots.plot_bootstrap_distribution(draws, ci_low=-2, ci_high=2, bins=13)
        bars = rows(chart, "x", "x2", "y")
        assert len(bars) == 13
        assert sum(row["y"] for row in bars) == 777
        assert "contains zero" in chart.to_dict()["description"]

    def test_equal_draws_are_one_bar(self) -> None:
        chart = plots.plot_bootstrap_distribution([0.5] * 9, ci_low=0.5, ci_high=0.5)
        assert max(row["y"] for row in rows(chart, "x", "x2", "y")) == 9

    def test_an_interval_the_wrong_way_round(self) -> None:
        with pytest.raises(InvalidInputError, match="swap"):
            plots.plot_bootstrap_distribution([1, 2], ci_low=2, ci_high=1)


class TestPareto:
    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
    def test_frontier_is_what_no_point_beats(self, points: list[tuple[int, int]]) -> None:
        cost, gain = (np.array(column, dtype=float) for column in zip(*points, strict=True))
        beaten = [
            any(
                a <= cost[i] and b >= gain[i] and (a < cost[i] or b > gain[i])
                for a, b in zip(cost, gain, strict=True)
            )
            for i in range(len(points))
        ]
        assert _frontier(cost, gain).tolist() == [not lost for lost in beaten]

    def test_losses_are_better_when_lower(self) -> None:
        chart = plots.plot_pareto_frontier(
            [1, 2], [0.5, 0.4], point_labels=["a", "b"], higher_metric_is_better=False
        )
        assert "a (1.000, 0.500), b (2.000, 0.400)" in chart.to_dict()["description"]

    def test_every_point_needs_a_name(self) -> None:
        with pytest.raises(InvalidInputError, match="2 names"):
            plots.plot_pareto_frontier([1, 2], [3, 4], point_labels=["a"])


class TestConfusion:
    def test_shares_are_of_the_true_class(self) -> None:
        chart = plots.plot_confusion_matrix_grid({"m": [[6, 2], [1, 3]]})
        cells = [
            row for data in chart.to_dict()["datasets"].values() for row in data if "count" in row
        ]
        found = {(row["actual"], row["predicted"]): (row["count"], row["share"]) for row in cells}
        assert found == {
            ("negative", "negative"): ("6", "75.0%"),
            ("negative", "positive"): ("2", "25.0%"),
            ("positive", "negative"): ("1", "25.0%"),
            ("positive", "positive"): ("3", "75.0%"),
        }

    @pytest.mark.parametrize(
        "matrix",
        [[1, 2], [[1, 2, 3], [4, 5, 6]], [[1, -1], [0, 2]], [[0.5, 1], [1, 1]], [["a"] * 2] * 2],
    )
    def test_counts_only(self, matrix: Any) -> None:
        with pytest.raises(InvalidInputError, match="2 × 2 counts"):
            plots.plot_confusion_matrix_grid({"m": matrix})

    @pytest.mark.parametrize(
        ("matrices", "error"), [({}, InvalidInputError), ([], InvalidTypeError)]
    )
    def test_no_matrices(self, matrices: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="matrices"):
            plots.plot_confusion_matrix_grid(matrices)


class TestHeatmap:
    def test_cells_without_a_value_are_masked(self) -> None:
        chart = plots.plot_slice_metric_heatmap(
            [[0.25, np.nan]], row_labels=["r"], col_labels=["a", "b"]
        )
        values = [
            row for data in chart.to_dict()["datasets"].values() for row in data if "value" in row
        ]
        assert {row["column"] for row in values} == {"a"}
        assert rows(chart, "row", "column", "text") == [
            {"row": "r", "column": "b", "text": "no value"}
        ]

    def test_nothing_but_gaps_can_be_drawn(self) -> None:
        chart = plots.plot_slice_metric_heatmap([[None]], row_labels=["r"], col_labels=["a"])
        assert chart.to_dict()["description"].endswith("no cell has a value.")

    @pytest.mark.parametrize(
        ("grid", "labels", "message"),
        [
            ([1, 2], (["r"], ["a", "b"]), "2-D"),
            ([[1, 2]], (["r"], ["a"]), "`col_labels` has 1 names, but `grid` needs 2"),
            ([[1, 2]], ("r", ["a", "b"]), "`row_labels`"),
            ([[np.inf, 2]], (["r"], ["a", "b"]), "infinity"),
            ([["x", 2]], (["r"], ["a", "b"]), "numbers"),
        ],
    )
    def test_unusable_grids(self, grid: Any, labels: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            plots.plot_slice_metric_heatmap(grid, row_labels=labels[0], col_labels=labels[1])


class TestSurvival:
    CURVE = kaplan_meier([1, 2, 3, 3, 3], [1, 1, 0, 0, 0])

    def test_curve_and_its_json_are_the_same_chart(self) -> None:
        a, b = (
            plots.plot_survival(curve).to_dict() for curve in (self.CURVE, self.CURVE.to_dict())
        )
        assert a == b

    def test_steps_hold_from_each_time_on(self) -> None:
        # By hand: 5 at risk, one fails at 1, one of 4 at 2, none of 3 at 3.
        corners = [(row["x"], row["y"]) for row in rows(plots.plot_survival(self.CURVE), "x", "y")]
        assert corners == [(0, 1), (1, 1), (1, 0.8), (2, 0.8), (2, 0.6), (pytest.approx(3.18), 0.6)]

    def test_numbers_at_risk_stand_at_their_times(self) -> None:
        counts = rows(plots.plot_survival(self.CURVE), "x", "floor", "text")
        assert [(row["x"], row["text"]) for row in counts] == [(1, "5"), (2, "4"), (3, "3")]

    def test_many_times_show_the_number_still_there(self) -> None:
        times = np.arange(1, 61) / 10
        counts = rows(plots.plot_survival(kaplan_meier(times, np.ones(60))), "x", "floor", "text")
        assert [(row["x"], row["text"]) for row in counts] == [
            (pytest.approx(at), str(int((times >= at).sum()))) for at in (0, 1, 2, 3, 4, 5)
        ]

    @pytest.mark.parametrize(
        ("curve", "error", "message"),
        [
            (3, InvalidTypeError, "`curve`"),
            ({"status": "skipped", "reason": "nothing observed"}, UndefinedMetricError, "nothing"),
            ({"times": [1]}, InvalidInputError, "'n_at_risk'"),
            ({**CURVE.to_dict(), "times": [2, 1, 3]}, InvalidInputError, "ascending"),
            ({**CURVE.to_dict(), "survival": [1]}, InvalidInputError, "rows"),
        ],
    )
    def test_unusable_curves(self, curve: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            plots.plot_survival(curve)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 6))
@settings(max_examples=50)
def test_rounding_moves_a_number_by_less_than_shows(value: float, digits: int) -> None:
    from eval_toolkit.report.plots._charts import significant

    (short,) = significant([value], digits)
    assert abs(short - value) <= abs(value) * 10 ** (1 - digits) + 1e-300
