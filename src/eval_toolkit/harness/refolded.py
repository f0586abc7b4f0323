"""Rescoring of cross-validation runs: cells of each fold, and means over folds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eval_toolkit.harness.predictions import Job, summarised_parts
from eval_toolkit.harness.summary import SharedRows, folded_slices
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs.cells import read_cell
from eval_toolkit.runs.folder import Run
from eval_toolkit.runs.outcome import Subject
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.scorecards.parts import FOLD, SEED, WHOLE, format_part, parse_part

_CORRECTED = "nadeau-bengio"
"""Interval method for means over folds that are not independent."""


def has_folds(run: Run, records: Mapping[Subject, Records]) -> bool:
    """Return whether the records of a run state the fold in which each row was scored."""
    keys = {key for part in run.cells.folds for key in parse_part(part)}
    return bool(keys) and all(keys <= own.slices.keys() for own in records.values())


def summarised_folds(
    run: Run,
    records: Mapping[Subject, Records],
    specs: Mapping[Subject, Sequence[MetricSpec]],
    columns: Sequence[str],
    how: SummarySpec,
    each: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> tuple[dict[Subject, Scorecard], dict[str, Any]]:
    """Summarise each fold of a stored run, and compute the means over folds.

    ``columns`` define parts of the folds, and ``each`` displays progress. Returns the scorecards by
    subject, each of which contains one scorecard per fold, and the cells in the stored format.
    """
    inner = [name for name in columns if name not in (FOLD, SEED)]
    cards: dict[Subject, dict[str, Scorecard]] = {subject: {} for subject in records}
    folds: dict[str, dict[str, Any]] = {}
    for fold in each(list(run.cells.folds)):
        jobs = [job for subject, own in records.items() for job in _jobs(subject, own, fold, inner)]
        of_fold, by_slice = summarised_parts(jobs, specs, how)
        for subject, card in of_fold.items():
            cards[subject] |= {fold: card, **{f"{fold}&{k}": v for k, v in card.slices.items()}}
        folds[fold] = _with_failures(run, records, by_slice, fold)
    slices = folded_slices(
        folds,
        names=None,
        specs=[spec for own in specs.values() for spec in own],
        confidence=how.confidence,
        shared=_shared(run, records),
    )
    whole = {
        (split, scorer): {name: read_cell(name, cell) for name, cell in block.items()}
        for split, entry in slices.items()
        for scorer, block in entry["by_scorer"].items()
    }
    return {
        subject: Scorecard(
            {name: cell for name, cell in whole[subject].items() if cell is not None}, own
        )
        for subject, own in cards.items()
    }, slices


def _jobs(subject: Subject, records: Records, fold: str, columns: Sequence[str]) -> Iterator[Job]:
    """Yield a fold that has rows, followed by its parts."""
    inside = np.ones(len(records), dtype=np.bool_)
    for key, value in parse_part(fold).items():
        inside &= records.slices[key].astype(str) == value
    if not inside.any():
        return
    yield subject, WHOLE, records, np.flatnonzero(inside)
    for column in columns:
        values = records.slices[column].astype(str)
        for name in np.unique(values[inside]).tolist():
            rows = np.flatnonzero(inside & (values == name))
            yield subject, format_part({column: name}), records, rows


def _with_failures(
    run: Run, records: Mapping[Subject, Records], by_slice: dict[str, Any], fold: str
) -> dict[str, Any]:
    """Return the cells of a fold, including the stored entries of scorers that failed on it."""
    for split, scorer in records:
        if scorer in by_slice.get(split, {}).get("by_scorer", {}):
            continue
        block: dict[str, Any] = {"skipped": "the run has no rows for this scorer"}
        stored = run.cells.block_or_none(split, scorer, fold)
        if stored is not None:
            block.update(stored)
        entry: dict[str, Any] = {key: block[key] for key in ("n", "n_positive") if key in block}
        entry["by_scorer"] = {}
        by_slice.setdefault(split, entry)["by_scorer"][scorer] = block
    return by_slice


def _shared(run: Run, records: Mapping[Subject, Records]) -> dict[Subject, SharedRows]:
    """Return the sizes of dependent folds, recognised by the interval methods stored in the run."""
    config, k = run.manifest.get("config") or {}, len(run.cells.folds)
    trained = [fold.get("n_train") for fold in run.cells.folds.values()]
    n_trained = sum(n for n in trained if isinstance(n, int)) if config.get("fitted") else 0
    found = {}
    for (split, scorer), own in records.items():
        block = run.cells.block_or_none(split, scorer) or {}
        cells = [read_cell(name, stored) for name, stored in block.items()]
        methods = [cell.ci.method for cell in cells if cell is not None and cell.ci is not None]
        is_corrected = any(method.startswith(_CORRECTED) for method in methods)
        if is_corrected or (not methods and bool((own.attempt > 1).any())):
            n_test = max(1, round(len(own) / k))
            n_units = len(np.unique(own.unit_id.astype(str)))
            found[split, scorer] = SharedRows(
                max(1, round(n_trained / k) or n_units - n_test), n_test
            )
    return found
