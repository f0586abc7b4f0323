"""What servers answer: completions, log-probabilities, errors, over real sockets."""

import asyncio
import contextlib
import json
from pathlib import Path

from tests.fuzz.target import SEEN, Target, each

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.models.messages import Message
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


def _answer(folder: Path, name: str) -> None:
    asyncio.run(_asked((folder / name).read_bytes()))


async def _asked(data: bytes) -> None:
    """Ask a server that answers everything with the same bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = OpenAICompatible(
        "m",
        base_url=f"http://127.0.0.1:{port}/v1",
        max_tries=1,
        timeout_s=2.0,
        total_timeout_s=1.0,  # a server may ask for waits of minutes
    )
    refusals: list[EvalToolkitError] = []
    turns = (Message("user", "2 + 2?"),)
    try:
        asked = (
            lambda: model.generate(GenerateRequest(turns, max_tokens=4, stop=["."])),
            lambda: model.generate(GenerateRequest("2 + 2 =", max_tokens=4)),
            lambda: model.loglikelihood(LoglikelihoodRequest("2 + 2 =", (" 4", " 5"))),
            lambda: model.check(),
        )
        for asking in asked:
            try:
                await asking()
            except EvalToolkitError as refusal:
                refusals.append(refusal)
    finally:
        await model.aclose()
        server.close()
        await server.wait_closed()
    SEEN.extend(refusals)
    if len(refusals) == len(asked):
        raise refusals[0]


def _scored(folder: Path, name: str) -> None:
    """Read log-probabilities as they are read once a server was proven."""
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
    Target("logprobs", "log-probabilities in answers", _scored),
)
