"""Answers of a run as a table: what was asked, answered, right, and what failed."""

import csv
import json

import pytest

from eval_toolkit._internal.tables import read_table
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.responses import RawLoglikelihood
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Unit, answers_of, answers_table
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task

ROWS = [
    {"id": "q1", "q": "2 + 2?", "a": "4"},
    {"id": "q2", "q": "Capital of Italy?", "a": "Rome"},
    {"id": "q3", "q": "3 + 1?", "a": "4"},
]


def run_of(folder, answer="4", graders=("exact_match",), **options):
    task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"), rows=ROWS)
    model = ScriptedModel(answer)
    return run_task(task, model, folder / "r", graders=list(graders), **options).run


def test_each_answer_has_question_answer_reference_and_grade(tmp_path):
    rows = run_of(tmp_path).answers().rows()
    assert [
        (row["id"], row["question"], row["answer"], row["reference"], row["exact_match"])
        for row in rows
    ] == [
        ("q1", "2 + 2?", "4", "4", 1.0),
        ("q2", "Capital of Italy?", "4", "Rome", 0.0),
        ("q3", "3 + 1?", "4", "4", 1.0),
    ]
    assert [row["correct"] for row in rows] == [True, False, True]
    assert list(rows[0])[:4] == ["id", "question", "answer", "reference"]


def test_the_wrong_ones_are_those_without_the_best_grade(tmp_path):
    found = run_of(tmp_path).answers()
    assert [row["id"] for row in found.wrong().rows()] == ["q2"]


def test_a_grade_of_0_and_1_decides_before_one_with_shares(tmp_path):
    found = run_of(tmp_path, answer="Rome is", graders=("f1", "exact_match")).answers()
    assert (found.by, len(found.wrong())) == ("exact_match", 3)


def test_another_grade_may_decide(tmp_path):
    run = run_of(tmp_path, answer="Rome it is", graders=("f1", "exact_match"))
    assert answers_table(run, grade="f1").by == "f1"
    with pytest.raises(MissingColumnError, match="'f1', 'exact_match'"):
        answers_table(run, grade="bleu")


def test_attempts_are_told_apart(tmp_path):
    rows = run_of(tmp_path, attempts=2, temperature=1.0).answers().rows()
    assert [(row["id"], row["attempt"]) for row in rows][:3] == [("q1", 1), ("q1", 2), ("q2", 1)]


def test_the_answer_of_a_choice_is_the_chosen_text():
    asked = LoglikelihoodRequest("Capital of Italy?", (" Bonn", " Rome"))
    answered = JobResult(Job("a", 1, asked), RawLoglikelihood([-3.0, -1.0]))
    records = Records.from_columns({"accuracy": [1]}, unit_id=["a"])
    (row,) = answers_of({("s", "m"): records}, [Unit(id="a", reference=" Rome")], [answered]).rows()
    assert (row["question"], row["answer"]) == ("Capital of Italy?", "Rome")


def test_failures_are_shown_with_their_reason_and_count_as_not_right():
    records = Records.from_columns(
        {"right": [1, None]},
        unit_id=["a", "b"],
        status={"right": ["ok", "error"]},
        reason={"right": ["", "no answer: timeout"]},
    )
    found = answers_of({("s", "m"): records}, [Unit(id="a", input="x")])
    assert [row["error"] for row in found.rows()] == [None, "no answer: timeout"]
    assert [row["id"] for row in found.wrong().rows()] == ["b"]


def test_where_lower_is_better_the_lowest_is_right():
    records = Records.from_columns({"loss": [0.0, 1.0]}, unit_id=["a", "b"])
    assert [r["id"] for r in answers_of({("s", "m"): records}).wrong().rows()] == ["b"]


def test_a_row_without_the_main_grade_is_judged_by_the_one_it_has():
    records = Records.from_columns(
        {"exact_match": [1, None, None], "number_match": [None, 1, 0]}, unit_id=["a", "b", "c"]
    )
    found = answers_of({("s", "m"): records})
    assert [row["correct"] for row in found.rows()] == [True, True, False]


def test_without_a_grade_nothing_is_wrong_or_right():
    records = Records.from_columns({"text": ["x", "y"]}, unit_id=["a", "b"])
    found = answers_of({("s", "m"): records})
    assert "correct" not in found.columns
    with pytest.raises(InvalidInputError, match="no grade indicates"):
        found.wrong()


def test_a_grade_named_like_another_column_is_kept_apart():
    records = Records.from_columns({"answer": ["Rome"], "right": [1]}, unit_id=["a"])
    (row,) = answers_of({("s", "m"): records}).rows()
    assert (row["answer"], row["grade:answer"]) == (None, "Rome")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet"])
def test_files_hold_the_same_rows(tmp_path, name):
    found = run_of(tmp_path).answers()
    path = found.write(tmp_path / name)
    read = read_table(path)
    assert read["question"].tolist() == ["2 + 2?", "Capital of Italy?", "3 + 1?"]
    assert [float(one) for one in read["exact_match"]] == [1.0, 0.0, 1.0]


def test_formulas_are_defused_in_csv_and_kept_in_json(tmp_path):
    found = run_of(tmp_path, answer="=HYPERLINK(1)").answers()
    with found.write(tmp_path / "a.csv").open(encoding="utf-8") as stream:
        assert [row["answer"] for row in csv.DictReader(stream)] == ["'=HYPERLINK(1)"] * 3
    lines = found.write(tmp_path / "a.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[0])["answer"] == "=HYPERLINK(1)"


def test_missing_numbers_are_empty_in_files(tmp_path):
    records = Records.from_columns({"right": [1, None]}, unit_id=["a", "b"])
    path = answers_of({("s", "m"): records}).write(tmp_path / "a.csv")
    with path.open(encoding="utf-8") as stream:
        assert [row["right"] for row in csv.DictReader(stream)] == ["1.0", ""]


def test_long_texts_are_cut_in_tables_only(tmp_path):
    found = run_of(tmp_path, answer="x\n" * 400).answers()
    assert all(len(cell) <= 200 for row in found.table().texts() for cell in row)
    assert len(found.rows()[0]["answer"]) > 700
