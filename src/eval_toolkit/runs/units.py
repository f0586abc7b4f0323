"""Units of an evaluation, and the table in which they are stored."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import canonical_json, content_hash, sha256_text
from eval_toolkit._internal.plain import objects, plain, whole_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit._internal.tables import PartedTable
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.runs.table import PART, stored_names
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import unit_starts

UNITS = "units.parquet"
PART_ROWS = 2_048
"""Number of rows of a table that are held in memory at once, if its texts stay on disk."""
MAX_CHARS = 20_000
"""Maximum number of characters of a stored input or reference."""
_MARGIN = 4_000
"""Number of additional characters searched, so that a secret at the cut is recognised."""
WHO = ("slice", "unit_id", "content_hash", "group")
"""Columns that the records also contain, in addition to parts."""
WHAT = ("row", "input", "digest", "reference")

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Item to evaluate: a row, a benchmark sample, a seed prompt or a query.

    Parameters
    ----------
    id : str
        Unique id.
    content_hash : str, optional
        Hash of input and reference; by default, it is computed from them.
    group : str, optional
        Group of the unit; the units of a group are resampled together. By default, the unit forms
        its own group.
    parts : mapping of str to str, optional
        Parts of the unit by name, such as ``{"language": "de"}``.
    input : object, optional
        Input, a JSON value.
    reference : object, optional
        Reference, a JSON value.
    more : mapping of str to (str, int, float or None), optional
        Additional columns of the table of units.
    slice : str, optional
        Slice of the unit; by default, every slice with a record of the unit.
    row : int, optional
        Position in the data, counted from 0; by default, the index of the unit.

    Examples
    --------
    >>> Unit(id="q1", input="2 + 2?", reference="4").content_hash[:8]
    '0958482c'
    """

    id: str
    content_hash: str = ""
    group: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    input: Any = field(default=None, repr=False)
    reference: Any = field(default=None, repr=False)
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
    slice: str | None = None
    row: int | None = None

    def loaded(self) -> "Unit":
        """Return the unit with its input in memory."""
        return self

    def __post_init__(self) -> None:
        has_content = self.input is not None or self.reference is not None
        if has_content and not self.content_hash:  # no hash without content
            object.__setattr__(self, "content_hash", content_hash(self.input, self.reference))


