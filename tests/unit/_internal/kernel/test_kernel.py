"""The bootstrap kernel: exact multinomial counts, the same bits everywhere, exact statistics."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score

from eval_toolkit._internal import kernel
from eval_toolkit._internal.kernel import (
    LANES,
    MassLayout,
    RankLayout,
    SumsLayout,
    _numpy,
    lanes,
    layouts,
)

SIZES = (1, 2, 3, 9, 10, 37, 64, 1000, 5001)
SEEDS = (0, 42, 2**64 - 1)
FIRSTS = (0, 64, 64_000, 2**40)
BACKENDS = ("native", "numpy")

needs_native = pytest.mark.skipif(kernel.native is None, reason="the C kernel was not built")


@pytest.fixture(params=["numpy", pytest.param("native", marks=needs_native)])
def each_backend(request):
    with kernel.using(request.param):
        yield request.param


@pytest.fixture
def instruction_sets():
    """Names of the instruction sets; the best is back in use afterwards."""
    names = kernel.native.instruction_sets()
    yield names
    kernel.native.use(names[-1])


def drawn(n, seed=42, first=0, strata=None, order=None):
    """Return counts and their bound; ``order`` is a permutation of the units."""
    counts = np.full((n, LANES), 255, dtype=np.uint8)
    bounds = np.array([0, n] if strata is None else strata, dtype=np.int64)
    places = {}
    if order is not None:
        position = np.argsort(order)
        places = {"order": order.astype(np.int32), "position": position.astype(np.int32)}
    largest = kernel.draw(counts, seed=seed, first=first, strata=bounds, **places)
    return counts, largest


def resamples(n, n_blocks, **options):
    """Return counts of many resamples: shape (units, 64 · n_blocks)."""
    return np.hstack([drawn(n, first=LANES * block, **options)[0] for block in range(n_blocks)])


def tied_data(n, seed, levels=7, prevalence=0.4):
    """Labels and scores in rank order with heavy ties."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < prevalence
    scores = rng.integers(0, levels, n) / levels
    order = kernel.rank_order(labels, scores)
    return labels[order], scores[order]


# --- counts ------------------------------------------------------------------------------------


@needs_native
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ordered", [False, True])
def test_both_backends_draw_the_same_counts(n, seed, ordered):
    order = np.random.default_rng(n).permutation(n) if ordered else None
    for first in FIRSTS:
        results = []
        for name in BACKENDS:
            with kernel.using(name):
                results.append(drawn(n, seed, first, order=order))
        (native, bound), (twin, twin_bound) = results
        assert np.array_equal(native, twin)
        assert bound == twin_bound


@needs_native
@pytest.mark.parametrize("strata", [[0, 1, 4, 20], [0, 10, 11], [0, 500, 1500, 1501, 4000]])
def test_both_backends_agree_on_strata(strata):
    order = np.concatenate(
        [
            np.random.default_rng(7).permutation(np.arange(start, stop))
            for start, stop in itertools.pairwise(strata)
        ]
    )
    for seed in SEEDS:
        for permutation in (None, order):
            results = []
            for name in BACKENDS:
                with kernel.using(name):
                    results.append(drawn(strata[-1], seed, 128, strata, permutation)[0])
            assert np.array_equal(*results)


@pytest.mark.parametrize("n", SIZES)
def test_every_resample_has_exactly_n_draws(each_backend, n):
    for first in FIRSTS:
        counts, largest = drawn(n, first=first)
        assert (counts.sum(axis=0, dtype=np.int64) == n).all()
        assert counts.max() <= largest


def test_every_stratum_keeps_its_size(each_backend):
    strata = [0, 1, 3, 40, 400]
    counts, _ = drawn(400, strata=strata)
    sums = np.add.reduceat(counts, strata[:-1], axis=0, dtype=np.int64)
    assert (sums == np.diff(strata)[:, None]).all()


