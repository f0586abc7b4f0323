"""Test assertions about runs, based on interval bounds.

Imports are deferred until an assertion is called, because the pytest plugin loads this module every
time pytest starts.
"""

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eval_toolkit.runs.results import ResultCell, Results
    from eval_toolkit.scorecards import MetricResult

__all__ = ["assert_metric", "assert_no_leakage", "assert_not_worse"]

_SHOWN = 20


def assert_metric(
    run: Any,
    metric: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    slice: str | None = None,  # noqa: A002
    scorer: str | None = None,
    on: Literal["interval", "value"] = "interval",
) -> None:
    """Fail unless the bounds of a metric's interval satisfy the given limits.

    Parameters
    ----------
    run : Run, path, Scorecard, RunResult, Outcome or mapping
        Run or results to check.
    metric : str
        Name of the cell, such as "pr_auc", or its address, ``metric @ part / system``, such as
        "exact_match @ subject=Africa / model-b".
    at_least, at_most : float, optional
        Limits on the interval: its lower bound must be at least ``at_least``, its upper bound at
        most ``at_most``. At least one limit is required.
    slice, scorer : str, optional
        Slice and scorer, if the metric is ambiguous. Not needed for a scorecard.
    on : {"interval", "value"}, default "interval"
        "value" checks the point estimate instead, for cells without an interval.

    Raises
    ------
    AssertionError
        If a limit is violated, or the cell was skipped or failed; the message contains the reason
        and a table of the related cells.
    InvalidInputError
        If no limit is given, or several cells match.
    MissingColumnError
        If no cell has that name (also a KeyError); the message suggests the closest name.

    Examples
    --------
    >>> from eval_toolkit import Records, summarise
    >>> from eval_toolkit.metric_specs import mean_of
    >>> records = Records.from_columns({"accuracy": [1] * 90 + [0] * 10})
    >>> card = summarise(records, [mean_of("accuracy")])
    >>> assert_metric(card, "accuracy", at_least=0.8)
    >>> assert_metric(card, "accuracy", at_least=0.85)
    Traceback (most recent call last):
        ...
    AssertionError: accuracy: the lower bound 0.826 is below 0.85; the value 0.900 is not
    ...
    """
    __tracebackhide__ = True
    from eval_toolkit._internal import validation
    from eval_toolkit.errors import InvalidInputError
    from eval_toolkit.integrations.results import measured_results

    validation.choice(on, "on", ("interval", "value"))
    if at_least is None and at_most is None:
        raise InvalidInputError("pass `at_least` or `at_most`; the assertion requires a limit")
    for name, bound in (("at_least", at_least), ("at_most", at_most)):
        if bound is not None:
            validation.number(bound, name)
    results = measured_results(run)
    found = results.find(metric, slice_name=slice, system=scorer)
    faults = _faults(found.cell, at_least, at_most, on)
    if faults:
        raise AssertionError(
            "\n".join([f"{_named(results, found)}: {'; '.join(faults)}", *_table(results, found)])
        )


def _faults(
    cell: "MetricResult", at_least: float | None, at_most: float | None, on: str
) -> list[str]:
    from eval_toolkit._internal.words import number

    value = cell.value
    if cell.status != "ok" or value is None:
        return [f"{cell.status}: {cell.reason or 'no reason given'}"]
    if on == "value":
        ends = (value, value)
    elif cell.ci is None:
        why = f" ({cell.reason})" if cell.reason else ""
        return [
            f"the value {number(value)} has no interval{why}; pass on='value' to check the value"
        ]
    else:
        ends = (cell.ci.ci_low, cell.ci.ci_high)
    faults = []
    for end, word, bound, sign in (
        (ends[0], "lower", at_least, 1.0),
        (ends[1], "upper", at_most, -1.0),
    ):
        if bound is None or sign * end >= sign * bound:
            continue
        side = "below" if sign > 0 else "above"
        if on == "value":
            faults.append(f"the value {number(value)} is {side} {bound:g}")
            continue
        too = "is not" if sign * value >= sign * bound else "is, too"
        faults.append(
            f"the {word} bound {number(end)} is {side} {bound:g}; the value {number(value)} {too}"
        )
    return faults


def _named(results: "Results", found: "ResultCell") -> str:
    """Return the address of a cell; for a scorecard, only the metric."""
    return (
        found.metric
        if results.places == [("all", "all")] and not found.system
        else results.address(found)
    )


def _table(results: "Results", found: "ResultCell") -> list[str]:
    """Return the cells with the same system and part as a cell, starting with that cell."""
    from eval_toolkit._internal.display.to_text import text_table
    from eval_toolkit.runs.cells import cell_table

    place = (found.slice, found.part, found.system)
    others = [
        one.row()
        for one in results
        if (one.slice, one.part, one.system) == place and one.metric not in ("", found.metric)
    ]
    shown = [found.row(), *others][:_SHOWN]
    more = len(others) + 1 - len(shown)
    return [text_table(cell_table(shown)), *([f"… {more} more"] if more else [])]


