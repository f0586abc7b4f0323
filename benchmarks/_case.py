"""Benchmark definitions: a name, a bar, and a function that measures both sides."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks._timing import Effort, Timing


@dataclass(frozen=True)
class Bar:
    """Figure that a measurement must meet."""

    kind: Literal["speed-up", "cost", "seconds"]
    """Speed-up over the peer, cost relative to the reference, or CPU seconds."""
    limit: float

    def met(self, value: float) -> bool:
        return value >= self.limit if self.kind == "speed-up" else value <= self.limit

    def show(self, value: float) -> str:
        """Format a value in the bar's unit."""
        if self.kind == "seconds":
            return f"{value * 1e3:,.1f} ms"
        return f"{value:,.0f}×" if value >= 100 else f"{value:,.2f}×"

    def __str__(self) -> str:
        relation = "≥" if self.kind == "speed-up" else "≤"
        number = self.limit * 1e3 if self.kind == "seconds" else self.limit
        return f"{relation} {number:,g}{' ms' if self.kind == 'seconds' else '×'}"


@dataclass(frozen=True)
class Measurement:
    """Times of both sides of a benchmark; no peer if the bar is a time."""

    ours: Timing
    peer: Timing | None = None
    note: str = ""

    def value(self, bar: Bar) -> float:
        """Return the figure that is compared with the bar."""
        if bar.kind == "seconds" or self.peer is None:
            return self.ours.seconds
        ratio = self.peer.best_ns / self.ours.best_ns
        return ratio if bar.kind == "speed-up" else 1.0 / ratio


@dataclass(frozen=True)
class Case:
    """A benchmark with a bar."""

    name: str
    title: str
    bar: Bar
    run: Callable[[Effort], Measurement] = field(repr=False)
    peer: str = ""


@dataclass(frozen=True)
class Survey:
    """Figures without a bar, as a small table."""

    name: str
    title: str
    columns: tuple[str, ...]
    run: Callable[[Effort], list[tuple[Any, ...]]] = field(repr=False)


def require_agreement(ours: Sequence[float], peer: Sequence[float], tolerance: float) -> None:
    """Raise if the two sides of a benchmark return different results."""
    for one, other in zip(ours, peer, strict=True):
        if not math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance):
            raise ValueError(f"the two sides disagree: {one!r} and {other!r}")
