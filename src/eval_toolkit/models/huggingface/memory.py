"""Batch sizes that fit into memory."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from eval_toolkit.models.huggingface.trees import Limits

_ENOUGH = {"cuda": 32_768, "mps": 8_192, "cpu": 2_048}
"""Number of tokens per batch that saturates a device; larger batches only need more memory."""
_SLOTS = {"cuda": 512, "mps": 64, "cpu": 32}
"""Maximum number of sequences generated concurrently."""
_SHARE = 0.4
"""Share of free memory for a batch's activations, and for the keys and values of sequences."""
_LONGEST_TREE = 16_384
"""Maximum number of tokens in a tree, whose mask grows quadratically."""
_DENSE = {"cuda": 0.75, "mps": 1.0, "cpu": 3.0}
"""Speed of masked attention relative to the other layers, times 6."""


def is_out_of_memory(torch: ModuleType, error: BaseException) -> bool:
    """Return whether an error indicates that memory is exhausted."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error)


def free_bytes(torch: ModuleType, device: Any) -> int | None:
    """Return the free memory of a GPU, including memory cached by torch; None on other devices."""
    if device.type != "cuda":
        return None
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + held)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a network that determine its memory use."""

    hidden: int
    intermediate: int
    layers: int
    kv_width: int
    """Number of elements in a token's keys and values in one layer."""
    vocabulary: int
    bytes: int
    """Bytes per element."""
    window: int
    """Shortest attention window; 0 if there is none."""

    @property
    def token_bytes(self) -> int:
        """Size of one token's activations in bytes."""
        return self.bytes * (12 * self.hidden + 4 * self.intermediate)

    @property
    def kv_bytes(self) -> int:
        """Size of one token's keys and values in bytes."""
        return self.bytes * self.layers * self.kv_width


def shape_of(module: Any) -> Shape:
    """Read the sizes from a network's configuration."""
    config = module.config.get_text_config()

    def stated(*names: str, default: int) -> int:
        values = (getattr(config, name, None) for name in names)
        return next((int(value) for value in values if isinstance(value, int) and value), default)

    hidden = stated("hidden_size", "n_embd", "d_model", default=1024)
    heads = stated("num_attention_heads", "n_head", default=max(1, hidden // 64))
    width = stated("head_dim", default=max(1, hidden // heads))
    windows = [
        stated(name, default=0)
        for name in ("sliding_window", "attention_chunk_size", "window_size")
    ]
    return Shape(
        hidden=hidden,
        intermediate=stated("intermediate_size", "n_inner", "ffn_dim", default=4 * hidden),
        layers=stated("num_hidden_layers", "n_layer", default=1),
        kv_width=2 * width * stated("num_key_value_heads", default=heads),
        vocabulary=stated("vocab_size", default=32_000),
        bytes=getattr(getattr(module, "dtype", None), "itemsize", 4),
        window=min((window for window in windows if window), default=0),
    )


@dataclass(slots=True)
class Budget:
    """Batch sizes, which shrink permanently when memory is exhausted."""

    shape: Shape
    kind: str
    tokens: int
    rows: int
    slots: int
    kv_tokens: int

    def limits(self, *, trees: bool) -> Limits:
        """Return the size limits of a batch of trees."""
        longest = min(self.tokens, _LONGEST_TREE, self.shape.window or _LONGEST_TREE)
        exchange = max(256.0, self.shape.hidden * _DENSE.get(self.kind, 1.0))
        return Limits(longest if trees else 0, self.rows, exchange)

    def positions(self, *, at_least: int) -> int:
        """Return the number of positions whose logits fit in memory at the same time."""
        if self.kind == "cpu":
            return at_least
        return max(at_least, min(2**29 // self.shape.vocabulary, self.tokens))

    def slots_of(self, length: int) -> int:
        """Return how many sequences of a given length can be generated concurrently."""
        return max(1, min(self.slots, self.kv_tokens // length))

    def shrink_tokens(self, failed: int) -> None:
        """Limit batches to half the number of tokens that ran out of memory."""
        self.tokens = max(1, min(self.tokens, failed) // 2)

    def shrink_slots(self, failed: int) -> None:
        """Limit concurrent sequences to half the number that ran out of memory."""
        self.slots = max(1, failed // 2)


def budget_of(
    torch: ModuleType,
    module: Any,
    device: Any,
    *,
    batch_size: int | None,
    max_batch_tokens: int | None,
) -> Budget:
    """Return the requested batch sizes, or sizes that fit into free memory."""
    shape, kind = shape_of(module), device.type
    tokens, kv_tokens = _ENOUGH.get(kind, 2_048), 2**62
    free = free_bytes(torch, device)
    if free is not None:
        tokens = max(64, min(tokens, int(free * _SHARE) // shape.token_bytes))
        kv_tokens = max(1, int(free * _SHARE) // shape.kv_bytes)
    if max_batch_tokens is not None:
        tokens, kv_tokens = max_batch_tokens, min(kv_tokens, max(max_batch_tokens, 1))
    return Budget(
        shape=shape,
        kind=kind,
        tokens=tokens,
        rows=batch_size or 2**31,
        slots=batch_size or _SLOTS.get(kind, 32),
        kv_tokens=kv_tokens,
    )
