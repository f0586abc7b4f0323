"""One rule for differences: intervals that hold, p-values that agree with them."""

import math

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import (
    bootstrap_ci,
    compare_scorers,
    delong_roc_variance,
    equivalence_from_paired,
    equivalence_test,
    non_inferiority_from_paired,
    non_inferiority_test,
    paired_bootstrap_diff,
    paired_bootstrap_op_point_diff,
    tango_interval,
)
from eval_toolkit.inference.paired_intervals import mover_interval, p_of_interval
from eval_toolkit.inference.paired_proportions import paired_share
from eval_toolkit.inference.results import BootstrapCI, PairedBootstrapCI


def _pair(n_positive: int, n_negative: int, distance: float, seed: int = 0, shared: float = 0.5):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    common = math.sqrt(shared) * rng.normal(size=len(y))
    a, b = (
        distance * y + common + math.sqrt(1 - shared) * rng.normal(size=len(y)) for _ in range(2)
    )
    return y, a, b


class TestShares:
    def test_rows_and_columns_of_runs_agree(self) -> None:
        """50 items, 5 discordant: rows said p 0.012, a run's column 0.0625."""
        y = np.ones(50, dtype=int)
        y[25:] = 0
        a = np.where(y == 1, 0.9, 0.1)
        a[:5] = 0.1  # A has five positives wrong that B has right
        b = np.where(y == 1, 0.9, 0.1)
        diff = paired_bootstrap_diff(y, a, b, op.op_accuracy(0.5))
        tango = tango_interval(5, 0, 50)
        assert (diff.ci_low, diff.ci_high) == (tango.ci_low, tango.ci_high)
        right_a, right_b = (a >= 0.5) == y, (b >= 0.5) == y
        assert diff.p_value == paired_share(right_a, right_b, 0.95)[2]
        assert diff.p_value == pytest.approx(math.erfc(math.sqrt(5 / 2)))  # chi-squared of 5

    @pytest.mark.parametrize(
        ("make", "among"),
        [
            (op.op_recall, lambda y: y == 1),
            (op.op_fnr, lambda y: y == 1),
            (op.op_specificity, lambda y: y == 0),
            (op.op_fpr, lambda y: y == 0),
            (op.op_accuracy, lambda y: y >= 0),
        ],
    )
    def test_every_share_of_fixed_rows_is_tangos(self, make, among) -> None:
        y, a, b = _pair(40, 60, 1.0, seed=3)
        diff = paired_bootstrap_diff(y, a, b, make(0.5))
        rows = among(y)
        sign = {"fnr": -1, "fpr": -1}.get(make.__name__.removeprefix("op_"), 1)
        right_a, right_b = ((x[rows] >= 0.5) == y[rows] for x in (a, b))
        gained, lost = (right_b & ~right_a).sum(), (right_a & ~right_b).sum()
        if sign < 0:
            gained, lost = lost, gained
        expected = tango_interval(gained, lost, int(rows.sum()))
        assert diff.method == "tango"
        assert (diff.ci_low, diff.ci_high) == (expected.ci_low, expected.ci_high)

    def test_none_discordant_still_has_width(self) -> None:
        y = np.array([0, 1] * 10)
        score = y.astype(float)
        diff = paired_bootstrap_diff(y, score, score, op.op_accuracy(0.5))
        # Tango 1998: ± z² / (n + z²) without discordant pairs
        z2 = 1.959963984540054**2
        assert diff.ci_high == pytest.approx(z2 / (20 + z2))
        assert not non_inferiority_from_paired(diff, margin=0.001).non_inferior

    def test_precision_is_no_share_of_fixed_rows(self) -> None:
        y, a, b = _pair(40, 60, 1.0)
        assert paired_bootstrap_diff(y, a, b, op.op_precision(0.5)).method == "mover"


class TestAgreement:
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize(
        "spec", [ms.roc_auc, ms.pr_auc, op.op_f1(0.5), op.op_mcc(0.5), op.op_accuracy(0.5)]
    )
    def test_p_is_below_five_percent_exactly_where_zero_is_left_out(self, spec, seed) -> None:
        y, a, b = _pair(30, 70, 1.0, seed=seed)
        b = b + 0.35 * seed * y
        diff = paired_bootstrap_diff(y, a, b, spec, n_resamples=200)
        assert (diff.p_value <= 0.05) == (not diff.overlaps_zero)

    def test_of_probabilities_too(self) -> None:
        y, a, b = _pair(30, 70, 1.0)
        p, q = (1 / (1 + np.exp(-x)) for x in (a, b))
        diff = paired_bootstrap_diff(y, p, q, ms.brier)
        assert (diff.p_value <= 0.05) == (not diff.overlaps_zero)

    def test_p_of_an_interval(self) -> None:
        assert p_of_interval(0.1, 0.0, 0.2, 0.95) == pytest.approx(0.05)
        assert p_of_interval(-0.1, -0.2, 0.0, 0.95, df=4) == pytest.approx(0.05)
        assert p_of_interval(0.0, -0.1, 0.1, 0.95) == 1.0
        assert p_of_interval(0.1, 0.05, 0.2, 0.95) == pytest.approx(
            math.erfc(2 * 1.959963984540054 / math.sqrt(2))
        )


