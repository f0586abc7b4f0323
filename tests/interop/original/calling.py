"""Calls written for eval-toolkit 1.12, to be run with 1.12 and with this package.

``python calling.py FILE`` writes the result of each call as JSON. The code is independent of which of the
two packages is installed.
"""

import dataclasses
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eval_toolkit import (
    analysis,
    artifacts,
    bootstrap,
    calibration,
    claims,
    eda,
    evidence,
    harness,
    leakage,
    loaders,
    manifest,
    metrics,
    operating_points,
    protocols,
    provenance,
    scorecards,
    seeds,
    splits,
    text_dedup,
    thresholds,
)
from eval_toolkit import metric_specs as ms

N = 80
_RNG = np.random.default_rng(3)
Y = (np.arange(N) % 5 < 2).astype(int)
A = 1 / (1 + np.exp(-(Y * 1.4 - 0.7 + _RNG.normal(size=N))))
B = 1 / (1 + np.exp(-(Y * 0.8 - 0.4 + _RNG.normal(size=N))))
GROUP = np.arange(N) // 4
LANGUAGE = np.where(np.arange(N) % 3 == 0, "de", "en")
SUBJECTS = ["rain", "wind", "snow", "hail", "sun", "fog", "dew", "ice", "mud", "sand"]
TEXTS = [f"{one} over the {two} of {one}" for one in SUBJECTS for two in ("sea", "hills")]
TEXTS.append(TEXTS[1])
FRAME = pd.DataFrame(
    {"text": [f"row {i}" for i in range(N)], "label": Y, "lang": LANGUAGE, "group": GROUP}
).assign(time=range(N))


class First:
    """Scorer with a version and fixed scores."""

    version = "1"
    scores = A

    def predict_proba(self, texts: Any) -> np.ndarray:
        """Return a score for each text."""
        return np.array([self.scores[int(text.split()[1])] for text in texts])


class Second(First):
    """A second scorer."""

    scores = B


class Nearest:
    """Similarity strategy with the argument names of 1.12: `k`, `query_texts`, `reference_texts`."""

    inner = text_dedup.TfidfCosineStrategy()

    def pairs_within(self, texts: Any, k: int) -> Any:
        """Return neighbours in one list."""
        return self.inner.pairs_within(texts, k=k)

    def pairs_across(self, query_texts: Any, reference_texts: Any, k: int) -> Any:
        """Return neighbours in another list."""
        return self.inner.pairs_across(query_texts, reference_texts, k=k)


def _slice(name: str = "test", frame: pd.DataFrame = FRAME, **more: Any) -> Any:
    return harness.EvalSlice(name, frame, **more)


def _evaluated(**more: Any) -> Any:
    options: dict[str, Any] = {"run_id": "r", "n_resamples": 100, "rng": 1, **more}
    return harness.evaluate({"a": First(), "b": Second()}, [_slice()], **options)


def _intervals() -> Any:
    return {
        "bca": bootstrap.bootstrap_ci(Y, A, metrics.pr_auc, n_resamples=99, method="BCa", rng=1),
        "percentile": bootstrap.bootstrap_ci(
            Y, A, metrics.roc_auc, n_resamples=99, method="percentile", rng=np.random.default_rng(2)
        ),
        "studentized": bootstrap.bootstrap_ci(
            Y, A, metrics.brier_score, n_resamples=50, method="studentized", confidence=0.9
        ),
        "sequence": bootstrap.bootstrap_ci(
            Y, A, metrics.pr_auc, n_resamples=99, method="percentile", rng=np.random.SeedSequence(4)
        ),
        "clusters": bootstrap.cluster_bootstrap_ci(Y, A, GROUP, metrics.pr_auc, n_resamples=99),
        "folds": bootstrap.cv_clt_ci([0.8, 0.82, 0.79, 0.85, 0.8]),
    }


