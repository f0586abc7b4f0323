"""Curves as values: shapes, unpacking, JSON."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.metrics import calibration_curve, pr_auc, pr_curve, roc_auc, roc_curve
from eval_toolkit.metrics.binning import equal_width_index

Y = [0, 1, 0, 1, 1]
S = [0.1, 0.1, 0.4, 0.6, 0.9]


def test_roc_curve_keeps_collinear_points() -> None:
    fpr, tpr, thresholds = roc_curve([1, 1, 1, 0], [0.9, 0.8, 0.7, 0.1])
    assert fpr.tolist() == [0, 0, 0, 0, 1]
    assert tpr.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1, 1])
    assert thresholds.tolist() == [math.inf, 0.9, 0.8, 0.7, 0.1]


def test_areas_of_the_curves_are_the_metrics() -> None:
    fpr, tpr, _ = roc_curve(Y, S)
    assert np.trapezoid(tpr, fpr) == pytest.approx(roc_auc(Y, S))
    precision, recall, _ = pr_curve(Y, S)
    assert -np.sum(np.diff(recall) * precision[:-1]) == pytest.approx(pr_auc(Y, S))


def test_pr_curve_ends_in_precision_one_at_recall_zero() -> None:
    curve = pr_curve(Y, S)
    assert (curve.precision[-1], curve.recall[-1], curve.recall[0]) == (1.0, 0.0, 1.0)
    assert len(curve.thresholds) == len(curve.recall) - 1 == 4


@pytest.mark.parametrize("curve", [roc_curve, pr_curve])
def test_one_class_has_no_curve(curve: Callable[..., Any]) -> None:
    with pytest.raises(UndefinedMetricError, match="all 2 rows are negative"):
        curve([0, 0], [0.1, 0.2])


def test_curves_are_frozen() -> None:
    with pytest.raises(AttributeError):
        roc_curve(Y, S).fpr = np.zeros(1)  # type: ignore[misc]


def test_curves_write_strict_json() -> None:
    roc = json.loads(json.dumps(roc_curve(Y, S).to_dict(), allow_nan=False))
    assert roc["thresholds"][0] is None
    assert len(roc["fpr"]) == len(roc["tpr"]) == len(roc["thresholds"])
    assert json.loads(json.dumps(pr_curve(Y, S).to_dict(), allow_nan=False))["recall"][-1] == 0.0
    bins = calibration_curve(Y, S, n_bins=2).to_dict()
    assert json.loads(json.dumps(bins, allow_nan=False))["strategy"] == "quantile"


class TestCalibrationCurve:
    def test_edges_counts_and_means_belong_together(self) -> None:
        curve = calibration_curve([0, 1, 1, 1], [0.1, 0.15, 0.7, 1.0], strategy="uniform")
        assert curve.bin_lower.tolist() == [0.1, 0.7, 0.9]
        assert curve.bin_upper.tolist() == [0.2, 0.8, 1.0]
        assert curve.n.tolist() == [2.0, 1.0, 1.0]
        assert curve.mean_predicted.tolist() == [0.125, 0.7, 1.0]
        assert curve.fraction_positive.tolist() == [0.5, 1.0, 1.0]

    def test_unpacks_like_sklearn(self) -> None:
        prob_true, prob_pred = calibration_curve(Y, S, n_bins=2)
        assert prob_true.tolist() == [0.5, 2 / 3]
        assert prob_pred.tolist() == pytest.approx([0.1, 19 / 30])

    def test_equal_mass_cuts_at_whole_rows(self) -> None:
        n = calibration_curve([0, 1] * 7 + [0], np.linspace(0, 1, 15), n_bins=4).n
        assert n.tolist() == [3.0, 4.0, 4.0, 4.0]

    def test_ties_across_a_cut_are_shared_out_whatever_their_order(self) -> None:
        scores = [0.5] * 4
        for labels in ([0, 0, 1, 1], [1, 0, 1, 0], [1, 1, 0, 0]):
            assert calibration_curve(labels, scores, n_bins=2).fraction_positive.tolist() == [
                0.5,
                0.5,
            ]

    def test_decimal_edges_open_their_bin(self) -> None:
        tenths = np.arange(11) / 10
        assert equal_width_index(tenths, 10).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]
        hundredths = np.arange(101) / 100
        assert equal_width_index(hundredths, 100).tolist() == [*range(100), 99]

    def test_options_are_checked(self) -> None:
        with pytest.raises(InvalidInputError, match="`strategy` is 'kmeans'; choose one of"):
            calibration_curve(Y, S, strategy="kmeans")
        with pytest.raises(InvalidInputError, match="`n_bins` is 1; it must be at least 2"):
            calibration_curve(Y, S, n_bins=1)
        with pytest.raises(TypeError, match=r"`n_bins` must be an integer, got 2\.5"):
            calibration_curve(Y, S, n_bins=2.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="`n_bins` is 6 but there are only 5 rows"):
            calibration_curve(Y, S, n_bins=6)
