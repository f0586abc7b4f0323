"""Items that a data set marks as wrong: left out by default, asked by its corrections on demand."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import (
    ChoicesSpec,
    CompletionSpec,
    DataSpec,
    Prompt,
    Task,
    load_task,
    run_task,
)

CHOICES = ["Dorsal", "Erect", "Lateral", "Prone"]


def row(n: int, mark: str | None, correction: str | None = None, **more: Any) -> dict[str, Any]:
    made = {"question": f"Which is number {n}?", "choices": CHOICES, "answer": 1, **more}
    return made if mark is None else {**made, "error_type": mark, "correct_answer": correction}


# The spellings are those of the published files.
ROWS = [
    row(0, "OK"),
    row(1, "ok"),
    row(2, "Ok"),
    row(3, "wrong groundtruth", "3"),
    row(4, "Wrong Groundtruth", ""),
    row(5, "wrong_groundtruth", "D"),
    row(6, "wrong_groundtruth", "Lateral"),
    row(7, "multiple correct answers", "B,C"),
    row(8, "no_correct_answer"),
    row(9, "bad-question-clarity"),
]


def redux(rows: Any = None, **options: Any) -> Task:
    return load_task("mmlu_redux", rows=ROWS if rows is None else rows, **options)


def references(task: Task) -> dict[str, Any]:
    return {sample.question.split()[-1]: sample.ground_truth for sample in task.samples()}


def test_items_without_an_error_are_asked():
    assert references(redux()) == {"0?": " B", "1?": " B", "2?": " B"}


def test_corrections_that_name_one_choice_are_asked_by():
    asked = references(redux(corrected=True))
    assert asked == {"0?": " B", "1?": " B", "2?": " B", "3?": " D", "5?": " D", "6?": " C"}


def test_corrections_are_counted():
    task = redux(corrected=True)
    assert task.describe()["dataset"]["flags"]["n_corrected"] == 3
    assert task.data_notes[1] == (
        "3 of 10 items are graded with 'correct_answer' instead of their published answers"
    )


def test_a_correction_that_reads_in_two_ways_is_not_guessed():
    numbers = {
        "choices": ["1", "2", "3", "4"]
    }  # "2" is the third choice, or the text of the second
    rows = [row(0, "ok"), row(1, "wrong groundtruth", "2", **numbers)]
    assert list(references(redux(rows, corrected=True))) == ["0?"]


def test_ids_do_not_depend_on_what_is_left_out():
    fewer = {sample.id: sample.content_hash for sample in redux().samples()}
    more = {sample.id: sample.content_hash for sample in redux(corrected=True).samples()}
    assert fewer.items() < more.items()


def test_wrong_items_are_no_examples():
    texts = [turn.content for s in redux(num_fewshot=2).samples() for turn in s.messages]
    assert {text.split("\n")[0].split()[-1] for text in texts if "Question" in text} == {
        "0?",
        "1?",
        "2?",
    }


def test_what_is_left_out_is_said(tmp_path: Path):
    def likely(request):
        return [-float(at) for at, _ in enumerate(request.continuations)]

    done = run_task(redux(), ScriptedModel(likely), tmp_path / "r")
    said = (
        "7 of 10 items are excluded, because the field 'error_type' marks them as wrong groundtruth (4), "
        "bad question clarity (1), multiple correct answers (1), no correct answer (1)"
    )
    assert said in done.notes
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert said in manifest["notes"]
    assert manifest["task"]["dataset"]["flags"] == {
        "field": "error_type",
        "asked": ["ok"],
        "correction": None,
        "n_items": 10,
        "n_without_field": 0,
        "n_corrected": 0,
        "n_left_out": {
            "bad question clarity": 1,
            "multiple correct answers": 1,
            "no correct answer": 1,
            "wrong groundtruth": 4,
        },
    }
    assert manifest["task"]["dataset"]["n_rows"] == {"test": 3}


def test_data_without_marks_are_asked_as_published():
    task = redux([row(n, None) for n in range(3)])
    assert len(task.samples()) == 3
    (note,) = task.data_notes
    assert note == (
        "3 of 3 items have no field 'error_type', so it is unknown which of them are erroneous; they "
        "are graded with their published answers"
    )


def test_an_empty_mark_is_not_ok():
    task = redux([row(0, "ok"), row(1, "")])
    assert len(task.samples()) == 1
    assert "as no mark (1)" in task.data_notes[0]


def test_where_every_item_is_marked():
    with pytest.raises(
        InvalidInputError,
        match=r"all items are excluded: .*expert \(2\), and only items marked 'ok'",
    ):
        redux([row(0, "expert"), row(1, "expert")]).samples()


def test_corrections_need_choices_and_fields():
    data = DataSpec(flag_field="error_type", correction_field="correct_answer")
    prompt = Prompt(instruction="{question}")
    with pytest.raises(InvalidInputError, match="`corrected` requires a task with choices"):
        Task("t", prompt, CompletionSpec(answer="a"), data=data, rows=ROWS, corrected=True)
    chosen = ChoicesSpec(choices="choices", answer="answer")
    with pytest.raises(InvalidInputError, match="set flag_field and correction_field"):
        Task("t", prompt, chosen, rows=ROWS, corrected=True)


def test_the_option_stands_behind_the_name():
    task = load_task("mmlu_redux{corrected=true}", rows=ROWS)
    assert len(task.samples()) == 6
