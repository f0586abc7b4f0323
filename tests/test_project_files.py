"""Files that other programs read: workflows, hooks, the citation. What they name exists."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict), path
    return loaded


def steps() -> list[str]:
    jobs = [job for path in WORKFLOWS for job in read(path)["jobs"].values()]
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_the_citation_is_of_this_version() -> None:
    cited = read(ROOT / "CITATION.cff")
    assert cited["version"] == PROJECT["version"]
    assert (cited["title"], cited["license"]) == (PROJECT["name"], PROJECT["license"])
    assert cited["abstract"] == PROJECT["description"]


def test_workflows_call_targets_and_scripts_that_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    called = [name for step in steps() for name in re.findall(r"^make (\S+)", step, re.M)]
    assert called
    assert set(called) <= set(targets)
    assert ".ci/run" in steps()
    assert (ROOT / ".ci" / "run").is_file()


def test_every_python_that_is_declared_is_tested_on_three_systems() -> None:
    matrix = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["matrix"]["strategy"]
    marks = [re.fullmatch(r".*Python :: (3\.\d+)", one) for one in PROJECT["classifiers"]]
    assert matrix["matrix"]["python"] == [mark[1] for mark in marks if mark]
    assert {name.split("-")[0] for name in matrix["matrix"]["os"]} == {"ubuntu", "macos", "windows"}


def test_hooks_run_what_make_installs() -> None:
    (local,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    tools = {hook["entry"].split()[0] for hook in local["hooks"]}
    assert tools == {".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/lint-imports"}
