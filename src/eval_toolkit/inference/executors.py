"""What runs parts of the work: threads, processes, a cluster."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

__all__ = ["Executor"]


class Executor(Protocol):
    """Anything with ``concurrent.futures.Executor``'s ``map``."""

    def map(self, fn: Callable[..., Any], /, *iterables: Iterable[Any]) -> Iterator[Any]:
        """Apply ``fn`` to every item, in order."""
        ...
