"""Checks of eval-framework's averages against its rows."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit.integrations.importing.logs import Stated, Value
from eval_toolkit.integrations.importing.plain_files import number_or_none, same, shown

BOOKKEEPING = ("Bytes", "SequencePositions")
"""Metrics that are only counts."""
NO_SUBJECT = "no_subject"
_MACRO = "the mean of the subjects' means"
_RATIOS = {"BitsPerByte": "BitsPerByte (mean-of-ratios)"}
"""Names of some metrics in the averages of newer releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Row of the results file."""

    subject: str
    number: int
    metric: str
    key: str
    column: str
    value: Value
    higher_is_better: bool | None = None
    """Direction of the metric; None if the row does not specify it."""
    metric_class: str = ""


def averages(
    told: Mapping[str, Any], rows: Sequence[Measured], repeats: int
) -> tuple[list[Stated], list[str]]:
    """Return the reported averages, with notes on those that differ from the rows.

    ``told`` is the content of ``aggregated_results.json``; ``rows`` is empty without a results
    file.
    """
    if not rows:
        return _alone(told)
    stated: list[Stated] = []
    notes: list[str] = []
    by_metric: dict[str, list[Measured]] = defaultdict(list)
    for row in rows:
        by_metric[row.metric].append(row)
    for metric, inside in by_metric.items():
        names = (_RATIOS.get(metric, metric), metric)
        label = next((name for name in names if f"Average {name}" in told), metric)
        one, said = _average(told, label, inside, repeats)
        stated += [*one, *_aggregated(told, inside)]
        notes += said
    return stated, notes


def _aggregated(told: Mapping[str, Any], rows: Sequence[Measured]) -> list[Stated]:
    """Return the values of a metric's own aggregators: ``Pass@1 Class.Metric``."""
    end = f" {rows[0].metric_class}.{rows[0].metric}"
    found = []
    for name, value in told.items():
        number = number_or_none(value)
        if name.endswith(end) and number is not None:
            how = f"{name.removesuffix(end)} over answers to one prompt"
            found.append(Stated(column=rows[0].column, name=name, value=number, aggregation=how))
    return found


def _alone(told: Mapping[str, Any]) -> tuple[list[Stated], list[str]]:
    """Return the averages of an output without rows, in which subject sizes are unknown."""
    stated, notes = [], []
    for name, value in told.items():
        metric = name.removeprefix("Average ")
        if metric == name or f"ErrorFreeRatio {metric}" not in told or " - " in metric:
            continue
        number = number_or_none(value)
        if number is None:
            notes.append(f"{name} is {shown(value)}, which is not a finite number; omitted")
            continue
        if metric in BOOKKEEPING:
            continue
        parts = sum(key.startswith(f"Average {metric} - ") for key in told)
        n = number_or_none(told.get(f"NumSamples {metric}"))
        error = number_or_none(told.get(f"StdErr {metric}")) if parts == 0 else None
        stated.append(
            Stated(
                column=metric,
                name=name,
                value=number,
                stderr=error,
                n=int(n) if n is not None and parts == 0 else None,
                aggregation="mean" if parts == 0 else _MACRO,
                itself=parts > 0,
                stderr_name="sample sd / sqrt(n)" if error is not None else "",
            )
        )
        if parts and f"StdErr {metric}" in told:
            notes.append(
                f"StdErr {metric}, {shown(told[f'StdErr {metric}'])}, covers {parts} parts, for "
                "which it is too large by the square root of their number; omitted"
            )
    return stated, notes


