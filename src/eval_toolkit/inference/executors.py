"""Executor protocol, implemented by threads, processes and clusters."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol


class Executor(Protocol):
    """Object with the ``map`` method of ``concurrent.futures.Executor``."""

    def map(self, fn: Callable[..., Any], /, *iterables: Iterable[Any]) -> Iterator[Any]:
        """Apply ``fn`` to every item, in order."""
        ...
