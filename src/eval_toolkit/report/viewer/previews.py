"""Short previews of records for lists."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.viewer.records import Record, Shape, inside_json
from eval_toolkit.report.viewer.store import Store, pattern
from eval_toolkit.runs.three_tables import PARQUET

__all__ = ["previews"]

_CHARS = 160
_SCATTERED_AT_MOST = 200_000
"""Largest run with previews of scattered records: each of them costs reading a row group."""


def previews(store: Store, shape: Shape, found: Sequence[Record]) -> Mapping[int, str]:
    """Return a preview of every record that has one: its input, or its response.

    In large runs only adjacent records have previews: fetched from all over the table, they would
    take longer than the rest of the page.

    Parameters
    ----------
    store : Store
        Store of the folder of runs.
    shape : Shape
        Shape of the run.
    found : sequence of Record
        Records of a page.

    Returns
    -------
    mapping of int to str
        Preview by record number.
    """
    units = list(dict.fromkeys(record.unit_id for record in found))
    rows = [record.row for record in found]
    scattered = max(rows, default=0) - min(rows, default=0) >= 2 * len(rows)
    if not units or (scattered and shape.n_rows > _SCATTERED_AT_MOST):
        return {}
    stored = shape.units
    if stored is not None and "input" in stored.columns:
        texts = _by_key(
            store, stored.files, stored.sql, "slice, unit_id", "input", "unit_id", units
        )
        return _of(found, texts, lambda one: (stored.slice_with("input", one.slice), one.unit_id))
    if shape.tables.get(RESPONSES, frozenset()) >= {"unit_id", "attempt", "step", "response"}:
        said = inside_json("response", "$.text")
        own = "step = '' AND unit_id"  # steps of judges and testers have names
        files = (shape.path.parent / RESPONSES,)
        texts = _by_key(store, files, PARQUET, "unit_id, attempt", said, own, units)
        return _of(found, texts, lambda record: (record.unit_id, record.attempt))
    return {}


def _of(
    found: Sequence[Record],
    texts: Mapping[tuple[Any, ...], str],
    key: Callable[[Record], tuple[Any, ...]],
) -> dict[int, str]:
    return {record.row: texts[key(record)] for record in found if key(record) in texts}


def _by_key(
    store: Store,
    files: Sequence[Path],
    table: str,
    key: str,
    text: str,
    unit: str,
    units: Sequence[str],
) -> dict[tuple[Any, ...], str]:
    """Return texts by key; all names in the query are our own, never from the data."""
    rows = store.query(
        files[0],
        f"SELECT {key}, left({text}, {_CHARS + 1}) FROM {table} "  # noqa: S608
        f"WHERE {unit} IN ({', '.join('?' * len(units))})",
        [*map(pattern, files), *units],
    )
    return {tuple(row[:-1]): _cut(str(row[-1])) for row in rows if row[-1]}


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]}…"
