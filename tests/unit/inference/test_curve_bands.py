"""Bands of ROC and precision-recall curves: the same numbers as a plain loop over scikit-learn."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve, roc_curve
from statsmodels.stats.proportion import proportion_confint

from eval_toolkit import metrics
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import pr_band, roc_band
from eval_toolkit.inference.plans import Plan, groups_plan, label_stratified_plan, rows_plan

GRID = np.arange(21) / 20
B = 70
"""More than one block of 64 draws, and not a multiple of it."""


def draws(plan: Plan, n: int, seed: int) -> list[np.ndarray[Any, Any]]:
    """Rows of each resample, repeated as often as drawn."""
    found = []
    for first in range(0, n, 64):
        counts = np.empty((plan.count_rows(), 64), dtype=np.uint8)
        plan.draw(counts, seed=seed, first=first)
        by_row = counts if plan.unit_of_row is None else counts[plan.unit_of_row]
        found += [np.repeat(np.arange(plan.n_rows), by_row[:, lane]) for lane in range(64)]
    return found[:n]


def roc_at(y: Any, score: Any, grid: Any) -> Any:
    fpr, tpr, _ = roc_curve(y, score, drop_intermediate=False)
    return np.interp(grid, fpr, tpr)  # of equal abscissae the last, so the highest


def precision_at(y: Any, score: Any, grid: Any) -> Any:
    precision, recall, _ = precision_recall_curve(y, score)
    precision, recall = precision[:-1], recall[:-1]  # without the point that no threshold reaches
    reached = [np.flatnonzero((recall >= r) & (recall > 0)) for r in grid]
    return np.array([precision[places[-1]] for places in reached])  # the highest threshold


def bases(read: Any, y: Any, score: Any, unit: Any) -> list[int]:
    """How many units each rate is a share of: those with a positive, or those above a threshold."""
    if read is roc_at:
        return [len(np.unique(unit[y == 1]))] * len(GRID)
    _, recall, thresholds = precision_recall_curve(y, score)
    at = [np.flatnonzero((recall[:-1] >= r) & (recall[:-1] > 0))[-1] for r in GRID]
    return [len(np.unique(unit[score >= thresholds[place]])) for place in at]


def plain(read: Any, y: Any, score: Any, plan: Plan, unit: Any = None) -> Any:
    """The percentile interval of a plain loop, no narrower than Wilson's."""
    usable = [rows for rows in draws(plan, B, 42) if 0 < y[rows].sum() < len(rows)]
    curves = np.array([read(y[rows], score[rows], GRID) for rows in usable])
    low, high = np.quantile(curves, [0.025, 0.975], axis=0)
    unit = np.arange(len(y)) if unit is None else unit
    shares = zip(read(y, score, GRID), bases(read, y, score, unit), strict=True)
    for place, (share, n) in enumerate(shares):
        if read is roc_at and GRID[place] == 1.0:
            continue  # the rate is 1 whatever the data
        least, most = proportion_confint(share * n, n, method="wilson")
        low[place], high[place] = min(low[place], least), max(high[place], most)
    return len(usable), low, high


def data(n: int, ties: int | None = None) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    y = (rng.random(n) < 0.4).astype(int)
    score = rng.normal(size=n) + y
    return y, score if ties is None else np.round(score * ties)


@pytest.mark.parametrize(("band", "read"), [(roc_band, roc_at), (pr_band, precision_at)])
@pytest.mark.parametrize("ties", [None, 1])
@pytest.mark.parametrize("grouped", [False, True])
def test_equal_to_a_loop_over_sklearn(
    band: Any, read: Any, ties: int | None, grouped: bool
) -> None:
    y, score = data(150, ties)
    groups = np.arange(150) // 3 if grouped else None
    found = band(y, score, groups=groups, n_resamples=B, grid=GRID)
    plan = rows_plan(150) if groups is None else groups_plan(groups)
    n, low, high = plain(read, y, score, plan, groups)
    assert found.n_resamples == n
    np.testing.assert_allclose(found.low, low, atol=1e-12)
    np.testing.assert_allclose(found.high, high, atol=1e-12)
    np.testing.assert_allclose(found.y, read(y, score, GRID), atol=1e-12)
    assert found.method == ("percentile, groups" if grouped else "percentile")


