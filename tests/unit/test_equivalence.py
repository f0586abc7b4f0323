import dataclasses
import json

import numpy as np
import pytest

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


def test_zero_standard_error_is_decided_without_a_test():
    result = equivalence_test(0.01, 0.0, margin=0.02)
    assert result.equivalent
    assert result.p_value is None
    assert "standard error is zero" in result.reason
    assert not equivalence_test(0.03, 0.0, margin=0.02).equivalent
    assert non_inferiority_test(-0.01, 0.0, margin=0.02).non_inferior
    assert not non_inferiority_test(-0.02, 0.0, margin=0.02).non_inferior
    json.dumps(result.to_dict(), allow_nan=False)


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
    assert result.method == "tost-normal"
    assert result.p_value == pytest.approx(
        equivalence_test(0.0, 0.01, margin=0.03).p_value, rel=1e-3
    )
    one_sided = non_inferiority_from_paired(paired(0.0, -0.0196, 0.0196), margin=0.03)
    assert one_sided.method == "normal"
    assert one_sided.p_value == pytest.approx(result.p_lower)


def test_paired_with_draws_counts_them():
    draws = np.linspace(-0.05, 0.05, 99)
    diff = paired(0.0, -0.05, 0.05, draws)
    result = equivalence_from_paired(diff, margin=(-0.049, 1.0))
    # One draw is at or below −0.049; the smallest p-value that 99 draws allow is 1/100.
    assert result.p_lower == pytest.approx(0.02)
    assert result.p_upper == pytest.approx(0.01)
    assert result.equivalent
    assert result.method == "tost-bootstrap"
    one_sided = non_inferiority_from_paired(diff, margin=0.049)
    assert one_sided.p_value == pytest.approx(0.02)
    assert one_sided.bound == pytest.approx(result.ci_low)
    mirrored = non_inferiority_from_paired(diff, margin=0.049, higher_is_better=False)
    assert mirrored.bound == pytest.approx(-one_sided.bound)


def test_draws_without_spread():
    diff = paired(0.0, 0.0, 0.0, np.zeros(100))
    result = equivalence_from_paired(diff, margin=0.01)
    assert result.equivalent
    assert result.p_value is None
    assert non_inferiority_from_paired(diff, margin=0.01).p_value is None


def test_a_p_value_equal_to_the_level_rejects():
    """1 − 0.9 is a little less than 0.1 in floating point; that must not matter."""
    draws = np.concatenate([np.full(1, -1.0), np.linspace(-0.1, 0.1, 18)])
    diff = paired(0.0, -0.1, 0.1, draws)
    result = equivalence_from_paired(diff, margin=0.5, confidence=0.9)
    assert result.p_value == pytest.approx(0.1)
    assert result.equivalent


def test_a_difference_at_the_margin_is_beyond_it_whatever_its_rounding():
    """0.83 − 0.85 is a little less than −0.02, and 0.58 − 0.6 a little more."""
    ends = np.array([low / 100 - (low + 2) / 100 for low in range(99)])
    assert (ends < -0.02).any()
    assert (ends > -0.02).any()
    draws = np.concatenate([ends, np.zeros(100)])
    diff = dataclasses.replace(paired(0.0, -0.02, 0.0, draws), value_a=0.5, value_b=0.5)
    for result in (diff, dataclasses.replace(diff, samples=-draws)):
        assert equivalence_from_paired(result, margin=0.02).p_value == 0.5
    assert non_inferiority_from_paired(diff, margin=0.02).p_value == 0.5
    for delta in (ends.min(), ends.max()):
        always = dataclasses.replace(diff, delta=delta, samples=np.full(9, delta))
        assert not equivalence_from_paired(always, margin=0.02).equivalent
        assert not non_inferiority_from_paired(always, margin=0.02).non_inferior


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
