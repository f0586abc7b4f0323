"""Brier score, log-loss, decompositions and pooling of adjacent violators, by hand."""

import math

import numpy as np
import pytest
from tests.support.ending import must_end

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.metrics import brier_decomposition, brier_score, log_loss
from eval_toolkit.metrics.isotonic import pav


def test_brier_by_hand() -> None:
    assert brier_score([0, 1], [0.25, 0.5]) == (0.0625 + 0.25) / 2
    assert brier_score([0, 1], [0.25, 0.5], sample_weight=[3, 1]) == (3 * 0.0625 + 0.25) / 4


def test_brier_of_one_class_exists() -> None:
    assert brier_score([1, 1], [1.0, 0.5]) == 0.125
    assert brier_score([1, 1], [1.0, 0.5], empty_strategy="return_none") == 0.125


def test_brier_of_nothing_does_not() -> None:
    assert brier_score([], [], empty_strategy="return_none") is None
    cell = brier_score([], [], empty_strategy="skipped_metric")
    assert isinstance(cell, dict)
    assert cell["reason"] == "brier_score is undefined: there are no rows"


def test_probabilities_are_demanded() -> None:
    with pytest.raises(InvalidInputError, match=r"y_score\[1\] is 3.0; .*sigmoid"):
        brier_score([0, 1], [0.5, 3.0])


def test_log_loss_by_hand() -> None:
    assert log_loss([0, 1], [0.25, 0.5]) == pytest.approx(-(math.log(0.75) + math.log(0.5)) / 2)


def test_a_wrong_certainty_has_a_finite_price() -> None:
    assert log_loss([1], [0.0]) == pytest.approx(52 * math.log(2))
    assert 0.0 <= log_loss([1], [1.0]) < 1e-15


class TestDecomposition:
    def test_binned_keys(self) -> None:
        parts = brier_decomposition([0, 1] * 10, np.linspace(0, 1, 20))
        assert list(parts) == ["brier", "reliability", "resolution", "uncertainty"]

    def test_binned_identity_is_exact_when_bins_are_constant(self) -> None:
        y_true, y_score = [0, 0, 0, 1, 0, 1, 1, 1], [0.2] * 4 + [0.9] * 4
        parts = brier_decomposition(y_true, y_score, 2)
        whole = parts["reliability"] - parts["resolution"] + parts["uncertainty"]
        assert parts["brier"] == pytest.approx(whole, abs=1e-15)

    def test_calibrated_groups_have_no_miscalibration(self) -> None:
        y_true, y_score = [0, 0, 0, 1, 0, 1, 1, 1], [0.25] * 4 + [0.75] * 4
        parts = brier_decomposition(y_true, y_score, method="corp")
        assert parts["mcb"] == 0.0
        assert parts["dsc"] == pytest.approx(0.0625)

    def test_reversed_scores_have_no_discrimination(self) -> None:
        parts = brier_decomposition([1, 0], [0.1, 0.9], method="corp")
        assert (parts["dsc"], parts["unc"]) == (0.0, 0.25)

    def test_options_are_checked(self) -> None:
        with pytest.raises(InvalidInputError, match="`method` is 'murphy'"):
            brier_decomposition([0, 1], [0.1, 0.2], method="murphy")
        with pytest.raises(InvalidInputError, match="`n_bins` is 10 but there are only 2 rows"):
            brier_decomposition([0, 1], [0.1, 0.2])


class TestPav:
    def test_monotone_values_stay(self) -> None:
        values = np.array([1.0, 2.0, 2.0, 5.0])
        assert pav(values).tolist() == values.tolist()

    def test_decreasing_values_become_their_mean(self) -> None:
        assert pav(np.array([3.0, 2.0, 1.0]), np.array([1.0, 1.0, 4.0])).tolist() == [1.5] * 3

    def test_a_late_drop_pools_everything_quickly(self) -> None:
        """One violation at the end cascades back; pooling must not start over each time."""
        n = 100_000
        with must_end():
            fit = pav(np.append(np.arange(n, dtype=float), -1e12))
        assert np.ptp(fit) == 0.0
