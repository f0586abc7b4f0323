import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.equivalence import (
    equivalence_from_paired,
    equivalence_test,
    non_inferiority_from_paired,
    non_inferiority_test,
)
from eval_toolkit.inference.results import PairedBootstrapCI


def paired(delta, low, high, samples=None):
    return PairedBootstrapCI(delta, low, high, low <= 0 <= high, 0.95, 1000, samples=samples)


@pytest.mark.parametrize("delta", [-0.02, -0.011, 0.0, 0.011, 0.02])
@pytest.mark.parametrize("df", [None, 12])
def test_the_interval_shows_the_decision(delta, df):
    result = equivalence_test(delta, 0.01, margin=0.03, df=df)
    inside = result.margin_low < result.ci_low and result.ci_high < result.margin_high
    assert result.equivalent == inside == (result.p_value < 0.05)
    assert result.p_value == max(result.p_lower, result.p_upper)


def test_not_significant_is_not_equivalent():
    result = equivalence_test(0.0, 0.05, margin=0.02)
    assert not result.equivalent
    assert result.ci_low < -0.02


def test_margins_may_differ():
    wide = equivalence_test(0.02, 0.01, margin=(-0.01, 0.05))
    assert (wide.margin_low, wide.margin_high) == (-0.01, 0.05)
    assert wide.equivalent
    assert not equivalence_test(-0.02, 0.01, margin=(-0.01, 0.05)).equivalent


def test_zero_standard_error_shows_nothing():
    """20 rows of which none is discordant do not show that a margin of 0.001 holds."""
    for delta in (0.0, 0.01, 0.03):
        result = equivalence_test(delta, 0.0, margin=0.02)
        assert not result.equivalent
        assert result.p_value is None
        assert "standard error is zero, so the test is inconclusive" in result.reason
        json.dumps(result.to_dict(), allow_nan=False)
    for delta in (0.01, -0.01, -0.02):
        one_sided = non_inferiority_test(delta, 0.0, margin=0.02)
        assert not one_sided.non_inferior
        assert one_sided.p_value is None
        assert "standard error is zero, so the test is inconclusive" in one_sided.reason


def test_non_inferiority_looks_at_the_bad_side_only():
    assert non_inferiority_test(0.5, 0.01, margin=0.02).non_inferior
    result = non_inferiority_test(-0.01, 0.01, margin=0.02)
    assert not result.non_inferior
    assert result.bound == pytest.approx(-0.01 - 1.644854 * 0.01, abs=1e-7)
    json.dumps(result.to_dict(), allow_nan=False)


def test_lower_is_better_mirrors():
    up = non_inferiority_test(-0.004, 0.01, margin=0.02)
    down = non_inferiority_test(0.004, 0.01, margin=0.02, higher_is_better=False)
    assert down.p_value == up.p_value
    assert down.bound == -up.bound
    assert down.non_inferior == up.non_inferior


def test_paired_without_draws_uses_the_width():
    result = equivalence_from_paired(paired(0.0, -0.0196, 0.0196), margin=0.03)
    assert result.method == "tost-interval"
    assert result.p_value == pytest.approx(
        equivalence_test(0.0, 0.01, margin=0.03).p_value, rel=1e-3
    )
    one_sided = non_inferiority_from_paired(paired(0.0, -0.0196, 0.0196), margin=0.03)
    assert one_sided.method == "interval"
    assert one_sided.p_value == pytest.approx(result.p_lower)


