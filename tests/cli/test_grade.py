"""``eval-toolkit grade``: stored answers of any origin, from a file to a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
TEXT = "question,reply,reference\nCapital of Italy?,It is Rome.,Rome\nCapital of Spain?,Lisbon,Madrid\n"


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "answers.csv"
    path.write_text(TEXT, "utf-8")
    return path


def test_one_command_grades_and_stores(command: Command, answers: Path) -> None:
    code, out, err = command("grade", answers)
    assert (code, err) == (0, "")
    assert "2 answers, graded without querying a model" in out
    assert "includes     0.500" in out
    assert "answer from 'reply'" in out
    (run,) = Path("runs").iterdir()
    code, out, _ = command("answers", run, "--wrong", "--grade", "includes")
    assert code == 0
    assert "Lisbon" in out


def test_a_judge_may_grade_them(as_json: Callable[..., Any], answers: Path) -> None:
    judge = "judge{model=scripted:yes}"
    found = as_json("grade", answers, "--grader", judge, "--no-store")
    cells = found["results"]["by_slice"]["answers"]["by_scorer"]["answers"]
    assert cells["correctness"]["value"] == 1.0


def test_what_to_type_is_said(command: Command, answers: Path) -> None:
    answers.write_text("q,text,truth\na,b,c\n", "utf-8")
    code, _, err = command("grade", answers)
    assert code == 2
    assert "--answer-column" in err
    assert "'q', 'text', 'truth'" in err
    code, out, _ = command("grade", answers, "--answer-column", "text", "--no-store")
    assert code == 0
    assert "exact_match" in out
    columns = ("--answer", "text", "--reference", "truth", "--id", "q", "--by", "truth")
    code, out, _ = command("grade", answers, *columns, "--no-store")
    assert code == 0
    assert "reference from 'truth', id from 'q', subject from 'truth'" in out
