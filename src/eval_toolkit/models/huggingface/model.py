"""`HuggingFaceModel`: a transformers model with batched requests."""

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.models._local import LocalModel
from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.huggingface.engine import Answer, Engine
from eval_toolkit.models.huggingface.loading import (
    Source,
    load_module,
    load_tokenizer,
    module_digest,
    torch_library,
    transformers_library,
)
from eval_toolkit.models.huggingface.network import Network
from eval_toolkit.models.huggingface.tokenizer import HubTokenizer
from eval_toolkit.models.requests import Request
from eval_toolkit.plugins import origin_in_force

_DTYPES = ("float32", "float16", "bfloat16")


class _Batching(TypedDict, total=False):
    """Limits of batches and answers."""

    batch_size: int
    max_batch_tokens: int
    max_tokens: int


class HuggingFaceModel(LocalModel):
    """Causal language model of transformers (extra ``hf``, and torch), loaded on first use.

    Parameters
    ----------
    name_or_path : str
        Folder, or name on the hub; only a label if ``model`` and ``tokenizer`` are given.
    revision : str, optional
        Branch, tag or commit on the hub. The resolved commit is loaded and recorded.
    device : str, default "cpu"
        Device, as named by torch, e.g. "cuda:0".
    dtype : str, default "float32"
        "float32", "float16" or "bfloat16".
    batch_size : int, default 8
        Maximum number of prompts in a batch.
    max_batch_tokens : int, default 4096
        Maximum number of tokens in a batch, including padding and copies of shared contexts.
    max_tokens : int, default 256
        Maximum number of tokens of an answer if the request has no limit.
    context_length : int, optional
        Maximum context length; by default that of the model's configuration.
    chat_template : str, optional
        Jinja template that replaces that of the tokenizer.
    trust_remote_code : bool, default False
        Whether to run code that comes with the model.
    tokenizer, model : objects of transformers, optional
        Loaded objects, passed together and used unchanged.

    Notes
    -----
    The answer to a request does not depend on other requests: rows of a batch do not attend to each
    other, sampling uses the seed of the request (derived from the request if it has none), and
    batched and single log-likelihoods agree to 1e-4 nats in float32. Prompts are never truncated: a
    prompt that does not fit raises `ModelError` of kind "too_long".

    Examples
    --------
    >>> model = HuggingFaceModel("HuggingFaceTB/SmolLM2-135M-Instruct")
    >>> model.name
    'SmolLM2-135M-Instruct'
    """

    @gathers(_Batching, batch_size=8, max_batch_tokens=4096, max_tokens=256)
    def __init__(
        self,
        name_or_path: str,
        *,
        revision: str | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        context_length: int | None = None,
        chat_template: str | None = None,
        trust_remote_code: bool = False,
        tokenizer: Any = None,
        model: Any = None,
        **batching: Unpack[_Batching],
    ) -> None:
        if (tokenizer is None) != (model is None):
            raise InvalidInputError("pass `tokenizer` and `model` together, or neither")
        if revision is not None and Path(name_or_path).is_dir():
            raise InvalidInputError(
                f"`revision` is {revision!r}, but a folder has no revisions; omit it"
            )
        self.name_or_path = str(name_or_path)
        self.revision = revision
        self.device = device
        self.dtype = validation.choice(dtype, "dtype", _DTYPES)
        self.batch_size = validation.integer(batching["batch_size"], "batch_size", low=1)
        self.max_batch_tokens = validation.integer(
            batching["max_batch_tokens"], "max_batch_tokens", low=1
        )
        self.max_tokens = validation.integer(batching["max_tokens"], "max_tokens", low=1)
        self._context_length = (
            None
            if context_length is None
            else validation.integer(context_length, "context_length", low=1)
        )
        self._chat_template = chat_template
        self._trust = trust_remote_code
        # Weights named by a file are not trusted, and pickled weights can run code.
        self._pickled = origin_in_force().trusted
        self._ready = None if model is None else (tokenizer, model)
        self._loading = threading.Lock()
        self._loaded_tokenizer: HubTokenizer | None = None
        self._batcher: Batcher[Request, Any] = Batcher(self._answer, max_batch=self.concurrency)

    @property
    def name(self) -> str:
        """Last component of the name or path."""
        return Path(self.name_or_path).name or self.name_or_path

    @property
    def concurrency(self) -> int:
        """Recommended number of concurrent requests, enough to sort by length."""
        return 4 * self.batch_size

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that affect answers; loads the tokenizer and hashes local weights."""
        template = self._tokenizer.chat_template
        dtype, device = self.dtype, self.device
        if self._ready is not None:
            dtype, device = str(self._ready[1].dtype), str(self._ready[1].device)
        return {
            "kind": "huggingface",
            "name": self.name,
            **self._weights,
            "dtype": dtype.removeprefix("torch."),
            "device": device.partition(":")[0],
            "chat_template_sha256": None if template is None else sha256_text(template),
            "context_length": self._context_length,
            "max_tokens": self.max_tokens,
            "torch": torch_library().__version__,
            "transformers": transformers_library().__version__,
        }

    @cached_property
    def _source(self) -> Source:
        return Source(self.name_or_path, self.revision)

    @cached_property
    def _weights(self) -> dict[str, str | None]:
        if self._ready is not None:
            return {"revision": None, "weights_sha256": module_digest(self._ready[1])}
        return {"revision": self._source.revision, "weights_sha256": self._source.digest()}

    @property
    def _texts(self) -> HubTokenizer:
        return self._tokenizer

    @property
    def _tokenizer(self) -> HubTokenizer:
        with self._loading:  # used by the batcher's thread and by callers
            if self._loaded_tokenizer is None:
                tokenizer = (
                    load_tokenizer(self._source, trust_remote_code=self._trust)
                    if self._ready is None
                    else self._ready[0]
                )
                self._loaded_tokenizer = HubTokenizer(tokenizer, chat_template=self._chat_template)
            return self._loaded_tokenizer

    @cached_property
    def _module(self) -> Any:
        if self._ready is not None:
            return self._ready[1]
        return load_module(
            self._source,
            dtype=self.dtype,
            device=self.device,
            trust_remote_code=self._trust,
            pickled=self._pickled,
        )

    @cached_property
    def _engine(self) -> Engine:
        return Engine(
            network=Network(torch_library(), self._module),
            tokenizer=self._tokenizer,
            context_length=self._context_length or self._configured_length(),
            ends=self._ends(),
            batch_size=self.batch_size,
            max_batch_tokens=self.max_batch_tokens,
            max_tokens=self.max_tokens,
            abandoned=lambda: self._batcher.abandoned,
        )

    def _configured_length(self) -> int:
        config = self._module.config.get_text_config()
        length: int | None = getattr(config, "max_position_embeddings", None)
        if not length:
            raise ModelError(
                f"{self.name} does not state its context length; pass `context_length`",
                kind="unsupported",
            )
        return length

    def _ends(self) -> frozenset[int]:
        configured = getattr(self._module.generation_config, "eos_token_id", None)
        ends = configured if isinstance(configured, (list, tuple)) else [configured]
        return frozenset(end for end in [*ends, self._tokenizer.eos] if end is not None)

    def _answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Process a batch in the thread of the batcher."""
        try:
            engine = self._engine
        except ModelError as error:  # the same for all requests; not retried for each
            return [error] * len(requests)
        return engine.answer(requests)
