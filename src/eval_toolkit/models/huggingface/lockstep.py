"""Generate with networks that do not support slots: a batch starts together and only shrinks."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eval_toolkit.models.huggingface.decoding import Generated, Row
from eval_toolkit.models.huggingface.network import Network
from eval_toolkit.models.huggingface.sampling import choose


class _Reading:
    """Left-padded sequences in a growing cache."""

    def __init__(self, network: Network, rows: Sequence[Row]) -> None:
        width = max(len(row.prompt) for row in rows)
        ids = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for at, row in enumerate(rows):
            ids[at, width - len(row.prompt) :] = row.prompt
            mask[at, width - len(row.prompt) :] = 1
        self._network = network
        self._cache: Any = None
        self._mask = network.to_device(mask)
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)
        self.logits = self._read(network.to_device(ids), positions)

    def _read(self, ids: Any, positions: Any) -> Any:
        output = self._network.run(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache = output.past_key_values
        return output.logits[:, -1].float()

    def go_on(self, kept: Sequence[int], tokens: Any) -> None:
        """Process the next tokens of the unfinished rows."""
        torch = self._network.torch
        if len(kept) < len(self._mask):
            index = torch.tensor(kept, device=self._mask.device)
            self._cache.batch_select_indices(index)
            self._mask, tokens = self._mask[index], tokens[index]
        positions = self._mask.sum(1, keepdim=True)
        self._mask = torch.cat([self._mask, torch.ones_like(positions)], dim=1)
        self.logits = self._read(tokens[:, None], positions)


class _Rereading:
    """Sequences that a recurrent network re-reads at each step: its state cannot be padded."""

    def __init__(self, network: Network, rows: Sequence[Row]) -> None:
        self._network = network
        self._texts = [row.prompt.tolist() for row in rows]
        self._read()

    def _read(self) -> None:
        network, width = self._network, max(map(len, self._texts))
        ids = np.zeros((len(self._texts), width), dtype=np.int64)
        for at, text in enumerate(self._texts):
            ids[at, : len(text)] = text
        last = [at * width + len(text) - 1 for at, text in enumerate(self._texts)]
        part = network.read(network.to_device(ids), network.to_device(np.array(last)))
        self.logits = part(0, len(last))

    def go_on(self, kept: Sequence[int], tokens: Any) -> None:
        """Process the unfinished rows with their next tokens."""
        new = tokens.tolist()
        self._texts = [[*self._texts[at], new[at]] for at in kept]
        self._read()


def decode(
    network: Network,
    rows: Sequence[Row],
    done: Callable[[Generated], None],
    abandoned: Callable[[], bool],
) -> None:
    """Generate the answers of a batch."""
    torch = network.torch
    reading = (_Rereading if network.recurrent else _Reading)(network, rows)
    active = [Generated(row) for row in rows]
    numbers = {id(one): one.row.numbers() for one in active}
    while active and not abandoned():
        logits = reading.logits
        random_numbers = [
            [one.row.request.heat for one in active],
            [one.row.request.top_p or 1.0 for one in active],
            [numbers[id(one)][len(one.ids)] for one in active],
        ]
        wide = torch.float32 if logits.device.type == "mps" else torch.float64
        heats, nuclei, drawn = torch.tensor(random_numbers, dtype=wide).to(logits.device)
        kind = max(one.row.kind for one in active)
        tokens = choose(torch, logits, (heats, nuclei, drawn), kind)
        for one, token in zip(active, tokens.tolist(), strict=True):
            one.take([token])
        for one in active:
            if one.finish_reason is not None:
                done(one)
        kept = [at for at, one in enumerate(active) if one.finish_reason is None]
        active = [active[at] for at in kept]
        if active:
            reading.go_on(kept, tokens)
