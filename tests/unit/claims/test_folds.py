"""Claims about runs in folds: rows over folds, and no verdict on the folds that happened to work."""

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.claims import (
    Claim,
    Requirement,
    evaluate_gate,
    paired_diff_present_gate,
    required_metric_gate,
    required_scorer_gate,
    required_slice_gate,
)
from eval_toolkit.harness import evaluate_folded, save_run
from eval_toolkit.runs import write_run
from eval_toolkit.scorecards import Records
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits import StratifiedKFoldSplitter

N = 120
LABELS = np.arange(N) % 3 == 0
SCORES = np.clip(0.4 + 0.3 * LABELS + np.random.default_rng(0).normal(0, 0.2, N), 0, 1)


class Fails:
    """Scores rows with their feature; fails where the part has one of the rows named."""

    version = "1"

    def __init__(self, on=(), shift=0.0):
        self.on, self.shift = on, shift

    def predict_proba(self, X):
        if any(row in self.on for row in X["id"]):
            raise RuntimeError("out of memory")
        return np.clip(np.asarray(X["x"], dtype=float) * (1 - self.shift), 0, 1)


def folded(folder, scorers, *, seeds=(42,), **options):
    frame = {"x": SCORES, "label": LABELS.astype(int), "id": np.arange(N)}
    result = evaluate_folded(
        scorers,
        StratifiedKFoldSplitter(k=4),
        EvalSlice("all", frame, feature_col=["x", "id"], id_col="id"),
        run_id=folder.name,
        seeds=seeds,
        n_resamples=20,
        metrics=[ms.roc_auc, ms.brier],
        on_scorer_error="record",
        **options,
    )
    return save_run(result, folder)


def decided(run, claim, baseline=None):
    found = evaluate_gate(run, [claim], baseline)
    return not found.has_failures(), found.claims[0].message


@pytest.mark.parametrize("part", ["value", "ci_low"])
def test_a_mean_over_folds_fails_its_claim_when_a_fold_failed(tmp_path, part):
    cell = {"name": "good", "slice": "test", "scorer": "m", "metric": "roc_auc"}
    claim = Claim(**cell, require=Requirement(part, ">=", 0.1))
    assert decided(folded(tmp_path / "whole", {"m": Fails()}), claim)[0]
    passed, message = decided(folded(tmp_path / "holes", {"m": Fails(on=(0, 1))}), claim)
    assert not passed
    assert "failed: " in message
    assert "of 4 folds have no value: RuntimeError: out of memory" in message


def test_gates_see_the_folds_that_failed(tmp_path):
    results = folded(tmp_path / "r", {"m": Fails(on=(0,)), "ok": Fails()}).results
    assert not required_metric_gate("test", "m", "roc_auc").evaluate(results).passed
    assert required_metric_gate("test", "ok", "roc_auc").evaluate(results).passed
    assert required_scorer_gate("test", "m").evaluate(results).message == (
        "scorer 'm' on slice 'test' failed: RuntimeError: out of memory (in 1 of 4 folds)"
    )
    assert required_scorer_gate("test", "ok").evaluate(results).passed


@pytest.mark.parametrize("seeds", [(42,), (1, 2, 3)])
def test_sizes_are_the_rows_of_one_seeds_folds_together(tmp_path, seeds):
    run = folded(tmp_path / "r", {"m": Fails()}, seeds=seeds)
    enough = Claim(name="size", slice="test", min_n=N, min_positive=40, min_negative=80)
    assert decided(run, enough) == (True, f"slice 'test' has {N} rows, 40 of them positive")
    passed, message = decided(run, Claim(name="size", slice="test", min_n=N + 1))
    assert (passed, message) == (False, f"slice 'test' has {N} rows, fewer than {N + 1}")
    # Wilson's upper bound of 0 of 80 at 95 %: 1.96² / (80 + 1.96²) = 0.0458
    assert decided(run, Claim(name="fpr", slice="test", max_fpr=0.046))[0]
    assert not decided(run, Claim(name="fpr", slice="test", max_fpr=0.045))[0]


def test_slices_and_differences_are_looked_for_in_the_folds(tmp_path):
    scorers = {"a": Fails(), "b": Fails(shift=0.1)}
    results = folded(tmp_path / "r", scorers, paired_diffs=[("a", "b")]).results
    assert required_slice_gate("test").evaluate(results).passed
    lost = required_slice_gate("val").evaluate(results)
    assert (lost.passed, lost.message) == (False, "the run has no slice 'val'; it has 'test'")
    assert paired_diff_present_gate("test", "b_minus_a").evaluate(results).passed
    assert not paired_diff_present_gate("test", "a_minus_b").evaluate(results).passed
    metric = required_metric_gate("val", "a", "brier").evaluate(results)
    assert metric.message == "the run has no slice 'val'; it has 'test'"


def test_non_inferiority_is_judged_fold_by_fold(tmp_path):
    old = folded(tmp_path / "old", {"m": Fails()})
    cell = {"name": "ni", "slice": "test", "scorer": "m", "metric": "brier"}
    claim = Claim(**cell, non_inferior_by=0.5)
    passed, message = decided(folded(tmp_path / "new", {"m": Fails(shift=0.01)}), claim, old)
    assert passed
    assert message.endswith("(means over 4 folds, paired fold by fold)")
    passed, message = decided(folded(tmp_path / "bad", {"m": Fails(on=(0,))}), claim, old)
    assert not passed
    assert "cannot be compared" in message
    assert "1 of 4 folds have no value: RuntimeError: out of memory" in message


def stored(folder, n, values=(0.1, 0.2)):
    """A run in two folds whose records do not say which fold a row was in."""

    def fold(value):
        block = {"brier": {"value": value, "status": "ok", "reason": ""}}
        return {"n_train": 60, "by_slice": {"test": {"n": 60, "by_scorer": {"m": block}}}}

    results = {"schema_version": "v1", "run_id": folder.name, "config": {}, "by_slice": {}}
    results["by_fold"] = {str(key): fold(value) for key, value in enumerate(values)}
    ids = [f"u{row:03d}" for row in range(n)]
    records = {("test", "m"): Records.from_rows(LABELS[:n], SCORES[:n], unit_id=ids)}
    return write_run(folder, results=results, manifest={"run_id": folder.name}, records=records)


def test_rows_missing_from_the_folds_fail_non_inferiority(tmp_path):
    cell = {"name": "ni", "slice": "test", "scorer": "m", "metric": "brier"}
    old, new = stored(tmp_path / "old", N), stored(tmp_path / "new", 90, (0.1, 0.21))
    whole = stored(tmp_path / "whole", N, (0.1, 0.21))
    assert decided(whole, Claim(**cell, non_inferior_by=0.5), old)[0]
    passed, message = decided(new, Claim(**cell, non_inferior_by=0.5), old)
    assert not passed
    assert "30 of the baseline's 120 units have no value in this run" in message
    assert decided(new, Claim(**cell, non_inferior_by=0.5, allow_missing=True), old)[0]
