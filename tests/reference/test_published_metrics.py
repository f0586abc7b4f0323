"""Values other projects publish for data of their own, reproduced to their printed precision."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit import metrics
from eval_toolkit.metrics.isotonic import pav
from eval_toolkit.metrics.probability import corp_decomposition


@pytest.fixture(scope="module")
def published(shared_data: Path) -> dict[str, Any]:
    text = (shared_data / "reference" / "reference_cases_public.json").read_text(encoding="utf-8")
    return {case["id"]: case for case in json.loads(text)}


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check(case: dict[str, Any], got: list[float]) -> None:
    assert got == pytest.approx(case["expected"], abs=case["tolerance"], rel=0)


def test_roc_auc_of_yardstick(published: dict[str, Any], shared_data: Path) -> None:
    rows = rows_of(shared_data / "stats" / "yardstick_two_class_example.csv")
    y_true = [row["truth"] == "Class1" for row in rows]
    y_score = [float(row["Class1"]) for row in rows]
    check(published["roc-auc-2c"], [metrics.roc_auc(y_true, y_score)])


def test_accuracy_and_kappa_of_yardstick(published: dict[str, Any], shared_data: Path) -> None:
    rows = rows_of(shared_data / "stats" / "yardstick_two_class_example.csv")
    truth = [row["truth"] for row in rows]
    predicted = [row["predicted"] for row in rows]
    counts = metrics.confusion_counts(
        [label == "Class1" for label in truth], [label == "Class1" for label in predicted], 0.5
    )
    check(published["acc-kappa-2c"], [counts.accuracy, metrics.cohen_kappa(truth, predicted)])
    assert counts.kappa == pytest.approx(metrics.cohen_kappa(truth, predicted), abs=1e-12)


def test_calibration_errors_of_torchmetrics(published: dict[str, Any]) -> None:
    y_true, y_score = [0, 0, 1, 1, 1], [0.25, 0.25, 0.55, 0.75, 0.75]
    got = [
        metrics.expected_calibration_error(y_true, y_score, 2),
        metrics.expected_calibration_error_l2(y_true, y_score, 2),
        metrics.maximum_calibration_error(y_true, y_score, n_bins=2, strategy="uniform"),
    ]
    check(published["ece-torchmetrics-binary"], got)


def test_score_decomposition_of_model_diagnostics(published: dict[str, Any]) -> None:
    """The published predictions leave [0, 1], so the core is asked and not the public function."""
    labels = np.array([False, False, True, True])
    parts = corp_decomposition(labels, np.array([-1.0, 1.0, 1.0, 2.0]), None)
    names = ("reliability", "resolution", "uncertainty", "brier")
    check(published["decompose-doc"], [parts[name] for name in names])


def test_isotonic_regression_of_sklearn(published: dict[str, Any]) -> None:
    values = np.array([3.0, 7.0, 5.0, 9.0, 8.0, 7.0, 10.0])
    check(published["isotonic-1"], pav(values).tolist())


def test_auc_of_proc(published: dict[str, Any], shared_data: Path) -> None:
    rows = rows_of(shared_data / "stats" / "aSAH.csv")
    y_true = [row["outcome"] == "Poor" for row in rows]
    scores = [[float(row[name]) for row in rows] for name in ("wfns", "ndka")]
    check(published["delong-auc"], [metrics.roc_auc(y_true, y_score) for y_score in scores])
