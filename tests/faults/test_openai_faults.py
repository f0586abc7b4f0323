"""A server that fails: every request ends with an answer or with an error that says why."""

import asyncio
import resource
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.support.fault_server import FLAKY, FaultServer, answer_to, share

from eval_toolkit.errors import ModelError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion

QUESTION = "What is 2 + 3?"


def request_for(text: str) -> GenerateRequest:
    return GenerateRequest((Message("user", text),), max_tokens=8)


def model_of(server: FaultServer, **options: Any) -> OpenAICompatible:
    return OpenAICompatible("toy", base_url=server.url, **{"retry_wait_s": 0.0, **options})


def ask(server: FaultServer, **options: Any) -> RawCompletion:
    return asyncio.run(model_of(server, **options).generate(request_for(QUESTION)))


PASSING = (*FLAKY, "html", "list", "error-200", "429-date", "408", "504", "no-message", "number")


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_is_asked_again(fault: str) -> None:
    with FaultServer(script={QUESTION: [fault]}) as server:
        answer = ask(server)
        assert server.app.asked[QUESTION] == 2
    assert answer.text == "5"
    assert answer.usage.tries == 2


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("400", "bad_request", "returned status 400: injected 400"),
        ("401", "auth", "returned status 401"),
        ("403", "auth", "returned status 403"),
        ("404", "not_found", "returned status 404"),
        ("422", "bad_request", "returned status 422"),
        ("501", "unsupported", "returned status 501"),
        ("quota", "auth", "exceeded your current quota"),
        ("too-long", "too_long", "maximum context length"),
        ("filtered", "refused", "filtered"),
        ("refusal", "refused", "declined: I cannot help with that."),
        ("filter", "refused", "content filter"),
        ("tool", "refused", "called a tool"),
    ],
)
def test_what_does_not_pass_is_asked_once(fault: str, kind: str, words: str) -> None:
    with FaultServer(script={QUESTION: [fault] * 9}) as server:
        with pytest.raises(ModelError, match=words) as caught:
            ask(server)
        assert server.app.asked[QUESTION] == 1
    assert (caught.value.kind, caught.value.tries) == (kind, 1)
    assert not caught.value.retryable
    assert "\n" not in str(caught.value)


KINDS = {
    "429": ("rate_limited", 429),
    "500": ("server", 500),
    "503": ("server", 503),
    "reset": ("connection", None),
    "garbage": ("garbled", 200),
    "truncated": ("garbled", 200),
    "cut": ("garbled", None),
    "empty": ("garbled", 200),
}


@pytest.mark.parametrize("fault", KINDS)
def test_what_never_passes_is_given_up_with_the_number_of_tries(fault: str) -> None:
    with FaultServer(script={QUESTION: [fault] * 9}) as server:
        with pytest.raises(ModelError, match=r"\(tried 3 times\)") as caught:
            ask(server, max_tries=3)
        assert server.app.asked[QUESTION] == 3
    assert (caught.value.kind, caught.value.status) == KINDS[fault]
    assert caught.value.tries == 3
    assert caught.value.retryable


@pytest.mark.parametrize("fault", ["endless", "bomb"])
def test_an_answer_without_end_is_given_up_at_64_mebibytes(fault: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        FaultServer(script={QUESTION: [fault] * 9}) as server,
        pytest.raises(ModelError, match="returned more than 67108864 bytes") as caught,
    ):
        ask(server, max_tries=1, timeout_s=600.0)
    assert caught.value.kind == "garbled"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_a_failure_after_another_kind_of_failure_counts_both_tries() -> None:
    with FaultServer(script={QUESTION: ["500", "401"]}) as server:
        with pytest.raises(ModelError) as caught:
            ask(server)
        assert server.app.asked[QUESTION] == 2
    assert (caught.value.kind, caught.value.tries) == ("auth", 2)


def test_a_hang_ends_with_the_timeout_and_is_asked_again() -> None:
    for patience in (0.5, 5.0, 50.0):  # on a busy machine an answer may take longer than a moment
        with FaultServer(script={QUESTION: ["hang"]}) as server:
            answer = ask(server, timeout_s=patience)
        if answer.usage.tries == 2:
            break
    assert (answer.text, answer.usage.tries) == ("5", 2)
    with (
        FaultServer(script={QUESTION: ["hang"] * 9}) as server,
        pytest.raises(ModelError, match=r"did not respond within 0.2 s \(tried 2 times\)"),
    ):
        ask(server, timeout_s=0.2, max_tries=2)


def test_a_slow_answer_is_waited_for() -> None:
    with FaultServer(script={QUESTION: ["drip"]}) as server:
        answer = ask(server)
    assert (answer.text, answer.usage.tries) == ("5", 1)


