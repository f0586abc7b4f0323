"""Runs over folds: the mean over folds speaks for the run, and every fold is a slice of it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from eval_toolkit.report.cells import Block, Cell, blocks_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.cells import fold_mean

__all__ = ["fold_blocks", "fold_means"]


def fold_blocks(run: Run) -> list[Block]:
    """Return the means over folds, then the cells of every fold; empty for a run without folds.

    Parameters
    ----------
    run : Run
        Of any kind.
    """
    summary = run.results.get("fold_summary")
    folds = run.results.get("by_fold")
    if not (isinstance(summary, Mapping) and isinstance(folds, Mapping) and folds):
        return []
    several = len(summary) > 1
    blocks = fold_means(run)
    for key, fold in folds.items():
        inside = fold.get("by_slice") if isinstance(fold, Mapping) else None
        for block in blocks_of(run, inside or {}):
            if block.slice in summary:
                name = f"{block.slice} · {key}" if several else str(key)
                blocks.append(replace(block, slice=name))
    return blocks


def fold_means(run: Run) -> list[Block]:
    """Return the means over folds, one for every split and scorer; empty without folds."""
    summary, folds = run.results.get("fold_summary"), run.results.get("by_fold")
    if not (isinstance(summary, Mapping) and isinstance(folds, Mapping)):
        return []
    return list(_means(summary, len(folds)))


def _means(summary: Mapping[str, Any], n_folds: int) -> Iterator[Block]:
    for split, by_scorer in summary.items():
        for scorer, metrics in by_scorer.items() if isinstance(by_scorer, Mapping) else ():
            cells = {
                str(name): Cell.made(str(name), fold_mean(stored))
                for name, stored in metrics.items()
                if isinstance(stored, Mapping)
            }
            name = f"{split}, mean of {n_folds} folds"
            yield Block(slice=name, scorer=str(scorer), n=None, n_positive=None, cells=cells)
