"""Paired comparisons: B − A on shared draws, p-values, refitted thresholds, several scorers."""

import dataclasses
import functools
import inspect
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit.errors import (
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    UndefinedMetricError,
)
from eval_toolkit.inference import (
    bootstrap_ci,
    bootstrap_p_value,
    compare_scorers,
    paired_bootstrap_diff,
    paired_bootstrap_ece_diff,
    paired_bootstrap_op_point_diff,
    paired_mde,
)
from eval_toolkit.inference.multiplicity import correct_p_values
from eval_toolkit.inference.paired_proportions import paired_share
from eval_toolkit.inference.planning import MDEEstimate, mde_from_ci
from eval_toolkit.inference.results import PairedBootstrapCI
from eval_toolkit.metric_specs.at_threshold import op_accuracy
from eval_toolkit.metrics import (
    brier_score,
    expected_calibration_error,
    expected_calibration_error_equal_mass,
    metrics_at_threshold,
    pr_auc,
    roc_auc,
)
from eval_toolkit.thresholds import MaxF1Selector, TargetFPRSelector

RNG = np.random.default_rng(5)
N = 120
Y = (np.arange(N) % 3 == 0).astype(int)
A = RNG.normal(0.4 + 0.10 * Y, 0.15).clip(0, 1)
B = (0.5 * A + 0.5 * RNG.normal(0.4 + 0.25 * Y, 0.15)).clip(0, 1)
C = RNG.normal(0.4 + 0.20 * Y, 0.15).clip(0, 1)
GROUPS = np.arange(N) // 4


# --- the contract ------------------------------------------------------------------------------


def test_fields_of_the_result():
    names = [field.name for field in dataclasses.fields(PairedBootstrapCI)]
    assert names[:6] == [
        *("delta", "ci_low", "ci_high", "overlaps_zero", "confidence", "n_resamples")
    ]


@pytest.mark.parametrize(
    ("function", "positional"),
    [
        (paired_bootstrap_diff, ["y_true", "y_score_a", "y_score_b", "metric"]),
        (paired_bootstrap_ece_diff, ["y_true", "y_score_a", "y_score_b"]),
        (
            paired_bootstrap_op_point_diff,
            [
                *("val_y", "val_score_a", "val_score_b", "test_y", "test_score_a", "test_score_b"),
                *("threshold_fn", "metric_fn"),
            ],
        ),
        (paired_mde, ["y_true", "y_score_a", "y_score_b", "metric"]),
        (compare_scorers, ["y_true", "scorers", "metric"]),
    ],
)
def test_signatures(function, positional):
    parameters = inspect.signature(function).parameters
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    assert [name for name, kind in kinds.items() if kind is not kind.KEYWORD_ONLY] == positional
    assert parameters["n_resamples"].default == 1000
    assert {"seed", "rng"} <= parameters.keys()
    assert "n_jobs" not in parameters


def test_difference_is_b_minus_a():
    diff = paired_bootstrap_diff(Y, A, B, pr_auc)
    assert (diff.value_a, diff.value_b) == (pr_auc(Y, A), pr_auc(Y, B))
    assert diff.delta == diff.value_b - diff.value_a > 0
    assert diff.ci_low < diff.delta < diff.ci_high
    assert diff.overlaps_zero == (diff.ci_low <= 0 <= diff.ci_high)
    assert (diff.confidence, diff.n_resamples, diff.n_undefined) == (0.95, 1000, 0)
    assert (diff.method, diff.reason) == ("mover", "")
    assert diff.samples.shape == (1000,)
    assert (diff.p_value <= 0.05) == (not diff.overlaps_zero)


def test_percentiles_give_calibration_errors_no_p_value():
    diff = paired_bootstrap_diff(Y, A, B, expected_calibration_error, method="percentile")
    assert diff.p_value is None
    assert diff.reason.startswith("calibration errors are not tested against each other")
    assert diff == paired_bootstrap_diff(Y, A, B, expected_calibration_error)


