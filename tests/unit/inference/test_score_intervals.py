"""Default intervals of metrics of labels and scores: what the first edition got wrong at the edges."""

import math

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import op_metric_specs as op
from eval_toolkit import scorecard
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import (
    bootstrap_ci,
    cluster_bootstrap_ci,
    mean_interval,
    wilson_interval,
)
from eval_toolkit.inference.plans import (
    groups_in_strata_plan,
    groups_plan,
    label_stratified_plan,
    rows_plan,
)
from eval_toolkit.inference.score_intervals import _auc_trials, bounded_interval
from eval_toolkit.metrics import roc_auc

NORMAL = np.random.default_rng(7)


def _rows(n_positive: int, n_negative: int, distance: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_positive, n_negative])
    return y, rng.normal(size=len(y)) + distance * y


class TestFewRowsOfAClass:
    @pytest.mark.parametrize("n_positive", [1, 2])
    @pytest.mark.parametrize("spec", [ms.roc_auc, ms.pr_auc, op.op_f1(1.0), op.op_mcc(1.0)])
    def test_fewer_than_three_have_no_interval(self, n_positive, spec) -> None:
        y, scores = _rows(n_positive, 98, 3.0)
        cell = scorecard(y, scores, metrics=[spec])[spec.name]
        assert cell.status == "ok"
        assert cell.ci is None
        assert cell.reason.startswith(f"no interval: {n_positive} positive row")
        assert "at least 3 of each class" in cell.reason

    def test_few_negatives_count_likewise(self) -> None:
        y, scores = _rows(98, 2, 3.0)
        assert "2 negative rows" in scorecard(y, scores, metrics=[ms.roc_auc])["roc_auc"].reason

    def test_a_bootstrap_is_refused_too(self) -> None:
        y, scores = _rows(2, 98, 2.0)
        for method in (None, "BCa", "percentile"):
            with pytest.raises(UndefinedMetricError, match="2 positive rows"):
                bootstrap_ci(y, scores, roc_auc, method=method)

    def test_groups_count_by_their_effective_number(self) -> None:
        y, scores = _rows(30, 70, 1.0)
        groups = np.concatenate([np.repeat([0, 1], [29, 1]), np.arange(2, 72)])
        with pytest.raises(UndefinedMetricError, match="groups"):
            bootstrap_ci(y, scores, roc_auc, groups=groups)

    def test_a_bootstrap_by_name_says_that_it_falls_short(self) -> None:
        y, scores = _rows(6, 94, 1.0)
        assert "6 rows of one class" in bootstrap_ci(y, scores, roc_auc, method="BCa").reason
        y, scores = _rows(60, 94, 1.0)
        assert bootstrap_ci(y, scores, roc_auc, method="BCa").reason == ""


