"""Scorers by name, and messages that say which option they are about."""

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.rollouts.scorers import load_scorer
from eval_toolkit.rollouts.scorers.base import check_ready

__all__ = ["about", "load_scorers"]


@contextlib.contextmanager
def about(option: str) -> Iterator[None]:
    """Say which option a message is about; its arguments are not those of the command."""
    try:
        yield
    except InvalidInputError as error:
        told = str(error).replace("`", "").replace("needs model", "needs a --tester-model")
        told = re.sub(r"'(\w+)': needs (\w+)$", r"'\1': needs \2, as in \1{\2=…}", told)
        named = repr(option.partition(" ")[2]) in told
        raise type(error)(told if named else f"{option}: {told}") from None


def load_scorers(specs: Sequence[str]) -> list[Any]:
    """Return the scorers, each ready to be asked; none whose threshold is beyond its numbers.

    No two have the same name. What one lacks (weights, an extra) is raised here, before a model is
    asked.
    """
    made: list[Any] = []
    for spec in specs:
        with about(f"--scorer {spec}"):
            scorer = load_scorer(spec)
        low, high = getattr(scorer, "bounds", (-math.inf, math.inf))
        if not low <= scorer.threshold <= high:
            raise click.UsageError(
                f"--scorer {spec}: its numbers lie between {low:g} and {high:g}, and so must the "
                "threshold"
            )
        if any(one.name == scorer.name for one in made):
            raise click.UsageError(f"two --scorer are called {scorer.name!r}; leave one out")
        made.append(scorer)
    check_ready(made)
    return made
