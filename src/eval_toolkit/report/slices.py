"""Slices section: the main metric by slice, with intervals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.display import CellLike, Status, Table
from eval_toolkit._internal.words import number
from eval_toolkit.report.bars import bars_of
from eval_toolkit.report.cells import (
    Block,
    Cell,
    blocks_of,
    leading,
    main_block,
    main_blocks,
    main_cell,
)
from eval_toolkit.report.metric_groups import displayed
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.runs import Run
from eval_toolkit.scorecards.parts import WHOLE

MAX_TABLE = 200
"""Maximum number of slices in the table; a note gives the total number."""
MAX_SCORERS = 6


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Results of one scorer on one slice: the main metric's cell and all other cells."""

    name: str
    n: int | None
    cell: Cell
    cells: Mapping[str, Cell]
    error: str


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None for a run with a single slice without parts."""
    blocks = parts_of(run)
    if len({block.name for block in blocks}) < 2:
        return None
    leader = main_block(run)
    main = _main_name(main_blocks(run))
    whole = _whole(run)
    scorers = list(dict.fromkeys(block.scorer for block in blocks))
    several = len(scorers) > 1
    figures: list[Figure] = []
    tables: list[Table] = []
    notes: list[str] = []
    for scorer in scorers[:MAX_SCORERS]:
        rows = _rows([block for block in blocks if block.scorer == scorer], main)
        if not any(row.cells for row in rows):
            continue  # the scorer failed or was skipped everywhere, which is reported below
        shown, how = _most_useful(rows, whole, wanted.n_samples)
        if len(shown) < len(rows):
            notes.append(f"{scorer}: {len(rows)} slices, of which {how} are drawn")
        if wanted.charts:
            figures.append(_forest(shown, whole, scorer, several=several, at=len(figures)))
        tables.append(_table(rows[:MAX_TABLE], scorer if several else ""))
        if len(rows) > MAX_TABLE:
            notes.append(f"{scorer}: the table has the first {MAX_TABLE} of {len(rows)} slices")
    if len(scorers) > MAX_SCORERS:
        notes.append(f"not shown, to keep the page short: {', '.join(scorers[MAX_SCORERS:])}")
    what = "fold" if run.cells.folds else "slice"
    return Section(
        id="slices",
        menu="Slices",
        title=f"{displayed(main)} by {what}" if main else f"By {what}",
        template="slices.html",
        lead=_lead(
            [one for one in blocks if leader and one.scorer == leader.scorer], main, whole, what
        ),
        data={"figures": figures, "tables": tables, "absent": list(_absent(blocks, main))},
        notes=notes,
    )


def _whole(run: Run) -> str:
    """Return the name of the overall slice, or of the mean over folds; "" if there is neither."""
    names = run.cells.slices
    if run.cells.folds:
        return next((block.name for block in main_blocks(run)), "")
    if WHOLE in names:
        return WHOLE
    return names[0] if len(names) == 1 else ""


def parts_of(run: Run) -> list[Block]:
    """Return the cells of every slice and scorer, each slice followed by its named parts.

    Subjects of a task, categories of rollouts and folds are also parts; parts of folds are omitted.
    """
    folds = run.cells.folds
    found = blocks_of(run, parts=True)
    if folds:
        found = [block for block in found if block.part == WHOLE or block.part in folds]
    return sorted(found, key=lambda block: block.part != WHOLE)


def _main_name(blocks: Sequence[Block]) -> str:
    """Return the name of the main metric of a slice's scorers."""
    cells = [cell for _, cell in leading(blocks)] or list(filter(None, map(main_cell, blocks)))
    return cells[0].name if cells else ""


def _rows(blocks: Sequence[Block], main: str) -> list[_Row]:
    """Return one row per slice, with the reasons for missing values."""
    if not any(main in block.cells for block in blocks):  # this scorer has other metrics
        main = next((_main_name([block]) for block in blocks if block.cells), main)
    return [
        _Row(
            name=block.name,
            n=block.n,
            cell=block.cells.get(main) or _without(block, main),
            cells=block.cells,
            error=block.error,
        )
        for block in blocks
    ]


def _without(block: Block, main: str) -> Cell:
    """Return an empty cell with the reason why a scorer has no value on a slice."""
    why = block.error or block.skipped or f"there is no {main} here"
    status = "error" if block.error else "skipped"
    return Cell(name=main, value=None, status=status, reason=why, details={})


