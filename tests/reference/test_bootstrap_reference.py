"""Bootstrap intervals against scipy, scikit-learn, brute force and a published case."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from eval_toolkit import metrics
from eval_toolkit._internal.kernel import LANES
from eval_toolkit.inference import (
    block_bootstrap_on_folds,
    bootstrap_ci,
    cluster_bootstrap_ci,
    paired_bootstrap_diff,
)
from eval_toolkit.inference.columns import Term
from eval_toolkit.inference.intervals import basic_interval, bca_interval, percentile_interval
from eval_toolkit.inference.jackknife import jackknife_se
from eval_toolkit.inference.means import t_interval
from eval_toolkit.inference.plans import groups_plan, label_group_plan, rows_plan
from eval_toolkit.inference.resampling import Problem
from eval_toolkit.inference.statistics import ColumnMean

RNG = np.random.default_rng(11)
N = 80
Y = (np.arange(N) % 3 == 0).astype(int)
A = np.round(RNG.normal(0.4 + 0.15 * Y, 0.2).clip(0, 1), 2)
B = np.round(RNG.normal(0.4 + 0.25 * Y, 0.2).clip(0, 1), 2)
GROUPS = RNG.integers(0, 25, N)

OURS_AND_THEIRS = [
    (metrics.pr_auc, average_precision_score),
    (metrics.roc_auc, roc_auc_score),
    (metrics.brier_score, brier_score_loss),
]


def score_itself(y, s):
    return s


def mean_of_scores(y, s):
    return float(np.mean(s))


MEAN = ColumnMean("mean", Term(score_itself), mean_of_scores)


# --- scipy.stats.bootstrap ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def scipy_bootstrap():
    """scipy's intervals and its bootstrap distribution, by metric and method."""
    results = {}
    for ours, _ in OURS_AND_THEIRS:
        for method in ("BCa", "percentile", "basic"):
            results[ours, method] = stats.bootstrap(
                (Y, A), ours, paired=True, vectorized=False, n_resamples=499, method=method, rng=3
            )
    return results


@pytest.mark.parametrize("metric", [ours for ours, _ in OURS_AND_THEIRS])
def test_intervals_equal_scipys_on_scipys_draws(scipy_bootstrap, metric):
    """Same replicates in, same bounds out; the acceleration from our closed-form jackknife."""
    point = metric(Y, A)
    left_out = np.array([metric(np.delete(Y, i), np.delete(A, i)) for i in range(N)])
    for method, interval in (
        ("BCa", lambda x: bca_interval(x, point, left_out, 0.95)),
        ("percentile", lambda x: percentile_interval(x, 0.95)),
        ("basic", lambda x: basic_interval(x, point, 0.95)),
    ):
        theirs = scipy_bootstrap[metric, method]
        bounds = tuple(theirs.confidence_interval)
        assert interval(theirs.bootstrap_distribution) == pytest.approx(bounds, abs=1e-10)


@pytest.mark.parametrize("metric", [ours for ours, _ in OURS_AND_THEIRS])
@pytest.mark.parametrize("method", ["BCa", "percentile", "basic"])
def test_whole_intervals_agree_with_scipys_up_to_the_draws(metric, method):
    """Two runs of R = 2000 differ by Monte-Carlo error: below a tenth of the width."""
    ours = bootstrap_ci(Y, A, metric, n_resamples=2000, method=method)
    theirs = stats.bootstrap(
        (Y, A), metric, paired=True, vectorized=False, n_resamples=2000, method=method, rng=1
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.ci_low == pytest.approx(theirs.low, abs=0.1 * width)
    assert ours.ci_high == pytest.approx(theirs.high, abs=0.1 * width)


def test_published_bca_interval_of_a_mean(shared_data):
    """R's boot with a million resamples gives [32.31, 91.43] for these 16 values.

    Our 200 000 resamples have a Monte-Carlo error: the sd of a quantile at level q is
    √(q (1−q)/R) / density, here about 0.04 (low) and 0.15 (high); 0.3 is two of the larger.
    """
    cases = json.loads((shared_data / "reference" / "reference_cases_public.json").read_text())
    case = next(case for case in cases if case["id"] == "bca-mean16")
    values = [float(value) for value in case["input"].split()[-1].split(",")]
    assert len(values) == 16
    ci = bootstrap_ci([0, 1] * 8, values, MEAN, n_resamples=200_000, method="BCa")
    assert ci.method == "BCa"
    assert [ci.ci_low, ci.ci_high] == pytest.approx(case["expected"], abs=0.3)
    assert ci.point_estimate == np.mean(values)


# --- the draws themselves ----------------------------------------------------------------------


def drawn_rows(plan, seed, *scorers):
    """Return labels and scores of the plan's first 64 resamples, drawn from rows in order."""
    ordered = Problem.scored(
        Y.astype(bool), scorers or (A,), (MEAN,), plan, seed
    ).in_canonical_order()
    plan = ordered.plan
    counts = np.empty((plan.count_rows(), LANES), dtype=np.uint8)
    plan.draw(counts, seed=seed, first=0)
    of_row = counts if plan.unit_of_row is None else counts[plan.unit_of_row]
    drawn = [np.repeat(np.arange(N), of_row[:, lane]) for lane in range(LANES)]
    return [(ordered.labels[rows], *(one.scores[rows] for one in ordered.data)) for rows in drawn]


def test_rows_are_drawn_by_label_and_scores_in_order():
    """The order of rows in the input does not move a resample: tables sorted beforehand agree."""
    table = sorted(zip(Y, A, B, strict=True))
    counts = np.empty((N, LANES), dtype=np.uint8)
    rows_plan(N).draw(counts, seed=5, first=0)
    for lane, (y, a, b) in enumerate(drawn_rows(rows_plan(N), 5, A, B)):
        rows = [
            row for row, times in zip(table, counts[:, lane], strict=True) for _ in range(times)
        ]
        assert rows == list(zip(y, a, b, strict=True))


@pytest.mark.parametrize(("ours", "theirs"), OURS_AND_THEIRS)
def test_replicates_are_scikit_learns_values_on_the_drawn_rows(ours, theirs):
    ci = bootstrap_ci(Y, A, ours, n_resamples=LANES, seed=5, return_samples=True)
    expected = [theirs(y, s) for y, s in drawn_rows(rows_plan(N), 5)]
    assert ci.samples == pytest.approx(expected, abs=1e-12)
    grouped = bootstrap_ci(
        Y, A, ours, n_resamples=LANES, seed=5, groups=GROUPS, return_samples=True
    )
    expected = [theirs(y, s) for y, s in drawn_rows(groups_plan(GROUPS), 5)]
    assert grouped.samples == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), OURS_AND_THEIRS)
