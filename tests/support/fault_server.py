"""OpenAI-compatible test server with configurable faults and wrong responses.

It uses a toy language model over words with real conditional probabilities, so echo mode, one-token
completions and forced tokens agree exactly, unless the server is configured otherwise.

In a test::

    with FaultServer(script={"What is 1 + 1?": ["429", "reset"]}) as server:
        model = OpenAICompatible("toy", base_url=server.url)

As a program: ``python -m tests.support.fault_server --port 0 --rate 0.2 --forever 0.01``. The first line
of output is the address; ``GET /counts`` returns the numbers of requests and answers per prompt.
"""

import argparse
import asyncio
import json
import math
import re
import threading
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from aiohttp import web

BOS = "<s>"
CONTEXT = 16
"""Number of pieces beyond which some behaviours truncate or misreport texts."""
WORDS = [" the", " a", " and", " is", " Paris", " Rome", " dog", " six", " question", ",", "."]
_PIECE = re.compile(r" ?\w+|\W")
_SUM = re.compile(r"What is (-?\d+) \+ (-?\d+)\?")

FLAKY = ("429", "429-after", "500", "502", "503", "reset", "garbage", "truncated", "cut", "empty")
"""Transient faults, after which a retry may succeed; "hang" and "drip" are also slow."""


# --- the toy model -------------------------------------------------------------------------------


def checksum(text: str) -> int:
    return zlib.crc32(text.encode(errors="replace"))


def pieces_of(text: str) -> list[str]:
    """Return words with their preceding space, and other characters separately."""
    return _PIECE.findall(text)


@lru_cache(maxsize=100_000)
def logprob(before: tuple[str, ...], piece: str) -> float:
    """Return the log-probability of a piece given the last three: a softmax over WORDS, else tiny."""
    context = "|".join(before[-3:])
    logits = [checksum(f"{context}>{word}") % 600 / 100 for word in WORDS]
    total = math.log(sum(map(math.exp, logits)))
    if piece in WORDS:
        return logits[WORDS.index(piece)] - total
    return -12.0 - checksum(f"{context}>{piece}") % 100 / 25


def likeliest(before: tuple[str, ...]) -> str:
    return max(WORDS, key=lambda word: logprob(before, word))


def true_loglikelihood(prompt: str, continuation: str, *, bos: bool = False) -> float:
    """Return the true log-likelihood, for comparison in tests."""
    start = [BOS] if bos else []
    pieces = start + pieces_of(prompt + continuation)
    first = len(start + pieces_of(prompt))
    return math.fsum(logprob(tuple(pieces[:at]), pieces[at]) for at in range(first, len(pieces)))


def answer_to(text: str) -> str:
    """Return the sum requested last, or a word that depends on the text."""
    asked = _SUM.findall(text)
    if asked:
        return str(int(asked[-1][0]) + int(asked[-1][1]))
    return WORDS[checksum(text) % 9].strip()


# --- what it is told to do -----------------------------------------------------------------------


@dataclass
class Behaviour:
    """Configuration of the server; correct and available by default."""

    echo: str = "honest"
    """honest · ignored · refused · off_by_one · short · nan · positive · no_null · no_offsets;
    of texts longer than ``CONTEXT``: truncated · zeros"""
    offsets: str = "characters"
    """characters · bytes · with_bos (BOS counts towards offsets, as in vLLM) · words"""
    prompt_logprobs: bool = False
    force: str = "honest"
    """honest · ignored · renormalised · wrong_id"""
    lists: str = "honest"
    """honest · first_only · reversed (index tells) · refused"""
    ids: str = "content"
    """content (llama.cpp's shape, with ids) · token (the id in place of the token) · text"""
    tokenize: bool = True
    template: bool = False
    completions: bool = True
    bos: bool = False
    repeats_cue: bool = False
    key: str = ""
    latency_s: float = 0.0
    script: dict[str, list[str]] = field(default_factory=dict)
    """Maps a substring of the prompt to the faults of its first, second … attempt before an answer."""
    rate: float = 0.0
    """Fraction of prompts whose first ``times`` attempts fail."""
    times: int = 1
    kinds: tuple[str, ...] = FLAKY
    forever: float = 0.0
    """Fraction of prompts that always fail with status 500."""


def share(text: str, salt: str = "") -> float:
    return checksum(f"{salt}{text}") / 2**32


