"""Resampling plans, and the engine that evaluates statistics under them."""

import functools
import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats
from tests.support.each import each

from eval_toolkit import metrics
from eval_toolkit._internal.kernel import LANES, using
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import resampling
from eval_toolkit.inference.calibration_statistics import (
    EqualMassError,
    EqualWidthError,
    SmoothError,
)
from eval_toolkit.inference.column_statistics import CallableStatistic
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.plans import (
    groups_in_strata_plan,
    groups_plan,
    label_group_plan,
    label_stratified_plan,
    rows_plan,
    two_level_plan,
)
from eval_toolkit.inference.resampling import MAX_DELETE_BLOCKS, Problem, delete_blocks, replicate
from eval_toolkit.inference.statistics import (
    BRIER,
    LOG_LOSS,
    AtThreshold,
    AveragePrecision,
    ColumnMean,
    RecallAtFpr,
    RocAuc,
    statistic_for,
)

N = 120
RNG = np.random.default_rng(2024)
GROUPS = np.sort(RNG.integers(0, 40, N))[RNG.permutation(N)]
STRATA = GROUPS % 3
LABELS = RNG.random(N) < 0.4
SCORES = np.clip(np.round(RNG.normal(0.4 + 0.2 * LABELS, 0.2), 2), 0, 1)
OTHER = np.clip(np.round(RNG.normal(0.4 + 0.1 * LABELS, 0.3), 1), 0, 1)

PLANS = {
    "rows": rows_plan(N),
    "label-stratified": label_stratified_plan(LABELS),
    "groups": groups_plan(GROUPS),
    "groups-in-strata": groups_in_strata_plan(GROUPS, STRATA),
    "label-groups": label_group_plan(LABELS, GROUPS),
    "label-groups, 0 fixed": label_group_plan(LABELS, GROUPS, resample_labels=(1,)),
    "label-groups, 1 fixed": label_group_plan(LABELS, GROUPS, resample_labels=(0,)),
    "two-level": two_level_plan(GROUPS),
}


def f1(tn, fp, fn, tp):
    return 2 * tp / (2 * tp + fp + fn)


def precision(tn, fp, fn, tp):
    return tp / (tp + fp)


def at(threshold, function):
    """The same quantity from the rows, by way of the metric functions."""

    def value(y, s):
        c = metrics.confusion_counts(y, s, threshold)
        return function(c.tn, c.fp, c.fn, c.tp)

    return value


FAST_AND_OPAQUE = {
    "pr_auc": (AveragePrecision(), lambda y, s: metrics.pr_auc(y, s)),
    "roc_auc": (RocAuc(), lambda y, s: metrics.roc_auc(y, s)),
    "recall_at_fpr": (RecallAtFpr(0.1), lambda y, s: metrics.recall_at_fpr(y, s, 0.1).recall),
    "brier": (BRIER, lambda y, s: metrics.brier_score(y, s)),
    "log_loss": (LOG_LOSS, lambda y, s: metrics.log_loss(y, s)),
    "ece_10": (EqualWidthError(10), lambda y, s: metrics.expected_calibration_error(y, s, 10)),
    "ece_7": (EqualWidthError(7), lambda y, s: metrics.expected_calibration_error(y, s, 7)),
    "ece_mass": (
        EqualMassError(10),
        lambda y, s: metrics.expected_calibration_error_equal_mass(y, s, 10),
    ),
    "ece_l2": (
        EqualMassError(6, norm="l2"),
        lambda y, s: metrics.expected_calibration_error_l2(y, s, 6),
    ),
    "mce": (
        EqualMassError(5, norm="max"),
        lambda y, s: metrics.maximum_calibration_error(y, s, n_bins=5),
    ),
    "mce_width": (
        EqualWidthError(5, norm="max"),
        lambda y, s: metrics.maximum_calibration_error(y, s, n_bins=5, strategy="uniform"),
    ),
    "f1": (AtThreshold("f1", 0.5, f1), at(0.5, f1)),
    "precision": (AtThreshold("precision", 0.73, precision), at(0.73, precision)),
    "f1, all positive": (AtThreshold("f1", -math.inf, f1), at(-math.inf, f1)),
}
FAST = tuple(fast for fast, _ in FAST_AND_OPAQUE.values())
NO_CLOSED_FORM = ("ece_10", "ece_7", "ece_mass", "ece_l2", "mce", "mce_width")
OPAQUE = tuple(CallableStatistic(opaque) for _, opaque in FAST_AND_OPAQUE.values())


