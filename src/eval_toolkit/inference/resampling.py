"""Resampling engine: all statistics and systems in a call share the same resamples."""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from pickle import PicklingError
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.kernel import LANES
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference.column_statistics import (
    CallableStatistic,
    Statistic,
    columns_of,
    seconds_of,
)
from eval_toolkit.inference.columns import Columns
from eval_toolkit.inference.executors import Executor
from eval_toolkit.inference.plans import Plan
from eval_toolkit.inference.resample_blocks import Block, View
from eval_toolkit.inference.statistics import AtThreshold

__all__ = ["Executor", "Problem", "delete_blocks", "replicate", "row_cost", "spread"]

MAX_DELETE_BLOCKS = 192  # three blocks of lanes
_CHUNK_ROWS = 400_000_000  # row × resample × statistic per task: at least 0.1 s of work
_ROWS_PER_SECOND = 4e9  # kernel throughput
_CALL = 50_000  # minimum cost of a Python function call, in kernel rows …
_CALL_PER_ROW = 500  # … plus this cost per row
_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Problem:
    """Columns of one or more systems, their statistics, the plan and the seed.

    All systems have the same units in the same order, so resamples can be shared.
    """

    data: tuple[Columns, ...]
    """Columns of each system."""
    statistics: tuple[Statistic, ...]
    plan: Plan
    seed: int

    def __post_init__(self) -> None:
        for statistic in self.statistics:
            for name in columns_of(statistic):
                for one in self.data:
                    _ = one[name]  # raises if the column is missing

    @classmethod
    def scored(
        cls,
        labels: BoolArray,
        scorers: Sequence[FloatArray],
        statistics: Sequence[Statistic],
        plan: Plan,
        seed: int,
    ) -> "Problem":
        """Return the problem for one or more scorers on the same labels."""
        data = tuple(Columns.scored(labels, scores) for scores in scorers)
        return cls(data, tuple(statistics), plan, seed)

    @property
    def labels(self) -> BoolArray:
        """Labels of the first system."""
        return self.data[0].labels

    @functools.cached_property
    def views(self) -> tuple[View, ...]:
        """Views of the data, one per system."""
        needs = [statistic.needs for statistic in self.statistics]
        # With one system and independent rows, counts can be drawn directly in rank order.
        sequential = (
            len(self.data) == 1
            and self.plan.is_plain_rows
            and self.plan.n_fixed == 0
            and not any(need.rows for need in needs)
        )
        return tuple(View(one, self.plan, needs, in_rank_order=sequential) for one in self.data)

    @property
    def cells_suffice(self) -> bool:
        """Whether all statistics depend only on confusion counts, so rows need not be drawn."""
        return (
            len(self.data) == 1
            and self.plan.is_plain_rows
            and all(isinstance(statistic, AtThreshold) for statistic in self.statistics)
        )

    def with_plan(self, plan: Plan) -> "Problem":
        """Return the same problem with another plan."""
        return replace(self, plan=plan)

    def in_canonical_order(self) -> "Problem":
        """Return the problem with its rows ordered by content.

        Resamples are drawn by position; without a canonical order, intervals would depend on the
        row order. Identical rows are interchangeable.
        """
        if self.plan.members is not None or self.cells_suffice:  # order is irrelevant
            return self
        order = self._canonical_order()
        if (np.diff(order) == 1).all():
            return self
        data = tuple(one.reordered(order) for one in self.data)
        return replace(self, data=data, plan=self.plan.reordered(order))

    def _canonical_order(self) -> IntArray:
        """Return the rows sorted by label, then by score, then by the other columns, ascending."""
        first, groups = self.data[0], self.plan.unit_of_row
        others = [column for one in reversed(self.data) for column in one.unranked()]
        # Rows with equal scores may differ in other columns, other systems' scores, or groups.
        if not first.has_ties or (groups is None and len(self.data) == 1 and not others):
            ascending, positive = first.order[::-1], first.sorted_labels[::-1]
            return np.concatenate([ascending[~positive], ascending[positive]])
        codes = [np.unique(column, return_inverse=True)[1] for column in others]
        keys = [*codes, *(one.scores for one in reversed(self.data)), self.labels]
        if groups is not None:  # equal rows of different groups: order by group contents
            sizes = np.bincount(groups)
            # Sum by rank, so that rounding does not depend on the row order.
            totals = np.bincount(groups[first.order], weights=first.sorted_scores)
            keys = [groups, sizes[groups], totals[groups], *keys]
        return np.lexsort(keys)

    def with_statistics(self, statistics: Sequence[Statistic]) -> "Problem":
        """Return the problem with other statistics on the same data and resamples."""
        return replace(self, statistics=tuple(statistics))

    def only(self, scorer: int, row: int) -> "Problem":
        """Return the problem restricted to one system and one statistic, with the same layout."""
        part = replace(self, data=(self.data[scorer],), statistics=(self.statistics[row],))
        part.__dict__["views"] = (self.views[scorer],)
        return part

    def evaluate(self, counts: NDArray[np.uint8], largest: int) -> FloatArray:
        """Return the statistics for the given counts, shape (systems, statistics, 64)."""
        out = np.empty((len(self.data), len(self.statistics), LANES))
        for view, values in zip(self.views, out, strict=True):
            block = Block(view, counts, largest)
            for row, statistic in enumerate(self.statistics):
                values[row] = statistic.replicate(block)
        return out

    def draw_order(self) -> dict[str, NDArray[np.int32]]:
        """Return the order in which counts are drawn, if it differs from the order of the units."""
        first = self.views[0]
        if not first.in_rank_order:
            return {}
        return {
            "order": first.data.order.astype(np.int32),
            "position": first.data.position.astype(np.int32),
        }


