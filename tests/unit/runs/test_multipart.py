"""Samples that take several requests: planned as parts, joined again, graded as one."""

from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawLoglikelihood, Usage
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs.multipart import joined
from eval_toolkit.tasks import (
    ChoicesSpec,
    DataSpec,
    Part,
    Prompt,
    Sample,
    Task,
    load_task,
    plan_jobs,
    run_task,
)

ROWS = [
    {"sentence": "The trophy is not in the case as the _ is too big.", "option1": "trophy",
     "option2": "case", "answer": "1"},
    {"sentence": "The trophy is not in the case as the _ is too small.", "option1": "trophy",
     "option2": "case", "answer": "2"},
]  # fmt: skip


def outcome(step: str, numbers: list[float], **told: Any) -> JobResult:
    texts = tuple(f" {n}" for n in range(len(numbers)))
    job = Job("u", 1, LoglikelihoodRequest("p", texts), step)
    return JobResult(job, RawLoglikelihood(numbers, texts, **told))


class TestJoining:
    def test_numbers_follow_the_parts_whatever_the_order_of_answers(self) -> None:
        parts = [outcome(f"part:{at}", [-float(at + 1)]) for at in range(11)]
        (whole,) = joined(reversed(parts)).values()
        assert whole.response.loglikelihoods == [-float(at + 1) for at in range(11)]
        assert whole.job.step == ""

    def test_one_failed_part_fails_the_attempt(self) -> None:
        failed = JobResult(
            Job("u", 1, LoglikelihoodRequest("p", (" a",)), "part:1"),
            error=ErrorInfo("timeout", "no answer"),
        )
        (whole,) = joined([outcome("part:0", [-1.0]), failed]).values()
        assert not whole.ok
        assert whole.error.kind == "timeout"

    def test_what_a_part_does_not_say_is_not_made_up(self) -> None:
        told = outcome("part:0", [-1.0], is_greedy=[True], n_tokens=[1])
        (both,) = joined(
            [told, outcome("part:1", [-2.0], is_greedy=[False], n_tokens=[2])]
        ).values()
        assert both.response.is_greedy == (True, False)
        assert both.response.n_tokens == (1, 2)
        (one,) = joined([told, outcome("part:1", [-2.0])]).values()
        assert one.response.is_greedy is None
        assert one.response.n_tokens is None

    def test_what_parts_took_is_added_up(self) -> None:
        parts = [
            outcome(f"part:{at}", [-1.0], usage=Usage(prompt_tokens=5, cost=0.5)) for at in (0, 1)
        ]
        (whole,) = joined(parts).values()
        assert (whole.response.usage.prompt_tokens, whole.response.usage.cost) == (10, 1.0)

    def test_other_steps_answer_nothing(self) -> None:
        assert joined([outcome("judge:x", [-1.0])]) == {}


class TestPlanning:
    def test_parts_have_steps_and_their_own_prompts(self) -> None:
        task = load_task("winogrande", rows=ROWS)
        jobs = plan_jobs(task, task.samples(order="file")[:1])
        assert [(job.step, job.request.prompt, job.request.continuations) for job in jobs] == [
            ("part:0", "The trophy is not in the case as the trophy", (" is too big.",)),
            ("part:1", "The trophy is not in the case as the case", (" is too big.",)),
        ]

    def test_a_text_of_the_tasks_own_is_what_plain_sends(self) -> None:
        task = load_task("winogrande", rows=ROWS)
        sample = Sample("1", "", [Message("user", "a")], " b", (" b", " c"), text="the very text")
        (plain,) = plan_jobs(task, [sample])
        (marked,) = plan_jobs(task, [sample], formatter="chatml")
        assert plain.request.prompt == "the very text"
        assert marked.request.prompt.startswith("<|im_start|>user\na")

    def test_parts_and_text_are_part_of_the_fingerprint(self) -> None:
        first = load_task("winogrande", rows=ROWS[:1])
        changed = [{**ROWS[0], "sentence": ROWS[0]["sentence"].replace("big", "old")}]
        assert (
            first.prompt_fingerprint() != load_task("winogrande", rows=changed).prompt_fingerprint()
        )


