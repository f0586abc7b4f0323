"""`evaluate_gate`: check a run against claims, optionally with a baseline run."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit.analysis import RunComparison, RunDifference, compare_runs
from eval_toolkit.analysis.comparison import opened_run
from eval_toolkit.analysis.directions import direction_hint, with_directions
from eval_toolkit.claims.files import Claim, load_claims
from eval_toolkit.claims.gates import (
    cell_threshold_gate,
    low_fpr_feasibility_gate,
    metric_threshold_gate,
    minimum_slice_size_gate,
)
from eval_toolkit.claims.paths import (
    MetricPath,
    absence,
    block_of,
    blocks,
    is_over_folds,
    lookup,
    shown,
)
from eval_toolkit.claims.reports import ClaimReport, ClaimSpec, EvidenceGate, evaluate_claims
from eval_toolkit.claims.run_gates import no_leakage_errors_gate
from eval_toolkit.claims.verdicts import Payload, Verdict, digits, verdict_gate
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
)
from eval_toolkit.inference import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run
from eval_toolkit.runs.addresses import written
from eval_toolkit.runs.results import ResultCell, Results
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.scorecards.parts import WHOLE
from eval_toolkit.seeds import SeedLike, resolve_seed


def evaluate_gate(
    run: Run | str | Path,
    claims: str | Path | Sequence[Claim | ClaimSpec],
    baseline: Run | str | Path | None = None,
    *,
    specs: Sequence[MetricSpec] = (),
    higher_is_better: Mapping[str, bool] | None = None,
    allow_version_change: bool = False,
    confidence: float = DEFAULT_CONFIDENCE,
    n_resamples: int = DEFAULT_N_RESAMPLES,
    seed: SeedLike = None,
    rng: SeedLike = None,
) -> ClaimReport:
    """Evaluate claims about a run; non-inferiority claims require a baseline run.

    Parameters
    ----------
    run : Run or path
        Candidate run.
    claims : path or sequence of Claim or ClaimSpec
        Path of a claims file, claims returned by `load_claims`, or specs.
    baseline : Run or path, optional
        Baseline run for ``non_inferior_by`` claims, compared unit by unit.
    specs : sequence of MetricSpec
        Specifications of metrics that cannot be derived from a name, for comparisons with the
        baseline, as in `compare_runs`.
    higher_is_better : mapping of str to bool, optional
        Whether higher is better for a metric or column, as in `compare_runs`; a claim's own
        ``higher_is_better`` takes precedence.
    allow_version_change : bool, default False
        Whether to compare with the baseline if a scorer, task or metric has a different version.
    confidence, n_resamples, seed, rng
        Confidence level and resampling of the comparisons with the baseline; intervals of the run
        itself are read from its results.

    Returns
    -------
    ClaimReport
        Report with one entry per claim. A claim fails if its cell has no value because it was
        skipped or failed.

    Raises
    ------
    InvalidInputError
        If the claims are invalid or refer to cells that do not exist, a claim requires a baseline
        but none is given, versions differ and ``allow_version_change`` is False, or the direction
        of a metric is unknown.
    ArtifactError
        If a run is incomplete or was modified.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 250, "n_positive": 40, "by_scorer": {"guard": {"pr_auc": 0.9}}}
    >>> results = {
    ...     "schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {"test": part}
    ... }
    >>> run = write_run(tempfile.mkdtemp() + "/r", results=results, manifest={"run_id": "r"})
    >>> report = evaluate_gate(run, [Claim(name="enough rows", slice="test", min_n=300)])
    >>> report.claims[0].message
    "slice 'test' has 250 rows, fewer than 300"
    """
    candidate = opened_run(run, "run")
    all_claims = load_claims(claims) if isinstance(claims, (str, Path)) else _checked(claims)
    against = None if baseline is None else opened_run(baseline, "baseline")
    if against is None:
        (candidate,) = with_directions([candidate], higher_is_better)
    else:
        against, candidate = with_directions([against, candidate], higher_is_better)
    compare = functools.partial(
        compare_runs,
        specs=specs,
        allow_version_change=allow_version_change,
        confidence=confidence,
        n_resamples=n_resamples,
        seed=resolve_seed(seed, rng),
    )
    claim_specs = []
    for claim in all_claims:
        if isinstance(claim, ClaimSpec):
            claim_specs.append(claim)
            continue
        _check_address(claim, candidate)
        if claim.non_inferior_by is None:
            gate = claim_gate(claim)
        elif against is None:
            raise InvalidInputError(f"claim {claim.name!r} needs a baseline run (--baseline RUN)")
        else:
            gate = _non_inferiority_gate(claim, against, candidate, compare)
        claim_specs.append(ClaimSpec(claim.name, (gate,), description=claim.description))
    payload = {**candidate.results, **candidate.cells.to_dict()}
    return evaluate_claims(payload, claim_specs, manifest=candidate.manifest)


def _check_address(claim: Claim, run: Run) -> None:
    """Raise if a claim refers to a metric, scorer or part that does not exist, or to several cells.

    A cell that exists but has no value, because it was skipped or failed, fails the claim instead.
    """
    name = claim.at or claim.slice
    try:
        if claim.at is not None and claim.form in ("require", "non_inferior_by"):
            run.cells.find(claim.at)
        elif claim.require is not None and claim.slice and claim.scorer and claim.metric:
            block = block_of(run.cells, claim.slice, claim.scorer)
            if not absence(block):
                lookup(block, claim.metric)
        elif name is not None and not run.cells.named(name):
            run.cells.entry(name)
    except InvalidInputError as error:
        raise InvalidInputError(f"claim {claim.name!r}: {error}") from None


def _checked(claims: Sequence[Claim | ClaimSpec]) -> list[Claim | ClaimSpec]:
    if isinstance(claims, (Claim, ClaimSpec)):
        raise InvalidTypeError("`claims` must be a list of claims or the path of a claims file")
    for index, claim in enumerate(claims):
        if not isinstance(claim, (Claim, ClaimSpec)):
            raise InvalidTypeError(f"claims[{index}] is {claim!r}; it must be a Claim or ClaimSpec")
    return list(claims)


def claim_gate(claim: Claim) -> EvidenceGate:
    """Return the gate of a claim that does not require a baseline.

    Raises
    ------
    InvalidInputError
        If the claim requires a baseline, or keys that its form requires are missing.

    Examples
    --------
    >>> claim_gate(Claim(name="enough rows", slice="test", min_n=200)).name
    'minimum_slice_size:test'
    """
    if claim.form == "no_leakage":
        return no_leakage_errors_gate(severity=claim.severity)
    if claim.form == "no_errors":
        return verdict_gate("no_errors", _no_errors, severity=claim.severity)
    if claim.require is not None and claim.at is not None:
        return cell_threshold_gate(
            claim.at,
            bound=claim.require.part,
            op=claim.require.op,
            threshold=claim.require.threshold,
            severity=claim.severity,
        )
    slice_name = claim.slice if claim.at is None else claim.at
    if slice_name is None:
        raise InvalidInputError(f"claim {claim.name!r}: {claim.form} needs a slice")
    if claim.form == "size":
        return minimum_slice_size_gate(
            slice_name,
            min_n=claim.min_n or 0,
            min_positive=claim.min_positive or 0,
            min_negative=claim.min_negative or 0,
            severity=claim.severity,
        )
    if claim.max_fpr is not None:
        return low_fpr_feasibility_gate(slice_name, max_fpr=claim.max_fpr, severity=claim.severity)
    if claim.require is None or claim.scorer is None or claim.metric is None:
        raise InvalidInputError(
            f"claim {claim.name!r}: {claim.form} needs a slice, a scorer and a metric; comparisons with a baseline need `evaluate_gate`"
        )
    return metric_threshold_gate(
        slice_name,
        claim.scorer,
        _part_of(claim.metric, claim.require.part),
        op=claim.require.op,
        threshold=claim.require.threshold,
        severity=claim.severity,
    )


def _part_of(metric: MetricPath, part: str) -> MetricPath:
    """Return the path of a cell's value or interval bound."""
    if part == "value":
        return metric
    return f"{metric}.{part}" if isinstance(metric, str) else (*metric, part)