def replicate(
    problem: Problem, n_resamples: int, *, executor: Executor | None = None
) -> FloatArray:
    """Return the statistics on every resample, shape (systems, statistics, n_resamples).

    Results are bit-identical for any executor: a resample depends only on the seed and its index.
    """
    check_executor(executor)
    if problem.cells_suffice:
        return _replicate_cells(problem, n_resamples)
    n_rows = problem.plan.n_rows
    costs = [
        row_cost(n_rows, seconds_of(one)) if one.needs.rows else n_rows
        for one in problem.statistics
    ]
    work = sum(costs) * LANES * len(problem.data)
    _ = problem.views  # computed once and shared by all workers
    run = functools.partial(_replicate_blocks, problem)
    parts = spread(run, range(0, n_resamples, LANES), work, executor)
    for _, failures in parts:  # in order, so that the first failure does not depend on the executor
        for statistic, first in zip(problem.statistics, failures, strict=True):
            if isinstance(statistic, CallableStatistic) and not statistic.failures:
                statistic.failures.extend(first)
    return np.concatenate([values for values, _ in parts], axis=2)[:, :, :n_resamples]


def row_cost(n_rows: int, seconds: float = 0.0) -> float:
    """Convert the duration of a Python function call to an equivalent number of kernel rows.

    ``seconds`` is the duration of a call on the data; it only affects the size of tasks.
    """
    return max(_CALL + _CALL_PER_ROW * n_rows, _ROWS_PER_SECOND * seconds)


def check_executor(executor: Any) -> None:
    """Raise unless the executor is None or has a ``map`` method."""
    if executor is not None and not hasattr(executor, "map"):
        raise InvalidTypeError(
            f"`executor` must have a `map` method like concurrent.futures executors, got {executor!r}"
        )


