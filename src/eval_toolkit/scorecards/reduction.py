"""Reduction of attempts to one value per unit, with counts of missing values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.plans import Plan, groups_plan, rows_plan
from eval_toolkit.metric_specs.families import is_of_column
from eval_toolkit.scorecards.records import Records, is_text, unit_starts, where_is
from eval_toolkit.scorecards.specs import Intervals

if TYPE_CHECKING:
    from eval_toolkit.metric_specs import ColumnSpec, StatisticSpec, SumsSpec


def _medians(values: FloatArray, starts: IntArray) -> FloatArray:
    return np.array([np.median(part) for part in np.split(values, starts[1:])])


def _means(values: FloatArray, starts: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values))))


REDUCERS: dict[str, Callable[[FloatArray, IntArray], FloatArray]] = {
    "mean": _means,
    "median": _medians,
    "max": np.maximum.reduceat,
    "min": np.minimum.reduceat,
    "first": lambda values, starts: values[starts],
}


@dataclass(frozen=True)
class Options:
    """Options of `summarise`."""

    reduce: str
    on_error: str
    method: str | None
    how: Intervals


@dataclass(frozen=True)
class Units:
    """Values reduced to one per unit, with counts of missing values."""

    values: dict[str, NDArray[Any]]
    groups: NDArray[Any]
    plan: Plan
    n_errors: int
    n_skipped: int
    n_units: int
    """Number of units; smaller than the number of values if each attempt is a row."""


def value_of_failure(spec: ColumnSpec | SumsSpec | StatisticSpec) -> float | None:
    """Return the value that "as_zero" assigns to a failed record.

    The value is 0, or the worst value if 0 is the best; None if there is no worst value. Functions
    of sums and statistics have no worst value, since the contribution of a failure to each column
    is unknown; neither do metrics without a direction.

    Examples
    --------
    >>> from eval_toolkit.metric_specs import ColumnSpec
    >>> value_of_failure(ColumnSpec("right", "right", bounds=(0.0, 1.0)))
    0.0
    >>> value_of_failure(ColumnSpec("wrong", "wrong", higher_is_better=False, bounds=(0.0, 1.0)))
    1.0
    """
    if not is_of_column(spec) or spec.higher_is_better is None:
        return None
    low, high = spec.bounds
    if spec.higher_is_better and high > 0.0:
        return 0.0
    worst = low if spec.higher_is_better else high
    return worst if math.isfinite(worst) else None


@dataclass(frozen=True)
class _Counted:
    """Included records and their values."""

    rows: BoolArray
    values: dict[str, NDArray[Any]]
    n_errors: int
    n_skipped: int


def _counted(
    records: Records,
    columns: tuple[str, ...],
    options: Options,
    failed_is: float | None,
    scored: bool = False,
    texts: bool = False,
) -> _Counted:
    """Return the records with a value in every column, treating failed records by the policy."""
    for column in columns:
        if column not in records.columns:
            raise InvalidInputError(
                f"the records have no column {column!r}; they have {sorted(records.columns)}"
            )
        if is_text(records.columns[column]) and not texts:
            raise InvalidInputError(
                f"the column {column!r} contains strings, which have no mean; for metrics of strings, use "
                "metric_specs.from_columns"
            )
    states = [records.status[column] for column in columns]
    failed: BoolArray = np.any([where_is(state, "error") for state in states], axis=0)
    skipped: BoolArray = np.any([where_is(state, "skipped") for state in states], axis=0) & ~failed
    if options.on_error == "fail" and failed.any():
        row = int(np.argmax(failed))
        why = next(records.reason[c][row] for c in columns if records.status[c][row] == "error")
        raise InvalidInputError(
            f"unit {records.unit_id[row]!r}, attempt {records.attempt[row]} failed "
            f"({why or 'no reason given'}) and on_error is 'fail'"
        )
    # A failed score counts as 0, but an unknown label has no substitute.
    lost = ~where_is(states[0], "ok") if scored else np.zeros_like(failed)
    as_zero = options.on_error == "as_zero" and failed_is is not None
    rows = ~(skipped | (lost if as_zero else failed))
    values = {
        column: np.where(state == "ok", records.columns[column], failed_is or 0.0)[rows]
        if as_zero
        else records.columns[column][rows]
        for column, state in zip(columns, states, strict=True)
    }
    return _Counted(rows, values, int(failed.sum()), int(skipped.sum()))


def reduce_attempts(
    records: Records,
    columns: tuple[str, ...],
    options: Options,
    spec: ColumnSpec | SumsSpec | None = None,
) -> Units:
    """Reduce attempts to units; a record counts if all of its columns have values.

    Without a ``spec``, the columns are labels and scores.
    """
    failed_is = 0.0 if spec is None else value_of_failure(spec)
    counted = _counted(records, columns, options, failed_is, scored=spec is None)
    values, n_skipped = counted.values, counted.n_skipped
    every = bool(counted.rows.all())  # no copy of the texts
    unit_id = records.unit_id if every else records.unit_id[counted.rows]
    group = records.group if every else records.group[counted.rows]
    starts = unit_starts(unit_id)
    if is_of_column(spec) and spec.k is not None:
        n = np.diff(np.append(starts, len(unit_id)))
        passed, enough = _together(values[spec.column], records, counted.rows, starts, n, spec)
        n_skipped += int(n[~enough].sum())
        values, starts = {spec.column: passed[enough]}, starts[enough]
    elif len(starts) < len(unit_id):
        reduced = REDUCERS[options.reduce]
        values = {
            name: np.asarray(reduced(column, starts), dtype=np.float64)
            for name, column in values.items()
        }
    groups = group if len(starts) == len(group) else group[starts]
    plan = rows_plan(len(starts)) if records.group is records.unit_id else _plan(groups)
    return Units(values, groups, plan, counted.n_errors, n_skipped, len(starts))


def pooled(
    records: Records, columns: tuple[str, ...], options: Options, *, scored: bool = True
) -> Units:
    """Return every attempt as a row; the attempts at a unit are resampled together.

    With ``scored``, the columns are labels and scores, and a failed score may count as 0. Otherwise
    columns may contain strings, and failed rows are excluded.
    """
    failed_is = 0.0 if scored else None
    counted = _counted(records, columns, options, failed_is, scored, texts=not scored)
    groups = records.group[counted.rows]
    n_units = len(unit_starts(records.unit_id[counted.rows]))
    return Units(
        counted.values, groups, _plan(groups), counted.n_errors, counted.n_skipped, n_units
    )


def _plan(groups: NDArray[Any]) -> Plan:
    known = groups.astype(str) if groups.dtype == object else groups
    independent = len(np.unique(known)) == len(groups)
    return rows_plan(len(groups)) if independent else groups_plan(groups)


def _together(
    values: FloatArray,
    records: Records,
    rows: BoolArray,
    starts: IntArray,
    n: IntArray,
    spec: ColumnSpec,
) -> tuple[FloatArray, BoolArray]:
    """Return pass@k, pass^k or maj@k per unit from attempts that are 0 or 1."""
    odd = ~np.isin(values, (0.0, 1.0))
    if odd.any():
        raise InvalidInputError(
            f"{spec.name} needs a column of 0 and 1, but {spec.column!r} contains "
            f"{float(values[odd][0]):g}"
        )
    if spec.answer is not None:
        return spec.of_votes(values, answers_of(records, spec.answer)[rows], starts, n)
    correct = np.add.reduceat(values, starts) if len(starts) else np.zeros(0)
    return spec.of_attempts(n, correct.astype(np.int64))


def answers_of(records: Records, column: str) -> NDArray[Any]:
    """Return the answers to vote on; None for attempts without an answer.

    Answers are only compared for equality. They are strings, or numbers in older runs.

    Examples
    --------
    >>> answers_of(Records.from_columns({"answer": ["Rome", None]}), "answer").tolist()
    ['Rome', None]
    """
    if column not in records.columns:
        raise InvalidInputError(
            f"the records have no column {column!r} with the answers to vote on; they have "
            f"{sorted(records.columns)}"
        )
    found: NDArray[Any] = records.columns[column].astype(object)
    found[records.status[column] != "ok"] = None
    return found


def voted(
    records: Records, spec: ColumnSpec, starts: IntArray, measured: BoolArray, values: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return maj@k per unit from measured attempts, and a mask of units with enough of them.

    ``starts`` contains the position of each unit's first record, ``measured`` is a mask of the
    records that count, and ``values`` contains their correctness, 0 or 1.

    Examples
    --------
    >>> from eval_toolkit.metric_specs import maj_at_k
    >>> columns = {"right": [1, 1, 0], "answer": ["7", "7", "8"]}
    >>> records = Records.from_columns(columns, unit_id=["a"] * 3)
    >>> measured = np.ones(3, dtype=bool)
    >>> spec = maj_at_k("right", 3, answer="answer")
    >>> voted(records, spec, np.array([0]), measured, records.columns["right"])[0]
    array([1.])
    """
    n = np.add.reduceat(measured.astype(np.int64), starts)
    answers = answers_of(records, str(spec.answer))[measured]
    return spec.of_votes(values[measured], answers, np.cumsum(n) - n, n)
