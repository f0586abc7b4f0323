"""Recall by stratum, quantile-trimmed average precision, score summaries, definedness."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.metrics import (
    SINGLE_CLASS_INCOMPATIBLE_METRICS,
    is_metric_defined_for_slice,
    pr_auc,
    quantile_stratified_pr_auc,
    quantile_stratified_report,
    score_distribution_summary,
    stratified_recall,
)
from eval_toolkit.metrics.catalogue import CATALOGUE
from eval_toolkit.metrics.wilson import wilson_bounds


class TestStratifiedRecall:
    Y, S = [1, 1, 1, 0, 1], [0.9, 0.2, 0.7, 0.1, 0.5]

    def test_by_hand(self) -> None:
        got = stratified_recall(self.Y, self.S, 0.5, ["b", "b", "a", "c", "a"])
        assert got == {
            "b": {"recall": 0.5, "n": 2, "tp": 1, "fn": 1},
            "a": {"recall": 1.0, "n": 2, "tp": 2, "fn": 0},
            "c": {
                "recall": None,
                "n": 0,
                "tp": 0,
                "fn": 0,
                "reason": "recall is undefined: there are no positives",
            },
        }
        assert list(got) == ["b", "a", "c"]

    @pytest.mark.parametrize(
        "strata",
        [
            ["a", None, "a", float("nan"), None],
            np.array(["a", None, "a", np.nan, None], dtype=object),
            pd.Series(["a", None, "a", None, None], dtype="string"),
            pd.Series(["a", pd.NA, "a", pd.NA, pd.NA], dtype=object),
        ],
    )
    def test_missing_strata_are_gathered(self, strata: Any) -> None:
        got = stratified_recall(self.Y, self.S, 0.5, strata)
        assert {name: cell["n"] for name, cell in got.items()} == {"a": 2, "unlabeled": 2}

    def test_numbers_name_strata_too(self) -> None:
        assert stratified_recall(self.Y, self.S, 0.5, [1, 1, 2, 2, 2])[1]["recall"] == 0.5

    def test_wilson_intervals(self) -> None:
        got = stratified_recall(
            self.Y, self.S, 0.5, ["b", "b", "a", "c", "a"], with_ci=True, confidence=0.9
        )
        assert (got["b"]["ci_low"], got["b"]["ci_high"]) == wilson_bounds(1, 2, 0.9)
        assert got["a"]["ci_high"] == 1.0
        assert got["c"]["ci_low"] is got["c"]["ci_high"] is None
        json.dumps(got, allow_nan=False)

    def test_refusals(self) -> None:
        with pytest.raises(InvalidInputError, match="`y_true` has 5 rows but `strata` has 2"):
            stratified_recall(self.Y, self.S, 0.5, ["a", "b"])
        with pytest.raises(InvalidInputError, match="`strata` must be 1-D"):
            stratified_recall(self.Y, self.S, 0.5, [["a"] * 5])
        with pytest.raises(InvalidInputError, match="`threshold` is nan"):
            stratified_recall(self.Y, self.S, math.nan, ["a"] * 5)
        with pytest.raises(InvalidInputError, match="`confidence` is 95"):
            stratified_recall(self.Y, self.S, 0.5, ["a"] * 5, confidence=95)


class TestQuantileStratified:
    _rng = np.random.default_rng(0)
    Y = _rng.integers(0, 2, 200)
    length = _rng.exponential(size=200)
    S = Y * (length > 2.0) + 0.5 * _rng.random(200)

    def test_keeps_rows_between_the_quantiles(self) -> None:
        got = quantile_stratified_pr_auc(self.Y, self.S, self.length, 0.1, 0.8)
        low, high = np.quantile(self.length, [0.1, 0.8])
        kept = (self.length >= low) & (self.length <= high)
        assert got == {
            "pr_auc": pr_auc(self.Y[kept], self.S[kept]),
            "n": kept.sum(),
            "n_positive": self.Y[kept].sum(),
            "n_negative": (1 - self.Y[kept]).sum(),
            "stratifier_low": low,
            "stratifier_high": high,
            "q_low": 0.1,
            "q_high": 0.8,
        }

    def test_report_flags_performance_from_the_extremes(self) -> None:
        report = quantile_stratified_report(self.Y, self.S, self.length)
        trimmed = quantile_stratified_pr_auc(self.Y, self.S, self.length)["pr_auc"]
        assert report["full"] == pr_auc(self.Y, self.S)
        assert (report["trimmed"], report["gap"]) == (trimmed, report["full"] - trimmed)
        assert report["gap_flag"] is True
        generous = quantile_stratified_report(self.Y, self.S, self.length, gap_threshold=0.9)
        assert generous["gap_flag"] is False

    def test_ten_of_each_class_are_needed(self) -> None:
        y, length = [0] * 30 + [1] * 9, list(range(39))
        with pytest.raises(
            UndefinedMetricError,
            match="9 positives and 30 negatives between the quantiles; it needs 10",
        ):
            quantile_stratified_pr_auc(y, y, length, 0.0, 1.0)

    def test_refusals(self) -> None:
        with pytest.raises(InvalidInputError, match=r"`q_low` is 0\.8; it must be below `q_high`"):
            quantile_stratified_pr_auc(self.Y, self.S, self.length, 0.8, 0.2)
        with pytest.raises(InvalidInputError, match="`q_high` is 2"):
            quantile_stratified_pr_auc(self.Y, self.S, self.length, 0.8, 2)
        with pytest.raises(InvalidInputError, match="`y_true` has 200 rows but `stratifier` has 9"):
            quantile_stratified_pr_auc(self.Y, self.S, self.length[:9])
        with pytest.raises(InvalidInputError, match=r"stratifier\[0\] is nan"):
            quantile_stratified_pr_auc(self.Y, self.S, [math.nan] * 200)


def test_score_summary_by_hand() -> None:
    assert score_distribution_summary([1, 2, 3, 10]) == {
        "n": 4,
        "mean": 4.0,
        "median": 2.5,
        "std": pytest.approx(math.sqrt((9 + 4 + 1 + 36) / 4)),
        "q25": 1.75,
        "q75": 4.75,
    }
    with pytest.raises(InvalidInputError, match="`scores` is empty"):
        score_distribution_summary([])
    with pytest.raises(InvalidInputError, match=r"scores\[1\] is inf"):
        score_distribution_summary([0.5, math.inf])


def test_definedness_by_name() -> None:
    assert frozenset({"auroc", "auprc", "pr_auc", "roc_auc"}) == SINGLE_CLASS_INCOMPATIBLE_METRICS
    assert not is_metric_defined_for_slice("auroc", is_single_class=True)
    assert is_metric_defined_for_slice("auroc", is_single_class=False)
    assert is_metric_defined_for_slice("brier", is_single_class=True)
    assert not is_metric_defined_for_slice(
        "mine", is_single_class=True, incompatible_metrics={"mine"}
    )


@each(
    "name",
    [
        *("AUROC", "Auroc", "ROC-AUC", "roc auc", "auc", "AUPRC", "Average Precision", "AP"),
        *("recall_at_fpr=0.01", "partial_roc_auc_0.1", "MCC", "balanced accuracy"),
        "calibration_slope",
    ],
)
def test_definedness_knows_names_in_every_spelling(name: str) -> None:
    assert not is_metric_defined_for_slice(name, is_single_class=True)
    assert is_metric_defined_for_slice(name, is_single_class=False)


def test_definedness_agrees_with_the_catalogue() -> None:
    """Expected: what each metric does on rows of one class."""
    for name, info in CATALOGUE.items():
        found = is_metric_defined_for_slice(name, is_single_class=True, on_unknown="raise")
        assert found is not info.needs_both_classes, name


def test_definedness_of_sets_of_ones_own_and_of_unknown_names() -> None:
    own = {"incompatible_metrics": {"roc_auc"}, "is_single_class": True}
    assert not is_metric_defined_for_slice("AUROC", **own)
    assert is_metric_defined_for_slice("pr_auc", **own)
    assert is_metric_defined_for_slice("mine", is_single_class=True)
    with pytest.raises(InvalidInputError, match="'mine', which is not in the catalogue"):
        is_metric_defined_for_slice("mine", is_single_class=True, on_unknown="raise")


def test_wilson_bounds_of_arrays_are_those_of_scalars() -> None:
    hits = np.array([0.0, 3.0, 7.0])
    low, high = wilson_bounds(hits, 7.0, 0.95)
    for k, pair in zip(hits, zip(low, high, strict=True), strict=True):
        assert pair == wilson_bounds(float(k), 7, 0.95)
    assert (low[0], high[-1]) == (0.0, 1.0)


class TestStrataOfAnyType:
    Y, S = [1, 1, 1], [0.9, 0.2, 0.7]

    def test_types_are_kept_apart(self) -> None:
        assert list(stratified_recall(self.Y, self.S, 0.5, [1, "1", 1])) == [1, "1"]

    def test_missing_strata_are_one(self) -> None:
        strata = [None, math.nan, pd.NA]
        got = stratified_recall(self.Y, self.S, 0.5, strata)
        assert got == {"unlabeled": {"recall": 2 / 3, "n": 3, "tp": 2, "fn": 1}}

    def test_unhashable_strata_are_refused(self) -> None:
        message = (
            r"strata\[1\] is \['b', 'c'\]; `strata` must contain strings, numbers or other hash"
        )
        with pytest.raises(InvalidInputError, match=message):
            stratified_recall(self.Y, self.S, 0.5, ["a", ["b", "c"], "d"])
