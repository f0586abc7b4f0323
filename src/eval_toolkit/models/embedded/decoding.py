"""Batched text generation in which sequences do not affect each other.

Batching is continuous: each pass processes the next token of every active sequence along with
prompt segments of new ones, and a finished sequence frees its slot. The tokens sampled for a
sequence depend only on its own seed, never on other sequences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.models.embedded.network import Cache, Network, Segment
from eval_toolkit.models.embedded.prefixes import shared_prefixes
from eval_toolkit.models.embedded.tokenizer import TextStream, Tokenizer
from eval_toolkit.seeds import derive_seed

PIECE = 256


@dataclass(frozen=True, slots=True)
class Order:
    """Prompt and generation settings of a request."""

    prompt: Sequence[int]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    stops: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated text, finish reason ("stop" or "length") and number of tokens."""

    text: str
    finish_reason: str
    n_tokens: int


@dataclass(slots=True)
class _Row:
    """Sequence that is being generated."""

    at: int
    order: Order
    cache: Cache
    stream: TextStream
    draw: "np.random.Generator"
    pending: Sequence[int]
    """Tokens that are not yet in the cache."""
    n_tokens: int = 0
    ended: str = field(default="")


class Decoding:
    """Batched text generation with a network.

    Together, the active sequences have at most ``max_held`` tokens; a single one may have more.
    ``check`` is called before every pass and may raise an exception to stop.
    """

    def __init__(
        self,
        network: Network,
        tokenizer: Tokenizer,
        *,
        batch_size: int,
        max_held: int,
        check: Callable[[], None],
    ) -> None:
        self._network = network
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._max_held = max_held
        self._check = check

    def run(self, orders: Sequence[Order]) -> list[Generated]:
        """Generate the text of each order."""
        done: dict[int, Generated] = {}
        rows: list[_Row] = []
        for group in shared_prefixes([order.prompt for order in orders]):
            shared = None
            for at in group.members:
                while rows and not self._has_room(rows, orders[at], group.n_shared):
                    rows = self._step(rows, done)
                if shared is None and group.n_shared:
                    shared = self._cached(orders[at].prompt[: group.n_shared])
                rows.append(self._row(at, orders[at], shared))
        while rows:
            rows = self._step(rows, done)
        return [done[at] for at in range(len(orders))]

    def _has_room(self, rows: Sequence[_Row], order: Order, n_shared: int) -> bool:
        held = n_shared + sum(self._reach(row.order) for row in rows)
        return len(rows) < self._batch_size and held + self._reach(order) <= self._max_held

    def _reach(self, order: Order) -> int:
        return min(len(order.prompt) + order.max_tokens, self._network.context_length)

    def _cached(self, ids: Sequence[int]) -> Cache:
        cache = Cache(self._network, len(ids))
        for at in range(0, len(ids), PIECE):
            self._check()
            self._network.forward([_segment(ids[at : at + PIECE], cache)])
        return cache

    def _row(self, at: int, order: Order, shared: Cache | None) -> _Row:
        cache = Cache(self._network, min(self._reach(order), len(order.prompt) + PIECE))
        if shared is not None:
            cache.take(shared)
        stream = TextStream(self._tokenizer, order.stops)
        draw = np.random.default_rng(derive_seed(order.seed, "decoding"))
        return _Row(at, order, cache, stream, draw, order.prompt[cache.length :])

    def _step(self, rows: Sequence[_Row], done: dict[int, Generated]) -> list[_Row]:
        """Run one forward pass; return the unfinished rows and store the finished ones."""
        self._check()
        segments = [_segment(row.pending[:PIECE], row.cache) for row in rows]
        hidden = self._network.forward(segments)
        ends = np.cumsum([len(segment.ids) for segment in segments]) - 1
        for row in rows:
            row.pending = row.pending[PIECE:]
        ready = [place for place, row in enumerate(rows) if not row.pending]
        if ready:
            scores = self._network.logits(hidden[:, ends[ready]])
            for column, place in enumerate(ready):
                self._grow(rows[place], scores[:, column])
        for row in rows:
            if row.ended:
                done[row.at] = Generated(row.stream.finish(), row.ended, row.n_tokens)
        return [row for row in rows if not row.ended]

    def _grow(self, row: _Row, scores: NDArray[np.float32]) -> None:
        token = _chosen(scores, row.order, row.draw)
        row.n_tokens += 1
        if token in self._tokenizer.control_ids:
            row.ended = "stop"
            return
        row.stream.add(token)
        row.pending = [token]
        if row.stream.stopped:
            row.ended = "stop"
        elif row.n_tokens >= row.order.max_tokens:
            row.ended = "length"


def _segment(ids: Sequence[int], cache: Cache) -> Segment:
    positions = cache.length + np.arange(len(ids))
    return Segment(np.array(ids), positions, cache, store=True)


def _chosen(scores: NDArray[np.float32], order: Order, draw: "np.random.Generator") -> int:
    """Return the most likely token, or sample one with a single random number."""
    if order.temperature == 0.0:
        return int(scores.argmax())
    shares = scores.astype(np.float64)
    shares -= shares.max()
    shares /= order.temperature
    np.exp(shares, out=shares)
    shares /= shares.sum()
    kept = np.arange(len(shares))
    if order.top_p < 1.0:
        # Tokens below this probability are never in the nucleus and need not be sorted.
        kept = np.flatnonzero(shares >= (1.0 - order.top_p) / len(shares))
        kept = kept[np.argsort(-shares[kept], kind="stable")]
    reached = np.cumsum(shares[kept])
    last = min(int(np.searchsorted(reached, order.top_p)), len(kept) - 1)
    threshold = draw.random() * reached[last]
    return int(kept[min(int(np.searchsorted(reached, threshold, side="right")), last)])