class TestNoWidthOfZero:
    def test_recall_at_a_false_positive_rate_of_six_positives(self) -> None:
        y, scores = _rows(6, 94, 12.0)
        cell = scorecard(y, scores, metrics=[ms.recall_at_fpr(0.05)])["recall_at_fpr_0.05"]
        assert cell.value == 1.0
        # Wilson's interval of 6 of 6: no threshold near this one catches fewer.
        assert cell.ci.ci_low == pytest.approx(wilson_interval(6, 6).low)

    def test_balanced_accuracy_combines_two_wilson_intervals(self) -> None:
        y = np.repeat([1, 0], [6, 294])
        scores = np.concatenate([np.ones(6), np.ones(3), np.zeros(291)])
        ci = scorecard(y, scores, metrics=[op.op_balanced_accuracy(0.5)])[
            "op_balanced_accuracy_at_0.5"
        ].ci
        recall_low = wilson_interval(6, 6).low
        fpr_high = wilson_interval(3, 294).high
        value = (1.0 + 291 / 294) / 2.0
        reach = math.hypot((1.0 - recall_low) / 2.0, (fpr_high - 3 / 294) / 2.0)
        assert ci.ci_low == pytest.approx(value - reach)
        assert ci.ci_low < 0.81  # [0.985, 0.998] in the first edition
        assert ci.ci_high > 0.998

    def test_f1_of_zero_has_an_upper_end(self) -> None:
        y = np.repeat([1, 0], [10, 90])
        scores = np.concatenate([np.zeros(10), np.ones(5), np.zeros(85)])
        cell = scorecard(y, scores, metrics=[op.op_f1(0.5)])["op_f1_at_0.5"]
        assert (cell.value, cell.ci.ci_low) == (0.0, 0.0)
        assert cell.ci.ci_high > 0.2

    @pytest.mark.parametrize("spec", [ms.roc_auc, ms.pr_auc, ms.brier, ms.log_loss])
    def test_constant_scores(self, spec) -> None:
        ci = scorecard([0, 1] * 20, [0.5] * 40, metrics=[spec])[spec.name].ci
        assert ci is None or ci.ci_high - ci.ci_low > 0.01

    def test_perfect_separation_reaches_as_far_as_the_smaller_class_allows(self) -> None:
        y = np.repeat([1, 0], [6, 94])
        card = scorecard(y, y.astype(float), metrics=[ms.roc_auc, ms.pr_auc])
        assert card["pr_auc"].ci.ci_low == pytest.approx(wilson_interval(6, 6).low)
        assert 0.6 < card["roc_auc"].ci.ci_low < 0.9

    def test_a_foreign_metric_without_spread_has_no_interval(self) -> None:
        from sklearn.metrics import roc_auc_score

        y = np.repeat([1, 0], [6, 94])
        with pytest.raises(UndefinedMetricError, match="same value"):
            bootstrap_ci(y, y.astype(float), roc_auc_score)

    def test_tiny_values_are_not_degenerate(self) -> None:
        y, scores = _rows(40, 60, 1.0)

        def tiny(y_true, y_score) -> float:
            return 1e-14 * float(np.mean(y_score))

        ci = bootstrap_ci(y, scores, tiny, method="percentile")
        assert ci.ci_high > ci.ci_low


class TestRecallAtFpr:
    def test_too_few_negatives_for_the_rate(self) -> None:
        y, scores = _rows(20, 94, 2.0)
        cell = scorecard(y, scores, metrics=[ms.recall_at_fpr(0.01)])["recall_at_fpr_0.01"]
        assert cell.ci is None
        assert "94 negative rows are too few for a threshold" in cell.reason
        assert "at least 300" in cell.reason

    def test_the_interval_is_wider_than_that_of_a_held_threshold(self) -> None:
        y, scores = _rows(100, 400, 2.0)
        cell = scorecard(y, scores, metrics=[ms.recall_at_fpr(0.05)])["recall_at_fpr_0.05"]
        held = wilson_interval(round(cell.value * 100), 100)
        assert cell.ci.ci_low < held.low
        assert cell.ci.ci_high > held.high


class TestPartialAuc:
    def test_too_few_negatives_up_to_the_rate(self) -> None:
        y, scores = _rows(30, 29, 2.0)
        cell = scorecard(y, scores, metrics=[ms.partial_roc_auc(0.1)])["roc_auc_max_fpr_0.1"]
        assert cell.status == "ok"
        assert cell.ci is None
        assert cell.reason == (
            "no interval: 2 negative rows up to a false-positive rate of 0.1; an interval for "
            "roc_auc_max_fpr_0.1 needs at least 3 of each class"
        )
        y, scores = _rows(30, 9, 2.0)
        cell = scorecard(y, scores, metrics=[ms.partial_roc_auc(0.1)])["roc_auc_max_fpr_0.1"]
        assert cell.reason.startswith("no interval: 0 negative rows up to")

    def test_three_negatives_tell_little(self) -> None:
        """Of 30 negatives three lie up to a rate of 0.1: one of them on top is half of the area."""
        y = np.repeat([1, 0], [30, 30])
        card = scorecard(y, y * 0.8 + 0.1, metrics=[ms.partial_roc_auc(0.1), ms.roc_auc])
        assert card["roc_auc_max_fpr_0.1"].value == 1.0
        assert card["roc_auc_max_fpr_0.1"].ci.ci_low < 0.75
        assert card["roc_auc"].ci.ci_low > 0.85

    def test_up_to_a_rate_of_one_it_is_the_whole_area(self) -> None:
        y, scores = _rows(20, 60, 1.0)
        part, whole = ms.partial_roc_auc(1.0), ms.roc_auc
        card = scorecard(y, scores, metrics=[part, whole])
        assert card[part.name].ci == card[whole.name].ci


