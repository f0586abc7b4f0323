"""Intervals of calibration errors: drawn labels, tied scores, groups, debiased forms, differences."""

import functools

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit import metric_specs as ms
from eval_toolkit import metrics
from eval_toolkit.inference import bootstrap_ci
from eval_toolkit.inference.calibration_intervals import (
    INTERVAL_REASON,
    calibration_interval,
    is_calibration_error,
)
from eval_toolkit.inference.calibration_statistics import (
    EqualMassError,
    EqualWidthError,
    SmoothError,
)
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.statistics import statistic_for

RNG = np.random.default_rng(16)
SPREAD = RNG.random(400)
DATA = {
    "untied": (RNG.random(400) < SPREAD, SPREAD),
    "tied": (RNG.random(400) < SPREAD, np.round(SPREAD, 1)),
    "three scores": (RNG.random(400) < SPREAD, np.round(2 * SPREAD) / 2),
    "constant": (RNG.random(400) < 0.3, np.full(400, 0.3)),
    "extreme": (SPREAD < 0.2, np.where(SPREAD < 0.2, 0.999, 0.001)),
}
ERRORS = [
    *(EqualWidthError(7, norm) for norm in ("l1", "max")),
    *(EqualMassError(7, norm) for norm in ("l1", "l2", "max")),
]


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.name)
def test_the_cells_make_the_bins_of_the_metric(error, data):
    """The norm of the observed gaps is the metric's own value, tied scores or not."""
    ranked = Columns.scored(*data)
    fields = error.label_draws(ranked)(np.random.default_rng(0), 3)
    assert error.size(fields.observed) == pytest.approx(error.point(ranked), abs=1e-12)
    assert fields.noise.shape == fields.calibrated.shape == (7, 3)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_the_grid_of_the_smooth_error_is_fine_enough(data):
    ranked = Columns.scored(*data)
    fields = SmoothError().label_draws(ranked)(np.random.default_rng(0), 3)
    value = SmoothError().size(fields.observed)[0]
    assert value == pytest.approx(SmoothError().point(ranked), abs=5e-4)


def test_tied_scores_are_shared_as_in_the_value():
    """Two scores, cuts through both. Resamples once were compared with ties cut in rank order."""
    scores = np.repeat([0.1, 0.7], 150)
    labels = np.tile([True, True, False], 100)  # two thirds, whatever the score
    ci = bootstrap_ci(labels, scores, ms.ece(n_bins=8, strategy="quantile"))
    # One frequency per score: |0.1 − 2/3| and |0.7 − 2/3|, each ± 1.96 √(2/9 / 150) = 0.075.
    assert ci.point_estimate == pytest.approx((0.5667 + 0.0333) / 2, abs=1e-3)
    assert 0.2 < ci.ci_low < 0.27
    assert 0.34 < ci.ci_high < 0.39


@pytest.mark.parametrize("spec", [ms.ece(), ms.ece(strategy="quantile"), ms.smooth_ece])
@pytest.mark.parametrize("n", [100, 1000])
def test_no_surprise_is_no_certainty(spec, n):
    """Without a surprise in n rows a share of 1 − 0.05^(1/n) is possible, at 95 %."""
    labels = np.arange(n) % 10 == 0
    ci = bootstrap_ci(labels, np.where(labels, 0.999, 0.001), spec)
    assert ci.ci_low == 0.0
    assert 0.8 * (1 - 0.05 ** (1 / n)) < ci.ci_high < 3 * (1 - 0.05 ** (1 / n)) + 0.001


