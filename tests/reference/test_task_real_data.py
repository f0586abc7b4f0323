"""Published benchmark files load, prompt and grade. Sizes are those of the files (their manifest)."""

import json
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.models.responses import Completion, Loglikelihood
from eval_toolkit.tasks import BaseTask, ResponseType, Sample, format_prompt, load_task

COMPLETIONS, CHOICES = "llm_completion", "llm_multiple_choice"

# name, file, options, number of items (MANIFEST.json "rows"; five files of 250 and of 100)
FILES = [
    ("gsm8k", f"{COMPLETIONS}/gsm8k_test.jsonl", {}, 1319),
    ("svamp", f"{COMPLETIONS}/svamp.json", {}, 1000),
    ("bbh", f"{COMPLETIONS}/bbh_{{subject}}.json", {"num_fewshot": 3}, 1250),
    ("arc_adapters", f"{CHOICES}/llmadapters_arc-easy_test.json", {}, 2376),
    ("arc_adapters", f"{CHOICES}/llmadapters_arc-challenge_test.json", {}, 1172),
    ("arc_adapters", f"{CHOICES}/llmadapters_openbookqa_test.json", {}, 500),
    ("arc_adapters", f"{CHOICES}/llmadapters_winogrande_test.json", {}, 1267),
    ("truthfulqa_mc1", f"{CHOICES}/truthfulqa_mc_task.json", {"num_fewshot": 2}, 790),
    ("boolq", f"{CHOICES}/boolq_dev.jsonl", {}, 3270),
    ("piqa", f"{CHOICES}/piqa_valid.jsonl", {}, 1838),
    ("commonsenseqa", f"{CHOICES}/commonsenseqa_dev.jsonl", {}, 1221),
    # Of 500 rows 18 are marked in error_type; 4 of those have one correct_answer.
    ("mmlu_redux", f"{CHOICES}/mmlu_redux_{{subject}}.csv", {"num_fewshot": 5}, 482),
    ("mmlu_redux", f"{CHOICES}/mmlu_redux_{{subject}}.csv", {"corrected": True}, 486),
]


def answered(task: BaseTask[Any], sample: Sample, *, right: bool) -> Any:
    """What a model answers that knows everything, or one that is wrong about everything."""
    truth = sample.ground_truth
    if task.RESPONSE_TYPE is ResponseType.COMPLETION:
        text = f"So the answer is {truth}" if task.NAME in ("gsm8k", "svamp") else str(truth)
        return Completion(text if right else "-987654321", ground_truth=truth)
    choices = sample.possible_completions or ()
    best = choices.index(str(truth)) if right else choices.index(str(truth)) - 1
    scores = [0.0 if at == best % len(choices) else -100.0 for at in range(len(choices))]
    return Loglikelihood(scores, choices, ground_truth=truth)


@pytest.mark.parametrize(
    ("name", "file", "options", "n"),
    FILES,
    ids=[f"{file.rpartition('/')[2]}-{n}" for _, file, _, n in FILES],
)
def test_loads_prompts_and_grades(
    shared_data: Path, name: str, file: str, options: dict[str, Any], n: int
) -> None:
    task = load_task(name, data=str(shared_data / file), **options)
    samples = task.samples()
    assert len(samples) == n
    assert len({sample.id for sample in samples}) == n
    grader = task.graders()[0]
    for sample in samples:
        assert isinstance(format_prompt(sample.messages, "plain"), str)
        assert len(sample.messages) == 2 + 2 * task.num_fewshot
        assert grader.grade(answered(task, sample, right=True))[grader.name] == 1.0
        assert grader.grade(answered(task, sample, right=False))[grader.name] == 0.0
    told = task.describe()["dataset"]
    assert sum(told["n_rows"].values()) == n
    assert told["files"]


def test_gsm8k_worked_answers_grade_themselves(shared_data: Path) -> None:
    path = shared_data / COMPLETIONS / "gsm8k_test.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    task = load_task("gsm8k", data=path)
    (grader,) = task.graders()
    for sample in task.samples():
        worked = rows[sample.index]["answer"]
        assert (
            grader.grade(Completion(worked, ground_truth=sample.ground_truth))[grader.name] == 1.0
        )


def test_gsm8k_prompt(shared_data: Path) -> None:
    path = shared_data / COMPLETIONS / "gsm8k_test.jsonl"
    first = load_task("gsm8k", data={"test": path, "train": path}, num_fewshot=1).samples(
        1, order="file"
    )[0]
    text = str(format_prompt(first.messages, "plain"))
    assert text.startswith("Question: ")
    assert "\nAnswer: " in text
    assert text.endswith("at the farmers' market?\nAnswer:")
    assert first.ground_truth == "18"


def test_boolq_items_of_one_passage_belong_together(shared_data: Path) -> None:
    path = shared_data / CHOICES / "boolq_dev.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    samples = load_task("boolq", data=path).samples()
    assert len({sample.group for sample in samples}) == len({row["passage"] for row in rows})
    for sample in samples:
        assert sample.ground_truth == (" yes" if rows[sample.index]["answer"] else " no")


def test_piqa_labels(shared_data: Path) -> None:
    folder = shared_data / CHOICES
    labels = (folder / "piqa_valid_labels.lst").read_text().split()
    for sample in load_task("piqa", data=folder / "piqa_valid.jsonl").samples():
        right = (sample.possible_completions or ())[int(labels[sample.index])]
        assert sample.ground_truth == right


def test_truthfulqa_choices_are_not_always_first(shared_data: Path) -> None:
    # in the file the true answer comes first in every item; ties would all be right
    path = shared_data / CHOICES / "truthfulqa_mc_task.json"
    samples = load_task("truthfulqa_mc1", data=path).samples()
    places = [(s.possible_completions or ()).index(str(s.ground_truth)) for s in samples]
    assert 0.1 < places.count(0) / len(places) < 0.4


def test_subjects_of_the_files(shared_data: Path) -> None:
    task = load_task("bbh", data=str(shared_data / COMPLETIONS / "bbh_{subject}.json"))
    assert task.subjects == [
        "boolean_expressions",
        "date_understanding",
        "object_counting",
        "sports_understanding",
        "word_sorting",
    ]
    alone = load_task(
        "bbh",
        data=str(shared_data / COMPLETIONS / "bbh_{subject}.json"),
        subjects=["word_sorting"],
    )
    assert alone.samples() == [s for s in task.samples() if s.subject == "word_sorting"]


def test_mmlu_redux_is_not_graded_by_labels_it_calls_wrong(shared_data: Path) -> None:
    data = str(shared_data / CHOICES / "mmlu_redux_{subject}.csv")
    (wrong,) = (
        sample
        for sample in load_task("mmlu_redux", data=data, corrected=True).samples()
        if sample.question == "In which of the following positions does a patient lie face down?"
    )
    assert wrong.ground_truth == " D"  # Prone; the answer in the file is 1, Erect
    assert wrong.id not in {s.id for s in load_task("mmlu_redux", data=data).samples()}


def test_zero_and_five_shots_ask_about_the_same_units(shared_data: Path) -> None:
    data = str(shared_data / CHOICES / "mmlu_redux_{subject}.csv")
    zero, five = (load_task("mmlu_redux", data=data, num_fewshot=k).samples() for k in (0, 5))
    assert [(s.id, s.content_hash) for s in zero] == [(s.id, s.content_hash) for s in five]