def units_table(
    records: Mapping[tuple[str, str], Records] | None,
    units: Iterable[Unit] = (),
    folder: Path | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return the columns of ``units.parquet``, and their entry in the manifest.

    The records determine the units and their hash, group and parts; ``units`` adds their content.
    The table therefore contains only evaluated units, even if the run was stopped early.

    Secrets in inputs and references are redacted, and strings are truncated to `MAX_CHARS`
    characters. Units without a record are omitted unless they have a slice, such as rows used for
    leakage checks. Columns without any value are omitted. With a ``folder``, the columns are
    written to it in parts.

    Examples
    --------
    >>> records = Records.from_columns({"right": [1, 0]}, unit_id=["u1", "u2"])
    >>> given = [Unit(id="u2", input="x" * 20_005), Unit(id="u1", reference="4")]
    >>> columns, about = units_table({("quiz", "m"): records}, given)
    >>> columns["unit_id"].tolist(), columns["input"][1][-23:], about["n_cut"]
    (['u1', 'u2'], 'x [… 5 more characters]', 1)
    """
    who, parts = _of_records(records or {})
    given = list(units)
    if not given:
        return who, {"parts": parts}
    columns, asked = _matched(who, parts, given)
    more = _more_names(given if folder is None else given[:1], columns)
    n_cut = 0
    if folder is None:
        what, n_cut = _texts_of(asked, more)
        columns |= {name: typed_column(values) for name, values in what.items() if _any(values)}
        return columns, {"parts": parts, "max_chars": MAX_CHARS, "n_cut": n_cut}
    table, empty = PartedTable(folder), {*WHAT, *more}
    for start in range(0, len(asked), PART_ROWS):
        what, n = _texts_of(asked[start : start + PART_ROWS], more)
        side = {name: column[start : start + PART_ROWS] for name, column in columns.items()}
        table.add(side | {name: typed_column(values) for name, values in what.items()})
        empty -= {name for name, values in what.items() if _any(values)}
        n_cut += n
    table.omit(empty)
    return table, {"parts": parts, "max_chars": MAX_CHARS, "n_cut": n_cut}


def _any(values: Iterable[Any]) -> bool:
    return any(value is not None for value in values)


def _more_names(given: Iterable[Unit], columns: Mapping[str, Array]) -> list[str]:
    """Return the names of additional columns."""
    names = list(dict.fromkeys(name for unit in given for name in unit.more))
    for name in names:
        if name.lower() in map(str.lower, (*columns, *WHAT)):
            raise InvalidInputError(
                f"the table of units already has a column {name!r}; choose another name"
            )
    return names


def _texts_of(
    asked: Sequence[Unit | None], more: Iterable[str]
) -> tuple[dict[str, list[Any]], int]:
    """Return the columns with the content of units, and the number of truncated inputs."""
    loaded = [None if unit is None else unit.loaded() for unit in asked]
    texts = [None if unit is None else shown_input(unit.input) for unit in loaded]
    rights = [None if unit is None else shown_input(unit.reference) for unit in loaded]
    what: dict[str, list[Any]] = {
        "row": [-1 if unit is None else unit.row for unit in loaded],
        "input": [None if text is None else kept_text(text) for text in texts],
        "digest": [
            # whitespace and Unicode form make no difference
            None
            if text is None
            else sha256_text(" ".join(unicodedata.normalize("NFC", text).split()))
            for text in texts
        ],
        "reference": [None if text is None else kept_text(text) for text in rights],
    }
    for name in more:
        what[name] = [None if unit is None else unit.more.get(name) for unit in loaded]
    return what, sum(text is not None and len(text) > MAX_CHARS for text in texts)


def _of_records(
    records: Mapping[tuple[str, str], Records],
) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the units found in records, and the stored names of parts."""
    found: dict[str, list[Array]] = {name: [] for name in WHO}
    sides: list[tuple[str, dict[str, Array]]] = []
    for slice_name, scorer in sorted(records):
        side = _first_of_each(records[slice_name, scorer])
        seen = [one["unit_id"] for name, one in sides if name == slice_name]
        if any(np.array_equal(ids, side["unit_id"]) for ids in seen):
            continue
        if seen:  # a scorer with other units
            known = {unit for ids in seen for unit in ids.tolist()}
            new = [unit not in known for unit in side["unit_id"].tolist()]
            side = {name: column[new] for name, column in side.items()}
        sides.append((slice_name, side))
    names = dict.fromkeys(name for _, side in sides for name in side if name.startswith(PART))
    parts = stored_names((name.removeprefix(PART) for name in names), PART, ("",), {*WHO, *WHAT})
    found |= {stored: [] for stored in parts.values()}
    for slice_name, side in sides:
        n = len(side["unit_id"])
        found["slice"].append(objects([slice_name] * n))
        for name in WHO[1:]:
            found[name].append(side[name])
        for name, stored in parts.items():
            found[stored].append(side.get(PART + name, objects([None] * n)))
    columns = {name: np.concatenate(some) if some else objects([]) for name, some in found.items()}
    several = len({name for name, _ in sides}) < len(sides)
    order = _order(columns) if several else slice(None)
    return {name: column[order] for name, column in columns.items()}, parts


def _first_of_each(records: Records) -> dict[str, Array]:
    """Return columns with one row per unit; a group that is just the unit itself is None.

    Parts that differ between the attempts at a unit, such as fold numbers, are omitted.
    """
    ordered, ids = records, records.unit_id
    if (ids[1:] < ids[:-1]).any():  # usually sorted already; sorting a million takes a while
        ordered = records.take(np.argsort(ids, kind="stable"))
    starts = unit_starts(ordered.unit_id)
    counts = np.diff([*starts.tolist(), len(ordered)])
    ids = ordered.unit_id[starts].astype(object)
    groups = ordered.group[starts].astype(object)
    groups[groups == ids] = None
    side = {
        "unit_id": ids,
        "content_hash": ordered.content_hash[starts].astype(object),
        "group": groups,
    }
    for name, values in ordered.slices.items():
        if np.array_equal(np.repeat(values[starts], counts), values):
            side[PART + name] = values[starts].astype(object)
    return side


def _matched(
    who: Mapping[str, Array], parts: Mapping[str, str], given: Sequence[Unit]
) -> tuple[dict[str, Array], list[Unit | None]]:
    """Match records with units; return the columns and the unit of each row, in order."""
    columns = {name: column.tolist() for name, column in who.items()}
    left = {
        key: at for at, key in enumerate(zip(columns["slice"], columns["unit_id"], strict=True))
    }
    slices = list(dict.fromkeys(columns["slice"]))
    matched: list[Unit | None] = [None] * len(left)
    for place, unit in enumerate(given):
        placed = unit if unit.row is not None else replace(unit, row=place)
        for name in slices if unit.slice is None else [unit.slice]:
            at = left.pop((name, unit.id), None)
            if at is not None:
                matched[at] = placed
            elif unit.slice is not None:
                line = dict(zip(WHO, (name, unit.id, unit.content_hash, unit.group), strict=True))
                line |= {parts[key]: value for key, value in unit.parts.items() if key in parts}
                for column, values in columns.items():
                    values.append(line.get(column))
                matched.append(placed)
    order = _order(columns)
    return (
        {name: objects([values[at] for at in order]) for name, values in columns.items()},
        [matched[at] for at in order],
    )


def _order(columns: Mapping[str, Iterable[Any]]) -> list[int]:
    keys = list(zip(columns["slice"], columns["unit_id"], strict=True))
    return sorted(range(len(keys)), key=keys.__getitem__)


def typed_column(values: Sequence[Any]) -> Array:
    """Convert values to a column of integers, floats, or strings with None for missing values.

    Examples
    --------
    >>> typed_column([1, None]), typed_column([1, "a"])
    (array([ 1., nan]), array(['1', 'a'], dtype=object))
    """
    if all(type(value) is int for value in values):
        return np.array(values, dtype=np.int64)
    if all(value is None or type(value) in (int, float) for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return objects([None if value is None else whole_text(str(value)) for value in values])


def shown_input(value: Any, names: Sequence[str] = ()) -> str | None:
    """Format an input for display: strings unchanged, several features as "name: value".

    ``names`` are the names of the features. Values other than strings, numbers and lists become
    JSON.

    Examples
    --------
    >>> shown_input("hello"), shown_input([3, "red", None], ["size", "colour", "weight"])
    ('hello', 'size: 3, colour: red, weight: –')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and len(value) == len(names) > 0:
        parts = zip(names, (shown_input(part) for part in value), strict=True)
        return ", ".join(f"{name}: {'–' if text is None else text}" for name, text in parts)
    if isinstance(value, (list, tuple, Mapping, np.ndarray)):
        return canonical_json(plain(value))
    return None if validation.is_missing(value) else str(value)


def kept_text(text: str) -> str:
    """Prepare a string for storage: make it encodable, redact secrets, and truncate it.

    Examples
    --------
    >>> kept_text("my password=hunter2")
    'my password=[redacted]'
    """
    safe: str = redact_secrets(whole_text(text[: MAX_CHARS + _MARGIN]))
    if len(text) <= MAX_CHARS:
        return safe
    return f"{safe[:MAX_CHARS]} [… {len(text) - MAX_CHARS:,} more characters]"
