"""The harness against scikit-learn: values on slices, means over folds, grouped folds."""

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)

from eval_toolkit import metric_specs as ms
from eval_toolkit.harness import evaluate, evaluate_folded
from eval_toolkit.inference import bootstrap_ci, paired_bootstrap_diff
from eval_toolkit.metrics import pr_auc
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import GroupKFoldSplitter, StratifiedKFoldSplitter


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    x = rng.normal(size=(240, 3))
    y = (x @ [1.0, -0.7, 0.2] + rng.normal(0, 1.2, 240) > 0.3).astype(int)
    return x, y, np.repeat(np.arange(40), 6)


@pytest.fixture(scope="module")
def parent(data: Any) -> EvalSlice:
    pandas = pytest.importorskip("pandas")
    x, y, groups = data
    frame = pandas.DataFrame(x, columns=["a", "b", "c"]).assign(label=y, group=groups)
    frame["key"] = [f"{i:03d}" for i in range(len(y))]
    return EvalSlice("all", frame, feature_col=["a", "b", "c"], id_col="key")


def test_values_on_each_slice(parent: EvalSlice) -> None:
    model = LogisticRegression().fit(parent.features, parent.y_true)
    slices = [parent.take(range(120), name="first"), parent.take(range(120, 240), name="second")]
    result = evaluate({"lr": model}, slices, run_id="r", n_resamples=20)
    for slice_ in slices:
        y, s = slice_.y_true, model.predict_proba(slice_.features)[:, 1]
        block = result.by_slice[slice_.name]["by_scorer"]["lr"]
        for name, expected in (
            ("pr_auc", sk.average_precision_score(y, s)),
            ("roc_auc", sk.roc_auc_score(y, s)),
            ("brier", sk.brier_score_loss(y, s)),
            ("log_loss", sk.log_loss(y, s)),
        ):
            assert block[name]["value"] == pytest.approx(expected, abs=1e-12), name


def test_intervals_are_those_of_the_engine_on_rows_in_the_order_of_their_ids(
    parent: EvalSlice,
) -> None:
    model = LogisticRegression().fit(parent.features, parent.y_true)
    shuffled = parent.take(np.random.default_rng(0).permutation(240), name="test")
    other = LogisticRegression(C=1e-3).fit(parent.features, parent.y_true)
    result = evaluate(
        {"lr": model, "weak": other}, [shuffled], run_id="r", paired_diffs=[("weak", "lr")], seed=3
    )
    # The keys are in the parent's order, so its rows are the sorted ones.
    a, b = (m.predict_proba(parent.features)[:, 1] for m in (other, model))
    entry = result.by_slice["test"]
    ci = bootstrap_ci(parent.y_true, b, pr_auc, seed=3)
    assert entry["by_scorer"]["lr"]["pr_auc"]["ci"]["ci_95"] == pytest.approx(
        [ci.ci_low, ci.ci_high], abs=1e-12
    )
    diff = paired_bootstrap_diff(parent.y_true, a, b, pr_auc, seed=3)
    assert entry["paired_diffs"]["lr_minus_weak"]["ci_95"] == pytest.approx(
        [diff.ci_low, diff.ci_high], abs=1e-12
    )


@pytest.mark.parametrize(
    ("name", "scoring", "sign"),
    [
        ("roc_auc", "roc_auc", 1),
        ("pr_auc", "average_precision", 1),
        ("brier", "neg_brier_score", -1),
    ],
)
def test_fold_means_are_those_of_cross_val_score(
    parent: EvalSlice, data: Any, name: str, scoring: str, sign: int
) -> None:
    x, y, _ = data
    folds = StratifiedKFold(5, shuffle=True, random_state=42)
    expected = sign * cross_val_score(LogisticRegression(), x, y, cv=folds, scoring=scoring)
    result = evaluate_folded(
        {"lr": LogisticRegression()},
        StratifiedKFoldSplitter(k=5, seed=42),
        parent,
        run_id="r",
        n_resamples=10,
    )
    found = [
        fold["by_slice"]["test"]["by_scorer"]["lr"][name]["value"]
        for fold in result.by_fold.values()
    ]
    assert found == pytest.approx(expected.tolist(), abs=1e-9)
    assert result.fold_summary["test"]["lr"][name]["mean"] == pytest.approx(expected.mean())


def test_out_of_fold_records_are_cross_val_predict(parent: EvalSlice, data: Any) -> None:
    x, y, _ = data
    folds = StratifiedKFold(5, shuffle=True, random_state=42)
    expected = cross_val_predict(LogisticRegression(), x, y, cv=folds, method="predict_proba")
    result = evaluate_folded(
        {"lr": LogisticRegression()},
        StratifiedKFoldSplitter(k=5),
        parent,
        run_id="r",
        n_resamples=10,
    )
    records = result.records["test", "lr"]
    assert records.unit_id.tolist() == [f"{i:03d}" for i in range(240)]
    assert records.columns["score"] == pytest.approx(expected[:, 1], abs=1e-9)


def test_grouped_folds(parent: EvalSlice, data: Any) -> None:
    x, y, groups = data
    expected = cross_val_score(
        LogisticRegression(), x, y, groups=groups, cv=GroupKFold(4), scoring="roc_auc"
    )
    result = evaluate_folded(
        {"lr": LogisticRegression()},
        GroupKFoldSplitter(k=4),
        EvalSlice("all", parent.df, feature_col=["a", "b", "c"], group_col="group"),
        run_id="r",
        n_resamples=10,
        metrics=[ms.roc_auc],
    )
    cells = [
        fold["by_slice"]["test"]["by_scorer"]["lr"]["roc_auc"] for fold in result.by_fold.values()
    ]
    assert [cell["value"] for cell in cells] == pytest.approx(expected.tolist(), abs=1e-9)
    assert [cell["n_groups"] for cell in cells] == [10, 10, 10, 10]


def test_repeated_folds_are_as_many_as_scikit_learns_and_all_different(
    parent: EvalSlice, data: Any
) -> None:
    x, y, _ = data
    repeated = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    result = evaluate_folded(
        {"lr": LogisticRegression()},
        StratifiedKFoldSplitter(k=3),
        parent,
        run_id="r",
        n_resamples=10,
        seeds=(1, 2),
    )
    assert len(result.by_fold) == repeated.get_n_splits(x, y)
    tested = {tuple(fold["by_slice"]["test"]["unit_ids"]) for fold in result.by_fold.values()}
    assert len(tested) == 6
