"""`SglangModel`: a model run by the SGLang engine in this process.

Written for SGLang 0.5.18: `Engine` of the package ``sglang`` and its method `async_generate`.
"""

from typing import Any

from eval_toolkit.errors import ModelError
from eval_toolkit.models.in_process.base import Decoding, EngineModel, Generated, Score


class SglangModel(EngineModel):
    """Model run by SGLang in this process (extra ``sglang``), loaded on first use.

    Parameters
    ----------
    name_or_path : str
        Folder, or name on the Hugging Face Hub.
    revision : str, optional
        Branch, tag or commit on the Hub. The resolved commit is loaded and recorded.
    dtype : str, default "auto"
        Data type of weights and activations, in SGLang's notation.
    context_length : int, optional
        Maximum total number of prompt and answer tokens; by default, the model's limit.
    chat_template : str, optional
        Jinja chat template that replaces the tokenizer's.
    trust_remote_code : bool, default False
        Whether to run code shipped with the model.
    engine : mapping, optional
        Additional keyword arguments for SGLang's ``Engine``, e.g. ``{"mem_fraction_static": 0.8}``.
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
    SGLang batches requests; the last digits of log-likelihoods depend on the batch. Request seeds
    take effect only with ``engine={"enable_deterministic_inference": True}``. SGLang stops its
    engine, and kills all child processes of the program, when the program exits. The engine is
    therefore never stopped earlier; use only one such model per process.

    Examples
    --------
    >>> SglangModel("meta-llama/Llama-3.1-8B", data_parallel_size=2).name
    'Llama-3.1-8B'
    """

    library = "sglang"
    max_next_tokens = 1024

    def _start(self) -> Any:
        options: dict[str, Any] = {
            "model_path": self._source.place,
            "revision": self._source.revision,
            "dtype": self.dtype,
            "trust_remote_code": self._trust,
            "tp_size": self.tensor_parallel_size,
            "dp_size": self.data_parallel_size,
        }
        if self._context_length is not None:
            options["context_length"] = self._context_length
        if not self._pickled:
            options["load_format"] = "safetensors"
        return self._module.Engine(**{**options, **self.engine_options})

    def _longest(self, engine: Any) -> int:
        return int(engine.tokenizer_manager.context_len)

    async def _complete(self, engine: Any, ids: list[int], decoding: Decoding) -> Generated:
        answer = await engine.async_generate(
            input_ids=ids,
            sampling_params={
                "max_new_tokens": decoding.max_tokens,
                "temperature": decoding.temperature,
                "top_p": decoding.top_p,
                "sampling_seed": decoding.seed,
                "stop": decoding.stop,
                "stop_token_ids": decoding.stop_tokens,
            },
        )
        facts = answer["meta_info"]
        return Generated(
            answer["text"], int(facts["completion_tokens"]), str(facts["finish_reason"]["type"])
        )

    async def _next_tokens(self, engine: Any, ids: list[int], tokens: list[int]) -> list[Score]:
        facts = await self._facts(engine, ids, token_ids_logprob=tokens)
        numbers = {token: number for number, token, _ in facts["output_token_ids_logprobs"][0]}
        missing = [token for token in tokens if token not in numbers]
        if missing:
            raise ModelError(
                f"sglang returned no probability for token {missing[0]}", kind="garbled"
            )
        best = facts["output_top_logprobs"][0][0][1]
        return [(float(numbers[token]), token == best) for token in tokens]

    async def _last_tokens(self, engine: Any, ids: list[int], n: int) -> list[Score]:
        # The first entry is the preceding, cached token, which has no probability.
        facts = await self._facts(engine, ids, logprob_start_len=len(ids) - n - 1)
        rows, best = facts["input_token_logprobs"][1:], facts["input_top_logprobs"][1:]
        if len(rows) != n or len(best) != n:
            raise ModelError(
                f"sglang returned probabilities for {len(rows)} of {n} tokens", kind="garbled"
            )
        # Ids in `rows` are not compared: SGLang reports the last id of the vocabulary as 0.
        return [
            (float(row[0]), top[0][1] == token)
            for row, top, token in zip(rows, best, ids[-n:], strict=True)
        ]

    async def _facts(self, engine: Any, ids: list[int], **options: Any) -> dict[str, Any]:
        """Return SGLang's log-probabilities for a prompt and one generated token."""
        answer = await engine.async_generate(
            input_ids=ids,
            sampling_params={"max_new_tokens": 1, "temperature": 0.0},
            return_logprob=True,
            top_logprobs_num=1,
            **options,
        )
        facts: dict[str, Any] = answer["meta_info"]
        return facts
