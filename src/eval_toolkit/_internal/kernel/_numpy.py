"""Numpy backend of the kernel; counts are bit-identical to the C kernel, values agree to 1e-12.

Mirrors native.c function by function; see draws.h for the random numbers. Rows are processed in
cache-sized tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.kernel.lanes import LANES
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from eval_toolkit._internal.kernel.layouts import MassLayout, RankLayout, SumsLayout

_TILE = 1024  # rows per tile: 64 KiB of counts

_U64 = np.uint64
_MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
RESAMPLE_STEP = 0xD1342543DE82EF95
ESCAPE_STEP = 0xA0761D6478BD642F
ESCAPE_STREAM = 0xE7037ED1A0B428DB
TOP_UP_STREAM = 0x8EBC6AF09C88C6E3
STRATUM_STEP = 0x589965CC75374CC3
WITHIN_STREAM = 0x1D8E4E27C47D124F

Counts = NDArray[np.uint8]
Index = NDArray[np.int32]
Hashes = NDArray[np.uint64]


def _mix64(z: Hashes, scratch: Hashes | None = None) -> Hashes:
    """Apply the SplitMix64 finaliser in place."""
    t = np.empty_like(z) if scratch is None else scratch
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        np.right_shift(z, _U64(shift), out=t)
        np.bitwise_xor(z, t, out=z)
        np.multiply(z, _U64(factor), out=z)
    np.right_shift(z, _U64(31), out=t)
    np.bitwise_xor(z, t, out=z)
    return z


def _stream_keys(seed: int, first: int, n: int) -> Hashes:
    numbers = np.arange(first + 1, first + n + 1, dtype=_U64) * _U64(RESAMPLE_STEP)
    base = _mix64(np.array([(seed + GAMMA) & _MASK], dtype=_U64))
    return _mix64(base ^ _mix64(numbers))


def _below(bits32: Hashes, n: int) -> IntArray:
    return ((bits32 * _U64(n)) >> _U64(32)).astype(np.int64)


def draw(
    counts: Counts,
    seed: int,
    first: int,
    start: int,
    stop: int,
    thresholds: NDArray[np.uint16],
    residual: FloatArray,
    order: Index | None,
    position: Index | None,
) -> int:
    """Fill units [start, stop) with the multinomial counts of resamples first … first + 63."""
    totals, largest = _fill(counts, seed, first, start, stop, thresholds, residual, order)
    return max(largest, _top_up(counts, seed, first, start, stop - start, totals, position))


def _fill(
    counts: Counts,
    seed: int,
    first: int,
    start: int,
    stop: int,
    thresholds: NDArray[np.uint16],
    residual: FloatArray,
    order: Index | None,
) -> tuple[IntArray, int]:
    keys = _stream_keys(seed, first >> 2, LANES // 4)
    totals = np.zeros(LANES, dtype=np.int64)
    largest = len(thresholds) - 1
    hashes = np.empty((_TILE, LANES // 4), dtype=_U64)
    scratch = np.empty_like(hashes)
    above = np.empty((_TILE, LANES), dtype=np.bool_)
    for begin in range(start, stop, _TILE):
        end = min(begin + _TILE, stop)
        m = end - begin
        units = (
            np.arange(begin, end, dtype=_U64) if order is None else order[begin:end].astype(_U64)
        )
        counter = (units + _U64(1)) * _U64(GAMMA)
        tile = np.add(keys, counter[:, None], out=hashes[:m])
        bits = _mix64(tile, scratch[:m]).view(np.uint16)
        rows, mask = counts[begin:end], above[:m]
        np.greater_equal(bits, thresholds[0], out=rows.view(np.bool_))
        for threshold in thresholds[1:]:
            np.greater_equal(bits, threshold, out=mask)
            np.add(rows, mask.view(np.uint8), out=rows)
        escaped = np.flatnonzero(np.equal(rows, len(thresholds), out=mask))
        if len(escaped):
            row, lane = np.divmod(escaped, LANES)
            offset = counter[row] + _U64(ESCAPE_STREAM)
            offset += _U64(ESCAPE_STEP) * (lane & 3).astype(_U64)
            u = (_mix64(keys[lane >> 2] ^ offset) >> _U64(11)).astype(np.float64) * 2.0**-53
            resolved = np.searchsorted(residual[:-1], u, side="right")
            rows[row, lane] = resolved
            largest = max(largest, int(resolved.max()))
        totals += np.add.reduce(rows, axis=0, dtype=np.uint32)
    return totals, largest


def _top_up(
    counts: Counts,
    seed: int,
    first: int,
    start: int,
    n: int,
    totals: IntArray,
    position: Index | None,
) -> int:
    missing = n - totals
    state = _stream_keys(seed ^ TOP_UP_STREAM, first, LANES) + _U64((start * STRATUM_STEP) & _MASK)
    longest = (int(missing.max()) + 1) // 2
    largest = 0
    if longest > 0:
        steps = np.arange(1, longest + 1, dtype=_U64) * _U64(GAMMA)
        bits = _mix64(state[:, None] + steps)
        units = np.empty((LANES, 2 * longest), dtype=np.int64)
        units[:, 0::2] = _below(bits & _U64(0xFFFFFFFF), n)
        units[:, 1::2] = _below(bits >> _U64(32), n)
        units += start
        if position is not None:
            units = position[units].astype(np.int64)
        cells = units * LANES + np.arange(LANES)[:, None]
        wanted = cells[np.arange(2 * longest) < missing[:, None]]
        flat = counts.reshape(-1)
        np.add.at(flat, wanted, np.uint8(1))
        largest = int(flat[wanted].max(initial=0))
    for lane in np.flatnonzero(missing < 0):
        _remove(counts[:, lane], int(state[lane]), start, n, -int(missing[lane]), position)
    return largest


def _remove(
    lane: Counts, state: int, start: int, n: int, surplus: int, position: Index | None
) -> None:
    while surplus:
        state = (state + GAMMA) & _MASK
        bits = int(_mix64(np.array([state], dtype=_U64))[0])
        unit = start + (((bits & 0xFFFFFFFF) * n) >> 32)
        at = unit if position is None else int(position[unit])
        if ((bits >> 32) & 31) < lane[at]:
            lane[at] -= 1
            surplus -= 1


def redraw(counts: Counts, group_counts: Counts, offsets: IntArray, seed: int, first: int) -> int:
    """Fill member counts, redrawing the members for each copy of a group."""
    counts[:] = 0
    sizes = np.diff(offsets)
    keys = _stream_keys(seed ^ WITHIN_STREAM, first, LANES)
    groups = np.arange(1, len(sizes) + 1, dtype=_U64) * _U64(GAMMA)
    for lane in range(LANES):
        draws = sizes * group_counts[:, lane]
        state = np.repeat(_mix64(keys[lane] + groups), draws)
        step = np.arange(1, len(state) + 1) - np.repeat(np.cumsum(draws) - draws, draws)
        bits = _mix64(state + step.astype(_U64) * _U64(GAMMA))
        size = np.repeat(sizes, draws).astype(_U64)
        member = ((bits >> _U64(32)) * size) >> _U64(32)
        at = member.astype(np.int64) + np.repeat(offsets[:-1], draws)
        counts[:, lane] = np.bincount(at, minlength=len(counts))
    return int(counts.max())


def rank_order(labels: BoolArray, scores: FloatArray) -> IntArray:
    """Return the rows by descending score, positives before negatives within ties."""
    order = np.argsort(-scores)  # without ties the fast, unstable sort suffices
    descending = scores[order]
    if not (descending[1:] == descending[:-1]).any():
        return order
    order = np.argsort(-scores, kind="stable")
    descending = scores[order]
    group = np.concatenate(([0], np.cumsum(descending[1:] != descending[:-1])))
    return order[np.argsort(2 * group + ~labels[order], kind="stable")]


def rank(counts: Counts, largest: int, layout: RankLayout) -> FloatArray:
    """Return average precision, ROC-AUC, positives and negatives of each lane."""
    tp, fp, ap, auc = (np.zeros(LANES) for _ in range(4))
    row = 0
    for row, above, positive, tied in _segment_sums(counts, largest, layout):  # noqa: B007
        tps = np.cumsum(positive, axis=0)
        tps += tp
        before = tps - positive
        auc += np.einsum("ij,ij->j", above, before)
        if tied is not None:
            before += 0.5 * positive
            auc += np.einsum("ij,ij->j", tied, before)
            above += tied
        seen = np.cumsum(above, axis=0, out=above)
        seen += fp
        fp = seen[-1].copy()
        seen += tps
        np.maximum(seen, 1.0, out=seen)
        np.divide(tps, seen, out=seen)
        ap += np.einsum("ij,ij->j", positive, seen)
        tp = tps[-1]
    trailing = _rows(counts, layout.index, row, row + layout.n_trailing)
    below_all = trailing.sum(axis=0, dtype=np.int64)
    fp = fp + below_all
    with np.errstate(invalid="ignore"):  # 0 / 0: undefined, counted by the caller
        return np.stack([ap / tp, (auc + below_all * tp) / (tp * fp), tp, fp])


def _rows(counts: Counts, index: Index | None, begin: int, end: int) -> Counts:
    return counts[begin:end] if index is None else counts[index[begin:end]]


def _segment_sums(
    counts: Counts, largest: int, layout: RankLayout
) -> Iterator[tuple[int, FloatArray, FloatArray, FloatArray | None]]:
    """Yield the end row and the segment counts per lane of each tile."""
    for begin, end, above, positive, tied in layout.tiles:
        # A segment longer than a tile forms one tile, regardless of its length.
        small = (end - begin) * largest < 1 << 16
        tile = _rows(counts, layout.index, begin, end).astype(np.uint16 if small else np.uint32)
        positives = (positive @ tile).astype(np.float64)  # every segment has a positive
        negatives = np.zeros_like(positives) if above is None else (above @ tile).astype(np.float64)
        ties = None if tied is None else (tied @ tile).astype(np.float64)
        yield end, negatives, positives, ties


def recall(
    counts: Counts, largest: int, layout: RankLayout, totals: FloatArray, target: float
) -> FloatArray:
    """Return the largest recall at a false-positive rate of at most ``target``."""
    n_positive, n_negative = totals
    tp, fp, best = (np.zeros(LANES) for _ in range(3))
    with np.errstate(invalid="ignore"):
        for _, above, positive, tied in _segment_sums(counts, largest, layout):
            tps = np.cumsum(positive, axis=0) + tp
            fps = np.cumsum(above if tied is None else above + tied, axis=0) + fp
            tp, fp = tps[-1], fps[-1]
            # False positives are non-decreasing, so the allowed thresholds come first.
            allowed = (fps / n_negative <= target).sum(axis=0)
            reached = np.take_along_axis(tps, np.maximum(allowed - 1, 0)[None, :], axis=0)[0]
            best = np.where(allowed > 0, reached, best)
            if not allowed.any():
                break
        return np.asarray(best / n_positive)


def sums(counts: Counts, layout: SumsLayout) -> FloatArray:
    """Return the weighted sums of each bin: positives, negatives, columns."""
    out = np.zeros(layout.shape)
    begin = 0
    for bin_, end in enumerate(layout.cuts.tolist()):
        for row in range(begin, end, _TILE):
            stop = min(row + _TILE, end)
            tile = _rows(counts, layout.index, row, stop).astype(np.float64)
            out[bin_] += layout.table[:, row:stop] @ tile
        begin = end
    return out


def masses(counts: Counts, layout: MassLayout, cuts: FloatArray) -> FloatArray:
    """Return positives and score sums among the top ``cuts`` draws of each lane."""
    out = np.empty((len(cuts), 2, LANES))
    ends = np.flatnonzero(layout.group_ends)
    rows = _rows(counts, layout.index, 0, len(layout.labels))
    for lane in range(LANES):
        drawn = rows[:, lane].astype(np.float64)
        mass = np.append(0.0, np.cumsum(drawn)[ends])
        for place, column in enumerate((layout.labels.astype(np.float64), layout.scores)):
            summed = np.append(0.0, np.cumsum(drawn * column)[ends])
            out[:, place, lane] = np.interp(cuts[:, lane], mass, summed)
    return out
