"""Properties of the engine that hold for any data, any plan and any seed."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eval_toolkit import metrics
from eval_toolkit._internal.kernel import LANES, draw, native, rank_order, using
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import bootstrap_ci, bootstrap_p_value, paired_bootstrap_diff
from eval_toolkit.inference.calibration_statistics import EqualMassError, EqualWidthError
from eval_toolkit.inference.column_statistics import CallableStatistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.intervals import (
    basic_interval,
    bca_interval,
    exact_at_bound,
    percentile_interval,
)
from eval_toolkit.inference.plans import (
    groups_in_strata_plan,
    groups_plan,
    label_group_plan,
    label_stratified_plan,
    rows_plan,
    two_level_plan,
)
from eval_toolkit.inference.resampling import Problem, delete_blocks, replicate
from eval_toolkit.inference.statistics import (
    BRIER,
    LOG_LOSS,
    AtThreshold,
    AveragePrecision,
    RecallAtFpr,
    RocAuc,
    statistic_for,
)

SEEDS = st.integers(0, 2**64 - 1)
# Few distinct values, so that ties are heavy; edges of bins and thresholds among them.
SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.7, 0.9, 1.0])


@st.composite
def rows(draw_from, min_size=4, max_size=40):
    """Labels of both classes and heavily tied scores."""
    n = draw_from(st.integers(min_size, max_size))
    labels = np.array(draw_from(st.lists(st.booleans(), min_size=n, max_size=n)))
    labels[:2] = [True, False]
    scores = np.array(draw_from(st.lists(SCORES, min_size=n, max_size=n)))
    return labels, scores


@st.composite
def planned_rows(draw_from):
    """Rows under any of the plans."""
    labels, scores = draw_from(rows())
    n = len(labels)
    groups = np.array(draw_from(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    plan = draw_from(
        st.sampled_from(
            [
                rows_plan(n),
                label_stratified_plan(labels),
                groups_plan(groups),
                groups_in_strata_plan(groups, groups % 3),
                label_group_plan(labels, groups),
                label_group_plan(labels, groups, resample_labels=(0,)),
                label_group_plan(labels, groups, resample_labels=(1,)),
                two_level_plan(groups),
            ]
        )
    )
    return labels, scores, plan


def f1(tn, fp, fn, tp):
    return 2 * tp / (2 * tp + fp + fn)


def f1_on_rows(y, s):
    c = metrics.confusion_counts(y, s, 0.5)
    denominator = 2 * c.tp + c.fp + c.fn
    return 2 * c.tp / denominator if denominator else math.nan


PAIRS = [
    (AveragePrecision(), lambda y, s: metrics.pr_auc(y, s)),
    (RocAuc(), lambda y, s: metrics.roc_auc(y, s)),
    (RecallAtFpr(0.3), lambda y, s: metrics.recall_at_fpr(y, s, 0.3).recall),
    (BRIER, lambda y, s: metrics.brier_score(y, s)),
    (LOG_LOSS, lambda y, s: metrics.log_loss(y, s)),
    (EqualWidthError(10), lambda y, s: metrics.expected_calibration_error(y, s, 10)),
    (EqualMassError(4), lambda y, s: metrics.expected_calibration_error_equal_mass(y, s, 4)),
    (EqualMassError(3, "l2"), lambda y, s: metrics.expected_calibration_error_l2(y, s, 3)),
    (AtThreshold("f1", 0.5, f1), f1_on_rows),
]
FAST = tuple(fast for fast, _ in PAIRS)
OPAQUE = tuple(CallableStatistic(opaque) for _, opaque in PAIRS)


@given(planned_rows(), SEEDS)
@settings(max_examples=60, deadline=None)
def test_fast_path_equals_index_resampling(data, seed):
    """On every resample, undefined ones included."""
    labels, scores, plan = data
    fast = replicate(Problem.scored(labels, (scores,), FAST, plan, seed), LANES)
    opaque = replicate(Problem.scored(labels, (scores,), OPAQUE, plan, seed), LANES)
    assert fast == pytest.approx(opaque, abs=1e-12, nan_ok=True)


@given(planned_rows(), SEEDS)
@settings(max_examples=60, deadline=None)
@pytest.mark.skipif(native is None, reason="the C kernel was not built")
def test_both_kernels_agree(data, seed):
    labels, scores, plan = data
    results = []
    for name in ("native", "numpy"):
        with using(name):
            problem = Problem.scored(labels, (scores, 1 - scores), FAST, plan, seed)
            results.append(replicate(problem, 65))
    assert results[0] == pytest.approx(results[1], abs=1e-12, nan_ok=True)


@given(planned_rows(), SEEDS)
@settings(max_examples=60, deadline=None)
def test_resamples_are_numbered(data, seed):
    """A short run is a prefix of a long one, and each scorer's draws are its own."""
    labels, scores, plan = data
    long = replicate(Problem.scored(labels, (scores, 1 - scores), FAST, plan, seed), 130)
    short = replicate(Problem.scored(labels, (1 - scores,), FAST, plan, seed), 70)
    assert np.array_equal(short[0], long[1, :, :70], equal_nan=True)


