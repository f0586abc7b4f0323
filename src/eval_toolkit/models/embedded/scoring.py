"""Log-likelihoods of continuations, computed over trees with a shared context.

A context is processed once for all its continuations, and a prefix shared by several contexts once
for all of them. Sequences that are too long for a pass are processed in chunks. Results differ only
by float32 rounding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.models.embedded.gguf import Float32Array
from eval_toolkit.models.embedded.network import Cache, Network, Segment, causal
from eval_toolkit.models.embedded.prefixes import shared_prefixes

PIECE = 256
"""Number of tokens of a long sequence per pass, which bounds the memory used by attention."""
_COLUMNS = 128
"""Maximum number of tokens whose logits are kept in memory at once."""
_HELD = 8192
"""Maximum number of cached prefix tokens of trees that wait to be processed."""


@dataclass(frozen=True, slots=True)
class Item:
    """Non-empty context and non-empty continuations, as token ids."""

    context: Sequence[int]
    branches: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Score:
    """Log-likelihood of one continuation."""

    loglikelihood: float
    is_greedy: bool
    """Whether every token is the most likely one."""


@dataclass(slots=True)
class _Tree:
    """Segment along with the columns that predict the tokens of each branch."""

    segment: Segment
    item: int
    branches: list[tuple[int, ...]]
    columns: list[list[int]]


class Scoring:
    """Log-likelihood scoring with a network, ``max_tokens`` per pass.

    ``check`` is called before every pass and may raise an exception to stop.
    """

    def __init__(self, network: Network, max_tokens: int, check: Callable[[], None]) -> None:
        self._network = network
        self._max = max_tokens
        self._check = check
        self._waiting: list[_Tree] = []
        self._found: dict[tuple[int, tuple[int, ...]], Score] = {}

    def run(self, items: Sequence[Item]) -> list[list[Score]]:
        """Return the scores of all branches of every item; equal branches have equal scores."""
        for group in shared_prefixes([item.context for item in items]):
            past = None
            if group.n_shared:
                past = self._cached(items[group.members[0]].context[: group.n_shared])
            for at in group.members:
                self._add(at, items[at], past)
            held = {id(t.segment.past): t.segment.n_past for t in self._waiting}
            if sum(held.values()) > _HELD:
                self._flush()
        self._flush()
        return [
            [self._found[at, tuple(branch)] for branch in item.branches]
            for at, item in enumerate(items)
        ]

    def _add(self, at: int, item: Item, past: Cache | None) -> None:
        branches = list(dict.fromkeys(tuple(branch) for branch in item.branches))
        n_past = past.length if past is not None else 0
        rest = item.context[n_past:]
        if len(rest) + sum(len(branch) - 1 for branch in branches) > self._max and len(rest) > 1:
            # Too large for one pass: process the context first, then some branches per pass.
            past = self._cached(item.context[:-1])
            rest = item.context[-1:]
        for pack in _packs(branches, self._max - len(rest)):
            if len(rest) + sum(len(branch) - 1 for branch in pack) > self._max:
                self._run_long(at, [*rest, *pack[0][:-1]], pack[0], past)
            else:
                self._wait(_tree(at, rest, pack, past))

    def _cached(self, ids: Sequence[int]) -> Cache:
        cache = Cache(self._network, len(ids))
        for _ in self._pieces(ids, cache):
            pass
        return cache

    def _pieces(self, ids: Sequence[int], cache: Cache) -> Iterator[Float32Array]:
        """Yield the hidden states of a sequence chunk by chunk, adding it to the cache."""
        for at in range(0, len(ids), PIECE):
            piece = np.array(ids[at : at + PIECE])
            positions = cache.length + np.arange(len(piece))
            self._check()
            yield self._network.forward([Segment(piece, positions, cache, store=True)])

    def _wait(self, tree: _Tree) -> None:
        waiting = sum(len(other.segment.ids) for other in self._waiting)
        if waiting + len(tree.segment.ids) > self._max:
            self._flush()
        self._waiting.append(tree)

    def _flush(self) -> None:
        trees, self._waiting = self._waiting, []
        if not trees:
            return
        self._check()
        hidden = self._network.forward([tree.segment for tree in trees])
        targets: list[int] = []
        columns: list[int] = []
        start = 0
        for tree in trees:
            for branch, own in zip(tree.branches, tree.columns, strict=True):
                targets += branch
                columns += [start + column for column in own]
            start += len(tree.segment.ids)
        distinct, which = np.unique(np.array(columns), return_inverse=True)
        logprobs, greedy = self._target_scores(hidden[:, distinct], which, np.array(targets))
        at = 0
        for tree in trees:
            for branch in tree.branches:
                own_part = slice(at, at + len(branch))
                self._keep(tree.item, branch, logprobs[own_part], greedy[own_part])
                at += len(branch)

    def _run_long(
        self, item: int, ids: Sequence[int], branch: tuple[int, ...], past: Cache | None
    ) -> None:
        """Score a branch longer than a pass, restoring the cache afterwards."""
        cache = past or Cache(self._network, len(ids))
        length = cache.length
        logprobs, greedy = [], []
        targets = np.array([-1] * (len(ids) - len(branch)) + list(branch))
        at = 0
        for hidden in self._pieces(ids, cache):
            part = targets[at : at + hidden.shape[1]]
            scored = np.flatnonzero(part >= 0)
            found = self._target_scores(hidden[:, scored], np.arange(len(scored)), part[scored])
            logprobs.append(found[0])
            greedy.append(found[1])
            at += len(part)
        cache.length = length
        self._keep(item, branch, np.concatenate(logprobs), np.concatenate(greedy))

    def _keep(
        self,
        item: int,
        branch: tuple[int, ...],
        logprobs: NDArray[np.float64],
        greedy: NDArray[np.bool_],
    ) -> None:
        self._found[item, branch] = Score(float(logprobs.sum()), bool(greedy.all()))

    def _target_scores(
        self, hidden: Float32Array, which: NDArray[np.intp], targets: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the log-probability of each target, and whether it is the most likely token."""
        logprobs = np.empty(len(targets))
        greedy = np.empty(len(targets), dtype=bool)
        for start in range(0, hidden.shape[1], _COLUMNS):
            scores = self._network.logits(hidden[:, start : start + _COLUMNS])
            here = np.flatnonzero((which >= start) & (which < start + _COLUMNS))
            column = which[here] - start
            chosen = scores[targets[here], column]
            peak = scores.max(axis=0)
            scores -= peak
            np.exp(scores, out=scores)
            total = np.log(scores.sum(axis=0, dtype=np.float64))
            greedy[here] = chosen >= peak[column]
            logprobs[here] = chosen.astype(np.float64) - peak[column] - total[column]
        return logprobs, greedy


