"""The C functions defend themselves: sizes, types and contents of the arrays they are given."""

import numpy as np
import pytest
from tests.support.each import each

from eval_toolkit._internal import kernel
from eval_toolkit._internal.kernel import LANES, neardup

pytestmark = pytest.mark.skipif(kernel.native is None, reason="the C kernel was not built")


def function(name):
    """Return the C function of a name, of either kernel."""
    return getattr(kernel.native, name, None) or getattr(neardup.native, name)


def _good_calls():
    """Arguments the C functions accept; each is spoilt in turn below."""
    thresholds, residual = kernel._poisson_table(8)
    counts = np.ones((8, LANES), dtype=np.uint8)
    order = np.arange(8, dtype=np.int32)
    index = kernel.spare(np.arange(8))
    segments = np.array([[1, 2, 1], [1, 1, 0]], dtype=np.int32)
    totals = np.full((2, LANES), 4.0)
    offsets = np.array([0, 4, 8])
    texts = [b"abcdef", np.array([0, 4, 6]), np.array([1, 0], dtype=np.uint8), 3]
    sketch = [np.ones((2, n_entries), dtype) for n_entries, dtype in ((4, "u4"), (8, "u8"))]
    sketch.append(np.ones(2, dtype=np.uint32))
    multipliers, weights = np.ones(64, dtype=np.uint32), np.ones(2, dtype=np.uint64)
    return {
        "sketches": [*texts, multipliers, weights, *sketch],
        "pairs": [*texts, *sketch, 0.5, -1, 512, 0, b""],
        "draw": [counts, 1, 0, 0, 8, thresholds, residual, order, order],
        "redraw": [counts, counts[:2].copy(), offsets, 1, 0],
        "rank_order": [np.empty(8, dtype=np.int64), np.ones(8, dtype=np.uint8), np.ones(8)],
        "rank": [np.empty((4, LANES)), counts, 1, segments, 2, index],
        "recall": [np.empty(LANES), counts, 1, segments, index, totals, 0.1],
        "sums": [
            np.empty((2, 3, LANES)),
            counts,
            1,
            np.ones(8, dtype=np.uint8),
            np.ones((1, 8)),
            np.array([4, 8]),
            index,
        ],
        "masses": [
            np.empty((2, 2, LANES)),
            counts,
            np.ones(8, dtype=np.uint8),
            np.ones(8),
            np.ones(8, dtype=np.uint8),
            np.repeat([[4.0], [8.0]], LANES, axis=1),
            index,
        ],
    }