class FaultApp:
    """Request handlers and counters."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = self.max_in_flight = 0
        self._ids: dict[str, int] = {BOS: 1}
        self._pieces: dict[int, str] = {1: BOS}
        self._stopping = asyncio.Event()

    def web_app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(
            [
                web.get("/v1/models", self.models),
                web.post("/v1/chat/completions", self.chat),
                web.post("/v1/completions", self.completions),
                web.post("/tokenize", self.tokenize),
                web.post("/apply-template", self.apply_template),
                web.get("/counts", self.counts),
                web.post("/moved/chat/completions", self.moved),
            ]
        )
        app.on_shutdown.append(self._stop)
        return app

    async def _stop(self, _: web.Application) -> None:
        self._stopping.set()

    # tokens

    def id_of(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = len(self._ids) + 9
            self._pieces[self._ids[piece]] = piece
        return self._ids[piece]

    def read_prompt(self, prompt: str | list[int]) -> list[str]:
        if isinstance(prompt, list):
            return [self._pieces[token] for token in prompt]
        return ([BOS] if self.behaviour.bos else []) + pieces_of(prompt)

    # one request: count it, fail it or answer it

    async def serve(self, request: web.Request, prompt: str, answer: Any) -> web.StreamResponse:
        told = self.behaviour
        self.asked[prompt] += 1
        self.headers.append(dict(request.headers))
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            if told.latency_s:
                await asyncio.sleep(told.latency_s)
            if told.key and request.headers.get("Authorization") != f"Bearer {told.key}":
                given = request.headers.get("Authorization", "")
                return problem(401, f"Incorrect API key provided: {given}")
            fault = self.fault(prompt)
            payload = answer()
            if fault:
                return await self.fail(fault, request, payload, prompt)
            self.answered[prompt] += 1
            return web.json_response(payload)
        finally:
            self.in_flight -= 1

    def fault(self, prompt: str) -> str:
        told, tries = self.behaviour, self.asked[prompt]
        for part, faults in told.script.items():
            if part in prompt:
                return faults[tries - 1] if tries <= len(faults) else ""
        if share(prompt) < told.forever:
            return "500"
        if share(prompt, "flaky") < told.rate and tries <= told.times:
            return told.kinds[checksum(f"kind{prompt}") % len(told.kinds)]
        return ""

    async def fail(
        self, fault: str, request: web.Request, payload: dict[str, Any], prompt: str
    ) -> web.StreamResponse:
        if fault.isdigit():
            return problem(int(fault), f"injected {fault}")
        if fault == "429-after":
            return problem(429, "slow down", {"Retry-After": "0"})
        if fault == "429-after-1s":
            return problem(429, "slow down", {"Retry-After": "1"})
        if fault == "429-after-hours":
            return problem(429, "slow down", {"Retry-After": "7200"})
        if fault == "429-date":
            return problem(429, "slow down", {"Retry-After": formatdate(time.time(), usegmt=True)})
        if fault == "quota":
            return problem(429, "You exceeded your current quota", code="insufficient_quota")
        if fault == "too-long":
            return problem(400, "This model's maximum context length is 16 tokens", code="x")
        if fault == "filtered":
            return problem(400, "The prompt was filtered", code="content_filter")
        if fault == "repeats-prompt":
            return problem(400, f"cannot read {prompt * 50}")
        if fault == "hang":
            await self._stopping.wait()
            return problem(503, "stopped")
        if fault == "reset" and request.transport is not None:
            request.transport.abort()
            return web.Response()
        if fault in ("endless", "bomb"):
            return await self.write_on(request, packed=fault == "bomb")
        if fault in ("cut", "drip"):
            return await self.write_slowly(request, payload, prompt, whole=fault == "drip")
        return self.odd(fault, payload, prompt)

    async def write_on(self, request: web.Request, *, packed: bool) -> web.StreamResponse:
        """Write whitespace until the client disconnects, optionally compressed (1 MB per kB)."""
        response = web.StreamResponse(headers={"Content-Encoding": "gzip"} if packed else None)
        response.content_type = "application/json"
        await response.prepare(request)
        packing = zlib.compressobj(9, wbits=31)
        while not self._stopping.is_set():
            piece = b" " * (1 << 20)
            await response.write(packing.compress(piece) if packed else piece)
        return response

    async def write_slowly(
        self, request: web.Request, payload: dict[str, Any], prompt: str, *, whole: bool
    ) -> web.StreamResponse:
        body = json.dumps(payload).encode()
        response = web.StreamResponse()
        response.content_length = len(body)
        response.content_type = "application/json"
        await response.prepare(request)
        half = len(body) // 2
        for piece in (body[:half], body[half:]) if whole else (body[:half],):
            await response.write(piece)
            await asyncio.sleep(0.05)
        if whole:
            self.answered[prompt] += 1
        elif request.transport is not None:
            request.transport.abort()
        return response

    def odd(self, fault: str, payload: dict[str, Any], prompt: str) -> web.Response:
        """Return an invalid response with status 200."""
        if fault == "garbage":
            return web.Response(body=b"\xff\x00 no JSON at all", content_type="application/json")
        if fault == "html":
            return web.Response(
                text="<html><body>Bad gateway</body></html>", content_type="text/html"
            )
        if fault == "truncated":
            return web.Response(text=json.dumps(payload)[:-20], content_type="application/json")
        if fault == "list":
            return web.json_response([payload])
        if fault == "empty":
            return web.json_response({**payload, "choices": []})
        if fault == "error-200":
            return web.json_response({"error": {"message": "upstream is busy", "code": 502}})
        self.answered[prompt] += 1
        if fault == "plain-text":  # JSON with the wrong label is an answer
            return web.Response(text=json.dumps(payload), content_type="text/plain")
        if fault == "no-usage":
            return web.json_response({**payload, "usage": None})
        if fault == "odd-usage":
            usage = {"prompt_tokens": -5, "completion_tokens": 2.0}
            return web.json_response({**payload, "usage": usage})
        message, reason = ODD_MESSAGES[fault]
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return web.json_response({**payload, "choices": [choice]})

    # endpoints

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "toy"}, {"id": "other"}]})

    async def moved(self, _: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://elsewhere.example/v1"})

    async def counts(self, _: web.Request) -> web.Response:
        return web.json_response({"asked": self.asked, "answered": self.answered})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        messages = body["messages"]
        prompt = "\n".join(message["content"] for message in messages)

        def answer() -> dict[str, Any]:
            text = answer_to(prompt)
            if messages[-1]["role"] == "assistant":
                cue = messages[-1]["content"]
                text = f"{cue if self.behaviour.repeats_cue else ''} {text}"
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            if body.get("logprobs"):
                choice["logprobs"] = {"content": chat_logprobs(text, body.get("top_logprobs") or 0)}
            return wrapped([choice], len(pieces_of(prompt)), len(pieces_of(text)))

        return await self.serve(request, prompt, answer)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        if not self.behaviour.completions:
            return problem(404, "no such endpoint")
        given = body["prompt"]
        one = isinstance(given, str) or (given and isinstance(given[0], int))
        prompts = [given] if one else given
        if len(prompts) > 1 and self.behaviour.lists == "refused":
            return problem(400, "`prompt` must be a string")
        if body.get("echo") and self.behaviour.echo == "refused":
            return problem(400, "echo is not supported")
        shown = given if isinstance(given, str) else json.dumps(given)

        def answer() -> dict[str, Any]:
            read = [self.read_prompt(prompt) for prompt in prompts]
            choices = [self.choice(at, pieces, body) for at, pieces in enumerate(read)]
            if self.behaviour.lists == "first_only":
                choices = choices[:1]
            elif self.behaviour.lists == "reversed":
                choices.reverse()
            forgets = self.behaviour.echo == "truncated"
            n_read = sum(min(len(pieces), CONTEXT) if forgets else len(pieces) for pieces in read)
            return wrapped(choices, n_read, len(choices))

        return await self.serve(request, shown, answer)

    def choice(self, at: int, pieces: list[str], body: dict[str, Any]) -> dict[str, Any]:
        echo = body.get("echo") and self.behaviour.echo != "ignored"
        text = "".join(piece for piece in pieces if piece != BOS)
        if not body.get("logprobs") and not body.get("prompt_logprobs"):
            return {"index": at, "text": f" {answer_to(text)}", "finish_reason": "stop"}
        bias = {int(token): value for token, value in (body.get("logit_bias") or {}).items()}
        token = self.next_piece(tuple(pieces), bias)
        choice: dict[str, Any] = {"index": at, "finish_reason": "length", "text": token}
        if body.get("prompt_logprobs") and self.behaviour.prompt_logprobs:
            choice["prompt_logprobs"] = self.prompt_logprobs(pieces)
        if echo:
            choice["text"] = text + token
            choice["logprobs"] = self.echoed([*pieces, token])
            if self.behaviour.echo == "truncated" and len(pieces) > CONTEXT:
                self.forget(choice, len(pieces) - CONTEXT)
        elif body.get("logprobs"):
            choice["logprobs"] = self.generated(tuple(pieces), token, bool(bias))
        return choice

    def next_piece(self, before: tuple[str, ...], bias: dict[int, float]) -> str:
        best = likeliest(before)
        forced = [self._pieces[token] for token, value in bias.items() if value >= 100]
        if not forced or self.behaviour.force == "ignored":
            return best
        return best if self.behaviour.force == "wrong_id" and forced[0] != best else forced[0]

    def generated(self, before: tuple[str, ...], piece: str, biased: bool) -> dict[str, Any]:
        number, top = logprob(before, piece), likeliest(before)
        if biased and self.behaviour.force == "renormalised":
            number = -1e-6
        token = str(self.id_of(piece)) if self.behaviour.ids == "token" else piece
        if self.behaviour.ids != "content":
            tops = [{top: logprob(before, top)}]
            return {"tokens": [token], "token_logprobs": [number], "top_logprobs": tops}
        best = {"id": self.id_of(top), "token": top, "logprob": logprob(before, top)}
        cell = {"id": self.id_of(piece), "token": piece, "logprob": number, "top_logprobs": [best]}
        return {"content": [cell]}

    def echoed(self, pieces: list[str]) -> dict[str, Any]:
        told = self.behaviour
        numbers: list[Any] = [None]
        numbers += [logprob(tuple(pieces[:at]), pieces[at]) for at in range(1, len(pieces))]
        tops: list[Any] = [None]
        for at in range(1, len(pieces)):
            best = likeliest(tuple(pieces[:at]))
            tops.append({best: logprob(tuple(pieces[:at]), best), pieces[at]: numbers[at]})
        offsets = self.offsets(pieces)
        if told.echo == "off_by_one":
            numbers = [None, *numbers[2:], -1.0]
        elif told.echo == "short":
            pieces, numbers, tops, offsets = pieces[3:], numbers[3:], tops[3:], offsets[3:]
            numbers[0] = None
        elif told.echo == "nan":
            numbers[2] = math.nan
        elif told.echo == "positive":
            numbers = [None, *(-number for number in numbers[1:])]
        elif told.echo == "no_null":
            numbers[0] = -3.0
        elif told.echo == "zeros" and len(pieces) > CONTEXT:
            numbers = [None, *(0.0 for _ in numbers[1:])]
        found = {"tokens": pieces, "token_logprobs": numbers, "top_logprobs": tops}
        return found if told.echo == "no_offsets" else {**found, "text_offset": offsets}

    def forget(self, choice: dict[str, Any], n: int) -> None:
        """Answer as if the text lacked its first ``n`` pieces."""
        told = choice["logprobs"]
        kept = self.echoed(told["tokens"][n:])
        choice["text"] = choice["text"][told["text_offset"][n] :]
        choice["logprobs"] = {**kept, "text_offset": told["text_offset"][n:]}

    def offsets(self, pieces: list[str]) -> list[int]:
        kind, offsets, at = self.behaviour.offsets, [], 0
        for number, piece in enumerate(pieces):
            offsets.append(number if kind == "words" else at)
            if piece != BOS or kind == "with_bos":
                at += len(piece.encode()) if kind == "bytes" else len(piece)
        return offsets

    def prompt_logprobs(self, pieces: list[str]) -> list[Any]:
        rows: list[Any] = [None]
        for at in range(1, len(pieces)):
            before = tuple(pieces[:at])
            best = likeliest(before)
            rank = 1 if best == pieces[at] else 7
            row = {best: (1, best), pieces[at]: (rank, pieces[at])}
            rows.append(
                {
                    str(self.id_of(piece)): {
                        "logprob": logprob(before, piece),
                        "rank": place,
                        "decoded_token": text,
                    }
                    for piece, (place, text) in row.items()
                }
            )
        return rows

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        if not self.behaviour.tokenize:
            return problem(404, "no such endpoint")
        pieces = pieces_of(body.get("content", ""))
        if body.get("add_special") and self.behaviour.bos:
            pieces = [BOS, *pieces]
        return web.json_response(
            {"tokens": [{"id": self.id_of(piece), "piece": piece} for piece in pieces]}
        )

    async def apply_template(self, request: web.Request) -> web.Response:
        body = await request.json()
        if not self.behaviour.template:
            return problem(404, "no such endpoint")
        lines = [f"{message['role']}: {message['content']}" for message in body["messages"]]
        return web.json_response({"prompt": "\n".join(lines)})


def chat_logprobs(text: str, n: int) -> list[dict[str, Any]]:
    """Return each piece of an answer with its log-probability and the ``n`` most likely words."""
    pieces, cells = pieces_of(text), []
    for at, piece in enumerate(pieces):
        before = tuple(pieces[:at])
        likely = sorted(WORDS, key=lambda word: -logprob(before, word))[:n]
        tops = [{"token": word, "logprob": logprob(before, word)} for word in likely]
        cells.append({"token": piece, "logprob": logprob(before, piece), "top_logprobs": tops})
    return cells


ODD_MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "refusal": ({"content": None, "refusal": "I cannot help with that."}, "stop"),
    "filter": ({"content": ""}, "content_filter"),
    "filter-part": ({"content": "Well,"}, "content_filter"),
    "tool": ({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls"),
    "parts": (
        {"content": [{"type": "text", "text": "Ro"}, {"type": "text", "text": "me"}]},
        "stop",
    ),
    "thinking": ({"content": None, "reasoning_content": "Let me see"}, "length"),
    "length": ({"content": ""}, "length"),
    "number": ({"content": 42}, "stop"),
    "no-message": (None, "stop"),  # type: ignore[dict-item]
}


def problem(
    status: int, message: str, headers: dict[str, str] | None = None, code: str = "injected"
) -> web.Response:
    error = {"error": {"message": message, "type": "injected", "code": code}}
    return web.json_response(error, status=status, headers=headers)


def wrapped(choices: list[dict[str, Any]], n_prompt: int, n_made: int) -> dict[str, Any]:
    usage = {"prompt_tokens": n_prompt, "completion_tokens": n_made}
    return {"object": "list", "model": "toy", "choices": choices, "usage": usage}


# --- running it ----------------------------------------------------------------------------------


class FaultServer:
    """Server in a separate thread for the duration of a ``with`` block."""

    def __init__(self, **told: Any) -> None:
        self.behaviour = Behaviour(**told)
        # Its own copy: a test that heals the server must not heal it for the tests after it.
        self.behaviour.script = dict(self.behaviour.script)
        self.app: FaultApp
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def _new_app(self) -> FaultApp:
        return FaultApp(self.behaviour)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self.app = self._new_app()
        runner, port = await started(self.app, 0)
        self.url = f"http://127.0.0.1:{port}/v1"
        self._ready.set()
        await self._done.wait()
        await runner.cleanup()

    def __enter__(self) -> "FaultServer":
        self._thread.start()
        if not self._ready.wait(600):
            raise RuntimeError("the fault server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(600)


async def started(app: FaultApp, port: int) -> tuple[web.AppRunner, int]:
    runner = web.AppRunner(app.web_app(), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    return runner, runner.addresses[0][1]


async def forever(behaviour: Behaviour, port: int) -> None:
    _, port = await started(FaultApp(behaviour), port)
    print(f"http://127.0.0.1:{port}/v1", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=0.0, help="share of prompts that fail first")
    parser.add_argument("--times", type=int, default=1, help="so often they do")
    parser.add_argument("--kinds", default=",".join(FLAKY), help="in these ways")
    parser.add_argument("--forever", type=float, default=0.0, help="share that always fails")
    parser.add_argument("--echo", default="honest")
    given = parser.parse_args()
    behaviour = Behaviour(
        echo=given.echo,
        latency_s=given.latency_ms / 1000,
        rate=given.rate,
        times=given.times,
        kinds=tuple(given.kinds.split(",")),
        forever=given.forever,
    )
    try:
        asyncio.run(forever(behaviour, given.port))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
