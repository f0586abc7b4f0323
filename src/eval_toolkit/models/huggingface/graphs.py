"""Replay generation steps as CUDA graphs, which launch hundreds of kernels at once."""

from typing import Any

from eval_toolkit.models.huggingface.slots import Slots


class Stepper:
    """Run generation steps that write tokens to the rows of a table, from the second row on."""

    def __init__(self, slots: Slots, history: Any) -> None:
        self._slots = slots
        self._history = history
        self._torch = slots.network.torch
        self._row = self._torch.ones(1, dtype=self._torch.long, device=history.device)
        self._graphs: dict[tuple[int, int], Any] = {}
        # a graph contains the kernels of one device
        self._usable = history.device.type == "cuda" and not slots.network.spread

    def run(self, n_steps: int, width: int, kind: int) -> None:
        """Queue some steps without waiting for the device."""
        self._row.fill_(1)
        for _ in range(n_steps):
            graph = self._graph(width, kind)
            if graph is None:
                self._step(width, kind)
            else:
                graph.replay()

    def _step(self, width: int, kind: int) -> None:
        self._slots.step(width, kind)
        self._history.index_copy_(0, self._row, self._slots.tokens[None])
        self._row.add_(1)

    def _graph(self, width: int, kind: int) -> Any:
        """Return the CUDA graph of a step; the first step of each kind runs without one."""
        key = width, kind
        if not self._usable:
            return None
        if key not in self._graphs:
            self._graphs[key] = None
            return None
        if self._graphs[key] is None:
            graph = self._torch.cuda.CUDAGraph()
            try:
                with self._torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    self._step(width, kind)
            except RuntimeError:  # the network contains operations that cannot be captured
                self._torch.cuda.synchronize()
                self._usable = False
                return None
            self._graphs[key] = graph
        return self._graphs[key]
