"""Answer batches of requests."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np

from eval_toolkit.errors import ModelError
from eval_toolkit.models import _tokens
from eval_toolkit.models._local import draw_seed
from eval_toolkit.models.huggingface.decoding import Generated, Row
from eval_toolkit.models.huggingface.encoding import BatchEncoder
from eval_toolkit.models.huggingface.generation import Generation
from eval_toolkit.models.huggingface.memory import Budget
from eval_toolkit.models.huggingface.network import Network
from eval_toolkit.models.huggingface.scoring import Scores, Scoring
from eval_toolkit.models.huggingface.tokenizer import HubTokenizer
from eval_toolkit.models.huggingface.trees import Leaf
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage

Answer = RawCompletion | RawLoglikelihood | Exception


@dataclass(slots=True)
class _Scored:
    """Log-likelihood request, and the indices of its continuations in the batch."""

    place: int
    request: LoglikelihoodRequest
    prompt: str
    n_prompt: int
    n_tokens: list[int]
    first: int
    """Index of the first continuation."""
    left: int = field(init=False)
    """Number of tokens that are not scored yet."""

    def __post_init__(self) -> None:
        self.left = sum(self.n_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Loaded network with its tokenizer and limits."""

    network: Network
    tokenizer: HubTokenizer
    budget: Budget
    context_length: int
    ends: frozenset[int]
    max_tokens: int
    batch_invariant: bool
    """Whether to process each request in its own batch."""
    abandoned: Callable[[], bool]
    """Whether the caller no longer waits for the answers."""
    settle: Callable[[Mapping[int, Answer]], None]
    """Callback that receives finished answers, keyed by request index."""

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Return an answer or an error for each request; failures do not affect others."""
        work = _Work(self, requests)
        with self.network.in_use():
            work.generate()
            work.score()
        unanswered = ModelError("the caller no longer waits for the answer")
        return [work.answers.get(place, unanswered) for place in range(len(requests))]


class _Work:
    """Batch of requests in progress."""

    def __init__(self, engine: Engine, requests: Sequence[Request]) -> None:
        self._engine = engine
        self.answers: dict[int, Answer] = {}
        self._began = time.perf_counter()
        self._rows: list[Row] = []
        self._leaves: list[Leaf] = []
        self._scored: list[_Scored] = []
        self._owners: list[_Scored] = []
        encoder = BatchEncoder(engine.tokenizer)
        self._add_windows(encoder, requests)
        places = [place for place, one in enumerate(requests) if not _rolls(one)]
        prompts = encoder.prompts([requests[place] for place in places])
        choices: list[tuple[int, LoglikelihoodRequest, str, list[int]]] = []
        for place, prompt in zip(places, prompts, strict=True):
            request = requests[place]
            if isinstance(prompt, ModelError):
                self.answers[place] = prompt
            elif isinstance(request, GenerateRequest):
                self._add_row(place, request, *prompt)
            else:
                choices.append((place, request, *prompt))
        self._add_choices(encoder, choices)
        self._totals = np.zeros(len(self._owners))
        self._greedy = np.ones(len(self._owners), dtype=bool)

    def generate(self) -> None:
        """Answer the generation requests."""
        engine = self._engine
        generation = Generation(
            network=engine.network,
            budget=engine.budget,
            done=self._generated,
            fail=lambda row, error: self._settle({row.place: _failure(error)}),
            abandoned=engine.abandoned,
        )
        for rows in [[row] for row in self._rows] if engine.batch_invariant else [self._rows]:
            generation.run(rows)

    def score(self) -> None:
        """Answer the log-likelihood requests."""
        engine = self._engine
        scoring = Scoring(engine.network, engine.budget, self._take, self._fail)
        parts: Iterable[list[Leaf]] = [self._leaves]
        if engine.batch_invariant:
            parts = self._by_request()
        for leaves in parts:
            scoring.run(leaves, engine.abandoned)

    def _by_request(self) -> Iterable[list[Leaf]]:
        found: dict[int, list[Leaf]] = {}
        for leaf in self._leaves:
            found.setdefault(self._owners[leaf.owners[0]].place, []).append(leaf)
        return found.values()

    def _settle(self, answers: dict[int, Answer]) -> None:
        self.answers |= answers
        self._engine.settle(answers)

    def _add_row(self, place: int, request: GenerateRequest, text: str, ids: list[int]) -> None:
        engine = self._engine
        left = engine.context_length - len(ids)
        if left < 1:
            self.answers[place] = self._too_long(
                f"the prompt has {len(ids)} tokens, which leaves no room for an answer"
            )
            return
        row = Row(
            place=place,
            request=request,
            text=text,
            prompt=np.array(ids, dtype=np.int32),
            limit=min(request.max_tokens or engine.max_tokens, left),
            ends=engine.ends | engine.tokenizer.stop_tokens(request.stop),
            seed=draw_seed(request),
            text_after=engine.tokenizer.text_after,
        )
        self._rows.append(row)

    def _add_choices(
        self,
        encoder: BatchEncoder,
        requests: Sequence[tuple[int, LoglikelihoodRequest, str, list[int]]],
    ) -> None:
        found = encoder.continuations([(text, request) for _, request, text, _ in requests])
        limit = self._engine.context_length
        for (place, request, text, ids), choices in zip(requests, found, strict=True):
            if isinstance(choices, ModelError):
                self.answers[place] = choices
                continue
            longest = max(map(len, choices))
            if len(ids) + longest - 1 > limit:
                self.answers[place] = self._too_long(
                    f"prompt and continuation have {len(ids)} + {longest} tokens"
                )
                continue
            one = self._own(place, request, text, len(ids), [len(ids) for ids in choices])
            branches = [np.array(choice, dtype=np.int32) for choice in choices]
            owners = range(one.first, one.first + len(choices))
            self._leaves.append(Leaf(np.array(ids, dtype=np.int32), branches, owners))

    def _add_windows(self, encoder: BatchEncoder, requests: Sequence[Request]) -> None:
        """Add the windows of texts that are scored as a whole."""
        start = encoder.start
        for place, request in enumerate(requests):
            if not _rolls(request):
                continue
            if start is None:
                self.answers[place] = ModelError(
                    "whole texts cannot be scored: the tokenizer has no beginning-of-text token",
                    kind="unsupported",
                )
                continue
            texts = [encoder.encode(text, control=False) for text in request.continuations]
            try:
                windows = [
                    list(_tokens.rolling_windows(ids, start, self._engine.context_length))
                    for ids in texts
                ]
            except ModelError as error:
                self.answers[place] = error
                continue
            one = self._own(place, request, "", 1, [len(ids) for ids in texts])
            self._leaves += [
                Leaf(np.array(context, np.int32), [np.array(scored, np.int32)], [one.first + at])
                for at, parts in enumerate(windows)
                for context, scored in parts
            ]

    def _own(
        self, place: int, request: Any, prompt: str, n_prompt: int, n_tokens: list[int]
    ) -> _Scored:
        one = _Scored(place, request, prompt, n_prompt, n_tokens, len(self._owners))
        self._scored.append(one)
        self._owners += [one] * len(n_tokens)
        return one

    def _too_long(self, what: str) -> ModelError:
        limit = self._engine.context_length
        return ModelError(f"{what}; the model reads at most {limit}", kind="too_long")

    def _take(self, scores: Scores) -> None:
        """Add the scores of a batch and answer completed requests."""
        owners, n = scores.owners, len(self._owners)
        self._totals += np.bincount(owners, scores.logprobs.astype(np.float64), minlength=n)
        self._greedy[owners[~scores.greedy]] = False
        counts = np.bincount(owners, minlength=n)
        ready: dict[int, Answer] = {}
        for owner in np.flatnonzero(counts).tolist():
            one = self._owners[owner]
            one.left -= int(counts[owner])
            if one.left == 0 and one.place not in self.answers:
                ready[one.place] = self._scores(one)
        self._settle(ready)

    def _fail(self, owners: Iterable[int], error: Exception) -> None:
        places = {self._owners[owner].place for owner in owners}
        self._settle({place: _failure(error) for place in places if place not in self.answers})

    def _scores(self, one: _Scored) -> Answer:
        own = slice(one.first, one.first + len(one.n_tokens))
        totals = self._totals[own].tolist()
        if any(map(math.isnan, totals)):
            return ModelError("the network returned NaN; load it with dtype='float32'")
        return RawLoglikelihood(
            totals,
            one.request.continuations,
            n_tokens=one.n_tokens,
            is_greedy=self._greedy[own].tolist(),
            prompt=one.prompt,
            prompt_tokens=one.n_prompt,
            usage=Usage(one.n_prompt + sum(one.n_tokens), latency_s=self._seconds()),
        )

    def _generated(self, done: Generated) -> None:
        n_prompt, n_new = len(done.row.prompt), len(done.ids)
        answer = RawCompletion(
            done.text,
            prompt=done.row.text,
            prompt_tokens=n_prompt,
            completion_tokens=n_new,
            finish_reason=done.finish_reason,
            usage=Usage(n_prompt, n_new, latency_s=self._seconds()),
        )
        self._settle({done.row.place: answer})

    def _seconds(self) -> float:
        return time.perf_counter() - self._began


def _rolls(request: Request) -> TypeGuard[LoglikelihoodRequest]:
    """Return whether a request scores whole texts."""
    return isinstance(request, LoglikelihoodRequest) and request.rolling


def _failure(error: Exception) -> ModelError:
    failure = ModelError(f"the network failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
