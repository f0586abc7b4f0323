"""Two runs in folds compared: fold by fold where the folds are the same, else said to be pooled."""

import numpy as np
import pytest
from scipy import stats

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import compare_runs
from eval_toolkit.claims import Claim, evaluate_gate
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.harness import evaluate, evaluate_folded, save_run
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import StratifiedKFoldSplitter
from eval_toolkit.thresholds import MaxF1Selector

N = 90
RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 2, N)
FIRST = np.clip(0.3 + 0.3 * LABELS + RNG.normal(0, 0.2, N), 0, 1)
SECOND = np.clip(0.3 + 0.4 * LABELS + RNG.normal(0, 0.2, N), 0, 1)
ROWS = {"a": FIRST, "b": SECOND, "label": LABELS, "id": np.arange(N)}


class Reads:
    """Scores a row with one of its columns, shifted by what the training part says."""

    version = "1"

    def __init__(self, column, fails_on=()):
        self.column, self.fails_on = column, fails_on

    def fit(self, X, y):
        self.shift = 0.1 * float(np.mean(y))
        return self

    def predict_proba(self, X):
        if any(value in self.fails_on for value in X["id"]):
            raise RuntimeError("out of memory")
        return np.clip(np.asarray(X[self.column], dtype=float) + self.shift, 0, 1)


class Spread:
    """A metric that the library does not know."""

    name = "spread"
    version = "1"

    def compute(self, y_true, y_score):
        return float(np.ptp(y_score))


def rows(name="all", order=slice(None), more=None, **roles):
    frame = {key: values[order] for key, values in (ROWS | (more or {})).items()}
    return EvalSlice(name, frame, feature_col=["a", "b", "id"], id_col="id", **roles)


def folded(folder, column, *, k=5, seeds=(42,), seed=1, fails_on=(), parent=None, **options):
    result = evaluate_folded(
        {"m": Reads(column, fails_on)},
        StratifiedKFoldSplitter(k=k, seed=seed),
        parent or rows(),
        run_id=folder.name,
        seeds=seeds,
        n_resamples=20,
        **{"metrics": [ms.brier, ms.roc_auc], **options},
    )
    return result, save_run(result, folder)


def values(result, metric):
    blocks = [fold["by_slice"]["test"]["by_scorer"]["m"] for fold in result.by_fold.values()]
    return np.array([block[metric]["value"] for block in blocks])


@pytest.mark.parametrize("seeds", [(42,), (1, 2)])
def test_the_same_folds_are_paired_fold_by_fold(tmp_path, seeds):
    one, a = folded(tmp_path / "a", "a", seeds=seeds)
    two, b = folded(tmp_path / "b", "b", seeds=seeds)
    result = compare_runs(a, b)
    for metric in ("brier", "roc_auc"):
        cell = result["test", "m", metric]
        deltas = values(two, metric) - values(one, metric)
        k = len(deltas)
        # Nadeau and Bengio (2003): variance (1/k + n_test/n_train) s², k − 1 degrees of freedom
        se = np.sqrt((1 / k + 18 / 72) * deltas.var(ddof=1))
        reach = stats.t.ppf(0.975, k - 1) * se
        assert cell.delta == pytest.approx(deltas.mean(), rel=1e-12)
        assert cell.ci_low == pytest.approx(deltas.mean() - reach, rel=1e-9)
        assert cell.ci_high == pytest.approx(deltas.mean() + reach, rel=1e-9)
        assert cell.p_value == pytest.approx(2 * stats.t.sf(abs(deltas.mean() / se), k - 1))
        assert cell.value_a == pytest.approx(one.fold_summary["test"]["m"][metric]["mean"])
        assert cell.value_b == pytest.approx(two.fold_summary["test"]["m"][metric]["mean"])
        assert (cell.method, cell.n_folds, cell.n_folds_failed, cell.n_units) == (
            *("nadeau-bengio", k, 0, N),
        )
        assert cell.reason == f"means over {k} folds, paired fold by fold"
        assert cell.to_dict()["n_folds"] == k


def test_the_same_model_in_the_same_folds_does_not_differ(tmp_path):
    _, a = folded(tmp_path / "a", "a")
    _, b = folded(tmp_path / "b", "a")
    cell = compare_runs(a, b)["test", "m", "brier"]
    assert (cell.delta, cell.ci_low, cell.ci_high, cell.p_value) == (0.0, None, None, None)
    assert cell.verdict == "not tested"
    assert cell.reason == (
        "no interval: means over 5 folds, paired fold by fold; "
        "zero variance: all folds have the same difference"
    )
    claim = Claim(name="g", slice="test", scorer="m", metric="brier", non_inferior_by=0.5)
    outcome = evaluate_gate(b, [claim], a).claims[0]
    assert (outcome.passed, "cannot be compared: no interval" in outcome.message) == (False, True)


