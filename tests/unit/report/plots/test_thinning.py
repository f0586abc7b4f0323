"""Thinned curves lie where the full ones do."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit import metrics
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.report.plots import step_vertices, thin_curve
from eval_toolkit.report.plots.thinning import thin_together

numbers = st.floats(-1e6, 1e6)
curves = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=60).map(
    lambda points: np.array(sorted(points, key=lambda point: point[0])).T
)


def unit(values, like):
    low, high = like.min(), like.max()
    return (values - low) / (high - low) if high > low else values * 0.0


def distance(full, thin):
    """Largest distance of a corner of the full line from the thin one, in the unit square."""
    points = np.array([unit(full[0], full[0]), unit(full[1], full[1])]).T
    corners = np.array([unit(thin[0], full[0]), unit(thin[1], full[1])]).T
    nearest = np.hypot(*(points - corners[0]).T)
    for a, b in pairwise(corners):
        length = float((b - a) @ (b - a))
        share = np.clip((points - a) @ (b - a) / length, 0, 1) if length else np.zeros(len(points))
        nearest = np.minimum(nearest, np.hypot(*(points - a - share[:, None] * (b - a)).T))
    return float(nearest.max())


@given(curves, st.integers(2, 70))
def test_no_point_is_far_from_the_line_unless_points_ran_out(curve, max_points):
    thin = thin_curve(*curve, max_points=max_points)
    n = len(thin[0])
    assert 1 <= n <= max_points
    assert (thin[0][0], thin[1][0]) == (curve[0][0], curve[1][0])
    assert (thin[0][-1], thin[1][-1]) == (curve[0][-1], curve[1][-1])
    given_points = set(zip(*curve.tolist(), strict=True))
    assert set(zip(thin[0].tolist(), thin[1].tolist(), strict=True)) <= given_points
    if n < max_points:
        assert distance(curve, thin) <= 1e-3 + 1e-9


@given(curves)
def test_order_does_not_turn_and_all_points_are_enough(curve):
    thin = thin_curve(*curve, max_points=10_000)
    assert (np.diff(thin[0]) >= 0).all()
    assert distance(curve, thin) <= 1e-3 + 1e-9
    back = thin_curve(curve[0][::-1], curve[1][::-1], max_points=10_000)
    assert distance(curve, back) <= 1e-3 + 1e-9


@pytest.mark.parametrize("n", [300, 2_000, 20_000])
def test_curves_of_scores_stay_within_two_thousandths(n):
    # A visible move would be a pixel: on 400 pixels 2.5 thousandths.
    rng = np.random.default_rng(n)
    y = rng.random(n) < 0.3
    scores = rng.normal(size=n) + y
    roc = metrics.roc_curve(y, scores)
    pr = metrics.pr_curve(y, scores)
    steps = step_vertices(pr.recall[-2::-1], pr.precision[-2::-1], before=True)
    for curve in ((roc.fpr, roc.tpr), steps):
        thin = thin_curve(*curve)
        assert len(thin[0]) <= 400
        assert distance(curve, thin) <= 2e-3


@given(curves)
def test_several_curves_share_the_places_they_need(curve):
    x, y = curve
    places = thin_together(x, y, y[::-1].copy(), max_points=1_000)
    assert distance((x, y), (x[places], y[places])) <= 1e-3 + 1e-9
    assert distance((x, y[::-1]), (x[places], y[::-1][places])) <= 1e-3 + 1e-9


def test_steps_before_and_after():
    # By hand: the value 5 holds from 0 to 1 (after), or up to 0 (before).
    assert [part.tolist() for part in step_vertices([0, 1], [5, 7])] == [[0, 1, 1], [5, 5, 7]]
    assert [part.tolist() for part in step_vertices([0, 1], [5, 7], before=True)] == [
        [0, 0, 1],
        [5, 7, 7],
    ]


def test_huge_numbers_do_not_overflow():
    x, y = thin_curve([-1e308, 0, 1e308], [1e308, -1e308, 1e308])
    assert len(x) == len(y) == 3


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ([0, 2, 1], [0, 1, 2], {}, "not monotonic"),
        ([0, 1], [0], {}, "rows"),
        ([], [], {}, "empty"),
        ([0, np.nan], [0, 1], {}, "finite"),
        ([0, 1], [0, 1], {"max_points": 1}, "max_points"),
    ],
)
def test_unusable_curves(x, y, options, message):
    with pytest.raises(InvalidInputError, match=message):
        thin_curve(x, y, **options)