def problem(statistics, plan="rows", scorers=(SCORES,), seed=42):
    return Problem.scored(LABELS, tuple(scorers), tuple(statistics), PLANS[plan], seed)


def row_counts(plan, first=0, seed=1):
    """Return the counts of rows (not units): shape (rows, 64)."""
    counts = np.empty((plan.count_rows(), LANES), dtype=np.uint8)
    largest = plan.draw(counts, seed=seed, first=first)
    assert counts.max() <= largest
    return counts if plan.unit_of_row is None else counts[plan.unit_of_row]


# --- what each plan draws ----------------------------------------------------------------------


def test_rows_keep_their_number():
    assert (row_counts(PLANS["rows"]).sum(axis=0) == N).all()


def test_label_stratified_keeps_both_classes():
    counts = row_counts(PLANS["label-stratified"])
    assert (counts[LABELS].sum(axis=0) == LABELS.sum()).all()
    assert (counts[~LABELS].sum(axis=0) == (~LABELS).sum()).all()


def test_label_stratified_with_one_class_is_rows():
    plan = label_stratified_plan(np.ones(5, dtype=bool))
    assert plan.strata.tolist() == [0, 5]


@pytest.mark.parametrize("kind", ["groups", "groups-in-strata"])
def test_rows_of_a_group_are_in_or_out_together(kind):
    counts = row_counts(PLANS[kind])
    for group in np.unique(GROUPS):
        members = counts[group == GROUPS]
        assert (members == members[0]).all()
    first_rows = np.unique(GROUPS, return_index=True)[1]
    assert (counts[first_rows].sum(axis=0) == len(first_rows)).all()


def test_strata_keep_their_number_of_groups():
    counts = row_counts(PLANS["groups-in-strata"])
    ids, first_rows = np.unique(GROUPS, return_index=True)
    for stratum in range(3):
        rows = first_rows[ids % 3 == stratum]
        assert (counts[rows].sum(axis=0) == len(rows)).all()


def test_label_groups_draw_each_label_apart():
    counts = row_counts(PLANS["label-groups"])
    for label in (False, True):
        units, first_rows = np.unique(GROUPS[label == LABELS], return_index=True)
        rows = np.flatnonzero(label == LABELS)[first_rows]
        assert (counts[rows].sum(axis=0) == len(units)).all()
        for group in units:
            members = counts[(group == GROUPS) & (label == LABELS)]
            assert (members == members[0]).all()
    both = next(g for g in np.unique(GROUPS) if len(set(LABELS[g == GROUPS])) == 2)
    positive, negative = (
        counts[(both == GROUPS) & (label == LABELS)][0] for label in (True, False)
    )
    assert not np.array_equal(positive, negative), "a group with both labels is two units"


@pytest.mark.parametrize("fixed", [0, 1])
def test_labels_that_are_not_drawn_are_in_every_resample_once(fixed):
    plan = PLANS[f"label-groups, {fixed} fixed"]
    counts = row_counts(plan)
    assert (counts[bool(fixed) == LABELS] == 1).all()
    assert counts[bool(fixed) != LABELS].max() > 1
    assert plan.n_fixed == (bool(fixed) == LABELS).sum()


def test_two_levels_draw_groups_then_members():
    """A drawn group brings as many rows as it has, but not necessarily each of them."""
    counts = row_counts(PLANS["two-level"])
    sizes = np.bincount(GROUPS, minlength=40)
    totals = np.array([counts[group == GROUPS].sum(axis=0) for group in range(40)])
    copies = totals[sizes > 0] / sizes[sizes > 0][:, None]
    assert (copies == np.round(copies)).all()
    assert (copies.sum(axis=0) == (sizes > 0).sum()).all()
    within = counts[np.argmax(sizes) == GROUPS]
    assert not (within == within[0]).all()


