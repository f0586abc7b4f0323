"""Verdicts on records, and the order in which records are listed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.tables.sources import literal, quoted
from eval_toolkit.analysis.units import are_right, right_or_wrong
from eval_toolkit.report.cells import blocks_of
from eval_toolkit.report.scored_rows import stored_points
from eval_toolkit.report.viewer.pairs import Rule
from eval_toolkit.report.viewer.records import FROM, Shape
from eval_toolkit.report.viewer.store import Store, pattern
from eval_toolkit.runs import Run

VERDICTS = ("error", "wrong", "right", "")
"""Possible verdicts: a failed measurement, a wrong value, a right value, and none."""
DISAGREE = "disagree"
_ERROR, _WRONG, _RIGHT, _NONE = range(4)
_READ_S = 30.0
_GRADER = "grader:"
"""Prefix of grader names among the versioned objects of a manifest."""


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Verdicts on the records of a run, by record number."""

    column: str
    """Measured column that determines the verdict; "" if there is none."""
    rule: Rule
    codes: NDArray[np.int8]
    """Verdict of each record, as an index into `VERDICTS`."""
    differ: NDArray[np.bool_]
    """Whether the scorers, attempts or graders of each record's unit disagree."""
    order: NDArray[np.int32]
    """Record numbers, most informative first."""
    graders: tuple[str, ...] = ()
    """Columns of graders."""

    @property
    def nbytes(self) -> int:
        """Memory used, in bytes."""
        return self.codes.nbytes + self.differ.nbytes + self.order.nbytes

    def of(self, row: int) -> list[str]:
        """Return the verdict on a record, followed by `DISAGREE` if it applies."""
        found = [VERDICTS[self.codes[row]], DISAGREE if self.differ[row] else ""]
        return [name for name in found if name]

    def counts(self, rows: Sequence[int]) -> dict[str, int]:
        """Return the number of records with each verdict that occurs."""
        some = self._at(rows)
        n = np.bincount(self.codes[some], minlength=len(VERDICTS))
        found = {name: int(n[at]) for at, name in enumerate(VERDICTS) if name}
        found[DISAGREE] = int(np.count_nonzero(self.differ[some]))
        return {name: count for name, count in found.items() if count}

    def among(self, rows: Sequence[int], name: str) -> Sequence[int]:
        """Return the records with a given verdict; all records for an unknown name."""
        if name not in (*VERDICTS[:_NONE], DISAGREE):
            return rows
        some = self._at(rows)
        keep = self.differ[some] if name == DISAGREE else self.codes[some] == VERDICTS.index(name)
        numbers: Sequence[int] = np.arange(len(self.codes), dtype=np.int32)[some][keep]
        return numbers

    def ranked(self, rows: Sequence[int]) -> Sequence[int]:
        """Return records sorted by how informative they are, most informative first."""
        marked = np.zeros(len(self.codes), dtype=np.bool_)
        marked[self._at(rows)] = True
        numbers: Sequence[int] = self.order[marked[self.order]]  # type: ignore[assignment]
        return numbers

    @staticmethod
    def _at(rows: Sequence[int]) -> Any:
        return slice(rows.start, rows.stop) if isinstance(rows, range) else rows


def main_column(shape: Shape, main: str) -> str:
    """Return the column of a metric, else the score or the first numeric column; "" if none."""
    numbers = [name for name in shape.numbers if name != "label"]
    # Metrics such as pass@k are named after their column.
    named = [name for name in numbers if main.startswith((f"{name}_", f"{name}@"))]
    return next((name for name in (main, *named, "score", *numbers) if name in shape.numbers), "")


def verdicts_of(store: Store, shape: Shape, run: Run, main: str) -> Verdicts:
    """Return the verdicts on the records of a run.

    A score is right if it is on its label's side of the stored threshold, or of 0.5 for
    probabilities. Values of 0 and 1 are right or wrong if the direction is known. Other values have
    no verdict and are sorted worst first.

    ``main`` is the name of the main metric. Raises `TooLongError` if reading took too long.
    """
    column = main_column(shape, main)
    up = {
        name: cell.higher_is_better
        for block in blocks_of(run)
        for name, cell in block.cells.items()
    }
    graders = _graders(run, shape, up)
    # Ids of a million records take longer than everything else: read them only if units repeat.
    last_attempt = f"SELECT max(TRY_CAST(attempt AS BIGINT)) FROM {FROM}"  # noqa: S608
    ((last,),) = store.query(shape.path, last_attempt, [pattern(shape.path)])
    several = len(shape.values["scorer"]) != 1 or (last or 1) > 1
    unit = "hash(slice, unit_id)" if several else "file_row_number"
    found = store.table(
        shape.path,
        f"SELECT {_selected(shape, column, graders)}, {unit} AS unit FROM {FROM}",  # noqa: S608
        [pattern(shape.path)],
        limit_s=_READ_S,
    )
    values = _floats(found["value"])
    labels = _floats(found["label"])
    codes, rule, surprise = _decided(run, shape, column, up.get(column), values, labels, found)
    codes[np.asarray(found["failed"])] = _ERROR
    differ = np.ma.filled(np.ma.asarray(found["graders_differ"]), False).astype(np.bool_)
    if several:
        differ |= _several(codes, found["unit"])
    return Verdicts(column, rule, codes, differ, _order(codes, differ, surprise), tuple(graders))


