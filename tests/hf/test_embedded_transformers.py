"""The embedded model beside transformers reading the same file, token by token in float32."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reference.test_embedded_reference import GOLDEN

from eval_toolkit.models.embedded import EmbeddedModel
from eval_toolkit.models.embedded.weights import load_weights
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest

pytest.importorskip("gguf")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXTS = [
    "The quick brown fox jumps over the lazy dog, and then it rests.",
    "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n",
    "Grüße aus Köln! 日本語のテキスト 123.456",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10",
    "   \n\n\t odd    spaces \n",
]


@pytest.fixture(scope="module")
def peer(embedded_weights: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        str(embedded_weights.parent), gguf_file=embedded_weights.name, dtype=torch.float32
    ).eval()


def logprobs(peer: Any, ids: list[int]) -> Any:
    with torch.inference_mode():
        return peer(torch.tensor([ids])).logits[0].double().log_softmax(-1).numpy()


def scored(peer: Any, context: list[int], continuation: list[int]) -> float:
    table = logprobs(peer, [*context, *continuation])[len(context) - 1 :]
    return float(sum(table[at, token] for at, token in enumerate(continuation)))


def ask(model: EmbeddedModel, *requests: LoglikelihoodRequest) -> list[Any]:
    async def together() -> list[Any]:
        return list(await asyncio.gather(*map(model.loglikelihood, requests)))

    return asyncio.run(together())


def test_the_golden_numbers_still_come_out(peer: Any) -> None:
    tokenizer = load_weights(None).tokenizer
    for prompt, choice, value, n_tokens, _ in GOLDEN:
        context = tokenizer.encode(prompt) or [tokenizer.start]
        ids = tokenizer.encode(choice)
        assert len(ids) == n_tokens
        assert scored(peer, context, ids) == pytest.approx(value, abs=1e-4)


def test_rolling_loglikelihoods_agree(peer: Any, embedded_model: EmbeddedModel) -> None:
    tokenizer = load_weights(None).tokenizer
    answer = ask(embedded_model, LoglikelihoodRequest("", tuple(TEXTS), rolling=True))[0]
    expected = [scored(peer, [tokenizer.start], tokenizer.encode(text)) for text in TEXTS]
    np.testing.assert_allclose(answer.loglikelihoods, expected, atol=1e-3)


def test_choices_packed_together_agree(peer: Any, embedded_model: EmbeddedModel) -> None:
    tokenizer = load_weights(None).tokenizer
    begun = "Answer the question with one word, and think before you do. " * 6
    asked = [
        LoglikelihoodRequest(f"{begun}What colour is {thing}?", (" Red", " Blue", " Green."))
        for thing in ("the sky", "grass", "a ripe tomato")
    ]
    for request, answer in zip(asked, ask(embedded_model, *asked), strict=True):
        context = tokenizer.encode(str(request.prompt))
        expected = [scored(peer, context, tokenizer.encode(c)) for c in request.continuations]
        np.testing.assert_allclose(answer.loglikelihoods, expected, atol=1e-3)


def test_a_long_text_agrees(peer: Any, embedded_model: EmbeddedModel) -> None:
    # Longer than a pass: it is run in pieces.
    tokenizer = load_weights(None).tokenizer
    text = " ".join(TEXTS) * 12
    ids = tokenizer.encode(text)
    assert len(ids) > 800
    answer = ask(embedded_model, LoglikelihoodRequest("", (text,), rolling=True))[0]
    expected = scored(peer, [tokenizer.start], ids)
    assert answer.loglikelihoods[0] == pytest.approx(expected, abs=1e-3 * np.sqrt(len(ids)))


def test_greedy_texts_agree(peer: Any, embedded_model: EmbeddedModel) -> None:
    tokenizer = load_weights(None).tokenizer
    prompts = ["The capital of Italy is", "Once upon a time", "import numpy as"]

    async def together() -> list[Any]:
        calls = (embedded_model.generate(GenerateRequest(p, max_tokens=16)) for p in prompts)
        return list(await asyncio.gather(*calls))

    for prompt, answer in zip(prompts, asyncio.run(together()), strict=True):
        ids = tokenizer.encode(prompt)
        for _ in range(16):
            ids.append(int(logprobs(peer, ids)[-1].argmax()))
        assert answer.text == tokenizer.decode(ids[-16:])
