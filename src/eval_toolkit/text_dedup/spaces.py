"""Exact similarity joins of vectors or sets above a threshold, computed in blocks.

Sparse rows are joined by prefix filtering [1]_: with features ordered from rare to frequent, two
rows can be similar only if their prefixes have a common feature. For cosines, the prefix ends when
the norm of the remainder is below the threshold; for sets of m elements, it has m − ⌈t·m⌉ + 1
features. Candidates come from a sparse product of the prefixes, and their similarity is then
computed exactly.

References
----------
.. [1] Bayardo, Ma & Srikant (2007), "Scaling up all pairs similarity search", WWW.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.text_dedup.pairs import SimilarPairs

BLOCK_PRODUCTS = 1 << 24
"""Maximum number of multiplications per block, which bounds memory."""
CHUNK_PAIRS = 1 << 14
MOST_PRODUCTS = 10**10
"""Maximum number of multiplications for exact comparisons (a few minutes); more are refused."""

DIGITS = 12
"""Decimals of cosines; rounding makes them independent of the order of summation."""

SparseMatrix = Any


def _cosine(products: FloatArray) -> FloatArray:
    return np.clip(np.round(products, DIGITS), 0.0, 1.0)


class Space(ABC):
    """Rows with a similarity measure; an optional boundary separates queries from references."""

    __slots__ = ()

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of rows."""

    @abstractmethod
    def similarities(self, rows: slice, others: slice) -> FloatArray:
        """Return the similarities between two selections of rows."""

    @abstractmethod
    def above(self, threshold: float, boundary: int | None) -> Iterator[SimilarPairs]:
        """Yield pairs at or above a threshold, by right row (by query with a boundary)."""

    def neighbours(self, k: int, boundary: int | None) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the k nearest neighbours of each row; ties go to the smaller index."""
        others = slice(0 if boundary is None else boundary, self.n)
        n_rows, n_others = self.n if boundary is None else boundary, others.stop - others.start
        k = min(k, n_others)
        step = max(1, BLOCK_PRODUCTS // max(n_others, 1))
        for begin in range(0, n_rows, step):
            block = self.similarities(slice(begin, min(begin + step, n_rows)), others)
            if k == 0:
                yield from ((np.empty(0, np.int64), np.empty(0)) for _ in block)
                continue
            least = np.partition(block, n_others - k, axis=1)[:, n_others - k]
            for row, cut in zip(block, least, strict=True):
                reaching = np.flatnonzero(row >= cut)
                chosen = reaching[np.argsort(-row[reaching], kind="stable")][:k]
                yield chosen, row[chosen]


@dataclass(frozen=True, slots=True)
class DenseCosine(Space):
    """Unit (or zero) vectors as rows of a dense matrix."""

    vectors: FloatArray

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.vectors)

    def similarities(self, rows: slice, others: slice) -> FloatArray:
        """Return the cosines between two selections of rows."""
        return _cosine(self.vectors[rows] @ self.vectors[others].T)

    def above(self, threshold: float, boundary: int | None) -> Iterator[SimilarPairs]:
        """Yield pairs from blocks of the cosine matrix."""
        step = max(1, BLOCK_PRODUCTS // max(self.n, 1))
        stop = self.n if boundary is None else boundary
        for begin in range(0, stop, step):
            end = min(begin + step, stop)
            others = slice(0, end) if boundary is None else slice(boundary, self.n)
            cosines = self.similarities(slice(begin, end), others)
            row, other = np.nonzero(cosines >= threshold)
            found = cosines[row, other]
            row = row + begin
            if boundary is not None:
                yield SimilarPairs(row, other, found)
                continue
            earlier = other < row
            yield SimilarPairs(other[earlier], row[earlier], found[earlier])


def rare_first(rows: IntArray, grams: IntArray, values: FloatArray, n_rows: int) -> SparseMatrix:
    """Return a sparse matrix with columns ordered from rare to frequent n-grams."""
    from scipy import sparse

    frequency = np.bincount(grams)
    rank = np.empty_like(frequency)
    rank[np.argsort(frequency, kind="stable")] = np.arange(len(frequency))
    matrix = sparse.csr_array(
        (values, (rows, rank[grams])), shape=(n_rows, max(len(frequency), 1)), dtype=np.float64
    )
    matrix.sort_indices()
    return matrix


@dataclass(frozen=True, slots=True)
class _Sparse(Space):
    matrix: SparseMatrix

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @abstractmethod
    def _in_prefix(self, threshold: float) -> IntArray:
        """Return 1 for stored values in their row's prefix, else 0."""

    @abstractmethod
    def _similarity(self, products: FloatArray, left: IntArray, right: IntArray) -> FloatArray:
        """Convert scalar products to similarities."""

    def similarities(self, rows: slice, others: slice) -> FloatArray:
        """Return similarities from scalar products."""
        products = (self.matrix[rows] @ self.matrix[others].T).toarray()
        left, right = np.arange(rows.start, rows.stop), np.arange(others.start, others.stop)
        return self._similarity(products, left[:, None], right[None, :])

    def above(self, threshold: float, boundary: int | None) -> Iterator[SimilarPairs]:
        """Yield the similar pairs found by the prefix filter."""
        n_pairs = 0
        for left, right in self._candidates(threshold, boundary):
            offset = boundary or 0
            n_pairs += len(left)
            self._refuse_too_many(n_pairs)
            products = np.empty(len(left))
            for begin in range(0, len(left), CHUNK_PAIRS):
                part = slice(begin, begin + CHUNK_PAIRS)
                common = self.matrix[left[part]].multiply(self.matrix[right[part] + offset])
                products[part] = common.sum(axis=1)
            similarity = self._similarity(products, left, right + offset)
            similar = similarity >= threshold
            yield SimilarPairs(left[similar], right[similar], similarity[similar])

    def _refuse_too_many(self, n_pairs: int) -> None:
        if n_pairs * self.matrix.nnz > MOST_PRODUCTS * max(self.n, 1):
            raise InvalidInputError(
                f"{n_pairs} pairs of the {self.n} distinct texts would need an exact comparison; "
                "pass strategy=MinHashLSHStrategy(n=5) with "
                "a threshold near 0.7 (share of common 5-grams), which scales to any number of "
                "texts from one template"
            )

    def _candidates(
        self, threshold: float, boundary: int | None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        from scipy import sparse

        in_prefix = self._in_prefix(threshold)
        starts = np.concatenate([[0], np.cumsum(in_prefix)])[self.matrix.indptr]
        columns = self.matrix.indices[in_prefix.astype(np.bool_)]
        ones = np.ones(len(columns), np.int32)
        prefixes = sparse.csr_array((ones, columns, starts), shape=self.matrix.shape)
        others = prefixes if boundary is None else prefixes[boundary:]
        meeting = np.bincount(others.indices, minlength=prefixes.shape[1])
        if boundary is None:  # rows that share a gram are all candidates: fail early
            crowd = int(meeting.max(initial=0))
            self._refuse_too_many(crowd * (crowd - 1) // 2)
        work = np.concatenate([[0], np.cumsum(meeting[columns])])[starts]
        transposed = others.T.tocsr()
        stop = self.n if boundary is None else boundary
        begin = 0
        while begin < stop:
            end = int(np.searchsorted(work, work[begin] + BLOCK_PRODUCTS, side="right")) - 1
            end = min(max(end, begin + 1), stop)
            shared = (prefixes[begin:end] @ transposed).tocoo()
            row, other = shared.row.astype(np.int64) + begin, shared.col.astype(np.int64)
            if boundary is None:
                earlier = other < row
                yield other[earlier], row[earlier]
            else:
                yield row, other
            begin = end


@dataclass(frozen=True, slots=True)
class SparseCosine(_Sparse):
    """Unit (or zero) vectors with non-negative values as rows of a sparse matrix."""

    def _in_prefix(self, threshold: float) -> IntArray:
        squares = np.concatenate([[0.0], np.cumsum(self.matrix.data**2)])
        row_end = np.repeat(squares[self.matrix.indptr[1:]], np.diff(self.matrix.indptr))
        # Running sums lose digits: prefer a longer prefix.
        reaches = np.asarray(row_end - squares[:-1] >= threshold**2 - 1e-6)
        return reaches.astype(np.int64)

    def _similarity(self, products: FloatArray, left: IntArray, right: IntArray) -> FloatArray:
        return _cosine(products)


@dataclass(frozen=True, slots=True)
class SetJaccard(_Sparse):
    """Jaccard similarity of n-gram sets, stored as binary rows; two empty sets are equal."""

    @property
    def _sizes(self) -> IntArray:
        starts: IntArray = self.matrix.indptr.astype(np.int64)
        return starts[1:] - starts[:-1]

    def _in_prefix(self, threshold: float) -> IntArray:
        sizes = self._sizes
        longest = sizes - np.ceil(threshold * sizes - 1e-9).astype(np.int64) + 1
        place = np.arange(self.matrix.nnz) - np.repeat(self.matrix.indptr[:-1], sizes)
        return np.asarray(place < np.repeat(longest, sizes)).astype(np.int64)

    def _similarity(self, products: FloatArray, left: IntArray, right: IntArray) -> FloatArray:
        union = self._sizes[left] + self._sizes[right] - products
        return np.where(union > 0, products / np.maximum(union, 1), 1.0)
