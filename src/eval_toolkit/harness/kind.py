"""The kind of evaluation that scored rows are: scorers score slices, no model is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit.harness.core import Part, ScoredPart, measure_part
from eval_toolkit.runs.blocks import Block
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.selected_units import StoredUnit
from eval_toolkit.runs.showing import input_blocks
from eval_toolkit.runs.shown import Words
from eval_toolkit.runs.units import Unit

__all__ = ["RowsKind", "graded_rows"]


@dataclass(frozen=True)
class RowsKind(Kind[ScoredPart]):
    """Rows of slices, scored by every scorer."""

    settings: Mapping[str, Any]
    score_all: Callable[[], ScoredPart] = field(repr=False)
    """Scores the rows; called once."""

    name = "rows"
    asks = False
    words = Words(
        what="scores of rows",
        units="rows",
        attempt="row",
        counted="rows",
        count="",
        menu="",
        export="rows",
    )

    def config(self) -> Mapping[str, Any]:
        """Return what the numbers depend on."""
        return self.settings

    def units(self) -> Sequence[Unit]:
        """Return nothing: rows are known by their records."""
        return ()

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return what the row says; label and score are among its columns."""
        return input_blocks(unit, "What the row says")

    def produce(self, context: Any) -> ScoredPart:
        """Score the rows."""
        return self.score_all()

    def grade(self, attempts: ScoredPart) -> Graded:
        """Measure the scores on every slice."""
        part = measure_part(attempts)
        return graded_rows(part, part.by_slice, {"threshold_policy": part.threshold_policy})


def graded_rows(part: Part, by_slice: Mapping[str, Any], extra: Mapping[str, Any]) -> Graded:
    """Return the records and cells of scored rows."""
    failed = [side.status["score"] == "error" for side in part.records.values()]
    return Graded(
        subjects=part.records,
        cards=part.cards,
        by_slice=by_slice,
        n_errors=sum(int(rows.sum()) for rows in failed),
        extra=extra,
    )
