"""Access to a run's cells for reports: by slice, part and scorer, with directions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit._internal.display import Estimate, Status
from eval_toolkit.analysis.directions import agreed, stated_by, stated_in
from eval_toolkit.runs import Run
from eval_toolkit.runs.results import ResultCell, Results
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.scorecards.parts import WHOLE

_FIRST = (
    *("attack_success", "attack_success_any", "accuracy", "exact_match", "number_match"),
    *("pr_auc", "roc_auc"),
)
"""Preferred main metrics, in order; the fallback is the first metric with a value."""
_REFUSALS = ("refused_first", "refusal_rate")
_BY_TURN = re.compile("failed_by_turn_[0-9]+")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A value of a run with its metadata."""

    name: str
    value: float | None
    status: str = "ok"
    reason: str = ""
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    method: str = ""
    n_resamples: int | None = None
    """Number of resamples of the interval; 0 for a closed form."""
    n_units: int | None = None
    n_groups: int | None = None
    n_errors: int = 0
    n_skipped: int = 0
    details: Mapping[str, Any]

    @property
    def higher_is_better(self) -> bool | None:
        """Stored direction, or the one implied by the metric's name; None if unknown."""
        return agreed(stated_by({}, {self.name: {"details": self.details}}, self.name), self.name)

    @property
    def has_value(self) -> bool:
        """Whether the cell has a valid value."""
        return self.status == "ok" and self.value is not None

    @property
    def n_independent(self) -> float:
        """Effective number of groups or units; groups of unequal size count as fewer."""
        if self.n_groups is None or self.n_groups == self.n_units:
            return float(self.n_units or 0)
        return float(self.details.get("n_groups_effective", self.n_groups))

    @property
    def worth(self) -> str:
        """Note on groups of unequal size; "" if their sizes are about equal."""
        unequal = self.n_independent < 0.95 * (self.n_groups or 0)
        return f"equivalent to {self.n_independent:.3g} of equal size" if unequal else ""

    @property
    def shown(self) -> Estimate | Status:
        """Value with its interval, or the status if there is no value."""
        if self.value is None or self.status != "ok":
            return Status(self.status)
        return Estimate(self.value, self.low, self.high)

    @classmethod
    def of(cls, name: str, cell: MetricResult) -> "Cell":
        """Return a cell with a name from a stored result."""
        row = ResultCell("", "", "", name, cell).row()
        ends = {"low": row["ci_low"], "high": row["ci_high"]}
        kept = ("value", "status", "reason", "confidence", "n_resamples")
        counts = ("n_units", "n_groups", "n_errors", "n_skipped")
        told = {key: row[key] for key in (*kept, *counts)}
        return cls(name=name, **told, **ends, method=row["method"] or "", details=cell.details)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Cells of one scorer on one slice, or on a part of it."""

    slice: str
    part: str = WHOLE
    name: str = ""
    """Display name of the slice or part."""
    scorer: str
    n: int | None
    n_positive: int | None
    cells: Mapping[str, Cell]
    skipped: str = ""
    """Reason why the scorer has no cells here; empty otherwise."""
    error: str = ""
    """Error raised by the scorer, if any."""

    @property
    def subject(self) -> tuple[str, str]:
        """Slice and scorer."""
        return self.slice, self.scorer


def blocks_of(run: Run, *, parts: bool = False) -> list[Block]:
    """Return the cells of every slice and scorer of a run, in stored order.

    With ``parts``, each slice is followed by its parts: subjects, categories, languages, folds.
    """
    return list(_blocks(run.cells, stated_in(run), parts))


def _as_stated(cell: Cell, stated: Mapping[str, bool]) -> Cell:
    """Return the cell with the direction recorded in the run's manifest, if any."""
    told = stated_by(stated, {}, cell.name)
    return replace(cell, details={**cell.details, "higher_is_better": told[0]}) if told else cell


