"""`summarise`, and what the values would be had the attempts that failed come out well or badly."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.inference.missing import bounded_macro_mean, bounded_mean
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards.cells import MetricResult, Scorecard
from eval_toolkit.scorecards.records import Records, unit_starts
from eval_toolkit.scorecards.reduction import value_of_failure, voted
from eval_toolkit.scorecards.summary import summarise

__all__ = ["with_error_policies"]

_MACRO = "_macro"
_NO_PART = np.empty(0, dtype=object)


class _Over(Enum):
    """What a mean is over where it is of no part alone."""

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
    """Summarise records, and say in each cell what its failed attempts could have made of it.

    Parameters
    ----------
    records : Records
        One line per (unit, attempt).
    metrics : sequence of MetricSpec
        As in `summarise`.
    by : str, optional
        A slice of the records: a card per part in ``slices``. Records without it, or with one part
        alone, have none.
    macro : bool, default False
        Also ``<metric>_macro``, each part counting the same.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        What a failed attempt counts as in value and interval; as in `summarise`.
    confidence, seed
        As in `summarise`.
    cut_short : mapping of str to ndarray of bool, optional
        By column the records without a value of which that depends on what the value would have
        been. Their mean over the others is no estimate of the mean over all.

    Returns
    -------
    Scorecard
        Where attempts failed, ``details`` hold ``error_rate`` (among those that were not skipped, or
        were cut short) and what the value is with them left
        out (``exclude``), counted as 0 (``as_zero``; as the worst where 0 is best), and at the worst
        and best they could have been (``worst``, ``best``; ``low`` and ``high`` where neither
        direction is better; None where there is no bound). ``bounds_ci`` holds the mean whatever
        they would have been: see `inference.missing_bounds`. Attempts that were cut short count in
        these bounds too, and their number is in ``censored``.

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
        told = _under_policies(records, spec, by, confidence, cut)
        places: list[tuple[_Place, dict[str, MetricResult]]] = [(_Over.UNITS, cells)]
        for place, inside in [*places, *slices.items()]:
            if inside[spec.name].n_errors or "censored" in told[place]:
                inside[spec.name] = _with(inside[spec.name], told[place])
        if macro:
            name = f"{spec.name}{_MACRO}"
            cells[name] = _with(cells[name], told[_Over.PARTS])
    return Scorecard(cells, {name: Scorecard(part) for name, part in slices.items()}, by or "")


def _with(cell: MetricResult, told: Mapping[str, Any]) -> MetricResult:
    """Return the cell with what is told; what holds in any case holds in the case of its own."""
    details = {**cell.details, **told}
    ends = details.get("bounds_ci")
    if ends is not None and cell.ci is not None:
        details["bounds_ci"] = [min(ends[0], cell.ci.ci_low), max(ends[1], cell.ci.ci_high)]
    return replace(cell, details=details)


def _under_policies(
    records: Records, spec: ColumnSpec, by: str | None, confidence: float, cut: BoolArray
) -> dict[_Place, dict[str, Any]]:
    """Return, over all and per part, the error rate and the value under each policy."""
    starts = unit_starts(records.unit_id)
    of_record = None if by is None else records.slices[by].astype(str)
    names = [] if of_record is None else np.unique(of_record).tolist()
    failed = records.status[spec.column] == "error"
    # Skipped for a reason of its own, a record could not have failed either.
    asked = cut | (records.status[spec.column] != "skipped")
    told: dict[_Place, dict[str, Any]] = {_Over.UNITS: _counts(failed[asked], cut[asked])}
    for name in names:
        mine = asked & (of_record == name)
        told[name] = _counts(failed[mine], cut[mine])
    told[_Over.PARTS] = dict(told[_Over.UNITS])
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
            values = _whatever_was_voted(values, np.logical_or.reduceat(lacking, starts), value)
        if values and policy in ("worst", "best"):
            ends[policy] = values
        for place, number in _means(values, masks).items():
            told[place][shown.get(policy, policy)] = number
    if len(ends) == 2:
        groups = records.group[starts].astype(str)
        everyone = np.ones(len(starts), dtype=np.bool_)
        for place, mine in {_Over.UNITS: everyone, **masks}.items():
            told[place]["bounds_ci"] = _bounds_ci(ends, mine, groups, spec.bounds, confidence)
        if masks:
            told[_Over.PARTS]["bounds_ci"] = _macro_bounds_ci(
                ends, list(masks.values()), groups, spec.bounds, confidence
            )
    return told


def _counts(failed: BoolArray, cut: BoolArray) -> dict[str, Any]:
    """Return how many of some attempts failed, as a share, and how many were cut short."""
    found: dict[str, Any] = {"error_rate": float(failed.mean())} if failed.any() else {}
    return found | ({"censored": int(cut.sum())} if cut.any() else {})


def _macro_bounds_ci(
    ends: Mapping[str, tuple[FloatArray, BoolArray]],
    parts: Sequence[BoolArray],
    groups: NDArray[Any],
    bounds: tuple[float, float],
    confidence: float,
) -> list[float] | None:
    """Return the same of the mean over parts."""
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
    """Return the interval that holds the mean of some units, whatever failed attempts would be."""
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
    """Return one value per unit with failed attempts left out or of one value, and who has one."""
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


def _whatever_was_voted(
    given: tuple[FloatArray, BoolArray], failed: BoolArray, value: float
) -> tuple[FloatArray, BoolArray]:
    """Return maj@k with units of unknown votes at a bound: one vote can turn any majority."""
    values, there = given
    return np.where(failed, value, values), there


def _means(
    given: tuple[FloatArray, BoolArray] | None, masks: Mapping[str, BoolArray]
) -> dict[_Place, float | None]:
    """Return the mean over all units, per part, and over parts; None where there is none."""
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
