"""A real OpenAI-compatible server that is not ours: llama.cpp on loopback, with real weights."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from eval_toolkit.errors import ModelError
from eval_toolkit.models.llama_cpp import LlamaCppServer
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest

for package in ("xllamacpp", "aiohttp"):
    pytest.importorskip(package)

CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Japan": "Tokyo",
    "Egypt": "Cairo",
}
CITIES = tuple(f" {city}" for city in CAPITALS.values())


@pytest.fixture(scope="module")
def server(embedded_weights: Path) -> Iterator[LlamaCppServer]:
    with LlamaCppServer(embedded_weights, n_ctx=1024) as running:
        yield running


def ask(server: LlamaCppServer, *requests: Any, **options: Any) -> list[Any]:
    async def all_of_them() -> list[Any]:
        model = OpenAICompatible("smol", base_url=server.base_url, **options)
        try:
            return await asyncio.gather(
                *(
                    model.generate(request)
                    if isinstance(request, GenerateRequest)
                    else model.loglikelihood(request)
                    for request in requests
                ),
                return_exceptions=True,
            )
        finally:
            await model.aclose()

    return asyncio.run(all_of_them())


def get(base_url: str, path: str = "/models", key: str = "") -> tuple[int, bytes]:
    address = urlsplit(base_url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with closing(http.client.HTTPConnection(address.netloc, timeout=600)) as connection:
        connection.request("GET", f"{address.path}{path}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def status(base_url: str, path: str = "/models", key: str = "") -> int:
    return get(base_url, path, key)[0]


def test_texts_are_continued(server: LlamaCppServer) -> None:
    requests = [
        GenerateRequest(f"The capital of {land} is", max_tokens=4, stop=(".",)) for land in CAPITALS
    ]
    answers = ask(server, *requests)
    right = [city in answer.text for city, answer in zip(CAPITALS.values(), answers, strict=True)]
    assert sum(right) >= 3
    assert all(answer.prompt_tokens == 5 for answer in answers)


def test_conversations_are_answered(server: LlamaCppServer) -> None:
    [answer] = ask(server, GenerateRequest((Message(Role.USER, "What is 2+2?"),), max_tokens=16))
    assert answer.text.strip()
    assert answer.prompt_tokens == 37  # in the model's own template, with its system message


def test_a_cue_is_continued_and_not_repeated(server: LlamaCppServer) -> None:
    """This server's chat answers begin with the cue; ours do not."""
    messages = (
        Message(Role.USER, "What is the capital of Italy?"),
        Message(Role.ASSISTANT, "The capital of Italy is"),
    )
    [answer] = ask(server, GenerateRequest(messages, max_tokens=6))
    assert answer.text.startswith(" Rome")


def test_an_ignored_echo_is_found_out_and_tokens_are_forced(
    server: LlamaCppServer, embedded_model: Any
) -> None:
    """The server answers 200 to `echo` and does not do it; forced numbers are the true ones."""
    requests = [LoglikelihoodRequest(f"The capital of {land} is", CITIES) for land in CAPITALS]
    answers = ask(server, *requests)
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    theirs = np.array([answer.loglikelihoods for answer in answers])

    async def exact() -> list[Any]:
        return await asyncio.gather(*map(embedded_model.loglikelihood, requests))

    ours = np.array([answer.loglikelihoods for answer in asyncio.run(exact())])
    assert abs(theirs - ours).mean() < 0.5  # llama.cpp's arithmetic moves by some tenths
    assert (theirs.argmax(1) == ours.argmax(1)).sum() >= 3
    assert (theirs.argmax(1) == np.arange(len(CAPITALS))).sum() >= 3


async def _both(server: LlamaCppServer, prompt: Any, choices: tuple[str, ...]) -> list[Any]:
    """Score with one request where choices are single tokens, and by forcing; count the requests."""
    found: list[Any] = []
    for way in ("auto", "force"):
        model = OpenAICompatible("smol", base_url=server.base_url, loglikelihood=way)
        request = LoglikelihoodRequest(prompt, choices)
        try:
            await model.loglikelihood(request)
            before = model.totals().n_requests
            found += [await model.loglikelihood(request), model.totals().n_requests - before]
        finally:
            await model.aclose()
    return found


