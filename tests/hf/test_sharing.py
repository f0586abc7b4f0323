"""Shared prefixes, continuous batches and memory: the numbers of plain rows, whatever the batch."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.support.model_fixture import ask

from eval_toolkit.errors import ModelError
from eval_toolkit.models.huggingface import HuggingFaceModel
from eval_toolkit.models.huggingface.encoding import BatchEncoder
from eval_toolkit.models.huggingface.tokenizer import HubTokenizer
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest

SHOTS = "what is the answer ? the answer is : paris\n" * 6
QUESTIONS = [
    SHOTS + "the capital of italy is",
    SHOTS + "the capital of france is the answer to",
    SHOTS + "the capital of france is",
    "is",
    SHOTS[:60] + "a number of",
    "the capital of italy is",
]
CHOICES = (" paris", " rome", " a number of answers is the capital of", "x")
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.4,
    "sliding_window": 128,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": SIZES,
    "mistral": SIZES,
    "qwen3": SIZES,
    "gemma2": {**SIZES, "query_pre_attn_scalar": 8, "final_logit_softcapping": 3.0},
    "gemma3_text": {**SIZES, "query_pre_attn_scalar": 8},
    "granite": {**SIZES, "logits_scaling": 4.0},
    "cohere": {**SIZES, "logit_scale": 0.3},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "initializer_range": 0.4},
    "gpt_neox": {**SIZES, "num_key_value_heads": 4},
    "phi": {**SIZES, "num_key_value_heads": 4},
}
PROJECTS = {"llama", "mistral", "qwen3", "gemma3_text", "gpt2", "gpt_neox", "phi"}
"""Families whose logits are nothing but a projection of hidden states."""


def built(family: str, tokenizer: Any, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(11)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id")}
    config = transformers.AutoConfig.for_model(
        family, vocab_size=len(tokenizer), pad_token_id=None, **special, **FAMILIES[family]
    )
    return transformers.AutoModelForCausalLM.from_config(config).to(dtype).eval()


def made(network: Any, tokenizer: Any, **options: Any) -> HuggingFaceModel:
    return HuggingFaceModel(
        "tiny", model=network, tokenizer=tokenizer, context_length=250, **options
    )


def plain_scores(network: Any, tokenizer: Any, prompt: str) -> list[float]:
    """Each choice by a forward pass of its own, without cache, mask or padding."""
    context, scores = tokenizer(prompt).input_ids, []
    for choice in CHOICES:
        text = tokenizer(choice).input_ids
        with torch.inference_mode():
            logits = network(torch.tensor([context + text]), use_cache=False).logits[0]
        table = logits.double().log_softmax(-1)
        scores.append(
            sum(float(table[len(context) - 1 + at, token]) for at, token in enumerate(text))
        )
    return scores


def tokens_read(model: HuggingFaceModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the tokens that the base of a network reads from now on."""
    base = model._engine.network.module.base_model
    forward, read = base.forward, list[int]()

    def counted(*given: Any, **named: Any) -> Any:
        read.append((given[0] if given else named["input_ids"]).numel())
        return forward(*given, **named)

    monkeypatch.setattr(base, "forward", counted)
    return read


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_trees_give_the_scores_of_plain_rows(
    family: str, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = built(family, tokenizer)
    model = made(network, tokenizer)
    assert model._engine.network.trees
    assert model._engine.network.slots
    assert model._engine.network.gathers is (family in PROJECTS)
    read = tokens_read(model, monkeypatch)
    answers = ask(model, *(LoglikelihoodRequest(prompt, CHOICES) for prompt in QUESTIONS))
    n_read = sum(read)
    for prompt, answer in zip(QUESTIONS, answers, strict=True):
        expected = plain_scores(network, tokenizer, prompt)
        assert answer.loglikelihoods == pytest.approx(expected, abs=1e-4)
    assert n_read < 0.6 * sum(answer.prompt_tokens for answer in answers)


@pytest.mark.parametrize("family", ["llama", "gemma2", "granite"])
def test_half_precision_agrees_with_plain_rows(family: str, tokenizer: Any) -> None:
    """The stated tolerance: 0.1 nats per token, and 3 % of the number, in bfloat16."""
    network = built(family, tokenizer, torch.bfloat16)
    answers = ask(
        made(network, tokenizer), *(LoglikelihoodRequest(prompt, CHOICES) for prompt in QUESTIONS)
    )
    for prompt, answer in zip(QUESTIONS, answers, strict=True):
        expected = plain_scores(network, tokenizer, prompt)
        for found, wanted, n in zip(answer.loglikelihoods, expected, answer.n_tokens, strict=True):
            assert found == pytest.approx(wanted, abs=0.1 * n, rel=0.03)


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral"])
def test_a_long_text_ignores_what_lies_outside_its_window(family: str, tokenizer: Any) -> None:
    network = built(family, tokenizer)
    prompts = [SHOTS * 2 + "the", SHOTS * 2 + "is"]
    requests = [LoglikelihoodRequest(prompt, CHOICES) for prompt in prompts]
    for prompt, answer in zip(prompts, ask(made(network, tokenizer), *requests), strict=True):
        assert answer.prompt_tokens > 128
        expected = plain_scores(network, tokenizer, prompt)
        assert answer.loglikelihoods == pytest.approx(expected, abs=1e-4)


def test_generation_shares_prefixes_too(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(built("llama", tokenizer), tokenizer)
    read = tokens_read(model, monkeypatch)
    answers = ask(model, *(GenerateRequest(prompt, max_tokens=1) for prompt in QUESTIONS))
    assert sum(read) < 0.6 * sum(answer.prompt_tokens for answer in answers)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "mistral"])
