"""How objects are broken on purpose."""

import itertools
from collections.abc import Callable
from typing import Any

Method = Callable[..., Any]
Mutants = dict[str, tuple[Any, ...]]
"""By rule: an object that breaks it, and the rules that cannot but break with it."""


def like(base: type, **members: Any) -> Any:
    """Return an object like those of a class, but for some members."""
    return type(base.__name__, (base,), members)()


def counting(method: Callable[[int, Any], Any]) -> Method:
    """Return a method of one argument that is told how often it was called before."""
    count = itertools.count()
    return lambda self, *given: method(next(count), *given)
