"""Stand-ins of the packages ``vllm`` and ``sglang``: the public names, types and fields that are used.

Behind both is the toy model of `emulated_servers`, so that every log-likelihood has a known value.

vLLM v0.28.0rc2: `AsyncEngineArgs` (``vllm/engine/arg_utils.py``), `AsyncLLMEngine.from_engine_args`,
``generate``, ``errored`` and ``shutdown`` (``vllm/v1/engine/async_llm.py``), `SamplingParams`
(``vllm/sampling_params.py``), `Logprob` (``vllm/logprobs.py``: generated or prompt token first, rank =
number of tokens at least as likely), a prompt as long as the context is refused
(``vllm/v1/engine/input_processor.py``), and a request for ``prompt_logprobs`` does not read the prefix
cache (``SamplingParams.__post_init__``).

SGLang v0.5.18: `Engine` and ``async_generate`` (``srt/entrypoints/engine.py``), lengths
(``srt/managers/tokenizer_manager.py``), ``input_token_logprobs`` from ``logprob_start_len`` with None in
the first entry and the last id of the vocabulary shown as 0
(``srt/managers/scheduler_components/logprob_result_processor.py``).
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.support.emulated_servers import BOS, PIECES, decode, encode, logprobs

BLOCK = 4
"""Tokens per block of the prefix cache."""
CONTEXT = 256


class Tokenizer:
    """The toy tokenizer, with the methods of one of transformers that are used."""

    bos_token_id = BOS
    eos_token_id = None
    all_special_ids = (BOS,)
    chat_template = "a template"

    def __call__(
        self,
        text: str | Sequence[str],
        *,
        add_special_tokens: bool = True,
        split_special_tokens: bool = False,
        **_: Any,
    ) -> SimpleNamespace:
        read = []
        for one in [text] if isinstance(text, str) else text:
            parts = one.replace("<s>", "<\0s>").split("\0") if split_special_tokens else [one]
            ids = [token for part in parts for token in encode(part)]
            read.append([BOS, *ids] if add_special_tokens else ids)
        return SimpleNamespace(input_ids=read[0] if isinstance(text, str) else read)

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return decode([token for token in ids if token != BOS])

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return {"<s>": BOS}.get(token)

    def apply_chat_template(
        self, conversation: Sequence[dict[str, str]], *, add_generation_prompt: bool, **_: Any
    ) -> str:
        said = "\n".join(f"{one['role']}: {one['content']}" for one in conversation)
        return f"{said}\nassistant:" if add_generation_prompt else said


def best(before: Sequence[int]) -> int:
    numbers = logprobs(before)
    return max(range(len(numbers)), key=numbers.__getitem__)


@dataclass
class _Drawn:
    ids: list[int]
    text: str
    reason: str


def drawn(
    prompt: Sequence[int],
    *,
    n: int,
    temperature: float,
    top_p: float = 1.0,
    seed: int | None,
    stop: Sequence[str],
) -> _Drawn:
    """The tokens that the toy model generates, and their text before a stop string."""
    choice = random.Random(seed)  # noqa: S311
    ids: list[int] = []
    while len(ids) < n:
        context = [*prompt, *ids]
        if temperature:
            weights = [math.exp(number / temperature) for number in logprobs(context)]
            ids.append(choice.choices(range(len(weights)), weights)[0])
        else:
            ids.append(best(context))
        text = decode(ids)
        for one in stop:
            if one in text:
                return _Drawn(ids, text.partition(one)[0], "stop")
    return _Drawn(ids, decode(ids), "length")


class _Prefixes:
    """What a prefix cache holds: whole blocks of earlier prompts."""

    def __init__(self) -> None:
        self._held: set[tuple[int, ...]] = set()

    def read(self, ids: Sequence[int], *, at_most: int) -> int:
        """The number of tokens that need not be computed; the prompt is then held."""
        ends = range(BLOCK, len(ids) + 1, BLOCK)
        found = max((end for end in ends if tuple(ids[:end]) in self._held), default=0)
        self._held.update(tuple(ids[:end]) for end in ends)
        return min(found, at_most)


# --- vLLM ----------------------------------------------------------------------------------------


class VLLMClientError(Exception):
    """What vLLM raises for a bad request."""


class EngineDeadError(Exception):
    """What vLLM raises when its engine process has died."""


class RequestOutputKind(Enum):
    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclass
class AsyncEngineArgs:
    model: str
    revision: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    data_parallel_size: int = 1
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.92
    load_format: str = "auto"
    logprobs_mode: str = "raw_logprobs"
    disable_log_stats: bool = False
    enable_log_requests: bool = False


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: list[str] = field(default_factory=list)
    stop_token_ids: list[int] = field(default_factory=list)
    max_tokens: int | None = 16
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: list[int] | None = None
    detokenize: bool = True
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE

    def verify(self) -> None:
        if len(self.logprob_token_ids or ()) > 128:
            raise VLLMClientError("Requested logprob_token_ids of length > 128")
        if self.prompt_logprobs is not None and self.prompt_logprobs > 20:
            raise VLLMClientError("Requested prompt logprobs greater than max allowed: 20")


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


def _rank(numbers: Sequence[float], token: int) -> int:
    return sum(number >= numbers[token] for number in numbers)


class AsyncLLMEngine:
    """One engine; ``asked`` holds the parameters of each request and its number of cached tokens."""

    started: "list[AsyncLLMEngine]" = []  # noqa: RUF012
    awaited = 0
    """Number of requests that must have been in flight together before one is answered."""

    def __init__(self, arguments: AsyncEngineArgs) -> None:
        if arguments.gpu_memory_utilization > 1.0:
            raise ValueError("Free memory is less than desired GPU memory utilization\nTrace")
        self.arguments = arguments
        self.model_config = SimpleNamespace(max_model_len=arguments.max_model_len or CONTEXT)
        self.errored = False
        self.is_down = False
        self.asked: list[tuple[SamplingParams, int]] = []
        self.in_flight = self.most_in_flight = 0
        self._ids: set[str] = set()
        self._prefixes = _Prefixes()
        self._loop = asyncio.get_running_loop()
        self.started.append(self)

    @classmethod
    def from_engine_args(cls, arguments: AsyncEngineArgs) -> "AsyncLLMEngine":
        return cls(arguments)

    def shutdown(self, timeout: float | None = None) -> None:
        self.is_down = True

    async def generate(
        self, prompt: dict[str, list[int]], sampling_params: SamplingParams, request_id: str
    ) -> AsyncIterator[Any]:
        assert asyncio.get_running_loop() is self._loop, "vLLM's queues belong to one event loop"
        if self.errored:
            raise EngineDeadError("EngineCore encountered an issue.")
        assert request_id not in self._ids
        self._ids.add(request_id)
        sampling_params.verify()
        ids, params = prompt["prompt_token_ids"], sampling_params
        if len(ids) >= self.model_config.max_model_len:
            raise VLLMClientError(f"The decoder prompt (length {len(ids)}) is too long")
        fresh = params.prompt_logprobs is not None  # skip_reading_prefix_cache
        n_cached = self._prefixes.read(ids, at_most=0 if fresh else len(ids) - 1)
        self.asked.append((params, n_cached))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            while self.most_in_flight < self.awaited:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        yield self._output(ids, params, n_cached)

    def _output(self, ids: list[int], params: SamplingParams, n_cached: int) -> SimpleNamespace:
        n = min(params.max_tokens or CONTEXT, self.model_config.max_model_len - len(ids))
        made = drawn(ids, n=n, temperature=params.temperature, seed=params.seed, stop=params.stop)
        rows = None
        if params.logprob_token_ids:
            numbers = logprobs(ids)
            listed = [made.ids[0], *params.logprob_token_ids]
            rows = [{token: Logprob(numbers[token], at) for at, token in enumerate(listed, 1)}]
        asked = None
        if params.prompt_logprobs is not None:
            asked = [None, *(self._row(ids, at) for at in range(1, len(ids)))]
        answer = SimpleNamespace(
            index=0,
            text=made.text if params.detokenize else "",
            token_ids=made.ids,
            logprobs=rows,
            finish_reason=made.reason,
        )
        return SimpleNamespace(
            prompt_token_ids=ids,
            prompt_logprobs=asked,
            outputs=[answer],
            finished=True,
            num_cached_tokens=n_cached,
        )

    @staticmethod
    def _row(ids: list[int], at: int) -> dict[int, Logprob]:
        numbers = logprobs(ids[:at])
        return {ids[at]: Logprob(numbers[ids[at]], _rank(numbers, ids[at]))}


def install_vllm(patch: pytest.MonkeyPatch) -> list[AsyncLLMEngine]:
    """Make ``import vllm`` find the stand-in; return the engines that are started."""
    made = _module("vllm", AsyncEngineArgs, AsyncLLMEngine, SamplingParams, version="0.28.0")
    places = [
        made,
        _module("vllm.sampling_params", RequestOutputKind, SamplingParams),
        _module("vllm.exceptions", VLLMClientError),
    ]
    _install(patch, places)
    patch.setattr(AsyncLLMEngine, "started", [])
    return AsyncLLMEngine.started


# --- SGLang --------------------------------------------------------------------------------------


class SglangEngine:
    """One engine; ``asked`` holds the keywords of each request and its number of cached tokens."""

    started: "list[SglangEngine]" = []  # noqa: RUF012
    _known = (
        "model_path revision dtype trust_remote_code tp_size dp_size context_length load_format "
        "mem_fraction_static log_level enable_deterministic_inference"
    )

    def __init__(self, **options: Any) -> None:
        for name in options:
            if name not in self._known.split():
                raise TypeError(
                    f"ServerArgs.__init__() got an unexpected keyword argument {name!r}"
                )
        self.options = options
        context = options.get("context_length") or CONTEXT
        self.tokenizer_manager = SimpleNamespace(context_len=context)
        self.asked: list[tuple[dict[str, Any], int]] = []
        self._prefixes = _Prefixes()
        self.loop = asyncio.get_running_loop()
        self.started.append(self)

    async def async_generate(
        self,
        *,
        input_ids: list[int],
        sampling_params: dict[str, Any],
        return_logprob: bool = False,
        logprob_start_len: int | None = None,
        top_logprobs_num: int | None = None,
        token_ids_logprob: list[int] | None = None,
    ) -> dict[str, Any]:
        assert asyncio.get_running_loop() is self.loop
        context = self.tokenizer_manager.context_len
        if len(input_ids) >= context:
            raise ValueError(f"The input ({len(input_ids)} tokens) is longer than the context")
        if len(input_ids) + sampling_params["max_new_tokens"] > context:
            raise ValueError("Requested token count exceeds the model's maximum context length")
        start = -1 if logprob_start_len is None else logprob_start_len
        limit = len(input_ids) - 1
        n_cached = self._prefixes.read(
            input_ids, at_most=min(limit, start) if return_logprob and start >= 0 else limit
        )
        self.asked.append((sampling_params, n_cached))
        made = drawn(
            input_ids,
            n=sampling_params["max_new_tokens"],
            temperature=sampling_params["temperature"],
            seed=sampling_params.get("sampling_seed"),
            stop=sampling_params.get("stop") or (),
        )
        await asyncio.sleep(0.001)
        facts: dict[str, Any] = {
            "finish_reason": {"type": made.reason},
            "prompt_tokens": len(input_ids),
            "completion_tokens": len(made.ids),
            "cached_tokens": n_cached,
        }
        if return_logprob:
            facts |= _facts(input_ids, made.ids, start, top_logprobs_num, token_ids_logprob)
        return {"text": made.text, "output_ids": made.ids, "meta_info": facts}


def _facts(
    ids: list[int],
    made: list[int],
    start: int,
    n_top: int | None,
    wanted: list[int] | None,
) -> dict[str, Any]:
    last = len(PIECES) - 1
    places = range(start + 1, len(ids)) if start >= 0 else range(0)
    shown = [token if token < last else 0 for token in ids[start:]]
    numbers = [None, *(logprobs(ids[:at])[ids[at]] for at in places)]
    facts: dict[str, Any] = {
        "input_token_logprobs": [
            (number, token, None) for number, token in zip(numbers, shown, strict=True)
        ],
        "output_token_logprobs": [(logprobs(ids)[made[0]], made[0], None)],
    }
    if n_top:
        facts["input_top_logprobs"] = [None, *(_top(ids[:at], n_top) for at in places)]
        facts["output_top_logprobs"] = [_top(ids, n_top)]
    if wanted is not None:
        facts["output_token_ids_logprobs"] = [
            [(logprobs(ids)[token], token, None) for token in wanted]
        ]
    return facts


def _top(before: Sequence[int], n: int) -> list[tuple[float, int, None]]:
    numbers = logprobs(before)
    order = sorted(range(len(numbers)), key=lambda token: -numbers[token])
    return [(numbers[token], token, None) for token in order[:n]]


def install_sglang(patch: pytest.MonkeyPatch) -> list[SglangEngine]:
    """Make ``import sglang`` find the stand-in; return the engines that are started."""
    made = _module("sglang", version="0.5.18")
    made.Engine = SglangEngine  # type: ignore[attr-defined]
    _install(patch, [made])
    patch.setattr(SglangEngine, "started", [])
    return SglangEngine.started


def _module(name: str, *things: Any, version: str | None = None) -> ModuleType:
    made = ModuleType(name)
    vars(made).update({thing.__name__: thing for thing in things})
    if version is not None:
        made.__version__ = version  # type: ignore[attr-defined]
    return made


def _install(patch: pytest.MonkeyPatch, places: Sequence[ModuleType]) -> None:
    for place in places:
        patch.setitem(__import__("sys").modules, place.__name__, place)
