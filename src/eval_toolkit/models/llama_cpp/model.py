"""`LlamaCppModel`: a GGUF file run by llama.cpp in this process."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import sha256_file, sha256_text
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models import _tokens
from eval_toolkit.models._local import LocalModel, draw_seed
from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.llama_cpp.engine import Engine
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage

_SEEDS = (1 << 32) - 1
"""Number of valid seeds: llama.cpp uses 32 bits; the largest value means a random seed."""
_PER_SLOT = 4
"""Number of requests to queue for each slot."""


class LlamaCppModel(LocalModel):
    """GGUF model run by llama.cpp (extra ``llamacpp``), loaded on first use.

    Parameters
    ----------
    path : str or Path
        GGUF file.
    name : str, optional
        Name in tables; by default, the file name without its suffix.
    n_ctx : int, default 4096
        Maximum total number of prompt and answer tokens; 0 for the training context length.
    threads : int, default 1
        Number of CPU threads; may affect the last digits of results.
    gpu_layers : int, default 0
        Number of layers offloaded to a GPU, if xllamacpp supports it.
    max_tokens : int, default 256
        Maximum number of tokens in an answer if the request sets no limit.
    slots : int, default 1
        Number of requests processed concurrently; each slot needs memory for ``n_ctx`` tokens.

    Notes
    -----
    With one slot, each request starts from an empty cache, so that equal requests have equal
    answers. With several slots, requests share batches, which is faster on a GPU or on a CPU with
    idle cores. However, concurrent requests then affect log-likelihoods, by a few tenths of a nat
    with quantised weights. Log-likelihoods are computed by forcing tokens one by one; choices that
    differ in one token are scored in one step. With quantised weights, the arithmetic of llama.cpp
    deviates from float32 by a few tenths of a nat; `EmbeddedModel` computes in float32.

    Examples
    --------
    >>> LlamaCppModel("models/SmolLM2-135M-Instruct.Q4_1.gguf").name
    'SmolLM2-135M-Instruct.Q4_1'
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        n_ctx: int = 4096,
        threads: int = 1,
        gpu_layers: int = 0,
        max_tokens: int = 256,
        slots: int = 1,
    ) -> None:
        self.path = Path(path)
        self.name = self.path.stem if name is None else name
        self.n_ctx = validation.integer(n_ctx, "n_ctx")
        self.threads = validation.integer(threads, "threads", low=1)
        self.gpu_layers = validation.integer(gpu_layers, "gpu_layers")
        self.max_tokens = validation.integer(max_tokens, "max_tokens", low=1)
        self._loading = threading.Lock()
        self._loaded: Engine | None = None
        self.slots = validation.integer(slots, "slots", low=1)
        # A batch of one request can be cancelled separately; larger batches wait for their slowest.
        most = 1 if self.slots == 1 else _PER_SLOT * self.slots
        self._batcher: Batcher[Request, Any] = Batcher(self._answer_all, max_batch=most)

    @property
    def concurrency(self) -> int:
        """Recommended number of concurrent requests."""
        return _PER_SLOT * self.slots

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that affect answers; loads the model and hashes its file."""
        engine = self._engine
        return {
            "kind": "llama_cpp",
            "name": self.name,
            "weights_sha256": self._sha256,
            "dtype": engine.properties["model_ftype"],
            "chat_template_sha256": sha256_text(engine.properties["chat_template"]),
            "context_length": engine.n_ctx,
            "threads": self.threads,
            "gpu_layers": self.gpu_layers,
            # omitted by default, so that answers stored before slots were added are found
            **({"slots": self.slots} if self.slots > 1 else {}),
            "max_tokens": self.max_tokens,
            "xllamacpp": require("xllamacpp", feature="llama.cpp", extra="llamacpp").__version__,
        }

    @cached_property
    def _sha256(self) -> str:
        return sha256_file(self.path)

    @property
    def _texts(self) -> Engine:
        return self._engine

    @property
    def _engine(self) -> Engine:
        with self._loading:
            if self._loaded is None:
                self._loaded = Engine(
                    self.path,
                    n_ctx=self.n_ctx,
                    threads=self.threads,
                    gpu_layers=self.gpu_layers,
                    slots=self.slots,
                )
            return self._loaded

    def _answer_all(
        self, requests: Sequence[Request]
    ) -> list[RawCompletion | RawLoglikelihood | Exception]:
        """Process requests in the batcher's thread, or in one thread per slot."""
        if self.slots == 1:
            return [self._answer(request, 0) for request in requests]
        free: SimpleQueue[int] = SimpleQueue()
        for slot in range(self.slots):
            free.put(slot)

        def answer(request: Request) -> RawCompletion | RawLoglikelihood | Exception:
            slot = free.get()
            try:
                return self._answer(request, slot)
            except Exception as error:
                return error
            finally:
                free.put(slot)

        with ThreadPoolExecutor(self.slots, "eval-toolkit-slot") as threads:
            return list(threads.map(answer, requests))

    def _answer(self, request: Request, slot: int) -> RawCompletion | RawLoglikelihood:
        if isinstance(request, GenerateRequest):
            return self._generated(request, slot)
        return self._scored(request, slot)

    def _generated(self, request: GenerateRequest, slot: int) -> RawCompletion:
        began = time.perf_counter()
        text, ids = _tokens.read_prompt(self._engine, request)
        left = self._engine.n_ctx - len(ids)
        if left < 1:
            raise self._too_long(
                f"the prompt has {len(ids)} tokens, which leaves no room for an answer"
            )
        answer = self._engine.complete(
            ids,
            max_tokens=min(request.max_tokens or self.max_tokens, left),
            temperature=request.heat,
            top_p=1.0 if request.top_p is None else request.top_p,
            samplers=["temperature", "top_p"],  # the default has more samplers, in another order
            stop=[whole_text(stop) for stop in request.stop if stop],
            seed=draw_seed(request) % _SEEDS,
            id_slot=slot,
        )
        choice, n_new = answer["choices"][0], answer["usage"]["completion_tokens"]
        return RawCompletion(
            choice["text"],
            prompt=text,
            prompt_tokens=len(ids),
            completion_tokens=n_new,
            finish_reason=choice["finish_reason"],
            usage=Usage(len(ids), n_new, latency_s=time.perf_counter() - began),
        )

    def _scored(self, request: LoglikelihoodRequest, slot: int) -> RawLoglikelihood:
        began = time.perf_counter()
        if request.rolling:
            text, n_prompt = "", 1
            parts = [self._windows(continuation) for continuation in request.continuations]
        else:
            text, ids = _tokens.read_prompt(self._engine, request)
            n_prompt = len(ids)
            parts = [
                [(ids, _tokens.continuation_ids(self._engine, text, continuation))]
                for continuation in request.continuations
            ]
        n_tokens = [sum(len(scored) for _, scored in part) for part in parts]
        scores = self._forced(parts, slot)
        return RawLoglikelihood(
            [sum(number for number, _ in score) for score in scores],
            request.continuations,
            n_tokens=n_tokens,
            is_greedy=[all(is_greedy for _, is_greedy in score) for score in scores],
            prompt=text,
            prompt_tokens=n_prompt,
            usage=Usage(n_prompt + sum(n_tokens), latency_s=time.perf_counter() - began),
        )

    def _windows(self, text: str) -> list[tuple[list[int], list[int]]]:
        if self._engine.start is None:
            raise ModelError(
                "whole texts cannot be scored: the model has no beginning-of-text token",
                kind="unsupported",
            )
        ids = self._engine.encode(text, control=False)
        # llama.cpp needs room for the generated token
        return list(_tokens.rolling_windows(ids, self._engine.start, self._engine.n_ctx - 1))

    def _forced(
        self, parts: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]], slot: int
    ) -> list[list[tuple[float, bool]]]:
        """Return the token scores of each part, processing each context once."""
        following: dict[tuple[int, ...], dict[int, None]] = {}
        paths: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for context, scored in (pair for part in parts for pair in part):
            if len(context) + len(scored) > self._engine.n_ctx:
                raise self._too_long(
                    f"prompt and continuation have {len(context)} + {len(scored)} tokens"
                )
            for at, token in enumerate(scored):
                path = (*context, *scored[:at])
                if path not in following:
                    paths.setdefault(tuple(context), []).append(path)
                following.setdefault(path, {})[token] = None
        known: dict[tuple[int, ...], dict[int, tuple[float, bool]]] = {}
        for start, steps in paths.items():
            self._engine.prime(start, slot=slot)
            for path in steps:
                known[path] = self._engine.scores(path, list(following[path]), slot=slot)
        return [
            [
                known[*context, *scored[:at]][token]
                for context, scored in part
                for at, token in enumerate(scored)
            ]
            for part in parts
        ]

    def _too_long(self, what: str) -> ModelError:
        return ModelError(f"{what}; the model reads at most {self._engine.n_ctx}", kind="too_long")
