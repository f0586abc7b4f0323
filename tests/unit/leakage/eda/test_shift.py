"""Shift between two samples: each measure against its definition written out, and invariances."""

import itertools
import json
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from sklearn.neighbors import NearestNeighbors
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.leakage.eda import discrepancy
from eval_toolkit.leakage.eda.discrepancy import maximum_mean_discrepancy, median_bandwidth
from eval_toolkit.leakage.eda.shift import distribution_shift, knn_purity, proxy_a_distance
from eval_toolkit.seeds import derive_seed

seeds = st.integers(0, 2**32 - 1)


def drawn(seed, n_a=12, n_b=9, d=3, shift=0.7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_a, d)), rng.normal(size=(n_b, d)) + shift


# ---- Proxy A-distance -------------------------------------------------------------------------


def ridge_logistic(x, y, c):
    """Minimise ½‖w‖² + c Σ log(1 + exp(−y wᵀx)) by Newton's method; the intercept is a column."""
    x = np.column_stack([x, np.ones(len(x))])
    w = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(y * (x @ w)))
        gradient = w - c * x.T @ (y * p)
        hessian = np.eye(len(w)) + c * (x * (p * (1 - p))[:, None]).T @ x
        w = w - np.linalg.solve(hessian, gradient)
    assert np.abs(gradient).max() < 1e-10
    return w


@pytest.mark.parametrize("c", [0.1, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_distance_equals_leave_one_pair_out_written_out(seed, c):
    # With as many folds as rows a side, fold i holds rows i of both sides, whatever the seed.
    n = 10
    a, b = drawn(seed, n, n)
    wrong = np.zeros(2)
    for held in range(n):
        kept = np.arange(n) != held
        x = np.concatenate([a[kept], b[kept]])
        centre, spread = x.mean(axis=0), x.std(axis=0)
        w = ridge_logistic((x - centre) / spread, np.repeat([1.0, -1.0], n - 1), c)
        value_a, value_b = (
            np.append((row - centre) / spread, 1.0) @ w for row in (a[held], b[held])
        )
        wrong += value_a < 0, value_b > 0
    found = proxy_a_distance(a, b, c=c, n_folds=n, seed=seed)
    assert [found.error_a, found.error_b] == (wrong / n).tolist()
    assert found.error == pytest.approx(wrong.sum() / (2 * n))
    assert found.distance == pytest.approx(max(0.0, 2 * (1 - 2 * found.error)))


@settings(max_examples=20)
@given(seeds)
def test_distance_is_symmetric_and_knows_no_units(seed):
    a, b = drawn(seed)
    found = proxy_a_distance(a, b, n_folds=3)
    swapped = proxy_a_distance(b, a, n_folds=3)
    assert (swapped.error_a, swapped.error_b) == (found.error_b, found.error_a)
    units = np.array([1000.0, 0.01, 3.0])
    assert proxy_a_distance(a * units + 5.0, b * units + 5.0, n_folds=3) == found


def test_samples_of_different_sizes_without_a_shift_are_near_zero():
    # A constant answer errs on 1/11 of all rows, which unbalanced would be a distance of 1.64.
    a, b = drawn(4, 600, 60, d=2, shift=0.0)
    assert proxy_a_distance(a, b).distance < 0.4


def test_ends_of_the_range():
    a, _ = drawn(5, 20, 20)
    same = proxy_a_distance(a, a, n_resamples=500)
    assert (same.distance, same.error) == (0.0, 0.5)
    assert same.ci.ci_low == 0.0 < same.ci.ci_high < 1.0
    apart = proxy_a_distance(a, a + 50.0, n_resamples=500)
    assert (apart.distance, apart.error) == (2.0, 0.0)
    assert 1.5 < apart.ci.ci_low < apart.ci.ci_high == 2.0
    # Every row of A lies among B and the other way round: worse than chance is no shift either.
    worse = proxy_a_distance([[0.0], [4.0]], [[1.0], [3.0]], n_folds=2)
    assert worse.distance >= 0.0


def test_interval_is_that_of_two_rates():
    # With the error rates drawn exactly, the mean of two Jeffreys posteriors has this spread.
    a, b = drawn(6, 300, 200, shift=0.5)
    found = proxy_a_distance(a, b, n_resamples=20_000)
    spread = 0.0
    for rate, n in ((found.error_a, 300), (found.error_b, 200)):
        alpha, beta = rate * n + 0.5, (1 - rate) * n + 0.5
        spread += alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1))
    half = 1.96 * 4 * math.sqrt(spread) / 2
    assert found.ci.ci_low == pytest.approx(found.distance - half, abs=0.02)
    assert found.ci.ci_high == pytest.approx(found.distance + half, abs=0.02)


