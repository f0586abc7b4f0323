"""Batched processing of requests by length."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from eval_toolkit.errors import ModelError
from eval_toolkit.models import _tokens
from eval_toolkit.models._local import draw_seed
from eval_toolkit.models.huggingface.decoding import Row, decode
from eval_toolkit.models.huggingface.network import Network
from eval_toolkit.models.huggingface.scoring import Shared, score
from eval_toolkit.models.huggingface.tokenizer import HubTokenizer
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage

Answer = RawCompletion | RawLoglikelihood | Exception


class _Sized(Protocol):
    """Work for one request, with its size in a batch."""

    @property
    def place(self) -> int: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def length(self) -> int: ...


_Work = TypeVar("_Work", bound=_Sized)


@dataclass(slots=True)
class _Sums:
    """Partial results for the continuations of a request."""

    request: LoglikelihoodRequest
    prompt: str
    n_prompt: int
    n_tokens: list[int]
    totals: list[float] = field(init=False)
    greedy: list[bool] = field(init=False)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.totals = [0.0] * len(self.n_tokens)
        self.greedy = [True] * len(self.n_tokens)

    def answer(self) -> Answer:
        if any(map(math.isnan, self.totals)):
            return ModelError("the network returned NaN; load it with dtype='float32'")
        return RawLoglikelihood(
            self.totals,
            self.request.continuations,
            n_tokens=self.n_tokens,
            is_greedy=self.greedy,
            prompt=self.prompt,
            prompt_tokens=self.n_prompt,
            usage=Usage(self.n_prompt + sum(self.n_tokens), latency_s=self.seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Loaded network with its tokenizer and limits."""

    network: Network
    tokenizer: HubTokenizer
    context_length: int
    ends: frozenset[int]
    batch_size: int
    max_batch_tokens: int
    max_tokens: int
    abandoned: Callable[[], bool]
    """Whether the caller no longer waits for the answers."""

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Return an answer or an error for each request; failures are independent."""
        answers: dict[int, Any] = {}
        rows: list[Row] = []
        shared: list[Shared] = []
        for place, request in enumerate(requests):
            try:
                if isinstance(request, GenerateRequest):
                    rows.append(self._row(place, request))
                elif request.rolling:
                    shared += self._windows(place, request, answers)
                else:
                    shared += self._choices(place, request, answers)
            except ModelError as error:
                answers[place] = error
        with self.network.torch.inference_mode():
            for batch in self._batches(rows):
                _attempt(batch, self._generate, answers)
            for group in self._batches(shared):
                _attempt(group, self._score, answers)
        return [
            answer.answer() if isinstance(answer, _Sums) else answer
            for _, answer in sorted(answers.items())
        ]

    def _row(self, place: int, request: GenerateRequest) -> Row:
        text, ids = _tokens.read_prompt(self.tokenizer, request)
        left = self.context_length - len(ids)
        if left < 1:
            raise self._too_long(
                f"the prompt has {len(ids)} tokens, which leaves no room for an answer"
            )
        return Row(
            place=place,
            request=request,
            text=text,
            prompt=ids,
            limit=min(request.max_tokens or self.max_tokens, left),
            ends=self.ends | self.tokenizer.stop_tokens(request.stop),
            seed=draw_seed(request),
            text_after=self.tokenizer.text_after,
        )

    def _choices(
        self, place: int, request: LoglikelihoodRequest, answers: dict[int, Any]
    ) -> list[Shared]:
        text, ids = _tokens.read_prompt(self.tokenizer, request)
        choices = [
            _tokens.continuation_ids(self.tokenizer, text, continuation)
            for continuation in request.continuations
        ]
        longest = max(map(len, choices))
        if len(ids) + longest - 1 > self.context_length:
            raise self._too_long(f"prompt and continuation have {len(ids)} + {longest} tokens")
        answers[place] = _Sums(request, text, len(ids), [len(choice) for choice in choices])
        at_once = max(1, self.max_batch_tokens // (len(ids) + longest))
        return [
            Shared(place, ids, choices[at : at + at_once], range(len(choices))[at : at + at_once])
            for at in range(0, len(choices), at_once)
        ]

    def _windows(
        self, place: int, request: LoglikelihoodRequest, answers: dict[int, Any]
    ) -> list[Shared]:
        start = self.tokenizer.start
        if start is None:
            raise ModelError(
                "whole texts cannot be scored: the tokenizer has no beginning-of-text token",
                kind="unsupported",
            )
        texts = [self.tokenizer.encode(text, control=False) for text in request.continuations]
        answers[place] = _Sums(request, "", 1, [len(ids) for ids in texts])
        return [
            Shared(place, context, [scored], [at])
            for at, ids in enumerate(texts)
            for context, scored in _tokens.rolling_windows(ids, start, self.context_length)
        ]

    def _too_long(self, what: str) -> ModelError:
        return ModelError(f"{what}; the model reads at most {self.context_length}", kind="too_long")

    def _batches(self, work: Sequence[_Work]) -> Iterator[list[_Work]]:
        """Yield batches of similar length, longest first, so that memory errors occur early."""
        batch: list[_Work] = []
        n_rows = 0
        for item in sorted(work, key=lambda item: -item.length):
            cells = (n_rows + item.n_rows) * (batch or [item])[0].length
            if batch and (len(batch) == self.batch_size or cells > self.max_batch_tokens):
                yield batch
                batch, n_rows = [], 0
            batch.append(item)
            n_rows += item.n_rows
        if batch:
            yield batch

    def _generate(self, rows: Sequence[Row], answers: dict[int, Any]) -> None:
        began = time.perf_counter()
        for row, done in zip(rows, decode(self.network, rows, self.abandoned), strict=True):
            n_prompt, n_new = len(row.prompt), len(done.ids)
            answers[row.place] = RawCompletion(
                done.text,
                prompt=row.text,
                prompt_tokens=n_prompt,
                completion_tokens=n_new,
                finish_reason=done.finish_reason,
                usage=Usage(n_prompt, n_new, latency_s=time.perf_counter() - began),
            )

    def _score(self, items: Sequence[Shared], answers: dict[int, Any]) -> None:
        began = time.perf_counter()
        scores = score(self.network, items)
        for item, scored in zip(items, scores, strict=True):
            sums = answers[item.place]
            if not isinstance(sums, _Sums):  # another part of the request has failed
                continue
            sums.seconds += time.perf_counter() - began
            for at, (total, is_greedy) in zip(item.slots, scored, strict=True):
                sums.totals[at] += total
                sums.greedy[at] &= is_greedy


def _attempt(
    batch: Sequence[_Work],
    run: Callable[[Sequence[_Work], dict[int, Any]], None],
    answers: dict[int, Any],
) -> None:
    """Run a batch; if it fails, run its halves to isolate the failing request."""
    try:
        run(batch, answers)
    except Exception as error:  # e.g. out of memory; a network may raise any exception
        if len(batch) > 1:
            for item in batch:
                _attempt([item], run, answers)
        else:
            failure = ModelError(f"the network failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            answers[batch[0].place] = failure