class TestAuc:
    def test_trials_of_normal_classes_equal_the_bivariate_normal_integral(self) -> None:
        from scipy.stats import multivariate_normal, norm

        for auc in (0.6, 0.8, 0.95):
            a = norm.ppf(auc)
            # P(two positives above one negative) − auc², and the same with the classes exchanged.
            joint = multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]]).cdf([a, a])
            m, n = 200, 300
            variance = (auc * (1 - auc) + (m - 1 + n - 1) * (joint - auc**2)) / (m * n)
            newcombe_is_not_asked = auc * (1 - auc) / variance
            assert _auc_trials(auc, m, n) == pytest.approx(newcombe_is_not_asked, rel=1e-5)

    def test_at_least_as_wide_as_delong_by_students_quantile(self) -> None:
        y, scores = _rows(40, 200, 1.0)
        ci = bootstrap_ci(y, scores, roc_auc)
        from eval_toolkit.inference import delong_ci

        delong = delong_ci(y, scores)
        assert ci.ci_high - ci.ci_low > 0.97 * (delong.ci_high - delong.ci_low)

    def test_the_model_gives_way_to_a_variance_of_many_rows(self) -> None:
        """Positives with half the spread: with the model alone it was half as wide again as BCa."""
        rng = np.random.default_rng(0)
        y = np.repeat([1, 0], [100, 900])
        score = np.concatenate([rng.normal(2.0, 0.5, 100), rng.normal(0.0, 1.0, 900)])
        ci, bca = (
            bootstrap_ci(y, score, ms.roc_auc),
            bootstrap_ci(y, score, ms.roc_auc, method="BCa"),
        )
        assert ci.ci_high - ci.ci_low <= 1.12 * (bca.ci_high - bca.ci_low)

    def test_exchanging_classes_and_signs_mirrors_nothing(self) -> None:
        y, scores = _rows(12, 50, 1.0)
        one, other = bootstrap_ci(y, scores, roc_auc), bootstrap_ci(1 - y, -scores, roc_auc)
        assert one.ci_low == pytest.approx(other.ci_low, abs=1e-12)
        flipped = bootstrap_ci(y, -scores, roc_auc)
        assert flipped.ci_high == pytest.approx(1.0 - one.ci_low, abs=1e-9)


class TestFewCarriers:
    def test_pr_auc_with_label_noise(self) -> None:
        """5 % of labels are wrong: with m − 1 degrees of freedom 0.918 were covered (2000 draws)."""

        def rows(rng: np.random.Generator, n: int):
            y = rng.random(n) < 0.5
            score = np.where(y, rng.beta(8, 1, n), rng.beta(1, 8, n))
            return (y ^ (rng.random(n) < 0.05)).astype(int), score

        truth = ms.pr_auc.function(*rows(np.random.default_rng(1), 1_000_000))
        rng = np.random.default_rng(2)
        found = [bootstrap_ci(*rows(rng, 400), ms.pr_auc) for _ in range(300)]
        held = np.mean([ci.ci_low <= truth <= ci.ci_high for ci in found])
        assert held >= 0.93

    def test_log_loss_of_scores_that_reach_zero(self) -> None:
        """Ten levels, the lowest 0: the range of mean losses alone covered 0.73 to 0.79."""

        def rows(rng: np.random.Generator, n: int):
            y = rng.random(n) < 0.9
            score = np.where(y, rng.beta(3, 1, n), rng.beta(1, 3, n))
            return y.astype(int), np.floor(10 * score) / 10

        truth = ms.log_loss.function(*rows(np.random.default_rng(1), 1_000_000))
        rng = np.random.default_rng(2)
        found = [bootstrap_ci(*rows(rng, 300), ms.log_loss) for _ in range(200)]
        assert np.mean([ci.ci_low <= truth <= ci.ci_high for ci in found]) >= 0.88


