"""`bootstrap_ci` and its kin: contracts, degenerate cases, errors that explain."""

import dataclasses
import functools
import inspect
import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.random import PCG64, SeedSequence, default_rng
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score
from tests.support.each import each

from eval_toolkit import metric_specs
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import (
    block_bootstrap_on_folds,
    bootstrap_ci,
    cluster_bootstrap_ci,
    groups_in_strata_plan,
    groups_plan,
    paired_bootstrap_diff,
    stratified_cluster_bootstrap_ci,
    two_level_plan,
)
from eval_toolkit.inference.plans import MIN_UNITS
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    DEFAULT_METHOD,
    DEFAULT_N_RESAMPLES,
    BootstrapCI,
)
from eval_toolkit.metric_specs.at_threshold import op_accuracy, op_f1, op_recall, op_specificity
from eval_toolkit.metrics import brier_score, expected_calibration_error, log_loss, pr_auc, roc_auc
from eval_toolkit.scorecards import scorecard

RNG = np.random.default_rng(77)
N = 100
Y = (np.arange(N) % 4 == 0).astype(int)
S = np.round(RNG.normal(0.4 + 0.2 * Y, 0.15).clip(0, 1), 2)
GROUPS = np.arange(N) // 5

PERFECT_Y = np.array([0] * 30 + [1] * 12)
PERFECT_S = np.arange(42) / 42


def cluster(**options):
    return cluster_bootstrap_ci(Y, S, GROUPS, roc_auc, **options)


def strata(**options):
    data = {"a": (Y, S, GROUPS), "b": (Y, S**2, GROUPS)}
    return stratified_cluster_bootstrap_ci(data, brier_score, average, **options)


def average(values):
    return sum(values.values()) / len(values)


CALLS = {
    "bootstrap_ci": functools.partial(bootstrap_ci, Y, S, pr_auc, method="BCa"),
    "cluster_bootstrap_ci": cluster,
    "stratified_cluster_bootstrap_ci": strata,
    "block_bootstrap_on_folds": functools.partial(block_bootstrap_on_folds, S[:12]),
}


# --- the contract ------------------------------------------------------------------------------


def test_constants():
    assert (DEFAULT_N_RESAMPLES, DEFAULT_CONFIDENCE, DEFAULT_METHOD) == (1000, 0.95, "BCa")


@pytest.mark.parametrize(
    ("function", "positional", "defaults"),
    [
        (
            bootstrap_ci,
            ["y_true", "y_score", "metric"],
            {"n_resamples": 1000, "confidence": 0.95, "method": None},
        ),
        (
            cluster_bootstrap_ci,
            ["y_true", "y_score", "groups", "statistic"],
            {"resample_labels": (0, 1), "n_resamples": 1000, "return_samples": False},
        ),
        (
            stratified_cluster_bootstrap_ci,
            ["strata", "per_stratum_metric", "combine"],
            {"n_resamples": 1000, "confidence": 0.95},
        ),
        (block_bootstrap_on_folds, ["fold_metrics"], {"n_resamples": 1000, "confidence": 0.95}),
    ],
)
def test_signatures(function, positional, defaults):
    parameters = inspect.signature(function).parameters
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    assert [name for name, kind in kinds.items() if kind is not kind.KEYWORD_ONLY] == positional
    assert {name: parameters[name].default for name in defaults} == defaults
    assert {"seed", "rng"} <= parameters.keys()
    assert "n_jobs" not in parameters


def test_fields_of_the_result():
    names = [field.name for field in dataclasses.fields(BootstrapCI)]
    assert names[:7] == [
        *("point_estimate", "ci_low", "ci_high", "confidence", "n_resamples", "method", "samples")
    ]
    assert {"n_undefined", "reason", "n_units", "n_groups"} <= set(names)


def test_what_an_interval_says():
    ci = bootstrap_ci(Y, S, pr_auc)
    assert ci.point_estimate == pr_auc(Y, S)
    assert ci.ci_low < ci.point_estimate < ci.ci_high
    assert (ci.confidence, ci.n_resamples, ci.method) == (0.95, 0, "score")
    assert (ci.n_undefined, ci.reason, ci.n_units, ci.n_groups) == (0, "", N, N)
    assert ci.samples is None
    assert "reason" not in ci.to_dict()


def test_bca_is_the_default_without_a_known_range():
    """From 30 rows of the smaller class on; with fewer the standard error and Student's t."""
    y, s = np.repeat(Y, 2), np.repeat(S, 2)

    def distance(y, s):
        return float(s[y == 1].mean() - s[y == 0].mean())

    assert bootstrap_ci(y, s, distance) == bootstrap_ci(y, s, distance, method="BCa")
    assert bootstrap_ci(y, s, distance).method == "BCa"
    ci = bootstrap_ci(Y, S, distance, return_samples=True)
    assert (ci.method, ci.reason) == ("bootstrap SE, t", "")
    reach = stats.t.ppf(0.975, 25 - 1) * ci.samples.std(ddof=1)
    assert (ci.ci_low, ci.ci_high) == pytest.approx(
        (ci.point_estimate - reach, ci.point_estimate + reach)
    )


def test_what_a_bootstrap_by_name_says():
    ci = bootstrap_ci(Y, S, pr_auc, method="BCa")
    assert ci.point_estimate == pr_auc(Y, S)
    assert ci.ci_low < ci.point_estimate < ci.ci_high
    assert (ci.confidence, ci.n_resamples, ci.method) == (0.95, 1000, "BCa")
    assert (ci.n_undefined, ci.n_units, ci.n_groups) == (0, N, N)
    assert ci.reason == "25 rows of one class: bootstrap coverage may be below the nominal level"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_results_are_json_and_frozen(call):
    ci = call()
    payload = json.loads(json.dumps(ci.to_dict(), allow_nan=False))
    assert payload["point_estimate"] == payload["point"] == ci.point_estimate
    assert payload["ci_low"] == payload["low"] == ci.ci_low
    assert payload["ci_high"] == payload["high"] == ci.ci_high
    assert payload["ci_95"] == [ci.ci_low, ci.ci_high]
    assert payload["confidence"] == 0.95
    assert payload["n_resamples"] == 1000
    assert payload["method"] == ci.method
    assert "samples" not in payload
    assert payload.get("reason", "") == ci.reason
    assert ("reason" in payload) is bool(ci.reason)
    with pytest.raises(dataclasses.FrozenInstanceError):
        ci.ci_low = 0.0


