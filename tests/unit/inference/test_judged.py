"""Rates that a judge measured, corrected by human labels; and how many labels to buy."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval_toolkit.errors import InfeasibleError, InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import (
    corrected_difference,
    corrected_rate,
    plan_labels,
    ppi_mean,
    rogan_gladen,
    wilson_interval,
)
from eval_toolkit.inference.judged.validation import Judged

METHODS = ("ppi++", "ppi", "rogan-gladen", "labels-only", "raw")


def study(n=1000, n_labels=100, rate=0.3, se=0.9, sp=0.85, seed=0):
    """Return verdicts, labels on a random part, and the truth."""
    rng = np.random.default_rng(seed)
    human = (rng.random(n) < rate).astype(float)
    judge = np.where(human == 1, rng.random(n) < se, rng.random(n) >= sp).astype(float)
    known = np.full(n, np.nan)
    known[rng.permutation(n)[:n_labels]] = 1.0
    return judge, np.where(known == 1.0, human, np.nan), human


class TestCorrectedRate:
    def test_a_biased_judge_is_put_right(self) -> None:
        judge, human, truth = study(n=5000, n_labels=400, se=0.95, sp=0.7)
        for method in ("ppi++", "ppi", "rogan-gladen"):
            result = corrected_rate(judge, human, method=method)
            assert result.raw > truth.mean() + 0.15
            assert abs(result.value - truth.mean()) < 0.05
            assert result.ci_low <= truth.mean() <= result.ci_high

    def test_every_method_says_what_it_is(self) -> None:
        judge, human, _ = study()
        for method in METHODS:
            result = corrected_rate(judge, human, method=method)
            assert result.method == method
            assert result.ci_low <= result.value <= result.ci_high
            assert (result.n_units, result.n_labels) == (1000, 100)
            assert result.raw == pytest.approx(judge.mean())
            json.dumps(result.to_dict(), allow_nan=False)

    def test_the_narrowest_is_named_and_never_the_raw_one(self) -> None:
        judge, human, _ = study()
        result = corrected_rate(judge, human, method="raw")
        assert result.width < min(w for name, w in result.widths.items() if name != "raw")
        assert result.narrowest == "ppi++"
        assert set(result.widths) == set(METHODS)

    def test_labels_only_is_wilson(self) -> None:
        judge, human, _ = study(n_labels=50)
        known = human[~np.isnan(human)]
        expected = wilson_interval(int(known.sum()), 50)
        result = corrected_rate(judge, human, method="labels-only")
        assert (result.ci_low, result.ci_high) == (expected.low, expected.high)

    def test_a_useless_judge_costs_nothing(self) -> None:
        judge, human, _ = study(se=0.5, sp=0.5, seed=3)
        result = corrected_rate(judge, human)
        assert result.lam < 0.2
        assert result.width < 1.1 * result.widths["labels-only"]

    def test_a_judge_no_better_than_chance_has_no_rogan_gladen(self) -> None:
        judge, human, _ = study(se=0.2, sp=0.3)
        with pytest.raises(UndefinedMetricError, match="no better than chance"):
            corrected_rate(judge, human, method="rogan-gladen")
        assert "rogan-gladen" not in corrected_rate(judge, human).widths

    def test_no_errors_seen_is_not_no_errors_possible(self) -> None:
        judge = np.tile([1.0, 0.0], 500)
        human = np.where(np.arange(1000) < 40, judge, np.nan)
        # 40 labels without an error leave room for about 3 / 40 errors.
        assert corrected_rate(judge, human).width > 0.08
        assert ppi_mean(judge, human, small_sample=False).width == pytest.approx(0.061, abs=2e-3)

    def test_scores_may_be_real(self) -> None:
        rng = np.random.default_rng(1)
        human = rng.normal(3.0, 1.0, 400)
        judge = human + rng.normal(0.5, 0.5, 400)
        known = np.where(np.arange(400) < 60, human, np.nan)
        result = corrected_rate(judge, known)
        assert abs(result.value - human.mean()) < abs(result.raw - human.mean())
        assert result.ci_low <= human.mean() <= result.ci_high
        with pytest.raises(InvalidInputError, match="needs 0/1 verdicts"):
            corrected_rate(judge, known, method="rogan-gladen")

    def test_probabilities_of_a_judge_keep_the_rate_inside(self) -> None:
        rng = np.random.default_rng(4)
        human = (rng.random(500) < 0.03).astype(float)
        judge = np.clip(human + rng.normal(0.0, 0.1, 500), 0.0, 1.0)
        known = np.where(np.arange(500) < 40, human, np.nan)
        result = corrected_rate(judge, known)
        assert 0.0 <= result.ci_low <= 0.03 <= result.ci_high < 0.2

    @pytest.mark.parametrize("method", METHODS)
    def test_a_judge_of_no_skill_after_adjustment_stops_no_method(self, method) -> None:
        # Sensitivity 3 of 8 and specificity 2 of 3; with two units more each, 0.4 + 0.6 − 1 = 0.
        judge = np.array([1] * 3 + [0] * 5 + [0] * 2 + [1] + [1, 0] * 100, dtype=float)
        human = np.array([1] * 8 + [0] * 3 + [np.nan] * 200)
        result = corrected_rate(judge, human, method=method)
        assert result.method == method
        assert result.widths["rogan-gladen"] == 1.0

    def test_the_scale_of_the_judge_costs_little(self) -> None:
        rng = np.random.default_rng(5)
        human = rng.normal(3.0, 1.0, 800)
        judge = human + rng.normal(0.0, 0.5, 800)
        known = np.where(np.arange(800) < 40, human, np.nan)
        same, larger = ppi_mean(judge, known), ppi_mean(20.0 * judge, known)
        assert larger.value == pytest.approx(same.value, abs=0.02)
        assert larger.width == pytest.approx(same.width, rel=0.05)
        assert larger.lam == pytest.approx(same.lam / 20.0, rel=0.05)

    def test_equal_scores_in_all_labels_leave_room_for_errors(self) -> None:
        judge = np.where(np.arange(300) % 20 == 7, 2.0, 5.0)
        known = np.where(np.arange(300) < 40, judge, np.nan)
        result = corrected_rate(judge, known)
        assert result.value == pytest.approx(judge.mean(), abs=0.02)
        # The large-sample interval is that of the judge's mean alone; no label shows an error.
        assert result.width > 1.15 * ppi_mean(judge, known, small_sample=False).width

    def test_booleans_and_none_are_fine(self) -> None:
        judge = [True, False] * 20
        human = [True, False] * 5 + [None] * 30
        assert corrected_rate(judge, human).value == pytest.approx(0.5)

    def test_every_unit_labelled(self) -> None:
        judge, _, truth = study(n=200)
        result = corrected_rate(judge, truth)
        assert result.value == pytest.approx(truth.mean())
        assert "every unit has a human label, so the judge is not used" in result.reason

    def test_few_labels_are_named(self) -> None:
        judge, human, _ = study(n_labels=8)
        assert "only 8 human labels" in corrected_rate(judge, human).reason

    def test_labels_without_spread_are_named(self) -> None:
        result = corrected_rate([2.0] * 40, [3.0] * 25 + [None] * 15)
        assert (result.value, result.width) == pytest.approx((3.0, 0.0), abs=1e-9)
        assert "zero variance" in result.reason

    @given(st.integers(0, 10_000), st.sampled_from([0.02, 0.5, 0.97]))
    def test_rates_stay_inside_0_and_1(self, seed, rate) -> None:
        judge, human, _ = study(n=60, n_labels=12, rate=rate, se=0.7, sp=0.7, seed=seed)
        for method in METHODS:
            try:
                result = corrected_rate(judge, human, method=method)
            except (UndefinedMetricError, InvalidInputError):
                continue
            assert 0.0 <= result.ci_low <= result.value <= result.ci_high <= 1.0
            assert result.width > 0.0

    def test_an_interval_outside_0_and_1_is_no_certainty(self) -> None:
        """Twelve labels that differ from the rest: the correction is -0.52, its interval below 0."""
        judge, human, _ = study(n=60, n_labels=12, rate=0.02, se=0.7, sp=0.7, seed=6393)
        with pytest.raises(
            UndefinedMetricError,
            match="which is not a rate; the labelled units are too few, or differ from the others",
        ):
            corrected_rate(judge, human, method="ppi")

    def test_order_does_not_matter(self) -> None:
        judge, human, _ = study()
        order = np.random.default_rng(2).permutation(len(judge))
        first, second = corrected_rate(judge, human), corrected_rate(judge[order], human[order])
        assert first.value == pytest.approx(second.value)
        assert first.width == pytest.approx(second.width)

    @pytest.mark.parametrize("method", ["ppi++", "rogan-gladen", "labels-only", "raw"])
    def test_copies_of_units_in_groups_are_worth_what_one_is(self, method) -> None:
        judge, human, _ = study(n=300, n_labels=100)
        once = corrected_rate(judge, human, method=method)
        groups = np.repeat(np.arange(300), 4)
        copied = corrected_rate(
            np.repeat(judge, 4), np.repeat(human, 4), groups=groups, method=method
        )
        assert copied.value == pytest.approx(once.value, abs=0.02)
        assert copied.width == pytest.approx(once.width, rel=0.12)
        assert copied.n_groups == 300

    @pytest.mark.parametrize(
        ("human", "options", "error", "message"),
        [
            ([1, None, None], {}, UndefinedMetricError, "has 1 labels"),
            ([1, 0], {}, InvalidInputError, "`judge` has 3 rows but `human` has 2"),
            ([1, 0, 1], {"method": "magic"}, InvalidInputError, "`method` is 'magic'"),
            ([1, 0, "x"], {}, InvalidInputError, "must contain numbers"),
            ([1, 0, None], {"groups": [1, 1, 2]}, UndefinedMetricError, "in one group"),
            ([[1], [0], [1]], {}, InvalidInputError, "must be 1-D"),
        ],
    )
    def test_what_cannot_be_corrected(self, human, options, error, message) -> None:
        with pytest.raises(error, match=message):
            corrected_rate([1, 0, 1], human, **options)


class TestLabelsChosenByVerdict:
    def by_verdict(self, seed=0):
        """Label 60 of the judge's positives and 20 of its negatives."""
        judge, _, truth = study(n=2000, seed=seed)
        rng = np.random.default_rng(seed + 1000)
        human, weights = np.full(2000, np.nan), np.full(2000, np.nan)
        for verdict, count in ((1.0, 60), (0.0, 20)):
            rows = np.flatnonzero(judge == verdict)
            chosen = rng.permutation(rows)[:count]
            human[chosen], weights[chosen] = truth[chosen], len(rows) / count
        return judge, human, weights, truth

    @pytest.mark.parametrize("method", ["ppi++", "ppi", "rogan-gladen", "labels-only"])
    def test_they_are_refused(self, method) -> None:
        judge, human, _, _ = self.by_verdict()
        with pytest.raises(InvalidInputError, match=r"not chosen at random.*`strata`.*`weights`"):
            corrected_rate(judge, human, method=method)

    def test_real_scores_and_groups_are_checked_too(self) -> None:
        scores = np.linspace(0.0, 1.0, 200)
        human = np.where(scores > 0.8, 1.0, np.nan)
        with pytest.raises(InvalidInputError, match="not chosen at random"):
            corrected_rate(scores, human)
        with pytest.raises(InvalidInputError, match="not chosen at random"):
            corrected_rate(scores, human, groups=np.arange(200) // 2)

    def test_random_labels_are_not_refused(self) -> None:
        for seed in range(300):
            judge, human, _ = study(n=300, n_labels=30, rate=0.05, seed=seed)
            if len(np.unique(human[~np.isnan(human)])) > 1:
                corrected_rate(judge, human, method="ppi++")

    @pytest.mark.parametrize(("share", "n_labels"), [(0.1, 20), (0.02, 20), (0.1, 15)])
    def test_random_labels_of_skewed_scores_are_not_refused(self, share, n_labels) -> None:
        """A normal approximation refuses 2 to 6 in a thousand of these."""
        rng = np.random.default_rng(8)
        for _ in range(2000):
            scores = rng.choice([-1.0, 0.0, 1.0], 500, p=[share / 2, 1 - share, share / 2])
            labelled = np.zeros(500, dtype=bool)
            labelled[rng.choice(500, n_labels, replace=False)] = True
            Judged(scores, scores, labelled, None).check_random()

    def test_labels_of_high_grades_are_refused(self) -> None:
        grades = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 100)
        with pytest.raises(InvalidInputError, match="not chosen at random"):
            corrected_rate(grades, np.where(np.arange(500) >= 470, grades, np.nan))

    def test_strata_and_weights_put_it_right(self) -> None:
        errors = {"strata": [], "weights": [], "naive": []}
        for seed in range(40):
            judge, human, weights, truth = self.by_verdict(seed)
            errors["strata"].append(ppi_mean(judge, human, strata=judge).value - truth.mean())
            errors["weights"].append(ppi_mean(judge, human, weights=weights).value - truth.mean())
            errors["naive"].append(np.nanmean(human) - truth.mean())
        assert abs(np.mean(errors["naive"])) > 0.15
        assert abs(np.mean(errors["strata"])) < 0.01
        assert abs(np.mean(errors["weights"])) < 0.01

    def test_both_give_the_same_for_labels_by_verdict(self) -> None:
        judge, human, weights, _ = self.by_verdict()
        strata = ppi_mean(judge, human, strata=judge)
        weighted = ppi_mean(judge, human, weights=weights)
        # λ differs a little between units, so the weighted one is not the very same.
        assert strata.value == pytest.approx(weighted.value, abs=1e-3)
        fixed = [ppi_mean(judge, human, lam=0.5, **how).value for how in (
            {"strata": judge}, {"weights": weights})]  # fmt: skip
        assert fixed[0] == pytest.approx(fixed[1], abs=1e-9)
        assert strata.width == pytest.approx(weighted.width, rel=0.15)
        assert strata.lam is None

    def test_a_stratum_without_labels(self) -> None:
        judge, human, _ = study()
        human[judge == 1.0] = np.nan
        with pytest.raises(UndefinedMetricError, match=r"stratum '1.0' has 0 human labels"):
            ppi_mean(judge, human, strata=judge)

    def test_methods_that_take_neither(self) -> None:
        judge, human, weights, _ = self.by_verdict()
        with pytest.raises(InvalidInputError, match="does not accept `weights`"):
            corrected_rate(judge, human, weights=weights, method="rogan-gladen")
        with pytest.raises(InvalidInputError, match="does not accept `strata`"):
            corrected_rate(judge, human, strata=judge, method="labels-only")
        with pytest.raises(InvalidInputError, match="`strata` or `weights`, not both"):
            corrected_rate(judge, human, strata=judge, weights=weights)
        with pytest.raises(InvalidInputError, match="must be positive"):
            corrected_rate(judge, human, weights=-weights)
        with pytest.raises(InvalidInputError, match="`weights` has 3 rows"):
            corrected_rate(judge, human, weights=[1, 2, 3])


