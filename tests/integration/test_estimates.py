"""What a dry run says of choices over HTTP is what the run then costs."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.emulated_servers import EmulatedServer
from tests.support.fault_server import FaultServer
from tests.support.judge_server import command

from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.tasks import BaseTask, ResponseType, estimate, plan_jobs, run_task

Command = Callable[..., tuple[int, str, str]]
__all__ = ["command"]  # a fixture


class Capitals(BaseTask[str]):
    NAME = "capitals"
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"Question {item['n']}: {'be ' * item['n']}What is the capital of {item['land']}?"

    def _get_cue_text(self, item: dict[str, Any]) -> str:
        return "Answer:"

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return "the city of Paris"

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
        return ["the city of Paris", "the town of Rome", "龍 and a 😀"]


def capitals(n: int) -> Capitals:
    return Capitals(rows=[{"n": at, "land": ("France", "Italy")[at % 2]} for at in range(n)])


@pytest.mark.parametrize("n", [5, 80])
def test_estimate_and_bill_agree(n: int) -> None:
    """80 samples have 240 texts, of which 200 are counted."""
    with EmulatedServer("vllm-0.20", bos=True) as server:
        model = OpenAICompatible("toy", base_url=server.url, prices=(1_000.0, 50_000.0))
        planned = estimate(capitals(n), model)
        assert server.app.bodies == []
        assert "counted by the server" in planned.how
        done = run_task(capitals(n), model)
        asyncio.run(model.aclose())
    assert planned.prompt_tokens == pytest.approx(done.usage["prompt_tokens"], rel=0.05)
    assert planned.completion_tokens == done.usage["completion_tokens"] == 3 * n
    assert planned.cost == pytest.approx(done.usage["cost"], rel=0.05)


def test_without_a_tokenizer_characters_are_counted_once_per_choice() -> None:
    with FaultServer(tokenize=False) as server:
        model = OpenAICompatible("toy", base_url=server.url, prices=(1.0, 0.0))
        planned = estimate(capitals(2), model)
    texts = [
        f"{job.request.prompt}{choice}"
        for job in plan_jobs(capitals(2), capitals(2).samples(), formatter="plain")
        for choice in job.request.to_dict()["continuations"]
    ]
    assert planned.prompt_tokens == sum(-(-len(text) // 4) for text in texts)
    assert planned.how == "one token per 4 characters"
    assert planned.completion_tokens == 6


def test_nothing_is_sent_elsewhere() -> None:
    model = OpenAICompatible("toy", base_url="http://models.invalid/v1")
    assert model.token_counts(["a secret"]) is None


def test_a_dry_run_asks_no_model(command: Command, tmp_path: Path) -> None:
    quiz = tmp_path / "quiz.csv"
    quiz.write_text("question,A,B,answer\nCapital of France?,Paris,Rome,A\n", "utf-8")
    with EmulatedServer("vllm-0.20") as server:
        asked = ("run", quiz, "--model", "openai:toy", "--base-url", server.url, "--dry-run")
        code, page, err = command(*asked, "--prices", "1,2")
        assert (code, err) == (0, "")
        assert "dry run, no request was sent" in page
        assert server.app.bodies == []
