"""The cells of a stored run, whatever wrote them: results.json may hold cells or bare numbers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit._display import Estimate, Status
from eval_toolkit.analysis.directions import agreed, stated_by, stated_in
from eval_toolkit.runs import Run
from eval_toolkit.runs.cells import stored_cell

__all__ = [
    "Block",
    "Cell",
    "blocks_of",
    "fitted_on",
    "leading",
    "main_block",
    "main_blocks",
    "main_cell",
]

_FIRST = (
    *("attack_success", "attack_success_any", "accuracy", "exact_match", "number_match"),
    *("pr_auc", "roc_auc"),
)
"""What people ask for first, where a run has it; else its first metric with a value."""
_REFUSALS = ("refused_first", "refusal_rate")
_BY_TURN = re.compile("failed_by_turn_[0-9]+")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a run and what is known about it."""

    name: str
    value: float | None
    status: str = "ok"
    reason: str = ""
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    method: str = ""
    n_resamples: int | None = None
    """Resamples that the interval is made of; 0 for a closed form."""
    n_units: int | None = None
    n_groups: int | None = None
    n_errors: int = 0
    n_skipped: int = 0
    details: Mapping[str, Any]

    @property
    def higher_is_better(self) -> bool | None:
        """As it was stored, else as its name says; None where neither does."""
        return agreed(stated_by({}, {self.name: {"details": self.details}}, self.name), self.name)

    @property
    def has_value(self) -> bool:
        """Whether there is a number, and no reason against it."""
        return self.status == "ok" and self.value is not None

    @property
    def shown(self) -> Estimate | Status:
        """The value with its interval, or how the cell stands where there is none."""
        if self.value is None or self.status != "ok":
            return Status(self.status)
        return Estimate(self.value, self.low, self.high)

    @classmethod
    def of(cls, name: str, stored: Any) -> "Cell | None":
        """Return the cell that was stored under a name, or None if that is no cell."""
        cell = stored_cell(name, stored)
        return None if cell is None else cls.made(name, cell)

    @classmethod
    def made(cls, name: str, cell: dict[str, Any]) -> "Cell":
        """Return the cell of what `runs.cells` read."""
        low, high = cell.pop("ci_low"), cell.pop("ci_high")
        return cls(name=name, low=low, high=high, **{**cell, "method": str(cell["method"] or "")})


@dataclass(frozen=True, kw_only=True)
class Block:
    """The cells of one scorer on one slice."""

    slice: str
    scorer: str
    n: int | None
    n_positive: int | None
    cells: Mapping[str, Cell]
    skipped: str = ""
    """Why the scorer has no cells here; empty where it has."""
    error: str = ""
    """What the scorer raised, where it did."""


def blocks_of(run: Run, by_slice: Mapping[str, Any] | None = None) -> list[Block]:
    """Return every slice and scorer of a run, in the order they were stored.

    Parameters
    ----------
    run : Run
        Of any kind.
    by_slice : mapping, optional
        Parts of the run to read in the place of its slices: strata, or the slices of a fold.
    """
    slices = run.results.get("by_slice") if by_slice is None else by_slice
    return list(_blocks(slices or {}, stated_in(run)))


def _as_stated(cell: Cell, stated: Mapping[str, bool]) -> Cell:
    """Return the cell in the direction that the run's manifest states, where it does."""
    told = stated_by(stated, {}, cell.name)
    return replace(cell, details={**cell.details, "higher_is_better": told[0]}) if told else cell


def _blocks(by_slice: Mapping[str, Any], stated: Mapping[str, bool]) -> Iterator[Block]:
    for slice_name, part in by_slice.items():
        if not isinstance(part, Mapping):
            continue
        for scorer, block in (part.get("by_scorer") or {}).items():
            if not isinstance(block, Mapping):
                continue
            found = (Cell.of(str(name), stored) for name, stored in block.items())
            skipped, error = block.get("skipped"), block.get("error")
            yield Block(
                slice=str(slice_name),
                scorer=str(scorer),
                n=part.get("n"),
                n_positive=part.get("n_positive"),
                cells={cell.name: _as_stated(cell, stated) for cell in found if cell is not None},
                skipped=skipped if isinstance(skipped, str) else "",
                error=error if isinstance(error, str) else "",
            )


def main_cell(block: Block) -> Cell | None:
    """Return the cell people ask for first.

    Parameters
    ----------
    block : Block
        The cells of one scorer on one slice.

    Returns
    -------
    Cell or None
        One with a value where there is any; None where the scorer has no cell.

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
        # Where a budget ended conversations, the last turn that all were seen in says most.
        by_turn = sorted(filter(_BY_TURN.fullmatch, cells), key=lambda name: -int(name[15:]))
        others = [cells[name] for name in (*by_turn, *_REFUSALS) if name in cells]
    ok = [cell for cell in (*named, *others) if cell.has_value]
    return next(iter([*ok, *named, *cells.values()]), None)


def leading(blocks: Sequence[Block]) -> list[tuple[Block, Cell]]:
    """Return the metric that speaks for a slice, of every scorer that has a value of it.

    Parameters
    ----------
    blocks : sequence of Block
        The scorers of one slice.

    Returns
    -------
    list of (Block, Cell)
        The best first; in the order of the results where nothing says what is better.
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
    """Order cells by how much they say: those with a value, then what people ask for first."""
    place = _FIRST.index(cell.name) if cell.name in _FIRST else len(_FIRST)
    return not cell.has_value, place


def fitted_on(run: Run) -> set[str]:
    """Return the slices that thresholds were chosen on: what is measured there flatters itself."""
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
    """Return the cells that speak for the whole run, of every scorer.

    That is the slice of all rows, else of test rows, else the first one with the metric that people
    ask for first; none that thresholds were chosen on. Of a run over folds the means over them.
    """
    from eval_toolkit.report.folds import fold_means  # which is made of cells

    by_slice: dict[str, list[Block]] = {}
    for block in blocks_of(run) or fold_means(run):
        by_slice.setdefault(block.slice, []).append(block)
    fitted = fitted_on(run)
    free = [name for name in by_slice if name not in fitted] or list(by_slice)
    named = [name for name in ("all", "test") if name in free]

    def need(name: str) -> tuple[bool, int]:
        found = leading(by_slice[name])
        return _need(found[0][1]) if found else (True, 0)

    return by_slice[named[0] if named else min(free, key=need)] if by_slice else []


def main_block(run: Run) -> Block | None:
    """Return the cells of one scorer that speak for the whole run: the first with the main metric."""
    blocks = main_blocks(run)
    known = {block.scorer for block, _ in leading(blocks)}
    return next(iter([*(b for b in blocks if b.scorer in known), *blocks]), None)
