"""The worked examples: pages whose blocks run in order, and the example project."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from docs._ext.blocks import run_page

from eval_toolkit.runs import find_runs, run_state, write_run

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "examples"
PROJECT = ROOT / "examples" / "injection_guard"
RESULTS = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}


def environment() -> dict[str, str]:
    """The command line of the interpreter that runs the tests comes first."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": paths, "PYTHONPATH": str(ROOT / "src")}


def test_prompt_injection_walkthrough(tmp_path: Path) -> None:
    output = "".join(run_page(PAGES / "prompt_injection_walkthrough.md", tmp_path).printed)
    assert "LK001" in output  # the copies in capitals were found …
    assert len((tmp_path / "clean" / "mails.csv").read_text().splitlines()) == 577  # … and dropped
    assert "tfidf is sure to be good" in output


def test_claims_page(tmp_path: Path) -> None:
    output = "".join(run_page(ROOT / "docs" / "claims.md", tmp_path).printed)
    assert "8 of 9 claims hold" in output  # "excellent" is a warning that fails
    assert (tmp_path / "gate.xml").exists()


def test_pytorch_scorer(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed; `make test-hf` has it")
    names = run_page(PAGES / "pytorch_scorer_example.md", tmp_path).names
    assert names["summary"]["n_folds"] == 3
    assert names["summary"]["mean"] > 0.9


@pytest.fixture
def script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """The project's script in this process, in an empty folder: what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(PROJECT / "src")
    monkeypatch.setenv("PYTHONHASHSEED", "42")  # the script sets it, and would leave it set

    def run(*words: str) -> str:
        from injection_guard.evaluate import main

        monkeypatch.setattr(sys, "argv", ["evaluate", *words])
        main()
        return capsys.readouterr().out

    return run


class TestProject:
    def run(self, *command: str, cwd: Path = PROJECT) -> subprocess.CompletedProcess[str]:
        env = environment()
        env["PYTHONPATH"] = os.pathsep.join([str(PROJECT / "src"), env["PYTHONPATH"]])
        return subprocess.run(
            [sys.executable, *command],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_its_layout(self) -> None:
        for name in (
            "src/injection_guard/scorers.py",
            "src/injection_guard/data.py",
            "src/injection_guard/evaluate.py",
            "tests/test_scorers.py",
            "tests/test_evaluate_smoke.py",
            "evals",
            "pyproject.toml",
        ):
            assert (PROJECT / name).exists(), name

    def test_its_tests_pass(self) -> None:
        done = self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
        assert done.returncode == 0, done.stdout + done.stderr

    def test_its_script_stores_a_new_run_each_time(
        self, script: Callable[..., str], tmp_path: Path
    ) -> None:
        done = self.run("-m", "injection_guard.evaluate", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        for said in (done.stdout, script()):
            stored = tmp_path / said.splitlines()[-1].removeprefix("stored ")
            assert run_state(stored) == "complete"
        assert len(find_runs(tmp_path / "evals")) == 2

    def test_its_script_stores_a_run_where_it_is_told(
        self, script: Callable[..., str], tmp_path: Path
    ) -> None:
        script("--run-dir", "run_1")
        assert {path.name for path in (tmp_path / "run_1").iterdir()} >= {
            "results.json",
            "results_full.json",
            "manifest.json",
        }

    def test_its_script_refuses_a_folder_with_a_run(
        self,
        script: Callable[..., str],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        (tmp_path / "file").touch()
        write_run(tmp_path / "run_1", results=RESULTS, manifest={"run_id": "r"})
        before = (tmp_path / "run_1" / "manifest.json").read_bytes()
        for name in ("run_1", "file"):
            with pytest.raises(SystemExit) as ended:
                script("--run-dir", name)
            assert ended.value.code == 2
            assert capsys.readouterr() == (
                "",
                f"{name}: is there already; name a new folder or leave --run-dir out\n",
            )
        assert (tmp_path / "run_1" / "manifest.json").read_bytes() == before
