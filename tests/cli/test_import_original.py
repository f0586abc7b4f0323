"""Run folders that eval-toolkit 1.12 wrote (tests/interop/original/making.py made them)."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

from eval_toolkit.errors import ArtifactError
from eval_toolkit.integrations.importing import import_logs, read_logs
from eval_toolkit.manifest import build_manifest
from eval_toolkit.runs import Run

RUNS = Path(__file__).parents[1] / "fixtures" / "original_1_12"


def _bare(folder: Path, by_scorer: dict[str, Any]) -> Path:
    """Write results without predictions and without a manifest."""
    by_slice = {"test": {"n": 40, "by_scorer": by_scorer}}
    results = {"schema_version": "v1", "run_id": "bare", "config": {}, "by_slice": by_slice}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


@pytest.mark.parametrize("path", sorted(RUNS.glob("*/*.json")), ids=lambda path: path.parent.name)
def test_every_file_is_valid(path: Path, command: Command) -> None:
    found = command("validate", path)
    assert found[0] == 0, found[2]


def test_stored_predictions_give_the_stated_values() -> None:
    found = {(one.log.task, one.log.model): one for one in import_logs(RUNS / "a")}
    assert set(found) == {
        (task, model) for task in ("test", "single") for model in ("strong", "weak")
    }
    stated = json.loads((RUNS / "a" / "results.json").read_text())["by_slice"]["test"]
    for model, block in stated["by_scorer"].items():
        cells = found["test", model].cells
        for metric in ("pr_auc", "roc_auc", "ece", "ece_equal_mass"):
            assert cells[metric].value == pytest.approx(block[metric], abs=1e-12)
        recall = block["operating_points"]["max_f1"]["recall"]
        assert cells["max_f1.recall"].value == recall
        verdicts = {one.column: one.agrees for one in found["test", model].checked}
        assert (verdicts["pr_auc"], verdicts["roc_auc"]) == (True, True)
    assert found["single", "weak"].cells["pr_auc"].status == "skipped"


def test_imported_runs_are_compared_gated_and_reported(tmp_path: Path, command: Command) -> None:
    imported = command("import", RUNS / "a", RUNS / "b", "--out", tmp_path / "runs")
    assert imported[0] == 0, imported[2]
    first, second = (tmp_path / "runs" / f"{name}-test-strong" for name in "ab")
    settings = Run.open(first).manifest["config"]["imported"]["settings"]
    assert settings["guardrails"] == ["the test set is opened once", "no retuning"]
    assert settings["claim_report"]["has_failures"] is True
    compared = command("compare", first, second, "--json")
    assert compared[0] == 0, compared[2]
    cells = {cell["metric"]: cell for cell in json.loads(compared[1])["cells"]}
    assert cells["brier"]["n_units"] == 80
    assert cells["brier"]["delta"] > 0.0
    assert cells["roc_auc"]["delta"] == 0.0  # every score is shifted alike
    assert command("gate", first, "--at-least", "pr_auc", 0.4)[0] == 0
    assert command("gate", first, "--at-least", "pr_auc", 0.99)[0] == 1
    reported = command("report", first, second, "-o", tmp_path / "report.html")
    assert reported[0] == 0, reported[2]


def test_a_summary_over_folds_is_taken_as_stated() -> None:
    (strong, _weak) = import_logs(RUNS / "folded")
    summary = json.loads((RUNS / "folded" / "results.json").read_text())["fold_summary"]
    stated, cell = summary["test"]["strong"]["pr_auc"], strong.cells["pr_auc"]
    assert cell.ci is not None
    assert (cell.value, cell.ci.low, cell.ci.high) == (
        stated["mean"],
        stated["ci_low"],
        stated["ci_high"],
    )


def test_failed_and_skipped_scorers_have_cells_with_reasons(tmp_path: Path) -> None:
    folder = _bare(
        tmp_path,
        {
            "broken": {"error": "no weights", "traceback": "File /secret/place", "scores": []},
            "shy": {"skipped": "not in the allow-list", "n": 40},
            "fine": {"pr_auc": 0.7, "pr_auc_ci": {"status": "skipped", "reason": "few rows"}},
        },
    )
    found = {one.log.model: one for one in import_logs(folder, tmp_path / "runs")}
    states = {name: one.cells["pr_auc"] for name, one in found.items()}
    assert (states["broken"].status, states["broken"].reason) == ("error", "no weights")
    assert (states["shy"].status, states["shy"].reason) == ("skipped", "not in the allow-list")
    assert (states["fine"].value, states["fine"].ci) == (0.7, None)
    for one in found.values():
        assert one.run is not None
        assert "/secret/place" not in (one.run.path / "manifest.json").read_text()


def test_predictions_that_changed_are_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUNS / "a", tmp_path / "a"))
    with (folder / "predictions.csv").open("a") as file:
        file.write("row-x,1,0.5,strong,test\n")
    with pytest.raises(ArtifactError, match="has changed"):
        read_logs(folder)
    (folder / "predictions.csv").unlink()
    log = read_logs(folder)[0]
    assert not log.samples
    assert "missing" in log.notes[0]


def test_a_run_of_the_original_is_pointed_to_import(command: Command) -> None:
    found = command("report", RUNS / "a")
    assert found[0] == 2
    assert "eval-toolkit import" in found[2]


def test_guardrails_may_be_a_list() -> None:
    manifest = build_manifest(run_id="r", config={}, guardrails=["once", {"check": "hash"}])
    assert manifest.to_dict()["guardrails"] == ["once", {"check": "hash"}]
    with pytest.raises(ValueError, match="a rule must be a non-empty string or mapping"):
        build_manifest(run_id="r", config={}, guardrails=[" "])
