"""Gates on slices and scorers; each one is an `EvidenceGate` that checks a results payload."""

from typing import Any, SupportsFloat, SupportsIndex

from eval_toolkit._internal import validation
from eval_toolkit.claims.paths import (
    MetricPath,
    absence,
    block_of,
    entry_of,
    lookup,
    number_at,
    shown,
    tested_blocks,
    tested_entries,
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
from eval_toolkit.inference import wilson_interval
from eval_toolkit.runs.addresses import Address
from eval_toolkit.runs.results import Results


def required_slice_gate(slice_name: str, *, severity: Severity = "error") -> EvidenceGate:
    """Return a gate that passes if the run has a slice with the given name.

    Parameters
    ----------
    slice_name : str
        Name of the slice; dots are not separators.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``required_slice:<slice>``.

    Examples
    --------
    >>> required_slice_gate("test").evaluate({"by_slice": {"test": {}}}).passed
    True
    """
    non_empty(slice_name, "slice_name")

    def decide(result: Payload, manifest: Payload) -> Verdict:
        entry_of(Results.of(result), slice_name)
        return True, f"slice {slice_name!r} exists", {}

    return verdict_gate(f"required_slice:{slice_name}", decide, severity=severity)


def required_scorer_gate(
    slice_name: str, scorer: str, *, severity: Severity = "error"
) -> EvidenceGate:
    """Return a gate that passes if a scorer was evaluated on a slice without failing.

    Parameters
    ----------
    slice_name, scorer : str
        Names; dots are not separators.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``required_scorer:<slice>:<scorer>``.

    Examples
    --------
    >>> result = {"by_slice": {"test": {"by_scorer": {"judge": {"skipped": "costs too much"}}}}}
    >>> required_scorer_gate("test", "judge").evaluate(result).message
    "scorer 'judge' on slice 'test' was skipped: costs too much"
    """
    non_empty(slice_name, "slice_name"), non_empty(scorer, "scorer")

    def decide(result: Payload, manifest: Payload) -> Verdict:
        found = tested_blocks(Results.of(result), slice_name, scorer)
        reasons = [reason for block in found if (reason := absence(block))]
        where = f"scorer {scorer!r} on slice {slice_name!r}"
        if not reasons:
            return True, f"{where} exists", {}
        often = f" (in {len(reasons)} of {len(found)} folds)" if len(found) > 1 else ""
        return False, f"{where} {was(reasons[0])}{often}", {"reason": reasons[0]}

    return verdict_gate(f"required_scorer:{slice_name}:{scorer}", decide, severity=severity)


def required_metric_gate(
    slice_name: str, scorer: str, metric_path: MetricPath, *, severity: Severity = "error"
) -> EvidenceGate:
    """Return a gate that passes if a metric has a finite value.

    Parameters
    ----------
    slice_name, scorer : str
        Names; dots are not separators.
    metric_path : str or sequence of str
        Path of the metric in the scorer's results. A string is matched greedily, so names with
        dots (``recall_at_fpr_0.01``) are found; a sequence contains the keys one by one.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``required_metric:<slice>:<scorer>:<path>``.

    Examples
    --------
    >>> result = {"by_slice": {"test": {"by_scorer": {"guard": {"recall_at_fpr_0.01": 0.7}}}}}
    >>> required_metric_gate("test", "guard", "recall_at_fpr_0.01").evaluate(result).passed
    True
    """
    non_empty(slice_name, "slice_name"), non_empty(scorer, "scorer")
    path = shown(metric_path)

    def decide(result: Payload, manifest: Payload) -> Verdict:
        value, reason, found = _metric(result, slice_name, scorer, metric_path)
        where = f"{path} of {scorer!r} on {slice_name!r}"
        if value is None:
            return False, f"{where} {reason}", {"cell": found}
        return True, f"{where} is {value:.6g}", {"value": value}

    return verdict_gate(f"required_metric:{slice_name}:{scorer}:{path}", decide, severity=severity)


def _metric(
    result: Payload, slice_name: str, scorer: str, path: MetricPath
) -> tuple[float | None, str, Any]:
    """Return a metric of a scorer as in `number_at`, or a clause that explains its absence."""
    block = block_of(Results.of(result), slice_name, scorer)
    if reason := absence(block):
        return None, f"is missing: the scorer {was(reason)}", None
    return number_at(block, path)


def metric_threshold_gate(
    slice_name: str,
    scorer: str,
    metric_path: MetricPath,
    *,
    op: str,
    threshold: SupportsFloat,
    severity: Severity = "error",
) -> EvidenceGate:
    """Return a gate that passes if a metric satisfies a comparison with a threshold.

    Parameters
    ----------
    slice_name, scorer, metric_path
        See `required_metric_gate`. ``pr_auc`` denotes the value of the cell, ``pr_auc.ci_low`` the
        lower end of its interval.
    op : {"<", "<=", ">", ">=", "=="}
        Operator that compares the metric with the threshold.
    threshold : float
        Finite threshold.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``metric_threshold:<slice>:<scorer>:<path>``. The gate fails, with the reason, for a
        skipped or error cell, for a value that is not a finite number, and for a mean over folds if
        a fold has no value.

    Raises
    ------
    InvalidInputError
        If the operator is unknown or the threshold is not finite.

    Examples
    --------
    >>> cell = {"value": 0.91, "status": "ok", "ci": {"ci_low": 0.86, "ci_high": 0.94}}
    >>> result = {"by_slice": {"test": {"by_scorer": {"guard": {"pr_auc": cell}}}}}
    >>> gate = metric_threshold_gate("test", "guard", "pr_auc.ci_low", op=">=", threshold=0.9)
    >>> gate.evaluate(result).message
    "pr_auc.ci_low of 'guard' on 'test' is 0.860; it must be >= 0.9"
    """
    non_empty(slice_name, "slice_name"), non_empty(scorer, "scorer")
    path = shown(metric_path)
    compare, limit = comparison_of(op, threshold)

    def decide(result: Payload, manifest: Payload) -> Verdict:
        value, reason, found = _metric(result, slice_name, scorer, metric_path)
        where = f"{path} of {scorer!r} on {slice_name!r}"
        return compared(where, value, reason, found, op, compare, limit)

    return verdict_gate(f"metric_threshold:{slice_name}:{scorer}:{path}", decide, severity=severity)


def cell_threshold_gate(
    address: str | Address,
    *,
    op: str,
    threshold: SupportsFloat,
    bound: str = "value",
    severity: Severity = "error",
) -> EvidenceGate:
    """Return a gate that passes if the cell at an address satisfies a comparison.

    Parameters
    ----------
    address : str or Address
        ``metric @ part / system``, such as ``exact_match @ subject=Africa / model-b``. Part and
        system may be omitted if they are unambiguous.
    op, threshold, severity
        As in `metric_threshold_gate`.
    bound : {"value", "ci_low", "ci_high"}, default "value"
        Field to compare: the value, or a bound of its interval.

    Returns
    -------
    EvidenceGate
        Named ``cell_threshold:<address>``. The gate fails, with the reason, for a skipped, error or
        missing cell, and for a mean over folds if a fold has no value.

    Raises
    ------
    InvalidInputError
        If the address is malformed, the operator is unknown or the threshold is not finite; on
        evaluation, if the address matches several cells.

    Examples
    --------
    >>> cell = {"value": 0.91, "status": "ok", "ci": {"ci_low": 0.86, "ci_high": 0.94}}
    >>> part = {"by_scorer": {"guard": {"pr_auc": cell}}}
    >>> result = {"by_slice": {"test": {"by_scorer": {}, "parts": {"language=de": part}}}}
    >>> gate = cell_threshold_gate(
    ...     "pr_auc @ language=de", bound="ci_low", op=">=", threshold=0.9)
    >>> gate.evaluate(result).message
    'ci_low of pr_auc @ language=de / guard is 0.860; it must be >= 0.9. The value, 0.910, is; ...'
    """
    target = address if isinstance(address, Address) else Address.parse(address)
    validation.choice(bound, "bound", ("value", "ci_low", "ci_high"))
    compare, limit = comparison_of(op, threshold)

    def decide(result: Payload, manifest: Payload) -> Verdict:
        results = Results.of(result)
        found = results.find(address)
        where = results.address(found)
        stored = found.cell.to_dict()
        value, reason, _ = number_at(stored, [bound])
        description = where if bound == "value" else f"{bound} of {where}"
        return compared(description, value, reason, stored, op, compare, limit)

    return verdict_gate(f"cell_threshold:{target}", decide, severity=severity)


def minimum_slice_size_gate(
    slice_name: str,
    *,
    min_n: SupportsIndex = 0,
    min_positive: SupportsIndex = 0,
    min_negative: SupportsIndex = 0,
    severity: Severity = "error",
) -> EvidenceGate:
    """Return a gate that passes if a slice has enough rows, positives and negatives.

    Parameters
    ----------
    slice_name : str
        Name of the slice; dots are not separators.
    min_n, min_positive, min_negative : int, default 0
        Minimum numbers of rows in total and in each class. For a run with folds, the test parts
        of one seed are counted together.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``minimum_slice_size:<slice>``.

    Raises
    ------
    InvalidInputError
        If a minimum is negative.

    Examples
    --------
    >>> gate = minimum_slice_size_gate("test", min_n=100, min_positive=30)
    >>> gate.evaluate({"by_slice": {"test": {"n": 200, "n_positive": 12}}}).message
    "slice 'test' has 12 positive rows, fewer than 30"
    """
    non_empty(slice_name, "slice_name")
    floors = {
        "": validation.integer(min_n, "min_n"),
        "positive ": validation.integer(min_positive, "min_positive"),
        "negative ": validation.integer(min_negative, "min_negative"),
    }

    def decide(result: Payload, manifest: Payload) -> Verdict:
        entry = entry_of(Results.of(result), slice_name)
        counts = {"": _count(entry, "n", slice_name)}
        evidence = {"n": counts[""]}
        sizes = f"{counts['']} rows"
        if "n_positive" in entry or any(floors[what] for what in ("positive ", "negative ")):
            n_positive = _count(entry, "n_positive", slice_name)
            counts |= {"positive ": n_positive, "negative ": counts[""] - n_positive}
            evidence |= {"n_positive": n_positive, "n_negative": counts["negative "]}
            sizes += f", {n_positive} of them positive"
        short = [
            f"{counts[what]} {what}rows, fewer than {floor}"
            for what, floor in floors.items()
            if counts.get(what, 0) < floor
        ]
        return not short, f"slice {slice_name!r} has {' and '.join(short) or sizes}", evidence

    return verdict_gate(f"minimum_slice_size:{slice_name}", decide, severity=severity)


def _count(entry: Payload, key: str, slice_name: str) -> int:
    return validation.integer(lookup(entry, [key]), f"{key} of {slice_name}")


def low_fpr_feasibility_gate(
    slice_name: str,
    *,
    max_fpr: SupportsFloat,
    confidence: float = 0.95,
    severity: Severity = "error",
) -> EvidenceGate:
    """Return a gate that passes if a slice has enough negatives to demonstrate a low FPR.

    Parameters
    ----------
    slice_name : str
        Name of the slice; dots are not separators.
    max_fpr : float
        False-positive rate to demonstrate, in (0, 1].
    confidence : float, default 0.95
        Confidence level of the two-sided Wilson interval.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``low_fpr_feasibility:<slice>``. Even if there are no false positives, the rate is
        only known to be below Wilson's upper bound, z² / (n + z²).

    Raises
    ------
    InvalidInputError
        If the rate or the confidence is out of range.

    Examples
    --------
    >>> gate = low_fpr_feasibility_gate("test", max_fpr=0.01)
    >>> gate.evaluate({"by_slice": {"test": {"n": 300, "n_positive": 100}}}).passed
    False
    >>> gate.evaluate({"by_slice": {"test": {"n": 500, "n_positive": 100}}}).passed
    True
    """
    non_empty(slice_name, "slice_name")
    ceiling = validation.number(max_fpr, "max_fpr", low=0.0, high=1.0, include_low=False)
    level = validation.fraction(confidence, "confidence")

    def decide(result: Payload, manifest: Payload) -> Verdict:
        entry = entry_of(Results.of(result), slice_name)
        n, n_positive = (_count(entry, key, slice_name) for key in ("n", "n_positive"))
        n_negative = n - n_positive
        if not n_negative:
            return False, f"slice {slice_name!r} has no negative rows", {"n_negative": 0}
        bound = wilson_interval(0, n_negative, confidence=level).high or 0.0
        message = (
            f"{n_negative} negative rows of {slice_name!r} can demonstrate a false-positive rate of "
            f"{bound:.3g} at best; {ceiling:g} is required"
        )
        return bound <= ceiling, message, {"n_negative": n_negative, "lowest_bound": bound}

    return verdict_gate(f"low_fpr_feasibility:{slice_name}", decide, severity=severity)


def paired_diff_present_gate(
    slice_name: str, diff_key: str, *, severity: Severity = "error"
) -> EvidenceGate:
    """Return a gate that passes if a slice has a paired difference that was not skipped.

    Parameters
    ----------
    slice_name, diff_key : str
        Names, such as ``"test"`` and ``"new_minus_old"``; dots are not separators.
    severity : {"error", "warning"}, default "error"
        Severity of a failure.

    Returns
    -------
    EvidenceGate
        Named ``paired_diff_present:<slice>:<key>``.

    Examples
    --------
    >>> result = {"by_slice": {"test": {"paired_diffs": {"b_minus_a": {"delta": 0.02}}}}}
    >>> paired_diff_present_gate("test", "b_minus_a").evaluate(result).passed
    True
    """
    non_empty(slice_name, "slice_name"), non_empty(diff_key, "diff_key")

    def decide(result: Payload, manifest: Payload) -> Verdict:
        entries = tested_entries(Results.of(result), slice_name)
        found = [lookup(entry, ["paired_diffs", diff_key]) for entry in entries]
        where = f"paired difference {diff_key!r} on {slice_name!r}"
        if reason := next(filter(None, map(absence, found)), ""):
            return False, f"{where} {was(reason)}", {"reason": reason}
        evidence = {"difference": found[0]} if len(found) == 1 else {"differences": found}
        return True, f"{where} exists", evidence

    return verdict_gate(f"paired_diff_present:{slice_name}:{diff_key}", decide, severity=severity)
