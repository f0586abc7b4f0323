"""Write run folders with eval-toolkit 1.12 on synthetic data.

Run in the environment of 1.12: ``python making.py FOLDER``. Each run is a folder with
``results.json``, ``results_full.json`` and ``manifest.json``; the runs ``a`` and ``b`` also have
prediction files, with references in the manifest.
"""

import dataclasses
import hashlib
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eval_toolkit import artifacts, claims, evidence, harness, manifest, operating_points, splits
from eval_toolkit.leakage import ExactDuplicateCheck
from eval_toolkit.thresholds import MaxF1Selector

N = 80


def _frame(n: int = N, *, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    label = (np.arange(n) % 5 < 2).astype(int)
    language = np.where(np.arange(n) % 3 == 0, "de", "en")
    score = 1 / (1 + np.exp(-(label * 1.4 - 0.7 + rng.normal(size=n))))
    other = 1 / (1 + np.exp(-(label * 0.8 - 0.4 + rng.normal(size=n))))
    ids = [f"row-{seed}-{i}" for i in range(n)]
    texts = [f"message {i} of set {seed}" for i in range(n)]
    columns = {"id": ids, "text": texts, "label": label, "language": language}
    return pd.DataFrame({**columns, "strong": score.round(6), "weak": other.round(6)})


class Column:
    """Scorer that looks up scores by text."""

    version = "2"

    def __init__(self, frames: list[pd.DataFrame], column: str, shift: float = 0.0) -> None:
        self.scores = {
            text: min(1.0, score + shift)
            for frame in frames
            for text, score in zip(frame["text"], frame[column], strict=True)
        }

    def predict_proba(self, texts: Any) -> np.ndarray:
        """Return one score per text."""
        return np.array([self.scores[text] for text in texts])


class Broken:
    """Scorer that always fails."""

    def predict_proba(self, texts: Any) -> np.ndarray:
        """Raise."""
        raise RuntimeError("no weights")


class OnlyTest(Column):
    """Scorer that skips every slice except ``test``."""

    def should_score_slice(self, name: str) -> bool:
        """Return whether to score the slice."""
        return name == "test"


def _report(result: Any, made: Any) -> Any:
    specs = [
        claims.ClaimSpec(
            "useful",
            (
                claims.required_slice_gate("test"),
                claims.metric_threshold_gate("test", "strong", "pr_auc", op=">=", threshold=0.5),
                claims.no_leakage_errors_gate(),
                claims.source_role_gate(("locked_eval",)),
            ),
        ),
        claims.ClaimSpec(
            "perfect",
            (claims.metric_threshold_gate("test", "strong", "pr_auc", op=">=", threshold=0.9999),),
        ),
    ]
    return claims.evaluate_claims(result, specs, manifest=made)


def _predictions(folder: Path, data: dict[str, pd.DataFrame], scorers: dict[str, Any]) -> Any:
    """Write the predictions to a CSV file and return a reference to it."""
    rows = [
        {"id": row.id, "label": row.label, "score": score, "scorer": scorer, "slice": name}
        for name, frame in data.items()
        for scorer, model in scorers.items()
        for row, score in zip(
            frame.itertuples(), model.predict_proba(frame["text"].tolist()), strict=True
        )
    ]
    path = folder / "predictions.csv"
    pd.DataFrame(rows).to_csv(path, index=False, lineterminator="\n")
    return artifacts.PredictionArtifactRef(
        uri=path.name,
        media_type="text/csv",
        columns=artifacts.PredictionColumns(
            label="label", score="score", row_id="id", scorer="scorer", slice="slice"
        ),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        n_rows=len(rows),
        role=["test", "single"],
    )


def _write(folder: Path, result: Any, made: Any, *, report: bool = True) -> None:
    if report:
        result = harness.with_claim_report(result, _report(result, made))
    harness.write_run_result(result, folder)
    manifest.write_manifest(made, folder)
    artifacts.validate_results(json.loads((folder / "results.json").read_text()))
    artifacts.validate_manifest(json.loads((folder / "manifest.json").read_text()))


def _with_evidence(result: Any, reference: Any) -> Any:
    return dataclasses.replace(
        result,
        prediction_artifacts=[reference.to_dict()],
        evidence_axes=[evidence.EvidenceAxis("slice", "test").to_dict()],
        pairing_metadata=evidence.PairingMetadata(paired=True, valid_scope="test").to_dict(),
        aggregate_evidence=evidence.AggregateEvidence("descriptive", "mean").to_dict(),
        threshold_policy={"calibration_slice": "test", "selector": "max_f1"},
    )


def _kept(folder: Path, shift: float, guardrails: list[Any]) -> None:
    """Write a run with predictions: two scorers, a slice of one class, strata, paired differences."""
    data = {"test": _frame(), "single": _frame(40, seed=1).assign(label=0)}
    frames = list(data.values())
    scorers = {"strong": Column(frames, "strong", shift), "weak": Column(frames, "weak", shift)}
    slices = [harness.EvalSlice(name, frame, strata_col="language") for name, frame in data.items()]
    spec = operating_points.OperatingPointSpec(
        name="at_max_f1", fit_slice="test", selectors=(MaxF1Selector(),), apply_slices=("single",)
    )
    result = harness.evaluate(
        scorers,
        slices,
        run_id=folder.name,
        n_resamples=200,
        paired_diffs=[("weak", "strong")],
        leakage_checks=[ExactDuplicateCheck()],
        on_leakage="record",
        operating_point_specs=[spec],
    )
    folder.mkdir(parents=True)
    reference = _predictions(folder, data, scorers)
    result = _with_evidence(result, reference)
    made = manifest.make_manifest(
        run_id=folder.name,
        config=result.config,
        data_files={"predictions": folder / "predictions.csv"},
        seeds={"bootstrap": 42},
        data_revisions={"made": "1"},
        metadata={"purpose": "interop"},
        versioned=scorers,
        leakage_report=result.config["leakage_report"],
        source_roles=[manifest.SourceRoleRecord("made", "locked_eval", n_rows=N)],
        guardrails=guardrails,
        prediction_artifacts=[reference],
        contamination_flags={"strong": "verified_disjoint", "weak": "unknown"},
        wall_clock_seconds=1.5,
    )
    _write(folder, result, made)


def _bare(folder: Path) -> None:
    """Write a run without predictions, with a scorer that fails and one that skips a slice."""
    frames = [_frame(), _frame(20, seed=2)]
    slices = [harness.EvalSlice("test", frames[0]), harness.EvalSlice("few", frames[1])]
    scorers = {
        "strong": Column(frames, "strong"),
        "broken": Broken(),
        "shy": OnlyTest(frames, "weak"),
    }
    result = harness.evaluate(
        scorers, slices, run_id=folder.name, n_resamples=200, on_scorer_error="record"
    )
    _write(folder, result, manifest.make_manifest(run_id=folder.name, config=result.config))


def _folded(folder: Path) -> None:
    frame = _frame()
    result = harness.evaluate_folded(
        {"strong": Column([frame], "strong"), "weak": Column([frame], "weak")},
        splits.StratifiedKFoldSplitter(k=4, seed=0),
        harness.EvalSlice("test", frame),
        run_id=folder.name,
        n_resamples=100,
    )
    made = manifest.make_manifest(run_id=folder.name, config=result.config, seeds={"global": 42})
    _write(folder, result, made, report=False)


RUNS: dict[str, Callable[[Path], None]] = {
    "a": lambda folder: _kept(folder, 0.0, ["the test set is opened once", "no retuning"]),
    "b": lambda folder: _kept(
        folder,
        0.05,
        [{"source_freshness_check": {"at": "2026-01-01T00:00:00Z", "method": "hash"}}, "as text"],
    ),
    "bare": _bare,
    "folded": _folded,
}


def main(folder: Path) -> None:
    """Write all runs to a folder, without the machine's kernel in the manifests."""
    platform.platform = lambda *_args, **_more: "Linux"
    for name, make in RUNS.items():
        make(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
