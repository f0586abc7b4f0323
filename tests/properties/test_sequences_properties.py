"""What must hold for confidence sequences of any values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.inference.sequences import METHODS, confidence_sequence

shares = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60)
zeros_and_ones = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60)


def ends(values, **options):
    lower, upper = confidence_sequence(values, **options)
    return lower[-1], upper[-1]


@given(shares, st.sampled_from([None, 60, 100]))
@settings(max_examples=40)
def test_it_lies_within_the_bounds_and_only_narrows(values, n_total):
    lower, upper = confidence_sequence(values, n_total=n_total)
    assert (lower >= 0.0).all()
    assert (upper <= 1.0).all()
    assert (lower <= upper).all()
    if not (lower == 0.0)[-1]:  # not contradicted
        assert (np.diff(lower) >= 0.0).all()


@given(zeros_and_ones, st.sampled_from(METHODS), st.sampled_from([None, 60]))
@settings(max_examples=40)
def test_right_and_wrong_are_mirror_images(values, method, n_total):
    options = {"method": method, "n_total": n_total, "running": False}
    low, high = ends(values, **options)
    mirrored = ends(1.0 - np.array(values), **options)
    assert (1.0 - high, 1.0 - low) == pytest.approx(mirrored, abs=1e-9)


@given(shares, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_at_the_end_the_order_of_independent_values_does_not_matter(values, random):
    """Each part of the capital is the product of what every value made of it."""
    shuffled = random.sample(values, len(values))
    # One step of the grid is what rounding may decide.
    assert ends(values, running=False) == pytest.approx(ends(shuffled, running=False), abs=3e-4)


@given(zeros_and_ones, st.randoms(use_true_random=False), st.sampled_from([None, 60]))
@settings(max_examples=40)
def test_for_zeros_and_ones_it_is_a_function_of_their_number(values, random, n_total):
    options = {"method": "beta-binomial", "n_total": n_total, "running": False}
    shuffled = random.sample(values, len(values))
    assert ends(values, **options) == ends(shuffled, **options)


@given(shares, shares)
@settings(max_examples=40)
def test_what_comes_later_does_not_change_what_was_said(values, more):
    lower, upper = confidence_sequence(values)
    longer = confidence_sequence(values + more)
    assert longer[0][: len(values)].tolist() == lower.tolist()
    assert longer[1][: len(values)].tolist() == upper.tolist()


@given(shares, st.integers(0, 59))
@settings(max_examples=40)
def test_a_larger_value_moves_no_end_down(values, at):
    """What lets missing values be taken at their least for one end and at their most for the other."""
    raised = list(values)
    raised[at % len(values)] = 1.0
    before, after = (confidence_sequence(one, running=False) for one in (values, raised))
    assert (after[0] >= before[0]).all()
    assert (after[1] >= before[1]).all()