SPOILT = [
    ("draw", 0, np.ones((7, LANES), dtype=np.uint8)),
    ("draw", 3, -1),
    ("draw", 3, 8),
    ("draw", 4, 9),
    ("draw", 4, 2**31),
    ("draw", 5, np.zeros(7, dtype=np.uint16)),
    ("draw", 6, np.zeros(15)),
    ("draw", 7, None),
    ("draw", 7, np.arange(7, dtype=np.int32)),
    ("draw", 8, None),
    ("draw", 8, np.arange(7, dtype=np.int32)),
    ("redraw", 0, np.ones((7, LANES), dtype=np.uint8)),
    ("redraw", 0, np.ones((9, LANES), dtype=np.uint8)),
    ("redraw", 1, np.ones((3, LANES), dtype=np.uint8)),
    ("redraw", 2, np.array([0])),
    ("redraw", 2, np.array([0, 4, 9])),
    ("redraw", 2, np.zeros(0, dtype=np.int64)),
    ("rank_order", 0, np.empty(7, dtype=np.int64)),
    ("rank_order", 1, np.ones(9, dtype=np.uint8)),
    ("rank_order", 2, np.ones(7)),
    ("rank", 0, np.empty((3, LANES))),
    ("rank", 1, np.ones((9, LANES), dtype=np.uint8)),
    ("rank", 3, np.array([[1, 2, 2], [1, 1, 0]], dtype=np.int32)),
    ("rank", 4, 3),
    ("rank", 5, np.arange(8, dtype=np.int32)),
    ("recall", 0, np.empty(LANES - 1)),
    ("recall", 3, np.array([[9, 9, 9]], dtype=np.int32)),
    ("recall", 4, np.arange(8, dtype=np.int32)),
    ("recall", 5, np.full((1, LANES), 4.0)),
    ("sums", 0, np.empty((2, 2, LANES))),
    ("sums", 0, np.empty((1, 3, LANES))),
    ("sums", 3, np.ones(7, dtype=np.uint8)),
    ("sums", 4, np.ones(9)),
    ("sums", 5, np.array([4, 7])),
    ("sums", 5, np.array([4, 9])),
    ("sums", 5, np.zeros(0, dtype=np.int64)),
    ("sums", 6, np.arange(8, dtype=np.int32)),
    ("masses", 0, np.empty((1, 2, LANES))),
    ("masses", 2, np.ones(7, dtype=np.uint8)),
    ("masses", 3, np.ones(7)),
    ("masses", 4, np.ones(9, dtype=np.uint8)),
    ("masses", 5, np.ones(63)),
    ("masses", 5, np.zeros(0)),
    ("masses", 6, np.arange(8, dtype=np.int32)),
    ("sketches", 0, b"abcdefg"),
    ("sketches", 1, np.array([0, 6])),
    ("sketches", 2, np.zeros(3, dtype=np.uint8)),
    ("sketches", 4, np.ones(63, dtype=np.uint32)),
    ("sketches", 5, np.ones(0, dtype=np.uint64)),
    ("sketches", 5, np.ones(17, dtype=np.uint64)),
    ("sketches", 6, np.ones(7, dtype=np.uint32)),
    ("sketches", 7, np.ones((1, 8), dtype=np.uint64)),
    ("sketches", 8, np.ones(3, dtype=np.uint32)),
    ("pairs", 0, b"abcde"),
    ("pairs", 1, np.array([0, 2, 4, 6])),
    ("pairs", 4, np.ones(7, dtype=np.uint32)),
    ("pairs", 5, np.ones((2, 7), dtype=np.uint64)),
    ("pairs", 6, np.ones(0, dtype=np.uint32)),
    ("pairs", 11, b"123"),
]


def int32(*entries):
    return np.array(entries, dtype=np.int32)


def spare(*entries):
    """An index with other entries than 0 to 7, and its spare ones."""
    return kernel.spare(np.array(entries))