def _no_errors(result: Payload, manifest: Payload) -> Verdict:
    """Return a passing verdict if no scorer, metric or unit failed."""
    failed = []
    for where, scorer, block in blocks(Results.of(result)):
        place = f"{where}/{scorer}"
        if "error" in block:
            failed.append(f"{place} failed: {block['error']}")
        for name, cell in block.items():
            if not isinstance(cell, Mapping) or name == "error_state" or is_over_folds(cell):
                continue  # the folds report the errors of a mean over folds
            if cell.get("status") == "error":
                failed.append(f"{place}/{name}: {cell.get('reason')}")
            elif cell.get("n_errors"):
                failed.append(f"{place}/{name}: {cell['n_errors']} units failed")
    return not failed, "; ".join(failed) or "nothing failed", {"failed": failed}


def _non_inferiority_gate(
    claim: Claim, baseline: Run, candidate: Run, compare: Any
) -> EvidenceGate:
    """Return the gate that checks whether candidate B loses less than the margin against baseline A.

    The comparison is computed here rather than in the gate, so that runs that cannot be compared
    raise an error instead of counting as insufficient evidence.
    """
    name = f"non_inferior:{_target(claim)}"
    try:
        found = _cell_of(claim, candidate)
        before = claim.baseline_scorer or found.system
        comparison: RunComparison = compare(
            baseline,
            candidate,
            metrics=[written(found.metric, found.part)],
            slices=[found.slice],
            scorers=[before],
            pairs={before: found.system},
        )
    except (MissingColumnError, ArtifactError) as error:
        reason = str(error)
        return verdict_gate(name, lambda r, m: (False, reason, {}), severity=claim.severity)
    cell = comparison[found.slice, found.part, before, found.metric]
    where = f"{found.metric} of {found.system!r} on {claim.slice!r}"
    where = where if claim.at is None else candidate.cells.address(found)
    verdict = _non_inferior(claim, where, cell, comparison.notes)
    return verdict_gate(name, lambda r, m: verdict, severity=claim.severity)


