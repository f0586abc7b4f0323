"""ROC, precision-recall and threshold curves show the library's numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.report.plots.catalogue import SCORE, Y, rows

from eval_toolkit import metrics
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import pr_band, roc_band
from eval_toolkit.report import plots

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
@settings(max_examples=8)
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


def test_baseline_may_be_one_array() -> None:
    pair = [[0.0, 0.5, 1.0], [0.0, 0.9, 1.0]]
    by_array = plots.plot_roc_curve(*FEW, baseline_curve=np.array(pair))
    assert by_array.to_dict() == plots.plot_roc_curve(*FEW, baseline_curve=pair).to_dict()
    with pytest.raises(InvalidTypeError, match="baseline_curve"):
        plots.plot_roc_curve(*FEW, baseline_curve=np.array([pair[0]]))


def rate_lines(scores: Any, labels: Any = (0, 0, 1, 1)) -> list[np.ndarray]:
    """Return the corners of precision, recall and false positive rate."""
    spec = plots.plot_threshold_curves(labels, scores).to_dict()
    lines = [layer for layer in spec["layer"] if layer["mark"]["type"] == "line"]
    return [
        np.array([(row["x"], row["y"]) for row in spec["datasets"][line["data"]["name"]]])
        for line in lines
    ]


def test_rates_of_probabilities_are_drawn_from_0_to_1() -> None:
    """At 0 all rows are positive; above the highest score none is, and there is no precision."""
    precision, recall, alarms = rate_lines([0.2, 0.4, 0.35, 0.8])
    assert precision[[0, -1]].tolist() == [[0.0, 0.5], [0.8, 1.0]]
    assert recall[[0, -1]].tolist() == alarms[[0, -1]].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert rate_lines([-1.0, 0.4, 0.35, 0.8])[1][[0, -1], 0].tolist() == [-1.0, 0.8]


def test_scores_far_from_zero_keep_their_places() -> None:
    """Sums of log-likelihoods: what is drawn is within 1/10 000 of the axis of what is given."""
    scores = -100_000 + np.array([0.123456, 0.7, 1.4, 2.9])
    for line in rate_lines(scores):
        assert np.abs(line[:, 0][:, None] - scores).min(axis=1).max() < 3e-4
        assert len(np.unique(line[:, 0])) > 2


def test_small_thresholds_can_be_read() -> None:
    spec = plots.plot_threshold_curves([0, 1, 0, 1], [0.0001, 0.0002, 0.0003, 0.0004]).to_dict()
    tips = [
        layer["encoding"]["tooltip"] for layer in spec["layer"] if layer["mark"]["type"] == "point"
    ]
    assert {one["format"] for tip in tips for one in tip if one["title"] == "Threshold"} == {".6~g"}


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


def test_a_band_must_be_of_this_curve() -> None:
    y, s = [0, 1] * 30, [0.02 * i + 0.3 * (i % 2) for i in range(60)]
    with pytest.raises(
        InvalidInputError, match="`band` belongs to a pr curve with 60 rows, but this is a roc"
    ):
        plots.plot_roc_curve(y, s, band=pr_band(y, s, n_resamples=20))
    with pytest.raises(
        InvalidInputError, match="to a pr curve with 60 rows, but this is a pr curve with 40"
    ):
        plots.plot_pr_curve(y[:40], s[:40], band=pr_band(y, s, n_resamples=20))
