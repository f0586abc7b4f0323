"""MinHash LSH for near-duplicates in millions of texts, with verified pairs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.kernel import neardup
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.text_dedup.normalize import Distinct, distinct, normalize_text_for_dedup
from eval_toolkit.text_dedup.pairs import (
    Across,
    JoinStrategy,
    Neighbours,
    SimilarPairs,
    Wanted,
    Within,
)

MAX_HASHES = 256
MISS = 0.001
"""Target probability of missing a pair exactly at the threshold (lower above the threshold)."""
TOLERABLE_MISS = 0.02
SELECTIVE_ROWS = 5
"""Rows per band below which unrelated texts share too many buckets."""

_TASKS: dict[Wanted, int] = {
    "pairs": neardup.ALL_PAIRS,
    "clusters": neardup.CONNECT,
    "first_kept": neardup.FIRST_KEPT,
}


def _bands_for(threshold: float) -> tuple[int, int]:
    """Return the number of bands and rows per band for a threshold.

    A pair of similarity s shares none of b bands of r rows with probability (1 − sʳ)ᵇ.
    """

    def bands_needed(rows: int, miss: float) -> int:
        agree = threshold**rows
        return 1 if agree == 1.0 else math.ceil(math.log(miss) / math.log1p(-agree))

    for rows in range(16, SELECTIVE_ROWS - 1, -1):
        if bands_needed(rows, MISS) * rows <= MAX_HASHES:
            return bands_needed(rows, MISS), rows
    for rows in range(SELECTIVE_ROWS, 0, -1):
        if bands_needed(rows, TOLERABLE_MISS) * rows <= MAX_HASHES:
            return min(MAX_HASHES // rows, bands_needed(rows, MISS)), rows
    return MAX_HASHES, 1


@dataclass(frozen=True, slots=True)
class MinHashLSHStrategy(JoinStrategy):
    """Jaccard similarity of character n-grams, with candidate pairs from MinHash.

    Locality-sensitive hashing selects candidate pairs, which are then compared exactly, so every
    reported pair is similar (n-grams are compared by 32-bit hashes, which collide with probability
    2⁻³²). ``pairs_above`` chooses its own bands from the threshold, such as 51 bands of 5 rows at
    0.6, so a pair at the threshold is missed with probability below 0.02, and pairs above it
    much less often; for thresholds below 0.5, the cost approaches that of comparing all pairs.
    ``num_perm`` and ``bands`` apply to ``pairs_within`` and ``pairs_across``, where a similarity of
    0 means that no band is shared.

    In buckets of more than 512 distinct texts, texts are compared with the clusters already found
    instead of pairwise; ``pairs_above`` then returns pairs that connect the cluster and sets
    ``complete`` to False. `near_dedup`, `duplicate_clusters` and `cross_dedup` do not need all
    pairs, so each near-identical text is compared only a few times.

    Parameters
    ----------
    n : int, default 3
        Length of the n-grams in code points; a shorter text is one n-gram.
    num_perm : int, default 128
        Number of hash functions, at least 8 and divisible by ``bands``.
    bands : int, default 16
        Number of bands. A pair with similarity s is found with probability 1 − (1 − sʳ)ᵇ, r =
        num_perm / bands.
    seed : int, default 42
        Random seed of the hash functions.
    normalize : bool, default True
        Whether to compare texts normalised by `normalize_text_for_dedup`.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.

    Examples
    --------
    >>> texts = ["the quick brown fox jumps", "The quick brown fox jumped", "something else"]
    >>> left, right, similarity = MinHashLSHStrategy(n=3).pairs_above(texts, 0.8)
    >>> left.tolist(), right.tolist(), similarity.round(2).tolist()
    ([0], [1], [0.88])
    """

    reaches_one: ClassVar[bool] = True
    n: int = 3
    num_perm: int = 128
    bands: int = 16
    seed: int = 42
    normalize: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        validation.integer(self.n, "n", low=1)
        validation.integer(self.num_perm, "num_perm", low=8)
        validation.integer(self.bands, "bands", low=1)
        validation.integer(self.seed, "seed", low=0)
        if self.num_perm % self.bands:
            raise InvalidInputError(
                f"`num_perm` is {self.num_perm}; it must be divisible by `bands` ({self.bands})"
            )

    def _distinct(self, texts: list[str]) -> Distinct:
        return distinct(map(normalize_text_for_dedup, texts) if self.normalize else texts)

    def _join(
        self,
        texts: list[str],
        shape: tuple[int, int],
        threshold: float,
        boundary: int | None,
        **enough: Any,
    ) -> SimilarPairs:
        bands, rows = shape
        found = neardup.similar_pairs(
            texts,
            n=self.n,
            bands=bands,
            rows=rows,
            seed=self.seed,
            threshold=threshold,
            boundary=boundary,
            limit=neardup.BUCKET_LIMIT,
            **enough,
        )
        right = found.right - (boundary or 0)
        return SimilarPairs(found.left, right, found.similarity, found.complete)

    def within(self, texts: list[str], threshold: float, wanted: Wanted = "pairs") -> Within:
        """Find the similar distinct texts in one list."""
        rows, shape = self._distinct(texts), _bands_for(threshold)
        return Within(rows, [self._join(rows.keys, shape, threshold, None, task=_TASKS[wanted])])

    def across(
        self,
        query: list[str],
        reference: list[str],
        threshold: float,
        kinds: IntArray | None = None,
    ) -> Across:
        """Find the similar distinct texts in two lists."""
        rows, others = self._distinct(query), self._distinct(reference)
        texts, boundary = rows.keys + others.keys, len(rows.keys)
        bits = None
        if kinds is not None:
            bits = np.zeros(len(texts), np.uint8)
            np.bitwise_or.at(bits[boundary:], others.codes, kinds.astype(np.uint8))
        found = self._join(texts, _bands_for(threshold), threshold, boundary, kinds=bits)
        return Across(rows, others, [found])

    def _neighbours_within(self, texts: list[str], k: int) -> tuple[Distinct, Neighbours]:
        rows = self._distinct(texts)
        found = self._join(rows.keys, (self.bands, self.num_perm // self.bands), 0.0, None)
        left = np.concatenate([found.left, found.right])
        right = np.concatenate([found.right, found.left])
        similarity = np.tile(found.similarity, 2)
        return rows, _ranked(left, right, similarity, len(rows.keys))

    def _neighbours_across(
        self, query: list[str], reference: list[str], k: int
    ) -> tuple[Distinct, Distinct, Neighbours]:
        rows, others = self._distinct(query), self._distinct(reference)
        texts, boundary = rows.keys + others.keys, len(rows.keys)
        found = self._join(texts, (self.bands, self.num_perm // self.bands), 0.0, boundary)
        return rows, others, _ranked(found.left, found.right, found.similarity, boundary)


def _ranked(
    left: IntArray, right: IntArray, similarity: FloatArray, n: int
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield each left row's neighbours, most similar first."""
    order = np.lexsort((right, -similarity, left))
    bounds = np.searchsorted(left[order], np.arange(n + 1))
    for begin, end in pairwise(bounds.tolist()):
        yield right[order[begin:end]], similarity[order[begin:end]]
