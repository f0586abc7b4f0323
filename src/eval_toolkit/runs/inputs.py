"""Stored inputs of the rows of a run, read on demand."""

from collections.abc import Iterable
from dataclasses import dataclass

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.runs.stored_units import StoredUnits


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of the rows of a run, as returned by `Run.inputs`.

    Each lookup reads only the requested rows, not the whole table.

    Parameters
    ----------
    units : StoredUnits
        Units of the run.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import Unit, write_run
    >>> from eval_toolkit.runs.units import units_table
    >>> texts = {"u1": "hello", "u2": "good bye"}
    >>> units = [Unit(id=unit, input=text, slice="test") for unit, text in texts.items()]
    >>> columns, about = units_table({}, units)
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1",
    ...     results={"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}},
    ...     manifest={"run_id": "r1", "units": about},
    ...     tables={"units.parquet": columns},
    ... )
    >>> run.inputs.text_of("test", "u2"), run.inputs.texts_at("test", [0, 7])
    ('good bye', {0: 'hello'})
    """

    units: StoredUnits

    @property
    def slices(self) -> dict[str, int]:
        """Number of rows of each slice that has inputs."""
        return self.units.counts("input")

    def text_of(self, slice_name: str, unit_id: str) -> str | None:
        """Return the input of a unit, or None.

        Secrets are redacted; long inputs are truncated with a note.
        """
        return self.texts_of(slice_name, [unit_id]).get(unit_id)

    def text_at(self, slice_name: str, row: int) -> str | None:
        """Return the input of a row, counted from 0; None if no input is stored.

        ``row`` is the position in the original slice, or in the scored files.
        """
        return self.texts_at(slice_name, [row]).get(row)

    def texts_of(self, slice_name: str, unit_ids: Iterable[str]) -> dict[str, str]:
        """Return the inputs of some units.

        Inputs are in the requested order; units without an input are omitted.
        """
        if isinstance(unit_ids, str):
            raise InvalidTypeError(f"`unit_ids` is {unit_ids!r:.80}; it must be a list of ids")
        ids = map(str, unit_ids)
        return self.units.values("input", ids, slice_name=slice_name)

    def texts_at(self, slice_name: str, rows: Iterable[int]) -> dict[int, str]:
        """Return the inputs of some rows.

        Rows are positions in the original slice, counted from 0. Inputs are in the requested order;
        rows without an input are omitted.
        """
        positions = [validation.integer(row, "rows", low=0) for row in rows]
        return self.units.values("input", positions, slice_name=slice_name, by="row")

    def digests_of(self, slice_name: str, unit_ids: Iterable[str]) -> dict[str, str]:
        """Return hashes of the entire inputs of units, ignoring whitespace.

        Hashes are computed before secrets are redacted and inputs are truncated. The result is
        empty if the run stores no hashes.
        """
        return self.units.values("digest", map(str, unit_ids), slice_name=slice_name)
