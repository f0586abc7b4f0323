"""Names of runs in place of A and B in tables and notes of a comparison."""

import re
from collections.abc import Sequence

from eval_toolkit._internal.display import Table

_SIDE = re.compile(
    r"(?<![\w'\"=/.-])(?:(?<=\bin )|(?<=\bof )|(?<=\bthan )|(?<=\band )|(?<=\bto )|(?<=\bfrom ))[AB]"
    r"(?![\w'\"=/-])"
    r"|(?<![\w'\"=/.-])[AB](?= (?:and [AB]\b|alone has\b|has\b|have\b|is\b|was\b|- [AB]\b))"
)
"""A side of a comparison in a sentence, not a letter in the name of something."""


def named_text(text: str, names: tuple[str, str]) -> str:
    """Return a sentence about A and B with the names of the runs.

    Examples
    --------
    >>> named_text("left out: 3 rows only in A, 2 in B; plan B is 'A'", ("old", "new"))
    "left out: 3 rows only in old, 2 in new; plan new is 'A'"
    """
    return _SIDE.sub(lambda found: names[found[0] == "B"], text)


def named_table(table: Table, names: tuple[str, str]) -> Table:
    """Return a table of a comparison with the names of the runs, the verdict and difference first.

    A narrow screen shows the first columns only.

    Examples
    --------
    >>> header = ["metric", "rows", "A", "B", "B - A", "interval", "B is"]
    >>> named_table(Table(header, []), ("old", "new")).header
    ('metric', 'new is', 'difference', 'interval', 'rows', 'old', 'new')
    """
    a, b = names
    known = {"A": a, "B": b, "B - A": "difference", "B − A": "difference", "B is": f"{b} is"}
    header = list(table.header)
    order = _verdict_first(header)
    return Table(
        [known.get(header[at], header[at]) for at in order],
        [[row[at] for at in order] for row in table.rows],
        title=named_text(table.title, names),
        notes=[named_text(note, names) for note in table.notes],
    )


def _verdict_first(header: Sequence[str]) -> list[int]:
    """Return the order of the columns: what is compared, verdict, difference, interval, the rest."""
    first = [at for at, name in enumerate(header) if name in ("rows", "A")]
    places = [header.index(name) for name in _ANSWER if name in header]
    if not first or len(places) < 2:  # no table of differences
        return list(range(len(header)))
    named = list(range(first[0]))
    return [*named, *places, *(at for at in range(first[0], len(header)) if at not in places)]


_ANSWER = ("B is", "B - A", "B − A", "interval")
"""Columns that answer the question, in the order of a page."""
