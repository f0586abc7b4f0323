"""Paired comparison of two runs on their common units."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, Unpack, get_args

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit.analysis.censored_rollouts import curve_difference
from eval_toolkit.analysis.configs import config_differences, run_names
from eval_toolkit.analysis.differences import CurveOf, Draws, RunDifference, Task, difference
from eval_toolkit.analysis.directions import with_directions
from eval_toolkit.analysis.folds import PairedFolds, Pooled, fold_difference, paired_folds
from eval_toolkit.analysis.matching import MatchSpec, tools_note
from eval_toolkit.analysis.parts import (
    Requested,
    at_part,
    divided,
    part_names,
    requested_cells,
    scored_by,
)
from eval_toolkit.analysis.rollout_settings import curves_of, withheld
from eval_toolkit.analysis.run_comparison import RunComparison, in_words
from eval_toolkit.analysis.subjects import (
    Matched,
    Subject,
    check_versions,
    matched_subjects,
    stated_note,
    stored_tasks,
    tasks_for,
)
from eval_toolkit.analysis.units import CommonUnits, common_units
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.inference import (
    CorrectionMethod,
    correct_p_values,
)
from eval_toolkit.inference.options import RESAMPLING, Resampling
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Outcome, Run
from eval_toolkit.runs.addresses import written
from eval_toolkit.runs.folder import MANIFEST
from eval_toolkit.runs.kind_display import common_kind
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import WHOLE, format_part
from eval_toolkit.seeds import resolve_seed

__all__ = ["RunComparison", "compare_records", "compare_runs", "opened_run", "stopped_note"]

_Work: TypeAlias = list[tuple[Subject, list[Task]]]
_TasksOf: TypeAlias = Callable[[Subject, Sequence[Requested] | None], list[Task]]


class Comparing(Resampling, total=False):
    """Options of a comparison other than the choice of slices, scorers and metrics."""

    higher_is_better: Mapping[str, bool] | None
    on_mismatch: str
    allow_version_change: bool
    adjust: str


@gathers(
    Comparing,
    higher_is_better=None,
    on_mismatch="raise",
    allow_version_change=False,
    adjust="holm",
    **RESAMPLING,
)
def compare_runs(
    a: Run | Outcome | str | Path,
    b: Run | Outcome | str | Path,
    *,
    metrics: Sequence[MetricSpec | str] | Literal["all"] | None = None,
    slices: Sequence[str] | None = None,
    scorers: Sequence[str] | None = None,
    pairs: Mapping[str, str] | None = None,
    match: MatchSpec | None = None,
    specs: Sequence[MetricSpec] = (),
    by: str | Sequence[str] | None = None,
    **comparing: Unpack[Comparing],
) -> RunComparison:
    """Compare two runs on their common units: paired differences B − A.

    Parameters
    ----------
    a, b : Run, Outcome or path
        Baseline and candidate; outcomes of `run_task` need not be stored.
    metrics : sequence of MetricSpec or str, or "all", optional
        Specs, stored names, or columns of the records. By default, rollouts are compared by their
        main metrics, and other runs by all stored metrics, as with "all". A name may be the address
        of a cell, such as ``exact_match @ subject=Africa``, to compare only this part.
    slices, scorers : sequence of str, optional
        Slices and scorers of A to compare; by default, those that both runs have.
    pairs : mapping of str to str, optional
        Scorers of A, mapped to the scorers of B with which to compare them. By default, scorers
        with the same name are compared, or the only scorer of each run.
    match : MatchSpec, optional
        Correspondence of slices, metrics and units with different names in the two runs, e.g. in
        runs imported from different tools.
    specs : sequence of MetricSpec
        Specifications of stored metrics that cannot be derived from a name, such as corpus BLEU
        (``Bleu().metrics()``; `graders.stored.stored_metrics` returns those of two runs).
    higher_is_better : mapping of str to bool, optional
        Whether higher is better for a metric or column, as in ``{"wer": False}``. It overrides the
        direction recorded in the runs, which overrides the one inferred from the name
        (`known_direction`). If the direction is unknown, the verdict is "different" instead of
        "better" or "worse".
    by : str or sequence of str, optional
        Named parts of the records, such as "subject": every part of every slice is compared, too,
        in cells with a part such as ``subject=Africa``. By default, the parts by which both runs
        were scored (``eval-toolkit score --by``), unless a metric is an address.
    on_mismatch : {"raise", "drop"}, default "raise"
        How to treat units that have the same id but different content hashes or labels.
    allow_version_change : bool, default False
        Whether to compare runs if a scorer, task or metric has a different version in B, or if
        rollouts differ in depth, width, policy or other relevant settings.
    adjust : {"holm", "hochberg", "bonferroni", "bh", "by", "none"}, default "holm"
        Correction of each scorer's p-values for the number of metrics and slices; see Notes.
    confidence : float, default 0.95
        Confidence level of the intervals.
    n_resamples, seed, rng, executor
        As in `paired_bootstrap_diff`.

    Returns
    -------
    RunComparison
        One cell per slice, part, scorer and metric. Proportions of independent units are compared
        by Tango's interval and McNemar's score test, other means of columns by the interval for the
        mean difference, and other metrics as in `paired_bootstrap_diff`. An uncorrected p-value is
        at most ``1 − confidence`` iff the interval excludes 0. Calibration errors have values and a
        difference, but no interval or verdict. Units in only one run are counted. For runs with
        folds, the mean difference over folds is tested with Nadeau and Bengio's corrected t test if
        both runs have the same rows in the same folds. Otherwise, the out-of-fold rows are pooled
        (see ``reason``), or the cell is skipped if rows have several scores (several seeds). If
        rollouts were cut short before a failure, the failure rate (``attack_success``,
        ``failed_by_turn_<t>``) is compared by survival curves, provided every rollout counts as one
        path, as in `rollouts.compare_survival` for whole conversations; other metrics are skipped.
        ``notes`` lists testers, targets and defences that differ.

    Raises
    ------
    InvalidInputError
        If an option is unknown, or versions or settings differ and ``allow_version_change`` is
        False.
    MissingColumnError
        If a slice, a scorer or a metric of ``higher_is_better`` does not exist (also a KeyError).
    ArtifactError
        If a run is incomplete or was modified, or a unit has different content in A and B.

    Notes
    -----
    The metrics of a slice form a family of tests; to restrict the correction to the metrics of
    interest, pass their names. A mean over parts (``…_macro``) whose metric is compared as well has
    a difference and an interval; it is tested, and counts in the family, only if named.

    A slice that contains all compared units of every other slice is treated as the whole data and
    tested by itself, outside the family of its parts. All other slices form one family, even if
    they overlap or are nested; if no slice contains all others, the family includes every slice. A
    unit is contained in a slice if its id, content hash and values match, so the same ids with
    other scores are separate tests. The names of slices are irrelevant.

    The parts of a slice form a separate family, which does not include the slice itself. If a part
    failed in one run, its cells are skipped with the reason.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> folder, ids, y = tempfile.mkdtemp(), [f"u{i}" for i in range(20)], [0, 1] * 10
    >>> for name, scores in (("old", [0.4, 0.6, 0.5, 0.3]), ("new", [0.4, 0.6, 0.3, 0.5])):
    ...     records = {("test", "guard"): Records.from_rows(y, scores * 5, unit_id=ids)}
    ...     results = {"schema_version": "v1", "run_id": name, "config": {}, "by_slice": {}}
    ...     _ = write_run(
    ...         f"{folder}/{name}", results=results, manifest={"run_id": name}, records=records
    ...     )
    >>> comparison = compare_runs(f"{folder}/old", f"{folder}/new", metrics=["roc_auc"])
    >>> comparison["test", "guard", "roc_auc"].verdict
    'better'
    """
    first, second = with_directions(
        [opened_run(a, "a"), opened_run(b, "b")], comparing["higher_is_better"]
    )
    options = _options(
        comparing["on_mismatch"],
        comparing["adjust"],
        comparing["n_resamples"],
        comparing["confidence"],
        resolve_seed(comparing["seed"], comparing["rng"]),
    )
    draws = replace(options.draws, executor=comparing["executor"])
    matched = matched_subjects(
        first, second, slices=slices, scorers=scorers, pairs=pairs, match=match or MatchSpec()
    )
    requested = None
    if metrics is None:
        metrics = common_kind([first, second]).compared_metrics([first, second])
    if metrics is not None and metrics != "all":
        known = [*first.cells.metrics, *second.cells.metrics, *(spec.name for spec in specs)]
        known += [name for one in matched.subjects for name in one.columns]
        requested = requested_cells(metrics, known)
        _check_systems(matched, requested)
    tasks_of = partial(_tasks, specs=specs, curves=curves_of(first.manifest, second.manifest))
    work = _wholes_work(matched, requested, tasks_of)
    addressed = [one for one in requested or () if one.part is not None]
    default = () if addressed else scored_by(first, second)
    for name in default if by is None else part_names(by):
        matched, work = _with_parts(matched, work, name, (first, second))
    for one in addressed:
        work += _at_address(matched, one, tasks_of, first)
    changes = check_versions(
        first.manifest, second.manifest, work, allow=comparing["allow_version_change"]
    )
    run_a, run_b = run_names([first, second])
    return RunComparison(
        run_a=run_a,
        run_b=run_b,
        cells=_cells(work, options.on_mismatch, options.adjust, draws),
        adjust=options.adjust,
        confidence=draws.confidence,
        seed=draws.seed,
        only_in_a=matched.only_in_a,
        only_in_b=matched.only_in_b,
        version_changes=changes,
        config_differences=config_differences(first, second),
        notes=(
            *filter(None, [tools_note(first, second)]),
            *matched.notes,
            *filter(None, [stated_note(matched.subjects) if requested is None else ""]),
            *filter(None, (stopped_note(first, "A"), stopped_note(second, "B"))),
        ),
    )


def stopped_note(run: Run, name: str) -> str:
    """Return a note if a run stopped early, which fixed-sample intervals do not account for."""
    stopping = run.results.get("stopping")
    if not stopping or stopping["n_used"] == stopping["n_total"]:
        return ""
    return (
        f"{name} was stopped early, after {stopping['n_used']} of {stopping['n_total']} units "
        f"({stopping['reason']}); the intervals and p-values here do not account for that"
    )


@gathers(Resampling, **RESAMPLING)
def compare_records(
    a: Mapping[str, Records],
    b: Mapping[str, Records],
    metrics: Sequence[MetricSpec | str],
    *,
    scorers: tuple[str, str] = ("", ""),
    names: tuple[str, str] = ("A", "B"),
    on_mismatch: str = "raise",
    adjust: str = "holm",
    **resampling: Unpack[Resampling],
) -> RunComparison:
    """Compare records slice by slice, without requiring stored runs.

    Parameters
    ----------
    a, b : mapping of slice name to Records
        Baseline and candidate. Slices with the same name are compared.
    metrics : sequence of MetricSpec or str
        Specs, names as accepted by `metric_specs.named`, or columns of the records.
    scorers, names : tuple of two str
        Names of the scorers and of the two sides in the result.
    on_mismatch, adjust, confidence, n_resamples, seed, rng, executor
        As in `compare_runs`.

    Returns
    -------
    RunComparison
        Comparison with cells in the order of A's slices.

    Raises
    ------
    InvalidInputError
        If an option or a metric is unknown.
    ArtifactError
        If a unit has different content in A and B.

    Examples
    --------
    >>> y = [0, 1] * 10
    >>> a = Records.from_rows(y, [0.4, 0.6, 0.5, 0.3] * 5, unit_id=[str(i) for i in range(20)])
    >>> b = Records.from_rows(y, [0.4, 0.6, 0.3, 0.5] * 5, unit_id=[str(i) for i in range(20)])
    >>> cell = compare_records({"test": a}, {"test": b}, ["roc_auc"])["test", "", "roc_auc"]
    >>> cell.value_a, cell.value_b, cell.verdict
    (0.5, 1.0, 'better')
    """
    for side, given in (("a", a), ("b", b)):
        if not isinstance(given, Mapping):
            raise InvalidTypeError(f"`{side}` must map slice names to Records, got {given!r}")
    options = _options(
        on_mismatch,
        adjust,
        resampling["n_resamples"],
        resampling["confidence"],
        resolve_seed(resampling["seed"], resampling["rng"]),
    )
    draws = replace(options.draws, executor=resampling["executor"])
    requested = [one.metric for one in requested_cells(metrics, _column_names(a))]
    subjects = [
        Subject(name, *scorers, records, b[name]) for name, records in a.items() if name in b
    ]
    work = [(subject, tasks_for(subject, requested)) for subject in subjects]
    return RunComparison(
        run_a=names[0],
        run_b=names[1],
        cells=_cells(work, options.on_mismatch, options.adjust, draws),
        adjust=options.adjust,
        confidence=draws.confidence,
        seed=draws.seed,
        only_in_a=tuple((name, scorers[0]) for name in a if name not in b),
        only_in_b=tuple((name, scorers[1]) for name in b if name not in a),
    )


def _column_names(records: Mapping[str, Records]) -> list[str]:
    return [name for one in records.values() if isinstance(one, Records) for name in one.columns]


def _tasks(
    subject: Subject,
    named: Sequence[Requested] | None,
    *,
    specs: Sequence[MetricSpec],
    curves: Mapping[str, CurveOf],
) -> list[Task]:
    """Return the metrics to compare on a subject: those requested, or all stored metrics."""
    if named is None:
        tasks = stored_tasks(subject, specs)
    else:
        tasks = tasks_for(subject, [one.metric for one in named], specs)
    return [withheld(task, subject.block_a, subject.block_b, curves) for task in tasks]


def _wholes_work(
    matched: Matched, requested: Sequence[Requested] | None, tasks_of: _TasksOf
) -> _Work:
    """Return the comparisons on whole slices."""
    if requested is None:
        return [(subject, tasks_of(subject, None)) for subject in matched.subjects]
    everywhere = [one for one in requested if one.part is None]
    found = [
        (subject, [one for one in everywhere if one.is_of(subject.scorer_a)])
        for subject in matched.subjects
    ]
    return [(subject, tasks_of(subject, own)) for subject, own in found if own]


def _check_systems(matched: Matched, requested: Sequence[Requested]) -> None:
    """Raise if an address names a system that is not compared."""
    have = list(dict.fromkeys(subject.scorer_a for subject in matched.subjects))
    for one in requested:
        if one.system is not None and one.system not in have:
            raise MissingColumnError(
                f"`metrics`: no scorer {one.system!r} is compared; choose from "
                f"{', '.join(map(repr, have))}"
            )


def _at_address(matched: Matched, request: Requested, tasks_of: _TasksOf, run: Run) -> _Work:
    """Return the comparisons of one metric on one part, for all slices and scorers that have it."""
    pairs = request.part or {}
    found = [
        (part, tasks_of(part, [request]))
        for subject in matched.subjects
        if request.is_of(subject.scorer_a) and (part := at_part(subject, pairs)) is not None
    ]
    if not found:
        named = written(request.name, format_part(pairs), request.system)
        parts = dict.fromkeys(run.cells.place(*place) for place in run.cells.places)
        near = difflib.get_close_matches(format_part(pairs), parts, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"run {run.run_id!r} has {', '.join(parts)}"
        )
        raise MissingColumnError(f"`metrics`: no run has {named!r}; {hint}")
    return found


def _with_parts(
    matched: Matched, work: _Work, by: str, runs: tuple[Run, Run]
) -> tuple[Matched, _Work]:
    """Add the parts of each slice; means over these parts are compared only on the whole slice."""
    tasks_of = {
        (subject.slice, subject.scorer_a): tasks for subject, tasks in work if subject.part == WHOLE
    }
    parts = divided([subject for subject, _ in work if subject.part == WHOLE], by, runs)
    added = [
        (part, [task for task in tasks_of[part.slice, part.scorer_a] if task.macro_by != by])
        for part in parts.subjects
    ]
    alone_a, alone_b = matched.only_in_a + parts.only_in_a, matched.only_in_b + parts.only_in_b
    return replace(matched, only_in_a=alone_a, only_in_b=alone_b), [*work, *added]


@dataclass(frozen=True, slots=True)
class _Options:
    on_mismatch: str
    adjust: str
    draws: Draws


def _options(
    on_mismatch: str, adjust: str, n_resamples: int, confidence: float, seed: int
) -> _Options:
    return _Options(
        validation.choice(on_mismatch, "on_mismatch", ("raise", "drop")),
        validation.choice(adjust, "adjust", get_args(CorrectionMethod)),
        Draws(
            validation.integer(n_resamples, "n_resamples", low=1),
            validation.fraction(confidence, "confidence"),
            seed,
        ),
    )


def opened_run(run: Run | Outcome | str | Path, name: str) -> Run:
    """Open and check the run at a path, or convert an outcome into a run."""
    if isinstance(run, (str, Path)):
        if Path(run).is_file() and Path(run).name != MANIFEST:
            raise InvalidInputError(
                f"`{name}` is {str(run)!r}, which is a file, not a run; if it contains predictions, pass "
                f"score_predictions({str(run)!r})"
            )
        return Run.open(run)
    if isinstance(run, Outcome):
        return run.as_run()
    if not isinstance(run, Run):
        raise InvalidTypeError(
            f"`{name}` must be a Run, an Outcome or the path of a run, got a "
            f"{type(run).__name__}; to compare predictions, pass score_predictions(…)"
        )
    return run


def _cells(work: _Work, on_mismatch: str, adjust: str, draws: Draws) -> tuple[RunDifference, ...]:
    cells: list[RunDifference] = []
    compared: dict[str, dict[str, CommonUnits]] = {}
    families: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for subject, tasks in work:
        families[subject.scorer_a, subject.slice, subject.part] = subject.family
        blank = RunDifference(
            slice=subject.slice,
            part=subject.part,
            scorer=subject.scorer_a,
            scorer_b=subject.scorer_b,
            metric="",
        )
        if subject.records_a is None or subject.records_b is None:
            cells += [
                replace(
                    blank,
                    metric=task.name,
                    status="skipped",
                    reason=subject.absence,
                    higher_is_better=task.higher_is_better,
                    confidence=draws.confidence,
                )
                for task in tasks
            ]
            continue
        units = common_units(
            subject.records_a,
            subject.records_b,
            on_mismatch=on_mismatch,
            where=in_words(subject.slice, subject.part, subject.scorer_a),
        )
        if not subject.family:
            compared.setdefault(subject.scorer_a, {})[subject.slice] = units
        folds = paired_folds(subject.folds_a, subject.folds_b, units)
        cells += [
            _cell(replace(blank, metric=task.name), task, units, folds, draws) for task in tasks
        ]
    for scorer, by_slice in compared.items():
        families |= {(scorer, name, WHOLE): (name,) for name in _wholes(by_slice)}
    return tuple(_adjusted(cells, families, adjust))


def _cell(
    cell: RunDifference,
    task: Task,
    units: CommonUnits,
    folds: PairedFolds | Pooled | None,
    draws: Draws,
) -> RunDifference:
    """Compute a cell: by fold if both runs have the same folds, otherwise by unit."""
    if task.curve is not None:
        return curve_difference(cell, task, units, draws)
    if isinstance(folds, PairedFolds):
        return fold_difference(cell, task, folds, draws)
    if folds is None:
        return difference(cell, task, units, draws)
    if not folds.possible:
        return difference(cell, replace(task, spec=None, reason=folds.reason), units, draws)
    filled = difference(cell, task, units, draws)
    return replace(filled, reason="; ".join(filter(None, [folds.reason, filled.reason])))


def _wholes(by_slice: Mapping[str, CommonUnits]) -> set[str]:
    """Return the slices that contain all others; several if they have the same units."""
    largest = max(map(len, by_slice.values()))
    return {
        name
        for name, units in by_slice.items()
        if len(units) == largest
        and all(units.contains(other) for other in by_slice.values() if other is not units)
    }


def _adjusted(
    cells: list[RunDifference],
    families: Mapping[tuple[str, str, str], tuple[str, ...]],
    adjust: str,
) -> list[RunDifference]:
    """Correct the p-values of each scorer for the number of metrics and slices in each family."""
    together: dict[tuple[str, ...], list[int]] = {}
    for index, cell in enumerate(cells):
        if cell.p_value is not None:
            family = families[cell.scorer, cell.slice, cell.part]
            together.setdefault((cell.scorer, *family), []).append(index)
    result = list(cells)
    for members in together.values():
        p_values = np.array([cells[index].p_value for index in members], dtype=np.float64)
        adjusted = correct_p_values(p_values, method=adjust)  # type: ignore[arg-type]
        for index, p in zip(members, adjusted.tolist(), strict=True):
            result[index] = replace(cells[index], p_adjusted=p)
    return result