def test_the_interval_counts_and_not_the_draws():
    """An end at −0.05 of a 95 % interval stands for a standard error of 0.05/1.96 below."""
    draws = np.linspace(-0.05, 0.05, 99)
    diff = paired(0.0, -0.05, 0.05, draws)
    result = equivalence_from_paired(diff, margin=(-0.049, 1.0))
    se = 0.05 / stats.norm.ppf(0.975)
    assert result.p_lower == pytest.approx(stats.norm.sf(0.049 / se))
    assert result.p_upper == pytest.approx(stats.norm.sf(1.0 / se), abs=1e-15)
    assert result.equivalent
    assert result.method == "tost-interval"
    assert result == equivalence_from_paired(paired(0.0, -0.05, 0.05), margin=(-0.049, 1.0))
    one_sided = non_inferiority_from_paired(diff, margin=0.049)
    assert one_sided.p_value == pytest.approx(stats.norm.sf(0.049 / se))
    assert one_sided.bound == pytest.approx(result.ci_low)
    mirrored = non_inferiority_from_paired(diff, margin=0.049, higher_is_better=False)
    assert mirrored.bound == pytest.approx(-one_sided.bound)


def test_an_interval_without_spread_passes_no_gate():
    for delta in (0.0, 0.01):
        diff = paired(delta, delta, delta, np.full(100, delta))
        result = equivalence_from_paired(diff, margin=0.02)
        assert not result.equivalent
        assert result.p_value is None
        one_sided = non_inferiority_from_paired(diff, margin=0.02)
        assert not one_sided.non_inferior
        assert one_sided.p_value is None


def test_a_p_value_equal_to_the_level_rejects():
    """1 − 0.9 is a little less than 0.1 in floating point; that must not matter."""
    reach = stats.norm.ppf(0.9)
    result = equivalence_test(0.0, 1.0, margin=reach, confidence=0.9)
    assert result.p_value == pytest.approx(0.1, abs=1e-15)
    assert result.equivalent
    # The 80 % interval of a difference ends where the one-sided 90 % test does.
    diff = dataclasses.replace(paired(0.0, -reach, reach), confidence=0.8)
    from_paired = equivalence_from_paired(diff, margin=reach, confidence=0.9)
    assert from_paired.p_value == pytest.approx(0.1, abs=1e-15)
    assert from_paired.equivalent
    assert non_inferiority_from_paired(diff, margin=reach, confidence=0.9).non_inferior


def test_a_difference_at_the_margin_is_beyond_it_whatever_its_rounding():
    """0.83 − 0.85 is a little less than −0.02, and 0.58 − 0.6 a little more."""
    ends = np.array([low / 100 - (low + 2) / 100 for low in range(99)])
    assert (ends < -0.02).any()
    assert (ends > -0.02).any()
    for delta in (ends.min(), ends.max()):
        at = paired(delta, delta - 0.01, delta + 0.01)
        for sided in (at, paired(-delta, -delta - 0.01, -delta + 0.01)):
            result = equivalence_from_paired(sided, margin=0.02)
            assert result.p_value == pytest.approx(0.5)
            assert not result.equivalent
        one_sided = non_inferiority_from_paired(at, margin=0.02)
        assert one_sided.p_value == pytest.approx(0.5)
        assert not one_sided.non_inferior
        rounding = paired(delta, delta, delta * (1 - 1e-16))
        assert not equivalence_from_paired(rounding, margin=0.03).equivalent
        assert not non_inferiority_from_paired(rounding, margin=0.03).non_inferior


@pytest.mark.parametrize("margin", [0.0, -0.1, (0.1, 0.2), (-0.1, 0.0), (-0.1,), float("nan")])
def test_bad_margins_are_named(margin):
    with pytest.raises(InvalidInputError, match="margin"):
        equivalence_test(0.0, 0.1, margin=margin)


def test_bad_numbers_are_named():
    with pytest.raises(InvalidInputError, match=r"`se` is -1; it must lie in \[0, inf\)"):
        equivalence_test(0.0, -1, margin=0.1)
    with pytest.raises(InvalidInputError, match=r"`confidence` is 0.5; it must lie in \(0.5, 1\)"):
        non_inferiority_test(0.0, 0.1, margin=0.1, confidence=0.5)
    with pytest.raises(InvalidInputError, match="`df` is 0"):
        equivalence_test(0.0, 0.1, margin=0.1, df=0)
    with pytest.raises(InvalidInputError, match="`delta` is nan; it must be finite"):
        equivalence_test(float("nan"), 0.1, margin=0.1)
