"""Questions of a file, a frame or a list as a task: columns, prompts, grading of each item."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from eval_toolkit.analysis import compare_runs
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import ask, load_task, questions_task, run_task

ROWS = [
    {"question": "What is 2 + 3?", "answer": "5"},
    {"question": "What is 4 + 5?", "answer": "9"},
    {"question": "Capital of France?", "answer": "Paris"},
    {"question": "Capital of Italy?", "answer": "Rome"},
]


def knows(prompt):
    return {"What is 2 + 3?": "It is 5.", "What is 4 + 5?": "8"}.get(prompt, "paris.")


class Dataset:
    """Rows with the interface of a dataset of Hugging Face."""

    column_names = ("question", "answer")

    def __iter__(self) -> Any:
        return iter(ROWS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "quiz.jsonl"
    pd.DataFrame(ROWS).to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize(
    "rows",
    [ROWS, pd.DataFrame(ROWS), Dataset(), {"test": ROWS}, {"train": ROWS, "test": Dataset()},
     {"question": [row["question"] for row in ROWS], "answer": [row["answer"] for row in ROWS]}],
)  # fmt: skip
def test_rows_of_any_kind_are_the_same_units(rows: Any, file: Path) -> None:
    stored = {sample.id for sample in load_task(file).samples()}
    assert {sample.id for sample in questions_task(rows).samples()} == stored


def test_a_run_is_graded_by_what_each_item_has(file: Path) -> None:
    done = run_task(str(file), knows)
    assert done.card["match"].value == 0.5
    assert "graded: 2 by the number, 2 by the string after normalisation" in done.notes
    assert "columns: question 'question', reference 'answer'" in done.notes
    frame = done.to_pandas()
    assert frame["question"].tolist() == [row["question"] for row in ROWS]
    assert frame["match_by"].tolist() == ["number_match"] * 2 + ["exact_match"] * 2
    assert done.wrong()[["answer", "reference"]].values.tolist() == [["8", "9"], ["paris.", "Rome"]]
    assert "match   0.500" in str(done)
    assert str(done) == repr(done)
    assert "<table" in done._repr_html_()


def test_two_prompts_are_compared_without_folders(tmp_path: Path) -> None:
    plain = run_task(ROWS, knows)
    terse = run_task(ROWS, knows, prompt="{{question}}\nAnswer with one word.", system="Be brief.")
    found = compare_runs(plain, terse)
    (cell,) = found.cells
    assert (cell.value_a, cell.value_b, cell.n_units) == (0.5, 0.25, 4)
    assert cell.n_discordant == cell.to_dict()["n_discordant"] == 1
    assert "match" in str(found)
    run = plain.save(tmp_path / "kept")
    assert Run.open(run.path).records("questions", "knows").columns["match"].sum() == 2
    again = compare_runs(run, terse)
    assert again.cells == found.cells


CHOICES = [
    {"question": "Capital of Italy?", "choices": ["Madrid", "Rome"], "answer": "Rome"},
    {"question": "Capital of Spain?", "choices": ["Madrid", "Rome"], "answer": "Madrid"},
    {"question": "6 * 7?", "choices": None, "answer": 42, "grader": "match"},
    {"question": "Pi?", "choices": None, "answer": "3.14", "grader": "regex_match{pattern='3[.]\\d+'}"},
]  # fmt: skip


def test_items_with_choices_are_lettered_and_others_are_asked_as_they_are() -> None:
    task = questions_task(CHOICES)
    first, _, third, _ = task.samples(order="file")
    assert first.messages[0].content == "Capital of Italy?\nA. Madrid\nB. Rome\n"
    assert (first.ground_truth, third.messages[0].content) == ("Rome", "6 * 7?")
    said = ScriptedModel(["B) Rome", "It is Rome.", "42", "about 3.14"])
    done = run_task(task, said, order="file", concurrency=1)
    assert done.to_pandas()["match"].tolist() == [1.0, 0.0, 1.0, 1.0]
    assert done.to_pandas()["match_by"].tolist() == [
        *("choice", "choice", "number_match", CHOICES[3]["grader"]),
    ]


@pytest.mark.parametrize(
    ("row", "right"),
    [
        ({"input": "?", "A": "x", "B": "y", "target": "B"}, "y"),
        ({"Question": "?", "options": "['x', 'y']", "label": "1"}, "x"),
        ({"question": "?", "options": "x | y", "label": "x"}, "x"),
        ({"question": "?", "choices": {"x": 0, "y": 1}}, "y"),
    ],
)
def test_choices_come_in_many_forms(row: dict[str, Any], right: str) -> None:
    rows = [row, {**row, "n": 2}] if row.get("label") != "1" else [row, {**row, "label": "2"}]
    assert questions_task(rows).samples(order="file")[0].ground_truth == right


def test_known_columns_become_ids_groups_subjects_and_systems() -> None:
    rows = [
        {"qid": n, "Question ID": f"q{n}", "prompt": f"{n}?", "expected_output": str(n),
         "category": "ab"[n % 2], "system": f"You are {n}."}
        for n in range(8)
    ]  # fmt: skip
    task = questions_task(rows)
    sample = task.samples(order="file")[0]
    assert (sample.id, sample.subject, task.subjects) == ("a/q0", "a", ["a", "b"])
    assert [message.content for message in sample.messages] == ["You are 0.", "0?"]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("Please: {qestion}", r"no field 'qestion'; did you mean \{question\}\?"),
        (
            "Please: {{qestion}}",
            r"there is no field 'qestion'; insert a field, such as \{question\}",
        ),
        ("Please answer.", r"it has no placeholder; insert a field, such as \{question\}"),
    ],
)
def test_a_prompt_without_the_item_is_refused_before_anything_is_asked(
    prompt: str, words: str
) -> None:
    model = ScriptedModel("5")
    with pytest.raises(InvalidInputError, match=words):
        run_task(ROWS, model, prompt=prompt)
    assert model.n_calls == 0


def test_two_braces_around_another_word_are_braces() -> None:
    sample = questions_task(ROWS, prompt='{question} As JSON: {{"a": {{b}}}}').samples(
        order="file"
    )[0]
    assert sample.messages[0].content == 'What is 2 + 3? As JSON: {"a": {b}}'


def test_what_is_missing_is_said_with_what_to_type() -> None:
    with pytest.raises(MissingColumnError, match=r'pass a prompt, such as --prompt "\{frage\}"'):
        questions_task([{"frage": "?", "antwort": "!"}])
    with pytest.raises(MissingColumnError, match="specify it with --answer COLUMN"):
        run_task([{"question": "?", "antwort": "!"}], knows)
    done = run_task([{"question": "?", "antwort": "Paris"}], knows, answer="antwort")
    assert done.card["match"].value == 1.0
    with pytest.raises(MissingColumnError, match="there is no column 'anwort'"):
        questions_task([{"question": "?", "antwort": "!"}], answer="anwort")
    with pytest.raises(InvalidInputError, match="row 1: there is no grader 'exakt_match'; did you"):
        questions_task([{"question": "?", "answer": "!", "grader": "exakt_match"}])
    with pytest.raises(InvalidInputError, match="`prompt`: the task 'questions' defines its own"):
        run_task(questions_task(ROWS), knows, prompt="{question}!")
    with pytest.raises(InvalidInputError, match="contains no questions"):
        questions_task([])
    for odd in (5, [5]):
        with pytest.raises(InvalidTypeError):
            questions_task(odd)


def test_a_grader_of_an_item_runs_no_code_and_asks_no_model() -> None:
    for name, words in (
        ("os:system", "the data"),
        ("judge{rubric='correctness', model='scripted:x'}", "needs a model"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            questions_task([{"question": "?", "answer": "!", "grader": name}])


def short(answer, reference):
    return len(answer) <= len(reference)


def test_plain_functions_are_graders() -> None:
    done = run_task(ROWS, knows, graders=[short, lambda answer: None if "5" in answer else 1])
    assert list(done.card) == ["short", "function"]
    assert done.to_pandas()["short"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert done.card["function"].n_units == 3
    assert not any(note.startswith("graded:") for note in done.notes)
    with pytest.raises(InvalidTypeError, match="also needs `c`"):
        run_task(ROWS, knows, graders=[lambda a, b, c: 1])
    odd = run_task(ROWS, knows, graders=[lambda answer: "good"])
    assert "it must return a number" in odd.to_pandas()["error"][0]


def test_ask_returns_answers_in_order_without_grading(file: Path) -> None:
    found = ask(knows, ["What is 4 + 5?", "What is 2 + 3?"], prompt="{question}")
    assert found.texts == ["8", "It is 5."]
    assert list(found.columns["id"]) == ["1", "2"]
    assert ask(knows, "What is 4 + 5?").texts == ["8"]
    assert ask("scripted:yes", str(file)).to_pandas()["reference"].tolist()[-1] == "Rome"

    def fails(prompt):
        raise ValueError("no " + prompt)

    failed = ask(fails, ["a"]).rows()[0]
    assert failed["answer"] is None
    assert "no a" in failed["error"]


def test_functions_grade_stored_runs_again(file: Path, tmp_path: Path) -> None:
    done = run_task(str(file), knows, tmp_path / "run", graders=[short])
    again = run_task(str(file), knows, tmp_path / "run", graders=[short, "match"])
    assert (again.n_asked, again.card["match"].value) == (0, 0.5)
    assert done.records.columns["short"].tolist() == again.records.columns["short"].tolist()


def test_wrong_answers_that_contain_the_reference_are_noted() -> None:
    def verbose(prompt: str) -> str:
        return {"Capital of France?": "Paris is the capital.", "Capital of Italy?": "Milan"}.get(
            prompt, "It is 5, not 9."
        )

    (note,) = [note for note in run_task(ROWS, verbose).notes if "contain" in note]
    assert note.startswith(
        "1 answer marked wrong contains the reference; see `answers RUN --wrong`"
    )
    by = run_task(ROWS, verbose, graders=["includes"])
    assert not any("contain" in note for note in by.notes)


def test_only_the_asked_questions_are_counted() -> None:
    done = run_task(ROWS, knows, limit=3, order="file")
    assert "graded: 2 by the number, 1 by the string after normalisation" in done.notes
    task = questions_task(CHOICES)
    (note,) = task.how_graded(task.samples(order="file"))
    assert note.startswith("graded: 2 by the choice, 1 by match, 1 by regex_match{")


TOPICS = ["sums", "sums", "capitals", "capitals"]


def test_a_printed_outcome_shows_the_whole_and_the_parts() -> None:
    rows = [{**row, "topic": topic} for row, topic in zip(ROWS, TOPICS, strict=True)]
    shown = [line.split()[:3] for line in str(run_task(rows, knows)).splitlines()]
    for line in (["all", "match", "0.500"], ["sums", "match", "0.500"], ["capitals", "match"]):
        assert any(one[: len(line)] == line for one in shown)


def test_other_graders_in_the_same_folder_say_what_they_replace(tmp_path: Path) -> None:
    run_task(ROWS, knows, tmp_path / "run")
    note = "results of match replaced by includes; 4 answers reused"
    assert note in run_task(ROWS, knows, tmp_path / "run", graders=["includes"]).notes
    again = run_task(ROWS, knows, tmp_path / "run", graders=["includes"])
    assert not any("replaced" in one for one in again.notes)
    more = run_task(ROWS, knows, tmp_path / "run", graders=["includes", "f1"])
    assert not any("replaced" in one for one in more.notes)


def test_subjects_are_those_of_the_column_by() -> None:
    rows = [{"question": f"{n}?", "answer": str(n % 2), "chapter": "ab"[n % 2]} for n in range(8)]
    with pytest.raises(KeyError, match="no cell match @ subject=a"):
        run_task(rows, lambda prompt: "1").card["match @ subject=a"]
    done = run_task(rows, lambda prompt: "1", by="chapter")
    assert [done.card[f"match @ subject={name}"].value for name in "ab"] == [0.0, 1.0]
    with pytest.raises(MissingColumnError, match="there is no column 'chapters'"):
        run_task(rows, lambda prompt: "1", by="chapters")
