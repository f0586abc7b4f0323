"""The embedded model with its real weights, beside other programs that read the same file.

- Log-likelihoods: transformers 5.22.2 with torch 2.13.0 (CPU, float32), which read the same GGUF
  file through ``AutoModelForCausalLM.from_pretrained(folder, gguf_file=…)``. The sums of
  ``log_softmax`` in float64 over the token ids of our tokenizer (transformers' own splits digits
  otherwise) were written down here; `tests/hf/test_embedded_transformers.py` computes them anew.
- Token ids: llama.cpp, through xllamacpp's server.
- The chat template: jinja2, with the template in the file.
"""

import asyncio
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval_toolkit.models.embedded import EmbeddedModel
from eval_toolkit.models.embedded.gguf import read_gguf
from eval_toolkit.models.embedded.tokenizer import Tokenizer
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest

# prompt, continuation, log-likelihood, tokens, whether greedy decoding would write it
GOLDEN = [
    ("The capital of France is", " Paris", -0.258082, 1, True),
    ("The capital of France is", " Paris, the city of light.", -17.326321, 7, False),
    ("Question: How many legs does a spider have?\nAnswer:", " eight", -9.652675, 1, False),
    ("Question: How many legs does a spider have?\nAnswer:", " 8", -3.061735, 2, False),
    ("def add(a, b):\n    return", " a + b", -0.271675, 3, True),
    ("Der Hund schläft", "  auf dem Sofa.", -36.127842, 7, False),
    ("", "Once upon a time, there was a little girl.", -39.048006, 11, False),
    ("1 2 3 4 5 6", " 7 8 9 10", -1.235065, 9, True),
]
NASTY = [
    "   ",
    "\r\n\r\n x",
    "a\u00a0b\u00a0 c",
    "'S'LL'll've 'd x's'tt",
    "e\u0301e\u0301 \u0301",
    "👩‍👩‍👧‍👦 👍🏽",
    "١٢٣ ४५६ ½ Ⅷ ² 𝟘𝟙𝟚",
    "\u3000\u3000日本語テキスト",
    "a\x1cb\x1d\x1e\x1f",
    "<|im_end|><|endoftext|>",
    "____ _a_ 1_000",
    "  leading, trailing  ",
    "tabs\t\t\tx",
    "a" * 3000,
    " " * 500 + "x",
    "\n" * 300,
    "!?" * 700,
    "\x01\x04\x06\x7f",
    "ﷺ İstanbul ﷽",
    "\U000e0001\U0010ffff\ue000\ufdd0",
]


@pytest.fixture(scope="module")
def tokenizer(embedded_weights: Path) -> Tokenizer:
    return Tokenizer(read_gguf(embedded_weights))


@pytest.fixture(scope="module")
def llama_cpp(embedded_weights: Path) -> Callable[[str], list[int]]:
    """What tokenises with llama.cpp; control tokens are plain text."""
    xllamacpp = pytest.importorskip("xllamacpp")
    settings_ = xllamacpp.CommonParams()
    settings_.model.path = str(embedded_weights)
    settings_.n_ctx = 64
    settings_.cpuparams.n_threads = 1
    settings_.warmup = False
    server = xllamacpp.Server(settings_)

    def encode(text: str) -> list[int]:
        asked = urllib.request.Request(  # noqa: S310 - a server on this machine
            f"{server.listening_address}/tokenize",
            json.dumps({"content": text, "add_special": False, "parse_special": False}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=600) as answer:  # noqa: S310
            return list(json.load(answer)["tokens"])

    return encode


def ask(model: EmbeddedModel, *requests: Any) -> list[Any]:
    async def together() -> list[Any]:
        return list(
            await asyncio.gather(
                *(
                    model.generate(request)
                    if isinstance(request, GenerateRequest)
                    else model.loglikelihood(request)
                    for request in requests
                )
            )
        )

    return asyncio.run(together())


def test_loglikelihoods_are_those_of_transformers(embedded_model: EmbeddedModel) -> None:
    requests = [LoglikelihoodRequest(prompt, (choice,)) for prompt, choice, *_ in GOLDEN]
    for (_, choice, value, n_tokens, greedy), answer in zip(
        GOLDEN, ask(embedded_model, *requests), strict=True
    ):
        assert answer.loglikelihoods[0] == pytest.approx(value, abs=1e-3), choice
        assert answer.n_tokens == (n_tokens,)
        assert answer.is_greedy == (greedy,)


def test_generation_writes_what_is_greedy(embedded_model: EmbeddedModel) -> None:
    asked = [(prompt, choice, n) for prompt, choice, _, n, greedy in GOLDEN if greedy]
    answers = ask(
        embedded_model, *(GenerateRequest(prompt, max_tokens=n) for prompt, _, n in asked)
    )
    assert [answer.text for answer in answers] == [choice for _, choice, _ in asked]


def test_it_knows_some_capitals(embedded_model: EmbeddedModel) -> None:
    capitals = {
        "France": "Paris",
        "Japan": "Tokyo",
        "Egypt": "Cairo",
        "Peru": "Lima",
        "Norway": "Oslo",
        "Kenya": "Nairobi",
        "Cuba": "Havana",
        "Greece": "Athens",
    }
    choices = tuple(f" {city}" for city in capitals.values())
    answers = ask(
        embedded_model,
        *(LoglikelihoodRequest(f"The capital of {country} is", choices) for country in capitals),
    )
    best = [choices[answer.loglikelihoods.index(max(answer.loglikelihoods))] for answer in answers]
    # One in eight by chance; it is right on all of these in float32.
    assert sum(found == right for found, right in zip(best, choices, strict=True)) >= 7


@pytest.mark.parametrize("text", NASTY)
def test_nasty_texts_have_the_ids_of_llama_cpp(
    tokenizer: Tokenizer, llama_cpp: Callable[[str], list[int]], text: str
) -> None:
    assert tokenizer.encode(text) == llama_cpp(text)


@given(
    st.one_of(
        st.text(max_size=60),
        st.text(st.sampled_from("ab C1٣½'sre,._ \n\r\t\u00a0\u0301é日👍\u200b<|>"), max_size=60),
    )
)
@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_text_has_the_ids_of_llama_cpp(
    tokenizer: Tokenizer, llama_cpp: Callable[[str], list[int]], text: str
) -> None:
    text = text.replace("\x00", "")  # ends a text in C
    assert tokenizer.encode(text) == llama_cpp(text)


@pytest.mark.parametrize(
    "roles",
    [
        ["user"],
        ["system", "user"],
        ["user", "assistant", "user"],
        ["system", "user", "assistant", "user"],
    ],
)
def test_conversations_are_rendered_as_the_template_says(
    embedded_model: EmbeddedModel, embedded_weights: Path, roles: list[str]
) -> None:
    import jinja2

    source = read_gguf(embedded_weights).metadata["tokenizer.chat_template"]
    template = jinja2.Environment(autoescape=False).from_string(source)  # noqa: S701 - plain text
    talk = [Message(Role(role), f" {role} says\n<b>this</b> ") for role in roles]
    rendered = template.render(
        messages=[message.to_dict() for message in talk], add_generation_prompt=True
    )
    assert embedded_model.render(talk) == rendered
    cue = Message(Role.ASSISTANT, "The answer is")
    assert embedded_model.render([*talk, cue]) == rendered + cue.content
