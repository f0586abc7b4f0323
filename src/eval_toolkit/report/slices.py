"""How the main metric differs between slices: a forest with intervals, every metric behind it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit.report.cells import Block, Cell, blocks_of, main_block
from eval_toolkit.report.folds import fold_blocks
from eval_toolkit.report.headline import main_cell
from eval_toolkit.report.pages import Table
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.report.words import number
from eval_toolkit.runs import Run

__all__ = ["build", "parts_of"]

MAX_TABLE = 200
"""Slices in the table; more are counted."""
MAX_SCORERS = 6


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A slice of one scorer: its cell of the main metric, and all its cells."""

    name: str
    n: int | None
    cell: Cell
    cells: Mapping[str, Cell]


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None where a run has one slice without parts."""
    blocks = parts_of(run)
    if len({block.slice for block in blocks}) < 2:
        return None
    whole = main_block(run) or blocks[0]
    scorers = list(dict.fromkeys(block.scorer for block in blocks))
    figures: list[Figure] = []
    tables: list[Table] = []
    notes: list[str] = []
    for scorer in scorers[:MAX_SCORERS]:
        own = [block for block in blocks if block.scorer == scorer]
        rows = _rows(own, _main_name(whole))
        shown = _most_useful(rows, wanted.n_samples)
        name = rows[0].cell.name
        if len(shown) < len(rows):
            notes.append(
                f"{scorer}: {len(rows)} slices, the {len(shown)} with the least favourable "
                f"{name} are drawn"
            )
        if wanted.charts:
            figures.append(_forest(shown, scorer, several=len(scorers) > 1, at=len(figures)))
        tables.append(_table(rows[:MAX_TABLE], scorer if len(scorers) > 1 else ""))
        if len(rows) > MAX_TABLE:
            notes.append(f"{scorer}: the table holds the first {MAX_TABLE} of {len(rows)} slices")
    if len(scorers) > MAX_SCORERS:
        notes.append(f"not shown, to keep the page short: {', '.join(scorers[MAX_SCORERS:])}")
    main = _main_name(whole)
    what = "fold" if run.results.get("by_fold") else "slice"
    return Section(
        id="slices",
        menu="Slices",
        title=f"{main} by {what}" if main else f"By {what}",
        template="slices.html",
        lead=_lead(blocks, main, what),
        data={"figures": figures, "tables": tables, "absent": list(_absent(blocks, main))},
        notes=notes,
    )


def parts_of(run: Run) -> list[Block]:
    """Return every slice and scorer, and the named parts of each slice below it.

    Subjects of a task and categories of rollouts are parts, too; of a run over folds every fold is.
    """
    if folds := fold_blocks(run):
        return folds
    by_slice = run.results.get("by_slice") or {}
    blocks = [_with_failure(block, by_slice[block.slice]) for block in blocks_of(run)]
    for slice_name, entry in by_slice.items():
        strata = entry.get("strata") if isinstance(entry, Mapping) else None
        if not isinstance(strata, Mapping):
            continue
        alone = len(by_slice) == 1
        inside = _Stored({str(name): part for name, part in strata.items()})
        for block in blocks_of(inside):  # type: ignore[arg-type]
            name = block.slice if alone else f"{slice_name} · {block.slice}"
            blocks.append(replace(_with_failure(block, strata[block.slice]), slice=name))
    return blocks


@dataclass(frozen=True)
class _Stored:
    """Parts in the place of slices, so that their cells are read in the same way."""

    by_slice: Mapping[str, Any]

    @property
    def results(self) -> dict[str, Any]:
        return {"by_slice": self.by_slice}


def _with_failure(block: Block, entry: Mapping[str, Any]) -> Block:
    """Return a block with a cell in error where the scorer itself raised."""
    stored = entry["by_scorer"][block.scorer]
    if block.cells or not isinstance(stored.get("error"), str):
        return block
    cell = Cell(name="", value=None, status="error", reason=stored["error"], details={})
    return replace(block, cells={"": cell})


def _main_name(whole: Block) -> str:
    cell = main_cell(whole)
    return "" if cell is None else cell.name


def _rows(blocks: Sequence[Block], main: str) -> list[_Row]:
    """Return one row per slice, with why there is no value where there is none."""
    own = [block for block in blocks if main in block.cells]
    if not own:  # this scorer has other metrics
        first = next((block for block in blocks if block.cells and "" not in block.cells), None)
        main = "" if first is None else _main_name(first)
    rows = []
    for block in blocks:
        cell = block.cells.get(main) or block.cells.get("")
        if cell is None:
            why = block.skipped or f"there is no {main} here"
            cell = Cell(name=main, value=None, status="skipped", reason=why, details={})
        rows.append(
            _Row(name=block.slice, n=block.n, cell=replace(cell, name=main), cells=block.cells)
        )
    return rows


def _most_useful(rows: Sequence[_Row], limit: int) -> list[_Row]:
    """Return the whole, errors, and the slices that do worst, in the order of the results."""
    if len(rows) <= limit:
        return list(rows)

    def rank(row: _Row) -> tuple[int, float]:
        if row.cell.status == "error":
            return 0, 0.0
        if row.cell.value is None:
            return 2, 0.0
        return 1, row.cell.value if row.cell.higher_is_better is not False else -row.cell.value

    chosen = {id(row) for row in (rows[0], *sorted(rows[1:], key=rank)[: max(limit - 1, 1)])}
    return [row for row in rows if id(row) in chosen]


def _forest(rows: Sequence[_Row], scorer: str, *, several: bool, at: int) -> Figure:
    from eval_toolkit.plots import plot_forest
    from eval_toolkit.report.figures import drawn

    metric = rows[0].cell.name
    whole = rows[0].cell
    chart = plot_forest(
        {row.name: _drawable(row) for row in rows},
        value_label=metric or "value",
        reference=whole.value if whole.status == "ok" else None,
    )
    confidence = next((row.cell.confidence for row in rows if row.cell.confidence), None)
    level = "" if confidence is None else f"{100 * confidence:g} % intervals. "
    return drawn(
        chart,
        anchor=f"slices-forest-{at + 1}",
        title=f"{metric} of {scorer}" if several else metric,
        caption=f"{level}The dashed line is {rows[0].name}.",
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
    """Every metric of every slice; a cell without a value says its state."""
    names = list(dict.fromkeys(name for row in rows for name in row.cells if name))
    body = [
        [row.name, "" if row.n is None else f"{row.n:,}", *(_shown(row, name) for name in names)]
        for row in rows
    ]
    return Table(["slice", "n", *names], body, title)


def _shown(row: _Row, name: str) -> str:
    cell = row.cells.get(name)
    if cell is None:
        return "error" if "" in row.cells else ""
    if cell.status != "ok" or cell.value is None:
        return cell.status
    if cell.low is None or cell.high is None:
        return number(cell.value)
    return f"{number(cell.value)} [{number(cell.low)}, {number(cell.high)}]"


def _absent(blocks: Sequence[Block], main: str) -> Iterator[dict[str, str]]:
    """Yield the main cells without a value, and why, once for each reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for block in blocks:
        cell = block.cells.get(main) or block.cells.get("")
        if cell is not None and cell.status in ("skipped", "error"):
            found.setdefault((cell.status, cell.reason), []).append(block.slice)
        elif cell is None and block.skipped:
            found.setdefault(("skipped", block.skipped), []).append(block.slice)
    for (status, reason), names in sorted(found.items()):
        shown = ", ".join(dict.fromkeys(names[:8]))
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        yield {"status": status, "reason": reason, "slices": shown + more}


def _lead(blocks: Sequence[Block], main: str, what: str) -> str:
    """Name the slices at both ends; intervals say how far that can be trusted."""
    parts = [block for block in blocks if block.slice != blocks[0].slice]
    n = len({block.slice for block in parts})
    known = [
        (cell.value, block.slice)
        for block in parts
        if block.scorer == blocks[0].scorer
        and (cell := block.cells.get(main)) is not None
        and cell.status == "ok"
        and cell.value is not None
    ]
    if len(known) < 2:
        return f"{blocks[0].slice} and {n} {what}{'s' if n != 1 else ''}."
    low, high = min(known), max(known)
    return (
        f"{blocks[0].slice} and {n} {what}s: {blocks[0].scorer} goes from {number(low[0])} on "
        f"{low[1]} to {number(high[0])} on {high[1]}. A {what} is small: look at the intervals "
        "before calling one better."
    )