class TestSharedRules:
    def test_a_share_of_rows_in_groups_is_that_of_a_column(self) -> None:
        """Accuracy in 15 groups was [0.648, 0.854] of a scorecard, [0.642, 0.855] of a column."""
        rng = np.random.default_rng(2)
        groups = np.repeat(np.arange(15), 10)
        right = rng.random(150) < rng.beta(4, 1, 15)[groups]
        y = rng.integers(0, 2, 150)
        score = np.where(right, y, 1 - y) * 0.8 + 0.1
        spec = op.op_accuracy(0.5)
        of_rows = scorecard(y, score, metrics=[spec], groups=groups)[spec.name].ci
        of_column = mean_interval(right, groups=groups, share=True)
        assert (of_rows.ci_low, of_rows.ci_high) == (of_column.ci_low, of_column.ci_high)

    def test_one_answer_through_every_door(self) -> None:
        from eval_toolkit.scorecards import Records, summarise

        y, scores = _rows(25, 75, 1.5)
        scores = 1.0 / (1.0 + np.exp(-scores))
        specs = [ms.roc_auc, ms.pr_auc, ms.brier, op.op_f1(0.6), ms.ece(n_bins=10)]
        card = scorecard(y, scores, metrics=specs)
        records = Records.from_rows(y, scores, unit_id=[f"r{i}" for i in range(100)])
        again = summarise(records, specs)
        for spec in specs:
            alone = bootstrap_ci(y, scores, spec)
            for ci in (again[spec.name].ci, alone):
                assert (ci.ci_low, ci.ci_high) == pytest.approx(
                    (card[spec.name].ci.ci_low, card[spec.name].ci.ci_high), abs=1e-12
                )

    @pytest.mark.parametrize("method", [None, "BCa", "percentile"])
    def test_the_order_of_rows_does_not_matter(self, method) -> None:
        y, scores = _rows(20, 60, 1.0)
        scores = np.round(scores, 1)
        order = NORMAL.permutation(80)
        for metric in (roc_auc, lambda a, b: float(np.mean(a * b))):
            one = bootstrap_ci(y, scores, metric, method=method)
            other = bootstrap_ci(y[order], scores[order], metric, method=method)
            # A foreign metric adds its rows up in the order given: equal but for rounding.
            assert (one.ci_low, one.ci_high) == pytest.approx(
                (other.ci_low, other.ci_high), rel=1e-12
            )

    def test_nor_does_it_with_groups(self) -> None:
        y, scores = _rows(20, 60, 1.0)
        groups = np.arange(80) % 27
        order = NORMAL.permutation(80)
        one = bootstrap_ci(y, scores, roc_auc, groups=groups)
        names = np.array([f"g{g}" for g in groups])
        other = bootstrap_ci(y[order], scores[order], roc_auc, groups=names[order])
        assert (one.ci_low, one.ci_high) == (other.ci_low, other.ci_high)

    @pytest.mark.parametrize("draws", ["stratified", "strata", "labels"])
    def test_nor_does_it_with_strata(self, draws) -> None:
        """Replicates drawn in strata: rows of a label, groups in strata, groups of a label."""
        y, scores = _rows(20, 60, 1.0)
        groups = np.array([f"g{g}" for g in np.arange(80) % 27])
        order = np.random.default_rng(8).permutation(80)

        def interval(rows):
            if draws == "labels":
                return cluster_bootstrap_ci(y[rows], scores[rows], groups[rows], roc_auc)
            plan = groups_in_strata_plan(groups[rows], [name[-1] for name in groups[rows]])
            how = {"stratified": True} if draws == "stratified" else {"plan": plan}
            return bootstrap_ci(y[rows], scores[rows], roc_auc, method="percentile", **how)

        assert interval(np.arange(80)) == interval(order)

    def test_stratified_draws_have_the_same_default(self) -> None:
        y, scores = _rows(20, 60, 1.0)
        one, other = (bootstrap_ci(y, scores, roc_auc, stratified=s) for s in (False, True))
        assert (one.ci_low, one.ci_high) == (other.ci_low, other.ci_high)

    def test_samples_come_along_when_asked_for(self) -> None:
        y, scores = _rows(20, 60, 1.0)
        ci = bootstrap_ci(y, scores, roc_auc, n_resamples=200, return_samples=True)
        assert len(ci.samples) == 200
        assert ci.method == "score"

    def test_groups_are_wider_than_rows(self) -> None:
        y, scores = _rows(30, 90, 1.0)
        groups = np.arange(120) // 4
        one, other = (bootstrap_ci(y, scores, roc_auc, groups=g) for g in (None, groups))
        assert other.method == "score, groups"
        assert other.ci_high - other.ci_low > one.ci_high - one.ci_low