def _blocks(results: Results, stated: Mapping[str, bool], parts: bool) -> Iterator[Block]:
    cells: dict[tuple[str, str, str], list[ResultCell]] = {
        (slice_name, part, scorer): []
        for slice_name, part, scorer, _ in results.blocks()
        if parts or part == WHOLE
    }
    for found in results.cells():
        key = (found.slice, found.part, found.system)
        if key in cells:
            cells[key].append(found)
    for (slice_name, part, scorer), own in cells.items():
        entry = results.entry(slice_name, part)
        absent = next((found.cell for found in own if not found.metric), None)
        yield Block(
            slice=slice_name,
            part=part,
            name=_name(results, slice_name, part),
            scorer=scorer,
            n=entry.get("n"),
            n_positive=entry.get("n_positive"),
            cells={
                found.metric: _as_stated(Cell.of(found.metric, found.cell), stated)
                for found in own
                if found.metric
            },
            skipped=absent.reason if absent and absent.status == "skipped" else "",
            error=absent.reason if absent and absent.status == "error" else "",
        )


def _name(results: Results, slice_name: str, part: str) -> str:
    if part != WHOLE:
        return results.place(slice_name, part)
    n_folds = len(results.folds)
    return f"{slice_name}, mean of {n_folds} folds" if n_folds else slice_name


def main_cell(block: Block) -> Cell | None:
    """Return the main cell of a block.

    Cells with a value take precedence. Returns None if the scorer has no cells.

    Examples
    --------
    >>> cells = {name: Cell(name=name, value=0.5, details={}) for name in ("f1", "exact_match")}
    >>> main_cell(Block(slice="all", scorer="m", n=2, n_positive=None, cells=cells)).name
    'exact_match'
    """
    cells = block.cells
    named = [cells[name] for name in _FIRST if name in cells]
    others = list(cells.values())
    if "attack_success" in cells:
        # If a budget ended conversations early, the last turn observed for all is most informative.
        by_turn = sorted(filter(_BY_TURN.fullmatch, cells), key=lambda name: -int(name[15:]))
        others = [cells[name] for name in (*by_turn, *_REFUSALS) if name in cells]
    ok = [cell for cell in (*named, *others) if cell.has_value]
    return next(iter([*ok, *named, *cells.values()]), None)


def leading(blocks: Sequence[Block]) -> list[tuple[Block, Cell]]:
    """Return the main metric of a slice for each scorer that has a value for it.

    The best value comes first; without a known direction, the stored order is kept.
    """
    main = min((cell for block in blocks if (cell := main_cell(block))), key=_need, default=None)
    found = [
        (block, cell)
        for block in blocks
        if main is not None and (cell := block.cells.get(main.name)) and cell.has_value
    ]
    if main is None or main.higher_is_better is None:
        return found
    sign = -1.0 if main.higher_is_better else 1.0
    return sorted(found, key=lambda pair: sign * float(pair[1].value or 0.0))


def _need(cell: Cell) -> tuple[bool, int]:
    """Return a sort key that ranks cells with a value first, then preferred metrics."""
    place = _FIRST.index(cell.name) if cell.name in _FIRST else len(_FIRST)
    return not cell.has_value, place


def fitted_on(run: Run) -> set[str]:
    """Return the slices on which thresholds were selected, whose results are optimistic."""
    config, policy = run.results.get("config"), run.results.get("threshold_policy")
    listed = policy.get("thresholds") if isinstance(policy, Mapping) else None
    names = [
        entry.get("fitted_on_slice")
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, Mapping)
    ]
    names.append(config.get("threshold_slice") if isinstance(config, Mapping) else None)
    return {name for name in names if isinstance(name, str)}


def main_blocks(run: Run) -> list[Block]:
    """Return the cells of every scorer that represent the whole run.

    They are taken from the slice of all rows, else of test rows, else from the first slice with the
    preferred main metric. Slices used to select thresholds are avoided. For a run with folds, the
    cells are means over folds.
    """
    by_slice: dict[str, list[Block]] = {}
    for block in blocks_of(run):
        by_slice.setdefault(block.slice, []).append(block)
    fitted = fitted_on(run)
    free = [name for name in by_slice if name not in fitted] or list(by_slice)
    named = [name for name in ("all", "test") if name in free]

    def need(name: str) -> tuple[bool, int]:
        found = leading(by_slice[name])
        return _need(found[0][1]) if found else (True, 0)

    return by_slice[named[0] if named else min(free, key=need)] if by_slice else []


def main_block(run: Run) -> Block | None:
    """Return the cells of the first scorer that has the main metric for the whole run."""
    blocks = main_blocks(run)
    known = {block.scorer for block, _ in leading(blocks)}
    return next(iter([*(b for b in blocks if b.scorer in known), *blocks]), None)