@pytest.mark.parametrize(
    "prompt",
    [
        "Question: 2 + 2? A. 3 B. 4 C. 5 D. 6\nAnswer:",
        (Message(Role.USER, "2 + 2? A. 3 B. 4 C. 5 D. 6 Answer with a letter."),),
    ],
)
def test_letters_are_scored_by_one_request(server: LlamaCppServer, prompt: Any) -> None:
    choices = (" A", " B", " C", " D") if isinstance(prompt, str) else ("A", "B", "C", "D")
    one, n_one, forced, n_forced = asyncio.run(_both(server, prompt, choices))
    assert one.loglikelihoods == pytest.approx(forced.loglikelihoods, abs=0.25)
    assert one.n_tokens == forced.n_tokens == (1, 1, 1, 1)
    assert one.prompt_tokens == forced.prompt_tokens
    assert n_one < n_forced


def test_split_characters_are_refused_by_name(server: LlamaCppServer) -> None:
    """This server tells nothing of tokens that are parts of characters."""
    [split, whole] = ask(
        server,
        LoglikelihoodRequest("I say", (" 🎉", " hello")),
        LoglikelihoodRequest("I say 😀", (" hello", " to you")),
    )
    assert isinstance(split, ModelError)
    assert "part of a character" in str(split)
    assert (split.kind, split.fatal) == ("bad_request", False)
    assert whole.n_tokens == (1, 2)


def test_echo_alone_is_refused_by_name(server: LlamaCppServer) -> None:
    [error] = ask(
        server,
        LoglikelihoodRequest("The capital of France is", (" Paris",)),
        loglikelihood="echo",
    )
    assert isinstance(error, ModelError)
    assert error.kind == "unsupported"
    assert "echo" in str(error)


def test_too_long_prompts_are_told_apart(server: LlamaCppServer) -> None:
    [error] = ask(server, GenerateRequest("one " * 2000, max_tokens=1))
    assert error.kind == "too_long"


def test_it_answers_while_the_block_lasts(embedded_weights: Path) -> None:
    with LlamaCppServer(embedded_weights, n_ctx=64) as server:
        address, pid = server.base_url, server.pid
        assert pid is not None
        assert address.startswith("http://127.0.0.1:")
        assert status(address) == 200
        server.start()
        assert server.pid == pid, "started once"
    assert (server.pid, server.base_url) == (None, "")
    server.stop()
    with pytest.raises(OSError):
        status(address)


def test_a_key_keeps_others_out(embedded_weights: Path) -> None:
    with LlamaCppServer(embedded_weights, n_ctx=64, api_key="only-for-us") as server:
        assert status(server.base_url, "/completions") == 401
        assert status(server.base_url, "/completions", "only-for-us") != 401
        command_line = Path(f"/proc/{server.pid}/cmdline")
        if command_line.exists():
            assert b"only-for-us" not in command_line.read_bytes()


def test_a_broken_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"did not start: llama.cpp cannot load") as caught:
        LlamaCppServer(path).start()
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed another way")
def test_it_ends_with_the_process_that_started_it(embedded_weights: Path) -> None:
    script = (
        "import sys, time\n"
        "from eval_toolkit.models.llama_cpp import LlamaCppServer\n"
        f"server = LlamaCppServer({str(embedded_weights)!r}, n_ctx=64)\n"
        "server.start()\n"
        "print(server.base_url, flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        address = parent.stdout.readline().strip()
        assert status(address) == 200
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        for _ in range(100):
            try:
                status(address)
            except OSError:
                return
            time.sleep(0.1)
        pytest.fail("the server outlived the process that started it")


def test_models_are_listed_by_name(server: LlamaCppServer) -> None:
    listed = json.loads(get(server.base_url)[1])["data"]
    assert [one["id"] for one in listed] == ["SmolLM2-135M-Instruct.Q4_1"]