def test_differences_are_scikit_learns_b_minus_a(ours, theirs):
    diff = paired_bootstrap_diff(Y, A, B, ours, n_resamples=LANES, seed=6)
    expected = [theirs(y, b) - theirs(y, a) for y, a, b in drawn_rows(rows_plan(N), 6, A, B)]
    assert diff.samples == pytest.approx(expected, abs=1e-12)
    assert diff.delta == pytest.approx(theirs(Y, B) - theirs(Y, A), abs=1e-12)


@pytest.mark.parametrize("labels", [(0, 1), (0,), (1,)])
def test_cluster_replicates_are_scikit_learns(labels):
    ci = cluster_bootstrap_ci(
        *(Y, A, GROUPS, metrics.roc_auc),
        resample_labels=labels,
        n_resamples=LANES,
        seed=7,
        return_samples=True,
    )
    plan = label_group_plan(Y.astype(bool), GROUPS, resample_labels=labels)
    expected = [roc_auc_score(y, s) for y, s in drawn_rows(plan, 7)]
    assert ci.samples == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), OURS_AND_THEIRS)
@pytest.mark.parametrize("method", ["BCa", "percentile", "basic"])
def test_foreign_metrics_take_the_same_draws(ours, theirs, method):
    """scikit-learn's function through index resampling: our own fast path's interval.

    80 rows are left out one by one in both, so that BCa's acceleration is the same too.
    """
    fast = bootstrap_ci(Y, A, ours, n_resamples=LANES, method=method)
    slow = bootstrap_ci(Y, A, theirs, n_resamples=LANES, method=method)
    assert fast.point_estimate == pytest.approx(slow.point_estimate, abs=1e-12)
    assert (fast.ci_low, fast.ci_high) == pytest.approx((slow.ci_low, slow.ci_high), abs=1e-9)


# --- studentized -------------------------------------------------------------------------------


def test_studentized_interval_by_hand():
    """Pivots from the drawn rows with a brute-force jackknife inside each."""
    ci = bootstrap_ci(Y, A, metrics.roc_auc, n_resamples=LANES, method="studentized", seed=8)
    point, values, pivots = roc_auc_score(Y, A), [], []
    for y, s in drawn_rows(rows_plan(N), 8):
        left_out = [metrics.roc_auc(np.delete(y, i), np.delete(s, i)) for i in range(N)]
        values.append(roc_auc_score(y, s))
        pivots.append((values[-1] - point) / jackknife_se(left_out))
    low, high = np.quantile(pivots, [0.025, 0.975])
    spread = np.std(values, ddof=1)
    assert ci.method == "studentized"
    assert (ci.ci_low, ci.ci_high) == pytest.approx(
        (point - high * spread, point - low * spread), abs=1e-10
    )


def test_studentized_mean_of_normal_values_is_close_to_student():
    """For a normal mean the bootstrap pivot is nearly Student's: half-widths within 10 %."""
    values = stats.norm.ppf((np.arange(40) + 0.5) / 40)
    ci = bootstrap_ci([0, 1] * 20, values, MEAN, n_resamples=4000, method="studentized")
    student = t_interval(values)
    assert (ci.ci_low, ci.ci_high) == pytest.approx(
        (student.ci_low, student.ci_high), abs=0.1 * student.ci_high
    )


def test_studentized_is_wider_on_the_skewed_side():
    """Exponential values: the upper bound is farther from the mean than the lower one."""
    values = stats.expon.ppf((np.arange(30) + 0.5) / 30)
    ci = bootstrap_ci([0, 1] * 15, values, MEAN, n_resamples=2000, method="studentized")
    above, below = ci.ci_high - ci.point_estimate, ci.point_estimate - ci.ci_low
    assert above > 1.2 * below


# --- folds -------------------------------------------------------------------------------------


def test_folds_are_drawn_with_replacement():
    """All 27 resamples of three folds: the percentile interval of their exact distribution."""
    folds = [0.7, 0.8, 0.95]
    ci = block_bootstrap_on_folds(folds, n_resamples=20_000, confidence=0.8)
    every = [np.mean(np.array(folds)[list(rows)]) for rows in np.ndindex(3, 3, 3)]
    exact = np.quantile(np.repeat(every, 1000), [0.1, 0.9])
    assert (ci.ci_low, ci.ci_high) == pytest.approx(tuple(exact), abs=1e-9)
