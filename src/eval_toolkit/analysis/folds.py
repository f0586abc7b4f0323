"""Comparison of runs with folds: paired by fold if the folds are equal, otherwise pooled.

The folds of one run share training rows, so their differences are not independent; Nadeau and
Bengio's correction accounts for that. Pooling the rows of all folds answers a different question:
how well the scores of several models rank when combined in one list.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.analysis.differences import Draws, RunDifference, Task
from eval_toolkit.analysis.units import CommonUnits
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.inference import corrected_resampled_t
from eval_toolkit.metric_specs import ColumnSpec, StatisticSpec, SumsSpec
from eval_toolkit.metric_specs.sums import columns_read
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import format_part, parse_part


@dataclass(frozen=True)
class Fold:
    """Fold of a scorer, with sizes and stored results."""

    n_train: int | None
    n_test: int
    block: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pooled:
    """Why the rows of all folds are pooled, and whether this is possible."""

    reason: str
    possible: bool


@dataclass(frozen=True, eq=False)
class PairedFolds:
    """Matching folds of two runs, with the results of each run."""

    folds_a: Mapping[str, Fold]
    folds_b: Mapping[str, Fold]
    units: CommonUnits


def folds_of(run: Run, slice_name: str, scorer: str) -> dict[str, Fold] | None:
    """Return the folds of a scorer on a slice, by part; None if the run has no folds."""
    cells = run.cells
    found = {}
    for part, stored_fold in cells.folds.items():
        if slice_name in cells.slices and part in cells.parts(slice_name):
            block = cells.block_or_none(slice_name, scorer, part) or {}
            n_test = int(cells.entry(slice_name, part).get("n", 0))
            found[part] = Fold(stored_fold.get("n_train"), n_test, block)
    return found or None


def paired_folds(
    folds_a: Mapping[str, Fold] | None, folds_b: Mapping[str, Fold] | None, units: CommonUnits
) -> PairedFolds | Pooled | None:
    """Return the paired folds, the reason why they cannot be paired, or None if there are no folds."""
    a, b = units.a.records, units.b.records
    if folds_a is None and folds_b is None:
        return None
    if folds_a is None or folds_b is None:
        which = ("B", "A") if folds_a is None else ("A", "B")
        return _pooled(f"{which[0]} was evaluated in folds and {which[1]} was not", a, b)
    if folds_a.keys() != folds_b.keys():
        return _pooled("the runs have different folds", a, b)
    if units.n_mismatched:
        return _pooled("units with different content were excluded from the folds", a, b)
    rows_a, rows_b = _units_by_fold(a, folds_a), _units_by_fold(b, folds_b)
    if any(rows_a[key] != rows_b[key] for key in rows_a.keys() & rows_b.keys()):
        return _pooled("the runs have different rows in their folds", a, b)
    if len(folds_a) == 1:
        return Pooled("only one fold: its rows are paired", possible=True)
    return PairedFolds(folds_a, folds_b, units)


def _pooled(why: str, a: Records, b: Records) -> Pooled:
    """Return the reason for pooling; raise if rows have several scores, e.g. from several seeds."""
    if any(bool((side.attempt > 1).any()) for side in (a, b)):
        return Pooled(
            f"{why}, and rows have several out-of-fold scores each, which cannot be pooled; use "
            f"the "
            "same splitter and seeds for both runs",
            possible=False,
        )
    return Pooled(f"pooled out-of-fold rows, not means over folds: {why}", possible=True)


def _fold_of(records: Records, folds: Mapping[str, Fold]) -> NDArray[Any] | None:
    """Return the part with the fold of each row; None if the records have no folds."""
    keys = [*parse_part(next(iter(folds)))]
    if not all(key in records.slices for key in keys):
        return None
    rows = list(zip(*(records.slices[key].tolist() for key in keys), strict=True))
    names = {row: format_part(dict(zip(keys, map(str, row), strict=True))) for row in set(rows)}
    return np.array([names[row] for row in rows], dtype=object)


def _units_by_fold(records: Records, folds: Mapping[str, Fold]) -> dict[str, set[str]]:
    fold_of = _fold_of(records, folds)
    if fold_of is None:
        return {}
    found: dict[str, set[str]] = {}
    for key, unit in zip(fold_of.tolist(), records.unit_id.tolist(), strict=True):
        found.setdefault(key, set()).add(unit)
    return found


def fold_difference(
    cell: RunDifference, task: Task, folds: PairedFolds, draws: Draws
) -> RunDifference:
    """Compute a cell as the mean difference over folds, or state why there is none."""
    units = folds.units
    a = _values(task, folds.folds_a, units.a.records)
    b = _values(task, folds.folds_b, units.b.records)
    both = [key for key in a if not isinstance(a[key], str) and not isinstance(b[key], str)]
    failures = [value for side in (a, b) for value in side.values() if isinstance(value, str)]
    cell = replace(
        cell,
        higher_is_better=task.higher_is_better,
        confidence=draws.confidence,
        n_units=len(units),
        n_groups=len(units) if units.groups is None else len(np.unique(units.groups)),
        n_only_a=units.n_only_a,
        n_only_b=units.n_only_b,
        n_unhashed=units.n_unhashed,
        n_folds=len(both),
        n_folds_failed=len(a) - len(both),
    )
    if not both:
        return replace(cell, status="skipped", reason=failures[0])
    values_a, values_b = (np.array([side[key] for key in both], dtype=float) for side in (a, b))
    cell = replace(cell, value_a=float(values_a.mean()), value_b=float(values_b.mean()))
    reason = f"means over {len(both)} folds, paired fold by fold"
    if failures:
        reason += f"; {len(a) - len(both)} of {len(a)} folds have no value: {failures[0]}"
    if len(both) == 1:
        delta = float(values_b[0] - values_a[0])
        return replace(
            cell, delta=delta, reason=f"no interval: {reason}; at least two folds are needed"
        )
    return _corrected(cell, values_b - values_a, _sizes(folds, both), reason, draws)


def _corrected(
    cell: RunDifference, deltas: FloatArray, sizes: tuple[int, int], reason: str, draws: Draws
) -> RunDifference:
    n_train, n_test = sizes
    t = corrected_resampled_t(deltas, n_train=n_train, n_test=n_test, confidence=draws.confidence)
    if t.p_value is None:
        reason = f"no interval: {reason}; zero variance: all folds have the same difference"
        return replace(cell, delta=t.mean, reason=reason)
    return replace(
        cell,
        delta=t.mean,
        ci_low=t.ci_low,
        ci_high=t.ci_high,
        p_value=t.p_value,
        method=t.method,
        test=t.method,
        reason=reason,
    )


def _sizes(folds: PairedFolds, keys: list[str]) -> tuple[int, int]:
    """Return the mean sizes of the training and test parts.

    For a scorer that was not fitted, the rows outside the test part count as training rows.
    """
    pairs = [(folds.folds_a[key], folds.folds_b[key]) for key in keys]
    n_test = max(1, round(float(np.mean([a.n_test for a, _ in pairs]))))
    trained = [side.n_train for pair in pairs for side in pair if side.n_train]
    n_train = round(float(np.mean(trained))) if trained else len(folds.units) - n_test
    return max(1, n_train), n_test


def _values(task: Task, folds: Mapping[str, Fold], records: Records) -> dict[str, float | str]:
    """Return the metric on each fold, or the reason why there is none."""
    if task.spec is None:
        return {key: _stored(fold.block, task) for key, fold in folds.items()}
    fold_of = _fold_of(records, folds)
    values: dict[str, float | str] = {}
    for key, fold in folds.items():
        rows = np.flatnonzero(fold_of == key) if fold_of is not None else np.zeros(0, dtype=int)
        values[key] = (
            _computed(task.spec, records, rows) if len(rows) else _stored(fold.block, task)
        )
    return values


def _stored(block: Mapping[str, Any], task: Task) -> float | str:
    """Return the stored value, for custom metrics and for thresholds fitted in each fold."""
    for state in ("error", "skipped"):
        if state in block:
            return f"the scorer {'failed' if state == 'error' else 'was skipped'}: {block[state]}"
    cell = block.get(task.name)
    if not isinstance(cell, Mapping):
        return task.reason or f"{task.name} was not measured"
    if cell.get("status") != "ok" or cell.get("value") is None:
        return str(cell.get("reason") or cell.get("status"))
    return float(cell["value"])


def _computed(spec: MetricSpec, records: Records, rows: IntArray) -> float | str:
    names = columns_read(spec)
    for name in names:
        if name not in records.columns:
            return f"the records have no column {name!r}"
        absent = records.status[name][rows] != "ok"
        if absent.any():
            first = rows[int(np.argmax(absent))]
            return str(records.reason[name][first] or records.status[name][first])
    columns = [records.columns[name][rows] for name in names]
    if isinstance(spec, ColumnSpec):
        return float(columns[0].mean())
    try:
        if isinstance(spec, SumsSpec):
            value = float(spec.of_sums([[column.sum() for column in columns]])[0])
        elif isinstance(spec, StatisticSpec):
            value = spec.statistic.point(spec.data_of(dict(zip(names, columns, strict=True))))
        else:
            value = float(spec.compute(*columns))
    except (MemoryError, RecursionError):
        raise
    except UndefinedMetricError as error:
        return str(error)
    except Exception as error:  # one metric must not stop the others
        return f"{type(error).__name__}: {error}"
    return value if math.isfinite(value) else f"the metric is {value}"
