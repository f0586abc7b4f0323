"""`summarise`: records of any kind to cells. Attempts are reduced to units, groups are resampled."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _validate
from eval_toolkit._validate import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import proportions
from eval_toolkit.inference.engine import Executor
from eval_toolkit.inference.macro import macro_mean
from eval_toolkit.inference.means import mean_se, t_interval
from eval_toolkit.inference.plans import Plan, groups_plan, rows_plan
from eval_toolkit.inference.results import (
    DEFAULT_CONFIDENCE,
    DEFAULT_N_RESAMPLES,
    BootstrapCI,
)
from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import MetricResult, Scorecard
from eval_toolkit.scorecards.records import Records
from eval_toolkit.scorecards.score import Intervals, check_specs, metric_cells
from eval_toolkit.seeds import SeedLike, resolve_seed

__all__ = ["summarise", "value_of_failure"]

_Starts: TypeAlias = NDArray[np.int64]


def _medians(values: FloatArray, starts: _Starts) -> FloatArray:
    return np.array([np.median(part) for part in np.split(values, starts[1:])])


def _means(values: FloatArray, starts: _Starts) -> FloatArray:
    return np.asarray(np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values))))


_REDUCERS: dict[str, Callable[[FloatArray, _Starts], FloatArray]] = {
    "mean": _means,
    "median": _medians,
    "max": np.maximum.reduceat,
    "min": np.minimum.reduceat,
    "first": lambda values, starts: values[starts],
}
_PROPORTION_METHODS = {
    "wilson": proportions.wilson_interval,
    "clopper-pearson": proportions.clopper_pearson_interval,
    "jeffreys": proportions.jeffreys_interval,
    "agresti-coull": proportions.agresti_coull_interval,
    "beta-binomial": proportions.beta_binomial_interval,
}
_BOOTSTRAP_METHODS = ("BCa", "percentile", "basic", "studentized")
_SCORED = ("label", "score")
_METHODS = (*_BOOTSTRAP_METHODS, *_PROPORTION_METHODS, "t")


def summarise(
    records: Records,
    metrics: Sequence[MetricSpec],
    *,
    by: str | None = None,
    macro: bool = False,
    reduce: str = "mean",
    on_error: str = "exclude",
    confidence: float = DEFAULT_CONFIDENCE,
    method: str | None = None,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    seed: SeedLike = None,
    rng: SeedLike = None,
    executor: Executor | None = None,
) -> Scorecard:
    """Summarise records into cells: the only place where runs get their intervals.

    Parameters
    ----------
    records : Records
        One line per (unit, attempt).
    metrics : sequence of MetricSpec
        `metric_specs.mean_of(column)` for any measured column; metrics of labels and scores read
        the columns ``label`` and ``score``.
    by : str, optional
        A slice of the records: the scorecard's ``slices`` then hold the cells of each part.
    macro : bool, default False
        Also the mean over the parts of ``by``, each counting the same, as ``<metric>_macro``, for
        means of columns.
    reduce : {"mean", "median", "max", "min", "first"}, default "mean"
        How the attempts at one unit become one value.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        What a record with status "error" counts as; excluded ones are counted in ``n_errors``.
        Where 0 would be the best there is, "as_zero" counts the worst value instead, and a metric
        without one is skipped.
    confidence : float, default 0.95
        Nominal coverage.
    method : str, optional
        "BCa", "percentile", "basic", "studentized", "t", or for 0/1 values "wilson",
        "clopper-pearson", "jeffreys", "agresti-coull", "beta-binomial" (the last also for groups
        of units). Closed forms are for means of columns; metrics of labels and scores take the
        bootstrap, and say so in their cell. By default Wilson for 0/1
        values of independent units and BCa over groups otherwise.
    n_resamples : int, default 1000
        Bootstrap resamples.
    seed, rng : int, Generator, …, default 42
        Two spellings of one argument.
    executor : Executor, optional
        Anything with ``concurrent.futures.Executor.map``; results are the same bits.

    Returns
    -------
    Scorecard
        Each cell with ``n_units``, ``n_groups``, ``n_errors`` and ``n_skipped``; means of columns
        have their ``standard_error`` in ``details``, cluster-robust where units come in groups.

    Raises
    ------
    InvalidInputError
        If a column or slice does not exist, an option is unknown, or a record failed under
        ``on_error="fail"``.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> records = Records.from_columns(
    ...     {"correct": [1, 0, 1, 1]}, unit_id=["a", "a", "b", "b"]  # two tries at two items
    ... )
    >>> cell = summarise(records, [ms.mean_of("correct")])["correct"]
    >>> cell.value, cell.n_units
    (0.75, 2)
    """
    if not isinstance(records, Records):
        raise InvalidTypeError(f"`records` must be Records, got {type(records).__name__}")
    specs = check_specs(metrics)
    options = _Options(
        _validate.choice(reduce, "reduce", tuple(_REDUCERS)),
        _validate.choice(on_error, "on_error", ("exclude", "as_zero", "fail")),
        None if method is None else _validate.choice(method, "method", _METHODS),
        Intervals(
            _validate.integer(n_resamples, "n_resamples", low=1),
            _validate.fraction(confidence, "confidence"),
            method if method in _BOOTSTRAP_METHODS else None,
            resolve_seed(seed, rng),
            executor,
        ),
    )
    if macro and by is None:
        raise InvalidInputError("`macro` is the mean over the parts of `by`; pass `by` as well")
    slices = {}
    parts: list[Records] = []
    if by is not None:
        if by not in records.slices:
            raise InvalidInputError(f"`by` is {by!r}; the records have {sorted(records.slices)}")
        for name in np.unique(records.slices[by].astype(str)).tolist():
            parts.append(records.take(records.slices[by] == name))
            slices[name] = Scorecard(_cells(parts[-1], specs, options))
    cells = _cells(records, specs, options)
    for spec in specs if macro else ():
        if isinstance(spec, ColumnSpec):
            reduced = [_reduce(part, (spec.column,), options, spec) for part in parts]
            cells[f"{spec.name}_macro"] = _macro_cell(reduced, spec, options, str(by))
    return Scorecard(cells, slices)


@dataclass(frozen=True)
class _Options:
    reduce: str
    on_error: str
    method: str | None
    how: Intervals


@dataclass(frozen=True)
class _Units:
    """Values reduced to one per unit, with counts of what is missing."""

    values: dict[str, FloatArray]
    groups: NDArray[Any]
    plan: Plan
    n_errors: int
    n_skipped: int


def _cells(
    records: Records, specs: Sequence[MetricSpec], options: _Options
) -> dict[str, MetricResult]:
    """Return one cell per spec, in the order asked for."""
    cells: dict[str, MetricResult] = {}
    scored = [spec for spec in specs if not isinstance(spec, ColumnSpec)]
    if scored:
        units = _reduce(records, _SCORED, options)
        cells.update(_scored_cells(units, scored, options))
    for spec in specs:
        if isinstance(spec, ColumnSpec):
            units = _reduce(records, (spec.column,), options, spec)
            cells[spec.name] = _mean_cell(units, spec, options)
    return {spec.name: cells[spec.name] for spec in specs}


def _reduce(
    records: Records,
    columns: tuple[str, ...],
    options: _Options,
    spec: ColumnSpec | None = None,
) -> _Units:
    """Reduce attempts to units; a record counts if all its columns are there."""
    for column in columns:
        if column not in records.columns:
            raise InvalidInputError(
                f"the records have no column {column!r}; they have {sorted(records.columns)}"
            )
    states = [records.status[column] for column in columns]
    failed: BoolArray = np.any([state == "error" for state in states], axis=0)
    skipped: BoolArray = np.any([state == "skipped" for state in states], axis=0) & ~failed
    if options.on_error == "fail" and failed.any():
        row = int(np.argmax(failed))
        why = next(records.reason[c][row] for c in columns if records.status[c][row] == "error")
        raise InvalidInputError(
            f"unit {records.unit_id[row]!r}, attempt {records.attempt[row]} failed "
            f"({why or 'no reason given'}) and on_error is 'fail'"
        )
    # A failed score counts as 0, but there is no number for a label that is not known.
    lost = states[0] != "ok" if columns == _SCORED else np.zeros_like(failed)
    failed_is = 0.0 if spec is None else value_of_failure(spec)
    as_zero = options.on_error == "as_zero" and failed_is is not None
    counted = ~(skipped | (lost if as_zero else failed))
    unit_id = records.unit_id[counted]
    starts = np.flatnonzero(np.concatenate(([True], unit_id[1:] != unit_id[:-1])))
    starts = starts[: len(unit_id)]
    values = {
        column: np.where(state == "ok", records.columns[column], failed_is or 0.0)[counted]
        for column, state in zip(columns, states, strict=True)
    }
    n_skipped = int(skipped.sum())
    if spec is not None and spec.k is not None:
        n = np.diff(np.append(starts, len(unit_id)))
        passed, enough = _passes(values[spec.column], starts, n, spec)
        n_skipped += int(n[~enough].sum())
        values, starts = {spec.column: passed[enough]}, starts[enough]
    else:
        values = {name: _per_unit(column, starts, options) for name, column in values.items()}
    groups = records.group[counted][starts]
    independent = len(np.unique(groups.astype(str))) == len(groups)
    plan = rows_plan(len(starts)) if independent else groups_plan(groups)
    return _Units(values, groups, plan, int(failed.sum()), n_skipped)


def _passes(
    values: FloatArray, starts: _Starts, n: _Starts, spec: ColumnSpec
) -> tuple[FloatArray, BoolArray]:
    """Return pass@k per unit; the attempts must be right or wrong."""
    odd = ~np.isin(values, (0.0, 1.0))
    if odd.any():
        raise InvalidInputError(
            f"{spec.name} needs a column of 0 and 1, but {spec.column!r} holds "
            f"{float(values[odd][0]):g}"
        )
    correct = np.add.reduceat(values, starts) if len(starts) else np.zeros(0)
    return spec.of_attempts(n, correct.astype(np.int64))


def _per_unit(values: FloatArray, starts: NDArray[np.int64], options: _Options) -> FloatArray:
    if len(starts) == len(values):
        return values
    return np.asarray(_REDUCERS[options.reduce](values, starts), dtype=np.float64)


def _counted(cell: MetricResult, units: _Units) -> MetricResult:
    return replace(cell, n_errors=units.n_errors, n_skipped=units.n_skipped)


def _nothing(units: _Units) -> MetricResult:
    """Return the cell of a slice in which nothing could be measured."""
    reason = f"no unit has a value: {units.n_errors} errors, {units.n_skipped} skipped"
    status = "error" if units.n_errors else "skipped"
    return _counted(MetricResult(None, status, reason, n_units=0, n_groups=0), units)  # type: ignore[arg-type]


def value_of_failure(spec: ColumnSpec) -> float | None:
    """Return what a failed record counts as under "as_zero": a failure must never look good.

    Parameters
    ----------
    spec : ColumnSpec
        The mean of a column.

    Returns
    -------
    float or None
        0; where 0 would be the best there is, the worst value, or None if there is none.

    Examples
    --------
    >>> value_of_failure(ColumnSpec("right", "right", bounds=(0.0, 1.0)))
    0.0
    >>> value_of_failure(ColumnSpec("wrong", "wrong", higher_is_better=False, bounds=(0.0, 1.0)))
    1.0
    """
    low, high = spec.bounds
    if spec.higher_is_better and high > 0.0:
        return 0.0
    worst = low if spec.higher_is_better else high
    return worst if math.isfinite(worst) else None


def _is_unbounded(n_errors: int, spec: ColumnSpec, options: _Options) -> bool:
    return options.on_error == "as_zero" and n_errors > 0 and value_of_failure(spec) is None


def _unbounded(n_errors: int, spec: ColumnSpec) -> MetricResult:
    """Return the cell of a metric that failures cannot count in."""
    reason = f"{n_errors} errors, and {spec.name} has no worst value for 'as_zero'"
    details = {"higher_is_better": spec.higher_is_better}
    return MetricResult(None, "skipped", reason, None, details, n_units=0, n_groups=0)


def _scored_cells(
    units: _Units, specs: Sequence[MetricSpec], options: _Options
) -> dict[str, MetricResult]:
    if units.plan.n_rows == 0:
        return {spec.name: _nothing(units) for spec in specs}
    given = units.values["label"]
    if not np.isin(given, (0.0, 1.0)).all():
        odd = float(given[~np.isin(given, (0.0, 1.0))][0])
        raise InvalidInputError(
            f"column 'label' has a unit with the value {odd:g}; labels must be 0 or 1, and the "
            "attempts at one unit must agree on it"
        )
    cells = metric_cells(given == 1.0, units.values["score"], specs, units.plan, options.how)
    if options.method not in (None, *_BOOTSTRAP_METHODS):
        note = f"{options.method} is for means of columns"
        cells = {name: _noted(cell, note) for name, cell in cells.items()}
    return {name: _counted(cell, units) for name, cell in cells.items()}


def _noted(cell: MetricResult, note: str) -> MetricResult:
    return replace(cell, reason="; ".join(part for part in (note, cell.reason) if part))


def _mean_cell(units: _Units, spec: ColumnSpec, options: _Options) -> MetricResult:
    """Return the mean over units: closed form where there is one, the bootstrap otherwise."""
    if _is_unbounded(units.n_errors, spec, options):
        return _counted(_unbounded(units.n_errors, spec), units)
    values = units.values[spec.column]
    if len(values) == 0:
        return _nothing(units)
    binary = bool(np.isin(values, (0.0, 1.0)).all())
    if options.method in (*_PROPORTION_METHODS, "t"):
        ci, reason = _closed_form(
            values, units.plan, options.method, binary, options.how.confidence
        )
        value = float(values.mean())
        cell = MetricResult(
            value, "ok", reason, ci, n_units=units.plan.n_rows, n_groups=units.plan.n_groups
        )
        return _described(_counted(cell, units), values, units.plan, spec)
    labels = np.zeros(len(values), dtype=np.bool_)
    bounds = (0.0, 1.0) if binary else spec.bounds
    of_scores = replace(spec, column="score", bounds=bounds)
    cell = metric_cells(labels, values, [of_scores], units.plan, options.how)[spec.name]
    return _described(_counted(cell, units), values, units.plan, spec)


def _described(
    cell: MetricResult, values: FloatArray, plan: Plan, spec: ColumnSpec
) -> MetricResult:
    """Add the direction, and the standard error where two groups or more give one."""
    details = {**cell.details, "higher_is_better": spec.higher_is_better}
    if cell.status == "ok" and plan.n_groups >= 2:
        details["standard_error"] = mean_se(values, groups=plan.unit_of_row).se
    return replace(cell, details=details)


def _macro_cell(
    parts: Sequence[_Units], spec: ColumnSpec, options: _Options, by: str
) -> MetricResult:
    """Return the mean over parts; parts without a value are left out and counted."""
    there = [part for part in parts if len(part.values[spec.column])]
    n_errors, n_skipped = sum(p.n_errors for p in parts), sum(p.n_skipped for p in parts)
    if _is_unbounded(n_errors, spec, options):
        return replace(_unbounded(n_errors, spec), n_errors=n_errors, n_skipped=n_skipped)
    if not there:
        status = "error" if n_errors else "skipped"
        reason = f"no part has a value: {n_errors} errors, {n_skipped} skipped"
        return MetricResult(
            None,
            status,  # type: ignore[arg-type]
            reason,
            n_units=0,
            n_groups=0,
            n_errors=n_errors,
            n_skipped=n_skipped,
        )
    values = [part.values[spec.column] for part in there]
    result = macro_mean(
        values, groups=[part.groups for part in there], confidence=options.how.confidence
    )
    ci = result.ci
    if ci is not None:  # a mean of shares does not leave [0, 1]
        low, high = spec.bounds
        ci = replace(ci, ci_low=max(low, ci.ci_low), ci_high=min(high, ci.ci_high))
    left = len(parts) - len(there)
    reasons = [f"{left} of {len(parts)} parts have no value" if left else "", result.reason]
    details = {"by": by, "n_parts": len(there), "higher_is_better": spec.higher_is_better}
    error = {} if result.se is None else {"standard_error": result.se}
    return MetricResult(
        result.mean,
        "ok",
        "; ".join(filter(None, reasons)),
        ci,
        {**details, **error},
        n_units=sum(map(len, values)),
        n_groups=result.n_groups,
        n_errors=n_errors,
        n_skipped=n_skipped,
    )


def _closed_form(
    values: FloatArray, plan: Plan, method: str, binary: bool, confidence: float
) -> tuple[BootstrapCI | None, str]:
    """Return a closed-form interval of the mean, or None and the reason."""
    if method == "t":
        if len(values) < 2 or plan.n_groups < 2:
            return None, "a t interval needs at least two units"
        ci = t_interval(values, groups=plan.unit_of_row, confidence=confidence)
        if binary:  # a share does not leave [0, 1]
            ci = replace(ci, ci_low=max(0.0, ci.ci_low), ci_high=min(1.0, ci.ci_high))
        return replace(ci, n_groups=plan.n_groups), ci.reason
    if not binary or not (plan.is_plain_rows or method == "beta-binomial"):
        return None, f"{method} is for 0/1 values of independent units; use BCa or t"
    n = len(values)
    if plan.unit_of_row is None:
        bounds = _PROPORTION_METHODS[method](int(values.sum()), n, confidence=confidence)
    else:  # groups whose units may agree with each other
        successes = np.bincount(plan.unit_of_row, values, plan.n_groups).astype(np.int64)
        trials = np.bincount(plan.unit_of_row, minlength=plan.n_groups)
        bounds = proportions.beta_binomial_interval(successes, trials, confidence=confidence)
    ci = BootstrapCI(
        float(values.mean()),
        float(bounds.low),  # type: ignore[arg-type]
        float(bounds.high),  # type: ignore[arg-type]
        confidence,
        0,
        method if plan.is_plain_rows else f"{method}, groups",
        n_units=n,
        n_groups=plan.n_groups,
    )
    return ci, ""
