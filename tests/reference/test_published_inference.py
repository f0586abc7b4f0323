"""Published numbers, reproduced from the published inputs beside the repository."""

import csv
import json

import numpy as np
import pytest
from scipy import stats

from eval_toolkit.inference.clustered import ols_cluster
from eval_toolkit.inference.delong import delong_ci, delong_roc_variance
from eval_toolkit.inference.folds import corrected_resampled_t
from eval_toolkit.inference.means import paired_mean_diff
from eval_toolkit.inference.paired_tests import mcnemar_from_table
from eval_toolkit.inference.proportions import wilson_interval


@pytest.fixture(scope="module")
def published(shared_data):
    cases = json.loads((shared_data / "reference" / "reference_cases_public.json").read_text())
    return {case["id"]: pytest.approx(case["expected"], abs=case["tolerance"]) for case in cases}


def columns(path):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.fixture(scope="module")
def asah(shared_data):
    """Aneurysmal subarachnoid haemorrhage (pROC): outcome and three predictors."""
    data = columns(shared_data / "stats" / "aSAH.csv")
    scores = {name: data[name].astype(float) for name in ("wfns", "s100b", "ndka")}
    return data["outcome"] == "Poor", scores


def test_delong_auc(published, asah):
    outcome, scores = asah
    aucs = [delong_ci(outcome, scores[name]).point_estimate for name in ("wfns", "ndka")]
    assert aucs == published["delong-auc"]


def test_delong_interval(published, asah):
    outcome, scores = asah
    ci = delong_ci(outcome, scores["ndka"], transform="none")
    assert [ci.ci_low, ci.ci_high] == published["delong-ci"]


def test_delong_paired(published, asah):
    """The published difference is wfns − s100b; ours is B − A, hence A = s100b."""
    outcome, scores = asah
    result = delong_roc_variance(outcome, scores["s100b"], scores["wfns"])
    actual = [result.z, result.p_value, result.ci_low, result.ci_high]
    assert actual == published["delong-paired-1"]
    swapped = delong_roc_variance(outcome, scores["wfns"], scores["s100b"])
    assert [-swapped.z, swapped.p_value, -swapped.ci_high, -swapped.ci_low] == actual


def test_mcnemar_with_continuity_correction(published):
    result = mcnemar_from_table([[101, 121], [59, 33]], method="chi2-corrected")
    assert [result.statistic, result.p_value] == published["mcnemar-cc"]


def test_wilson_18_of_20(published):
    interval = wilson_interval(18, 20)
    assert [interval.low, interval.high] == published["wilson-18-20"]


def test_nadeau_bengio_of_the_scikit_learn_example(published, shared_data):
    data = columns(shared_data / "stats" / "sklearn_grid_search_stats_fold_auc.csv")
    rbf, second = data["model_rbf"].astype(float), data["model_second"].astype(float)
    corrected = corrected_resampled_t(rbf - second, n_train=90, n_test=10)
    uncorrected = paired_mean_diff(second, rbf)
    right_tail = stats.t.sf(uncorrected.t, uncorrected.df)
    assert corrected.df == 99
    actual = [corrected.t, corrected.p_greater, uncorrected.t, right_tail]
    assert actual == published["nadeau-bengio-sklearn"]


def test_petersen_clustered_standard_errors(published, shared_data):
    firm, year, x, y = np.loadtxt(shared_data / "stats" / "petersen_clustered_panel.txt").T
    fits = [
        ols_cluster(y, x),
        ols_cluster(y, x, groups=firm),
        ols_cluster(y, x, groups=year),
        ols_cluster(y, x, groups=firm, groups2=year),
    ]
    assert [fit.method for fit in fits] == ["HC1", "CR1", "CR1", "CR1-two-way"]
    assert [se for fit in fits for se in fit.se] == published["cluster-petersen"]
