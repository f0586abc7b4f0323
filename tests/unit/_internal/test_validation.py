"""Messages name the argument, the row, the rule and the value: they are the contract."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.support.each import each

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError

# --- vectors -----------------------------------------------------------------------------------

CONTAINERS = [
    list,
    tuple,
    np.array,
    pd.Series,
    pl.Series,
    lambda values: np.array(values, dtype=np.float32),
    lambda values: np.array(values, dtype=object),
    lambda values: pd.Series(values, index=range(5, 5 + len(values))),
]


@each("container", CONTAINERS)
def test_any_container_of_numbers(container):
    array = validation.vector(container([0.5, 0.25, 1.0]), "y_score")
    assert array.tolist() == [0.5, 0.25, 1.0]
    assert array.dtype == np.float64


def test_float64_is_not_copied():
    values = np.array([0.1, 0.2])
    assert validation.vector(values, "y_score") is values


@each(
    ("values", "message"),
    [
        ([], "`y_score` is empty; at least one row is needed"),
        (0.5, r"`y_score` must be 1-D, got shape \(\)"),
        (
            [[0.1, 0.9], [0.2, 0.8]],
            r"`y_score` must be 1-D, got shape \(2, 2\); pass the positive-class column, e\.g\. prob",
        ),
        ([[[0.1]]], r"got shape \(1, 1, 1\)$"),
        ([0.1, 0.2, float("nan")], r"y_score\[2\] is nan; `y_score` must be finite"),
        ([0.1, float("-inf")], r"y_score\[1\] is -inf; `y_score` must be finite"),
        ([0.1, None], r"y_score\[1\] is nan; `y_score` must be finite"),
        ([0.1, "x"], r"y_score\[1\] is 'x'; `y_score` must contain numbers"),
        (["0.1", "0.2"], r"y_score\[0\] is '0\.1'; `y_score` must contain numbers"),
        ([0.1, "0.2"], r"y_score\[1\] is '0\.2'; `y_score` must contain numbers"),
        (np.array(["0.1"]), r"y_score\[0\] is '0\.1'; `y_score` must contain numbers"),
        ([b"0.1"], r"y_score\[0\] is b'0\.1'; `y_score` must contain numbers"),
        (
            np.array([0.1, "0.2"], dtype=object),
            r"y_score\[1\] is '0\.2'; `y_score` must contain num",
        ),
        (np.array(["2020-01-01"], dtype="M8[ns]"), r"y_score\[0\] is .*2020.*must contain numbers"),
        (np.array([0.1, pd.NA], dtype=object), r"y_score\[1\] is <NA>; `y_score` must contain num"),
        ([10**400], r"y_score\[0\] is 10+; `y_score` must contain numbers"),
        (
            np.ma.masked_array([0.1, 0.2, 0.3], mask=[False, False, True]),
            r"y_score\[2\] is masked; every entry needs a value",
        ),
        (
            np.array([0.1, "x"], dtype=object),
            r"y_score\[1\] is 'x'; `y_score` must contain numbers",
        ),
        ([1 + 2j], r"y_score\[0\] is .*1\+2j.*; `y_score` must contain numbers"),
        ([[0.1, 0.2], [0.3]], "`y_score` must be 1-D"),
    ],
)
def test_unusable_vectors(values, message):
    with pytest.raises(InvalidInputError, match=message):
        validation.vector(values, "y_score")


def test_a_mask_that_hides_nothing():
    values = np.ma.masked_array([0.1, 0.2], mask=[False, False])
    assert validation.vector(values, "y_score").tolist() == [0.1, 0.2]


@pytest.mark.parametrize("name", ["groups", "y_true", "sample_weight"])
def test_only_scores_have_a_positive_class_column(name):
    with pytest.raises(InvalidInputError, match=rf"`{name}` must be 1-D, got shape \(1, 2\)$"):
        validation.vector([[0.1, 0.9]], name)


# --- labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [0, 1, 1],
        [False, True, True],
        [0.0, 1.0, 1.0],
        np.array([0, 1, 1], dtype=np.uint8),
        np.array([0, 1.0, True], dtype=object),
        pd.Series([0, 1, 1], dtype="Int64"),
        pl.Series([0, 1, 1]),
    ],
)
def test_labels_in_any_form(values):
    labels = validation.binary_labels(values)
    assert labels.tolist() == [False, True, True]
    assert labels.dtype == np.bool_


@each(
    ("values", "message"),
    [
        ([0, 1, 2], r"y_true\[2\] is 2; labels must be 0 or 1"),
        ([0, -1], r"y_true\[1\] is -1; labels must be 0 or 1"),
        ([0.0, 0.7], r"y_true\[1\] is .*0\.7.*; labels must be 0 or 1"),
        ([0.0, float("nan")], r"y_true\[1\] is .*nan.*; labels must be 0 or 1"),
        (["0", "1"], r"y_true\[0\] is .*'0'.*; labels must be 0 or 1"),
        ([1, None], r"y_true\[1\] is None; labels must be 0 or 1"),
        (np.array([1, pd.NA], dtype=object), r"y_true\[1\] is <NA>; labels must be 0 or 1"),
        (np.ma.masked_array([0, 1], mask=[True, False]), r"y_true\[0\] is masked"),
        ([], "`y_true` is empty"),
        ([[0, 1]], r"`y_true` must be 1-D"),
    ],
)
def test_unusable_labels(values, message):
    with pytest.raises(InvalidInputError, match=message):
        validation.binary_labels(values)


def test_name_of_the_labels():
    with pytest.raises(InvalidInputError, match=r"test_y\[0\] is 3"):
        validation.binary_labels([3], "test_y")


# --- pairs -------------------------------------------------------------------------------------


def test_pair_lengths():
    message = "`y_true` has 2 rows but `y_score_b` has 3; they must describe the same rows"
    with pytest.raises(InvalidInputError, match=message):
        validation.binary_pair([0, 1], [0.1, 0.2, 0.3], score_name="y_score_b")


@pytest.mark.parametrize("bad", [-0.1, 1.5])
def test_probabilities(bad):
    labels, scores = validation.probability_pair([0, 1], [0.0, 1.0])
    assert (labels.tolist(), scores.tolist()) == ([False, True], [0.0, 1.0])
    message = rf"y_score\[1\] is {bad}; `y_score` must be a probability in \[0, 1\] \(apply a sig"
    with pytest.raises(InvalidInputError, match=message):
        validation.probability_pair([0, 1], [0.5, bad])


# --- weights -----------------------------------------------------------------------------------


def test_weights():
    assert validation.sample_weights(None, 3) is None
    assert validation.sample_weights([1, 0, 2], 3).tolist() == [1.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "`sample_weight` has 2 rows but `y_true` has 3"),
        ([1, -2, 1], r"sample_weight\[1\] is -2\.0; weights must not be negative"),
        ([0, 0, 0], "`sample_weight` is all zero; at least one weight must be positive"),
        ([1, np.nan, 1], r"sample_weight\[1\] is nan"),
    ],
)
def test_unusable_weights(weights, message):
    with pytest.raises(InvalidInputError, match=message):
        validation.sample_weights(weights, 3)


# --- classes -----------------------------------------------------------------------------------


def test_both_classes():
    validation.both_classes(np.array([True, False]), "pr_auc")
    message = "pr_auc is undefined: all 2 rows are negative; it needs both classes"
    with pytest.raises(UndefinedMetricError, match=message):
        validation.both_classes(np.array([False, False]), "pr_auc")
    weights = np.array([1.0, 0.0])
    with pytest.raises(UndefinedMetricError, match="all 1 rows are positive"):
        validation.both_classes(np.array([True, False]), "pr_auc", weights)


# --- groups ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "groups",
    [
        ["b", "a", "b"],
        [2, 1, 2],
        np.array(["b", "a", "b"], dtype=object),
        pd.Series(["b", "a", "b"], dtype="category"),
        pl.Series(["b", "a", "b"]),
        np.array(["2020-01-02", "2020-01-01", "2020-01-02"], dtype="M8[D]"),
    ],
)
def test_group_codes_are_sorted(groups):
    codes, n_groups = validation.group_codes(groups, 3)
    assert (codes.tolist(), n_groups) == ([1, 0, 1], 2)
    assert codes.dtype == np.int64


@each(
    "groups",
    [
        ["a", None, "b"],
        [1.0, float("nan"), 2.0],
        pd.Series(["a", None, "b"]),
        pd.array(["a", pd.NA, "b"], dtype="string"),
        ["0", float("nan"), "1"],
        ("0", pd.NA, 1),
        np.array([1, np.nan, "1"], dtype=object),
        np.array(["2020-01-02", "NaT", "2020-01-02"], dtype="M8[D]"),
    ],
)
def test_missing_group(groups):
    message = r"groups\[1\] is missing; every row needs a group id"
    with pytest.raises(InvalidInputError, match=message):
        validation.group_codes(groups, 3)


@pytest.mark.parametrize("container", [list, lambda ids: np.array(ids, dtype=object)])
def test_groups_of_several_types(container):
    # Numbers first, then strings; what Python calls equal is one group.
    codes, n_groups = validation.group_codes(container([1, "1", 10, 1.0, "b", 2, np.int64(1)]), 7)
    assert (codes.tolist(), n_groups) == ([0, 3, 2, 0, 4, 1, 0], 5)


def test_codes_do_not_depend_on_the_order_of_the_rows():
    ids = ["b", 2, "a", 1.5, ("x", 1), ("a", 2), True, frozenset({1})]
    codes, n_groups = validation.group_codes(np.array([*ids, None], dtype=object)[:-1], len(ids))
    backwards, _ = validation.group_codes(np.array([*ids[::-1], None], dtype=object)[:-1], len(ids))
    assert n_groups == len(ids)
    assert codes.tolist() == backwards[::-1].tolist()


def test_large_integers_stay_apart():
    assert validation.group_codes([2**63, 2**63 + 1, -1], 3)[1] == 3  # floats would merge the first


def test_unhashable_and_two_dimensional_groups():
    with pytest.raises(
        InvalidInputError, match=r"groups\[0\] is \['a'\]; `groups` must contain str"
    ):
        validation.group_codes([["a"], ["b", "c"]], 2)
    with pytest.raises(InvalidInputError, match=r"`groups` must be 1-D, got shape \(2, 1\)$"):
        validation.group_codes([["a"], ["b"]], 2)
    with pytest.raises(InvalidInputError, match=r"groups\[1\] is masked"):
        validation.group_codes(np.ma.masked_array([1, 2], mask=[False, True]), 2)


def test_number_of_groups():
    with pytest.raises(InvalidInputError, match="`strata` has 2 rows but the data has 3"):
        validation.group_codes(["a", "b"], 3, "strata")


# --- scalars -----------------------------------------------------------------------------------


def test_numbers():
    assert validation.number(3, "x") == 3.0
    assert validation.number(np.float32(0.5), "x", low=0.5, high=0.5) == 0.5


@pytest.mark.parametrize(
    ("value", "limits", "message"),
    [
        (float("nan"), {}, "`x` is nan; it must be finite"),
        (float("inf"), {}, "`x` is inf; it must be finite"),
        (2, {"low": 0.0, "high": 1.0}, r"`x` is 2; it must lie in \[0, 1\]"),
        (0, {"low": 0.0, "include_low": False}, r"`x` is 0; it must lie in \(0, inf\)"),
        (1, {"high": 1.0, "include_high": False}, r"`x` is 1; it must lie in \(-inf, 1\)"),
    ],
)
def test_numbers_outside(value, limits, message):
    with pytest.raises(InvalidInputError, match=message):
        validation.number(value, "x", **limits)


@each("value", ["abc", "0.5", b"1", np.str_("1"), None, [1], 1j, 10**400])
def test_not_a_number(value):
    with pytest.raises(InvalidTypeError, match="`x` must be a number, got"):
        validation.number(value, "x")


@pytest.mark.parametrize("value", [0.0, 1.0, -1, 95])
def test_fractions_are_strictly_inside(value):
    assert validation.fraction(0.95, "confidence") == 0.95
    with pytest.raises(InvalidInputError, match=r"`confidence` is .*; it must lie in \(0, 1\)"):
        validation.fraction(value, "confidence")


def test_integers():
    assert validation.integer(np.int8(3), "n") == 3
    assert type(validation.integer(np.int8(3), "n")) is int
    with pytest.raises(InvalidInputError, match="`n` is 0; it must be at least 1"):
        validation.integer(0, "n", low=1)


@pytest.mark.parametrize("value", [1.0, "1", True, np.True_, None])
def test_not_an_integer(value):
    with pytest.raises(InvalidTypeError, match="`n` must be an integer, got"):
        validation.integer(value, "n")


def test_choices():
    assert validation.choice("a", "x", ("a", "b")) == "a"
    with pytest.raises(InvalidInputError, match="`x` is 'c'; choose one of 'a', 'b'"):
        validation.choice("c", "x", ("a", "b"))