def _graders(run: Run, shape: Shape, up: Mapping[str, bool | None]) -> dict[str, bool]:
    """Return grader columns that can determine the verdict, with their directions."""
    versioned = run.manifest.get("versioned_objects")
    named = [str(name).removeprefix(_GRADER) for name in versioned or () if _GRADER in str(name)]
    return {
        name: higher
        for name in named
        if (higher := up.get(name)) is not None and name in shape.numbers
    }


def _selected(shape: Shape, column: str, graders: Mapping[str, bool]) -> str:
    """Return SQL that selects the values that determine the verdict, with quoted column names."""

    def known(name: str) -> str:
        stored = shape.numbers.get(name)
        return (
            "NULL"
            if stored is None
            else (f"CASE WHEN {quoted(f'{stored}.status')} = 'ok' THEN {quoted(stored)} END")
        )

    states = [quoted(f"{stored}.status") for stored in shape.columns.values()]
    failed = " OR ".join(f"coalesce({state} = 'error', false)" for state in states) or "false"
    # A grade between 0 and 1 is no verdict.
    sides = [
        f"CASE {known(name)} WHEN {int(higher)} THEN 1 WHEN {int(not higher)} THEN 0 END"
        for name, higher in graders.items()
    ]
    differ = (
        f"greatest({', '.join(sides)}) <> least({', '.join(sides)})" if len(sides) > 1 else "false"
    )
    scorers = shape.values["scorer"]
    listed = f"list_position([{', '.join(map(literal, scorers))}], scorer)" if scorers else "0"
    return (
        f"TRY_CAST({known(column)} AS DOUBLE) AS value, "
        f"TRY_CAST({known('label')} AS DOUBLE) AS label, "
        f"TRY_CAST({known('margin')} AS DOUBLE) AS margin, {failed} AS failed, "
        f"coalesce({differ}, false) AS graders_differ, coalesce({listed}, 0)::INTEGER AS scorer"
    )


def _floats(column: Any) -> NDArray[np.float64]:
    return np.asarray(np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan))


def _decided(
    run: Run,
    shape: Shape,
    column: str,
    up: bool | None,
    values: NDArray[np.float64],
    labels: NDArray[np.float64],
    found: Mapping[str, Any],
) -> tuple[NDArray[np.int8], Rule, NDArray[np.float64]]:
    """Return the verdict codes, the rule, and the severity of each error (larger is worse)."""
    codes = np.full(len(values), _NONE, dtype=np.int8)
    known = ~np.isnan(values)
    if column == "score" and "label" in shape.numbers:
        cuts = _thresholds(run, shape, values)[np.asarray(found["scorer"])]
        known &= ~(np.isnan(labels) | np.isnan(cuts))
        right = np.asarray((values >= cuts) == (labels == 1))
        codes[known] = np.where(right[known], _RIGHT, _WRONG)
        thresholds = set(cuts[known].tolist())
        rule = Rule("threshold", thresholds.pop() if len(thresholds) == 1 else np.nan)
        return codes, rule, np.where(right, -1.0, 1.0) * np.abs(values - cuts)
    if up is not None and known.any() and right_or_wrong(values[known]):
        right = are_right(values, up)
        codes[known] = np.where(right[known], _RIGHT, _WRONG)
        return (
            codes,
            Rule("binary", higher=up),
            np.where(right, -1.0, 1.0) * _floats(found["margin"]),
        )
    return codes, Rule("graded", higher=up), values if up is False else -values


def _thresholds(run: Run, shape: Shape, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the threshold of each scorer, indexed from 1; NaN if it has none."""
    known = values[~np.isnan(values)]
    usual = 0.5 if bool(((known >= 0) & (known <= 1)).all()) else np.nan
    found = [np.nan]
    for scorer in shape.values["scorer"]:
        points = stored_points(run, scorer)
        found.append(points[0].threshold if points else usual)
    return np.array(found)


def _several(codes: NDArray[np.int8], units: Any) -> NDArray[np.bool_]:
    """Return which records belong to units with both right and wrong records."""
    _, unit = np.unique(np.asarray(units), return_inverse=True)
    mixed = (np.bincount(unit, codes == _WRONG) > 0) & (np.bincount(unit, codes == _RIGHT) > 0)
    return np.asarray(mixed[unit] & (codes != _NONE))


def _order(
    codes: NDArray[np.int8], differ: NDArray[np.bool_], surprise: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Return record numbers: errors, wrong, disagreements, graded, right, then the rest."""
    rank = np.array([0, 1, 4, 3], dtype=np.int8)[codes]
    rank[differ & (codes == _RIGHT)] = 2
    rank[(codes == _NONE) & np.isnan(surprise)] = 5
    return np.lexsort((-np.nan_to_num(surprise, nan=0.0), rank)).astype(np.int32)
