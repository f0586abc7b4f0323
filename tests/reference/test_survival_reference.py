"""Survival curves against published values, statsmodels, numerical derivatives and resampling."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import (
    clopper_pearson_interval,
    kaplan_meier,
    survival_difference,
)

# Weeks of remission under 6-MP and under placebo (Freireich et al. 1963, Blood 21:699-716), the
# example of Gehan (1965) and of most textbooks since.
TREATED = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
RELAPSED = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]


def standard_error(curve, place, factor=1.959963984540054):
    """The standard error of log survival that a log-log interval was made with."""
    outer, inner = (math.log(-math.log(bound[place])) for bound in (curve.ci_low, curve.ci_high))
    return (outer - inner) / 2.0 / factor * -math.log(curve.survival[place])


def test_published_curve_of_the_treated():
    """Kleinbaum & Klein (2012), Survival Analysis, chapter 2: the curve of the treated."""
    curve = kaplan_meier(TREATED, RELAPSED)
    happened = curve.n_events > 0
    table = np.column_stack([curve.times, curve.n_at_risk, curve.n_events, curve.survival])[
        happened
    ]
    assert table.round(4).tolist() == [
        [6, 21, 3, 0.8571],
        [7, 17, 1, 0.8067],
        [10, 15, 1, 0.7529],
        [13, 12, 1, 0.6902],
        [16, 11, 1, 0.6275],
        [22, 7, 1, 0.5378],
        [23, 6, 1, 0.4482],
    ]
    assert curve.median == 23


def test_log_log_bounds_of_another_library():
    """What lifelines 0.30.3 prints for the same data (its bounds are the log-log ones too)."""
    curve = kaplan_meier(TREATED, RELAPSED)
    low = [0.619718, 0.563147, 0.503200, 0.431610, 0.367511, 0.267779, 0.188052]
    high = [0.951552, 0.922809, 0.889362, 0.849066, 0.804912, 0.746791, 0.680143]
    happened = curve.n_events > 0
    assert curve.ci_low[happened].round(6).tolist() == low
    assert curve.ci_high[happened].round(6).tolist() == high
    assert (curve.median_low, curve.median_high) == (13, None)
    assert "upper bound" in curve.median_reason
    untreated = kaplan_meier(PLACEBO, np.ones(21))
    assert (untreated.median_low, untreated.median, untreated.median_high) == (4, 8, 11)
    assert untreated.median_reason == ""
    assert curve.restricted_mean(35).point_estimate == pytest.approx(23.287394957983185)
    assert untreated.restricted_mean(20).point_estimate == pytest.approx(8.428571428571429)


@pytest.mark.parametrize("seed", range(5))
def test_values_and_greenwoods_error_of_statsmodels(seed):
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 12, 60) if seed % 2 else rng.exponential(2.0, 60)
    events = rng.random(60) < 0.6
    theirs = SurvfuncRight(times, events)
    ours = kaplan_meier(times, events)
    happened = ours.n_events > 0
    assert ours.times[happened] == pytest.approx(theirs.surv_times)
    assert ours.n_at_risk[happened] == pytest.approx(theirs.n_risk)
    assert ours.survival[happened] == pytest.approx(theirs.surv_prob, abs=1e-12)
    for place, error in zip(np.flatnonzero(happened), theirs.surv_prob_se, strict=True):
        survival = ours.survival[place]
        if 0.0 < survival < 1.0:
            assert survival * standard_error(ours, place) == pytest.approx(error, rel=1e-9)


def data(seed=3, n_groups=40, each=4):
    """Groups with hazards of their own, some rows censored, weights that differ."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), each)
    first = rng.geometric(rng.beta(1.0, 4.0, n_groups)[groups])
    last = np.minimum(rng.geometric(0.15, len(groups)), 6)
    return {
        "times": np.minimum(first, last),
        "events": first <= last,
        "groups": groups,
        "weights": rng.uniform(0.5, 2.0, len(groups)),
    }


