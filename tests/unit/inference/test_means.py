import json

import numpy as np
import pytest
from scipy import stats

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.agreement import clustered_rate
from eval_toolkit.inference.means import mean_se, paired_mean_diff, t_interval
from eval_toolkit.inference.paired_intervals import paired_shares
from eval_toolkit.inference.paired_proportions import tango_interval


def test_mean_of_zeros_and_ones():
    result = mean_se([1, 1, 0, 1])
    assert (result.mean, result.se, result.n_units) == (0.75, 0.25, 4)
    assert (result.n_groups, result.method) == (None, "clt")
    assert json.loads(json.dumps(result.to_dict()))["n_groups"] is None


def test_clusters_of_one_change_nothing_but_the_name():
    x = np.random.default_rng(0).normal(size=20)
    plain, clustered = mean_se(x), mean_se(x, groups=np.arange(20))
    assert clustered.se == pytest.approx(plain.se, rel=1e-12)
    assert (clustered.method, clustered.n_groups) == ("cluster-robust", 20)


def test_repeating_every_unit_in_its_cluster_adds_no_information():
    x = np.random.default_rng(0).normal(size=20)
    repeated = mean_se(np.repeat(x, 5), groups=np.repeat(np.arange(20), 5))
    assert repeated.se == pytest.approx(mean_se(x).se, rel=1e-12)
    assert repeated.n_units == 100


def test_millers_clustered_formula_is_the_same_but_for_the_small_sample_factor():
    """Miller (2024): SE² = SE_CLT² + (1/n²) Σ of products of different units in a cluster."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(200), 3)
    x = rng.normal(size=200)[groups] + rng.normal(size=600)
    r = x - x.mean()
    together = groups[:, None] == groups
    np.fill_diagonal(together, False)
    miller = np.sqrt(x.var(ddof=1) / 600 + (np.outer(r, r) * together).sum() / 600**2)
    assert mean_se(x, groups=groups).se == pytest.approx(miller * np.sqrt(200 / 199), rel=1e-3)


def test_t_interval_says_what_it_is():
    ci = t_interval([0.0, 1.0, 2.0])
    assert (ci.point_estimate, ci.method, ci.n_resamples, ci.n_units) == (1.0, "t", 0, 3)
    clustered = t_interval(np.arange(12.0), groups=np.arange(12) // 2)
    assert (clustered.method, clustered.n_groups) == ("skewness-corrected t, groups", 6)


def test_t_interval_of_a_share_in_few_groups_is_that_of_a_share():
    """At a rate of 0.95 Student's interval of few groups covers 0.25 to 0.87."""
    hits, groups = [1.0] * 35 + [0.0] * 5, np.arange(40) // 8
    ci = t_interval(hits, groups=groups)
    rate = clustered_rate(np.array(hits) == 1.0, groups)
    assert (ci.ci_low, ci.ci_high) == (rate.low, rate.high)
    assert ci.method == "wilson, groups"


@pytest.mark.parametrize("values", [[2, 2, 2], [0.1] * 7, [0.1 + 0.2, 0.3, 0.3], [0.0, 0.0]])
def test_zero_spread_has_no_interval(values):
    with pytest.raises(UndefinedMetricError, match="zero variance, all values are equal"):
        t_interval(values)


def test_tiny_values_are_not_values_without_spread():
    x = np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    tiny, plain = t_interval(x * 1e-150), t_interval(x)
    assert tiny.ci_low == pytest.approx(plain.ci_low * 1e-150, rel=1e-12)


def test_paired_difference_is_b_minus_a():
    a, b = [0.1, 0.4, 0.3, 0.9], [0.3, 0.5, 0.2, 1.2]
    result = paired_mean_diff(a, b)
    assert result.delta == pytest.approx(0.125)
    assert result.delta == pytest.approx(result.mean_b - result.mean_a)
    swapped = paired_mean_diff(b, a)
    assert swapped.t == pytest.approx(-result.t)
    assert swapped.p_value == pytest.approx(result.p_value)
    assert result.df == 3
    assert result.method == "paired skewness-corrected t"


def test_pairing_gains_what_the_correlation_says():
    rng = np.random.default_rng(0)
    a = rng.normal(size=500)
    b = 0.8 * a + 0.6 * rng.normal(size=500)
    result = paired_mean_diff(a, b)
    unpaired = mean_se(a).se ** 2 + mean_se(b).se ** 2
    covariance = result.correlation * mean_se(a).se * mean_se(b).se
    assert result.se**2 == pytest.approx(unpaired - 2 * covariance, rel=1e-9)


def test_clustered_difference():
    groups = np.repeat(np.arange(6), 4)
    rng = np.random.default_rng(3)
    a = rng.normal(size=24)
    b = a + rng.normal(size=6)[groups]
    result = paired_mean_diff(a, b, groups=groups)
    assert (result.n_groups, result.df) == (6, pytest.approx(5))
    assert result.method == "paired skewness-corrected t, groups"
    assert result.se > 1.5 * paired_mean_diff(a, b).se


