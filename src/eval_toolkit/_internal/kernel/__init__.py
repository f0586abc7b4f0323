"""Bootstrap kernel: counts and statistics for 64 resamples at a time.

A resample is a vector of counts over units. The count of a unit is a pure function of (seed,
resample, unit), so resamples do not depend on batching, threads or the backend. There are two
backends: ``native`` (C, native.c), used if it was built, and ``numpy`` (_numpy.py), selected by
``EVAL_TOOLKIT_KERNEL=numpy``.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.kernel import _numpy
from eval_toolkit._internal.kernel.lanes import LANES, spare
from eval_toolkit._internal.optional import names_on_use
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from eval_toolkit._internal.kernel.layouts import MassLayout, RankLayout, SumsLayout

try:
    from eval_toolkit._internal.kernel import _native  # type: ignore[attr-defined]
except ImportError:  # built without a compiler
    _native = None

__all__ = [
    "LANES",
    "Counts",
    "MassLayout",
    "RankLayout",
    "SumsLayout",
    "backend",
    "draw",
    "masses",
    "rank",
    "rank_order",
    "recall",
    "redraw",
    "spare",
    "sums",
    "using",
]

_, __getattr__ = names_on_use(__name__, {"layouts": "MassLayout RankLayout SumsLayout"})

Counts = NDArray[np.uint8]

native: ModuleType | None = _native
_use_native = native is not None and os.environ.get("EVAL_TOOLKIT_KERNEL", "") != "numpy"


def backend() -> str:
    """Return the name of the active backend: ``native`` or ``numpy``."""
    return "native" if _use_native else "numpy"


@contextmanager
def using(name: str) -> Iterator[None]:
    """Use the named backend inside a ``with`` block (for tests and benchmarks)."""
    global _use_native
    before = _use_native
    if name == "native" and native is None:
        raise RuntimeError("the C kernel was not built")
    _use_native = name == "native"
    try:
        yield
    finally:
        _use_native = before


@functools.lru_cache(maxsize=1024)
def _poisson_table(n: int) -> tuple[NDArray[np.uint16], FloatArray]:
    """Return 16-bit thresholds and the cumulative remainder of a Poisson distribution.

    With mean 1 − 3/√n, about 3√n draws remain to be added one by one, and the total almost never
    exceeds n. Probabilities are truncated to 16 bits; the truncated mass and all counts of 8 or
    more form the residual distribution.
    """
    mean = max(0.2, 1.0 - 3.0 / math.sqrt(n))
    probability = math.exp(-mean)
    thresholds, residual = [], []
    cumulated = 0
    for count in range(16):
        scaled = probability * 65536.0
        if count < 8:
            whole = int(scaled)
            cumulated += whole
            thresholds.append(cumulated)
            scaled -= whole
        residual.append(scaled)
        probability *= mean / (count + 1)
    share = np.cumsum(residual)
    return np.array(thresholds, dtype=np.uint16), share / share[-1]


def draw(
    counts: Counts,
    *,
    seed: int,
    first: int,
    strata: IntArray,
    order: NDArray[np.int32] | None = None,
    position: NDArray[np.int32] | None = None,
) -> int:
    """Fill ``counts`` with resamples first … first + 63, each stratum drawn with replacement.

    Parameters
    ----------
    counts : array of shape (units, 64), uint8
        Counts, which are overwritten.
    seed : int
        64-bit seed.
    first : int
        Number of the first resample, a multiple of 64.
    strata : array of int
        Bounds of consecutive strata, ``[0, …, units]``; each stratum keeps its size.
    order, position : arrays of int32, optional
        Unit of each row of ``counts``, and the inverse; by default row i is unit i.

    Returns
    -------
    int
        An upper bound on the counts.
    """
    kernel: Any = native if _use_native else _numpy
    largest = 1
    for start, stop in zip(strata[:-1].tolist(), strata[1:].tolist(), strict=True):
        thresholds, residual = _poisson_table(stop - start)
        bound = kernel.draw(counts, seed, first, start, stop, thresholds, residual, order, position)
        largest = max(largest, bound)
    return largest


def redraw(
    counts: Counts, group_counts: Counts, *, offsets: IntArray, seed: int, first: int
) -> int:
    """Fill member counts from group counts, redrawing the members for each copy of a group."""
    kernel: Any = native if _use_native else _numpy
    bound: int = kernel.redraw(counts, group_counts, offsets, seed, first)
    return bound


def rank_order(labels: BoolArray, scores: FloatArray) -> IntArray:
    """Return the rows by descending score, positives before negatives within ties.

    The order is unique up to rows with equal score and label, which keep their input order, so sums
    are bit-identical on every machine.
    """
    if not _use_native:
        return _numpy.rank_order(labels, scores)
    order = np.empty(len(labels), dtype=np.int64)
    native.rank_order(  # type: ignore[union-attr]
        order,
        np.ascontiguousarray(labels, dtype=np.bool_),
        np.ascontiguousarray(scores, dtype=np.float64),
    )
    return order


def rank(counts: Counts, largest: int, layout: RankLayout) -> FloatArray:
    """Return average precision, ROC-AUC, positives, negatives: shape (4, 64); NaN if undefined."""
    if not _use_native:
        return _numpy.rank(counts, largest, layout)
    out = np.empty((4, LANES))
    native.rank(out, counts, largest, layout.segments, layout.n_trailing, layout.index)  # type: ignore[union-attr]
    return out


def recall(
    counts: Counts, largest: int, layout: RankLayout, *, totals: FloatArray, target: float
) -> FloatArray:
    """Return the largest recall at a false-positive rate of at most ``target``: shape (64,)."""
    if not _use_native:
        return _numpy.recall(counts, largest, layout, totals, target)
    out = np.empty(LANES)
    native.recall(out, counts, largest, layout.segments, layout.index, totals, target)  # type: ignore[union-attr]
    return out


def sums(counts: Counts, largest: int, layout: SumsLayout) -> FloatArray:
    """Return weighted sums per bin: positives, negatives, columns; shape (bins, 2 + k, 64)."""
    if not _use_native:
        return _numpy.sums(counts, layout)
    out = np.empty(layout.shape)
    native.sums(  # type: ignore[union-attr]
        out, counts, largest, layout.labels, layout.columns, layout.cuts, layout.index
    )
    return out


def masses(counts: Counts, layout: MassLayout, cuts: FloatArray) -> FloatArray:
    """Return positives and score sums among the top ``cuts`` draws: shape (cuts, 2, 64)."""
    if not _use_native:
        return _numpy.masses(counts, layout, cuts)
    out = np.empty((len(cuts), 2, LANES))
    native.masses(  # type: ignore[union-attr]
        out, counts, layout.labels, layout.scores, layout.group_ends, cuts, layout.index
    )
    return out