def _differences() -> Any:
    diff = bootstrap.paired_bootstrap_diff(Y, A, B, metrics.pr_auc, n_resamples=99, rng=1)
    return {
        "diff": diff,
        "mde": bootstrap.mde_from_ci(diff).alpha,
        "ece": bootstrap.paired_bootstrap_ece_diff(
            Y, A, B, ece_fn=metrics.expected_calibration_error, n_resamples=99, n_bins=5
        ),
        "at_points": bootstrap.paired_bootstrap_op_point_diff(
            *(Y[:40], A[:40], B[:40]),
            *(Y[40:], A[40:], B[40:]),
            lambda y, s: 0.5,
            lambda y, s, t: metrics.metrics_at_threshold(y, s, t)["f1"],
            n_resamples=99,
        ),
        "sizes": bootstrap.paired_mde(Y, A, B, metrics.pr_auc, n_resamples=99, rng=1).n,
    }


def _p_values() -> Any:
    p = [0.01, 0.02, 0.5]
    return [
        bootstrap.fdr_bh_correct(p),
        bootstrap.bonferroni_correct(p),
        bootstrap.correct_p_values(p, method="none"),
    ]


def _metrics() -> Any:
    return {
        "pr_auc": metrics.pr_auc(Y, A),
        "roc_auc": metrics.roc_auc(Y, A),
        "brier": metrics.brier_score(Y, A),
        "ece": metrics.expected_calibration_error(Y, A),
        "mass": metrics.expected_calibration_error_equal_mass(Y, A, n_bins=8),
        "l2": metrics.expected_calibration_error_l2(Y, A),
        "none": metrics.pr_auc([1] * 20, A[:20], empty_strategy="return_none"),
        "state": metrics.pr_auc([1] * 20, A[:20], empty_strategy="skipped_metric")["status"],
        "defined": metrics.is_metric_defined_for_slice("auroc", is_single_class=True),
        "at": metrics.metrics_at_threshold(Y, A, 0.5),
        "one class": metrics.single_class_threshold_metrics([1] * 20, A[:20], 0.5),
        "strata": metrics.stratified_recall(Y, A, 0.5, LANGUAGE, with_ci=True),
        "decomposed": metrics.brier_decomposition(Y, A),
        "trimmed": metrics.quantile_stratified_report(Y, A, np.arange(N)),
        "prior": metrics.precision_at_prior(Y, A, 0.5, 0.01),
        "scores": metrics.score_distribution_summary(A),
        "headline": metrics.headline_metrics(Y, A, strata=LANGUAGE),
    }


def _card() -> Any:
    card = scorecards.scorecard(
        Y, A, metrics=[ms.pr_auc, ms.brier, ms.ece(n_bins=15)], n_resamples=99, rng=0
    )
    assert isinstance(ms.pr_auc, scorecards.MetricSpec)
    return [*card], {name: (cell.value, cell.status) for name, cell in card.items()}


def _thresholds() -> Any:
    selectors = [
        thresholds.MaxF1Selector(),
        thresholds.TargetRecallSelector(0.9),
        thresholds.TargetPrecisionSelector(0.5),
        thresholds.TargetFPRSelector(0.1),
        thresholds.YoudenJSelector(),
    ]
    fitted = operating_points.fit_operating_points(
        Y, A, selectors[:1], fitted_on_slice="dev", scorer_name="a"
    )
    applied = operating_points.apply_operating_points(Y, B, fitted, applied_to_slice="test")
    return [one.select(Y, A) for one in selectors], fitted, applied


def _calibrated() -> Any:
    fitted = [
        calibration.fit_platt_calibrator(Y, A),
        calibration.fit_isotonic_calibrator(Y, A),
        calibration.fit_beta_calibrator(Y, A),
    ]
    assert all(np.shape(one(A)) == (N,) for one in fitted)
    return {
        "points": len(calibration.reliability_diagram_data(Y, A, n_bins=5)),
        "worst": calibration.maximum_calibration_error(Y, A),
        "threshold": calibration.bayes_optimal_threshold(0.1, 1.0, 5.0),
    }


