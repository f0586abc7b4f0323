"""Random orders that are stable across runs and Python versions."""

import random
from collections.abc import Iterator, Sequence

from eval_toolkit.seeds import derive_seeds


def shuffled(unit_ids: Sequence[str], seed: int) -> list[int]:
    """Return the positions of items in a random order that is stable when items are added."""
    keyed = list(zip(derive_seeds(seed, "order", unit_ids), unit_ids, strict=True))
    return sorted(range(len(keyed)), key=keyed.__getitem__)


def permutation(seed: int, n: int) -> Iterator[int]:
    """Yield 0, …, n − 1 in random order; the cost depends only on how many values are consumed."""
    # Only `random` of the generator is guaranteed to be stable across Python versions.
    draw = random.Random(seed).random  # noqa: S311
    moved: dict[int, int] = {}
    for left in range(n - 1, -1, -1):
        at = int(draw() * (left + 1))
        yield moved.get(at, at)
        moved[at] = moved.get(left, left)
