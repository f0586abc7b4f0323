"""Forward passes of a causal language model, with logits only at selected positions."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.errors import ModelError
from eval_toolkit.models.huggingface.trees import Layout

Part = Callable[[int, int], Any]
"""Function that returns the logits at selected positions, in float32."""


class Network:
    """Wrapper of a module that computes logits at selected positions only.

    The method, and whether sequences may share a row, depend on the module:
    `eval_toolkit.models.huggingface.checks` tests what the module supports and sets the attributes.
    """

    def __init__(self, torch: ModuleType, module: Any, *, compiled: bool = False) -> None:
        config = module.config
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(
                f"{config.model_type} is an encoder-decoder model; only decoder-only models are "
                "supported",
                kind="unsupported",
            )
        self.torch = torch
        self.module = module.eval()
        self.recurrent = bool(getattr(module, "_is_stateful", False))
        """Whether the network has a recurrent state instead of keys and values."""
        base = module.base_model
        self.gathers = base is not module
        """Whether the vocabulary projection can be applied to hidden states directly."""
        self.trees = False
        """Whether sequences may share a row."""
        self.slots = False
        """Whether generation may use slots of a static cache."""
        if compiled:
            for part in _compilable(module):
                part.compile(dynamic=True)
        self._base = base
        self.head = module.get_output_embeddings()
        self._accepted = _parameters(module)
        self._base_accepts = _parameters(base)

    @property
    def device(self) -> Any:
        """Device for the inputs."""
        return self.module.device

    @property
    def spread(self) -> bool:
        """Whether the network is spread over several devices."""
        parts = getattr(self.module, "hf_device_map", None) or {}
        return len(set(map(str, parts.values()))) > 1

    def in_use(self) -> ExitStack:
        """Return a context without gradients that makes the device current."""
        stack = ExitStack()
        stack.enter_context(self.torch.inference_mode())
        if self.device.type == "cuda":
            stack.enter_context(self.torch.cuda.device(self.device))
        return stack

    @property
    def hides(self) -> float:
        """Value added to an attention score to mask a token."""
        return float(self.torch.finfo(self.module.dtype).min)

    def to_device(self, array: NDArray[Any]) -> Any:
        """Copy an array to the device without waiting for it."""
        tensor = self.torch.from_numpy(array)
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=True)

    def read(
        self, ids: Any, at: Any, *, positions: Any = None, mask: Any = None, cache: Any = None
    ) -> Part:
        """Process a batch and return the logits at the flat indices ``at``.

        Without a mask, rows are plain sequences padded on the right, which never affects earlier
        tokens.
        """
        named = {
            "input_ids": ids,
            "attention_mask": mask,
            "use_cache": cache is not None,
            "position_ids": positions,
            "past_key_values": cache,
        }
        if not self.gathers or self.head is None:
            return self._read_whole(named, at)
        accepted = _accepted(named, self._base_accepts)
        hidden = self._base(**accepted)[0].flatten(0, 1)
        hidden = hidden[at.to(hidden.device)]
        return lambda start, stop: self.head(hidden[start:stop]).float()

    def _read_whole(self, named: dict[str, Any], at: Any) -> Part:
        """Run the whole module, for networks that do more than project hidden states."""
        accepted = _accepted(named, self._accepted)
        if self.head is None:
            logits = self.module(**accepted).logits.flatten(0, 1)[at]
        else:
            # The module's own code continues with only the hidden states at these positions.
            handle = self.head.register_forward_pre_hook(
                lambda _, given: (given[0].flatten(0, 1)[at.to(given[0].device)][None],)
            )
            try:
                logits = self.module(**accepted).logits[0]
            finally:
                handle.remove()
        return lambda start, stop: logits[start:stop].float()

    def run(self, **named: Any) -> Any:
        """Call the module with those arguments that it accepts."""
        return self.module(**_accepted(named, self._accepted))

    def mask(self, until: Any) -> Any:
        """Return the additive mask; tokens are visible up to the index given for each row."""
        torch, width = self.torch, until.shape[1]
        index = torch.arange(width, device=until.device)
        seen = (index[:, None] >= index) & (index[:, None] <= until[:, None, :])
        seen |= index[:, None] == index  # padding attends to itself: an empty row would be NaN
        blank = torch.zeros(seen.shape, dtype=self.module.dtype, device=until.device)
        return blank.masked_fill_(~seen, self.hides)[:, None]


def _compilable(module: Any) -> list[Any]:
    """Return the parts of layers that use no cache; programs of other parts depend on its state."""
    names = getattr(module, "_no_split_modules", None) or ()
    layers = [part for part in module.modules() if type(part).__name__ in names]
    parts = [part for layer in layers for part in layer.children()]
    return [part for part in parts if not any("past_key" in name for name in _parameters(part))]


def _parameters(module: Any) -> frozenset[str]:
    """Return the keyword arguments of a module's forward pass."""
    return frozenset(inspect.signature(module.forward).parameters)


def _accepted(named: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name in names and value is not None}


class Batch:
    """Rows of device tensors built from layouts."""

    def __init__(self, network: Network, layouts: Sequence[Layout], *, chains: bool) -> None:
        width = max(len(one.ids) for one in layouts)
        width += -width % (16 if network.device.type == "cuda" else 1)  # faster kernels
        table = np.zeros((3, len(layouts), width), dtype=np.int64)
        table[2] = -1
        for row, one in enumerate(layouts):
            table[0, row, : len(one.ids)] = one.ids
            table[1, row, : len(one.ids)] = one.positions
            table[2, row, : len(one.ids)] = one.until
        self.width = width
        self.positions = self.mask = None
        if chains:
            self.ids = network.to_device(table[0])
        else:
            self.ids, self.positions, until = network.to_device(table)
            self.mask = network.mask(until)
