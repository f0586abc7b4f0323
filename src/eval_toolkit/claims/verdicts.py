"""Helpers shared by gates: comparisons, wording, and gate construction."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

from eval_toolkit._internal import validation
from eval_toolkit.claims.reports import EvidenceGate, GateResult, Severity
from eval_toolkit.errors import InvalidInputError, MissingColumnError

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


Payload = Mapping[str, Any]


Verdict = tuple[bool, str, Mapping[str, Any]]
"""Whether the gate passed, its message, and its evidence."""


def verdict_gate(
    name: str,
    decide: Callable[[Payload, Payload], Verdict],
    *,
    severity: Severity = "error",
    description: str = "",
) -> EvidenceGate:
    """Return a gate for a check function that returns (passed, message, evidence).

    If a name is missing from the payload, the gate fails with a readable message.

    Examples
    --------
    >>> gate = verdict_gate("named", lambda r, m: ("run_id" in r, "looked for run_id", {}))
    >>> gate.evaluate({}).message
    'looked for run_id'
    """
    check = functools.partial(_check, name=name, decide=decide, severity=severity)
    return EvidenceGate(name, check, description, severity)


def _check(
    result: Payload,
    manifest: Payload,
    *,
    name: str,
    decide: Callable[[Payload, Payload], Verdict],
    severity: Severity,
) -> GateResult:
    try:
        passed, message, evidence = decide(result, manifest)
    except MissingColumnError as error:
        return GateResult(name, False, severity, str(error))
    return GateResult(name, passed, severity, message, evidence)


def non_empty(value: str, name: str) -> str:
    """Return the string; raise if it is empty or of another type."""
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"`{name}` is {value!r}; it must be a non-empty string")
    return value


def comparison_of(
    op: str, threshold: SupportsFloat
) -> tuple[Callable[[float, float], bool], float]:
    """Return the operator function and the finite threshold."""
    validation.choice(op, "op", tuple(OPERATORS))
    return OPERATORS[op], validation.number(threshold, "threshold")


def digits(value: float, limit: float) -> str:
    """Return a number format with three decimals, or more if rounding would cross the limit.

    Examples
    --------
    >>> digits(0.86491, 0.9), digits(0.79996, 0.8)
    ('.3f', '.5f')
    """
    for places in range(3, 17):
        shown = float(f"{value:.{places}f}")
        if (shown > limit) - (shown < limit) == (value > limit) - (value < limit):
            return f".{places}f"
    return ""


def compared(
    where: str,
    value: float | None,
    reason: str,
    found: Any,
    op: str,
    compare: Callable[[float, float], bool],
    limit: float,
) -> Verdict:
    """Return the result of comparing a value with a limit, or the reason why there is no value."""
    evidence: dict[str, Any] = {"value": value, "op": op, "threshold": limit}
    if isinstance(found, Mapping):
        evidence["cell"] = found
    if value is None:
        return False, f"{where} {reason}", evidence
    rule = f"it must be {op} {limit:g}"
    holds = compare(value, limit)
    more = "" if holds else _too_wide(value, found, compare, limit)
    return holds, f"{where} is {value:{digits(value, limit)}}; {rule}{more}", evidence


def _too_wide(end: float, found: Any, compare: Callable[[float, float], bool], limit: float) -> str:
    """Return a note if the end of an interval misses a limit that the value itself meets."""
    value = found.get("value") if isinstance(found, Mapping) else None
    if not isinstance(value, int | float) or value == end or not compare(value, limit):
        return ""
    return f". The value, {value:{digits(value, limit)}}, is; more units would narrow the interval"
