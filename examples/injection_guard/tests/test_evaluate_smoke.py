"""End-to-end test on the whole data set: the stored run is complete and can be read."""

from pathlib import Path

from eval_toolkit.runs import Run
from injection_guard.evaluate import evaluate


def test_the_run_is_stored_and_reads_back(tmp_path: Path) -> None:
    path = evaluate(tmp_path / "run_smoke", n_folds=3)
    names = {file.name for file in path.iterdir()}
    assert {"results.json", "results_full.json", "manifest.json", "records.parquet"} <= names
    run = Run.open(path)
    assert set(run.results["by_slice"]["test"]["by_scorer"]) == {"keywords", "tfidf"}
    assert run.manifest["versioned_objects"]["scorer:tfidf"] == "0.1.0"