@given(rows(min_size=6))
@settings(max_examples=150, deadline=None)
def test_closed_form_leave_one_out(data):
    labels, scores = data
    for statistic, opaque in PAIRS:
        values = statistic.leave_one_out(Columns.scored(labels, scores))
        if values is None:
            continue
        brute = [opaque(np.delete(labels, i), np.delete(scores, i)) for i in range(len(labels))]
        assert np.sort(values) == pytest.approx(np.sort(brute), abs=1e-12)


@given(planned_rows())
@settings(max_examples=60, deadline=None)
def test_left_out_blocks_are_whole_units(data):
    """What is left out, added up, is everything that is drawn."""
    labels, scores, plan = data
    size = CallableStatistic(lambda y, s: len(y))
    kept = delete_blocks(Problem.scored(labels, (scores,), (size,), plan, 1))[0, 0]
    assert (len(labels) - kept).sum() == len(labels) - plan.n_fixed
    assert len(kept) == plan.n_units - plan.n_fixed


@given(st.integers(1, 300), SEEDS, st.integers(0, 2**40).map(lambda k: k * LANES))
@settings(max_examples=100, deadline=None)
def test_a_resample_has_n_draws(n, seed, first):
    counts = np.empty((n, LANES), dtype=np.uint8)
    largest = draw(counts, seed=seed, first=first, strata=np.array([0, n]))
    assert (counts.sum(axis=0) == n).all()
    assert counts.max() <= largest


@given(rows())
@settings(max_examples=100, deadline=None)
def test_rank_order_sorts_and_is_unique(data):
    labels, scores = data
    order = rank_order(labels, scores)
    keys = list(zip(-scores[order], ~labels[order], strict=True))
    assert keys == sorted(keys)
    assert sorted(order) == list(range(len(labels)))
    for before, after in itertools.pairwise(order):
        if (scores[before], labels[before]) == (scores[after], labels[after]):
            assert before < after, "equal rows keep their order"


SAMPLES = st.lists(st.floats(-1e3, 1e3), min_size=5, max_size=60).map(np.array)


@given(SAMPLES, st.floats(0.5, 0.99), st.floats(-5, 5), st.floats(0.1, 10))
def test_intervals_follow_shift_and_scale(samples, confidence, shift, scale):
    point = float(np.median(samples))
    moved = shift + scale * samples
    for interval in (
        lambda x, p: percentile_interval(x, confidence),
        lambda x, p: basic_interval(x, p, confidence),
    ):
        expected = shift + scale * np.array(interval(samples, point))
        assert interval(moved, shift + scale * point) == pytest.approx(tuple(expected), abs=1e-6)


@example(np.zeros(5), np.array([0.0, 0.0, 0.0, 0.0, 1e-136]), 0.5)  # cubes vanish
@given(SAMPLES, SAMPLES, st.floats(0.5, 0.99))
def test_bca_lies_within_the_replicates(samples, left_out, confidence):
    bounds = bca_interval(samples, float(np.median(samples)), left_out, confidence)
    if bounds is not None:
        assert samples.min() <= bounds[0] <= bounds[1] <= samples.max()


@given(SAMPLES, st.floats(0.5, 0.99))
def test_bca_without_bias_and_skewness_is_the_percentile_interval(samples, confidence):
    samples = samples.round(6)  # apart by more than the rounding within which they are ties
    point = float(np.median(samples))
    below, above = (samples < point).sum(), (samples > point).sum()
    bounds = bca_interval(samples, point, np.array([1.0, 2.0, 3.0]), confidence)
    if bounds is not None and below == above:
        assert bounds == pytest.approx(percentile_interval(samples, confidence), abs=1e-6)


@given(st.integers(0, 2**32), st.integers(20, 60))
@settings(max_examples=20, deadline=None)
def test_ties_count_as_in_exact_arithmetic(seed, n):
    """Of scores in tenths the Brier score is a whole number of hundredths over n, rounded once."""
    generator = np.random.default_rng(seed)
    labels, (a, b) = generator.integers(0, 2, n), generator.choice([0.1, 0.5, 0.9], (2, n))
    labels[:6] = [0, 1] * 3

    def exact(y, s):
        return float(np.rint(100 * (s - y) ** 2).sum()) / (100 * len(y))

    fast, slow = (
        bootstrap_ci(labels, a, metric, n_resamples=200, seed=seed, method="BCa")
        for metric in (metrics.brier_score, exact)
    )
    assert (fast.ci_low, fast.ci_high) == pytest.approx((slow.ci_low, slow.ci_high), abs=1e-9)
    fast, slow = (
        paired_bootstrap_diff(labels, a, b, metric, n_resamples=200, seed=seed, method="percentile")
        for metric in (metrics.brier_score, exact)
    )
    assert fast.p_value == slow.p_value
    assert fast.overlaps_zero == slow.overlaps_zero