def _most_useful(rows: Sequence[_Row], whole: str, limit: int) -> tuple[list[_Row], str]:
    """Return the overall row, errors and the worst slices in stored order, and a description.

    If the metric's direction is unknown, the first slices are returned instead.
    """
    if len(rows) <= limit:
        return list(rows), ""
    up = next((row.cell.higher_is_better for row in rows if row.cell.has_value), None)

    def rank(row: _Row) -> tuple[int, float]:
        if row.name == whole or row.cell.status == "error":
            return int(row.name != whole), 0.0
        if row.cell.value is None:
            return 3, 0.0
        return 2, 0.0 if up is None else row.cell.value if up else -row.cell.value

    chosen = {id(row) for row in sorted(rows, key=rank)[: max(limit, 2)]}
    shown = [row for row in rows if id(row) in chosen]
    if up is None:
        return shown, f"the first {len(shown)}"
    return shown, f"the {len(shown)} with the worst {rows[0].cell.name}"


def _forest(rows: Sequence[_Row], whole: str, scorer: str, *, several: bool, at: int) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_forest

    metric = rows[0].cell.name
    reference = next((row.cell for row in rows if row.name == whole and row.cell.has_value), None)
    values = {row.name: _drawable(row) for row in rows}
    chart = plot_forest(
        values,
        value_label=metric or "value",
        reference=None if reference is None else reference.value,
    )
    confidence = next((row.cell.confidence for row in rows if row.cell.confidence), None)
    level = "" if confidence is None else f"{100 * confidence:g} % intervals."
    line = "" if reference is None else f" The dashed line is {whole}."
    return drawn(
        chart,
        anchor=f"slices-forest-{at + 1}",
        title=f"{metric} of {scorer}" if several else metric,
        caption=f"{level}{line}".strip(),
        bars=bars_of(values, reference=None if reference is None else reference.value),
    )


def _drawable(row: _Row) -> dict[str, Any]:
    cell = row.cell
    drawable: dict[str, Any] = {
        "value": cell.value,
        "status": cell.status if cell.status in ("ok", "skipped", "error") else "skipped",
        "reason": cell.reason if cell.value is None else "",
        "n_units": row.n if cell.n_units is None else cell.n_units,
    }
    if cell.low is not None and cell.high is not None:
        drawable |= {"ci_low": cell.low, "ci_high": cell.high}
    if cell.status == "ok" and cell.value is None:
        drawable["status"] = "skipped"
    return drawable


def _table(rows: Sequence[_Row], title: str) -> Table:
    """Return a table of every metric of every slice; a cell without a value shows its status."""
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    body = [[row.name, row.n, *(_shown(row, name) for name in names)] for row in rows]
    return Table(["slice", "n", *names], body, title)


def _shown(row: _Row, name: str) -> CellLike:
    if name in row.cells:
        return row.cells[name].shown
    return Status("error") if row.error else None


def _absent(blocks: Sequence[Block], main: str) -> Iterator[dict[str, str]]:
    """Yield the main cells without a value, once for each reason."""
    several = len({block.scorer for block in blocks}) > 1
    found: dict[tuple[str, str], list[str]] = {}
    for block in blocks:
        known = main in block.cells or block.error or block.skipped
        cell = block.cells.get(main) or _without(block, main)
        if known and cell.status in ("skipped", "error"):
            where = f"{block.scorer} on {block.name}" if several else block.name
            found.setdefault((cell.status, cell.reason), []).append(where)
    for (status, reason), names in sorted(found.items()):
        shown = ", ".join(dict.fromkeys(names[:8]))
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        yield {"status": status, "reason": reason, "slices": shown + more}


def _lead(blocks: Sequence[Block], main: str, whole: str, what: str) -> str:
    """Return a sentence on the slices with the lowest and the highest value of one scorer."""
    parts = [block for block in blocks if block.name != whole]
    n = len(parts)
    told = f"{f'{whole} and ' if whole else ''}{n} {what}{'s' if n != 1 else ''}"
    known = [
        (cell.value, block.name)
        for block in parts
        if (cell := block.cells.get(main)) is not None and cell.has_value
    ]
    if len(known) < 2:
        return f"{told}."
    low, high = min(known), max(known)
    if low[0] == high[0]:
        return f"{told}: {blocks[0].scorer} has {number(low[0])} on every {what}."
    return (
        f"{told}: {blocks[0].scorer} ranges from {number(low[0])} on {low[1]} to {number(high[0])} "
        f"on {high[1]}. Each {what} has fewer rows: consider the intervals before ranking them."
    )