class TestBlanks:
    def knowing(self, request: LoglikelihoodRequest) -> list[float]:
        """A model that knows: trophies are too big, cases too small."""
        fits = ("trophy" in request.prompt[-8:]) == ("big" in request.continuations[0])
        return [-1.0 if fits else -2.0 for _ in request.continuations]

    def test_a_model_that_knows_is_right(self) -> None:
        done = run_task(load_task("winogrande", rows=ROWS), ScriptedModel(self.knowing))
        assert done.card["accuracy"].value == 1.0
        assert done.n_requests == 4

    def test_shuffled_choices_are_asked_in_another_order_and_graded_alike(self) -> None:
        rows = [dict(row, n=n) for n in range(8) for row in ROWS]
        task = load_task("winogrande", rows=rows, shuffle_choices=True)
        firsts = {sample.possible_completions[0] for sample in task.samples()}
        assert firsts == {" trophy", " case"}
        assert run_task(task, ScriptedModel(self.knowing)).card["accuracy"].value == 1.0

    def test_examples_are_filled_in_with_what_is_right(self) -> None:
        train = [
            {"sentence": "Ann met Bo and _ left.", "option1": "Ann", "option2": "Bo", "answer": "2"}
        ]
        task = load_task("winogrande", rows={"validation": ROWS, "train": train}, num_fewshot=1)
        (first, *_) = plan_jobs(task, task.samples(order="file"))
        assert first.request.prompt == (
            "Ann met Bo and Bo left.\n\nThe trophy is not in the case as the trophy"
        )

    def test_a_stored_run_is_gone_on_with(self, tmp_path: Path) -> None:
        task = load_task("winogrande", rows=ROWS)
        run_task(task, ScriptedModel(self.knowing), tmp_path / "run", limit=1)
        again = run_task(task, ScriptedModel(self.knowing), tmp_path / "run")
        assert (again.n_requests, again.n_reused) == (4, 2)

    def test_a_question_without_a_blank_is_named(self) -> None:
        task = load_task("winogrande", rows=[{**ROWS[0], "sentence": "Nothing to fill."}])
        with pytest.raises(
            InvalidInputError, match="row 1: the question must contain '_', followed"
        ):
            task.samples()

    def test_published_instructions_are_taken_apart(self) -> None:
        text = (
            "Please choose the correct answer to fill in the blank to complete the given sentence: "
            "Ann met Bo and _ left.\n\nOption1: Ann Option2: Bo Answer format: option1/option2"
        )
        task = load_task("winogrande", rows=[{"instruction": text, "answer": "option2"}])
        (sample,) = task.samples()
        assert sample.ground_truth == " Bo"
        assert [part.continuations for part in sample.parts] == [(" left.",)] * 2

    def test_an_instruction_of_another_form_is_named(self) -> None:
        task = load_task("winogrande", rows=[{"instruction": "What?", "answer": "option2"}])
        with pytest.raises(InvalidInputError, match="row 1: the pattern does not match"):
            task.samples()

    def test_a_broken_pattern_is_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="it is not a valid pattern"):
            DataSpec(pattern_field="q", pattern="(")

    def test_a_style_has_no_blank(self) -> None:
        with pytest.raises(InvalidInputError, match="`blank` cannot be combined with a style"):
            Task(
                "t",
                Prompt(instruction="{q}", style="mc"),
                ChoicesSpec(choices=["a", "b"], answer="x", blank="_"),
                rows=[{"q": "_ b", "x": 0}],
            )


class TestRealData:
    def test_every_published_sentence_can_be_asked(self, shared_data: Path) -> None:
        file = shared_data / "llm_multiple_choice" / "llmadapters_winogrande_test.json"
        samples = load_task("winogrande", data=file).samples()
        assert len(samples) == 1267  # of the development set of WinoGrande (Sakaguchi et al. 2020)
        assert all(len(sample.parts) == 2 for sample in samples)


class TestParts:
    def test_continuations_must_be_texts(self) -> None:
        with pytest.raises(TypeError, match="part: `continuations` is a single string"):
            Part("a", "b")  # type: ignore[arg-type]

    def test_a_sample_shows_its_parts(self) -> None:
        sample = Sample(
            "1", "", [Message("user", "a")], parts=[Part([Message("user", "b")], ("c",))]
        )
        (part,) = sample.to_dict()["parts"]
        assert part["prompt"] == [{"role": "user", "content": "b"}]
