"""Convert the records of all subjects to one table and back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
)
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import parse_part
from eval_toolkit.scorecards.records import LARGEST_VALUE, is_text

_TEXTS = ("slice", "scorer", "unit_id", "content_hash", "group")
_FIXED = (*_TEXTS, "attempt")
_MEASURED = ("", ".status", ".reason")
PART = "part:"
"""Prefix of columns that contain parts."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a table of records: its subjects and the stored names of their columns."""

    subjects: list[dict[str, Any]]
    columns: dict[str, str]
    """Stored name of each measured column; status and reason are stored in separate columns."""
    parts: dict[str, str]
    text_columns: tuple[str, ...] = ()
    """Measured columns that contain strings; the others are numeric."""

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], place: str | Path) -> "Layout":
        """Read the layout stored in a manifest; raise a one-line error if it is invalid."""
        subjects, columns, parts = map(stored.get, ("subjects", "columns", "parts"))
        texts = stored.get("text_columns", [])
        names_fit = all(
            isinstance(names, dict) and all(isinstance(name, str) for name in names.values())
            for names in (columns, parts)
        )
        if not names_fit or not isinstance(subjects, list) or not _are_names(texts, columns or {}):
            raise ArtifactError(f"{place}: the layout of the records is malformed")
        for at, subject in enumerate(subjects):
            if not _is_subject(subject, columns or {}, parts or {}):
                raise ArtifactError(f"{place}: subject {at} of the records is malformed")
        return cls(subjects, columns or {}, parts or {}, tuple(texts))

    def to_dict(self) -> dict[str, Any]:
        """Return the layout as a JSON-serialisable dict for the manifest."""
        texts = {"text_columns": list(self.text_columns)} if self.text_columns else {}
        return {"subjects": self.subjects, "columns": self.columns, "parts": self.parts, **texts}

    @property
    def texts(self) -> list[str]:
        """Stored names of the string columns."""
        states = [name + suffix for name in self.columns.values() for suffix in _MEASURED[1:]]
        measured = [self.columns[name] for name in self.text_columns]
        return [*_TEXTS, *self.parts.values(), *measured, *states]

    @property
    def numbers(self) -> list[str]:
        """Stored names of the numeric columns."""
        numbers = (name for name in self.columns if name not in self.text_columns)
        return ["attempt", *map(self.columns.__getitem__, numbers)]


def _is_subject(subject: Any, columns: Mapping[str, str], parts: Mapping[str, str]) -> bool:
    if not isinstance(subject, dict):
        return False
    texts = (subject.get("slice"), subject.get("scorer"))
    n_rows = subject.get("n_rows")
    return (
        all(isinstance(text, str) for text in texts)
        and type(n_rows) is int
        and n_rows >= 0
        and _are_names(subject.get("columns"), columns)
        and _are_names(subject.get("parts"), parts)
    )


def _are_names(given: Any, known: Mapping[str, str]) -> bool:
    return isinstance(given, list) and all(
        isinstance(name, str) and name in known for name in given
    )


def to_table(
    records: Mapping[tuple[str, str], Records],
) -> tuple[dict[str, NDArray[Any]], Layout]:
    """Concatenate the records of all (slice, scorer) pairs; also return the layout."""
    for key in records:
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(k, str) for k in key)):
            raise InvalidTypeError(
                f"`records` has the key {key!r}; keys must be pairs (slice, scorer)"
            )
        if not isinstance(records[key], Records):
            raise InvalidTypeError(f"records[{key!r}] is {records[key]!r}; it must be Records")
    keys = sorted(records)
    given = (records[key] for key in keys)
    sides = [one.take(np.lexsort((one.attempt, one.unit_id))) for one in given]
    layout = _layout(keys, sides)
    table: dict[str, NDArray[Any]] = {}
    sizes = [len(side) for side in sides]
    for i, name in enumerate(("slice", "scorer")):
        table[name] = _stacked([_full(n, key[i]) for key, n in zip(keys, sizes, strict=True)])
    for name in _FIXED[2:]:
        table[name] = _stacked([getattr(side, name) for side in sides])
    for part, stored in layout.parts.items():
        table[stored] = _stacked([side.slices.get(part, _full(len(side), None)) for side in sides])
    for column, stored in layout.columns.items():
        read = _text_values if column in layout.text_columns else _values
        table[stored] = _stacked([read(side, column) for side in sides])
        for suffix, of in zip(_MEASURED[1:], ("status", "reason"), strict=True):
            table[stored + suffix] = _stacked([_states(side, column, of) for side in sides])
    return table, layout


