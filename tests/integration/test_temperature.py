"""A temperature is sent to a server only if the user or the task asks for one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.judge_server import Server, command, quiz, server

from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.tasks import Task, load_task, run_task
from eval_toolkit.tasks.ungraded import ask

Command = Callable[..., tuple[int, str, str]]
__all__ = ["command", "quiz", "server"]  # fixtures


def test_it_is_sent_only_when_asked_for(
    command: Command, server: Server, quiz: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    asked = ("run", quiz, "--model", "openai:m", "--base-url", server.url)
    code, page, err = command(*asked, "--out", out)
    assert code == 0, err
    assert (
        "the default temperature of the server; pass --temperature 0 for greedy decoding"
        in page + err
    )
    assert ["temperature" in one for one in server.asked] == [False, False]
    seeds = {one["seed"] for one in server.asked}
    assert len(seeds) == 2, "answers may be sampled, so that each has its own seed"
    assert Run.open(out).manifest["config"]["decoding"]["temperature"] is None
    n = len(server.asked)
    for again in (
        (*asked, "--out", out),
        ("run", quiz, "--replay", out, "--no-store"),
        ("rescore", out, "--grader", "includes"),
    ):
        code, _, err = command(*again)
        assert code == 0, err
    assert len(server.asked) == n
    code, _, err = command(*asked, "--out", out, "--temperature", 0)
    assert code == 2, "another temperature is another run"
    assert "temperature" in err
    code, _, err = command(*asked, "--no-store", "--temperature", 0)
    assert code == 0, err
    assert [one["temperature"] for one in server.asked[n:]] == [0.0, 0.0]


def test_a_task_may_ask_for_it(server: Server, quiz: Path) -> None:
    task = load_task(quiz)
    task.temperature = 0.5
    run_task(task, "openai:m", base_url=server.url)
    ask("openai:m", ["Well?"], base_url=server.url)
    assert [one.get("temperature") for one in server.asked] == [0.5, 0.5, None]


def test_models_of_this_process_stay_greedy(quiz: Path) -> None:
    task = load_task(quiz)
    assert isinstance(task, Task)
    heats: list[float | None] = []

    def reply(request: GenerateRequest) -> str:
        heats.append(request.temperature)
        return "4"

    done = run_task(task, ScriptedModel(reply))
    assert heats == [0.0, 0.0]
    assert done.results["config"]["decoding"]["temperature"] == 0.0
    assert GenerateRequest("x", temperature=None).heat == 0.0
    with pytest.raises(Exception, match="`temperature` must be"):
        GenerateRequest("x", temperature=True)
