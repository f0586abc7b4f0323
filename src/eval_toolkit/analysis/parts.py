"""Parts of what is compared: the units of one subject, language or source, with cells of their own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eval_toolkit.analysis.subjects import Matched, Subject
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records

__all__ = ["divided", "part_names"]


def part_names(by: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return by what is divided; one name or several, each once.

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
        raise InvalidInputError(f"`by` names {twice[0]!r} twice; give each name once")
    return tuple(names)


def divided(subjects: Sequence[Subject], by: str, runs: tuple[Run, Run]) -> Matched:
    """Return the parts of each subject that both runs have, and those that only one has.

    A slice of which neither run names the parts has none; that is refused where it is so of all.
    """
    found = [_divided(subject, by, runs) for subject in subjects]
    if not any(one.subjects or one.only_in_a or one.only_in_b for one in found):
        raise _no_part(runs[0], by, [subject.records_a for subject in subjects])
    return Matched(
        tuple(part for one in found for part in one.subjects),
        tuple(key for one in found for key in one.only_in_a),
        tuple(key for one in found for key in one.only_in_b),
    )


def _divided(subject: Subject, by: str, runs: tuple[Run, Run]) -> Matched:
    sides = (subject.records_a, subject.records_b)
    stored = [records for records in sides if records is not None]
    if not any(by in records.slices for records in stored):
        return Matched((), (), ())
    for run, records in zip(runs, sides, strict=True):
        if records is not None and by not in records.slices:
            raise _no_part(run, by, [records])
    if subject.folds_a is not None or subject.folds_b is not None:
        raise InvalidInputError(
            f"`by`: slice {subject.slice!r} was made in folds, whose means are compared as a whole; "
            "compare it without `by`"
        )
    everywhere = sorted({name for records in stored for name in records.slices[by]})
    # A side without records lacks no part: each has its row, and the reason.
    lacking_a, lacking_b = (
        set() if records is None else {*everywhere} - {*records.slices[by]} for records in sides
    )
    return Matched(
        tuple(
            _part(subject, by, name)
            for name in everywhere
            if name not in lacking_a | lacking_b and subject.slice != f"{by}={name}"
        ),
        tuple((_named(subject, by, name), subject.scorer_a) for name in sorted(lacking_b)),
        tuple((_named(subject, by, name), subject.scorer_b) for name in sorted(lacking_a)),
    )


def _part(subject: Subject, by: str, name: str) -> Subject:
    a, b = (
        None if records is None else records.take(records.slices[by] == name)
        for records in (subject.records_a, subject.records_b)
    )
    whole = (subject.slice, by)
    return replace(subject, slice=_named(subject, by, name), records_a=a, records_b=b, family=whole)


def _named(subject: Subject, by: str, name: str) -> str:
    return f"{subject.slice}, {by}={name}"


def _no_part(run: Run, by: str, sides: Sequence[Records | None]) -> MissingColumnError:
    have = sorted({name for records in sides if records is not None for name in records.slices})
    listed = f"it has {', '.join(map(repr, have))}" if have else "it has no parts"
    return MissingColumnError(f"`by`: run {run.run_id!r} has no part {by!r}; {listed}")
