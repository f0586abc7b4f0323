"""Stored predictions asked again: any metric, any interval, regions, drift."""

import csv
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis import (
    CsvPredictionReader,
    bootstrap_metric_from_predictions,
    drift,
    higher_is_better,
    load_prediction_arrays,
    metric_named,
    paired_diff_from_prediction_refs,
    rows_at,
)
from eval_toolkit.artifacts import PredictionArtifactRef, PredictionColumns, write_predictions
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    MissingColumnError,
    UndefinedMetricError,
)
from eval_toolkit.inference import bootstrap_ci, paired_bootstrap_diff
from eval_toolkit.metrics import CATALOGUE, pr_auc, roc_auc


@pytest.fixture(scope="module")
def walkthrough():
    """The data of the artifacts chapter: two scorers on the same 200 rows, as CSV files."""
    tmpdir = Path(tempfile.mkdtemp())
    rng = np.random.default_rng(0)
    n = 200
    labels = rng.integers(0, 2, size=n)
    baseline_scores = np.clip(0.3 + 0.4 * labels + rng.normal(0, 0.15, n), 0, 1)
    candidate_scores = np.clip(0.2 + 0.6 * labels + rng.normal(0, 0.10, n), 0, 1)

    def _write_csv(path: Path, scores: np.ndarray) -> None:
        with path.open("w", newline="") as fh:
            writer = csv.DictWriter(fh, fieldnames=["label", "score", "row_id", "content_hash"])
            writer.writeheader()
            for i, (y, s) in enumerate(zip(labels, scores, strict=True)):
                writer.writerow(
                    {
                        "label": int(y),
                        "score": float(s),
                        "row_id": f"r{i}",
                        "content_hash": f"h{i}",
                    }
                )

    baseline_path = tmpdir / "baseline_preds.csv"
    candidate_path = tmpdir / "candidate_preds.csv"
    _write_csv(baseline_path, baseline_scores)
    _write_csv(candidate_path, candidate_scores)
    columns = PredictionColumns(
        label="label", score="score", row_id="row_id", content_hash="content_hash"
    )
    return tuple(
        PredictionArtifactRef(uri=str(path), media_type="text/csv", columns=columns)
        for path in (baseline_path, candidate_path)
    )


def test_the_walkthrough_of_the_artifacts_chapter(walkthrough):
    """Values: the specification of the chapter, computed with scikit-learn 1.9.1."""
    baseline_ref, candidate_ref = walkthrough
    arrays = load_prediction_arrays(baseline_ref.to_dict())
    assert arrays.labels.shape == (200,)
    assert arrays.scores.shape == (200,)
    assert int(arrays.labels.sum()) == 111
    ci = bootstrap_metric_from_predictions(baseline_ref.to_dict(), n_resamples=50, seed=1)
    assert (ci["method"], ci["n_resamples"]) == ("score", 0)  # in closed form
    low, high = ci["ci_95"]
    assert low < ci["point_estimate"] < high
    drawn = bootstrap_metric_from_predictions(
        baseline_ref.to_dict(), method="BCa", n_resamples=50, seed=1
    )
    assert (drawn["method"], drawn["n_resamples"]) == ("BCa", 50)
    assert ci["point_estimate"] == pytest.approx(0.96495, abs=5e-6)
    diff = paired_diff_from_prediction_refs(
        baseline_ref.to_dict(), candidate_ref.to_dict(), n_resamples=50, seed=1
    )
    assert diff["n_resamples"] == 50
    assert diff["delta"] == pytest.approx(0.03505, abs=5e-6)
    assert diff["value_b"] == 1.0
    assert diff["pairing"] == ""
    json.dumps([ci, diff], allow_nan=False)


def test_a_perfect_scorer_has_an_interval_and_a_difference(walkthrough):
    _, perfect = walkthrough
    ci = bootstrap_metric_from_predictions(perfect, n_resamples=50)
    assert (ci["point_estimate"], ci["ci_high"]) == (1.0, 1.0)
    assert 0.9 < ci["ci_low"] < 1.0
    diff = paired_diff_from_prediction_refs(perfect, perfect, n_resamples=50)
    assert (diff["delta"], diff["p_value"]) == (0.0, 1.0)
    assert -0.15 < diff["ci_low"] == -diff["ci_high"] < 0.0


