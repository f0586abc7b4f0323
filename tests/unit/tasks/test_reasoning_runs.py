"""Reasoning models in runs: graders and judges see the answer, the stored reply stays whole."""

import json

import pytest
from tests.support.shown_blocks import notes
from tests.support.shown_blocks import text as text_of

from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.graders import ExactMatch
from eval_toolkit.graders.judges import Judge, PairJudge
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.models.responses import RawCompletion, ResponseType, Usage
from eval_toolkit.models.runner import read_outcomes
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.report.html_report import write_report
from eval_toolkit.runs import Run
from eval_toolkit.runs.blocks import flattened
from eval_toolkit.runs.kind_display import show_unit
from eval_toolkit.runs.selected_units import units_at
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.declared import read_task_file
from eval_toolkit.tasks.pairing import judge_pairs
from eval_toolkit.tasks.rescoring import judge_run, measure_run
from eval_toolkit.tasks.running import run_task

REPLY = "<think>\nNot Milan. Is it Milan? No.\n</think>\n\nRome"
CUT = "<think>\nNot Milan. Is it"


class Capitals(BaseTask[str]):
    NAME = "Capitals"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item):
        return f"Capital of {item['country']}?"

    def _get_ground_truth(self, item):
        return item["capital"]


def capitals(n=1):
    rows = [{"id": f"q{at}", "country": f"Italy {at}", "capital": "Rome"} for at in range(n)]
    return Capitals(rows=rows)


def replies(*texts, **more):
    """A reply per question, by its number."""

    def answer(request):
        at = int(request.prompt[-1].content.rstrip("?").split()[-1])
        return RawCompletion(texts[at % len(texts)], **more)

    return ScriptedModel(answer)


class TestGraders:
    @pytest.mark.parametrize(
        "grader",
        ["exact_match", "f1", "regex_match{pattern='^([A-Z][a-z]+)$'}", "word_count"],
    )
    def test_every_grader_sees_the_answer_alone(self, grader):
        task = capitals()
        task._get_context = lambda item: {"comparison": "exactly", "n": 1}
        done = run_task(task, ScriptedModel(REPLY), graders=[grader])
        column = grader.partition("{")[0]
        assert done.card[column].value == 1.0

    def test_the_language_before_post_processing_is_that_of_the_answer(self):
        answers = []

        class Raw(ExactMatch):
            def grade(self, response):
                answers.append((response.raw_completion, response.reasoning, response.messages[-1]))
                return super().grade(response)

        run_task(capitals(), ScriptedModel(REPLY), graders=[Raw()])
        ((raw, reasoning, message),) = answers
        assert (raw, reasoning) == ("Rome", "Not Milan. Is it Milan? No.")
        assert message.content == "Rome"

    def test_votes_are_cast_with_answers(self):
        texts = [f"<think>{n}</think>Rome" for n in range(3)]
        model = ScriptedModel(texts)
        done = run_task(
            capitals(), model, attempts=3, maj_at=[3], temperature=1.0, graders=["exact_match"]
        )
        assert done.card["exact_match_maj@3"].value == 1.0

    def test_tags_of_the_task(self):
        task = capitals()
        model = ScriptedModel("<scratch>Milan?</scratch>Rome")
        assert run_task(task, model).card["exact_match"].value == 0.0
        task.reasoning_tags = [("<scratch>", "</scratch>")]
        assert run_task(task, model).card["exact_match"].value == 1.0
        assert task.describe()["reasoning_tags"] == [["<scratch>", "</scratch>"]]
        task.reasoning_tags = ()
        assert run_task(task, ScriptedModel(REPLY)).card["exact_match"].value == 0.0
        assert "reasoning_tags" not in capitals().describe()
        task.reasoning_tags = "<think>"
        with pytest.raises(InvalidTypeError, match="reasoning_tags"):
            task.describe()

    def test_tags_of_a_task_file(self, tmp_path):
        path = tmp_path / "capitals.toml"
        path.write_text(
            '[task]\nname = "capitals"\n[prompt]\ninstruction = "Capital of {country}?"\n'
            'answer = "capital"\n[graders.exact_match]\n'
            '[decoding]\nreasoning_tags = [["<scratch>", "</scratch>"]]\n'
        )
        task = read_task_file(path, rows=[{"country": "Italy", "capital": "Rome"}])
        done = run_task(task, ScriptedModel("<scratch>Milan?</scratch>Rome"))
        assert done.card["exact_match"].value == 1.0