def test_units():
    n_groups = len(np.unique(GROUPS))
    assert PLANS["rows"].n_units == PLANS["label-stratified"].n_units == N
    assert PLANS["groups"].n_units == PLANS["groups-in-strata"].n_units == n_groups
    assert PLANS["two-level"].n_units == n_groups
    assert PLANS["two-level"].count_rows() == N
    pairs = len({*zip(GROUPS.tolist(), LABELS.tolist(), strict=True)})
    assert PLANS["label-groups"].n_units == pairs
    assert [name for name, plan in PLANS.items() if plan.is_plain_rows] == ["rows"]


def test_a_group_may_lie_in_one_stratum_only():
    with pytest.raises(InvalidInputError, match=r"groups\[0\] lies in more than one stratum"):
        groups_in_strata_plan(["a", "a", "b"], ["x", "y", "y"])


@pytest.mark.parametrize(
    ("labels", "wanted", "message"),
    [
        ([0, 1], (), r"`resample_labels` is \(\); name at least one of the labels 0 and 1"),
        ([0, 1], (0, 2), r"`resample_labels` is \(0, 2\)"),
        ([0, 0], (0, 1), "`resample_labels` names 1, but no row has this label"),
    ],
)
def test_labels_to_resample(labels, wanted, message):
    with pytest.raises(InvalidInputError, match=message):
        label_group_plan(np.array(labels, dtype=bool), ["a", "b"], resample_labels=wanted)


@pytest.mark.parametrize("build", [groups_plan, two_level_plan])
def test_groups_must_fit_the_rows(build):
    with pytest.raises(InvalidInputError, match="`groups` has 2 rows but the data has 3"):
        build(["a", "b"], n=3)


# --- replicates --------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("backend", ["numpy", "default"])
def test_fast_statistics_equal_the_same_metric_on_the_rows(plan, backend):
    """Every statistic, on every resample, as the metric function gives it on the drawn rows."""
    if backend == "numpy":
        with using("numpy"):
            fast = replicate(problem(FAST, plan), 70)
    else:
        fast = replicate(problem(FAST, plan), 70)
    opaque = replicate(problem(OPAQUE, plan), 70)
    assert not np.isnan(fast).any()
    assert fast == pytest.approx(opaque, abs=1e-12)


@pytest.mark.parametrize("plan", ["rows", "groups", "label-groups, 0 fixed", "two-level"])
def test_smooth_error_of_resamples_has_a_coarser_grid(plan):
    """4096 cells instead of 32 768: each value within 1e-6 of the metric's on the rows."""
    fast = replicate(problem([SmoothError()], plan), 16)
    opaque = replicate(
        problem([CallableStatistic(lambda y, s: metrics.smooth_ece(y, s))], plan), 16
    )
    assert fast == pytest.approx(opaque, abs=1e-6)
    assert SmoothError().leave_one_out(Columns.scored(LABELS, SCORES)) is None


def test_two_scorers_see_the_same_resamples():
    """Each scorer's replicates are those it has alone, to the bit, whatever its place."""
    alone = [replicate(problem(FAST, scorers=[s]), 100)[0] for s in (SCORES, OTHER)]
    together = replicate(problem(FAST, scorers=[SCORES, OTHER]), 100)
    swapped = replicate(problem(FAST, scorers=[OTHER, SCORES]), 100)
    assert np.array_equal(together, alone)
    assert np.array_equal(swapped, together[::-1])


def test_a_statistic_does_not_depend_on_its_company():
    together = replicate(problem(FAST), 100)[0]
    for row, statistic in enumerate(FAST):
        beside_ap = replicate(problem([AveragePrecision(), statistic]), 100)[0, 1]
        assert beside_ap == pytest.approx(together[row], abs=1e-12)


