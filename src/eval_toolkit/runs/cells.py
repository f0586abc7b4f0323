"""The cells of a results payload, whatever wrote them: one flat line for each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_toolkit._display import CellLike, Estimate, Status, Table

__all__ = ["cell_rows", "cell_table", "fold_mean", "fold_rows", "stored_cell"]

_NOT_METRICS = frozenset(
    {"n", "n_positive", "is_single_class", "headline", "scores", "scores_calibrated", "skipped"}
    | {"error_state"}
)
_INLINE = 40
"""Characters of a reason that stand in the table; a longer one is a note below it."""
_CI = ("ci_low", "ci_high", "confidence", "n_resamples", "method")


def cell_rows(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat dict per cell of a results payload, in the order they were stored.

    Parameters
    ----------
    results : mapping
        What ``results.json`` holds.

    Returns
    -------
    list of dict
        Slice, scorer, metric, value, status, reason, the interval, and the counts. A scorer that
        was skipped or failed has one line with the metric "" and the reason. Of a run over folds
        there is a line for each mean over folds.

    Examples
    --------
    >>> block = {"pr_auc": 0.9, "brier": {"value": None, "status": "skipped", "reason": "logits"}}
    >>> for row in cell_rows({"by_slice": {"test": {"n": 8, "by_scorer": {"guard": block}}}}):
    ...     print(row["slice"], row["scorer"], row["metric"], row["value"], row["status"])
    test guard pr_auc 0.9 ok
    test guard brier None skipped
    """
    by_slice = results.get("by_slice")
    rows = list(_slices(by_slice if isinstance(by_slice, Mapping) else {}))
    return rows or list(_folds(results))


def _slices(by_slice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for slice_name, part in by_slice.items():
        scorers = part.get("by_scorer") if isinstance(part, Mapping) else None
        for scorer, block in (scorers or {}).items():
            if not isinstance(block, Mapping):
                continue
            place = {"slice": str(slice_name), "scorer": str(scorer)}
            failed = next((s for s in ("skipped", "error") if isinstance(block.get(s), str)), None)
            if failed is not None:
                block = {**block, "": {"status": failed, "reason": block[failed]}}
            for name, stored in block.items():
                cell = stored_cell(str(name), stored)
                if cell is not None:
                    cell.pop("details")
                    yield {**place, "metric": str(name), **cell}


def _folds(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    summary, folds = results.get("fold_summary"), results.get("by_fold")
    if not (isinstance(summary, Mapping) and isinstance(folds, Mapping)):
        return
    for split, by_scorer in summary.items():
        for scorer, metrics in by_scorer.items() if isinstance(by_scorer, Mapping) else ():
            for name, stored in metrics.items():
                if isinstance(stored, Mapping):
                    cell = fold_mean(stored)
                    cell.pop("details")
                    place = f"{split}, mean of {len(folds)} folds"
                    yield {"slice": place, "scorer": str(scorer), "metric": str(name), **cell}


def fold_rows(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of every fold, which `cell_rows` has the means of; none without folds.

    Parameters
    ----------
    results : mapping
        What ``results.json`` holds.

    Examples
    --------
    >>> fold = {"by_slice": {"test": {"by_scorer": {"guard": {"f1": 0.5}}}}}
    >>> told = {"by_fold": {"0": fold}, "fold_summary": {"test": {}}}
    >>> [(row["slice"], row["value"]) for row in fold_rows(told)]
    [('0', 0.5)]
    """
    summary, folds = results.get("fold_summary"), results.get("by_fold")
    if results.get("by_slice") or not (isinstance(summary, Mapping) and isinstance(folds, Mapping)):
        return []
    return [
        {**row, "slice": f"{row['slice']} · {key}" if len(summary) > 1 else str(key)}
        for key, fold in folds.items()
        if isinstance(fold, Mapping) and isinstance(fold.get("by_slice"), Mapping)
        for row in _slices(fold["by_slice"])
        if row["slice"] in summary
    ]


def stored_cell(name: str, stored: Any) -> dict[str, Any] | None:
    """Return what is known about a cell, or None for an entry of a block that is none.

    Parameters
    ----------
    name : str
        The entry's key.
    stored : object
        A cell, or a bare number.

    Returns
    -------
    dict or None
        Value, status, reason, interval, counts and ``details``.

    Examples
    --------
    >>> stored_cell("pr_auc", 0.9)["status"], stored_cell("n", 400), stored_cell("curve", [0, 1])
    ('ok', None, None)
    """
    if isinstance(stored, bool) or name in _NOT_METRICS:
        return None
    if isinstance(stored, int | float):
        stored = {"value": float(stored), "status": "ok"}
    if not isinstance(stored, Mapping) or "status" not in stored:
        return None
    ci = stored.get("ci") or {}
    return {
        "value": stored.get("value"),
        "status": str(stored["status"]),
        "reason": str(stored.get("reason") or ""),
        **{part: ci.get(part) for part in _CI},
        "n_units": stored.get("n_units"),
        "n_groups": stored.get("n_groups"),
        "n_errors": int(stored.get("n_errors") or 0),
        "n_skipped": int(stored.get("n_skipped") or 0),
        "details": stored.get("details") or {},
    }


def fold_mean(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mean over folds as a cell; folds without a value are its errors.

    Examples
    --------
    >>> fold_mean({"mean": 0.8, "ci_low": 0.7, "ci_high": 0.9, "n_failed": 1})["n_errors"]
    1
    """
    mean = stored.get("mean")
    absent = dict.fromkeys((*_CI, "n_units", "n_groups"))
    rest: dict[str, Any] = {**absent, "n_errors": 0, "n_skipped": 0, "details": {}}
    if isinstance(mean, bool) or not isinstance(mean, int | float):
        why = str(stored.get("reason") or stored.get("skipped") or "no fold has a value")
        return {"value": None, "status": "skipped", "reason": why, **rest}
    ends = {part: stored.get(part) for part in _CI}
    n_failed = int(stored.get("n_failed") or 0)
    return {
        "value": float(mean),
        "status": "ok",
        "reason": "",
        **rest,
        **ends,
        "n_errors": n_failed,
    }


def cell_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of cells; reasons that are long stand below it, each once.

    Parameters
    ----------
    rows : sequence of mapping
        What `cell_rows` or `Scorecard.rows` returned.

    Examples
    --------
    >>> cell = {"value": 0.9, "status": "ok", "n_units": 40}
    >>> rows = cell_rows({"by_slice": {"test": {"by_scorer": {"guard": {"pr_auc": cell}}}}})
    >>> cell_table(rows).texts()
    [['test', 'guard', 'pr_auc', '0.900', '', '40', '0', 'ok']]
    """
    levels = {row["confidence"] for row in rows if row["confidence"] is not None}
    percent = f"{100 * levels.pop():g} % " if len(levels) == 1 else ""
    header = ["slice", "scorer", "metric", "value", f"{percent}interval", "n", "errors", "status"]
    return Table(header, map(_line, rows)).footnoted(_INLINE)


def _line(row: Mapping[str, Any]) -> list[CellLike]:
    return [
        *(str(row.get("slice") or "all"), str(row.get("scorer") or ""), str(row["metric"])),
        *Estimate(row["value"], row["ci_low"], row["ci_high"]).split(),
        row["n_units"],
        row["n_errors"] or 0,
        Status(row["status"], row["reason"]),
    ]
