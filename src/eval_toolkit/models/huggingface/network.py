"""Forward passes of a causal language model on padded batches."""

import inspect
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from eval_toolkit.errors import ModelError


class Network:
    """Module with explicit positions, so that padding does not affect results."""

    def __init__(self, torch: ModuleType, module: Any) -> None:
        config = module.config
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(
                f"{config.model_type} is an encoder-decoder model; only decoder-only models are "
                "supported",
                kind="unsupported",
            )
        if getattr(module, "_is_stateful", False):
            raise ModelError(
                f"{config.model_type} is a recurrent model; its state cannot be padded or shared",
                kind="unsupported",
            )
        self.torch = torch
        self._module = module.eval()
        self._accepted = frozenset(inspect.signature(module.forward).parameters)

    @property
    def device(self) -> Any:
        """Device of the inputs."""
        return self._module.device

    def tensor(self, rows: Sequence[Sequence[int]]) -> Any:
        """Return rows of integers as a tensor on the device."""
        return self.torch.tensor(rows, dtype=self.torch.long, device=self.device)

    def __call__(self, ids: Any, mask: Any, positions: Any, cache: Any, *, last: bool) -> Any:
        """Return the module's output; with ``last``, only the last logits."""
        arguments = {"position_ids": positions, "logits_to_keep": 1 if last else 0}
        accepted = {name: arguments[name] for name in arguments if name in self._accepted}
        return self._module(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **accepted
        )


class Reading:
    """State of a batch to which further tokens can be added.

    Prompts are padded on the left and later texts on the right; padding is masked, and positions
    are counted per row.
    """

    def __init__(self, network: Network, prompts: Sequence[Sequence[int]]) -> None:
        width = max(map(len, prompts))
        self._network = network
        self._mask = network.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        ids = network.tensor([[0] * (width - len(p)) + list(p) for p in prompts])
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)
        output = network(ids, self._mask, positions, None, last=True)
        self._cache = output.past_key_values
        self.after = output.logits[:, -1]
        """Logits of the token after each prompt."""

    def select(self, rows: Sequence[int]) -> None:
        """Select rows; a repeated row can be continued in several ways."""
        index = self._network.torch.tensor(rows, device=self._mask.device)
        self._cache.batch_select_indices(index)
        self._mask = self._mask[index]
        self.after = self.after[index]

    def read(self, texts: Sequence[Sequence[int]]) -> Any:
        """Read further tokens in every row and return the logits; short rows are padded."""
        network, width = self._network, max(map(len, texts))
        ids = network.tensor([list(t) + [0] * (width - len(t)) for t in texts])
        new = network.tensor([[1] * len(t) + [0] * (width - len(t)) for t in texts])
        ahead = network.torch.arange(width, device=network.device)
        positions = self._mask.sum(1, keepdim=True) + ahead * new
        self._mask = network.torch.cat([self._mask, new], dim=1)
        output = network(ids, self._mask, positions, self._cache, last=False)
        self._cache = output.past_key_values
        return output.logits
