"""Headline section: the main value, and a table of all metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eval_toolkit.report import headline_text
from eval_toolkit.report.cells import Block, Cell, leading, main_block, main_blocks, main_cell
from eval_toolkit.report.main_result import plain_words
from eval_toolkit.report.metric_groups import Group, grouped, meaning_of
from eval_toolkit.report.provenance import imported_from
from eval_toolkit.report.sections import Section, Wanted
from eval_toolkit.report.trust import Fact, trust_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

if TYPE_CHECKING:
    from eval_toolkit.claims import ClaimReport

__all__ = ["build", "claims_shown", "main_cell"]

_TILES = 4
_MOST_CONTRADICTIONS = 5
_INLINE = 60
"""Maximum length of a reason in the table; longer reasons become notes below it."""


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the headline section of a run: the main value and the table of metrics."""
    blocks = main_blocks(run)
    if not blocks:
        return None
    leaders = leading(blocks)
    block = leaders[0][0] if leaders else main_block(run) or blocks[0]
    cell = leaders[0][1] if leaders else main_cell(block)
    scorers = [one for one in blocks if one.cells] or blocks
    broken = list(dict.fromkeys(name for one in blocks for name in _broken(one)))
    groups = grouped(run, scorers)
    reasons = _Reasons(scorers, groups)
    metric = headline_text.said(run, cell, block, leaders)
    plain = plain_words(run, block, cell, wanted.confidence)
    if plain and len(leaders) > 1:
        plain = f"{block.scorer}: {plain[0].lower()}{plain[1:]}"
    told = imported_from(run.manifest)
    return Section(
        id="headline",
        menu="Answer",
        title="The answer",
        template="headline.html",
        data={
            "said": plain or metric,
            "how": [
                *([metric] if plain else []),
                headline_text.how(run, cell, block),
                *filter(
                    None,
                    (
                        headline_text.bounds(run, cell),
                        headline_text.unknown(cell, block),
                        headline_text.stopped(run.results),
                    ),
                ),
            ],
            "claims": claims_shown(wanted.claims),
            "trust": [*trust_of(run, cell, block), *_required(wanted, cell)],
            "bug": bool(broken),
            "tiles": _tiles(run, block, cell, several=len(scorers) > 1),
            "groups": [_shown(group, scorers, reasons) for group in groups],
            "scorers": [one.scorer for one in scorers],
            "several": len(scorers) > 1,
            "absent": [
                {
                    "scorer": one.scorer,
                    "status": "error" if one.error else "skipped",
                    "reason": one.error or one.skipped,
                }
                for one in blocks
                if one.error or one.skipped
            ],
        },
        notes=[
            *([f"{_some(broken)}: failed with an exception, which may be a bug"] if broken else []),
            *([f"imported from {told}"] if told else []),
            *_against_samples(run),
        ],
    )


def claims_shown(report: ClaimReport | None) -> dict[str, Any] | None:
    """Return the verdicts on claims for display; None if there are no claims."""
    if report is None:
        return None
    from eval_toolkit.claims import claims_lead, claims_table

    return {
        "said": claims_lead(report),
        "failed": report.has_failures(),
        "table": claims_table(report),
    }


def _required(wanted: Wanted, cell: Cell | None) -> list[Fact]:
    """Return what to pass for a verdict of pass or fail, if no claims were passed."""
    if wanted.claims is not None or cell is None or not cell.has_value:
        return []
    side = "--max" if cell.higher_is_better is False else "--min"
    said = f"nothing yet; for pass or fail: eval-toolkit gate RUN {side} {cell.name}=LIMIT"
    return [Fact("required", said, "unknown")]


def _against_samples(run: Run) -> list[str]:
    """Return notes on numbers in an imported log that contradict its samples."""
    told = (run.manifest.get("config") or {}).get("imported")
    checked = told.get("checked") if isinstance(told, Mapping) else None
    return [
        f"the log reports {one.get('name')} of {one.get('column')} as {one.get('stated')}: "
        f"{one.get('verdict')}"
        for one in checked or ()
        if isinstance(one, Mapping) and False in (one.get("agrees"), one.get("stderr_agrees"))
    ][:_MOST_CONTRADICTIONS]


def _broken(block: Block) -> list[str]:
    """Return the errors of the scorer or of its metrics."""
    if block.error:
        return [block.scorer]
    return [cell.name for cell in block.cells.values() if cell.status == "error"]


def _some(names: Sequence[str], limit: int = 6) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _tiles(run: Run, block: Block, cell: Cell | None, *, several: bool) -> list[dict[str, Any]]:
    """Return tiles with further main values; omitted for several scorers, as the table has them."""
    counts = list(headline_text.counted(run, cell, block))
    if several or cell is None:
        return counts if len(counts) > 1 else []
    order = [name for name in kind_named(run.kind).next_metrics if name in block.cells]
    if not kind_named(run.kind).next_metrics:
        own = [name for name in block.cells if not name.endswith("_macro")]
        order = sorted(own, key=lambda name: "@" in name or "^" in name)
    cells = [block.cells[name] for name in order if name != cell.name]
    tiles: list[dict[str, Any]] = [
        {"name": one.name, "cell": one, "meaning": meaning_of(one.name)}
        for one in cells
        if one.has_value
    ]
    shown = [*tiles[: _TILES - 1], *counts]
    return shown if len(shown) > 1 else []


class _Reasons:
    """Collects long or repeated reasons as numbered footnotes."""

    def __init__(self, blocks: Sequence[Block], groups: Sequence[Group]) -> None:
        found: dict[str, list[str]] = {}
        for name in (name for group in groups for name in group.names):
            for cell in (block.cells[name] for block in blocks if name in block.cells):
                if cell.reason:
                    found.setdefault(cell.reason, []).append(name)
        self._names = {
            why: list(dict.fromkeys(names))
            for why, names in found.items()
            if len(names) > 1 or len(why) > _INLINE
        }
        self._numbers = {reason: at + 1 for at, reason in enumerate(self._names)}

    def number_of(self, cell: Cell) -> int | None:
        return self._numbers.get(cell.reason)

    def first_in(self, group: Group) -> list[dict[str, Any]]:
        """Return the notes below the table of a group."""
        return [
            {"at": self._numbers[why], "reason": why, "names": _some(names, 4)}
            for why, names in self._names.items()
            if names[0] in group.names
        ]


def _shown(group: Group, blocks: Sequence[Block], reasons: _Reasons) -> dict[str, Any]:
    """Return a group of metrics as table rows, errors first."""
    rows = [_row(name, blocks, reasons) for name in group.names]
    rows.sort(key=lambda row: not row["bug"])
    first: list[Cell] = [row["first"] for row in rows]
    return {
        "title": group.title,
        "lead": group.lead,
        "open": group.open or any(row["bug"] for row in rows),
        "rows": rows,
        "reasons": reasons.first_in(group),
        "stated": any(cell.reason or cell.status != "ok" for cell in first),
        "counts": {
            "broke": any(cell.n_errors for cell in first),
            "skipped": any(cell.n_skipped for cell in first),
        },
    }


def _row(name: str, blocks: Sequence[Block], reasons: _Reasons) -> dict[str, Any]:
    cells = [block.cells.get(name) for block in blocks]
    known = [cell for cell in cells if cell is not None]
    return {
        "name": name,
        "meaning": meaning_of(name),
        "cells": cells,
        "first": known[0],
        "notes": [None if cell is None else reasons.number_of(cell) for cell in cells],
        "bug": any(cell.status == "error" for cell in known),
    }