class TestMover:
    def test_equals_the_formula(self) -> None:
        a = BootstrapCI(0.9, 0.8, 0.94, 0.95, 0, "score")
        b = BootstrapCI(0.95, 0.85, 0.99, 0.95, 0, "score")
        low, high = mover_interval(a, b, 0.4)
        # Zou & Donner 2008, eq. 15, by hand
        assert low == pytest.approx(0.05 - math.sqrt(0.1**2 + 0.04**2 - 2 * 0.4 * 0.1 * 0.04))
        assert high == pytest.approx(0.05 + math.sqrt(0.04**2 + 0.1**2 - 2 * 0.4 * 0.04 * 0.1))

    def test_two_perfect_scorers_are_not_certainly_equal(self) -> None:
        y = np.repeat([1, 0], [6, 94])
        a, b = y + 0.0, y * 2.0 + np.linspace(0, 0.1, 100)
        diff = paired_bootstrap_diff(y, a, b, ms.roc_auc)
        assert diff.delta == 0.0
        assert diff.ci_low < -0.1
        delong = delong_roc_variance(y, a, b)
        assert delong.p_value is None
        assert delong.ci_low < -0.1 < 0.1 < delong.ci_high

    def test_large_samples_agree_with_delong(self) -> None:
        y, a, b = _pair(1000, 2000, 1.0, seed=1)
        b = b + 0.1 * y
        diff, delong = paired_bootstrap_diff(y, a, b, ms.roc_auc), delong_roc_variance(y, a, b)
        assert diff.ci_high - diff.ci_low == pytest.approx(delong.ci_high - delong.ci_low, rel=0.08)

    @pytest.mark.parametrize("n_positive", [1, 2])
    def test_few_positives_have_no_verdict(self, n_positive) -> None:
        y, a, b = _pair(n_positive, 98, 2.0)
        with pytest.raises(UndefinedMetricError, match="at least 3 of each class"):
            paired_bootstrap_diff(y, a, b, ms.roc_auc)

    def test_nor_have_quantiles_of_a_bootstrap(self) -> None:
        y, a, b = _pair(2, 98, 1.0)
        with pytest.raises(UndefinedMetricError, match="2 positive rows"):
            paired_bootstrap_diff(y, a, b, ms.roc_auc, method="percentile")

    def test_nor_have_refitted_thresholds(self) -> None:
        y, a, b = _pair(2, 98, 1.0)
        other, *_ = _pair(20, 80, 1.0)
        given = (lambda y_true, y_score: 0.5, lambda y_true, y_score, t: float(np.mean(y_score)))
        with pytest.raises(UndefinedMetricError, match="`val_y` has 2 rows of one class"):
            paired_bootstrap_op_point_diff(y, a, b, other, a, b, *given)
        few = paired_bootstrap_op_point_diff(other, a, b, other.copy(), a, b, *given)
        assert few.reason.startswith("20 rows of one class")

    def test_the_order_of_rows_does_not_matter(self) -> None:
        y, a, b = _pair(20, 60, 1.0)
        order = np.random.default_rng(1).permutation(80)
        one = paired_bootstrap_diff(y, a, b, ms.pr_auc, n_resamples=200)
        other = paired_bootstrap_diff(y[order], a[order], b[order], ms.pr_auc, n_resamples=200)
        assert (one.ci_low, one.ci_high) == (other.ci_low, other.ci_high)

    def test_several_scorers_have_the_differences_of_two(self) -> None:
        y, a, b = _pair(20, 60, 1.0)
        both = compare_scorers(y, {"a": a, "b": b}, ms.roc_auc, n_resamples=200)
        alone = paired_bootstrap_diff(y, a, b, ms.roc_auc, n_resamples=200)
        assert both.differences["b"].ci_low == pytest.approx(alone.ci_low)
        assert both.differences["b"].p_value == pytest.approx(alone.p_value)

    def test_percentiles_remain_on_request(self) -> None:
        y, a, b = _pair(20, 60, 1.0)
        diff = paired_bootstrap_diff(y, a, b, ms.roc_auc, method="percentile", n_resamples=400)
        assert diff.method == "percentile"
        low, high = np.quantile(diff.samples, [0.025, 0.975])
        assert (diff.ci_low, diff.ci_high) == pytest.approx((low, high))