def assert_not_worse(
    run: Any,
    baseline: Any,
    metric: str,
    *,
    max_drop: float,
    slice: str | None = None,  # noqa: A002
    scorer: str | None = None,
    baseline_scorer: str | None = None,
    higher_is_better: bool | None = None,
    allow_missing: bool = False,
) -> None:
    """Fail unless a run is non-inferior to a baseline by a margin, compared unit by unit.

    Equivalent to a claim with ``non_inferior_by``: the whole interval of the paired difference must
    lie on the favourable side of the margin.

    Parameters
    ----------
    run, baseline : Run, path, Outcome
        Stored runs with records.
    metric : str
        Name or address of the cell, as in `assert_metric`.
    max_drop : float
        Largest acceptable loss, in units of the metric; 0 requires a gain.
    slice, scorer : str, optional
        Slice and scorer of the run, if the metric is ambiguous.
    baseline_scorer : str, optional
        Name of the scorer in the baseline, if it differs.
    higher_is_better : bool, optional
        Direction of the metric; required if it is unknown.
    allow_missing : bool, default False
        Whether to compare even if some units of the baseline have no value in the run.

    Raises
    ------
    AssertionError
        If non-inferiority is not shown, or the runs cannot be compared; the message states why.
    InvalidInputError
        If an argument is invalid, several cells match, or the runs used different versions of a
        scorer, task or metric.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit import Records, summarise, write_run
    >>> from eval_toolkit.metric_specs import mean_of
    >>> records = Records.from_columns({"correct": [1, 1, 1, 0] * 20})
    >>> block = summarise(records, [mean_of("correct")]).to_dict()
    >>> by = {"test": {"n": 80, "by_scorer": {"guard": block}}}
    >>> results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": by}
    >>> run = write_run(tempfile.mkdtemp() + "/r", results=results, manifest={"run_id": "r"},
    ...     records={("test", "guard"): records})
    >>> assert_not_worse(run, run, "correct", max_drop=0.05, higher_is_better=True)
    """
    __tracebackhide__ = True
    from eval_toolkit._internal import validation
    from eval_toolkit.claims import Claim, evaluate_gate
    from eval_toolkit.graders.stored import stored_metrics
    from eval_toolkit.integrations.results import measured_results, stored_run

    candidate, against = stored_run(run), stored_run(baseline, "baseline")
    results = measured_results(candidate)
    cell = results.find(metric, slice_name=slice, system=scorer)
    claim = Claim(
        name=metric,
        at=results.address(cell),
        non_inferior_by=validation.number(max_drop, "max_drop", low=0.0),
        baseline_scorer=baseline_scorer,
        higher_is_better=higher_is_better,
        allow_missing=allow_missing,
    )
    specs = stored_metrics([against, candidate])
    (found,) = evaluate_gate(candidate, [claim], against, specs=specs).claims
    if not found.passed:
        raise AssertionError("\n".join([found.message, *_table(results, cell)]))


def assert_no_leakage(run: Any, *, strict: bool = False) -> None:
    """Fail if leakage was found, or if no check was run.

    Parameters
    ----------
    run : LeakageReport, Run, path, RunResult or mapping
        Report returned by `run_leakage_checks`, or a run evaluated with checks.
    strict : bool, default False
        Whether warnings also fail the assertion.

    Raises
    ------
    AssertionError
        If there are findings, which the message lists, or there is no leakage report.
    InvalidInputError
        If the report is invalid.

    Examples
    --------
    >>> from eval_toolkit import RunResult
    >>> assert_no_leakage(RunResult("r", None, {}))
    Traceback (most recent call last):
        ...
    AssertionError: no leakage report: no check was run or recorded
    """
    __tracebackhide__ = True
    from eval_toolkit._internal.display import Status, Table
    from eval_toolkit._internal.display.to_text import text_table
    from eval_toolkit.claims.run_gates import leakage_reports
    from eval_toolkit.errors import InvalidInputError

    results, manifest = _payloads(run)
    reports = list(leakage_reports(results, manifest))
    if not reports:
        raise AssertionError("no leakage report: no check was run or recorded")
    levels = ("error", "warning") if strict else ("error",)
    findings = [found for report in reports for found in report["findings"]]
    if not all(hasattr(found, "get") for found in findings):
        raise InvalidInputError("`run` has a leakage report whose findings are not mappings")
    bad = [f for f in findings if f.get("severity") in levels and f.get("n_affected", 0)]
    if bad:
        lines = [
            [
                str(found.get("code", "")),
                str(found.get("check_name", "")),
                Status(found["severity"]),
                found["n_affected"],
                str(found.get("message", "")),
            ]
            for found in bad[:_SHOWN]
        ]
        table = Table(["code", "check", "severity", "affected", "found"], lines)
        raise AssertionError(f"leakage: {len(bad)} findings\n{text_table(table)}")


def _payloads(run: Any) -> "tuple[Mapping[str, Any], Mapping[str, Any]]":
    from collections.abc import Mapping

    from eval_toolkit.errors import InvalidTypeError
    from eval_toolkit.leakage import LeakageReport

    if isinstance(run, LeakageReport):
        return {"leakage_report": run.to_dict()}, {}
    if hasattr(run, "by_slice"):  # RunResult: the report is stored separately
        return {**run.to_dict(), "leakage_report": run.leakage_report}, {}
    if isinstance(run, Mapping) and not hasattr(run, "to_dict"):  # not a scorecard
        return dict(run), {}
    try:
        from eval_toolkit.integrations.results import stored_run

        stored = stored_run(run)
    except InvalidTypeError as error:
        raise InvalidTypeError(
            f"`run` is a {type(run).__name__}; it must be a LeakageReport, a run or a run's path"
        ) from error
    return stored.results, stored.manifest
