"""A bare aiohttp client, as a lower bound on the cost of any harness.

``python benchmarks/_bare_client.py chat|echo ADDRESS ROWS.jsonl CONCURRENCY OUT.jsonl`` sends
one request per row with fixed concurrency, grades the responses and writes one line per row.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp


def chat(row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    message = {"role": "user", "content": row["question"]}
    return "/v1/chat/completions", {
        "model": "mock",
        "messages": [message],
        "max_tokens": 16,
        "temperature": 0,
    }


def echo(row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    prompts = [f"Q: {row['question']}\nA: {choice}" for choice in row["choices"]]
    return "/v1/completions", {
        "model": "mock",
        "prompt": prompts,
        "max_tokens": 1,
        "echo": True,
        "logprobs": 1,
        "temperature": 0,
    }


def graded(kind: str, row: dict[str, Any], reply: dict[str, Any]) -> bool:
    if kind == "chat":
        return reply["choices"][0]["message"]["content"].strip() == row["answer"]
    start = len(f"Q: {row['question']}\nA:")
    sums = [sum(c["logprobs"]["token_logprobs"][start:-1]) for c in reply["choices"]]
    return sums.index(max(sums)) == row["label"]


async def main(kind: str, address: str, rows: str, concurrency: int, out: str) -> None:
    data = [json.loads(line) for line in Path(rows).read_text().splitlines()]
    right = [False] * len(data)
    left: Iterator[tuple[int, dict[str, Any]]] = iter(enumerate(data))
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def worker() -> None:
            for at, row in left:
                path, body = (chat if kind == "chat" else echo)(row)
                async with session.post(address + path, json=body) as response:
                    response.raise_for_status()
                    right[at] = graded(kind, row, await response.json())

        await asyncio.gather(*(worker() for _ in range(concurrency)))
    with Path(out).open("w") as stream:
        for row, correct in zip(data, right, strict=True):
            stream.write(json.dumps({"id": row["id"], "correct": correct}) + "\n")
    print(sum(right) / len(right))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    asyncio.run(main(arguments[0], arguments[1], arguments[2], int(arguments[3]), arguments[4]))
