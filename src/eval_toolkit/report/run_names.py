"""Replace A and B by run names in the tables and notes of a comparison."""

import re

from eval_toolkit._internal.display import Table

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
    """Return a comparison table with A and B in its header replaced by the names of the runs.

    Examples
    --------
    >>> named_table(Table(["metric", "A", "B", "B - A", "B is"], []), ("old", "new")).header
    ('metric', 'old', 'new', 'difference', 'new is')
    """
    a, b = names
    known = {"A": a, "B": b, "B - A": "difference", "B − A": "difference", "B is": f"{b} is"}
    return Table(
        [known.get(name, name) for name in table.header],
        table.rows,
        title=named_text(table.title, names),
        notes=[named_text(note, names) for note in table.notes],
    )
