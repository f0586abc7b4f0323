"""Forests, differences and bars: what is drawn for which status, and from which kinds of input."""

from typing import Any

import numpy as np
import pytest
from tests.unit.report.plots.catalogue import forest_cells, nodes, rows

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import BootstrapCI, PairedBootstrapCI
from eval_toolkit.report import plots
from eval_toolkit.report.plots._estimates import estimates
from eval_toolkit.scorecards import MetricResult

CI = BootstrapCI(0.7, 0.6, 0.8, 0.95, 1000, "BCa", n_units=40, n_groups=40)
CELL = MetricResult(0.7, "ok", ci=CI, n_units=40, n_groups=40)


@pytest.mark.parametrize(
    "value", [CI, CI.to_dict(), CELL, CELL.to_dict(), (0.7, 0.6, 0.8), [0.7, 0.6, 0.8]]
)
def test_every_kind_of_interval_is_one_estimate(value: Any) -> None:
    (row,) = estimates({"a": value}, "values")
    assert (row.value, row.low, row.high, row.status) == (0.7, 0.6, 0.8, "ok")
    assert row.n == (None if isinstance(value, (tuple, list)) else 40)


def test_differences_carry_their_p_value() -> None:
    given = PairedBootstrapCI(0.02, 0.01, 0.03, False, 0.95, 1000, p_value=0.04)
    for value in (given, given.to_dict()):
        (row,) = estimates({"a": value}, "values")
        assert (row.value, row.low, row.high, row.p_value) == (0.02, 0.01, 0.03, 0.04)


