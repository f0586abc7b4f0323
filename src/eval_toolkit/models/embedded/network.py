"""Llama-style transformer in float32 that processes batches of segments.

Arrays have one column per token. Matrix products cover all tokens of a pass at once; only attention
processes each `Segment` separately, so that new and continued segments of any length share a pass
without padding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.embedded.gguf import Float32Array, GGUFFile


class Cache:
    """Key-value cache of a sequence."""

    def __init__(self, network: "Network", capacity: int) -> None:
        shape = (network.n_layers, network.n_kv_heads, network.head_size, capacity)
        self.keys: Float32Array = np.empty(shape, dtype=np.float32)
        self.values: Float32Array = np.empty(shape, dtype=np.float32)
        self.length = 0

    def reserve(self, length: int) -> None:
        """Reserve space for a sequence of ``length`` tokens."""
        if length > self.keys.shape[-1]:
            # Overallocate by a quarter, so that a growing sequence is copied only a few times.
            shape = (*self.keys.shape[:-1], length + length // 4)
            for name in ("keys", "values"):
                grown = np.empty(shape, dtype=np.float32)
                grown[..., : self.length] = getattr(self, name)[..., : self.length]
                setattr(self, name, grown)

    def take(self, other: "Cache") -> None:
        """Copy the tokens of another sequence to the start of this one."""
        self.length = other.length
        for name in ("keys", "values"):
            getattr(self, name)[..., : self.length] = getattr(other, name)[..., : self.length]


@dataclass(slots=True)
class Segment:
    """Part of a sequence to process in one pass.

    Parameters
    ----------
    ids : array of int
        Token ids.
    positions : array of int
        Position of each token in its sequence.
    past : Cache, optional
        Preceding tokens, visible to every token.
    bias : array of shape (n, n), optional
        Attention bias: 0 if a token (row) attends to another token of the segment (column), else
        -inf. By default, causal.
    store : bool, default False
        Whether to add the segment to ``past``.
    """

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    past: Cache | None = None
    bias: Float32Array | None = None
    store: bool = False
    n_past: int = 0

    def __post_init__(self) -> None:
        self.n_past = self.past.length if self.past is not None else 0
        if self.bias is None and len(self.ids) > 1:
            self.bias = causal(len(self.ids))


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Float32Array
    query_key_value: Float32Array
    attention_out: Float32Array
    feed_norm: Float32Array
    gate_up: Float32Array
    down: Float32Array


def causal(n: int) -> Float32Array:
    """Return the causal attention bias of n tokens."""
    return np.triu(np.full((n, n), -np.inf, dtype=np.float32), 1)


class Network:
    """Llama-style network with the weights of a GGUF file.

    Raises `ArtifactError` if the architecture is unsupported or the tensor shapes are inconsistent.
    """

    def __init__(self, file: GGUFFile) -> None:
        if (kind := file.value("general.architecture", str)) != "llama":
            raise ArtifactError(
                f"{file.path}: its architecture is {kind!r}; only 'llama' is supported"
            )
        scaling = file.metadata.get("llama.rope.scaling.type", "none")
        if scaling != "none":
            raise ArtifactError(f"{file.path}: its rope scaling {scaling!r} is not supported")
        self.n_layers = _size(file, "block_count")
        self.n_heads = _size(file, "attention.head_count")
        self.n_kv_heads = _size(file, "attention.head_count_kv", self.n_heads)
        self.width = _size(file, "embedding_length")
        self.context_length = _size(file, "context_length")
        self.head_size = self.width // self.n_heads
        self._epsilon = np.float32(file.value("llama.attention.layer_norm_rms_epsilon", float))
        self._check_shapes(file)
        self.n_vocabulary = len(file.value("tokenizer.ggml.tokens", list))
        self._embedding = file.tensor("token_embd.weight", (self.n_vocabulary, self.width))
        self._output = (
            file.tensor("output.weight", self._embedding.shape)
            if "output.weight" in file.tensors
            else self._embedding
        )
        self._output_norm = file.tensor("output_norm.weight", (self.width,))[:, None]
        self.layers = self._read_layers(file)
        base = file.value("llama.rope.freq_base", float, 10_000.0)
        pairs = np.arange(0, self.head_size, 2)[:, None] / self.head_size
        angles = np.arange(self.context_length) / base**pairs
        self._cos = np.cos(angles).astype(np.float32)
        self._sin = np.sin(angles).astype(np.float32)

    def _check_shapes(self, file: GGUFFile) -> None:
        fits = (
            self.width % self.n_heads == 0
            and self.n_heads % self.n_kv_heads == 0
            and self.head_size % 2 == 0
            and file.metadata.get("llama.rope.dimension_count", self.head_size) == self.head_size
        )
        if not fits:
            raise ArtifactError(
                f"{file.path}: inconsistent shapes: {self.n_heads} attention heads, "
                f"{self.n_kv_heads} key-value heads, and a width of {self.width}"
            )

    def _read_layers(self, file: GGUFFile) -> list[_Layer]:
        width, n_keys = self.width, self.n_kv_heads * self.head_size
        hidden = _size(file, "feed_forward_length")
        shapes = (width + 2 * n_keys, width), (width, width), (2 * hidden, width), (width, hidden)
        # One large block of memory, which is several times as fast to allocate.
        memory = iter(np.empty((self.n_layers, sum(map(math.prod, shapes))), dtype=np.float32))
        return [self._layer(file, at, *_parts(next(memory), shapes)) for at in range(self.n_layers)]

    def _layer(
        self,
        file: GGUFFile,
        at: int,
        heads: Float32Array,
        out: Float32Array,
        gates: Float32Array,
        down: Float32Array,
    ) -> _Layer:
        width, n_keys = self.width, self.n_kv_heads * self.head_size
        hidden = len(gates) // 2

        def read(name: str, *shape: int, out: Float32Array | None = None) -> Float32Array:
            return file.tensor(f"blk.{at}.{name}.weight", shape, out)

        heads[:width] = self._halves(read("attn_q", width, width))
        heads[:width] /= np.float32(math.sqrt(self.head_size))  # once, not for every score
        heads[width : width + n_keys] = self._halves(read("attn_k", n_keys, width))
        read("attn_v", n_keys, width, out=heads[width + n_keys :])
        read("attn_output", width, width, out=out)
        read("ffn_gate", hidden, width, out=gates[:hidden])
        read("ffn_up", hidden, width, out=gates[hidden:])
        read("ffn_down", width, hidden, out=down)
        norms = read("attn_norm", width)[:, None], read("ffn_norm", width)[:, None]
        return _Layer(norms[0], heads, out, norms[1], gates, down)

    def _halves(self, weights: Float32Array) -> Float32Array:
        """Reorder rows so that rotated pairs are half a head apart."""
        heads = weights.reshape(-1, self.head_size // 2, 2, weights.shape[-1])
        return heads.transpose(0, 2, 1, 3).reshape(weights.shape)

    def forward(self, segments: Sequence[Segment]) -> Float32Array:
        """Return the final hidden state of every token, as columns."""
        x: Float32Array = self._embedding[
            np.concatenate([segment.ids for segment in segments])
        ].T.copy()
        positions = np.concatenate([segment.positions for segment in segments])
        turn = self._cos[:, positions], self._sin[:, positions]
        for segment in segments:
            if segment.store and segment.past is not None:
                segment.past.reserve(segment.n_past + len(segment.ids))
        work = _Work(self, x.shape[1])
        for at, layer in enumerate(self.layers):
            self._normed(x, layer.attention_norm, work.normed)
            np.matmul(layer.query_key_value, work.normed, out=work.heads)
            self._attention(work, turn, segments, at)
            x += np.matmul(layer.attention_out, work.mixed, out=work.added)
            self._normed(x, layer.feed_norm, work.normed)
            np.matmul(layer.gate_up, work.normed, out=work.gates)
            x += np.matmul(layer.down, work.gated(), out=work.added)
        for segment in segments:
            if segment.store and segment.past is not None:
                segment.past.length = segment.n_past + len(segment.ids)
        return x

    def logits(self, hidden: Float32Array) -> Float32Array:
        """Return the logits over the vocabulary (rows) for some tokens (columns)."""
        normed = self._normed(hidden, self._output_norm, np.empty_like(hidden))
        scores: Float32Array = self._output @ normed
        return scores

    def _normed(self, x: Float32Array, weight: Float32Array, out: Float32Array) -> Float32Array:
        scale: NDArray[Any] = np.einsum("ij,ij->j", x, x)
        scale /= np.float32(self.width)
        scale += self._epsilon
        np.divide(x, np.sqrt(scale, out=scale), out=out)
        out *= weight
        return out

    def _attention(
        self,
        work: "_Work",
        turn: tuple[Float32Array, Float32Array],
        segments: Sequence[Segment],
        layer: int,
    ) -> None:
        n_keys, size = self.n_kv_heads * self.head_size, self.head_size
        _rotate(work.heads[: self.width + n_keys].reshape(-1, 2, size // 2, work.n), *turn)
        queries = work.heads[: self.width].reshape(self.n_kv_heads, -1, size, work.n)
        keys = work.heads[self.width : -n_keys].reshape(self.n_kv_heads, size, work.n)
        values = work.heads[-n_keys:].reshape(self.n_kv_heads, size, work.n)
        mixed = work.mixed.reshape(queries.shape)
        end = 0
        for segment in segments:
            start, end = end, end + len(segment.ids)
            parts = _seen(segment, keys[..., start:end], values[..., start:end], layer)
            mixed[..., start:end] = _attend(queries[..., start:end], parts)


class _Work:
    """Reusable buffers of one pass."""

    def __init__(self, network: Network, n: int) -> None:
        layer = network.layers[0]
        self.n = n
        self.normed: Float32Array = np.empty((network.width, n), dtype=np.float32)
        self.heads: Float32Array = np.empty((len(layer.query_key_value), n), dtype=np.float32)
        self.mixed: Float32Array = np.empty((network.width, n), dtype=np.float32)
        self.added: Float32Array = np.empty((network.width, n), dtype=np.float32)
        self.gates: Float32Array = np.empty((len(layer.gate_up), n), dtype=np.float32)
        self._closed: Float32Array = np.empty((len(layer.gate_up) // 2, n), dtype=np.float32)

    def gated(self) -> Float32Array:
        """Return silu(gate) * up for the two halves of ``gates``."""
        gate, up = np.split(self.gates, 2)
        closed = np.negative(gate, out=self._closed)
        with np.errstate(over="ignore"):  # exp(-gate) may overflow to infinity; silu is then 0
            np.exp(closed, out=closed)
        closed += 1.0
        np.divide(gate, closed, out=closed)
        closed *= up
        return closed


def _size(file: GGUFFile, key: str, default: int | None = None) -> int:
    size = int(file.value(f"llama.{key}", int, default))
    if not 0 < size < 1 << 24:
        raise ArtifactError(f"{file.path}: metadata 'llama.{key}' is {size}, which is out of range")
    return size


def _parts(memory: Float32Array, shapes: Sequence[tuple[int, int]]) -> list[Float32Array]:
    """Split a block of memory into matrices."""
    parts: list[Float32Array] = []
    for shape in shapes:
        size = math.prod(shape)
        parts.append(memory[:size].reshape(shape))
        memory = memory[size:]
    return parts


def _rotate(heads: Float32Array, cos: Float32Array, sin: Float32Array) -> None:
    """Apply rotary position embeddings in place."""
    first, second = heads[:, 0], heads[:, 1]
    turned = first * cos - second * sin
    second *= cos
    second += first * sin
    heads[:, 0] = turned


def _seen(
    segment: Segment, keys: Float32Array, values: Float32Array, layer: int
) -> list[tuple[Float32Array, Float32Array, Float32Array | None]]:
    """Return the keys, values and bias visible to a segment, in one or two parts."""
    past, n_past = segment.past, segment.n_past
    if past is None:
        return [(keys, values, segment.bias)]
    end = n_past + len(segment.ids)
    if segment.store:
        past.keys[layer, ..., n_past:end] = keys
        past.values[layer, ..., n_past:end] = values
        if segment.bias is None:  # a single token sees all preceding tokens
            return [(past.keys[layer, ..., :end], past.values[layer, ..., :end], None)]
    before = past.keys[layer, ..., :n_past], past.values[layer, ..., :n_past], None
    own = keys, values, segment.bias
    return [before, own] if n_past else [own]


def _attend(
    queries: Float32Array,
    parts: Sequence[tuple[Float32Array, Float32Array, Float32Array | None]],
) -> NDArray[Any]:
    """Return the attention output, with a softmax over all parts.

    Heads that share keys are stacked into one matrix, so the keys are never repeated.
    """
    n_kv, n_shared, size, n = queries.shape
    stacked = queries.transpose(0, 1, 3, 2).reshape(n_kv, n_shared * n, size)
    scores = []
    for keys, _, bias in parts:
        score = stacked @ keys
        if bias is not None:
            score.reshape(n_kv, n_shared, n, -1)[...] += bias
        scores.append(score)
    peak = scores[0].max(-1, keepdims=True)
    for score in scores[1:]:
        np.maximum(peak, score.max(-1, keepdims=True), out=peak)
    total: Any = 0.0
    mixed: Any = 0.0
    for score, (_, values, _) in zip(scores, parts, strict=True):
        score -= peak
        np.exp(score, out=score)
        total = total + score.sum(-1, keepdims=True)
        mixed = mixed + score @ values.transpose(0, 2, 1)
    mixed /= total
    return np.asarray(mixed.reshape(n_kv, n_shared, n, size).transpose(0, 1, 3, 2))
