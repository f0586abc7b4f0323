"""Beginnings of the texts of records, for lists: input, answer and reference."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eval_toolkit._internal.tables.sources import quoted
from eval_toolkit.report.viewer.records import Record, Shape
from eval_toolkit.report.viewer.store import Store, pattern
from eval_toolkit.runs import Run
from eval_toolkit.runs.blocks import excerpts
from eval_toolkit.runs.kind_display import show_unit
from eval_toolkit.runs.selected_units import Place, selected_units

TEXTS = ("input", "answer", "reference")
_STORED = ("input", "reference")
"""Texts read from the table of units; answers are read as the run's kind displays them."""
_CHARS = 160
_SCATTERED_AT_MOST = 300_000
"""Maximum number of records for which scattered answers are read, each from its own row group."""


def previews(
    store: Store, shape: Shape, found: Sequence[Record], wanted: Sequence[str] = TEXTS
) -> Mapping[int, Mapping[str, str]]:
    """Return the beginnings of the texts of records.

    Texts are keyed by record number and name; missing texts are omitted. In very large runs, the
    answers of scattered records are omitted, since reading them would delay the page.
    """
    texts = _of_units(store, shape, found, [name for name in _STORED if name in wanted])
    rows = [record.row for record in found]
    scattered = max(rows, default=0) - min(rows, default=0) >= 2 * len(rows)
    if shape.tables and not (scattered and shape.n_rows > _SCATTERED_AT_MOST):
        for row, shown in _shown(store, shape.path.parent, found).items():
            some = {name: shown[name] for name in wanted if name in shown}
            texts[row] = some | texts.get(row, {})
    return {
        row: {name: _cut(text) for name, text in own.items() if text} for row, own in texts.items()
    }


def _of_units(
    store: Store, shape: Shape, found: Sequence[Record], wanted: Sequence[str]
) -> dict[int, dict[str, str]]:
    """Return texts from the table of units, by record; the query contains no names from data."""
    stored, ids = shape.units, list(dict.fromkeys(record.unit_id for record in found))
    columns = [] if stored is None else [name for name in wanted if name in stored.columns]
    if stored is None or not columns or not ids:
        return {}
    beginnings = ", ".join(f"left({quoted(name)}, {_CHARS + 1})" for name in columns)
    rows = store.query(
        stored.files[0],
        f"SELECT slice, unit_id, {beginnings} FROM {stored.sql} "  # noqa: S608
        f"WHERE unit_id IN ({', '.join('?' * len(ids))})",
        [*map(pattern, stored.files), *ids],
    )
    by_unit = {(str(row[0]), str(row[1])): dict(zip(columns, row[2:], strict=True)) for row in rows}
    return {
        record.row: {
            name: str(text)
            for name in columns
            if (
                text := by_unit.get(
                    (str(stored.slice_with(name, record.slice)), record.unit_id), {}
                ).get(name)
            )
        }
        for record in found
    }


def _shown(store: Store, folder: Path, found: Sequence[Record]) -> dict[int, Mapping[str, str]]:
    """Return the texts that the run's kind displays, by record."""
    places = [
        Place(
            slice=record.slice,
            scorer=record.scorer,
            unit_id=record.unit_id,
            attempt=record.attempt,
            values={
                one.name: one.value
                for one in record.measured
                if one.status == "ok" and one.value is not None
            },
        )
        for record in found
    ]
    units = selected_units(Run.open(folder, verify=False), places, whole=False, tables=store)
    return {
        record.row: excerpts(show_unit(unit)) for record, unit in zip(found, units, strict=True)
    }


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]}…"