def test_other_folds_are_pooled_and_say_so(tmp_path):
    _, a = folded(tmp_path / "a", "a")
    for name, options in (("k", {"k": 3}), ("seed", {"seed": 2})):
        _, b = folded(tmp_path / name, "b", **options)
        cell = compare_runs(a, b, n_resamples=50)["test", "m", "brier"]
        assert (cell.status, cell.n_folds) == ("ok", 0)
        assert cell.method == "paired gaffke"  # of the rows' Brier terms
        assert cell.reason.startswith(
            "pooled out-of-fold rows, not means over folds: the runs have"
        )


def test_scores_of_several_seeds_are_not_averaged(tmp_path):
    _, a = folded(tmp_path / "a", "a", seeds=(1, 2))
    _, b = folded(tmp_path / "b", "b", seeds=(1, 3))
    cell = compare_runs(a, b)["test", "m", "brier"]
    assert (cell.status, cell.value_a, cell.delta) == ("skipped", None, None)
    assert cell.reason == (
        "the runs have different folds, and rows have several out-of-fold scores each, which cannot be pooled; use the same splitter and seeds for both runs"
    )


def test_folds_against_a_run_without_folds(tmp_path):
    _, a = folded(tmp_path / "a", "a")
    scorer = Reads("b").fit(None, LABELS)
    whole = evaluate({"m": scorer}, [rows("test")], run_id="b", n_resamples=20, metrics=[ms.brier])
    b = save_run(whole, tmp_path / "b")
    for first, second, who in (
        (a, b, "A was evaluated in folds and B"),
        (b, a, "B was evaluated in folds"),
    ):
        cell = compare_runs(first, second, n_resamples=50)["test", "m", "brier"]
        assert f"pooled out-of-fold rows, not means over folds: {who}" in cell.reason


def test_folds_without_a_value_are_counted(tmp_path):
    _, a = folded(tmp_path / "a", "a")
    _, b = folded(tmp_path / "b", "b", fails_on=(0,), on_scorer_error="record")
    cell = compare_runs(a, b)["test", "m", "brier"]
    assert (cell.n_folds, cell.n_folds_failed, cell.status) == (4, 1, "ok")
    assert "1 of 5 folds have no value: RuntimeError: out of memory" in cell.reason
    _, none = folded(tmp_path / "c", "b", fails_on=range(N), on_scorer_error="record")
    cell = compare_runs(a, none)["test", "m", "brier"]
    assert (cell.status, cell.reason) == ("skipped", "RuntimeError: out of memory")
    assert (cell.n_folds, cell.n_folds_failed) == (0, 5)


def test_thresholds_of_each_fold_and_custom_metrics_are_compared_as_stored(tmp_path):
    options = {"thresholds": MaxF1Selector(), "metrics": [Spread()]}
    one, a = folded(tmp_path / "a", "a", **options)
    two, b = folded(tmp_path / "b", "b", **options)
    result = compare_runs(a, b)
    names = [name for name in one.fold_summary["test"]["m"] if name.startswith(("op_f1", "spread"))]
    assert len(names) == 2
    for name in names:
        expected = float((values(two, name) - values(one, name)).mean())
        assert result["test", "m", name].delta == pytest.approx(expected, rel=1e-12)


def test_a_metric_that_was_not_stored_is_computed_in_each_fold(tmp_path):
    one, _ = folded(tmp_path / "a", "a", metrics=[ms.brier, ms.pr_auc])
    two, _ = folded(tmp_path / "b", "b", metrics=[ms.brier, ms.pr_auc])
    _, short_a = folded(tmp_path / "c", "a", metrics=[ms.brier])
    _, short_b = folded(tmp_path / "d", "b", metrics=[ms.brier])
    for metric in ("pr_auc", ms.pr_auc):
        cell = compare_runs(short_a, short_b, metrics=[metric])["test", "m", "pr_auc"]
        expected = float((values(two, "pr_auc") - values(one, "pr_auc")).mean())
        assert cell.delta == pytest.approx(expected, rel=1e-12)
        assert cell.n_folds == 5


def test_each_fold_is_a_part_that_can_be_compared(tmp_path):
    _, a = folded(tmp_path / "a", "a", seeds=(1, 2))
    _, b = folded(tmp_path / "b", "b", seeds=(1, 2))
    found = compare_runs(a, b, metrics=["roc_auc"], by="fold")
    names = [f"seed={seed}&fold={fold}" for seed in (1, 2) for fold in range(5)]
    assert [cell.part for cell in found.cells] == ["all", *names]
    for name in names:
        cell = found[f"roc_auc @ {name} / m"]
        for value, run in ((cell.value_a, a), (cell.value_b, b)):
            assert value == pytest.approx(run[f"roc_auc @ {name}"].value)
    (alone,) = compare_runs(a, b, metrics=["roc_auc @ fold=3 & seed=2"]).cells
    assert alone.delta == found["roc_auc @ seed=2&fold=3"].delta


def test_other_parts_of_runs_in_folds_are_refused(tmp_path):
    halves = rows(more={"half": np.arange(N) % 2}, strata_col="half")
    _, a = folded(tmp_path / "a", "a", parent=halves)
    assert a["roc_auc @ fold=0&half=1"].n_units == 7
    with pytest.raises(InvalidInputError, match="`by`: slice 'test' was evaluated in folds"):
        compare_runs(a, a, by="half")
