"""The installed eval-toolkit 1.12: its files are read, its calls run here, its names are listed."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

from eval_toolkit.integrations.importing import import_logs

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-original" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "original"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs that the original has written, from outside of this repository."""
    folder = tmp_path_factory.mktemp("original")
    script = SCRIPTS / "making.py"
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


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the calls of calling.py give: those of 1.12, and ours."""
    folder = tmp_path_factory.mktemp("called")
    script = str(SCRIPTS / "calling.py")
    ours = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")}
    theirs = {"PATH": "/usr/bin:/bin"}
    given = []
    for python, name, env in ((str(PYTHON), "a", theirs), (sys.executable, "b", ours)):
        file = folder / f"{name}.json"
        subprocess.run([python, "-P", script, str(file)], check=True, cwd=folder, env=env)
        given.append(json.loads(file.read_text("utf-8")))
    return given[0], given[1]


def _differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yield where values differ; what we have in addition is no difference."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key, value in theirs.items():
            if key in ours:
                yield from _differences(value, ours[key], f"{path}.{key}".lstrip("."))
            else:
                yield f"{path}.{key}"
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for at, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _differences(one, other, f"{path}.{at}")
    elif isinstance(theirs, float) and isinstance(ours, float):
        if theirs != pytest.approx(ours, abs=1e-12):
            yield path
    elif theirs != ours:
        yield path


# The page says why: intervals are drawn or made otherwise, and two rules are better.
OTHERWISE = re.compile(
    r"(intervals|differences)\.\w+\.(low|high)|intervals\.folds\.method"
    r"|thresholds\.0\.2\.(threshold|f1|precision)|leaks\.6\.2"
)


def test_calls_of_1_12_give_the_same_here(
    called: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    theirs, ours = called
    assert len(theirs) >= 19
    for given in called:
        raised = {name: one["raised"] for name, one in given.items() if "raised" in [*one][:1]}
        assert raised == {}
    differ = [path for path in _differences(theirs, ours) if not OTHERWISE.fullmatch(path)]
    assert differ == []


def test_names_of_1_12_are_those_on_the_list(tmp_path: Path) -> None:
    script, file = SCRIPTS / "listing.py", tmp_path / "names.txt"
    subprocess.run(
        [str(PYTHON), "-P", str(script), str(file)],
        check=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert file.read_text("utf-8") == (SCRIPTS / "names.txt").read_text("utf-8")