def test_the_pair_says_which_confidence_it_has():
    payload = bootstrap_ci(Y, S, pr_auc, confidence=0.9).to_dict()
    assert payload["ci_95"] == [payload["low"], payload["high"]]
    assert payload["confidence"] == 0.9


def test_samples_cannot_be_written_to():
    """A result is a value: what others hold of it must not change under them."""
    kept = bootstrap_ci(Y, S, pr_auc, return_samples=True)
    paired = paired_bootstrap_diff(Y, S, S[::-1], pr_auc)
    for result in (kept, paired, replace(kept, method="other")):
        with pytest.raises(ValueError, match="read-only"):
            result.samples[0] = 0.0
    own = np.zeros(3)
    assert BootstrapCI(0.5, 0.4, 0.6, 0.95, 3, "BCa", own).samples is not own
    own[0] = 1.0  # the caller's array stays the caller's


def test_samples_are_kept_on_request_and_belong_to_nothing_else():
    plain = bootstrap_ci(Y, S, pr_auc)
    kept = bootstrap_ci(Y, S, pr_auc, return_samples=True)
    assert kept.samples.shape == (1000,)
    assert kept == plain
    assert repr(kept) == repr(plain)
    assert kept.to_dict() == plain.to_dict()
    for call in (cluster, strata):
        assert call(return_samples=True).samples.shape == (1000,)
        assert call().samples is None


def test_formatting():
    ci = BootstrapCI(0.8125, 0.7, 0.9, 0.95, 1000, "BCa")
    assert f"{ci:.1f}" == "0.8 [0.7, 0.9]"
    assert f"{ci}" == "0.812 [0.700, 0.900]"
    assert f"{ci:.0%}" == "81% [70%, 90%]"


# --- seeds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_seed_and_rng_are_one_argument(call):
    assert call() == call(seed=42) == call(rng=42)
    assert call(seed=1) == call(rng=1)
    assert call(seed=1) != call(seed=2)
    with pytest.raises(InvalidInputError, match="pass either `seed` or `rng`, not both"):
        call(seed=1, rng=1)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_kind_of_seed(call):
    for make in (lambda: [1, 2], lambda: SeedSequence(5), lambda: default_rng(5), lambda: PCG64(5)):
        assert call(seed=make()) == call(rng=make())
    generator = default_rng(5)
    assert call(rng=generator) != call(rng=generator), "a generator moves on"


def test_same_bits_with_any_executor():
    with ThreadPoolExecutor(2) as pool:
        for call in (CALLS["bootstrap_ci"], cluster, strata):
            assert call(executor=pool) == call()


# --- input -------------------------------------------------------------------------------------


def test_lists_and_series_are_arrays():
    expected = bootstrap_ci(Y, S, pr_auc)
    assert bootstrap_ci(Y.tolist(), S.tolist(), pr_auc) == expected
    shifted = range(7, 7 + N)
    assert bootstrap_ci(pd.Series(Y, shifted), pd.Series(S, shifted), pr_auc) == expected
    assert bootstrap_ci(Y.astype(bool), S, pr_auc) == expected


def test_specs_partials_and_functions_are_one_metric():
    assert bootstrap_ci(Y, S, metric_specs.pr_auc) == bootstrap_ci(Y, S, pr_auc)
    ten = functools.partial(expected_calibration_error, n_bins=10)
    assert bootstrap_ci(Y, S, ten) == bootstrap_ci(Y, S, expected_calibration_error)
    assert bootstrap_ci(Y, S, metric_specs.ece(n_bins=10)).ci_low == (
        bootstrap_ci(Y, S, ten).ci_low
    )