class TestRoganGladen:
    def test_value_by_hand(self) -> None:
        # (0.4 + 0.8 − 1) / (0.9 + 0.8 − 1)
        result = rogan_gladen(400, 1000, sensitivity=(45, 50), specificity=(40, 50))
        assert result.value == pytest.approx(0.2 / 0.7)
        assert result.n_labels == 100

    def test_more_calibration_gives_a_narrower_interval(self) -> None:
        widths = [
            rogan_gladen(400, 1000, sensitivity=(9 * k, 10 * k), specificity=(8 * k, 10 * k)).width
            for k in (2, 10, 100)
        ]
        assert widths == sorted(widths, reverse=True)

    def test_a_negative_estimate_is_clipped_and_said(self) -> None:
        result = rogan_gladen(15, 200, sensitivity=(45, 50), specificity=(45, 50))
        assert result.value == 0.0
        assert result.ci_low == 0.0
        assert result.ci_high > 0.0
        assert "clipped: the correction gives -0.03" in result.reason

    def test_a_weak_judge_says_nothing(self) -> None:
        result = rogan_gladen(50, 100, sensitivity=(6, 10), specificity=(6, 10))
        assert (result.ci_low, result.ci_high) == (0.0, 1.0)
        assert "do not show that the judge is better than chance" in result.reason

    def test_no_skill_left_after_adjustment(self) -> None:
        result = rogan_gladen(400, 1000, sensitivity=(3, 8), specificity=(2, 3))
        assert (result.ci_low, result.ci_high, result.se) == (0.0, 1.0, None)
        assert "do not show that the judge is better than chance" in result.reason

    def test_a_calibration_of_another_judge(self) -> None:
        with pytest.raises(UndefinedMetricError, match=r"rate of 0\.01 is inconsistent"):
            rogan_gladen(10, 1000, sensitivity=(90, 100), specificity=(60, 100))

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"sensitivity": (0, 0)}, UndefinedMetricError, "no unit has a positive human label"),
            ({"specificity": (0, 0)}, UndefinedMetricError, "no unit has a negative human label"),
            ({"sensitivity": (5, 4)}, InvalidInputError, "more than"),
            ({"specificity": (5,)}, InvalidInputError, "pair of counts"),
        ],
    )
    def test_impossible_counts(self, options, error, message) -> None:
        with pytest.raises(error, match=message):
            rogan_gladen(5, 10, **{"sensitivity": (9, 10), "specificity": (9, 10), **options})