@pytest.mark.parametrize("slots", [2, None])
def test_texts_do_not_depend_on_the_batch(family: str, slots: int | None, tokenizer: Any) -> None:
    """Rows of different lengths leave and join; draws, stops and ends stay those of each row."""
    network = built(family, tokenizer)
    requests = [
        GenerateRequest(
            prompt,
            max_tokens=limit,
            temperature=heat,
            top_p=top_p,
            seed=at,
            stop=stops,
        )
        for at, (prompt, limit, heat, top_p, stops) in enumerate(
            zip(
                QUESTIONS * 2,
                (3, 29, 1, 12, 9, 17, 30, 2, 8, 25, 16, 4),
                (0.0, 0.9, 0.0, 1.3, 0.0, 0.7) * 2,
                (None, 0.9, None, None, None, 0.5) * 2,
                ((), (), (), (), ("a", "zz"), ()) * 2,
                strict=True,
            )
        )
    ]
    together = ask(made(network, tokenizer, batch_size=slots or "auto"), *requests)
    alone = made(network, tokenizer, batch_invariant=True)
    for request, one in zip(requests, together, strict=True):
        [single] = ask(alone, request)
        assert (one.text, one.finish_reason) == (single.text, single.finish_reason)
        assert one.completion_tokens == single.completion_tokens


def test_slots_and_lockstep_write_the_same(tokenizer: Any) -> None:
    network = built("llama", tokenizer)
    requests = [
        GenerateRequest(prompt, max_tokens=11, temperature=heat, top_p=0.9, seed=3)
        for prompt in QUESTIONS
        for heat in (0.0, 0.8)
    ]
    fast, slow = made(network, tokenizer), made(network, tokenizer)
    slow._engine.network.slots = False
    assert [one.text for one in ask(fast, *requests)] == [one.text for one in ask(slow, *requests)]


def test_batch_invariant_numbers_are_equal_to_the_last_bit(tokenizer: Any) -> None:
    model = made(built("llama", tokenizer), tokenizer, batch_invariant=True)
    requests = [LoglikelihoodRequest(prompt, CHOICES) for prompt in QUESTIONS]
    together = [answer.loglikelihoods for answer in ask(model, *requests)]
    assert together[::-1] == [answer.loglikelihoods for answer in ask(model, *requests[::-1])]
    assert together == [ask(model, request)[0].loglikelihoods for request in requests]
    assert model.describe()["batch_invariant"] is True


# -- memory


