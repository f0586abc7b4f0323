import json

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.clustered import cluster_robust_se, ols_cluster

RNG = np.random.default_rng(0)
X = RNG.normal(size=40)
Y = 1.0 + 2.0 * X + RNG.normal(size=40)
GROUPS = np.repeat(np.arange(10), 4)


def test_intercept_comes_first():
    fit = ols_cluster(Y, X)
    slope, intercept = np.polyfit(X, Y, 1)
    assert fit.coef == pytest.approx((intercept, slope))
    assert len(ols_cluster(Y, X, add_intercept=False).coef) == 1


def test_the_result_says_how_it_was_made():
    assert ols_cluster(Y, X).method == "HC1"
    assert ols_cluster(Y, X, correction=False).method == "HC0"
    one = ols_cluster(Y, X, groups=GROUPS)
    assert (one.method, one.n_groups, one.df) == ("CR1", (10,), 9)
    two = ols_cluster(Y, X, groups=GROUPS, groups2=np.tile(np.arange(4), 10))
    assert (two.method, two.n_groups, two.df) == ("CR1-two-way", (10, 4), 3)
    payload = json.loads(json.dumps(two.to_dict(), allow_nan=False))
    assert payload["n_groups"] == [10, 4]


def test_clusters_of_one_are_white():
    clustered = ols_cluster(Y, X, groups=np.arange(40))
    # G/(G−1)·(n−1)/(n−k) is n/(n−k) when every row is its own cluster.
    assert clustered.se == pytest.approx(ols_cluster(Y, X).se)


def test_the_same_key_twice_is_one_key():
    once = ols_cluster(Y, X, groups=GROUPS)
    twice = ols_cluster(Y, X, groups=GROUPS, groups2=GROUPS)
    assert twice.se == pytest.approx(once.se)


def test_negative_two_way_variance_falls_back_to_the_larger_key():
    """Each cell of the crossed design cancels its neighbours, so only the intersection varies."""
    values = np.array([1.0, -1.0, -1.0, 1.0])
    rows, columns = [0, 0, 1, 1], [0, 1, 0, 1]
    noisy = values + np.array([0.1, 0.0, 0.0, 0.0])
    one_way = [cluster_robust_se(noisy, key) for key in (rows, columns)]
    assert cluster_robust_se(noisy, rows, groups2=columns) == pytest.approx(max(one_way))
    fit = ols_cluster(noisy, np.ones(4), groups=rows, groups2=columns, add_intercept=False)
    assert "larger one-way variance" in fit.reason
    assert fit.se[0] == pytest.approx(max(one_way))


def test_a_perfect_fit_has_no_t_test():
    fit = ols_cluster(3.0 * X, X, add_intercept=False)
    assert fit.t == (None,)
    assert fit.p_value == (None,)
    assert "standard error is zero" in fit.reason


def test_string_groups():
    names = np.array([f"g{i}" for i in GROUPS])
    assert cluster_robust_se(Y, names) == cluster_robust_se(Y, GROUPS)


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError, match="`X` has 39 rows but `y` has 40"):
        ols_cluster(Y, X[:-1])
    with pytest.raises(InvalidInputError, match=r"X\[:, 1\]\[3\] is inf"):
        ols_cluster([1, 2, 3, 4], [[1, 2], [2, 1], [3, 3], [4, np.inf]])
    with pytest.raises(InvalidInputError, match=r"linearly dependent .*besides the intercept"):
        ols_cluster(Y, np.ones(40))
    with pytest.raises(InvalidInputError, match=r"`X` are linearly dependent$"):
        ols_cluster(Y, np.column_stack([X, 2 * X]), add_intercept=False)
    with pytest.raises(InvalidInputError, match="2 rows are too few to estimate 2 coefficients"):
        ols_cluster([1, 2], [1, 3])
    with pytest.raises(InvalidInputError, match="`groups2` requires `groups`"):
        ols_cluster(Y, X, groups2=GROUPS)
    with pytest.raises(InvalidInputError, match=r"`X` must be of shape \(n,\) or \(n, k\)"):
        ols_cluster(Y, np.ones((40, 1, 1)))


def test_one_cluster_is_undefined():
    with pytest.raises(UndefinedMetricError, match="`groups2` has only one cluster"):
        cluster_robust_se(Y, GROUPS, groups2=np.zeros(40))


def test_ragged_and_textual_regressors_are_named():
    with pytest.raises(InvalidInputError, match=r"`X` must be of shape .*, got rows of different"):
        ols_cluster([1.0, 2.0, 3.0], [[1, 2], [3], [4, 5]])
    with pytest.raises(InvalidInputError, match=r"X\[:, 0\]\[0\] is .*'1'.* must contain numbers"):
        ols_cluster([1.0, 2.0, 3.0], ["1", "2", "3"])
