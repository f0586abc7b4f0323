"""`split_slice`: divide a slice into named parts, independently of the row order."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.seeds import SeedLike, derive_seed, resolve_seed
from eval_toolkit.slices import EvalSlice
from eval_toolkit.splits._folds import checked_slice, column_of

_DEFAULT_SIZES = {"train": 0.8, "val": 0.1, "test": 0.1}


def split_slice(
    slice_: EvalSlice,
    sizes: Mapping[str, float] | None = None,
    *,
    stratify: bool = True,
    group: str | ArrayLike | None = None,
    keep_together: ArrayLike | None = None,
    stable: bool = False,
    seed: SeedLike = 42,
) -> dict[str, EvalSlice]:
    """Divide a slice into named parts: train, val and test.

    A row is identified by its id or, without an ``id_col``, by its content (`EvalSlice.unit_ids`).
    Its part depends on this identity and the seed, not on the row order.

    Parameters
    ----------
    slice_ : EvalSlice
        Slice to divide.
    sizes : mapping of str to float, default {"train": 0.8, "val": 0.1, "test": 0.1}
        Fraction of each part; they must sum to 1.
    stratify : bool, default True
        Whether the parts have equal fractions of positives, up to one row.
    group : str or array-like, optional
        Column or one value per row; rows of a group stay together, and sizes and class balance are
        then approximate. By default the slice's ``group_col``.
    keep_together : array-like, optional
        One code per row; rows with equal codes also stay together (clusters of duplicates).
    stable : bool, default False
        Whether the assignment depends only on the row's (or group's) identity, so adding rows
        never moves existing rows; sizes and class balance are then approximate, and equal rows
        without ids stay together. Otherwise sizes are exact.
    seed : int, default 42
        Random seed of the split.

    Returns
    -------
    dict of str to EvalSlice
        Parts by name, with rows in the parent's order.

    Raises
    ------
    InvalidInputError
        If the sizes do not sum to 1, a group is missing, or a part would be empty.

    Examples
    --------
    >>> slice_ = EvalSlice("all", {"text": [f"row {i}" for i in range(20)], "label": [0, 1] * 10})
    >>> {name: part.n for name, part in split_slice(slice_, {"train": 0.7, "test": 0.3}).items()}
    {'train': 14, 'test': 6}
    """
    slice_ = checked_slice(slice_)
    shares = _checked_sizes(_DEFAULT_SIZES if sizes is None else sizes)
    groups = _group_values(slice_, group)
    blocks = _blocks(slice_.n, groups, keep_together)
    root = resolve_seed(seed)
    if stable:
        keys = _contents(slice_) if groups is None else [str(value) for value in groups.tolist()]
        part = _stable_parts(shares, keys, blocks, root)
        _none_empty(part, shares, f"slice {slice_.name!r}", "use another seed or stable=False")
    else:
        part = assign_parts(slice_, shares, stratify=stratify, blocks=blocks, seed=root)
    return {
        name: slice_.take(np.flatnonzero(part == i), name=name) for i, name in enumerate(shares)
    }


def assign_parts(
    slice_: EvalSlice,
    shares: Mapping[str, float],
    *,
    stratify: bool,
    blocks: IntArray | None,
    seed: int,
) -> IntArray:
    """Return the part number of each row; rows of a block stay together."""
    classes = slice_.y_true if stratify else np.zeros(slice_.n, dtype=np.int64)
    targets = _targets(np.bincount(classes, minlength=2), list(shares.values()))
    part = np.empty(slice_.n, dtype=np.int64)
    if blocks is None:
        what = f"{slice_.n} row(s)"
        draws = _draws(slice_.unit_ids, seed)
        for label in (0, 1):
            rows = np.flatnonzero(classes == label)
            rows = rows[np.argsort(draws[rows], kind="stable")]
            part[rows] = np.repeat(np.arange(len(shares)), targets[:, label])
    else:
        counts = np.zeros((int(blocks.max()) + 1, 2), dtype=np.int64)
        what = f"{len(counts)} group(s)"
        np.add.at(counts, (blocks, classes), 1)
        # Blocks with the same first row keep the order of their codes, which is sorted.
        first = _first_of_block(_draws(_contents(slice_), seed), blocks)
        order = np.lexsort((first, -counts.sum(axis=1)))
        part = _filled(counts, order, targets, derive_seed(seed, "parts"))[blocks]
    _none_empty(part, shares, f"slice {slice_.name!r}: {what}", "use fewer or larger parts")
    return part


def _none_empty(part: IntArray, shares: Mapping[str, float], what: str, instead: str) -> None:
    for i, (name, share) in enumerate(shares.items()):
        if not (part == i).any():
            raise InvalidInputError(
                f"{what} cannot fill the part {name!r} ({share:g} of the rows); {instead}"
            )


def _filled(counts: IntArray, order: IntArray, targets: IntArray, seed: int) -> IntArray:
    """Assign blocks to parts, largest first, so small blocks balance the sizes.

    Each block is assigned at random to a part with enough space, with probability proportional to
    the remaining space, so large blocks are distributed in proportion to part sizes.
    """
    rng = np.random.default_rng(seed)
    part = np.empty(len(counts), dtype=np.int64)
    need = targets.tolist()
    for block in order.tolist():
        a, b = counts[block].tolist()
        too_much = [max(0, a - max(0, n0)) + max(0, b - max(0, n1)) for n0, n1 in need]
        least = min(too_much)
        room = [
            max(0, n0) + max(0, n1) + 1e-9 if over == least else 0.0
            for over, (n0, n1) in zip(too_much, need, strict=True)
        ]
        edges = np.cumsum(room)
        chosen = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
        need[chosen][0] -= a
        need[chosen][1] -= b
        part[block] = chosen
    return part


def _targets(class_counts: IntArray, shares: list[float]) -> IntArray:
    """Return integer target sizes per (part, class).

    Rounding errors of a class are compensated in the next class.
    """
    weights = np.array(shares) / sum(shares)
    targets = np.zeros((len(shares), len(class_counts)), dtype=np.int64)
    owed = np.zeros(len(shares))
    for label, count in enumerate(class_counts.tolist()):
        exact = count * weights
        whole = np.floor(exact + 1e-9).astype(np.int64)
        spare = count - int(whole.sum())
        whole[np.argsort(-(exact - whole + owed), kind="stable")[:spare]] += 1
        owed += exact - whole
        targets[:, label] = whole
    return targets


def _stable_parts(
    shares: Mapping[str, float], keys: list[str], blocks: IntArray | None, seed: int
) -> IntArray:
    draws = _draws(keys, seed)
    if blocks is not None:
        draws = _first_of_block(draws, blocks)[blocks]
    edges = np.cumsum(list(shares.values()))[:-1]
    part: IntArray = np.searchsorted(edges, draws / 2.0**64, side="right").astype(np.int64)
    return part


def _first_of_block(draws: NDArray[np.uint64], blocks: IntArray) -> NDArray[np.uint64]:
    first = np.full(int(blocks.max()) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(first, blocks, draws)
    return first


def _draws(keys: list[str], seed: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash of the seed and each key."""
    prefix = f"{seed}:"
    hashes = (
        hashlib.sha256((prefix + key).encode("utf-8", "surrogatepass")).digest()[:8] for key in keys
    )
    return np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)


