"""Bounds of a mean with missing outcomes: limits that are known, coverage, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference import t_interval, wilson_interval
from eval_toolkit.inference.missing_outcomes import bounded_mean, missing_bounds


class TestLimits:
    def test_nothing_missing_is_wilson(self):
        found = missing_bounds([1] * 18 + [0] * 2, 0)
        wilson = wilson_interval(18, 20)
        assert (found.low, found.high) == (0.9, 0.9)
        assert found.ci_low == pytest.approx(wilson.low, abs=1e-12)
        assert found.ci_high == pytest.approx(wilson.high, abs=1e-12)
        assert found.method == "wilson"

    def test_nothing_missing_is_student_for_other_values(self):
        values = np.tile([0.2, 0.5, 0.9, 0.4, 0.6], 4000)
        found, plain = missing_bounds(values, 0), t_interval(values)
        assert found.ci_low == pytest.approx(plain.ci_low, rel=2e-3)
        assert found.ci_high == pytest.approx(plain.ci_high, rel=2e-3)

    def test_values_that_agree_do_not_claim_certainty(self):
        almost = bounded_mean([1.0] * 19 + [2 / 3], [1.0] * 20)
        assert almost.ci_low < wilson_interval(20, 20).low + 0.02
        grouped = bounded_mean([1.0] * 20, [1.0] * 20, groups=np.repeat(np.arange(10), 2))
        assert grouped.ci_low < 0.8

    def test_a_wide_region_takes_the_one_sided_critical_value(self):
        # Imbens and Manski (2004): 1.645 where the region is wide, 1.96 where it is a point.
        values = np.tile([0.4, 0.6], 5000)
        found = missing_bounds(values, 10_000)
        filled = np.concatenate([values, np.zeros(10_000)])
        se = filled.std(ddof=1) / np.sqrt(len(filled))
        assert (found.low - found.ci_low) / se == pytest.approx(stats.norm.ppf(0.95), rel=1e-3)

    def test_everything_missing_knows_nothing(self):
        found = missing_bounds([], 7)
        assert (found.low, found.high, found.observed) == (0.0, 1.0, None)
        assert (found.ci_low, found.ci_high) == (0.0, 1.0)

    def test_groups_widen(self):
        values, groups = [1, 1, 1, 0, 0, 0] * 10, np.repeat(np.arange(20), 3)
        alone = missing_bounds(values, 5)
        grouped = missing_bounds(values, 5, groups=groups)
        assert grouped.ci_low < alone.ci_low
        assert grouped.method == "t"

    def test_other_bounds(self):
        found = missing_bounds([1.0, 3.0], 2, bounds=(0.0, 10.0))
        assert (found.low, found.high) == (1.0, 6.0)
        assert found.to_dict()["n_missing"] == 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(0, 20))
def test_interval_holds_region_and_region_holds_observed(values, n_missing):
    found = missing_bounds(values, n_missing)
    assert 0.0 <= found.ci_low <= found.low + 1e-12
    assert found.high - 1e-12 <= found.ci_high <= 1.0
    assert found.low - 1e-12 <= found.observed <= found.high + 1e-12


@pytest.mark.parametrize(
    ("values", "n_missing", "options", "message"),
    [
        ([], 0, {}, "pass at least one unit"),
        ([2.0], 1, {}, r"values\[0\] is 2"),
        ([0.5], 1, {"bounds": (0.0, np.inf)}, "must be finite to bound missing values"),
        ([0.5], -1, {}, "n_missing"),
    ],
)
def test_refusals(values, n_missing, options, message):
    with pytest.raises(InvalidInputError, match=message):
        missing_bounds(values, n_missing, **options)


def share_covered(generator, n, rate, miss_right, miss_wrong, n_repeats=1500):
    """Outcomes go missing more often when they are wrong: the mean of the rest is biased."""
    covered = naive = 0
    for _ in range(n_repeats):
        right = generator.random(n) < rate
        gone = generator.random(n) < np.where(right, miss_right, miss_wrong)
        found = missing_bounds(right[~gone].astype(float), int(gone.sum()))
        covered += found.ci_low <= rate <= found.ci_high
        plain = wilson_interval(int(right[~gone].sum()), int((~gone).sum()))
        naive += plain.low <= rate <= plain.high
    return covered / n_repeats, naive / n_repeats


@pytest.mark.parametrize(
    ("n", "rate", "miss_right", "miss_wrong"),
    [(40, 0.8, 0.05, 0.05), (200, 0.7, 0.0, 0.3), (200, 0.9, 0.02, 0.5), (100, 0.5, 0.2, 0.0)],
)
def test_covers_whatever_is_missing(n, rate, miss_right, miss_wrong):
    covered, naive = share_covered(np.random.default_rng(n), n, rate, miss_right, miss_wrong)
    # Three standard errors of 95 % over 1500 repeats are 1.7 points.
    assert covered >= 0.95 - 0.017
    if miss_right != miss_wrong:
        assert naive < covered


@pytest.mark.parametrize("grouped", [False, True])
def test_covers_means_of_attempts_and_of_groups(grouped):
    """Thirty units of three attempts, 95 % right, 2 % failed: nearly unanimous."""
    generator = np.random.default_rng(11)
    covered = 0
    groups = np.repeat(np.arange(15), 2) if grouped else None
    for _ in range(800):
        right = generator.random((30, 3)) < 0.95
        lost = generator.random((30, 3)) < 0.02
        low = np.where(lost, 0.0, right).mean(axis=1)
        high = np.where(lost, 1.0, right).mean(axis=1)
        found = bounded_mean(low, high, groups=groups)
        covered += found.ci_low <= 0.95 <= found.ci_high
    assert covered / 800 >= 0.95 - 0.024