def test_nobody_at_the_address() -> None:
    model = OpenAICompatible("toy", base_url="http://127.0.0.1:9/v1", max_tries=2, retry_wait_s=0)
    with pytest.raises(ModelError, match=r"cannot be reached: .* \(tried 2 times\)") as caught:
        asyncio.run(model.generate(request_for(QUESTION)))
    assert caught.value.kind == "connection"


def test_retry_after_is_waited_for() -> None:
    with FaultServer(script={QUESTION: ["429-after-1s"]}) as server:
        started = time.monotonic()
        assert ask(server).usage.tries == 2
    assert time.monotonic() - started >= 1.0  # a lower bound is no race


def test_a_wait_beyond_the_total_is_not_begun() -> None:
    with FaultServer(script={QUESTION: ["429-after-hours"] * 9}) as server:
        with pytest.raises(ModelError) as caught:
            ask(server, total_timeout_s=60.0)
        assert server.app.asked[QUESTION] == 1
    assert caught.value.kind == "rate_limited"


def test_a_message_never_holds_the_whole_prompt() -> None:
    with (
        FaultServer(script={QUESTION: ["repeats-prompt"]}) as server,
        pytest.raises(ModelError) as caught,
    ):
        ask(server)
    assert len(str(caught.value)) < 400


def test_an_overloaded_server_gets_fewer_requests_at_once() -> None:
    texts = [f"What is {n} + 1?" for n in range(40)]
    with FaultServer(script={text: ["429"] for text in texts[:1]}, latency_s=0.01) as server:
        model = model_of(server, concurrency=16)

        async def main() -> list[RawCompletion]:
            return await asyncio.gather(*(model.generate(request_for(text)) for text in texts))

        answers = asyncio.run(main())
        assert server.app.max_in_flight <= 16
    assert [answer.text for answer in answers] == [answer_to(text) for text in texts]
    assert 8 <= model.totals().limit < 16


def test_budgets_slow_requests_down() -> None:
    with FaultServer() as server:
        model = model_of(server, requests_per_minute=6000, tokens_per_minute=100_000)

        async def main() -> None:
            texts = [f"What is {n} + 1?" for n in range(140)]
            await asyncio.gather(*(model.generate(request_for(text)) for text in texts))

        started = time.monotonic()
        asyncio.run(main())
    assert time.monotonic() - started >= 0.15  # 120 at once, then one per 10 ms
    assert model.totals().n_answers == 140


def test_a_large_prompt_is_no_warning() -> None:
    with FaultServer() as server:
        model = model_of(server)
        answer = asyncio.run(model.generate(request_for("x" * 1_500_000 + QUESTION)))
    assert answer.text == "5"


def test_twenty_percent_faults_lose_nothing_and_double_nothing() -> None:
    texts = [f"What is {n} + {n % 7}?" for n in range(600)]
    with FaultServer(rate=0.2, times=2, forever=0.01) as server:
        model = model_of(server, concurrency=32, max_tries=4)

        async def one(text: str) -> RawCompletion | ModelError:
            try:
                return await model.generate(request_for(text))
            except ModelError as error:
                return error

        async def main() -> list[RawCompletion | ModelError]:
            return await asyncio.gather(*map(one, texts))

        found = asyncio.run(main())
        answered, asked = server.app.answered, server.app.asked
    failed = {text for text in texts if share(text) < 0.01}
    flaky = {text for text in texts if share(text, "flaky") < 0.2} - failed
    assert failed  # the test is about something
    assert len(flaky) > 80
    for text, result in zip(texts, found, strict=True):
        if text in failed:
            assert isinstance(result, ModelError)
            assert (result.kind, result.tries) == ("server", 4)
            assert (asked[text], answered[text]) == (4, 0)
        else:
            assert isinstance(result, RawCompletion)
            assert result.text == answer_to(text)
            assert (asked[text], answered[text]) == (3 if text in flaky else 1, 1)
    assert model.totals().n_answers == len(texts) - len(failed)


def test_log_likelihoods_survive_faults_too() -> None:
    with FaultServer() as server:
        model = model_of(server, max_tries=4)
        requests = [LoglikelihoodRequest(f"Item {n} is", (" a", " the")) for n in range(60)]

        async def main() -> list[list[float]]:
            found = await asyncio.gather(*map(model.loglikelihood, requests))
            return [one.loglikelihoods for one in found]

        calm = asyncio.run(main())
        server.behaviour.rate = 0.3
        server.app.asked.clear()
        assert asyncio.run(main()) == calm
        assert model.totals().n_failures > 5


def test_the_server_runs_on_its_own() -> None:
    command = [sys.executable, "-m", "tests.support.fault_server", "--rate", "1", "--kinds", "503"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            model = OpenAICompatible("toy", base_url=url, retry_wait_s=0.0)
            answer = asyncio.run(model.generate(request_for(QUESTION)))
        finally:
            process.terminate()
    assert (answer.text, answer.usage.tries) == ("5", 2)
