"""Progress display on standard error: a bar on terminals, otherwise a line every ten seconds."""

import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

_EVERY_S = 10.0


Progress: TypeAlias = Any
"""`models.runner.Progress`, which this package cannot import."""


class ProgressBar:
    """Display of a run's throughput, remaining time, errors, tokens and cost.

    If standard error is not a terminal, ``say`` prints a line at the start, every ten seconds, and
    at the end. ``begins`` returns the line printed before the first request.
    """

    def __init__(
        self,
        say: Callable[[str], object],
        begins: Callable[[Progress], str] | None = None,
        price: Callable[[float], str] = "{:.2g}".format,
    ) -> None:
        self._say = say
        self._begins = begins
        self._price = price
        self._bar: Any = None
        self._task: Any = None
        self._next = 0.0
        self._last: Progress | None = None
        self._said: Progress | None = None

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._last is not None and self._last is not self._said:
            self._tell(self._last)

    def __call__(self, progress: Progress) -> None:
        """Update the display."""
        if self._begins is not None:
            begins, self._begins = self._begins, None
            self._say(begins(progress))
        if sys.stderr.isatty():
            self._draw(progress)
            return
        before, states = self._last, ("away_since", "stopping")
        changed = before and any(getattr(before, s) != getattr(progress, s) for s in states)
        self._last = progress
        if changed or time.monotonic() >= self._next:
            self._tell(progress)

    def _tell(self, progress: Progress) -> None:
        self._said = progress
        self._next = time.monotonic() + _EVERY_S
        known = progress.done or progress.away_since is not None or progress.stopping
        status = _status(progress, self._price) if known else ""
        self._say(f"{progress.done:,} of {progress.total:,} requests{status and ', ' + status}")

    def _draw(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = _new_bar()
            self._task = self._bar.add_task("requests", total=progress.total, status="")
            self._bar.start()
        self._bar.update(
            self._task,
            completed=progress.done,
            total=progress.total,
            status=_status(progress, self._price),
        )


def _new_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )


def _status(progress: Progress, price: Callable[[float], str]) -> str:
    if progress.stopping:
        return "waiting for requests in flight; press Ctrl-C again to stop now"
    if progress.away_since is not None:
        return f"server unreachable since {progress.away_since:%H:%M:%S}"
    parts = [f"{progress.rate:.1f}/s"]
    if progress.eta_s is not None:
        parts.append(f"{duration(progress.eta_s)} left")
    if progress.reused:
        parts.append(f"{progress.reused} cached")
    parts.append(f"{progress.errors} errors")
    tokens = progress.prompt_tokens + progress.completion_tokens
    if tokens:
        parts.append(f"{tokens:,} tokens")
    if progress.cost:
        parts.append(f"cost {price(progress.cost)}")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format a duration, such as "40 s" or "2 min 05 s"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )
