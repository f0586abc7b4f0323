"""Where models are asked: every name without an address follows the server that the user named."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.support.judge_server import JUDGE, ROWS, Server, command, quiz, server

from eval_toolkit.errors import InvalidInputError, PluginError
from eval_toolkit.graders import load_grader
from eval_toolkit.models import load_model
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.servers import user_server
from eval_toolkit.plugins import making, read_from
from eval_toolkit.rollouts.scorers.loading import load_scorer
from eval_toolkit.tasks import CompletionSpec, Prompt, Task, ask, run_task

Command = Callable[..., tuple[int, str, str]]
__all__ = ["command", "quiz", "server"]  # fixtures


@pytest.mark.parametrize("way", ["option", "bare", "own", "environment", "without /v1"])
def test_the_judge_is_asked_where_the_model_is(
    command: Command, server: Server, quiz: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "environment":
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    model = {"own": f"openai:m{{base_url='{server.url}'}}", "bare": "m"}.get(way, "openai:m")
    url = {"own": (), "environment": (), "without /v1": ("--base-url", server.root)}.get(
        way, ("--base-url", server.url)
    )
    code, out, err = command("run", quiz, "--no-store", "--model", model, "--grader", JUDGE, *url)
    assert code == 0, err
    assert server.models == {"m", "judge"}
    assert "correctness" in out
    assert f"openai:judge: prompts go to {server.root}" in err
    assert ("m is interpreted as openai:m" in err) == (way == "bare")
    assert ("its /v1" in err) == (way == "without /v1")


def test_requests_under_way_follow_to_v1_too() -> None:
    """A second request that the wrong path refuses after the first has moved is sent again."""
    moved, refused = threading.Event(), []

    class Late(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/chat/completions":
                choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
                status, answer = 200, {"choices": [choice]}
            else:
                refused.append(self.path)
                status, answer = 404, {"error": {"message": "no such path"}}
                assert len(refused) == 1 or moved.wait(60)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if status == 200:
                moved.set()

        def log_message(self, *_: Any) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Late) as late:
        threading.Thread(target=late.serve_forever, daemon=True).start()
        model = OpenAICompatible("m", base_url=f"http://127.0.0.1:{late.server_port}")
        answers = [row["answer"] for row in ask(model, ["one?", "two?"]).rows()]
        assert answers == ["yes", "yes"]
        late.shutdown()
    assert refused == ["/chat/completions"] * 2


def test_the_judge_of_a_task_file_is_asked_there_too(
    command: Command, server: Server, quiz: Path
) -> None:
    text = quiz.read_text("utf-8") + '[graders.judge]\nmodel = "openai:judge"\n'
    quiz.write_text(text, "utf-8")
    code, _, err = command(
        "run", quiz, "--no-store", "--model", "openai:m", "--base-url", server.url
    )
    assert code == 0, err
    assert server.models == {"m", "judge"}


def test_a_judge_may_be_told_another_address(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "sk-secret-6")
    with user_server({"base_url": "http://127.0.0.1:1/v1", "api_key_env": "MINE"}):
        judge: Any = load_grader(f"judge{{model=openai:judge{{base_url='{server.url}'}}}}")
    assert judge.asked.base_url == server.url
    assert judge.asked.api_key_env is None  # the key is for the other address


def test_in_python_the_judge_follows_the_model(server: Server) -> None:
    task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"), rows=ROWS)
    model = OpenAICompatible("m", base_url=server.url)
    run_task(task, model, graders=[JUDGE])
    assert server.models == {"m", "judge"}


def test_a_model_given_by_name_is_asked_at_base_url(server: Server) -> None:
    rows = [{"question": row["q"], "answer": row["a"]} for row in ROWS]
    done = run_task(rows, "openai:m", base_url=server.url, graders=["match", JUDGE])
    assert done.card["match"].value == 0.5
    assert server.models == {"m", "judge"}
    assert ask("m", "2 + 2?", base_url=server.url).texts == ["4"]
    with pytest.raises(InvalidInputError, match="a model given by name"):
        run_task(rows, str.upper, base_url=server.url)


def test_the_key_goes_along_to_the_same_address(
    command: Command, server: Server, quiz: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "sk-secret-7")
    options = ("--base-url", server.url, "--api-key-env", "MINE")
    code, out, err = command(
        "run", quiz, "--no-store", "--model", "openai:m", "--grader", JUDGE, *options
    )
    assert code == 0
    assert {one["key"] for one in server.asked} == {"Bearer sk-secret-7"}
    assert "with the key in MINE" in err
    assert "sk-secret-7" not in out + err


def test_openais_key_is_for_openai_alone(
    command: Command, server: Server, quiz: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-8")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    _, _, err = command("run", quiz, "--no-store", "--model", "openai:m")
    assert {one["key"] for one in server.asked} == {None}
    assert "without a key" in err


def test_several_addresses_and_a_model_without_one_is_refused() -> None:
    with (
        user_server({}, mentioned=["http://a/v1", "http://b/v1"]),
        pytest.raises(InvalidInputError, match=r"write openai:judge\{base_url='http://a/v1'\}"),
    ):
        load_model("openai:judge")
    with user_server({}, mentioned=["http://a/v1", "http://a/v1"]):
        made: Any = load_model("openai:judge")
        assert made.base_url == "http://a/v1"


@pytest.mark.parametrize(
    "text", ["openai:m{base_url='http://h:1/v1'}", "openai:m{base_url=http://h:1/v1}"]
)
def test_options_in_braces_are_read_wherever_a_model_is_named(text: str) -> None:
    scorer: Any = load_scorer(f"judge:harmfulness@{text}")
    judge: Any = load_grader({"grader": "judge", "rubric": "correctness", "model": text})
    loaded: Any = load_model(text)
    asked = (loaded, judge.asked, scorer.judge.asked)
    assert [model.base_url for model in asked] == ["http://h:1/v1"] * 3


def test_a_name_without_a_kind_says_what_to_type() -> None:
    with pytest.raises(PluginError, match="write openai:gpt-4o"):
        load_model("gpt-4o")
    with pytest.raises(PluginError, match=r"openai:meta/llama .* hf:meta/llama"):
        load_model("meta/llama")
    with user_server({"base_url": "http://h/v1"}):
        assert load_model("gpt-4o").name == "gpt-4o"
        with pytest.raises(PluginError, match="did you mean 'embedded'"):
            load_model("embeded")
        with pytest.raises(PluginError, match="write openai:llama3:8b"):
            load_model("llama3:8b")


class TestFiles:
    """What a file names is still asked only where the user said."""

    FILE = read_from("evil.toml", "[graders]")

    def test_openai_is_not_the_users_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        with making(self.FILE), pytest.raises(InvalidInputError, match=r"api\.openai\.com"):
            load_model("openai:judge")

    def test_the_users_server_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MINE", "sk-secret-9")
        with user_server({"base_url": "http://h:1/v1", "api_key_env": "MINE"}), making(self.FILE):
            made: Any = load_model("openai:judge")
            assert (made.base_url, made.api_key_env) == ("http://h:1/v1", "MINE")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://h:2/v1")
        with making(self.FILE):
            made = load_model("openai:judge")
            assert made.base_url == "http://h:2/v1"

    def test_another_host_or_a_key_is_refused(self) -> None:
        with user_server({"base_url": "http://h:1/v1"}), making(self.FILE):
            for text in ("openai:j{base_url='http://h:9/v1'}", "openai:j{api_key_env='MINE'}"):
                with pytest.raises(InvalidInputError, match=r"evil\.toml"):
                    load_model(text)
