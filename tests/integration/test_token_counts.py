"""The numbers of tokens mean the same for every adapter."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.emulated_servers import EmulatedServer

from eval_toolkit.models.openai_compatible import OpenAICompatible
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import Usage
from eval_toolkit.models.scripted import ScriptedModel

SCORED = LoglikelihoodRequest("The capital of France is", (" Paris the", " Rome is in"))


def check_scored(found: Any, *, times: int, generated: int) -> None:
    n_tokens = found.n_tokens
    assert found.usage.prompt_tokens == times * found.prompt_tokens + sum(n_tokens)
    assert found.usage.completion_tokens == generated
    assert found.usage.total_tokens == found.usage.prompt_tokens + generated


def test_models_of_this_process_read_a_prompt_once(embedded_model: Any) -> None:
    """Scored choices are read, and nothing is generated."""
    scripted = ScriptedModel(lambda request: [-1.0, -2.0])
    for model in (embedded_model, scripted):
        check_scored(asyncio.run(model.loglikelihood(SCORED)), times=1, generated=0)


def test_so_does_llama_cpp(embedded_weights: Path) -> None:
    pytest.importorskip("xllamacpp")
    from eval_toolkit.models.llama_cpp import LlamaCppModel

    model = LlamaCppModel(embedded_weights)
    check_scored(asyncio.run(model.loglikelihood(SCORED)), times=1, generated=0)


def test_servers_read_it_once_per_choice_and_generate_a_token() -> None:
    with EmulatedServer("vllm-0.20") as server:
        model = OpenAICompatible("toy", base_url=server.url)
        found = asyncio.run(model.loglikelihood(SCORED))
    check_scored(found, times=2, generated=2)


def test_generated_tokens_are_apart(embedded_model: Any) -> None:
    request = GenerateRequest("The capital of France is", max_tokens=3)
    for model in (embedded_model, ScriptedModel("Paris")):
        found = asyncio.run(model.generate(request))
        assert found.usage.prompt_tokens == found.prompt_tokens
        assert found.usage.completion_tokens == found.completion_tokens > 0


def test_cached_tokens_are_stored_where_there_are_any() -> None:
    assert "cached_tokens" not in Usage(3, 4).to_dict()
    assert Usage.from_dict(Usage(3, 4, cached_tokens=2).to_dict()).cached_tokens == 2
    assert Usage(3, 4, cached_tokens=2).total_tokens == 7