@each("plan", PLANS)
def test_fewer_resamples_are_a_prefix(plan):
    long = replicate(problem(FAST, plan), 1000)
    for n_resamples in (1, 63, 64, 65, 100):
        short = replicate(problem(FAST, plan), n_resamples)
        assert np.array_equal(short, long[:, :, :n_resamples])


def test_permuted_rows_give_another_sample_of_the_same_distribution():
    """Draws belong to row numbers: the order of the rows is part of the data."""
    order = np.random.default_rng(1).permutation(N)
    permuted = Problem.scored(LABELS[order], (SCORES[order],), (RocAuc(),), PLANS["rows"], 42)
    ours, theirs = replicate(problem([RocAuc()]), 2000), replicate(permuted, 2000)
    assert not np.array_equal(ours, theirs)
    assert stats.ks_2samp(ours[0, 0], theirs[0, 0]).pvalue > 1e-3


# --- the canonical order -----------------------------------------------------------------------

UNTIED = (np.arange(N) * 37 % N + 0.5) / N  # 37 and 120 have no common factor
COARSE = np.round(2.0 * OTHER) / 2.0  # three values: groups with the same rows, or the same total
BUILD = {
    "rows": lambda labels, groups: rows_plan(len(labels)),
    "label-stratified": lambda labels, groups: label_stratified_plan(labels),
    "groups": lambda labels, groups: groups_plan(groups),
    "groups-in-strata": lambda labels, groups: groups_in_strata_plan(groups, groups % 3),
    "label-groups": lambda labels, groups: label_group_plan(labels, groups),
    "label-groups, 0 fixed": lambda labels, groups: label_group_plan(
        labels, groups, resample_labels=(1,)
    ),
}
SCORERS = {
    "no ties": (UNTIED,),
    "ties": (OTHER,),
    "few values": (COARSE,),
    "two, ties in B": (UNTIED, COARSE),
    "two, ties in A": (COARSE, SCORES),
}


@pytest.mark.parametrize("plan", BUILD)
@pytest.mark.parametrize("scorers", SCORERS.values(), ids=SCORERS)
def test_no_bit_depends_on_the_order_of_the_rows(plan, scorers):
    groups = GROUPS % 30  # of four rows on average
    results = []
    for number in range(4):
        order = np.random.default_rng(number).permutation(N)
        shuffled = Problem.scored(
            LABELS[order],
            tuple(scores[order] for scores in scorers),
            (AveragePrecision(), RocAuc(), BRIER, LOG_LOSS, EqualWidthError(7), OPAQUE[3]),
            BUILD[plan](LABELS[order], groups[order]),
            42,
        ).in_canonical_order()
        _ = shuffled.data[0].groups  # may be made before or after
        results.append(replicate(shuffled, 128).tobytes() + delete_blocks(shuffled).tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("scores", [UNTIED, OTHER], ids=["no ties", "ties"])
def test_the_canonical_order_is_by_label_and_score(scores):
    ordered = Problem.scored(LABELS, (scores,), FAST, PLANS["rows"], 42).in_canonical_order()
    expected = np.lexsort((scores, LABELS))
    assert np.array_equal(ordered.labels, LABELS[expected])
    assert np.array_equal(ordered.data[0].scores, scores[expected])
    again = ordered.in_canonical_order()
    assert np.array_equal(replicate(again, 64), replicate(ordered, 64))


@pytest.mark.parametrize("scores", [UNTIED, OTHER], ids=["no ties", "ties"])
@pytest.mark.parametrize("sorted_before", [True, False])
def test_reordered_rows_are_ranked_as_if_sorted_anew(scores, sorted_before):
    order = np.random.default_rng(3).permutation(N)
    ranked = Columns.scored(LABELS, scores)
    if sorted_before:
        _ = ranked.groups
    again, anew = ranked.reordered(order), Columns.scored(LABELS[order], scores[order])
    for name in ("labels", "scores", "order", "position", "sorted_labels", "sorted_scores"):
        assert np.array_equal(getattr(again, name), getattr(anew, name)), name
    assert np.array_equal(again.groups.tp, anew.groups.tp)


# --- executors ---------------------------------------------------------------------------------


class Recording:
    """An executor that counts its tasks."""

    n_tasks = 0

    def map(self, fn, tasks):
        tasks = list(tasks)
        self.n_tasks = len(tasks)
        return map(fn, tasks)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("plan", ["rows", "label-groups, 0 fixed", "two-level"])
def test_threads_give_the_same_bits(monkeypatch, plan):
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    expected = replicate(problem(FAST, plan, [SCORES, OTHER]), 500).tobytes()
    for n_threads in (1, 2, 4):
        with ThreadPoolExecutor(n_threads) as pool:
            assert replicate(
                problem(FAST, plan, [SCORES, OTHER]), 500, executor=pool
            ).tobytes() == (expected)


@pytest.mark.parametrize("plan", ["rows", "groups", "two-level"])
def test_processes_give_the_same_bits(monkeypatch, processes, plan):
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", 1)
    expected = replicate(problem(FAST, plan), 500)
    parallel = replicate(problem(FAST, plan), 500, executor=processes)
    assert parallel.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("chunk_rows", "n_tasks"), [(1, 8), (250_000, 3), (10**12, 0)])
