"""Average precision, ROC-AUC and recall at a false positive rate, by hand."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.metrics import RecallAtFprResult, pr_auc, recall_at_fpr, roc_auc
from eval_toolkit.metrics.cumulative import score_groups

Y = [0, 0, 1, 1]
S = [0.1, 0.4, 0.35, 0.8]


def test_average_precision_by_hand() -> None:
    # From the top: 1/1 at recall 1/2, then 2/3 at recall 1.
    assert pr_auc(Y, S) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_constant_scores_give_prevalence_and_one_half() -> None:
    assert pr_auc([0, 0, 0, 1], [0.3] * 4) == 0.25
    assert roc_auc([0, 0, 0, 1], [0.3] * 4) == 0.5


def test_perfect_and_reversed_orders() -> None:
    assert pr_auc([0, 1], [0.1, 0.9]) == roc_auc([0, 1], [0.1, 0.9]) == 1.0
    assert roc_auc([0, 1], [0.9, 0.1]) == 0.0


def test_negative_zero_ties_with_zero() -> None:
    assert roc_auc([0, 1], [0.0, -0.0]) == 0.5


def test_partial_area_of_the_whole_curve_is_the_area() -> None:
    assert roc_auc(Y, S, max_fpr=1.0) == roc_auc(Y, S) == 0.75


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.1, math.nan])
def test_max_fpr_is_checked(bad: float) -> None:
    with pytest.raises(InvalidInputError, match=r"`max_fpr` is .*; it must lie in \(0, 1\]"):
        roc_auc(Y, S, max_fpr=bad)


@pytest.mark.parametrize("metric", [pr_auc, roc_auc])
class TestEmptyStrategy:
    def test_return_none(self, metric: Callable[..., Any]) -> None:
        assert metric([1, 1], [0.2, 0.7], empty_strategy="return_none") is None
        assert metric([], [], empty_strategy="return_none") is None

    def test_skipped_metric(self, metric: Callable[..., Any]) -> None:
        cell = metric([0, 0, 0], [0.2, 0.7, 0.1], empty_strategy="skipped_metric")
        assert cell == {
            "value": None,
            "status": "skipped",
            "reason": f"{metric.__name__} is undefined: all 3 rows are negative; "
            "it needs both classes",
            "details": {"n": 3, "n_positive": 0},
        }
        nothing = metric([], [], empty_strategy="skipped_metric")
        assert nothing["reason"] == f"{metric.__name__} is undefined: there are no rows"
        assert nothing["details"] == {"n": 0, "n_positive": 0}

    def test_a_defined_value_is_unchanged(self, metric: Callable[..., Any]) -> None:
        for strategy in ("return_none", "skipped_metric"):
            assert metric(Y, S, empty_strategy=strategy) == metric(Y, S)

    def test_raise_is_the_default(self, metric: Callable[..., Any]) -> None:
        with pytest.raises(UndefinedMetricError, match="all 2 rows are positive"):
            metric([1, 1], [0.2, 0.7])
        with pytest.raises(InvalidInputError, match="`y_true` is empty"):
            metric([], [])

    def test_only_undefined_numbers_are_forgiven(self, metric: Callable[..., Any]) -> None:
        with pytest.raises(InvalidInputError, match=r"y_score\[1\] is nan"):
            metric([0, 1], [0.5, math.nan], empty_strategy="return_none")
        with pytest.raises(InvalidInputError, match="`y_true` is empty"):
            metric([], [0.5], empty_strategy="return_none")

    def test_unknown_strategy(self, metric: Callable[..., Any]) -> None:
        with pytest.raises(InvalidInputError, match="`empty_strategy` is 'ignore'; choose one of"):
            metric(Y, S, empty_strategy="ignore")


class TestRecallAtFpr:
    def test_by_hand(self) -> None:
        assert recall_at_fpr(Y, S, 0.0) == RecallAtFprResult(0.8, 0.5, 0.0, 2, 0, 2)
        assert recall_at_fpr(Y, S, 0.5) == RecallAtFprResult(0.35, 1.0, 0.5, 2, 1, 1)

    def test_a_ceiling_that_is_an_exact_rate_is_met(self) -> None:
        y_true = [0] * 10 + [1]
        y_score = [*(0.1 * k for k in range(10)), 0.65]
        assert recall_at_fpr(y_true, y_score, 0.3).recall == 1.0

    def test_no_threshold_qualifies(self) -> None:
        result = recall_at_fpr([0, 1, 1], [0.9, 0.9, 0.2], 0.5)
        assert result == RecallAtFprResult(math.inf, 0.0, 0.0, 1, 0, 1)
        assert json.dumps(result.to_dict(), allow_nan=False).startswith('{"threshold": null')

    def test_false_positives_that_buy_nothing_are_not_taken(self) -> None:
        result = recall_at_fpr([1, 0, 0, 0, 0], [0.9, 0.8, 0.3, 0.2, 0.1], 0.5)
        assert (result.threshold, result.actual_fpr) == (0.9, 0.0)

    def test_counts_are_ints_without_weights_and_floats_with(self) -> None:
        plain = recall_at_fpr(Y, S, 0.5)
        assert all(type(count) is int for count in (plain.n_val_neg, plain.fp, plain.tn))
        weighted = recall_at_fpr(Y, S, 0.5, sample_weight=[0.5, 0.25, 1.0, 1.0])
        assert (weighted.n_val_neg, weighted.fp, weighted.tn) == (0.75, 0.25, 0.5)

    @pytest.mark.parametrize("bad", [-0.01, 1.01, math.nan, "a tenth"])
    def test_the_target_is_checked(self, bad: float) -> None:
        with pytest.raises(InvalidInputError, match="`target_fpr`"):
            recall_at_fpr(Y, S, bad)


def test_score_groups_drop_rows_without_weight() -> None:
    groups = score_groups(
        np.array([True, False, True]), np.array([0.9, 0.5, 0.1]), np.array([2.0, 0.0, 0.5])
    )
    assert groups.thresholds.tolist() == [0.9, 0.1]
    assert (groups.tp.tolist(), groups.fp.tolist()) == ([2.0, 2.5], [0.0, 0.0])
    assert (groups.n_positive, groups.n_negative) == (2.5, 0.0)