def _average(
    told: Mapping[str, Any], label: str, rows: Sequence[Measured], repeats: int
) -> tuple[list[Stated], list[str]]:
    """Return ``Average M``, with notes on discrepancies."""
    name = f"Average {label}"
    if name not in told:
        return [], [f"{name} is not among the averages"]
    value = number_or_none(told[name])
    notes = _lost(label, rows, told)
    if value is None:
        return [], [*notes, f"{name} is {shown(told[name])}, which is not a finite number; omitted"]
    groups = _groups(rows)
    made = _mean([_mean(values) for values in groups.values()]) if groups else None
    if made is not None and not same(made, value):
        notes.append(f"{name} is stated as {value!r}, but the rows give {made!r}")
    notes += _parts(told, label, rows)
    column = rows[0].column
    keys = {row.key for row in rows}
    n = sum(map(len, groups.values()))
    even = len({len(values) for values in groups.values()}) <= 1
    tries = Counter((row.subject, row.number // repeats) for row in rows if _is_ok(row))
    plain = len(keys) == 1 and even and len(set(tries.values())) <= 1
    error, how, said = _stderr(told, label, groups, repeats)
    notes += said
    number = Stated(
        column=column if len(keys) == 1 else label,
        name=name,
        value=value,
        stderr=error if plain else None,
        n=n,
        aggregation="mean" if plain else _MACRO if len(keys) == 1 else "the mean of keys' means",
        itself=len(keys) > 1,
        stderr_name=how,
    )
    return [number], notes


def _groups(rows: Sequence[Measured]) -> dict[tuple[str, str], list[float]]:
    """Return the available values by key and subject."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if isinstance(row.value, float):
            found[row.key, row.subject].append(row.value)
    return dict(found)


def _is_ok(row: Measured) -> bool:
    return isinstance(row.value, float)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _lost(label: str, rows: Sequence[Measured], told: Mapping[str, Any]) -> list[str]:
    """Return notes on rows and entire subjects that an average excludes."""
    failed = [
        row for row in rows if not isinstance(row.value, float) and row.value.status == "error"
    ]
    if not failed:
        return []
    zero = number_or_none(told.get(f"Average {label} (including Errors)"))
    also = "" if zero is None else f"; counting them as 0, it is stated as {zero:g}"
    notes = [f"Average {label} excludes {len(failed)} of {len(rows)} rows, which have errors{also}"]
    there = {row.subject for row in rows if isinstance(row.value, float)}
    gone = sorted({row.subject for row in rows} - there)
    if gone:
        notes.append(f"Average {label} excludes {', '.join(gone)}, where all rows failed")
    return notes


def _parts(told: Mapping[str, Any], label: str, rows: Sequence[Measured]) -> list[str]:
    """Return a note for each subject or key whose reported mean does not match its rows."""
    notes = []
    for field in ("subject", "key"):
        names = sorted({getattr(row, field) for row in rows})
        for name in names if len(names) > 1 else ():
            value = number_or_none(told.get(f"Average {label} - {name}"))
            groups = _groups([row for row in rows if getattr(row, field) == name])
            if value is None or not groups:
                continue
            made = _mean([_mean(values) for values in groups.values()])
            if not same(made, value):
                notes.append(
                    f"Average {label} - {name} is stated as {value!r}, but the rows give {made!r}"
                )
    return notes


def _stderr(
    told: Mapping[str, Any],
    label: str,
    groups: Mapping[tuple[str, str], Sequence[float]],
    repeats: int,
) -> tuple[float | None, str, list[str]]:
    """Return the standard error and its method if it is valid, otherwise notes on what is wrong."""
    name = f"StdErr {label}"
    if told.get(name) is None:
        return None, "", []
    value = number_or_none(told[name])
    if value is None:
        return None, "", [f"{name} is {shown(told[name])}, which is not a finite number; omitted"]
    notes = []
    counted = number_or_none(told.get(f"NumSamples {label}"))
    there = sum(map(len, groups.values()))
    if counted is not None and counted != there:
        notes.append(f"NumSamples {label} is {counted:g}, but {there} rows have a value")
    if repeats > 1:
        said = f"{name} treats the {repeats} answers to an item as independent, so it is too small"
        return None, "repeats as independent samples", [*notes, said]
    if len(groups) == 1:
        return value, "sample sd / sqrt(n)", notes
    right = _macro_error(groups)
    if right is None:
        return (
            None,
            "",
            [
                *notes,
                f"{name}, {value:.4g}, cannot be checked: a subject has fewer than two values",
            ],
        )
    if math.isclose(value, right, rel_tol=1e-6):
        return None, "sqrt(sum(s²/n)) / G", notes
    said = f"{name}, {value:.4g}, is not the standard error of {_MACRO}, which is {right:.4g}"
    if math.isclose(value, right * math.sqrt(len(groups)), rel_tol=1e-6):
        said = f"{said}: too large by sqrt({len(groups)})"
    return None, "", [*notes, f"{said}; omitted"]


def _macro_error(groups: Mapping[tuple[str, str], Sequence[float]]) -> float | None:
    """Return the standard error of a mean of group means; None if a group has only one value."""
    if not groups or any(len(values) < 2 for values in groups.values()):
        return None
    total = []
    for values in groups.values():
        mean = _mean(values)
        variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
        total.append(variance / len(values))
    return math.sqrt(math.fsum(total)) / len(groups)
