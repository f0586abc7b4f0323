"""Queries for records of a run by number, with filters and sorting."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal.files import malformed
from eval_toolkit._internal.tables.sources import literal, quoted
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.scored_rows import label_names
from eval_toolkit.report.viewer.store import Store, pattern
from eval_toolkit.runs import Run
from eval_toolkit.runs.folder import RECORDS, TURNS
from eval_toolkit.runs.stored_units import StoredUnits, stored_units

_VALUES_AT_MOST = 200
"""Maximum number of distinct values of a part that are offered as choices."""
VALUE_CHARS = 200
"""Maximum length of a value offered as a choice, since the page contains each choice in full."""
_TEXT_AT_MOST = 400
"""Maximum length of a text in a list."""
FROM = "read_parquet(?, file_row_number = true, hive_partitioning = false)"
_ASKED = frozenset({"unit_id", "prompt_hash", "prompt", "params", "response", "error"})
_STATES = ("ok", "skipped", "error")
_OK = "'ok'"


@dataclass(frozen=True)
class Shape:
    """Structure of a run's table of records."""

    path: Path
    n_rows: int
    columns: Mapping[str, str]
    """Measured columns, with their names in the table."""
    parts: Mapping[str, str]
    values: Mapping[str, Sequence[str]]
    """Values of each slice, scorer or part; empty if they are too many or too long."""
    tables: Mapping[str, frozenset[str]]
    """Other tables of the run, with their columns."""
    units: StoredUnits | None = None
    texts: frozenset[str] = frozenset()
    """Measured columns that contain text."""
    label_names: Mapping[int, str] = field(default_factory=dict)
    """Labels as written in the data, by number."""

    @property
    def numbers(self) -> dict[str, str]:
        """Measured columns that contain numbers, and their names in the table."""
        return {name: stored for name, stored in self.columns.items() if name not in self.texts}


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Filter and sort order of records."""

    q: str = ""
    slice: str = ""
    scorer: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    column: str = ""
    status: str = ""
    low: float | None = None
    high: float | None = None
    show: str = ""
    """Verdict to filter by, as in `Verdicts`; ignored by `fitting`."""
    sort: str = ""
    """Measured column or "unit" to sort by; a leading "-" reverses the order."""
    columns: tuple[str, ...] = ()
    """Columns to show, which do not affect the matching records; empty for the default columns."""
    every_slice: bool = False
    """Whether all slices were requested, even though one of them contains the others."""

    @property
    def is_empty(self) -> bool:
        """Whether the filter matches all records."""
        asked = (self.q, self.slice, self.scorer, self.parts, self.status)
        return not any(asked) and self.low is None and self.high is None


@dataclass(frozen=True)
class Measured:
    """Measured value of a record."""

    name: str
    value: float | str | None
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """Row of the table of records."""

    row: int
    slice: str
    scorer: str
    unit_id: str
    attempt: int
    group: str = ""
    content_hash: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    measured: Sequence[Measured] = ()


def shape_of(store: Store, path: Path) -> Shape:
    """Return the structure of the records of a finished run.

    Raises `ArtifactError` if the run has no records.
    """
    run = Run.open(path, verify=False)
    described = run.manifest["artifacts"].get(RECORDS)
    if not isinstance(described, Mapping):
        raise ArtifactError(f"{run.run_id}: the run was written without records")
    table = path / RECORDS
    there = store.columns_of(table)
    columns = _known(described.get("columns"), there, ("", ".status", ".reason"))
    named = described.get("text_columns")
    texts = {
        name
        for name, stored in columns.items()
        if isinstance(named, list) and name in named and there[stored] == "VARCHAR"
    }
    parts = _known(described.get("parts"), there, ("",))
    tables = {
        name: frozenset(store.columns_of(path / name))
        for name in (RESPONSES, TURNS)
        if name in run.manifest["artifacts"] and (path / name).is_file()
    }
    return Shape(
        table,
        store.query(
            table,
            "SELECT count(*) FROM read_parquet(?, hive_partitioning = false)",
            [pattern(table)],
        )[0][0],
        columns,
        parts,
        {
            name: _values(store, table, stored)
            for name, stored in {"slice": "slice", "scorer": "scorer", **_marked(parts)}.items()
        },
        tables,
        _units(store, run),
        frozenset(texts),
        label_names(run),
    )


def _units(store: Store, run: Run) -> StoredUnits | None:
    """Return the units of a run; None if they cannot be read, so that the rest can be shown."""
    try:
        return stored_units(run.path, run.manifest, store.columns_of)
    except ArtifactError:
        return None


def _known(named: Any, there: Mapping[str, str], suffixes: Sequence[str]) -> dict[str, str]:
    """Return the columns that are in both the manifest and the file; SQL uses no other names."""
    return {
        str(name): stored
        for name, stored in (named.items() if isinstance(named, Mapping) else ())
        if isinstance(stored, str) and all(stored + suffix in there for suffix in suffixes)
    }


def _marked(parts: Mapping[str, str]) -> dict[str, str]:
    return {f"part.{name}": stored for name, stored in parts.items()}


def _values(store: Store, table: Path, stored: str) -> Sequence[str]:
    """Return the distinct values of a column; empty if there are too many to choose from."""
    name = f"left({quoted(stored)}, {VALUE_CHARS + 1})"
    found = store.query(
        table,
        f"SELECT DISTINCT {name} FROM {FROM} WHERE {name} IS NOT NULL "  # noqa: S608
        f"LIMIT {_VALUES_AT_MOST + 1}",
        [pattern(table)],
    )
    values = sorted(str(row[0]) for row in found)
    fit = len(values) <= _VALUES_AT_MOST and all(len(one) <= VALUE_CHARS for one in values)
    return values if fit else ()


# --- filters and order ----------------------------------------------------------------------------


def fitting(store: Store, shape: Shape, wanted: Filter) -> Sequence[int]:
    """Return the numbers of the matching records, in the requested order.

    Row numbers begin at 0; if all records match in stored order, a range is returned. Unknown names
    are ignored.
    """
    order = _order(shape, wanted.sort)
    if wanted.is_empty and not order:
        return range(shape.n_rows)
    conditions, parameters = _conditions(shape, wanted)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    found = store.column(
        shape.path,
        f"SELECT file_row_number FROM {FROM} {where} ORDER BY {order}file_row_number",  # noqa: S608
        [pattern(shape.path), *parameters],
    )
    numbers: list[int] = np.asarray(found).astype(np.int32)  # type: ignore[assignment]
    return numbers


def _order(shape: Shape, sort: str) -> str:
    name = sort.removeprefix("-")
    stored = "unit_id" if name == "unit" else shape.columns.get(name)
    if stored is None:
        return ""
    return f"{quoted(stored)} {'DESC' if sort.startswith('-') else 'ASC'} NULLS LAST, "


def _conditions(shape: Shape, wanted: Filter) -> tuple[list[str], list[Any]]:
    """Return the SQL conditions of a filter and their parameters."""
    conditions: list[str] = []
    parameters: list[Any] = []
    equal = [("slice", wanted.slice), ("scorer", wanted.scorer)]
    equal += [(shape.parts[name], value) for name, value in wanted.parts if name in shape.parts]
    for stored, value in equal:
        if value:
            conditions.append(f"{quoted(stored)} = ?")
            parameters.append(value)
    if wanted.status in _STATES:
        conditions.append(_of_status(shape, wanted))
    stored_column = shape.numbers.get(wanted.column)
    for sign, bound in ((">=", wanted.low), ("<=", wanted.high)):
        if stored_column is not None and bound is not None:
            conditions.append(f"{quoted(stored_column)} {sign} ?")
            parameters.append(bound)
    if wanted.q:
        condition, more = _search(shape, wanted.q)
        conditions.append(condition)
        parameters += more
    return conditions, parameters


def _of_status(shape: Shape, wanted: Filter) -> str:
    """Return the SQL condition for a status: in the chosen column, else in any ("ok": in all)."""
    chosen = shape.columns.get(wanted.column)
    stored = [chosen] if chosen is not None else list(shape.columns.values())
    if not stored:
        return "false"
    states = [quoted(f"{name}.status") for name in stored]
    if wanted.status == "ok":
        return f"({' AND '.join(f'coalesce({state}, {_OK}) = {_OK}' for state in states)})"
    return f"({' OR '.join(f'{state} = {literal(wanted.status)}' for state in states)})"


def inside_json(column: str, path: str) -> str:
    """Return SQL that extracts the text at a JSON path, or NULL if there is none."""
    return f"CASE WHEN json_valid({column}) THEN json_extract_string({column}, '{path}') END"


def _contains(column: str) -> str:
    return f"contains(lower({column}), lower(?))"


def _search(shape: Shape, q: str) -> tuple[str, list[Any]]:
    """Return the SQL condition for a search in ids, parts, reasons, inputs and responses."""
    # Lower-case both sides in SQL: case mappings differ, and the text must match as stored.
    escaped = json.dumps(q, ensure_ascii=False)[1:-1]  # as written inside stored JSON
    own = ["unit_id", "group", *shape.parts.values()]
    own += [f"{stored}.reason" for stored in shape.columns.values()]
    own += [shape.columns[name] for name in shape.texts]
    found = [_contains(quoted(name)) for name in own]
    parameters: list[Any] = [q] * len(own)
    folder = shape.path.parent
    units = shape.units
    if units is not None and "input" in units.columns:
        # A slice without inputs of its own is part of the overall slice.
        place = "CASE WHEN list_contains(?, slice) THEN slice ELSE ? END"
        found.append(
            f"({place} || chr(31) || unit_id) IN (SELECT slice || chr(31) || unit_id "  # noqa: S608
            f"FROM {units.sql} WHERE {_contains('input')})"
        )
        parameters += [list(units.counts("input")), units.whole, *map(pattern, units.files), q]
    if shape.tables.get(RESPONSES, frozenset()) >= _ASKED:
        asked = pattern(folder / RESPONSES)
        answers = ["response", "error"]
        told = [f"array_to_string({inside_json('params', '$.continuations[*]')}, chr(10))"]
        if not q.isascii():  # non-ASCII letters are escaped there, so lower() has no effect on them
            told += [inside_json("response", "$.text"), inside_json("error", "$.message")]
        answers += told
        found.append(
            "unit_id IN (SELECT unit_id FROM read_parquet(?, hive_partitioning = false) WHERE prompt_hash IN "  # noqa: S608
            "(SELECT prompt_hash FROM read_parquet(?, hive_partitioning = false) WHERE "
            f"{_contains('prompt')} OR {_contains('prompt')}) OR {' OR '.join(map(_contains, answers))})"
        )
        parameters += [asked, asked, q, escaped, *[json.dumps(q)[1:-1]] * 2, *[q] * len(told)]
    if shape.tables.get(TURNS, frozenset()) >= {"unit_id", "probe", "response"}:
        # Texts other than plain strings are stored as JSON.
        inside = [_contains(column) for column in ("probe", "response") for _ in range(2)]
        found.append(
            f"unit_id IN (SELECT unit_id FROM read_parquet(?, hive_partitioning = false) WHERE {' OR '.join(inside)})"  # noqa: S608
        )
        parameters += [pattern(folder / TURNS), *[q, escaped] * 2]
    return f"({' OR '.join(found)})", parameters


# --- single records -------------------------------------------------------------------------------


def records_at(
    store: Store,
    shape: Shape,
    rows: Sequence[int],
    columns: Sequence[str],
    *,
    text_at_most: int = _TEXT_AT_MOST,
) -> list[Record]:
    """Return records by number, in the given order.

    At most ``text_at_most`` characters of each text are read. Numbers that are not in the table are
    omitted.
    """
    numbers = [int(row) for row in rows]
    if not numbers:
        return []
    place = {row: at for at, row in enumerate(numbers)}
    first, last = min(numbers), max(numbers)
    if last - first + 1 == len(numbers):
        which, parameters = "file_row_number BETWEEN ? AND ?", [first, last]
    else:
        which, parameters = f"file_row_number IN ({', '.join('?' * len(numbers))})", numbers
    return sorted(
        _read(store, shape, which, parameters, columns, text_at_most),
        key=lambda record: place[record.row],
    )


def records_of_unit(
    store: Store, shape: Shape, unit_id: str, columns: Sequence[str], *, at_most: int = 200
) -> list[Record]:
    """Return all records of a unit, for every attempt, slice and scorer."""
    which = f"unit_id = ? LIMIT {int(at_most)}"
    return _read(store, shape, which, [unit_id], columns, _TEXT_AT_MOST)


def _read(
    store: Store,
    shape: Shape,
    which: str,
    parameters: Sequence[Any],
    columns: Sequence[str],
    text_at_most: int,
) -> list[Record]:
    texts = ["slice", "scorer", "unit_id", "group", "content_hash", *shape.parts.values()]
    measured = [name for name in columns if name in shape.columns]
    selected = ["file_row_number", "attempt"]
    selected += [f"left({quoted(name)}, {int(text_at_most)})" for name in texts]
    for name in measured:
        stored = shape.columns[name]
        value = quoted(stored)
        selected.append(f"left({value}, {int(text_at_most)})" if name in shape.texts else value)
        selected.append(quoted(f"{stored}.status"))
        selected.append(f"left({quoted(f'{stored}.reason')}, {int(text_at_most)})")
    rows = store.query(
        shape.path,
        f"SELECT {', '.join(selected)} FROM {FROM} WHERE {which}",  # noqa: S608
        [pattern(shape.path), *parameters],
    )
    with malformed(shape.path.name, "table", error=ArtifactError):
        return [_record(row, shape, measured) for row in rows]


def _record(row: Sequence[Any], shape: Shape, measured: Sequence[str]) -> Record:
    parts = list(shape.parts)
    number, attempt, slice_name, scorer, unit, group, content, *rest = row
    told, cells = rest[: len(parts)], rest[len(parts) :]
    return Record(
        row=int(number),
        attempt=int(attempt or 0),
        slice=str(slice_name or ""),
        scorer=str(scorer or ""),
        unit_id=str(unit or ""),
        group=str(group or ""),
        content_hash=str(content or ""),
        parts={
            name: str(value) for name, value in zip(parts, told, strict=True) if value is not None
        },
        measured=[
            _measured(name, *cells[3 * at : 3 * at + 3], is_text=name in shape.texts)
            for at, name in enumerate(measured)
        ],
    )


def _measured(name: str, value: Any, status: Any, reason: Any, *, is_text: bool) -> Measured:
    read = value if value is None or is_text else float(value)
    return Measured(name, read, str(status or ""), str(reason or ""))
