"""Format results as tables by slice and scorer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.display import MISSING, Alert, Page, Rows, Status, Table
from eval_toolkit.cli._cells import estimate, with_interval
from eval_toolkit.cli._options import Sampling
from eval_toolkit.runs import Outcome
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.scorecards.parts import SLICE, WHOLE, format_part


@dataclass(frozen=True)
class Block:
    """Results of one scorer on one slice."""

    n: int
    n_positive: int
    card: Mapping[str, MetricResult]


Blocks = dict[tuple[str, str], dict[str, Block]]
"""Cells by slice, then by scorer."""


def outcome_blocks(done: Outcome) -> Blocks:
    """Return the cells of scored rows, by slice and then by scorer."""
    return {
        (slice_name, part): {
            scorer: Block(
                # Means over folds, and scorers that failed on a fold, have no row count of their
                # own.
                told.get("n", block["n"]),
                told.get("n_positive", block["n_positive"]),
                card if part == WHOLE else card.slices.get(part, {}),
            )
            for scorer, told in block["by_scorer"].items()
            for card in (done.cards[slice_name, scorer],)
        }
        for slice_name, entry in done.results["by_slice"].items()
        for part, block in {WHOLE: entry, **entry.get("parts", {})}.items()
    }


def resamples_of(done: Outcome) -> list[int]:
    """Return the number of resamples used for the interval of each cell."""
    cards = [one for card in done.cards.values() for one in (card, *card.slices.values())]
    return [cell.ci.n_resamples for card in cards for cell in card.values() if cell.ci is not None]


def blocks_page(
    done: Outcome, config: Mapping[str, Any], lead: Sequence[str], sampling: Sampling
) -> Page:
    """Return the page of ``score``: the results table and the reasons for empty cells."""
    payload = {
        "schema_version": "v1",
        "run_id": done.results["run_id"],
        "git_sha": None,
        "config": config,
        "by_slice": done.results["by_slice"],
    }
    blocks = outcome_blocks(done)
    one = len(blocks) == 1 and len(next(iter(blocks.values()))) == 1
    if one:
        return Page("Scores", payload, lead, [_by_metric(blocks, sampling)], [])
    names = _names_of(blocks)
    return Page("Scores", payload, lead, [_by_place(blocks, names)], _reasons(blocks, names))


def _names_of(blocks: Blocks) -> dict[tuple[str, str], str]:
    """Return the display name of each slice."""
    several = len({slice_name for slice_name, _ in blocks}) > 1
    return {
        (slice_name, part): slice_name
        if part == WHOLE
        else f"{format_part({SLICE: slice_name})}&{part}"
        if several
        else part
        for slice_name, part in blocks
    }


def _by_metric(blocks: Blocks, sampling: Sampling) -> Table:
    """Return a table with one row per metric, for a single slice and scorer."""
    ((block,),) = (tuple(by_scorer.values()) for by_scorer in blocks.values())
    rows: Rows = [
        [
            name,
            *estimate(cell).split(),
            cell.ci.method if cell.ci else "",
            Status(cell.status, cell.reason),
        ]
        for name, cell in block.card.items()
    ]
    interval = f"{100 * sampling.confidence:g} % interval"
    return Table(["metric", "value", interval, "method", "status"], rows)


def _by_place(blocks: Blocks, names: Mapping[tuple[str, str], str]) -> Table:
    """Return a table with one row per slice and scorer, and one column per metric."""
    every = [block for by_scorer in blocks.values() for block in by_scorer.values()]
    metrics = list(dict.fromkeys(name for block in every for name in block.card))
    several = any(len(by_scorer) > 1 for by_scorer in blocks.values())
    rows: Rows = [
        [
            names[place],
            *([scorer] if several else []),
            block.n,
            block.n_positive,
            *(
                with_interval(block.card[name]) if name in block.card else MISSING
                for name in metrics
            ),
        ]
        for place, by_scorer in blocks.items()
        for scorer, block in by_scorer.items()
    ]
    return Table(["slice", *(["scorer"] if several else []), "rows", "positive", *metrics], rows)


def _reasons(blocks: Blocks, names: Mapping[tuple[str, str], str]) -> list[str]:
    """Explain why cells have no value or a different type of interval, once per reason."""
    where: dict[tuple[str, str, str], list[str]] = {}
    for place, by_scorer in blocks.items():
        for block in by_scorer.values():
            for metric, cell in block.card.items():
                if cell.reason:
                    where.setdefault((metric, cell.status, cell.reason), []).append(names[place])
    notes = []
    for (metric, status, reason), slices in where.items():
        about = f"{metric}, {', '.join(dict.fromkeys(slices))}"
        why = Status("" if status == "ok" else status, reason)
        notes.append((Alert if status == "error" else str)(f"{about}: {why}"))
    return notes


def short_names(files: Sequence[str]) -> str:
    """Return the first three file names, and the number of any others."""
    shown = ", ".join(Path(file).name for file in files[:3])
    return shown if len(files) <= 3 else f"{shown} and {len(files) - 3} more"
