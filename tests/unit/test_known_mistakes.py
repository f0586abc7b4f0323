"""Mistakes of earlier tools of this kind, and that ours does not make them.

The names carry the numbers of the specification's list of wrong or misleading results (21.2).
"""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import bootstrap_ci, paired_bootstrap_diff
from eval_toolkit.inference.delong import delong_roc_variance
from eval_toolkit.inference.folds import cross_validate_metric, cv_clt_ci
from eval_toolkit.metrics import pr_auc, roc_auc


@pytest.mark.parametrize("k", [3, 5, 10])
def test_21_2_2_an_interval_over_folds_uses_student_and_not_the_normal(k):
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


def test_21_2_3_one_undefined_fold_does_not_void_the_summary():
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


@pytest.mark.filterwarnings("default")  # scikit-learn warns about one class; errors would raise
@pytest.mark.parametrize(
    ("ours", "foreign"),
    [
        (roc_auc, roc_auc_score),  # NaN on one class
        (pr_auc, average_precision_score),  # 0.0 or 1.0 on one class
        (roc_auc, lambda y, s: 1.0 if y.min() == y.max() else roc_auc_score(y, s)),
    ],
)
def test_21_2_11_one_class_draws_are_undefined_whatever_a_metric_answers(ours, foreign, recwarn):
    """scikit-learn's metrics do not raise on one class; the draws are counted all the same."""
    y = np.arange(60) < 4  # 1.6 % of the draws have no positive
    s = np.random.default_rng(2).random(60) + 0.3 * y
    expected = bootstrap_ci(y, s, ours, n_resamples=300, method="BCa")
    ci = bootstrap_ci(y, s, foreign, n_resamples=300, method="BCa")
    assert ci.n_undefined == expected.n_undefined > 0
    assert (ci.ci_low, ci.ci_high) == pytest.approx((expected.ci_low, expected.ci_high))
    by_default = bootstrap_ci(y, s, foreign, n_resamples=300)
    assert by_default.n_undefined == expected.n_undefined
    rarer = np.arange(60) < 2  # 13 %: too many, and too few to say anything of
    with pytest.raises(UndefinedMetricError, match="2 positive rows"):
        bootstrap_ci(rarer, s, foreign, n_resamples=64)
    diff = paired_bootstrap_diff(y, s, s**2 + 0.1 * y, foreign, n_resamples=192)
    assert diff.n_undefined > 0
    assert not recwarn.list, "no one-class draw was shown to the metric"


@pytest.mark.parametrize("method", ["BCa", "percentile", "studentized"])
def test_21_2_13_perfect_separation_has_an_interval(method):
    """The best model is not the one without an interval."""
    y = np.arange(100) >= 80
    ci = bootstrap_ci(y, np.arange(100) / 100, pr_auc, method=method)
    assert (ci.point_estimate, ci.ci_high) == (1.0, 1.0)
    assert ci.ci_low == pytest.approx(0.025 ** (1 / 20))
    assert ci.method == "exact-degenerate"


def test_21_2_18_delong_and_the_paired_bootstrap_have_one_sign():
    """Both differences are B − A: positive when B is better."""
    y = np.arange(200) % 2
    worse = np.random.default_rng(1).normal(0.5 * y)
    better = np.random.default_rng(2).normal(2.0 * y)
    delong = delong_roc_variance(y, worse, better)
    bootstrap = paired_bootstrap_diff(y, worse, better, roc_auc)
    assert delong.delta_auc == pytest.approx(bootstrap.delta)
    assert delong.delta_auc > 0
    assert delong.ci_low > 0
    assert bootstrap.ci_low > 0
    assert (delong.ci_low, delong.ci_high) == pytest.approx(
        (bootstrap.ci_low, bootstrap.ci_high), abs=0.02
    )
