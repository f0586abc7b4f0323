"""The numbers of runs as flat rows: the one source of every table that is exported."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from eval_toolkit.report.cells import Block, Cell, blocks_of
from eval_toolkit.report.folds import fold_blocks
from eval_toolkit.runs import Run

__all__ = ["ROW_FIELDS", "all_blocks", "captured_at", "cell_dict", "cell_rows", "told_about"]

ROW_FIELDS = (
    *("run", "slice", "scorer", "metric", "value", "ci_low", "ci_high", "confidence", "method"),
    *("n", "n_groups", "n_errors", "n_skipped", "status", "reason"),
)


def all_blocks(run: Run) -> list[Block]:
    """Return every slice and scorer of a run; of one over folds the means, then each fold."""
    return blocks_of(run) or fold_blocks(run)


def cell_rows(runs: Run | Sequence[Run]) -> list[dict[str, Any]]:
    """Return the numbers of runs, one flat row per run, slice, scorer and metric.

    Parameters
    ----------
    runs : Run or sequence of Run
        Of any kind.

    Returns
    -------
    list of dict
        With the keys run, slice, scorer, metric, value, ci_low, ci_high, confidence, method, n,
        n_groups, n_errors, n_skipped, status and reason. A cell without a number has None there
        and says why; so does a scorer without cells, in a row without a metric.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> cell = {"value": None, "status": "skipped", "reason": "one class only"}
    >>> part = {"n": 3, "by_scorer": {"guard": {"pr_auc": cell}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> [(row["metric"], row["value"], row["reason"]) for row in cell_rows(run)]
    [('pr_auc', None, 'one class only')]
    """
    given = [runs] if isinstance(runs, Run) else list(runs)
    return [row for run in given for block in all_blocks(run) for row in _rows(run, block)]


def _rows(run: Run, block: Block) -> Iterator[dict[str, Any]]:
    where = {"run": run.run_id, "slice": block.slice, "scorer": block.scorer}
    for cell in block.cells.values():
        yield {**dict.fromkeys(ROW_FIELDS), **where, "metric": cell.name, **_told(cell)}
    if not block.cells and (block.skipped or block.error):
        status = "error" if block.error else "skipped"
        absent = {"metric": "", "n": block.n, "n_errors": 0, "n_skipped": 0}
        why = {"status": status, "reason": block.error or block.skipped}
        yield {**dict.fromkeys(ROW_FIELDS), **where, **absent, **why}


def _told(cell: Cell) -> dict[str, Any]:
    return {
        "value": cell.value if cell.has_value else None,
        "ci_low": cell.low if cell.has_value else None,
        "ci_high": cell.high if cell.has_value else None,
        "confidence": cell.confidence,
        "method": cell.method,
        "n": cell.n_units,
        "n_groups": cell.n_groups,
        "n_errors": cell.n_errors,
        "n_skipped": cell.n_skipped,
        "status": cell.status,
        "reason": cell.reason,
    }


def cell_dict(cell: Cell) -> dict[str, Any]:
    """Return a cell as the formats of other tools carry it beside their own numbers.

    Examples
    --------
    >>> cell = Cell(name="acc", value=0.5, low=0.3, high=0.7, details={"standard_error": 0.1})
    >>> told = cell_dict(cell)
    >>> told["value"], told["ci_high"], told["standard_error"], told["higher_is_better"]
    (0.5, 0.7, 0.1, None)
    """
    error = cell.details.get("standard_error")
    return {
        **_told(cell),
        "standard_error": error if isinstance(error, int | float) else None,
        "higher_is_better": cell.higher_is_better,
    }


def captured_at(run: Run) -> datetime:
    """Return when a run was begun, in UTC; a run that does not say so was begun in 1970."""
    try:
        told = datetime.fromisoformat(str(run.manifest.get("captured_at")))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
    return told.replace(tzinfo=told.tzinfo or UTC).astimezone(UTC)


def told_about(run: Run, blocks: Sequence[Block] = ()) -> dict[str, Any]:
    """Return what this toolkit knows about a run and other tools' formats have no place for.

    Parameters
    ----------
    run : Run
        Of any kind.
    blocks : sequence of Block
        Whose cells are told, with their states and intervals.
    """
    manifest = run.manifest
    versions = manifest.get("code_versions")
    cells: dict[str, dict[str, Any]] = {}
    for block in blocks:
        told = {name: cell_dict(cell) for name, cell in block.cells.items()}
        cells.setdefault(block.slice, {})[block.scorer] = told
    return {
        "run_id": run.run_id,
        "version": str(versions.get("eval_toolkit", "")) if isinstance(versions, Mapping) else "",
        "captured_at": manifest.get("captured_at"),
        "manifest_sha256": manifest.get("manifest_sha256"),
        "config_hash": manifest.get("config_hash"),
        "data_hashes": manifest.get("data_hashes") or {},
        "cells": cells,
    }
