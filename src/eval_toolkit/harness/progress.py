"""Progress reporting for long evaluations, by callback or progress bar."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from eval_toolkit.errors import InvalidTypeError

ProgressFn: TypeAlias = Callable[[int, int, str], object]
"""Callback that receives the number done, the total, and a description of the last item."""


class Ticker:
    """Counter that reports progress to a callback."""

    def __init__(self, total: int, tell: ProgressFn | None = None) -> None:
        self.total = total
        self.done = 0
        self._tell = tell

    def advance(self, by: int, what: str) -> None:
        """Increment the count and report progress."""
        self.done += by
        if self._tell is not None:
            self._tell(self.done, self.total, what)


@contextmanager
def showing(progress: "bool | ProgressFn | None", total: int) -> Iterator[Ticker]:
    """Yield a counter that reports to a callback, to a progress bar, or to neither."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InvalidTypeError(
            f"`progress` is {progress!r}; it must be True, False or a function of (done, total, description)"
        )
    if callable(progress):
        yield Ticker(total, progress)
    elif progress and sys.stderr.isatty():
        with _bar(total) as tell:
            yield Ticker(total, tell)
    else:
        yield Ticker(total)


@contextmanager
def _bar(total: int) -> Iterator[ProgressFn]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("scoring", total=total)

        def tell(done: int, total: int, what: str) -> None:
            shown.update(task, completed=done, total=total, description=escape(what))

        yield tell
