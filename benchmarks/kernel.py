"""Cost of the kernel per row and resample, by instruction set and number of rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from benchmarks._case import Survey
from benchmarks._data import binormal
from benchmarks._timing import Effort, Job, race
from benchmarks.cards import SIX
from benchmarks.ranks import BOTH, N_RESAMPLES
from eval_toolkit import scorecard
from eval_toolkit._internal import kernel
from eval_toolkit.inference.plans import rows_plan
from eval_toolkit.inference.resampling import Problem

N = 50_000
PASSES = ("draw", "rank", "recall", "sums")


def instruction_sets() -> list[str]:
    """Return the instruction sets available to the C kernel, which uses the last one."""
    return [] if kernel.native is None else kernel.native.instruction_sets()


@contextmanager
def _kernel_named(name: str) -> Iterator[None]:
    if name == "numpy":
        with kernel.using("numpy"):
            yield
        return
    kernel.native.use(name)  # type: ignore[union-attr]
    try:
        with kernel.using("native"):
            yield
    finally:
        kernel.native.use(instruction_sets()[-1])  # type: ignore[union-attr]


def _passes() -> dict[str, Job]:
    """Return each pass of a six-metric row bootstrap over one block of 64 resamples."""
    y, scores = binormal(N)
    statistics = tuple(spec.statistic for spec in SIX)
    problem = Problem.scored(y.astype(bool), (scores,), statistics, rows_plan(N), 0)
    (view,), order = problem.views, problem.draw_order()
    counts = np.empty((N, kernel.LANES), dtype=np.uint8)

    def draw() -> int:
        return problem.plan.draw(counts, seed=0, first=0, **order)

    largest = draw()
    totals = np.ascontiguousarray(kernel.rank(counts, largest, view.rank_layout)[2:])
    jobs = (
        draw,
        lambda: kernel.rank(counts, largest, view.rank_layout),
        lambda: kernel.recall(counts, largest, view.rank_layout, totals=totals, target=0.01),
        lambda: kernel.sums(counts, largest, view.sums_layout),
    )
    return dict(zip(PASSES, jobs, strict=True))


def _by_instruction_set(effort: Effort) -> list[tuple[str, ...]]:
    rows = []
    for name in [*reversed(instruction_sets()), "numpy"]:
        with _kernel_named(name):
            times = race(_passes(), rounds=effort.rounds)
        cost = [times[step].best_ns / (N * kernel.LANES) for step in PASSES]
        label = name if name == "numpy" else f"C, {name}"
        rows.append((label, *(f"{ns:.3f}" for ns in cost), f"{cost[0] + cost[1]:.3f}"))
    return rows


def _by_rows(effort: Effort) -> list[tuple[str, ...]]:
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    rows = []
    for n in sizes:
        y, scores = binormal(n)
        times = race(
            {
                "both": partial(scorecard, y, scores, metrics=BOTH, method="BCa"),
                "six": partial(scorecard, y, scores, metrics=SIX, method="BCa"),
            },
            rounds=2 if n == sizes[-1] else effort.heavy_rounds,
        )
        cells = []
        for timing in times.values():
            cells += [f"{timing.seconds * 1e3:,.1f} ms", f"{timing.best_ns / n / N_RESAMPLES:.3f}"]
        rows.append((f"{n:,}", *cells))
    return rows


SURVEYS = (
    Survey(
        "kernel_isa",
        "The kernel's passes, n = 50 000, ns per row × resample",
        ("kernel", *PASSES, "draw + rank"),
        _by_instruction_set,
    ),
    Survey(
        "growth",
        "Whole calls of `scorecard` with BCa intervals, R = 1 000",
        ("n", "PR-AUC + ROC-AUC", "ns per row × resample", "six metrics", "ns per row × resample"),
        _by_rows,
    ),
)
