"""Main result of a run as a plain sentence with counts."""

import numpy as np

from eval_toolkit._internal.words import percent_and_ends
from eval_toolkit.analysis.units import are_right, right_or_wrong
from eval_toolkit.inference import clustered_rate
from eval_toolkit.report.cells import Block, Cell
from eval_toolkit.report.scored_rows import Scored, label_names, scored_of, threshold_of
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

_CLOSE = 1e-6
_FEW = 50
"""Number of positives below which counts are given instead of percentages."""
_PAIRS = "Ranks a positive row above a negative one in {share} of pairs {ends}"


def plain_words(run: Run, block: Block, cell: Cell | None, confidence: float) -> str:
    """Return the main result in one sentence with counts; "" if the metric needs no explanation.

    ``confidence`` is the confidence level for rates that the run does not store.
    """
    if cell is None or cell.value is None or not cell.has_value:
        return ""
    if run.cells.folds:
        return ""  # means over folds are not counts of rows
    scored = [one for one in scored_of(run) if one.subject == block.subject]
    if scored:
        return catches(run, scored[0], confidence) or _ranks(block)
    if not 0.0 <= cell.value <= 1.0 or not cell.n_units:
        return ""
    counted, alone = _right_or_wrong(run, block, cell)
    percent, ends = percent_and_ends(cell.value, cell.low, cell.high)
    n = cell.value * cell.n_units
    whole = counted and alone and abs(n - round(n)) < _CLOSE
    share = f"{round(n):,} of {cell.n_units:,}" if whole else f"{percent} of {cell.n_units:,}"
    said = kind_named(run.kind).in_words(
        cell.name, share, right_or_wrong=counted and cell.higher_is_better is True
    )
    return f"{said} {ends}".strip() if said else ""


def _right_or_wrong(run: Run, block: Block, cell: Cell) -> tuple[bool, bool]:
    """Return whether all values of the main column are 0 or 1, with one value per unit."""
    if block.subject not in run.subjects:
        return False, False
    records = run.records(*block.subject)
    values = records.numbers.get(cell.name)
    if values is None:
        return False, False
    known = values[records.status[cell.name] == "ok"]
    return right_or_wrong(known), len(np.unique(records.unit_id.astype(str))) == len(records)


def catches(run: Run, one: Scored, confidence: float) -> str:
    """Describe how many positives a scorer detects at its threshold, and its false alarms.

    Returns "" if there is no threshold or only one class, or if rows are weighted or repeated.
    """
    threshold = threshold_of(run, one)
    weighted = "weight" in one.records.columns
    repeated = len(np.unique(one.unit_ids.astype(str))) < len(one.rows)
    if threshold is None or not one.has_both_classes or weighted or repeated:
        return ""
    positive = one.labels == 1
    right = are_right(one.scores, positive, threshold)
    groups = None if one.groups is None else one.groups[positive]
    rate = clustered_rate(right[positive], groups, confidence)
    share, ends = percent_and_ends(float(right[positive].mean()), rate.low, rate.high)
    if one.n_positive < _FEW:
        share = f"{int(right[positive].sum()):,} of {one.n_positive:,}"
    else:
        share += " of"
    n_alarms, n_negative = int((~right[~positive]).sum()), int((~positive).sum())
    return (
        f"Catches {share} {positives_of(run)} {ends}; false alarms on {n_alarms:,} of "
        f"{n_negative:,} {negatives_of(run)}, at threshold {threshold:.4g}"
    )


def positives_of(run: Run) -> str:
    """Return the label of the positive class as the user wrote it, or "positives"."""
    return label_names(run).get(1, "positives")


def negatives_of(run: Run) -> str:
    """Return the label of the negative class as the user wrote it, or "negatives"."""
    return label_names(run).get(0, "negatives")


def _ranks(block: Block) -> str:
    """Explain the area under the ROC curve in words; "" if the run does not report it."""
    cell = block.cells.get("roc_auc")
    if cell is None or cell.value is None or not cell.has_value:
        return ""
    share, ends = percent_and_ends(cell.value, cell.low, cell.high)
    return _PAIRS.format(share=share, ends=ends).strip()