def product_limit(times, events, weights, turn):
    """Log survival by a turn, written down as the definition has it."""
    return sum(
        math.log1p(-weights[(times == u) & events].sum() / weights[times >= u].sum())
        for u in range(1, turn + 1)
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_clustered_error_is_that_of_numerical_derivatives(weighted):
    """Each group's influence: how log survival answers to a little more weight on the group."""
    rows = data()
    weights = rows["weights"] if weighted else np.ones(len(rows["times"]))
    options = {"weights": weights} if weighted else {}
    curve = kaplan_meier(rows["times"], rows["events"], groups=rows["groups"], **options)
    for turn in (1, 3, 6):
        moves = []
        for group in range(40):
            more, less = (
                product_limit(
                    rows["times"],
                    rows["events"],
                    weights * np.where(rows["groups"] == group, 1.0 + step, 1.0),
                    turn,
                )
                for step in (1e-5, -1e-5)
            )
            moves.append((more - less) / 2e-5)
        expected = math.sqrt(40 / 39 * np.square(moves).sum())
        place = curve.times.tolist().index(turn)
        found = standard_error(curve, place, stats.t.ppf(0.975, 39))
        assert found == pytest.approx(expected, rel=1e-6)


def test_the_clustered_error_is_near_the_jackknifes_and_the_bootstraps():
    """At 40 groups within 5 % of leave-one-group-out, and 8 % of 2000 draws of groups."""
    rows = data()
    curve = kaplan_meier(rows["times"], rows["events"], groups=rows["groups"])
    found = standard_error(curve, 2, stats.t.ppf(0.975, 39))
    ones = np.ones(len(rows["times"]))

    def log_survival(weights):
        return product_limit(rows["times"], rows["events"], weights, int(curve.times[2]))

    left_out = np.array([log_survival(ones * (rows["groups"] != group)) for group in range(40)])
    jackknife = math.sqrt(39 / 40 * np.square(left_out - left_out.mean()).sum())
    assert found == pytest.approx(jackknife, rel=0.05)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(40, np.full(40, 1 / 40), size=2000)
    bootstrap = np.std([log_survival(counts[rows["groups"]] * 1.0) for counts in drawn])
    assert found == pytest.approx(bootstrap, rel=0.08)
    # Rows of one group go together here: without groups the interval would be too short.
    assert found > 1.15 * standard_error(kaplan_meier(rows["times"], rows["events"]), 2)


def test_the_restricted_mean_and_its_error_by_the_textbook_formula():
    """Σ A_k² d_k / (n_k (n_k − d_k)), A_k the area from event k on; bounds on the logit scale."""
    curve, until = kaplan_meier(TREATED, RELAPSED), 30.0
    grid = np.append(curve.times[curve.times < until], until)
    heights = curve.survival[: len(grid) - 1]
    area = grid[0] + (heights * np.diff(grid)).sum()
    later = np.cumsum((heights * np.diff(grid))[::-1])[::-1]
    risk, failed = curve.n_at_risk[: len(grid) - 1], curve.n_events[: len(grid) - 1]
    se = math.sqrt((later**2 * failed / (risk * (risk - failed))).sum())
    share = area / until
    reach = 1.959963984540054 * se / until / (share * (1.0 - share))
    centre = math.log(share / (1.0 - share))
    expected = [until / (1.0 + math.exp(-x)) for x in (centre - reach, centre + reach)]
    ci = curve.restricted_mean(until)
    assert ci.point_estimate == pytest.approx(area, rel=1e-12)
    assert [ci.ci_low, ci.ci_high] == pytest.approx(expected, rel=1e-9)


def test_without_events_the_bound_is_clopper_and_pearsons_of_the_groups_at_risk():
    curve = kaplan_meier([2, 3, 3, 3, 1], np.zeros(5))
    expected = [1.0 - clopper_pearson_interval(0, n).high for n in (5, 4, 3)]
    assert curve.ci_low.tolist() == pytest.approx(expected)
    assert curve.ci_high.tolist() == [1.0, 1.0, 1.0]
    ci = curve.failure_by(2.5)  # between two times: only who was seen that long
    assert (ci.point_estimate, ci.ci_low) == (0.0, 0.0)
    assert ci.ci_high == pytest.approx(clopper_pearson_interval(0, 3).high)
    clustered = kaplan_meier([3] * 12, np.zeros(12), groups=np.repeat([0, 1, 2, 3], 3))
    assert 1.0 - clustered.ci_low[0] == pytest.approx(clopper_pearson_interval(0, 4).high)


def test_where_all_fail_the_bound_is_clopper_and_pearsons_of_all_groups():
    times = [1, 2, 2, 3, 3, 3, 1, 2]
    curve = kaplan_meier(times, np.ones(8))
    assert curve.survival[-1] == curve.ci_low[-1] == 0.0
    assert curve.ci_high[-1] == pytest.approx(clopper_pearson_interval(0, 8).high)
    clustered = kaplan_meier(times, np.ones(8), groups=[0, 0, 1, 1, 2, 2, 3, 3])
    assert clustered.ci_high[-1] == pytest.approx(clopper_pearson_interval(0, 4).high)
    assert curve.failure_by(99).point_estimate == 1.0  # nobody is left to fail later


def test_the_beta_product_is_exact_without_censoring_and_near_the_product_with_it():
    """Fay, Brittain & Proschan (2013): products of beta variables, drawn here."""
    times = np.repeat([1, 2, 3, 4], [3, 4, 2, 11])
    events = times < 4
    curve = kaplan_meier(times, events, method="beta-product")
    for place, survivors in enumerate((17, 13, 11, 11)):
        exact = clopper_pearson_interval(survivors, 20)
        assert curve.ci_low[place] == pytest.approx(exact.low, rel=1e-9)
        assert curve.ci_high[place] == pytest.approx(exact.high, rel=1e-9)
    curve = kaplan_meier(TREATED, RELAPSED, method="beta-product")
    rng = np.random.default_rng(1)
    product = np.ones(200_000)
    for at_risk, failed in zip(curve.n_at_risk, curve.n_events, strict=True):
        if failed:
            product *= rng.beta(at_risk - failed + 1.0, failed, len(product))
    # One beta variable of the same mean and variance stands for the product.
    assert curve.ci_high[-1] == pytest.approx(np.quantile(product, 0.975), abs=0.008)
    lower = product * rng.beta(1.0, 1.0, len(product))  # one is left at the last time
    assert curve.ci_low[-1] == pytest.approx(np.quantile(lower, 0.025), abs=0.015)


def test_the_difference_of_paired_shares_by_hand():
    """Without censoring: square and add, the correlation of the 0/1 values times G/(G + 2)."""
    rng = np.random.default_rng(5)
    a = rng.random(30) < 0.4
    b = np.where(rng.random(30) < 0.6, a, rng.random(30) < 0.7)
    arms = [kaplan_meier(np.where(x, 2, 3), x, groups=np.arange(30)) for x in (a, b)]
    found = survival_difference(*arms, at=3)
    first, second = (arm.failure_by(3) for arm in arms)
    together = np.corrcoef(a, b)[0, 1] * 30 / 32
    p, q = a.mean(), b.mean()
    down, up = q - second.ci_low, first.ci_high - p
    low = q - p - math.sqrt(down**2 + up**2 - 2 * together * down * up)
    down, up = p - first.ci_low, second.ci_high - q
    high = q - p + math.sqrt(down**2 + up**2 - 2 * together * down * up)
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), rel=1e-9)
    assert (found.value_a, found.value_b) == pytest.approx((p, q))


