"""``eval-toolkit tasks`` and ``models``: lists, what a task is made of, the prompts as they are sent."""

import json
from collections.abc import Callable
from typing import Any

from tests.cli.conftest import Command
from tests.fault_server import FaultServer


def test_list_says_what_comes_along(command: Command, as_json: Callable[..., Any]) -> None:
    code, out, _ = command("tasks", "list")
    assert code == 0
    assert "capitals_open   completion      comes along" in out
    names = {task["name"]: task for task in as_json("tasks", "list")["tasks"]}
    assert names["gsm8k"]["needs_data"] is True
    assert names["capitals"]["response_type"] == "loglikelihoods"


def test_show_hashes_the_data(as_json: Callable[..., Any], command: Command) -> None:
    found = as_json("tasks", "show", "capitals", "--fewshot", 2)
    assert found["num_fewshot"] == 2
    assert found["dataset"]["n_rows"] == {"test": 100, "train": 20}
    assert all(len(digest) == 64 for digest in found["dataset"]["files"].values())
    assert "accuracy (version" in command("tasks", "show", "capitals")[1]


def test_preview_shows_the_prompt_that_is_sent(command: Command) -> None:
    code, out, _ = command("tasks", "preview", "capitals", "--fewshot", 1, "--subject", "Europe")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("# capitals Europe/")
    body = lines[lines.index("┌ prompt") + 1 : lines.index("└")]
    assert len(body) == 5
    assert body[0].startswith("│Question: What is the capital of ")
    assert body[1].startswith("│Answer: ")
    assert body[2] == "│"
    assert body[4] == "│Answer:"
    assert sum(line.startswith("choice ") for line in lines) == 4


def test_preview_in_chat_and_as_json(command: Command, as_json: Callable[..., Any]) -> None:
    out = command("tasks", "preview", "capitals_open", "--format", "chat")[1]
    assert "┌ user" in out
    assert "┌ assistant\n│Answer:" in out
    found = as_json("tasks", "preview", "capitals", "--limit", 2)
    assert len(found["samples"]) == 8  # items per subject
    assert json.dumps(found)


def test_models(command: Command, as_json: Callable[..., Any]) -> None:
    assert "embedded" in as_json("models", "list")["models"]
    code, out, _ = command("models", "check", "scripted:Paris")
    assert code == 0
    assert "generate" in out
    assert "'Paris'" in out


def test_models_check_proves_an_endpoint(command: Command) -> None:
    with FaultServer() as server:
        code, out, _ = command("models", "check", "openai:m", "--base-url", server.url)
    assert code == 0
    assert "generate" in out
    code, out, _ = command(
        *("models", "check", "openai:m", "--base-url", "http://127.0.0.1:9/v1", "--max-tries", 1)
    )
    assert code == 1
    assert "no" in out
