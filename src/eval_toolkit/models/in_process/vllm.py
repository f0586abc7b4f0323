"""`VllmModel`: a model run by vLLM's asynchronous engine in this process.

Written for vLLM 0.28: `AsyncEngineArgs`, `AsyncLLMEngine` and `SamplingParams` of the package
``vllm``. The synchronous `LLM` rejects ``data_parallel_size``; the asynchronous engine starts one
process per replica and routes each request to the least loaded replica.
"""

from itertools import count
from types import ModuleType
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ModelError
from eval_toolkit.models.in_process.base import Decoding, EngineModel, Generated, Score


class VllmModel(EngineModel):
    """Model run by vLLM in this process (extra ``vllm``), loaded on first use.

    Parameters
    ----------
    name_or_path : str
        Folder, or name on the Hugging Face Hub.
    revision : str, optional
        Branch, tag or commit on the Hub. The resolved commit is loaded and recorded.
    dtype : str, default "auto"
        Data type of weights and activations, in vLLM's notation.
    context_length : int, optional
        Maximum total number of prompt and answer tokens; by default, the model's limit.
    chat_template : str, optional
        Jinja chat template that replaces the tokenizer's.
    trust_remote_code : bool, default False
        Whether to run code shipped with the model.
    engine : mapping, optional
        Additional keyword arguments for vLLM's ``AsyncEngineArgs``, e.g.
        ``{"gpu_memory_utilization": 0.8}``.
    tokenizer : transformers tokenizer, optional
        Already loaded tokenizer.
    tensor_parallel_size : int, default 1
        Number of GPUs that share the weights of one replica.
    data_parallel_size : int, default 1
        Number of model replicas.
    concurrency : int, default 256
        Maximum number of concurrent requests.
    max_tokens : int, default 256
        Maximum number of tokens in an answer if the request sets no limit.

    Notes
    -----
    vLLM batches requests; the last digits of log-likelihoods depend on the batch. Sampled answers
    use the request's seed. `aclose` frees the GPUs; the next request restarts the engine.

    Examples
    --------
    >>> VllmModel("meta-llama/Llama-3.1-8B", tensor_parallel_size=2).name
    'Llama-3.1-8B'
    """

    library = "vllm"
    max_next_tokens = 128

    async def aclose(self) -> None:
        """Stop the engine and free the GPUs."""
        engine, self._engine, self._failure = self._engine, None, None
        if engine is not None:
            engine.shutdown()

    def _start(self) -> Any:
        vllm = self._module
        options: dict[str, Any] = {
            "model": self._source.place,
            "revision": self._source.revision,
            "dtype": self.dtype,
            "trust_remote_code": self._trust,
            "tensor_parallel_size": self.tensor_parallel_size,
            "data_parallel_size": self.data_parallel_size,
            "disable_log_stats": True,
        }
        if self._context_length is not None:
            options["max_model_len"] = self._context_length
        if not self._pickled:
            options["load_format"] = "safetensors"
        arguments = vllm.AsyncEngineArgs(**{**options, **self.engine_options})
        # Request numbers, which must be unique among requests in flight.
        self._numbers = count()
        # Scores are the model's own: before temperature, penalties and truncation.
        if getattr(arguments, "logprobs_mode", "raw_logprobs") != "raw_logprobs":
            raise ModelError(
                "the engine option logprobs_mode must be 'raw_logprobs'",
                kind="bad_request",
            )
        return vllm.AsyncLLMEngine.from_engine_args(arguments)

    def _longest(self, engine: Any) -> int:
        return int(engine.model_config.max_model_len)

    @staticmethod
    def _part(name: str) -> ModuleType:
        return require(f"vllm.{name}", feature="VllmModel", extra="vllm")

    def _is_dead(self, engine: Any) -> bool:
        return bool(engine.errored)

    def _kind_of(self, error: Exception) -> str:
        client = self._part("exceptions").VLLMClientError
        return "bad_request" if isinstance(error, (ValueError, client)) else "other"

    async def _finished(self, engine: Any, ids: list[int], **settings: Any) -> Any:
        """Wait for vLLM's final output for a prompt."""
        kinds = self._part("sampling_params").RequestOutputKind
        params = self._module.SamplingParams(output_kind=kinds.FINAL_ONLY, **settings)
        last = None
        async for output in engine.generate(
            {"prompt_token_ids": ids}, params, f"eval-toolkit-{next(self._numbers)}"
        ):
            last = output
        if last is None:
            raise ModelError("vllm returned no output for the prompt", kind="garbled")
        return last

    async def _complete(self, engine: Any, ids: list[int], decoding: Decoding) -> Generated:
        output = await self._finished(
            engine,
            ids,
            max_tokens=decoding.max_tokens,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            seed=decoding.seed,
            stop=decoding.stop,
            stop_token_ids=decoding.stop_tokens,
        )
        answer = output.outputs[0]
        return Generated(answer.text, len(answer.token_ids), answer.finish_reason or "stop")

    async def _next_tokens(self, engine: Any, ids: list[int], tokens: list[int]) -> list[Score]:
        output = await self._finished(
            engine,
            ids,
            max_tokens=1,
            temperature=0.0,
            logprob_token_ids=tokens,
            detokenize=False,
        )
        found = (output.outputs[0].logprobs or [{}])[0]
        missing = [token for token in tokens if token not in found]
        if missing:
            raise ModelError(f"vllm returned no probability for token {missing[0]}", kind="garbled")
        best = next(iter(found))  # the generated token comes first
        return [(float(found[token].logprob), token == best) for token in tokens]

    async def _last_tokens(self, engine: Any, ids: list[int], n: int) -> list[Score]:
        # vLLM bypasses its prefix cache for such a prompt, since it stores no probabilities.
        output = await self._finished(
            engine, ids, max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False
        )
        rows = list(output.prompt_logprobs or ())
        if len(rows) != len(ids):
            raise ModelError(
                f"vllm returned probabilities for {len(rows)} of {len(ids)} tokens",
                kind="garbled",
            )
        pairs = zip(ids[-n:], rows[-n:], strict=True)
        scores = [(row[token].logprob, row[token].rank) for token, row in pairs]
        return [(float(number), rank == 1) for number, rank in scores]
