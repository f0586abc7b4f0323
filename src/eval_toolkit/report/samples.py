"""Samples of a task to read: wrong ones that the model was sure of, errors, and some right ones."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from eval_toolkit._validate import FloatArray, IntArray
from eval_toolkit.analysis import higher_is_better
from eval_toolkit.analysis.units import are_right, right_or_wrong
from eval_toolkit.report.cells import Block, Cell, main_block
from eval_toolkit.report.headline import main_cell
from eval_toolkit.report.sample_cards import cards_at
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records

__all__ = ["build"]


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None for a run that asked no model."""
    block = main_block(run)
    if run.kind != "task" or block is None:
        return None
    if (block.slice, block.scorer) not in run.subjects:
        return None
    records = run.records(block.slice, block.scorer)
    column, up = _column(block, records)
    lists = _lists(records, column, up, wanted.n_samples)
    chosen = [at for one in lists for at in one["places"]]
    cards = dict(zip(chosen, cards_at(run, records, chosen), strict=True))
    for one in lists:
        one["cards"] = [cards[at] for at in one.pop("places")]
        for card in one["cards"]:
            card["verdict"] = one["verdict"]
            card["main"] = next((g for g in card["grades"] if column in g["names"]), None)
    scored = any(card["choices"] for card in cards.values())
    return Section(
        id="samples",
        menu="Samples",
        title="What was asked, and what was answered",
        template="samples.html",
        lead=f"{len(records):,} answers, judged here by {column}. Those that say most come first.",
        data={"lists": lists},
        notes=_notes(scored, any(card["referenced"] for card in cards.values())),
    )


def _notes(scored: bool, referenced: bool) -> list[str]:
    """Return what bars are, and where the right answers are where the run has none."""
    bars = "bars are each choice's share of the probability of all choices"
    if scored:
        guessed = "the run holds no references, so the right choice is marked where grades tell it"
        return [bars if referenced else f"{bars}; {guessed}"]
    absent = "the run holds no references: what the right answer was stands in the task's data"
    return [] if referenced else [absent]


def _column(block: Block, records: Records) -> tuple[str, bool | None]:
    """Return the column that answers are judged by, and whether more is better; None: not known."""
    cells: Mapping[str, Cell] = block.cells
    main = main_cell(block)
    names = [] if main is None else [main.name]
    names += list(cells)
    # pass@k and the like are named after the column they are of.
    numbers = records.numbers
    found = [name for name in names if name in numbers]
    found += [name for name in numbers if any(cell.startswith(name) for cell in names)]
    column = next(iter([*found, *numbers]))
    cell = cells.get(column)
    return column, higher_is_better(column) if cell is None else cell.higher_is_better


def _lists(
    records: Records, column: str, direction: bool | None, limit: int
) -> list[dict[str, Any]]:
    """Return places of wrong answers, errors and right ones; few of the last are enough.

    Where nothing says which direction is better, the lowest come in the place of the wrong ones.
    """
    status, values = records.status[column], records.columns[column]
    known = status == "ok"
    up = direction is not False
    is_binary = right_or_wrong(values[known]) and direction is not None
    sure = _sureness(records)
    good = known & (are_right(values, up) if is_binary else values == _best(values[known], up))
    bad = known & ~good
    parts = {
        "wrong": _ranked(records, np.flatnonzero(bad), values if up else -values, -sure),
        "errors": _ranked(records, np.flatnonzero(status == "error")),
        "skipped": _ranked(records, np.flatnonzero(status == "skipped")),
        "right": _ranked(records, np.flatnonzero(good), sure),
    }
    shares = _shares({name: len(found) for name, found in parts.items()}, limit)
    worst = "Lowest" if up else "Highest"
    best = "Highest" if direction is None else "Best"
    titles = {
        "wrong": ("Wrong" if is_binary else f"{worst} grades", "wrong"),
        "errors": ("No grade because something broke", "error"),
        "skipped": ("Not graded", "skipped"),
        "right": (
            "Right" if is_binary else f"{best} grades" if bad.any() else "Grades, all alike",
            "right",
        ),
    }
    order = {"wrong": "the surest first", "right": "the closest first"}
    lists = []
    for name, found in parts.items():
        if not len(found):
            continue
        title, verdict = titles[name]
        how = order.get(name, "") if "margin" in records.columns else ""
        lists.append(
            {
                "title": title,
                "verdict": verdict if is_binary or name not in order else "",
                "said": _said(len(found), shares[name], how),
                "places": found[: shares[name]],
            }
        )
    return lists


def _best(values: FloatArray, up: bool) -> float:
    """Return the best grade that was seen; whether that is a good one nobody says."""
    return float(values.max() if up else values.min())


def _sureness(records: Records) -> FloatArray:
    """Return by how much the choice led; 0 where nobody says."""
    if "margin" not in records.columns:
        return np.zeros(len(records))
    known = records.status["margin"] == "ok"
    return np.where(known, np.nan_to_num(records.columns["margin"]), 0.0)


def _ranked(records: Records, places: IntArray, *keys: FloatArray) -> list[int]:
    """Return places by keys, then by unit: the same whatever the order they were written in.

    One attempt at each unit comes before a second at any: they are often the same.
    """
    seen: set[str] = set()
    first: list[int] = []
    again: list[int] = []
    # Records are sorted by unit and attempt, and a sort is stable.
    for at in sorted(places.tolist(), key=lambda at: tuple(key[at] for key in keys)):
        unit = records.unit_id[at]
        (again if unit in seen else first).append(at)
        seen.add(unit)
    return [*first, *again]


def _shares(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """Return how many of each are shown: errors and right ones have a few places of their own."""
    few = max(1, limit // 5)
    shown = {name: min(n, few) for name, n in counts.items()}
    shown["wrong"] = min(counts["wrong"], max(limit - sum(shown.values()) + shown["wrong"], 1))
    for name in ("errors", "right", "skipped"):
        left = limit - sum(shown.values())
        shown[name] += max(0, min(left, counts[name] - shown[name]))
    return shown


def _said(n: int, shown: int, how: str) -> str:
    order = f", {how}" if how else ""
    count = f"{shown:,} of {n:,} are shown" if n > shown else f"all {n:,}"
    return f"{count}{order}"