class TestBoundedInterval:
    def test_a_variance_of_many_rows_gives_wilsons_interval_of_its_worth(self) -> None:
        low, high = bounded_interval(0.8, (0.0, 1.0), 0.16 / 400, 1e6, 0.95)
        wilson = wilson_interval(320, 400)
        assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=1e-6)

    def test_a_range_of_two_is_that_of_one_stretched(self) -> None:
        low, high = bounded_interval(0.6, (-1.0, 1.0), 4 * 0.16 / 400, 1e6, 0.95)
        wilson = wilson_interval(320, 400)
        assert (low, high) == pytest.approx((2 * wilson.low - 1, 2 * wilson.high - 1), abs=1e-6)

    @pytest.mark.parametrize(("effective", "trials"), [(6.0, 6.0), (45.0, 45.0), (90.0, 180.0)])
    def test_the_smaller_class_limits_it(self, effective, trials) -> None:
        low, _ = bounded_interval(1.0, (0.0, 1.0), 0.0, effective, 0.95)
        z = 1.959963984540054
        assert low == pytest.approx(trials / (trials + z * z))  # Wilson without a failure


class TestPlans:
    def test_effective_numbers_of_groups(self) -> None:
        mask = np.ones(12, dtype=bool)
        assert rows_plan(12).effective_among(mask) == 12.0
        assert label_stratified_plan(mask).effective_among(mask) == 12.0
        assert groups_plan([0] * 6 + [1] * 6).effective_among(mask) == 2.0
        # (6 + 3 + 3)² / (36 + 9 + 9)
        assert groups_plan([0] * 6 + [1] * 3 + [2] * 3).effective_among(mask) == pytest.approx(
            144 / 54
        )

    def test_reordering_numbers_groups_as_they_appear(self) -> None:
        plan = groups_plan(["b", "a", "b", "c"])
        assert plan.reordered(np.array([0, 2, 3, 1])).unit_of_row.tolist() == [0, 0, 1, 2]

    def test_reordering_keeps_strata_apart(self) -> None:
        """Two negatives, two positives: units 0 and 1 are negative, whatever comes first."""
        plan = label_stratified_plan(np.array([False, True, False, True]))
        assert plan.unit_of_row.tolist() == [0, 2, 1, 3]
        assert plan.reordered(np.array([3, 2, 1, 0])).unit_of_row.tolist() == [2, 0, 3, 1]


def test_cluster_bootstrap_needs_more_than_a_handful_of_groups() -> None:
    y = np.array([0, 1] * 20)
    scores = np.linspace(0.0, 1.0, 40)
    with pytest.raises((UndefinedMetricError, ValueError)):
        cluster_bootstrap_ci(y, scores, np.arange(40) // 10, roc_auc)


class TestGroupsCountWhatTheyAreWorth:
    def test_groups_without_correlation_cost_little(self) -> None:
        """40 groups of 5 independent rows: nearly the interval of 200 rows."""
        rng = np.random.default_rng(0)
        y = np.tile([0, 0, 0, 1, 1], 40)
        scores = rng.normal(size=200) + y
        rows, groups = (
            bootstrap_ci(y, scores, roc_auc, groups=g) for g in (None, np.arange(200) // 5)
        )
        assert groups.ci_high - groups.ci_low < 1.25 * (rows.ci_high - rows.ci_low)

    def test_perfect_groups_count_as_groups(self) -> None:
        y = np.tile([0, 0, 0, 1, 1], 12)
        groups = np.arange(60) // 5
        ci = bootstrap_ci(y, y.astype(float), ms.pr_auc, groups=groups)
        assert ci.ci_low == pytest.approx(wilson_interval(12, 12).low)
