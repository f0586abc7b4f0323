"""Page for a pairwise judgement of two runs: win rate and position bias."""

from collections.abc import Sequence
from typing import Any

from eval_toolkit._internal.display import CellLike, Page, Status, Table
from eval_toolkit.cli._cells import estimate, judged, reasons
from eval_toolkit.runs import Outcome, Run
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.tasks.base import BaseTask

_NO_BIAS = 0.5
_ROWS = {
    "win": "A wins, ties count half",
    "tie": "ties",
    "consistent": "both orders agree",
    "first_position": "the first answer shown wins",
}


def pairs_page(task: BaseTask[Any], done: Outcome, runs: Sequence[Run]) -> Page:
    """Return a page with the win rate, the agreement between orders, and the position bias."""
    config = done.results["config"]
    sides = [
        f"{side} is {config['runs'][side.lower()]['model']} ({run.path})"
        for side, run in zip("AB", runs, strict=True)
    ]
    ((_, judged),) = done.judges.items()
    orders = "both orders" if "consistent" in done.card else "one order per pair"
    lead = [
        ", ".join(sides),
        (
            f"task {task.NAME}: {len(done.records):,} pairs, judged by {judged['model']} in "
            f"{orders}; {100 * config['confidence']:g} % intervals"
        ),
    ]
    rows = [
        [words, *_cells(done.card[name]), _meaning(name, done.card[name])]
        for name, words in _ROWS.items()
        if name in done.card
    ]
    header = ["", "share", "interval", "n", "errors", "says"]
    tables = [Table(header, rows)]
    if done.card.slices:
        by_subject = [
            [subject, *_cells(part["win"]), _meaning("win", part["win"])]
            for subject, part in done.card.slices.items()
        ]
        title = "A wins, by subject"
        tables.append(Table(["subject", *header[1:]], by_subject, title))
    return Page(f"{task.NAME}: A against B", done.to_dict(), lead, tables, _notes(done))


def _cells(cell: MetricResult) -> list[CellLike]:
    share, interval = estimate(cell).split()
    return [share or Status(cell.status), interval, cell.n_units or 0, cell.n_errors]


def _meaning(name: str, cell: MetricResult) -> str:
    """Describe whether the interval lies above or below one half, or contains it."""
    if name not in ("win", "first_position") or cell.ci is None:
        return cell.reason or ""
    above, below = {
        "win": ("A is better", "B is better"),
        "first_position": ("the judge prefers the first", "the judge prefers the second"),
    }[name]
    if cell.ci.ci_low > _NO_BIAS:
        return above
    if cell.ci.ci_high < _NO_BIAS:
        return below
    return "no significant difference" if name == "win" else "no significant bias"


def _notes(done: Outcome) -> list[str]:
    notes = [*map(judged, done.judges.items()), *done.notes]
    if done.n_errors:
        notes.append(f"{done.n_errors:,} of {len(done.records):,} pairs have no verdict")
        notes += reasons(done.records)
    if done.run is not None:
        notes.append(f"run {done.run.path}")
    return notes
