"""What the models of vLLM and SGLang have in common: tokens, requests, the life of the engine.

Both engines keep many requests in flight and batch them at each step, so a request is passed on as
soon as it arrives. Prompts are passed as token ids. Choices of one token each are scored by one
request for the probabilities of the next token, which reads a shared context from the engine's
prefix cache; longer ones by one request per choice for the probabilities of its prompt's last
tokens.
"""

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypedDict, Unpack

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import sha256_text
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError, MissingExtraError, ModelError
from eval_toolkit.models import _tokens
from eval_toolkit.models._local import LocalModel, draw_seed
from eval_toolkit.models.huggingface.loading import Source, load_tokenizer
from eval_toolkit.models.huggingface.tokenizer import HubTokenizer
from eval_toolkit.models.in_process.loop import LoopThread
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage
from eval_toolkit.plugins import origin_in_force

_SEEDS = 1 << 31
"""Number of seeds: both engines keep them in signed integers."""

Score = tuple[float, bool]
"""Log-probability of a token, and whether it is the most likely one."""


class Sizes(TypedDict, total=False):
    """Numbers of GPUs, requests and tokens."""

    tensor_parallel_size: int
    data_parallel_size: int
    concurrency: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Decoding:
    """How an answer is generated."""

    max_tokens: int
    temperature: float
    top_p: float
    stop: list[str]
    stop_tokens: list[int]
    seed: int


@dataclass(frozen=True, slots=True)
class Generated:
    """Text that an engine generated."""

    text: str
    n_tokens: int
    finish_reason: str


