"""``eval-toolkit suite``: every task of a file, means over tasks, resumed like a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]

TASK = (
    '[task]\nname = "{name}"\ndata = "rows.jsonl"\n[prompt]\ninstruction = "{{q}}"\nanswer = "a"\n'
)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    rows = [f'{{"q": "{n}", "a": "{n % 2}"}}' for n in range(10)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(TASK.format(name=name) + "[graders.exact_match]\n")
    file = tmp_path / "s.toml"
    file.write_text('name = "s"\ntasks = ["one.toml", {task = "two.toml", limit = 4}]\n')
    return file


def test_tasks_and_their_mean(command: Command, suite: Path, tmp_path: Path) -> None:
    arguments = ("suite", suite, "--model", "scripted:1", "--out", tmp_path / "out", "--quiet")
    code, out, err = command(*arguments)
    assert (code, err) == (0, "")
    assert "means over tasks" in out
    assert (tmp_path / "out" / "two" / "manifest.json").is_file()


def test_running_again_asks_nothing(as_json: Json, suite: Path, tmp_path: Path) -> None:
    arguments = ("suite", suite, "--model", "scripted:1", "--out", tmp_path / "out", "--quiet")
    first, second = as_json(*arguments), as_json(*arguments)
    assert first == second
    assert first["aggregates"]["s"]["n_units"] == 14
    assert first["tasks"]["two"]["n_units"] == 4


def test_a_limit_holds_where_the_file_is_silent(as_json: Json, suite: Path, tmp_path: Path) -> None:
    told = as_json(
        *("suite", suite, "--model", "scripted:1", "--limit", 6, "--quiet"),
        *("--out", tmp_path / "out"),
    )
    assert [task["n_units"] for task in told["tasks"].values()] == [6, 4]


def test_a_mistake_in_the_file_is_one_line(command: Command, suite: Path) -> None:
    suite.write_text('name = "s"\nlimt = 4\ntasks = ["one.toml"]\n')
    code, out, err = command("suite", suite, "--model", "scripted:1")
    assert (code, out) == (2, "")
    assert "did you mean 'limit'" in err