def test_more_poisson_draws_than_rows_are_taken_away_again(each_backend):
    """With one row the Poisson total exceeds 1 in about 2 % of the lanes."""
    counts = np.hstack([drawn(1, seed=seed)[0] for seed in range(20)])
    assert (counts == 1).all()


def test_order_only_moves_rows(each_backend):
    """A unit's counts belong to the unit, wherever its row lies."""
    order = np.random.default_rng(3).permutation(1000)
    plain, moved = drawn(1000)[0], drawn(1000, order=order)[0]
    assert np.array_equal(moved, plain[order])


def test_seed_block_and_stratum_give_different_draws(each_backend):
    blocks = [
        drawn(200, seed=1)[0],
        drawn(200, seed=2)[0],
        drawn(200, seed=1, first=64)[0],
        drawn(200, seed=1, strata=[0, 100, 200])[0],
    ]
    for i, one in enumerate(blocks):
        for other in blocks[:i]:
            assert not np.array_equal(one, other)


def test_lanes_of_a_block_all_differ(each_backend):
    counts, _ = drawn(200)
    assert len(np.unique(counts, axis=1).T) == LANES


@needs_native
def test_both_backends_redraw_the_same_members():
    rng = np.random.default_rng(0)
    for sizes in ([1], [3, 1, 1, 7], rng.integers(1, 30, 200)):
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        for first in FIRSTS:
            groups, _ = drawn(len(sizes), first=first)
            results = []
            for name in BACKENDS:
                counts = np.full((offsets[-1], LANES), 9, dtype=np.uint8)
                with kernel.using(name):
                    largest = kernel.redraw(counts, groups, offsets=offsets, seed=5, first=first)
                assert largest == counts.max()
                results.append(counts)
            assert np.array_equal(*results)
            drawn_members = np.add.reduceat(results[0], offsets[:-1], axis=0, dtype=np.int64)
            assert np.array_equal(drawn_members, np.asarray(sizes)[:, None] * groups)


def test_redrawn_members_are_uniform(each_backend):
    """Members of one group that is always drawn once: Binomial(5, 1/5) each."""
    groups = np.ones((1, LANES), dtype=np.uint8)
    offsets = np.array([0, 5])
    blocks = []
    for first in range(0, 64 * 100, 64):
        counts = np.empty((5, LANES), dtype=np.uint8)
        kernel.redraw(counts, groups, offsets=offsets, seed=1, first=first)
        blocks.append(counts[0])
    observed = np.bincount(np.concatenate(blocks), minlength=6)
    expected = stats.binom.pmf(np.arange(6), 5, 0.2) * observed.sum()
    assert stats.chisquare(*_merged(observed, expected)).pvalue > 1e-3


# --- their distribution ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
def test_thresholds_and_residual_are_the_poisson_distribution(n):
    """16 bits decide, and what they cut off comes back through the residual."""
    thresholds, residual = kernel._poisson_table(n)
    mean = max(0.2, 1 - 3 / np.sqrt(n))
    whole = np.diff(thresholds.astype(float), prepend=0.0) / 65536
    escape = 1 - thresholds[-1] / 65536
    implied = np.diff(residual, prepend=0.0) * escape
    implied[:8] += whole
    assert residual[-1] == 1.0
    assert implied == pytest.approx(stats.poisson.pmf(np.arange(16), mean), abs=1e-12)


def _merged(observed, expected, at_least=8):
    """Merge the tail, so that the chi-square approximation holds."""
    last = max(np.flatnonzero(expected >= at_least))
    merge = lambda counts: np.append(counts[:last], counts[last:].sum())  # noqa: E731
    seen, wanted = merge(observed), merge(expected)
    return seen, wanted * seen.sum() / wanted.sum()


