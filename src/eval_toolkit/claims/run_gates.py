"""Gates on a whole run: headlines, failures, leakage, sources, diagnostics, strict JSON."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsFloat

from eval_toolkit.claims.paths import (
    MetricPath,
    absence,
    blocks,
    has,
    lookup,
    number_at,
    shown,
    was,
)
from eval_toolkit.claims.reports import EvidenceGate, Severity
from eval_toolkit.claims.verdicts import (
    Payload,
    Verdict,
    compared,
    comparison_of,
    non_empty,
    verdict_gate,
)
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.runs.results import Results


def headline_present_gate(
    path: MetricPath = "headline", *, severity: Severity = "error"
) -> EvidenceGate:
    """Return a gate that passes if the run, or every scorer, has a headline.

    Parameters
    ----------
    path : str or sequence of str, default "headline"
        Path in the results or in each scorer's results; skipped scorers need no headline.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``headline_present:<path>``.

    Examples
    --------
    >>> headline_present_gate().evaluate({"headline": {"f1": 0.9}}).passed
    True
    """
    name = shown(path)

    def decide(result: Payload, manifest: Payload) -> Verdict:
        if has(result, path):
            return True, f"{name} exists", {}
        results = Results.of(result)
        tested = {f"{one}, {fold}" for one in results.slices for fold in results.folds}
        tested = tested or {*results.slices}
        scored = [
            (f"{where}/{scorer}", block)
            for where, scorer, block in blocks(results)
            if where in tested and not absence(block)
        ]
        missing = [where for where, block in scored if not has(block, path)]
        if scored and not missing:
            return True, f"{name} exists for every scorer", {}
        places = ", ".join(missing) or "the results"
        return False, f"there is no {name} in {places}", {"missing": missing}

    return verdict_gate(f"headline_present:{name}", decide, severity=severity)


def no_scorer_errors_gate(*, severity: Severity = "error") -> EvidenceGate:
    """Return a gate that passes if no scorer failed on any slice, part or fold.

    Parameters
    ----------
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``no_scorer_errors``.

    Examples
    --------
    >>> result = {"by_slice": {"test": {"by_scorer": {"guard": {"error": "out of memory"}}}}}
    >>> no_scorer_errors_gate().evaluate(result).message
    'test/guard failed: out of memory'
    """

    def decide(result: Payload, manifest: Payload) -> Verdict:
        failed = {
            f"{where}/{scorer}": block["error"]
            for where, scorer, block in blocks(Results.of(result))
            if "error" in block
        }
        message = "; ".join(f"{where} failed: {why}" for where, why in failed.items())
        return not failed, message or "no scorer failed", {"failed": failed}

    return verdict_gate("no_scorer_errors", decide, severity=severity)


def no_leakage_errors_gate(*, severity: Severity = "error") -> EvidenceGate:
    """Return a gate that passes if leakage checks were run and found no errors.

    Parameters
    ----------
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``no_leakage_errors``. A run without a leakage report fails, because no check was run.

    Examples
    --------
    >>> found = {"check_name": "ExactDuplicateCheck", "severity": "error", "n_affected": 3}
    >>> result = {"config": {"leakage_report": {"findings": [found]}}}
    >>> no_leakage_errors_gate().evaluate(result).message
    'ExactDuplicateCheck: 3 rows'
    """

    def decide(result: Payload, manifest: Payload) -> Verdict:
        reports = list(leakage_reports(result, manifest))
        if not reports:
            how = "check TRAIN PREDS --json > FILE and score PREDS --leakage FILE --save RUN"
            return False, f"no leakage report: no check was run or recorded; run {how}", {}
        errors = [
            finding
            for report in reports
            for finding in lookup(report, ["findings"])
            if finding.get("severity") == "error" and finding.get("n_affected", 0) > 0
        ]
        message = "; ".join(
            f"{finding.get('check_name', 'a check')}: {finding['n_affected']} rows"
            for finding in errors
        )
        return not errors, message or "no leakage found", {"findings": errors}

    return verdict_gate("no_leakage_errors", decide, severity=severity)


def leakage_reports(result: Payload, manifest: Payload) -> Iterator[Payload]:
    """Yield the leakage reports in the results, the manifest or the folds."""
    folds = Results.of(result).folds.values()
    for payload in (result, manifest, *folds):
        for path in (["leakage_report"], ["config", "leakage_report"]):
            if isinstance(payload, Mapping) and has(payload, path):
                yield from _reports_in(lookup(payload, path))


def _reports_in(node: Any) -> Iterator[Payload]:
    """Yield a single report, or the reports of several folds."""
    if isinstance(node, Mapping) and "findings" not in node:
        for part in node.values():
            yield from _reports_in(part)
    elif isinstance(node, Mapping):
        yield node


def source_role_gate(
    required_roles: Iterable[str], *, severity: Severity = "error"
) -> EvidenceGate:
    """Return a gate that passes if the manifest has a source for each required role.

    Parameters
    ----------
    required_roles : iterable of str
        Required roles, for example ``["train", "locked_eval"]``.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``source_role:<role>,<role>``.

    Raises
    ------
    InvalidInputError
        If there are no roles, or one is not a string.

    Examples
    --------
    >>> manifest = {"source_roles": [{"source": "a.csv", "role": "train"}]}
    >>> source_role_gate(["train", "locked_eval"]).evaluate({}, manifest).message
    "the manifest has no source with the role 'locked_eval'"
    """
    if isinstance(required_roles, str):
        raise InvalidTypeError(f"`required_roles` must be a list; write [{required_roles!r}]")
    roles = [non_empty(role, "required_roles") for role in required_roles]
    if not roles:
        raise InvalidInputError("`required_roles` is empty; name at least one role")

    def decide(result: Payload, manifest: Payload) -> Verdict:
        records = manifest.get("source_roles") or []
        played = {record["role"] for record in records}
        missing = [role for role in roles if role not in played]
        named = ", ".join(map(repr, missing))
        message = f"the manifest has no source with the role {named}" if missing else ""
        return not missing, message or "every required role has a source", {"roles": sorted(played)}

    return verdict_gate(f"source_role:{','.join(roles)}", decide, severity=severity)


def external_diagnostic_gate(
    path: MetricPath,
    *,
    op: str | None = None,
    threshold: SupportsFloat | None = None,
    severity: Severity = "error",
) -> EvidenceGate:
    """Return a gate that passes if a diagnostic exists and satisfies its bound.

    Parameters
    ----------
    path : str or sequence of str
        Path of the diagnostic in the results or the manifest, such as
        ``"aggregate_evidence.drift.psi"``.
    op, threshold : str and float, optional
        Required comparison, as in `metric_threshold_gate`; by default, any value passes.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``external_diagnostic:<path>``.

    Raises
    ------
    InvalidInputError
        If only one of ``op`` and ``threshold`` is given.

    Examples
    --------
    >>> gate = external_diagnostic_gate("metadata.psi", op="<", threshold=0.1)
    >>> gate.evaluate({}, {"metadata": {"psi": 0.04}}).passed
    True
    """
    name = shown(path)
    if (op is None) != (threshold is None):
        raise InvalidInputError("pass both `op` and `threshold`, or neither")
    comparison = None if op is None or threshold is None else (op, *comparison_of(op, threshold))

    def decide(result: Payload, manifest: Payload) -> Verdict:
        where = result if has(result, path) else manifest
        if comparison is None:
            found = lookup(where, path)
            reason = absence(found)
            message = f"{name} {was(reason)}" if reason else f"{name} exists"
            return not reason, message, {"value": found}
        value, reason, found = number_at(where, path)
        return compared(name, value, reason, found, *comparison)

    return verdict_gate(f"external_diagnostic:{name}", decide, severity=severity)


def strict_artifact_gate(*, severity: Severity = "error") -> EvidenceGate:
    """Return a gate that passes if all numbers in the results and manifest are finite.

    Parameters
    ----------
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``strict_artifact``; the message lists the locations of non-finite numbers.

    Examples
    --------
    >>> strict_artifact_gate().evaluate({"by_slice": {"test": {"n": float("nan")}}}).message
    'not finite: result.by_slice.test.n'
    """

    def decide(result: Payload, manifest: Payload) -> Verdict:
        places = [*_not_finite(result, "result"), *_not_finite(manifest, "manifest")]
        message = f"not finite: {', '.join(places)}" if places else "every number is finite"
        return not places, message, {"paths": places}

    return verdict_gate("strict_artifact", decide, severity=severity)


def _not_finite(node: Any, where: str) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _not_finite(value, f"{where}.{key}")
    elif isinstance(node, float):
        if not math.isfinite(node):
            yield where
    elif hasattr(node, "tolist"):
        yield from _not_finite(node.tolist(), where)
    elif isinstance(node, Sequence) and not isinstance(node, (str, bytes)):
        for index, value in enumerate(node):
            yield from _not_finite(value, f"{where}[{index}]")
