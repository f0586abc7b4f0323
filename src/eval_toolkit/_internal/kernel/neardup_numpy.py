"""Numpy backend of the near-duplicate kernel; finds the same pairs as the C kernel.

Mirrors neardup.c, which documents the algorithm; texts are processed in cache-sized blocks.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import BoolArray, IntArray

BASE = 0xF1357AEA2E62A9C5
GAMMA = 0x9E3779B97F4A7C15
BLOCK_BYTES = 1 << 16
"""Bytes of text per block, so n-grams and products fit into the L2 cache."""
CHUNK_PAIRS = 1 << 15
"""Number of pairs compared per batch."""
REACH_BLOCK = 8
"""Initial number of references compared per query, doubled until a match is found."""

ALL_PAIRS, CONNECT, FIRST_KEPT = range(3)
"""Purpose of a join: all pairs, pairs that connect each cluster, or (kept, dropped) pairs."""

PAIR = np.dtype([("left", "u4"), ("right", "u4"), ("similarity", "f8")])

_U64 = np.uint64
Hashes = NDArray[np.uint64]
Grams = NDArray[np.uint32]
Ids = IntArray


class Corpus(NamedTuple):
    """Concatenated texts with their offsets in bytes; one or four bytes per code point."""

    data: bytes
    starts: IntArray
    wide: NDArray[np.uint8]


class Sketches(NamedTuple):
    """Precomputed features of each text for filtering candidate pairs."""

    keys: Grams
    bitmaps: Hashes
    counts: Grams


def mix64(z: Hashes) -> Hashes:
    """Apply the SplitMix64 finaliser in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> _U64(shift)
        z *= _U64(factor)
    z ^= z >> _U64(31)
    return z


