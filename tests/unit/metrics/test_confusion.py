"""Confusion counts, rates and decisions at one threshold."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.metrics import (
    DEFAULT_ASSUMED_PRIORS,
    ConfusionCounts,
    ThresholdResult,
    cohen_kappa,
    confusion,
    confusion_counts,
    metrics_at_threshold,
    net_benefit,
    precision_at_prior,
    single_class_threshold_metrics,
)

Y = [0, 0, 1, 1]
S = [0.1, 0.4, 0.35, 0.8]
CELLS = [(5, 1, 2, 4), (30, 20, 10, 40), (7, 0, 0, 3), (0, 3, 9, 0), (0, 5, 1, 2)]
RATES = [
    "precision",
    "recall",
    "specificity",
    "fpr",
    "fnr",
    "accuracy",
    "f1",
    "balanced_accuracy",
    "mcc",
    "kappa",
]


class TestFormulas:
    @each("rate", RATES)
    def test_one_formula_for_numbers_and_arrays(self, rate: str) -> None:
        of = getattr(confusion, f"{rate}_of")
        arrays = of(*np.array(CELLS, dtype=np.float64).T)
        rates = [getattr(ConfusionCounts(*cells), rate) for cells in CELLS]
        assert arrays.tolist() == pytest.approx(rates, rel=1e-15)
        assert all(type(value) is float for value in rates)

    @pytest.mark.parametrize("n", [7, 10**5, 3 * 10**9])
    def test_the_ends_of_mcc_are_exact(self, n: int) -> None:
        assert ConfusionCounts(tn=n, fp=0, fn=0, tp=3).mcc == 1.0
        assert ConfusionCounts(tn=0, fp=n, fn=3, tp=0).mcc == pytest.approx(-1.0, abs=1e-15)


class TestCounts:
    def test_positive_means_at_least_the_threshold(self) -> None:
        assert confusion_counts(Y, S, 0.4) == ConfusionCounts(tn=1, fp=1, fn=1, tp=1)

    def test_infinite_thresholds(self) -> None:
        assert confusion_counts(Y, S, math.inf) == ConfusionCounts(tn=2, fp=0, fn=2, tp=0)
        assert confusion_counts(Y, S, -math.inf) == ConfusionCounts(tn=0, fp=2, fn=0, tp=2)

    def test_ints_without_weights_floats_with(self) -> None:
        assert [type(n) for n in confusion_counts(Y, S, 0.4).to_dict().values()] == [int] * 4
        weighted = confusion_counts(Y, S, 0.4, sample_weight=[1, 2, 3, 4])
        assert weighted.to_dict() == {"tn": 1.0, "fp": 2.0, "fn": 3.0, "tp": 4.0}

    def test_thresholds_that_are_none(self) -> None:
        with pytest.raises(InvalidInputError, match="`threshold` is nan"):
            confusion_counts(Y, S, math.nan)
        for text in ("half", "0.5"):
            with pytest.raises(
                InvalidTypeError, match=f"`threshold` must be a number, got '{text}'"
            ):
                confusion_counts(Y, S, text)  # type: ignore[arg-type]

    def test_rates_by_hand(self) -> None:
        counts = ConfusionCounts(tn=5, fp=1, fn=2, tp=4)
        assert counts.precision == 4 / 5
        assert counts.recall == 4 / 6
        assert counts.specificity == 5 / 6
        assert counts.fpr == 1 / 6
        assert counts.fnr == 2 / 6
        assert counts.accuracy == 9 / 12
        assert counts.f1 == 8 / 11
        assert counts.balanced_accuracy == (4 / 6 + 5 / 6) / 2
        assert counts.mcc == pytest.approx((4 * 5 - 1 * 2) / math.sqrt(6 * 6 * 5 * 7))
        assert counts.kappa == pytest.approx((9 / 12 - 0.5) / 0.5)

    @pytest.mark.parametrize(
        ("counts", "undefined"),
        [
            ((3, 0, 2, 0), {"precision", "mcc"}),
            ((3, 1, 0, 0), {"recall", "fnr", "balanced_accuracy", "mcc"}),
            ((0, 0, 1, 2), {"specificity", "fpr", "balanced_accuracy", "mcc"}),
            (
                (4, 0, 0, 0),
                {"precision", "recall", "fnr", "f1", "balanced_accuracy", "mcc", "kappa"},
            ),
            ((0, 0, 0, 4), {"specificity", "fpr", "balanced_accuracy", "mcc", "kappa"}),
            ((0, 0, 0, 0), {"accuracy", "kappa", "f1"}),
        ],
    )
    def test_zero_denominators_raise(self, counts: tuple[int, ...], undefined: set[str]) -> None:
        table = ConfusionCounts(*counts)
        for name in undefined:
            with pytest.raises(UndefinedMetricError, match=f"{name} is undefined: "):
                getattr(table, name)

    def test_large_counts_do_not_overflow(self) -> None:
        huge = ConfusionCounts(tn=10**9, fp=10**8, fn=10**8, tp=10**9)
        assert huge.mcc == pytest.approx(huge.kappa) == pytest.approx(9 / 11)


class TestMetricsAtThreshold:
    def test_keys(self) -> None:
        assert list(metrics_at_threshold(Y, S, 0.4)) == [
            "threshold", "f1", "precision", "recall", "accuracy", "specificity",
            "balanced_accuracy", "mcc", "fpr", "fnr", "tn", "fp", "fn", "tp", "undefined",
        ]  # fmt: skip

    def test_nothing_undefined(self) -> None:
        at = metrics_at_threshold(Y, S, 0.4)
        assert (at["f1"], at["mcc"], at["undefined"]) == (0.5, 0.0, {})

    def test_zero_denominators_read_zero_and_say_so(self) -> None:
        at = metrics_at_threshold([0, 0], [0.1, 0.2], 0.5)
        assert at["undefined"].keys() == {
            "f1", "precision", "recall", "balanced_accuracy", "mcc", "fnr",
        }  # fmt: skip
        assert all(at[name] == 0.0 for name in at["undefined"])
        assert at["undefined"]["recall"] == "recall is undefined: there are no positives"
        assert (at["accuracy"], at["specificity"]) == (1.0, 1.0)

    def test_writes_strict_json(self) -> None:
        at = metrics_at_threshold(np.array(Y), np.array(S), np.float64(0.4))
        assert json.loads(json.dumps(at, allow_nan=False)) == at

    def test_nan_threshold(self) -> None:
        with pytest.raises(ValueError, match="`threshold` is nan"):
            metrics_at_threshold(Y, S, math.nan)


class TestSingleClass:
    def test_all_negative(self) -> None:
        got = single_class_threshold_metrics([0, 0, 0, 0], [0.1, 0.2, 0.5, 0.9], 0.5)
        assert got == {
            "threshold": 0.5, "n": 4, "n_positive": 0, "n_negative": 4, "tp": 0, "fp": 2, "tn": 2,
            "fn": 0, "slice_class": "all_negative", "fpr@threshold": 0.5,
            "specificity@threshold": 0.5,
        }  # fmt: skip

    def test_all_positive(self) -> None:
        got = single_class_threshold_metrics([1, 1], [0.1, 0.9], 0.5)
        assert (got["slice_class"], got["recall@threshold"]) == ("all_positive", 0.5)
        assert "fpr@threshold" not in got

    def test_both_classes_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"both classes \(2 of 4 positive\)"):
            single_class_threshold_metrics(Y, S, 0.5)


class TestPrecisionAtPrior:
    def test_bayes_by_hand(self) -> None:
        got = precision_at_prior(Y, S, 0.4, 0.1)
        assert got == {
            "tpr": 0.5, "fpr": 0.5, "eval_prior": 0.5, "assumed_prior": 0.1,
            "precision_at_eval_prior": 0.5, "precision_at_assumed_prior": pytest.approx(0.1),
            "threshold": 0.4,
        }  # fmt: skip

    def test_precision_at_the_own_prior_is_precision(self) -> None:
        y, s = [0, 0, 0, 1, 1], [0.1, 0.6, 0.2, 0.7, 0.8]
        got = precision_at_prior(y, s, 0.5, DEFAULT_ASSUMED_PRIORS[0])
        assert got["precision_at_eval_prior"] == pytest.approx(2 / 3)
        assert got["precision_at_assumed_prior"] == pytest.approx(0.001 / (0.001 + 0.999 / 3))

    def test_nothing_predicted_is_none_with_a_reason(self) -> None:
        got = precision_at_prior(Y, S, 2.0, 0.1)
        assert got["precision_at_eval_prior"] is got["precision_at_assumed_prior"] is None
        assert got["reason"] == "precision is undefined: no row is predicted positive"

    def test_refusals(self) -> None:
        for bad in (0.0, 1.0, -1, math.nan):
            with pytest.raises(InvalidInputError, match="`assumed_prior`"):
                precision_at_prior(Y, S, 0.5, bad)
        with pytest.raises(UndefinedMetricError, match="both classes"):
            precision_at_prior([1, 1], [0.1, 0.2], 0.5, 0.1)
        with pytest.raises(InvalidInputError, match="`threshold` is nan"):
            precision_at_prior(Y, S, math.nan, 0.1)

    def test_default_priors(self) -> None:
        assert DEFAULT_ASSUMED_PRIORS == (0.001, 0.01, 0.05)


class TestNetBenefit:
    def test_by_hand(self) -> None:
        # At 0.3: two true and one false positive of four; odds 3/7.
        assert net_benefit(Y, S, 0.3) == pytest.approx((2 - 3 / 7) / 4)

    def test_acting_on_nobody_is_worth_nothing(self) -> None:
        assert net_benefit(Y, S, 0.9) == 0.0

    @pytest.mark.parametrize("bad", [0.0, 1.0, math.inf, math.nan])
    def test_the_threshold_is_a_probability(self, bad: float) -> None:
        with pytest.raises(InvalidInputError, match=r"`threshold` is .* must lie in \(0, 1\)"):
            net_benefit(Y, S, bad)


class TestKappa:
    def test_strings_objects_and_numbers(self) -> None:
        a, b = ["x", "y", "z", "x"], ["x", "y", "x", "x"]
        expected = cohen_kappa(a, b)
        assert expected == pytest.approx(1 - 0.25 / (1 - (0.5 * 0.75 + 0.25 * 0.25)))
        assert cohen_kappa(pd.Series(a, dtype=object), pd.Series(b, dtype=object)) == expected
        codes = {"x": 7, "y": -1, "z": 3}
        assert cohen_kappa([codes[k] for k in a], [codes[k] for k in b]) == expected

    def test_perfect_and_opposite(self) -> None:
        assert cohen_kappa([0, 1, 1], [0, 1, 1]) == 1.0
        assert cohen_kappa([0, 1], [1, 0]) == -1.0

    def test_constant_raters(self) -> None:
        with pytest.raises(UndefinedMetricError, match="all labels in both vectors are the same"):
            cohen_kappa([1, 1], [1, 1])
        with pytest.raises(UndefinedMetricError, match="all labels in both vectors are the same"):
            cohen_kappa([1, 1, 0], [1, 1, 1], sample_weight=[0.3, 0.1, 0.0])
        assert cohen_kappa([1, 1], [0, 0]) == 0.0

    @pytest.mark.parametrize(
        ("a", "b", "message"),
        [
            ([1, 0], ["1", "0"], "`y_true` contains numbers but `y_pred` contains strings"),
            ([1, 0, 1], [1, 0], "`y_pred` has 2 rows"),
            ([], [], "`y_true` is empty"),
            ([[1], [0]], [1, 0], "`y_true` must be 1-D"),
            ([1.0, math.nan], [1, 0], r"y_true\[1\] is missing"),
            (["a", "b"], ["a", None], r"y_pred\[1\] is missing"),
        ],
    )
    def test_refusals(self, a: Any, b: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            cohen_kappa(a, b)


def test_threshold_result_writes_json() -> None:
    result = ThresholdResult(math.inf, 0.0, 0.0, 0.0, "fpr_0.01")
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["threshold"] is None
    assert ThresholdResult(0.5, 1.0, 1.0, 1.0, "max_f1").to_dict()["threshold"] == 0.5
