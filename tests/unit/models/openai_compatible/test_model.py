"""The model as a user meets it: arguments, answers, secrets, sessions, reports."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.each import each
from tests.support.fault_server import FaultServer, likeliest, logprob

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawCompletion
from eval_toolkit.models.runner.stored import read_outcomes
from eval_toolkit.protocols import Model
from eval_toolkit.runs import Run
from eval_toolkit.tasks import run_task

SECRET = "sk-test-Zx81kQ0pLm2Nv7Rt4Wy9"  # noqa: S105 - opens nothing


def ask(server: FaultServer, text: str = "What is 2 + 3?", **options: Any) -> RawCompletion:
    model = OpenAICompatible("toy", base_url=server.url, retry_wait_s=0.0, **options)
    return asyncio.run(model.generate(GenerateRequest((Message("user", text),), max_tokens=8)))


@each(
    ("options", "words"),
    [
        ({"model": " "}, "`model` is ' '"),
        ({"base_url": "localhost:8000"}, "must be a URL such as 'http://localhost:8000/v1'"),
        ({"base_url": "ftp://host/v1"}, "must be a URL such as"),
        ({"base_url": ""}, "must be a URL such as"),
        ({"base_url": "http://[::1/v1"}, "must be a URL such as"),
        ({"base_url": "http://host:port/v1"}, "must be a URL such as"),
        ({"base_url": "http://a host/v1"}, "must be a URL such as"),
        ({"base_url": "https://me:pw@host/v1"}, "contains a password or key"),
        ({"base_url": "https://me@host/v1"}, "contains a password or key"),
        ({"base_url": "https://host/v1?api_key=abcdef123"}, "contains a password or key"),
        ({"concurrency": 0}, "`concurrency` is 0; it must be at least 1"),
        ({"max_tries": 0}, "`max_tries` is 0"),
        ({"timeout_s": 0}, "`timeout_s` is 0"),
        ({"requests_per_minute": 0}, "`requests_per_minute` is 0"),
        ({"tokens_per_minute": -1}, "`tokens_per_minute` is -1"),
        ({"prices": (1.0,)}, "`prices` is (1.0,); write [IN, OUT]"),
        ({"prices": (-1.0, 0.0)}, "`prices` is -1.0"),
        ({"loglikelihood": "maybe"}, "`loglikelihood` is 'maybe'; choose one of 'auto'"),
        ({"prefill": "no"}, "`prefill` is 'no'"),
    ],
)
def test_arguments_that_cannot_be_used(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        OpenAICompatible(**{"model": "toy", **options})
    assert words in str(caught.value)
    assert "pw" not in str(caught.value)
    assert "abcdef123" not in str(caught.value)


def test_a_concurrency_of_the_wrong_type() -> None:
    with pytest.raises(InvalidTypeError, match="`concurrency` must be an integer"):
        OpenAICompatible("toy", concurrency=1.5)  # type: ignore[arg-type]


def test_it_is_a_model_and_describes_what_changes_answers() -> None:
    model = OpenAICompatible("toy", base_url="http://localhost:1/v1/", name="T", concurrency=7)
    assert isinstance(model, Model)
    assert (model.name, model.concurrency) == ("T", 7)
    described = model.describe()
    assert described == json.loads(json.dumps(described))
    assert (described["kind"], described["base_url"]) == ("openai_compatible", "localhost:1/v1")
    faster = OpenAICompatible("toy", base_url="http://localhost:1/v1", concurrency=1, max_tries=1)
    assert faster.describe() == described  # nothing about speed, nothing about the name
    other = OpenAICompatible("toy", base_url="http://localhost:1/v1", extra_body={"top_k": 1})
    assert other.describe() != described
    assert repr(model) == "OpenAICompatible('toy', 'localhost:1/v1')"


def test_secrets_in_extra_fields_are_not_described() -> None:
    model = OpenAICompatible("toy", extra_body={"api_key": SECRET, "top_k": 1})
    assert model.describe()["extra_body"] == {"api_key": "[redacted]", "top_k": 1}


def test_a_conversation_and_a_text_take_different_roads() -> None:
    with FaultServer() as server:
        model = OpenAICompatible("toy", base_url=server.url, prices=(2.0, 10.0))

        async def main() -> tuple[RawCompletion, RawCompletion]:
            chat = await model.generate(GenerateRequest((Message("user", "What is 2 + 3?"),)))
            return chat, await model.generate(GenerateRequest("What is 2 + 3?", max_tokens=5))

        chat, text = asyncio.run(main())
        bodies = server.app.bodies
    assert (chat.text, chat.finish_reason) == ("5", "stop")
    assert (chat.prompt_tokens, chat.completion_tokens) == (7, 1)
    assert chat.usage.cost == pytest.approx((7 * 2.0 + 1 * 10.0) / 1e6)
    assert chat.usage.latency_s > 0.0
    assert text.text == " 5"
    assert "messages" in bodies[0]
    assert "max_tokens" not in bodies[0]
    assert bodies[1]["prompt"] == "What is 2 + 3?"
    totals = model.totals()
    assert (totals.n_requests, totals.n_answers, totals.n_failures) == (2, 2, 0)
    assert totals.prompt_tokens == 14
    assert totals.cost == pytest.approx(chat.usage.cost + text.usage.cost)
    assert totals.to_dict()["limit"] == 64


def test_a_text_as_a_user_message_for_servers_without_completions() -> None:
    with FaultServer(completions=False) as server:
        model = OpenAICompatible("toy", base_url=server.url, completions_for_text=False)
        answer = asyncio.run(model.generate(GenerateRequest("What is 2 + 3?")))
    assert answer.text == "5"


@pytest.mark.parametrize("repeats", [True, False])
def test_an_answer_goes_on_after_the_cue_whether_or_not_it_is_repeated(repeats: bool) -> None:
    with FaultServer(repeats_cue=repeats) as server:
        model = OpenAICompatible("toy", base_url=server.url)
        messages = (Message("user", "What is 2 + 3?"), Message("assistant", "Answer:"))
        answer = asyncio.run(model.generate(GenerateRequest(messages)))
    assert answer.text == " 5"


@pytest.mark.parametrize(
    ("shape", "text", "reason"),
    [
        ("parts", "Rome", "stop"),
        ("thinking", "", "length"),
        ("filter-part", "Well,", "content_filter"),
        ("plain-text", "5", "stop"),
    ],
)
def test_answers_of_many_shapes(shape: str, text: str, reason: str) -> None:
    with FaultServer(script={"What": [shape]}) as server:
        answer = ask(server)
    assert (answer.text, answer.finish_reason, answer.usage.tries) == (text, reason, 1)


def test_counts_the_server_does_not_give_are_absent_and_not_zero() -> None:
    with FaultServer(script={"What": ["no-usage"]}) as server:
        answer = ask(server, prices=(1.0, 1.0))
    assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)
    assert answer.usage.cost == 0.0


def test_counts_that_are_none_are_absent() -> None:
    with FaultServer(script={"What": ["odd-usage"]}) as server:
        answer = ask(server, prices=(1.0, 1.0))
    assert (answer.prompt_tokens, answer.completion_tokens) == (None, None)
    assert (answer.usage.total_tokens, answer.usage.cost) == (0, 0.0)


# --- the key -------------------------------------------------------------------------------------


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TOY_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    with FaultServer(key=SECRET) as server:
        model = OpenAICompatible("toy", base_url=server.url, api_key_env="TOY_KEY")
        request = GenerateRequest((Message("user", "What is 2 + 3?"),))
        assert asyncio.run(model.generate(request)).text == "5"
        assert server.app.headers[-1]["Authorization"] == f"Bearer {SECRET}"
    shown = f"{model!r} {model.describe()} {model.totals()} {vars(model)} {caplog.text}"
    assert SECRET not in shown
    assert SECRET not in repr([vars(model._endpoint), vars(model._endpoint._transport)])


@pytest.mark.parametrize("escaped", [True, False])
def test_a_key_that_a_server_repeats_is_not_in_the_answer(
    monkeypatch: pytest.MonkeyPatch, escaped: bool
) -> None:
    key = "hunter2/plain"
    monkeypatch.setenv("TOY_KEY", key)
    monkeypatch.setenv("PLAN", "standard")
    body = json.dumps({"choices": [{"message": {"content": f"Bearer {key} of standard"}}]})
    if escaped:
        body = body.replace("hunter", "h\\u0075nter").replace("2/", "2\\/")
        assert json.loads(body)["choices"]
    transport = OpenAICompatible(
        "toy", api_key_env="TOY_KEY", headers_env={"Plan": "PLAN"}
    )._endpoint._transport
    payload = transport._decoded("chat/completions", body.encode(), transport.api.headers()[1])
    said = payload["choices"][0]["message"]["content"]
    assert said == "Bearer [redacted] of standard", "words that are no secret stay"


def test_a_wrong_key_is_not_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_KEY", SECRET)
    with FaultServer(key="another") as server, pytest.raises(ModelError) as caught:
        ask(server, api_key_env="TOY_KEY")
    assert caught.value.kind == "auth"
    assert caught.value.fatal
    assert SECRET not in str(caught.value)
    assert "the environment variable TOY_KEY is set" in str(caught.value)
    assert len(server.app.headers) == 1  # asked once


def test_without_a_key_none_is_sent_and_the_error_says_how_to_give_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with FaultServer(key="another") as server:
        with pytest.raises(ModelError, match="set `api_key_env`"):
            ask(server)
        # The default key is OpenAI's: it goes to no other address.
        assert "Authorization" not in server.app.headers[-1]


def test_a_variable_that_is_named_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, " "):
        monkeypatch.setenv("TOY_KEY", value) if value else monkeypatch.delenv("TOY_KEY", False)
        with pytest.raises(InvalidInputError, match="variable TOY_KEY is not set") as caught:
            OpenAICompatible("toy", base_url="http://localhost:9/v1", api_key_env="TOY_KEY")
        assert "`api_key_env`" in str(caught.value)
    with pytest.raises(InvalidInputError) as caught:  # the key itself, where its name belongs
        OpenAICompatible("toy", api_key_env=SECRET)
    assert SECRET not in str(caught.value)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert OpenAICompatible("toy").name == "toy"  # nobody named it


def test_headers_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY", SECRET)
    with FaultServer() as server:
        assert ask(server, headers_env={"X-Gateway": "GATEWAY"}).text == "5"
        assert server.app.headers[-1]["X-Gateway"] == SECRET
        monkeypatch.delenv("GATEWAY")
        with pytest.raises(
            ModelError, match="variable GATEWAY for the header X-Gateway is not set"
        ):
            ask(server, headers_env={"X-Gateway": "GATEWAY"})


def test_a_redirect_is_refused() -> None:
    with FaultServer() as server:
        model = OpenAICompatible("toy", base_url=server.url.replace("/v1", "/moved"))
        with pytest.raises(ModelError, match="redirects to http://elsewhere") as caught:
            asyncio.run(model.generate(GenerateRequest((Message("user", "x"),))))
    assert caught.value.fatal


# --- sessions ------------------------------------------------------------------------------------


def test_one_model_in_several_event_loops() -> None:
    with FaultServer() as server:
        model = OpenAICompatible("toy", base_url=server.url)
        request = GenerateRequest((Message("user", "What is 2 + 3?"),))

        async def closed() -> None:
            await model.generate(request)
            await model.aclose()
            await model.generate(request)
            await model.aclose()
            await model.aclose()

        for _ in range(2):
            assert asyncio.run(model.generate(request)).text == "5"
            asyncio.run(closed())
    assert model.totals().n_answers == 6


def test_nothing_is_written_about_retries_or_a_session_left_open() -> None:
    program = """
