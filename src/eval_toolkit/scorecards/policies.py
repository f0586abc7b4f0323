"""Scorecards that also report values under different assumptions about failed attempts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import MetricResult, Scorecard
from eval_toolkit.scorecards.records import Records, unit_starts
from eval_toolkit.scorecards.reduction import value_of_failure, voted
from eval_toolkit.scorecards.summary import summarise

_MACRO = "_macro"
_NO_PART = np.empty(0, dtype=object)


class _Over(Enum):
    """Averages over all units, or over parts."""

    UNITS = "units"
    PARTS = "parts"


_Place: TypeAlias = _Over | str


def with_error_policies(
    records: Records,
    metrics: Sequence[MetricSpec],
    *,
    by: str | None = None,
    macro: bool = False,
    on_error: str = "exclude",
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int = 42,
    cut_short: Mapping[str, BoolArray] | None = None,
) -> Scorecard:
    """Summarise records, adding the range of each value over outcomes of failed attempts.

    Parameters
    ----------
    records : Records
        One row per (unit, attempt).
    metrics : sequence of MetricSpec
        As in `summarise`.
    by : str, optional
        Slice of the records; ``slices`` then contains one scorecard per part, unless the records
        lack the slice or have only one part.
    macro : bool, default False
        Whether to add ``<metric>_macro``, the unweighted mean over parts.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        Treatment of failed attempts in the value and the interval, as in `summarise`.
    confidence, seed
        As in `summarise`.
    cut_short : mapping of str to ndarray of bool, optional
        Masks, by column, of records whose values are missing not at random, so that the mean over
        the other records is biased.

    Returns
    -------
    Scorecard
        If attempts failed, ``details`` contains the ``error_rate`` (which ignores skipped attempts
        unless they were cut short) and the value with failures excluded (``exclude``), counted as 0
        (``as_zero``; as the worst value if 0 is best), and counted as the worst and best possible
        value (``worst`` and ``best``, or ``low`` and ``high`` if neither direction is better; None
        without a bound). ``bounds_ci`` covers the mean for any outcome of the failed attempts; see
        `inference.missing_bounds`. Attempts that were cut short widen these bounds, too;
        ``censored`` is their number.

    Raises
    ------
    InvalidInputError
        If an attempt failed and ``on_error`` is "fail".

    Examples
    --------
    >>> from eval_toolkit import metric_specs as ms
    >>> records = Records.from_columns(
    ...     {"right": [1, 0, None, 1]}, unit_id=list("abcd"),
    ...     status={"right": ["ok", "ok", "error", "ok"]},
    ... )
    >>> card = with_error_policies(records, [ms.mean_of("right", bounds=(0.0, 1.0))])
    >>> details = card["right"].details
    >>> details["as_zero"], details["worst"], details["best"], details["error_rate"]
    (0.5, 0.5, 0.75, 0.25)
    """
    if by is None or len(np.unique(records.slices.get(by, _NO_PART).astype(str))) < 2:
        by = None
    macro = macro and by is not None
    card = summarise(
        records,
        metrics,
        by=by,
        macro=macro,
        on_error=on_error,
        confidence=validation.fraction(confidence, "confidence"),
        seed=seed,
    )
    cells, slices = dict(card), {name: dict(part) for name, part in card.slices.items()}
    for spec in metrics:
        if not isinstance(spec, ColumnSpec):
            continue
        cut = (cut_short or {}).get(spec.column, np.zeros(len(records), dtype=np.bool_))
        if not (cut | (records.status[spec.column] == "error")).any():
            continue
        summary = _under_policies(records, spec, by, confidence, cut)
        places: list[tuple[_Place, dict[str, MetricResult]]] = [(_Over.UNITS, cells)]
        for place, inside in [*places, *slices.items()]:
            if inside[spec.name].n_errors or "censored" in summary[place]:
                inside[spec.name] = _with(inside[spec.name], summary[place])
        if macro:
            name = f"{spec.name}{_MACRO}"
            cells[name] = _with(cells[name], summary[_Over.PARTS])
    return Scorecard(cells, {name: Scorecard(part) for name, part in slices.items()}, by or "")


def _with(cell: MetricResult, extra: Mapping[str, Any]) -> MetricResult:
    """Return the cell with more details; ``bounds_ci`` is extended to include its interval."""
    details = {**cell.details, **extra}
    ends = details.get("bounds_ci")
    if ends is not None and cell.ci is not None:
        details["bounds_ci"] = [min(ends[0], cell.ci.ci_low), max(ends[1], cell.ci.ci_high)]
    return replace(cell, details=details)


def _under_policies(
    records: Records, spec: ColumnSpec, by: str | None, confidence: float, cut: BoolArray
) -> dict[_Place, dict[str, Any]]:
    """Return the error rate and the value under each policy, overall and per part."""
    starts = unit_starts(records.unit_id)
    of_record = None if by is None else records.slices[by].astype(str)
    names = [] if of_record is None else np.unique(of_record).tolist()
    failed = records.status[spec.column] == "error"
    # Records skipped for another reason could not have failed.
    attempted = cut | (records.status[spec.column] != "skipped")
    summary: dict[_Place, dict[str, Any]] = {
        _Over.UNITS: _counts(failed[attempted], cut[attempted])
    }
    for name in names:
        mine = attempted & (of_record == name)
        summary[name] = _counts(failed[mine], cut[mine])
    summary[_Over.PARTS] = dict(summary[_Over.UNITS])
    masks = {} if of_record is None else {name: of_record[starts] == name for name in names}
    low, high = spec.bounds
    worst, best = (high, low) if spec.higher_is_better is False else (low, high)
    zero = value_of_failure(spec)
    counted = {"as_zero": math.inf if zero is None else zero, "worst": worst, "best": best}
    shown = {"worst": "low", "best": "high"} if spec.higher_is_better is None else {}
    ends: dict[str, tuple[FloatArray, BoolArray]] = {}
    for policy, value in {"exclude": None, **counted}.items():
        values = None
        lacking = failed | cut if policy in ("worst", "best") else failed
        if value is None or math.isfinite(value):
            values = _unit_values(records, spec, starts, value, lacking)
        if values and value is not None and spec.answer and policy in ("worst", "best"):
            values = _bounded_votes(values, np.logical_or.reduceat(lacking, starts), value)
        if values and policy in ("worst", "best"):
            ends[policy] = values
        for place, number in _means(values, masks).items():
            summary[place][shown.get(policy, policy)] = number
    if len(ends) == 2:
        groups = records.group[starts].astype(str)
        everyone = np.ones(len(starts), dtype=np.bool_)
        for place, mine in {_Over.UNITS: everyone, **masks}.items():
            summary[place]["bounds_ci"] = _bounds_ci(ends, mine, groups, spec.bounds, confidence)
        if masks:
            summary[_Over.PARTS]["bounds_ci"] = _macro_bounds_ci(
                ends, list(masks.values()), groups, spec.bounds, confidence
            )
    return summary


def _counts(failed: BoolArray, cut: BoolArray) -> dict[str, Any]:
    """Return the error rate and the number of attempts that were cut short."""
    found: dict[str, Any] = {"error_rate": float(failed.mean())} if failed.any() else {}
    return found | ({"censored": int(cut.sum())} if cut.any() else {})


def _macro_bounds_ci(
    ends: Mapping[str, tuple[FloatArray, BoolArray]],
    parts: Sequence[BoolArray],
    groups: NDArray[Any],
    bounds: tuple[float, float],
    confidence: float,
) -> list[float] | None:
    """Return the interval as in `_bounds_ci`, for the mean over parts."""
    from eval_toolkit.inference.missing_outcomes import bounded_macro_mean

    there = ends["worst"][1] & ends["best"][1]
    kept = [part & there for part in parts if (part & there).any()]
    if len(kept) < 2:
        return None
    low, high = (op(ends["worst"][0], ends["best"][0]) for op in (np.minimum, np.maximum))
    found = bounded_macro_mean(
        [low[part] for part in kept],
        [high[part] for part in kept],
        bounds=bounds,
        groups=[groups[part] for part in kept],
        confidence=confidence,
    )
    return [found.ci_low, found.ci_high]


def _bounds_ci(
    ends: Mapping[str, tuple[FloatArray, BoolArray]],
    mine: BoolArray,
    groups: NDArray[Any],
    bounds: tuple[float, float],
    confidence: float,
) -> list[float] | None:
    """Return an interval for the mean that is valid for any outcome of failed attempts."""
    from eval_toolkit.inference.missing_outcomes import bounded_mean

    keep = mine & ends["worst"][1] & ends["best"][1]
    if not keep.any():
        return None
    worst, best = ends["worst"][0][keep], ends["best"][0][keep]
    alone = len(np.unique(groups[keep])) == int(keep.sum())
    found = bounded_mean(
        np.minimum(worst, best),
        np.maximum(worst, best),
        bounds=bounds,
        groups=None if alone else groups[keep],
        confidence=confidence,
    )
    return [found.ci_low, found.ci_high]


def _unit_values(
    records: Records,
    spec: ColumnSpec,
    starts: IntArray,
    failed_is: float | None,
    failed: BoolArray,
) -> tuple[FloatArray, BoolArray]:
    """Return one value per unit, with failures excluded or imputed, and a mask of valid units."""
    measured = records.status[spec.column] == "ok"
    values = np.where(measured, records.columns[spec.column], 0.0)
    if failed_is is not None:
        values = np.where(failed, failed_is, values)
        measured = measured | failed
    sums = np.add.reduceat(values, starts)
    counts = np.add.reduceat(measured.astype(np.int64), starts)
    if spec.answer is not None:
        return voted(records, spec, starts, measured, values)
    if spec.k is not None:
        return spec.of_attempts(counts, sums.astype(np.int64))
    return sums / np.maximum(counts, 1), counts > 0


def _bounded_votes(
    given: tuple[FloatArray, BoolArray], failed: BoolArray, value: float
) -> tuple[FloatArray, BoolArray]:
    """Return maj@k, set to a bound for units with an unknown vote, which may be decisive."""
    values, there = given
    return np.where(failed, value, values), there


def _means(
    given: tuple[FloatArray, BoolArray] | None, masks: Mapping[str, BoolArray]
) -> dict[_Place, float | None]:
    """Return the mean over all units, per part, and over parts; None if undefined."""
    if given is None:
        return dict.fromkeys([*_Over, *masks])
    values, there = given
    means: dict[_Place, float | None] = {_Over.UNITS: _mean(values[there])}
    for name, mask in masks.items():
        means[name] = _mean(values[there & mask])
    known = [mean for name in masks if (mean := means[name]) is not None]
    means[_Over.PARTS] = _mean(np.array(known, dtype=np.float64))
    return means


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if len(values) else None
