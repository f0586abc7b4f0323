import json

import numpy as np
import pytest

import eval_toolkit.inference.paired_tests as module
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.paired_tests import mcnemar_from_table, mcnemar_test, sign_flip_test


def test_delta_is_b_minus_a():
    a = [1] * 3 + [0] * 5 + [1] * 2
    b = [0] * 3 + [1] * 5 + [1] * 2
    result = mcnemar_test(a, b)
    assert (result.n_01, result.n_10, result.n) == (5, 3, 10)
    assert result.delta == pytest.approx(0.2)
    assert result == mcnemar_from_table([[0, 5], [3, 2]])
    assert mcnemar_test(b, a).delta == pytest.approx(-0.2)
    assert mcnemar_test(b, a).p_value == result.p_value


def test_exact_has_no_statistic():
    assert mcnemar_from_table([[1, 4], [9, 1]]).statistic is None
    assert mcnemar_from_table([[1, 4], [9, 1]], method="mid-p").statistic is None
    assert mcnemar_from_table([[1, 4], [9, 1]], method="chi2").statistic == pytest.approx(25 / 13)


def test_correction_does_not_turn_a_tie_into_a_difference():
    result = mcnemar_from_table([[1, 4], [4, 1]], method="chi2-corrected")
    assert (result.statistic, result.p_value) == (0.0, 1.0)


@pytest.mark.parametrize("method", ["exact", "mid-p"])
def test_no_discordant_units_is_no_evidence(method):
    assert mcnemar_from_table([[5, 0], [0, 5]], method=method).p_value == 1.0


@pytest.mark.parametrize("method", ["chi2", "chi2-corrected"])
def test_no_discordant_units_has_no_chi_squared(method):
    result = mcnemar_from_table([[5, 0], [0, 5]], method=method)
    assert (result.statistic, result.p_value) == (None, None)
    assert "no discordant units" in result.reason
    json.dumps(result.to_dict(), allow_nan=False)


def test_huge_tables_keep_their_tail():
    result = mcnemar_from_table([[0, 40_000], [60_000, 0]], method="mid-p")
    assert 0.0 <= result.p_value < 1e-300


@pytest.mark.parametrize("table", [[[1, -1], [2, 3]], [[1, 0.5], [2, 3]], [[0, 0], [0, 0]]])
def test_bad_tables_are_shown(table):
    with pytest.raises(InvalidInputError, match=r"`table` is .* whole numbers >= 0, not all zero"):
        mcnemar_from_table(table)


def test_bad_arguments_are_named():
    with pytest.raises(InvalidInputError, match=r"`table` must be of shape \(2, 2\), got \(4,\)"):
        mcnemar_from_table([1, 2, 3, 4])
    with pytest.raises(InvalidInputError, match="`method` is 'fisher'"):
        mcnemar_test([0, 1], [1, 1], method="fisher")
    with pytest.raises(InvalidInputError, match=r"correct_b\[0\] is 3; labels must be 0 or 1"):
        mcnemar_test([0, 1], [3, 1])
    with pytest.raises(InvalidInputError, match="`correct_a` has 2 rows but `correct_b` has 3"):
        mcnemar_test([0, 1], [0, 1, 1])


def test_sign_flip_says_what_it_did():
    a, b = [0.2, 0.3, 0.1], [0.3, 0.5, 0.4]
    result = sign_flip_test(a, b)
    assert result.delta == pytest.approx(0.2)
    assert (result.p_value, result.method, result.n_permutations) == (0.25, "exact", 8)
    assert (result.n_units, result.n_groups) == (3, None)
    assert sign_flip_test(a, b, alternative="greater").p_value == 0.125
    assert sign_flip_test(a, b, alternative="less").p_value == 1.0
    json.dumps(result.to_dict(), allow_nan=False)


def test_groups_flip_as_a_whole():
    a, b = np.zeros(30), np.ones(30)
    groups = np.repeat(["x", "y", "z"], 10)
    result = sign_flip_test(a, b, groups=groups)
    # Three groups have eight sign patterns, two of them as extreme as the data.
    assert (result.p_value, result.n_groups, result.n_units) == (0.25, 3, 30)


def test_groups_without_a_difference_do_not_count():
    a = np.zeros(500)
    b = np.concatenate([np.ones(4), np.zeros(496)])
    result = sign_flip_test(a, b)
    assert (result.method, result.p_value) == ("exact", 0.125)


def test_no_difference_at_all():
    result = sign_flip_test([1, 2, 3], [1, 2, 3])
    assert (result.delta, result.p_value) == (0.0, 1.0)


def test_rounding_does_not_break_ties_among_patterns():
    """0.1 + 0.2 and 0.3 are equal totals; an exact p-value must see them as equal."""
    a = np.zeros(3)
    b = np.array([0.1, 0.2, -0.3])
    assert sign_flip_test(a, b).p_value == 1.0
    assert sign_flip_test(a, b, alternative="greater").p_value == 5 / 8


def continuous_pair(n=40):
    rng = np.random.default_rng(0)
    a = rng.normal(size=n)
    return a, a + rng.normal(0.2, 1.0, size=n)


def test_monte_carlo_p_value_is_never_zero():
    a = np.random.default_rng(0).random(40)
    result = sign_flip_test(a, a + 1.0 + a, n_permutations=99)
    assert (result.p_value, result.method, result.n_permutations) == (0.01, "monte-carlo", 99)


def test_same_seed_same_p_value():
    a, b = continuous_pair()
    assert sign_flip_test(a, b, seed=3) == sign_flip_test(a, b, rng=3)
    assert sign_flip_test(a, b, seed=3) != sign_flip_test(a, b, seed=4)


@pytest.mark.parametrize("values", ["continuous", "binary"])
def test_memory_is_bounded_and_chunks_agree(values, monkeypatch):
    a, b = continuous_pair(200)
    if values == "binary":
        a, b = a > 0, b > 0
    whole = sign_flip_test(a, b, n_permutations=4000)
    monkeypatch.setattr(module, "_CHUNK_CELLS", 1000)
    parts = sign_flip_test(a, b, n_permutations=4000)
    assert parts.n_permutations == 4000
    assert parts.p_value == pytest.approx(whole.p_value, abs=0.05)


def test_bad_sign_flip_arguments_are_named():
    with pytest.raises(InvalidInputError, match="`alternative` is 'both'"):
        sign_flip_test([1, 2], [2, 3], alternative="both")
    with pytest.raises(InvalidInputError, match="`n_permutations` is 0; it must be at least 1"):
        sign_flip_test([1, 2], [2, 3], n_permutations=0)
    with pytest.raises(InvalidInputError, match="`a` has 2 rows but `b` has 1"):
        sign_flip_test([1, 2], [2])


def test_mid_p_of_a_tie_is_below_one():
    result = mcnemar_from_table([[1, 5], [5, 1]], method="mid-p")
    assert result.p_value == pytest.approx(1 - 252 / 1024 / 2, rel=1e-12)


def test_unusable_tables_are_named():
    with pytest.raises(InvalidInputError, match=r"`table` must be of shape \(2, 2\), got rows of"):
        mcnemar_from_table([[1, 2], [3]])
    with pytest.raises(
        InvalidInputError, match=r"table\[0\] is .*'1'.*; `table` must contain numbers"
    ):
        mcnemar_from_table([["1", "2"], ["3", "4"]])
