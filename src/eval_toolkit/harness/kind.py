"""Evaluation kind in which scorers score the rows of slices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit.harness.core import Part, ScoredPart, measure_part
from eval_toolkit.runs.blocks import Block
from eval_toolkit.runs.kind_display import Words
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.selected_units import StoredUnit
from eval_toolkit.runs.unit_display import input_blocks
from eval_toolkit.runs.units import Unit


@dataclass(frozen=True)
class RowsKind(Kind[ScoredPart]):
    """Rows of slices, scored by every scorer."""

    settings: Mapping[str, Any]
    score_all: Callable[[], ScoredPart] = field(repr=False)
    """Function that scores the rows; called once."""

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
        """Return the settings stored in the run's configuration."""
        return self.settings

    def units(self) -> Sequence[Unit]:
        """Return an empty list: rows are identified by their records."""
        return ()

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        """Return the content of a row with its label and score, for display."""
        return input_blocks(unit, "Content of the row")

    @classmethod
    def not_known(cls, config: Mapping[str, Any]) -> Sequence[str]:
        """Return what the run does not measure: performance on other data."""
        return ["how the scorers perform on data unlike these rows"]

    def produce(self, context: Any) -> ScoredPart:
        """Score the rows."""
        return self.score_all()

    def grade(self, attempts: ScoredPart) -> Graded:
        """Compute the metrics of every slice."""
        part = measure_part(attempts)
        return graded_rows(part, part.by_slice, {"threshold_policy": part.threshold_policy})


def graded_rows(part: Part, by_slice: Mapping[str, Any], extra: Mapping[str, Any]) -> Graded:
    """Return the records and results of scored rows."""
    failed = [side.status["score"] == "error" for side in part.records.values()]
    return Graded(
        subjects=part.records,
        cards=part.cards,
        by_slice=by_slice,
        n_errors=sum(int(rows.sum()) for rows in failed),
        extra=extra,
    )