def test_hardly_any_penalty_is_no_warning():
    # Warnings are errors here; liblinear gives up on this one.
    a, b = drawn(12, 100, 60, d=30, shift=0.5)
    assert 0.0 < proxy_a_distance(a, b, c=1e6).distance < 2.0


def test_constant_columns_are_no_feature():
    a, b = drawn(7)
    constant = [np.column_stack([side, np.full(len(side), 0.1)]) for side in (a, b)]
    assert proxy_a_distance(*constant) == proxy_a_distance(a, b)
    only = proxy_a_distance(np.full((8, 2), 0.1), np.full((6, 2), 0.1))
    assert (only.distance, only.error_a, only.error_b) == (0.0, 0.5, 0.5)


# ---- Maximum mean discrepancy -----------------------------------------------------------------


def kernel(x, y, width):
    return math.exp(-sum((p - q) ** 2 for p, q in zip(x, y, strict=True)) / (2 * width**2))


def mmd_squared(a, b, width):
    """The unbiased estimate by loops over pairs."""
    n, m = len(a), len(b)
    aa = sum(kernel(a[i], a[j], width) for i in range(n) for j in range(n) if i != j)
    bb = sum(kernel(b[i], b[j], width) for i in range(m) for j in range(m) if i != j)
    ab = sum(kernel(x, y, width) for x in a for y in b)
    return aa / (n * (n - 1)) + bb / (m * (m - 1)) - 2 * ab / (n * m)


@settings(max_examples=25)
@given(seeds, st.sampled_from([0.3, 1.0, 4.0]))
def test_discrepancy_equals_the_double_loop_and_is_invariant(seed, width):
    a, b = drawn(seed, 7, 5)
    value = maximum_mean_discrepancy(a, b, bandwidth=width, n_permutations=0).mmd_squared
    assert value == pytest.approx(mmd_squared(a, b, width), abs=1e-12)
    for x, y, sigma in ((b, a, width), (a + 1e4, b + 1e4, width), (a * 8, b * 8, width * 8)):
        other = maximum_mean_discrepancy(x, y, bandwidth=sigma, n_permutations=0)
        assert other.mmd_squared == pytest.approx(value, abs=1e-9)
        assert other.p_value is None


@pytest.mark.parametrize(("n_a", "n_b", "shift"), [(3, 3, 0.0), (4, 3, 1.0), (3, 5, 0.4)])
def test_p_value_is_that_of_all_splits(n_a, n_b, shift):
    a, b = drawn(n_a, n_a, n_b, shift=shift)
    pooled = np.concatenate([a, b])
    found = maximum_mean_discrepancy(a, b, bandwidth=1.5, n_permutations=20_000)
    values = []
    for chosen in itertools.combinations(range(n_a + n_b), n_a):
        rest = [i for i in range(n_a + n_b) if i not in chosen]
        values.append(mmd_squared(pooled[list(chosen)], pooled[rest], 1.5))
    exact = np.mean(np.array(values) >= values[0] - 1e-12)
    assert found.p_value == pytest.approx(exact, abs=5 * math.sqrt(exact * (1 - exact) / 20_000))


def test_p_value_counts_the_observed_split():
    a, b = drawn(0, 30, 30, shift=3.0)
    assert maximum_mean_discrepancy(a, b, n_permutations=99).p_value == 1 / 100
    assert maximum_mean_discrepancy(a, a, n_permutations=99).p_value == 1.0


