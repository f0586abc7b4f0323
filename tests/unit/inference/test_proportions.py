import dataclasses
import json

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.proportions import (
    ProportionInterval,
    WilsonInterval,
    agresti_coull_interval,
    beta_binomial_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    wilson_interval,
)

ALL = [
    wilson_interval,
    clopper_pearson_interval,
    jeffreys_interval,
    agresti_coull_interval,
    beta_binomial_interval,
]


def test_wilson_interval_is_a_proportion_interval():
    interval = wilson_interval(18, 20, confidence=0.9)
    assert WilsonInterval is ProportionInterval
    assert (interval.confidence, interval.successes, interval.n) == (0.9, 18, 20)
    assert interval.method == "wilson"
    assert interval.proportion == 0.9


@pytest.mark.parametrize("interval", ALL)
def test_no_trials_is_a_state_with_a_reason(interval):
    result = interval(0, 0)
    assert result.low is None
    assert result.high is None
    assert result.proportion is None
    assert "no trials" in result.reason
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["low"] is None


@pytest.mark.parametrize("interval", ALL)
@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 50), (50, 50), (3, 7)])
def test_bounds_are_ordered_inside_the_unit_interval(interval, k, n):
    result = interval(k, n)
    assert 0.0 <= result.low < result.high <= 1.0


@pytest.mark.parametrize("interval", [wilson_interval, clopper_pearson_interval, jeffreys_interval])
def test_the_boundary_is_reached_exactly(interval):
    assert interval(0, 10).low == 0.0
    assert interval(10, 10).high == 1.0


@pytest.mark.parametrize("interval", ALL)
def test_bad_counts_are_named(interval):
    with pytest.raises(InvalidInputError, match=r"`successes` is 3 but `n` is 2"):
        interval(3, 2)
    with pytest.raises(InvalidInputError, match=r"`successes` is -1; it must be at least 0"):
        interval(-1, 2)
    with pytest.raises(InvalidTypeError, match=r"`n` must be an integer, got 2.5"):
        interval(1, 2.5)
    with pytest.raises(InvalidInputError, match=r"`confidence` is 1.0"):
        interval(1, 2, confidence=1.0)


def test_numpy_counts_are_accepted():
    assert wilson_interval(np.int64(3), np.uint8(7)) == wilson_interval(3, 7)


def test_clusters_that_agree_with_themselves_widen_the_interval():
    independent = beta_binomial_interval(18, 20)
    clustered = beta_binomial_interval([5, 5, 5, 3], [5, 5, 5, 5])
    assert clustered.low < independent.low
    assert (clustered.method, independent.method) == ("beta-binomial", "beta")
    assert clustered.n_groups == 4
    assert clustered.to_dict()["n_groups"] == 4
    # All or nothing: four clusters are worth about four trials, not twenty.
    extreme = beta_binomial_interval([5, 5, 5, 0], [5, 5, 5, 5])
    four = beta_binomial_interval(3, 4)
    assert extreme.high - extreme.low == pytest.approx(four.high - four.low, abs=0.1)


def test_clusters_in_any_order_and_empty_clusters_give_the_same_interval():
    one = beta_binomial_interval([5, 2, 0], [5, 4, 3])
    other = beta_binomial_interval(np.array([0, 5, 0, 2]), [3, 5, 0, 4])
    assert (one.low, one.high) == (other.low, other.high)
    assert other.n_groups == 4


def test_all_clusters_empty():
    result = beta_binomial_interval([0, 0], [0, 0])
    assert result.low is None
    assert (result.method, result.n_groups) == ("beta-binomial", 2)


def test_clusters_without_successes_mirror_clusters_without_failures():
    none, every = (beta_binomial_interval([k] * 6, [5] * 6) for k in (0, 5))
    assert none.low == pytest.approx(1.0 - every.high, abs=1e-9)
    assert none.high == pytest.approx(1.0 - every.low, abs=1e-9)
    thirty, six = beta_binomial_interval(0, 30), beta_binomial_interval(0, 6)
    assert thirty.high < none.high < six.high


def test_a_few_large_clusters_are_not_many_trials():
    few = beta_binomial_interval([800, 860, 820], [1000, 1000, 1000])
    pooled = beta_binomial_interval(2480, 3000)
    assert few.low < pooled.low - 0.1
    assert pooled.high < few.high


def test_bad_clusters_are_named():
    with pytest.raises(InvalidInputError, match=r"successes\[1\] is 3 but n\[1\] is 2"):
        beta_binomial_interval([1, 3], [2, 2])
    with pytest.raises(InvalidInputError, match=r"n\[0\] is 1.5; counts are whole numbers"):
        beta_binomial_interval([1, 1], [1.5, 2])
    with pytest.raises(InvalidInputError, match=r"successes\[0\] is -1; counts"):
        beta_binomial_interval([-1, 1], [1, 2])
    with pytest.raises(InvalidInputError, match="`successes` has 1 rows but `n` has 2"):
        beta_binomial_interval([1], [1, 2])
    with pytest.raises(InvalidInputError, match="`n` must be 1-D"):
        beta_binomial_interval([1, 1], 2)


@pytest.mark.parametrize("prior", [(1.0,), 2.0, (1.0, 0.0), (1.0, float("nan"))])
def test_bad_priors_are_named(prior):
    with pytest.raises(InvalidInputError, match="prior"):
        beta_binomial_interval(1, 2, prior=prior)


def test_intervals_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        wilson_interval(1, 2).low = 0.0
