"""Server responses over real sockets: completions, log-probabilities and errors."""

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.fuzz.target import SEEN, Target, each

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.models.hosted import Anthropic, AzureOpenAI, Bedrock, Gemini
from eval_toolkit.models.hosted.model import HostedModel
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.openai_compatible.scored import (
    Ruler,
    in_order,
    read_echo,
    read_next_token,
    read_prompt_logprobs,
)
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest

__all__ = ["TARGETS"]

Requests: TypeAlias = tuple[Callable[[], Awaitable[Any]], ...]
_SHORT: dict[str, Any] = {"max_tries": 1, "timeout_s": 2.0, "total_timeout_s": 1.0}
"""Short time limits, since a server may request waits of minutes."""


def _answer(folder: Path, name: str) -> None:
    turns = (Message(Role.USER, "2 + 2?"),)

    def requests(url: str) -> dict[Any, Requests]:
        model = OpenAICompatible("m", base_url=f"{url}/v1", **_SHORT)
        chat = GenerateRequest(turns, max_tokens=4, stop=(".",))
        return {
            model: (
                lambda: model.generate(chat),
                lambda: model.generate(GenerateRequest("2 + 2 =", max_tokens=4)),
                lambda: model.loglikelihood(LoglikelihoodRequest("2 + 2 =", (" 4", " 5"))),
                lambda: model.check(),
            )
        }

    asyncio.run(_asked((folder / name).read_bytes(), requests))


def _hosted(folder: Path, name: str) -> None:
    """Parse a response with the clients of all services, complete and streamed."""
    os.environ.setdefault("FUZZ_KEY", "not-a-key")
    request = GenerateRequest((Message(Role.USER, "2 + 2?"),), max_tokens=4)

    def requests(url: str) -> dict[Any, Requests]:
        options: dict[str, Any] = {"base_url": url, "api_key_env": "FUZZ_KEY", **_SHORT}
        models: list[HostedModel] = [Bedrock("m", region="eu-central-1", **options)]
        for kind in (Anthropic, Gemini, AzureOpenAI):
            models += [kind("m", stream=stream, **options) for stream in (False, True)]
        return {
            model: (lambda model=model: model.generate(request),)  # type: ignore[misc]
            for model in models
        }

    asyncio.run(_asked((folder / name).read_bytes(), requests))


async def _asked(data: bytes, requests: Callable[[str], dict[Any, Requests]]) -> None:
    """Send requests to a server that returns the same bytes for all of them."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    models = requests(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    refusals: list[EvalToolkitError] = []
    try:
        for asking in itertools.chain.from_iterable(models.values()):
            try:
                await asking()
            except EvalToolkitError as refusal:
                refusals.append(refusal)
    finally:
        for model in models:
            await model.aclose()
        server.close()
        await server.wait_closed()
    SEEN.extend(refusals)
    if len(refusals) == sum(map(len, models.values())):
        raise refusals[0]


def _scored(folder: Path, name: str) -> None:
    """Parse log-probabilities as for a verified server."""
    try:
        payload = json.loads((folder / name).read_bytes())
    except (ValueError, RecursionError):
        return  # refused before, see the target `server`
    if not isinstance(payload, dict):
        return
    reads = (
        lambda choices: [Ruler().score(one, "2 +", " 2") for one in read_echo(choices, 3)],
        lambda choices: [
            one.between(1, 2) for one in read_prompt_logprobs(choices, ["2 + 2"] * len(choices), 3)
        ],
        lambda choices: [read_next_token(one) for one in choices],
    )
    each(*(lambda read=read, n=n: read(in_order(payload, n)) for read in reads for n in (1, 2)))


TARGETS = (
    Target("server", "answers of servers: chat, text, errors", _answer),
    Target("hosted", "answers of hosted services, whole and streamed", _hosted),
    Target("logprobs", "log-probabilities in answers", _scored),
)
