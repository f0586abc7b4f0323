"""Pages as terminal text: tables fitted to the width, with colours if supported.

Wide tables use the layout with the fewest lines: wrap text, move reasons and constant columns below
the table, group rows below a shared name, split columns over several tables, or print each row as a
block of lines. Numbers are never truncated.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from eval_toolkit._internal.display.layouts import STYLES, Draft, Grid, Parts, plain
from eval_toolkit._internal.display.tables import Alert, Page, Table
from eval_toolkit._internal.display.wrapping import wrapped
from eval_toolkit._internal.words import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

_LEAST_WIDTH, _USUAL_WIDTH = 20, 80
"""Width assumed if the terminal reports a smaller width or none."""


def terminal_text(page: Page, console: "Console | None" = None) -> str:
    """Return the page as terminal text, with colours if the terminal supports them.

    The console (standard output by default) determines width and colours.
    """
    from rich.console import Console
    from rich.text import Text

    console = console or Console(highlight=False)
    console.width = width = max(console.width or _USUAL_WIDTH, _LEAST_WIDTH)
    with console.capture() as captured:
        for at, line in enumerate(page.lead):
            _print(console, wrapped(one_line(line), width), "bold" if at == 0 else "")
        laid_out = _laid_out(page.tables, width)
        for at, shown in enumerate(laid_out):
            if page.lead or at:
                console.print()
            for part in shown:
                if isinstance(part, Text):
                    _print_text(console, part)
                else:
                    console.print(part, width=width)
        if page.notes and (page.lead or laid_out):
            console.print()
        for note in page.notes:
            style = STYLES["warning"] if isinstance(note, Alert) else "dim"
            _print(console, wrapped(one_line(note), width), style)
    return captured.get()


def rich_table(table: Table) -> "RichTable":
    """Return a rich table of flexible width."""
    from rich.table import Table as RichTable

    made = RichTable()
    for column in table.columns:
        made.add_column(plain(one_line(column.name)), justify="right" if column.numeric else "left")
    for row in table.texts():
        made.add_row(*(plain(one_line(text)) for text in row))  # names must not be parsed as markup
    return made


def _print(console: "Console", lines: Sequence[str], style: str = "") -> None:
    from rich.text import Text

    for line in lines:
        _print_text(console, Text(line, style=style))


def _print_text(console: "Console", text: "Text") -> None:
    console.print(text, no_wrap=True, overflow="ignore", crop=False, highlight=False)


# --- layouts ------------------------------------------------------------------------------------


def _laid_out(tables: Sequence[Table], width: int) -> list[Parts]:
    """Lay out all tables in the same style: framed if all of them fit well, otherwise unframed."""
    framed = [_framed(Draft.of(table), width) for table in tables]
    whole = [parts for parts in framed if parts is not None]
    if len(whole) < len(framed):
        return [_lightly(table, width) for table in tables]
    return [
        [*parts, *_below(table.notes, width)] for parts, table in zip(whole, tables, strict=True)
    ]


def _below(notes: Sequence[str], width: int) -> Parts:
    return [plain(line, "dim") for note in notes for line in wrapped(one_line(note), width)]


def _framed(draft: Draft, width: int) -> Parts | None:
    """Return a framed table, or None if an unframed table is more readable."""
    grid = draft.fitted(width, framed=True)
    if grid is not None and grid.height <= 2 * len(grid.rows):
        return grid.parts()
    if _best(draft, width)[0] is not _spread:
        return None
    light, framed = draft.spread(width), draft.spread(width, framed=True)
    return _stacked(framed) if light and framed and len(framed) == len(light) else None


def _lightly(table: Table, width: int) -> Parts:
    """Return an unframed table in the layout with the fewest lines."""
    whole = Draft.of(table).fitted(width)
    if whole is not None and whole.height == len(whole.rows):
        return [*whole.parts(), *_below(table.notes, width)]
    table = table.footnoted()
    return [*_best(Draft.of(table), width)[1], *_below(table.notes, width)]


_Form = tuple[int, Parts] | None
"""Number of lines and layout; None if it does not fit."""


def _as_it_is(draft: Draft, width: int) -> _Form:
    whole = draft.fitted(width)
    return None if whole is None else (whole.height + 1, whole.parts())


def _without_constants(draft: Draft, width: int) -> _Form:
    """Move values that are constant over all rows to a line below the table."""
    n_rows = len(draft.columns[0].cells)
    constants = draft.constants([range(n_rows)], 1) if n_rows > 1 else []
    if not constants:
        return None
    rest = draft.without(constants)
    forms = [form for form in (_as_it_is(rest, width), _spread(rest, width)) if form]
    if not forms:
        return None
    same = ", ".join(_described(draft, at, 0) for at in constants)
    below = _below([f"in every row: {same}"], width)
    height, parts = min(forms, key=lambda form: form[0])
    return height + len(below), [*parts, *below]


def _described(draft: Draft, at: int, row: int) -> str:
    column = draft.columns[at]
    return f"{column.name} {column.texts[row].strip()}"


def _in_sections(draft: Draft, width: int) -> _Form:
    """Group rows below their shared name, next to constant values."""
    sections = draft.sections()
    names = draft.columns[0].texts
    if len(sections) < 2 or 2 * len(sections) > len(names) + 1 or len(draft.columns) < 3:
        return None
    constants = draft.constants(sections, 2)
    grid = draft.without([0, *constants]).fitted(width)
    if grid is None:
        return None
    parts = grid.parts(0, 1)
    lines = grid.height + 1
    for rows in sections:
        described = [
            _described(draft, at, rows[0]) for at in constants if draft.columns[at].texts[rows[0]]
        ]
        name = f"{names[rows[0]]} ({', '.join(described)})" if described else names[rows[0]]
        heading = [plain(line, "bold") for line in wrapped(name, width)]
        parts += [plain()] if rows[0] else []
        parts += [*heading, grid.table(rows[0] + 1, rows[-1] + 2)]
        lines += len(heading) + 1
    return lines, parts


def _spread(draft: Draft, width: int) -> _Form:
    """Split the columns over several tables."""
    grids = draft.spread(width)
    return (sum(grid.height + 2 for grid in grids) - 1, _stacked(grids)) if grids else None


def _stacked(grids: Sequence[Grid]) -> Parts:
    parts = grids[0].parts()
    for grid in grids[1:]:
        parts += [plain(), *grid.parts()]
    return parts


def _in_blocks(draft: Draft, width: int) -> _Form:
    """Print each row as a block of lines, which fits any width."""
    blocks = draft.blocks(width)
    return len(blocks), blocks


_Fit = Callable[[Draft, int], _Form]
_FORMS: tuple[_Fit, ...] = (_as_it_is, _without_constants, _in_sections, _spread, _in_blocks)


def _best(draft: Draft, width: int) -> tuple[_Fit, Parts]:
    """Return the layout with the fewest lines (the first in case of ties)."""
    forms = [(fit, form) for fit in _FORMS if (form := fit(draft, width)) is not None]
    fit, (_, parts) = min(forms, key=lambda one: one[1][0])
    return fit, parts
