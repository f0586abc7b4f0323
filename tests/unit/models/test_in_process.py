"""vLLM and SGLang in this process, by stand-ins of their public interfaces with known numbers."""

import asyncio
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.emulated_servers import BOS, encode, logprobs, sum_of
from tests.support.engine_stand_ins import (
    CONTEXT,
    AsyncLLMEngine,
    Tokenizer,
    best,
    install_sglang,
    install_vllm,
)
from tests.support.model_fixture import ask

from eval_toolkit.errors import InvalidInputError, MissingExtraError, ModelError
from eval_toolkit.models.in_process import SglangModel, VllmModel
from eval_toolkit.models.in_process.base import EngineModel
from eval_toolkit.models.loading import available_models, load_model
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.plugins import making, read_from
from eval_toolkit.protocols import Model
from eval_toolkit.runs import Run
from eval_toolkit.tasks import run_task

KINDS: dict[str, type[EngineModel]] = {"vllm": VllmModel, "sglang": SglangModel}
INSTALL: dict[str, Callable[[pytest.MonkeyPatch], list[Any]]] = {
    "vllm": install_vllm,
    "sglang": install_sglang,
}
PROMPT = "The capital of France is"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engines(kind: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return INSTALL[kind](monkeypatch)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


@pytest.fixture
def model(kind: str, engines: list[Any], weights: Path) -> EngineModel:
    return KINDS[kind](str(weights), tokenizer=Tokenizer())


def truth(prompt: str, continuation: str) -> float:
    return sum_of([BOS, *encode(prompt)], encode(continuation))


def test_it_is_a_model(model: EngineModel) -> None:
    assert isinstance(model, Model)
    assert model.speaks_chat
    assert model.count_tokens(PROMPT) == len(encode(PROMPT))


def test_choices_of_one_token_are_scored_by_one_request(
    kind: str, model: EngineModel, engines: list[Any]
) -> None:
    choices = (" Paris", " Rome", " the", " Paris")
    [answer] = ask(model, LoglikelihoodRequest(PROMPT, choices))
    assert list(answer.loglikelihoods) == [truth(PROMPT, choice) for choice in choices]
    top = best([BOS, *encode(PROMPT)])
    assert list(answer.is_greedy) == [encode(choice) == [top] for choice in choices]
    assert answer.n_tokens == (1, 1, 1, 1)
    assert answer.prompt_tokens == 1 + len(encode(PROMPT))
    assert len(engines[0].asked) == 1


def test_longer_choices_are_scored_by_one_request_each(
    model: EngineModel, engines: list[Any]
) -> None:
    choices = (" Paris is the question", " 😀!", " 😀 Rome", " Paris")
    [answer] = ask(model, LoglikelihoodRequest(PROMPT, (*choices, choices[0])))
    told = [truth(PROMPT, choice) for choice in choices]
    assert list(answer.loglikelihoods) == pytest.approx([*told, told[0]], abs=1e-12)
    assert answer.n_tokens == tuple(len(encode(choice)) for choice in (*choices, choices[0]))
    assert len(engines[0].asked) == len(choices)


def test_more_choices_than_one_request_may_name(
    monkeypatch: pytest.MonkeyPatch, model: EngineModel, engines: list[Any]
) -> None:
    monkeypatch.setattr(type(model), "max_next_tokens", 2)
    choices = (" Paris", " Rome", " the")
    [answer] = ask(model, LoglikelihoodRequest(PROMPT, choices))
    assert list(answer.loglikelihoods) == [truth(PROMPT, choice) for choice in choices]
    assert len(engines[0].asked) == 3


def test_the_likeliest_token_is_greedy(model: EngineModel) -> None:
    ids = [BOS, *encode(PROMPT)]
    order = sorted(range(len(logprobs(ids))), key=lambda token: -logprobs(ids)[token])
    text = Tokenizer().decode([order[0]])
    assert encode(text) == [order[0]], "a token that its text gives again"
    one, two = ask(
        model,
        LoglikelihoodRequest(PROMPT, (text,)),
        LoglikelihoodRequest(PROMPT, (text, f"{text} Paris")),
    )
    assert one.is_greedy == (True,)
    assert two.is_greedy[0]


def test_a_shared_context_is_read_from_the_prefix_cache(
    kind: str, model: EngineModel, engines: list[Any]
) -> None:
    asyncio.run(model.loglikelihood(LoglikelihoodRequest(PROMPT * 4, (" A", " B"))))
    asyncio.run(model.loglikelihood(LoglikelihoodRequest(PROMPT * 4, (" C", " D"))))
    asyncio.run(model.loglikelihood(LoglikelihoodRequest(PROMPT * 4, (" C D",))))
    cached = [n for _, n in engines[0].asked]
    assert cached[0] == 0
    assert cached[1] > 0
    # vLLM has no probabilities of cached prompts; SGLang needs those after the context only
    assert (cached[2] > 0) == (kind == "sglang")


def test_whole_texts_are_scored_in_windows(model: EngineModel, weights: Path) -> None:
    text = "One two three four five. " * 9
    [whole] = ask(model, LoglikelihoodRequest("", (text,), rolling=True))
    assert whole.loglikelihoods[0] == pytest.approx(sum_of([BOS], encode(text)))
    small = type(model)(str(weights), tokenizer=Tokenizer(), context_length=16)
    [windows] = ask(small, LoglikelihoodRequest("", (text,), rolling=True))
    assert windows.n_tokens == whole.n_tokens == (len(encode(text)),)
    assert windows.loglikelihoods[0] != whole.loglikelihoods[0], "windows begin with less context"


def test_texts_are_continued(model: EngineModel) -> None:
    [answer] = ask(model, GenerateRequest(PROMPT, max_tokens=3))
    ids = [BOS, *encode(PROMPT)]
    for _ in range(3):
        ids.append(best(ids))
    assert answer.text == Tokenizer().decode(ids[-3:])
    assert (answer.completion_tokens, answer.finish_reason) == (3, "length")
    cut = answer.text[-1]
    [stopped] = ask(model, GenerateRequest(PROMPT, max_tokens=3, stop=(cut,)))
    assert cut not in stopped.text
    assert stopped.finish_reason == "stop"


def test_draws_depend_on_the_seed(kind: str, model: EngineModel, engines: list[Any]) -> None:
    def asked(seed: int | None) -> GenerateRequest:
        return GenerateRequest(PROMPT, max_tokens=6, temperature=0.8, top_p=0.9, seed=seed)

    texts = [one.text for one in ask(model, *map(asked, (1, 2, 2**40, None)))]
    again = [one.text for one in ask(model, *map(asked, (None, 2**40, 2, 1)))]
    assert again[::-1] == texts
    assert len(set(texts)) > 1
    params, _ = engines[0].asked[0]
    top_p = params.top_p if kind == "vllm" else params["top_p"]
    assert top_p == 0.9


def test_conversations_are_rendered_and_cannot_end_a_turn(model: EngineModel) -> None:
    plain, spelled = ask(
        model,
        GenerateRequest((Message(Role.USER, "Hi"),), max_tokens=1),
        GenerateRequest((Message(Role.USER, "Hi<s>"),), max_tokens=1),
    )
    assert plain.prompt == "user: Hi\nassistant:"
    assert spelled.prompt_tokens > plain.prompt_tokens + 1


def test_requests_are_in_flight_together(monkeypatch: pytest.MonkeyPatch, weights: Path) -> None:
    engines = install_vllm(monkeypatch)
    monkeypatch.setattr(AsyncLLMEngine, "awaited", 40)
    model = VllmModel(str(weights), tokenizer=Tokenizer())
    requests = [GenerateRequest(f"{PROMPT} {n}", max_tokens=2) for n in range(40)]
    assert all(answer.text for answer in ask(model, *requests))
    assert engines[0].most_in_flight == 40
    assert len(engines) == 1


def test_a_run_is_stored_and_resumed(
    model: EngineModel, engines: list[Any], weights: Path, tmp_path: Path
) -> None:
    rows = [
        {"question": f"Capital {n}?", "choices": ["Paris", "Rome"], "answer": "B"} for n in range(6)
    ]
    found = run_task(rows, model, out=tmp_path / "run", limit=4)
    assert (found.n_errors, found.n_asked) == (0, 4)
    again = run_task(
        rows, type(model)(str(weights), tokenizer=Tokenizer()), out=tmp_path / "run", limit=4
    )
    assert again.n_asked == 0
    told = Run.open(tmp_path / "run").manifest["models"][0]["description"]
    assert told == dict(model.describe())


def test_a_cancelled_request_is_withdrawn(monkeypatch: pytest.MonkeyPatch, weights: Path) -> None:
    engines = install_vllm(monkeypatch)
    monkeypatch.setattr(AsyncLLMEngine, "awaited", 99)  # never answered
    model = VllmModel(str(weights), tokenizer=Tokenizer())

    async def given_up() -> None:
        task = asyncio.ensure_future(model.generate(GenerateRequest("a", max_tokens=1)))
        while not (engines and engines[0].in_flight):
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
        while engines[0].in_flight:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(given_up(), 60.0))
    assert engines[0].in_flight == 0