@pytest.mark.parametrize("n", [2, 3, 10, 37, 1000])
def test_a_units_count_is_binomial(n):
    """The marginal of Multinomial(n, 1/n) is Binomial(n, 1/n); resamples are independent."""
    counts = resamples(n, 300)
    for unit in (0, n // 2, n - 1):
        observed = np.bincount(counts[unit], minlength=n + 1)[: n + 1]
        expected = stats.binom.pmf(np.arange(len(observed)), n, 1 / n) * counts.shape[1]
        assert stats.chisquare(*_merged(observed, expected)).pvalue > 1e-3


@pytest.mark.parametrize("n", [10, 37, 1000])
def test_moments_of_the_counts(n):
    """Mean 1, variance (n − 1)/n, covariance −1/n; tolerances are about 4 standard errors."""
    counts = resamples(n, 100).astype(float)
    size = counts.shape[1]
    assert counts.mean() == 1.0
    assert counts.mean(axis=1) == pytest.approx(np.ones(n), abs=4.5 / np.sqrt(size))
    # The variance of (count − 1)² is about 3, and the units are nearly independent.
    variance = ((counts - 1) ** 2).mean()
    assert variance == pytest.approx((n - 1) / n, abs=4 * np.sqrt(3 / counts.size))
    products = (counts[:-1] - 1) * (counts[1:] - 1)
    assert products.mean() == pytest.approx(-1 / n, abs=4 / np.sqrt(products.size))


def test_neighbouring_lanes_are_uncorrelated():
    """Four lanes share a 64-bit hash, 64 a block; neither may be seen in the counts."""
    counts = np.vstack([drawn(5001, seed=seed)[0] for seed in range(4)]).astype(float) - 1
    for distance in (1, 2, 3, 4, 5, 16, 32):
        products = counts[:, :-distance] * counts[:, distance:]
        assert abs(products.mean()) < 4 / np.sqrt(products.size)


def test_neighbouring_units_and_blocks_are_uncorrelated():
    first, second = drawn(5001)[0].astype(float) - 1, drawn(5001, first=64)[0].astype(float) - 1
    products = first * second
    assert abs(products.mean()) < 4 / np.sqrt(products.size)
    products = first[:-1] * first[1:]
    assert abs(products.mean() + 1 / 5001) < 4 / np.sqrt(products.size)


def test_bootstrap_distribution_is_that_of_numpys_draws():
    """ROC-AUC of 60 rows under our counts and under ``Generator.integers``."""
    labels, scores = tied_data(60, 1, levels=40)
    layout = RankLayout.from_sorted(labels, scores, None)
    ours = np.concatenate(
        [kernel.rank(*drawn(60, first=64 * block), layout)[1] for block in range(150)]
    )
    rng = np.random.default_rng(8)
    theirs = []
    for _ in range(150):
        rows = rng.integers(0, 60, (LANES, 60))
        counts = np.array([np.bincount(row, minlength=60) for row in rows], dtype=np.uint8).T
        theirs.append(kernel.rank(np.ascontiguousarray(counts), int(counts.max()), layout)[1])
    assert stats.ks_2samp(ours, np.concatenate(theirs)).pvalue > 1e-3


# --- statistics of counts ----------------------------------------------------------------------


@pytest.mark.parametrize(("n", "levels"), [(12, 3), (80, 5), (300, 10), (300, 10**9)])
@pytest.mark.parametrize("gather", [False, True])
def test_rank_equals_scikit_learn(each_backend, n, levels, gather):
    labels, scores = tied_data(n, seed=n, levels=levels)
    counts, largest = drawn(n)
    index = np.random.default_rng(0).permutation(n) if gather else None
    layout = RankLayout.from_sorted(labels, scores, None if index is None else kernel.spare(index))
    out = kernel.rank(counts, largest, layout)
    for lane in range(0, LANES, 5):
        weights = counts[:, lane] if index is None else counts[index, lane]
        positives, negatives = weights[labels].sum(), weights[~labels].sum()
        assert (out[2, lane], out[3, lane]) == (positives, negatives)
        if positives and negatives:
            expected = [
                metric(labels, scores, sample_weight=weights)
                for metric in (average_precision_score, roc_auc_score)
            ]
            assert out[:2, lane] == pytest.approx(expected, abs=1e-12)


def test_rank_with_one_class_is_undefined(each_backend):
    counts, largest = drawn(10)
    scores = np.linspace(1, 0, 10)
    none = RankLayout.from_sorted(np.zeros(10, dtype=bool), scores, None)
    assert np.isnan(kernel.rank(counts, largest, none)[:2]).all()
    every = RankLayout.from_sorted(np.ones(10, dtype=bool), scores, None)
    assert np.isnan(kernel.rank(counts, largest, every)[1]).all()


@pytest.mark.parametrize("target", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("gather", [False, True])
def test_recall_by_brute_force(each_backend, target, gather):
    n = 50
    labels, scores = tied_data(n, seed=4)
    counts, largest = drawn(n)
    index = np.random.default_rng(0).permutation(n) if gather else np.arange(n)
    layout = RankLayout.from_sorted(labels, scores, kernel.spare(index) if gather else None)
    totals = np.ascontiguousarray(kernel.rank(counts, largest, layout)[2:])
    out = kernel.recall(counts, largest, layout, totals=totals, target=target)
    weights = counts[index].astype(float)
    for lane in range(LANES):
        w = weights[:, lane]
        best = max(
            (
                w[labels & (scores >= threshold)].sum() / w[labels].sum()
                for threshold in np.unique(scores)
                if w[~labels & (scores >= threshold)].sum() / w[~labels].sum() <= target
            ),
            default=0.0,
        )
        assert out[lane] == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("cuts", [[53], [1, 53], [10, 10, 40, 53], [17, 18, 34, 53]])
@pytest.mark.parametrize("n_columns", [0, 1, 3])
@pytest.mark.parametrize("gather", [False, True])
def test_sums_by_brute_force(each_backend, cuts, n_columns, gather):
    n = 53
    rng = np.random.default_rng(9)
    labels, columns = rng.random(n) < 0.3, rng.normal(size=(n_columns, n))
    counts, largest = drawn(n)
    index = rng.permutation(n) if gather else np.arange(n)
    layout = SumsLayout(
        labels.astype(np.uint8), columns, np.array(cuts), kernel.spare(index) if gather else None
    )
    out = kernel.sums(counts, largest, layout)
    table = np.column_stack([labels, ~labels, columns.T])
    terms = table[:, :, None] * counts[index].astype(float)[:, None, :]
    begins = [0, *cuts[:-1]]
    expected = [terms[begin:end].sum(axis=0) for begin, end in zip(begins, cuts, strict=True)]
    assert out.shape == layout.shape == (len(cuts), 2 + n_columns, LANES)
    assert out == pytest.approx(np.array(expected), abs=1e-12)


@pytest.mark.parametrize("levels", [2, 10, 10**9])
@pytest.mark.parametrize("gather", [False, True])
def test_masses_by_brute_force(each_backend, levels, gather):
    """The top rows of a resample, tied rows counting as their group's average."""
    n = 47
    labels, scores = tied_data(n, seed=6, levels=levels)
    counts, _ = drawn(n)
    index = np.random.default_rng(0).permutation(n) if gather else np.arange(n)
    layout = MassLayout.from_sorted(labels, scores, kernel.spare(index) if gather else None)
    cuts = np.repeat([[1.0], [9.0], [9.0], [30.0], [47.0]], LANES, axis=1)
    out = kernel.masses(counts, layout, cuts)
    for lane in range(LANES):
        rows = np.repeat(np.arange(n), counts[index, lane])
        averaged = labels[rows].astype(float)
        for score in np.unique(scores[rows]):
            tied = scores[rows] == score
            averaged[tied] = averaged[tied].mean()
        for place, cut in enumerate((1, 9, 9, 30, 47)):
            expected = averaged[:cut].sum(), scores[rows][:cut].sum()
            assert out[place, :, lane] == pytest.approx(expected, abs=1e-12)


@needs_native
@pytest.mark.parametrize(
    ("n", "levels", "prevalence"),
    [(10, 2, 0.5), (1000, 4, 0.3), (5001, 10**9, 0.1), (5001, 10**9, 0.9), (70_000, 1, 0.01)],
)
def test_both_backends_give_the_same_values(n, levels, prevalence):
    """The last case is one segment, longer than a tile, whose sums exceed 16 bits."""
    labels, scores = tied_data(n, seed=2, levels=levels, prevalence=prevalence)
    counts, largest = drawn(n)
    index = kernel.spare(np.random.default_rng(0).permutation(n))
    columns = np.random.default_rng(1).normal(size=(2, n))
    for at in (None, index):
        layout = RankLayout.from_sorted(labels, scores, at)
        table = SumsLayout(labels.astype(np.uint8), columns, np.array([n // 3, n]), at)
        mass = MassLayout.from_sorted(labels, scores, at)
        cuts = np.repeat([[float(n // 5)], [float(n)]], LANES, axis=1)
        results = []
        for name in BACKENDS:
            with kernel.using(name):
                rank = kernel.rank(counts, largest, layout)
                totals = np.ascontiguousarray(rank[2:])
                recall = kernel.recall(counts, largest, layout, totals=totals, target=0.05)
                sums = kernel.sums(counts, largest, table) / n
                masses = kernel.masses(counts, mass, cuts) / n
            results.append(np.concatenate([rank.ravel(), recall, sums.ravel(), masses.ravel()]))
        assert results[0] == pytest.approx(results[1], abs=1e-12, rel=1e-12, nan_ok=True)


@needs_native
@pytest.mark.parametrize("n", [9, 64, 1000, 5001])
def test_every_instruction_set_gives_the_same_bits(instruction_sets, n):
    labels, scores = tied_data(n, seed=3, levels=n // 3)
    index = kernel.spare(np.random.default_rng(0).permutation(n))
    columns = np.random.default_rng(1).normal(size=(3, n))
    results = []
    for name in instruction_sets:
        kernel.native.use(name)
        with kernel.using("native"):
            counts, largest = drawn(n, first=64)
            parts = [counts.ravel().astype(float)]
            for at in (None, index):
                layout = RankLayout.from_sorted(labels, scores, at)
                rank = kernel.rank(counts, largest, layout)
                totals = np.ascontiguousarray(rank[2:])
                recall = kernel.recall(counts, largest, layout, totals=totals, target=0.1)
                table = SumsLayout(labels.astype(np.uint8), columns, np.array([n // 2, n]), at)
                mass = MassLayout.from_sorted(labels, scores, at)
                masses = kernel.masses(counts, mass, np.full((1, LANES), n / 2))
                parts += [rank.ravel(), recall, kernel.sums(counts, largest, table).ravel()]
                parts += [masses.ravel()]
        results.append(np.concatenate(parts).tobytes())
    assert len(set(results)) == 1


# --- layouts -----------------------------------------------------------------------------------


def test_rank_order_puts_positives_first_within_ties_and_keeps_input_order(each_backend):
    labels = np.array([False, True, True, False, True])
    scores = np.array([0.5, 0.5, 0.9, 0.9, 0.5])
    assert kernel.rank_order(labels, scores).tolist() == [2, 3, 1, 4, 0]


@pytest.mark.parametrize("n", [0, *SIZES])
@pytest.mark.parametrize("digits", [0, 1, 17])
def test_rank_order_is_that_of_python(each_backend, n, digits):
    rng = np.random.default_rng(n)
    labels = rng.random(n) < 0.4
    scores = np.round(rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n), digits)
    expected = sorted(range(n), key=lambda row: (-scores[row], not labels[row], row))
    assert kernel.rank_order(labels, scores).tolist() == expected


def test_rank_order_of_unusual_scores(each_backend):
    """Both zeros are one score; infinities and the smallest numbers have their places."""
    scores = np.array([0.0, -np.inf, 5e-324, -0.0, np.inf, -5e-324, -1.0, 1e308])
    labels = np.array([False, True, False, True, False, True, False, True])
    assert kernel.rank_order(labels, scores).tolist() == [4, 7, 2, 3, 0, 5, 6, 1]


def test_rank_order_takes_views(each_backend):
    scores = np.arange(10.0)[::-2]
    assert kernel.rank_order(np.ones(10, dtype=bool)[::2], scores).tolist() == [0, 1, 2, 3, 4]


def test_segments():
    """Negatives above, positives, tied negatives; negatives below the last positive trail."""
    labels = np.array([False, True, True, False, False, True, False])
    scores = np.array([0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.5])
    layout = RankLayout.from_sorted(labels, scores, None)
    assert layout.segments.tolist() == [[1, 2, 1], [1, 1, 0]]
    assert layout.n_trailing == 1


def test_spare_entries_follow_an_index():
    index = kernel.spare(np.array([3, 1, 2]))
    assert index[:3].tolist() == [3, 1, 2]
    assert len(index) == 3 + lanes._SPARE_ENTRIES
    assert index.dtype == np.int32


# --- choosing an instruction set ---------------------------------------------------------------


@needs_native
def test_unknown_instruction_set(instruction_sets):
    assert instruction_sets[0] == "base"
    with pytest.raises(ValueError, match="no instruction set 'avx1024'"):
        kernel.native.use("avx1024")
    with pytest.raises(TypeError):
        kernel.native.use(3)


# --- choosing a back-end -----------------------------------------------------------------------

INTERVAL = """
import numpy as np
from eval_toolkit import bootstrap_ci, pr_auc
from eval_toolkit._internal import kernel
y = np.arange(300) % 3 == 0
s = np.round(np.sin(np.arange(300.0)) + 0.8 * y, 1)
ci = bootstrap_ci(y, s, pr_auc, n_resamples=500)
print(kernel.backend(), repr(ci.point_estimate), repr(ci.ci_low), repr(ci.ci_high))
"""


def run_interval(prelude="", **environment):
    """Run `INTERVAL` in a fresh interpreter; return the back-end and the numbers."""
    env = {key: value for key, value in os.environ.items() if key != "EVAL_TOOLKIT_KERNEL"}
    done = subprocess.run(
        [sys.executable, "-c", prelude + INTERVAL],
        env=env | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    name, *numbers = done.stdout.split()
    return name, [float(number) for number in numbers]


@pytest.fixture(scope="module")
def usual_interval():
    return run_interval()


def test_default_backend_is_native_when_built(usual_interval):
    assert usual_interval[0] == ("numpy" if kernel.native is None else "native")


def test_environment_selects_numpy(usual_interval):
    name, numbers = run_interval(EVAL_TOOLKIT_KERNEL="numpy")
    assert name == "numpy"
    assert numbers == pytest.approx(usual_interval[1], abs=1e-12)


def test_the_package_works_without_the_extension(usual_interval):
    """``None`` in ``sys.modules`` makes the import fail as on a machine without a compiler."""
    prelude = "import sys; sys.modules['eval_toolkit._internal.kernel._native'] = None"
    name, numbers = run_interval(prelude)
    assert name == "numpy"
    assert numbers == pytest.approx(usual_interval[1], abs=1e-12)


def test_using_restores_the_backend():
    before = kernel.backend()
    with kernel.using("numpy"):
        assert kernel.backend() == "numpy"
    assert kernel.backend() == before


def test_using_native_needs_the_extension(monkeypatch):
    monkeypatch.setattr(kernel, "native", None)
    with pytest.raises(RuntimeError, match="the C kernel was not built"), kernel.using("native"):
        pass


def test_constants_of_the_twin_are_those_of_the_c_source():
    """Both sources hold the same arithmetic; a constant changed in one is a different draw."""
    header = Path(layouts.__file__).with_name("draws.h")
    if not header.exists():
        pytest.skip("an installed package has no C source")
    defined = dict(re.findall(r"#define (\w+) UINT64_C\((0x\w+)\)", header.read_text("utf-8")))
    assert len(defined) == 7
    for name, value in defined.items():
        assert getattr(_numpy, name) == int(value, 16)
