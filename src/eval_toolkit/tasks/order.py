"""Random orders that are stable across runs and Python versions."""

import random
from collections.abc import Iterator, Sequence

from eval_toolkit.seeds import derive_seed
from eval_toolkit.tasks.types import Item


def in_order(items: Sequence[Item], seed: int) -> list[Item]:
    """Return items in a random order that is stable when items are added."""
    keyed = [(derive_seed(seed, "order", item.unit_id), item.unit_id) for item in items]
    return [items[at] for at in sorted(range(len(items)), key=keyed.__getitem__)]


def permutation(seed: int, n: int) -> Iterator[int]:
    """Yield 0, …, n − 1 in random order; the cost depends only on how many values are consumed."""
    # Only `random` of the generator is guaranteed to be stable across Python versions.
    draw = random.Random(seed).random  # noqa: S311
    moved: dict[int, int] = {}
    for left in range(n - 1, -1, -1):
        at = int(draw() * (left + 1))
        yield moved.get(at, at)
        moved[at] = moved.get(left, left)