def _contents(slice_: EvalSlice) -> list[str]:
    """Return an identity for each row that is independent of other rows."""
    return slice_.content_hashes if slice_.ids is None else list(slice_.ids)


def _group_values(slice_: EvalSlice, group: str | ArrayLike | None) -> NDArray[Any] | None:
    name = group if isinstance(group, str) else slice_.group_col if group is None else None
    if name is not None:
        return column_of(slice_, name)
    return None if group is None else validation.identifiers(group, "group")


def _blocks(
    n: int, groups: NDArray[Any] | None, keep_together: ArrayLike | None
) -> IntArray | None:
    """Return the block of each row: rows connected by groups or codes."""
    given = {"group": groups, "keep_together": keep_together}
    links = [
        validation.group_codes(values, n, name)[0]
        for name, values in given.items()
        if values is not None
    ]
    if len(links) < 2:
        return links[0] if links else None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    first, second = links[0], links[1] + int(links[0].max()) + 1
    size = int(second.max()) + 1
    graph = coo_array((np.ones(n, dtype=np.int8), (first, second)), shape=(size, size))
    component = connected_components(graph, directed=False)[1]
    blocks: IntArray = component[first].astype(np.int64)
    return blocks


def _checked_sizes(sizes: Mapping[str, float]) -> dict[str, float]:
    if not isinstance(sizes, Mapping):
        raise InvalidTypeError(f"`sizes` is {sizes!r}; it must be a dict like {_DEFAULT_SIZES}")
    if len(sizes) < 2:
        raise InvalidInputError(f"`sizes` is {dict(sizes)}; at least two parts are needed")
    shares = {name: validation.fraction(share, f"sizes[{name!r}]") for name, share in sizes.items()}
    total = sum(shares.values())
    if abs(total - 1.0) > 1e-6:
        raise InvalidInputError(f"`sizes` sum to {total:g}; the shares must sum to 1")
    return shares