@pytest.mark.parametrize("value", [1, 0.5, np.float64(0.5), np.int64(2), True])
def test_numbers_have_no_interval(value: Any) -> None:
    (row,) = estimates({"a": value}, "values")
    assert row.value == value
    assert not row.has_interval


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({}, InvalidInputError, "empty"),
        ([1, 2], InvalidTypeError, "mapping"),
        ({"a": None}, InvalidTypeError, r"values\['a'\] is None"),
        ({"a": "0.5"}, InvalidTypeError, r"values\['a'\]"),
        ({"a": object()}, InvalidTypeError, r"values\['a'\]"),
        ({"a": float("nan")}, InvalidInputError, r"values\['a'\]"),
        ({"a": (1, 2)}, InvalidInputError, "2 entries"),
        ({"a": (1, 2, 0)}, InvalidInputError, "lower bound must come first"),
        ({"a": {"value": 1, "status": "fine"}}, InvalidInputError, "'fine'"),
        ({"a": {"value": 1, "ci_low": 0, "ci_high": float("inf")}}, InvalidInputError, "ci_high"),
    ],
)
@pytest.mark.parametrize(
    "plot", [plots.plot_forest, plots.plot_differences, plots.plot_metric_bars]
)
def test_unusable_values_are_named(plot: Any, values: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        plot(values)


def test_skipped_and_error_are_never_drawn_alike_nor_as_numbers() -> None:
    spec = plots.plot_forest(forest_cells(["a", "b", "c"], "too few rows")).to_dict()
    by_mark: dict[str, set[str]] = {}
    for layer in spec["layer"]:
        mark = layer["mark"]
        look = f"{mark['type']} {mark.get('shape', '')} {mark.get('style', '')}".strip()
        shown = {row.get("name") for row in spec["datasets"][layer["data"]["name"]]}
        by_mark[look] = by_mark.get(look, set()) | shown
    assert by_mark["text  muted"] == {"b", "plain"}  # a reason, and a number of rows
    assert by_mark["text  error"] == by_mark["point triangle-up"] == {"c"}
    assert by_mark["point"] == {"a", "plain"}
    assert by_mark["rule"] == {"a"}
    said = spec["description"]
    assert "b: skipped, too few rows." in said
    assert "c: error, too few rows." in said


def test_rows_keep_their_order_and_equal_names_their_row() -> None:
    spec = plots.plot_forest({"b": 0.1, "a": 0.2, "a ": 0.3}).to_dict()
    domains = [
        node["scale"]["domain"]
        for node in nodes(spec)
        if node.get("field") == "name" and "scale" in node
    ]
    assert domains
    assert all(domain == ["b", "a", "a (2)"] for domain in domains)


def test_differences_that_hold_zero_are_hollow() -> None:
    values = {"up": (0.1, 0.05, 0.2), "none": (0.0, -0.1, 0.1), "touching": (0.1, 0.0, 0.2)}
    spec = plots.plot_differences(values).to_dict()
    hollow = [
        {row["name"] for row in spec["datasets"][layer["data"]["name"]]}
        for layer in spec["layer"]
        if layer["mark"].get("color") == plots.NEUTRALS["paper"]
    ]
    assert hollow == [{"none", "touching"}]


def test_a_decided_difference_without_a_direction_is_filled_and_signed() -> None:
    value = {"value": 0.3, "ci_low": 0.2, "ci_high": 0.5, "status": "ok", "verdict": "different"}
    spec = plots.plot_differences({"refused_first": value}).to_dict()
    points = [layer["mark"]["color"] for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert points == [plots.NEUTRALS["ink"]]
    assert "[+0.200, +0.500] ≠" in str(spec["datasets"])


def test_a_difference_without_an_interval_is_not_a_clear_one() -> None:
    spec = plots.plot_differences({"a": 0.02, "b": -0.01}).to_dict()
    points = [layer["mark"]["color"] for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert points == [plots.NEUTRALS["paper"]]


def test_both_p_values_are_named_for_what_they_are() -> None:
    cell = {"value": 0.1, "ci_low": 0.05, "ci_high": 0.2, "p_value": 0.02, "p_adjusted": 0.06}

    def tips(given: dict[str, Any]) -> set[tuple[str, str]]:
        spec = plots.plot_differences({"a": given}).to_dict()
        return {
            (node["field"], node["title"]) for node in nodes(spec) if node.get("format") == ".3~g"
        }

    assert tips(cell) == {("p", "p"), ("p_adjusted", "p (corrected)")}
    assert tips(cell | {"p_adjusted": 0.02}) == {("p", "p")}
    (row,) = estimates({"a": cell}, "values")
    assert (row.p_value, row.p_adjusted) == (0.02, 0.06)


def test_an_end_that_is_alone_is_told() -> None:
    said = plots.plot_forest({"a": {"value": 0.5, "ci_low": 0.4}}).to_dict()["description"]
    assert said == "Value by slice. a: 0.500 [0.400, ?]."


def test_results_may_lie_outside_of_their_interval_and_triples_not() -> None:
    (row,) = estimates({"a": {"value": 0.5, "ci_low": 0.6, "ci_high": 0.7}}, "values")
    assert (row.value, row.low) == (0.5, 0.6)
    with pytest.raises(InvalidInputError, match=r"0\.5 outside of \[0\.6, 0\.7\]"):
        plots.plot_forest({"a": (0.5, 0.6, 0.7)})


@pytest.mark.parametrize("values", [{"a": 0.4}, {"a": -0.4, "b": 0.1}, {"a": 0.0}])
def test_bars_begin_at_zero(values: dict[str, float]) -> None:
    spec = plots.plot_metric_bars(values).to_dict()
    (bar,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "bar"]
    low, high = bar["encoding"]["x"]["scale"]["domain"]
    assert low <= 0 <= high
    assert low < high
    assert bar["encoding"]["x2"] == {"datum": 0}


def test_every_interval_fits_the_axis() -> None:
    values = {"a": (5.0, -3.0, 9.0), "b": (7.0, 6.0, 30.0)}
    spec = plots.plot_forest(values, reference=40.0).to_dict()
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low <= -3.0
    assert high >= 40.0


def test_shares_end_at_one() -> None:
    spec = plots.plot_forest({"a": (0.99, 0.95, 1.0)}).to_dict()
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1] == 1.0


def test_lifts_are_differences_from_zero() -> None:
    chart = plots.plot_lift_ci({"a": (0.1, -0.1, 0.3)})
    assert rows(chart, "x") == [{"x": 0.0}]
    assert chart.to_dict()["description"].startswith("Lift, around zero.")
