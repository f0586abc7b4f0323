"""`LlamaCppModel`: a GGUF file run by llama.cpp in this process."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
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
"""Number of valid seeds: llama.cpp uses 32 bits, and the largest value means a random seed."""


class LlamaCppModel(LocalModel):
    """GGUF model run by llama.cpp (extra ``llamacpp``), loaded on first use.

    Parameters
    ----------
    path : str or Path
        GGUF file.
    name : str, optional
        Name; by default the file name without its suffix.
    n_ctx : int, default 4096
        Maximum number of tokens of prompt and answer; 0 for the context length of training.
    threads : int, default 1
        Number of threads; may affect the last digits of results.
    gpu_layers : int, default 0
        Number of layers on a GPU, if xllamacpp supports it.
    max_tokens : int, default 256
        Maximum number of tokens of an answer if the request has no limit.

    Notes
    -----
    Requests are processed one at a time, each from an empty cache, so that equal requests have
    equal answers. Log-likelihoods are computed by forcing tokens one by one. With quantised
    weights, the arithmetic of llama.cpp deviates from float32 by some tenths of a nat;
    `EmbeddedModel` computes in float32.

    Examples
    --------
    >>> LlamaCppModel("models/SmolLM2-135M-Instruct.Q4_1.gguf").name
    'SmolLM2-135M-Instruct.Q4_1'
    """

    concurrency = 4

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        n_ctx: int = 4096,
        threads: int = 1,
        gpu_layers: int = 0,
        max_tokens: int = 256,
    ) -> None:
        self.path = Path(path)
        self.name = self.path.stem if name is None else name
        self.n_ctx = validation.integer(n_ctx, "n_ctx")
        self.threads = validation.integer(threads, "threads", low=1)
        self.gpu_layers = validation.integer(gpu_layers, "gpu_layers")
        self.max_tokens = validation.integer(max_tokens, "max_tokens", low=1)
        self._loading = threading.Lock()
        self._loaded: Engine | None = None
        self._batcher: Batcher[Request, Any] = Batcher(self._answer_all, max_batch=1)

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
                    self.path, n_ctx=self.n_ctx, threads=self.threads, gpu_layers=self.gpu_layers
                )
            return self._loaded

    def _answer_all(self, requests: Sequence[Request]) -> list[RawCompletion | RawLoglikelihood]:
        """Process requests sequentially in the batcher's thread."""
        return [
            self._generated(request)
            if isinstance(request, GenerateRequest)
            else self._scored(request)
            for request in requests
        ]

    def _generated(self, request: GenerateRequest) -> RawCompletion:
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
            samplers=["temperature", "top_p"],  # by default there are more, in another order
            stop=[whole_text(stop) for stop in request.stop if stop],
            seed=draw_seed(request) % _SEEDS,
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

    def _scored(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
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
        scores = self._forced(parts)
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
        self, parts: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]]
    ) -> list[list[tuple[float, bool]]]:
        """Return the score of each token of each part, reading the context once."""
        known: dict[tuple[int, ...], tuple[float, bool]] = {}
        primed: Sequence[int] | None = None
        scores: list[list[tuple[float, bool]]] = []
        for part in parts:
            score: list[tuple[float, bool]] = []
            for context, scored in part:
                if len(context) + len(scored) > self._engine.n_ctx:
                    raise self._too_long(
                        f"prompt and continuation have {len(context)} + {len(scored)} tokens"
                    )
                if context != primed:
                    self._engine.prime(context)
                    primed = context
                for at, token in enumerate(scored):
                    path = (*context, *scored[: at + 1])
                    if path not in known:
                        known[path] = self._engine.forced(path[:-1], token)
                    score.append(known[path])
            scores.append(score)
        return scores

    def _too_long(self, what: str) -> ModelError:
        return ModelError(f"{what}; the model reads at most {self._engine.n_ctx}", kind="too_long")
