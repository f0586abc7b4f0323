"""Static key-value cache with one slot per active sequence.

A token is written to the column of its position. All inputs of a step are on the device, so that
steps are queued without waiting and can be replayed as CUDA graphs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from eval_toolkit.models.huggingface.network import Batch, Network
from eval_toolkit.models.huggingface.sampling import choose
from eval_toolkit.models.huggingface.trees import Leaf, Limits, Tokens, batches, layout, plan

COLUMNS = 128
"""Number of cache columns is rounded up to a multiple of this number."""


class _Layer:
    """Keys and values of one layer, allocated on first use."""

    def __init__(self, slots: "Slots") -> None:
        self.slots = slots
        self.stores: tuple[Any, Any] | None = None

    def fill(self, new: Sequence[Any], index: Any, places: Any) -> None:
        """Copy the keys and values of sequences from the processed rows."""
        if self.stores is None:
            self.stores = tuple(
                one.new_zeros(self.slots.n, one.shape[1], self.slots.length, one.shape[3])
                for one in new
            )
        assert self.stores is not None  # noqa: S101
        for store, one in zip(self.stores, new, strict=True):
            flat = one.transpose(1, 2).flatten(0, 1)[index.to(one.device)]
            store[places.to(one.device), :, : index.shape[1]] = flat.transpose(1, 2)

    def write(self, new: Sequence[Any]) -> list[Any]:
        """Store one token per sequence and return the columns in use."""
        assert self.stores is not None  # noqa: S101
        for store, one in zip(self.stores, new, strict=True):
            at = self.slots.rows.to(one.device), self.slots.positions.to(one.device)
            store[at[0], :, at[1]] = one[:, :, 0]
        return [store[:, :, : self.slots.width] for store in self.stores]


def _cache(layers: Sequence[_Layer]) -> Any:
    """Wrap the layers in a transformers cache."""
    from transformers.cache_utils import Cache, DynamicLayer

    class Held(DynamicLayer):  # type: ignore[misc]
        def __init__(self, layer: _Layer) -> None:
            super().__init__()
            self.layer = layer

        def update(self, keys: Any, values: Any, *_: Any, **__: Any) -> Any:
            return tuple(self.layer.write((keys, values)))

        def get_seq_length(self, *_: Any, **__: Any) -> int:
            return self.layer.slots.width - 1

        def get_mask_sizes(self, *_: Any, **__: Any) -> tuple[int, int]:
            return self.layer.slots.width, 0

    return Cache(layers=[Held(layer) for layer in layers])


class Slots:
    """Active sequences: the last token of each, its position, and the sampling settings."""

    def __init__(self, network: Network, n: int, length: int, n_numbers: int = 1) -> None:
        torch, device = network.torch, network.device
        self.network, self.n = network, n
        self._last = length - 1
        self.length = length = length + -length % COLUMNS
        self.width = length
        self.rows = torch.arange(n, device=device)
        self.tokens = torch.zeros(n, dtype=torch.long, device=device)
        self.positions = torch.zeros(n, dtype=torch.long, device=device)
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.heats = torch.zeros(n, dtype=wide, device=device)
        self.nuclei = torch.ones(n, dtype=wide, device=device)
        self.numbers = torch.zeros(n, n_numbers, dtype=wide, device=device)
        self.drawn = torch.zeros(n, dtype=torch.long, device=device)
        self._columns = torch.arange(length, device=device)
        self._layers: list[_Layer] = []
        self._held: Any = None

    def fill(
        self,
        prompts: Sequence[Tokens],
        places: Sequence[int],
        limits: Limits,
        max_tokens: int = 2**31,
    ) -> list[Any]:
        """Prefill slots with prompts, processing shared prefixes once; return the final logits."""
        found: dict[int, Any] = {}
        leaves = [Leaf(prompt, (), (at,)) for at, prompt in enumerate(prompts)]
        for group in batches(plan(leaves, limits), max_tokens, 2**31):
            order = [leaf.owners[0] for tree in group for leaf in tree.leaves]
            logits = self._fill(group, [places[at] for at in order])
            found.update(zip(order, logits, strict=True))
        return [found[at] for at in range(len(prompts))]

    def order(
        self, places: Any, settings: Sequence[tuple[float, float]], numbers: Sequence[Any]
    ) -> None:
        """Set the temperature, nucleus probability and random numbers of some slots."""
        network, wide = self.network, np.float32 if self.heats.itemsize == 4 else np.float64
        table = np.zeros((len(numbers), self.numbers.shape[1]), dtype=wide)
        for row, own in enumerate(numbers):
            table[row, : len(own)] = own
        heats, nuclei = network.to_device(np.array(settings, dtype=wide).T.copy())
        self.numbers[places] = network.to_device(table)
        self.heats[places], self.nuclei[places], self.drawn[places] = heats, nuclei, 0

    def _fill(self, trees: Sequence[Any], places: Sequence[int]) -> Any:
        from transformers.cache_utils import DynamicCache

        network, layouts = self.network, [layout(tree) for tree in trees]
        batch = Batch(network, layouts, chains=trees[0].is_chain)
        paths = [path + row * batch.width for row, one in enumerate(layouts) for path in one.paths]
        lengths = np.array([len(path) for path in paths])
        index = np.zeros((len(paths), lengths.max()), dtype=np.int64)
        for row, path in enumerate(paths):
            index[row, : len(path)] = path
        at = network.to_device(index[np.arange(len(paths)), lengths - 1])
        cache = DynamicCache()
        part = network.read(batch.ids, at, positions=batch.positions, mask=batch.mask, cache=cache)
        where, columns = (
            network.to_device(np.array(places, dtype=np.int64)),
            network.to_device(index),
        )
        if not self._layers:
            self._layers = [_Layer(self) for _ in cache.layers]
            self._held = _cache(self._layers)
        for layer, read in zip(self._layers, cache.layers, strict=True):
            layer.fill((read.keys, read.values), columns, where)
        self.positions[where] = network.to_device(lengths.astype(np.int64))
        return part(0, len(paths))

    def logits(self, width: int) -> Any:
        """Process the last token of every sequence and return the next logits.

        ``width`` is the number of columns to attend to; it must exceed every position in use.
        """
        self.width = width
        network, torch = self.network, self.network.torch
        seen = self._columns[:width] <= self.positions[:, None]
        mask = torch.zeros(seen.shape, dtype=network.module.dtype, device=seen.device)
        mask = mask.masked_fill_(~seen, network.hides)[:, None, None]
        part = network.read(
            self.tokens[:, None],
            self.rows,
            positions=self.positions[:, None],
            mask=mask,
            cache=self._held,
        )
        return part(0, self.n)

    def step(self, width: int, kind: int) -> None:
        """Process the last token of every sequence and select the next one."""
        self.tokens.copy_(self.chosen(self.logits(width), self.rows, kind))
        self.positions.add_(1).clamp_(max=self._last)  # finished sequences stay in place

    def chosen(self, logits: Any, rows: Any, kind: int) -> Any:
        """Choose the next token of some sequences; each consumes one random number."""
        at = self.drawn[rows].clamp(max=self.numbers.shape[1] - 1)
        settings = self.heats[rows], self.nuclei[rows], self.numbers[rows, at]
        tokens = choose(self.network.torch, logits, settings, kind)
        self.drawn.index_add_(0, rows, self.network.torch.ones_like(rows))
        return tokens
