"""Our metrics as scikit-learn's scorers; the expected numbers are scikit-learn's own."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import get_scorer, make_scorer, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.svm import LinearSVC

from eval_toolkit import bootstrap_ci, metric_specs
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.integrations.sklearn import sklearn_scorer

X, Y = make_classification(240, 6, n_informative=3, weights=[0.7], flip_y=0.2, random_state=3)
MODEL = LogisticRegression().fit(X[:120], Y[:120])
REST = X[120:], Y[120:]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("pr_auc", "average_precision"),
        ("roc_auc", "roc_auc"),
        ("brier", "neg_brier_score"),
        ("log_loss", "neg_log_loss"),
        ("op_recall_at_0.5", make_scorer(recall_score)),
    ],
)
def test_equal_to_scikit_learns(ours: str, theirs: Any) -> None:
    expected = (get_scorer(theirs) if isinstance(theirs, str) else theirs)(MODEL, *REST)
    assert sklearn_scorer(ours)(MODEL, *REST) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_search_with_several_metrics(n_jobs: int) -> None:
    metrics = {"ap": sklearn_scorer("pr_auc"), "brier": sklearn_scorer(metric_specs.brier)}
    search = GridSearchCV(
        LogisticRegression(),
        {"C": [1e-4, 1.0]},
        scoring=metrics,
        refit="brier",
        cv=3,
        n_jobs=n_jobs,
    ).fit(X, Y)
    names = {"ap": "average_precision", "brier": "neg_brier_score"}
    expected = GridSearchCV(
        LogisticRegression(), {"C": [1e-4, 1.0]}, scoring=names, refit="brier", cv=3
    ).fit(X, Y)
    for name in names:
        key = f"mean_test_{name}"
        assert search.cv_results_[key] == pytest.approx(expected.cv_results_[key], abs=1e-12)
    assert search.best_params_ == expected.best_params_ == {"C": 1.0}


@pytest.mark.parametrize(
    "metric", ["pr_auc", "recall_at_fpr_0.01", "ece_n_bins_10_strategy_uniform"]
)
def test_it_survives_a_pickle(metric: str) -> None:
    scorer = sklearn_scorer(metric)
    assert pickle.loads(pickle.dumps(scorer))(MODEL, *REST) == scorer(MODEL, *REST)  # noqa: S301
    assert repr(scorer) == f"sklearn_scorer({metric!r})"


class TestMargins:
    def test_the_order_is_enough_for_ranks(self) -> None:
        svm = LinearSVC(random_state=0).fit(*REST)
        expected = get_scorer("roc_auc")(svm, *REST)
        assert sklearn_scorer("roc_auc")(svm, *REST) == pytest.approx(expected, abs=1e-12)
        flipped = sklearn_scorer("roc_auc", positive=0)(svm, *REST)
        assert flipped == pytest.approx(expected, abs=1e-12)  # both labels and margins turned

    def test_probabilities_are_not_made_up(self) -> None:
        with pytest.raises(InvalidTypeError, match="RidgeClassifier has only decision_function"):
            sklearn_scorer("brier")(RidgeClassifier().fit(*REST), *REST)
        with pytest.raises(InvalidTypeError, match="without predict_proba"):
            sklearn_scorer("pr_auc")(object(), *REST)
        three = RidgeClassifier().fit(REST[0], np.arange(120) % 3)
        with pytest.raises(InvalidInputError, match=r"has the classes \[0, 1, 2\]; pass"):
            sklearn_scorer("pr_auc")(three, *REST)


@pytest.mark.parametrize("kind", [LogisticRegression, RidgeClassifier])
def test_one_of_three_classes_is_named(kind: Any) -> None:
    """Column 1 of three is nobody's answer; the one that is named stands against all others."""
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    three = kind().fit(X, labels)
    two = labels < 2
    with pytest.raises(InvalidInputError, match=r"positive=…"):
        sklearn_scorer("roc_auc")(three, X[two], labels[two])
    scores = three.predict_proba(X) if kind is LogisticRegression else three.decision_function(X)
    expected = roc_auc_score(labels == 2, scores[:, 2])
    found = sklearn_scorer("roc_auc", positive=2)(three, X, labels)
    assert found == pytest.approx(expected, abs=1e-12)


def test_labels_other_than_0_and_1_ask_for_the_positive_one() -> None:
    signs = 2 * Y - 1
    model = LogisticRegression().fit(X, signs)
    with pytest.raises(InvalidInputError, match=r"not 0 and 1; pass the positive one"):
        sklearn_scorer("pr_auc")(model, X, signs)
    expected = get_scorer("average_precision")(model, X, signs)
    found = sklearn_scorer("pr_auc", positive=1)(model, X, signs)
    assert found == pytest.approx(expected, abs=1e-12)


def test_labels_of_other_names() -> None:
    words = np.where(Y == 1, "attack", "benign")  # alphabetically first: column 0
    model = LogisticRegression().fit(X[:120], words[:120])
    scorer = sklearn_scorer("pr_auc", positive="attack")
    expected = get_scorer("average_precision")(MODEL, *REST)
    assert scorer(model, X[120:], words[120:]) == pytest.approx(expected, abs=1e-9)
    with pytest.raises(InvalidInputError, match=r"pass the positive one.*sklearn_scorer\("):
        sklearn_scorer("pr_auc")(model, X[120:], words[120:])


def test_the_unfavourable_end_of_the_interval() -> None:
    scores = MODEL.predict_proba(X[120:])[:, 1]
    for metric, sign, end in (("pr_auc", 1, "ci_low"), ("brier", -1, "ci_high")):
        spec = getattr(metric_specs, metric)
        ci = bootstrap_ci(Y[120:], scores, spec, n_resamples=200, seed=5)
        scorer = sklearn_scorer(metric, bound="low", n_resamples=200, seed=5)
        assert scorer(MODEL, *REST) == sign * getattr(ci, end)
        assert scorer(MODEL, *REST) < sklearn_scorer(metric)(MODEL, *REST)


def test_a_fold_of_one_class_is_a_failed_fold_and_no_number() -> None:
    ordered = np.argsort(Y, kind="stable")
    with pytest.warns(UserWarning, match="Scoring failed"):
        done = cross_validate(
            MODEL,
            X[ordered],
            Y[ordered],
            scoring=sklearn_scorer("pr_auc"),
            cv=[(np.arange(240), np.arange(20))],
        )
    assert np.isnan(done["test_score"]).all()


def test_what_cannot_be_asked() -> None:
    with pytest.raises(MissingColumnError, match="did you mean pr_auc"):
        sklearn_scorer("pr_acu")
    with pytest.raises(InvalidTypeError, match="`metric` is a int"):
        sklearn_scorer(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="`bound`"):
        sklearn_scorer("pr_auc", bound="high")  # type: ignore[arg-type]