def test_pairing_gives_about_the_groups_bootstraps_width():
    """Rows censored, four per group: within 15 % of the percentile interval of 2000 draws."""
    a, rng = data(seed=8, n_groups=100), np.random.default_rng(2)
    later = a["times"] + 3 * (rng.random(len(a["times"])) < 0.4)
    arms = [kaplan_meier(times, a["events"], groups=a["groups"]) for times in (a["times"], later)]
    found = survival_difference(*arms, at=3)
    assert found.method == "mover, paired"
    draws = []
    for counts in rng.multinomial(100, np.full(100, 0.01), size=2000):
        weights = counts[a["groups"]] * 1.0
        logs = [product_limit(t, a["events"], weights, 3) for t in (a["times"], later)]
        draws.append(math.exp(logs[0]) - math.exp(logs[1]))
    low, high = np.quantile(draws, [0.025, 0.975])
    assert found.ci_high - found.ci_low == pytest.approx(high - low, rel=0.15)
    apart = [kaplan_meier(t, a["events"]) for t in (a["times"], later)]
    unpaired = survival_difference(*apart, at=3)
    assert unpaired.method == "mover, independent"
    assert found.ci_high - found.ci_low < 0.9 * (unpaired.ci_high - unpaired.ci_low)


def test_where_no_unit_differs_the_difference_still_has_a_width():
    events = np.arange(20) % 2 == 0
    curve = kaplan_meier(np.ones(20), events, groups=np.arange(20))
    found = survival_difference(curve, curve, at=1)
    assert found.delta == 0.0
    assert min(found.ci_high, -found.ci_low) >= clopper_pearson_interval(0, 20).high


