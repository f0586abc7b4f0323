import json

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.folds import (
    FoldValues,
    corrected_resampled_t,
    cross_validate_metric,
    cv_clt_ci,
)
from eval_toolkit.metrics import roc_auc


def accuracy(y, s):
    return float(((s >= 0.5) == y).mean())


def recall(y, s):
    if not y.any():
        raise UndefinedMetricError("recall is undefined: no positives")
    return float((s[y == 1] >= 0.5).mean())


def test_interval_uses_the_t_quantile_and_says_so():
    ci = cv_clt_ci([1.0, 2.0, 3.0])
    # t with 2 degrees of freedom at 0.975 is 4.302653 (any table).
    assert ci.ci_high - ci.point_estimate == pytest.approx(4.302653 / np.sqrt(3), abs=1e-6)
    assert (ci.method, ci.n_resamples) == ("cv_t", 3)


@pytest.mark.parametrize("value", [0.8, 0.0, 1.0])
def test_equal_folds_are_a_point_with_a_reason(value):
    ci = cv_clt_ci([value] * 5)
    assert ci.ci_low == ci.ci_high == ci.point_estimate == pytest.approx(value)
    assert "zero variance" in ci.reason
    result = corrected_resampled_t([value] * 5, n_train=80, n_test=20)
    assert (result.t, result.p_value, result.p_greater) == (None, None, None)
    assert result.ci_low == result.ci_high
    assert "zero variance" in result.reason
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "function", [cv_clt_ci, lambda x: corrected_resampled_t(x, n_train=8, n_test=2)]
)
def test_bad_folds_are_named(function):
    with pytest.raises(InvalidInputError, match="at least two folds"):
        function([0.8])
    with pytest.raises(InvalidInputError, match=r"fold_metrics\[1\] is nan"):
        function([0.8, np.nan])
    with pytest.raises(InvalidInputError, match="`fold_metrics` must be 1-D"):
        function([[0.8, 0.9]])


def test_correction_widens_by_the_test_share():
    x = [0.1, 0.3, 0.2, 0.5]
    plain = cv_clt_ci(x)
    corrected = corrected_resampled_t(x, n_train=75, n_test=25)
    ratio = (corrected.ci_high - corrected.ci_low) / (plain.ci_high - plain.ci_low)
    assert ratio == pytest.approx(np.sqrt(1 + 4 * 25 / 75))
    assert corrected.df == 3


def test_null_value_and_tails():
    x = [0.82, 0.85, 0.81, 0.84]
    result = corrected_resampled_t(x, n_train=75, n_test=25, null_value=0.9)
    assert result.t < 0
    assert result.p_greater == pytest.approx(1 - result.p_value / 2)
    assert result.null_value == 0.9


@pytest.mark.parametrize("name", ["n_train", "n_test"])
def test_sizes_are_positive(name):
    sizes = {"n_train": 10, "n_test": 10, name: 0}
    with pytest.raises(InvalidInputError, match=f"`{name}` is 0; it must be at least 1"):
        corrected_resampled_t([1, 2], **sizes)


def fold_sizes(y, k, *, stratified):
    sizes = []

    def record(labels, scores):
        sizes.append((len(labels), int(labels.sum())))
        return 0.0

    cross_validate_metric(y, np.zeros(len(y)), metric=record, k=k, stratified=stratified)
    return np.array(sizes).T


@pytest.mark.parametrize("stratified", [True, False])
def test_every_row_is_in_one_fold(stratified):
    y = np.random.default_rng(0).random(103) < 0.3
    rows, positives = fold_sizes(y, 10, stratified=stratified)
    assert (rows.sum(), positives.sum()) == (103, y.sum())
    assert np.ptp(rows) <= 1
    assert (np.ptp(positives) <= 1) == stratified


def test_same_seed_same_folds():
    rng = np.random.default_rng(0)
    y, s = rng.random(60) < 0.5, rng.random(60)
    one = cross_validate_metric(y, s, metric=accuracy, seed=7)
    assert (
        one.values.tolist() == cross_validate_metric(y, s, metric=accuracy, rng=7).values.tolist()
    )
    assert one.values.tolist() != cross_validate_metric(y, s, metric=accuracy).values.tolist()
    with pytest.raises(InvalidInputError, match="`seed` or `rng`, not both"):
        cross_validate_metric(y, s, metric=accuracy, seed=1, rng=1)