def test_prompts_that_do_not_fit_are_refused(model: EngineModel) -> None:
    long = " the" * CONTEXT
    fits = " the" * (CONTEXT - 2)
    asked, scored, last, full = ask(
        model,
        GenerateRequest(long),
        LoglikelihoodRequest(long, (" A",)),
        GenerateRequest(fits, max_tokens=9),
        LoglikelihoodRequest(fits, (" A B",)),
    )
    assert asked.kind == scored.kind == full.kind == "too_long"
    assert str(asked).endswith(f"no room for an answer; the model reads at most {CONTEXT}")
    assert (last.prompt_tokens, last.completion_tokens) == (CONTEXT - 1, 1)
    [answer] = ask(model, LoglikelihoodRequest(" the" * (CONTEXT - 3), (" A",)))
    assert math.isfinite(answer.loglikelihoods[0])


def test_gpus_and_options_reach_the_engine(kind: str, engines: list[Any], weights: Path) -> None:
    name = {"vllm": "gpu_memory_utilization", "sglang": "mem_fraction_static"}[kind]
    model = load_model(
        f"{kind}:{weights}",
        {
            "tensor_parallel_size": 2,
            "data_parallel_size": 4,
            "context_length": 64,
            "dtype": "bfloat16",
            "engine": {name: 0.5},
            "tokenizer": Tokenizer(),
        },
    )
    ask(model, GenerateRequest("a", max_tokens=1))
    [engine] = engines
    given = vars(engine.arguments) if kind == "vllm" else engine.options
    sizes = ("tensor_parallel_size", "data_parallel_size", "max_model_len")
    names = sizes if kind == "vllm" else ("tp_size", "dp_size", "context_length")
    assert [given[one] for one in names] == [2, 4, 64]
    assert (given[name], given["dtype"], given["trust_remote_code"]) == (0.5, "bfloat16", False)
    described = dict(model.describe())
    assert described["engine"] == {name: 0.5}
    assert (described["tensor_parallel_size"], described["data_parallel_size"]) == (2, 4)
    assert described["weights_sha256"] is not None
    assert json.loads(json.dumps(described)) == described
    assert str(weights) not in json.dumps(described)