@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_constant_difference_has_no_test(shift):
    a = np.array([0.1, 0.2, 0.3, 0.7])
    result = paired_mean_diff(a, a + shift)
    assert result.t is None
    assert result.p_value is None
    assert result.ci_low is result.ci_high is None
    assert "zero variance" in result.reason
    json.dumps(result.to_dict(), allow_nan=False)


def test_constant_difference_of_bounded_values_may_yet_differ():
    """20 rows without a difference: the next could differ by the whole range."""
    a = np.linspace(0.1, 0.9, 20)
    result = paired_mean_diff(a, a, bounds=(0.0, 1.0))
    assert (result.delta, result.p_value) == (0.0, 1.0)
    assert -result.ci_low == pytest.approx(result.ci_high)
    # P(no surprise in 20) = 2.5 % at a chance of 0.168, here by the Student t of 19 df.
    assert 0.16 < result.ci_high < 0.22


def test_interval_and_p_value_agree():
    rng = np.random.default_rng(8)
    a = rng.beta(2, 3, size=40)
    b = np.clip(a + rng.normal(0.1, 0.1, 40), 0, 1)
    for groups in (None, np.arange(40) // 4):
        for bounds in ((0.0, 1.0), (-np.inf, np.inf)):
            p = paired_mean_diff(a, b, groups=groups, bounds=bounds).p_value
            at = paired_mean_diff(a, b, groups=groups, bounds=bounds, confidence=1 - p)
            assert min(abs(at.ci_low), abs(at.ci_high)) == pytest.approx(0.0, abs=1e-9)


def test_correlation_of_a_constant_does_not_exist():
    assert paired_mean_diff([0.1] * 5, [0, 1, 0, 1, 1]).correlation is None
    assert paired_mean_diff([0, 1, 0, 1], [0, 1, 0, 1]).correlation == 1.0


@pytest.mark.parametrize("function", [mean_se, t_interval])
def test_too_little_data(function):
    with pytest.raises(UndefinedMetricError, match="`values` has one value"):
        function([1.0])
    with pytest.raises(UndefinedMetricError, match="`groups` has only one cluster"):
        function([1.0, 2.0], groups=["a", "a"])
    with pytest.raises(InvalidInputError, match="`values` is empty"):
        function([])
    with pytest.raises(InvalidInputError, match="`groups` has 1 rows but the data has 2"):
        function([1.0, 2.0], groups=["a"])


def test_bad_pairs_are_named():
    with pytest.raises(InvalidInputError, match="`a` has 2 rows but `b` has 3"):
        paired_mean_diff([1, 2], [1, 2, 3])
    with pytest.raises(InvalidInputError, match=r"b\[1\] is nan"):
        paired_mean_diff([1, 2], [1, np.nan])
    with pytest.raises(UndefinedMetricError, match="`a` has one value"):
        paired_mean_diff([1], [2])


class TestSharesOfPairs:
    """5 of 50 units are right under B alone: Tango's interval, McNemar's score test 5/√5."""

    A, B = np.zeros(50), (np.arange(50) < 5).astype(float)

    def test_independent_zeros_and_ones_are_paired_shares(self):
        # Tango's interval is checked against published values in test_paired_proportions.py.
        interval = tango_interval(5, 0, 50)
        result = paired_mean_diff(self.A, self.B)
        assert (result.ci_low, result.ci_high) == (interval.ci_low, interval.ci_high)
        assert result.p_value == pytest.approx(2 * stats.norm.sf(np.sqrt(5)))
        assert result.method == "tango"
        assert paired_mean_diff(self.A, self.B, bounds=(0.0, 1.0)) == result

    @pytest.mark.parametrize("groups", [None, np.arange(50) // 5, np.arange(50) // 2])
    @pytest.mark.parametrize("gained", [0, 5, 50])
    def test_is_what_comparisons_use(self, groups, gained):
        b = (np.arange(50) < gained).astype(float)
        result = paired_mean_diff(self.A, b, groups=groups, share=True)
        found = paired_shares(self.A, b, groups=groups, confidence=0.95)
        assert (result.ci_low, result.ci_high, result.p_value, result.method) == found

    def test_a_scale_that_happens_to_hold_zeros_and_ones_is_no_share(self):
        result = paired_mean_diff(self.A, self.B, share=False)
        assert result.method == "paired skewness-corrected t"

    def test_a_share_has_no_other_values(self):
        with pytest.raises(InvalidInputError, match=r"`share` is True, but a value is 0\.5"):
            paired_mean_diff([0.5, 1.0], [1.0, 1.0], share=True)