# What arguments are set to, and what is said. Before contents were checked, the sanitizers found an
# access beyond an array in 15 of these calls and an overflow in 2; 3 never ended.
HOSTILE = [
    ("draw", {8: int32(0, 1, 2, 3, 4, 5, 6, 8)}, "`position[7]` is 8; it must be from 0 to 7"),
    ("draw", {8: int32(-1, 1, 2, 3, 4, 5, 6, 7)}, "`position[0]` is -1; it must be from 0 to 7"),
    ("draw", {8: int32(0, 1, 2, 2**31 - 1, 4, 5, 6, 7)}, "`position[3]` is 2147483647;"),
    ("draw", {3: 4, 8: int32(0, 1, 2, 3, 3, 5, 6, 7)}, "`position[4]` is 3; it must be from 4 to"),
    ("draw", {7: int32(0, 1, 2, 3, 4, 5, 6, -7)}, "`order[7]` is -7; it must be from 0 to 7"),
    ("draw", {5: np.arange(8, 0, -1, dtype=np.uint16)}, "`thresholds[1]` is 7; it is smaller"),
    ("draw", {6: np.full(16, np.nan)}, "`residual[1]` is nan"),
    ("draw", {3: -(2**62)}, "`counts` has the wrong size"),
    ("draw", {4: 2**62}, "`counts` has the wrong size"),
    ("draw", {0: np.ones(8 * LANES + 1, dtype=np.uint8)}, "`counts` has the wrong size"),
    ("redraw", {2: np.array([0, -4, 8])}, "`offsets[1]` is -4; it is smaller than the entry"),
    ("redraw", {2: np.array([0, 2**40, 8])}, "`offsets[2]` is 8; it is smaller than the entry"),
    ("redraw", {2: np.array([-8, 4, 8])}, "`offsets[0]` is -8; it is too small"),
    ("redraw", {2: np.array([0, 4, 2**58])}, "`offsets` has the wrong size"),
    ("redraw", {0: np.ones(8 * LANES + 1, dtype=np.uint8)}, "`counts` has the wrong size"),
    ("rank_order", {1: np.full(8, 2, dtype=np.uint8)}, "`labels[0]` is 2; it must be 0 or 1"),
    ("rank", {2: 256}, "`largest` is 256; it must be from 0 to 255"),
    ("rank", {2: -1}, "`largest` is -1; it must be from 0 to 255"),
    ("rank", {3: int32(9, -4, 1)}, "`segments[1]` is -4; it must be from 0 to 2147483647"),
    ("rank", {3: int32(40, 0, -34)}, "`segments[2]` is -34;"),
    ("rank", {3: int32(6, 0)}, "`segments` has the wrong size"),
    ("rank", {3: int32(9, 0, 0), 4: -1}, "`segments` has the wrong size"),
    ("rank", {4: 2**63 - 1}, "`segments` has the wrong size"),
    ("rank", {4: -(2**63)}, "`segments` has the wrong size"),
    ("rank", {5: spare(0, 1, 2, 3, 4, 5, 6, 8)}, "`index[7]` is 8; it must be from 0 to 7"),
    ("rank", {5: spare(-1, 1, 2, 3, 4, 5, 6, 7)}, "`index[0]` is -1; it must be from 0 to 7"),
    ("rank", {5: np.full(24, 2**31 - 1, dtype=np.int32)}, "`index[0]` is 2147483647;"),
    ("rank", {5: int32(*range(8), *[-(2**31)] * 16)}, "`index[8]` is -2147483648;"),
    ("recall", {2: 300}, "`largest` is 300; it must be from 0 to 255"),
    ("recall", {3: int32(40, 0, -34)}, "`segments[2]` is -34;"),
    ("recall", {3: int32(-(2**31), 40, 0)}, "`segments[0]` is -2147483648;"),
    ("recall", {4: spare(0, 1, 2, 3, 4, 5, 6, 10**6)}, "`index[7]` is 1000000;"),
    ("sums", {2: 2**31 - 1}, "`largest` is 2147483647; it must be from 0 to 255"),
    ("sums", {3: np.full(8, 255, dtype=np.uint8)}, "`labels[0]` is 255; it must be 0 or 1"),
    ("sums", {5: np.array([-(2**40), 8])}, "`cuts[0]` is -1099511627776; it is too small"),
    ("sums", {5: np.array([100, 8])}, "`cuts[1]` is 8; it is smaller than the entry before it"),
    ("sums", {6: spare(0, 1, 2, 3, 4, 5, 6, -9)}, "`index[7]` is -9; it must be from 0 to 7"),
    ("masses", {2: np.full(8, 3, dtype=np.uint8)}, "`labels[0]` is 3; it must be 0 or 1"),
    ("masses", {4: np.full(8, 9, dtype=np.uint8)}, "`group_ends[0]` is 9; it must be 0 or 1"),
    ("masses", {6: spare(0, 1, 2, 3, 4, 5, 6, 1 << 30)}, "`index[7]` is 1073741824;"),
    ("sketches", {1: np.array([0, -4, 6])}, "`starts[1]` is -4; it is smaller than the entry"),
    ("sketches", {1: np.array([0, 2**40, 6])}, "`starts[2]` is 6; it is smaller than the entry"),
    ("sketches", {1: np.array([2, 4, 6])}, "`starts[0]` is 2; it must be 0"),
    ("sketches", {1: np.array([0, 3, 6])}, "`starts[1]` is 3; the text before it has four bytes"),
    ("sketches", {2: np.array([7, 0], dtype=np.uint8)}, "`wide[0]` is 7; it must be 0 or 1"),
    ("sketches", {3: 0}, "`n` is 0; it must be 1 or more"),
    ("sketches", {3: -(2**63)}, "`n` is -9223372036854775808; it must be 1 or more"),
    ("pairs", {1: np.array([0, 9, 6])}, "`starts[2]` is 6; it is smaller than the entry before"),
    ("pairs", {7: np.nan}, "`threshold` is nan; it must be from 0 to 1"),
    ("pairs", {7: -1.0}, "`threshold` is -1; it must be from 0 to 1"),
    ("pairs", {8: 3}, "`boundary` is 3; it must be from -1 to 2"),
    ("pairs", {8: -(2**63)}, "`boundary` is -9223372036854775808; it must be from -1 to 2"),
    ("pairs", {9: 1}, "`limit` is 1; it must be from 2 to 1048576"),
    ("pairs", {10: 7}, "`task` is 7; it must be from 0 to 2"),
]