def short_of_memory(
    model: HuggingFaceModel, monkeypatch: pytest.MonkeyPatch, limit: int
) -> list[int]:
    """Make passes of more than ``limit`` tokens exhaust the memory; return the sizes tried."""
    base = model._engine.network.module.base_model
    forward, tried = base.forward, list[int]()

    def limited(*given: Any, **named: Any) -> Any:
        tried.append((given[0] if given else named["input_ids"]).numel())
        if tried[-1] > limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*given, **named)

    monkeypatch.setattr(base, "forward", limited)
    return tried


def test_exhausted_memory_halves_batches_for_good(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = built("llama", tokenizer)
    requests = [LoglikelihoodRequest(f"{at}{QUESTIONS[at]}", CHOICES) for at in range(6)]
    expected = ask(made(network, tokenizer), *requests)
    model = made(network, tokenizer)
    tried = short_of_memory(model, monkeypatch, 150)
    for found, wanted in zip(ask(model, *requests), expected, strict=True):
        assert found.loglikelihoods == pytest.approx(wanted.loglikelihoods, abs=1e-4)
        assert found.is_greedy == wanted.is_greedy
    assert max(tried) > 150
    assert model._engine.budget.tokens <= 150
    tried.clear()
    ask(model, *requests)
    assert max(tried) <= 150, "the smaller size is remembered"


def test_exhausted_memory_halves_the_texts_in_progress(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = built("llama", tokenizer)
    requests = [GenerateRequest(f"{at}{QUESTIONS[at]}", max_tokens=9) for at in range(6)]
    expected = [answer.text for answer in ask(made(network, tokenizer), *requests)]
    model = made(network, tokenizer)
    short_of_memory(model, monkeypatch, 150)
    assert [answer.text for answer in ask(model, *requests)] == expected
    assert model._engine.budget.slots < len(requests)


def test_a_text_too_large_for_the_memory_fails_alone(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(built("llama", tokenizer), tokenizer)
    short_of_memory(model, monkeypatch, 60)
    fine, large, text, long_text = ask(
        model,
        LoglikelihoodRequest("the capital", CHOICES),
        LoglikelihoodRequest(QUESTIONS[0], CHOICES),
        GenerateRequest("the capital", max_tokens=3),
        GenerateRequest(QUESTIONS[0], max_tokens=3),
    )
    assert len(fine.loglikelihoods) == len(CHOICES)
    assert text.completion_tokens == 3
    for failed in (large, long_text):
        assert isinstance(failed, ModelError)
        assert "OutOfMemoryError: CUDA out of memory" in str(failed)


def test_sizes_follow_the_free_memory(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from eval_toolkit.models.huggingface import memory

    network = built("llama", tokenizer)
    budgets = []
    for free in (10**9, 10**7):
        monkeypatch.setattr(memory, "free_bytes", lambda *_, free=free: free)
        gpu = torch.device("cuda")
        budgets.append(
            memory.budget_of(torch, network, gpu, batch_size=None, max_batch_tokens=None)
        )
    large, small = budgets
    assert large.tokens == 32_768
    assert small.tokens == int(10**7 * 0.4) // small.shape.token_bytes
    assert small.kv_tokens == int(10**7 * 0.4) // (4 * 2 * 2 * 2 * 8)
    assert (small.slots_of(256), small.slots_of(10**6)) == (61, 1)


# -- tokens and answers


def test_tokens_of_continuations_are_those_of_the_whole_text(tokenizer: Any) -> None:
    """Only the last words of a prompt are read again, with the same result."""
    from eval_toolkit.models import _tokens

    class Plain:
        lead: Sequence[int] = ()
        start = None

        def encode(self, text: str, *, control: bool) -> list[int]:
            given = {"add_special_tokens": False, "split_special_tokens": not control}
            return list(tokenizer(text, **given).input_ids) if text else []

    ends = ["is", "is ", "the capi", "\n", " ?", "<|turn|>", "", "é", "is  "]
    prompts = [f"{SHOTS}the capital of {end}" for end in ends] + ["", "x", " a b"]
    choices = (" paris", "sue", "tal of", " <|end|>", "<|turn|>", "\n\n", "é", "  a")
    encoder = BatchEncoder(HubTokenizer(tokenizer))
    asked = [(prompt, LoglikelihoodRequest("a", choices)) for prompt in prompts]
    for prompt, found in zip(prompts, encoder.continuations(asked), strict=True):
        plain = [_tokens.continuation_ids(Plain(), prompt, choice) for choice in choices]
        assert found == plain
    assert len(encoder._tails[prompts[0]]) < 12


def test_a_tokenizer_is_called_a_few_times_for_many_requests(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(built("llama", tokenizer), tokenizer)
    calls: list[int] = []
    encode_all = HubTokenizer.encode_all

    def counted(self: HubTokenizer, texts: Sequence[str], *, control: bool) -> list[list[int]]:
        calls.append(len(texts))
        return encode_all(self, texts, control=control)

    assert model._engine is not None
    monkeypatch.setattr(HubTokenizer, "encode_all", counted)
    ask(model, *(LoglikelihoodRequest(f"{SHOTS} {at} is", CHOICES) for at in range(40)))
    assert len(calls) <= 6


def test_answers_are_delivered_as_they_are_finished(tokenizer: Any) -> None:
    """A short text does not wait for the longest one of its batch."""
    model = made(built("llama", tokenizer), tokenizer, batch_size=2)
    order: list[int] = []

    async def one(limit: int) -> None:
        await model.generate(GenerateRequest("the", max_tokens=limit, temperature=2.0, seed=limit))
        order.append(limit)

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, (200, 2, 3)))

    asyncio.run(all_of_them())
    assert order[-1] == 200


def test_given_networks_are_used_as_they_are(tokenizer: Any) -> None:
    model = made(built("llama", tokenizer, torch.bfloat16), tokenizer)
    described = model.describe()
    assert (described["dtype"], described["device"]) == ("bfloat16", "cpu")
    assert (model.dtype, model.device, model.concurrency) == ("bfloat16", "cpu", 128)


def test_numbers_of_rows_depend_on_the_seed_alone() -> None:
    from eval_toolkit.models.huggingface.decoding import Row

    def row(limit: int, seed: int) -> Any:
        return Row(
            place=0,
            request=GenerateRequest("a", temperature=1.0),
            text="a",
            prompt=np.array([1], dtype=np.int32),
            limit=limit,
            ends=frozenset(),
            seed=seed,
            text_after=lambda prompt, ids: "",
        ).numbers()

    assert row(5, 1).tolist() == row(9, 1)[:5].tolist()
    assert row(5, 1).tolist() != row(5, 2).tolist()


def test_steps_are_recorded_on_one_device_only(tokenizer: Any) -> None:
    """The kernels of a second device would run once, when a graph is recorded, and never again."""
    network = built("llama", tokenizer)
    model = made(network, tokenizer)
    assert not model._engine.network.spread
    network.hf_device_map = {"model.layers.0": 0, "model.layers.1": 1}
    assert model._engine.network.spread


def test_a_compiled_network_gives_the_same_numbers(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the traced program run as it is: what a compiler makes of it is not ours to test."""
    network, parts = built("llama", tokenizer), list[tuple[str, Any]]()

    def compiled(self: Any, **options: Any) -> None:
        parts.append((type(self).__name__, options))
        self._compiled_call_impl = torch.compile(self._call_impl, backend="eager", **options)

    request = LoglikelihoodRequest(QUESTIONS[0], CHOICES)
    expected = ask(made(network, tokenizer), request)[0].loglikelihoods
    monkeypatch.setattr(torch.nn.Module, "compile", compiled)
    model = made(network, tokenizer, compile=True)
    assert ask(model, request)[0].loglikelihoods == pytest.approx(expected, abs=1e-4)
    layer = ["LlamaMLP", "LlamaRMSNorm", "LlamaRMSNorm"]  # attention depends on the cache
    assert parts == [(name, {"dynamic": True}) for name in layer * 2]
    assert model._engine.network.gathers
    assert model._engine.network.trees
