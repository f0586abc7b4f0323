"""Progress display on standard error: a bar on terminals, occasional lines elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import Any

from eval_toolkit.cli._text import say
from eval_toolkit.models.prices import money
from eval_toolkit.models.runner import Progress
from eval_toolkit.models.servers import the_currency

__all__ = ["ProgressBar"]

_EVERY_S = 15.0


class ProgressBar:
    """Display of the throughput, remaining time, errors, tokens and cost of a run."""

    def __init__(self, begins: Callable[[Progress], str] | None = None) -> None:
        self._begins = begins
        self._bar: Any = None
        self._task: Any = None
        self._told = time.monotonic()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Update the display."""
        if self._begins is not None:
            begins, self._begins = self._begins, None
            say(begins(progress), err=True)
        if sys.stderr.isatty():
            self._draw(progress)
        elif time.monotonic() - self._told >= _EVERY_S:
            self._told = time.monotonic()
            say(f"{progress.done} of {progress.total} {_said(progress)}", err=True)

    def _draw(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = _new_bar()
            self._task = self._bar.add_task("asking", total=progress.total, said="")
            self._bar.start()
        self._bar.update(
            self._task, completed=progress.done, total=progress.total, said=_said(progress)
        )


def _new_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )


def _said(progress: Progress) -> str:
    parts = [f"{progress.rate:.1f}/s"]
    if progress.eta_s is not None:
        parts.append(f"{_duration(progress.eta_s)} left")
    if progress.reused:
        parts.append(f"{progress.reused} were there")
    parts.append(f"{progress.errors} errors")
    tokens = progress.prompt_tokens + progress.completion_tokens
    if tokens:
        parts.append(f"{tokens:,} tokens")
    if progress.cost:
        parts.append(f"cost {money(progress.cost, the_currency())}")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )
