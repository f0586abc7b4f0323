"""Files that the installed eval-toolkit 1.12 writes: validated, imported, compared, gated, reported."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from eval_toolkit.integrations.importing import import_logs

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-original" / "bin" / "python"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs that the original has written, from outside of this repository."""
    folder = tmp_path_factory.mktemp("original")
    script = Path(__file__).parent / "original" / "making.py"
    command = [str(PYTHON), "-P", str(script), str(folder / "runs")]
    subprocess.run(command, check=True, cwd=folder, env={"PATH": "/usr/bin:/bin"})
    return folder / "runs"


def test_every_file_is_valid(runs: Path, command: Command) -> None:
    files = sorted(runs.glob("*/*.json"))
    assert len(files) == 12
    found = command("validate", *files)
    assert found[0] == 0, found[2]


@pytest.mark.parametrize("name", ["a", "b", "bare"])
def test_values_are_those_of_the_original(runs: Path, name: str) -> None:
    by_slice = json.loads((runs / name / "results.json").read_text())["by_slice"]
    seen = 0
    for one in import_logs(runs / name):
        block = by_slice[one.log.task]["by_scorer"][one.log.model]
        for metric in ("pr_auc", "roc_auc", "ece", "ece_equal_mass"):
            if block.get(metric) is not None:
                assert one.cells[metric].value == pytest.approx(block[metric], abs=1e-12)
                seen += 1
        assert all(checked.agrees is not False for checked in one.checked)
    assert seen >= 8


def test_runs_are_compared_gated_and_reported(runs: Path, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "runs"
    for name in ("a", "b", "bare", "folded"):
        imported = command("import", runs / name, "--out", out)
        assert imported[0] == 0, imported[2]
    first, second = out / "a-test-strong", out / "b-test-strong"
    assert command("compare", first, second)[0] == 0
    for one in (first, out / "bare-strong", out / "folded-test-strong"):
        cell = "pr_auc @ slice=test" if one.name == "bare-strong" else "pr_auc"
        assert command("gate", one, "--at-least", cell, 0.3)[0] == 0
        assert command("gate", one, "--at-least", cell, 0.99)[0] == 1
        reported = command("report", one, "-o", tmp_path / f"{one.name}.html")
        assert reported[0] == 0, reported[2]