def spread(
    run: Callable[[Sequence[int]], _Part],
    firsts: Sequence[int],
    work: float,
    executor: Executor | None,
) -> list[_Part]:
    """Run all blocks, in tasks if there is an executor, and return the results in order.

    ``run`` is called with the first resamples of some blocks; it and its result must be picklable.
    ``work`` is the cost of a block in kernel rows. Tasks take at least 0.1 s; a single task runs in
    the current process. The executor is not shut down.

    Raises
    ------
    InvalidInputError
        If a metric cannot be pickled.
    BrokenExecutor
        If a worker died (also a RuntimeError).
    """
    check_executor(executor)
    per_task = max(1, math.ceil(_CHUNK_ROWS / work))
    if executor is None or per_task >= len(firsts):
        return [run(firsts)]
    tasks = [firsts[at : at + per_task] for at in range(0, len(firsts), per_task)]
    try:
        return list(executor.map(run, tasks))
    except BrokenExecutor as error:
        raise BrokenExecutor(
            f"a worker died before it finished ({_error_text(error)}); it may have run out of memory, "
            "or the metric may have crashed: use fewer workers or no executor"
        ) from error
    except (PicklingError, AttributeError, TypeError) as error:
        if "pickle" not in str(error).lower():
            raise
        raise InvalidInputError(
            f"the metrics cannot be pickled ({_error_text(error)}); use functions defined in a module, "
            "or threads"
        ) from error


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _replicate_blocks(
    problem: Problem, firsts: Iterable[int]
) -> tuple[FloatArray, list[list[str]]]:
    """Return the statistics on the selected blocks, and the first exception raised by each."""
    problem = _with_own_failures(problem)
    counts = np.empty((problem.plan.count_rows(), LANES), dtype=np.uint8)
    order = problem.draw_order()
    parts = []
    for first in firsts:
        largest = problem.plan.draw(counts, seed=problem.seed, first=first, **order)
        parts.append(problem.evaluate(counts, largest))
    failures = [getattr(statistic, "failures", []) for statistic in problem.statistics]
    return np.concatenate(parts, axis=2), failures


def _with_own_failures(problem: Problem) -> Problem:
    """Return the problem with statistics that only record the exceptions of this task."""
    own = tuple(
        replace(one) if isinstance(one, CallableStatistic) else one for one in problem.statistics
    )
    if all(map(operator.is_, own, problem.statistics)):
        return problem
    task = replace(problem, statistics=own)
    task.__dict__["views"] = problem.views
    return task


def _replicate_cells(problem: Problem, n_resamples: int) -> FloatArray:
    """Draw the number of rows between thresholds by class, which is equivalent to drawing rows."""
    data = problem.data[0]
    thresholds = sorted({s.threshold for s in problem.statistics}, reverse=True)  # type: ignore[attr-defined]
    tp = np.array([0, *(data.confusion(t).tp for t in thresholds), data.n_positive])
    fp = np.array([0, *(data.confusion(t).fp for t in thresholds), data.n - data.n_positive])
    shares = np.concatenate([np.diff(tp), np.diff(fp)]) / data.n
    generator = np.random.Generator(np.random.Philox(key=problem.seed))
    cells = generator.multinomial(data.n, shares, size=n_resamples)
    positives, negatives = np.split(cells, 2, axis=1)
    tps, fps = np.cumsum(positives, axis=1), np.cumsum(negatives, axis=1)
    values = []
    for statistic in problem.statistics:
        at = thresholds.index(statistic.threshold)  # type: ignore[attr-defined]
        fn, tn = tps[:, -1] - tps[:, at], fps[:, -1] - fps[:, at]
        values.append(statistic.evaluate(tn, fps[:, at], fn, tps[:, at]))  # type: ignore[attr-defined]
    return np.stack(values)[None]


def delete_blocks(problem: Problem) -> FloatArray:
    """Return leave-one-block-out values for at most 192 blocks of units.

    Units are assigned to blocks by a golden-ratio sequence, so blocks are balanced on sorted
    or periodic data. Returns shape (systems, statistics, blocks).
    """
    plan = problem.plan
    n_drawn = int(plan.strata[-1])
    n_blocks = min(MAX_DELETE_BLOCKS, n_drawn)
    block = _spread(n_drawn, n_blocks)
    if plan.members is not None:  # groups are omitted with all their members
        block = np.repeat(block, np.diff(plan.members))
    block = np.concatenate([block, np.full(plan.count_rows() - len(block), -1)])
    if problem.views[0].in_rank_order:
        block = block[problem.views[0].data.order]
    counts = np.ones((len(block), LANES), dtype=np.uint8)
    parts = []
    for first in range(0, n_blocks, LANES):
        rows = np.flatnonzero((block >= first) & (block < first + LANES))
        counts[rows, block[rows] - first] = 0
        parts.append(problem.evaluate(counts, 1))
        counts[rows, block[rows] - first] = 1
    return np.concatenate(parts, axis=2)[:, :, :n_blocks]


def _spread(n: int, n_blocks: int) -> IntArray:
    if n_blocks == n:
        return np.arange(n)
    steps = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (((steps >> np.uint64(32)) * np.uint64(n_blocks)) >> np.uint64(32)).astype(np.int64)