def test_any_metric_under_any_interval_without_inference(walkthrough):
    ref, _ = walkthrough
    for method in ("BCa", "percentile", "basic", "studentized"):
        ci = bootstrap_metric_from_predictions(ref, metric="brier", method=method, n_resamples=99)
        assert ci["method"].startswith(method)
        assert ci["metric"] == "brier"
    by_name = bootstrap_metric_from_predictions(ref, metric="roc_auc", n_resamples=99)
    for metric in (ms.roc_auc, roc_auc):
        again = bootstrap_metric_from_predictions(ref, metric=metric, n_resamples=99)
        assert again["ci_95"] == by_name["ci_95"]
    delong = bootstrap_metric_from_predictions(ref, metric="roc_auc", method="delong")
    assert (delong["method"], delong["n_resamples"]) == ("delong-logit", 0)
    assert bootstrap_metric_from_predictions(
        ref, metric=lambda y, s: float(np.mean(s)), n_resamples=20
    )["metric"] == ("<lambda>")


def test_seed_and_rng_are_one_argument(walkthrough):
    ref, _ = walkthrough
    same = [
        bootstrap_metric_from_predictions(ref, method="BCa", n_resamples=50, **seed)
        for seed in ({}, {"seed": 42}, {"rng": 42})
    ]
    assert same[0] == same[1] == same[2]
    assert bootstrap_metric_from_predictions(ref, method="BCa", n_resamples=50, seed=7) != same[0]
    with pytest.raises(InvalidInputError, match="not both"):
        bootstrap_metric_from_predictions(ref, seed=1, rng=1)


def write(folder, name, labels, scores, **columns):
    return write_predictions(Path(folder) / name, labels=labels, scores=scores, **columns)


@pytest.fixture
def pair(tmp_path):
    """Two parquet files of the same rows in different orders, in groups of four."""
    rng = np.random.default_rng(3)
    n = 80
    labels = rng.integers(0, 2, n)
    scores = [np.clip(0.4 + 0.2 * labels + rng.normal(0, s, n), 0, 1) for s in (0.2, 0.15)]
    ids = np.array([f"r{i:03d}" for i in range(n)])
    hashes = np.array([f"h{i}" for i in range(n)])
    groups = np.array([f"g{i // 4}" for i in range(n)])
    order = rng.permutation(n)
    a = write(
        tmp_path, "a.parquet", labels, scores[0], row_ids=ids, content_hashes=hashes, groups=groups
    )
    b = write(
        tmp_path,
        "b.parquet",
        labels[order],
        scores[1][order],
        row_ids=ids[order],
        content_hashes=hashes[order],
        groups=groups[order],
    )
    return a, b, labels, scores, groups


def test_whole_groups_are_drawn_where_the_file_has_them(pair):
    a, b, labels, scores, groups = pair
    ci = bootstrap_metric_from_predictions(a, n_resamples=200, seed=3)
    expected = bootstrap_ci(labels, scores[0], pr_auc, n_resamples=200, seed=3, groups=groups)
    assert ci["ci_95"] == [expected.ci_low, expected.ci_high]
    assert ci["n_groups"] == 20
    diff = paired_diff_from_prediction_refs(a, b, n_resamples=200, seed=3)
    expected = paired_bootstrap_diff(
        labels, *scores, pr_auc, n_resamples=200, seed=3, groups=groups
    )
    assert diff["ci_95"] == [expected.ci_low, expected.ci_high]
    for function, refs in (
        (bootstrap_metric_from_predictions, (a,)),
        (paired_diff_from_prediction_refs, (a, b)),
    ):
        with pytest.raises(
            InvalidInputError,
            match="`method` is 'delong', which assumes independent rows; use a bootstrap method for rows in groups",
        ):
            function(*refs, metric="roc_auc", method="delong")