def _full(n: int, value: str | None) -> NDArray[Any]:
    return np.array([value] * n, dtype=object)  # np.full would strip a trailing NUL


def _stacked(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=object)


def _values(side: Records, column: str) -> NDArray[Any]:
    """Return numbers, with NaN (null on disk) for missing values."""
    if column not in side.columns:
        return np.full(len(side), np.nan)
    return np.where(side.status[column] == "ok", side.columns[column], np.nan)


def _text_values(side: Records, column: str) -> NDArray[Any]:
    """Return strings, with None for missing values."""
    measured = column in side.columns and (side.status[column] == "ok").any()
    if measured and not is_text(side.columns[column]):
        raise InvalidInputError(
            f"the column {column!r} contains numbers in one subject and strings in another; "
            f"rename one of them"
        )
    return side.columns[column] if measured else _full(len(side), None)


def _states(side: Records, column: str, of: str) -> NDArray[Any]:
    if column not in side.columns:
        return _full(len(side), None)
    if of == "status":
        return side.status[column]
    reasons = side.reason.get(column, _full(len(side), ""))
    # an error message may contain a rejected API key
    safe = {why: redact_secrets(why) for why in set(reasons.tolist())}
    return np.array([safe[why] for why in reasons.tolist()], dtype=object)


def _layout(keys: list[tuple[str, str]], sides: list[Records]) -> Layout:
    reserved = {name.lower() for name in _FIXED}
    parts = dict.fromkeys(part for side in sides for part in side.slices)
    columns = dict.fromkeys(column for side in sides for column in side.columns)
    # plain names are assigned before numbered ones
    return Layout(
        subjects=[
            {
                "slice": key[0],
                "scorer": key[1],
                "n_rows": len(side),
                "columns": list(side.columns),
                "parts": list(side.slices),
            }
            for key, side in zip(keys, sides, strict=True)
        ],
        parts=stored_names(parts, PART, ("",), reserved),
        columns=stored_names(columns, "", _MEASURED, reserved),
        text_columns=tuple(dict.fromkeys(column for side in sides for column in side.texts)),
    )


def stored_names(
    names: Iterable[str], prefix: str, suffixes: tuple[str, ...], taken: set[str]
) -> dict[str, str]:
    """Return a name for each column that is unique even if case is ignored, as in tables.

    Examples
    --------
    >>> stored_names(["language", "Language"], PART, ("",), set())
    {'language': 'part:language', 'Language': 'part:Language~2'}
    """
    stored = {}
    for name in names:
        plain = candidate = prefix + name or "_"
        number = 1
        while any((candidate + suffix).lower() in taken for suffix in suffixes):
            number += 1
            candidate = f"{plain}~{number}"
        taken.update((candidate + suffix).lower() for suffix in suffixes)
        stored[name] = candidate
    return stored


