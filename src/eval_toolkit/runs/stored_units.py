"""Units of a stored run, read individually or all at once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from eval_toolkit._internal import tables
from eval_toolkit._internal.tables.cells import without_mask
from eval_toolkit._internal.tables.sources import (
    checked_place,
    connection,
    literal,
    plain_errors,
    quoted,
)
from eval_toolkit.errors import ArtifactError
from eval_toolkit.runs import legacy_units
from eval_toolkit.runs.legacy_units import PARQUET
from eval_toolkit.runs.table import Layout
from eval_toolkit.runs.units import UNITS, WHO

if TYPE_CHECKING:
    import duckdb


_AT_ONCE = 1_000
"""Maximum number of units in one query."""


@dataclass(frozen=True, eq=False)
class StoredUnits:
    """Units of a run, as returned by `Run.units`.

    A unit is identified by its slice and id. The columns are ``slice``, ``unit_id``,
    ``content_hash``, ``group`` (None if the unit has none), one for each partition, and, if stored,
    ``row`` (position in the data), ``input``, ``digest`` (hash of the input, ignoring whitespace),
    ``reference``, and columns specific to the kind of evaluation.

    Parameters
    ----------
    sql : str
        SQL that follows FROM in queries.
    files : tuple of Path
        Files for the placeholders in ``sql``.
    columns : tuple of str
        Names of the columns.
    parts : mapping of str to str
        Column of each partition by name.
    whole : str, optional
        Slice whose units are used for slices that have none of their own.
    records : StoredUnits, optional
        Units from the records, for runs whose unit tables are incomplete.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task, run_task
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"),
    ...     rows=[{"id": "q1", "q": "2 + 2?", "a": "4"}], graders=["exact_match"])
    >>> run = run_task(task, ScriptedModel("5"), tempfile.mkdtemp() + "/r").run
    >>> run.units.read(["input", "reference"])
    {'input': array(['2 + 2?'], dtype=object), 'reference': array(['4'], dtype=object)}
    """

    sql: str
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    whole: str | None = None
    records: "StoredUnits | None" = None

    def slice_with(self, column: str, slice_name: str) -> str | None:
        """Return the slice that stores a column for the units of a slice, or None."""
        place = slice_name if slice_name in self.counts(column) else self.whole
        return place if place in self.counts(column) else None

    def counts(self, column: str) -> dict[str, int]:
        """Return the slices whose units have a value in a column, with their numbers of rows.

        Slices are sorted.
        """
        if column not in self.columns:
            return {}
        if column not in self._counts:
            given = 'count(*) FILTER (WHERE "row" >= 0)' if "row" in self.columns else "count(*)"
            found = self._query(
                f"SELECT slice, {given} FROM {self.sql} GROUP BY slice "  # noqa: S608
                f"HAVING count({quoted(column)}) > 0",
                [],
            )
            # A malformed run may lack names: nulls are counted under the string "None".
            self._counts[column] = {str(name): int(n) for name, n in sorted(found, key=str)}
        return self._counts[column]

    @cached_property
    def _counts(self) -> dict[str, dict[str, int]]:
        return {}

    def values(
        self,
        column: str,
        keys: Iterable[Any],
        *,
        slice_name: str | None = None,
        by: str = "unit_id",
    ) -> dict[Any, Any]:
        """Return the values of a column for some units, without reading the whole table.

        Parameters
        ----------
        column : str
            Column, for example "input".
        keys : iterable
            Unit ids, or values of another key column.
        slice_name : str, optional
            Slice of the units; by default, any slice.
        by : str, default "unit_id"
            Name of the key column.

        Returns
        -------
        dict
            Values by key, in the requested order; units without a value are omitted.

        Raises
        ------
        ArtifactError
            If the table cannot be read.
        """
        found = self.rows([column], keys, slice_name=slice_name, by=by)
        return {key: row[0] for key, row in found.items() if row[0] is not None}

    def rows(
        self,
        columns: Sequence[str],
        keys: Iterable[Any],
        *,
        slice_name: str | None = None,
        by: str = "unit_id",
    ) -> dict[Any, tuple[Any, ...]]:
        """Return several columns for some units; see `values`.

        Rows are in the requested order; missing units are omitted.
        """
        distinct = list(dict.fromkeys(keys))
        if not distinct or not {*columns, by} <= {*self.columns}:
            return {}
        where, given = "", []
        if slice_name is not None:
            place = self.slice_with(columns[0], slice_name)
            if place is None:
                return {}
            where, given = "slice = ? AND ", [place]
        chosen = ", ".join(map(quoted, (by, *columns)))
        found: dict[Any, tuple[Any, ...]] = {}
        for start in range(0, len(distinct), _AT_ONCE):
            some = distinct[start : start + _AT_ONCE]
            read = self._query(
                f"SELECT {chosen} FROM {self.sql} WHERE {where}{quoted(by)} IN "  # noqa: S608
                f"({', '.join('?' * len(some))})",
                [*given, *some],
            )
            found |= {row[0]: row[1:] for row in read}
        return {key: found[key] for key in distinct if key in found}

    def read(self, columns: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Read columns of all units, sorted by slice and position.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read; by default, all columns.

        Returns
        -------
        dict of str to ndarray
            Columns by name; strings have dtype object, with None for missing values.

        Raises
        ------
        ArtifactError
            If a column does not exist, or the table cannot be read.
        """
        source = self._with_records(columns)
        names = list(source.columns if columns is None else columns)
        for name in names:
            if name not in source.columns:
                raise ArtifactError(f"{self.files[0].parent}: units were stored without {name!r}")
        order = [name for name in ("slice", "row", "unit_id") if name in source.columns]
        chosen = ", ".join(f"{quoted(name)} AS c{at}" for at, name in enumerate(names))
        with connection() as con, plain_errors(self.files[0]):
            found = con.execute(
                f"SELECT {chosen} FROM {source.sql} ORDER BY {', '.join(order)}",  # noqa: S608
                source._places(con),
            ).fetchnumpy()
        return {name: without_mask(found[f"c{at}"]) for at, name in enumerate(names)}

    def _with_records(self, columns: Sequence[str] | None) -> "StoredUnits":
        """Add the columns that only the records contain, if they are requested."""
        known = self.records
        if known is None or (columns is not None and {*columns} <= {*self.columns}):
            return self
        more = tuple(name for name in known.columns if name not in self.columns)
        chosen = ", ".join(["u.*", *(f"k.{quoted(name)}" for name in more)])
        joined = f"(SELECT {chosen} FROM {self.sql} AS u LEFT JOIN {known.sql} AS k USING (slice, unit_id))"  # noqa: S608
        files, names = (*self.files, *known.files), (*self.columns, *more)
        return replace(self, sql=joined, files=files, columns=names, parts=known.parts)

    def _query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with connection() as con, plain_errors(self.files[0]):
            rows: list[tuple[Any, ...]] = con.execute(
                sql, [*self._places(con), *parameters]
            ).fetchall()
        return rows

    def _places(self, con: "duckdb.DuckDBPyConnection") -> list[str]:
        return [checked_place(con, file) for file in self.files]