def test_few_rows_of_a_class_are_drawn_by_label() -> None:
    y = np.array([1] + [0] * 29)
    score = np.linspace(0, 1, 30)[::-1].copy()
    found = roc_band(y, score, n_resamples=B, grid=GRID)
    assert found.method == "percentile, label-stratified"
    assert found.n_resamples == B
    _, low, high = plain(roc_at, y, score, label_stratified_plan(y.astype(bool)))
    np.testing.assert_allclose([found.low, found.high], [low, high], atol=1e-12)
    grouped = pr_band(y, score, groups=np.arange(30) // 2, n_resamples=B)
    assert grouped.method == "percentile, groups, label-stratified"


binary = st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=10, max_size=40).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


@given(binary)
@settings(max_examples=40)
def test_bands_are_curves_themselves(rows: list[tuple[bool, int]]) -> None:
    y, score = zip(*rows, strict=True)
    roc = roc_band(y, score, n_resamples=20)
    for curve in (roc.low, roc.y, roc.high):  # quantiles of rising curves rise
        assert (np.diff(curve) >= -1e-12).all()
        assert curve[-1] == 1.0
    pr = pr_band(y, score, n_resamples=20)
    for band in (roc, pr):
        assert (band.low <= band.y).all()
        assert (band.y <= band.high).all()
        assert (band.low >= 0).all()
        assert (band.high <= 1).all()


@given(binary)
@settings(max_examples=30)
def test_only_the_order_of_scores_counts(rows: list[tuple[bool, int]]) -> None:
    y, score = (np.array(part) for part in zip(*rows, strict=True))
    for band in (roc_band, pr_band):
        one, other = band(y, score, n_resamples=20), band(y, np.exp(score / 3.0), n_resamples=20)
        assert (one.low == other.low).all()
        assert (one.high == other.high).all()


def test_mean_over_the_grid_is_near_the_area() -> None:
    y, score = data(400)
    band = roc_band(y, score, grid=np.arange(2001) / 2000, n_resamples=20)
    assert np.trapezoid(band.y, band.x) == pytest.approx(metrics.roc_auc(y, score), abs=2e-3)


def test_seeds_decide_and_more_confidence_is_wider() -> None:
    y, score = data(100)
    first, again, other = (roc_band(y, score, seed=seed, n_resamples=B) for seed in (1, 1, 2))
    assert (first.low == again.low).all()
    assert (first.low != other.low).any()
    wide = roc_band(y, score, seed=1, n_resamples=B, confidence=0.99)
    assert (wide.low <= first.low).all()
    assert (wide.high >= first.high).all()


def test_perfect_separation_is_not_certain() -> None:
    # All draws agree; Wilson's interval of 15 of 15 at 95 % begins at 15 / (15 + 1.96²) = 0.796.
    band = roc_band([0] * 15 + [1] * 15, np.arange(30), grid=[0.0, 0.5, 1.0], n_resamples=20)
    assert band.low == pytest.approx([0.796, 0.796, 1.0], abs=1e-3)
    assert band.high.tolist() == [1.0, 1.0, 1.0]


def test_to_dict_is_json() -> None:
    import json

    y, score = data(50)
    payload = roc_band(y, score, n_resamples=20, grid=[0.5]).to_dict()
    assert json.loads(json.dumps(payload, allow_nan=False)) == payload
    assert payload["x"] == [0.5]


@pytest.mark.parametrize("band", [roc_band, pr_band])
@pytest.mark.parametrize(
    ("y", "options", "error", "message"),
    [
        ([1] * 12, {}, UndefinedMetricError, "both classes"),
        ([0, 1] * 4, {}, InvalidInputError, "at least 10 rows"),
        ([0, 1] * 6, {"groups": [1, 2, 3] * 4}, InvalidInputError, "at least 10 groups"),
        ([0, 1] * 6, {"grid": [0.5, 0.2]}, InvalidInputError, "`grid`"),
        ([0, 1] * 6, {"grid": [0.5, 1.2]}, InvalidInputError, "`grid`"),
        ([0, 1] * 6, {"n_resamples": 5}, InvalidInputError, "`n_resamples`"),
        ([0, 1] * 6, {"confidence": 95}, InvalidInputError, "`confidence`"),
    ],
)
def test_unusable_input(
    band: Any, y: list[int], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        band(y, np.linspace(0, 1, len(y)), **options)