def test_any_chunk_size_gives_the_same_bits(monkeypatch, chunk_rows, n_tasks):
    """500 resamples are 8 blocks of 64; a block is 120 rows × 64 × 14 statistics = 107 520.

    What makes one task alone is done in place.
    """
    expected = replicate(problem(FAST), 500)
    monkeypatch.setattr(resampling, "_CHUNK_ROWS", chunk_rows)
    executor = Recording()
    assert replicate(problem(FAST), 500, executor=executor).tobytes() == expected.tobytes()
    assert executor.n_tasks == n_tasks


# --- metrics at a threshold alone --------------------------------------------------------------


def recall(tn, fp, fn, tp):
    return tp / (tp + fn)


THRESHOLDS = [AtThreshold("recall", t, recall) for t in (0.8, 0.3, 0.55)]


def test_cells_are_used_for_rows_alone():
    assert problem(THRESHOLDS).cells_suffice
    assert not problem(THRESHOLDS, "groups").cells_suffice
    assert not problem([*THRESHOLDS, BRIER]).cells_suffice
    assert not problem(THRESHOLDS, scorers=[SCORES, OTHER]).cells_suffice


def test_cells_have_the_distribution_of_rows():
    """Drawing the cells of the confusion matrix is drawing rows and counting."""
    cells = replicate(problem(THRESHOLDS), 4000)[0]
    rows = replicate(problem([*THRESHOLDS, BRIER]), 4000)[0, :3]
    for ours, theirs in zip(cells, rows, strict=True):
        assert stats.ks_2samp(ours, theirs).pvalue > 1e-3
    together = np.corrcoef(cells), np.corrcoef(rows)
    assert together[0] == pytest.approx(together[1], abs=0.05)
    assert (cells[1] >= cells[2]).all(), "one draw for all thresholds"
    assert (cells[2] >= cells[0]).all()


def test_cells_of_fewer_resamples_are_a_prefix():
    long = replicate(problem(THRESHOLDS), 500)
    assert np.array_equal(replicate(problem(THRESHOLDS), 100), long[:, :, :100])


# --- left-out rows and blocks ------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FAST_AND_OPAQUE if name not in NO_CLOSED_FORM])
@pytest.mark.parametrize("n_levels", [2, 5, 1000])
def test_closed_form_leave_one_out_equals_brute_force(name, n_levels):
    statistic, opaque = FAST_AND_OPAQUE[name]
    rng = np.random.default_rng(n_levels)
    y = np.arange(60) % 3 == 0
    s = np.round(rng.random(60) * n_levels) / n_levels
    brute = [opaque(np.delete(y, i), np.delete(s, i)) for i in range(60)]
    values = statistic.leave_one_out(Columns.scored(y, s))
    assert np.sort(values) == pytest.approx(np.sort(brute), abs=1e-12)