def _packs(branches: Sequence[tuple[int, ...]], room: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield groups of branches that fit into one pass, at least one branch each."""
    pack: list[tuple[int, ...]] = []
    used = 0
    for branch in branches:
        if pack and used + len(branch) - 1 > room:
            yield pack
            pack, used = [], 0
        pack.append(branch)
        used += len(branch) - 1
    yield pack


def _tree(
    item: int, rest: Sequence[int], branches: list[tuple[int, ...]], past: Cache | None
) -> _Tree:
    """Return a context and its branches as one segment with tree attention."""
    n = len(rest)
    ids = [*rest]
    n_past = past.length if past is not None else 0
    positions = [np.arange(n_past, n_past + n)]
    columns = []
    bias = np.full((n + sum(len(branch) - 1 for branch in branches),) * 2, -np.inf, np.float32)
    bias[:, :n] = 0.0
    bias[:n, :n] = causal(n)
    for branch in branches:
        start = len(ids)
        ids += branch[:-1]
        end = len(ids)
        positions.append(np.arange(n_past + n, n_past + n + end - start))
        bias[start:end, start:end] = causal(end - start)
        columns.append([n - 1, *range(start, end)])
    segment = Segment(np.array(ids), np.concatenate(positions), past, bias)
    return _Tree(segment, item, branches, columns)
