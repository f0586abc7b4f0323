"""Tables for a terminal: what columns hold, how wide they are, and how their cells look."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from eval_toolkit.cli._wrapping import column_widths, wrapped
from eval_toolkit.report.meaning import (
    is_interval,
    is_number,
    meaning,
    numeric,
    stated,
    value_and_interval,
)
from eval_toolkit.report.pages import Table
from eval_toolkit.report.words import one_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

__all__ = ["STYLES", "Draft", "Grid", "Parts", "plain"]

Parts = list[Any]
"""What is printed one below the other: texts and tables of rich."""
# Blue and orange, which people who cannot tell red from green can tell apart, each with as much
# contrast on black as on white. Weight and words say the same without colour.
_BLUE, _ORANGE = "color(32)", "color(166)"
STYLES = {
    "good": f"bold {_BLUE}",
    "bad": f"bold {_ORANGE}",
    "apart": "bold",
    "warning": _ORANGE,
    "error": f"bold reverse {_ORANGE}",
    "skipped": "dim",
}


def plain(text: str = "", style: str = "") -> "Text":
    """Return a text that is shown as it is: no markup, no highlights."""
    from rich.text import Text

    return Text(text, style=style)


@dataclass(frozen=True)
class Draft:
    """A table whose cells are on one line each, and what its columns hold."""

    title: str
    lines: Sequence[Sequence[str]]
    """The header and the rows."""
    numbers: Sequence[bool]
    states: Sequence[bool]

    @classmethod
    def of(cls, table: Table) -> "Draft":
        numbers = numeric(table)
        lines = [[one_line(cell).strip() for cell in line] for line in (table.header, *table.rows)]
        columns = [
            [name, *(_aligned(cells) if number else cells)]
            for (name, *cells), number in zip(zip(*lines, strict=True), numbers, strict=True)
        ]
        states = stated(table, numbers)
        return cls(one_line(table.title), list(zip(*columns, strict=True)), numbers, states)

    def only(self, places: Sequence[int]) -> "Draft":
        """Return some of the columns."""
        return Draft(
            self.title,
            [[line[at] for at in places] for line in self.lines],
            [self.numbers[at] for at in places],
            [self.states[at] for at in places],
        )

    def without(self, places: Sequence[int]) -> "Draft":
        """Return the other columns."""
        return self.only([at for at in range(len(self.numbers)) if at not in places])

    def sections(self) -> list[Sequence[Sequence[str]]]:
        """Return the rows, those that follow each other with the same name together."""
        return [list(rows) for _, rows in groupby(self.lines[1:], key=lambda line: line[0])]

    def constants(self, sections: Sequence[Sequence[Sequence[str]]], n_names: int) -> list[int]:
        """Return the names and counts that are the same in all rows of every section."""
        return [
            at
            for at in range(n_names, len(self.numbers))
            if self.lines[0][at]
            and all(len({row[at] for row in rows}) == 1 for rows in sections)
            and all(self._is_dull(rows[0][at], at) for rows in sections)
        ]

    def _is_dull(self, cell: str, at: int) -> bool:
        """Return whether a cell is a name or a count: no state, and no result."""
        if self.numbers[at]:
            return cell.replace(",", "").isdecimal()
        return not self.states[at] and not meaning(cell)

    def fitted(self, width: int, *, framed: bool = False) -> "Grid | None":
        """Return the table at a width; None where that would cut something."""
        grids = [self._with_gap(width, gap, framed) for gap in ((3,) if framed else (2, 1))]
        return min((grid for grid in grids if grid), key=lambda grid: grid.height, default=None)

    def _with_gap(self, width: int, gap: int, framed: bool) -> "Grid | None":
        n = len(self.numbers)
        room = width - (gap * n + 1 if framed else gap * (n - 1))
        widths = column_widths(list(zip(*self.lines, strict=True)), room)
        if widths is None:
            return None
        rows = [
            [wrapped(cell, size) for cell, size in zip(line, widths, strict=True)]
            for line in self.lines
        ]
        return Grid(self, rows, widths, width, gap, framed)

    def footnoted(self) -> tuple["Draft", list[str]]:
        """Return the table with reasons behind states as numbers, and what these stand for."""
        notes: dict[str, int] = {}
        lines = [list(self.lines[0])]
        for line in self.lines[1:]:
            cells = list(line)
            for at, cell in enumerate(line):
                state, colon, reason = cell.strip().partition(": ")
                if self.states[at] and colon and reason:
                    place = notes.setdefault(reason, len(notes) + 1)
                    cells[at] = f"{state} ({place})"
            lines.append(cells)
        told = [f"({place}) {reason}" for reason, place in notes.items()]
        return replace(self, lines=lines), told

    def spread(self, width: int, *, framed: bool = False) -> "list[Grid] | None":
        """Return the columns spread over several tables, each with the names of the rows."""
        n_keys = next((at for at, number in enumerate(self.numbers) if number), 0) or 1
        keys, others = list(range(n_keys)), list(range(n_keys, len(self.numbers)))
        if not all(self.states[at] for at in others):  # texts are easier to read in blocks
            return None
        grids: list[Grid] = []
        while others:
            taken = 1
            grid = self.only([*keys, *others[:1]]).fitted(width, framed=framed)
            if grid is None or sum(grid.widths[:n_keys]) > width // 2:
                return None
            narrower = grid
            while taken < len(others):
                wider = self.only([*keys, *others[: taken + 1]]).fitted(width, framed=framed)
                if wider is None or wider.height > grid.height:
                    break
                narrower, grid, taken = grid, wider, taken + 1
            if 1 < taken < len(others) and self._is_of_intervals(others[taken]):
                grid, taken = narrower, taken - 1  # the value goes with its interval
            others = others[taken:]
            grids.append(grid if not grids else replace(grid, titled=False))
        return grids or None

    def _is_of_intervals(self, at: int) -> bool:
        return any(is_interval(line[at]) for line in self.lines[1:])

    def blocks(self, width: int) -> list["Text"]:
        """Return every row as a name and lines of what is said about it."""
        from rich.cells import cell_len

        names = self.lines[0]
        beside = max(map(cell_len, names[1:]), default=0) + 4
        shown = [plain(line, "bold") for line in wrapped(self.title, width) if line]
        for row, line in enumerate(self.lines[1:]):
            if row or shown:
                shown.append(plain())
            shown += [plain(part, "bold") for part in wrapped(line[0], width)]
            for at in range(1, len(line)):
                if cell := line[at].strip():
                    style = _style(cell, self.states[at])
                    shown += _named(names[at], cell, style, beside, width)
        return shown


def _named(name: str, cell: str, style: str, beside: int, width: int) -> Iterator["Text"]:
    """Yield a name and what it stands for: side by side, or where that is narrow, below it."""
    from rich.cells import cell_len, set_cell_size

    indent = 2
    if beside <= width // 2 and _fits(cell, width - beside):
        head = set_cell_size(f"  {name}", beside)
        for line in wrapped(cell, width - beside):
            text = plain(head, "dim")
            text.append(line, style or "not dim")
            yield text
            head = " " * beside
        return
    for line in wrapped(name, width - indent):
        yield plain(" " * (indent if cell_len(line) <= width - indent else 0) + line, "dim")
    indent = 4 if _fits(cell, width - 4) else 0
    for line in wrapped(cell, width - indent):
        yield plain(" " * indent + line, style)


def _fits(cell: str, width: int) -> bool:
    """Return whether no word of a cell would have to be broken."""
    from rich.cells import cell_len

    return all(cell_len(word) <= width for word in cell.split())


def _aligned(cells: Sequence[str]) -> list[str]:
    """Return numbers with intervals of one width each, so that they stand below each other."""
    pairs = [value_and_interval(cell) for cell in cells]
    if not any(pairs):
        return list(cells)
    both = [pair for pair in pairs if pair]
    alone = [cell for cell, pair in zip(cells, pairs, strict=True) if not pair]
    room = max(len(one) for one in (*(value for value, _ in both), *filter(is_number, alone)))
    ends = max(len(interval) for _, interval in both)
    shown = []
    for cell, pair in zip(cells, pairs, strict=True):
        if pair:
            shown.append(f"{pair[0]:>{room}} {pair[1]:>{ends}}")
        elif is_number(cell) and not cell.endswith("]"):
            shown.append(f"{cell:>{room}}{'':{ends + 1}}")
        else:
            shown.append(cell)
    return shown


def _style(cell: str, state: bool) -> str:
    return STYLES.get(meaning(cell.partition(" (")[0]), "") if state else ""


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A table whose columns have their widths."""

    draft: Draft
    rows: Sequence[Sequence[Sequence[str]]]
    """The lines of every cell, of the header first."""
    widths: Sequence[int]
    width: int
    gap: int
    framed: bool = False
    titled: bool = True

    @property
    def height(self) -> int:
        """How many lines the header and the rows take."""
        return sum(max(map(len, row)) for row in self.rows)

    def parts(self, start: int = 0, stop: int | None = None) -> Parts:
        """Return the title and the table of rich, or some of its rows; the header is row 0."""
        title = self.draft.title if self.titled else ""
        titles = [plain(line, "bold") for line in wrapped(title, self.width) if line]
        return [*titles, self.table(start, stop)]

    def table(self, start: int = 0, stop: int | None = None) -> "RichTable":
        """Return the table of rich from one row to another."""
        from rich import box
        from rich.table import Table as RichTable

        light = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, self.gap - 1, 0, 0)}
        style: dict[str, Any] = {} if self.framed else {**light, "pad_edge": False}
        table = RichTable(**style, show_header=start == 0)
        draft = self.draft
        for name, width, number in zip(self.rows[0], self.widths, draft.numbers, strict=True):
            # Text everywhere: names from files are never markup.
            table.add_column(plain(_set(name, width, number)), width=width, no_wrap=True)
        chosen = slice(max(start, 1), stop)
        for line, cells in zip(draft.lines[chosen], self.rows[chosen], strict=True):
            styles = [_style(cell, on) for cell, on in zip(line, draft.states, strict=True)]
            words = zip(styles, draft.numbers, strict=True)
            quiet = any(style == "dim" and not number for style, number in words)
            placed = zip(cells, self.widths, draft.numbers, styles, strict=True)
            table.add_row(
                *(
                    _styled(_set(cell, width, number), style)
                    for cell, width, number, style in placed
                ),
                style="dim" if quiet else None,
            )
        return table


def _styled(text: str, style: str) -> "Text":
    """Return a cell whose words have a style, and not the blanks around them."""
    shown = plain(text)
    if style:
        shown.highlight_regex(r"\S[^\n]*", style)
    return shown


def _set(lines: Sequence[str], width: int, number: bool) -> str:
    """Return the lines of a cell in their column, numbers to the right."""
    from rich.cells import cell_len

    if not number:
        return "\n".join(lines)
    return "\n".join(" " * (width - cell_len(line)) + line for line in lines)