class TestStored:
    def test_the_reply_stays_whole(self, tmp_path):
        run_task(capitals(), ScriptedModel(REPLY), tmp_path / "r")
        (outcome,) = read_outcomes(Run.open(tmp_path / "r").table(RESPONSES))
        assert outcome.response.text == REPLY

    def test_what_the_server_returns_apart_is_kept_too(self, tmp_path):
        model = ScriptedModel([RawCompletion("Rome", reasoning="Not Milan.", reasoning_tokens=4)])
        done = run_task(capitals(), model, tmp_path / "r")
        assert done.card["exact_match"].value == 1.0
        (outcome,) = read_outcomes(Run.open(tmp_path / "r").table(RESPONSES))
        assert (outcome.response.reasoning, outcome.response.reasoning_tokens) == ("Not Milan.", 4)
        assert done.usage["reasoning_tokens"] == 4

    def test_it_comes_back_from_a_cache(self, tmp_path):
        reply = RawCompletion("Rome", reasoning="Not Milan.", reasoning_tokens=4)
        with ResponseCache(tmp_path / "cache.sqlite") as cache:
            run_task(capitals(), ScriptedModel([reply]), cache=cache)
            done = run_task(capitals(), ScriptedModel([reply]), tmp_path / "r", cache=cache)
        assert done.n_cached == 1
        (outcome,) = read_outcomes(Run.open(tmp_path / "r").table(RESPONSES))
        assert outcome.response.reasoning == "Not Milan."

    def test_stored_answers_are_measured_again_without_it(self, tmp_path):
        run_task(capitals(), ScriptedModel(REPLY), tmp_path / "r")
        done = measure_run(tmp_path / "r", capitals(), graders=["f1"])
        assert done.card["f1"].value == 1.0

    def test_its_tokens_are_counted(self, tmp_path):
        # "Not Milan. Is it Milan? No." has 27 of the 31 characters: 56 of 64 tokens, by share
        reply = RawCompletion(REPLY, completion_tokens=64, usage=Usage(10, 64))
        done = run_task(capitals(), ScriptedModel([reply]), tmp_path / "r")
        assert done.usage["reasoning_tokens"] == 56
        assert done.usage["completion_tokens"] == 64
        manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
        assert manifest["usage"]["reasoning_tokens"] == done.usage["reasoning_tokens"]

    def test_without_reasoning_there_is_nothing_to_count(self):
        assert "reasoning_tokens" not in run_task(capitals(), ScriptedModel("Rome")).usage


class TestCutOff:
    def test_an_absent_answer_is_wrong_and_says_so(self, tmp_path):
        model = replies(REPLY, CUT, finish_reason="length")
        done = run_task(capitals(4), model, tmp_path / "r")
        assert done.card["exact_match"].value == 0.5
        told = dict(zip(done.records.unit_id, done.records.reason["exact_match"], strict=True))
        assert told["q1"] == "no answer: the reply ends inside its reasoning"
        assert told["q0"] == ""
        assert done.records.status["exact_match"].tolist() == ["ok"] * 4
        line = (
            "2 of 4 replies end inside their reasoning and count as empty answers; raise max_tokens"
        )
        assert line in done.notes
        assert line in Run.open(tmp_path / "r").manifest["notes"]
        assert line in measure_run(tmp_path / "r", capitals(4)).notes

    def test_so_it_is_where_the_server_returns_the_reasoning_apart(self):
        model = ScriptedModel([RawCompletion("", reasoning="Not", finish_reason="length")])
        done = run_task(capitals(), model)
        assert done.card["exact_match"].value == 0.0
        assert "1 of 1 replies end inside" in done.notes[-1]


class TestJudges:
    def test_a_judge_sees_the_answer_alone(self, tmp_path):
        shown = []

        def verdict(request):
            shown.append(request.prompt[-1].content)
            return "Yes."

        run_task(capitals(), ScriptedModel(REPLY), tmp_path / "r")
        judge = Judge("correctness", ScriptedModel(verdict))
        done = judge_run(tmp_path / "r", capitals(), [judge])
        assert done.card["correctness"].value == 1.0
        assert "Rome" in shown[0]
        assert "Milan" not in shown[0]

    @pytest.mark.parametrize(
        "said", ["<think>Is it? No. No!</think>Yes.", "Is it? No.\n</think>\n\nYes."]
    )
    def test_the_verdict_is_what_a_judge_says_after_it_thought(self, said):
        judge = Judge("correctness", ScriptedModel(said, name="thinker"))
        done = run_task(capitals(), ScriptedModel("Rome"), graders=["exact_match", judge])
        assert done.card["correctness"].value == 1.0

    def test_a_judge_that_only_thinks_has_no_verdict(self):
        judge = Judge("correctness", ScriptedModel("<think>\nYes.", name="thinker"))
        done = run_task(
            capitals(), ScriptedModel("Rome"), graders=["exact_match", judge], max_error_rate=1.0
        )
        assert done.records.status["correctness"].tolist() == ["error"]
        told = "the judge thinker: the reply ends inside its reasoning; raise max_tokens"
        assert done.records.reason["correctness"].tolist() == [told]

    def test_pairs_are_judged_by_their_answers(self, tmp_path):
        shown = []

        def verdict(request):
            shown.append(request.prompt[-1].content)
            return "<think>[[B]]?</think>[[A]]"

        for name, text in (("a", REPLY), ("b", "<think>Hm.</think>Milan")):
            run_task(capitals(), ScriptedModel(text, name=name), tmp_path / name)
        judge = PairJudge(ScriptedModel(verdict))
        done = judge_pairs(tmp_path / "a", tmp_path / "b", capitals(), judge)
        assert done.records.status["win"].tolist() == ["ok"]
        assert len(shown) == 2
        assert all("Not Milan" not in text and "Hm." not in text for text in shown)


class TestReports:
    def test_a_card_shows_it_apart(self, tmp_path):
        done = run_task(capitals(2), replies(REPLY, CUT), tmp_path / "r")
        units = units_at(done.run, done.records, *done.run.subjects[0], [0, 1])
        first, second = map(show_unit, units)
        assert text_of(first, "answer") == "Rome"
        reasoning = [
            one.text for one in flattened(first) if getattr(one, "title", "") == "Reasoning"
        ]
        assert reasoning == ["Not Milan. Is it Milan? No."]
        assert text_of(second, "answer") == ""
        assert "No answer: the reply ends inside its reasoning." in notes(second, "error")
        write_report([done.run], tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "Reasoning (not graded)" in page
        assert "No answer: the reply ends inside its reasoning." in page
