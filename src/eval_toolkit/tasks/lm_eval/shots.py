"""Which examples stand before a question: drawn for each item alone, or as lm-eval draws them."""

import random
from collections.abc import Callable, Sequence

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.seeds import derive_seed
from eval_toolkit.tasks.identity import permutation
from eval_toolkit.tasks.types import Item

__all__ = ["LM_EVAL_SEED", "drawn_for", "drawn_in_turn"]

LM_EVAL_SEED = 1234
"""Of the one generator that lm-eval draws all examples of a task with."""


def drawn_for(
    item: Item,
    pool: Sequence[Item],
    n: int,
    *,
    seed: int,
    in_order: bool,
    written: Callable[[Item], str],
) -> list[Item]:
    """Return examples for one item: never itself or its double, whatever else is asked.

    Parameters
    ----------
    item : Item
        What is asked about.
    pool : sequence of Item
        What examples are taken from; for a draw in an order that no file decides.
    n : int
        How many.
    seed : int
        Seed of the task; the draw is the item's own.
    in_order : bool
        Take the first ones instead.
    written : callable
        Question and answer of an item as they would stand in a prompt.

    Returns
    -------
    list of Item
        All different from each other and from the item.

    Raises
    ------
    InvalidInputError
        If there are not enough.
    """
    drawn = permutation(derive_seed(seed, "few-shot", item.unit_id), len(pool))
    order = range(len(pool)) if in_order else drawn
    seen, chosen = {item.content_hash, written(item)}, []
    for at in order:
        example = pool[at]
        shown = written(example)
        if example.content_hash in seen or shown in seen:
            continue
        seen |= {example.content_hash, shown}
        chosen.append(example)
        if len(chosen) == n:
            return chosen
    raise InvalidInputError(
        f"{item.place}: num_fewshot is {n}, but there are {len(chosen)} examples that differ from "
        "it and from each other"
    )


def drawn_in_turn(
    items: Sequence[Item], pool: Sequence[Item], n: int, *, in_order: bool, without_itself: bool
) -> list[list[Item]]:
    """Return the examples of every item as lm-eval draws them, one item after the other.

    Parameters
    ----------
    items : sequence of Item
        All that is asked about, in the order of the data.
    pool : sequence of Item
        What examples are taken from.
    n : int
        How many each.
    in_order : bool
        Whether the sampler is "first_n".
    without_itself : bool
        Whether the examples come from the split that is asked about, by its name. Only then does
        lm-eval keep an item out of its own examples.

    Returns
    -------
    list of list of Item
        One per item.

    Raises
    ------
    InvalidInputError
        If there are not enough.
    """
    draw = random.Random(LM_EVAL_SEED)  # noqa: S311
    wanted = n + 1 if without_itself and not in_order else n
    if wanted > len(pool):
        raise InvalidInputError(f"num_fewshot is {n}, but there are {len(pool)} examples")
    chosen = []
    for item in items:
        found = list(pool) if in_order else draw.sample(list(pool), wanted)
        if without_itself:
            found = [example for example in found if dict(example) != dict(item)]
        found = found[:n]
        if len(found) < n:
            others = [example for example in pool if dict(example) != dict(item)]
            if n > len(others):
                raise InvalidInputError(
                    f"{item.place}: num_fewshot is {n}, but there are {len(others)} other examples"
                )
            found = draw.sample(others, n)
        chosen.append(found)
    return chosen
