"""`summarise`: metrics of records, with attempts reduced to units and groups resampled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.inference import proportions
from eval_toolkit.inference.jackknife import jackknife_se
from eval_toolkit.inference.mean_intervals import UNBOUNDED, mean_interval
from eval_toolkit.inference.mean_variances import mean_variance
from eval_toolkit.inference.options import RESAMPLING, Resampling
from eval_toolkit.inference.plans import Plan
from eval_toolkit.inference.results import (
    BootstrapCI,
)
from eval_toolkit.metric_specs.families import is_of_column, is_of_columns, is_of_sums
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import MetricResult, Scorecard
from eval_toolkit.scorecards.records import Records, unit_starts
from eval_toolkit.scorecards.reduction import (
    REDUCERS,
    Options,
    Units,
    pooled,
    reduce_attempts,
    value_of_failure,
)
from eval_toolkit.scorecards.specs import Intervals, check_specs
from eval_toolkit.seeds import resolve_seed

if TYPE_CHECKING:
    from eval_toolkit.metric_specs import ColumnSpec, ScoreSpec, StatisticSpec, SumsSpec

__all__ = ["summarise", "value_of_failure"]

_PROPORTION_METHODS = {
    "wilson": proportions.wilson_interval,
    "clopper-pearson": proportions.clopper_pearson_interval,
    "jeffreys": proportions.jeffreys_interval,
    "agresti-coull": proportions.agresti_coull_interval,
    "beta-binomial": proportions.beta_binomial_interval,
}
_BOOTSTRAP_METHODS = ("BCa", "percentile", "basic", "studentized")
_METHODS = (*_BOOTSTRAP_METHODS, *_PROPORTION_METHODS, "t")


@gathers(Resampling, **RESAMPLING)
def summarise(
    records: Records,
    metrics: Sequence[MetricSpec],
    *,
    by: str | None = None,
    macro: bool = False,
    reduce: str = "mean",
    on_error: str = "exclude",
    method: str | None = None,
    **resampling: Unpack[Resampling],
) -> Scorecard:
    """Summarise records into a scorecard with intervals.

    Parameters
    ----------
    records : Records
        One row per (unit, attempt).
    metrics : sequence of MetricSpec
        `metric_specs.mean_of(column)` for any measured column, `metric_specs.from_sums` for ratios
        and other functions of sums, `metric_specs.from_columns` for arbitrary statistics of
        columns; metrics of labels and scores read the columns ``label`` and ``score``, or others
        with `metric_specs.on_columns`.
    by : str, optional
        Slice of the records; the scorecard's ``slices`` then contain the cells for each part.
    macro : bool, default False
        Whether to add ``<metric>_macro`` for means of columns: the unweighted mean over the parts
        of ``by``.
    reduce : {"mean", "median", "max", "min", "first"}, default "mean"
        How the attempts at a unit are reduced to one value.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        How records with status "error" are treated; excluded records are counted in ``n_errors``.
        If 0 is the best value, "as_zero" uses the worst value instead, and metrics without a worst
        value are skipped. Means without a direction exclude failed records.
    confidence : float, default 0.95
        Confidence level of the intervals.
    method : str, optional
        "BCa", "percentile", "basic", "studentized", "t", or for 0/1 values "wilson",
        "clopper-pearson", "jeffreys", "agresti-coull", "beta-binomial" (the last also for groups of
        units). Closed forms apply to means of columns; all other metrics use the bootstrap, as
        noted in their cell. By default, means use `inference.mean_interval` for their kind (see
        `metric_specs.mean_of`), and all other metrics use the default of `inference.bootstrap_ci`.
    n_resamples : int, default 1000
        Number of bootstrap resamples; 0 disables all intervals, including closed forms.
    seed, rng : int, Generator, …, default 42
        Random seed or generator; the two names are synonyms.
    executor : Executor, optional
        Any object with the ``map`` method of `concurrent.futures.Executor`; results do not depend
        on it.

    Returns
    -------
    Scorecard
        Cells with ``n_units``, ``n_groups``, ``n_errors`` and ``n_skipped``. For means, ``details``
        contains ``kind``, ``standard_error`` (cluster-robust for grouped units) and the effective
        number of equal-sized groups, ``n_groups_effective``. For functions of sums, it contains the
        jackknife standard error over groups.

    Raises
    ------
    InvalidInputError
        If a column or slice does not exist, an option is unknown, or a record failed under
        ``on_error="fail"``.

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> records = Records.from_columns(
    ...     {"correct": [1, 0, 1, 1]}, unit_id=["a", "a", "b", "b"]  # two attempts per item
    ... )
    >>> cell = summarise(records, [ms.mean_of("correct")])["correct"]
    >>> cell.value, cell.n_units
    (0.75, 2)
    """
    if not isinstance(records, Records):
        raise InvalidTypeError(f"`records` must be Records, got {type(records).__name__}")
    specs = check_specs(metrics)
    options = Options(
        validation.choice(reduce, "reduce", tuple(REDUCERS)),
        validation.choice(on_error, "on_error", ("exclude", "as_zero", "fail")),
        None if method is None else validation.choice(method, "method", _METHODS),
        Intervals(
            validation.integer(resampling["n_resamples"], "n_resamples", low=0),
            validation.fraction(resampling["confidence"], "confidence"),
            method if method in _BOOTSTRAP_METHODS else None,
            resolve_seed(resampling["seed"], resampling["rng"]),
            resampling["executor"],
        ),
    )
    if macro and by is None:
        raise InvalidInputError("`macro` is the mean over the parts of `by`; pass `by` as well")
    given, specs = specs, [_of_column(spec, records, options) for spec in specs]
    slices = {}
    parts: list[Records] = []
    if by is not None:
        if by not in records.slices:
            raise InvalidInputError(f"`by` is {by!r}; the slices are {sorted(records.slices)}")
        for name in np.unique(records.slices[by].astype(str)).tolist():
            parts.append(records.take(records.slices[by] == name))
            own = [
                _of_part(one, whole, records, parts[-1])
                for one, whole in zip(given, specs, strict=True)
            ]
            slices[name] = Scorecard(_cells(parts[-1], own, options))
    cells = _cells(records, specs, options)
    for spec in specs if macro else ():
        if is_of_column(spec):
            reduced = [reduce_attempts(part, (spec.column,), options, spec) for part in parts]
            there = any(part.n_units for part in reduced)
            why = "" if there else _why(records, (spec.column,), spec)
            cells[f"{spec.name}_macro"] = _macro_cell(reduced, spec, options, str(by), why)
    return Scorecard(cells, slices, by or "")


def _of_column(spec: MetricSpec, records: Records, options: Options) -> MetricSpec:
    """Return the spec with the kind inferred from the whole column, for use in all slices."""
    if not is_of_column(spec) or spec.column not in records.numbers:
        return spec
    measured = records.status[spec.column] == "ok"
    values = records.columns[spec.column][measured]
    starts = unit_starts(records.unit_id[measured])
    if spec.k is not None:
        # With at most k attempts per unit, pass@k is 0 or 1.
        most = int(np.diff(np.append(starts, len(values))).max(initial=0))
        return replace(spec, kind="share" if most <= spec.k and not spec.answer else "bounded")
    averaged = False
    if len(starts) < len(values):
        of_units = reduce_attempts(records, (spec.column,), options, spec).values[spec.column]
        averaged = not np.isin(of_units, (0.0, 1.0)).all()
    return spec.of_column(values, averaged=averaged)


def _of_part(spec: MetricSpec, whole: MetricSpec, records: Records, part: Records) -> MetricSpec:
    """Return the spec for a part, which may not contain repeated attempts."""
    if not is_of_column(spec) or spec.k is not None or spec.column not in part.numbers:
        return whole
    there = part.unit_id[part.status[spec.column] == "ok"]
    if len(unit_starts(there)) < len(there):
        return whole
    return spec.of_column(records.columns[spec.column][records.status[spec.column] == "ok"])


def _cells(
    records: Records, specs: Sequence[MetricSpec], options: Options
) -> dict[str, MetricResult]:
    """Return one cell per spec, in the order of the specs."""
    cells: dict[str, MetricResult] = {}
    scored: list[MetricSpec] = []
    for spec in specs:
        if is_of_column(spec):
            units = reduce_attempts(records, (spec.column,), options, spec)
            why = "" if units.n_units else _why(records, (spec.column,), spec)
            cells[spec.name] = _mean_cell(units, spec, options, why)
        elif is_of_sums(spec):
            units = reduce_attempts(records, spec.columns, options, spec)
            why = "" if units.n_units else _why(records, spec.columns)
            cells[spec.name] = _sums_cell(units, spec, options, why)
        elif is_of_columns(spec):
            units = pooled(records, spec.columns, options, scored=False)
            why = "" if units.n_units else _why(records, spec.columns)
            cell = _named_cell(units, spec, options, why)
            cells[spec.name] = _of_attempts(cell, units, {"columns": list(spec.columns)})
        else:
            scored.append(spec)
    if scored:
        cells |= _scored_cells(records, scored, options)
    return {spec.name: cells[spec.name] for spec in specs}


def _why(records: Records, columns: Sequence[str], spec: MetricSpec | None = None) -> str:
    """Return the most frequent reason for missing values, as a message suffix."""
    k = spec.k if is_of_column(spec) else None
    counts: Counter[str] = Counter()
    for status in ("error", "skipped"):
        for column in columns:
            counts.update(records.reason[column][records.status[column] == status].tolist())
        counts.pop("", None)
        if counts:
            break
    if counts:
        reason, n = counts.most_common(1)[0]
        return f"; {reason}" if n == counts.total() else f"; most often: {reason}"
    if k is None:
        return ""
    there = records.unit_id[records.status[columns[0]] == "ok"].astype(str)
    most = int(np.unique(there, return_counts=True)[1].max(initial=0))
    return f"; at most {most} of {k} attempts have a value"


def _counted(cell: MetricResult, units: Units) -> MetricResult:
    return replace(cell, n_errors=units.n_errors, n_skipped=units.n_skipped)


def _empty_cell(units: Units, why: str) -> MetricResult:
    """Return the cell of a slice without values."""
    reason = f"no unit has a value: {units.n_errors} errors, {units.n_skipped} skipped{why}"
    status = "error" if units.n_errors else "skipped"
    return _counted(MetricResult(None, status, reason, n_units=0, n_groups=0), units)  # type: ignore[arg-type]


def _is_unbounded(
    n_errors: int, spec: ColumnSpec | SumsSpec | StatisticSpec, options: Options
) -> bool:
    """Return whether failures must count as the worst value but the metric has no worst value."""
    neither = is_of_column(spec) and spec.higher_is_better is None
    as_zero = options.on_error == "as_zero" and n_errors > 0
    return as_zero and not neither and value_of_failure(spec) is None


def _unbounded(n_errors: int, spec: ColumnSpec | SumsSpec | StatisticSpec) -> MetricResult:
    """Return the skipped cell of a metric without a worst value for failures."""
    reason = f"{n_errors} errors, and {spec.name} has no worst value for 'as_zero'"
    details = {"higher_is_better": spec.higher_is_better}
    return MetricResult(None, "skipped", reason, None, details, n_units=0, n_groups=0)


def _scored_cells(
    records: Records, specs: Sequence[MetricSpec], options: Options
) -> dict[str, MetricResult]:
    """Return the cells of metrics of labels and scores; equal columns share resamples."""
    from eval_toolkit.inference.columns import SCORED, Columns
    from eval_toolkit.metric_specs import ScoreSpec
    from eval_toolkit.scorecards.metric_cells import metric_cells

    cells: dict[str, MetricResult] = {}
    sharing: dict[tuple[str, str], list[MetricSpec]] = {}
    for spec in specs:
        columns = spec.columns if isinstance(spec, ScoreSpec) else SCORED
        sharing.setdefault(columns, []).append(spec)
    for columns, some in sharing.items():
        own = columns == SCORED
        units = (reduce_attempts if own else pooled)(records, columns, options)
        if units.plan.n_rows == 0:
            why = "" if units.n_units else _why(records, columns)
            cells |= {spec.name: _empty_cell(units, why) for spec in some}
            continue
        label, score = columns
        given = units.values[label]
        if not np.isin(given, (0.0, 1.0)).all():
            odd = float(given[~np.isin(given, (0.0, 1.0))][0])
            agree = ", and all attempts at a unit must have the same label" if own else ""
            raise InvalidInputError(
                f"column {label!r} has a unit with the value {odd:g}; labels must be 0 or 1{agree}"
            )
        data = Columns.scored(given == 1.0, units.values[score])
        found = metric_cells(data, some, units.plan, options.how)
        if options.method not in (None, *_BOOTSTRAP_METHODS):
            note = f"{options.method} applies only to means of columns"
            found = {name: _noted(cell, note) for name, cell in found.items()}
        if not own:
            found = {spec.name: _pooled_cell(found[spec.name], spec, units) for spec in some}  # type: ignore[arg-type]
        cells |= {name: _counted(cell, units) for name, cell in found.items()}
    return cells


def _pooled_cell(cell: MetricResult, spec: ScoreSpec, units: Units) -> MetricResult:
    """Add the columns and the direction to the cell of a metric whose rows are attempts."""
    label, score = spec.columns
    details: dict[str, Any] = {"metric": spec.source, "label": label, "score": score}
    details["higher_is_better"] = spec.higher_is_better
    return _of_attempts(cell, units, details)


def _of_attempts(cell: MetricResult, units: Units, details: dict[str, Any]) -> MetricResult:
    """Replace the number of attempts by the number of units."""
    if units.n_units < units.plan.n_rows:
        details["n_attempts"] = units.plan.n_rows
    ci = None if cell.ci is None else replace(cell.ci, n_units=units.n_units)
    return replace(cell, ci=ci, details={**cell.details, **details}, n_units=units.n_units)


def _noted(cell: MetricResult, note: str) -> MetricResult:
    return replace(cell, reason="; ".join(part for part in (note, cell.reason) if part))


def _mean_cell(units: Units, spec: ColumnSpec, options: Options, why: str) -> MetricResult:
    """Return the mean over units, with a closed-form or else a bootstrap interval."""
    if _is_unbounded(units.n_errors, spec, options):
        return _counted(_unbounded(units.n_errors, spec), units)
    values = units.values[spec.column]
    if len(values) == 0:
        return _empty_cell(units, why)
    if options.method in _BOOTSTRAP_METHODS:
        from eval_toolkit.inference.columns import Columns
        from eval_toolkit.scorecards.metric_cells import metric_cells

        data = Columns({spec.column: values}, spec.column)
        cell = metric_cells(data, [spec], units.plan, options.how)[spec.name]
    else:
        ci, reason = (
            _closed_form(values, units.plan, options.method, spec, options.how.confidence)
            if options.how.n_resamples
            else (None, "")
        )
        value, n_groups = float(values.mean()), units.plan.n_groups
        cell = MetricResult(value, "ok", reason, ci, n_units=len(values), n_groups=n_groups)
    cell = _counted(cell, units)
    if options.on_error == "as_zero" and cell.n_errors and spec.higher_is_better is None:
        cell = _noted(cell, f"{cell.n_errors} errors are excluded: neither direction is worse")
    return _described(cell, values, units.plan, spec)


def _named_cell(
    units: Units, spec: SumsSpec | StatisticSpec, options: Options, why: str
) -> MetricResult:
    """Return a statistic of named columns with a bootstrap interval over groups."""
    if _is_unbounded(units.n_errors, spec, options):
        return _counted(_unbounded(units.n_errors, spec), units)
    if units.plan.n_rows == 0:
        return _empty_cell(units, why)
    from eval_toolkit.scorecards.metric_cells import metric_cells

    cells = metric_cells(spec.data_of(units.values), [spec], units.plan, options.how)
    cell = _counted(cells[spec.name], units)
    if options.method not in (None, *_BOOTSTRAP_METHODS):
        cell = _noted(cell, f"{options.method} applies only to means of columns")
    return replace(cell, details={**cell.details, "higher_is_better": spec.higher_is_better})


def _sums_cell(units: Units, spec: SumsSpec, options: Options, why: str) -> MetricResult:
    """Return a function of sums over units with its standard error."""
    cell = _named_cell(units, spec, options, why)
    if not cell.n_units:
        return cell
    from eval_toolkit.metric_specs.sums import ratio

    details = {**cell.details, **({"ratio": list(spec.columns)} if spec.function is ratio else {})}
    columns = [units.values[column] for column in spec.columns]
    error = _jackknifed(columns, spec, units.plan) if cell.status == "ok" else None
    return replace(cell, details=details if error is None else {**details, "standard_error": error})


def _jackknifed(columns: Sequence[FloatArray], spec: SumsSpec, plan: Plan) -> float | None:
    """Return the jackknife standard error over groups, if defined."""
    if plan.n_groups < 2:
        return None
    of_row = np.arange(plan.n_rows) if plan.unit_of_row is None else plan.unit_of_row
    sums = np.stack([np.bincount(of_row, column, plan.n_groups) for column in columns], axis=1)
    left_out = spec.of_sums(sums.sum(axis=0) - sums)
    return None if np.isnan(left_out).any() else jackknife_se(left_out)


def _described(
    cell: MetricResult, values: FloatArray, plan: Plan, spec: ColumnSpec
) -> MetricResult:
    """Add the direction, and with at least two groups the standard error."""
    from eval_toolkit.metric_specs.columns import stated_bounds

    details = {**cell.details, "higher_is_better": spec.higher_is_better, "kind": spec.kind}
    details |= stated_bounds(spec)
    if spec.answer is not None:
        details["answer"] = spec.answer
    if cell.status == "ok" and plan.n_groups >= 2:
        found = mean_variance(values, plan.unit_of_row, plan.n_groups)
        details["standard_error"] = math.sqrt(found.cr2)
        if plan.unit_of_row is not None:
            details["n_groups_effective"] = round(found.df + 1.0, 2)
    return replace(cell, details=details)


def _macro_cell(
    parts: Sequence[Units], spec: ColumnSpec, options: Options, by: str, why: str
) -> MetricResult:
    """Return the mean over parts; parts without a value are excluded and counted."""
    from eval_toolkit.inference.macro import macro_mean

    there = [part for part in parts if len(part.values[spec.column])]
    n_errors, n_skipped = sum(p.n_errors for p in parts), sum(p.n_skipped for p in parts)
    if _is_unbounded(n_errors, spec, options):
        return replace(_unbounded(n_errors, spec), n_errors=n_errors, n_skipped=n_skipped)
    if not there:
        status = "error" if n_errors else "skipped"
        reason = f"no part has a value: {n_errors} errors, {n_skipped} skipped{why}"
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
    ci, why_none = (result.ci, result.reason) if options.how.n_resamples else (None, "")
    if ci is not None:  # a mean of shares stays within [0, 1]
        ci = ci.clipped(spec.bounds)
    left = len(parts) - len(there)
    reasons = [f"{left} of {len(parts)} parts have no value" if left else "", why_none]
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
    values: FloatArray, plan: Plan, method: str | None, spec: ColumnSpec, confidence: float
) -> tuple[BootstrapCI | None, str]:
    """Return a closed-form interval for the mean and a note, or None and the reason."""
    if method is None:
        try:
            ci = mean_interval(
                values,
                groups=plan.unit_of_row,
                bounds=spec.bounds,
                share=spec.kind == "share",
                confidence=confidence,
            )
        except UndefinedMetricError as error:
            return None, str(error)
        return ci, ""
    if method == "t":
        from eval_toolkit.inference.means import t_interval

        try:
            ci = t_interval(values, groups=plan.unit_of_row, confidence=confidence)
        except UndefinedMetricError as error:
            return None, str(error)
        return replace(ci.clipped(spec.bounds), n_groups=plan.n_groups), ci.reason
    binary = spec.bounds in ((0.0, 1.0), UNBOUNDED) and np.isin(values, (0.0, 1.0)).all()
    if not binary or not (plan.is_plain_rows or method == "beta-binomial"):
        return None, f"{method} needs 0/1 values of independent units; use BCa or t"
    n = len(values)
    if plan.unit_of_row is None:
        bounds = _PROPORTION_METHODS[method](int(values.sum()), n, confidence=confidence)
    else:  # units within groups may be correlated
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