class TestCorrectedDifference:
    def test_labels_everywhere_give_the_paired_test(self) -> None:
        rng = np.random.default_rng(1)
        a, b = rng.normal(size=80), rng.normal(0.3, size=80)
        ours = corrected_difference(a + 1, a, b + 1, b)
        student = stats.ttest_rel(b, a)
        interval = student.confidence_interval(0.95)
        assert ours.delta == pytest.approx(b.mean() - a.mean())
        assert (ours.ci_low, ours.ci_high) == pytest.approx((interval.low, interval.high))
        assert ours.p_value == pytest.approx(student.pvalue)

    def test_a_judge_helps(self) -> None:
        a, known_a, _ = study(n=3000, n_labels=150, rate=0.5, seed=1)
        b, known_b, truth_b = study(n=3000, n_labels=150, rate=0.65, seed=2)
        known_b = np.where(np.isnan(known_a), np.nan, truth_b)
        judged = corrected_difference(a, known_a, b, known_b)
        alone = corrected_difference(a, known_a, b, known_b, lam=0.0)
        assert judged.ci_high - judged.ci_low < 0.85 * (alone.ci_high - alone.ci_low)
        assert judged.ci_low <= 0.15 <= judged.ci_high

    def test_labels_of_one_side_alone_are_counted(self) -> None:
        a = [0.0, 1.0] * 20
        known_a, known_b = [0.0, 1.0] * 10 + [None] * 20, [0.0, 1.0] * 8 + [None] * 24
        result = corrected_difference(a, known_a, a, known_b)
        assert result.n_labels == 16
        assert "4 units" in result.reason

    def test_without_any_difference_the_interval_keeps_its_width(self) -> None:
        a = np.tile([1.0, 0.0], 50)
        known = np.where(np.arange(100) < 30, a, np.nan)
        result = corrected_difference(a, known, a, known)
        assert result.delta == 0.0
        assert result.ci_low < 0.0 < result.ci_high
        assert result.p_value == 1.0
        json.dumps(result.to_dict(), allow_nan=False)


