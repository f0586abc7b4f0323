"""Slice and part by scorer: the cells of files and of runs, as data and as a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit._display import MISSING, Alert, Cell, Page, Rows, Status, Table
from eval_toolkit.analysis.directions import agreed, stated_by, stated_in
from eval_toolkit.analysis.parts import scored_by
from eval_toolkit.cli import _names
from eval_toolkit.cli._cells import estimate, with_interval
from eval_toolkit.cli._options import Sampling
from eval_toolkit.cli._show import progress
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.harness.predictions import explained
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs import Outcome, Results, Run
from eval_toolkit.runs.cells import read_cell
from eval_toolkit.scorecards import MetricResult, Records, Scorecard, summarise
from eval_toolkit.scorecards.parts import SLICE, WHOLE, format_part

__all__ = [
    "Block",
    "Blocks",
    "blocks_page",
    "outcome_blocks",
    "run_blocks",
    "short_names",
]


@dataclass(frozen=True)
class Block:
    """The cells of one scorer on one slice or part."""

    n: int
    n_positive: int
    card: Mapping[str, MetricResult]

    def to_dict(self) -> dict[str, Any]:
        """Return the cells and what they were made of, in plain JSON types."""
        return {
            **{name: cell.to_dict() for name, cell in self.card.items()},
            "n": self.n,
            "n_positive": self.n_positive,
            "is_single_class": self.n_positive in (0, self.n),
        }


Blocks = dict[tuple[str, str], dict[str, Block]]
"""By slice and part, and by scorer."""


def outcome_blocks(done: Outcome) -> Blocks:
    """Return the cells of scored predictions, by slice and part, and by scorer."""
    blocks: Blocks = {}
    results = Results.of(done.results)
    for slice_name, part, scorer, block in results.blocks():
        cells = {name: read_cell(name, stored) for name, stored in block.items()}
        card = {name: cell for name, cell in cells.items() if cell is not None}
        own = Block(int(block["n"]), int(block["n_positive"]), card)
        blocks.setdefault((slice_name, part), {})[scorer] = own
    return blocks


def run_blocks(
    run: Run, names: Sequence[str], at: float | None, by: Sequence[str], sampling: Sampling
) -> Blocks:
    """Summarise the records of a run again: its slices, and their parts by ``--by``.

    Without it, the parts are those that the run was scored by.
    """
    if not run.subjects:
        raise InvalidInputError(f"{run.path}: the run has no records to score")
    blocks: Blocks = {}
    for slice_name, scorer in progress(run.subjects, "scoring", len(run.subjects)):
        records = run.records(slice_name, scorer)
        specs = _run_specs(records, names, at, _directions(run, slice_name, scorer, records))
        for name, part in _run_parts(run, slice_name, records, by or scored_by(run)):
            card = summarise(
                part,
                specs,
                confidence=sampling.confidence,
                method=sampling.method,
                n_resamples=sampling.n_resamples,
                seed=sampling.seed,
                executor=sampling.executor,
            )
            blocks.setdefault((slice_name, name), {})[scorer] = _run_block(part, card)
    return blocks


def _directions(run: Run, slice_name: str, scorer: str, records: Records) -> dict[str, bool | None]:
    """Return which direction of each measured column is better, as the run has it."""
    cells = run.cells.block_or_none(slice_name, scorer) or {}
    return {
        name: agreed(stated_by(stated_in(run), cells, name), name)
        for name in records.numbers
        if name not in ("label", "score")
    }


def _run_specs(
    records: Records, names: Sequence[str], at: float | None, measured: Mapping[str, bool | None]
) -> list[MetricSpec]:
    """Return what was asked for, or what fits: metrics of scores, or the mean of each column."""
    means = {name: ms.mean_of(name, higher_is_better=up) for name, up in measured.items()}
    if not names and not {"label", "score"} <= set(records.columns):
        return list(means.values())
    asked = names or (
        *_names.DEFAULT_METRICS,
        *(() if at is None else _names.DEFAULT_THRESHOLD_METRICS),
    )
    return [
        means[name] if name in means else _names.metric_specs([name], at)[0]
        for name in dict.fromkeys(asked)
    ]


def _run_parts(
    run: Run, slice_name: str, records: Records, by: Sequence[str]
) -> Iterator[tuple[str, Records]]:
    """Yield the whole of a slice and then its parts."""
    yield WHOLE, records
    for column in dict.fromkeys(by):
        if column not in records.slices:
            have = ", ".join(map(repr, records.slices)) or "none"
            raise MissingColumnError(
                f"{run.path}: slice {slice_name!r} has no part {column!r} (--by); it has {have}"
            )
        parts = records.slices[column]
        for name in sorted(set(parts.tolist())):
            yield format_part({column: name}), records.take(np.asarray(parts == name))


def _run_block(records: Records, card: Scorecard) -> Block:
    n = len(set(records.unit_id.tolist()))
    columns = records.columns
    n_positive = int((columns["label"] == 1.0).sum()) if "label" in columns else 0
    cells = explained(card, columns["score"]) if "score" in columns and n else dict(card)
    return Block(n, n_positive, cells)


def resamples_of(blocks: Blocks) -> list[int]:
    """Return how many resamples the interval of each cell is made of."""
    return [
        cell.ci.n_resamples
        for by_scorer in blocks.values()
        for block in by_scorer.values()
        for cell in block.card.values()
        if cell.ci is not None
    ]


def blocks_page(
    blocks: Blocks, config: Mapping[str, Any], run_id: str, lead: Sequence[str], sampling: Sampling
) -> Page:
    """Return the page of a score: its results as data, one table, and why cells are empty."""
    payload = {
        "schema_version": "v1",
        "run_id": run_id,
        "git_sha": None,
        "config": config,
        "by_slice": _by_slice(blocks),
    }
    one = len(blocks) == 1 and len(next(iter(blocks.values()))) == 1
    table = _by_metric(blocks, sampling) if one else _by_place(blocks)
    return Page("Scores", payload, lead, [table], [] if one else _reasons(blocks))


def _by_slice(blocks: Blocks) -> dict[str, Any]:
    """Return the blocks in the shape that results have on disk."""
    slices: dict[str, Any] = {}
    for (slice_name, part), by_scorer in blocks.items():
        first = next(iter(by_scorer.values()))
        entry = {
            "n": first.n,
            "n_positive": first.n_positive,
            "by_scorer": {scorer: block.to_dict() for scorer, block in by_scorer.items()},
        }
        if part == WHOLE:
            slices[slice_name] = entry
        else:
            slices[slice_name].setdefault("parts", {})[part] = entry
    return slices


def _names_of(blocks: Blocks) -> dict[tuple[str, str], str]:
    """Return what each slice and part is called in the table."""
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
    """One line per metric: for a single slice and scorer."""
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


def _by_place(blocks: Blocks) -> Table:
    """One line per slice or part and scorer, one column per metric."""
    names = _names_of(blocks)
    every = [block for by_scorer in blocks.values() for block in by_scorer.values()]
    metrics = list(dict.fromkeys(name for block in every for name in block.card))
    several = any(len(by_scorer) > 1 for by_scorer in blocks.values())
    rows: Rows = [
        [
            names[place],
            *([scorer] if several else []),
            block.n,
            block.n_positive,
            *(_shown(block.card.get(name)) for name in metrics),
        ]
        for place, by_scorer in blocks.items()
        for scorer, block in by_scorer.items()
    ]
    return Table(["slice", *(["scorer"] if several else []), "rows", "positive", *metrics], rows)


def _shown(cell: MetricResult | None) -> Cell:
    return MISSING if cell is None else with_interval(cell)


def _reasons(blocks: Blocks) -> list[str]:
    """Say once why a cell has no value or another interval, and for which slices."""
    where: dict[tuple[str, str, str], list[str]] = {}
    names = _names_of(blocks)
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
    """Return the files' names, the first three of many."""
    shown = ", ".join(Path(file).name for file in files[:3])
    return shown if len(files) <= 3 else f"{shown} and {len(files) - 3} more"
