"""The calibration-error family: hand-made cases, known answers, refusals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.metrics import (
    CalibrationFit,
    calibration_slope_intercept,
    expected_calibration_error,
    expected_calibration_error_debiased,
    expected_calibration_error_equal_mass,
    expected_calibration_error_l2,
    expected_calibration_error_l2_debiased,
    maximum_calibration_error,
    smooth_ece,
)

FAMILY = [
    expected_calibration_error,
    expected_calibration_error_debiased,
    expected_calibration_error_equal_mass,
    expected_calibration_error_l2,
    expected_calibration_error_l2_debiased,
    maximum_calibration_error,
    smooth_ece,
]
every_error = pytest.mark.parametrize("error", FAMILY, ids=lambda error: error.__name__)


@every_error
def test_predicting_the_base_rate_everywhere_looks_perfect(error: Callable[..., Any]) -> None:
    assert error([0, 1, 0, 0] * 10, [0.25] * 40) == pytest.approx(0.0, abs=1e-12)


@every_error
def test_certain_and_always_wrong(error: Callable[..., Any]) -> None:
    # Simulated labels agree with a certain model, so nothing is subtracted; neither is variance.
    assert error([1] * 20, [0.0] * 20) == 1.0


@every_error
def test_certain_and_always_right(error: Callable[..., Any]) -> None:
    assert error([0] * 10 + [1] * 10, [0.0] * 10 + [1.0] * 10) == 0.0


def test_a_score_of_one_is_in_the_last_bin() -> None:
    # Bin 9 holds 0.95 and 1.0: mean 0.975, all positive.
    assert expected_calibration_error([1, 1], [0.95, 1.0]) == pytest.approx(0.025)


def test_equal_mass_needs_a_row_per_bin() -> None:
    for error in FAMILY[1:6]:
        with pytest.raises(InvalidInputError, match="`n_bins` is 10 but there are only 3 rows"):
            error([0, 1, 1], [0.1, 0.5, 0.9])
    assert expected_calibration_error([0, 1, 1], [0.1, 0.5, 0.9]) == pytest.approx(0.7 / 3)


def test_at_least_two_bins() -> None:
    for error in FAMILY[:5]:
        with pytest.raises(InvalidInputError, match="`n_bins` is 1; it must be at least 2"):
            error([0, 1, 1], [0.1, 0.5, 0.9], 1)


def test_debiased_errors_of_a_calibrated_model_are_smaller() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = rng.random(500) < p
    assert expected_calibration_error_debiased(y, p) < 0.5 * expected_calibration_error_equal_mass(
        y, p
    )
    assert expected_calibration_error_l2_debiased(y, p) < 0.7 * expected_calibration_error_l2(y, p)


def test_l2_debiased_by_hand() -> None:
    # Two bins of two rows: p 0.5, 0.5 with y 0, 1; p 1, 1 with y 1, 1. Only bin one has variance:
    # (1/2)[(0)² − 0.25/1] + (1/2)[0] < 0, clipped; with p 0.0 instead, (1/2)(0.25 − 0.25) = 0.
    y = [0, 1, 1, 1]
    assert expected_calibration_error_l2_debiased(y, [0.5, 0.5, 1.0, 1.0], 2) == 0.0
    assert expected_calibration_error_l2_debiased(y, [0.0, 0.0, 1.0, 1.0], 2) == 0.0
    # One row per bin has no variance estimate: the plug-in value stands.
    assert expected_calibration_error_l2_debiased([0, 1], [0.5, 0.5], 2) == 0.0
    assert expected_calibration_error_l2_debiased([1, 0], [0.1, 0.9], 2) == pytest.approx(0.9)


class TestDebiased:
    Y, P = [0, 1, 1, 0, 1, 1] * 5, [0.3, 0.4, 0.9, 0.6, 0.2, 0.8] * 5

    def test_seed_and_rng_are_one_argument(self) -> None:
        by_seed = expected_calibration_error_debiased(self.Y, self.P, 3, seed=5)
        assert by_seed == expected_calibration_error_debiased(self.Y, self.P, 3, rng=5)
        with pytest.raises(InvalidInputError, match="not both"):
            expected_calibration_error_debiased(self.Y, self.P, 3, seed=5, rng=5)

    def test_reproducible_by_default(self) -> None:
        default = expected_calibration_error_debiased(self.Y, self.P, 3)
        assert default == expected_calibration_error_debiased(self.Y, self.P, 3, seed=42)
        assert default != expected_calibration_error_debiased(self.Y, self.P, 3, seed=43)

    def test_at_least_ten_sweeps(self) -> None:
        with pytest.raises(InvalidInputError, match="`n_sweep` is 9; it must be at least 10"):
            expected_calibration_error_debiased(self.Y, self.P, n_sweep=9)


def test_maximum_checks_its_strategy() -> None:
    with pytest.raises(InvalidInputError, match="`strategy` is 'equal'"):
        maximum_calibration_error([0, 1], [0.2, 0.6], strategy="equal")


class TestSmoothEce:
    def test_at_least_the_overall_bias(self) -> None:
        rng = np.random.default_rng(1)
        p = rng.random(300)
        y = rng.random(300) < p**2
        assert smooth_ece(y, p) >= abs(np.mean(y - p))

    def test_at_most_the_mean_residual_size(self) -> None:
        y, p = [0, 1, 1, 0], [0.3, 0.2, 0.9, 0.6]
        assert smooth_ece(y, p) <= np.mean(np.abs(np.subtract(y, p)))

    def test_moves_continuously_with_the_predictions(self) -> None:
        """Two scores that part by 1e-9 fall into different bins; the smooth error hardly moves."""
        y = [0, 1] * 20
        split = [0.5 - 1e-9, 0.5 + 1e-9] * 20
        assert expected_calibration_error(y, split) == pytest.approx(0.5)
        assert smooth_ece(y, split) == pytest.approx(smooth_ece(y, [0.5] * 40), abs=1e-4)

    def test_of_one_point_mass(self) -> None:
        """One residual r at the middle of a wide interval keeps its mass under any kernel."""
        assert smooth_ece([1] * 10, [0.9] * 10) == pytest.approx(0.1, abs=1e-9)


class TestSlopeIntercept:
    def test_too_extreme_predictions_have_a_slope_below_one(self) -> None:
        logit = np.repeat([-1.0, 1.0], 100)
        truth = 1 / (1 + np.exp(-logit))
        y = np.concatenate([np.arange(100) < 100 * p for p in truth[[0, 100]]])
        extreme = 1 / (1 + np.exp(-2 * logit))
        assert calibration_slope_intercept(y, extreme).slope == pytest.approx(0.5, abs=0.02)

    def test_exact_frequencies_are_calibrated(self) -> None:
        y, p = [0] * 3 + [1] + [0] + [1] * 3, [0.25] * 4 + [0.75] * 4
        fit = calibration_slope_intercept(y, p)
        assert (fit.slope, fit.intercept, fit.calibration_in_the_large) == pytest.approx((1, 0, 0))

    def test_too_low_predictions_have_a_positive_intercept(self) -> None:
        fit = calibration_slope_intercept([0, 1, 1, 1, 0, 1], [0.1, 0.2, 0.1, 0.3, 0.3, 0.2])
        assert fit.calibration_in_the_large > 1.0

    def test_predictions_far_off_converge(self) -> None:
        """Newton overshoots from here to where σ rounds to 1; the score equations must hold."""
        y = np.array([0, 1, 1, 1, 1, 1, 1])
        p = np.array([1.14e-5, 3.46e-5, 1e-9, 1.33e-5, 1.29e-7, 8.5e-3, 1e-9])
        fit = calibration_slope_intercept(y, p)
        logit = np.log(p / (1 - p))
        residual = y - 1 / (1 + np.exp(-(fit.intercept + fit.slope * logit)))
        assert (residual.sum(), residual @ logit) == pytest.approx((0.0, 0.0), abs=1e-9)
        moved = 1 / (1 + np.exp(-(fit.calibration_in_the_large + logit)))
        assert (y - moved).sum() == pytest.approx(0.0, abs=1e-9)

    @pytest.mark.parametrize(
        ("y_true", "y_score", "message"),
        [
            ([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8], "separate the classes"),
            ([1, 1, 0, 0], [0.1, 0.3, 0.4, 0.8], "separate the classes"),
            ([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], "all scores are 0.5"),
            ([0, 1, 0, 1], [0.0, 0.5, 0.6, 0.7], "exactly 0, whose logit is infinite; clip"),
            ([0, 1, 0, 1], [0.2, 0.5, 1.0, 0.7], "exactly 1, whose logit is infinite; clip"),
            ([1, 1, 1, 1], [0.2, 0.5, 0.6, 0.7], "needs both classes"),
        ],
    )
    def test_where_no_fit_exists(
        self, y_true: list[int], y_score: list[float], message: str
    ) -> None:
        with pytest.raises(UndefinedMetricError, match=message):
            calibration_slope_intercept(y_true, y_score)

    def test_rows_without_weight_cannot_save_a_separated_fit(self) -> None:
        y_true, y_score = [0, 0, 1, 1, 1], [0.1, 0.4, 0.6, 0.8, 0.2]
        calibration_slope_intercept(y_true, y_score)
        with pytest.raises(UndefinedMetricError, match="separate the classes"):
            calibration_slope_intercept(y_true, y_score, sample_weight=[1, 1, 1, 1, 0])

    def test_to_dict(self) -> None:
        assert list(CalibrationFit(1.0, 0.5, 0.25).to_dict().values()) == [1.0, 0.5, 0.25]
