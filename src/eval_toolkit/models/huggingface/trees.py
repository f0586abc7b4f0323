"""Arrange sequences as token trees, so that each shared prefix is processed once.

A tree is one row of a batch. Its tokens are stored in depth-first order, so that the descendants of
a token are contiguous and a token is visible from its own index to the last index of its subtree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]

_GROUP = 2048
"""Maximum number of tokens in a row with several contexts, unless a single context is longer."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Non-empty context with the continuations to score and their indices."""

    context: Tokens
    branches: Sequence[Tokens]
    owners: Sequence[int]

    @property
    def size(self) -> int:
        """Number of tokens to process, without the last token of each continuation."""
        return len(self.context) + sum(map(len, self.branches)) - len(self.branches)

    def cut(self, start: int, stop: int) -> "Leaf":
        """Return a leaf with a subset of the continuations."""
        return Leaf(self.context, self.branches[start:stop], self.owners[start:stop])


@dataclass(slots=True)
class Tree:
    """Leaves of one row, and the number of tokens that each shares with the previous one."""

    leaves: list[Leaf]
    shared: list[int]
    size: int

    @property
    def is_chain(self) -> bool:
        """Whether every token is visible to all later tokens, as in a plain sequence."""
        return len(self.leaves) == 1 and sum(len(b) > 1 for b in self.leaves[0].branches) <= 1

    def halves(self) -> "list[Tree]":
        """Split the tree in two; return nothing if it is a single sequence."""
        if len(self.leaves) > 1:
            at = len(self.leaves) // 2
            return [_tree(self.leaves[:at]), _tree(self.leaves[at:])]
        leaf, n = self.leaves[0], len(self.leaves[0].branches)
        if n < 2:
            return []
        return [_tree([leaf.cut(0, n // 2)]), _tree([leaf.cut(n // 2, n)])]


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of trees."""

    tokens: int
    """Maximum size of a tree that is not a chain; 0 puts each sequence in its own row."""
    leaves: int
    """Maximum number of leaves."""
    exchange: float
    """Number of token pairs whose attention costs as much as one token does in the other layers."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Tokens of a tree in the order of its row."""

    ids: Tokens
    positions: Tokens
    until: Tokens
    """Last index from which each token is visible."""
    reads: Tokens
    """Indices of the tokens after which a token is predicted."""
    targets: Tokens
    """Predicted tokens, one per item of ``reads``."""
    owners: Tokens
    """Index of each target's continuation."""
    paths: list[Tokens]
    """Indices of each leaf's context."""


@dataclass(slots=True)
class _Writer:
    """Layout under construction."""

    n: int = 0
    ids: list[Tokens] = field(default_factory=list)
    positions: list[Tokens] = field(default_factory=list)
    reads: list[Tokens] = field(default_factory=list)

    def add(self, tokens: Tokens, depth: int) -> Tokens:
        """Add tokens from a given position on and return their indices."""
        indices = np.arange(self.n, self.n + len(tokens), dtype=np.int32)
        self.ids.append(tokens)
        self.positions.append(np.arange(depth, depth + len(tokens), dtype=np.int32))
        self.n += len(tokens)
        return indices


def layout(tree: Tree) -> Layout:
    """Lay out the tokens of a tree in depth-first order."""
    writer, until = _Writer(), np.empty(tree.size, dtype=np.int32)
    path = np.empty(0, dtype=np.int32)
    paths: list[Tokens] = []
    for leaf, shared in zip(tree.leaves, tree.shared, strict=True):
        until[path[shared:]] = writer.n - 1
        path = np.concatenate([path[:shared], writer.add(leaf.context[shared:], shared)])
        for branch in leaf.branches:
            own = writer.add(branch[:-1], len(path))
            until[own] = writer.n - 1
            writer.reads += [path[-1:], own]
        paths.append(path)
    until[path] = writer.n - 1
    pairs = [pair for leaf in tree.leaves for pair in zip(leaf.branches, leaf.owners, strict=False)]
    branches, owners = [branch for branch, _ in pairs], [owner for _, owner in pairs]
    return Layout(
        ids=np.concatenate(writer.ids),
        positions=np.concatenate(writer.positions),
        until=until,
        reads=_joined(writer.reads),
        targets=_joined(branches),
        owners=np.repeat(np.array(owners, dtype=np.int32), [len(branch) for branch in branches]),
        paths=paths,
    )


def _joined(parts: Sequence[Tokens]) -> Tokens:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def plan(leaves: Sequence[Leaf], limits: Limits) -> list[Tree]:
    """Arrange leaves as trees, largest first.

    Examples
    --------
    >>> few_shot, ends = list(range(100)), ([1, 2], [3], [1, 4])
    >>> texts = [Leaf(np.array([*few_shot, *end], np.int32), (), ()) for end in ends]
    >>> [tree.size for tree in plan(texts, Limits(2048, 64, 1000.0))]
    [104]
    """
    if limits.tokens < 1:
        return _sorted([_tree([part]) for leaf in leaves for part in _apart(leaf)])
    parts = [part for leaf in leaves for part in _fitting(leaf, limits.tokens)]
    # Big-endian bytes sort in the order of the tokens.
    parts.sort(key=lambda part: part.context.astype(">u4").tobytes())
    trees: list[Tree] = []
    for part in parts:
        tree = trees[-1] if trees else None
        if tree is not None and len(tree.leaves) < limits.leaves:
            shared = _common(tree.leaves[-1].context, part.context)
            if shared and _joins(tree.size, part.size, shared, limits):
                tree.leaves.append(part)
                tree.shared.append(shared)
                tree.size += part.size - shared
                continue
        trees.append(_tree([part]))
    return _sorted(trees)


def _sorted(trees: list[Tree]) -> list[Tree]:
    return sorted(trees, key=lambda tree: -tree.size)


def _joins(size: int, more: int, shared: int, limits: Limits) -> bool:
    """Return whether a sequence is cheaper to process in a shared tree than in its own row."""
    together = size + more - shared
    if together > min(limits.tokens, max(_GROUP, 2 * more)):
        return False
    pairs = together * together - size * size - more * more
    return pairs < shared * limits.exchange


def _tree(leaves: Sequence[Leaf]) -> Tree:
    shared = [0, *(_common(one.context, after.context) for one, after in pairwise(leaves))]
    return Tree(list(leaves), shared, sum(leaf.size for leaf in leaves) - sum(shared))


def _common(first: Tokens, second: Tokens) -> int:
    n = min(len(first), len(second))
    differ = first[:n] != second[:n]
    at = int(differ.argmax()) if n else 0
    return at if n and differ[at] else n


def _apart(leaf: Leaf) -> list[Leaf]:
    """Split a leaf into one per continuation; single-token continuations stay together."""
    if len(leaf.branches) < 2:
        return [leaf]
    single = [at for at, branch in enumerate(leaf.branches) if len(branch) == 1]
    longer = [leaf.cut(at, at + 1) for at, branch in enumerate(leaf.branches) if len(branch) > 1]
    if single:
        own = [leaf.branches[at] for at in single], [leaf.owners[at] for at in single]
        longer.append(Leaf(leaf.context, *own))
    return longer


def _fitting(leaf: Leaf, limit: int) -> Iterator[Leaf]:
    """Split a leaf into parts of at most ``limit`` tokens; a single continuation may be longer."""
    if leaf.size <= limit or len(leaf.branches) < 2:
        yield leaf
        return
    start, used = 0, len(leaf.context)
    for at, branch in enumerate(leaf.branches):
        if at > start and used + len(branch) - 1 > limit:
            yield leaf.cut(start, at)
            start, used = at, len(leaf.context)
        used += len(branch) - 1
    yield leaf.cut(start, len(leaf.branches))


def batches(trees: Sequence[Tree], max_tokens: int, max_leaves: int) -> Iterator[list[Tree]]:
    """Yield batches of at most ``max_tokens`` including padding; chains get separate batches."""
    for chains in (True, False):
        batch: list[Tree] = []
        n_leaves = 0
        for tree in trees:
            if tree.is_chain is not chains:
                continue
            full = (len(batch) + 1) * max(batch[0].size if batch else 0, tree.size) > max_tokens
            if batch and (full or n_leaves + len(tree.leaves) > max_leaves):
                yield batch
                batch, n_leaves = [], 0
            batch.append(tree)
            n_leaves += len(tree.leaves)
        if batch:
            yield batch
