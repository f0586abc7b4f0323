"""Studentized bootstrap intervals."""

import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from eval_toolkit._internal.kernel import LANES
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference.column_statistics import seconds_of
from eval_toolkit.inference.distributions import negligible
from eval_toolkit.inference.jackknife import jackknife_se
from eval_toolkit.inference.plans import rows_plan
from eval_toolkit.inference.resample_blocks import Block
from eval_toolkit.inference.resampling import (
    MAX_DELETE_BLOCKS,
    Executor,
    Problem,
    delete_blocks,
    row_cost,
    spread,
)

if TYPE_CHECKING:
    from eval_toolkit.inference.column_statistics import Statistic


def studentized_interval(
    problem: Problem,
    scorer: int,
    row: int,
    point: float,
    samples: FloatArray,
    confidence: float,
    n_resamples: int,
    executor: Executor | None = None,
) -> tuple[float, float]:
    """Return θ − q_hi·SE and θ − q_lo·SE, where q are quantiles of (θ_b − θ) / SE_b.

    SE is the standard deviation of the replicates, and SE_b the jackknife standard error within the
    resample, from closed-form leave-one-out values if available, otherwise from at most 192
    left-out blocks. Undefined if more than 5 % of the resamples have no standard error, or if the
    plan draws groups.
    """
    if problem.plan.kind not in ("rows", "label-stratified"):
        raise UndefinedMetricError(
            f"the studentized interval requires independent rows, not {problem.plan.kind}; "
            "use BCa or percentile"
        )
    statistic = problem.statistics[row]
    run = functools.partial(_pivots, problem, scorer, row, point, n_resamples)
    calls = 1 + MAX_DELETE_BLOCKS  # of a function: the resample, and each block of it left out
    work = LANES * row_cost(problem.plan.n_rows, calls * seconds_of(statistic))
    parts = spread(run, range(0, n_resamples, LANES), work, executor)
    pivots = [pivot for part in parts for pivot in part]
    if len(pivots) < 0.95 * n_resamples:
        raise UndefinedMetricError(
            f"{statistic.name} has no standard error on {n_resamples - len(pivots)} of "
            f"{n_resamples} resamples; use BCa or percentile"
        )
    scale = float(np.std(samples, ddof=1))
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(pivots, [tail, 1.0 - tail])
    return point - float(high) * scale, point - float(low) * scale


def _pivots(
    problem: Problem, scorer: int, row: int, point: float, n_resamples: int, firsts: Iterable[int]
) -> list[float]:
    """Return (θ_b − θ) / SE_b for the resamples on which it is defined."""
    statistic, view = problem.statistics[row], problem.views[scorer]
    counts = np.empty((problem.plan.count_rows(), LANES), dtype=np.uint8)
    order = problem.draw_order()
    pivots: list[float] = []
    for first in firsts:
        largest = problem.plan.draw(counts, seed=problem.seed, first=first, **order)
        block = Block(view, counts, largest)
        values = statistic.replicate(block)
        for lane in range(min(LANES, n_resamples - first)):
            error = _standard_error(problem, scorer, statistic, block.rows(lane))
            if not math.isnan(error) and not math.isnan(values[lane]):
                pivots.append((float(values[lane]) - point) / error)
    return pivots


def _standard_error(problem: Problem, scorer: int, statistic: "Statistic", rows: IntArray) -> float:
    """Return the jackknife standard error on these rows; NaN if undefined or zero."""
    data = problem.data[scorer].take(rows)
    resample = Problem((data,), (statistic,), rows_plan(len(rows)), problem.seed)
    left_out = statistic.leave_one_out(resample.data[0])
    if left_out is None:
        left_out = delete_blocks(resample)[0, 0]
        left_out = left_out[~np.isnan(left_out)]
    if len(left_out) < 2 or negligible(float(left_out.std()), float(np.abs(left_out).max())):
        return math.nan
    return jackknife_se(left_out)