def test_percentiles_of_the_difference_by_name():
    diff = paired_bootstrap_diff(Y, A, B, pr_auc, method="percentile")
    assert (diff.method, diff.reason) == ("percentile", "")
    assert diff.delta == pr_auc(Y, B) - pr_auc(Y, A)
    assert (diff.ci_low, diff.ci_high) == pytest.approx(
        tuple(np.quantile(diff.samples, [0.025, 0.975]))
    )
    assert diff.p_value == bootstrap_p_value(diff.samples)


@pytest.mark.parametrize("method", [None, "percentile"])
def test_swapped_scorers_mirror_the_difference(method):
    """Rows are ordered by the scores of A first, so that other rows are drawn: up to that noise."""
    diff = paired_bootstrap_diff(Y, A, B, pr_auc, method=method)
    swapped = paired_bootstrap_diff(Y, B, A, pr_auc, method=method)
    assert swapped.delta == -diff.delta
    half = (diff.ci_high - diff.ci_low) / 2
    assert (swapped.ci_low, swapped.ci_high) == pytest.approx(
        (-diff.ci_high, -diff.ci_low), abs=0.1 * half
    )


def test_result_is_json():
    diff = paired_bootstrap_diff(Y, A, B, roc_auc)
    payload = json.loads(json.dumps(diff.to_dict(), allow_nan=False))
    assert payload["delta"] == payload["point_estimate"] == payload["point"] == diff.delta
    assert payload["ci_low"] == payload["low"] == diff.ci_low
    assert payload["ci_high"] == payload["high"] == diff.ci_high
    assert payload["ci_95"] == [diff.ci_low, diff.ci_high]
    assert payload["overlaps_zero"] is diff.overlaps_zero
    assert payload["p_value"] == diff.p_value
    assert payload["value_a"] == roc_auc(Y, A)
    assert "samples" not in payload
    assert "reason" not in payload


def test_formatting():
    diff = PairedBootstrapCI(0.0312, -0.01, 0.07, True, 0.95, 1000)
    assert f"{diff:.2f}" == "+0.03 [-0.01, +0.07]"
    assert f"{diff}" == "+0.031 [-0.010, +0.070]"


