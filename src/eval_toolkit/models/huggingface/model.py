"""`HuggingFaceModel`: a transformers model with batched requests."""

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypedDict, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError, ModelError
from eval_toolkit.models._local import LocalModel
from eval_toolkit.models.batching import Batcher
from eval_toolkit.models.huggingface.checks import probe
from eval_toolkit.models.huggingface.engine import Answer, Engine
from eval_toolkit.models.huggingface.loading import (
    LoadOptions,
    Source,
    load_module,
    load_tokenizer,
    module_digest,
    torch_library,
    transformers_library,
)
from eval_toolkit.models.huggingface.memory import budget_of
from eval_toolkit.models.huggingface.network import Network
from eval_toolkit.models.huggingface.tokenizer import HubTokenizer
from eval_toolkit.models.requests import Request
from eval_toolkit.plugins import origin_in_force

_DTYPES = ("auto", "float32", "float16", "bfloat16")
_AT_ONCE = {"cpu": 128}
_MANY = 4096
"""Number of concurrent requests; large enough to batch similar lengths and shared prefixes."""


class _Options(TypedDict, total=False):
    """Options for loading weights, and limits on batches and answers."""

    attention: str | None
    quantization: str | Mapping[str, Any] | None
    device_map: str | Mapping[str, Any] | None
    compile: bool
    batch_invariant: bool
    batch_size: int | str
    max_batch_tokens: int | None
    max_tokens: int


