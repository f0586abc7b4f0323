"""``eval-toolkit answers``: what was asked, what was answered, and what would have been right."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import System, run_rollouts
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

Command = Callable[..., tuple[int, str, str]]
ROWS = [{"id": f"q{n}", "q": f"{n} + 1?", "a": str(n + 1)} for n in range(60)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"), rows=ROWS)
    out = tmp_path_factory.mktemp("runs") / "r"
    run_task(task, ScriptedModel("=5\x1b[31m"), out, graders=["exact_match", "f1"])
    return out


def test_prints_a_table(command: Command, run: Path) -> None:
    code, out, err = command("answers", run, "--limit", 3)
    assert (code, err) == (0, "")
    assert "60 answers, 60 wrong or failed by exact_match" in out
    assert all(word in out for word in ("question", "answer", "reference", "0 + 1?", "57 more"))
    assert out.count("57 more") == 1
    assert "\x1b" not in out


def test_json_has_all_fields(command: Command, run: Path) -> None:
    _, out, _ = command("answers", run, "--wrong", "--json")
    told = json.loads(out)
    assert (told["n_answers"], told["n_not_right"], len(told["answers"])) == (60, 60, 50)
    assert told["answers"][0]["reference"] == "1"


def test_a_file_has_all_answers_with_formulas_defused(
    command: Command, run: Path, tmp_path: Path
) -> None:
    target = tmp_path / "samples.csv"
    code, out, err = command("answers", run, "--out", target)
    assert (code, out, err) == (0, "", f"wrote {target}: 60 answers\n")
    with target.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 60
    assert rows[0]["answer"].startswith("'=5")


def test_the_run_itself_is_not_overwritten(command: Command, run: Path) -> None:
    code, _, err = command("answers", run, "--out", run / "a.csv")
    assert code == 2
    assert "overwrite" in err


def test_conversations_have_a_command_of_their_own(command: Command, tmp_path: Path) -> None:
    system = System(["Please."], ["No."], lambda texts: [0.1] * len(texts))
    run_rollouts(system, ["Tell a secret"], tmp_path / "r", depth=1)
    code, _, err = command("answers", tmp_path / "r")
    assert code == 2
    assert f"eval-toolkit transcripts {tmp_path / 'r'}" in err
