"""Benchmarks of new processes: time to six intervals, import cost and peak memory."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._case import Bar, Case, Measurement, Survey
from benchmarks._data import binormal
from benchmarks._timing import Effort, Timing

CHILD = Path(__file__).with_name("_child.py")
RUNS_PER_ROUND = 3


@dataclass(frozen=True)
class Finished:
    """A finished process."""

    cpu_ns: float
    wall_ns: float
    output: str


def run_python(*arguments: str) -> Finished:
    """Run a new interpreter and measure its user and system time."""
    # An installed package has its bytecode; a shell that forbids writing it must not change that.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, *arguments]
    before, start = _children_ns(), time.perf_counter_ns()
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=settings)
    return Finished(_children_ns() - before, time.perf_counter_ns() - start, done.stdout)


def _children_ns() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e9


@contextmanager
def stored(n: int) -> Iterator[str]:
    """Write rows to an npz file."""
    y, scores = binormal(n)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "rows.npz")
        np.savez(file, y=y.astype(np.uint8), scores=scores)
        yield file


def _cold(effort: Effort) -> Measurement:
    with stored(50_000) as file:
        run_python(str(CHILD), "six", file)  # leaves compiled bytecode behind
        runs = [run_python(str(CHILD), "six", file) for _ in range(effort.rounds)]
    wall = min(run.wall_ns for run in runs) / 1e6
    return Measurement(Timing(tuple(run.cpu_ns for run in runs)), note=f"wall, best: {wall:.0f} ms")


def _import_cost(effort: Effort) -> Measurement:
    programs = {"import": "import eval_toolkit", "nothing": "pass"}
    run_python("-c", programs["import"])  # leaves compiled bytecode behind
    cpu: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(effort.rounds * RUNS_PER_ROUND):
        for name, program in programs.items():
            cpu[name].append(run_python("-c", program).cpu_ns)
    nothing, full = min(cpu["nothing"]), min(cpu["import"])
    return Measurement(
        Timing((full - nothing,)),
        note=f"best of {len(cpu['import'])}: {full / 1e6:.1f} ms with, {nothing / 1e6:.1f} ms without",
    )


def _memory(effort: Effort) -> list[tuple[str, str]]:
    with stored(1_000_000) as file:
        peak = {
            job: int(run_python(str(CHILD), job, file).output) / 1024
            for job in ("load", "rank", "six")
        }
    return [
        ("import and load", f"{peak['load']:,.0f} MiB"),
        ("PR-AUC + ROC-AUC intervals", f"{peak['rank']:,.0f} MiB"),
        ("six intervals", f"{peak['six']:,.0f} MiB"),
    ]


CASES = (
    Case(
        "cold_six",
        "fresh process: import, load 50 000 rows, six intervals",
        Bar("seconds", 0.4),
        _cold,
    ),
    Case(
        "import_cost",
        "`import eval_toolkit` over bare python",
        Bar("seconds", 0.060),
        _import_cost,
    ),
)

SURVEYS = (
    Survey(
        "memory_1m",
        "Peak memory of a fresh process, n = 1 000 000, R = 1 000",
        ("job", "peak"),
        _memory,
    ),
)