def unit_files(there: Collection[str]) -> tuple[str, ...]:
    """Return the files of a run that contain its units, in any version of the format.

    Examples
    --------
    >>> unit_files(["manifest.json", "records.parquet", "seeds.parquet"])
    ('seeds.parquet',)
    """
    return (UNITS,) if UNITS in there else tuple(n for n in legacy_units.TABLES if n in there)


def stored_units(
    folder: Path,
    manifest: Mapping[str, Any],
    columns_of: Callable[[Path], Collection[str]] = tables.column_names,
    records: StoredUnits | None = None,
) -> StoredUnits | None:
    """Return the units of a run of any version, or None.

    ``columns_of`` returns the columns of a table. For runs without a table of units, the units are
    taken from ``records``.
    """
    there = [name for name in manifest["artifacts"] if (folder / name).is_file()]
    about, before = (_mapping(manifest.get(name)) for name in ("units", "inputs"))
    if UNITS in there:
        columns = tuple(columns_of(folder / UNITS))
        named = _mapping(about.get("parts")).items()
        parts = {str(name): stored for name, stored in named if stored in columns}
        fits = {"slice", "unit_id"} <= {*columns}
        return StoredUnits(PARQUET, (folder / UNITS,), columns, parts) if fits else None
    slices = [name for name in _slices(manifest) if "=" not in name] or [""]
    found = legacy_units.units_query(folder, there, columns_of, slices[0])
    if found is None:
        return records
    whole = before.get("whole")
    return StoredUnits(*found, whole=None if whole is None else str(whole), records=records)


def units_of_records(file: Path, layout: Layout, slices: Iterable[str]) -> StoredUnits:
    """Return the units found in the records of some slices."""
    parts = dict(layout.parts)
    same = (
        f"CASE WHEN min({column}) = max({column}) THEN min({column}) END AS {column}"
        for column in map(quoted, parts.values())  # folds may differ between attempts
    )
    expressions = ["slice", "unit_id", "min(content_hash) AS content_hash"]
    expressions += ['nullif(min("group"), unit_id) AS "group"', *same]
    within = ", ".join(map(literal, slices)) or "''"
    sql = f"(SELECT {', '.join(expressions)} FROM {PARQUET} WHERE slice IN ({within}) GROUP BY slice, unit_id)"  # noqa: S608
    return StoredUnits(sql, (file,), (*WHO, *parts.values()), parts)


def _slices(manifest: Mapping[str, Any]) -> list[str]:
    subjects = _mapping(manifest["artifacts"].get("records.parquet")).get("subjects")
    given = subjects if isinstance(subjects, list) else []
    return [str(one["slice"]) for one in given if isinstance(one, Mapping) and "slice" in one]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
