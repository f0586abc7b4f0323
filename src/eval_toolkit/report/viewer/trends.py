"""Trends of tasks: the main metric of each task's runs in chronological order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eval_toolkit._internal.words import number
from eval_toolkit.report.cells import Cell
from eval_toolkit.report.viewer.run_list import ListedRun

WIDTH, HEIGHT = 260, 84
_PAD, _SCALE = 10, 40
"""Margin, and the width of the axis labels."""
_AT_MOST = 6
_POINTS_AT_MOST = 30


@dataclass(frozen=True, kw_only=True)
class Point:
    """Run in a trend, with its position in the chart."""

    run: ListedRun
    cell: Cell
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Trend:
    """Runs that share their units and their main metric, earliest first."""

    slice: str
    metric: str
    lines: Sequence[tuple[str, Sequence[Point]]]
    """Points by name of the system."""
    n: int
    """Number of runs, including those too early to be drawn."""
    ends: tuple[float, float]
    """Lowest and highest value on the scale."""

    @property
    def points(self) -> list[Point]:
        """All points, earliest first."""
        return sorted((one for _, line in self.lines for one in line), key=lambda one: one.x)

    @property
    def words(self) -> str:
        """Text alternative of the chart."""
        told = (f"{one.run.run_id[:60]} {number(one.cell.value)}" for one in self.points)
        return f"{self.metric} of {self.slice}, earliest first: {', '.join(told)}"

    @staticmethod
    def path(line: Sequence[Point]) -> str:
        """Return a line through the points as an SVG path."""
        return "M" + " L".join(f"{one.x:.1f} {one.y:.1f}" for one in line)


def trends_of(runs: Sequence[ListedRun]) -> list[Trend]:
    """Return the trends of all tasks with several runs, most recent task first."""
    groups: dict[tuple[object, ...], list[tuple[ListedRun, Cell]]] = {}
    for run in sorted(runs, key=lambda one: (one.when, one.run_id)):
        cell = run.cell
        if (
            cell is not None
            and cell.has_value
            and math.isfinite(cell.value or 0)
            and not run.altered
        ):
            # Without a hash of the items, equally many units are the best guess.
            same = run.items or run.n
            groups.setdefault((run.kind, run.slice, cell.name, same), []).append((run, cell))
    several = [group for group in groups.values() if len(group) > 1]
    several.sort(key=lambda group: group[-1][0].when, reverse=True)
    return [_trend(group) for group in several[:_AT_MOST]]


def _trend(group: Sequence[tuple[ListedRun, Cell]]) -> Trend:
    shown = group[-_POINTS_AT_MOST:]
    ends = [
        one
        for _, cell in shown
        for one in (cell.value, cell.low, cell.high)
        if one is not None and math.isfinite(one)
    ]
    bottom, top = min(ends), max(ends)

    def height(value: float | None, cell: Cell) -> float:
        value = cell.value if value is None or not math.isfinite(value) else value
        share = 0.5 if top == bottom else ((value or 0.0) - bottom) / (top - bottom)
        return HEIGHT - _PAD - share * (HEIGHT - 2 * _PAD)

    step = (WIDTH - _SCALE - _PAD) / max(1, len(shown) - 1)
    lines: dict[str, list[Point]] = {}
    for at, (run, cell) in enumerate(shown):
        lines.setdefault(run.subjects, []).append(
            Point(
                run=run,
                cell=cell,
                x=_SCALE + at * step,
                y=height(cell.value, cell),
                low=height(cell.low, cell),
                high=height(cell.high, cell),
            )
        )
    first, cell = shown[0]
    name = f"all {first.n or ''} rows".replace("  ", " ") if first.slice == "all" else first.slice
    lines_of = list(lines.items())
    return Trend(slice=name, metric=cell.name, lines=lines_of, n=len(group), ends=(bottom, top))
