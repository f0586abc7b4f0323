"""What the results of a task say: a cell per metric, per subject and over all, errors in the open."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _validate
from eval_toolkit import metric_specs as ms
from eval_toolkit._validate import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders import ColumnInfo
from eval_toolkit.inference.missing import bounded_macro_mean, bounded_mean
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.metric_specs import ColumnSpec
from eval_toolkit.protocols import Grader, MetricSpec
from eval_toolkit.scorecards import MetricResult, Records, Scorecard, summarise, unit_starts
from eval_toolkit.scorecards.reduction import value_of_failure, voted

__all__ = ["by_slice", "task_metrics", "task_scorecard"]

_SUBJECT = "subject"
_MACRO = "_macro"


def task_metrics(
    columns: Mapping[str, ColumnInfo],
    *,
    pass_at: Sequence[int] = (),
    pass_hat: Sequence[int] = (),
    maj_at: Sequence[int] = (),
    graders: Sequence[Grader] = (),
) -> list[MetricSpec]:
    """Return the metrics of a task: the mean of each graded column, and pass@k of right-or-wrong.

    Parameters
    ----------
    columns : mapping of str to ColumnInfo
        As `measuring.grader_columns` returns them.
    pass_at, pass_hat : sequence of int
        Each k of pass@k (one of k attempts succeeds) and of pass^k (all of them do).
    maj_at : sequence of int
        Each k of maj@k (the majority answer of k attempts is right), for columns with answers
        beside them; `graders.with_answers` gives graders that fill them.
    graders : sequence of Grader
        Those that have ``metrics()`` name metrics of their columns that are no means, such as a
        calibration error or the BLEU of a corpus.

    Returns
    -------
    list of MetricSpec
        For `summarise`.

    Raises
    ------
    InvalidInputError
        If a k is below 1, or there are some and no column says right or wrong, or what was
        answered.

    Examples
    --------
    >>> from eval_toolkit.graders import ExactMatch
    >>> [spec.name for spec in task_metrics(ExactMatch().columns(), pass_at=[4])]
    ['exact_match', 'exact_match_pass@4']
    """
    specs: list[MetricSpec] = []
    binary = [name for name, info in columns.items() if info.metric and info.binary]
    if (pass_at or pass_hat) and not binary:
        raise InvalidInputError(
            f"pass@k is for columns of right or wrong; there are {', '.join(columns)}"
        )
    if maj_at and not any(f"{name}_answer" in columns for name in binary):
        raise InvalidInputError(
            "maj@k needs a column of answers beside one of right or wrong; use "
            f"graders.with_answers. There are {', '.join(columns)}"
        )
    for name, info in columns.items():
        if info.metric:
            up = info.higher_is_better is not False
            specs.append(ms.mean_of(name, higher_is_better=up, bounds=info.bounds))
        if name in binary:
            specs += [ms.pass_at_k(name, k) for k in pass_at]
            specs += [ms.pass_hat_k(name, k) for k in pass_hat]
        if name in binary and (answer := f"{name}_answer") in columns:
            specs += [ms.maj_at_k(name, k, answer=answer) for k in maj_at]
    for grader in graders:
        own = getattr(grader, "metrics", None)
        specs += list(own()) if callable(own) else []
    return specs


def task_scorecard(
    records: Records,
    metrics: Sequence[MetricSpec],
    *,
    on_error: str = "exclude",
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int = 42,
) -> Scorecard:
    """Summarise the records of a task, over all and by subject.

    Parameters
    ----------
    records : Records
        What `measuring.measure` returned.
    metrics : sequence of MetricSpec
        What `task_metrics` returned.
    on_error : {"exclude", "as_zero", "fail"}, default "exclude"
        What a failed attempt counts as in value and interval; as in `summarise`.
    confidence, seed
        As in `summarise`.

    Returns
    -------
    Scorecard
        With a card per subject in ``slices``, and ``<metric>_macro`` (each subject counting the
        same) where there are several. Where attempts failed, ``details`` hold ``error_rate`` and
        what the value is with them left out (``exclude``), counted as 0 (``as_zero``; as the worst
        where 0 is best), and at the worst and best they could have been (``worst``, ``best``; None
        where there is no bound). ``bounds_ci`` holds the mean whatever they would have been: see
        `inference.missing_bounds`.

    Raises
    ------
    InvalidInputError
        If an attempt failed and ``on_error`` is "fail".

    Examples
    --------
    >>> records = Records.from_columns(
    ...     {"right": [1, 0, None, 1]}, unit_id=list("abcd"),
    ...     status={"right": ["ok", "ok", "error", "ok"]},
    ... )
    >>> card = task_scorecard(records, [ms.mean_of("right", bounds=(0.0, 1.0))])
    >>> details = card["right"].details
    >>> details["as_zero"], details["worst"], details["best"], details["error_rate"]
    (0.5, 0.5, 0.75, 0.25)
    """
    parts = np.unique(records.slices[_SUBJECT].astype(str)) if _SUBJECT in records.slices else ()
    several = len(parts) > 1
    card = summarise(
        records,
        metrics,
        by=_SUBJECT if several else None,
        macro=several,
        on_error=on_error,
        confidence=_validate.fraction(confidence, "confidence"),
        seed=seed,
    )
    cells, slices = dict(card), {name: dict(part) for name, part in card.slices.items()}
    for spec in metrics:
        if not isinstance(spec, ColumnSpec):
            continue
        if not (records.status[spec.column] == "error").any():
            continue
        told = _under_policies(records, spec, several, confidence)
        for name, inside in [("", cells), *slices.items()]:
            if inside[spec.name].n_errors:
                inside[spec.name] = _with(inside[spec.name], told[name])
        if several:
            macro = f"{spec.name}{_MACRO}"
            cells[macro] = _with(cells[macro], told[_MACRO])
    return Scorecard(cells, {name: Scorecard(part) for name, part in slices.items()})


def _with(cell: MetricResult, told: Mapping[str, Any]) -> MetricResult:
    """Return the cell with what is told; what holds in any case holds in the case of its own."""
    details = {**cell.details, **told}
    ends = details.get("bounds_ci")
    if ends is not None and cell.ci is not None:
        details["bounds_ci"] = [min(ends[0], cell.ci.ci_low), max(ends[1], cell.ci.ci_high)]
    return replace(cell, details=details)


def _under_policies(
    records: Records, spec: ColumnSpec, several: bool, confidence: float
) -> dict[str, dict[str, Any]]:
    """Return, over all ("") and per subject, the error rate and the value under each policy."""
    starts = unit_starts(records.unit_id)
    subjects = records.slices[_SUBJECT].astype(str) if several else np.full(len(records), "")
    failed = records.status[spec.column] == "error"
    told: dict[str, dict[str, Any]] = {"": {"error_rate": float(failed.mean())}}
    for name in np.unique(subjects).tolist() if several else ():
        told[name] = {"error_rate": float(failed[subjects == name].mean())}
    told[_MACRO] = dict(told[""])
    low, high = spec.bounds
    worst, best = (low, high) if spec.higher_is_better else (high, low)
    zero = value_of_failure(spec)
    counted = {"as_zero": math.inf if zero is None else zero, "worst": worst, "best": best}
    ends: dict[str, tuple[FloatArray, BoolArray]] = {}
    for policy, value in {"exclude": None, **counted}.items():
        values = None
        if value is None or math.isfinite(value):
            values = _unit_values(records, spec, starts, value)
        if values and value is not None and spec.answer and policy in ("worst", "best"):
            values = _whatever_was_voted(values, np.logical_or.reduceat(failed, starts), value)
        if values and policy in ("worst", "best"):
            ends[policy] = values
        for name, number in _means(values, subjects[starts], several).items():
            told[name][policy] = number
    if len(ends) == 2:
        groups = records.group[starts].astype(str)
        for name in told.keys() - {_MACRO}:
            mine = subjects[starts] == name if name else np.ones(len(starts), dtype=np.bool_)
            told[name]["bounds_ci"] = _bounds_ci(ends, mine, groups, spec.bounds, confidence)
        if several:
            parts = [subjects[starts] == name for name in np.unique(subjects).tolist()]
            told[_MACRO]["bounds_ci"] = _macro_bounds_ci(
                ends, parts, groups, spec.bounds, confidence
            )
    return told


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
    records: Records, spec: ColumnSpec, starts: IntArray, failed_is: float | None
) -> tuple[FloatArray, BoolArray]:
    """Return one value per unit with failed attempts left out or of one value, and who has one."""
    status = records.status[spec.column]
    measured = status == "ok"
    values = np.where(measured, records.columns[spec.column], 0.0)
    if failed_is is not None:
        values = np.where(status == "error", failed_is, values)
        measured = measured | (status == "error")
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
    given: tuple[FloatArray, BoolArray] | None, subjects: NDArray[Any], several: bool
) -> dict[str, float | None]:
    """Return the mean over all units, per subject, and over subjects; None where there is none."""
    names = np.unique(subjects).tolist() if several else []
    if given is None:
        return dict.fromkeys(["", *names, _MACRO])
    values, there = given
    means: dict[str, float | None] = {"": _mean(values[there])}
    for name in names:
        means[name] = _mean(values[there & (subjects == name)])
    known = [means[name] for name in names if means[name] is not None]
    means[_MACRO] = _mean(np.array(known, dtype=np.float64))
    return means


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if len(values) else None


def by_slice(task: str, model: str, records: Records, card: Scorecard) -> dict[str, Any]:
    """Return the cells of one task and model in the shape that results have on disk.

    Parameters
    ----------
    task, model : str
        Names of the task and of the model.
    records : Records
        Of the task.
    card : Scorecard
        What `task_scorecard` made of them.

    Returns
    -------
    dict
        ``{task: {"n": …, "by_scorer": {model: cells}, "strata": {"subject=…": …}}}``.

    Examples
    --------
    >>> records = Records.from_columns({"right": [1, 0]}, unit_id=["a", "b"])
    >>> card = task_scorecard(records, [ms.mean_of("right", bounds=(0.0, 1.0))])
    >>> by_slice("quiz", "m", records, card)["quiz"]["by_scorer"]["m"]["right"]["value"]
    0.5
    """
    units, first = np.unique(records.unit_id.astype(str), return_index=True)
    entry: dict[str, Any] = {"n": len(units), "by_scorer": {model: card.to_dict()}}
    if card.slices:
        subjects = records.slices[_SUBJECT].astype(str)[first]
        entry["strata"] = {
            f"{_SUBJECT}={name}": {
                "n": int((subjects == name).sum()),
                "by_scorer": {model: part.to_dict()},
            }
            for name, part in card.slices.items()
        }
    return {task: entry}