class TestEquivalence:
    def test_an_interval_without_width_decides_nothing(self) -> None:
        diff = PairedBootstrapCI(0.0, 0.0, 0.0, True, 0.95, 1000)
        found = non_inferiority_from_paired(diff, margin=0.01)
        assert not found.non_inferior
        assert "so the test is inconclusive" in found.reason
        assert not equivalence_from_paired(diff, margin=0.01).equivalent
        assert not non_inferiority_test(0.0, 0.0, margin=0.01).non_inferior
        assert not equivalence_test(0.0, 0.0, margin=0.01).equivalent

    def test_each_side_has_its_own_reach(self) -> None:
        diff = PairedBootstrapCI(0.0, -0.03, 0.01, True, 0.95, 1000)
        assert not non_inferiority_from_paired(diff, margin=0.02).non_inferior
        assert non_inferiority_from_paired(diff, margin=0.02, higher_is_better=False).non_inferior

    def test_at_the_intervals_own_confidence_the_bound_is_its_end(self) -> None:
        diff = PairedBootstrapCI(0.01, -0.02, 0.05, True, 0.95, 1000)
        assert non_inferiority_from_paired(diff, margin=0.05, confidence=0.975).bound == (
            pytest.approx(-0.02)
        )


def test_false_passes_of_a_gate_at_the_margin() -> None:
    """Accuracy 0.97 against 0.99, margin 0.02, n = 50: 35 % passed in the first edition."""
    rng = np.random.default_rng(5)
    passes = 0
    for _ in range(300):
        y = np.ones(50, dtype=int)
        y[25:] = 0
        right_a, right_b = rng.random(50) < 0.99, rng.random(50) < 0.97
        a, b = (np.where(right, y, 1 - y).astype(float) for right in (right_a, right_b))
        diff = paired_bootstrap_diff(y, a, b, op.op_accuracy(0.5), n_resamples=50)
        passes += diff.ci_low > -0.02
    assert passes <= 0.05 * 300  # nominal 2.5 %; the standard error of 300 draws is 0.9 %


def test_type_i_error_with_six_positives() -> None:
    """Two scorers of one quality, 6 positives: 14 % were called different in the first edition."""
    different = 0
    for seed in range(200):
        y, a, b = _pair(6, 94, 1.5, seed=seed)
        diff = paired_bootstrap_diff(y, a, b, ms.roc_auc, n_resamples=100, seed=seed)
        different += diff.p_value <= 0.05
    assert different <= 0.085 * 200  # 5 % and two standard errors


def test_type_i_error_of_balanced_accuracy_with_six_positives() -> None:
    """Normal quantiles call equals different in 10 % of cases here; Student's are taken."""
    different = 0
    for seed in range(300):
        y, a, b = _pair(6, 294, 0.7, seed=seed, shared=0.0)
        spec = op.op_balanced_accuracy(0.35)
        different += paired_bootstrap_diff(y, a, b, spec, n_resamples=50, seed=seed).p_value <= 0.05
    assert different <= 0.075 * 300  # 5 % and two standard errors


class TestWhatWasNotSeen:
    """Rare, complete failures of which a sample may show none."""

    @pytest.mark.parametrize("spec", [ms.roc_auc, ms.brier], ids=lambda spec: spec.name)
    def test_false_passes_where_b_misses_two_percent_of_the_positives(self, spec) -> None:
        """37 % passed for the ROC-AUC of 50 positives in 1000 rows, where 36 % of samples show none."""

        def rows(rng: np.random.Generator, n: int):
            y = (rng.random(n) < 0.05).astype(int)
            a = np.where(y == 1, rng.beta(8, 1.5, n), rng.beta(1.5, 8, n))
            return y, a, np.where((y == 1) & (rng.random(n) < 0.02), 0.01, a)

        y, a, b = rows(np.random.default_rng(1), 1_000_000)
        truth = abs(spec.function(y, b) - spec.function(y, a))
        rng = np.random.default_rng(2)
        passes = 0
        for seed in range(100):
            try:
                diff = paired_bootstrap_diff(*rows(rng, 1000), spec, n_resamples=50, seed=seed)
            except UndefinedMetricError:  # no row differs: a gate fails
                continue
            worst = -diff.ci_low if spec is ms.roc_auc else diff.ci_high
            passes += worst < truth
        assert passes <= 6  # nominal 2.5 %; two standard errors of 100 draws are 3.1 %

    @pytest.mark.parametrize("spec", [ms.roc_auc, ms.pr_auc], ids=lambda spec: spec.name)
    def test_no_wider_than_two_independent_scorers_with_enough_rows(self, spec) -> None:
        """A PR-AUC that agrees with itself had ±0.078 here, five times the reach of its own interval."""
        y, a, _ = _pair(200, 1305, 4.0, shared=0.0)
        own = bootstrap_ci(y, a, spec)
        diff = paired_bootstrap_diff(y, a, a, spec)
        reach = math.hypot(own.point_estimate - own.ci_low, own.ci_high - own.point_estimate)
        assert (diff.ci_low, diff.ci_high) == pytest.approx((-reach, reach))
        assert diff.reason == (
            "allows for failures too rare to occur in 200 rows of the smaller class"
        )

    def test_many_rows_that_differ_leave_nothing_open(self) -> None:
        y, a, b = _pair(500, 500, 1.0, shared=0.5)
        diff = paired_bootstrap_diff(y, a, b, ms.roc_auc)
        delong = delong_roc_variance(y, a, b)
        assert (diff.ci_high - diff.ci_low) / (delong.ci_high - delong.ci_low) == pytest.approx(
            1.0, abs=0.05
        )


