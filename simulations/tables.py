"""Tables for docs/methodology/coverage.md, and detection of cells that break the rule."""

from collections.abc import Callable, Iterable
from typing import Any

MIN_COVERAGE = 0.93
MAX_TYPE_I = 0.055
MAX_FALSE_PASSES = 0.03
MAX_WIDTH_RATIO = 1.25
START, END = "<!-- coverage tables: made by `make coverage` -->", "<!-- end of the tables -->"

Cells = list[dict[str, Any]]


def failures(cells: Cells) -> list[str]:
    """Return a line for each cell that breaks the rule by more than two Monte-Carlo errors."""
    lines = []
    for cell in cells:
        if cell["rate"] is None or cell["n_draws"] * (1.0 - cell["refused"]) < 30:
            continue
        slack = 2.0 * cell["error"]
        where = f"{cell['grid']}: {cell['metric']} {cell['process']}"
        shown = f"{cell['rate']:.3f} ± {cell['error']:.3f}"
        if cell["grid"] == "paired null":
            if cell["rate"] > MAX_TYPE_I + slack:
                lines.append(f"{where}: type I error {shown}")
        elif cell["grid"] in ("gates", "gates of numbers"):
            if cell["rate"] > MAX_FALSE_PASSES + slack:
                lines.append(f"{where}: false passes {shown}")
        elif cell["rate"] < MIN_COVERAGE - slack:
            lines.append(f"{where}: coverage {shown}")
    return lines


def page(text: str, cells: Cells, draws: int) -> str:
    """Return the page with updated tables."""
    head, rest = text.split(START, 1)
    tail = rest.split(END, 1)[1]
    return f"{head}{START}\n\n{_tables(cells, draws)}\n\n{END}{tail}"


def _tables(cells: Cells, draws: int) -> str:
    by_grid: dict[str, Cells] = {}
    for cell in cells:
        by_grid.setdefault(cell["grid"], []).append(cell)
    parts = [
        _lead(draws),
        _coverage("rows", by_grid, ("n", "prevalence"), "metric"),
        _coverage("groups", by_grid, ("sizes", "groups"), "metric"),
        _coverage("means", by_grid, ("n",), "values"),
        _coverage("calibration", by_grid, ("scores", "n"), "metric"),
        _rates("paired null", by_grid, ("n", "prevalence"), "type I error"),
        _coverage("paired alternative", by_grid, ("n", "prevalence"), "metric"),
        _rates("gates", by_grid, ("n", "prevalence"), "false passes"),
        _rates("gates of numbers", by_grid, ("n", "margin"), "false passes of a column of numbers"),
        _widths(by_grid.get("rows", []) + by_grid.get("means", [])),
    ]
    return "\n\n".join(filter(None, parts))


def _lead(draws: int) -> str:
    error = (0.95 * 0.05 / draws) ** 0.5
    return (
        f"Up to {draws} data sets per cell; the Monte-Carlo standard error of a share of 0.95 is "
        f"{error:.3f} with all of them, and larger where intervals are refused. The least of six such "
        f"shares is expected at {0.95 - 1.27 * error:.3f} where all six are 0.95."
    )


def _key(cell: dict[str, Any], name: str) -> Any:
    return _spelled(cell["metric"]) if name == "metric" else cell["process"].get(name)


def _grouped(cells: Cells, names: tuple[str, ...]) -> dict[tuple[Any, ...], Cells]:
    found: dict[tuple[Any, ...], Cells] = {}
    for cell in cells:
        found.setdefault(tuple(_key(cell, name) for name in names), []).append(cell)
    return found


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _spelled(name: str) -> str:
    return name.split("_at_")[0].removeprefix("op_") if name.startswith("op_") else name


def _coverage(grid: str, by_grid: dict[str, Cells], across: tuple[str, ...], down: str) -> str:
    """Return the table of minimum coverage per metric, over all variables without a column."""

    def shown(cells: Cells) -> str:
        rated = [
            c for c in cells if c["rate"] is not None and (1 - c["refused"]) * c["n_draws"] >= 30
        ]
        refused = max(c["refused"] for c in cells)
        if not rated:
            return "refused"
        worst = min(rated, key=lambda c: c["rate"])
        note = f", {refused:.0%} refused" if refused >= 0.005 else ""
        return f"{worst['rate']:.3f}{note}"

    return _wide(f"Least coverage, {grid}", by_grid.get(grid, []), across, down, shown)


def _rates(grid: str, by_grid: dict[str, Cells], across: tuple[str, ...], what: str) -> str:
    def shown(cells: Cells) -> str:
        rated = [
            c for c in cells if c["rate"] is not None and (1 - c["refused"]) * c["n_draws"] >= 30
        ]
        if not rated:
            return "refused"
        return f"{max(c['rate'] for c in rated):.3f}"

    return _wide(f"Largest {what}", by_grid.get(grid, []), across, "metric", shown)


def _wide(
    title: str, cells: Cells, across: tuple[str, ...], down: str, shown: Callable[[Cells], str]
) -> str:
    if not cells:
        return ""
    columns = list(_grouped(cells, across))
    rows = []
    for (name,), of_row in _grouped(cells, (down,)).items():
        by_column = _grouped(of_row, across)
        rows.append(
            [_spelled(str(name)), *(shown(by_column[c]) if c in by_column else "" for c in columns)]
        )
    header = [
        down,
        *(", ".join(f"{n} {v}" for n, v in zip(across, c, strict=True)) for c in columns),
    ]
    return f"**{title}**\n\n{_table(header, rows)}"


def _widths(cells: Cells) -> str:
    """Return the table of mean widths relative to the first edition."""
    ratios = [c for c in cells if c["width_ratio"] is not None]
    if not ratios:
        return ""
    rows, wider = [], []
    for (name,), of_row in _grouped(ratios, ("metric",)).items():
        values = sorted(c["width_ratio"] for c in of_row)
        rows.append([_spelled(str(name)), f"{values[len(values) // 2]:.2f}", f"{values[-1]:.2f}"])
        wider += [c for c in of_row if c["width_ratio"] > MAX_WIDTH_RATIO]
    title = "Mean width over that of the first edition, n ≥ 300 with at least 30 of each class"
    text = f"**{title}**\n\n{_table(['metric', 'median', 'largest'], rows)}"
    if wider:
        text += f"\n\n**Where it is more than {MAX_WIDTH_RATIO}**\n\n" + _table(
            ["metric", "data", "width", "coverage", "first edition's coverage"],
            (
                [
                    _spelled(c["metric"]),
                    _process(c["process"]),
                    f"{c['width_ratio']:.2f}",
                    f"{c['rate']:.3f}",
                    f"{c['first_rate']:.3f}",
                ]
                for c in wider
            ),
        )
    return text


def _process(process: dict[str, Any]) -> str:
    """Describe a process by its non-default settings."""
    usual = {"ties": False, "spread": 1.0}
    parts = [f"{name} {value}" for name, value in process.items() if usual.get(name) != value]
    return ", ".join(parts).replace("ties True", "tied scores").replace("values ", "")
