"""Selection of the slices, scorers and metrics to compare, with version checks."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval_toolkit import metric_specs as ms
from eval_toolkit.analysis.differences import Decision, Task
from eval_toolkit.analysis.directions import agreed, stated_by, stated_in
from eval_toolkit.analysis.folds import Fold, folds_of
from eval_toolkit.analysis.matching import (
    MatchSpec,
    any_imported,
    matched_records,
    renamed,
    renamed_columns,
    source_tool,
)
from eval_toolkit.analysis.name_directions import higher_is_better
from eval_toolkit.analysis.rollout_settings import changed_settings
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.metric_specs import at_threshold as op_metric_specs
from eval_toolkit.metric_specs.columns import ATTACKED
from eval_toolkit.metric_specs.names import named, quantity_of, stored_name
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run
from eval_toolkit.runs.cells import read_cell
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import WHOLE

_OF_ATTEMPTS = re.compile(r"(.+)_(pass@|pass\^|maj@|asr@)([1-9][0-9]*)")
_ATTACKED = re.compile(r"asr@([1-9][0-9]*)")
_BOOKKEEPING = frozenset({"n", "n_positive", "is_single_class", "error_state"})


@dataclass(frozen=True)
class Subject:
    """Slice, with the scorers of A and B to compare on it."""

    slice: str
    scorer_a: str
    scorer_b: str
    records_a: Records | None
    records_b: Records | None
    block_a: Mapping[str, Any] = field(default_factory=dict)
    block_b: Mapping[str, Any] = field(default_factory=dict)
    folds_a: Mapping[str, Fold] | None = None
    folds_b: Mapping[str, Fold] | None = None
    """Folds by key, if the run was evaluated in folds."""
    stated_a: Mapping[str, bool] = field(default_factory=dict)
    stated_b: Mapping[str, bool] = field(default_factory=dict)
    """Directions recorded in the runs' manifests."""
    part: str = WHOLE
    """Part of the slice, in the notation of `scorecards.parts`."""
    family: tuple[str, ...] = ()
    """Conditions that the part shares with the other parts of its slice."""

    @property
    def sides(self) -> tuple[Records | None, Records | None]:
        """Records of A and of B."""
        return self.records_a, self.records_b

    @property
    def columns(self) -> list[str]:
        """Columns of the records of either side."""
        return [name for one in self.sides if one is not None for name in one.columns]

    @property
    def is_whole(self) -> bool:
        """Whether both sides have records."""
        return self.records_a is not None and self.records_b is not None

    @property
    def absence(self) -> str:
        """Reason why a side has no records."""
        return "; ".join(
            f"no records in {side}: {_why(block)}"
            for side, records, block in (
                ("A", self.records_a, self.block_a),
                ("B", self.records_b, self.block_b),
            )
            if records is None
        )


def _why(block: Mapping[str, Any]) -> str:
    for state, verb in (("skipped", "was skipped"), ("error", "failed")):
        if state in block:
            return f"the scorer {verb}: {block[state]}"
    return "they were not stored"


@dataclass(frozen=True, slots=True)
class Matched:
    """Subjects that both runs have, and subjects in only one run."""

    subjects: tuple[Subject, ...]
    only_in_a: tuple[tuple[str, str], ...]
    only_in_b: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    """Notes on how units were paired, if they were not paired by id."""


