"""Individual units of a stored run, with requests, answers and scores that are read on demand."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from eval_toolkit._internal.tables.sources import (
    checked_place,
    connection,
    plain_errors,
    quoted,
)
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.judges.requests import judge_of
from eval_toolkit.models.runner.jobs import JobResult
from eval_toolkit.models.runner.stored import COLUMNS, RESPONSES, read_outcomes
from eval_toolkit.runs.folder import Run
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import is_text

_FROM = "read_parquet(?, file_row_number = true, hive_partitioning = false)"
_REQUESTS_AT_MOST = 100
_CELL_BYTES = 400_000
"""Maximum number of bytes to read from a stored cell; longer cells are truncated."""
_BEGINNING = 19_900
"""Number of characters to keep of a truncated string, with room for a note on its length."""
_T = TypeVar("_T")
_Rows = dict[tuple[str, int], list[dict[str, Any]]]


class Tables(Protocol):
    """Reader of Parquet files, possibly with limits."""

    def read(self, path: Path, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run a query and return its rows; the first question mark stands for the file."""
        ...


class _Files:
    """Reader of Parquet files without limits."""

    def read(self, path: Path, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with connection() as con, plain_errors(path):
            rows: list[tuple[Any, ...]] = con.execute(
                sql, [checked_place(con, path), *parameters]
            ).fetchall()
        return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Location of a record in a run: slice, scorer, unit and attempt."""

    slice: str
    scorer: str
    unit_id: str
    attempt: int = 1
    values: Mapping[str, float | str] = field(default_factory=dict)
    """Measured values that are not missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """Request for a unit, with its result."""

    step: str
    outcome: JobResult | None = None
    """Outcome; None if it is too long or cannot be read."""
    prompt: str = ""
    text: str | None = None
    """Beginning of the answer if there is no outcome."""
    error: str = ""
    """Reason why there is no outcome."""

    @property
    def judge(self) -> str | None:
        """Name of the judge; None for requests to the evaluated system."""
        return judge_of(self.step)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredUnit:
    """Unit of a stored run, as passed to `Kind.show`; its fields are read on demand.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import Kind, Unit, drive
    >>> class Doubling(Kind):
    ...     name = "doubling"
    ...     def config(self):
    ...         return {}
    ...     def units(self):
    ...         return [Unit(id="u1", input=21)]
    ...     def respond(self, inputs):
    ...         return [2 * n for n in inputs]
    ...     def score(self, unit, output):
    ...         return {"value": output}
    >>> run = drive(Doubling(), tempfile.mkdtemp() + "/r", name="demo").run
    >>> (unit,) = selected_units(run, [Place(slice="doubling", scorer="doubling", unit_id="u1")])
    >>> [request.outcome.response.text for request in unit.requests]
    ['42']
    """

    place: Place
    whole: bool = True
    """Whether to show everything, as on a separate page."""
    batch: "_Batch"

    @property
    def run(self) -> Run:
        """Run that contains the unit."""
        return self.batch.run

    @property
    def id(self) -> str:
        """Id of the unit."""
        return self.place.unit_id

    @property
    def config(self) -> Mapping[str, Any]:
        """Configuration of the run."""
        found = self.run.manifest.get("config")
        return found if isinstance(found, Mapping) else {}

    @property
    def input(self) -> str | None:
        """Input of the unit; None if it is not stored."""
        return self.batch.texts("input").get((self.place.slice, self.id))

    @property
    def reference(self) -> str | None:
        """Reference of the unit; None if it is not stored."""
        return self.batch.texts("reference").get((self.place.slice, self.id))

    @property
    def requests(self) -> list[StoredRequest]:
        """Requests of this attempt in order; limited if there are very many."""
        return self.batch.requests.get(self._key, [])

    @property
    def n_requests(self) -> int:
        """Number of requests, including those not in `requests`."""
        return self.batch.n_requests.get(self._key, 0)

    def rows(self, table: str, columns: Sequence[str], texts: Sequence[str], limit: int) -> Any:
        """Return the first rows about this attempt in another table, and their total number.

        Parameters
        ----------
        table : str
            File with the columns ``unit_id`` and ``attempt``.
        columns : sequence of str
            Columns to read.
        texts : sequence of str
            Columns whose long cells are truncated.
        limit : int
            Maximum number of rows.

        Returns
        -------
        pair of list of dict and int
            Rows and their total number; empty and 0 if the run has no such table.

        Raises
        ------
        ArtifactError
            If the table cannot be read.
        """
        found, counts = self.batch.rows(table, tuple(columns), tuple(texts), limit)
        return found.get(self._key, []), counts.get(self._key, 0)

    def of_all(self, reader: Callable[[Run, Sequence[str]], Mapping[str, _T]]) -> _T | None:
        """Return the result of a reader for this unit; the reader is called once for all units.

        ``reader`` maps the run and the unit ids to a mapping by id. The result is None if the
        reader raises an `ArtifactError`, so that the rest can still be shown.
        """
        return self.batch.of_all(reader).get(self.id)

    @property
    def _key(self) -> tuple[str, int]:
        return self.id, self.place.attempt


def selected_units(
    run: Run, places: Iterable[Place], *, whole: bool = True, tables: Tables | None = None
) -> list[StoredUnit]:
    """Return units of a stored run, which are read together.

    Without ``whole``, only as much as fits on a card is read.
    """
    selected = list(places)
    batch = _Batch(run, selected, tables or _Files())
    return [StoredUnit(place=place, whole=whole, batch=batch) for place in selected]


def units_at(
    run: Run, records: Records, slice_name: str, scorer: str, rows: Iterable[int]
) -> list[StoredUnit]:
    """Return the units in some rows of a scorer's records, for cards."""
    places = [
        Place(
            slice=slice_name,
            scorer=scorer,
            unit_id=str(records.unit_id[at]),
            attempt=int(records.attempt[at]),
            values={
                name: str(values[at]) if is_text(values) else float(values[at])
                for name, values in records.columns.items()
                if records.status[name][at] == "ok"
            },
        )
        for at in rows
    ]
    return selected_units(run, places, whole=False)


class _Batch:
    """Units that are read together with one query per table."""

    def __init__(self, run: Run, places: Sequence[Place], tables: Tables) -> None:
        self.run = run
        self._places = places
        self._tables = tables
        self._ids = list(dict.fromkeys(place.unit_id for place in places))
        self._keys = {(place.unit_id, place.attempt) for place in places}
        self._read: dict[Any, Any] = {}

    def of_all(
        self, reader: Callable[[Run, Sequence[str]], Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        if reader not in self._read:
            try:
                self._read[reader] = reader(self.run, self._ids)
            except ArtifactError:  # requests and answers can still be shown
                self._read[reader] = {}
        found: Mapping[str, Any] = self._read[reader]
        return found

    def texts(self, column: str) -> dict[tuple[str, str], str]:
        units = self.run.units
        if units is None:
            return {}
        if column not in self._read:
            by_slice: dict[str, list[str]] = {}
            for place in self._places:
                by_slice.setdefault(place.slice, []).append(place.unit_id)
            self._read[column] = {
                (name, unit): text
                for name, ids in by_slice.items()
                for unit, text in units.values(column, ids, slice_name=name).items()
            }
        found: dict[tuple[str, str], str] = self._read[column]
        return found

    def rows(
        self, table: str, columns: tuple[str, ...], texts: tuple[str, ...], limit: int
    ) -> tuple[_Rows, dict[tuple[str, int], int]]:
        key = (table, columns, limit)
        if key not in self._read:
            self._read[key] = self._rows(table, columns, texts, limit)
        found: tuple[_Rows, dict[tuple[str, int], int]] = self._read[key]
        return found

    def _rows(
        self, table: str, columns: Sequence[str], texts: Sequence[str], limit: int
    ) -> tuple[_Rows, dict[tuple[str, int], int]]:
        path = self.run.path / table
        if table not in self.run.manifest["artifacts"] or not self._ids:
            return {}, {}
        numbers = self._tables.read(
            path,
            f"SELECT file_row_number, unit_id, attempt FROM {_FROM} WHERE unit_id IN "  # noqa: S608
            f"({_marks(self._ids)}) ORDER BY file_row_number",
            self._ids,
        )
        counts: dict[tuple[str, int], int] = {}
        row_numbers = []
        for number, unit, attempt in numbers:
            key = unit, attempt
            if key in self._keys:
                counts[key] = counts.get(key, 0) + 1
                if counts[key] <= limit:
                    row_numbers.append(int(number))
        found: _Rows = {}
        # JSON is read in full if possible; only the beginning of other strings is shown.
        at_most = _CELL_BYTES if table == RESPONSES else 4 * _BEGINNING
        for row in self._cells(path, columns, texts, row_numbers, at_most):
            found.setdefault((str(row["unit_id"]), int(row["attempt"])), []).append(row)
        return found, counts

    def _cells(
        self,
        path: Path,
        columns: Sequence[str],
        texts: Sequence[str],
        numbers: Sequence[int],
        at_most: int,
    ) -> list[dict[str, Any]]:
        """Return the selected rows; long strings are truncated."""
        if not numbers:
            return []
        long = [f"coalesce(strlen({quoted(name)}) > {at_most}, false)" for name in texts]
        cells = [
            f"CASE WHEN {long[texts.index(name)]} THEN {_beginning(quoted(name))} "
            f"ELSE {quoted(name)} END"
            if name in texts
            else quoted(name)
            for name in columns
        ]
        rows = self._tables.read(
            path,
            f"SELECT file_row_number, {' OR '.join(long) or 'false'}, {', '.join(cells)} "  # noqa: S608
            f"FROM {_FROM} WHERE file_row_number IN ({_marks(numbers)}) ORDER BY file_row_number",
            numbers,
        )
        return [dict(zip(("\0row", "\0long", *columns), row, strict=True)) for row in rows]

    @cached_property
    def _stored_requests(self) -> tuple[_Rows, dict[tuple[str, int], int]]:
        texts = tuple(name for name in COLUMNS if name not in ("unit_id", "attempt"))
        try:
            return self.rows(RESPONSES, COLUMNS, texts, _REQUESTS_AT_MOST)
        except ArtifactError as error:  # exceeds the memory of a page; show the rest
            broken = {"\0broken": f"cannot be read: {error}"}
            return {key: [broken] for key in self._keys}, {}

    @property
    def n_requests(self) -> dict[tuple[str, int], int]:
        return self._stored_requests[1]

    @cached_property
    def requests(self) -> dict[tuple[str, int], list[StoredRequest]]:
        found = self._stored_requests[0]
        prompts = self._prompts(
            row["prompt_hash"]
            for rows in found.values()
            for row in rows
            if "prompt" in row and not row["prompt"]
        )
        return {key: [self._request(row, prompts) for row in rows] for key, rows in found.items()}

    def _prompts(self, hashes: Iterable[str]) -> dict[str, str]:
        """Return prompts by hash that are stored with another request."""
        distinct = list(dict.fromkeys(hashes))
        if not distinct:
            return {}
        found = self._tables.read(
            self.run.path / RESPONSES,
            f"SELECT prompt_hash, CASE WHEN strlen(prompt) > {_CELL_BYTES} THEN "  # noqa: S608
            f"{_beginning('prompt')} ELSE prompt END FROM {_FROM} WHERE prompt <> '' "
            f"AND prompt_hash IN ({_marks(distinct)})",
            distinct,
        )
        return {str(digest): str(prompt) for digest, prompt in found}

    def _request(self, row: dict[str, Any], prompts: Mapping[str, str]) -> StoredRequest:
        if "\0broken" in row:
            return StoredRequest(step="", error=row["\0broken"])
        step = str(row["step"] or "")
        prompt = str(row["prompt"] or prompts.get(row["prompt_hash"], ""))
        if row["\0long"]:
            return self._begun(row, step, prompt)
        try:
            (outcome,) = read_outcomes(
                {**{name: [row[name]] for name in COLUMNS}, "prompt": [prompt]}
            )
        except ArtifactError as error:
            return StoredRequest(step=step, error=f"cannot be read: {error}")
        return StoredRequest(step=step, outcome=outcome)

    def _begun(self, row: Mapping[str, Any], step: str, prompt: str) -> StoredRequest:
        """Read a request, truncating long fields."""
        text = "CASE WHEN json_valid(response) THEN json_extract_string(response, '$.text') END"
        ((found,),) = self._tables.read(
            self.run.path / RESPONSES,
            f"SELECT {_beginning(text)} FROM {_FROM} WHERE file_row_number = ?",  # noqa: S608
            [row["\0row"]],
        )
        response = row["response"] if found is None else found
        return StoredRequest(step=step, prompt=prompt, text=response, error=str(row["error"] or ""))


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def _beginning(text: str) -> str:
    """Return SQL for the first characters of a string and its total length."""
    more = f"format('… ({{:,}} characters, the first {_BEGINNING:,} are shown)', length({text}))"
    return f"left({text}, {_BEGINNING}) || if(length({text}) > {_BEGINNING}, {more}, '')"
