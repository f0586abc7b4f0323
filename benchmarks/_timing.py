"""CPU time measurement: best of several interleaved rounds."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

WINDOW_NS = 200_000_000
"""Approximate duration of a measurement in ns; short jobs are repeated to fill it."""

Job = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """Numbers of rounds of a measurement."""

    rounds: int = 12
    heavy_rounds: int = 5
    """Number of rounds for jobs of a second or more."""

    @classmethod
    def quick(cls) -> "Effort":
        return cls(rounds=3, heavy_rounds=2)


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of CPU time per job in each round; the minimum is reported."""

    rounds_ns: tuple[float, ...]
    note: str = ""

    @property
    def best_ns(self) -> float:
        return min(self.rounds_ns)

    @property
    def seconds(self) -> float:
        return self.best_ns / 1e9

    def scaled(self, *, measured: int, target: int) -> "Timing":
        """Scale the time of ``measured`` resamples to ``target`` resamples."""
        note = f"scaled from {measured} resample{'s' if measured > 1 else ''}"
        return Timing(tuple(ns * target / measured for ns in self.rounds_ns), note)


def race(jobs: Mapping[str, Job], *, rounds: int) -> dict[str, Timing]:
    """Time the jobs in alternating rounds, so that other load affects all of them equally.

    Each job runs once before the first round, to trigger lazy imports and to determine the number
    of calls per measurement.
    """
    calls = {name: _calls_per_window(job) for name, job in jobs.items()}
    measured: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            measured[name].append(_cpu_ns(job, calls[name]))
    return {name: Timing(tuple(values)) for name, values in measured.items()}


def on_line(few: Timing, many: Timing, *, at: tuple[int, int], target: int) -> Timing:
    """Extrapolate the time as a + b·R, with a fixed cost independent of the number of resamples."""
    slope = (many.best_ns - few.best_ns) / (at[1] - at[0])
    fixed = few.best_ns - slope * at[0]
    return Timing(
        (fixed + slope * target,),
        f"extrapolated as a + b·R from R = {at[0]} and R = {at[1]}",
    )


def _calls_per_window(job: Job) -> int:
    job()
    return int(min(1000, max(1, WINDOW_NS // max(_cpu_ns(job, 1), 1))))


def _cpu_ns(job: Job, calls: int) -> float:
    start = time.process_time_ns()
    for _ in range(calls):
        job()
    return (time.process_time_ns() - start) / calls
