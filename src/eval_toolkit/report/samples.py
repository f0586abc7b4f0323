"""Samples section: examples of wrong, failed and right units."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eval_toolkit._internal.display import Rows, Table
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit._internal.words import number
from eval_toolkit.analysis import higher_is_better
from eval_toolkit.analysis.units import are_right, right_or_wrong
from eval_toolkit.report.cells import Block, Cell, main_block
from eval_toolkit.report.headline import main_cell
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.runs import Run
from eval_toolkit.runs.blocks import Choices, Outcomes, brief, flattened
from eval_toolkit.runs.kind_display import Words, kind_named, show_unit
from eval_toolkit.runs.selected_units import units_at
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.records import is_text

MAX_PARTS = 20
_BARS = "bars show each choice's share of the total probability of all choices"
_GUESSED = "the run has no references; the correct choice is marked if the grades determine it"
_ABSENT = "the run has no references; look up the correct answers in the data"


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None for kinds of runs that display their units elsewhere."""
    kind = kind_named(run.kind)
    words = kind.words
    block = main_block(run)
    if not words.menu or not run.subjects:
        return None
    subject = run.subjects[0] if block is None else block.subject
    if subject not in run.subjects:
        return None
    records = run.records(*subject)
    found = kind.outcomes(records, run.manifest.get("config") or {})
    by_grade = found is None
    column = ""
    if found is None and not records.numbers:
        return None
    if found is None:
        column, up = _column(block, records)
        found = _by_column(records, column, up, words)
    lists = _lists(records, found, words, wanted.n_samples)
    _add_cards(run, subject, records, lists, column)
    return Section(
        id=words.menu.lower(),
        menu=words.menu,
        title=words.title,
        template="samples.html",
        lead=found.lead,
        data={
            "lists": lists,
            "by_part": _by_part(records, found, words),
            "unanswered": words.unanswered,
        },
        notes=[*found.notes, *(_notes(lists) if by_grade else ())],
    )