@each(
    ("options", "error", "message"),
    [
        ({"confidence": 1.0}, InvalidInputError, r"`confidence` is 1\.0; it must lie in \(0, 1\)"),
        ({"confidence": 95}, InvalidInputError, "`confidence` is 95"),
        ({"n_resamples": 0}, InvalidInputError, "`n_resamples` is 0; it must be at least 1"),
        ({"n_resamples": 1e3}, InvalidTypeError, "`n_resamples` must be an integer"),
        (
            {"method": "normal"},
            InvalidInputError,
            "`method` is 'normal'; choose one of 'BCa', 'percentile', 'basic', 'studentized'",
        ),
        (
            {"groups": GROUPS, "stratified": True},
            InvalidInputError,
            "pass only one of `groups`, `stratified` and `plan`",
        ),
        ({"groups": GROUPS[1:]}, InvalidInputError, "`groups` has 99 rows but the data has 100"),
        ({"seed": -1}, InvalidInputError, "`seed` is -1"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        bootstrap_ci(Y, S, pr_auc, **options)


@pytest.mark.parametrize(
    ("y", "s", "message"),
    [
        ([0, 1] * 10, [0.5] * 19, "`y_true` has 20 rows but `y_score` has 19"),
        ([0, 2] * 10, [0.5] * 20, r"y_true\[1\] is 2; labels must be 0 or 1"),
        ([0, 1] * 10, [0.5] * 19 + [np.nan], r"y_score\[19\] is nan"),
        ([], [], "`y_true` is empty"),
    ],
)
def test_bad_data(y, s, message):
    with pytest.raises(InvalidInputError, match=message):
        bootstrap_ci(y, s, pr_auc)


def test_a_metric_must_be_callable():
    with pytest.raises(InvalidTypeError, match="`metric` must be a function of"):
        bootstrap_ci(Y, S, "pr_auc")


def test_metrics_check_their_own_input():
    with pytest.raises(InvalidInputError, match="must be a probability"):
        bootstrap_ci(Y, 3 * S, brier_score)


def test_too_few_rows():
    assert MIN_UNITS == 10
    nine = ([0, 1] * 5)[:9], np.arange(9) / 9
    assert bootstrap_ci([0, 1] * 5, np.arange(10) / 10, brier_score, method="BCa").n_units == 10
    for options in ({"metric": brier_score, "method": "BCa"}, {"metric": metric_specs.ece()}):
        with pytest.raises(InvalidInputError, match="the bootstrap needs at least 10 rows, got 9"):
            bootstrap_ci(*nine, **options)


@pytest.mark.parametrize("metric", [metric_specs.roc_auc, op_accuracy(0.5), metric_specs.brier])
def test_closed_forms_need_no_minimum_of_rows(metric):
    """The scorecard had an interval of these 8 rows, and `bootstrap_ci` refused."""
    y, s = np.arange(8) % 2, np.array([0.1, 0.9, 0.3, 0.8, 0.6, 0.4, 0.2, 0.7])
    cell = scorecard(y, s, metrics=[metric])[metric.name]
    ci = bootstrap_ci(y, s, metric, return_samples=True)
    assert (ci.ci_low, ci.ci_high) == pytest.approx((cell.ci.ci_low, cell.ci.ci_high), rel=1e-12)
    assert (ci.method, ci.samples) == (cell.ci.method, None)


def test_means_in_few_groups_need_no_draws():
    groups = np.arange(N) % 5
    cell = scorecard(Y, S, metrics=[metric_specs.brier], groups=groups)["brier"]
    ci = bootstrap_ci(Y, S, brier_score, groups=groups)
    assert (ci.ci_low, ci.ci_high, ci.n_groups) == (cell.ci.ci_low, cell.ci.ci_high, 5)


def test_too_few_groups():
    with pytest.raises(InvalidInputError, match="the bootstrap needs at least 10 groups, got 4"):
        bootstrap_ci(Y, S, pr_auc, groups=np.arange(N) % 4)


# --- methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["BCa", "percentile", "basic", "studentized"])
@pytest.mark.parametrize("metric", [pr_auc, roc_auc, brier_score, log_loss])
def test_methods_agree_roughly(metric, method):
    """All estimate the same thing: bounds within half a width of the percentile interval's."""
    ci = bootstrap_ci(Y, S, metric, method=method, n_resamples=400)
    reference = bootstrap_ci(Y, S, metric, method="percentile", n_resamples=400)
    half = (reference.ci_high - reference.ci_low) / 2
    assert ci.method == method
    assert ci.point_estimate == reference.point_estimate == metric(Y, S)
    assert abs(ci.ci_low - reference.ci_low) < half
    assert abs(ci.ci_high - reference.ci_high) < half


def test_bca_may_be_spelt_small():
    assert bootstrap_ci(Y, S, pr_auc, method="bca").method == "BCa"


def test_higher_confidence_is_wider():
    narrow, wide = (bootstrap_ci(Y, S, pr_auc, confidence=c) for c in (0.5, 0.99))
    assert wide.ci_low < narrow.ci_low < narrow.ci_high < wide.ci_high


def test_basic_reflects_the_percentile_interval():
    basic, percentile = (bootstrap_ci(Y, S, pr_auc, method=m) for m in ("basic", "percentile"))
    assert basic.ci_low == pytest.approx(2 * basic.point_estimate - percentile.ci_high)
    assert basic.ci_high == pytest.approx(2 * basic.point_estimate - percentile.ci_low)


def test_studentized_is_for_independent_rows():
    message = "the studentized interval requires independent rows, not groups; use BCa"
    with pytest.raises(UndefinedMetricError, match=message):
        bootstrap_ci(Y, S, pr_auc, method="studentized", groups=GROUPS, n_resamples=100)


def test_studentized_with_a_foreign_metric():
    ours = bootstrap_ci(Y, S, brier_score, method="studentized", n_resamples=64)
    foreign = bootstrap_ci(
        Y, S, lambda y, s: float(np.mean((s - y) ** 2)), method="studentized", n_resamples=64
    )
    assert (ours.ci_low, ours.ci_high) == pytest.approx((foreign.ci_low, foreign.ci_high))


def test_studentized_without_standard_errors():
    """Whether there is more than one score has no spread inside nearly any resample."""
    y, s = [0, 1] * 10, [0.5] * 19 + [0.6]
    message = r"many has no standard error on \d+ of 100 resamples; use BCa or percentile"

    def many(y_true, y_score):
        return float(y_score.max())

    with pytest.raises(UndefinedMetricError, match=message):
        bootstrap_ci(y, s, many, method="studentized", n_resamples=100)


def test_a_standard_error_of_rounding_is_none():
    """Every third resample lacks the one row that differs; 0.3² and 0.7 − 1 squared are equal."""
    y, s = [0, 1] * 10, [0.3, 0.7] * 9 + [0.3, 0.6]
    message = r"brier_score has no standard error on \d+ of 100 resamples"
    with pytest.raises(UndefinedMetricError, match=message):
        bootstrap_ci(y, s, brier_score, method="studentized", n_resamples=100)


# --- plans -------------------------------------------------------------------------------------


def test_groups_are_drawn_whole():
    """Five copies of every row are no evidence beyond one, if they are drawn together."""
    y, s, groups = np.repeat(Y, 5), np.repeat(S, 5), np.repeat(np.arange(N), 5)
    once = bootstrap_ci(Y, S, roc_auc, method="BCa")
    copies = bootstrap_ci(y, s, roc_auc, method="BCa")
    grouped = bootstrap_ci(y, s, roc_auc, groups=groups, method="BCa")
    assert grouped.method == "BCa, groups"
    assert (grouped.n_units, grouped.n_groups) == (5 * N, N)
    assert (grouped.ci_low, grouped.ci_high) == pytest.approx((once.ci_low, once.ci_high))
    assert copies.ci_high - copies.ci_low < 0.6 * (once.ci_high - once.ci_low)


def test_the_default_counts_groups_not_rows():
    """Five copies of each row, drawn together, are worth about one of them."""
    y, s, groups = np.repeat(Y, 5), np.repeat(S, 5), np.repeat(np.arange(N), 5)
    grouped = bootstrap_ci(y, s, roc_auc, groups=groups)
    assert grouped.method == "score, groups"
    once, copies = bootstrap_ci(Y, S, roc_auc), bootstrap_ci(y, s, roc_auc)
    assert grouped.ci_high - grouped.ci_low == pytest.approx(once.ci_high - once.ci_low, rel=0.15)
    assert copies.ci_high - copies.ci_low < 0.6 * (once.ci_high - once.ci_low)


def test_group_names_do_not_matter():
    names = np.array([f"g{group:03d}" for group in GROUPS])
    expected = bootstrap_ci(Y, S, roc_auc, groups=GROUPS)
    assert bootstrap_ci(Y, S, roc_auc, groups=names) == expected
    assert bootstrap_ci(Y, S, roc_auc, groups=names.tolist()) == expected


def test_stratified_draws_keep_the_prevalence():
    seen = []

    def mean_score(y, s):
        seen.append(y.mean())
        return float(s.mean())

    bootstrap_ci(Y, S, mean_score, stratified=True, n_resamples=100)
    assert len(seen) > 100
    assert set(seen) == {0.25}
    with pytest.raises(UndefinedMetricError, match="every resample of <lambda> has the same value"):
        bootstrap_ci(Y, S, lambda y, s: y.mean(), stratified=True, n_resamples=100)
    assert bootstrap_ci(Y, S, pr_auc, stratified=True, method="BCa").method == (
        "BCa, label-stratified"
    )
    assert bootstrap_ci(Y, S, pr_auc, stratified=True, method="basic").method == (
        "basic, label-stratified"
    )


# --- degenerate cases --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["BCa", "percentile", "basic", "studentized"])
@pytest.mark.parametrize("metric", [pr_auc, roc_auc])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_perfect_separation_has_the_exact_interval(metric, method, confidence):
    """12 positives without a mistake: tail^(1/12), the exact bound of 12 successes in 12."""
    ci = bootstrap_ci(PERFECT_Y, PERFECT_S, metric, method=method, confidence=confidence)
    assert ci.point_estimate == ci.ci_high == 1.0
    assert ci.ci_low == pytest.approx(((1 - confidence) / 2) ** (1 / 12))
    assert ci.method == "exact-degenerate"
    assert ci.reason == "every resample attains the metric's bound"


def test_perfect_separation_the_wrong_way_round():
    ci = bootstrap_ci(PERFECT_Y, -PERFECT_S, roc_auc, method="BCa")
    assert (ci.ci_low, ci.point_estimate) == (0.0, 0.0)
    assert ci.ci_high == pytest.approx(1 - 0.025 ** (1 / 12))
    by_default = bootstrap_ci(PERFECT_Y, -PERFECT_S, roc_auc)
    assert (by_default.ci_low, by_default.point_estimate) == (0.0, 0.0)
    mirrored = bootstrap_ci(PERFECT_Y, PERFECT_S, roc_auc)
    assert by_default.ci_high == pytest.approx(1 - mirrored.ci_low)
    assert 0.02 < by_default.ci_high < ci.ci_high


def test_perfect_separation_rests_on_groups():
    """Three rows per group: 15 groups of positives and negatives are 15 independent facts."""
    groups = np.concatenate([np.arange(45) // 3, np.arange(45) // 3])
    y, s = np.repeat([0, 1], 45), np.arange(90.0)
    rows = bootstrap_ci(y, s, roc_auc, method="BCa")
    assert rows.ci_low == pytest.approx(0.025 ** (1 / 45))
    grouped = bootstrap_ci(y, s, roc_auc, groups=groups, method="BCa")
    assert grouped.ci_low == pytest.approx(0.025 ** (1 / 15))
    by_default = bootstrap_ci(y, s, roc_auc, groups=groups)
    # Fewer facts than 45 rows of each class, more than 15 trials (Wilson's interval).
    at_least = 15 / (15 + stats.norm.ppf(0.975) ** 2)
    assert at_least < by_default.ci_low < bootstrap_ci(y, s, roc_auc).ci_low


def test_perfect_probabilities():
    ci = bootstrap_ci(Y, Y.astype(float), brier_score, method="BCa")
    assert (ci.method, ci.ci_low, ci.point_estimate) == ("exact-degenerate", 0.0, 0.0)
    assert ci.ci_high == pytest.approx(1 - 0.025 ** (1 / N))
    by_default = bootstrap_ci(Y, Y.astype(float), brier_score)
    assert (by_default.method, by_default.ci_low) == ("gaffke", 0.0)
    # One pseudo-value at the bound: Clopper and Pearson's limit, by Student's t with N − 1.
    tail = stats.t.sf(stats.t.ppf(0.975, N - 1), N - 1)
    assert by_default.ci_high == pytest.approx(1 - tail ** (1 / N), rel=0.05)


def test_zero_spread_inside_the_range():
    """Equal scores: the ROC area is ½ on every resample, and none shows what others would do."""
    message = "every resample of roc_auc has the same value, so its spread is unknown"
    for method in ("BCa", "percentile", "basic", "studentized"):
        with pytest.raises(UndefinedMetricError, match=message):
            bootstrap_ci(Y, np.full(N, 0.3), roc_auc, method=method)
    ci = bootstrap_ci(Y, np.full(N, 0.3), roc_auc)
    assert ci.point_estimate == 0.5
    assert ci.ci_high - 0.5 == pytest.approx(0.5 - ci.ci_low)
    # Two normal classes with the area at the end of the interval: Φ₂ at correlation ½.
    end, m, n = ci.ci_high, 25, 75
    z = stats.norm.ppf(end)
    joint = stats.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]]).cdf([z, z])
    variance = (end * (1 - end) + (m + n - 2) * (joint - end**2)) / (m * n)
    assert end - 0.5 == pytest.approx(stats.norm.ppf(0.975) * np.sqrt(variance), rel=1e-4)


@pytest.mark.parametrize("method", [None, "BCa", "percentile"])
def test_unbounded_metric_without_spread_has_no_interval(method):
    with pytest.raises(UndefinedMetricError, match="every resample of <lambda> has the same value"):
        bootstrap_ci(Y, Y.astype(float), lambda y, s: float(np.abs(y - s).sum()), method=method)


def test_bca_that_does_not_exist_is_percentile_with_a_reason():
    """A resample of distinct scores never has all of them: every replicate lies below."""
    y, s = [0, 1] * 10, np.arange(20) / 20

    def n_distinct(y_true, y_score):
        return float(len(np.unique(y_score)))

    ci = bootstrap_ci(y, s, n_distinct, n_resamples=200, method="BCa")
    percentile = bootstrap_ci(y, s, n_distinct, n_resamples=200, method="percentile")
    assert ci.method == "percentile"
    assert ci.reason.startswith("BCa is unreliable: nearly all resamples lie on one side")
    assert (ci.ci_low, ci.ci_high) == (percentile.ci_low, percentile.ci_high)
    assert percentile.reason == (
        "10 rows of one class: bootstrap coverage may be below the nominal level"
    )
    by_default = bootstrap_ci(y, s, n_distinct, n_resamples=200)
    assert by_default.method == "bootstrap SE, t"  # of ten rows of a class


def rare(n_positive, n=60):
    y = np.zeros(n, dtype=int)
    y[:n_positive] = 1
    return y, np.random.default_rng(1).random(n) + 0.2 * y


@pytest.mark.parametrize("metric", [pr_auc, roc_auc])
def test_few_undefined_draws_are_counted(metric):
    """4 positives of 60: (56/60)^60 = 1.6 % of the draws have none."""
    y, s = rare(4)
    ci = bootstrap_ci(y, s, metric, return_samples=True, method="BCa")
    assert ci.method == "BCa"
    assert 5 < ci.n_undefined < 30
    assert ci.n_resamples == 1000
    assert len(ci.samples) == 1000 - ci.n_undefined
    assert ci.to_dict()["n_undefined"] == ci.n_undefined


def distance(y, s):
    """Distance of the classes' means; it needs two positives."""
    if np.count_nonzero(y) < 2:
        raise UndefinedMetricError("fewer than two positives")
    return float(s[y == 1].mean() - s[y == 0].mean())


@pytest.mark.parametrize("method", [None, "BCa", "percentile", "basic", "studentized"])
def test_many_undefined_draws_are_stratified(method):
    """3 positives of 60: 20 % of the draws have fewer than two, so labels are drawn apart."""
    y, s = rare(3)
    ci = bootstrap_ci(y, s, distance, method=method, n_resamples=300)
    asked = bootstrap_ci(y, s, distance, method=method, n_resamples=300, stratified=True)
    note = r"undefined on \d+ of 300 resamples, so labels are resampled separately"
    apart = re.match(note, ci.reason)
    assert apart is not None
    assert ci.reason[apart.end() :].removeprefix("; ") == asked.reason
    assert replace(ci, reason=asked.reason) == asked
    assert ci.method == f"{method or 'bootstrap SE, t'}, label-stratified"
    assert ci.n_undefined == 0


@pytest.mark.parametrize("n_positive", [1, 2])
@pytest.mark.parametrize("method", [None, "BCa", "percentile", "basic", "studentized"])
@pytest.mark.parametrize("metric", [pr_auc, roc_auc, lambda y, s: float(s[y == 1].mean())])
def test_fewer_than_three_positives_are_too_few(metric, method, n_positive):
    """BCa covered 63 % at two positives."""
    y, s = rare(n_positive)
    message = f"{n_positive} positive rows?; an interval for .* needs at least 3 of each class"
    with pytest.raises(UndefinedMetricError, match=message):
        bootstrap_ci(y, s, metric, method=method, n_resamples=64)


def test_positives_of_one_group_have_no_interval():
    """Groups are the units; with the positives in one of 12 groups there is no interval."""
    y, groups = np.repeat([1, 0], [5, 55]), np.arange(60) // 5
    s = np.random.default_rng(3).random(60)
    message = r"1 positive groups \(effective number\); an interval for roc_auc needs at least 3"
    with pytest.raises(UndefinedMetricError, match=message):
        bootstrap_ci(y, s, roc_auc, groups=groups)


def test_one_class_is_undefined():
    message = "pr_auc is undefined: all 20 rows are negative; it needs both classes"
    with pytest.raises(UndefinedMetricError, match=message):
        bootstrap_ci([0] * 20, np.arange(20) / 20, pr_auc)
    ci = bootstrap_ci([0] * 20, np.arange(20) / 20, brier_score)
    assert ci.method == "gaffke"


def test_a_metric_that_is_not_finite_on_the_data_is_undefined():
    with pytest.raises(UndefinedMetricError, match="<lambda> is nan on this data"):
        bootstrap_ci(Y, S, lambda y, s: float("nan"))


def test_errors_of_a_metric_on_the_data_are_its_own():
    def broken(y_true, y_score):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        bootstrap_ci(Y, S, broken)


# --- clusters ----------------------------------------------------------------------------------


def test_cluster_interval():
    ci = cluster()
    assert ci.method == "cluster_percentile"
    assert ci.point_estimate == roc_auc(Y, S)
    assert ci.ci_low < ci.point_estimate < ci.ci_high
    assert ci.n_undefined == 0
    assert (ci.n_units, ci.n_groups) == (N, 20)  # every group has both labels, and is one group
    assert ci.reason == ""
    assert cluster(n_resamples=5).reason == "too few resamples to estimate the tails"


def test_a_caution_about_few_groups_counts_groups():
    ci = bootstrap_ci(Y, S, roc_auc, groups=GROUPS, method="percentile")
    assert re.fullmatch(r"\d+\.?\d* groups of one class: bootstrap coverage .*", ci.reason)


def test_clusters_never_lose_a_class():
    y, groups = np.repeat([1, 0], [10, 50]), np.arange(60) // 2
    s = np.random.default_rng(3).random(60)
    ci = cluster_bootstrap_ci(y, s, groups, roc_auc)
    assert ci.n_undefined == 0


@pytest.mark.parametrize("n_groups", [1, 4])
def test_few_groups_of_a_label_are_too_few(n_groups):
    """Percentiles of four groups cover 0.66 to 0.84 at 95 %."""
    y, groups = np.repeat([1, 0], [5 * n_groups, 100]), np.arange(5 * n_groups + 100) // 5
    with pytest.raises(InvalidInputError, match=f"5 groups for every label.*got {n_groups}"):
        cluster_bootstrap_ci(y, np.arange(float(len(y))), groups, roc_auc)


def test_percentiles_of_few_groups_are_expanded():
    """Hesterberg (2015): the tail is that of √(n/(n−1)) t, 0.1 % of 2.5 % for 5 groups."""
    y, groups = np.repeat([1, 0], [25, 75]), np.arange(100) // 5
    s = np.random.default_rng(3).random(100)
    ci = cluster_bootstrap_ci(y, s, groups, roc_auc, return_samples=True)
    tail = stats.norm.sf(np.sqrt(5 / 4) * stats.t.ppf(0.975, 4))
    assert tail == pytest.approx(0.00095, abs=5e-5)
    below = (ci.samples < ci.ci_low).mean()
    assert below == pytest.approx(tail, abs=1e-3)
    assert ci.confidence == 0.95


def test_groups_that_lose_a_class_are_drawn_by_label():
    """Three of 20 groups are positive: 4 % of the draws have none of them, 14 % one alone."""
    y, groups = np.repeat([1, 0], [9, 51]), np.arange(60) // 3
    s = np.random.default_rng(3).random(60)

    def needs_four_positives(y, s):
        return distance(y, s) if np.count_nonzero(y) > 3 else float("nan")

    ci = bootstrap_ci(y, s, needs_four_positives, groups=groups, method="percentile")
    assert ci.method == "percentile, groups by label"
    assert "resamples, so labels are resampled separately" in ci.reason


def test_perfect_separation_of_groups_rests_on_the_rarer_groups():
    """Four of 60 groups are positive: 0.025^(1/4), however many rows they have."""
    groups = np.arange(600) // 10
    y = (groups < 4).astype(int)
    ci = bootstrap_ci(y, y + 0.0, roc_auc, groups=groups, method="BCa")
    assert ci.method == "exact-degenerate"
    assert ci.ci_low == pytest.approx(0.025 ** (1 / 4), abs=1e-12)
    by_default = bootstrap_ci(y, y + 0.0, roc_auc, groups=groups)
    assert by_default.method == "score, groups"
    at_least = 4 / (4 + stats.norm.ppf(0.975) ** 2)  # Wilson's interval of 4 in 4
    assert at_least < by_default.ci_low < bootstrap_ci(y, y + 0.0, roc_auc).ci_low


@pytest.mark.parametrize(
    ("spec", "n"),
    [(op_recall(0.5), 1000), (op_specificity(0.5), 12), (op_accuracy(0.5), 1012), (op_f1(0.5), 12)],
)
def test_a_perfect_share_rests_on_its_own_trials(spec, n):
    y = np.repeat([1, 0], [1000, 12])
    ci = bootstrap_ci(y, y + 0.0, spec, method="BCa")
    assert ci.ci_low == pytest.approx(0.025 ** (1 / n), abs=1e-12)


@pytest.mark.parametrize(
    ("spec", "n"), [(op_recall(0.5), 1000), (op_specificity(0.5), 12), (op_accuracy(0.5), 1012)]
)
def test_a_perfect_share_has_wilsons_interval_by_default(spec, n):
    y = np.repeat([1, 0], [1000, 12])
    ci = bootstrap_ci(y, y + 0.0, spec)
    assert ci.method == "wilson"
    assert ci.ci_low == pytest.approx(n / (n + stats.norm.ppf(0.975) ** 2))


@pytest.mark.parametrize("method", ["basic", "studentized"])
def test_bounds_stay_in_the_range_of_the_metric(method):
    rng = np.random.default_rng(5)
    for _ in range(20):
        y = np.repeat([1, 0], [15, 25])
        ci = bootstrap_ci(y, rng.random(40) + 0.3 * y, pr_auc, method=method, n_resamples=200)
        assert 0.0 <= ci.ci_low <= ci.ci_high <= 1.0


def test_one_resample_is_not_a_degenerate_metric():
    ci = bootstrap_ci(Y, S, roc_auc, n_resamples=1, method="percentile", return_samples=True)
    assert ci.method == "percentile"
    assert ci.reason == "too few resamples to estimate the tails"
    assert ci.ci_low == ci.samples[0]


def test_weights_of_the_rows_as_they_are_are_refused():
    weighted = functools.partial(roc_auc, sample_weight=np.ones(N))
    with pytest.raises(
        InvalidInputError,
        match="`metric` has a fixed `sample_weight`, which does not match the resampled rows",
    ):
        bootstrap_ci(Y, S, weighted)


def test_the_first_failure_of_a_foreign_metric_is_quoted():
    def fails_on_repeats(y_true, y_score):
        if len(np.unique(y_score)) < N:
            raise RuntimeError("net down")
        return 0.5

    with pytest.raises(UndefinedMetricError, match=r"\(first: RuntimeError: net down\)"):
        bootstrap_ci(Y, np.arange(N) / N, fails_on_repeats, n_resamples=64)


def test_an_executor_must_have_a_map():
    with pytest.raises(InvalidTypeError, match="`executor` must have a `map`"):
        bootstrap_ci(Y, S, roc_auc, executor=4)


def test_held_labels_do_not_vary():
    def false_positives(y, s):
        return float((s[y == 0] > 0.5).mean())

    def recall(y, s):
        return float((s[y == 1] > 0.5).mean())

    with pytest.raises(UndefinedMetricError, match="false_positives has the same value"):
        cluster_bootstrap_ci(Y, S, GROUPS, false_positives, resample_labels=(1,))
    drawn = cluster_bootstrap_ci(Y, S, GROUPS, recall, resample_labels=[1])
    assert drawn.ci_low < drawn.ci_high
    both = cluster_bootstrap_ci(Y, S, GROUPS, roc_auc)
    half = cluster_bootstrap_ci(Y, S, GROUPS, roc_auc, resample_labels=(1,))
    assert half.ci_high - half.ci_low < both.ci_high - both.ci_low


def test_clusters_of_one_row_are_stratified_rows():
    alone = cluster_bootstrap_ci(Y, S, np.arange(N), roc_auc, return_samples=True)
    rows = bootstrap_ci(Y, S, roc_auc, stratified=True, method="percentile", return_samples=True)
    assert alone.samples.tolist() == rows.samples.tolist()


def test_perfect_clusters_rest_on_the_rarer_labels_groups():
    """30 positives in 10 groups, 60 negatives in 60: ten independent facts."""
    y = np.repeat([1, 0], [30, 60])
    groups = np.concatenate([np.arange(30) // 3, 100 + np.arange(60)])
    ci = cluster_bootstrap_ci(y, y + np.arange(90) / 1e3, groups, roc_auc)
    assert ci.method == "exact-degenerate"
    assert ci.ci_low == pytest.approx(0.025 ** (1 / 10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resample_labels": ()}, r"`resample_labels` is \(\); name at least one"),
        ({"resample_labels": (2,)}, r"`resample_labels` is \(2,\)"),
        ({"n_resamples": 0}, "`n_resamples` is 0"),
        ({"confidence": 0}, "`confidence` is 0"),
    ],
)
def test_bad_cluster_options(options, message):
    with pytest.raises(InvalidInputError, match=message):
        cluster(**options)


def test_absent_label():
    with pytest.raises(InvalidInputError, match="names 1, but no row has this label"):
        cluster_bootstrap_ci([0] * 20, np.arange(20.0), np.arange(20), brier_score)


def test_fixed_rows_are_no_units():
    """Ninety fixed negatives are no groups beside five groups of positives."""
    y, groups = np.repeat([1, 0], [10, 90]), np.arange(100) // 2
    ci = cluster_bootstrap_ci(y, np.arange(100.0), groups, roc_auc, resample_labels=(1,))
    assert ci.n_groups == 5


def test_clusters_refuse_scores_that_are_not_finite():
    with pytest.raises(InvalidInputError, match=r"y_score\[0\] is inf"):
        cluster_bootstrap_ci(Y, np.where(np.arange(N) == 0, np.inf, S), GROUPS, roc_auc)


# --- strata of clusters ------------------------------------------------------------------------


def test_strata_are_combined():
    ci = strata()
    expected = (brier_score(Y, S) + brier_score(Y, S**2)) / 2
    assert ci.point_estimate == pytest.approx(expected)
    assert ci.ci_low < expected < ci.ci_high
    assert ci.method == "stratified_cluster_percentile"
    assert (ci.n_units, ci.n_groups) == (2 * N, 40)


def test_a_strata_draws_depend_on_its_own_key_alone():
    data = {"a": (Y, S, GROUPS), "b": (Y, S**2, GROUPS)}
    first = stratified_cluster_bootstrap_ci(data, brier_score, lambda values: values["a"])
    backwards = dict(reversed(data.items()))
    again = stratified_cluster_bootstrap_ci(backwards, brier_score, lambda values: values["a"])
    alone = stratified_cluster_bootstrap_ci({"a": data["a"]}, brier_score, average)
    assert first.to_dict() == again.to_dict()
    assert (alone.ci_low, alone.ci_high) == (first.ci_low, first.ci_high)


def test_strata_are_drawn_independently():
    """The same data under two keys: the mean of two has 1/√2 of the spread of one."""
    same = {"a": (Y, S, GROUPS), "b": (Y, S, GROUPS)}
    options = {"n_resamples": 2000, "return_samples": True}
    one = stratified_cluster_bootstrap_ci({"a": same["a"]}, brier_score, average, **options)
    two = stratified_cluster_bootstrap_ci(same, brier_score, average, **options)
    assert two.samples.std() / one.samples.std() == pytest.approx(np.sqrt(0.5), rel=0.08)


@pytest.mark.parametrize("error", [KeyError, ZeroDivisionError, ValueError])
def test_a_combination_that_fails_is_undefined(error):
    def fails_sometimes(every):
        calls = itertools.count()

        def combine(values):
            if next(calls) % every == 1:
                raise error
            return values["a"]

        return combine

    data = {"a": (Y, S, GROUPS)}
    ci = stratified_cluster_bootstrap_ci(data, brier_score, fails_sometimes(25))
    assert ci.n_undefined == 40
    message = r"the statistic is undefined on 500 of 1000 resamples; .* at least 95 %"
    with pytest.raises(UndefinedMetricError, match=message):
        stratified_cluster_bootstrap_ci(data, brier_score, fails_sometimes(2))


def test_strata_without_spread():
    same = {"a": (Y, np.full(N, 0.5), GROUPS)}
    ci = stratified_cluster_bootstrap_ci(same, brier_score, average)
    assert (ci.ci_low, ci.ci_high) == (0.25, 0.25)
    assert ci.reason == "every resample has the same value"


def test_bad_strata():
    with pytest.raises(InvalidInputError, match="`strata` is empty; pass at least one stratum"):
        stratified_cluster_bootstrap_ci({}, brier_score, average)
    with pytest.raises(UndefinedMetricError, match="`combine` is nan on this data"):
        stratified_cluster_bootstrap_ci(
            {"a": (Y, S, GROUPS)}, brier_score, lambda values: float("nan")
        )
    with pytest.raises(UndefinedMetricError, match="roc_auc is undefined"):
        stratified_cluster_bootstrap_ci({"a": ([0] * 9, S[:9], range(9))}, roc_auc, average)


# --- folds -------------------------------------------------------------------------------------


def test_folds():
    ci = block_bootstrap_on_folds([0.7, 0.8, 0.95, 0.9])
    assert ci.point_estimate == pytest.approx(0.8375)
    assert 0.7 <= ci.ci_low < 0.8375 < ci.ci_high <= 0.95
    assert (ci.method, ci.n_resamples, ci.n_units) == ("block_bootstrap", 1000, 4)


def test_equal_folds_have_zero_spread_and_a_reason():
    ci = block_bootstrap_on_folds([0.8, 0.8, 0.8])
    assert ci.ci_low == ci.ci_high == ci.point_estimate == pytest.approx(0.8)
    assert ci.reason == "every resample has the same value"


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ([0.8], "`fold_metrics` needs at least 2 folds, got 1"),
        ([], "`fold_metrics` is empty"),
        ([0.8, np.nan], r"fold_metrics\[1\] is nan"),
        ([[0.8, 0.9]], "`fold_metrics` must be 1-D"),
    ],
)
def test_bad_folds(folds, message):
    with pytest.raises(InvalidInputError, match=message):
        block_bootstrap_on_folds(folds)


def test_any_plan_can_be_given():
    by_name = bootstrap_ci(Y, S, roc_auc, groups=GROUPS, method="BCa")
    assert bootstrap_ci(Y, S, roc_auc, plan=groups_plan(GROUPS), method="BCa") == by_name
    two_level = bootstrap_ci(Y, S, roc_auc, plan=two_level_plan(GROUPS), method="BCa")
    assert two_level.method == "BCa, two-level"
    assert (two_level.n_units, two_level.n_groups) == (N, 20)
    assert two_level.ci_high - two_level.ci_low > by_name.ci_high - by_name.ci_low
    strata = groups_in_strata_plan(GROUPS, GROUPS // 10)
    in_strata = bootstrap_ci(Y, S, roc_auc, plan=strata, method="BCa")
    assert in_strata.method == "BCa, groups in strata"
    assert bootstrap_ci(Y, S, roc_auc, plan=strata).method == "score, groups in strata"
    for method, name in (("percentile", "percentile, two-level"), (None, "mover, two-level")):
        diff = paired_bootstrap_diff(
            Y, S, S[::-1], roc_auc, plan=two_level_plan(GROUPS), method=method
        )
        assert diff.method == name


def test_one_plan_of_the_right_size():
    with pytest.raises(
        InvalidInputError, match="pass only one of `groups`, `stratified` and `plan`"
    ):
        bootstrap_ci(Y, S, roc_auc, groups=GROUPS, plan=groups_plan(GROUPS))
    with pytest.raises(InvalidInputError, match="`plan` is for 99 rows but the data has 100"):
        bootstrap_ci(Y, S, roc_auc, plan=groups_plan(GROUPS[1:]))


def test_a_stratum_of_one_group_is_refused_by_name() -> None:
    y, s = np.arange(60) % 3 == 0, np.random.default_rng(4).random(60)
    strata = {"a": (y, s, np.arange(60)), "b": (y, s, np.zeros(60))}
    with pytest.raises(InvalidInputError, match=r"strata\['b'\] has only one group"):
        stratified_cluster_bootstrap_ci(strata, brier_score, lambda v: sum(v.values()))


def test_a_bad_row_of_a_stratum_names_the_stratum() -> None:
    strata = {"a": ([0, 2], [0.1, 0.2], [1, 2])}
    with pytest.raises(InvalidInputError, match=r"strata\['a'\]: y_true\[1\] is 2"):
        stratified_cluster_bootstrap_ci(strata, brier_score, lambda v: sum(v.values()))


@pytest.mark.filterwarnings("default")  # scikit-learn warns about one class; errors would raise
@pytest.mark.parametrize(
    ("ours", "foreign"),
    [
        (roc_auc, roc_auc_score),  # NaN on one class
        (pr_auc, average_precision_score),  # 0.0 or 1.0 on one class
        (roc_auc, lambda y, s: 1.0 if y.min() == y.max() else roc_auc_score(y, s)),
    ],
)
def test_one_class_draws_are_undefined_whatever_a_metric_answers(ours, foreign, recwarn):
    """scikit-learn's metrics do not raise on one class; the draws are counted all the same."""
    y = np.arange(60) < 4  # 1.6 % of the draws have no positive
    s = np.random.default_rng(2).random(60) + 0.3 * y
    expected = bootstrap_ci(y, s, ours, n_resamples=160, method="BCa")
    ci = bootstrap_ci(y, s, foreign, n_resamples=160, method="BCa")
    assert ci.n_undefined == expected.n_undefined > 0
    assert (ci.ci_low, ci.ci_high) == pytest.approx((expected.ci_low, expected.ci_high))
    by_default = bootstrap_ci(y, s, foreign, n_resamples=160)
    assert by_default.n_undefined == expected.n_undefined
    rarer = np.arange(60) < 2  # 13 %: too many, and too few to say anything of
    with pytest.raises(UndefinedMetricError, match="2 positive rows"):
        bootstrap_ci(rarer, s, foreign, n_resamples=64)
    diff = paired_bootstrap_diff(y, s, s**2 + 0.1 * y, foreign, n_resamples=192)
    assert diff.n_undefined > 0
    assert not recwarn.list, "no one-class draw was shown to the metric"


@pytest.mark.parametrize("method", ["BCa", "percentile", "studentized"])
def test_perfect_separation_has_an_interval(method):
    """The best model is not the one without an interval."""
    y = np.arange(100) >= 80
    ci = bootstrap_ci(y, np.arange(100) / 100, pr_auc, method=method)
    assert (ci.point_estimate, ci.ci_high) == (1.0, 1.0)
    assert ci.ci_low == pytest.approx(0.025 ** (1 / 20))
    assert ci.method == "exact-degenerate"