@given(st.integers(1, 1000), st.floats(0.5, 0.999))
def test_exact_interval_at_a_bound(n, confidence):
    low, high = exact_at_bound(1.0, (0.0, 1.0), n, confidence)
    assert high == 1.0
    assert low**n == pytest.approx((1 - confidence) / 2)
    assert exact_at_bound(0.0, (0.0, 1.0), n, confidence) == pytest.approx((0.0, 1.0 - low))
    shifted = exact_at_bound(1.0, (-1.0, 1.0), n, confidence)
    assert shifted == pytest.approx((2 * low - 1, 1.0))
    assert exact_at_bound(sum([0.1] * 10), (0.0, 1.0), n, confidence) == (low, 1.0)


@given(SAMPLES)
def test_p_value_is_symmetric_and_in_range(differences):
    p = bootstrap_p_value(differences)
    assert p == bootstrap_p_value(-differences)
    assert 2 / (len(differences) + 1) <= p <= 1


@given(rows(min_size=12), SEEDS)
@settings(max_examples=60, deadline=None)
def test_three_rows_of_each_class_are_enough_for_an_interval(data, seed):
    """However rare the rarer class and however tied the scores; never of zero width."""
    labels, scores = data
    for metric in (metrics.pr_auc, metrics.roc_auc, metrics.brier_score):
        fewest = min(labels.sum(), (~labels).sum())
        if metric is not metrics.brier_score and fewest < 3:
            with pytest.raises(UndefinedMetricError, match=f"{fewest} (posi|nega)tive row"):
                bootstrap_ci(labels, scores, metric, n_resamples=100, seed=seed)
            continue
        ci = bootstrap_ci(labels, scores, metric, n_resamples=100, seed=seed)
        assert 0 <= ci.ci_low <= ci.point_estimate <= ci.ci_high <= 1
        assert ci.ci_low < ci.ci_high
        assert (ci.n_resamples, ci.reason) == (0, "")


@given(rows(min_size=12), SEEDS, st.sampled_from(["BCa", "percentile", "basic"]))
@settings(max_examples=60, deadline=None)
def test_a_bootstrap_by_name_has_an_interval_or_says_why_not(data, seed, method):
    labels, scores = data
    for metric in (metrics.pr_auc, metrics.roc_auc, metrics.brier_score):
        how = {"n_resamples": 100, "seed": seed, "method": method}
        try:
            ci = bootstrap_ci(labels, scores, metric, **how)
        except UndefinedMetricError:
            message = "needs at least 3 of each class|has the same value"
            with pytest.raises(UndefinedMetricError, match=message):
                bootstrap_ci(labels, scores, metric, **how)
            continue
        assert 0 <= ci.ci_low <= ci.ci_high <= 1
        if ci.method == "exact-degenerate":
            assert ci.reason
            assert ci.ci_low <= ci.point_estimate <= ci.ci_high
            assert ci.ci_low < ci.ci_high


@given(rows(min_size=12), SEEDS)
@settings(max_examples=60, deadline=None)
def test_swapped_scorers_mirror_the_difference(data, seed):
    labels, scores = data
    other = np.round(1 - scores**2, 2)
    pairs = ((scores, other), (other, scores))
    enough = min(np.count_nonzero(labels), np.count_nonzero(~labels)) >= 3
    for metric in (metrics.roc_auc, metrics.brier_score):
        if enough or metric is metrics.brier_score:
            there, back = (
                paired_bootstrap_diff(
                    labels, a, b, metric, n_resamples=64, seed=seed, method="percentile"
                )
                for a, b in pairs
            )
            assert back.delta == -there.delta
        # The same draws of the same rows; in another order, that of A's scores, they differ.
        one, two = (
            replicate(
                Problem.scored(
                    labels, pair, (statistic_for(metric),), rows_plan(len(labels)), seed
                ),
                64,
            )
            for pair in pairs
        )
        assert np.array_equal(one[::-1], two, equal_nan=True)
    try:
        there, back = (
            paired_bootstrap_diff(labels, a, b, metrics.brier_score, n_resamples=64)
            for a, b in pairs
        )
    except UndefinedMetricError:
        with pytest.raises(UndefinedMetricError, match=r"zero variance|at least 3 of each class"):
            paired_bootstrap_diff(labels, other, scores, metrics.brier_score, n_resamples=64)
        return
    assert (back.ci_low, back.ci_high) == pytest.approx((-there.ci_high, -there.ci_low))
    assert back.p_value == pytest.approx(there.p_value)
