"""Claim results as a table, for the command line and reports."""

from collections.abc import Mapping
from typing import Any

from eval_toolkit._internal.display import MISSING, Cell, Number, Rows, Status, Table
from eval_toolkit.claims.reports import ClaimReport, ClaimResult
from eval_toolkit.claims.verdicts import digits


def claims_lead(report: ClaimReport) -> str:
    """Return a summary of how many claims hold.

    Parameters
    ----------
    report : ClaimReport
        Result of `evaluate_gate` or `evaluate_claims`.

    Returns
    -------
    str
        Summary such as "3 of 5 claims hold, 1 failed, 1 failed as warnings".

    Examples
    --------
    >>> claims_lead(ClaimReport(()))
    '0 of 0 claims hold'
    """
    n = len(report.claims)
    failed = sum(not claim.passed and claim.severity == "error" for claim in report.claims)
    warned = sum(not claim.passed and claim.severity == "warning" for claim in report.claims)
    lead = f"{n - failed - warned} of {n} claims hold"
    lead += f", {failed} failed" if failed else ""
    return lead + (f", {warned} failed as warnings" if warned else "")


def claims_table(report: ClaimReport) -> Table:
    """Return one row per claim: verdict, name, tested number, bound and reason.

    Parameters
    ----------
    report : ClaimReport
        Result of `evaluate_gate` or `evaluate_claims`.

    Returns
    -------
    Table
        Table printed by ``eval-toolkit gate``.

    Examples
    --------
    >>> claims_table(ClaimReport(())).header
    ('result', 'claim', 'number', 'bound', 'reason')
    """
    rows: Rows = [
        [Status(_outcome(claim)), claim.name, *_numbers(claim), claim.message]
        for claim in report.claims
    ]
    return Table(["result", "claim", "number", "bound", "reason"], rows)


def _outcome(claim: ClaimResult) -> str:
    if claim.passed:
        return "pass"
    return "FAIL" if claim.severity == "error" else "warning"


def _numbers(claim: ClaimResult) -> tuple[Cell, Cell]:
    """Return the tested number and its bound, if the claim has them."""
    for evidence in claim.evidence.values():
        if "threshold" in evidence:
            return _with_sign(evidence.get("value"), evidence["op"], evidence["threshold"])
        if "margin" in evidence:
            return _difference(evidence)
        if "lowest_bound" in evidence:
            return Number(evidence["lowest_bound"]), MISSING
    return MISSING, MISSING


def _difference(evidence: Mapping[str, Any]) -> tuple[Cell, Cell]:
    """Return the bound of the difference that is compared with the margin."""
    if evidence["higher_is_better"]:
        return _with_sign(evidence.get("ci_low"), ">", -evidence["margin"])
    return _with_sign(evidence.get("ci_high"), "<", evidence["margin"])


def _with_sign(value: float | None, sign: str, bound: float) -> tuple[Cell, Cell]:
    shown = ".3f" if value is None else digits(value, bound)
    return Number(value, shown), Number(bound, "g", bound=sign)
