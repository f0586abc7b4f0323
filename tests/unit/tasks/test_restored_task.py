"""Runs of tables of questions are graded again without the table."""

from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders import Judge
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report import write_report
from eval_toolkit.runs import Outcome, rescore
from eval_toolkit.tasks import run_task

ROWS = [
    {"id": "1", "topic": "sums", "question": "2 + 3?", "answer": "5"},
    {"id": "2", "topic": "sums", "question": "4 + 5?", "answer": "9"},
    {"id": "3", "topic": "capitals", "question": "Capital of Italy?", "answer": ["Rome", "Roma"]},
    {"id": "4", "topic": "capitals", "question": "Capital of France?", "answer": "Paris"},
]


def said(prompt: str) -> str:
    return "It is 5." if "+" in prompt else "It is Rome."


def asked(out: Path | None = None, **options: Any) -> Outcome:
    return run_task(ROWS, said, out, prompt="Please: {question}", **options)


def test_other_graders_need_only_the_run(tmp_path: Path) -> None:
    done = asked(tmp_path / "run")
    again = rescore(done.run, tmp_path / "again", graders=["includes"])
    whole = asked(graders=["includes"])
    assert again.card == whole.card
    assert again.card.slices["capitals"]["includes"].value == 0.5
    first, second = done.run.units, again.run.units
    assert {name: column.tolist() for name, column in first.read().items()} == {
        name: column.tolist() for name, column in second.read().items()
    }


def test_the_graders_of_the_run_are_the_default(tmp_path: Path) -> None:
    done = asked(tmp_path / "run")
    assert rescore(done.run).card == done.card
    other = asked(tmp_path / "other", graders=["f1", "exact_match{ignore_case=true}"])
    assert rescore(other.run).card == other.card


@pytest.mark.parametrize(
    "judge",
    ["scripted:yes", ScriptedModel("yes"), Judge("correctness", ScriptedModel("yes"))],
)
def test_a_model_judges_correctness_and_the_grades_are_kept(tmp_path: Path, judge: Any) -> None:
    again = rescore(asked(tmp_path / "run"), judges=[judge])
    assert again.card["correctness"].value == 1.0
    assert again.card["match"].value == 0.25


def test_judges_read_the_prompt_that_was_sent(tmp_path: Path) -> None:
    judge = Judge("correctness", ScriptedModel("yes"))
    done = asked(tmp_path / "run", graders=[judge])
    assert rescore(done.run, graders=[judge]).card == done.card


def test_a_grader_that_needs_the_items_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f'{{"question": "Capital {n}?", "choices": ["x", "y"], "answer": "y"}}\n' for n in "ab"]
    (tmp_path / "quiz.jsonl").write_text("".join(rows))
    done = run_task("quiz.jsonl", lambda prompt: "B", "run")
    with pytest.raises(ArtifactError, match=r"pass its file as `task`: quiz\.jsonl"):
        rescore(done.run, graders=["match"])
    assert rescore(done.run, task="quiz.jsonl", graders=["match"]).card["match"].value == 1.0


def test_a_report_takes_outcomes(tmp_path: Path) -> None:
    page = write_report([asked(), asked(graders=["includes"])], tmp_path / "page.html")
    assert "includes" in page.read_text()