@pytest.mark.parametrize("n", [1, 255, 257, 600])
def test_draws_do_not_depend_on_the_block(n, monkeypatch):
    a, b = drawn(3, 15, 10, shift=0.3)
    options = {"n_permutations": n, "n_resamples": n}
    whole = maximum_mean_discrepancy(a, b, **options)
    assert whole.p_value * (n + 1) == pytest.approx(round(whole.p_value * (n + 1)))
    assert whole.ci.n_resamples == n
    monkeypatch.setattr(discrepancy, "_BLOCK", 10_000)
    assert maximum_mean_discrepancy(a, b, n_permutations=n).p_value == whole.p_value


@pytest.mark.parametrize(("width", "kernel_apart"), [(1e-300, 0.0), (1e-160, 0.0), (1e300, 1.0)])
def test_extreme_bandwidths_have_their_limits(width, kernel_apart):
    # Equal rows have the kernel 1 at any width; others tend to 0 or 1. Both sides have one such
    # pair of six, and 6 of the 16 pairs across are equal.
    x = [[0.0], [0.0], [1.0], [2.0]]
    found = maximum_mean_discrepancy(x, x, bandwidth=width, n_permutations=9)
    within, across = ((1 + 5 * kernel_apart) / 6, (6 + 10 * kernel_apart) / 16)
    assert found.mmd_squared == pytest.approx(2 * within - 2 * across, abs=1e-12)
    assert found.p_value == 1.0


@pytest.mark.parametrize("factor", [1e-300, 1e-170, 1e99])
def test_units_do_not_matter(factor):
    a, b = drawn(5, 20, 15, shift=0.5)
    plain, scaled = (maximum_mean_discrepancy(a * f, b * f, n_permutations=50) for f in (1, factor))
    assert scaled.bandwidth == pytest.approx(plain.bandwidth * factor)
    assert scaled.mmd_squared == pytest.approx(plain.mmd_squared, abs=1e-12)
    assert scaled.p_value == plain.p_value
    purities = [knn_purity(a * f, b * f, k=3).purity for f in (1, factor)]
    assert purities[0] == pytest.approx(purities[1])


