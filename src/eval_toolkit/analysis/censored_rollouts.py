"""Differences in failure rates by turn, B − A, with censored conversations."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.analysis.differences import CurveOf, Draws, RunDifference, Task, difference
from eval_toolkit.analysis.units import CommonUnits, UnitValues
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import kaplan_meier
from eval_toolkit.inference.results import PairedBootstrapCI
from eval_toolkit.inference.survival_arms import survival_difference

_FIRST = "first_event_turn"
_LARGEST_P = 1.0 - 1e-6
_HALVINGS = 24
"""Number of bisection steps; the resulting p-value is accurate to 1e-7."""


def curve_difference(
    cell: RunDifference, task: Task, units: CommonUnits, draws: Draws
) -> RunDifference:
    """Compute a cell from the survival curves of both sides, or state why that is impossible.

    Conversations that were cut short are censored at their last observed turn. Every unit has
    the same weight, regardless of its number of observed rollouts. The p-value is the significance
    level at which the interval just touches 0.

    ``task`` contains the reason why a mean is not available; the records of ``units`` have the
    columns ``first_event_turn`` and ``failed_by_turn_<t>``, with one path per rollout. A unit
    counts as lost if at least one of its turns was observed in A but none in B.

    Examples
    --------
    >>> from eval_toolkit.analysis.units import common_units
    >>> from eval_toolkit.scorecards import Records
    >>> def side(first, failed):
    ...     columns = {"first_event_turn": first, "failed_by_turn_1": failed}
    ...     return Records.from_columns(columns, unit_id=list("abcd"))
    >>> units = common_units(
    ...     side([1, 1, None, None], [1, 1, 0, 0]), side([1, None, None, None], [1, None, 0, 0]),
    ...     on_mismatch="raise", where="test",
    ... )
    >>> cell = RunDifference(slice="test", scorer="m", scorer_b="m", metric="attack_success")
    >>> task = Task("attack_success", None, curve=CurveOf(turn=1, depth=1))
    >>> cell = curve_difference(cell, task, units, Draws(100, 0.95, 1))
    >>> round(cell.value_a, 3), round(cell.value_b, 3), cell.n_units, cell.n_lost
    (0.5, 0.333, 3, 1)
    """
    blank = difference(cell, replace(task, spec=None), units, draws)
    if task.curve is None or not len(units):
        return blank
    try:
        a, b = (_Side.of(side, at, task.curve) for side, at in _sides(units))
        groups = units.groups
        groups = np.arange(len(units)) if groups is None else groups
        found = _between(a, b, groups, task.curve.turn, draws.confidence)
    except UndefinedMetricError as error:
        return replace(blank, reason=f"{error}; {task.reason}" if task.reason else str(error))
    both = a.seen & b.seen
    cut = " and ".join(
        f"{side.n_cut} of {len(side.times)} rollouts of {name}"
        for name, side in (("A", a), ("B", b))
        if side.n_cut
    )
    note = f"{cut} were cut short and count as censored (Kaplan-Meier)"
    return replace(
        blank,
        status="ok",
        reason="; ".join(filter(None, [note if cut else "", found.reason])),
        value_a=found.value_a,
        value_b=found.value_b,
        delta=found.delta,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        p_value=_p_value(a, b, groups, task.curve.turn, found.delta),
        method=found.method,
        test="interval inverted",
        n_units=int(both.sum()),
        n_groups=len(np.unique(groups[both])),
        n_failed=int((~both).sum()),
        n_lost=int((a.seen & ~b.seen).sum()),
    )


def _sides(units: CommonUnits) -> list[tuple[UnitValues, IntArray]]:
    return [(units.a, units.in_a), (units.b, units.in_b)]


@dataclass(frozen=True, eq=False)
class _Side:
    """Rollouts of the common units, with times of failure or censoring."""

    times: IntArray
    events: BoolArray
    unit: IntArray
    """Index of each rollout's unit among the common units."""
    n_units: int
    n_cut: int
    """Number of rollouts censored before the requested turn."""

    @classmethod
    def of(cls, side: UnitValues, at: IntArray, curve: CurveOf) -> "_Side":
        """Return the rollouts of the selected units; raise if the records lack the times."""
        records = side.records
        names = [f"failed_by_turn_{turn}" for turn in range(1, curve.depth + 1)]
        if lacking := [name for name in (_FIRST, *names) if name not in records.columns]:
            raise UndefinedMetricError(f"the records have no column {lacking[0]!r}")
        place = np.full(len(side.ids), -1)
        place[at] = np.arange(len(at))
        unit = np.repeat(place, np.diff(np.append(side.starts, len(records))))
        mine = unit >= 0
        known = np.stack([records.status[name][mine] == "ok" for name in names], axis=1)
        failed = np.stack([records.columns[name][mine] for name in names], axis=1)
        if not np.isin(failed[known], (0.0, 1.0)).all():
            raise UndefinedMetricError("some rollouts failed on only some of their paths")
        broke = np.stack([records.status[name][mine] == "error" for name in names], axis=1)
        events = records.status[_FIRST][mine] == "ok"
        first = np.where(events, records.columns[_FIRST][mine], 0.0).astype(np.int64)
        turns = np.arange(1, curve.depth + 1)
        clear = np.where(known & (failed == 0.0), turns, 0).max(axis=1)
        # If not every turn was scored, a failure is known to occur by the end, but not when.
        times = np.where(events, np.where(clear == first - 1, first, curve.depth), clear)
        if curve.broken_failed:
            following = np.minimum(times, curve.depth - 1)
            breaks = ~events & (times < curve.depth)
            breaks &= np.take_along_axis(broke, following[:, None], axis=1)[:, 0]
            times, events = times + breaks, events | breaks
        n_cut = int((~events & (times < curve.turn)).sum())
        return cls(times, events.astype(np.bool_), unit[mine], len(at), n_cut)

    @property
    def seen(self) -> BoolArray:
        """Units with at least one observed turn."""
        return np.bincount(self.unit[self.times > 0], minlength=self.n_units) > 0

    @property
    def weights(self) -> FloatArray | None:
        """Weights that give all observed units equal totals; None if each has a single rollout."""
        counts = np.bincount(self.unit[self.times > 0], minlength=self.n_units)
        return None if counts.max(initial=0) <= 1 else 1.0 / np.maximum(counts, 1)[self.unit]


def _between(
    a: _Side, b: _Side, groups: NDArray[Any], turn: int, confidence: float
) -> PairedBootstrapCI:
    curves = [
        kaplan_meier(
            side.times,
            side.events,
            groups=groups[side.unit],
            weights=side.weights,
            confidence=confidence,
        )
        for side in (a, b)
    ]
    return survival_difference(*curves, at=turn)


def _p_value(a: _Side, b: _Side, groups: NDArray[Any], turn: int, delta: float) -> float:
    """Return the smallest level at which the interval excludes 0; 1 if it never does."""

    def apart(level: float) -> bool:
        return not _between(a, b, groups, turn, 1.0 - level).overlaps_zero

    if delta == 0.0 or not apart(_LARGEST_P):
        return 1.0
    low, high = 0.0, _LARGEST_P
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if apart(middle) else (middle, high)
    return high
