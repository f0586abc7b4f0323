"""Layouts of tables in a terminal: column widths, alignment and line breaks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal.display.cells import Cell, Count, Estimate, Interval, Status
from eval_toolkit._internal.display.tables import Table
from eval_toolkit._internal.display.wrapping import column_widths, wrapped
from eval_toolkit._internal.words import one_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

Parts = list[Any]
"""Rich renderables (text and tables) printed below each other."""
# Blue and orange: distinguishable with red-green colour blindness, with equal contrast on black and
# white. Font weight and words carry the same information without colour.
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
    """Return a rich text without markup or highlighting."""
    from rich.text import Text

    return Text(text, style=style)


@dataclass(frozen=True)
class _Column:
    """A column of single-line cells."""

    name: str
    kind: str
    cells: Sequence[Cell]
    texts: Sequence[str]
    """Cells, with numbers aligned."""

    @property
    def numeric(self) -> bool:
        return self.kind == "number"

    @property
    def lines(self) -> list[str]:
        """Return the column name followed by the cell strings."""
        return [self.name, *self.texts]

    @property
    def fixed(self) -> list[bool]:
        """Return, for each line, whether it must not be broken."""
        return [False, *(cell.numeric for cell in self.cells)]

    def is_descriptive(self, at: int) -> bool:
        """Return whether a cell is descriptive: a name or a count, not a status or a result."""
        cell = self.cells[at]
        if self.numeric:
            return isinstance(cell, Count)
        return self.kind == "text" and not isinstance(cell, Status)


@dataclass(frozen=True)
class Draft:
    """A table with one-line cells, before its layout is chosen."""

    title: str
    columns: Sequence[_Column]

    @classmethod
    def of(cls, table: Table) -> "Draft":
        """Create a draft from a table, without its notes, which the caller prints."""
        columns = []
        for at, column in enumerate(table.columns):
            cells = [row[at] for row in table.rows]
            texts = _aligned(cells) if column.numeric else [_flat(cell.text) for cell in cells]
            columns.append(_Column(_flat(column.name), column.kind, cells, texts))
        return cls(one_line(table.title), columns)

    def only(self, places: Sequence[int]) -> "Draft":
        """Return the draft with the given columns only."""
        return replace(self, columns=[self.columns[at] for at in places])

    def without(self, places: Sequence[int]) -> "Draft":
        """Return the draft without the given columns."""
        return self.only([at for at in range(len(self.columns)) if at not in places])

    def sections(self) -> list[range]:
        """Return ranges of consecutive rows with the same name."""
        names = self.columns[0].texts
        return [
            range(rows[0], rows[-1] + 1)
            for _, found in groupby(range(len(names)), key=names.__getitem__)
            for rows in [list(found)]
        ]

    def constants(self, sections: Sequence[range], n_names: int) -> list[int]:
        """Return the text and count columns that are constant within each section."""
        return [
            at
            for at, column in enumerate(self.columns)
            if at >= n_names
            and column.name
            and all(len(set(column.texts[rows[0] : rows[-1] + 1])) == 1 for rows in sections)
            and all(column.is_descriptive(rows[0]) for rows in sections)
        ]

    def fitted(self, width: int, *, framed: bool = False) -> "Grid | None":
        """Return the table fitted to a width, or None if it does not fit."""
        grids = [self._with_gap(width, gap, framed) for gap in ((3,) if framed else (2, 1))]
        return min((grid for grid in grids if grid), key=lambda grid: grid.height, default=None)

    def _with_gap(self, width: int, gap: int, framed: bool) -> "Grid | None":
        n = len(self.columns)
        room = width - (gap * n + 1 if framed else gap * (n - 1))
        columns = [column.lines for column in self.columns]
        fixed = [column.fixed for column in self.columns]
        widths = column_widths(columns, room, fixed)
        if widths is None:
            return None
        placed = zip(columns, fixed, widths, strict=True)
        cells = [
            [wrapped(line, size, whole=whole) for line, whole in zip(lines, wholes, strict=True)]
            for lines, wholes, size in placed
        ]
        return Grid(self, list(zip(*cells, strict=True)), widths, width, gap, framed)

    def spread(self, width: int, *, framed: bool = False) -> "list[Grid] | None":
        """Return tables that share the columns and repeat the row names; None if too wide."""
        numbers = (at for at, column in enumerate(self.columns) if column.numeric)
        n_keys = next(numbers, 0) or 1
        keys, others = list(range(n_keys)), list(range(n_keys, len(self.columns)))
        if any(self.columns[at].kind == "text" for at in others):
            return None  # long texts are easier to read in blocks
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
                grid, taken = narrower, taken - 1  # keep the value next to its interval
            others = others[taken:]
            grids.append(grid if not grids else replace(grid, titled=False))
        return grids or None

    def _is_of_intervals(self, at: int) -> bool:
        return any(isinstance(cell, Interval) for cell in self.columns[at].cells)

    def blocks(self, width: int) -> list["Text"]:
        """Return each row as a block: its name, then a list of lines."""
        from rich.cells import cell_len

        name, *others = self.columns
        beside = max((cell_len(column.name) for column in others), default=0) + 4
        shown = [plain(line, "bold") for line in wrapped(self.title, width) if line]
        for row, title in enumerate(name.texts):
            if row or shown:
                shown.append(plain())
            shown += [plain(part, "bold") for part in wrapped(title, width)]
            for column in others:
                if text := column.texts[row].strip():
                    shown += _named(column.name, text, column.cells[row], beside, width)
        return shown


def _named(name: str, text: str, cell: Cell, beside: int, width: int) -> Iterator["Text"]:
    """Yield a name and its value side by side, or stacked if space is limited."""
    from rich.cells import cell_len, set_cell_size

    indent, style = 2, _style(cell)
    if beside <= width // 2 and _fits(text, width - beside):
        head = set_cell_size(f"  {name}", beside)
        for line in wrapped(text, width - beside, whole=cell.numeric):
            shown = plain(head, "dim")
            shown.append(line, style or "not dim")
            yield shown
            head = " " * beside
        return
    for line in wrapped(name, width - indent):
        yield plain(" " * (indent if cell_len(line) <= width - indent else 0) + line, "dim")
    indent = 4 if _fits(text, width - 4) else 0
    for line in wrapped(text, width - indent, whole=cell.numeric):
        yield plain(" " * indent + line, style)


def _fits(text: str, width: int) -> bool:
    """Return whether all words of a cell fit without being split."""
    from rich.cells import cell_len

    return all(cell_len(word) <= width for word in text.split())


def _flat(text: str) -> str:
    return one_line(text).strip()


def _aligned(cells: Sequence[Cell]) -> list[str]:
    """Return numbers and intervals padded to equal widths so that they align."""
    texts = [_flat(cell.text) for cell in cells]
    pairs = [cell.texts if isinstance(cell, Estimate) else ("", "") for cell in cells]
    ends = max((len(interval) for _, interval in pairs), default=0)
    if not ends:
        return texts
    alone = [cell.numeric and not isinstance(cell, Estimate | Interval) for cell in cells]
    values = [text for text, is_alone in zip(texts, alone, strict=True) if is_alone]
    room = max(len(text) for text in (*values, *(value for value, _ in pairs)))
    shown = []
    for text, (value, interval), is_alone in zip(texts, pairs, alone, strict=True):
        if value or is_alone:
            shown.append(f"{value or text:>{room}} {interval:>{ends}}")
        else:
            shown.append(text)
    return shown


def _style(cell: Cell) -> str:
    return STYLES.get(cell.meaning, "") if isinstance(cell, Status) else ""


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A table with fixed column widths."""

    draft: Draft
    rows: Sequence[Sequence[Sequence[str]]]
    """Lines of every cell, header first."""
    widths: Sequence[int]
    width: int
    gap: int
    framed: bool = False
    titled: bool = True

    @property
    def height(self) -> int:
        """Number of lines in the header and the rows."""
        return sum(max(map(len, row)) for row in self.rows)

    def parts(self, start: int = 0, stop: int | None = None) -> Parts:
        """Return the title and the rich table, optionally for some rows; row 0 is the header."""
        title = self.draft.title if self.titled else ""
        titles = [plain(line, "bold") for line in wrapped(title, self.width) if line]
        return [*titles, self.table(start, stop)]

    def table(self, start: int = 0, stop: int | None = None) -> "RichTable":
        """Return the rich table for a range of rows."""
        from rich import box
        from rich.table import Table as RichTable

        light = {"box": box.SIMPLE_HEAD, "show_edge": False, "padding": (0, self.gap - 1, 0, 0)}
        style: dict[str, Any] = {} if self.framed else {**light, "pad_edge": False}
        table = RichTable(**style, show_header=start == 0)
        columns = self.draft.columns
        for name, width, column in zip(self.rows[0], self.widths, columns, strict=True):
            # Use Text everywhere: names from files must not be parsed as markup.
            table.add_column(plain(_set(name, width, column.numeric)), width=width, no_wrap=True)
        for at in range(max(start, 1), len(self.rows) if stop is None else stop):
            styles = [_style(column.cells[at - 1]) for column in columns]
            words = zip(styles, columns, strict=True)
            quiet = any(style == "dim" and not column.numeric for style, column in words)
            placed = zip(self.rows[at], self.widths, columns, styles, strict=True)
            table.add_row(
                *(
                    _styled(_set(cell, width, column.numeric), style)
                    for cell, width, column, style in placed
                ),
                style="dim" if quiet else None,
            )
        return table


def _styled(text: str, style: str) -> "Text":
    """Return a padded cell; only its words are styled."""
    shown = plain(text)
    if style:
        shown.highlight_regex(r"\S[^\n]*", style)
    return shown


def _set(lines: Sequence[str], width: int, number: bool) -> str:
    """Pad the lines of a cell to the column width; numbers are right-aligned."""
    from rich.cells import cell_len

    if not number:
        return "\n".join(lines)
    return "\n".join(" " * (width - cell_len(line)) + line for line in lines)