def test_one_matrix_of_all_pairs_is_held():
    a, b = np.random.default_rng(0).normal(size=(2, 750, 3))
    tracemalloc.start()
    try:
        maximum_mean_discrepancy(a, b, bandwidth=1.0, n_permutations=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * 1500**2 * 8


def test_resamples_pair_no_row_with_its_copies():
    # Two rows a side: every draw that has a pair holds both rows, so all draws are the estimate.
    a, b = drawn(1, 2, 2)
    found = maximum_mean_discrepancy(a, b, n_resamples=200, n_permutations=0)
    assert found.ci.ci_low == pytest.approx(found.mmd_squared, abs=1e-12)
    assert found.ci.ci_high == pytest.approx(found.mmd_squared, abs=1e-12)


def test_equal_rows_need_no_bandwidth():
    found = maximum_mean_discrepancy([[2.0]] * 3, [[2.0]] * 4, n_permutations=99)
    assert (found.mmd_squared, found.p_value, found.bandwidth) == (pytest.approx(0.0), 1.0, None)


def test_rows_that_differ_and_were_not_drawn():
    # Of 1200 rows 1000 are drawn: of 12 seeds some leave out the only one that differs
    # (none with probability (5/6)^12, 11 %; these do).
    a, b = np.zeros((600, 1)), np.zeros((600, 1))
    b[0] = 3.0
    left_out = 0
    for seed in range(12):
        found = maximum_mean_discrepancy(a, b, n_permutations=0, seed=seed)
        assert found.bandwidth == 3.0
        try:
            median_bandwidth(np.concatenate([a, b]), seed=derive_seed(seed, "median bandwidth"))
        except UndefinedMetricError:
            left_out += 1
    assert left_out > 0


@settings(max_examples=25)
@given(seeds, st.integers(2, 15))
def test_median_bandwidth_equals_the_median_of_all_distances(seed, n):
    x = drawn(seed, n)[0]
    width = median_bandwidth(x)
    assert width == pytest.approx(np.median(pdist(x)), rel=1e-9)
    assert median_bandwidth(x + 100.0) == pytest.approx(width, rel=1e-9)
    assert median_bandwidth(x * 7.0) == pytest.approx(7.0 * width, rel=1e-9)


def test_median_bandwidth_of_many_rows_and_of_copies():
    x = drawn(2, 400)[0]
    near = [median_bandwidth(x, max_samples=100, seed=seed) for seed in (1, 1, 2)]
    assert near[0] == near[1] != near[2]
    assert near == pytest.approx([np.median(pdist(x))] * 3, rel=0.1)
    assert median_bandwidth([[0.0]] * 9 + [[4.0]]) == 4.0
    for rows in ([[1.0, 2.0]] * 5, [[1.0]]):
        with pytest.raises(UndefinedMetricError, match="rows are equal"):
            median_bandwidth(rows)


# ---- Neighbours -------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 5, 19])
def test_purity_equals_nearest_neighbours(k):
    a, b = drawn(8, 700, 40)
    found = knn_purity(a, b, k=k)
    pooled, side = np.concatenate([a, b]), np.repeat([0, 1], [700, 40])
    near = NearestNeighbors(n_neighbors=k).fit(pooled).kneighbors(return_distance=False)
    own = (side[near] == side[:, None]).mean(axis=1)
    assert found.purity == pytest.approx(own.mean())
    assert (found.purity_a, found.purity_b) == pytest.approx((own[:700].mean(), own[700:].mean()))


def shared_places(pooled, side, k):
    """Own-side share of k neighbours, where rows that tie for the last places share them."""
    shares = []
    for i, row in enumerate(pooled):
        far = [(sum((p - q) ** 2 for p, q in zip(row, other, strict=True)), side[j] == side[i])
               for j, other in enumerate(pooled) if j != i]  # fmt: skip
        last = sorted(far)[k - 1][0]
        nearer = [own for distance, own in far if distance < last]
        tied = [own for distance, own in far if distance == last]
        places = k - len(nearer)
        shares.append((sum(nearer) + Fraction(places * sum(tied), len(tied))) / k)
    return float(sum(shares) / len(shares))


rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=8)


@given(rows, rows, st.integers(1, 3))
def test_ties_share_the_last_places(a, b, k):
    found = knn_purity(a, b, k=k)
    side = [0] * len(a) + [1] * len(b)
    assert found.purity == pytest.approx(shared_places([*a, *b], side, k))
    assert knn_purity(b[::-1], a, k=k).purity == pytest.approx(found.purity)


def test_ties_of_rows_that_are_not_integers():
    # Copies of a row on both sides, with coordinates that sum differently in another order.
    a = np.random.default_rng(0).normal(size=(30, 50)) / 3.0
    found = knn_purity(np.concatenate([a, a]), np.concatenate([a, a]), k=3)
    assert found.purity == pytest.approx(1 / 3)  # of its three copies one is on its own side


def test_expected_purity_is_the_mean_over_all_splits():
    pooled = drawn(9, 7)[0]
    values = []
    for chosen in itertools.combinations(range(7), 3):
        rest = [i for i in range(7) if i not in chosen]
        values.append(knn_purity(pooled[list(chosen)], pooled[rest], k=2).purity)
    assert knn_purity(pooled[:3], pooled[3:], k=2).expected == pytest.approx(np.mean(values))


# ---- Together, and what is refused ------------------------------------------------------------


def test_together_they_are_the_three():
    a, b = drawn(10, 30, 20)
    found = distribution_shift(
        a, b, c=1.0, n_folds=4, bandwidth=2.0, n_permutations=50, k=3, n_resamples=40, rng=5
    )
    assert found.proxy_a == proxy_a_distance(a, b, c=1.0, n_folds=4, n_resamples=40, seed=5)
    assert found.discrepancy == maximum_mean_discrepancy(
        a, b, bandwidth=2.0, n_permutations=50, n_resamples=40, seed=5
    )
    assert found.neighbours == knn_purity(a, b, k=3)
    payload = found.to_dict()
    assert json.loads(json.dumps(payload, allow_nan=False)) == payload
    assert payload["proxy_a"]["ci"]["method"] == "Jeffreys draws"