class HuggingFaceModel(LocalModel):
    """Causal language model from transformers (extra ``hf``, and torch), loaded on first use.

    Parameters
    ----------
    name_or_path : str
        Folder, or name on the Hugging Face Hub; only a label if ``model`` and ``tokenizer`` are
        given.
    revision : str, optional
        Branch, tag or commit on the Hub. The resolved commit is loaded and recorded.
    device : str, default "auto"
        Torch device name, e.g. "cuda:0"; "auto" selects a GPU (cuda, then mps) if available, else
        the CPU.
    dtype : str, default "auto"
        "float32", "float16" or "bfloat16"; "auto" uses the type of the weights on a GPU and float32
        on the CPU.
    attention : str, optional
        Attention implementation in transformers, e.g. "sdpa" or "eager".
    quantization : str or mapping, optional
        "int8" or "int4" (with bitsandbytes, or else torchao), or bitsandbytes options.
    device_map : str or mapping, optional
        Device of each part of the network, e.g. "auto" to spread it over several GPUs (requires
        accelerate).
    compile : bool, default False
        Whether to compile the layers, except attention, with torch: slow to start, then faster.
    batch_invariant : bool, default False
        Whether to process requests one by one, so that results are bitwise independent of other
        requests. This is many times slower on a GPU.
    batch_size : int or "auto", default "auto"
        Maximum number of requests in a batch; by default, as many as fit into memory.
    max_batch_tokens : int, optional
        Maximum number of tokens in a batch, including padding; by default, as many as fit into
        memory.
    max_tokens : int, default 256
        Maximum number of tokens in an answer if the request sets no limit.
    context_length : int, optional
        Maximum context length; by default, taken from the model's configuration.
    chat_template : str, optional
        Jinja chat template that replaces the tokenizer's.
    trust_remote_code : bool, default False
        Whether to run code shipped with the model.
    tokenizer, model : transformers objects, optional
        Already loaded objects, used unchanged; pass both or neither.

    Notes
    -----
    Shared prefixes are processed once, continuations of a prompt attend to a single copy of it, and
    waiting sequences replace finished ones. Networks that do not support this, as determined by
    comparison with their plain forward pass, process padded rows instead. Batches that run out of
    memory are halved.

    The answer to a request does not depend on other requests: sequences do not attend to each
    other, and sampling uses the seed of the request (derived from the request if it has none).
    Batches differ only by rounding, at most 1e-4 nats per log-likelihood in float32; see
    ``batch_invariant``. Prompts are never truncated: a prompt that does not fit raises `ModelError`
    with kind "too_long".

    Examples
    --------
    >>> model = HuggingFaceModel("HuggingFaceTB/SmolLM2-135M-Instruct")
    >>> model.name
    'SmolLM2-135M-Instruct'
    """

    @gathers(
        _Options,
        attention=None,
        quantization=None,
        device_map=None,
        compile=False,
        batch_invariant=False,
        batch_size="auto",
        max_batch_tokens=None,
        max_tokens=256,
    )
    def __init__(
        self,
        name_or_path: str,
        *,
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        context_length: int | None = None,
        chat_template: str | None = None,
        trust_remote_code: bool = False,
        tokenizer: Any = None,
        model: Any = None,
        **options: Unpack[_Options],
    ) -> None:
        if (tokenizer is None) != (model is None):
            raise InvalidInputError("pass `tokenizer` and `model` together, or neither")
        if revision is not None and Path(name_or_path).is_dir():
            raise InvalidInputError(
                f"`revision` is {revision!r}, but a folder has no revisions; omit it"
            )
        self.name_or_path = str(name_or_path)
        self.revision = revision
        self.max_tokens = validation.integer(options["max_tokens"], "max_tokens", low=1)
        self.batch_size = _limit(options["batch_size"], "batch_size", "auto")
        self.max_batch_tokens = _limit(options["max_batch_tokens"], "max_batch_tokens", None)
        self.batch_invariant = bool(options["batch_invariant"])
        self._context_length = _limit(context_length, "context_length", None)
        self._options = _load_options(device, dtype, options, loads=model is None)
        self._compile = bool(options["compile"])
        self._chat_template = chat_template
        self._trust = trust_remote_code
        # Weights named by a file are not trusted, and pickled weights can run code.
        self._pickled = origin_in_force().trusted
        self._ready = None if model is None else (tokenizer, model)
        self._loading = threading.Lock()
        self._loaded_tokenizer: HubTokenizer | None = None
        self._batcher: Batcher[Request, Any] = Batcher(self._answer, max_batch=_MANY)

    @property
    def name(self) -> str:
        """Last component of the name or path."""
        return Path(self.name_or_path).name or self.name_or_path

    @property
    def device(self) -> str:
        """Torch device name of the network, with "auto" resolved."""
        if self._ready is not None:
            return str(getattr(self._ready[1], "device", "cpu"))
        return self._options.resolved_device()

    @cached_property
    def dtype(self) -> str:
        """Data type of the network; "auto" is resolved by reading its configuration."""
        if self._ready is not None:
            return str(self._ready[1].dtype).removeprefix("torch.")
        return self._options.resolved_dtype(self._source, trust_remote_code=self._trust)

    @property
    def concurrency(self) -> int:
        """Recommended concurrency; enough requests to sort by length and share prefixes."""
        if self.batch_size is not None:
            return 4 * self.batch_size
        if find_spec("torch") is None:  # reported when the weights are loaded
            return _AT_ONCE["cpu"]
        return _AT_ONCE.get(self.device.partition(":")[0], _MANY)

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that affect answers; loads the tokenizer and hashes local weights."""
        template = self._tokenizer.chat_template
        options = self._options
        settings = {
            "attention": options.attention,
            "quantization": options.quantization,
            "batch_invariant": self.batch_invariant or None,
        }
        return {
            "kind": "huggingface",
            "name": self.name,
            **self._weights,
            "dtype": self.dtype,
            "device": self.device.partition(":")[0],
            "chat_template_sha256": None if template is None else sha256_text(template),
            "context_length": self._context_length,
            "max_tokens": self.max_tokens,
            "torch": torch_library().__version__,
            "transformers": transformers_library().__version__,
            **{name: value for name, value in settings.items() if value is not None},
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
            self._options,
            trust_remote_code=self._trust,
            pickled=self._pickled,
        )

    @cached_property
    def _engine(self) -> Engine:
        torch, module = torch_library(), self._module
        network = Network(torch, module, compiled=self._compile)
        probe(network)
        return Engine(
            network=network,
            tokenizer=self._tokenizer,
            budget=budget_of(
                torch,
                module,
                network.device,
                batch_size=self.batch_size,
                max_batch_tokens=self.max_batch_tokens,
            ),
            context_length=self._context_length or self._configured_length(),
            ends=self._ends(),
            max_tokens=self.max_tokens,
            batch_invariant=self.batch_invariant,
            abandoned=lambda: self._batcher.abandoned,
            settle=self._batcher.settle,
        )

    def _configured_length(self) -> int:
        config = self._module.config.get_text_config()
        length: int | None = getattr(config, "max_position_embeddings", None)
        if not length:
            raise ModelError(
                f"{self.name} does not declare its context length; set `context_length`",
                kind="unsupported",
            )
        return length

    def _ends(self) -> frozenset[int]:
        configured = getattr(self._module.generation_config, "eos_token_id", None)
        ends = configured if isinstance(configured, (list, tuple)) else [configured]
        return frozenset(end for end in [*ends, self._tokenizer.eos] if end is not None)

    def _answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Process a batch in the batcher's thread."""
        try:
            engine = self._engine
        except ModelError as error:  # affects all requests, so it is not retried for each
            return [error] * len(requests)
        return engine.answer(requests)


def _limit(value: Any, name: str, default: str | None) -> int | None:
    """Validate a limit: a positive integer, or None for the default."""
    return None if value == default or value is None else validation.integer(value, name, low=1)


def _load_options(device: str, dtype: str, options: _Options, *, loads: bool) -> LoadOptions:
    """Return the loading options; raise an error if any is set for an already loaded model."""
    named = ("attention", "quantization", "device_map")
    given = next((name for name in named if options.get(name) is not None), None)
    if given and not loads:
        raise InvalidInputError(
            f"`{given}` applies only when weights are loaded; omit it when passing `model`"
        )
    quantization = options["quantization"]
    if isinstance(quantization, str):
        validation.choice(quantization, "quantization", ("int8", "int4"))
    return LoadOptions(
        dtype=validation.choice(dtype, "dtype", _DTYPES),
        device=device,
        attention=options["attention"],
        quantization=quantization,
        device_map=options["device_map"],
    )