class EngineModel(LocalModel):
    """Causal language model in an engine with its own scheduler; see the subclasses."""

    library: ClassVar[str]
    """Module and extra of the engine."""
    max_next_tokens: ClassVar[int]
    """Number of tokens whose probabilities one request returns."""

    @gathers(Sizes, tensor_parallel_size=1, data_parallel_size=1, concurrency=256, max_tokens=256)
    def __init__(
        self,
        name_or_path: str,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        context_length: int | None = None,
        chat_template: str | None = None,
        trust_remote_code: bool = False,
        engine: Mapping[str, Any] | None = None,
        tokenizer: Any = None,
        **sizes: Unpack[Sizes],
    ) -> None:
        if revision is not None and Path(name_or_path).is_dir():
            raise InvalidInputError(
                f"`revision` is {revision!r}, but a folder has no revisions; omit it"
            )
        if engine:
            # Engines import classes that their options name.
            origin_in_force().refuse("sets options of the engine, which may run code")
        self.name_or_path = str(name_or_path)
        self.revision = revision
        self.dtype = dtype
        self.engine_options = dict(engine or {})
        self.tensor_parallel_size = validation.integer(
            sizes["tensor_parallel_size"], "tensor_parallel_size", low=1
        )
        self.data_parallel_size = validation.integer(
            sizes["data_parallel_size"], "data_parallel_size", low=1
        )
        self.concurrency = validation.integer(sizes["concurrency"], "concurrency", low=1)
        self.max_tokens = validation.integer(sizes["max_tokens"], "max_tokens", low=1)
        self._context_length = (
            None
            if context_length is None
            else validation.integer(context_length, "context_length", low=3)
        )
        self._chat_template = chat_template
        self._trust = trust_remote_code
        # Weights named by a file are not trusted, and pickled weights can run code.
        self._pickled = origin_in_force().trusted
        self._given_tokenizer = tokenizer
        self._loading = threading.Lock()
        self._loaded_tokenizer: HubTokenizer | None = None
        self._thread = LoopThread()
        self._engine: Any = None
        self._failure: ModelError | None = None

    # -- what an engine has to do

    def _start(self) -> Any:
        """Return a started engine."""
        raise NotImplementedError

    def _longest(self, engine: Any) -> int:
        """Return the maximum number of tokens of prompt and answer."""
        raise NotImplementedError

    async def _complete(self, engine: Any, ids: list[int], decoding: Decoding) -> Generated:
        """Return a continuation of a prompt."""
        raise NotImplementedError

    async def _next_tokens(self, engine: Any, ids: list[int], tokens: list[int]) -> list[Score]:
        """Return the scores of tokens that may follow a prompt."""
        raise NotImplementedError

    async def _last_tokens(self, engine: Any, ids: list[int], n: int) -> list[Score]:
        """Return the scores of the last ``n`` tokens of a prompt."""
        raise NotImplementedError

    def _is_dead(self, engine: Any) -> bool:
        """Return whether the engine cannot answer any more."""
        return False

    # -- the model

    @property
    def name(self) -> str:
        """Last component of the name or path."""
        return Path(self.name_or_path).name or self.name_or_path

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Continue a text or a conversation; see `LocalModel.generate`."""
        return await self._thread.run(self._told(self._generated(request)))

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Score continuations of a prompt, or whole texts; see `LocalModel.loglikelihood`."""
        return await self._thread.run(self._told(self._scored(request)))

    def describe(self) -> Mapping[str, Any]:
        """Return the settings that affect answers; loads the tokenizer and hashes local weights."""
        template = self._tokenizer.chat_template
        return {
            "kind": self.library,
            "name": self.name,
            **self._weights,
            "dtype": self.dtype,
            "chat_template_sha256": None if template is None else sha256_text(template),
            "context_length": self._context_length,
            "max_tokens": self.max_tokens,
            "tensor_parallel_size": self.tensor_parallel_size,
            "data_parallel_size": self.data_parallel_size,
            "engine": self.engine_options,
            self.library: str(self._module.__version__),
        }

    @property
    def _module(self) -> ModuleType:
        return require(self.library, feature=type(self).__name__, extra=self.library)

    @cached_property
    def _source(self) -> Source:
        _ = self._module  # the clearest of the errors about packages that are not installed
        return Source(self.name_or_path, self.revision)

    @cached_property
    def _weights(self) -> dict[str, str | None]:
        return {"revision": self._source.revision, "weights_sha256": self._source.digest()}

    @property
    def _texts(self) -> HubTokenizer:
        return self._tokenizer

    @property
    def _tokenizer(self) -> HubTokenizer:
        with self._loading:  # used by the engine's thread and by callers
            if self._loaded_tokenizer is None:
                tokenizer = self._given_tokenizer or load_tokenizer(
                    self._source, trust_remote_code=self._trust
                )
                self._loaded_tokenizer = HubTokenizer(tokenizer, chat_template=self._chat_template)
            return self._loaded_tokenizer

    # -- in the engine's thread

    def _started(self) -> Any:
        """Return the engine; a failure to start it is not tried again for each request."""
        if self._failure is not None:
            raise self._failure
        if self._engine is None:
            try:
                self._engine = self._start()
            except (ModelError, MissingExtraError):
                raise
            except Exception as error:  # e.g. out of memory, or an option that does not exist
                self._failure = ModelError(
                    f"{self.library} cannot load {self.name_or_path}: {_first_line(error)}",
                    kind="not_found",
                )
                raise self._failure from error
        return self._engine

    async def _told(self, work: Any) -> Any:
        """Return the result of a coroutine; raise what the engine raises as `ModelError`."""
        try:
            return await work
        except (ModelError, MissingExtraError, InvalidInputError):
            raise
        except Exception as error:
            dead = self._engine is not None and self._is_dead(self._engine)
            raise ModelError(
                f"{self.library} {'has stopped' if dead else 'failed'}: {_first_line(error)}",
                kind="unreachable" if dead else self._kind_of(error),
            ) from error

    def _kind_of(self, error: Exception) -> str:
        return "bad_request" if isinstance(error, ValueError) else "other"

    async def _generated(self, request: GenerateRequest) -> RawCompletion:
        began = time.perf_counter()
        engine = self._started()
        text, ids = _tokens.read_prompt(self._tokenizer, request)
        left = self._longest(engine) - len(ids)
        if left < 1:
            raise self._too_long(
                engine, f"the prompt has {len(ids)} tokens, which leaves no room for an answer"
            )
        decoding = Decoding(
            max_tokens=min(request.max_tokens or self.max_tokens, left),
            temperature=request.heat,
            top_p=1.0 if request.top_p is None else request.top_p,
            stop=list(request.stop),
            stop_tokens=sorted(self._tokenizer.stop_tokens(request.stop)),
            seed=draw_seed(request) % _SEEDS,
        )
        made = await self._complete(engine, ids, decoding)
        return RawCompletion(
            made.text,
            prompt=text,
            prompt_tokens=len(ids),
            completion_tokens=made.n_tokens,
            finish_reason=made.finish_reason,
            usage=Usage(len(ids), made.n_tokens, latency_s=time.perf_counter() - began),
        )

    async def _scored(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        began = time.perf_counter()
        engine = self._started()
        text, n_prompt, parts = self._parts(engine, request)
        for part in parts:
            for context, scored in part:
                if len(context) + len(scored) >= self._longest(engine):
                    raise self._too_long(
                        engine,
                        f"prompt and continuation have {len(context)} + {len(scored)} tokens",
                    )
        scores = await self._scores(engine, parts)
        n_tokens = [sum(len(scored) for _, scored in part) for part in parts]
        return RawLoglikelihood(
            [sum(number for number, _ in score) for score in scores],
            request.continuations,
            n_tokens=n_tokens,
            is_greedy=[all(is_greedy for _, is_greedy in score) for score in scores],
            prompt=text,
            prompt_tokens=n_prompt,
            usage=Usage(n_prompt + sum(n_tokens), latency_s=time.perf_counter() - began),
        )

    def _parts(
        self, engine: Any, request: LoglikelihoodRequest
    ) -> tuple[str, int, list[list[tuple[list[int], list[int]]]]]:
        """Return the prompt, its length, and the (context, scored) pairs of each continuation."""
        tokenizer = self._tokenizer
        if not request.rolling:
            text, ids = _tokens.read_prompt(tokenizer, request)
            choices = [
                _tokens.continuation_ids(tokenizer, text, continuation)
                for continuation in request.continuations
            ]
            return text, len(ids), [[(ids, choice)] for choice in choices]
        start = tokenizer.start
        if start is None:
            raise ModelError(
                "whole texts cannot be scored: the tokenizer has no beginning-of-text token",
                kind="unsupported",
            )
        # A window and its context are one prompt, and engines need room for one more token.
        length = self._longest(engine) - 2
        texts = [tokenizer.encode(text, control=False) for text in request.continuations]
        return "", 1, [list(_tokens.rolling_windows(ids, start, length)) for ids in texts]

    async def _scores(
        self, engine: Any, parts: Sequence[Sequence[tuple[list[int], list[int]]]]
    ) -> list[list[Score]]:
        """Return the score of each token of each part; equal parts are scored once."""
        contexts = {tuple(context) for part in parts for context, _ in part}
        last = {tuple(scored): scored for part in parts for _, scored in part}
        if len(contexts) == 1 and all(len(one) == 1 for one in last):
            tokens = [token for (token,) in last]
            if len(tokens) <= self.max_next_tokens:
                [context] = contexts
                found = await self._next_tokens(engine, list(context), tokens)
                by_token = dict(zip(tokens, found, strict=True))
                return [[by_token[scored[0]] for _, scored in part] for part in parts]
        rows = list(
            dict.fromkeys((tuple(one), tuple(scored)) for part in parts for one, scored in part)
        )
        numbers = await asyncio.gather(
            *(self._last_tokens(engine, [*one, *scored], len(scored)) for one, scored in rows)
        )
        by_row = dict(zip(rows, numbers, strict=True))
        return [
            [score for one, scored in part for score in by_row[tuple(one), tuple(scored)]]
            for part in parts
        ]

    def _too_long(self, engine: Any, what: str) -> ModelError:
        return ModelError(
            f"{what}; the model reads at most {self._longest(engine)}", kind="too_long"
        )


def _first_line(error: Exception) -> str:
    """Return the type and the first line of an error."""
    return next(iter(f"{type(error).__name__}: {error}".strip().splitlines()), type(error).__name__)