def test_a_generator_is_asked_once_per_call():
    a, b = drawn(11, 30, 20, shift=0.2)
    rng = np.random.default_rng(3)
    first, second = (distribution_shift(a, b, n_permutations=200, rng=rng) for _ in range(2))
    assert first != second
    assert first == distribution_shift(a, b, n_permutations=200, rng=np.random.default_rng(3))


def test_any_table_of_numbers_will_do():
    a, b = [[1, 2], [3, 5], [2, 2]], [[True, 0], [1.5, None]]
    assert knn_purity(a, b[:1], k=1) == knn_purity(np.array(a, np.float32), [[1, 0]], k=1)
    with pytest.raises(InvalidInputError, match=r"x_b\[1, 1\] is nan; features must be finite"):
        knn_purity(a, b)


OK = [[0.0, 1.0], [2.0, 3.0], [1.0, 1.0], [4.0, 0.0], [2.0, 2.0]]
FUNCTIONS = [proxy_a_distance, maximum_mean_discrepancy, knn_purity, distribution_shift]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([*OK, [1.0, math.nan]], r"x_b\[5, 1\] is nan; features must be finite"),
        ([[math.inf, 0.0], *OK], r"x_b\[0, 0\] is inf; features must be finite"),
        ([*OK, [-1e200, 0.0]], r"x_b\[5, 0\] is -1e\+200; features must lie within"),
        ([*OK, [1.0]], "`x_b` must be 2-D, got rows of different lengths"),
        ([*OK, ["1", 2.0]], r"x_b\[5, 0\] is '1'; features must be numbers"),
        ([0.0, 1.0], r"`x_b` has shape \(2,\); .* x.reshape\(-1, 1\)"),
        (np.empty((0, 2)), r"`x_b` has shape \(0, 2\)"),
        ([[1.0]] * 6, "`x_a` has 2 columns but `x_b` has 1"),
        (np.ma.masked_equal(OK, 4.0), r"x_b\[3, 0\] is masked"),
    ],
)
def test_features_that_are_refused(function, wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        function(OK, wrong)


@each(
    ("function", "options", "error", "message"),
    [
        (
            proxy_a_distance,
            {"n_folds": 6},
            InvalidInputError,
            r"`x_a` has too few rows \(5\); 6 folds need",
        ),
        (proxy_a_distance, {"n_folds": 1}, InvalidInputError, "`n_folds` is 1"),
        (proxy_a_distance, {"c": 0.0}, InvalidInputError, "`c` is 0.0"),
        (proxy_a_distance, {"n_resamples": -1}, InvalidInputError, "`n_resamples` is -1"),
        (proxy_a_distance, {"seed": 1, "rng": 2}, InvalidInputError, "not both"),
        (maximum_mean_discrepancy, {"bandwidth": 0.0}, InvalidInputError, "`bandwidth` is 0.0"),
        (maximum_mean_discrepancy, {"n_permutations": 1.5}, InvalidTypeError, "`n_permutations`"),
        (maximum_mean_discrepancy, {"confidence": 0}, InvalidInputError, "`confidence` is 0"),
        (knn_purity, {"k": 0}, InvalidInputError, "`k` is 0"),
        (knn_purity, {"k": 10}, InvalidInputError, "at most 9, since there are 10 rows"),
    ],
)
def test_options_that_are_refused(function, options, error, message):
    with pytest.raises(error, match=message):
        function(OK, OK, **options)


def test_sizes_that_are_refused(monkeypatch):
    with pytest.raises(
        InvalidInputError, match=r"`x_b` has too few rows \(1\); the discrepancy needs"
    ):
        maximum_mean_discrepancy(OK, [[0.0, 0.0]])
    monkeypatch.setattr(discrepancy, "MOST_ROWS", 9)
    for function in (maximum_mean_discrepancy, knn_purity):
        with pytest.raises(InvalidInputError, match="10 rows in total"):
            function(OK, OK)
    with pytest.raises(InvalidInputError, match="`max_samples` is 1"):
        median_bandwidth(OK, max_samples=1)
