"""Shared few-shot prefixes on a CPU: ``python -m benchmarks.hf_cpu`` (in the environment of make test-hf).

Scores the same five-shot questions with the embedded model, with transformers reading the same
weights, and with transformers one request at a time, in processor time.
"""

import argparse
import asyncio
import random
import time
from typing import Any

from eval_toolkit.models.embedded import EmbeddedModel, model_path
from eval_toolkit.models.huggingface import HuggingFaceModel
from eval_toolkit.models.requests import LoglikelihoodRequest

WORDS = [
    "apple",
    "river",
    "stone",
    "cloud",
    "green",
    "seven",
    "music",
    "paper",
    "window",
    "garden",
    "silver",
    "market",
]
CHOICES = (" A", " B", " C", " D")


def requests(n: int) -> list[LoglikelihoodRequest]:
    """Return questions with five examples of about 80 words each, shared by all."""
    draws = random.Random(0)  # noqa: S311

    def question() -> str:
        text = f"Question: {' '.join(draws.choices(WORDS, k=60))}?\n"
        return text + "".join(
            f"{letter}. {' '.join(draws.choices(WORDS, k=4))}\n" for letter in "ABCD"
        )

    shots = "".join(f"{question()}Answer: {draws.choice('ABCD')}\n\n" for _ in range(5))
    return [LoglikelihoodRequest(f"{shots}{question()}Answer:", CHOICES) for _ in range(n)]


def seconds(model: Any, asked: list[LoglikelihoodRequest]) -> tuple[float, list[list[float]]]:
    """Return the processor time of all requests and their log-likelihoods."""

    async def together() -> list[Any]:
        return list(await asyncio.gather(*map(model.loglikelihood, asked)))

    began = time.process_time()
    found = asyncio.run(together())
    return time.process_time() - began, [answer.loglikelihoods for answer in found]


def main() -> None:
    """Measure and print."""
    import torch
    import transformers

    parser = argparse.ArgumentParser(prog="python -m benchmarks.hf_cpu", description=__doc__)
    parser.add_argument("n", type=int, nargs="?", default=40)
    asked = requests(parser.parse_args().n)
    place = model_path()
    source = {"pretrained_model_name_or_path": str(place.parent), "gguf_file": place.name}
    network = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    own = {"model": network, "tokenizer": transformers.AutoTokenizer.from_pretrained(**source)}
    models = {
        "embedded": EmbeddedModel(),
        "hf": HuggingFaceModel("weights", **own),
        "hf, one by one": HuggingFaceModel("weights", **own, batch_invariant=True),
    }
    plain: list[list[float]] = []
    for name, model in models.items():
        seconds(model, asked[:1])
        spent, found = seconds(model, asked)
        plain = plain or found
        gap = max(
            abs(a - b) for x, y in zip(found, plain, strict=True) for a, b in zip(x, y, strict=True)
        )
        print(f"{name:15} {spent:8.2f} s   max difference {gap:.5f}", flush=True)


if __name__ == "__main__":
    main()
