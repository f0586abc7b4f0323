"""Near-duplicate kernel: MinHash band keys of texts, and verified pairs.

Two backends find the same pairs: ``native`` (C, neardup.c) and ``numpy`` (neardup_numpy.py). They
are selected by `eval_toolkit._internal.kernel.using` and ``EVAL_TOOLKIT_KERNEL``.

A text is represented by the set of its code-point n-grams; a text shorter than n is a single
n-gram, and the empty text has none. N-grams are hashed to 32 bits (collision probability 2⁻³²), and
the similarity of a pair is the Jaccard coefficient of the hashed sets.

The hash family is x → a·x mod 2³² with odd a, which permutes the 32-bit integers; products
wrap around.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import kernel as _kernel
from eval_toolkit._internal.kernel import neardup_numpy
from eval_toolkit._internal.kernel.neardup_numpy import (
    ALL_PAIRS,
    CONNECT,
    FIRST_KEPT,
    PAIR,
    Corpus,
    Sketches,
    mix64,
)
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError

try:
    from eval_toolkit._internal.kernel import _neardup
except ImportError:  # built without a compiler
    _neardup = None

__all__ = [
    "ALL_PAIRS",
    "BUCKET_LIMIT",
    "CONNECT",
    "FIRST_KEPT",
    "FoundPairs",
    "backend",
    "similar_pairs",
    "sketches",
]

BUCKET_LIMIT = 512
"""Largest bucket compared pairwise; in larger buckets, texts are compared with clusters."""

MAX_TEXTS = (1 << 32) - 1

native: ModuleType | None = _neardup

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_STRIP = 64


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """Distinct pairs of rows, in order; incomplete if a bucket was too large."""

    left: IntArray
    right: IntArray
    similarity: FloatArray
    complete: bool


def backend() -> str:
    """Return the name of the active backend: ``native`` or ``numpy``."""
    return "native" if native is not None and _kernel.backend() == "native" else "numpy"


def _encoded(texts: Sequence[str]) -> Corpus:
    """Concatenate strings, as bytes if all are ASCII, else with four bytes per code point."""
    if len(texts) > MAX_TEXTS:
        raise InvalidInputError(
            f"`texts` has {len(texts)} distinct texts; at most {MAX_TEXTS} can be compared at once"
        )
    wide = ~np.fromiter(map(str.isascii, texts), np.bool_, len(texts))
    pieces = [
        text.encode("ascii") if text.isascii() else text.encode("utf-32-le", "surrogatepass")
        for text in texts
    ]
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(texts)), out=starts[1:])
    return Corpus(b"".join(pieces), starts, wide.view(np.uint8))


def _hash_constants(seed: int, n: int) -> NDArray[np.uint64]:
    counters = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_GAMMA)
    return mix64(counters + np.uint64(seed & _MASK)) | np.uint64(1)


def sketches(corpus: Corpus, *, n: int, bands: int, rows: int, seed: int) -> Sketches:
    """Return the band keys, the bitmap and the number of n-grams of every text."""
    padded = -(-bands * rows // _STRIP) * _STRIP
    multipliers = _hash_constants(seed, padded).astype(np.uint32)
    weights = _hash_constants(~seed, rows)
    n_texts = len(corpus.wide)
    out = Sketches(
        keys=np.zeros((n_texts, bands), np.uint32),
        bitmaps=np.zeros((n_texts, 8), np.uint64),
        counts=np.zeros(n_texts, np.uint32),
    )
    if n_texts:
        kernel: Any = native if backend() == "native" else neardup_numpy
        kernel.sketches(*corpus, n, multipliers, weights, *out)
    return out


def similar_pairs(
    texts: Sequence[str],
    *,
    n: int,
    bands: int,
    rows: int,
    seed: int,
    threshold: float,
    boundary: int | None = None,
    limit: int = BUCKET_LIMIT,
    task: int = ALL_PAIRS,
    kinds: NDArray[np.uint8] | None = None,
) -> FoundPairs:
    """Return pairs of texts that share a band and reach the similarity threshold.

    Parameters
    ----------
    texts : sequence of str
        Distinct texts, already normalised.
    n : int
        Length of the n-grams in code points.
    bands, rows : int
        Number of bands, and MinHashes per band.
    seed : int
        Seed of the hash permutations.
    threshold : float
        Smallest Jaccard coefficient of a pair; 0 returns all pairs that share a band.
    boundary : int, optional
        Number of leading texts that are queries; only pairs of a query and a reference (a later
        text) are returned.
    limit : int, default 512
        Largest bucket compared pairwise.
    task : int, default ALL_PAIRS
        `CONNECT` returns pairs that connect each cluster; the pairs depend on the backend, the
        clusters do not. `FIRST_KEPT` visits the texts in order, keeps those similar to no kept
        text, and returns pairs (first similar kept text, dropped text).
    kinds : ndarray of uint8, optional
        Bit mask of each text. With a boundary and ``kinds``, the search for a query stops after one
        similar reference per bit.

    Returns
    -------
    FoundPairs
        With left < right, in ascending order.
    """
    corpus = _encoded(texts)
    if not len(corpus.wide):
        return FoundPairs(*_columns(np.empty(0, PAIR)), complete=True)
    sketch = sketches(corpus, n=n, bands=bands, rows=rows, seed=seed)
    within = -1 if boundary is None else boundary
    bits = np.empty(0, np.uint8) if kinds is None else kinds
    rule = (threshold, within, limit, task, bits)
    if native is not None and backend() == "native":
        found, complete = native.pairs(*corpus, n, *sketch, *rule)
    else:
        found, complete = neardup_numpy.pairs(corpus, n, sketch, *rule)
    return FoundPairs(*_columns(np.frombuffer(found, PAIR)), complete=bool(complete))


def _columns(pairs: NDArray[np.void]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the columns of the pairs in order, without duplicates from large buckets."""
    codes = pairs["left"].astype(np.uint64) << np.uint64(32) | pairs["right"]
    codes, order = np.unique(codes, return_index=True)
    left, right = codes >> np.uint64(32), codes & np.uint64(0xFFFFFFFF)
    return left.astype(np.int64), right.astype(np.int64), pairs["similarity"][order]
