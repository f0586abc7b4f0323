"""Selection of few-shot examples, either independently for each item or as in lm-eval."""

import random
from collections.abc import Callable, Sequence

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.seeds import derive_seed
from eval_toolkit.tasks.order import permutation
from eval_toolkit.tasks.types import Item

LM_EVAL_SEED = 1234
"""Seed of the generator from which lm-eval draws all examples of a task."""


def drawn_for(
    item: Item,
    pool: Sequence[Item],
    n: int,
    *,
    seed: int,
    in_order: bool,
    written: Callable[[Item], str],
) -> list[Item]:
    """Draw examples for one item, excluding the item itself and its duplicates.

    Each item has its own draw. For random draws, the order of ``pool`` must not depend on the
    files. With ``in_order``, the first examples are used instead. ``written`` formats the question
    and answer of an example as in a prompt.
    """
    drawn = permutation(derive_seed(seed, "few-shot", item.unit_id), len(pool))
    order = range(len(pool)) if in_order else drawn
    seen, chosen = {item.content_hash, written(item)}, []
    for at in order:
        example = pool[at]
        text = written(example)
        if example.content_hash in seen or text in seen:
            continue
        seen |= {example.content_hash, text}
        chosen.append(example)
        if len(chosen) == n:
            return chosen
    raise InvalidInputError(
        f"{item.place}: num_fewshot is {n}, but only {len(chosen)} examples differ from it and "
        "from each other"
    )


def drawn_in_turn(
    items: Sequence[Item], pool: Sequence[Item], n: int, *, in_order: bool, without_itself: bool
) -> list[list[Item]]:
    """Draw the examples for all items in sequence, as lm-eval does.

    Pass ``in_order`` for the sampler "first_n", and ``without_itself`` if the examples come from
    the sample split, by name; only then does lm-eval exclude an item from its own examples.
    """
    draw = random.Random(LM_EVAL_SEED)  # noqa: S311
    n_drawn = n + 1 if without_itself and not in_order else n
    if n_drawn > len(pool):
        raise InvalidInputError(f"num_fewshot is {n}, but there are only {len(pool)} examples")
    chosen = []
    for item in items:
        found = list(pool) if in_order else draw.sample(list(pool), n_drawn)
        if without_itself:
            found = [example for example in found if dict(example) != dict(item)]
        found = found[:n]
        if len(found) < n:
            others = [example for example in pool if dict(example) != dict(item)]
            if n > len(others):
                raise InvalidInputError(
                    f"{item.place}: num_fewshot is {n}, but there are only {len(others)} other examples"
                )
            found = draw.sample(others, n)
        chosen.append(found)
    return chosen