def matched_subjects(
    a: Run,
    b: Run,
    *,
    slices: Sequence[str] | None,
    scorers: Sequence[str] | None,
    pairs: Mapping[str, str] | None,
    match: MatchSpec,
) -> Matched:
    """Return the slices and scorers to compare: paired as requested, by name, or as only pair."""
    of_a, of_b = _known(a), _known(b)
    theirs = _slice_names(a, b, of_a, of_b, match.slices)
    of_b = _with_slice_names_of_a(of_b, theirs)
    names = _names(slices, "slices", dict.fromkeys(slice_ for slice_, _ in of_a), a, b, of_b, 0)
    partner = _partners(a, b, of_a, of_b, pairs)
    requested = _names(scorers, "scorers", dict.fromkeys(name for _, name in of_a), a, b, of_b, 1)
    chosen = [key for key in of_a if key[0] in names and key[1] in requested]
    both = [
        (key, (key[0], partner[key[1]]))
        for key in chosen
        if key[1] in partner and (key[0], partner[key[1]]) in of_b
    ]
    if not both:
        raise MissingColumnError(
            f"run {a.run_id!r} and run {b.run_id!r} have nothing in common: A has "
            f"{_listed(of_a)}; B has {_listed(of_b)}. Pair scorers that have different names with `pairs`"
        )
    notes: list[str] = []
    subjects = []
    for first, second in both:
        in_b = (theirs.get(second[0], second[0]), second[1])
        records_a = a.records(*first) if first in of_a.with_records else None
        records_b = b.records(*in_b) if second in of_b.with_records else None
        metrics = match.metrics
        _check_metrics(metrics, (of_a[first], records_a, a), (of_b[second], records_b, b))
        if not metrics and any_imported(a, b):
            metrics = _only_columns(records_a, records_b)
            notes += [
                f"{first[0]}: B's {their} is compared with A's {our}"
                for our, their in metrics.items()
            ]
        if records_b is not None:
            records_b = renamed_columns(records_b, metrics)
        if records_a is not None and records_b is not None:
            records_b, pairing_notes = matched_records(
                (a, records_a), (b, records_b), (first[0], in_b[0]), match.units
            )
            notes += pairing_notes
        subjects.append(
            Subject(
                slice=first[0],
                scorer_a=first[1],
                scorer_b=second[1],
                records_a=records_a,
                records_b=records_b,
                block_a=of_a[first],
                block_b=renamed(of_b[second], metrics),
                folds_a=folds_of(a, *first),
                folds_b=folds_of(b, *in_b),
                stated_a=stated_in(a),
                stated_b=renamed(stated_in(b), metrics),
            )
        )
    used = {second for _, second in both}
    left_b = tuple(key for key in of_b if key not in used and slices is None and scorers is None)
    left_a = tuple(key for key in chosen if key not in {first for first, _ in both})
    return Matched(tuple(subjects), left_a, left_b, tuple(notes))


class _Known(dict[tuple[str, str], Mapping[str, Any]]):
    """Stored results of a run by (slice, scorer), and which of them have records."""

    with_records: frozenset[tuple[str, str]]


def _known(run: Run) -> _Known:
    known = _Known()
    for slice_name, part, scorer, block in run.cells.blocks():
        if part == WHOLE:
            known[slice_name, scorer] = block
    for key in run.subjects:
        known.setdefault(key, {})
    known.with_records = frozenset(run.subjects)
    return known


def _slice_names(
    a: Run, b: Run, of_a: _Known, of_b: _Known, given: Mapping[str, str]
) -> dict[str, str]:
    """Return B's names for the slices of A: as given, or the only slice of each run."""
    in_a, in_b = (list(dict.fromkeys(slice_ for slice_, _ in of)) for of in (of_a, of_b))
    for run, names, have in ((a, given.keys(), in_a), (b, given.values(), in_b)):
        for name in names:
            if name not in have:
                raise MissingColumnError(
                    f"run {run.run_id!r} has no slice {name!r}; it has {', '.join(map(repr, have))}"
                )
    if not given and any_imported(a, b) and len(in_a) == len(in_b) == 1 and in_a != in_b:
        return {in_a[0]: in_b[0]}
    return dict(given)


def _check_metrics(
    metrics: Mapping[str, str], *sides: tuple[Mapping[str, Any], Records | None, Run]
) -> None:
    """Raise if a run does not have one of the given metrics, instead of ignoring the pair."""
    for names, (block, records, run) in zip(
        (list(metrics), list(metrics.values())), sides, strict=True
    ):
        known = [*(name for name, cell in block.items() if _is_metric(name, cell))]
        known += [name for name in (records.numbers if records else ()) if name not in known]
        for name in names:
            if name not in known:
                raise MissingColumnError(
                    f"run {run.run_id!r} has no metric {name!r}; it has "
                    f"{', '.join(map(repr, known)) or 'none'}"
                )


def _only_columns(a: Records | None, b: Records | None) -> dict[str, str]:
    """Return the only column of each side as a pair, if their names differ."""
    if a is None or b is None or len(a.columns) != 1 or len(b.columns) != 1:
        return {}
    (ours,), (theirs,) = a.columns, b.columns
    return {} if ours == theirs else {ours: theirs}


def _with_slice_names_of_a(known: _Known, theirs: Mapping[str, str]) -> _Known:
    """Return the results of B under A's slice names; conflicting slices are dropped."""
    ours = {name: our for our, name in theirs.items()}
    keys = {
        key: (ours.get(key[0], key[0]), key[1])
        for key in known
        if key[0] in ours or key[0] not in theirs
    }
    under = _Known({keys[key]: block for key, block in known.items() if key in keys})
    under.with_records = frozenset(keys[key] for key in known.with_records if key in keys)
    return under


