"""Replace A and B by run names in the tables and notes of a comparison."""

import re

from eval_toolkit._internal.display import Cell, Estimate, Number, Rows, Table
from eval_toolkit._internal.display.cells import Interval

_SIDE = re.compile(
    r"(?<![\w'\"=/.-])(?:(?<=\bin )|(?<=\bof )|(?<=\bthan )|(?<=\band )|(?<=\bto )|(?<=\bfrom ))[AB]"
    r"(?![\w'\"=/-])"
    r"|(?<![\w'\"=/.-])[AB](?= (?:and [AB]\b|has\b|have\b|is\b|was\b|- [AB]\b))"
)
"""Matches A or B as a side of a comparison, but not as part of a name."""


def named_text(text: str, names: tuple[str, str]) -> str:
    """Return a sentence with A and B replaced by the names of the runs.

    Examples
    --------
    >>> named_text("left out: 3 rows only in A, 2 in B; plan B is 'A'", ("old", "new"))
    "left out: 3 rows only in old, 2 in new; plan new is 'A'"
    """
    return _SIDE.sub(lambda found: names[found[0] == "B"], text)


def named_table(table: Table, names: tuple[str, str]) -> Table:
    """Return a comparison table with the names of the runs, and verdict and difference first.

    Narrow screens show only the first columns, with the interval below the difference.

    Examples
    --------
    >>> header = ["metric", "rows", "A", "B", "B - A", "interval", "B is"]
    >>> row = ["f1", 9, 0.5, 0.75, *Estimate(0.25, 0.125, 0.375, "+").split(), "better"]
    >>> named = named_table(Table(header, [row]), ("old", "new"))
    >>> named.header
    ('metric', 'new is', 'difference', 'rows', 'old', 'new')
    >>> named.texts()[0][:3]
    ['f1', 'better', '+0.250 [+0.125, +0.375]']
    """
    a, b = names
    known = {"A": a, "B": b, "B is": f"{b} is"}
    header, rows = _verdict_first(table)
    return Table(
        [known.get(name, name) for name in header],
        rows,
        title=named_text(table.title, names),
        notes=[named_text(note, names) for note in table.notes],
    )


def _verdict_first(table: Table) -> tuple[list[str], Rows]:
    """Return header and rows with verdict and difference right after what is compared."""
    header = list(table.header)
    delta = next((header.index(name) for name in ("B - A", "B − A") if name in header), None)
    if delta is None or "interval" not in header:
        return header, [list(row) for row in table.rows]
    ends = header.index("interval")
    named = range(min(header.index(name) for name in ("rows", "A") if name in header))
    verdict = [header.index("B is")] if "B is" in header else []
    rest = [at for at in range(len(header)) if at not in (*named, *verdict, delta, ends)]
    first = [*named, *verdict]
    rows: Rows = [
        [*(row[at] for at in first), _together(row[delta], row[ends]), *(row[at] for at in rest)]
        for row in table.rows
    ]
    return [*(header[at] for at in first), "difference", *(header[at] for at in rest)], rows


def _together(delta: Cell, ends: Cell) -> Cell:
    """Return a difference and its interval as one cell."""
    if not isinstance(delta, Number):
        return delta
    low, high = (ends.low, ends.high) if isinstance(ends, Interval) else (None, None)
    return Estimate(delta.value, low, high, "+")
