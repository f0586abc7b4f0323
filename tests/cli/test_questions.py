"""Files of questions on the command line: columns, prompts, several models, new task files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

ROWS = [
    {"question": "2 + 3?", "answer": "5"},
    {"question": "Capital of France?", "answer": "Paris"},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return tmp_path


def test_a_file_of_questions_is_run_and_its_columns_are_told(command: Command) -> None:
    code, out, _ = command("run", "quiz.jsonl", "--model", "scripted:Paris", "--out", "r")
    assert code == 0
    assert "columns: question 'question', reference 'answer'" in out
    assert "graded: 1 by the number, 1 by the string after normalisation" in out
    assert "match   0.500" in out


def test_several_models_have_a_run_each_and_a_ranking(
    command: Command, as_json: Callable[..., Any]
) -> None:
    models = ("--model", "scripted:Paris", "--model", "scripted:5 it is", "--out", "runs/two")
    code, out, _ = command("run", "quiz.jsonl", *models)
    assert code == 0
    assert sorted(path.name for path in Path("runs/two").iterdir()) == [
        "scripted-5-it-is",
        "scripted-Paris",
    ]
    assert "every pair" in out
    found = as_json("run", "quiz.jsonl", *models)
    names = {system["name"] for system in found["ranking"]["systems"]}
    assert names == {"scripted:5 it is", "scripted:Paris"}
    code, _, err = command("run", "quiz.jsonl", *models, "--replay", "runs/two/scripted-Paris")
    assert code == 2
    assert "pass one --model" in err


def test_a_function_of_a_file_grades(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    own = "def brief(answer, reference):\n    return len(answer) < 3 and reference in answer\n"
    Path("own_graders.py").write_text(own, "utf-8")
    asked = ("run", "quiz.jsonl", "--model", "scripted:5", "--out", "r")
    code, out, _ = command(*asked, "--grader", "own_graders:brief")
    assert code == 0
    assert "brief   0.500" in out
    assert out.rstrip().endswith("eval-toolkit answers r --wrong")
    code, _, err = command(*asked, "--grader", "brief")
    assert code == 2
    assert "there is no grader 'brief'" in err
    assert "write module:object for your own" in err


def test_a_metric_that_the_runs_do_not_have_is_told_by_those_that_they_have(
    command: Command,
) -> None:
    for name in ("a", "b"):
        command("run", "quiz.jsonl", "--model", "scripted:5", "--out", name)
    code, _, err = command("compare", "a", "b", "--metric", "exact_match")
    assert (code, err) == (2, "error: there is no metric 'exact_match'; did you mean match?\n")
    code, _, err = command("compare", "a", "b", "--metric", "bleu")
    assert (code, err) == (2, "error: there is no metric 'bleu'; these runs have match\n")


def test_a_prompt_with_an_unknown_column_is_refused(command: Command) -> None:
    given = ("run", "quiz.jsonl", "--model", "scripted:Paris", "--no-store")
    code, _, err = command(*given, "--prompt", "Say: {qestion}")
    assert code == 2
    assert "did you mean {question}?" in err
    code, _, err = command(*given, "--answer", "anser")
    assert code == 2
    assert "there is no column 'anser'" in err
    code, _, err = command("run", "capitals_open", *given[2:], "--prompt", "Nothing")
    assert code == 2
    assert "it has no placeholder" in err


def test_preview_shows_prompt_and_system_message(command: Command) -> None:
    asked = ("--prompt", "Q: {{question}}", "--system", "Be brief.", "--order", "file")
    out = command("tasks", "preview", "quiz.jsonl", *asked)[1]
    assert "┌ system\n│Be brief." in out
    assert "│Q: 2 + 3?" in out


def test_a_new_task_file_runs_like_the_table(command: Command, as_json: Callable[..., Any]) -> None:
    code, out, _ = command("tasks", "new", "quiz.jsonl")
    assert code == 0
    assert "next: eval-toolkit run quiz.toml --model" in out
    text = Path("quiz.toml").read_text("utf-8")
    assert text.count("#") > 8
    code, _, err = command("tasks", "new", "quiz.jsonl")
    assert code == 2
    assert "--overwrite" in err
    given = ("--model", "scripted:Paris", "--no-store")
    values = [
        as_json("run", name, *given)["results"]["by_slice"]["quiz"]["by_scorer"]["scripted"]
        for name in ("quiz.jsonl", "quiz.toml")
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    "row",
    [
        {"input": "?", "A": "x", "B": "y", "target": "B", "system": "Be\nbrief.", "category": "a"},
        {"question": 'Say "x"\\', "options": "x | y", "label": "x", "id": "q", "grader": "f1"},
        {"Frage / Q": "?", "answer": ["x", "y"]},
    ],
)
def test_every_table_gives_a_task_file_that_runs(command: Command, row: dict[str, Any]) -> None:
    rows = [row, {**row, "category": "b", "id": "r"}, {**row, "id": "s"}, {**row, "id": "t"}]
    Path("odd.json").write_text(json.dumps(rows), "utf-8")
    prompt = ("--prompt", "{Frage / Q}") if "Frage / Q" in row else ()
    assert command("tasks", "new", "odd.json", *prompt)[0] == 0
    code, out, err = command("run", "odd.toml", "--model", "scripted:x", "--no-store", "--quiet")
    assert (code, err) == (0, "")
    assert "match" in out
