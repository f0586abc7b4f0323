"""``eval-toolkit leaderboard``: the library's ranking, read from folders of runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.analysis import leaderboard
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import load_task, run_task

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Three models that know one capital, two and none."""
    rows = [{"q": f"{n}", "a": "x" if n % 3 else "y"} for n in range(60)]
    declared = '[task]\nname = "letters"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
    declared += "[graders.exact_match]\n"
    (tmp_path / "letters.toml").write_text(declared)
    task = load_task(str(tmp_path / "letters.toml"), rows=rows)
    for answer in "xyz":
        run_task(task, ScriptedModel(answer, name=f"says {answer}"), tmp_path / answer)
    return [str(tmp_path / answer) for answer in "xyz"]


def test_says_what_the_library_says(as_json: Json, runs: list[str]) -> None:
    told = as_json("leaderboard", *runs, "--draws", 500, "--seed", 3)
    assert told == leaderboard(runs, n_draws=500, seed=3).to_dict()
    assert told["ranking"]["best"] == ["says x"]


def test_prints_ranks_pairs_and_how_they_were_made(command: Command, runs: list[str]) -> None:
    code, out, _ = command("leaderboard", *runs, "--draws", 500)
    assert code == 0
    assert "no other is shown to beat: says x" in out
    assert "says x − says z" in out
    assert "share of 500 resamples" in out


def test_names_tell_systems_apart(as_json: Json, runs: list[str]) -> None:
    told = as_json("leaderboard", f"one={runs[0]}", f"two={runs[1]}", "--bayes", "--draws", 200)
    assert {system["name"] for system in told["ranking"]["systems"]} == {"one", "two"}
    assert told["ranking"]["method"] == "bayes"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a=RUN0", "RUN1"], "name every run (NAME=RUN), or none"),
        (["RUN0"], "a leaderboard needs two systems"),
        (["RUN0", "RUN1", "--metric", "f1"], "has no column 'f1'; all have exact_match"),
        (["RUN0", "nowhere"], "nowhere"),
    ],
)
def test_refuses_in_one_line(
    command: Command, runs: list[str], args: list[str], message: str
) -> None:
    given = [arg.replace("RUN0", runs[0]).replace("RUN1", runs[1]) for arg in args]
    code, out, err = command("leaderboard", *given)
    assert code == 2
    assert not out
    assert message in err
