"""Power with several attempts per item and a judge that errs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import InfeasibleError, InvalidInputError
from eval_toolkit.inference import AttemptsDesign, n_for_power

spreads = st.floats(0.05, 2.0)


class TestAgreesWithOtherFormulas:
    def test_miller_s_formula(self) -> None:
        # n = (z_{α/2} + z_β)² (ω² + σ_A²/K_A + σ_B²/K_B) / δ², here with z²/2 more for the t test.
        design = AttemptsDesign(item_sd=0.2, within_sd=(0.4, 0.3), attempts=(5, 2))
        spread = 0.2**2 + 0.4**2 / 5 + 0.3**2 / 2
        expected = (1.959964 + 0.841621) ** 2 * spread / 0.05**2 + 1.959964**2 / 2
        assert design.n_for_power(0.05).n == math.ceil(expected)

    @given(spreads, spreads, st.floats(0.02, 1.0))
    def test_one_attempt_is_the_plain_paired_plan(self, item_sd, within_sd, effect) -> None:
        ours = AttemptsDesign(item_sd=item_sd, within_sd=within_sd).n_for_power(effect)
        plain = n_for_power(effect, sd=math.sqrt(item_sd**2 + 2 * within_sd**2))
        assert abs(ours.n - plain.n) <= 1

    def test_the_other_designs(self) -> None:
        sd = math.hypot(0.3, 0.4)
        one = AttemptsDesign(item_sd=0.3, within_sd=0.4, design="one-sample").n_for_power(0.1)
        assert one.n == n_for_power(0.1, design="one-sample", sd=sd).n
        two = AttemptsDesign(item_sd=0.3, within_sd=0.4, design="independent").n_for_power(0.1)
        plain = n_for_power(0.1, design="independent", sd=sd)
        assert (two.n, two.n_total) == (plain.n, plain.n_total)

    def test_clusters(self) -> None:
        plain = AttemptsDesign(item_sd=0.3, within_sd=0.4).n_for_power(0.1)
        clustered = AttemptsDesign(item_sd=0.3, within_sd=0.4, cluster_size=5, icc=0.25)
        assert clustered.n_for_power(0.1).design_effect == 2.0
        assert clustered.n_for_power(0.1).n == pytest.approx(2 * plain.n, abs=1)

    def test_0_1_values_of_one_attempt_vary_by_p_times_q(self) -> None:
        design = AttemptsDesign(item_sd=0.3, proportion=0.8, design="one-sample")
        assert design.variance() == pytest.approx(0.8 * 0.2)

    def test_standard_error(self) -> None:
        design = AttemptsDesign(item_sd=0.3, within_sd=0.4, attempts=4, design="independent")
        assert design.se(100) == pytest.approx(math.sqrt(2 * (0.09 + 0.16 / 4) / 100))


class TestAttempts:
    @given(spreads, spreads)
    def test_more_attempts_never_need_more_items(self, item_sd, within_sd) -> None:
        sizes = [
            AttemptsDesign(item_sd=item_sd, within_sd=within_sd, attempts=k).n_for_power(0.2).n
            for k in (1, 2, 8, 64)
        ]
        assert sizes == sorted(sizes, reverse=True)

    def test_in_the_end_the_items_are_what_is_left(self) -> None:
        many = AttemptsDesign(item_sd=0.2, within_sd=0.4, attempts=10**6).n_for_power(0.05).n
        assert many == n_for_power(0.05, sd=0.2).n

    def test_mde_inverts_the_size(self) -> None:
        for design in (
            AttemptsDesign(item_sd=0.2, within_sd=0.4, attempts=3),
            AttemptsDesign(item_sd=0.2, within_sd=0.4, design="independent"),
            AttemptsDesign(item_sd=0.2, proportion=0.6, correlation=0.5, sensitivity=0.9),
        ):
            effect = design.mde(500)
            assert design.n_for_power(effect).n <= 500
            assert design.n_for_power(0.99 * effect).n > 500

    def test_a_fall_counts_where_there_is_no_room_above(self) -> None:
        low, high = (
            AttemptsDesign(item_sd=0.2, proportion=p, correlation=0.5) for p in (0.05, 0.95)
        )
        assert high.mde(50) == pytest.approx(low.mde(50))
        assert high.n_for_power(-high.mde(50)).n <= 50

    def test_all_right_can_only_fall(self) -> None:
        design = AttemptsDesign(item_sd=0.0, proportion=1.0, correlation=0.0)
        assert design.n_for_power(-design.mde(50)).n <= 50

    def test_too_few_items_show_nothing(self) -> None:
        design = AttemptsDesign(item_sd=0.2, proportion=0.9, correlation=0.2)
        message = "with 2 items, neither an increase nor a decrease is detectable"
        with pytest.raises(InfeasibleError, match=message):
            design.mde(2)


class TestJudge:
    def test_a_judge_that_errs_costs_items(self) -> None:
        sizes = [
            AttemptsDesign(
                item_sd=0.3, proportion=0.7, correlation=0.8, sensitivity=q, specificity=q
            ).n_for_power(0.05).n
            for q in (1.0, 0.95, 0.8)
        ]  # fmt: skip
        assert sizes == sorted(sizes)
        assert sizes[2] > 2 * sizes[0]

    def test_half_the_skill_takes_four_times_the_items_where_noise_is_the_same(self) -> None:
        # At a share of one half, 0/1 verdicts of symmetric judges vary by 1/4 in any case.
        def size(q: float) -> int:
            design = AttemptsDesign(
                item_sd=0.0, proportion=0.5, correlation=0.0, sensitivity=q, specificity=q
            )
            return design.n_for_power(0.001).n

        assert size(0.75) == pytest.approx(4 * size(1.0), rel=1e-3)

    def test_noise_of_real_scores_is_noise_of_attempts(self) -> None:
        noisy = AttemptsDesign(item_sd=0.2, within_sd=0.3, judge_sd=0.4, attempts=2)
        same = AttemptsDesign(item_sd=0.2, within_sd=0.5, attempts=2)
        assert noisy.n_for_power(0.1).n == same.n_for_power(0.1).n


@each(
    ("options", "message"),
    [
        ({}, "pass either `within_sd`"),
        ({"within_sd": 0.1, "proportion": 0.5}, "pass either `within_sd`"),
        ({"within_sd": -0.1}, "`within_sd`"),
        ({"within_sd": 0.1, "attempts": 0}, "`attempts` is 0"),
        ({"within_sd": 0.1, "attempts": (1, 2, 3)}, "pair of values for A and B"),
        ({"within_sd": 0.1, "sensitivity": 0.9}, "apply to 0/1 values"),
        ({"within_sd": 0.0, "item_sd": 0.0}, "at least one must be positive"),
        ({"proportion": 0.5}, "`correlation` is required"),
        ({"proportion": 0.5, "correlation": 0.5, "judge_sd": 0.1}, "applies to real values"),
        (
            {"proportion": 0.5, "correlation": 0.5, "sensitivity": 0.4, "specificity": 0.6},
            "above 1",
        ),
        ({"proportion": 0.99, "correlation": 0.5, "item_sd": 0.4}, "at most 0.0995"),
        ({"within_sd": 0.1, "cluster_size": -3.0, "icc": 0.5}, "`cluster_size` is -3"),
        ({"within_sd": 0.1, "cluster_size": 0.0}, "`cluster_size` is 0"),
        ({"within_sd": 0.1, "cluster_size": 5.0, "icc": 2.0}, "`icc` is 2"),
        ({"within_sd": 0.1, "design": "crossed"}, "`design` is 'crossed'"),
        ({"within_sd": 0.1, "design": "independent", "correlation": 0.1}, "paired design only"),
    ],
)
def test_assumptions_that_do_not_fit(options, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        AttemptsDesign(**{"item_sd": 0.2, **options})


@pytest.mark.parametrize(("effect", "message"), [(0.0, "no number of items"), (0.6, "must lie in")])
def test_effects_that_cannot_be(effect, message) -> None:
    design = AttemptsDesign(item_sd=0.2, proportion=0.5, correlation=0.5)
    with pytest.raises(InvalidInputError, match=message):
        design.n_for_power(effect)
