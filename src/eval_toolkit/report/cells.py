"""The cells of a stored run, whatever wrote them: results.json may hold cells or bare numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit.runs import Run

__all__ = ["Block", "Cell", "blocks_of", "main_block", "main_blocks"]

_NOT_METRICS = frozenset(
    {"n", "n_positive", "is_single_class", "headline", "scores", "scores_calibrated", "skipped"}
)


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
    n_units: int | None = None
    n_groups: int | None = None
    n_errors: int = 0
    n_skipped: int = 0
    higher_is_better: bool | None = None
    details: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, stored: Any) -> "Cell | None":
        """Return the cell that was stored under a name, or None if that is no cell."""
        if isinstance(stored, bool) or name in _NOT_METRICS:
            return None
        if isinstance(stored, int | float):
            return cls(name=name, value=float(stored), details={})
        if not isinstance(stored, Mapping) or "status" not in stored:
            return None
        ci = stored.get("ci") or {}
        details = stored.get("details") or {}
        return cls(
            name=name,
            value=stored.get("value"),
            status=str(stored["status"]),
            reason=str(stored.get("reason") or ""),
            low=ci.get("ci_low"),
            high=ci.get("ci_high"),
            confidence=ci.get("confidence"),
            method=str(ci.get("method") or ""),
            n_units=stored.get("n_units"),
            n_groups=stored.get("n_groups"),
            n_errors=int(stored.get("n_errors") or 0),
            n_skipped=int(stored.get("n_skipped") or 0),
            higher_is_better=details.get("higher_is_better"),
            details=details,
        )


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


def blocks_of(run: Run) -> list[Block]:
    """Return every slice and scorer of a run, in the order they were stored."""
    return list(_blocks(run.results.get("by_slice") or {}))


def _blocks(by_slice: Mapping[str, Any]) -> Iterator[Block]:
    for slice_name, part in by_slice.items():
        if not isinstance(part, Mapping):
            continue
        for scorer, block in (part.get("by_scorer") or {}).items():
            if not isinstance(block, Mapping):
                continue
            found = (Cell.of(str(name), stored) for name, stored in block.items())
            skipped = block.get("skipped")
            yield Block(
                slice=str(slice_name),
                scorer=str(scorer),
                n=part.get("n"),
                n_positive=part.get("n_positive"),
                cells={cell.name: cell for cell in found if cell is not None},
                skipped=str(skipped) if isinstance(skipped, str) else "",
            )


def main_blocks(run: Run) -> list[Block]:
    """Return the cells that speak for the whole run, of every scorer.

    That is the slice of all rows, else the first slice; of a run over folds the means over them.
    """
    from eval_toolkit.report.folds import fold_blocks  # which is made of cells

    blocks = blocks_of(run) or fold_blocks(run)
    name = "all" if any(block.slice == "all" for block in blocks) else ""
    return [block for block in blocks if block.slice == (name or blocks[0].slice)]


def main_block(run: Run) -> Block | None:
    """Return the cells of the first scorer that speak for the whole run."""
    return next(iter(main_blocks(run)), None)