def _names(
    given: Sequence[str] | None,
    argument: str,
    have: Mapping[str, Any],
    a: Run,
    b: Run,
    of_b: _Known,
    part: int,
) -> Mapping[str, Any]:
    """Return the requested names; raise if a run does not have one of them."""
    if given is None:
        return have
    if isinstance(given, str):
        raise InvalidTypeError(f"`{argument}` must be a list; write [{given!r}]")
    have_b = {key[part] for key in of_b}
    for name in given:
        if name not in have:
            raise MissingColumnError(
                f"`{argument}`: run {a.run_id!r} has no {name!r}; it has "
                f"{', '.join(map(repr, have))}"
            )
        if part == 0 and name not in have_b:
            raise MissingColumnError(
                f"`{argument}`: run {b.run_id!r} has no {name!r}; it has "
                f"{', '.join(map(repr, sorted(have_b)))}"
            )
    return dict.fromkeys(given)


def _partners(
    a: Run, b: Run, of_a: _Known, of_b: _Known, pairs: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the scorer of B to compare each scorer of A with."""
    in_a = list(dict.fromkeys(scorer for _, scorer in of_a))
    in_b = list(dict.fromkeys(scorer for _, scorer in of_b))
    if pairs is None:
        same = {name: name for name in in_a if name in in_b}
        if not same and len(in_a) == len(in_b) == 1:
            return {in_a[0]: in_b[0]}
        return same
    for run, names, have in ((a, pairs.keys(), in_a), (b, pairs.values(), in_b)):
        for name in names:
            if name not in have:
                raise MissingColumnError(
                    f"run {run.run_id!r} has no scorer {name!r}; it has "
                    f"{', '.join(map(repr, have))}"
                )
    return dict(pairs)


def _listed(known: _Known) -> str:
    return ", ".join(f"{slice_name}/{scorer}" for slice_name, scorer in known) or "nothing"


def tasks_for(
    subject: Subject, metrics: Sequence[MetricSpec | str], specs: Sequence[MetricSpec] = ()
) -> list[Task]:
    """Return the comparisons for a subject's records.

    ``specs`` resolve names that do not determine a metric by themselves.
    """
    known = {spec.name: spec for spec in specs}
    tasks = []
    for metric in metrics:
        given = known.get(metric, metric) if isinstance(metric, str) else metric
        if not isinstance(given, str):
            tasks.append(_spec_task(given))
        elif (stored := _stored_as(given, subject)) is not None:
            tasks.append(_stored_task(stored, subject))
        else:
            tasks.append(_named_task(given, subject))
    return [_as_stated(task, subject) for task in tasks]


def _stored_as(name: str, subject: Subject) -> str | None:
    """Return the name under which a metric is stored; None if it is not stored."""
    names = (name, stored_name(name))
    return next((one for one in names if one in subject.block_a or one in subject.block_b), None)


def _spec_task(spec: MetricSpec) -> Task:
    """Return the comparison for a spec; by default, its name determines the direction."""
    return Task(spec.name, spec, getattr(spec, "higher_is_better", higher_is_better(spec.name)))


def _as_stated(task: Task, subject: Subject) -> Task:
    """Return the comparison with the direction recorded in a manifest, which takes precedence."""
    stated = [
        *stated_by(subject.stated_a, {}, task.name),
        *stated_by(subject.stated_b, {}, task.name),
    ]
    return replace(task, higher_is_better=agreed(stated, task.name)) if stated else task


def stored_tasks(subject: Subject, specs: Sequence[MetricSpec] = ()) -> list[Task]:
    """Return the comparison of every metric stored by either run, or of the records' columns.

    ``specs`` resolve names that do not determine a metric by themselves. A mean over parts asks the
    same question as its metric with other weights, so only one of the two is tested.
    """
    names = dict.fromkeys(
        name
        for block in (subject.block_a, subject.block_b)
        for name, cell in block.items()
        if _is_metric(name, cell) and not (subject.is_whole and is_stated(cell))
    )
    if not names and subject.records_a is not None:
        columns = subject.records_a.columns
        scored = "label" in columns and "score" in columns
        names = dict.fromkeys(["pr_auc", "roc_auc"] if scored else list(columns))
    known = {spec.name: spec for spec in specs}
    tasks = [
        _spec_task(known[name]) if name in known else _stored_task(name, subject) for name in names
    ]
    tasks = [
        replace(task, tested=task.macro_by is None or task.name.removesuffix("_macro") not in names)
        for task in tasks
    ]
    return [_as_stated(task, subject) for task in tasks]


def _stored_task(name: str, subject: Subject) -> Task:
    """Return the comparison of a stored metric; custom metrics require a spec."""
    try:
        return _named_task(name, subject)
    except InvalidInputError:
        reason = (
            f"the runs do not store how {name} is computed; in Python pass its spec in `metrics`"
        )
        return Task(name, None, None, None, reason)


def _is_metric(name: str, cell: Any) -> bool:
    """Return whether an entry of stored results is a metric: a cell or a bare number."""
    return name not in _BOOKKEEPING and read_cell(name, cell) is not None


def is_stated(cell: Any) -> bool:
    """Return whether a cell is a number from another tool's log without records."""
    return _details(cell).get("stated") is True


def stated_note(subjects: Sequence[Subject]) -> str:
    """Return a note on numbers from logs that cannot be compared."""
    names = dict.fromkeys(
        name
        for subject in subjects
        for block in (subject.block_a, subject.block_b)
        for name, cell in block.items()
        if subject.is_whole and is_stated(cell)
    )
    if not names:
        return ""
    shown = ", ".join([*names][:5]) + (" …" if len(names) > 5 else "")
    return f"not compared: {len(names)} numbers from logs without samples ({shown})"


def _named_task(name: str, subject: Subject) -> Task:
    """Return the comparison of a metric by name: a column of the records, or a metric of scores."""
    of_records = _record_task(name, subject)
    if of_records is not None:
        return of_records
    quantity = quantity_of(name)
    try:
        spec = named(name)
    except InvalidInputError as error:
        if quantity is not None:
            return _held(name, quantity, subject)
        raise _unknown(name, subject) or error from None
    return Task(spec.name, spec, higher_is_better(name))


def _unknown(name: str, subject: Subject) -> MissingColumnError | None:
    """Return the error for a metric that runs without scores do not have; None with scores."""
    records = [one for one in (subject.records_a, subject.records_b) if one is not None]
    stored = [
        one
        for one in dict.fromkeys([*subject.block_a, *subject.block_b])
        if _is_metric(one, subject.block_a.get(one, subject.block_b.get(one)))
    ]
    if not stored or any({"label", "score"} <= {*one.columns} for one in records):
        return None
    near = difflib.get_close_matches(name, stored, n=1)
    hint = f"did you mean {near[0]}?" if near else f"these runs have {', '.join(stored)}"
    return MissingColumnError(f"there is no metric {name!r}; {hint}")


def _record_task(name: str, subject: Subject) -> Task | None:
    """Return the comparison of a column, of several attempts, or of a mean over parts."""
    stored = (subject.records_a, subject.records_b)
    columns = {name for records in stored if records is not None for name in records.numbers}
    details = _details(subject.block_a.get(name)) or _details(subject.block_b.get(name))
    up = agreed(
        [*stated_by({}, subject.block_a, name), *stated_by({}, subject.block_b, name)], name
    )
    by = details.get("by")
    if "label" in details and "metric" in details:
        return _pooled_task(name, details)
    if "ratio" in details:
        above, below = details["ratio"]
        return Task(name, ms.ratio_of(name, above, below, higher_is_better=up), up)
    plain = name.removesuffix("_macro") if isinstance(by, str) else name
    attacked = _ATTACKED.fullmatch(plain)
    match = _OF_ATTEMPTS.fullmatch(f"{ATTACKED}_{plain}" if attacked else plain)
    column = plain if match is None else match[1]
    if column not in columns or column in ("label", "score"):
        return None
    # Without a declared kind, and for means of attempts, the values decide.
    declared = details.get("kind")
    kind: ms.ColumnKind | None = declared if declared in ("share", "number") else None
    spec = ms.mean_of(column, higher_is_better=up, kind=kind)
    if match is not None:
        spec = _of_attempts(column, match[2], int(match[3]), details, up)
    return Task(name, spec, spec.higher_is_better, macro_by=by if plain != name else None)


def _of_attempts(
    column: str, kind: str, k: int, details: Mapping[str, Any], up: bool | None
) -> ms.ColumnSpec:
    """Return the metric of several attempts; lower is better for ASR@k, higher for maj@k."""
    if kind == "asr@":
        return ms.asr_at_k(k, column=column)
    if kind == "maj@":
        return ms.maj_at_k(column, k, answer=str(details.get("answer") or f"{column}_answer"))
    return (ms.pass_at_k if kind == "pass@" else ms.pass_hat_k)(column, k, higher_is_better=up)


def unit_metric(name: str, records: Records, cells: Mapping[str, Any]) -> ms.ColumnSpec | None:
    """Return a named metric as a mean of one value per unit; None if it is not such a mean.

    Examples
    --------
    >>> records = Records.from_columns({"right": [1.0, 0.0], "words": [3.0, 4.0]})
    >>> unit_metric("right_pass@1", records, {}).column, unit_metric("bleu_corpus", records, {})
    ('right', None)
    """
    task = _record_task(name, Subject("", "", "", records, None, cells))
    if task is None or task.macro_by is not None:
        return None
    return task.spec if isinstance(task.spec, ms.ColumnSpec) else None


def _pooled_task(name: str, details: Mapping[str, Any]) -> Task:
    """Return the comparison of a metric computed from columns other than label and score."""
    known = named(str(details["metric"]))
    if not isinstance(known, ms.ScoreSpec):
        raise InvalidInputError(
            f"{name}: {details['metric']!r} is not a metric of labels and scores"
        )
    columns = {key: str(details[key]) for key in ("label", "score")}
    return Task(name, ms.on_columns(known, name=name, **columns), known.higher_is_better)


def _details(cell: Any) -> Mapping[str, Any]:
    details = cell.get("details") if isinstance(cell, Mapping) else None
    return details if isinstance(details, Mapping) else {}


def _held(name: str, quantity: str, subject: Subject) -> Task:
    """Return the comparison of a metric at fitted thresholds, which may differ between runs."""
    direction = higher_is_better(name)
    thresholds = [_threshold(block.get(name)) for block in (subject.block_a, subject.block_b)]
    if name.endswith("_refit"):
        reason = "a refitted selector cannot be derived from a name; pass the spec"
        return Task(name, None, direction, None, reason)
    lacking = [
        side
        for side, block in (("A", subject.block_a), ("B", subject.block_b))
        if name not in block
    ]
    if lacking:
        reason = f"{lacking[0]} was not measured at this threshold"
        return Task(name, None, direction, None, reason)
    if thresholds[0] is None or thresholds[1] is None:
        reason = "the runs do not store the threshold that was used; pass the spec"
        return Task(name, None, direction, None, reason)
    at = getattr(op_metric_specs, f"op_{quantity}")
    if thresholds[0] == thresholds[1]:
        return Task(name, at(thresholds[0]), direction)
    if quantity == "net_benefit":
        reason = (
            f"net benefit at threshold {thresholds[0]:g} and at {thresholds[1]:g} use different "
            f"weights for false positives"
        )
        return Task(name, None, direction, None, reason)
    reason = f"thresholds held at {thresholds[0]:g} in A and {thresholds[1]:g} in B"
    return Task(name, at(0.5), direction, Decision(thresholds[0], thresholds[1]), reason)


def _threshold(cell: Any) -> float | None:
    threshold = _details(cell).get("threshold")
    is_number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    return float(threshold) if is_number else None  # type: ignore[arg-type]


def check_versions(
    manifest_a: Mapping[str, Any],
    manifest_b: Mapping[str, Any],
    work: Sequence[tuple[Subject, Sequence[Task]]],
    *,
    allow: bool,
) -> dict[str, tuple[str | None, str | None]]:
    """Return the compared objects whose versions differ; raise unless this is allowed.

    Scorers with different names are expected to differ and are not checked, nor are objects that
    are missing from another tool's log. For rollout runs, settings that change the numbers computed
    from the same answers must also agree.
    """
    versions_a = manifest_a.get("versioned_objects") or {}
    versions_b = manifest_b.get("versioned_objects") or {}
    compared = {
        *(f"scorer:{s.scorer_a}" for s, _ in work if s.scorer_a == s.scorer_b),
        *(f"metric:{task.name}" for _, tasks in work for task in tasks),
        *(name for name in {*versions_a, *versions_b} if name.startswith("task:")),
        *(
            name
            for name in {*versions_a} & {*versions_b}
            if name.startswith(("grader:", "text_scorer:"))
        ),
    }
    if any(source_tool(manifest) for manifest in (manifest_a, manifest_b)):
        compared &= {*versions_a} & {*versions_b}
    changes: dict[str, tuple[str | None, str | None]] = {
        name: (versions_a.get(name), versions_b.get(name))
        for name in sorted(compared)
        if versions_a.get(name) != versions_b.get(name)
    }
    settings = changed_settings(manifest_a, manifest_b)
    what = " and settings" if changes and settings else ""
    what = ("versions" if changes else "settings") + what
    changes |= settings
    if changes and not allow:
        differences = ", ".join(
            f"{name} is {a or 'unversioned'} in A and {b or 'unversioned'} in B"
            for name, (a, b) in changes.items()
        )
        raise InvalidInputError(
            f"{what} differ: {differences}, which may explain a difference; compare anyway with "
            "allow_version_change=True (--allow-version-change)"
        )
    return changes
