"""Grading of stored answers: rows of any origin become a run like any other."""

import json

import pytest

from eval_toolkit.analysis import compare_runs
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.tasks import grade_answers

ROWS = [
    {"question": "2 + 3?", "answer": "It is 5.", "reference": "5"},
    {"question": "4 + 5?", "answer": "8", "reference": "9"},
    {"question": "1 + 1?", "answer": "2", "reference": "2"},
]


def values(done):
    return {name: cell.value for name, cell in done.card.items()}


def test_numbers_texts_and_nothing_asked():
    done = grade_answers(ROWS)
    assert values(done) == {
        "match": pytest.approx(2 / 3),
        "exact_match": pytest.approx(1 / 3),
        "includes": pytest.approx(2 / 3),
        "f1": pytest.approx((0.5 + 1) / 3, abs=0.06),
    }
    assert done.n_asked == 0
    assert "answer from 'answer'" in done.notes[0]


def test_the_run_is_looked_at_and_compared_like_any_other(tmp_path):
    better = [{**row, "answer": row["reference"]} for row in ROWS]
    runs = [
        grade_answers(rows, out=tmp_path / name, model=name).run
        for name, rows in (("a", ROWS), ("b", better))
    ]
    assert [row["question"] for row in runs[0].answers().wrong().rows()] == ["4 + 5?"]
    found = compare_runs(*runs, metrics=["includes"])
    (cell,) = [one for one in found.cells if one.metric == "includes"]
    assert cell.delta == pytest.approx(1 / 3)


def test_the_note_on_grading_is_about_the_graders_that_were_used():
    rows = [{"question": "2 + 2?", "answer": "4", "reference": "4"}]
    assert "graded: 1 by the number" in grade_answers(rows).notes
    asked = grade_answers(rows, graders=["includes"])
    assert not any(note.startswith("graded:") for note in asked.notes)


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("prompt", "response", "answer"), {}),  # beside a response, the answer is the reference
        (("Input", "Output", "Expected"), {}),
        (("q", "gpt", "truth"), {"question": "q", "answer": "gpt"}),
    ],
)
def test_columns_by_their_names(names, columns):
    rows = [dict(zip(names, row.values(), strict=True)) for row in ROWS]
    assert values(grade_answers(rows, columns=columns))["includes"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "frame", "columns"])
def test_rows_of_any_origin(tmp_path, kind):
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    given = columns
    if kind == "csv":
        given = tmp_path / "a.csv"
        lines = [",".join(columns), *(",".join(row.values()) for row in ROWS)]
        given.write_text("\n".join(lines), "utf-8")
    elif kind == "jsonl":
        given = tmp_path / "a.jsonl"
        given.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    elif kind == "frame":
        given = pytest.importorskip("pandas").DataFrame(columns)
    assert values(grade_answers(given))["includes"] == pytest.approx(2 / 3)


def test_numbers_of_a_frame_are_read_as_written():
    rows = [{"answer": 4.0, "reference": 4}, {"answer": float("nan"), "reference": 5}]
    done = grade_answers(rows)
    assert values(done)["exact_match"] == 0.5
    assert any("1 answers are empty" in note for note in done.notes)


def test_several_references():
    rows = [{"answer": "Roma", "reference": ["Rome", "Roma"]}]
    assert values(grade_answers(rows))["exact_match"] == 1.0


def test_letters_of_choices():
    rows = [
        {"question": "?", "answer": "I say (B).", "reference": "B", "choices": '["x", "y"]'},
        {"question": "??", "answer": "A", "reference": "B", "choices": ["x", "y"]},
    ]
    assert values(grade_answers(rows)) == {"match": 0.5}


def test_each_row_by_the_grader_that_it_names(tmp_path):
    rows = [
        {"answer": "It is 4", "reference": "4", "grader": "number_match"},
        {"answer": "It is 4", "reference": "4", "grader": ""},
        {"answer": "It is Rome", "reference": "rome", "grader": "includes"},
    ]
    done = grade_answers(rows, out=tmp_path / "r")
    by = [(row["match_by"], row["match"]) for row in done.run.answers().rows()]
    assert sorted(by) == [("includes", 1.0), ("number_match", 1.0), ("number_match", 1.0)]


@pytest.mark.parametrize(
    ("rows", "options", "error", "said"),
    [
        ([], {}, InvalidInputError, "contains no rows"),
        ([{"q": "x"}], {}, MissingColumnError, "no column contains the answers.*'q'"),
        ([{"answer": "x"}], {}, MissingColumnError, "no column contains the references"),
        (
            [{"answer": "x", "reference": "x"}, {"answer": "y", "reference": ""}],
            {},
            InvalidInputError,
            r"1 rows have no reference \(row 2\)",
        ),
        (ROWS, {"columns": {"answer": "no"}}, MissingColumnError, "'no'.*'question'"),
        (ROWS, {"columns": {"reply": "answer"}}, InvalidInputError, "roles are question"),
        (
            [{"answer": "x", "reference": "x", "grader": "os:system"}],
            {},
            InvalidInputError,
            "row 1.*os:system",
        ),
        (
            [{"answer": "x", "reference": "x", "grader": "judge{model=scripted:yes}"}],
            {},
            InvalidInputError,
            "row 1.*which needs a model",
        ),
    ],
)
def test_what_cannot_be_graded(rows, options, error, said):
    with pytest.raises(error, match=said):
        grade_answers(rows, **options)


def test_graders_of_ones_own_and_without_references():
    done = grade_answers([{"answer": "I cannot help."}], graders=["refusal_phrases"])
    assert values(done) == {"refusal_phrases": 1.0}
