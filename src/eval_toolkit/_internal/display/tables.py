"""Tables of typed cells, and pages of them: what there is to say, whoever shows it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from eval_toolkit._internal.display.cells import Cell, CellLike, Status, cell_of

__all__ = ["Alert", "Column", "Page", "Table"]


@dataclass(frozen=True, slots=True)
class Column:
    """The name of a column, and what all of its cells are: "number", "status" or "text"."""

    name: str
    kind: str

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers, apart from cells that say why there is none."""
        return self.kind == "number"


@dataclass(frozen=True, init=False)
class Table:
    """A header and rows of typed cells.

    Parameters
    ----------
    header : sequence of str
        The names of the columns.
    rows : iterable of sequences
        Cells, or what `cell_of` makes cells of.
    title : str
        What is said above it.
    notes : sequence of str
        What is said below it.

    Raises
    ------
    ValueError
        If a row has more or fewer cells than the header has names.

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
            raise ValueError(f"a row of the table {title!r} does not fit its header {header!r}")
        for name, value in (
            ("header", tuple(header)),
            ("rows", made),
            ("title", title),
            ("notes", tuple(notes)),
        ):
            object.__setattr__(self, name, value)

    @cached_property
    def columns(self) -> list[Column]:
        """The columns with what they hold."""
        return [Column(name, self._kind(at)) for at, name in enumerate(self.header)]

    def _kind(self, at: int) -> str:
        cells = [row[at] for row in self.rows if row[at]]
        others = [cell for cell in cells if not cell.numeric]
        if not cells or not all(isinstance(cell, Status) for cell in others):
            return "text"
        return "status" if len(others) == len(cells) else "number"

    def texts(self) -> list[list[str]]:
        """Return the rows as people read them."""
        return [[cell.text for cell in row] for row in self.rows]

    def only(self, places: Sequence[int]) -> "Table":
        """Return some of the columns."""
        header = [self.header[at] for at in places]
        rows = [[row[at] for at in places] for row in self.rows]
        return replace(self, header=header, rows=rows)

    def without_empty(self, first: int = 1) -> "Table":
        """Return the first columns, and of the others those in which something stands."""
        kept = (at for at in range(len(self.header)) if any(row[at] for row in self.rows))
        return self.only(sorted({*range(first), *kept}))

    def footnoted(self, longest: int = 0) -> "Table":
        """Return the table with long reasons as notes below it, each once.

        Parameters
        ----------
        longest : int, default 0
            Characters of a reason that may stand in the table.
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
    """A note about something to look into; other notes are quiet."""

    __slots__ = ()


@dataclass(frozen=True)
class Page:
    """All that a command has to say, for people and as data."""

    title: str
    payload: Mapping[str, Any]
    """What ``--json`` prints."""
    lead: Sequence[str] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
