"""Padding and shared contexts must change no number in other architectures either."""

import asyncio
from typing import Any

import pytest
import torch
import transformers

from eval_toolkit.errors import ModelError
from eval_toolkit.models.huggingface import HuggingFaceModel
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest

PROMPTS = ["the capital of france is", "the", "what is the answer ? the capital of italy is :"]
CHOICES = (" paris", " a number of answers is the capital", " rome")

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.4,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.4},
    "gpt_neox": {**SIZES, "num_key_value_heads": 4},
    "mistral": {**SIZES, "sliding_window": 6},
    "qwen2": SIZES,
    "gemma2": {**SIZES, "sliding_window": 6, "query_pre_attn_scalar": 8},
    "opt": {
        "hidden_size": 32,
        "word_embed_proj_dim": 32,
        "ffn_dim": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "init_std": 0.4,
    },
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "initializer_range": 0.4},
}


def built(family: str, tokenizer: Any) -> Any:
    torch.manual_seed(11)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id")}
    config = transformers.AutoConfig.for_model(
        family, vocab_size=len(tokenizer), pad_token_id=None, **special, **FAMILIES[family]
    )
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def plain_score(network: Any, context: list[int], text: list[int]) -> float:
    with torch.inference_mode():
        output = network(torch.tensor([context + text]), use_cache=False)
    table = output.logits[0].double().log_softmax(-1)
    return sum(float(table[len(context) - 1 + at, token]) for at, token in enumerate(text))


def ask(model: HuggingFaceModel, method: str, requests: list[Any]) -> list[Any]:
    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(getattr(model, method), requests))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_batches_equal_plain_torch(family: str, tokenizer: Any) -> None:
    network = built(family, tokenizer)
    model = HuggingFaceModel("tiny", model=network, tokenizer=tokenizer, context_length=64)
    requests = [LoglikelihoodRequest(prompt, CHOICES) for prompt in PROMPTS]
    for prompt, answer in zip(PROMPTS, ask(model, "loglikelihood", requests), strict=True):
        context = tokenizer(prompt).input_ids
        for choice, found in zip(CHOICES, answer.loglikelihoods, strict=True):
            text = tokenizer(choice).input_ids
            assert found == pytest.approx(plain_score(network, context, text), abs=1e-4)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_greedy_batches_equal_single_rows(family: str, tokenizer: Any) -> None:
    network = built(family, tokenizer)
    requests = [
        GenerateRequest(prompt, max_tokens=limit)
        for prompt, limit in zip(PROMPTS, (12, 4, 20), strict=True)
    ]
    together, alone = (
        HuggingFaceModel(
            "tiny", model=network, tokenizer=tokenizer, context_length=64, batch_size=size
        )
        for size in (8, 1)
    )
    texts = [answer.text for answer in ask(together, "generate", requests)]
    assert texts == [answer.text for answer in ask(alone, "generate", requests)]


def test_a_recurrent_model_is_read_in_plain_rows(tokenizer: Any) -> None:
    torch.manual_seed(5)
    config = transformers.MambaConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, state_size=4
    )
    network = transformers.MambaForCausalLM(config).eval()
    with torch.no_grad():
        network.backbone.embeddings.weight.mul_(30.0)
    model = HuggingFaceModel("tiny", model=network, tokenizer=tokenizer, context_length=64)
    requests = [LoglikelihoodRequest(prompt, CHOICES) for prompt in PROMPTS]
    for prompt, answer in zip(PROMPTS, ask(model, "loglikelihood", requests), strict=True):
        context = tokenizer(prompt).input_ids
        for choice, found in zip(CHOICES, answer.loglikelihoods, strict=True):
            text = tokenizer(choice).input_ids
            assert found == pytest.approx(plain_score(network, context, text), abs=1e-4)
    answers = ask(model, "generate", [GenerateRequest(prompt, max_tokens=5) for prompt in PROMPTS])
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        ids = tokenizer(prompt).input_ids
        for _ in range(answer.completion_tokens):
            with torch.inference_mode():
                ids.append(int(network(torch.tensor([ids])).logits[0, -1].argmax()))
        n_prompt = len(tokenizer(prompt).input_ids)
        assert answer.text == tokenizer.decode(ids[n_prompt:], skip_special_tokens=True)
    assert model._engine.network.recurrent


def test_a_model_that_does_not_say_its_context_length_needs_to_be_told(tokenizer: Any) -> None:
    network = built("bloom", tokenizer)
    model = HuggingFaceModel("tiny", model=network, tokenizer=tokenizer)
    with pytest.raises(ModelError, match="set `context_length`"):
        ask(model, "generate", [GenerateRequest("the")])
