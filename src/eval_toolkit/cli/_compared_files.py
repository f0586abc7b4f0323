"""Pair the rows of two or more files of predictions for ``eval-toolkit compare``."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import click
import numpy as np

from eval_toolkit._internal import tables
from eval_toolkit._internal.validation import BoolArray, IntArray
from eval_toolkit.cli._compared_runs import distinct_names, ends_of
from eval_toolkit.cli._data import stem_of
from eval_toolkit.cli._remote import Fetched
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.loaders.columns import IDS, Wanted, identifies
from eval_toolkit.loaders.predictions import Parts, Predictions, read_predictions

_HASH = "content hash"
_SHOWN = 3
"""Number of ids shown per file if the files have no ids in common."""


@dataclass(frozen=True)
class Joined:
    """Rows that all systems have in common, and how they were paired."""

    rows: Predictions
    """Rows with their scores, by system name."""
    sources: tuple[str, ...]
    """Source of each system: a file, or a column of a file."""
    paired_on: str
    only_first_has: tuple[str, ...] = ()
    """Slice and group columns of the first file that other files lack."""
    n_only: tuple[int, ...] = ()
    """Number of rows of each file that are missing from another file."""
    n_dropped: int = 0

    @property
    def names(self) -> list[str]:
        """Name of each system."""
        return list(self.rows.scores)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        n_only = self.n_only or (0,) * len(self.names)
        a, b = n_only[:2]
        only: dict[str, Any] = {"n_only_a": a, "n_only_b": b}
        if len(n_only) > 2:
            only = {"n_only": dict(zip(self.names, n_only, strict=True))}
        return {
            "paired_on": self.paired_on,
            "n_paired": len(self.rows),
            **only,
            "n_dropped": self.n_dropped,
        }

    def lead(self) -> list[str]:
        """Return a line that describes the compared rows."""
        of = " and ".join([", ".join(self.sources[:-1]), self.sources[-1]])
        lines = [f"{of}: {len(self.rows)} rows, paired by {self.paired_on}"]
        if any(self.n_only) or self.n_dropped:
            only = [
                f"{n} rows only in {name}" for name, n in zip(self.names, self.n_only, strict=True)
            ]
            lines.append(f"left out: {', '.join(only)}, {self.n_dropped} that differ")
        if self.only_first_has:
            lines.append(
                f"columns read from {self.names[0]} only: {', '.join(self.only_first_has)}"
            )
        return [*lines, *self.rows.notes]


def joined_columns(path: str, wanted: Wanted) -> Joined:
    """Read two or more score columns of one file."""
    if len(wanted.scores) < 2:
        raise click.UsageError("pass two files, or one with two score columns: --score a --score b")
    found = read_predictions([path], wanted)
    if len(found.scores) != len(wanted.scores):
        twice = next(name for name in wanted.scores if wanted.scores.count(name) > 1)
        raise InvalidInputError(f"{path}: --score names {twice!r} twice")
    return Joined(found, tuple(found.scores), "row")


def joined_files(files: Fetched, wanted: Wanted, on_mismatch: str) -> Joined:
    """Read two or more files and join their rows by id or by row order."""
    paths = files.paths
    if len(wanted.scores) not in (0, 1, len(paths)):
        raise click.UsageError(
            f"pass one --score for all files, or one for each of the {len(paths)}"
        )
    columns = [tables.column_names(path, wanted.file_format) for path in paths]
    keys = wanted.keys(columns)
    wanted = replace(wanted, ids=tuple(keys), keyed=bool(keys))
    sides = [
        _read(path, wanted, at, have)
        for at, (path, have) in enumerate(zip(paths, columns, strict=True))
    ]
    titles = [files.name(path) for path in paths]
    names = _names_of(titles)
    sides = [
        replace(side, scores={name: next(iter(side.scores.values()))})
        for name, side in zip(names, sides, strict=True)
    ]
    sources = distinct_names([Path(title).name for title in titles], titles)
    paired_on, n_only, n_dropped = _ORDER, tuple(0 for _ in sides), 0
    key = wanted.id or _common_key(sides, keys)
    if key is None:
        rows = _by_order([_in_order(side) for side in sides], sources, columns)
    else:
        sides = [side if side.id == key else side.keyed_by(key) for side in sides]
        rows, paired_on, n_only, n_dropped = _by_id(sides, sources, key, on_mismatch, columns)
    roles = dict.fromkeys([*wanted.by, *([wanted.group] if wanted.group else [])])
    missing = tuple(name for name in roles if any(name not in have for have in columns[1:]))
    notes = tuple(
        f"{name}: {note}" for name, side in zip(names, sides, strict=True) for note in side.notes
    )
    return Joined(replace(rows, notes=notes), tuple(sources), paired_on, missing, n_only, n_dropped)


def _read(path: str, wanted: Wanted, at: int, have: Sequence[str]) -> Predictions:
    scores = wanted.scores if len(wanted.scores) < 2 else wanted.scores[at : at + 1]
    if at:
        wanted = replace(
            wanted,
            by=tuple(name for name in wanted.by if name in have),
            group=wanted.group if wanted.group in have else None,
        )
    return read_predictions([path], replace(wanted, scores=scores))


def _names_of(titles: Sequence[str]) -> list[str]:
    """Return names for the systems: file stems if these are unique, else the ends of the paths."""
    files = [Path(title) for title in titles]
    stems = [stem_of(file)[0] or file.name for file in files]
    return distinct_names(stems, *ends_of(titles))


_ORDER = "row order (no common id column)"


def _common_key(sides: Sequence[Predictions], keys: Sequence[str]) -> str | None:
    """Return the first column that identifies the rows of all files and has common values.

    If no column has common values, return the first column that identifies the rows, for use in the
    error message.
    """
    if len(keys) < 2 and all(side.id for side in sides):
        return next(iter(keys), None)
    values = {key: [side.rows.columns[key] for side in sides] for key in keys}
    sure = [key for key in keys if all(map(identifies, values[key]))]
    common = (key for key in sure if set.intersection(*map(set, values[key])))
    usual = [key for key in keys if key in IDS]
    return next(common, next(iter([*sure, *usual]), None))


def _in_order(side: Predictions) -> Predictions:
    """Return the rows in file order, without ids."""
    return replace(side, id=None, ids=None).take(np.argsort(side.origin))


def _by_order(
    sides: Sequence[Predictions], sources: Sequence[str], columns: Sequence[Sequence[str]]
) -> Predictions:
    first = sides[0]
    for side, source in zip(sides[1:], sources[1:], strict=True):
        remedy = _id_remedy(columns)
        if len(first) != len(side):
            raise InvalidInputError(
                f"{source} has {len(side)} rows but {sources[0]} has {len(first)}, and there are "
                f"no ids to pair by; {remedy}"
            )
        for what, differ in _differences(first, side).items():
            if differ.any():
                row = int(np.argmax(differ))
                raise InvalidInputError(
                    f"{side.where(row)}: the {what} differs from {first.where(row)}, so rows cannot "
                    f"be paired by order; {remedy}"
                )
    return _with_scores(first, sides)


def _with_scores(first: Predictions, sides: Sequence[Predictions]) -> Predictions:
    return replace(
        first, scores={name: column for side in sides for name, column in side.scores.items()}
    )


def _id_remedy(columns: Sequence[Sequence[str]]) -> str:
    """Return advice on how to pair the rows by id."""
    likely = _like_ids(columns)
    if likely:
        return f"pair by a column: pass --id {shlex.quote(likely[0])}"
    return "give all files an id column (--id)"


def _by_id(
    sides: Sequence[Predictions],
    sources: Sequence[str],
    key: str,
    policy: str,
    columns: Sequence[Sequence[str]],
) -> tuple[Predictions, str, tuple[int, ...], int]:
    """Return the joined rows, how they were paired, and the number of excluded rows."""
    ids = []
    for side in sides:
        if side.ids is None:
            raise InvalidInputError(f"the id column {key!r} is not in every file")
        ids.append(side.ids)
    common = reduce(np.intersect1d, ids)
    if not len(common):
        raise InvalidInputError(_nothing_common(sides, sources, key, columns))
    taken = [
        side.take(np.searchsorted(of_side, common))
        for side, of_side in zip(sides, ids, strict=True)
    ]
    first, differ, checked = taken[0], np.zeros(len(common), dtype=np.bool_), True
    for other in taken[1:]:
        differences = _differences(first, other)
        unlike: BoolArray = np.any(list(differences.values()), axis=0)
        if unlike.any() and policy == "raise":
            _refuse(first, other, key, differences)
        differ |= unlike
        checked &= _HASH in differences
    keep: IntArray = np.flatnonzero(~differ)
    if not len(keep):
        raise InvalidInputError(
            f"all common rows of {' and '.join(sources)} differ in label, content hash, slice or group"
        )
    return (
        _with_scores(first.take(keep), [side.take(keep) for side in taken]),
        f"{key}, content hashes checked" if checked else key,
        tuple(len(side) - len(common) for side in sides),
        int(differ.sum()),
    )


def _nothing_common(
    sides: Sequence[Predictions],
    sources: Sequence[str],
    key: str,
    columns: Sequence[Sequence[str]],
) -> str:
    """Return a message with example ids from each file and options that would pair the rows."""
    first = set(sides[0].rows.columns[key].tolist())
    alone = [at for at, side in enumerate(sides) if first.isdisjoint(side.rows.columns[key])]
    shown = [
        f"{sources[at]} has {', '.join(map(repr, sides[at].rows.columns[key][:_SHOWN].tolist()))}"
        for at in ([0, *alone[:1]] if alone else range(len(sides)))
    ]
    remedies = [
        f"--id {shlex.quote(name)} pairs by another column"
        for name in _like_ids(columns)
        if name != key
    ][:2]
    files = [_in_file(side) for side in sides]
    if all(np.array_equal(files[0], labels) for labels in files[1:]):
        remedies.append("--no-id pairs by order (labels agree row by row)")
    remedy = "; ".join(remedies) or "specify the column that identifies a row with --id"
    who = f"{sources[0]} and {sources[alone[0]]}" if alone else "the files"
    return f"{who} have no {key!r} in common: {'; '.join(shown)}; {remedy}"


def _like_ids(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return the common columns whose names suggest row ids."""
    ends = ("id", "key", "uuid", "index", "text", "question", "prompt")
    return [
        name
        for name in columns[0]
        if name.lower().endswith(ends) and all(name in have for have in columns)
    ]


