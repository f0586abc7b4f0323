"""The embedded model as a judge: real prompts, real verdicts, kept and read again."""

from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.graders.judges import Judge, PairJudge, Rubric
from eval_toolkit.models.embedded import EmbeddedModel
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.models.runner import read_outcomes
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import judge_pairs, measure_run, run_task
from eval_toolkit.tasks.base import BaseTask

CAPITALS = {"Italy": "Rome", "Spain": "Madrid", "France": "Paris", "Japan": "Tokyo",
            "Egypt": "Cairo", "Peru": "Lima"}  # fmt: skip
SHORT = Rubric(
    "same_city",
    "Do reference and answer name the same city?",
    {"labels": {"yes": 1, "no": 0}},
    system="You compare two texts and reply with one word, yes or no.",
    user="Reference: {reference}\nAnswer: {completion}\n{rubric} {form}",
)


class Capitals(BaseTask[str]):
    NAME = "Capitals"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"What is the capital of {item['country']}?"

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["city"])


def task() -> Capitals:
    rows = [{"country": country, "city": city} for country, city in CAPITALS.items()]
    return Capitals(rows=rows)


def half_right(request: Any) -> str:
    country = request.prompt[-1].content.partition("capital of ")[2][:-1]
    at = list(CAPITALS).index(country)
    return CAPITALS[country] if at % 2 == 0 else "Reykjavik"


class Mute(EmbeddedModel):
    """The embedded model, which must not be asked."""

    def _answer(self, requests: Any) -> Any:
        raise AssertionError("the judge was asked")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, embedded_weights: Path) -> Any:
    folder = tmp_path_factory.mktemp("judged") / "r"
    judge = Judge(SHORT, "embedded", max_tokens=8)
    return run_task(task(), ScriptedModel(half_right), folder, graders=["exact_match", judge])


def test_every_verdict_is_a_number_or_an_error_with_its_words(judged: Any) -> None:
    records = judged.records
    assert len(records) == 6
    assert judged.card["exact_match"].value == 0.5
    for value, status, reason in zip(
        records.columns["same_city"],
        records.status["same_city"],
        records.reason["same_city"],
        strict=True,
    ):
        assert (status == "ok" and value in (0.0, 1.0)) or "unparsable verdict" in reason
    verdicts = [
        one
        for one in read_outcomes(judged.run.table("responses.parquet"))
        if one.job.step == "judge:same_city"
    ]
    assert len(verdicts) == 6
    assert all(one.response.text for one in verdicts)
    told = judged.judges["same_city"]
    assert told["usage"]["completion_tokens"] > 0
    assert told["n_failed_requests"] == 0


def test_it_is_measured_again_without_the_model(judged: Any) -> None:
    again = measure_run(judged.run, task(), graders=[Judge(SHORT, Mute(), max_tokens=8)])
    assert again.card["same_city"] == judged.card["same_city"]


def test_it_compares_pairs(judged: Any, tmp_path: Path) -> None:
    run_task(task(), ScriptedModel("Reykjavik", name="wrong"), tmp_path / "wrong", limit=2)
    judge = PairJudge(
        "embedded",
        max_tokens=4,
        system="",
        user="Question: {question}\nA: {answer_a}\nB: {answer_b}\n{form}",
    )
    done = judge_pairs(judged.run, tmp_path / "wrong", task(), judge)
    assert done.judges["pair"]["n_asked"] == 4
    assert len(done.records) == 2
    for value, status in zip(done.records.columns["win"], done.records.status["win"], strict=True):
        assert status == "error" or value in (0.0, 0.5, 1.0)
