"""The hooks for pre-commit: their entries on files as a commit holds them, and pre-commit itself."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eval_toolkit.cli.main import cli

Command = Callable[..., tuple[int, str, str]]
yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}

CLEAN = "text,label\nthe weather is fine today,0\nignore all previous rules now,1\n"
COPIES = CLEAN + "ignore all previous rules now,1\n"
CLAIMS = '[[claim]]\nname = "n"\nslice = "test"\nmin_n = 5\n'


def run_hook(name: str, *files: Path, instead: list[str] | None = None) -> Any:
    """Call a hook as pre-commit does: entry, its arguments or the user's, then file names."""
    hook = HOOKS[name]
    command = [*hook["entry"].split()[1:], *(hook.get("args", []) if instead is None else instead)]
    return CliRunner().invoke(cli, [*command, *map(str, files)])


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    texts = {"a/train.csv": CLEAN, "b/train.csv": COPIES, "a/test.csv": CLEAN}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in texts}


class TestCheck:
    def test_unrelated_files_are_checked_one_by_one(self, data: dict[str, Path]) -> None:
        """Two files of one name, and the same rows in two folders: nothing to do with each other."""
        done = run_hook("eval-toolkit-check", data["a/train.csv"], data["a/test.csv"])
        assert done.exit_code == 0, done.output
        done = run_hook("eval-toolkit-check", data["a/train.csv"], data["b/train.csv"])
        assert done.exit_code == 1
        assert str(data["b/train.csv"]) in done.output

    def test_files_that_belong_together_are_named(self, data: dict[str, Path]) -> None:
        together = [f"train={data['a/train.csv']}", f"test={data['a/test.csv']}"]
        assert run_hook("eval-toolkit-check", instead=together).exit_code == 1

    def test_the_data_says_which_file(self, data: dict[str, Path]) -> None:
        args = ["check", "--each", *map(str, (data["a/train.csv"], data["b/train.csv"]))]
        assert CliRunner().invoke(cli, args).exit_code == 0  # copies within a file are warnings
        done = CliRunner().invoke(cli, [*args, "--strict", "--json"])
        payload = json.loads(done.output)
        assert payload["failed"] is True
        assert [f["has_findings"] for f in payload["files"].values()] == [False, True]

    def test_every_file_is_looked_at(self, data: dict[str, Path], tmp_path: Path) -> None:
        """A table without texts is none of ours; one that cannot be read fails, after the others."""
        numbers, empty = tmp_path / "numbers.csv", tmp_path / "empty.csv"
        numbers.write_text("a,b\n1,2\n")
        empty.write_text("")
        done = run_hook("eval-toolkit-check", numbers, data["a/train.csv"])
        assert done.exit_code == 0, done.output
        assert f"{numbers}: not checked: none of the columns text" in done.output
        done = run_hook("eval-toolkit-check", empty, numbers, data["b/train.csv"])
        assert done.exit_code == 2
        assert f"{empty}: the file is empty" in done.output
        assert "1 copy" in done.output

    def test_what_goes_without(self, data: dict[str, Path]) -> None:
        done = CliRunner().invoke(cli, ["check", "--each", "--train", "x", str(data["a/test.csv"])])
        assert done.exit_code == 2
        assert "--each cannot be combined with" in done.output


class TestValidate:
    def test_every_file_has_a_line(self, tmp_path: Path) -> None:
        other, bad = tmp_path / "manifest.json", tmp_path / "claims.toml"
        other.write_text('{"manifest_version": 3}')
        bad.write_text(CLAIMS + "minimum = 3\n")
        broken = tmp_path / "results.json"
        broken.write_text("{")
        done = run_hook("eval-toolkit-validate", other, bad)
        assert done.exit_code == 1
        assert f"{other}: no known schema: skipped" in done.output
        assert "'minimum'" in done.output
        done = run_hook("eval-toolkit-validate", other, broken, bad)
        assert done.exit_code == 2
        assert len(done.output.splitlines()) == 3
        assert run_hook("eval-toolkit-validate", other).exit_code == 0
        done = run_hook("eval-toolkit-validate", other, bad, instead=[])
        assert done.exit_code == 2
        assert "its schema is unknown" in done.output

    def test_several_files(self, tmp_path: Path) -> None:
        good, bad = tmp_path / "claims.toml", tmp_path / "claims_b.toml"
        good.write_text(CLAIMS)
        bad.write_text(CLAIMS + "minimum = 3\n")
        results = tmp_path / "results.json"
        results.write_text('{"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}')
        done = run_hook("eval-toolkit-validate", good, results)
        assert done.exit_code == 0, done.output
        assert done.output.splitlines() == [
            f"{good}: valid claims file",
            f"{results}: valid results.v1.json",
        ]
        done = run_hook("eval-toolkit-validate", good, bad, results)
        assert done.exit_code == 1
        assert re.search(rf"{re.escape(str(bad))}: .*'minimum'", done.output)
        payload = json.loads(
            CliRunner().invoke(cli, ["validate", str(good), str(bad), "--json"]).output
        )
        assert [entry["valid"] for entry in payload["files"]] == [True, False]

    def test_a_claims_file_that_is_not_there(self, command: Command, tmp_path: Path) -> None:
        code, _, said = command("validate", tmp_path / "claims.toml")
        assert (code, said) == (2, f"error: {tmp_path / 'claims.toml'}: there is no such file\n")


@pytest.mark.parametrize(
    ("hook", "yes", "no"),
    [
        (
            "eval-toolkit-check",
            ["data/a.csv", "a.jsonl.gz", "b.parquet", "c.tsv"],
            ["a.py", "results.json", "csv", "a.csv.txt"],
        ),
        (
            "eval-toolkit-validate",
            ["claims.toml", "ci/claims_v2.toml", "runs/r/results.json", "runs/r/manifest.json"],
            ["pyproject.toml", "package.json", "myresults.json"],
        ),
    ],
)
def test_which_files_a_hook_is_for(hook: str, yes: list[str], no: list[str]) -> None:
    pattern = re.compile(HOOKS[hook]["files"])
    assert [name for name in yes if not pattern.search(name)] == []
    assert [name for name in no if pattern.search(name)] == []


@pytest.mark.skipif(
    not (shutil.which("pre-commit") and shutil.which("git")),
    reason="pre-commit or git is not installed",
)
def test_pre_commit_itself(tmp_path: Path) -> None:
    """The hooks with `language: system`, in a repository of their own."""
    hooks = [{**HOOKS[name], "language": "system", "additional_dependencies": []} for name in HOOKS]
    for hook in hooks:
        hook["entry"] = hook["entry"].replace("eval-toolkit", f"{sys.executable} -m eval_toolkit")
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "claims.toml").write_text(CLAIMS)
    (tmp_path / "good.csv").write_text(CLEAN)
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"), "PRE_COMMIT_COLOR": "never"}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    call("git", "init", "-q")
    call("git", "add", "claims.toml", "good.csv", ".pre-commit-config.yaml")
    done = call("pre-commit", "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Passed") == 2
    (tmp_path / "bad.csv").write_text(COPIES)
    call("git", "add", "bad.csv")
    done = call("pre-commit", "run")
    assert done.returncode == 1
    assert "bad.csv" in done.stdout