def _in_file(side: Predictions) -> BoolArray:
    """Return the labels in file order."""
    return _in_order(side).y_true


def _differences(one: Predictions, other: Predictions) -> dict[str, BoolArray]:
    """Return the paired rows' columns that both files contain, and the rows that differ."""
    found: dict[str, BoolArray] = {"label": one.y_true != other.y_true}
    if one.hashes is not None and other.hashes is not None:
        known = (one.hashes != "") & (other.hashes != "")
        found[_HASH] = np.asarray(known & (one.hashes != other.hashes), dtype=np.bool_)
    for name in one.parts:
        if name in other.parts and name != one.label:  # labels are already compared as classes
            found[f"slice {name!r}"] = _disagree(one.parts[name], other.parts[name])
    if one.groups is not None and other.groups is not None:
        found["group"] = _disagree(one.groups, other.groups)
    return found


def _disagree(one: Parts, other: Parts) -> BoolArray:
    """Return the rows whose values differ; 1 and 1.0 are equal."""
    place = {_canonical(name): at for at, name in enumerate(one.names)}
    mine = np.array([place[_canonical(name)] for name in one.names])
    theirs = np.array([place.get(_canonical(name), -1) for name in other.names])
    return np.asarray(mine[one.codes] != theirs[other.codes], dtype=np.bool_)


def _canonical(name: str) -> str | float:
    try:
        number = float(name)
    except ValueError:
        return name
    return number if math.isfinite(number) else name


def _refuse(
    one: Predictions, other: Predictions, key: str, differences: Mapping[str, BoolArray]
) -> None:
    differ: BoolArray = np.any(list(differences.values()), axis=0)
    row = int(np.argmax(differ))
    name = "" if one.ids is None else str(one.ids[row])
    what = next(what for what, where in differences.items() if where[row])
    raise InvalidInputError(
        f"{other.where(row)}: the {what} of {key} {name!r} differs from {one.where(row)} "
        f"({int(differ.sum())} such rows); if these are the same items, pass "
        "--on-mismatch drop"
    )
