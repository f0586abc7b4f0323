"""ROC, precision-recall and threshold curves show the library's numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plots.catalogue import SCORE, Y, rows

from eval_toolkit import metrics, plots
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import roc_band

FEW = [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]

binary = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=30).filter(
    lambda pairs: len({label for label, _ in pairs}) == 2
)


def drawn(chart: plots.Chart, mark: str = "line", last: bool = True) -> np.ndarray[Any, Any]:
    """Points of the last (or first) layer of a mark."""
    spec = chart.to_dict()
    layers = [layer for layer in spec["layer"] if layer["mark"]["type"] == mark]
    data = spec["datasets"][layers[-1 if last else 0]["data"]["name"]]
    return np.array([[row["x"], row["y"]] for row in data])


def test_roc_curve_goes_through_every_corner() -> None:
    # The points of metrics.roc_curve, collinear ones left out.
    points = drawn(plots.plot_roc_curve(*FEW))
    assert points.tolist() == [[0, 0], [0, 0.5], [0.5, 0.5], [0.5, 1], [1, 1]]


@given(binary)
@settings(max_examples=12)
def test_area_under_what_is_drawn_is_the_metric(pairs: list[tuple[bool, int]]) -> None:
    y, score = zip(*pairs, strict=True)
    for plot, metric in (
        (plots.plot_roc_curve, metrics.roc_auc),
        (plots.plot_pr_curve, metrics.pr_auc),
    ):
        points = drawn(plot(y, score))
        area = np.trapezoid(points[:, 1], points[:, 0])
        assert area == pytest.approx(metric(y, score), abs=2e-3)  # thinned, five digits


def test_operating_point_is_that_of_the_threshold() -> None:
    # By hand: at 0.4 and above are one negative of two and one positive of two.
    chart = plots.plot_roc_curve(*FEW, threshold=0.4)
    (point,) = rows(chart, "x", "y", "t", "text")
    assert (point["x"], point["y"], point["t"]) == (0.5, 0.5, 0.4)
    (point,) = rows(plots.plot_pr_curve(*FEW, threshold=0.35), "x", "y", "t", "text")
    assert (point["x"], point["y"]) == (1.0, pytest.approx(2 / 3, abs=1e-4))


def test_threshold_above_all_scores_has_a_rate_but_no_precision() -> None:
    (point,) = rows(plots.plot_roc_curve(*FEW, threshold=2), "x", "y", "t", "text")
    assert (point["x"], point["y"]) == (0.0, 0.0)
    with pytest.raises(InvalidInputError, match="no score reaches it"):
        plots.plot_pr_curve(*FEW, threshold=2)
    said = plots.plot_threshold_curves(*FEW, threshold=2).to_dict()["description"]
    assert "no precision" in said


def test_chance_is_the_diagonal_and_the_prevalence() -> None:
    assert drawn(plots.plot_roc_curve(*FEW), last=False).tolist() == [[0, 0], [1, 1]]
    assert drawn(plots.plot_pr_curve(Y, SCORE), last=False)[:, 1] == pytest.approx(1 / 3, abs=1e-4)
    chart = plots.plot_pr_curve(Y, SCORE, prevalence=0.01)
    assert drawn(chart, last=False)[:, 1].tolist() == [0.01, 0.01]


@pytest.mark.parametrize("plot", [plots.plot_roc_curve, plots.plot_pr_curve])
def test_baseline_as_curve_and_as_pair_is_the_same_line(plot: Any) -> None:
    if plot is plots.plot_roc_curve:
        curve: Any = metrics.roc_curve(Y, SCORE)
        pair = (curve.fpr, curve.tpr)
    else:
        curve = metrics.pr_curve(Y, SCORE)
        first = int(np.flatnonzero(curve.recall[:-1] > 0)[-1])
        recall = [*curve.recall[: first + 1], 0.0]
        pair = (recall, [*curve.precision[: first + 1], curve.precision[first]])
    by_curve, by_pair = (plot(*FEW, baseline_curve=given) for given in (curve, pair))
    a, b = (
        next(
            iter(
                [
                    layer
                    for layer in chart.to_dict()["layer"]
                    if layer["mark"].get("strokeWidth") == 1.75
                ]
            )
        )
        for chart in (by_curve, by_pair)
    )
    assert a["data"] == b["data"]  # named by a hash of the rows


def test_band_is_shaded_where_it_was_computed() -> None:
    band = roc_band(Y, SCORE, n_resamples=50, grid=[0.1, 0.5, 0.9])
    chart = plots.plot_roc_curve(Y, SCORE, band=band)
    shaded = rows(chart, "x", "y", "y2")
    assert [row["y"] for row in shaded] == pytest.approx(band.low, abs=1e-4)
    assert [row["y2"] for row in shaded] == pytest.approx(band.high, abs=1e-4)
    assert "pointwise 95% bootstrap band of 50 draws" in chart.to_dict()["description"]


@given(binary, st.integers(-1, 7))
@settings(max_examples=12)
def test_threshold_curves_are_the_rates_at_each_score(
    pairs: list[tuple[bool, int]], threshold: int
) -> None:
    y, score = (np.array(part) for part in zip(*pairs, strict=True))
    spec = plots.plot_threshold_curves(y, score, threshold=threshold).to_dict()
    counts = metrics.confusion_counts(y, score, threshold)
    recall = counts.tp / (counts.tp + counts.fn)
    assert f"recall {recall:.3f}" in spec["description"]
    lines = [layer for layer in spec["layer"] if layer["mark"]["type"] == "line"]
    for layer, rate in zip(lines, ("precision", "recall", "fpr"), strict=True):
        data = spec["datasets"][layer["data"]["name"]]
        for at in np.unique(score):
            # All corners at a score lie between the rate there and the rate above it.
            here = [row["y"] for row in data if row["x"] == at]
            seen = metrics.confusion_counts(y, score, float(at))
            expected = {
                "precision": seen.tp / max(seen.tp + seen.fp, 1),
                "recall": seen.tp / (seen.tp + seen.fn),
                "fpr": seen.fp / (seen.fp + seen.tn),
            }[rate]
            assert not here or min(abs(y - expected) for y in here) < 1e-4


@pytest.mark.parametrize(
    "plot", [plots.plot_roc_curve, plots.plot_pr_curve, plots.plot_threshold_curves]
)
def test_unusable_data_are_refused(plot: Any) -> None:
    with pytest.raises(UndefinedMetricError, match="both classes"):
        plot([1, 1], [0.1, 0.2])
    with pytest.raises(InvalidInputError, match=r"y_score\[1\] is nan"):
        plot([0, 1], [0.1, np.nan])
    with pytest.raises(InvalidInputError, match="2 rows but"):
        plot([0, 1], [0.1])


@pytest.mark.parametrize("plot", [plots.plot_roc_curve, plots.plot_pr_curve])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"band": 0.95}, "`band`"),
        ({"baseline_curve": [1, 2, 3]}, "`baseline_curve`"),
        ({"label": 3}, "`label`"),
        ({"threshold": "high"}, "`threshold`"),
    ],
)
def test_wrong_types_are_type_errors(plot: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        plot(*FEW, **options)