import asyncio, logging, sys
from tests.support.fault_server import FaultServer
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.messages import Message
from eval_toolkit.models.requests import GenerateRequest
# On a busy machine asyncio says in this mode which callbacks took long.
logging.getLogger("asyncio").addFilter(lambda said: not said.msg.startswith("Executing "))
with FaultServer(script={"What": ["503", "reset"]}) as server:
    model = OpenAICompatible("toy", base_url=server.url, retry_wait_s=0.0)
    print(asyncio.run(model.generate(GenerateRequest((Message("user", "What is 2 + 3?"),)))).text)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


def test_a_cancelled_request_gives_its_place_back() -> None:
    with FaultServer(script={"hang": ["hang"] * 9}) as server:
        model = OpenAICompatible("toy", base_url=server.url, concurrency=1)

        async def main() -> str:
            hanging = asyncio.create_task(
                model.generate(GenerateRequest((Message("user", "hang"),)))
            )
            while not server.app.asked:
                await asyncio.sleep(0.01)
            assert model.totals().in_flight == 1
            hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
            return (
                await model.generate(GenerateRequest((Message("user", "What is 2 + 3?"),)))
            ).text

        assert asyncio.run(main()) == "5"


def test_importing_the_model_loads_no_client() -> None:
    program = (
        "import sys; import eval_toolkit.models.openai_compatible as m;"
        "m.OpenAICompatible('x').describe();"
        "print([n for n in ('aiohttp', 'yarl') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


# --- the report ----------------------------------------------------------------------------------


def test_the_report_says_what_an_endpoint_can_do() -> None:
    with FaultServer() as server:
        report = OpenAICompatible("toy", base_url=server.url).check_sync()
    assert report.ok
    found = {line.name: line.ok for line in report.capabilities}
    assert found == {
        "models": True,
        "chat": True,
        "completions": True,
        "prefill": False,
        "tokenize": True,
        "loglikelihood": True,
        "list prompts": True,
    }
    assert report["loglikelihood"].detail == "verified with echo"
    latency = report["chat"].latency_s
    assert latency is not None
    assert latency > 0.0
    assert json.loads(json.dumps(report.to_dict()))["ok"] is True
    with pytest.raises(KeyError):
        report["nonsense"]
    assert report.lines()[0] == ("generate", "yes", "by chat and completions")
    assert [line[1] for line in report.lines()[1:]].count("no") == 1


def test_what_an_endpoint_cannot_do_is_a_line_and_not_an_exception() -> None:
    with FaultServer(completions=False, tokenize=False) as server:
        report = OpenAICompatible("unknown", base_url=server.url, max_tries=1).check_sync()
    assert report.ok  # it chats
    assert not report["models"].ok
    assert report["models"].detail == "'unknown' is not among toy, other"
    assert not report["completions"].ok
    assert "returned status 404" in report["tokenize"].detail
    assert "passes verification" in report["loglikelihood"].detail
    assert report.lines()[0] == ("generate", "yes", "by chat")


def test_a_report_about_nobody_is_an_error() -> None:
    model = OpenAICompatible("toy", base_url="http://127.0.0.1:9/v1", max_tries=1)
    with pytest.raises(ModelError, match=r"127.0.0.1:9/v1/models cannot be reached") as caught:
        model.check_sync()
    assert caught.value.kind == "connection"


def test_top_logprobs_of_chat_answers_are_stored(tmp_path: Path) -> None:
    rows = [{"question": "What is 20 + 22?", "answer": "42"}]
    with FaultServer() as server:
        model = OpenAICompatible("toy", base_url=server.url, top_logprobs=2)
        run_task(rows, model, tmp_path / "r")
        [body] = server.app.bodies
        plain = OpenAICompatible("toy", base_url=server.url)
        run_task(rows, plain, tmp_path / "plain")
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)
    found = [
        read_outcomes(Run.open(tmp_path / name).table("responses.parquet"))[0].response
        for name in ("r", "plain")
    ]
    raw, without = found
    [(spelled, number, tops)] = raw.top_logprobs
    assert (spelled, number) == ("42", logprob((), "42"))
    assert len(tops) == 2
    assert tops[0] == (likeliest(()), logprob((), likeliest(())))
    assert without.top_logprobs is None
    assert "top_logprobs" not in without.to_dict()
    assert model.describe() == {**plain.describe(), "top_logprobs": True}
    with pytest.raises(InvalidInputError, match="`top_logprobs`"):
        OpenAICompatible("toy", base_url="http://localhost:1/v1", top_logprobs=0)
    with pytest.raises(InvalidInputError, match="must be triples"):
        RawCompletion("x", top_logprobs=[("x",)])