def _notes(lists: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return notes on the bars of choices and on missing reference answers."""
    cards = [card for one in lists for card in one["cards"]]
    shown = [block for card in cards for block in flattened(card["blocks"])]
    choices = [block for block in shown if isinstance(block, Choices)]
    referenced = any(card["referenced"] for card in cards)
    if choices:
        return [_BARS if referenced else f"{_BARS}; {_GUESSED}"]
    return [] if referenced else [_ABSENT]


# --- selection ------------------------------------------------------------------------------------


def _column(block: Block | None, records: Records) -> tuple[str, bool | None]:
    """Return the column that determines which answers are right, and its direction."""
    cells: Mapping[str, Cell] = {} if block is None else block.cells
    main = None if block is None else main_cell(block)
    names = [] if main is None else [main.name]
    names += list(cells)
    # Metrics such as pass@k are named after their column.
    numbers = records.numbers
    found = [name for name in names if name in numbers]
    found += [name for name in numbers if any(cell.startswith(name) for cell in names)]
    column = next(iter([*found, *numbers]))
    cell = cells.get(column)
    return column, higher_is_better(column) if cell is None else cell.higher_is_better


def _by_column(records: Records, column: str, direction: bool | None, words: Words) -> Outcomes:
    """Return right and wrong answers according to one column.

    If the direction is unknown, the answers with the lowest values are listed as wrong.
    """
    status, values = records.status[column], records.columns[column]
    known = status == "ok"
    up = direction is not False
    is_binary = right_or_wrong(values[known]) and direction is not None
    best = None if not known.any() else values[known].max() if up else values[known].min()
    good = known & (are_right(values, up) if is_binary else values == best)
    bad = known & ~good
    of = status.astype(object)
    of[good], of[bad] = "good", "bad"
    worst, top = "Lowest" if up else "Highest", "Highest" if direction is None else "Best"
    all_alike = f"{top} grades" if bad.any() else "Grades, all equal"
    names = (
        {"good": words.right, "bad": words.wrong} if is_binary else {"good": "best", "bad": "worst"}
    )
    sure = _sureness(records)
    margins = "margin" in records.columns
    titles = {
        names["bad"]: (
            words.wrong.capitalize() if is_binary else f"{worst} grades",
            "most confident first" if margins else "",
        ),
        "error": ("No grade because of an error", ""),
        "skipped": ("Not graded", ""),
        names["good"]: (
            words.right.capitalize() if is_binary else all_alike,
            "least confident first" if margins else "",
        ),
    }
    # Worst grades first, ties by confidence; among right answers the closest first.
    order = np.lexsort((np.where(bad, -sure, sure), np.where(bad, values if up else -values, 0.0)))
    rank = np.empty(len(records))
    rank[order] = np.arange(len(records))
    return Outcomes(
        of=np.array([names.get(one, one) for one in of], dtype=object),
        titles=titles,
        rank=rank,
        lead=f"{len(records):,} {words.attempt}s, judged by {column}, most informative first.",
    )


def _sureness(records: Records) -> FloatArray:
    """Return the margin by which the chosen answer leads; 0 if unknown."""
    if "margin" not in records.columns:
        return np.zeros(len(records))
    known = records.status["margin"] == "ok"
    return np.where(known, np.nan_to_num(records.columns["margin"]), 0.0)


def _lists(records: Records, found: Outcomes, words: Words, limit: int) -> list[dict[str, Any]]:
    """Return the positions of records by outcome, independently of the order of the records."""
    places = {name: np.flatnonzero(found.of == name) for name in found.titles}
    shares = _shares({name: len(some) for name, some in places.items()}, limit)
    # The first attempt at each unit precedes second attempts, which are often identical.
    takes_turns = records.slices.get(found.spread, records.unit_id)
    lists = []
    for name, (title, order) in found.titles.items():
        some = places[name]
        if not len(some):
            continue
        verdict = name if name in ("error", "skipped", words.right, words.wrong) else ""
        # Records are sorted by unit and attempt, and the sort is stable.
        ranked = sorted(some.tolist(), key=lambda at: (found.rank[at], records.attempt[at]))
        chosen = _in_turn(ranked, takes_turns)[: shares[name]]
        n = len(some)
        shown = f"{len(chosen):,} of {n:,} are shown" if len(chosen) < n else f"all {n:,}"
        lists.append(
            {
                "title": title,
                "verdict": verdict,
                "said": f"{shown}, {order}" if order and n > 1 else shown,
                "places": chosen,
                "labels": [verdict if found.said is None else found.said[at] for at in chosen],
            }
        )
    return lists


def _shares(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    """Return the number of units to show per outcome: a minimum each, the rest for the first."""
    few = max(1, limit // 5)
    shown = {name: min(n, few) for name, n in counts.items()}
    for name in counts:
        left = limit - sum(shown.values())
        shown[name] += max(0, min(left, counts[name] - shown[name]))
    return shown


def _in_turn(places: Sequence[int], names: Any) -> list[int]:
    """Return positions in round-robin order over their names."""
    seen: dict[str, int] = {}
    turns = []
    for at in places:
        name = str(names[at])
        turns.append((seen.get(name, 0), at))
        seen[name] = seen.get(name, 0) + 1
    return [at for _, at in sorted(turns, key=lambda pair: pair[0])]


def _by_part(records: Records, found: Outcomes, words: Words) -> Table | None:
    """Return a table with the outcomes of attempts by part."""
    parts = records.slices.get(found.spread)
    if parts is None or len(set(parts.tolist())) < 2:
        return None
    header = {
        words.wrong: words.wrong,
        "error": "broke",
        "skipped": "cut short",
        words.right: words.right,
    }
    kept = [name for name in header if (found.of == name).any()]
    rows: Rows = []
    for name in sorted(set(parts.tolist())):
        mine = parts == name
        counts = [int((mine & (found.of == what)).sum()) for what in kept]
        rows.append([str(name) or "(none)", int(mine.sum()), *counts])
    title = f"the first {MAX_PARTS} of {len(rows)}" if len(rows) > MAX_PARTS else ""
    names = [header[name] for name in kept]
    return Table([found.spread, f"{words.attempt}s", *names], rows[:MAX_PARTS], title)


# --- cards ----------------------------------------------------------------------------------------


def _add_cards(
    run: Run,
    subject: tuple[str, str],
    records: Records,
    lists: Sequence[dict[str, Any]],
    column: str,
) -> None:
    """Add the display data of units to the lists to which they belong."""
    words = kind_named(run.kind).words
    several = bool((records.attempt > 1).any())
    chosen = [at for one in lists for at in one["places"]]
    units = dict(zip(chosen, units_at(run, records, *subject, chosen), strict=True))
    tones = {words.wrong: "worse", words.right: "better", "error": "status-error"}
    for one in lists:
        one["cards"] = []
        for at, label in zip(one.pop("places"), one.pop("labels"), strict=True):
            blocks = show_unit(units[at])
            grades = list(_grades(records, at))
            verdict = one["verdict"]
            main = next((g for g in grades if column in g["names"]), None)
            one["cards"].append(
                {
                    "unit": str(records.unit_id[at]),
                    "attempt": f"{words.nth} {int(records.attempt[at])}" if several else "",
                    "verdict": verdict,
                    "tone": tones.get(verdict, "status-skipped"),
                    "label": label,
                    "main": main,
                    "brief": brief(blocks),
                    "parts": list(_parts(records, at)),
                    "blocks": blocks,
                    "asked": any(_is_asked(block) for block in flattened(blocks)),
                    "referenced": any(_is_reference(block) for block in flattened(blocks)),
                    "grades": grades if column else [],
                    "why": "" if column else _why(grades, verdict),
                }
            )


def _parts(records: Records, at: int) -> Iterator[str]:
    for name, values in records.slices.items():
        value = str(values[at])
        if value:
            yield value if name in value else f"{name}: {value}"


def _is_asked(block: Any) -> bool:
    return getattr(block, "role", "") in ("input", "prompt")


def _is_reference(block: Any) -> bool:
    return getattr(block, "role", "") == "reference" or getattr(block, "referenced", False)


def _grades(records: Records, at: int) -> Iterator[dict[str, Any]]:
    """Yield the grades of a record; columns that are missing for the same reason share an entry."""
    absent: dict[tuple[str, str], list[str]] = {}
    for name, values in records.columns.items():
        status = str(records.status[name][at])
        reason = str(records.reason[name][at]) if name in records.reason else ""
        if status == "ok":
            value = values[at] if is_text(values) else _grade(float(values[at]))
            yield {"names": [name], "status": status, "value": value, "reason": reason}
        else:
            absent.setdefault((status, reason), []).append(name)
    for (status, reason), names in absent.items():
        yield {"names": names, "status": status, "value": None, "reason": reason}


def _grade(value: float) -> str:
    """Format a grade as in tables, but 0, 1 and counts without decimals."""
    return f"{value:.0f}" if value.is_integer() else number(value)


def _why(grades: Sequence[Mapping[str, Any]], verdict: str) -> str:
    """Return the reason why an attempt has no outcome."""
    return next((str(one["reason"]) for one in grades if one["status"] == verdict), "")
