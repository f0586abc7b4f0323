"""``inputs.parquet``: what the rows of a run say, looked up a few at a time."""

import glob
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import _validate
from eval_toolkit._files import open_regular
from eval_toolkit._hashing import canonical_json, sha256_text
from eval_toolkit._plain import plain, whole_text
from eval_toolkit._redaction import redact_secrets
from eval_toolkit._tables.sources import connection, plain_errors
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

__all__ = ["INPUTS", "MAX_CHARS", "Inputs", "inputs_table", "shown_input"]

INPUTS = "inputs.parquet"
MAX_CHARS = 20_000
"""Characters that are kept of one input."""
_MARGIN = 4_000
"""Characters beyond those that are looked at, so that a secret at the end is known as one."""
_AT_ONCE = 1_000
"""Rows in one query."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a run's rows; `Run.inputs` has them where they were stored.

    Every lookup reads the rows that it is asked for, not the table.

    Parameters
    ----------
    path : Path
        The table.
    whole : str, optional
        The slice that every slice without inputs of its own is a part of.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> columns, about = inputs_table({"test": ([0, 1], ["u1", "u2"], ["hello", "good bye"])})
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1",
    ...     results={"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}},
    ...     manifest={"run_id": "r1", "inputs": about},
    ...     tables={"inputs.parquet": columns},
    ... )
    >>> run.inputs.text_of("test", "u2"), run.inputs.texts_at("test", [0, 7])
    ('good bye', {0: 'hello'})
    """

    path: Path
    whole: str | None = None

    @cached_property
    def slices(self) -> dict[str, int]:
        """The slices that have inputs, and how many rows each has."""
        found = self._query(
            "SELECT slice, count(*) FROM read_parquet(?, hive_partitioning = false) GROUP BY slice",
            [],
        )
        return {str(name): int(n) for name, n in sorted(found)}

    def text_of(self, slice_name: str, unit_id: str) -> str | None:
        """Return the input of a unit; None where there is none.

        Parameters
        ----------
        slice_name : str
            A slice of the run.
        unit_id : str
            As in the records.

        Returns
        -------
        str or None
            Without secrets; a long one is cut and says so.
        """
        return self.texts_of(slice_name, [unit_id]).get(unit_id)

    def text_at(self, slice_name: str, row: int) -> str | None:
        """Return the input of a row, counted from 0 as leakage findings do; None without one.

        Parameters
        ----------
        slice_name : str
            A slice of the run.
        row : int
            Place in the slice as it was given, or in the files that were scored.

        Returns
        -------
        str or None
            As in `text_of`.
        """
        return self.texts_at(slice_name, [row]).get(row)

    def texts_of(self, slice_name: str, unit_ids: Iterable[str]) -> dict[str, str]:
        """Return the inputs of some units.

        Parameters
        ----------
        slice_name : str
            A slice of the run.
        unit_ids : iterable of str
            As in the records.

        Returns
        -------
        dict of str to str
            By unit, in the order asked for; units without an input are left out.

        Raises
        ------
        InvalidTypeError
            If ``unit_ids`` is one text.
        ArtifactError
            If the table cannot be read.
        """
        if isinstance(unit_ids, str):
            raise InvalidTypeError(f"`unit_ids` is {unit_ids!r:.80}; it must be a list of ids")
        wanted = list(dict.fromkeys(map(str, unit_ids)))
        return self._texts("unit_id", slice_name, wanted)

    def texts_at(self, slice_name: str, rows: Iterable[int]) -> dict[int, str]:
        """Return the inputs of some rows.

        Parameters
        ----------
        slice_name : str
            A slice of the run.
        rows : iterable of int
            Places in the slice as it was given, from 0.

        Returns
        -------
        dict of int to str
            By row, in the order asked for; rows without an input are left out.

        Raises
        ------
        InvalidInputError
            If a row is no whole number from 0.
        ArtifactError
            If the table cannot be read.
        """
        wanted = [_validate.integer(row, "rows", low=0) for row in rows]
        return self._texts("row", slice_name, list(dict.fromkeys(wanted)))

    def digests_of(self, slice_name: str, unit_ids: Iterable[str]) -> dict[str, str]:
        """Return what tells the whole inputs of some units from others, apart from white space.

        Parameters
        ----------
        slice_name : str
            A slice of the run.
        unit_ids : iterable of str
            As in the records.

        Returns
        -------
        dict of str to str
            By unit: equal for equal inputs, as long as they are and before secrets are redacted.
            Empty for a run that was stored without.
        """
        columns = self._query("SELECT name FROM parquet_schema(?) WHERE name = 'digest'", [])
        wanted = list(dict.fromkeys(map(str, unit_ids)))
        return self._texts("unit_id", slice_name, wanted, "digest") if columns else {}

    def _texts(
        self, column: str, slice_name: str, wanted: Sequence[Any], found_in: str = "text"
    ) -> dict[Any, str]:
        place = slice_name if slice_name in self.slices or self.whole is None else self.whole
        if not wanted or place not in self.slices:
            return {}
        found: dict[Any, str] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            found |= self._query(
                f"SELECT {column}, {found_in} FROM read_parquet(?, hive_partitioning = false) WHERE slice = ? "  # noqa: S608
                f"AND {column} IN ({', '.join('?' * len(some))}) AND {found_in} IS NOT NULL",
                [place, *some],
            )
        return {key: found[key] for key in wanted if key in found}

    def _query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        open_regular(self.path).close()  # a pipe would block the database
        with connection() as con, plain_errors(self.path):
            given = [glob.escape(str(self.path)), *parameters]
            rows: list[tuple[Any, ...]] = con.execute(sql, given).fetchall()
        return rows


