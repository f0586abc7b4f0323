"""Stored predictions against scikit-learn on the same rows, and published DeLong values."""

import csv
import json

import numpy as np
import pytest
from sklearn import metrics as sk

from eval_toolkit.analysis import (
    bootstrap_metric_from_predictions,
    compare_records,
    paired_diff_from_prediction_refs,
    rows_at,
)
from eval_toolkit.artifacts import write_predictions
from eval_toolkit.scorecards import Records


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 300)
    scores = [
        np.round(np.clip(0.4 + 0.2 * labels + rng.normal(0, spread, 300), 0, 1), 2)
        for spread in (0.25, 0.15)
    ]
    return labels, scores


SKLEARN = {
    "pr_auc": sk.average_precision_score,
    "roc_auc": sk.roc_auc_score,
    "brier": sk.brier_score_loss,
    "op_f1_at_0.5": lambda y, s: sk.f1_score(y, s >= 0.5),
    "op_mcc_at_0.5": lambda y, s: sk.matthews_corrcoef(y, s >= 0.5),
    "roc_auc_max_fpr_0.1": lambda y, s: sk.roc_auc_score(y, s, max_fpr=0.1),
}


@pytest.mark.parametrize("name", SKLEARN)
def test_values_equal_scikit_learn(rows, tmp_path, name):
    labels, (a, b) = rows
    ids = [f"r{i}" for i in range(300)]
    order = np.random.default_rng(1).permutation(300)
    first = write_predictions(tmp_path / "a.csv", labels=labels, scores=a, row_ids=ids)
    second = write_predictions(
        tmp_path / "b.jsonl",
        labels=labels[order],
        scores=b[order],
        row_ids=[ids[i] for i in order],
    )
    expected = [SKLEARN[name](labels, values) for values in (a, b)]
    ci = bootstrap_metric_from_predictions(first, metric=name, n_resamples=20)
    assert ci["point_estimate"] == pytest.approx(expected[0], rel=1e-12)
    diff = paired_diff_from_prediction_refs(first, second, metric=name, n_resamples=20)
    assert diff["delta"] == pytest.approx(expected[1] - expected[0], rel=1e-9)
    records = [Records.from_rows(labels, values, unit_id=ids) for values in (a, b)]
    cell = compare_records({"t": records[0]}, {"t": records[1]}, [name], n_resamples=20).cells[0]
    assert [cell.value_a, cell.value_b] == pytest.approx(expected, rel=1e-12)


def test_rows_at_agree_with_the_roc_curve(rows, tmp_path):
    labels, (scores, _) = rows
    ref = write_predictions(tmp_path / "p.csv", labels=labels, scores=scores)
    fpr, tpr, thresholds = sk.roc_curve(labels, scores, drop_intermediate=False)
    for limit in (0.0, 0.05, 0.1, 0.5):
        found = rows_at(ref, max_fpr=limit)
        last = np.flatnonzero(fpr <= limit)[-1]
        assert found.threshold == (thresholds[last] if np.isfinite(thresholds[last]) else None)
        assert (found.fpr, found.recall) == pytest.approx((fpr[last], tpr[last]))
    precision, recall, thresholds = sk.precision_recall_curve(labels, scores)
    for floor in (0.6, 0.8, 0.9):
        found = rows_at(ref, min_precision=floor)
        first = np.flatnonzero(precision[:-1] >= floor)[0]
        assert found.threshold == thresholds[first]
        assert found.recall == pytest.approx(recall[first])


def test_delong_from_stored_predictions(shared_data, tmp_path):
    """aSAH (pROC): areas, and the paired test of wfns − s100b, as pROC's own tests publish them."""
    cases = json.loads((shared_data / "reference" / "reference_cases_public.json").read_text())
    published = {
        case["id"]: pytest.approx(case["expected"], abs=case["tolerance"]) for case in cases
    }
    with (shared_data / "stats" / "aSAH.csv").open(encoding="utf-8", newline="") as file:
        patients = list(csv.DictReader(file))
    refs = {
        name: write_predictions(
            tmp_path / f"{name}.csv",
            labels=[int(row["outcome"] == "Poor") for row in patients],
            scores=[float(row[name]) for row in patients],
            row_ids=[str(i) for i in range(len(patients))],
        )
        for name in ("wfns", "s100b", "ndka")
    }
    areas = [
        bootstrap_metric_from_predictions(refs[name], metric="roc_auc", method="delong")
        for name in ("wfns", "ndka")
    ]
    assert [area["point_estimate"] for area in areas] == published["delong-auc"]
    diff = paired_diff_from_prediction_refs(
        refs["s100b"], refs["wfns"], metric="roc_auc", method="delong"
    )
    _, p_value, low, high = published["delong-paired-1"].expected
    assert [diff["p_value"], diff["ci_low"], diff["ci_high"]] == pytest.approx(
        [p_value, low, high], abs=1e-8
    )