def _similar() -> Any:
    inner = text_dedup.TfidfCosineStrategy()
    return {
        "kept": text_dedup.near_dedup(TEXTS, threshold=0.99, k_neighbors=5).kept_indices,
        "own": text_dedup.near_dedup(TEXTS, 0.99, strategy=Nearest()).kept_indices,
        "across": text_dedup.cross_dedup(TEXTS[:4], TEXTS, threshold=0.99),
        "own across": text_dedup.cross_dedup(TEXTS[:4], TEXTS, 0.99, strategy=Nearest()),
        "k": [part.shape for part in inner.pairs_within(TEXTS, k=3)],
        "k across": [part.shape for part in inner.pairs_across(TEXTS, TEXTS[:2], k=3)],
        "audit": text_dedup.audit_source_label_similarity(
            TEXTS, sources=["s", "t", "u"] * 7, labels=[0, 1, 1] * 7, threshold=0.99
        ).n_findings,
        "finding": text_dedup.SimilarityAuditFinding.__name__ != "",
        "hash": text_dedup.sha256_text("A  b"),
    }


def _leaks() -> Any:
    cut = {"train": _slice("train", FRAME[:40]), "test": _slice("test", FRAME[40:])}
    report = leakage.run_leakage_checks(
        [
            leakage.ExactDuplicateCheck(),
            leakage.NormalizedFormLeakageCheck(),
            leakage.LabelConflictCheck(),
            leakage.CrossSplitLeakageCheck(train_split="train", eval_splits=("test",)),
            leakage.GroupLeakageCheck(group_col="group"),
            leakage.TemporalLeakageCheck(time_col="time", split_order=("train", "test")),
            leakage.NearDuplicateCheck(threshold=0.99),
        ],
        cut,
    )
    return [(one.check_name, one.severity, one.n_affected) for one in report.findings]


def _cut() -> Any:
    splitters: list[splits.Splitter] = [
        splits.HoldoutSplitter(test_size=0.2, stratify=True, seed=1),
        splits.StratifiedKFoldSplitter(k=4, shuffle=True, seed=1),
        splits.GroupKFoldSplitter(k=3, group_col="group"),
        splits.SourceDisjointKFoldSplitter(source_col="lang", k=2, seed=0),
        splits.TimeSeriesSplitter(k=3, time_col="time"),
        splits.PurgedKFoldSplitter(n_splits=3, purge_gap=1, embargo_pct=0.01, time_col="time"),
    ]
    return [
        [(len(fold["train"].df), len(fold["test"].df)) for fold in one.iter_folds(_slice())]
        for one in splitters
    ]


def _loaded() -> Any:
    loader = loaders.DataFrameLoader(FRAME, split_col="lang", strata_col="lang", name="n")
    assert isinstance(loader, loaders.DatasetLoader)
    return {name: len(part.y_true) for name, part in loader.load_splits().items()}


def _run() -> Any:
    result = _evaluated(paired_diffs=[("b", "a")])
    assert isinstance(First(), harness.Scorer)
    assert isinstance(First(), protocols.Versioned)
    block = result.to_dict()["by_slice"]["test"]
    return {
        "n": (block["n"], block["n_positive"]),
        "scorers": sorted(block["by_scorer"]),
        "delta": block["paired_diffs"]["a_minus_b"]["delta"],
    }


def _without_intervals() -> Any:
    block = _evaluated(n_resamples=0).to_dict()["by_slice"]["test"]["by_scorer"]["a"]
    return (block["n"], block["n_positive"], len(block["scores"]))


def _folded() -> Any:
    result = harness.evaluate_folded(
        {"a": First()},
        splits.StratifiedKFoldSplitter(k=4, seed=0),
        _slice(),
        run_id="r",
        n_resamples=50,
        seeds=(42,),
    )
    mean = result.fold_summary["test"]["a"]["roc_auc"]
    return len(result.by_fold), mean["n_folds"]


