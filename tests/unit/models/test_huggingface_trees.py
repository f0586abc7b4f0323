"""Trees of tokens: each prefix once, and every token visible to exactly those that continue it."""

import itertools
import random

import numpy as np
import pytest

from eval_toolkit.models.huggingface.trees import Layout, Leaf, Limits, batches, layout, plan

WIDE = Limits(tokens=2**20, leaves=2**20, exchange=1e12)


def leaf(context: list[int], *branches: list[int], first: int = 0) -> Leaf:
    as_array = [np.array(branch, dtype=np.int32) for branch in branches]
    owners = range(first, first + len(branches))
    return Leaf(np.array(context, dtype=np.int32), as_array, owners)


def seen_by(laid: Layout, at: int) -> list[int]:
    """Tokens visible at an index, in the order of their positions."""
    visible = [key for key in range(at + 1) if laid.until[key] >= at]
    assert laid.positions[visible].tolist() == list(range(len(visible)))
    return laid.ids[visible].tolist()


def scored(laid: Layout) -> dict[int, list[tuple[list[int], int]]]:
    """What is read before each target of each continuation, and the target."""
    found: dict[int, list[tuple[list[int], int]]] = {}
    for read, target, owner in zip(laid.reads, laid.targets, laid.owners, strict=True):
        found.setdefault(int(owner), []).append((seen_by(laid, int(read)), int(target)))
    return found


def random_leaves(seed: int) -> list[Leaf]:
    draw = random.Random(seed)  # noqa: S311

    def tokens(low: int) -> list[int]:
        return [draw.randrange(3) for _ in range(draw.randint(low, 9))]

    numbers = itertools.count()
    leaves = []
    for _ in range(draw.randint(1, 8)):
        branches = [tokens(1) for _ in range(draw.randint(1, 4))]
        leaves.append(leaf(tokens(1), *branches))
        leaves[-1] = Leaf(
            leaves[-1].context, leaves[-1].branches, [next(numbers) for _ in branches]
        )
    return leaves


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("limits", [WIDE, Limits(12, 3, 1e12), Limits(0, 9, 1.0)])
def test_each_target_is_read_after_exactly_its_text(seed: int, limits: Limits) -> None:
    leaves = random_leaves(seed)
    found: dict[int, list[tuple[list[int], int]]] = {}
    for tree in plan(leaves, limits):
        laid = layout(tree)
        assert len(laid.ids) == tree.size
        found |= scored(laid)
    for one in leaves:
        for branch, owner in zip(one.branches, one.owners, strict=True):
            text = [*one.context.tolist(), *branch.tolist()]
            start = len(one.context)
            assert found[owner] == [(text[:at], text[at]) for at in range(start, len(text))]


def test_a_shared_prefix_is_stored_once() -> None:
    shots = list(range(10, 60))
    [tree] = plan([leaf([*shots, 1], [5]), leaf([*shots, 2], [5]), leaf([*shots], [5])], WIDE)
    assert (tree.size, tree.shared) == (52, [0, 50, 50])


def test_texts_with_little_in_common_keep_rows_of_their_own() -> None:
    """Attention to all texts of a row would cost more than the common tokens."""
    texts = [leaf([1, 2, *range(at, at + 100)], [5]) for at in (100, 200, 300)]
    assert [tree.size for tree in plan(texts, Limits(2048, 64, 500.0))] == [102] * 3


def test_chains_are_known() -> None:
    assert plan([leaf([1, 2], [3], [4], [5])], WIDE)[0].is_chain
    assert plan([leaf([1, 2], [3], [4, 5, 6])], WIDE)[0].is_chain
    assert not plan([leaf([1, 2], [3, 4], [4, 5])], WIDE)[0].is_chain


def test_halves_lose_nothing() -> None:
    [tree] = plan([leaf([1, 2], [3, 4]), leaf([1, 3], [5, 5], [6, 7, 8], first=1)], WIDE)
    parts = tree.halves()
    assert [len(part.leaves) for part in parts] == [1, 1]
    assert parts[0].halves() == []
    smaller = parts[1].halves()
    assert [list(part.leaves[0].owners) for part in smaller] == [[1], [2]]
    assert {**scored(layout(smaller[0])), **scored(layout(smaller[1]))} == scored(layout(parts[1]))


def test_batches_keep_to_their_size() -> None:
    trees = plan([leaf(list(range(at, at + at)), [1, 2], [3, 4]) for at in range(1, 30)], WIDE)
    made = list(batches(trees, 100, 2**31))
    assert sum(map(len, made)) == len(trees)
    assert all(len(batch) * max(tree.size for tree in batch) <= 100 for batch in made)
    assert all(len(batch) <= 2 for batch in batches(trees, 10**6, 2))