def test_no_closed_form_where_a_left_out_row_is_the_last_of_its_class():
    y = np.array([True, False, False, False])
    data = Columns.scored(y, np.array([0.9, 0.8, 0.2, 0.1]))
    assert AveragePrecision().leave_one_out(data) is None
    assert RocAuc().leave_one_out(data) is None
    assert AtThreshold("recall", 0.5, recall).leave_one_out(data) is None
    assert RecallAtFpr(0.1).leave_one_out(data) is None
    assert EqualMassError(2).leave_one_out(data) is None
    assert CallableStatistic(metrics.roc_auc).leave_one_out(data) is None


def test_few_units_are_left_out_one_by_one():
    """Blocks of one: the same values as the closed form."""
    left_out = delete_blocks(problem(FAST))[0]
    assert left_out.shape == (len(FAST), N)
    for statistic, values in zip(FAST, left_out, strict=True):
        closed = statistic.leave_one_out(Columns.scored(LABELS, SCORES))
        if closed is not None:
            assert np.sort(values) == pytest.approx(np.sort(closed), abs=1e-12)


def size_of(y, s):
    return len(y)


OPAQUE_SIZE = CallableStatistic(size_of)


@pytest.mark.parametrize("n", [MAX_DELETE_BLOCKS, MAX_DELETE_BLOCKS + 1, 1000, 5000])
def test_blocks_are_nearly_equal_and_cover_every_row_once(n):
    y = np.arange(n) % 2 == 0
    kept = delete_blocks(Problem.scored(y, (y.astype(float),), (OPAQUE_SIZE,), rows_plan(n), 1))[
        0, 0
    ]
    left_out = n - kept
    assert len(kept) == MAX_DELETE_BLOCKS <= 200
    assert left_out.sum() == n
    assert abs(left_out - n / MAX_DELETE_BLOCKS).max() < 4


def test_blocks_of_sorted_data_hold_both_kinds():
    """Data sorted by label must not give blocks of one label."""
    y = np.arange(4000) < 2000
    share = CallableStatistic(lambda y, s: y.mean())
    kept = delete_blocks(Problem.scored(y, (y.astype(float),), (share,), rows_plan(4000), 1))[0, 0]
    assert kept == pytest.approx(np.full(len(kept), 0.5), abs=0.002)


@pytest.mark.parametrize("plan", ["groups", "groups-in-strata", "two-level"])
def test_groups_are_left_out_whole(plan):
    sizes = delete_blocks(problem([OPAQUE_SIZE], plan))[0, 0]
    assert sorted(N - sizes) == sorted(np.unique(GROUPS, return_counts=True)[1])


def test_fixed_rows_are_never_left_out():
    positives = CallableStatistic(lambda y, s: y.sum())
    kept = delete_blocks(problem([positives], "label-groups, 1 fixed"))[0, 0]
    assert (kept == LABELS.sum()).all()
    assert len(kept) == len(np.unique(GROUPS[~LABELS]))


# --- statistics --------------------------------------------------------------------------------


def test_undefined_resamples_are_nan():
    y = np.arange(40) == 0
    few = Problem.scored(y, (np.linspace(0, 1, 40),), FAST, rows_plan(40), 1)
    values = replicate(few, 640)[0]
    lost = np.isnan(values[1])
    assert 0.25 < lost.mean() < 0.5  # (39/40)^40 = 0.36
    for name, row in zip(FAST_AND_OPAQUE, values, strict=True):
        if name in ("pr_auc", "recall_at_fpr"):
            assert np.array_equal(np.isnan(row), lost)
        elif name.startswith(("brier", "log_loss", "ece")):
            assert not np.isnan(row).any()


def test_equal_mass_needs_as_many_rows_as_bins():
    """With groups the size of a resample varies: 10 bins need 10 rows."""
    groups = np.repeat(np.arange(12), [1] * 11 + [20])
    y = np.arange(31) % 2 == 0
    few = Problem.scored(y, (y * 0.5,), (EqualMassError(20), OPAQUE_SIZE), groups_plan(groups), 1)
    error, size = replicate(few, 640)[0]
    assert np.array_equal(np.isnan(error), size < 20)
    assert 0.1 < np.isnan(error).mean() < 0.9