class TestPlanLabels:
    def test_buying_as_planned_gives_the_width(self) -> None:
        for method in ("ppi++", "labels-only"):
            reached = []
            for seed in range(12):
                judge, human, truth = study(n=3000, n_labels=80, seed=seed)
                plan = plan_labels(judge, human, half_width=0.04, method=method)
                order = np.random.default_rng(seed).permutation(3000)
                bought = np.full(3000, np.nan)
                bought[order[: plan.n_labels]] = truth[order[: plan.n_labels]]
                reached.append(corrected_rate(judge, bought, method=method).width / 2)
            assert np.mean(reached) == pytest.approx(0.04, rel=0.1)

    def test_buying_by_verdict_gives_the_width_with_strata(self) -> None:
        reached = []
        for seed in range(12):
            judge, human, truth = study(n=3000, n_labels=80, se=0.9, sp=0.95, seed=seed)
            plan = plan_labels(judge, human, half_width=0.04, method="by-verdict")
            rng = np.random.default_rng(seed)
            bought = np.full(3000, np.nan)
            for verdict, name in ((1.0, "judge-positive"), (0.0, "judge-negative")):
                rows = rng.permutation(np.flatnonzero(judge == verdict))[: plan.split[name]]
                bought[rows] = truth[rows]
            reached.append(corrected_rate(judge, bought, strata=judge).width / 2)
            assert sum(plan.split.values()) == plan.n_labels
        assert np.mean(reached) == pytest.approx(0.04, rel=0.15)

    def test_labels_bought_by_verdict_plan_the_next_ones(self) -> None:
        judge, human, _, _ = TestLabelsChosenByVerdict().by_verdict()
        plan = plan_labels(judge, human, half_width=0.04, method="by-verdict")
        assert plan.n_more > 0
        with pytest.raises(InvalidInputError, match="not chosen at random"):
            plan_labels(judge, human, half_width=0.04)

    def test_scores_are_planned_too(self) -> None:
        reached = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            truth = rng.normal(3.0, 1.0, 2000)
            judge = truth + rng.normal(0.0, 0.5, 2000)
            pilot = np.where(np.arange(2000) < 60, truth, np.nan)
            plan = plan_labels(judge, pilot, half_width=0.1)
            bought = np.where(np.arange(2000) < plan.n_labels, truth, np.nan)
            reached.append(corrected_rate(judge, bought).width / 2)
        assert np.mean(reached) == pytest.approx(0.1, rel=0.1)

    def test_more_labels_go_where_the_judge_errs_more(self) -> None:
        judge = np.tile([1.0, 0.0], 500)
        human = np.full(1000, np.nan)
        human[:100] = np.tile([1, 0, 0, 0, 1, 0, 0, 0, 1, 0], 10)  # positives are often wrong
        plan = plan_labels(judge, human, half_width=0.05, method="by-verdict")
        assert plan.split["judge-positive"] > 2 * plan.split["judge-negative"]
        assert plan.n_more == sum(plan.buy.values())

    def test_calibration_set_of_its_own(self) -> None:
        judge, human, _ = study(n=20_000, n_labels=200, rate=0.2, se=0.8, sp=0.9)
        plan = plan_labels(judge, human, half_width=0.03, method="rogan-gladen")
        # (1 − θ) √(Sp (1 − Sp)) against θ √(Se (1 − Se)): 0.24 to 0.08.
        ratio = plan.split["human-negative"] / plan.split["human-positive"]
        assert ratio == pytest.approx(3.0, rel=0.35)
        got = rogan_gladen(
            int(judge.sum()),
            20_000,
            sensitivity=(round(0.8 * plan.split["human-positive"]), plan.split["human-positive"]),
            specificity=(round(0.9 * plan.split["human-negative"]), plan.split["human-negative"]),
        )
        assert got.width / 2 == pytest.approx(0.03, rel=0.15)

    def test_a_wider_interval_is_cheaper(self) -> None:
        judge, human, _ = study()
        needed = [plan_labels(judge, human, half_width=w).n_labels for w in (0.03, 0.05, 0.1)]
        assert needed == sorted(needed, reverse=True)

    def test_enough_labels_already(self) -> None:
        judge, human, _ = study(n_labels=300)
        plan = plan_labels(judge, human, half_width=0.2)
        assert plan.n_more == 0
        assert plan.half_width_now < 0.2
        json.dumps(plan.to_dict(), allow_nan=False)

    def test_groups_cost_labels(self) -> None:
        judge, human, _ = study(n=400, n_labels=120)
        groups = np.repeat(np.arange(400), 4)
        copies = np.repeat(judge, 4), np.repeat(human, 4)
        alone = plan_labels(*copies, half_width=0.08)
        grouped = plan_labels(*copies, half_width=0.08, groups=groups)
        assert grouped.n_labels > 2.5 * alone.n_labels

    def test_too_few_units_for_any_labels(self) -> None:
        judge, human, _ = study(n=200, n_labels=50)
        with pytest.raises(InfeasibleError, match="evaluate more units"):
            plan_labels(judge, human, half_width=0.01)

    def test_a_judge_that_guesses_has_no_calibration_plan(self) -> None:
        judge, human, _ = study(se=0.3, sp=0.3)
        with pytest.raises(InfeasibleError, match="no better than chance"):
            plan_labels(judge, human, half_width=0.1, method="rogan-gladen")