def _code_points(corpus: Corpus, rows: Ids) -> tuple[Hashes, IntArray]:
    """Return the concatenated code points of the selected texts, and the length of each."""
    begins, sizes = corpus.starts[rows], np.diff(corpus.starts)[rows]
    wide = corpus.wide[rows].astype(np.bool_)
    lengths = np.where(wide, sizes // 4, sizes)
    raw = np.frombuffer(corpus.data, np.uint8)[_ranges(begins, sizes)]
    if not wide.any():
        return raw.astype(_U64), lengths
    points = np.empty(int(lengths.sum()), _U64)
    in_wide = np.repeat(wide, sizes)
    is_wide = np.repeat(wide, lengths)
    points[is_wide] = raw[in_wide].view("<u4")
    points[~is_wide] = raw[~in_wide]
    return points, lengths


def _ranges(begins: IntArray, sizes: IntArray) -> IntArray:
    """Return the concatenation of all ranges begin, begin + 1, …."""
    ends = np.cumsum(sizes)
    return np.repeat(begins - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)


def _grams(corpus: Corpus, rows: Ids, n: int) -> tuple[Grams, IntArray]:
    """Return the hashed n-grams of the selected texts, with repetitions, and their counts."""
    points, lengths = _code_points(corpus, rows)
    points += _U64(1)
    windows = np.where(lengths > n, lengths - n + 1, lengths > 0)
    first = np.repeat(np.cumsum(lengths) - lengths, windows)
    at = first + _ranges(np.zeros_like(windows), windows)
    width = np.repeat(np.minimum(lengths, n), windows)
    hashes = np.zeros(len(at), _U64)
    if len(points) == 0:
        return hashes.astype(np.uint32), windows
    for step in range(min(n, int(lengths.max(initial=0)))):
        if (width > step).all():
            hashes *= _U64(BASE)
            hashes += points[at + step]
        else:
            inside = width > step
            hashes[inside] = hashes[inside] * _U64(BASE) + points[(at + step)[inside]]
    hashes += width.astype(_U64) * _U64(GAMMA)
    return (mix64(hashes) >> _U64(32)).astype(np.uint32), windows


def _blocks(starts: IntArray) -> Iterator[Ids]:
    """Divide the texts into blocks of about `BLOCK_BYTES`, with at least one text each."""
    n_texts = len(starts) - 1
    begin = 0
    while begin < n_texts:
        end = int(np.searchsorted(starts, starts[begin] + BLOCK_BYTES, side="right")) - 1
        end = min(max(end, begin + 1), n_texts)
        yield np.arange(begin, end)
        begin = end


def sketches(
    data: bytes,
    starts: IntArray,
    wide: NDArray[np.uint8],
    n: int,
    multipliers: Grams,
    weights: Hashes,
    keys: Grams,
    bitmaps: Hashes,
    counts: Grams,
) -> None:
    """Fill the keys, the bitmaps and the counts of all texts."""
    corpus = Corpus(data, starts, wide)
    for block in _blocks(starts):
        grams, windows = _grams(corpus, block, n)
        counts[block] = windows
        bits = np.zeros((len(block), bitmaps.shape[1] * 64), np.uint8)
        bits[np.repeat(np.arange(len(block)), windows), grams % bits.shape[1]] = 1
        bitmaps[block] = np.packbits(bits, axis=1, bitorder="little").view("<u8")
        filled = windows > 0
        if filled.any():
            begins = (np.cumsum(windows) - windows)[filled]
            keys[block[filled]] = _band_keys(grams, begins, multipliers, weights, keys.shape[1])


def _band_keys(
    grams: Grams, begins: IntArray, multipliers: Grams, weights: Hashes, bands: int
) -> Grams:
    rows = len(weights)
    product = np.empty_like(grams)
    least = np.empty((bands, rows, len(begins)), np.uint32)
    for q, multiplier in enumerate(multipliers[: bands * rows]):
        np.multiply(grams, multiplier, out=product)
        np.minimum.reduceat(product, begins, out=least[q // rows, q % rows])
    sums = np.zeros((bands, len(begins)), _U64)
    for row, weight in enumerate(weights):
        sums += least[:, row] * weight
    return np.maximum((mix64(sums) >> _U64(32)).astype(np.uint32), np.uint32(1)).T


def pairs(
    corpus: Corpus,
    n: int,
    sketch: Sketches,
    threshold: float,
    boundary: int,
    limit: int,
    task: int,
    kinds: NDArray[np.uint8],
) -> tuple[bytes, bool]:
    """Return verified pairs of texts in a common bucket, and whether the list is complete."""
    join = _Join(corpus, n, sketch, threshold)
    keys = sketch.keys
    if task == FIRST_KEPT:
        join.first_kept()
    for band in range(keys.shape[1] if task != FIRST_KEPT else 0):
        ids, begins, sizes = _buckets(keys[:, band])
        if boundary >= 0:
            join.across(band, ids, begins, sizes, boundary, limit, kinds)
            continue
        small = sizes <= limit
        for first, second in _members_of_pairs(begins[small], sizes[small]):
            join.compare(band, ids[first], ids[second], unconnected=task == CONNECT)
        for begin, size in zip(begins[~small].tolist(), sizes[~small].tolist(), strict=True):
            large = join.connect if task == CONNECT else join.clusters
            large(band, ids[begin : begin + size])
    return b"".join(found.tobytes() for found in join.found), join.complete


def _buckets(keys: Grams) -> tuple[Ids, IntArray, IntArray]:
    """Return the texts ordered by key, and the offsets of buckets with at least two texts."""
    entries = keys.astype(_U64) << _U64(32) | np.arange(len(keys), dtype=_U64)
    entries = np.sort(entries[keys != 0])
    sorted_keys = entries >> _U64(32)
    begins = np.flatnonzero(np.append(True, sorted_keys[1:] != sorted_keys[:-1])[: len(entries)])
    sizes = np.diff(np.append(begins, len(entries)))
    ids = (entries & _U64(0xFFFFFFFF)).astype(np.int64)
    return ids, begins[sizes > 1], sizes[sizes > 1]


def _members_of_pairs(begins: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the positions of both members of every pair, batched over buckets of equal size."""
    for size in np.unique(sizes).tolist():
        of_size = begins[sizes == size]
        first, second = np.triu_indices(size, 1)
        step = max(1, CHUNK_PAIRS // len(first))
        for part in range(0, len(of_size), step):
            bucket = of_size[part : part + step, None]
            yield (bucket + first).ravel(), (bucket + second).ravel()


class _Join:
    """State of one join: features of the texts, and the pairs found."""

    def __init__(self, corpus: Corpus, n: int, sketch: Sketches, threshold: float) -> None:
        self.corpus, self.n, self.threshold = corpus, n, threshold
        self.keys, self.bitmaps = sketch.keys, sketch.bitmaps
        self.counts = sketch.counts.astype(np.int64)
        self.found: list[NDArray[np.void]] = []
        self.complete = True
        self._parent: list[int] = []
        self._first_similar_to: list[int] = []
        self._n_united = 0
        self._reached: IntArray = np.zeros(len(sketch.counts), np.int64)

    def across(
        self,
        band: int,
        ids: Ids,
        begins: IntArray,
        sizes: IntArray,
        boundary: int,
        limit: int,
        kinds: NDArray[np.uint8],
    ) -> None:
        """Compare the queries of every bucket (listed first) with its references."""
        for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True):
            bucket = ids[begin : begin + size]
            queries, references = np.split(bucket, [np.searchsorted(bucket, boundary)])
            if not len(queries) or not len(references):
                continue
            if len(kinds):
                self._reach(band, queries, references, kinds)
            elif len(queries) <= limit * limit // len(references):
                pairs = np.repeat(queries, len(references)), np.tile(references, len(queries))
                self.compare(band, *pairs)
            else:
                for query in queries.tolist():
                    self._first_similar(band, query, references, limit)

    def _first_similar(self, band: int, query: int, references: Ids, enough: int) -> None:
        similar = self._similar(band, np.full(len(references), query), references)
        self.found.append(similar[:enough])
        if len(similar) >= enough:
            self.complete = False
            self.keys[query, band] = 0

    def _reach(self, band: int, queries: Ids, references: Ids, kinds: NDArray[np.uint8]) -> None:
        """Keep the first similar reference of each kind for queries without a match."""
        every = np.bitwise_or.reduce(kinds[references])
        begin, size = 0, REACH_BLOCK
        while begin < len(references):
            queries = queries[(every & ~self._reached[queries]) != 0]
            if not len(queries):
                return
            block = references[begin : begin + size]
            left, right = np.repeat(queries, len(block)), np.tile(block, len(queries))
            wanted = (kinds[right] & ~self._reached[left]) != 0
            similar = self._similar(band, left[wanted], right[wanted])
            new = []
            for query, reference in zip(
                similar["left"].tolist(), similar["right"].tolist(), strict=True
            ):
                new.append(bool(kinds[reference] & ~self._reached[query]))
                self._reached[query] |= kinds[reference]
            self.found.append(similar[np.array(new, np.bool_)])
            begin, size = begin + size, 2 * size

    def compare(self, band: int, left: Ids, right: Ids, *, unconnected: bool = False) -> int:
        """Keep the similar pairs that share a band, and return their number."""
        if unconnected:
            self._unite()
            root = self._roots()
            apart = root[left] != root[right]
            left, right = left[apart], right[apart]
        similar = self._similar(band, left, right)
        self.found.append(similar)
        return len(similar)

    def first_kept(self) -> None:
        """Visit the texts in order and drop those similar to a kept text."""
        shared = np.zeros(self.keys.shape, np.bool_)
        for band in range(self.keys.shape[1]):
            ids, begins, sizes = _buckets(self.keys[:, band])
            shared[ids[_ranges(begins, sizes)], band] = True
        kept: dict[tuple[int, int], list[int]] = {}
        for one in np.flatnonzero(shared.any(axis=1)).tolist():
            bands = np.flatnonzero(shared[one])
            buckets = list(zip(bands.tolist(), self.keys[one, bands].tolist(), strict=True))
            beside = {other for bucket in buckets for other in kept.get(bucket, ())}
            others = np.array(sorted(beside), np.int64)
            similar = self._similar(0, others, np.full(len(others), one))
            if len(similar):
                self.found.append(similar[:1])
                continue
            for bucket in buckets:
                kept.setdefault(bucket, []).append(one)

    def connect(self, band: int, ids: Ids) -> None:
        """Compare a large bucket with mutually dissimilar representatives."""
        attached = np.zeros(len(ids), np.bool_)
        for place, one in enumerate(ids.tolist()):
            if not attached[place]:
                later = ids[place + 1 :]
                similar = self._similar(0, np.full(len(later), one), later)
                attached[place + 1 :] |= np.isin(later, similar["right"])
                self.found.append(similar)
        self.keys[ids, band] = 0

    def clusters(self, band: int, ids: Ids) -> None:
        """Compare the texts of a large bucket with the clusters in it."""
        representatives: list[int] = []
        for one in ids.tolist():
            self._unite()
            root, first = self._root(one), self._first_similar_to[one]
            others = [x for x in representatives if first > x or self._root(x) != root]
            n_similar = self.compare(band, np.full(len(others), one), np.array(others, np.int64))
            if len(others) == len(representatives) and not n_similar:
                representatives.append(one)
        if len(representatives) < len(ids):
            self.complete = False
        self.keys[ids, band] = 0

    def _unite(self) -> None:
        """Update the clusters with the pairs found."""
        if not self._parent:
            self._parent = list(range(len(self.keys)))
            self._first_similar_to = list(range(len(self.keys)))
        for similar in self.found[self._n_united :]:
            columns = similar["left"].tolist(), similar["right"].tolist()
            for left, right in zip(*columns, strict=True):
                a, b = sorted((self._root(left), self._root(right)))
                self._parent[b] = a
                self._first_similar_to[right] = min(self._first_similar_to[right], left)
        self._n_united = len(self.found)

    def _roots(self) -> Ids:
        """Return the cluster of every text."""
        roots = np.array(self._parent, np.int64)
        while (roots[roots] != roots).any():
            roots = roots[roots]
        return roots

    def _root(self, one: int) -> int:
        parent = self._parent
        while parent[one] != one:
            parent[one] = one = parent[parent[one]]
        return one

    def _similar(self, band: int, left: Ids, right: Ids) -> NDArray[np.void]:
        """Return the similar pairs that share a band for the first time."""
        found = [np.empty(0, PAIR)]
        for begin in range(0, len(left), CHUNK_PAIRS):
            a, b = left[begin : begin + CHUNK_PAIRS], right[begin : begin + CHUNK_PAIRS]
            for keep in (self._plausible, lambda a, b: self._first_met(band, a, b)):
                kept = keep(a, b)
                a, b = a[kept], b[kept]
            if len(a):
                found.append(self._verified(np.minimum(a, b), np.maximum(a, b)))
        return np.concatenate(found)

    def _plausible(self, left: Ids, right: Ids) -> BoolArray:
        differing = _popcount(self.bitmaps[left] ^ self.bitmaps[right])
        share = (1.0 - self.threshold) / (1.0 + self.threshold)
        allowed = share * (self.counts[left] + self.counts[right])
        return np.asarray(differing <= allowed + 1e-6)

    def _first_met(self, band: int, left: Ids, right: Ids) -> BoolArray:
        a, b = self.keys[left, :band], self.keys[right, :band]
        return np.asarray(~((a == b) & (a != 0)).any(axis=1))

    def _verified(self, left: Ids, right: Ids) -> NDArray[np.void]:
        """Return the similar pairs by exact comparison of the gram sets."""
        rows, inverse = np.unique(np.concatenate([left, right]), return_inverse=True)
        sets, sizes = self._gram_sets(rows)
        begins = np.cumsum(sizes) - sizes
        members = sets[_ranges(begins[inverse], sizes[inverse])].astype(_U64)
        of_pair = np.tile(np.arange(len(left), dtype=_U64), 2)
        members |= np.repeat(of_pair, sizes[inverse]) << _U64(32)
        members.sort()
        twice = members[1:][members[1:] == members[:-1]]
        common = np.bincount((twice >> _U64(32)).astype(np.int64), minlength=len(left))
        size_left, size_right = sizes[inverse].reshape(2, -1)
        similarity = common / (size_left + size_right - common)
        similar = np.flatnonzero(similarity >= self.threshold)
        out = np.empty(len(similar), PAIR)
        out["left"], out["right"] = left[similar], right[similar]
        out["similarity"] = similarity[similar]
        return out

    def _gram_sets(self, rows: Ids) -> tuple[Grams, IntArray]:
        """Return the sorted distinct n-grams of the selected texts and the number per text."""
        grams, windows = _grams(self.corpus, rows, self.n)
        owners = np.repeat(np.arange(len(rows), dtype=_U64), windows)
        distinct = np.unique(owners << _U64(32) | grams)
        sizes = np.bincount((distinct >> _U64(32)).astype(np.int64), minlength=len(rows))
        return distinct.astype(np.uint32), sizes


_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


def _popcount(words: Hashes) -> IntArray:
    """Return the number of set bits in each row."""
    counts: IntArray = _BITS[words.view(np.uint8)].sum(axis=1, dtype=np.int64)
    return counts