def _claims() -> Any:
    spec = claims.ClaimSpec(
        "useful",
        (
            claims.required_slice_gate("test"),
            claims.required_scorer_gate("test", "a"),
            claims.required_metric_gate("test", "a", "pr_auc"),
            claims.metric_threshold_gate("test", "a", "pr_auc", op=">=", threshold=0.99),
            claims.no_scorer_errors_gate(),
            claims.minimum_slice_size_gate("test", min_n=10),
            claims.paired_diff_present_gate("test", "a_minus_b"),
        ),
    )
    report = claims.evaluate_claims(_evaluated(paired_diffs=[("b", "a")]), [spec])
    given = claims.ClaimReport(claims={"told": [claims.GateResult("gate", True)]})
    return report.has_failures(), report.has_failures(include_warnings=True), given.has_failures()


def _manifest() -> Any:
    made = manifest.make_manifest(
        run_id="r",
        config={"a": 1},
        seeds={"global": 1},
        guardrails=["no retuning"],
        source_roles=[manifest.SourceRoleRecord("d", "train", n_rows=3)],
        metadata={"k": "v"},
        data_revisions={"d": "1"},
        contamination_flags={"a": "unknown"},
        versioned={"a": First()},
    )
    fields = ("run_id", "schema_version", "config_hash", "seeds", "guardrails", "source_roles")
    with tempfile.TemporaryDirectory() as folder:
        assert manifest.write_manifest(made, folder).is_file()
    return {name: made.to_dict()[name] for name in (*fields, "versioned_objects")}


def _stored() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.csv"
        frame = pd.DataFrame({"id": range(N), "y": Y, "p": A, "hash": [f"h{i}" for i in range(N)]})
        frame.to_csv(path, index=False)
        reference = artifacts.PredictionArtifactRef(
            uri=str(path),
            media_type="text/csv",
            columns=artifacts.PredictionColumns(
                label="y", score="p", row_id="id", content_hash="hash"
            ),
            n_rows=N,
        ).to_dict()
        found = analysis.bootstrap_metric_from_predictions(reference, n_resamples=50, rng=1)
        diff = analysis.paired_diff_from_prediction_refs(
            reference, reference, n_resamples=50, rng=1
        )
        return sorted({*found} & {"point", "low", "high", "confidence"}), diff["delta"]


def _small_things() -> Any:
    seeds.set_global_seeds(7)
    return {
        "state": artifacts.MetricState(value=0.5, status="ok").value,
        "skipped": artifacts.skipped_metric("why", n=1)["status"],
        "error": artifacts.error_metric("why", n=1)["status"],
        "clean": artifacts.sanitize_for_json({"a": float("inf")})["a"]["status"],
        "no file": provenance.file_sha256("/nonexistent"),
        "roles": len(evidence.RECOMMENDED_SOURCE_ROLES),
        "axis": evidence.EvidenceAxis("slice", "test"),
    }


def _looked_at() -> Any:
    labels = [0, 1, 1] * 7
    spread = np.random.default_rng(0).normal(size=(40, 3))
    return {
        "invisible": eda.count_invisible_chars("a\u200bb"),
        "entropy": eda.shannon_entropy("abab"),
        "leet": eda.is_leeted_token("h4ck"),
        "changed": eda.nfkc_changed("ﬁ"),
        "terms": eda.class_lexical_association(TEXTS, labels) is not None,
        "shift": eda.distribution_shift(spread, spread + 1.0) is not None,
        "bandwidth": eda.median_bandwidth(spread),
        "lengths": eda.length_quantiles(TEXTS) is not None,
        "profile": eda.analyze_obfuscation(TEXTS) is not None,
    }


CALLS: dict[str, Callable[[], Any]] = {
    name.strip("_"): call
    for name, call in globals().copy().items()
    if name.startswith("_") and not name.startswith("__") and callable(call)
    if name not in ("_RNG", "_slice", "_evaluated")
}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        value = value.to_dict() if hasattr(value, "to_dict") else named
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def main(file: Path) -> None:
    """Write the result or the error of every call."""
    warnings.simplefilter("ignore")
    given: dict[str, Any] = {}
    for name, call in CALLS.items():
        try:
            given[name] = _plain(call())
        except Exception as error:
            given[name] = {"raised": f"{type(error).__name__}: {error}"}
    file.write_text(json.dumps(given, indent=1), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