class TestLosses:
    """Differences of Brier scores and log-losses, of which a few positives carry most."""

    @staticmethod
    def rivals(rng: np.random.Generator, n: int, prevalence: float):
        y = (rng.random(n) < prevalence).astype(int)
        prior = math.log(prevalence / (1 - prevalence))
        return y, *(
            1 / (1 + np.exp(-prior - d * (d * y + rng.normal(size=n)) + d**2 / 2))
            for d in (0.7, 1.2)
        )

    @pytest.mark.parametrize("spec", [ms.brier, ms.log_loss], ids=lambda spec: spec.name)
    def test_coverage_with_six_positives_in_300(self, spec) -> None:
        """A t interval covers 0.83 of the Brier differences; the truth is that of 2 million rows."""
        y, a, b = self.rivals(np.random.default_rng(1), 2_000_000, 0.02)
        truth = spec.function(y, b) - spec.function(y, a)
        rng = np.random.default_rng(2)
        held = given = 0
        for _ in range(300):
            y, a, b = self.rivals(rng, 300, 0.02)
            if y.sum() < 3:
                continue
            diff = paired_bootstrap_diff(y, a, b, spec, n_resamples=20)
            given += 1
            held += diff.ci_low <= truth <= diff.ci_high
        assert given > 250
        assert held >= 0.92 * given

    def test_fewer_than_three_of_a_class_have_no_interval(self) -> None:
        y = np.zeros(100, dtype=int)
        y[:2] = 1
        rng = np.random.default_rng(0)
        with pytest.raises(UndefinedMetricError, match="2 positive rows"):
            paired_bootstrap_diff(y, rng.random(100), rng.random(100), ms.brier)

    def test_one_class_alone_is_compared(self) -> None:
        rng = np.random.default_rng(0)
        a, b = 0.5 * rng.random(200), 0.1 * rng.random(200)
        diff = paired_bootstrap_diff(np.zeros(200, dtype=int), a, b, ms.brier)
        assert diff.ci_high < 0.0  # b is closer to 0

    def test_large_samples_have_students_interval(self) -> None:
        rng = np.random.default_rng(3)
        y, a, b = self.rivals(rng, 20_000, 0.5)
        diff = paired_bootstrap_diff(y, a, b, ms.brier)
        terms = (b - y) ** 2 - (a - y) ** 2
        reach = 1.96 * terms.std() / math.sqrt(len(y))
        assert (diff.delta - diff.ci_low) / reach == pytest.approx(1.0, abs=0.03)
        assert (diff.ci_high - diff.delta) / reach == pytest.approx(1.0, abs=0.03)

    def test_equal_scorers_have_no_interval(self) -> None:
        y, a, _ = self.rivals(np.random.default_rng(3), 200, 0.5)
        with pytest.raises(UndefinedMetricError, match="zero variance"):
            paired_bootstrap_diff(y, a, a, ms.brier)


def test_unanimous_groups_are_one_unit_each() -> None:
    """12 of 12 units flip, in 6 groups: Tango's interval of 6 of 6."""
    from eval_toolkit.inference.paired_intervals import paired_shares

    groups = np.repeat(np.arange(6), 2)
    found = paired_shares(np.ones(12), np.zeros(12), groups=groups, confidence=0.95)
    tango = tango_interval(0, 6, 6)
    assert found[:2] == (tango.ci_low, tango.ci_high)
    assert found[3] == "tango, groups"