def test_an_undefined_fold_does_not_void_the_summary():
    y, s = [1, 1, 1, 0, 0, 0, 0, 0], [0.9, 0.8, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]
    folds = cross_validate_metric(y, s, metric=recall, k=4)
    assert len(folds) == 3
    assert folds.n_undefined == 1
    (fold,) = folds.reasons
    assert folds.reasons[fold] == "UndefinedMetricError: recall is undefined: no positives"
    assert sorted((*folds.fold_index, fold)) == [0, 1, 2, 3]
    assert sorted(folds) == [0.0, 1.0, 1.0]
    assert np.mean(folds) == pytest.approx(2 / 3)
    ci = cv_clt_ci(folds)
    assert (ci.n_resamples, ci.n_undefined) == (3, 1)
    payload = json.loads(json.dumps(folds.to_dict(), allow_nan=False))
    assert payload["values"][fold] is None
    assert len(payload["values"]) == 4
    assert corrected_resampled_t(folds, n_train=6, n_test=2).k == 3


def test_a_metric_that_is_not_finite_is_undefined():
    calls = iter([0.5, float("nan"), 0.6, float("inf")])
    folds = cross_validate_metric([0, 1] * 4, [0.5] * 8, metric=lambda y, s: next(calls), k=4)
    assert folds.values.tolist() == [0.5, 0.6]
    assert folds.reasons == {1: "the metric returned nan", 3: "the metric returned inf"}


def test_most_folds_undefined_is_an_error():
    with pytest.raises(InvalidInputError, match=r"undefined on 3 of 4 folds.*on fold 0: Undefined"):
        cross_validate_metric([0] * 7 + [1], [0.5] * 8, metric=recall, k=4)


def test_unexpected_errors_of_a_metric_propagate():
    with pytest.raises(KeyError):
        cross_validate_metric([0, 1] * 4, [0.5] * 8, metric=lambda y, s: {}["oops"])


@pytest.mark.parametrize(("k", "message"), [(1, "at least 2"), (9, "must not exceed the 8 rows")])
def test_number_of_folds(k, message):
    with pytest.raises(InvalidInputError, match=message):
        cross_validate_metric([0, 1] * 4, [0.5] * 8, metric=accuracy, k=k)


def test_fold_values_cannot_be_changed_through_their_array():
    folds = FoldValues(np.array([0.5, 0.6]), (0, 1), 2, {})
    np.asarray(folds)[0] = 9.0
    assert folds.values[0] == 0.5
    assert np.asarray(folds, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("k", [3, 5, 10])
def test_an_interval_over_folds_uses_student_and_not_the_normal(k):
    """A normal quantile with a K-point sd covers 81 %, 88 %, 92 % for K = 3, 5, 10, not 95 %.

    1500 simulated sets of folds: ±0.0225 is four binomial standard errors.
    """
    folds = np.random.default_rng(k).normal(0.8, 0.05, size=(1500, k))
    intervals = [cv_clt_ci(row) for row in folds]
    covered = np.mean([ci.ci_low <= 0.8 <= ci.ci_high for ci in intervals])
    assert covered == pytest.approx(0.95, abs=0.0225)
    reach = 1.959964 * folds.std(axis=1, ddof=1) / np.sqrt(k)
    with_normal_quantile = np.mean(np.abs(folds.mean(axis=1) - 0.8) <= reach)
    assert with_normal_quantile == pytest.approx({3: 0.81, 5: 0.88, 10: 0.92}[k], abs=0.04)


def test_one_undefined_fold_does_not_void_the_summary():
    """Four positives in five folds: one fold has one class, and the others still count."""
    y = np.zeros(50, dtype=int)
    y[:4] = 1
    folds = cross_validate_metric(y, np.sin(np.arange(50)), metric=roc_auc, k=5)
    assert folds.n_undefined == 1
    ci = cv_clt_ci(folds)
    assert ci.n_resamples == 4
    assert ci.n_undefined == 1
    assert ci.point_estimate == np.mean(folds.values)
    assert ci.ci_low < ci.ci_high
