"""Data layouts of the kernel, computed once and used by every resample."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.kernel.lanes import LANES, Index
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray

_TILE_ROWS = 4096


@dataclass(frozen=True)
class RankLayout:
    """Rows in rank order, divided into segments for average precision and ROC-AUC.

    A segment is a distinct score with at least one positive: the negatives above it (and below the
    previous segment), its positives, and its tied negatives. Only sums of counts matter between
    positives, so each row costs one addition.
    """

    segments: Index
    """Shape (k, 3): negatives above, positives, tied negatives."""
    n_trailing: int
    """Negatives below the last positive."""
    index: Index | None
    """Unit of each row in rank order (with spare entries); None if the counts are in rank order."""

    @classmethod
    def from_sorted(
        cls, labels: BoolArray, scores: FloatArray, index: Index | None
    ) -> "RankLayout":
        """Build from labels and scores in rank order."""
        n = len(labels)
        if not (scores[1:] == scores[:-1]).any():  # without ties a segment ends in one positive
            at = np.flatnonzero(labels)
            segments = np.zeros((len(at), 3), dtype=np.int32)
            segments[:, 0] = np.diff(at, prepend=-1) - 1
            segments[:, 1] = 1
            return cls(segments, n - 1 - int(at[-1]) if len(at) else n, index)
        starts = np.flatnonzero(np.concatenate(([True], scores[1:] != scores[:-1])))
        size = np.diff(np.append(starts, n))
        positives = np.add.reduceat(labels, starts, dtype=np.int64)
        kept = positives > 0
        starts, size, positives = starts[kept], size[kept], positives[kept]
        ends = starts + size
        above = starts - np.concatenate(([0], ends[:-1]))[: len(starts)]
        segments = np.column_stack([above, positives, size - positives]).astype(np.int32)
        return cls(segments, n - int(ends[-1]) if len(ends) else n, index)

    @functools.cached_property
    def tiles(self) -> list[Any]:
        """Sparse matrices that sum the segment parts of one tile; numpy kernel only."""
        return list(self._tiles())

    def _tiles(self) -> Iterator[tuple[int, int, Any, Any, Any]]:
        from scipy.sparse import csr_array

        lengths = self.segments.astype(np.int64)
        ends = np.cumsum(lengths.sum(axis=1))
        if not len(ends):
            return
        cuts = np.searchsorted(ends, np.arange(_TILE_ROWS, ends[-1], _TILE_ROWS), side="right")
        for part in np.split(
            np.arange(len(ends)), np.unique(cuts[(cuts > 0) & (cuts < len(ends))])
        ):
            first = int(ends[part[0]] - lengths[part[0]].sum())
            rows = int(ends[part[-1]]) - first
            matrices: list[Any] = []
            for column in range(3):
                length = lengths[part, column]
                begin = ends[part] - first - lengths[part, column:].sum(axis=1)
                indptr = np.concatenate(([0], np.cumsum(length)))
                at = np.arange(indptr[-1]) + np.repeat(begin - indptr[:-1], length)
                ones = np.ones(len(at), dtype=np.uint16)
                matrix = csr_array((ones, at, indptr), shape=(len(part), rows))
                matrices.append(matrix if len(at) else None)
            yield first, first + rows, matrices[0], matrices[1], matrices[2]


@dataclass(frozen=True)
class SumsLayout:
    """Rows with weights summed per bin: positives, negatives and each column."""

    labels: NDArray[np.uint8]
    columns: FloatArray
    """Array of shape (k, rows)."""
    cuts: IntArray
    """End row of each bin (exclusive); the last cut is the number of rows."""
    index: Index | None
    """Unit of each row (with spare entries); None if rows and units coincide."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the sums: (bins, 2 + columns, lanes)."""
        return len(self.cuts), 2 + len(self.columns), LANES

    @functools.cached_property
    def table(self) -> FloatArray:
        """Labels and columns stacked in one array; numpy kernel only."""
        positive = self.labels.astype(np.float64)
        return np.vstack([positive, 1.0 - positive, self.columns])


@dataclass(frozen=True)
class MassLayout:
    """Rows in rank order, for equal-mass bins by number of draws."""

    labels: NDArray[np.uint8]
    scores: FloatArray
    """Scores in descending order."""
    group_ends: NDArray[np.uint8]
    """1 at the last row of each group of tied scores."""
    index: Index | None
    """Unit of each row (with spare entries); None if rows and units coincide."""

    @classmethod
    def from_sorted(
        cls, labels: BoolArray, scores: FloatArray, index: Index | None
    ) -> "MassLayout":
        """Build from labels and scores in rank order."""
        ends = np.append(scores[1:] != scores[:-1], True)
        return cls(labels.astype(np.uint8), scores, ends.astype(np.uint8), index)
