"""Load scorers by name, and reword their messages for the command line."""

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.rollouts.scorers import load_scorer
from eval_toolkit.rollouts.scorers.base import check_ready


@contextlib.contextmanager
def about(option: str) -> Iterator[None]:
    """Reword a message to refer to options instead of arguments."""
    try:
        yield
    except InvalidInputError as error:
        told = str(error).replace("`", "").replace("needs model", "needs a --tester-model")
        told = re.sub(r"'(\w+)': needs (\w+)$", r"'\1': needs \2, as in \1{\2=…}", told)
        named = repr(option.partition(" ")[2]) in told
        raise type(error)(told if named else f"{option}: {told}") from None


def load_scorers(specs: Sequence[str]) -> list[Any]:
    """Load the scorers and validate their thresholds against their ranges.

    Raise if names are not unique, or if weights or extras are missing, before any model is queried.
    """
    made: list[Any] = []
    for spec in specs:
        with about(f"--scorer {spec}"):
            scorer = load_scorer(spec)
        low, high = getattr(scorer, "bounds", (-math.inf, math.inf))
        if not low <= scorer.threshold <= high:
            raise click.UsageError(
                f"--scorer {spec}: scores lie between {low:g} and {high:g}, and so must the threshold"
            )
        if any(one.name == scorer.name for one in made):
            raise click.UsageError(
                f"two --scorer options are both named {scorer.name!r}; remove one"
            )
        made.append(scorer)
    check_ready(made)
    return made