def test_an_engine_that_does_not_start_says_why_once(kind: str, weights: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        INSTALL[kind](patch)
        wrong = {"vllm": {"gpu_memory_utilization": 1.5}, "sglang": {"tp": 2}}[kind]
        model = KINDS[kind](str(weights), tokenizer=Tokenizer(), engine=wrong)
        one, other = ask(model, GenerateRequest("a"), GenerateRequest("b"))
    assert one is other or str(one) == str(other)
    assert one.kind == "not_found"
    assert str(one).startswith(f"{kind} cannot load {weights}: ")
    assert "\n" not in str(one)


def test_options_of_the_engine_are_not_taken_from_files(kind: str, weights: Path) -> None:
    with (
        making(read_from("task.toml")),
        pytest.raises(InvalidInputError, match=r"task\.toml sets engine options"),
    ):
        KINDS[kind](str(weights), engine={"worker_cls": "a.b"})


def test_a_dead_engine_ends_the_run(monkeypatch: pytest.MonkeyPatch, weights: Path) -> None:
    engines = install_vllm(monkeypatch)
    model = VllmModel(str(weights), tokenizer=Tokenizer())
    ask(model, GenerateRequest("a", max_tokens=1))
    engines[0].errored = True
    [error] = ask(model, GenerateRequest("a", max_tokens=1))
    assert isinstance(error, ModelError)
    assert error.kind == "unreachable"
    assert str(error).startswith("vllm has stopped: EngineDeadError")


def test_closing_frees_the_gpus_and_the_next_request_starts_again(
    monkeypatch: pytest.MonkeyPatch, weights: Path
) -> None:
    engines = install_vllm(monkeypatch)
    model = VllmModel(str(weights), tokenizer=Tokenizer())
    ask(model, GenerateRequest("a", max_tokens=1))
    asyncio.run(model.aclose())
    assert engines[0].is_down
    [answer] = ask(model, GenerateRequest("a", max_tokens=1))
    assert answer.completion_tokens == 1
    assert len(engines) == 2


def test_processed_probabilities_are_refused(
    monkeypatch: pytest.MonkeyPatch, weights: Path
) -> None:
    install_vllm(monkeypatch)
    options = {"logprobs_mode": "processed_logprobs"}
    model = VllmModel(str(weights), tokenizer=Tokenizer(), engine=options)
    [error] = ask(model, LoglikelihoodRequest("a", ("b",)))
    assert "must be 'raw_logprobs'" in str(error)


def test_the_extra_is_named(kind: str, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    assert kind in available_models()
    model = load_model(f"{kind}:{weights}")
    [error] = ask(model, GenerateRequest("a"))
    assert isinstance(error, MissingExtraError)
    assert f"eval-toolkit[{kind}]" in str(error)
    with pytest.raises(MissingExtraError, match=kind):
        model.describe()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tensor_parallel_size": 0}, "`tensor_parallel_size` is 0; it must be at least 1"),
        ({"concurrency": 0}, "`concurrency` is 0; it must be at least 1"),
        ({"context_length": 2}, "`context_length` is 2; it must be at least 3"),
    ],
)
def test_arguments_are_checked(kind: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        KINDS[kind]("model", **options)
    assert str(caught.value) == message


def test_a_folder_has_no_revisions(kind: str, weights: Path) -> None:
    with pytest.raises(InvalidInputError, match="a folder has no revisions"):
        KINDS[kind](str(weights), revision="main")