CALLS = {
    "diff": lambda **options: paired_bootstrap_diff(Y, A, B, pr_auc, **options),
    "ece": lambda **options: paired_bootstrap_ece_diff(
        Y, A, B, ece_fn=expected_calibration_error, **options
    ),
    "op point": lambda **options: op_point(n_resamples=64, **options),
    "mde": lambda **options: paired_mde(Y, A, B, roc_auc, **options),
    "compare": lambda **options: compare_scorers(Y, {"a": A, "b": B}, roc_auc, **options),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_seed_and_rng_are_one_argument(call):
    assert call().to_dict() == call(seed=42).to_dict() == call(rng=42).to_dict()
    assert call(seed=1).to_dict() == call(rng=1).to_dict() != call(seed=2).to_dict()
    generator = np.random.default_rng
    assert call(rng=generator(3)).to_dict() == call(seed=generator(3)).to_dict()
    with pytest.raises(InvalidInputError, match="pass either `seed` or `rng`, not both"):
        call(seed=1, rng=1)


def test_same_bits_with_any_executor():
    with ThreadPoolExecutor(2) as pool:
        for name in ("diff", "ece", "op point", "compare"):
            assert CALLS[name](executor=pool).to_dict() == CALLS[name]().to_dict()


# --- paired_bootstrap_diff ---------------------------------------------------------------------


@pytest.mark.parametrize("metric", [pr_auc, roc_auc, brier_score, lambda y, s: float(s.mean())])
def test_identical_scorers_do_not_differ(metric):
    diff = paired_bootstrap_diff(Y, A, A.copy(), metric, method="percentile")
    assert (diff.delta, diff.ci_low, diff.ci_high, diff.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert diff.overlaps_zero
    assert diff.reason == "every resample has the same difference"
    assert diff.to_dict()["reason"] == diff.reason


Z2 = 1.959963984540054**2


@pytest.mark.parametrize(
    ("metric", "unseen"),
    [
        (roc_auc, Z2 / (40 + Z2)),  # what none of 40 positives excludes, by Wilson
        (pr_auc, Z2 / 40 * np.log1p(40 / Z2)),  # and the same number of negatives on top
        (lambda y, s: float(s.mean()), 0.0),
    ],
)
def test_identical_scorers_are_not_certainly_equal(metric, unseen):
    """Their intervals are known, and the correlation ρ = 1 of 40 positives counts as 1 − 2/40."""
    diff = paired_bootstrap_diff(Y, A, A.copy(), metric)
    assert (diff.delta, diff.p_value) == (0.0, 1.0)
    one = bootstrap_ci(Y, A, metric)
    down, up = one.point_estimate - one.ci_low, one.ci_high - one.point_estimate
    reach = max(unseen, np.sqrt(down**2 + up**2 - 2 * 0.95 * down * up))
    assert (diff.ci_low, diff.ci_high) == pytest.approx((-reach, reach))
    assert diff.overlaps_zero


def test_a_mean_of_equal_differences_has_no_interval():
    for other in (A, np.nextafter(A, 1.0)):
        with pytest.raises(UndefinedMetricError, match="zero variance: all differences are equal"):
            paired_bootstrap_diff(Y, A, other, brier_score)


def test_scorers_that_differ_by_rounding_do_not_differ():
    labels, tenths = np.arange(30) % 2, np.full(30, 0.3)
    diff = paired_bootstrap_diff(
        labels, tenths, np.full(30, 0.1 + 0.2), brier_score, method="percentile"
    )
    assert (diff.delta, diff.ci_low, diff.ci_high, diff.p_value) == (0.0, 0.0, 0.0, 1.0)
    assert diff.overlaps_zero
    assert diff.reason == "every resample has the same difference"


def test_a_perfect_candidate_is_no_error():
    """Its own interval is degenerate; the difference is not."""
    for method in (None, "percentile"):
        diff = paired_bootstrap_diff(Y, A, Y + 0.001 * A, pr_auc, method=method)
        assert diff.value_b == 1.0
        assert diff.delta == 1.0 - pr_auc(Y, A)
        assert 0 < diff.ci_low < diff.delta < diff.ci_high < 1
        assert diff.p_value <= 2 / 1001
    assert diff.p_value == pytest.approx(2 / 1001)  # no more is shown by 1000 resamples


def test_two_perfect_scorers():
    a, b = Y + 0.001 * A, Y + 0.001 * B
    diff = paired_bootstrap_diff(Y, a, b, roc_auc, method="percentile")
    assert (diff.delta, diff.ci_low, diff.ci_high, diff.p_value) == (0.0, 0.0, 0.0, 1.0)
    by_default = paired_bootstrap_diff(Y, a, b, roc_auc)
    assert (by_default.delta, by_default.p_value) == (0.0, 1.0)
    reach = Z2 / (40 + Z2)
    assert (by_default.ci_low, by_default.ci_high) == pytest.approx((-reach, reach))


def test_pairing_is_narrower_than_comparing_apart():
    diff = paired_bootstrap_diff(Y, A, B, roc_auc)
    spread = np.sqrt(
        sum(bootstrap_ci(Y, s, roc_auc, return_samples=True).samples.var() for s in (A, B))
    )
    assert diff.samples.std() < 0.85 * spread


def test_groups_are_drawn_whole():
    y, a, b, groups = (np.repeat(x, 5) for x in (Y, A, B, np.arange(N)))
    grouped = paired_bootstrap_diff(y, a, b, roc_auc, groups=groups, method="percentile")
    once = paired_bootstrap_diff(Y, A, B, roc_auc, method="percentile")
    assert paired_bootstrap_diff(y, a, b, roc_auc, groups=groups).method == "mover, groups"
    assert grouped.method == "percentile, groups"
    assert (grouped.ci_low, grouped.ci_high) == pytest.approx((once.ci_low, once.ci_high))


def distance(y, s):
    """Distance of the classes' means; it needs two positives."""
    return float(s[y == 1].mean() - s[y == 0].mean()) if np.count_nonzero(y) > 1 else np.nan


def test_many_undefined_draws_are_stratified():
    y = np.arange(60) < 2
    a, b = np.arange(60) / 60, 0.3 + 0.4 * y
    with pytest.raises(
        UndefinedMetricError, match="2 positive rows; an interval for roc_auc needs"
    ):
        paired_bootstrap_diff(y, a, b, roc_auc)
    three = np.arange(60) < 3
    diff = paired_bootstrap_diff(three, a, b, distance, method="percentile")
    assert (diff.method, diff.n_undefined) == ("percentile, label-stratified", 0)
    by_default = paired_bootstrap_diff(three, a, b, distance)
    assert (by_default.method, by_default.n_undefined) == ("mover, label-stratified", 0)
    message = r"roc_auc is undefined on \d+ of 1000 resamples; for an interval, it must be defined on at least 95 %"
    with pytest.raises(UndefinedMetricError, match=message):
        paired_bootstrap_diff(y, a, b, roc_auc, groups=np.arange(60) // 5)


def test_few_undefined_draws_are_left_out():
    y = np.arange(60) < 4  # 1.6 % of the draws have no positive
    for method in (None, "percentile"):
        diff = paired_bootstrap_diff(y, np.arange(60) / 60, 0.3 + 0.4 * y, roc_auc, method=method)
        assert 0 < diff.n_undefined < 50
        assert diff.n_resamples == 1000 - diff.n_undefined == len(diff.samples)
        assert diff.method == (method or "mover")


@each(
    ("change", "error", "message"),
    [
        ({"y_score_b": B[1:]}, InvalidInputError, "`y_true` has 120 rows but `y_score_b` has 119"),
        ({"y_score_a": A * np.nan}, InvalidInputError, r"y_score_a\[0\] is nan"),
        ({"confidence": 2}, InvalidInputError, "`confidence` is 2"),
        ({"n_resamples": 0}, InvalidInputError, "`n_resamples` is 0; it must be at least 1"),
        ({"metric": 3}, InvalidTypeError, "`metric` must be a function"),
        ({"y_true": Y * 0}, UndefinedMetricError, "pr_auc is undefined: all 120 rows are negat"),
        ({"metric": lambda y, s: np.nan}, UndefinedMetricError, "<lambda> is nan on this data"),
        ({"groups": Y}, InvalidInputError, "the bootstrap needs at least 10 groups, got 2"),
    ],
)
def test_bad_input(change, error, message):
    arguments = {"y_true": Y, "y_score_a": A, "y_score_b": B, "metric": pr_auc} | change
    with pytest.raises(error, match=message):
        paired_bootstrap_diff(**arguments)


def test_too_few_rows():
    with pytest.raises(InvalidInputError, match="the bootstrap needs at least 10 rows, got 9"):
        paired_bootstrap_diff(Y[:9], A[:9], B[:9], pr_auc)


@pytest.mark.parametrize("groups", [None, np.arange(N) % 5], ids=["rows", "groups"])
@pytest.mark.parametrize("metric", [brier_score, op_accuracy(0.5)])
def test_paired_shares_and_means_need_no_minimum_of_units(metric, groups):
    """Few rows or groups: the interval is that of the rows' differences, without draws."""
    rows = slice(0, 9) if groups is None else slice(None)
    diff = paired_bootstrap_diff(Y[rows], A[rows], B[rows], metric, groups=groups)
    assert diff.ci_low < diff.delta < diff.ci_high
    assert (diff.n_resamples, diff.n_undefined, diff.samples) == (0, 0, None)
    both = compare_scorers(Y[:9], {"a": A[:9], "b": B[:9]}, metric)
    if groups is None:
        assert both.differences["b"].p_value == diff.p_value
    if metric is not brier_score and groups is None:
        right = [(s[rows] >= 0.5) == Y[rows] for s in (A, B)]
        assert (diff.ci_low, diff.ci_high, diff.p_value) == paired_share(*right, 0.95)


# --- the p-value -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([1.0] * 99, 0.02),
        ([-1.0] * 999, 0.002),
        ([1.0] * 97 + [-1.0] * 2, 0.06),
        ([1.0] * 97 + [0.0] * 2, 0.06),
        ([1.0] * 97 + [0.1 + 0.2 - 0.3] * 2, 0.06),
        ([0.0] * 50, 1.0),
        ([1.0, -1.0], 1.0),
    ],
)
def test_p_value_counts_the_smaller_tail_twice(differences, expected):
    assert bootstrap_p_value(differences) == pytest.approx(expected)


@pytest.mark.parametrize("differences", [[], [0.1, np.nan], [[0.1]]])
def test_p_value_needs_numbers(differences):
    with pytest.raises(InvalidInputError, match="differences"):
        bootstrap_p_value(differences)


def test_p_value_agrees_with_the_interval():
    """p ≤ 5 % and a 95 % interval that excludes zero are the same event, for draws up to one."""
    for shift in np.linspace(0, 0.2, 9):
        b = A + shift * Y * (np.arange(N) % 2)
        by_default = paired_bootstrap_diff(Y, A, b, roc_auc)
        assert (by_default.p_value <= 0.05) == (not by_default.overlaps_zero)
        diff = paired_bootstrap_diff(Y, A, b, roc_auc, method="percentile")
        if not 0.045 < diff.p_value < 0.055:
            assert (diff.p_value < 0.05) == (not diff.overlaps_zero)


# --- calibration errors ------------------------------------------------------------------------


@pytest.mark.parametrize("n_bins", [5, 10])
@pytest.mark.parametrize(
    "ece_fn", [expected_calibration_error, expected_calibration_error_equal_mass]
)
def test_calibration_difference(ece_fn, n_bins):
    diff = paired_bootstrap_ece_diff(Y, A, B, ece_fn=ece_fn, n_bins=n_bins)
    assert diff.value_a == ece_fn(Y, A, n_bins)
    assert diff.value_b == ece_fn(Y, B, n_bins)
    assert diff.delta == diff.value_b - diff.value_a
    a, b = (bootstrap_ci(Y, s, functools.partial(ece_fn, n_bins=n_bins)) for s in (A, B))
    assert (diff.ci_low, diff.ci_high) == (b.ci_low - a.ci_high, b.ci_high - a.ci_low)
    assert diff.p_value is None
    assert diff.samples is None
    assert "compare brier or log_loss" in diff.reason


@pytest.mark.parametrize("n", [100, 1000])
def test_two_calibrated_scorers_are_not_called_different(n):
    """A states the base rate, B the probabilities the labels are drawn with: errors 0 and 0.

    Percentiles of resampled differences left zero out in 46 to 100 % of such data.
    """
    for seed in range(10):
        rng = np.random.default_rng(seed)
        b = rng.random(n)
        y = rng.random(n) < b
        diff = paired_bootstrap_ece_diff(
            y, np.full(n, 0.5), b, ece_fn=expected_calibration_error, n_bins=15, n_resamples=200
        )
        assert diff.overlaps_zero
        assert diff.p_value is None


def test_ten_bins_by_default():
    ece_fn = expected_calibration_error
    ten = paired_bootstrap_ece_diff(Y, A, B, ece_fn=ece_fn, n_bins=10)
    assert paired_bootstrap_ece_diff(Y, A, B, ece_fn=ece_fn) == ten
    with pytest.raises(InvalidInputError, match="`n_bins` is 1; it must be at least 2"):
        paired_bootstrap_ece_diff(Y, A, B, ece_fn=ece_fn, n_bins=1)


def test_the_third_argument_of_a_foreign_error_may_have_any_name():
    def mine(labels, probabilities, bins):
        return expected_calibration_error(labels, probabilities, bins)

    foreign = paired_bootstrap_ece_diff(Y, A, B, ece_fn=mine, n_bins=7, n_resamples=64)
    ours = paired_bootstrap_ece_diff(
        Y, A, B, ece_fn=expected_calibration_error, n_bins=7, n_resamples=64
    )
    assert foreign.value_a == ours.value_a
    assert foreign.delta == ours.delta
    # Nothing is known about its noise: the whole range.
    assert (foreign.ci_low, foreign.ci_high, foreign.p_value) == (-1.0, 1.0, None)


# --- refitted thresholds -----------------------------------------------------------------------

HALF = np.arange(N) < 60
VAL = (Y[HALF], A[HALF], B[HALF])
TEST = (Y[~HALF], A[~HALF], B[~HALF])


def youden(y, s):
    cuts = np.unique(s)
    below = [np.searchsorted(np.sort(s[y == label]), cuts) / (y == label).sum() for label in (0, 1)]
    return float(cuts[np.argmax(below[0] - below[1])])


def accuracy(y, s, threshold):
    return metrics_at_threshold(y, s, threshold)["accuracy"]


def op_point(threshold_fn=youden, metric_fn=accuracy, **options):
    return paired_bootstrap_op_point_diff(*VAL, *TEST, threshold_fn, metric_fn, **options)


def test_refitted_difference():
    diff = op_point(n_resamples=200)
    values = [accuracy(TEST[0], TEST[i], youden(VAL[0], VAL[i])) for i in (1, 2)]
    assert (diff.value_a, diff.value_b) == tuple(values)
    assert diff.delta == values[1] - values[0]
    assert diff.method == "percentile, thresholds refitted"
    assert (diff.n_resamples, diff.n_undefined) == (200, 0)
    assert diff.ci_low < diff.ci_high


def test_thresholds_are_refitted_on_every_resample():
    """Thresholds vary over resamples, both scorers see the same rows, val and test differ."""
    fitted, judged = [], []

    def threshold(y, s):
        fitted.append((y.copy(), youden(y, s)))
        return fitted[-1][1]

    def metric(y, s, t):
        judged.append((y.copy(), t))
        return accuracy(y, s, t)

    op_point(threshold, metric, n_resamples=64)
    assert len(fitted) == len(judged) == 2 * (1 + 64)
    assert [t for _, t in fitted] == [t for _, t in judged]
    for scorer in (0, 1):
        assert len({t for _, t in fitted[2 + scorer :: 2]}) > 5
    for seen in (fitted, judged):
        for (a, _), (b, _) in zip(seen[::2], seen[1::2], strict=True):
            assert np.array_equal(a, b)
    # Validation and test have equally many rows; the same draws would give the same positives.
    same_draws = [
        np.array_equal(val, test)
        for (val, _), (test, _) in zip(fitted[2:], judged[2:], strict=True)
    ]
    assert not any(same_draws)


def test_refitting_is_wider_than_holding_the_threshold():
    held = {id(scores): youden(VAL[0], scores) for scores in VAL[1:]}
    thresholds = iter([*held.values()] * 1000)
    fixed = op_point(lambda y, s: next(thresholds), n_resamples=500)
    assert op_point(n_resamples=500).samples.std() > 1.1 * fixed.samples.std()


@pytest.mark.parametrize("selector", [MaxF1Selector(), TargetFPRSelector(fpr=0.2)])
def test_a_selector_is_a_threshold_function(selector):
    by_selector = op_point(selector, n_resamples=64)
    by_function = op_point(lambda y, s: selector.select(y, s).threshold, n_resamples=64)
    assert by_selector == by_function


def test_the_same_labels_for_both_parts_are_an_error():
    y = Y.copy()
    with pytest.raises(InvalidInputError, match="`val_y` and `test_y` are the same object"):
        paired_bootstrap_op_point_diff(y, A, B, y, A, B, youden, accuracy)


def test_resamples_without_a_threshold_are_left_out():
    """Each draw asks twice; failing in one of 40 questions costs about 5 % of the draws."""

    def picky(every):
        def threshold(y, s):
            if int(1e6 * s.sum()) % every == 0:
                raise RuntimeError("no threshold")
            return youden(y, s)

        return threshold

    diff = op_point(picky(40), n_resamples=200)
    assert 0 < diff.n_undefined < 40
    assert diff.n_resamples == 200 - diff.n_undefined == len(diff.samples)


def test_fewer_than_half_usable_resamples_are_infeasible():
    def never_on_resamples(y, s):
        if not np.array_equal(y, VAL[0]):
            raise ValueError("infeasible")
        return 0.5

    with pytest.raises(
        InfeasibleError, match="a threshold and a value on only 0 of 100 resamples"
    ) as error:
        op_point(never_on_resamples, n_resamples=100)
    assert isinstance(error.value, RuntimeError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Y[:9], A[:9], B[:9], *TEST), "`val_y` has 9 rows; at least 10 are needed"),
        ((*VAL, Y[:9], A[:9], B[:9]), "`test_y` has 9 rows; at least 10 are needed"),
        ((Y[:20], A[:19], B[:20], *TEST), "`val_y` has 20 rows but `val_score_a` has 19"),
        ((*VAL, Y[:20], A[:20], B[:21]), "`test_y` has 20 rows but `test_score_b` has 21"),
        ((*VAL, Y[:20] + 5, A[:20], B[:20]), r"test_y\[0\] is 6; labels must be 0 or 1"),
    ],
)
def test_bad_parts(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        paired_bootstrap_op_point_diff(*arguments, youden, accuracy)


def test_undefined_values_on_the_data_raise():
    with pytest.raises(UndefinedMetricError, match="`metric_fn` is nan on this data"):
        op_point(metric_fn=lambda y, s, t: np.nan)


# --- minimum detectable effect -----------------------------------------------------------------


def test_minimum_detectable_effect():
    diff = paired_bootstrap_diff(Y, A, B, roc_auc)
    mde = paired_mde(Y, A, B, roc_auc, alpha=0.01, power=0.9)
    expected = mde_from_ci(diff, alpha=0.01, power=0.9)
    assert mde == dataclasses.replace(expected, n=N)
    sigma = (diff.ci_high - diff.ci_low) / (2 * 1.959964)
    assert mde.sigma_delta == pytest.approx(sigma, rel=1e-6)
    assert mde.mde == pytest.approx((2.575829 + 1.281552) * sigma, rel=1e-5)
    assert (mde.delta_observed, mde.n_resamples) == (diff.delta, 1000)
    assert [field.name for field in dataclasses.fields(MDEEstimate)] == [
        *("mde", "sigma_delta", "delta_observed", "alpha", "power", "n_resamples", "n")
    ]


def test_no_effect_can_be_planned_without_spread():
    equal = paired_bootstrap_diff(Y, A, A, roc_auc, method="percentile")
    with pytest.raises(InfeasibleError, match="no minimum detectable effect"):
        mde_from_ci(equal)
    with pytest.raises(UndefinedMetricError, match="zero variance"):
        paired_mde(Y, A, A, brier_score)
    assert paired_mde(Y, A, A, roc_auc).mde > 0.01  # two equal scorers are not known to be equal


# --- several scorers ---------------------------------------------------------------------------

SCORERS = {"a": A, "b": B, "c": C}


def test_comparison_is_the_pairs_and_the_intervals():
    """One call with three scorers gives what separate calls give: the draws are shared."""
    result = compare_scorers(Y, SCORERS, pr_auc)
    assert result.baseline == "a"
    assert list(result.scorers) == ["a", "b", "c"]
    assert list(result.differences) == ["b", "c"]
    for name, scores in SCORERS.items():
        assert result.scorers[name] == bootstrap_ci(Y, scores, pr_auc)
    for name in ("b", "c"):
        assert result.differences[name] == paired_bootstrap_diff(Y, A, SCORERS[name], pr_auc)


def test_order_and_company_do_not_matter():
    result = compare_scorers(Y, SCORERS, roc_auc)
    backwards = compare_scorers(
        Y, dict(reversed(SCORERS.items())), roc_auc, baseline="a", correction="holm"
    )
    assert backwards.differences == result.differences
    assert backwards.scorers == result.scorers
    assert backwards.adjusted_p_values == result.adjusted_p_values


def test_any_baseline():
    result = compare_scorers(Y, SCORERS, roc_auc, baseline="c")
    assert list(result.differences) == ["a", "b"]
    assert result.differences["a"].delta == roc_auc(Y, A) - roc_auc(Y, C)


@pytest.mark.parametrize("correction", ["holm", "hochberg", "bonferroni", "bh", "by", "none"])
def test_p_values_are_adjusted(correction):
    result = compare_scorers(Y, SCORERS, roc_auc, correction=correction)
    raw = [diff.p_value for diff in result.differences.values()]
    adjusted = correct_p_values(raw, method=correction)
    assert list(result.adjusted_p_values.values()) == adjusted.tolist()
    assert result.correction == correction


def test_identical_scorer_has_p_value_one():
    result = compare_scorers(Y, {"a": A, "same": A}, roc_auc)
    assert result.adjusted_p_values == {"same": 1.0}
    assert result.scorers["a"] == result.scorers["same"]


def test_groups_and_methods():
    result = compare_scorers(Y, SCORERS, roc_auc, groups=GROUPS, method="percentile")
    assert {ci.method for ci in result.scorers.values()} == {"percentile, groups"}
    assert {diff.method for diff in result.differences.values()} == {"mover, groups"}
    alone = {
        name: bootstrap_ci(Y, SCORERS[name], roc_auc, groups=GROUPS, method="percentile")
        for name in "abc"
    }
    assert result.scorers["a"] == alone["a"]
    # The draws are those of the baseline, whose scores order the rows: noise of 1000 resamples.
    for name in "bc":
        ends = [(ci.ci_low, ci.ci_high) for ci in (result.scorers[name], alone[name])]
        assert ends[0] == pytest.approx(ends[1], abs=0.1 * (ends[1][1] - ends[1][0]))


def test_many_undefined_draws_are_stratified_for_all():
    """Intervals and differences come from the same, stratified draws."""
    y = np.arange(60) < 3
    a, b = np.sin(np.arange(60)), 0.3 + 0.4 * y * np.arange(60)
    result = compare_scorers(y, {"a": a, "b": b}, distance, method="BCa")
    assert result.scorers["a"] == bootstrap_ci(y, a, distance, stratified=True, method="BCa")
    assert result.scorers["a"].method == "BCa, label-stratified"
    assert result.differences["b"] == paired_bootstrap_diff(y, a, b, distance)
    assert result.differences["b"].method == "mover, label-stratified"
    with pytest.raises(UndefinedMetricError, match="2 positive rows"):
        compare_scorers(np.arange(60) < 2, {"a": a, "b": b}, roc_auc)


def test_comparison_is_json():
    result = compare_scorers(Y, SCORERS, roc_auc)
    payload = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert payload["baseline"] == "a"
    assert payload["correction"] == "holm"
    assert payload["scorers"]["b"]["point_estimate"] == roc_auc(Y, B)
    assert payload["differences"]["b"]["adjusted_p_value"] == result.adjusted_p_values["b"]


@each(
    ("change", "error", "message"),
    [
        ({"scorers": {"a": A}}, InvalidInputError, "at least two scorers, got 1"),
        (
            {"baseline": "z"},
            InvalidInputError,
            r"`baseline` is 'z'; the scorers are \['a', 'b', 'c'\]",
        ),
        (
            {"scorers": {"a": A, "b": B[1:]}},
            InvalidInputError,
            r"`y_true` has 120 rows but `scorers\['b'\]` has 119",
        ),
        ({"correction": "sidak"}, InvalidInputError, "sidak"),
        ({"method": "normal"}, InvalidInputError, "`method` is 'normal'"),
        ({"n_resamples": 0}, InvalidInputError, "`n_resamples` is 0; it must be at least 1"),
        ({"confidence": 0}, InvalidInputError, "`confidence` is 0"),
        ({"y_true": Y * 0}, UndefinedMetricError, "roc_auc is undefined: all 120 rows are negat"),
    ],
)
def test_bad_comparisons(change, error, message):
    arguments = {"y_true": Y, "scorers": SCORERS, "metric": roc_auc} | change
    with pytest.raises(error, match=message):
        compare_scorers(**arguments)


def test_minimum_detectable_effect_with_an_executor():
    with ThreadPoolExecutor(2) as pool:
        assert paired_mde(Y, A, B, roc_auc, executor=pool) == paired_mde(Y, A, B, roc_auc)
