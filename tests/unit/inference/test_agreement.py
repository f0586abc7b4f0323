"""Agreement: kappa, alpha, judges beside people, judges beside one another."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference import (
    agreement_matrix,
    alpha_interval,
    cluster_robust_se,
    clustered_rate,
    judge_agreement,
    kappa_interval,
    wilson_interval,
)
from eval_toolkit.metrics import cohen_kappa, krippendorff_alpha

labels = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=4, max_size=30)


class TestKappa:
    def test_the_order_of_classes_can_be_given(self) -> None:
        a, b = ["bad", "ok", "good", "good"], ["bad", "good", "good", "ok"]
        order = ["bad", "ok", "good"]
        numbers = [[order.index(label) for label in side] for side in (a, b)]
        assert cohen_kappa(a, b, weights="linear", labels=order) == pytest.approx(
            cohen_kappa(*numbers, weights="linear")
        )
        # Sorted, "good" would lie between "bad" and "ok": another number.
        assert cohen_kappa(a, b, weights="linear") != pytest.approx(
            cohen_kappa(a, b, weights="linear", labels=order)
        )

    def test_a_label_that_is_not_among_the_labels(self) -> None:
        with pytest.raises(InvalidInputError, match="contains 'x', which is not in `labels`"):
            cohen_kappa(["x"], ["y"], labels=["y"])

    def test_unknown_weights(self) -> None:
        with pytest.raises(InvalidInputError, match="`weights` is 'cubic'"):
            cohen_kappa([0, 1], [0, 1], weights="cubic")  # type: ignore[arg-type]

    @given(labels)
    def test_who_comes_first_does_not_matter(self, pairs) -> None:
        a, b = zip(*pairs, strict=True)
        try:
            kappa = cohen_kappa(a, b, weights="quadratic", labels=[0, 1, 2])
        except UndefinedMetricError:
            return
        assert kappa == pytest.approx(cohen_kappa(b, a, weights="quadratic", labels=[0, 1, 2]))


class TestKappaInterval:
    def test_perfect_agreement_has_an_interval_of_some_width(self) -> None:
        a = [0, 1] * 20
        adjusted, plain = kappa_interval(a, a), kappa_interval(a, a, method="analytic")
        assert (adjusted.point_estimate, adjusted.ci_high) == (1.0, 1.0)
        assert adjusted.ci_low < 0.95
        assert plain.ci_low == 1.0  # what the adjustment is for

    def test_copies_of_units_in_groups_are_worth_what_one_is(self) -> None:
        rng = np.random.default_rng(1)
        a = rng.integers(0, 2, 60)
        b = np.where(rng.random(60) < 0.8, a, 1 - a)
        once = kappa_interval(a, b, method="analytic")
        groups = np.repeat(np.arange(60), 5)
        copied = kappa_interval(np.repeat(a, 5), np.repeat(b, 5), groups=groups, method="analytic")
        assert copied.point_estimate == pytest.approx(once.point_estimate)
        # Student's t and G / (G − 1) make a few percent.
        width = copied.ci_high - copied.ci_low
        assert width == pytest.approx(once.ci_high - once.ci_low, rel=0.06)
        assert copied.n_groups == 60

    def test_agreement_everywhere_counts_by_cluster(self) -> None:
        votes, groups = np.repeat([0, 1] * 5, 50), np.repeat(np.arange(10), 50)
        grouped, units = kappa_interval(votes, votes, groups=groups), kappa_interval(votes, votes)
        # Ten clusters, not 500 units: as wide as ten units and Student's t make it.
        assert grouped.ci_low < 0.7
        assert grouped.ci_low < kappa_interval([0, 1] * 5, [0, 1] * 5).ci_low
        assert units.ci_low > 0.98

    def test_bootstrap_is_near_the_closed_form_and_seeded(self) -> None:
        rng = np.random.default_rng(2)
        a = rng.integers(0, 3, 300)
        b = np.where(rng.random(300) < 0.7, a, rng.integers(0, 3, 300))
        drawn = kappa_interval(a, b, method="bootstrap", seed=5)
        closed = kappa_interval(a, b, method="analytic")
        assert drawn.ci_low == pytest.approx(closed.ci_low, abs=0.02)
        assert drawn.ci_high == pytest.approx(closed.ci_high, abs=0.02)
        assert drawn == kappa_interval(a, b, method="bootstrap", seed=5)

    def test_constant_labels_have_none(self) -> None:
        with pytest.raises(UndefinedMetricError, match="constant and equal"):
            kappa_interval([1, 1], [1, 1])


class TestAlpha:
    def test_units_with_one_rating_say_nothing(self) -> None:
        ratings = [[1, 2, 3, 1], [1, 2, 2, 1]]
        padded = [[*row, 9, None] for row in ratings]
        padded[1][4] = None
        assert krippendorff_alpha(padded) == pytest.approx(krippendorff_alpha(ratings))

    def test_missing_ratings_may_be_none_or_nan(self) -> None:
        gaps = [[1, 2, None, 1], [1, 2, 2, 2]]
        nans = [[1, 2, float("nan"), 1], [1, 2, 2, 2]]
        assert krippendorff_alpha(gaps) == krippendorff_alpha(nans)

    def test_interval_does_not_care_where_zero_is(self) -> None:
        ratings = np.array([[1.0, 2, 3, 4, 7], [1, 2, 4, 4, 6]])
        moved = krippendorff_alpha(ratings + 1e6, level="interval")
        assert moved == pytest.approx(krippendorff_alpha(ratings, level="interval"), abs=1e-9)

    @pytest.mark.parametrize(
        ("ratings", "options", "message"),
        [
            ([[1, 2]], {}, "at least two rows, one per rater"),
            ([[1, 2], [1]], {}, r"ratings\[1\] has 1 entries but ratings\[0\] has 2"),
            ([["a", "b"], ["a", "b"]], {"level": "ordinal"}, "pass `labels`"),
            ([[1, -2], [1, 2]], {"level": "ratio"}, "negative"),
            ([[1, 2], [1, 2]], {"level": "cardinal"}, "`level` is 'cardinal'"),
            (
                np.arange(200.0).reshape(2, 100),
                {"level": "ordinal"},
                "the limit for level='ordinal' is 64",
            ),
        ],
    )
    def test_ratings_that_do_not_fit(self, ratings, options, message) -> None:
        with pytest.raises(InvalidInputError, match=message):
            krippendorff_alpha(ratings, **options)

    @pytest.mark.parametrize("level", ["nominal", "ordinal", "interval", "ratio"])
    def test_all_ratings_the_same(self, level) -> None:
        with pytest.raises(UndefinedMetricError, match="all ratings are the same"):
            krippendorff_alpha([[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]], level=level)

    def test_no_unit_rated_twice(self) -> None:
        with pytest.raises(UndefinedMetricError, match="no unit has two ratings"):
            krippendorff_alpha([[1, None], [None, 2]])

    def test_groups_widen_the_interval(self) -> None:
        rng = np.random.default_rng(3)
        base = rng.integers(1, 4, (2, 40))
        ratings = np.repeat(base, 5, axis=1)
        alone = alpha_interval(ratings)
        grouped = alpha_interval(ratings, groups=np.repeat(np.arange(40), 5))
        assert grouped.ci_high - grouped.ci_low > 1.7 * (alone.ci_high - alone.ci_low)
        assert (grouped.n_units, grouped.n_groups) == (200, 40)

    def test_total_disagreement_has_an_interval_of_some_width(self) -> None:
        ci = alpha_interval([[0, 1] * 20, [1, 0] * 20])
        assert ci.point_estimate == pytest.approx(-0.975)
        # 40 units without agreement: 1 − 0.025^(1/40) of all may yet agree.
        assert ci.ci_high == pytest.approx(-0.975 + (1 - 0.025 ** (1 / 40)) * 1.975)
        assert ci.ci_low == -1.0
        assert (ci.method, ci.n_units, ci.n_groups) == ("exact-degenerate", 40, 40)

    def test_perfect_agreement_is_bounded_from_below(self) -> None:
        ci = alpha_interval([[1, 2] * 10, [1, 2] * 10])
        # 20 units without disagreement: 0.025^(1/20) by the exact rule of a bound.
        assert (ci.ci_low, ci.ci_high) == (pytest.approx(0.025 ** (1 / 20)), 1.0)


class TestClusteredRate:
    def test_without_groups_it_is_wilson(self) -> None:
        assert clustered_rate(np.arange(10) < 4, None) == wilson_interval(4, 10)

    def test_near_the_ends_it_is_corrected(self) -> None:
        # Brown, Cai and DasGupta (2001): the one-sided Poisson limit of one success, 0.0513 / 50.
        assert clustered_rate(np.arange(50) < 1, None).low == pytest.approx(0.0513 / 50, rel=1e-3)

    def test_copies_count_once(self) -> None:
        hits = np.arange(40) < 12
        copied = clustered_rate(np.repeat(hits, 6), np.repeat(np.arange(40), 6))
        once = wilson_interval(12, 40)
        # Student's t with 39 degrees of freedom makes a little.
        assert copied.low == pytest.approx(once.low, abs=0.01)
        assert copied.high == pytest.approx(once.high, abs=0.01)

    def test_few_clusters_are_worth_less(self) -> None:
        # Korn and Graubard: n over the design effect, times (z / t) squared; a tenth of a cluster
        # at the bound moves both variances by less than 1 %.
        hits, groups = np.repeat(np.arange(40) % 5 < 3, 8), np.repeat(np.arange(40), 8)
        found = clustered_rate(hits, groups)
        spread = cluster_robust_se(hits.astype(float), groups) ** 2
        worth = 0.6 * 0.4 / spread * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 39)) ** 2
        expected = proportion_confint(0.6 * worth, worth, method="wilson")
        assert (found.low, found.high) == pytest.approx(expected, rel=0.01)

    def test_unanimous_units_count_by_cluster(self) -> None:
        all_right = clustered_rate(np.ones(50, dtype=bool), np.repeat(np.arange(5), 10))
        assert all_right.low == pytest.approx(wilson_interval(5, 5).low, abs=0.01)

    def test_one_or_two_clusters_show_nothing(self) -> None:
        rate = clustered_rate(np.ones(50, dtype=bool), np.arange(50) % 2)
        assert (rate.low, rate.high) == (0.0, 1.0)
        assert rate.reason == "2 groups; at least 3 are needed"


class TestJudgeAgreement:
    def test_only_units_with_both_count(self) -> None:
        result = judge_agreement([1, 0, None, 1, 1], [1, 0, 1, None, 0])
        assert (result.n_units, result.n_unlabelled, result.n_unjudged) == (3, 1, 1)
        assert result.table == ((1, 1), (0, 1))

    def test_names_of_classes(self) -> None:
        result = judge_agreement(
            ["safe", "unsafe", "unsafe"], ["safe", "safe", "unsafe"], positive="unsafe"
        )
        assert result.labels == ("safe", "unsafe")
        assert result.sensitivity.proportion == 1.0
        assert result.specificity.proportion == 0.5

    def test_without_a_positive_class_there_is_no_sensitivity(self) -> None:
        result = judge_agreement(["a", "b", "c"], ["a", "b", "b"])
        assert result.sensitivity is None
        assert (
            "sensitivity is undefined: it requires two classes, one of which must be `positive`"
            in result.reason
        )

    def test_a_bias_that_agreement_hides(self) -> None:
        human = np.arange(200) < 100
        judge = np.arange(200) < 112
        result = judge_agreement(judge, human)
        assert result.agreement.proportion == 0.94
        assert result.bias.point_estimate == pytest.approx(0.06)
        assert result.bias.ci_low > 0.0

    def test_one_class_leaves_kappa_out_and_says_so(self) -> None:
        result = judge_agreement([0] * 12, [0] * 12)
        assert result.kappa is None
        assert result.alpha is None
        assert "constant and equal" in result.reason
        assert result.sensitivity.low is None  # nobody is positive
        json.dumps(result.to_dict(), allow_nan=False)

    def test_too_few_units_for_alpha_are_named(self) -> None:
        result = judge_agreement([0, 1, 1], [0, 1, 0])
        assert result.alpha is None
        assert "at least 10" in result.reason
        assert result.kappa is not None

    def test_groups_of_units(self) -> None:
        rng = np.random.default_rng(4)
        human = rng.integers(0, 2, 40)
        judge = np.where(rng.random(40) < 0.8, human, 1 - human)
        groups = np.repeat(np.arange(40), 5)
        plain = judge_agreement(np.repeat(judge, 5), np.repeat(human, 5))
        grouped = judge_agreement(np.repeat(judge, 5), np.repeat(human, 5), groups=groups)
        for name in ("agreement", "sensitivity", "precision"):
            alone, together = getattr(plain, name), getattr(grouped, name)
            assert together.high - together.low > alone.high - alone.low
        assert grouped.n_groups == 40

    @pytest.mark.parametrize(
        ("judge", "human", "options", "message"),
        [
            ([1, 0], [1], {}, "`judge` has 2 rows but `human` has 1"),
            ([1, 0], [None, None], {}, "both a verdict and a human label"),
            (["a", "b"], [0, 1], {}, "strings and numbers"),
            (["a", "b"], ["a", "b"], {"positive": "c"}, "`positive` is 'c'"),
            ([0, 1, 2], [0, 1, 2], {"positive": 1}, "needs two classes"),
        ],
    )
    def test_what_cannot_be_compared(self, judge, human, options, message) -> None:
        with pytest.raises(InvalidInputError, match=message):
            judge_agreement(judge, human, **options)

    def test_to_dict_is_json(self) -> None:
        result = judge_agreement(np.array([1, 0] * 10), np.array([1.0, 0.0] * 10))
        payload = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert payload["table"] == [[10, 0], [0, 10]]
        assert payload["labels"] == [0, 1]


class TestAgreementMatrix:
    def test_every_pair_and_all_together(self) -> None:
        rng = np.random.default_rng(5)
        truth = rng.integers(0, 2, 100)
        raters = {
            name: np.where(rng.random(100) < share, truth, 1 - truth)
            for name, share in (("good", 0.95), ("fair", 0.8), ("poor", 0.6))
        }
        matrix = agreement_matrix(raters)
        assert list(matrix.pairs) == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
        kappas = [pair.kappa.point_estimate for pair in matrix.pairs.values()]
        assert kappas[0] > kappas[1] > 0
        expected = krippendorff_alpha(list(raters.values()))
        assert matrix.alpha.point_estimate == pytest.approx(expected)
        json.dumps(matrix.to_dict(), allow_nan=False)

    def test_one_rater_is_not_enough(self) -> None:
        with pytest.raises(InvalidInputError, match="at least two are needed"):
            agreement_matrix({"x": [1, 0]})