def test_groups_that_are_all_alike_fall_back_on_rows_and_say_so():
    """Two of five rows fail in each of eight groups: the groups' sums do not vary at all."""
    times, events = np.tile([1, 2, 3, 3, 3], 8), np.tile([1, 1, 0, 0, 0], 8)
    curve = kaplan_meier(times, events, groups=np.repeat(np.arange(8), 5))
    assert "no variation between groups" in curve.reason
    found = standard_error(curve, 1, stats.t.ppf(0.975, 7))
    assert found == pytest.approx(standard_error(kaplan_meier(times, events), 1), rel=1e-9)


def test_one_group_says_nothing_of_other_groups():
    curve = kaplan_meier([1, 2, 3], [1, 0, 0], groups=["a", "a", "a"])
    assert (curve.ci_low.tolist(), curve.ci_high.tolist()) == ([0.0] * 3, [1.0] * 3)
    assert "one group" in curve.reason
    assert curve.restricted_mean(3).ci_low == 0.0
    assert curve.failure_by(0.5).ci_high == 1.0


def test_rows_without_a_turn_are_counted_but_say_nothing():
    curve = kaplan_meier([0, 1, 2, 2, 0], [0, 1, 0, 0, 0])
    alone = kaplan_meier([1, 2, 2], [1, 0, 0])
    assert (curve.n_units, curve.n_unobserved) == (5, 2)
    assert curve.ci_low.tolist() == alone.ci_low.tolist()


def test_to_dict_is_plain_and_complete():
    payload = kaplan_meier([1, 2, 2], [1, 0, 0], groups=["a", "b", "b"]).to_dict()
    assert payload["times"] == [1.0, 2.0]
    assert payload["n_groups"] == 2
    assert payload["median"] is None
    assert payload["median_reason"].startswith("survival stays above")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, -2], [1, 0]), r"times\[1\] is -2"),
        (([1, 0], [0, 1]), r"times\[1\] is 0 with an event"),
        (([1, 2], [1, 2]), r"events\[1\] is 2"),
        (([1, 2, 3], [1, 0]), "`times` has 3 rows but `events` has 2"),
    ],
)
def test_unusable_rows_are_named(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        kaplan_meier(*arguments)


def test_other_refusals():
    with pytest.raises(UndefinedMetricError, match="none of the 2 rows"):
        kaplan_meier([0, 0], [0, 0])
    with pytest.raises(InvalidInputError, match="`method` is 'plain'"):
        kaplan_meier([1], [1], method="plain")
    with pytest.raises(InvalidInputError, match=r"weights\[0\] is -1"):
        kaplan_meier([1, 2], [1, 0], weights=[-1, 1])
    with pytest.raises(InvalidInputError, match="`weights` has 1 rows"):
        kaplan_meier([1, 2], [1, 0], weights=[1])
    curve = kaplan_meier([1, 2], [1, 0])
    with pytest.raises(UndefinedMetricError, match="no unit was observed beyond 2"):
        curve.failure_by(3)
    with pytest.raises(InvalidInputError, match="`time` is 0"):
        curve.failure_by(0)
    with pytest.raises(InvalidTypeError, match="`b` must be a SurvivalCurve"):
        survival_difference(curve, 3, at=1)
    with pytest.raises(InvalidInputError, match="one curve has groups"):
        survival_difference(curve, kaplan_meier([1, 2], [1, 0], groups=[0, 1]), at=1)
    with pytest.raises(InvalidInputError, match="the levels must be equal"):
        survival_difference(curve, kaplan_meier([1, 2], [1, 0], confidence=0.9), at=1)
