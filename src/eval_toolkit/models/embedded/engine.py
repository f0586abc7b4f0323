"""Batched processing of requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models._local import draw_seed
from eval_toolkit.models.embedded.network import Network
from eval_toolkit.models.embedded.weights import Weights
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, Usage

if TYPE_CHECKING:
    from eval_toolkit.models.embedded.decoding import Order
    from eval_toolkit.models.embedded.scoring import Item

Answer: TypeAlias = RawCompletion | RawLoglikelihood | Exception

_HELD = 8192
"""Maximum number of cached tokens of all active sequences (46 kB per token in a 135M model)."""


@dataclass(slots=True)
class _Scored:
    """Log-likelihood request split into items."""

    request: LoglikelihoodRequest
    prompt: str
    n_prompt: int
    n_tokens: list[int]
    items: list[Item]
    choices: list[list[int]]
    """Indices of the continuations that belong to the branches of each item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Process batches of requests with given weights and limits."""

    weights: Weights
    batch_size: int
    max_batch_tokens: int
    max_tokens: int
    context_length: int | None
    control_tokens: bool
    abandoned: Callable[[], bool] = field(default=lambda: False)
    """Whether the caller no longer waits for the answers."""

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """Return an answer or an error for each request; failures do not affect others."""
        network = self.weights.network
        answers: dict[int, Answer] = {}
        orders: dict[int, tuple[str, Order]] = {}
        scored: dict[int, _Scored] = {}
        for at, request in enumerate(requests):
            try:
                if isinstance(request, GenerateRequest):
                    orders[at] = self._order(request, network)
                elif request.rolling:
                    scored[at] = self._windows(request, network)
                else:
                    scored[at] = self._choices(request, network)
            except ModelError as error:
                answers[at] = error
        if scored:
            answers |= self._score(scored, network)
        if orders:
            answers |= self._generate(orders, network)
        return [answers[at] for at in range(len(requests))]

    def _limit(self, network: Network) -> int:
        return min(self.context_length or network.context_length, network.context_length)

    def _prompt(self, request: Request) -> tuple[str, list[int], str]:
        """Return a prompt's text, its ids (at least one), and the text after its control tokens."""
        tokenizer, chat = self.weights.tokenizer, self.weights.chat
        if isinstance(request.prompt, str):
            text = tail = request.prompt
            ids = [*tokenizer.lead, *tokenizer.encode(text, control=self.control_tokens)]
        else:
            text = chat.render(request.prompt)
            ids, tail = chat.encode(request.prompt, tokenizer)
        return whole_text(text), ids or [tokenizer.start], tail

    def _order(self, request: GenerateRequest, network: Network) -> tuple[str, Order]:
        from eval_toolkit.models.embedded.decoding import Order

        text, ids, _ = self._prompt(request)
        left = self._limit(network) - len(ids)
        if left < 1:
            raise _too_long(f"the prompt has {len(ids)} tokens", self._limit(network))
        order = Order(
            ids,
            min(request.max_tokens or self.max_tokens, left),
            temperature=request.heat,
            top_p=1.0 if request.top_p is None else request.top_p,
            stops=request.stop,
            seed=draw_seed(request),
        )
        return text, order

    def _choices(self, request: LoglikelihoodRequest, network: Network) -> _Scored:
        from eval_toolkit.models._tokens import continuation_ids
        from eval_toolkit.models.embedded.scoring import Item

        text, ids, tail = self._prompt(request)
        encoder = self.weights.tokenizer
        branches = [continuation_ids(encoder, tail, choice) for choice in request.continuations]
        longest = max(map(len, branches))
        if len(ids) + longest - 1 > self._limit(network):
            raise _too_long(
                f"prompt and continuation have {len(ids)} + {longest} tokens", self._limit(network)
            )
        n_tokens = [len(branch) for branch in branches]
        every = [list(range(len(branches)))]
        return _Scored(request, text, len(ids), n_tokens, [Item(ids, branches)], every)

    def _windows(self, request: LoglikelihoodRequest, network: Network) -> _Scored:
        from eval_toolkit.models._tokens import rolling_windows
        from eval_toolkit.models.embedded.scoring import Item

        tokenizer, limit = self.weights.tokenizer, self._limit(network)
        texts = [tokenizer.encode(text) for text in request.continuations]
        windows = [
            (choice, Item(context, [scored]))
            for choice, ids in enumerate(texts)
            for context, scored in rolling_windows(ids, tokenizer.start, limit)
        ]
        n_tokens = [len(ids) for ids in texts]
        choices = [[choice] for choice, _ in windows]
        return _Scored(request, "", 1, n_tokens, [item for _, item in windows], choices)

    def _check(self) -> None:
        if self.abandoned():
            raise ModelError("the caller no longer waits for the answer")

    def _score(self, scored: dict[int, _Scored], network: Network) -> dict[int, Answer]:
        from eval_toolkit.models.embedded.scoring import Scoring

        began = time.perf_counter()
        scoring = Scoring(network, self.max_batch_tokens, self._check)
        found = iter(scoring.run([item for one in scored.values() for item in one.items]))
        answers: dict[int, Answer] = {}
        for at, one in scored.items():
            totals = [0.0] * len(one.n_tokens)
            greedy = [True] * len(one.n_tokens)
            for choices in one.choices:
                for choice, score in zip(choices, next(found), strict=True):
                    totals[choice] += score.loglikelihood
                    greedy[choice] &= score.is_greedy
            answers[at] = RawLoglikelihood(
                totals,
                one.request.continuations,
                n_tokens=one.n_tokens,
                is_greedy=greedy,
                prompt=one.prompt,
                prompt_tokens=one.n_prompt,
                usage=_usage(one.n_prompt + sum(one.n_tokens), 0, began),
            )
        return answers

    def _generate(
        self, orders: dict[int, tuple[str, Order]], network: Network
    ) -> dict[int, Answer]:
        from eval_toolkit.models.embedded.decoding import Decoding

        began = time.perf_counter()
        decoding = Decoding(
            network,
            self.weights.tokenizer,
            batch_size=self.batch_size,
            max_held=_HELD,
            check=self._check,
        )
        done = decoding.run([order for _, order in orders.values()])
        return {
            at: RawCompletion(
                one.text,
                prompt=text,
                prompt_tokens=len(order.prompt),
                completion_tokens=one.n_tokens,
                finish_reason=one.finish_reason,
                usage=_usage(len(order.prompt), one.n_tokens, began),
            )
            for (at, (text, order)), one in zip(orders.items(), done, strict=True)
        }


def _usage(n_prompt: int, n_completion: int, began: float) -> Usage:
    return Usage(n_prompt, n_completion, latency_s=time.perf_counter() - began)


def _too_long(what: str, limit: int) -> ModelError:
    return ModelError(f"{what}; the model reads at most {limit}", kind="too_long")
