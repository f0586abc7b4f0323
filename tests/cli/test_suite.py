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
    assert "mean over tasks" in out
    assert (tmp_path / "out" / "two" / "manifest.json").is_file()


def test_running_again_asks_nothing(as_json: Json, suite: Path, tmp_path: Path) -> None:
    arguments = ("suite", suite, "--model", "scripted:1", "--out", tmp_path / "out", "--quiet")
    first, second = as_json(*arguments), as_json(*arguments)
    assert first == second
    assert first["aggregates"]["s"]["n_units"] == 14
    assert first["tasks"]["two"]["n_units"] == 4


def test_a_limit_that_is_typed_holds_whatever_the_file_says(
    as_json: Json, suite: Path, tmp_path: Path
) -> None:
    inner = '[[tasks]]\nname = "inner"\ntasks = [{task = "two.toml", limit = 3}]\n'
    suite.write_text('name = "s"\nlimit = 8\n[[tasks]]\ntask = "one.toml"\n' + inner)
    asked = ("suite", suite, "--model", "scripted:1", "--quiet", "--out")
    plain = as_json(*asked, tmp_path / "plain")
    assert [task["n_units"] for task in plain["tasks"].values()] == [8, 3]
    told = as_json(*asked, tmp_path / "out", "--limit", 6)
    assert [task["n_units"] for task in told["tasks"].values()] == [6, 6]


def test_a_mean_that_cannot_be_had_exits_with_3(
    command: Command, suite: Path, tmp_path: Path
) -> None:
    aggregate = '[[aggregates]]\nname = "m"\nsources = [{task = "one.toml", metric = "bleu"}]\n'
    suite.write_text('name = "s"\ntasks = ["one.toml"]\n' + aggregate.replace("one.toml", "one"))
    asked = ("suite", suite, "--model", "scripted:1", "--quiet", "--out", tmp_path / "out")
    code, out, _ = command(*asked)
    assert code == 3
    assert "one has no metric 'bleu'" in out
    assert "suite s, 1 task, scripted" in out


def test_a_mistake_in_the_file_is_one_line(command: Command, suite: Path) -> None:
    suite.write_text('name = "s"\nlimt = 4\ntasks = ["one.toml"]\n')
    code, out, err = command("suite", suite, "--model", "scripted:1")
    assert (code, out) == (2, "")
    assert "did you mean 'limit'" in err
