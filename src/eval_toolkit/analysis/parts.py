"""Parts of a comparison: the units of one subject, language or fold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit.analysis.subjects import Matched, Subject
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Run
from eval_toolkit.runs.addresses import Address
from eval_toolkit.runs.table import part_mask
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import FOLD, SLICE, format_part, parse_part


@dataclass(frozen=True, slots=True)
class Requested:
    """Requested metric, with an optional address."""

    metric: MetricSpec | str
    part: Mapping[str, str] | None = None
    system: str | None = None

    @property
    def name(self) -> str:
        """Name of the metric."""
        return self.metric if isinstance(self.metric, str) else self.metric.name

    def is_of(self, scorer: str) -> bool:
        """Return whether the request applies to a scorer of A."""
        return self.system in (None, scorer)


def requested_cells(
    metrics: Sequence[MetricSpec | str], known: Sequence[str] = ()
) -> list[Requested]:
    """Return the requested metrics; a string may be the address of a cell.

    An address has the form ``exact_match @ subject=Africa``; names in ``known`` are not parsed as
    addresses.

    Examples
    --------
    >>> [one.part for one in requested_cells(["f1", "f1 @ language=de"])]
    [None, {'language': 'de'}]
    """
    if isinstance(metrics, (str, MetricSpec)):
        raise InvalidTypeError("`metrics` must be a list of names or specs; enclose it in brackets")
    requested = []
    for metric in metrics:
        if isinstance(metric, str) and metric and metric not in known:
            address = Address.parse(metric)
            requested.append(Requested(address.metric, address.part or None, address.system))
        else:
            requested.append(Requested(metric))
    keys = [(one.name, format_part(one.part or {}), one.system) for one in requested]
    twice = [key for index, key in enumerate(keys) if key in keys[:index]]
    if not requested or twice:
        problem = f"names {twice[0][0]!r} twice" if twice else "is empty"
        raise InvalidInputError(f"`metrics` {problem}; list each metric only once")
    return requested


def part_names(by: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the parts in ``by``; raise if one occurs twice.

    Examples
    --------
    >>> part_names("subject"), part_names(None)
    (('subject',), ())
    """
    names: Any = (by,) if isinstance(by, str) else () if by is None else by
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"`by` must be a name or a list of names, got {by!r}")
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise InvalidInputError(f"`by` names {twice[0]!r} twice; list each name only once")
    return tuple(names)


def scored_by(*runs: Run) -> tuple[str, ...]:
    """Return the parts by which all of the runs were scored (``score --by``)."""
    named = []
    for run in runs:
        config = run.manifest.get("config")
        by = config.get("by") if isinstance(config, Mapping) else None
        named.append([name for name in by if isinstance(name, str)] if isinstance(by, list) else [])
    return tuple(name for name in named[0] if all(name in other for other in named))


def divided(subjects: Sequence[Subject], by: str, runs: tuple[Run, Run]) -> Matched:
    """Return the parts of each subject that both runs have, and those that only one run has.

    Subjects without these parts in either run are skipped; raise if no subject has them.
    """
    found = [_divided(subject, by, runs) for subject in subjects]
    if not any(one.subjects or one.only_in_a or one.only_in_b for one in found):
        raise _no_part(runs[0], by, [subject.records_a for subject in subjects])
    return Matched(
        tuple(part for one in found for part in one.subjects),
        tuple(key for one in found for key in one.only_in_a),
        tuple(key for one in found for key in one.only_in_b),
    )


def at_part(subject: Subject, pairs: Mapping[str, str]) -> Subject | None:
    """Return the units of a subject in a part; None if neither side has any.

    ``pairs`` defines the part; its key "slice" may contain the name of the slice.
    """
    conditions = dict(pairs)
    stored = [records for records in subject.sides if records is not None]
    if conditions.get(SLICE) == subject.slice and not any(SLICE in one.slices for one in stored):
        del conditions[SLICE]
    if not conditions:
        return subject
    if not any(part_mask(records, conditions).any() for records in stored):
        return None
    return _part(subject, conditions)


def _divided(subject: Subject, by: str, runs: tuple[Run, Run]) -> Matched:
    stored = [records for records in subject.sides if records is not None]
    if not any(by in records.slices for records in stored):
        return Matched((), (), ())
    for run, records in zip(runs, subject.sides, strict=True):
        if records is not None and by not in records.slices:
            raise _no_part(run, by, [records])
    if by != FOLD and (subject.folds_a is not None or subject.folds_b is not None):
        raise InvalidInputError(
            f"`by`: slice {subject.slice!r} was evaluated in folds, whose means are compared as a whole; "
            "compare it without `by`, or by fold"
        )
    folds = subject.folds_a or subject.folds_b
    keys = (by,) if not folds else tuple(parse_part(next(iter(folds))))
    of_side = [None if one is None else _values(one, keys) for one in subject.sides]
    everywhere = sorted({values for side in of_side if side is not None for values in side})
    # A side without records is not missing any part: each part has a row with the reason.
    lacking_a, lacking_b = (set() if side is None else {*everywhere} - {*side} for side in of_side)
    parts = {values: dict(zip(keys, values, strict=True)) for values in everywhere}
    return Matched(
        tuple(
            _part(subject, pairs)
            for values, pairs in parts.items()
            if values not in lacking_a | lacking_b
        ),
        tuple((_named(subject, parts[one]), subject.scorer_a) for one in sorted(lacking_b)),
        tuple((_named(subject, parts[one]), subject.scorer_b) for one in sorted(lacking_a)),
    )


def _values(records: Records, keys: Sequence[str]) -> set[tuple[str, ...]]:
    columns = [records.slices[key].astype(str).tolist() for key in keys]
    return set(zip(*columns, strict=True))


def _part(subject: Subject, pairs: Mapping[str, str]) -> Subject:
    a, b = (
        None if records is None else records.take(part_mask(records, pairs))
        for records in subject.sides
    )
    return replace(
        subject,
        part=format_part(pairs),
        records_a=a,
        records_b=b,
        folds_a=None,
        folds_b=None,
        family=(subject.slice, "parts"),
    )


def _named(subject: Subject, pairs: Mapping[str, str]) -> str:
    return f"{format_part({SLICE: subject.slice})}&{format_part(pairs)}"


def _no_part(run: Run, by: str, sides: Sequence[Records | None]) -> MissingColumnError:
    have = sorted({name for records in sides if records is not None for name in records.slices})
    listed = f"it has {', '.join(map(repr, have))}" if have else "it has no parts"
    return MissingColumnError(f"`by`: run {run.run_id!r} has no part {by!r}; {listed}")
