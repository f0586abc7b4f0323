"""OpenAI-compatible loopback server that answers sums after a fixed delay.

``python -m benchmarks._server --latency-ms 20`` prints its address and serves until stopped.
Tokens are characters; the log-probability of a character depends on its prefix, and is the same in
echo mode and in one-token completions, so clients can verify the endpoint. ``GET /span`` returns the
time from the first request after ``POST /reset`` to the last response.
"""

import argparse
import asyncio
import re
import time
import zlib
from typing import Any

from aiohttp import web

SUM = re.compile(r"(\d+) \+ (\d+)")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Server:
    """Request handlers, with the delay and the times of the first and last request."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.first = self.last = 0.0
        self.n = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self.chat),
                web.post("/v1/completions", self.completions),
                web.get("/v1/models", self.models),
                web.get("/span", self.span),
                web.post("/reset", self.reset),
            ]
        )
        return app

    async def _wait(self) -> None:
        self.first = self.first or time.perf_counter()
        self.n += 1
        await asyncio.sleep(self.latency_s)
        self.last = time.perf_counter()

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        await self._wait()
        message = {"role": "assistant", "content": answer(body["messages"][-1]["content"])}
        sent = sum(len(turn["content"]) for turn in body["messages"])
        return _reply([{"index": 0, "message": message, "finish_reason": "stop"}], sent)

    async def completions(self, request: web.Request) -> web.Response:
        body = await request.json()
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        await self._wait()
        choices = [_choice(at, prompt, body) for at, prompt in enumerate(prompts)]
        return _reply(choices, sum(map(len, prompts)))

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "mock", "object": "model"}]})

    async def span(self, request: web.Request) -> web.Response:
        return web.json_response({"n": self.n, "seconds": self.last - self.first})

    async def reset(self, request: web.Request) -> web.Response:
        self.first = self.last = 0.0
        self.n = 0
        return web.json_response({})


def answer(question: str) -> str:
    """Return the sum; one in five answers is wrong."""
    found = SUM.search(question)
    if found is None:
        return "?"
    right = int(found[1]) + int(found[2])
    return str(right + (zlib.crc32(question.encode()) % 5 == 0))


def _choice(at: int, prompt: str, body: dict[str, Any]) -> dict[str, Any]:
    made = {"index": at, "finish_reason": "length"}
    if body.get("echo"):
        text = prompt + ("x" if body.get("max_tokens", 16) else "")
        return {**made, "text": text, "logprobs": _echo(text)}
    if body.get("max_tokens") == 1 and body.get("logprobs") is not None:
        state = zlib.crc32(prompt.encode())
        likeliest = max(LETTERS, key=lambda letter: _logprob(state, letter))
        lines = [(likeliest, _logprob(state, likeliest), len(prompt))]
        return {**made, "text": likeliest, "logprobs": _columns(lines)}
    return {**made, "text": " " + answer(prompt), "logprobs": None}


def _echo(text: str) -> dict[str, Any]:
    lines: list[tuple[str, float | None, int]] = []
    state = 0
    for at, sign in enumerate(text):
        lines.append((sign, _logprob(state, sign) if at else None, at))
        state = zlib.crc32(sign.encode(), state)
    return _columns(lines)


def _logprob(state: int, sign: str) -> float:
    return -(1 + zlib.crc32(sign.encode(), state) % 509) / 100


def _columns(lines: list[tuple[str, Any, int]]) -> dict[str, Any]:
    return {
        "tokens": [token for token, _, _ in lines],
        "token_logprobs": [number for _, number, _ in lines],
        "top_logprobs": [None if number is None else {t: number} for t, number, _ in lines],
        "text_offset": [offset for _, _, offset in lines],
    }


def _reply(choices: list[dict[str, Any]], n_prompt: int) -> web.Response:
    usage = {"prompt_tokens": n_prompt, "completion_tokens": 5, "total_tokens": n_prompt + 5}
    return web.json_response(
        {"id": "x", "object": "completion", "model": "mock", "choices": choices, "usage": usage}
    )


async def serve(latency_s: float) -> None:
    """Serve on a free port until stopped."""
    runner = web.AppRunner(Server(latency_s).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency-ms", type=float, default=20.0)
    asyncio.run(serve(parser.parse_args().latency_ms / 1000))