def inputs_table(
    slices: Mapping[str, tuple[Sequence[int], Sequence[str], Sequence[Any]]],
    *,
    whole: str | None = None,
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the columns of ``inputs.parquet``, and what the manifest says about them.

    Parameters
    ----------
    slices : mapping of slice to (rows, unit ids, texts)
        Rows are places from 0; texts are as `shown_input` returns them. Secrets are redacted here,
        and of a longer text the first `MAX_CHARS` characters are kept.
    whole : str, optional
        The slice that the slices which are not named are parts of.

    Returns
    -------
    tuple of dict
        Columns for ``tables`` of `write_run`, and the value of ``inputs`` in its manifest.

    Raises
    ------
    InvalidInputError
        If a slice has not as many rows as unit ids and texts.

    Examples
    --------
    >>> columns, about = inputs_table({"test": ([0], ["u1"], ["x" * 20_005])})
    >>> columns["text"][0][-23:], about["n_cut"]
    ('x [… 5 more characters]', 1)
    """
    names: list[str] = []
    rows: list[int] = []
    units: list[str] = []
    texts: list[str | None] = []
    digests: list[str | None] = []
    n_cut = 0
    for name, (places, ids, given) in slices.items():
        if not len(places) == len(ids) == len(given):
            raise InvalidInputError(
                f"slice {name!r} has {len(places)} rows, {len(ids)} unit ids and {len(given)} texts"
            )
        # As records are sorted: those on one page of a viewer lie close together.
        order = sorted(range(len(ids)), key=ids.__getitem__)
        names += [name] * len(order)
        rows += [int(places[at]) for at in order]
        units += [str(ids[at]) for at in order]
        texts += [None if given[at] is None else _kept(given[at]) for at in order]
        digests += [None if given[at] is None else _digest(given[at]) for at in order]
        n_cut += sum(text is not None and len(text) > MAX_CHARS for text in given)
    columns = {
        "slice": _objects(names),
        "row": np.array(rows, dtype=np.int64),
        "unit_id": _objects(units),
        "text": _objects(texts),
        "digest": _objects(digests),
    }
    return columns, {"max_chars": MAX_CHARS, "n_cut": n_cut, "whole": whole}


def shown_input(value: Any, names: Sequence[str] = ()) -> str | None:
    """Return an input as people read it: a text as it is, several features as "name: value".

    Parameters
    ----------
    value : object
        A text, a number, or a list of features; anything else as JSON.
    names : sequence of str
        Of the features.

    Returns
    -------
    str or None
        None where the input is missing.

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
    return None if _validate.is_missing(value) else str(value)


def _digest(text: str) -> str:
    """Return the hash of a text without what tools change about it: white space, Unicode form."""
    return sha256_text(" ".join(unicodedata.normalize("NFC", text).split()))


def _kept(text: str) -> str:
    """Return a text as it is stored: it can be written down, has no secrets and is not too long."""
    safe: str = redact_secrets(whole_text(text[: MAX_CHARS + _MARGIN]))
    if len(text) <= MAX_CHARS:
        return safe
    return f"{safe[:MAX_CHARS]} [… {len(text) - MAX_CHARS:,} more characters]"


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
