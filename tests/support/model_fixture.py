"""Tiny GGUF model with an independent reference implementation.

`write_gguf` writes arbitrary arrays; `write_tiny_model` writes a Llama network with random weights and
a byte-level vocabulary; `reference_logits` evaluates it in float64 directly from the definition,
without caching, packing or shared prefixes, and with interleaved rotary pairs.
"""

import asyncio
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import MissingExtraError, ModelError
from eval_toolkit.models.request_positions import ask as ask_one
from eval_toolkit.models.requests import Request
from eval_toolkit.protocols import Model

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = "{{ '<|im_start|>' }}"
WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS = 32, 48, 2, 4, 2
CONTEXT = 96
MERGES = ("t h", "th e", "Ġ the", "Ġ a", "i s", "Ġ is", "a b", "ab ab")


def ask(model: Model, *requests: Request) -> list[Any]:
    """Return a model's responses to concurrent requests; failures are returned as exceptions."""

    async def together() -> list[Any]:
        calls = [ask_one(model, request) for request in requests]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    return asyncio.run(together())


def fetched_toxicity_scorer() -> Any:
    """Return the scorer with its real weights; skip the test if they are not installed."""
    from eval_toolkit.rollouts.scorers.toxicity import ToxicityScorer, toxicity_path

    try:
        toxicity_path()
        require("h5py", feature="ToxicityScorer", extra="safety")
    except (MissingExtraError, ModelError) as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    return ToxicityScorer()


def _packed(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if all(isinstance(item, str) for item in value):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_bytes(
    metadata: Mapping[str, Any], tensors: Mapping[str, tuple[tuple[int, ...], int, bytes]]
) -> bytes:
    """Return the bytes of a GGUF file; a tensor is (shape, type number, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += _text(key) + _packed(value)
    data = b""
    for name, (shape, kind, content) in tensors.items():
        head += _text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape[::-1]) + struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def write_gguf(path: Path, metadata: Mapping[str, Any], arrays: Mapping[str, Any]) -> Path:
    """Write arrays as float32."""
    tensors = {name: (a.shape, 0, a.astype("<f4").tobytes()) for name, a in arrays.items()}
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def tiny_metadata(**changes: Any) -> dict[str, Any]:
    """Return the metadata of the tiny model; ``__`` denotes a dot in the names of changes."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = [chr(byte) for byte in visible] + [chr(0x100 + at) for at in range(256 - 188)]
    tokens = [*CONTROL, *letters, *(merge.replace(" ", "") for merge in MERGES)]
    metadata = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": HIDDEN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 1000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(CONTROL) + [1] * (len(tokens) - len(CONTROL)),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
    }
    return metadata | {key.replace("__", "."): value for key, value in changes.items()}


def tiny_weights(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Return random weights, large enough that the next-token distribution depends on the token."""
    draw = np.random.default_rng(seed)
    n_vocabulary = len(tiny_metadata()["tokenizer.ggml.tokens"])
    n_keys = WIDTH // HEADS * KV_HEADS
    shapes = {"token_embd": (n_vocabulary, WIDTH), "output_norm": (WIDTH,)}
    for at in range(LAYERS):
        shapes |= {
            f"blk.{at}.attn_norm": (WIDTH,),
            f"blk.{at}.attn_q": (WIDTH, WIDTH),
            f"blk.{at}.attn_k": (n_keys, WIDTH),
            f"blk.{at}.attn_v": (n_keys, WIDTH),
            f"blk.{at}.attn_output": (WIDTH, WIDTH),
            f"blk.{at}.ffn_norm": (WIDTH,),
            f"blk.{at}.ffn_gate": (HIDDEN, WIDTH),
            f"blk.{at}.ffn_up": (HIDDEN, WIDTH),
            f"blk.{at}.ffn_down": (WIDTH, HIDDEN),
        }
    weights = {
        f"{name}.weight": (
            draw.uniform(0.5, 1.5, shape) if len(shape) == 1 else draw.normal(0, 0.35, shape)
        ).astype(np.float32)
        for name, shape in shapes.items()
    }
    # Control tokens and bytes that are no character are unlikely: it talks, and can be read.
    weights["token_embd.weight"][: len(CONTROL)] *= 0.1
    weights["token_embd.weight"][len(CONTROL) + 94 : len(CONTROL) + 256] *= 0.1
    return weights


def write_tiny_model(path: Path, **changes: Any) -> Path:
    """Write the tiny model to a file."""
    return write_gguf(path, tiny_metadata(**changes), tiny_weights())


def reference_logits(weights: Mapping[str, Any], ids: Sequence[int]) -> NDArray[np.float64]:
    """Return the logits after each token, shape (tokens, vocabulary)."""
    w = {name.removesuffix(".weight"): a.astype(np.float64) for name, a in weights.items()}
    size = WIDTH // HEADS
    x = w["token_embd"][list(ids)]

    def normed(rows: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
        return rows / np.sqrt((rows**2).mean(-1, keepdims=True) + 1e-5) * weight

    def turned(rows: NDArray[Any]) -> NDArray[Any]:
        out = rows.copy()
        for pair in range(size // 2):
            angle = np.arange(len(rows)) / 1000.0 ** (2 * pair / size)
            a, b = rows[:, 2 * pair], rows[:, 2 * pair + 1]
            out[:, 2 * pair] = a * np.cos(angle) - b * np.sin(angle)
            out[:, 2 * pair + 1] = a * np.sin(angle) + b * np.cos(angle)
        return out

    for at in range(LAYERS):
        h = normed(x, w[f"blk.{at}.attn_norm"])
        q = (h @ w[f"blk.{at}.attn_q"].T).reshape(len(x), HEADS, size)
        k = (h @ w[f"blk.{at}.attn_k"].T).reshape(len(x), KV_HEADS, size)
        v = (h @ w[f"blk.{at}.attn_v"].T).reshape(len(x), KV_HEADS, size)
        read = np.zeros((len(x), HEADS, size))
        for head in range(HEADS):
            shared = head // (HEADS // KV_HEADS)
            scores = turned(q[:, head]) @ turned(k[:, shared]).T / np.sqrt(size)
            scores[np.triu_indices(len(x), 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            read[:, head] = shares / shares.sum(-1, keepdims=True) @ v[:, shared]
        x = x + read.reshape(len(x), WIDTH) @ w[f"blk.{at}.attn_output"].T
        h = normed(x, w[f"blk.{at}.ffn_norm"])
        gate = h @ w[f"blk.{at}.ffn_gate"].T
        up = h @ w[f"blk.{at}.ffn_up"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"blk.{at}.ffn_down"].T
    return np.asarray(normed(x, w["output_norm"]) @ w["token_embd"].T)


def reference_loglikelihood(
    weights: Mapping[str, Any], context: Sequence[int], continuation: Sequence[int]
) -> float:
    """Return the log-likelihood of a continuation of a context of at least one token."""
    logits = reference_logits(weights, [*context, *continuation][:-1])[len(context) - 1 :]
    peak = logits.max(-1)
    total = peak + np.log(np.exp(logits - peak[:, None]).sum(-1))
    return float(sum(logits[at, token] - total[at] for at, token in enumerate(continuation)))