def from_table(
    table: Mapping[str, NDArray[Any]], layout: Layout, slice_name: str, scorer: str
) -> Records:
    """Extract the records of one subject from a table."""
    start = 0
    for subject in layout.subjects:
        stop = start + subject["n_rows"]
        if (subject["slice"], subject["scorer"]) == (slice_name, scorer):
            break
        start = stop
    else:
        have = [(s["slice"], s["scorer"]) for s in layout.subjects]
        raise MissingColumnError(
            f"there are no records of slice {slice_name!r} and scorer {scorer!r}; the run has "
            f"records of {', '.join(map(str, have)) or 'nothing'}"
        )
    rows = {name: column[start:stop] for name, column in table.items()}
    if set(rows["slice"]) - {slice_name} or set(rows["scorer"]) - {scorer}:
        raise InvalidInputError(
            f"the rows of {(slice_name, scorer)} do not match the layout of the table"
        )
    parts = (layout.parts[name] for name in subject["parts"])
    for name in ("unit_id", "group", *parts):  # used to sort and count rows
        if any(not isinstance(one, str) for one in rows[name]):
            raise ValueError(f"{name} contains a value that is not a string")
    columns = {name: layout.columns[name] for name in subject["columns"]}
    status = {name: rows[f"{stored}.status"] for name, stored in columns.items()}
    return Records(
        unit_id=rows["unit_id"],
        content_hash=rows["content_hash"],
        group=rows["group"],
        attempt=_whole(rows["attempt"]),
        slices={name: rows[layout.parts[name]] for name in subject["parts"]},
        columns={
            name: (_texts if name in layout.text_columns else _numbers)(
                name, rows[stored], status[name]
            )
            for name, stored in columns.items()
        },
        status=status,
        reason={name: rows[f"{stored}.reason"] for name, stored in columns.items()},
    )


def _whole(column: NDArray[Any]) -> NDArray[np.int64]:
    """Convert attempt numbers to integers; raise an error for invalid ones."""
    numbers = column.astype(np.float64)
    odd = ~(np.abs(numbers) < 2**53) | (np.trunc(numbers) != numbers)
    if odd.any():
        raise ValueError(f"the attempt {numbers[odd][0]:g} is not a whole number")
    return numbers.astype(np.int64)


def _texts(name: str, column: NDArray[Any], status: NDArray[Any]) -> NDArray[Any]:
    """Return a column of strings, with None for missing values."""
    texts: NDArray[Any] = column.astype(object)
    texts[status != "ok"] = None
    if any(not isinstance(text, str) for text in texts[status == "ok"]):
        raise ValueError(f"{name} has a row with status ok but without a string")
    return texts


def _numbers(name: str, column: NDArray[Any], status: NDArray[Any]) -> NDArray[np.float64]:
    """Return a column of numbers with 0 for missing values."""
    numbers = np.where(status == "ok", column, 0.0).astype(np.float64)
    odd = ~(np.abs(numbers) <= LARGEST_VALUE)
    if odd.any():
        raise ValueError(
            f"{name} contains {numbers[odd][0]:g}; values must be finite and lie within "
            f"±{LARGEST_VALUE:g}"
        )
    return numbers


def units_of(records: Records, part: str) -> NDArray[np.bool_]:
    """Return a mask that selects the records of a part.

    A part is a string such as ``language=de``; "all" selects all records.

    Examples
    --------
    >>> records = Records.from_columns({"right": [1, 0]}, slices={"language": ["de", "en"]})
    >>> units_of(records, "language=de").tolist()
    [True, False]
    """
    pairs = parse_part(part)
    for key in pairs:
        if key not in records.slices:
            have = ", ".join(map(repr, records.slices)) or "none"
            raise MissingColumnError(f"the records have no part {key!r}; they have {have}")
    inside = part_mask(records, pairs)
    if not inside.any():
        raise MissingColumnError(f"no records belong to the part {part!r}")
    return inside


def part_mask(records: Records, pairs: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return a mask that selects the records with these values.

    Examples
    --------
    >>> records = Records.from_columns({"right": [1, 0]}, slices={"language": ["de", "en"]})
    >>> part_mask(records, {"language": "en"}).tolist(), part_mask(records, {"x": "y"}).tolist()
    ([False, True], [False, False])
    """
    inside = np.ones(len(records), dtype=np.bool_)
    for key, value in pairs.items():
        if key not in records.slices:
            return np.zeros(len(records), dtype=np.bool_)
        inside &= records.slices[key].astype(str) == value
    return inside