def test_a_group_column_may_be_named(tmp_path):
    y, s = [0, 1] * 20, [0.02 * i for i in range(40)]
    path = tmp_path / "p.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "score", "author"])
        writer.writerows((y[i], s[i], i // 4) for i in range(40))
    ref = {
        "uri": str(path),
        "media_type": "text/csv",
        "columns": {"label": "label", "score": "score"},
    }
    assert bootstrap_metric_from_predictions(ref, n_resamples=50)["n_groups"] == 40
    assert bootstrap_metric_from_predictions(ref, n_resamples=50, groups="author")["n_groups"] == 10
    with pytest.raises(ValueError, match="auther"):
        bootstrap_metric_from_predictions(ref, groups="auther")


def test_mistakes_in_calls(walkthrough):
    ref, other = walkthrough
    with pytest.raises(MissingColumnError, match=r"'pr_acu'; did you mean pr_auc"):
        bootstrap_metric_from_predictions(ref, metric="pr_acu")
    with pytest.raises(
        InvalidInputError, match="`method` is 'delong', which applies to roc_auc only"
    ):
        bootstrap_metric_from_predictions(ref, method="delong")
    with pytest.raises(InvalidInputError, match="`method` is 'BCa'"):
        paired_diff_from_prediction_refs(ref, other, method="BCa")
    with pytest.raises(InvalidInputError, match="`method` is 'magic'"):
        bootstrap_metric_from_predictions(ref, method="magic")
    bad = {**ref.to_dict(), "media_type": "text/html"}
    with pytest.raises(ValueError, match="no built-in reader"):
        load_prediction_arrays(bad)
    arrays = load_prediction_arrays(bad, reader=CsvPredictionReader())
    assert len(arrays) == 200


def test_rows_that_are_not_the_same_are_not_compared(tmp_path):
    y, s, ids = [0, 1] * 10, [0.1, 0.7] * 10, [f"r{i}" for i in range(20)]
    hashes = [f"h{i}" for i in range(20)]
    base = write(tmp_path, "a.csv", y, s, row_ids=ids, content_hashes=hashes)
    for change, message in (
        ({"row_ids": [*ids[:-1], "zz"]}, "1 of 20 row ids of baseline are not in candidate"),
        ({"content_hashes": [*hashes[:-1], "zz"]}, "differ in content hash"),
        ({"labels": [1, *y[1:]]}, "differ in label"),
        ({"row_ids": None}, "candidate has no row ids"),
    ):
        columns = {"labels": y, "scores": s, "row_ids": ids, "content_hashes": hashes} | change
        other = write_predictions(tmp_path / "b.csv", **columns)
        with pytest.raises(ValueError, match=message):
            paired_diff_from_prediction_refs(base, other)
    without = write(tmp_path, "c.csv", y, s, row_ids=ids)
    said = paired_diff_from_prediction_refs(base, without, n_resamples=20)["pairing"]
    assert said.startswith("no content hashes in candidate")


def test_an_altered_file_is_refused(tmp_path):
    ref = write(tmp_path, "a.csv", [0, 1] * 10, [0.1, 0.7] * 10)
    text = (tmp_path / "a.csv").read_text(encoding="utf-8")
    (tmp_path / "a.csv").write_text(text.replace("0.7", "0.8"), encoding="utf-8")
    for ask in (bootstrap_metric_from_predictions, load_prediction_arrays):
        with pytest.raises(ArtifactError):
            ask(ref)
    with pytest.raises(ArtifactError):
        rows_at(ref, max_fpr=0.1)


def test_one_class_has_no_pr_auc(tmp_path):
    ref = write(tmp_path, "a.csv", [1] * 20, [0.1, 0.7] * 10)
    with pytest.raises(UndefinedMetricError, match="all 20 rows are positive"):
        bootstrap_metric_from_predictions(ref)


SCORES = [0.9, 0.8, 0.8, 0.7, 0.6, 0.5, 0.4]
LABELS = [1, 1, 0, 1, 0, 1, 0]


@pytest.fixture
def curve(tmp_path):
    """Ties at 0.8; three negatives."""
    return write(tmp_path, "c.csv", LABELS, SCORES, row_ids=list("abcdefg"))


@pytest.mark.parametrize(
    ("region", "threshold", "ids", "fpr"),
    [
        ({"max_fpr": 0.0}, 0.9, "a", 0.0),
        ({"max_fpr": 0.33}, 0.9, "a", 0.0),
        ({"max_fpr": 1 / 3}, 0.7, "abcd", 1 / 3),
        ({"max_fpr": 0.99}, 0.5, "abcdef", 2 / 3),
        ({"max_fpr": 1.0}, 0.4, "abcdefg", 1.0),
        ({"min_precision": 1.0}, 0.9, "a", 0.0),
        ({"min_precision": 0.7}, 0.7, "abcd", 1 / 3),
        ({"min_precision": 0.0}, 0.4, "abcdefg", 1.0),
        ({"thresholds": (0.5, 0.8)}, 0.5, "def", 2 / 3),
        ({"thresholds": (0.8, None)}, 0.8, "abc", 1 / 3),
        ({"thresholds": (0.95, 2)}, 0.95, "", 0.0),
    ],
)
def test_the_rows_behind_a_region(curve, region, threshold, ids, fpr):
    found = rows_at(curve, **region)
    assert "".join(found.row_ids) == ids
    assert found.threshold == threshold
    assert found.fpr == pytest.approx(fpr)
    assert found.scores.tolist() == [SCORES["abcdefg".index(i)] for i in ids]
    assert found.labels.tolist() == [LABELS["abcdefg".index(i)] for i in ids]
    json.dumps(found.to_dict(), allow_nan=False)


def test_no_threshold_meets_the_demand(tmp_path):
    ref = write(tmp_path, "p.csv", [0, 1], [0.9, 0.1])
    found = rows_at(ref, max_fpr=0.5)
    assert (len(found), found.threshold, found.precision) == (0, None, None)
    assert (found.fpr, found.recall) == (0.0, 0.0)


def test_bad_regions(curve, tmp_path):
    for region, message in (
        ({}, "pass exactly one"),
        ({"max_fpr": 0.1, "min_precision": 0.1}, "pass exactly one"),
        ({"max_fpr": 1.5}, r"lie in \[0, 1\]"),
        ({"min_precision": -1}, r"lie in \[0, 1\]"),
        ({"thresholds": 0.5}, "a pair"),
        ({"thresholds": (0.5, 0.5)}, "low must be below high"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            rows_at(curve, **region)
    with pytest.raises(UndefinedMetricError, match="no negative rows"):
        rows_at(write(tmp_path, "p.csv", [1], [0.5]), max_fpr=0.1)


def test_drift_says_which_rows_moved(tmp_path):
    a = write(
        tmp_path,
        "a.csv",
        [0, 1, 1, 0, 1],
        [0.1, 0.5, 0.9, 0.3, 0.7],
        row_ids=list("abcde"),
        content_hashes=list("ABCDE"),
    )
    b = write(
        tmp_path,
        "b.jsonl",
        [0, 1, 1, 1, 0],
        [0.1, 0.5, 0.6, 0.31, 0.2],
        row_ids=list("abcdf"),
        content_hashes=list("AXCDF"),
    )
    found = drift(a, b)
    assert not found.same
    assert (found.only_in_a, found.only_in_b) == (("e",), ("f",))
    assert (found.changed_hash, found.changed_label) == (("b",), ("d",))
    assert found.changed_score == ("c", "d")
    assert found.moved[0].delta == pytest.approx(-0.3)
    assert found.max_abs_delta == pytest.approx(0.3)
    assert found.mean_abs_delta == pytest.approx(0.31 / 4)
    assert drift(a, b, tolerance=0.05).changed_score == ("c",)
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_same_predictions_in_another_order_and_format(tmp_path):
    a = write(tmp_path, "a.csv", [0, 1], [0.1, 0.25], row_ids=["x", "y"])
    b = write(tmp_path, "b.parquet", [1, 0], [0.25, 0.1], row_ids=["y", "x"])
    found = drift(a, b)
    assert found.same
    assert found.max_abs_delta == 0.0
    assert found.note.startswith("content hashes are missing")


def test_drift_needs_identity(tmp_path):
    a = write(tmp_path, "a.csv", [0, 1], [0.1, 0.2])
    with pytest.raises(ArtifactError, match="A has no row ids"):
        drift(a, a)
    apart = [write(tmp_path, f"{i}.csv", [0], [0.1], row_ids=[i]) for i in "xy"]
    found = drift(*apart)
    assert (found.n_common, found.max_abs_delta, found.same) == (0, None, False)


def test_every_stored_name_leads_back_to_its_metric():
    from eval_toolkit import op_metric_specs as op

    y, s = [0, 1, 1, 0] * 10, [0.2, 0.9, 0.4, 0.6] * 10
    specs = [
        *(ms.pr_auc, ms.roc_auc, ms.brier, ms.log_loss, ms.smooth_ece, ms.ece()),
        *(ms.ece(n_bins=7, strategy="quantile"), ms.recall_at_fpr(0.001), ms.recall_at_fpr(0.5)),
        *(ms.partial_roc_auc(0.1), op.op_f1(0.5), op.op_fpr(0.25), op.op_balanced_accuracy(-1.5)),
        op.op_net_benefit(0.2),
    ]
    for spec in specs:
        again = metric_named(spec.name)
        assert again.name == spec.name
        assert again.compute(y, s) == spec.compute(y, s)
        assert higher_is_better(spec.name) is spec.higher_is_better
    for name, info in CATALOGUE.items():
        assert metric_named(name).compute(y, s) == pytest.approx(info.function(y, s), nan_ok=True)
        assert higher_is_better(name) is info.higher_is_better


def test_names_without_a_metric():
    for name, message in (
        ("op_f1_at_max_f1", "'max_f1' is not a number; write f1@0.5"),
        ("recall_at_fpr_x", "did you mean recall@fpr=0.01"),
        ("recall_at_fpr_1.2.3", "'1.2.3' is not a number; write recall@fpr=0.01"),
        ("zzz", "choose from pr_auc, roc_auc"),
    ):
        with pytest.raises(MissingColumnError, match=message):
            metric_named(name)
    assert higher_is_better("op_fpr_at_max_f1_fitted_on_val") is False
    assert higher_is_better("zzz") is None
    with pytest.raises(InvalidInputError):
        metric_named("")


# --- files of several scorers or slices ----------------------------------------------------------


@pytest.fixture
def several(tmp_path):
    """Two scorers on two slices of 20 rows each, in one file."""
    scores = [0.2, 0.8] * 20 + [0.8, 0.2] * 20
    return write_predictions(
        tmp_path / "p.csv",
        labels=[0, 1] * 40,
        scores=scores,
        row_ids=[str(i) for i in range(40)] * 2,
        scorers=["good"] * 40 + ["bad"] * 40,
        slices=(["x"] * 20 + ["y"] * 20) * 2,
    )


def test_rows_of_several_scorers_or_slices_are_never_pooled(several):
    for ask in (
        lambda **k: bootstrap_metric_from_predictions(several, metric="roc_auc", **k),
        lambda **k: rows_at(several, max_fpr=0.1, **k),
        lambda **k: drift(several, several, **k),
    ):
        with pytest.raises(
            InvalidInputError, match=r"contains 2 scorers, 'bad', 'good'; choose one with scorer="
        ):
            ask()
        with pytest.raises(
            InvalidInputError, match=r"contains 2 slices, 'x', 'y'; choose one with slice="
        ):
            ask(scorer="good")
        with pytest.raises(MissingColumnError, match=r"has no 'ugly'; it has 'bad', 'good'"):
            ask(scorer="ugly", slice="x")
        ask(scorer="good", slice="x")
    with pytest.raises(
        InvalidInputError, match=r"candidate contains 2 scorers.*choose one with candidate_scorer="
    ):
        paired_diff_from_prediction_refs(several, several, baseline_scorer="good", slice="x")


def test_one_scorer_of_a_file_of_several(several):
    chosen = {"metric": "roc_auc", "n_resamples": 50, "slice": "x"}
    for scorer, auc in (("good", 1.0), ("bad", 0.0)):
        found = bootstrap_metric_from_predictions(several, scorer=scorer, **chosen)
        assert (found["point_estimate"], found["n_rows"]) == (auc, 20)
    found = paired_diff_from_prediction_refs(
        several, several, baseline_scorer="bad", candidate_scorer="good", **chosen
    )
    assert (found["delta"], found["n_rows"]) == (1.0, 20)
    flagged = rows_at(several, thresholds=(0.5, None), scorer="bad", slice="y")
    assert sorted(flagged.rows.tolist()) == list(range(60, 80, 2)), "positions in the file"
    assert flagged.fpr == 1.0
    assert drift(several, several, scorer="good", slice="y").n_common == 20


def test_ids_that_repeat_are_noticed_where_no_column_names_the_scorer(several):
    columns = PredictionColumns("label", "score", row_id="row_id")
    blind = PredictionArtifactRef(several.uri, several.media_type, columns)
    for ask in (
        lambda: bootstrap_metric_from_predictions(blind),
        lambda: rows_at(blind, max_fpr=0.1),
        lambda: drift(blind, blind),
        lambda: paired_diff_from_prediction_refs(blind, blind),
    ):
        with pytest.raises(ArtifactError, match="rows 1 and 41 have the row id '0'"):
            ask()
    with pytest.raises(MissingColumnError, match="has no 'good'; it has no column of scorers"):
        bootstrap_metric_from_predictions(blind, scorer="good")
