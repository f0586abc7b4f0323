"""Helpers to create objects that violate a contract."""

import itertools
from collections.abc import Callable
from typing import Any

Method = Callable[..., Any]
Mutants = dict[str, tuple[Any, ...]]
"""Maps each rule to an object that violates it, and the rules that are necessarily violated too."""


def like(base: type, **members: Any) -> Any:
    """Return an instance of a class with some members replaced."""
    return type(base.__name__, (base,), members)()


def counting(method: Callable[[int, Any], Any]) -> Method:
    """Return a method that receives the number of previous calls."""
    count = itertools.count()
    return lambda self, *given: method(next(count), *given)
