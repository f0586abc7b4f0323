"""Tables of typed cells, and pages of tables and notes, for any output format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from eval_toolkit._internal.display.cells import Cell, CellLike, Status, cell_of


@dataclass(frozen=True, slots=True)
class Column:
    """A column name and the kind of all its cells: "number", "status" or "text"."""

    name: str
    kind: str

    @property
    def numeric(self) -> bool:
        """Whether the column is numeric (status cells are ignored)."""
        return self.kind == "number"


@dataclass(frozen=True, init=False)
class Table:
    """A header and rows of typed cells.

    Parameters
    ----------
    header : sequence of str
        Column names.
    rows : iterable of sequences
        Cells, or values that `cell_of` converts to cells.
    title : str
        Title above the table.
    notes : sequence of str
        Notes below the table.

    Raises
    ------
    ValueError
        If a row does not have one cell per column name.

    Examples
    --------
    >>> from eval_toolkit._internal.display import Estimate
    >>> table = Table(["metric", "n", "value"], [["f1", 40, Estimate(0.5, 0.4, 0.6)]])
    >>> [column.kind for column in table.columns], table.texts()
    (['text', 'number', 'number'], [['f1', '40', '0.500 [0.400, 0.600]']])
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str
    notes: Sequence[str]

    def __init__(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[CellLike]],
        title: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        made = tuple(tuple(map(cell_of, row)) for row in rows)
        if any(len(row) != len(header) for row in made):
            raise ValueError(
                f"table {title!r}: a row has more or fewer cells than the header {header!r}"
            )
        for name, value in (
            ("header", tuple(header)),
            ("rows", made),
            ("title", title),
            ("notes", tuple(notes)),
        ):
            object.__setattr__(self, name, value)

    @cached_property
    def columns(self) -> list[Column]:
        """Columns with their kinds."""
        return [Column(name, self._kind(at)) for at, name in enumerate(self.header)]

    def _kind(self, at: int) -> str:
        cells = [row[at] for row in self.rows if row[at]]
        others = [cell for cell in cells if not cell.numeric]
        if not cells or not all(isinstance(cell, Status) for cell in others):
            return "text"
        return "status" if len(others) == len(cells) else "number"

    def texts(self) -> list[list[str]]:
        """Return the strings of the rows."""
        return [[cell.text for cell in row] for row in self.rows]

    def only(self, places: Sequence[int]) -> "Table":
        """Return the table with the selected columns only."""
        header = [self.header[at] for at in places]
        rows = [[row[at] for at in places] for row in self.rows]
        return replace(self, header=header, rows=rows)

    def without_empty(self, first: int = 1) -> "Table":
        """Return the table without empty columns; the first ``first`` columns are always kept."""
        kept = (at for at in range(len(self.header)) if any(row[at] for row in self.rows))
        return self.only(sorted({*range(first), *kept}))

    def footnoted(self, longest: int = 0) -> "Table":
        """Return the table with long reasons moved to numbered footnotes.

        Parameters
        ----------
        longest : int, default 0
            Maximum length of a reason that stays in its cell.
        """
        reasons = (cell.reason for row in self.rows for cell in row if isinstance(cell, Status))
        long = dict.fromkeys(reason for reason in reasons if len(reason) > longest)
        marks = {reason: mark for mark, reason in enumerate(long, 1)}
        rows = [
            [
                replace(cell, mark=marks[cell.reason])
                if isinstance(cell, Status) and cell.reason in marks
                else cell
                for cell in row
            ]
            for row in self.rows
        ]
        below = [f"({mark}) {reason.strip()}" for reason, mark in marks.items()]
        return replace(self, rows=rows, notes=[*self.notes, *below])


class Alert(str):
    """A line of a page that is styled as a warning."""

    __slots__ = ()


@dataclass(frozen=True)
class Page:
    """Output of a command: text and tables, and machine-readable data."""

    title: str
    payload: Mapping[str, Any]
    """Data for ``--json``."""
    lead: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
