"""Agreement beside scikit-learn, statsmodels, the krippendorff package and published examples."""

import krippendorff
import numpy as np
import pytest
import sklearn.metrics as sk
from statsmodels.stats.inter_rater import cohens_kappa

from eval_toolkit.inference import kappa_interval
from eval_toolkit.inference.raters import judge_agreement
from eval_toolkit.metrics import cohen_kappa, krippendorff_alpha

WEIGHTS = (None, "linear", "quadratic")
LEVELS = ("nominal", "ordinal", "interval", "ratio")

# Krippendorff (2011), section C: four observers, twelve units, gaps.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def raters(rng, n_classes, n, agree=0.6):
    a = rng.integers(0, n_classes, n)
    return a, np.where(rng.random(n) < agree, a, rng.integers(0, n_classes, n))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_kappa_equals_scikit_learn(weights) -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        a, b = raters(rng, rng.integers(2, 6), 40)
        w = rng.random(40)
        expected = sk.cohen_kappa_score(a, b, weights=weights, sample_weight=w)
        got = cohen_kappa(a, b, weights=weights, sample_weight=w)
        assert got == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_standard_error_of_kappa_equals_statsmodels(weights) -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        n_classes = int(rng.integers(2, 5))
        a, b = raters(rng, n_classes, 80)
        table = np.zeros((n_classes, n_classes))
        np.add.at(table, (a, b), 1)
        theirs = cohens_kappa(table, wt=weights)
        ours = kappa_interval(
            a, b, weights=weights, labels=range(n_classes), method="analytic", confidence=0.9
        )
        reach = 1.6448536269514722 * theirs.std_kappa
        assert ours.point_estimate == pytest.approx(theirs.kappa, abs=1e-12)
        assert ours.ci_low == pytest.approx(theirs.kappa - reach, abs=1e-12)
        assert ours.ci_high == pytest.approx(min(1.0, theirs.kappa + reach), abs=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_alpha_equals_the_krippendorff_package(level) -> None:
    rng = np.random.default_rng(3)
    compared = 0
    while compared < 100:
        shape = rng.integers(2, 5), rng.integers(4, 30)
        ratings = rng.integers(0, 5, shape).astype(float)
        ratings[rng.random(shape) < 0.25] = np.nan
        paired = (~np.isnan(ratings)).sum(axis=0) >= 2
        if len(np.unique(ratings[:, paired][~np.isnan(ratings[:, paired])])) < 2:
            continue
        expected = krippendorff.alpha(reliability_data=ratings, level_of_measurement=level)
        assert krippendorff_alpha(ratings, level=level) == pytest.approx(expected, abs=1e-12)
        compared += 1


@pytest.mark.parametrize(
    ("level", "published"),
    [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)],
)
def test_krippendorff_s_published_example(level, published) -> None:
    assert krippendorff_alpha(OBSERVERS, level=level) == pytest.approx(published, abs=5e-4)


def test_cohen_s_kappa_of_a_published_table() -> None:
    # Fleiss, Levin & Paik (2003), table 18.1: 100 subjects, three diagnoses; kappa 0.68.
    table = np.array([[75, 1, 4], [5, 4, 1], [0, 0, 10]])
    a, b = np.repeat(np.indices((3, 3)).reshape(2, 9), table.ravel(), axis=1)
    assert cohen_kappa(a, b) == pytest.approx(0.676, abs=5e-4)
    # The same source: standard error 0.087.
    ci = kappa_interval(a, b, method="analytic")
    assert (ci.ci_high - ci.ci_low) / (2 * 1.96) == pytest.approx(0.087, abs=1e-3)


def test_confusion_of_a_judge_equals_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    judge, human = raters(rng, 2, 200, agree=0.7)
    result = judge_agreement(judge, human)
    assert np.array_equal(result.table, sk.confusion_matrix(human, judge))
    assert result.agreement.proportion == pytest.approx(sk.accuracy_score(human, judge))
    assert result.sensitivity.proportion == pytest.approx(sk.recall_score(human, judge))
    assert result.precision.proportion == pytest.approx(sk.precision_score(human, judge))
    assert result.specificity.proportion == pytest.approx(
        sk.recall_score(human, judge, pos_label=0)
    )
