"""Generate with the fastest method a network supports, in batches that fit into memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eval_toolkit.models.huggingface.decoding import Decoding, Generated, Row
from eval_toolkit.models.huggingface.lockstep import decode
from eval_toolkit.models.huggingface.memory import Budget, is_out_of_memory
from eval_toolkit.models.huggingface.network import Network


@dataclass(slots=True, kw_only=True)
class Generation:
    """Generate the answers of rows; a failure affects only the rows that cause it."""

    network: Network
    budget: Budget
    done: Callable[[Generated], None]
    """Callback that receives each finished row."""
    fail: Callable[[Row, Exception], None]
    """Callback that receives each row that could not be finished."""
    abandoned: Callable[[], bool]
    _finished: set[int] = field(default_factory=set)
    _n_together: int = 0
    """Number of rows processed together in the last attempt."""

    def run(self, rows: Sequence[Row]) -> None:
        """Generate the answers of all rows."""
        if not rows or self.abandoned():
            return
        try:
            self._attempt(rows)
        except Exception as error:  # a network may raise any exception
            left = [row for row in rows if row.place not in self._finished]
            if is_out_of_memory(self.network.torch, error) and self._n_together > 1:
                self.network.torch.cuda.empty_cache()
                self.budget.shrink_slots(self._n_together)
                self.run(left)
            elif len(left) == 1:
                self.fail(left[0], error)
            else:
                for half in (left[: len(left) // 2], left[len(left) // 2 :]):
                    self.run(half)

    def _attempt(self, rows: Sequence[Row]) -> None:
        network = self.network
        window = self.budget.shape.window
        fast: list[Row] = []
        other: list[Row] = []
        for row in rows:
            (fast if network.slots and not 0 < window < row.reach else other).append(row)
        if fast:
            decoding = Decoding(network, self.budget, self._finish, self.abandoned)
            try:
                decoding.run(fast)
            finally:
                self._n_together = decoding.n_slots
        other.sort(key=lambda row: -len(row.prompt))
        while other and not self.abandoned():
            n = self._n_together = min(self.budget.slots_of(other[0].reach), len(other))
            decode(network, other[:n], self._finish, self.abandoned)
            other = other[n:]

    def _finish(self, one: Generated) -> None:
        self._finished.add(one.row.place)
        self.done(one)