def called(name, changed=None):
    arguments = _good_calls()[name]
    for at, value in (changed or {}).items():
        arguments[at] = value
    return function(name)(*arguments)


@each("name", _good_calls())
def test_good_arrays_pass(name):
    called(name)


@each(("name", "at", "value"), SPOILT)
def test_wrong_sizes_raise(name, at, value):
    changed = {at: value}
    if name == "rank" and at == 1:
        changed[5] = None  # without an index the counts give the number of rows
    with pytest.raises(ValueError, match=r"kernel: buffer `[a-z_]+` has the wrong size"):
        called(name, changed)


@each(("name", "changed", "said"), HOSTILE)
def test_wrong_contents_raise(name, changed, said):
    with pytest.raises(ValueError, match="kernel: ") as refusal:
        called(name, changed)
    assert said in str(refusal.value)


def arrays():
    """Every array that every function takes."""
    return [
        (name, at)
        for name, arguments in _good_calls().items()
        for at, value in enumerate(arguments)
        if isinstance(value, np.ndarray)
    ]


@each(("name", "at"), arrays())
def test_other_types_strides_and_places_are_refused(name, at):
    good = _good_calls()[name][at]
    other = np.float32 if good.dtype.kind == "f" else np.dtype(f"f{max(2, good.itemsize)}")
    strided = np.repeat(good, 2, axis=-1)[..., ::2]
    swapped = good.astype(good.dtype.newbyteorder()) if good.itemsize > 1 else None
    room = np.zeros(good.nbytes + 1, dtype=np.uint8)[1:]
    unaligned = room.view(good.dtype) if good.itemsize > 1 else None
    for value in (
        np.zeros(good.shape, other),
        strided,
        swapped,
        unaligned,
        3,
        "text",
        good.tolist(),
    ):
        if value is not None:
            with pytest.raises(ValueError, match=r"kernel: `[a-z_]+` must be a contiguous"):
                called(name, {at: value})


WRITTEN = {
    "draw": [0],
    "redraw": [0],
    "rank_order": [0],
    "rank": [0],
    "recall": [0],
    "sums": [0],
    "masses": [0],
    "sketches": [6, 7, 8],
    "pairs": [4],
}


@each(("name", "at"), [(name, at) for name in WRITTEN for at in WRITTEN[name]])
def test_read_only_arrays_are_not_written_to(name, at):
    good = np.zeros_like(_good_calls()[name][at])
    good.flags.writeable = False
    with pytest.raises(ValueError, match=r"must be a contiguous, writable array"):
        called(name, {at: good})
    assert not good.any()


def test_what_is_written_to_lies_apart_from_what_is_read():
    """Counts written into the positions would lead anywhere."""
    position = np.zeros(8 * LANES // 4, dtype=np.int32)
    with pytest.raises(ValueError, match="`counts` and `position` share memory"):
        called("draw", {0: position.view(np.uint8), 8: position})


def test_positions_that_lead_to_one_row_end():
    """Every count is 2: half of the draws go, but only those of the first row can be reached."""
    thresholds = np.array([0, 0, *[65535] * 6], dtype=np.uint16)
    with pytest.raises(ValueError, match="`position` is not the inverse of `order`"):
        called("draw", {5: thresholds, 8: np.zeros(8, dtype=np.int32)})


def test_cuts_beyond_the_draws_are_undefined():
    """Nothing of the memory that `out` held before is returned."""
    out = np.full((2, 2, LANES), 123.0)
    called("masses", {0: out, 5: np.repeat([[4.0], [9.0]], LANES, axis=1)})
    assert (out[0] != 123.0).all()
    assert np.isnan(out[1]).all()
