"""HumanEval: its own solutions pass its own tests, and its example gives the published pass@1."""

import json
from pathlib import Path

import pytest

from eval_toolkit.graders import CodeTests
from eval_toolkit.models.responses import Completion
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import load_task
from eval_toolkit.tasks.running import run_task

PROBLEMS = 164
"""Of the published file."""


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


@pytest.fixture(scope="module")
def problems(shared_data: Path) -> Path:
    return shared_data / "llm_completion" / "humaneval.jsonl.gz"


def solver(task, answer):
    """A model that knows every canonical solution, and words it in some way."""
    known = {s.messages[-1].content: answer(s) for s in task.samples()}
    return ScriptedModel(known)


def test_every_canonical_solution_passes(problems):
    task = load_task("humaneval", data=problems)
    done = run_task(task, solver(task, lambda sample: sample.ground_truth), pass_at=[1])
    assert len(done.records.unit_id) == PROBLEMS
    assert set(done.records.status["code_pass"]) == {"ok"}
    assert done.card["code_pass"].value == 1.0
    assert done.card["code_pass_pass@1"].value == 1.0


def test_every_canonical_solution_passes_as_a_reply_of_a_chat_model(problems):
    task = load_task("humaneval_chat", data=problems)

    def reply(sample):
        whole = sample.context["prompt"] + sample.ground_truth
        return f"Here it is:\n\n```python\n{whole}```\n\nIt runs in linear time."

    done = run_task(task, solver(task, reply))
    assert done.card["code_pass"].value == 1.0


def test_a_chat_api_that_strips_its_texts_is_no_hindrance(problems):
    task = load_task("humaneval", data=problems)
    model = solver(task, lambda sample: sample.ground_truth.strip())
    done = run_task(task, model, graders=[CodeTests(indented=True)])
    assert done.card["code_pass"].value == 1.0


def test_no_empty_solution_passes(problems):
    task = load_task("humaneval", data=problems)
    done = run_task(task, solver(task, lambda sample: "    pass\n"))
    assert done.card["code_pass"].value == 0.0


def test_the_unit_is_known_by_its_own_key(problems):
    task = load_task("humaneval", data=problems)
    assert {sample.id for sample in task.samples()} == {f"HumanEval/{n}" for n in range(PROBLEMS)}
    assert set(task.samples()[0].context) == {"prompt", "test", "entry_point"}


def test_the_example_gives_the_published_pass_at_1(shared_data):
    folder = shared_data / "llm_completion"
    published = {
        case["id"]: case
        for case in json.loads((shared_data / "reference/reference_cases_public.json").read_text())
    }["passk-humaneval"]
    answers = [line["completion"] for line in lines(folder / "humaneval_example_samples.jsonl")]
    task = load_task("humaneval", data=folder / "humaneval_example_problem.jsonl")
    done = run_task(
        task,
        ScriptedModel(answers, concurrency=1),
        attempts=len(answers),
        temperature=1.0,
        pass_at=[1],
        graders=[CodeTests(seconds=3.0)],  # one of them sleeps for ten
    )
    assert sorted(done.records.columns["code_pass"]) == [0.0] * 3 + [1.0] * 3
    assert done.card["code_pass_pass@1"].value == pytest.approx(
        published["expected"][0], abs=published["tolerance"]
    )
    assert sum(done.records.columns["code_pass_timed_out"]) == 1.0


# A row of the published form, by hand.
MBPP = {
    "task_id": 1,
    "text": "Write a function that adds two numbers.",
    "code": "def add(a, b):\n    return a + b",
    "test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(-1, 1) == 0"],
    "test_setup_code": "",
}


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        (MBPP["code"], 1.0),
        (f"{MBPP['code']}\n```", 1.0),  # a model that does not stop where it should
        (f"Of course.\n```python\n{MBPP['code']}\n```", 1.0),
        ("def add(a, b):\n    return a - b", 0.0),
    ],
)
def test_mbpp(reply, right):
    task = load_task("mbpp", rows=[MBPP])
    (sample,) = task.samples()
    assert "assert add(-1, 1) == 0" in sample.messages[0].content
    (grader,) = task.graders()
    assert grader.grade(Completion(reply, context=sample.context))["code_pass"] == right
