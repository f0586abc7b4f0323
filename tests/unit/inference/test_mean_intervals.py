"""The default interval of a mean: shares, bounded values, numbers; with groups and without."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.mean_intervals import _deviate, mean_interval, mean_pivot
from eval_toolkit.inference.proportions import score_interval

RNG = np.random.default_rng(5)
SKEWED = RNG.lognormal(size=50)
FRACTIONS = RNG.beta(0.5, 2.0, size=300)


def ends(ci):
    return ci.ci_low, ci.ci_high


class TestScoreInterval:
    def test_is_wilsons_away_from_the_ends(self):
        expected = proportion_confint(45, 100, method="wilson")
        assert score_interval(0.45, 100) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("k", [1, 2, 3])
    def test_few_successes_have_the_poisson_limit(self, k):
        # Brown, Cai and DasGupta (2001): λ with P(Poisson(λ) ≥ k) = 5 %.
        limit = 200 * score_interval(k / 200, 200)[0]
        assert stats.poisson.sf(k - 1, limit) == pytest.approx(0.05, rel=1e-6)
        assert 1.0 - score_interval(1.0 - k / 200, 200)[1] == pytest.approx(limit / 200)

    def test_whole_and_nothing(self):
        low, high = score_interval(1.0, 7.5)
        assert (round(low, 4), high) == (round(7.5 / (7.5 + 1.959964**2), 4), 1.0)
        assert score_interval(0.0, 7.5)[0] == 0.0

    @pytest.mark.parametrize(("value", "n"), [(1.1, 5), (0.5, 0)])
    def test_impossible_arguments(self, value, n):
        with pytest.raises(InvalidInputError):
            score_interval(value, n)


class TestShares:
    def test_only_zero_and_one(self):
        with pytest.raises(
            InvalidInputError, match=r"values\[1\] is 0.5; with `share` it must be 0 or 1"
        ):
            mean_interval([1.0, 0.5], share=True)

    def test_two_groups_have_no_interval(self):
        with pytest.raises(UndefinedMetricError, match="2 groups; at least 3 are needed"):
            mean_interval([1.0, 0.0, 1.0], groups=["a", "a", "b"], share=True)

    def test_all_of_three_is_wilsons(self):
        assert score_interval(1.0, 3)[0] == pytest.approx(3 / (3 + 1.959964**2), rel=1e-6)

    def test_groups_of_one_are_units(self):
        hits = [1.0] * 9 + [0.0] * 4
        alone = mean_interval(hits, groups=range(13), share=True)
        assert alone == mean_interval(hits, share=True)

    def test_few_failures_in_few_groups_are_not_taken_for_independent(self):
        # 4 failures in 400 rows of 20 groups: Wilson of 400 says 0.975; groups may fail as a whole.
        hits = np.ones(400)
        hits[[0, 101, 202, 303]] = 0.0
        ci = mean_interval(hits, groups=np.arange(400) // 20, share=True)
        assert 0.84 < ci.ci_low < 0.95  # 20 groups, all right, reach down to 0.84

    def test_one_group_in_ten_is_bad(self):
        """A tenth of a group in the design effect covered 0.85 to 0.90 of 20 such groups."""
        rng = np.random.default_rng(5)
        groups = np.repeat(np.arange(20), 10)
        held = 0
        for _ in range(200):
            rates = np.where(rng.random(20) < 0.1, 0.1, 0.95)
            ci = mean_interval(rng.random(200) < rates[groups], groups=groups, share=True)
            held += ci.ci_low <= 0.865 <= ci.ci_high
        assert held >= 0.92 * 200


class TestBounded:
    @pytest.mark.parametrize(("k", "n", "mean"), [(0, 30, 0.1), (3, 20, 0.4), (10, 12, 0.6)])
    def test_deviate_is_that_of_a_beta_variable(self, k, n, mean):
        # With 0/1 values and one pseudo-value at 1 the weighted mean is Beta(k + 1, n − k).
        c = np.r_[np.full(n - k, -mean), np.full(k + 1, 1.0 - mean)]
        exact = stats.norm.isf(stats.beta.sf(mean, k + 1, n - k))
        assert _deviate(c, np.ones(n + 1)) == pytest.approx(exact, abs=0.02)

    def test_deviate_is_smooth_where_the_saddlepoint_is_zero(self):
        at = [0.35 + shift for shift in (-1e-4, -1e-6, 0.0, 1e-6, 1e-4)]
        found = [_deviate(np.r_[np.full(13, -m), np.full(7, 1.0 - m)], np.ones(20)) for m in at]
        assert np.ptp(found) < 3e-3
        assert found == sorted(found)

    def test_is_students_where_spread_is_ordinary(self):
        ci = mean_interval(FRACTIONS, bounds=(0.0, 1.0))
        t = stats.t.interval(0.95, 299, FRACTIONS.mean(), stats.sem(FRACTIONS))
        assert ends(ci) == pytest.approx(t, abs=0.003)
        assert ci.method == "gaffke"

    def test_no_spread_is_not_certainty(self):
        low, high = ends(mean_interval([5.0] * 100, bounds=(1.0, 5.0)))
        # (5 − low) / 4 is a chance p of a rating of 1 with (1 − p)^100 about 2.5 %.
        assert 0.02 < (1.0 - (5.0 - low) / 4.0) ** 100 < 0.035
        assert high == 5.0

    def test_follows_scale_shift_and_mirror(self):
        one = ends(mean_interval(FRACTIONS, bounds=(0.0, 1.0)))
        tiny = ends(mean_interval(1e-20 * FRACTIONS, bounds=(0.0, 1e-20)))
        mirrored = ends(mean_interval(1.0 - FRACTIONS, bounds=(0.0, 1.0)))
        assert tiny == pytest.approx([1e-20 * end for end in one], rel=1e-9)
        assert mirrored == pytest.approx([1.0 - end for end in one[::-1]], rel=1e-9)

    def test_many_values_are_binned_without_loss(self):
        x = np.random.default_rng(2).beta(0.5, 2.0, size=9000)
        binned = ends(mean_interval(x, bounds=(0.0, 1.0)))
        t = stats.t.interval(0.95, len(x) - 1, x.mean(), stats.sem(x))
        assert binned == pytest.approx(t, abs=1e-4)

    def test_values_outside_have_no_interval(self):
        with pytest.raises(UndefinedMetricError, match=r"a value is 1\.5, outside the declared"):
            mean_interval([0.5, 1.5, 0.1], bounds=(0.0, 1.0))


class TestNumbers:
    def test_lies_further_out_on_the_long_side(self):
        low, high = ends(mean_interval(SKEWED))
        t_low, t_high = stats.t.interval(0.95, 49, SKEWED.mean(), stats.sem(SKEWED))
        assert low == pytest.approx(t_low)  # never inside Student's
        assert high > t_high

    def test_is_students_for_symmetric_values(self):
        x = np.r_[np.arange(1.0, 11.0), -np.arange(1.0, 11.0)]
        t = stats.t.interval(0.95, 19, 0.0, stats.sem(x))
        assert ends(mean_interval(x)) == pytest.approx(t, rel=1e-9)

    @pytest.mark.parametrize("scale", [1e-200, 1e-13, 1e13])
    def test_scale_does_not_matter(self, scale):
        expected = [scale * end for end in ends(mean_interval(SKEWED))]
        assert ends(mean_interval(scale * SKEWED)) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize(
        ("values", "why"),
        [
            ([0.3] * 12, "all 12 values are 0.3 and their bounds are not known"),
            ([1.0, 2.0, 4.0], "3 effective units"),
            ([0.0] * 40 + [1.0], "one of 41 values or groups accounts for nearly all of the"),
        ],
    )
    def test_refuses_with_a_reason(self, values, why):
        with pytest.raises(UndefinedMetricError, match=why):
            mean_interval(values)

    def test_groups_of_one_mean_have_the_spread_between_their_units(self):
        # Six pairs of 0 and 2: no skewness to be had from group means that are all 1.
        x = np.tile([0.0, 2.0], 6)
        found = ends(mean_interval(x, groups=np.arange(12) // 2))
        assert found == pytest.approx(stats.t.interval(0.95, 5, 1.0, stats.sem(x)))

    def test_two_surprises_are_enough(self):
        assert mean_interval([0.0] * 40 + [1.0] * 2).ci_high > 0.1

    def test_known_bound_on_one_side_is_kept(self):
        assert mean_interval([0.0] * 20 + [1.0, 1.5], bounds=(0.0, np.inf)).ci_low == 0.0


@pytest.mark.parametrize("bounds", [(0.0, 60.0), (-np.inf, np.inf)])
@pytest.mark.parametrize("groups", [None, np.arange(50) // 5])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_p_values_at_the_ends_are_one_minus_the_confidence(bounds, groups, confidence):
    found = mean_pivot(SKEWED, groups=groups, bounds=bounds)
    for end in ends(found.interval(confidence)):
        assert found.p_value(end) == pytest.approx(1.0 - confidence, abs=1e-8)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-np.inf, np.inf)])
def test_groups_that_are_all_alike_count_as_units(bounds):
    # Every pair holds 0.2 and 0.8: the means of the pairs do not vary, the values do.
    values, groups = np.tile([0.2, 0.8], 12), np.arange(24) // 2
    low, high = ends(mean_interval(values, groups=groups, bounds=bounds))
    t = stats.t.interval(0.95, 11, 0.5, stats.sem(values))
    assert low <= t[0] * (1 + 1e-9)
    assert t[1] <= high * (1 + 1e-9)
    assert high - low < 1.5 * (t[1] - t[0])