def test_a_failing_function_is_undefined_where_it_fails():
    def fussy(y, s):
        if y.sum() > 48:
            raise KeyError("too many")
        return math.inf if y.sum() > 46 else float(y.sum())

    values = replicate(problem([CallableStatistic(fussy)]), 300)[0, 0]
    counts = replicate(problem([CallableStatistic(lambda y, s: y.sum())]), 300)[0, 0]
    assert np.array_equal(np.isnan(values), counts > 46)


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyboardInterrupt])
def test_some_errors_are_not_results(error):
    def fatal(y, s):
        raise error

    with pytest.raises(error):
        replicate(problem([CallableStatistic(fatal)]), 1)


def test_recognised_metrics():
    fast = {
        metrics.pr_auc: AveragePrecision,
        metrics.roc_auc: RocAuc,
        metrics.brier_score: ColumnMean,
        metrics.log_loss: ColumnMean,
        metrics.expected_calibration_error: EqualWidthError,
        metrics.expected_calibration_error_equal_mass: EqualMassError,
        metrics.expected_calibration_error_l2: EqualMassError,
        metrics.smooth_ece: SmoothError,
    }
    for function, kind in fast.items():
        assert isinstance(statistic_for(function), kind)
    five = statistic_for(functools.partial(metrics.expected_calibration_error, n_bins=5))
    assert five == EqualWidthError(5)
    partial_auc = statistic_for(functools.partial(metrics.roc_auc, max_fpr=0.1))
    assert partial_auc.needs.rows
    least = metrics.roc_auc([1, 0, 0], [0.0, 1.0, 1.0], max_fpr=0.1)  # no area at all
    assert partial_auc.bounds == (pytest.approx(least), 1.0)
    assert statistic_for(functools.partial(metrics.roc_auc, max_fpr=1.0)) == RocAuc()
    assert statistic_for(RecallAtFpr(0.1)) == RecallAtFpr(0.1)
    assert statistic_for(metrics.maximum_calibration_error) == EqualMassError(10, "max")
    uniform = functools.partial(metrics.maximum_calibration_error, strategy="uniform", n_bins=4)
    assert statistic_for(uniform) == EqualWidthError(4, "max")
    as_it_is = statistic_for(metrics.expected_calibration_error_l2_debiased)
    assert as_it_is.needs.rows
    assert as_it_is.bounds == (0.0, 1.0)
    assert not as_it_is.foreign
    assert statistic_for(lambda y, s: 0.5).foreign


def test_any_callable_and_any_spec():
    class Unhashable:
        __hash__ = None

        def __call__(self, y, s):
            return 0.5

    class Spec:
        name = "mine"

        def compute(self, y_true, y_score):
            return 0.25

    data = Columns.scored(LABELS, SCORES)
    assert statistic_for(Unhashable()).point(data) == 0.5
    assert statistic_for(Spec()).point(data) == 0.25
    assert statistic_for(Unhashable()).name == "Unhashable"
    with pytest.raises(InvalidTypeError, match="`metric` must be a function of"):
        statistic_for("roc_auc")


def test_points_are_the_metrics():
    for name, (fast, opaque) in FAST_AND_OPAQUE.items():
        assert fast.point(Columns.scored(LABELS, SCORES)) == pytest.approx(
            opaque(LABELS, SCORES)
        ), name


def test_undefined_points_raise():
    one_class = Columns.scored(np.zeros(5, dtype=bool), np.linspace(0, 1, 5))
    for statistic in (AveragePrecision(), RocAuc(), RecallAtFpr(0.1)):
        with pytest.raises(UndefinedMetricError):
            statistic.point(one_class)
    with pytest.raises(UndefinedMetricError, match=r"recall is undefined at threshold 0\.5: tn=3"):
        AtThreshold("recall", 0.5, recall).point(
            Columns.scored(np.zeros(5, bool), np.arange(5) / 6)
        )
