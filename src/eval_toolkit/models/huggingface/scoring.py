"""Log-likelihoods of continuations; contexts and shared prefixes are processed once."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.models.huggingface.memory import Budget, is_out_of_memory
from eval_toolkit.models.huggingface.network import Batch, Network, Part
from eval_toolkit.models.huggingface.trees import Leaf, Tokens, Tree, batches, layout, plan

_POSITIONS_AT_ONCE = 512
"""Minimum number of positions whose logits are kept in memory at the same time."""
_AHEAD = 2
"""Number of batches queued on a GPU before the first results are read."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Token scores of some continuations."""

    owners: Tokens
    """Index of each token's continuation."""
    logprobs: NDArray[np.float32]
    greedy: NDArray[np.bool_]
    """Whether the token is the most likely one."""


@dataclass(slots=True)
class _Flight:
    """Results being copied from the device."""

    owners: Tokens
    numbers: Any
    arrived: Any

    def scores(self) -> Scores:
        """Wait for the results."""
        if self.arrived is not None:
            self.arrived.synchronize()
        logprobs, greedy = self.numbers.numpy()
        return Scores(self.owners, logprobs, greedy > 0)


@dataclass(slots=True)
class Scoring:
    """Score leaves in batches that fit into memory."""

    network: Network
    budget: Budget
    take: Callable[[Scores], None]
    """Callback that receives the scores of each batch."""
    fail: Callable[[Iterable[int], Exception], None]
    """Callback that receives the continuations that could not be scored."""
    _flights: deque[_Flight] = field(default_factory=deque)

    def run(self, leaves: Sequence[Leaf], abandoned: Callable[[], bool]) -> None:
        """Score all leaves; a failure affects only the leaves that cause it."""
        trees = plan(leaves, self.budget.limits(trees=self.network.trees))
        waiting = deque(self._batches(trees))
        while waiting and not abandoned():
            batch = waiting.popleft()
            try:
                self._launch(batch)
            except Exception as error:  # a network may raise any exception
                waiting.extendleft(self._parts(batch, error))
                if is_out_of_memory(self.network.torch, error):
                    waiting = self._shrunk(batch, waiting)
            while len(self._flights) > _AHEAD:
                self.take(self._flights.popleft().scores())
        while self._flights:
            self.take(self._flights.popleft().scores())

    def _batches(self, trees: Sequence[Tree]) -> Iterator[list[Tree]]:
        return batches(trees, self.budget.tokens, self.budget.rows)

    def _parts(self, batch: Sequence[Tree], error: Exception) -> Sequence[list[Tree]]:
        """Split a failed batch in half; a batch of one sequence fails."""
        if len(batch) > 1:
            at = len(batch) // 2
            return [list(batch[:at]), list(batch[at:])]
        halves = batch[0].halves()
        if not halves:
            self.fail(batch[0].leaves[0].owners, error)
        return [[half] for half in halves]

    def _shrunk(
        self, failed: Sequence[Tree], waiting: Iterable[Sequence[Tree]]
    ) -> deque[list[Tree]]:
        """Yield the waiting batches, split to sizes that fit into memory."""
        self.network.torch.cuda.empty_cache()
        if len(failed) > 1 or failed[0].halves():
            self.budget.shrink_tokens(len(failed) * max(tree.size for tree in failed))
        trees = [tree for batch in waiting for tree in batch]
        return deque(self._batches(sorted(trees, key=lambda tree: -tree.size)))

    def _launch(self, trees: Sequence[Tree]) -> None:
        """Process a batch; on a GPU, the results arrive later."""
        network, torch = self.network, self.network.torch
        layouts = [layout(tree) for tree in trees]
        batch = Batch(network, layouts, chains=trees[0].is_chain)
        reads = np.concatenate([row * batch.width + one.reads for row, one in enumerate(layouts)])
        targets = np.concatenate([one.targets for one in layouts])
        owners = np.concatenate([one.owners for one in layouts])
        at, which = np.unique(reads, return_inverse=True)
        order = np.argsort(which, kind="stable")
        part = network.read(
            batch.ids,
            network.to_device(at.astype(np.int64)),
            positions=batch.positions,
            mask=batch.mask,
        )
        pairs = np.stack([which[order], targets[order]]).astype(np.int64)
        numbers = self._target_scores(part, len(at), pairs)
        self._flights.append(_sent(torch, owners[order], numbers))

    def _target_scores(self, part: Part, n_reads: int, pairs: NDArray[np.int64]) -> Any:
        """Return the log-probability of each target, and whether it is the most likely token."""
        network, torch = self.network, self.network.torch
        which, targets = network.to_device(pairs)
        numbers = torch.empty(pairs.shape, dtype=torch.float32, device=targets.device)
        step = self.budget.positions(at_least=_POSITIONS_AT_ONCE)
        for start in range(0, n_reads, step):
            logits = part(start, start + step)
            first, last = np.searchsorted(pairs[0], [start, start + step])
            own = slice(int(first), int(last))
            rows, tokens = (which[own] - start).to(logits.device), targets[own].to(logits.device)
            numbers[0, own] = (logits[rows, tokens] - logits.logsumexp(1)[rows]).to(numbers.device)
            numbers[1, own] = (logits.argmax(1)[rows] == tokens).to(numbers.device)
        return numbers


def _sent(torch: Any, owners: Tokens, numbers: Any) -> _Flight:
    """Start copying results to the host."""
    if numbers.device.type != "cuda":
        return _Flight(owners, numbers.cpu(), None)
    host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
    host.copy_(numbers, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()
    return _Flight(owners, host, arrived)
