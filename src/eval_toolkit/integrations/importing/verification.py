"""Check the values reported in a log against its samples."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from eval_toolkit.integrations.importing.logs import Log, Stated
from eval_toolkit.scorecards import MetricResult, Records

_SAME = 1e-12
"""Tolerance for means, which depend on the order of summation; relative to max(mean, 1)."""
_SAME_ERROR = 1e-9
_OF_DRAWS = 0.25
"""Relative tolerance of a standard error estimated from random draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Reported value, and the value recomputed from the samples.

    Examples
    --------
    >>> Checked(column="acc", name="acc,none", stated=0.5, verdict="no samples").agrees is None
    True
    """

    column: str
    name: str
    """Name of the value in the log."""
    stated: float
    recomputed: float | None = None
    """Mean over items, recomputed from the log's samples; None if there are no values."""
    n: int | None = None
    """Number of items."""
    n_stated: int | None = None
    """Number of samples reported in the log."""
    stated_stderr: float | None = None
    stderr: float | None = None
    """Standard error of the mean, computed over groups if there are any."""
    agrees: bool | None = None
    """Whether both means agree to within 1e-12; None if they cannot be compared."""
    stderr_agrees: bool | None = None
    """Whether the standard error agrees with the samples; None if it cannot be compared."""
    verdict: str
    """Result of the check in words."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return asdict(self)


def check_log(
    log: Log, records: Records | None, cells: Mapping[str, MetricResult]
) -> tuple[list[Checked], list[str]]:
    """Check the reported values of a log against its samples.

    Returns one entry per reported value, and notes on failed or missing samples and on invalid
    standard errors.

    Examples
    --------
    >>> from eval_toolkit.integrations.importing.logs import LoggedSample
    >>> from eval_toolkit.integrations.importing.measurement import log_card, log_records
    >>> samples = [LoggedSample(unit_id=str(n), values={"acc": 1.0}) for n in range(5)]
    >>> log = Log(tool="lm-eval", task="t", model="m", samples=samples,
    ...     stated=[Stated(column="acc", name="acc", value=1.0, stderr=0.0, n=5)])
    >>> checked, _ = check_log(log, log_records(log), log_card(log, log_records(log)))
    >>> print(checked[0].verdict)
    same mean; its standard error is 0: at 100 % it does not reflect uncertainty
    """
    checked = [_checked(one, log, records, cells) for one in log.stated]
    wrong = [one for one in checked if one.agrees is False or one.stderr_agrees is False]
    notes = [
        f"{one.column}: {one.name} is stated as {one.stated:.6g}: {one.verdict}" for one in wrong
    ]
    return checked, [*notes, *_notes(log, records, cells)]


def _checked(
    one: Stated, log: Log, records: Records | None, cells: Mapping[str, MetricResult]
) -> Checked:
    about: dict[str, Any] = {
        "column": one.column,
        "name": one.name,
        "stated": one.value,
        "n_stated": one.n,
        "stated_stderr": one.stderr,
    }
    cell = cells.get(one.column)
    again = one.itself and cell is not None and cell.value is not None
    if one.aggregation != "mean" and not again:
        return Checked(
            **about, verdict=f"as stated, not recomputed (aggregation: {one.aggregation})"
        )
    if records is None or cell is None:
        why = "no samples" if records is None else "not in the samples"
        return Checked(**about, verdict=f"as stated: {why}")
    if cell.value is None:
        return Checked(**about, n=cell.n_units, verdict=f"as stated: {cell.reason}")
    agrees = math.isclose(cell.value, one.value, rel_tol=_SAME, abs_tol=_SAME)
    about |= {"recomputed": cell.value, "n": cell.n_units, "agrees": agrees}
    stderr = cell.details.get("standard_error")
    about["stderr"] = None if stderr is None else float(stderr)
    said = [_of_mean(one, log, records, cell, agrees)]
    if not (_partial(one, log, records) or (_as_zero(one, cell) and not agrees)):
        about["stderr_agrees"], words = _of_error(one, cell, about["stderr"])
        said += [words] if words else []
    return Checked(**about, verdict="; ".join(said))


def _partial(one: Stated, log: Log, records: Records) -> bool:
    """Return whether the value was computed from more samples than the log contains."""
    told = one.n if one.n is not None else log.n_planned
    return told is not None and told > len(records)


def _of_mean(one: Stated, log: Log, records: Records, cell: MetricResult, agrees: bool) -> str:
    told = one.n if one.n is not None else log.n_planned
    of = f" of {len(records)} of {told} samples" if _partial(one, log, records) else ""
    if agrees:
        return f"same {'value' if one.itself else 'mean'}{of}"
    by = f"differs by {abs(cell.value - one.value):.3g}" if cell.value is not None else "differs"
    return f"{by}{_as_zero(one, cell) or of}"


def _as_zero(one: Stated, cell: MetricResult) -> str:
    """Return a note if the log counts failed or missing samples as 0."""
    zero = cell.details.get("as_zero")
    if cell.n_errors and zero is not None and math.isclose(zero, one.value, rel_tol=_SAME):
        return f": the log counts {cell.n_errors} failed samples as 0"
    n, absent = cell.n_units or 0, cell.n_skipped
    if absent and math.isclose((cell.value or 0.0) * n / (n + absent), one.value, rel_tol=_SAME):
        return f": the log counts {absent} samples without a value as 0"
    return ""


def _of_error(one: Stated, cell: MetricResult, ours: float | None) -> tuple[bool | None, str]:
    """Return whether a standard error is correct, and a comment on it."""
    if one.stderr is None:
        return None, ""
    if one.stderr == 0.0 and cell.value in (0.0, 1.0):
        percent = "100" if cell.value else "0"
        said = f"its standard error is 0: at {percent} % it does not reflect uncertainty"
        return None, said
    if ours is None:
        return None, ""
    off = _OF_DRAWS if one.stderr_name.startswith("bootstrap") else _SAME_ERROR
    if math.isclose(one.stderr, ours, rel_tol=off, abs_tol=_SAME_ERROR):
        return True, ""
    grouped = cell.n_groups is not None and cell.n_groups != cell.n_units
    how = f"over {cell.n_groups} groups" if grouped else "sd / sqrt(n)"
    if one.stderr_name.startswith("clustered") and not grouped:
        said = f"its standard error {one.stderr:.4g} is {one.stderr_name}; {how} is {ours:.4g}"
        return None, said
    made = f" ({one.stderr_name})" if one.stderr_name not in ("", "sample sd / sqrt(n)") else ""
    said = f"its standard error {one.stderr:.4g}{made} is not {how}, which is {ours:.4g}"
    return False, said


def _notes(log: Log, records: Records | None, cells: Mapping[str, MetricResult]) -> Iterator[str]:
    if records is None:
        return
    n_tries = len(records)
    if log.n_planned is not None and n_tries < log.n_planned:
        yield (
            f"{n_tries} of {log.n_planned} samples are in the log; numbers recomputed from "
            f"samples do not include the other {log.n_planned - n_tries}"
        )
    for name, why in _failed(records):
        zero = cells[name].details.get("as_zero") if name in cells else None
        counted = "" if zero is None else f"; counted as 0, {name} would be {zero:.4g}"
        yield f"{name}: {why}{counted}"
    stated = {one.column for one in log.stated}
    for name, state in records.status.items():
        n = int((state == "skipped").sum())
        if n and not (n == n_tries and name in stated):
            yield f"{name}: {n} of {n_tries} samples have no value and are excluded"


def _failed(records: Records) -> Sequence[tuple[str, str]]:
    """Return the columns with failed attempts, each with its most frequent reason."""
    told: dict[str, str] = {}
    for name, state in records.status.items():
        failed = state == "error"
        n = int(failed.sum())
        if not n:
            continue
        reasons = records.reason[name][failed].tolist()
        most = max(sorted(set(reasons)), key=reasons.count)
        said = f"{n} of {len(records)} samples failed and are excluded from the mean ({most[:120]})"
        told[name] = said
    return list(told.items())