@pytest.mark.parametrize(
    "metric",
    [
        metrics.expected_calibration_error,
        metrics.expected_calibration_error_equal_mass,
        metrics.expected_calibration_error_l2,
        metrics.expected_calibration_error_l2_debiased,
        functools.partial(metrics.expected_calibration_error_debiased, n_sweep=10),
        metrics.maximum_calibration_error,
        metrics.smooth_ece,
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_constant_scores_have_a_width(metric, share):
    """One bin: the interval is about that of a share, 0.3 ± 0.13 or 0 to 0.07 of 50 (Wilson)."""
    labels = np.arange(50) < round(50 * share)
    ci = bootstrap_ci(labels, np.full(50, 0.6), metric, n_resamples=300)
    assert ci.method == "norm-ball"
    assert ci.ci_low <= 0.6 - share <= ci.ci_high
    assert 0.05 < ci.ci_high - ci.ci_low < 0.35


def test_bins_without_rows_are_no_bins():
    ci = bootstrap_ci(DATA["constant"][0], DATA["constant"][1], ms.ece(n_bins=1000))
    few = bootstrap_ci(DATA["constant"][0], DATA["constant"][1], ms.ece(n_bins=2))
    assert (ci.ci_low, ci.ci_high) == pytest.approx((few.ci_low, few.ci_high), abs=0.01)


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("error", [*ERRORS, SmoothError()], ids=lambda error: error.name)
def test_the_order_of_the_rows_does_not_matter(error, data):
    labels, scores = data
    order = np.random.default_rng(3).permutation(len(labels))
    how = {"n_draws": 100, "confidence": 0.95, "seed": 5}
    found = [
        calibration_interval(error, ranked, error.point(ranked), **how)
        for ranked in (Columns.scored(labels, scores), Columns.scored(labels[order], scores[order]))
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_the_seed_decides_and_more_draws_are_in_batches():
    error, data = EqualWidthError(10), Columns.scored(*DATA["untied"])
    point = error.point(data)
    how = {"n_draws": 600, "confidence": 0.9}
    first = calibration_interval(error, data, point, seed=1, **how)
    assert first == calibration_interval(error, data, point, seed=1, **how)
    assert first != calibration_interval(error, data, point, seed=2, **how)
    assert 0.0 <= first[0] <= point <= first[1] <= 1.0


def test_a_debiased_error_has_the_interval_of_the_plain_one():
    """Both estimate the same error of the population; the debiased value may lie below."""
    labels, scores = DATA["tied"]
    plain = bootstrap_ci(labels, scores, metrics.expected_calibration_error_l2, n_resamples=200)
    debiased = bootstrap_ci(
        labels, scores, metrics.expected_calibration_error_l2_debiased, n_resamples=200
    )
    assert debiased.point_estimate < plain.point_estimate
    assert (debiased.ci_low, debiased.ci_high) == (plain.ci_low, plain.ci_high)
    assert debiased.method == plain.method == "norm-ball"


def test_groups_widen_the_interval():
    """Ten copies of every row are no new rows: the interval stays that of the rows themselves."""
    labels, scores = (part[:100] for part in DATA["untied"])
    alone = bootstrap_ci(labels, scores, ms.ece(n_bins=5))
    copies = bootstrap_ci(
        np.repeat(labels, 10), np.repeat(scores, 10), ms.ece(n_bins=5),
        groups=np.repeat(np.arange(100), 10),
    )  # fmt: skip
    assert copies.method == "norm-ball, groups"
    assert copies.ci_high == pytest.approx(alone.ci_high, abs=0.02)
    ignored = bootstrap_ci(np.repeat(labels, 10), np.repeat(scores, 10), ms.ece(n_bins=5))
    assert ignored.ci_high < copies.ci_high - 0.03


def test_the_interval_says_what_it_is_about():
    ci = bootstrap_ci(*DATA["untied"], ms.ece())
    assert ci.reason == INTERVAL_REASON
    assert "within a bin" in INTERVAL_REASON
    assert "bin" not in bootstrap_ci(*DATA["untied"], ms.smooth_ece, n_resamples=64).reason


def foreign(y_true, y_score):
    return metrics.expected_calibration_error(y_true, y_score)


@each(
    ("metric", "expected"),
    [
        (ms.ece(), True),
        (ms.ece(strategy="quantile"), True),
        (ms.smooth_ece, True),
        (ms.on_columns(ms.ece(), label="right", score="sure"), True),
        (metrics.expected_calibration_error_debiased, True),
        (functools.partial(metrics.expected_calibration_error_l2_debiased, n_bins=5), True),
        (functools.partial(metrics.maximum_calibration_error, strategy="uniform"), True),
        (statistic_for(metrics.expected_calibration_error_l2), True),
        (ms.brier, False),
        (ms.log_loss, False),
        (ms.ratio_of("ratio", "bits", "bytes"), False),
        (ms.mean_of("right"), False),
        (metrics.roc_auc, False),
        (foreign, False),
    ],
)
def test_calibration_errors_are_recognised(metric, expected):
    assert is_calibration_error(metric) is expected
