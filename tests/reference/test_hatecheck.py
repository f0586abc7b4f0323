"""HateCheck: 3 728 cases made from templates, so the template is the group.

The suite lies beside the repository. A functionality is a slice; most hold one class alone. The
scorer is fitted per fold on other templates; every value is compared with scikit-learn on the
same rows, and the intervals by template with those that take near-copies for independent.
"""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

from eval_toolkit import FileLoader, GroupKFoldSplitter, as_scorer, evaluate, evaluate_folded
from eval_toolkit import metric_specs as ms
from eval_toolkit.scorecards.parts import format_part, parse_part

METRICS = [ms.pr_auc, ms.roc_auc, ms.brier]
ORACLES = {
    "pr_auc": average_precision_score,
    "roc_auc": roc_auc_score,
    "brier": brier_score_loss,
}


def pipeline():
    return make_pipeline(TfidfVectorizer(min_df=2), LogisticRegression(max_iter=500))


@pytest.fixture(scope="module")
def cases(shared_data):
    loader = FileLoader(
        shared_data / "classification" / "hatecheck_test_suite_cases.csv",
        feature_col="test_case",
        label_col="label_gold",
        label_map={"hateful": 1, "non-hateful": 0},
        strata_col="functionality",
        group_col="templ_id",
        id_col="case_id",
    )
    (slice_,) = loader.load_splits().values()
    return slice_


@pytest.fixture(scope="module")
def folded(cases):
    return evaluate_folded(
        {"tfidf": as_scorer(pipeline())},
        GroupKFoldSplitter(k=3),
        cases,
        run_id="hatecheck",
        metrics=METRICS,
        n_resamples=200,
    )


@pytest.fixture(scope="module")
def out_of_fold(cases):
    """Scikit-learn alone: scores of each case by a model that saw none of its template."""
    texts, y = np.array(cases.features, dtype=object), cases.y_true
    scores, fold_of = np.empty(len(y)), np.empty(len(y), dtype=int)
    for fold, (train, test) in enumerate(GroupKFold(3).split(texts, y, cases.groups)):
        scores[test] = pipeline().fit(texts[train], y[train]).predict_proba(texts[test])[:, 1]
        fold_of[test] = fold
    return scores, fold_of


def test_the_suite(cases):
    assert (cases.n, cases.n_positive) == (3728, 2563)  # published: 3 728 cases, 2 563 hateful
    assert len(set(cases.strata.tolist())) == 29  # published: 29 functionalities


def test_values_of_every_fold(folded, cases, out_of_fold):
    scores, fold_of = out_of_fold
    for fold in range(3):
        block = folded.by_fold[f"fold={fold}"]["by_slice"]["test"]["by_scorer"]["tfidf"]
        rows = fold_of == fold
        for name, oracle in ORACLES.items():
            expected = oracle(cases.y_true[rows], scores[rows])
            assert block[name]["value"] == pytest.approx(expected, abs=1e-9)


def test_no_template_is_trained_on_and_tested(cases):
    for fold in GroupKFoldSplitter(k=3).iter_folds(cases):
        assert not set(fold["train"].groups.tolist()) & set(fold["test"].groups.tolist())


def test_templates_are_resampled(folded, cases):
    sizes = 0
    for fold in folded.by_fold.values():
        cell = fold["by_slice"]["test"]["by_scorer"]["tfidf"]["roc_auc"]
        assert cell["n_groups"] < cell["n_units"] / 3
        sizes += cell["n_groups"]
    assert sizes == len(set(cases.groups.tolist()))


class _Stored:
    """Scores that were made before, in the order of the rows."""

    def __init__(self, scores):
        self.scores = scores

    def predict_proba(self, X):
        return self.scores[: len(X)]


@pytest.fixture(scope="module")
def pooled(cases, out_of_fold):
    scores, _ = out_of_fold
    return evaluate(
        {"tfidf": _Stored(scores)}, [cases], run_id="pooled", metrics=METRICS, n_resamples=400
    )


def test_intervals_by_template_are_wider(pooled, cases, out_of_fold):
    by_template = pooled.by_slice[cases.name]["by_scorer"]["tfidf"]["roc_auc"]["ci"]
    rows = type(cases)(
        "rows", cases.df, feature_col="test_case", label_col=cases.label_col, id_col="case_id"
    )
    independent = evaluate(
        {"tfidf": _Stored(out_of_fold[0])}, [rows], run_id="rows", metrics=METRICS, n_resamples=400
    ).by_slice["rows"]["by_scorer"]["tfidf"]["roc_auc"]["ci"]
    width = by_template["ci_high"] - by_template["ci_low"]
    naive = independent["ci_high"] - independent["ci_low"]
    assert width > 1.5 * naive


def test_every_functionality_has_its_row(pooled, cases, out_of_fold):
    scores, _ = out_of_fold
    parts = pooled.by_slice[cases.name]["parts"]
    assert set(parts) == {format_part({cases.strata_col: one}) for one in cases.strata.tolist()}
    for name, part in parts.items():
        rows = cases.strata == parse_part(name)[cases.strata_col]
        block = part["by_scorer"]["tfidf"]
        assert part["n"] == rows.sum()
        expected = brier_score_loss(cases.y_true[rows], scores[rows], labels=[0, 1])
        assert block["brier"]["value"] == pytest.approx(expected, abs=1e-9)
        if len(set(cases.y_true[rows].tolist())) == 1:  # a functionality is hateful or it is not
            assert block["roc_auc"]["status"] == "skipped"
            assert "undefined" in block["roc_auc"]["reason"]