def _target(claim: Claim) -> str:
    if claim.at is not None:
        return claim.at
    return f"{claim.slice}:{claim.scorer}:{shown(claim.metric or '')}"


def _cell_of(claim: Claim, run: Run) -> ResultCell:
    """Return the cell of a claim, computed if the run does not store its metric."""
    if claim.at is not None:
        return run.cells.find(claim.at)
    places = run.cells.named(claim.slice or "")
    slice_name, part = places[0] if len(places) == 1 else (claim.slice or "", WHOLE)
    metric = shown(claim.metric or "")
    cell = MetricResult(None, "skipped", "it is compared")
    return ResultCell(slice_name, part, claim.scorer or "", metric, cell)


def _non_inferior(claim: Claim, where: str, cell: RunDifference, notes: Sequence[str]) -> Verdict:
    margin = claim.non_inferior_by or 0.0
    better_high = claim.higher_is_better
    if better_high is None:
        better_high = cell.higher_is_better
    evidence: dict[str, Any] = {
        **cell.to_dict(),
        "margin": margin,
        "higher_is_better": better_high,
        **({"notes": list(notes)} if notes else {}),
    }
    if cell.status != "ok":
        return False, f"{where} cannot be compared: {cell.status}: {cell.reason}", evidence
    if cell.ci_low is None or cell.ci_high is None:
        return False, f"{where} cannot be compared: {cell.reason}", evidence
    if cell.n_folds_failed:
        return False, f"{where} cannot be compared: {cell.reason}", evidence
    if cell.ci_low == cell.ci_high:
        unseen = "its interval has zero width, since no variance was observed, and is not evidence"
        return False, f"{where} cannot be compared: {unseen}", evidence
    if better_high is None:
        raise InvalidInputError(
            f"claim {claim.name!r}: {direction_hint([cell.metric])}, or in the claim: "
            "higher_is_better = true or false"
        )
    missing = _missing(cell)
    if missing and not claim.allow_missing:
        remedy = "score them, or write allow_missing = true if they are omitted on purpose"
        return False, f"{where} cannot be compared: {missing}; {remedy}", evidence
    bound, rule = (
        (cell.ci_low, f"above {-margin:g}") if better_high else (cell.ci_high, f"below {margin:g}")
    )
    end = "lower" if better_high else "upper"
    unseen = ""
    if cell.unseen is not None and cell.delta is not None:
        reach = cell.delta + (-cell.unseen if better_high else cell.unseen)
        if (reach < bound) == better_high:  # beyond the interval
            bound = reach
            unseen = (
                f"the bound allows for failures that {cell.n_units} units may not contain, each as large "
                "as the range of values, since the column has no known bounds"
            )
    passed = bound > -margin if better_high else bound < margin
    new = (
        f"{cell.n_only_b} units exist only in this run and are not compared"
        if cell.n_only_b
        else ""
    )
    remarks = "; ".join(filter(None, [cell.reason, unseen, missing, new, *notes]))
    shown = digits(bound, -margin if better_high else margin)
    message = (
        f"{where}: {cell.value_a:.3f} in the baseline, {cell.value_b:.3f} now, difference "
        f"{cell.delta:+.3f} on {cell.n_units} units; its {end} bound is {bound:+{shown}} and must "
        f"be {rule}" + (f" ({remarks})" if remarks else "")
    )
    return passed, message, evidence


def _missing(cell: RunDifference) -> str:
    """Describe the baseline units that have no value in the run; "" if there are none."""
    n_missing = cell.n_only_a + cell.n_lost
    if not n_missing:
        return ""
    n_baseline = cell.n_only_a + cell.n_mismatched + cell.n_units + cell.n_failed
    return (
        f"{n_missing} of the baseline's {n_baseline} units have no value in this run: "
        f"{cell.n_only_a} are not in it, {cell.n_lost} failed or were skipped"
    )
