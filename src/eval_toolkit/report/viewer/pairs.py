"""Join of the common units of two runs, which is computed once and shown in pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.tables.sources import quoted
from eval_toolkit.analysis.units import are_right, right_or_wrong
from eval_toolkit.errors import ArtifactError
from eval_toolkit.report.viewer.store import Store, pattern

CASES = ("a", "b", "both", "neither", "equal", "none")
"""Only A right (or better), only B, both, neither, equal values, or a missing value."""
_JOIN_S = 30.0
_AT_MOST = 5_000_000
"""Maximum number of pairs; a larger join would exceed the viewer's memory limit."""


@dataclass(frozen=True)
class Side:
    """Records of one run that take part in a comparison."""

    table: Path
    slice: str
    scorer: str
    column: str
    label: str | None = None


@dataclass(frozen=True)
class Rule:
    """Rule that defines which values are right.

    Parameters
    ----------
    kind : {"threshold", "binary", "graded", "apart"}
        "threshold": a score on its label's side of the threshold is right. "binary": 1 is right, or
        0 if lower is better. "graded": the better value wins, or the higher one if the direction
        is unknown. "apart": values of different columns are not compared.
    threshold : float
        Decision threshold of kind "threshold".
    higher : bool, optional
        Whether higher is better; None if unknown.
    """

    kind: str
    threshold: float = 0.5
    higher: bool | None = True

    @property
    def cases(self) -> tuple[str, ...]:
        """Cases that this rule distinguishes."""
        if self.kind == "apart":
            return ()
        return ("a", "b", "equal", "none") if self.kind == "graded" else (*CASES[:4], "none")


@dataclass(frozen=True, eq=False)
class Joined:
    """Common records of two runs in A's order, with the values of both."""

    rows_a: NDArray[np.int32]
    rows_b: NDArray[np.int32]
    values_a: NDArray[np.float64]
    """Values of A; NaN if missing."""
    values_b: NDArray[np.float64]
    labels: NDArray[np.int8] | None
    """Labels of A; -1 if missing."""
    others: NDArray[np.bool_]
    """Whether the records have equal ids but different content."""
    n_only_a: int
    n_only_b: int

    def __len__(self) -> int:
        return len(self.rows_a)

    @property
    def nbytes(self) -> int:
        """Memory used in bytes, including the rows sorted by difference."""
        return 34 * len(self)

    @cached_property
    def is_binary(self) -> bool:
        """Whether every value is 0 or 1."""
        sides = (self.values_a, self.values_b)
        return all(right_or_wrong(values[~np.isnan(values)]) for values in sides)

    @cached_property
    def by_difference(self) -> NDArray[np.int32]:
        """Positions sorted by difference, largest first."""
        apart = -np.abs(self.values_a - self.values_b)  # NaN sorts last
        return np.argsort(apart, kind="stable").astype(np.int32)

    def cases(self, rule: Rule) -> NDArray[np.int8]:
        """Return the case of every pair, as an index into `CASES`."""
        a, b = self.values_a, self.values_b
        found = np.full(len(self), CASES.index("none"), dtype=np.int8)
        known = ~(np.isnan(a) | np.isnan(b))
        if rule.kind == "apart":
            return found
        if rule.kind == "graded":
            more, less = (a < b, a > b) if rule.higher is False else (a > b, a < b)
            found[known & more] = CASES.index("a")
            found[known & less] = CASES.index("b")
            found[known & (a == b)] = CASES.index("equal")
            return found
        right_a, right_b = self._right(a, rule), self._right(b, rule)
        if self.labels is not None and rule.kind == "threshold":
            known &= self.labels >= 0
        for case, fits in (
            ("a", right_a & ~right_b),
            ("b", right_b & ~right_a),
            ("both", right_a & right_b),
            ("neither", ~right_a & ~right_b),
        ):
            found[known & fits] = CASES.index(case)
        return found

    def _right(self, values: NDArray[np.float64], rule: Rule) -> NDArray[np.bool_]:
        if rule.kind == "threshold" and self.labels is not None:
            return are_right(values, self.labels == 1, rule.threshold)
        return are_right(values, rule.higher is not False)

    def places(
        self,
        cases: NDArray[np.int8],
        case: str,
        *,
        within: tuple[Sequence[int], Sequence[int]] | None = None,
        by_difference: bool = False,
    ) -> NDArray[np.int32]:
        """Return the positions of the matching pairs, in display order.

        An unknown ``case`` selects all pairs. ``within`` contains rows of A and rows of B; a pair
        matches if either of its rows is included. Pairs are in the order of A, or sorted by
        difference, largest first.
        """
        keep = np.ones(len(self), dtype=np.bool_)
        if case in CASES:
            keep &= cases == CASES.index(case)
        if within is not None:
            keep &= _among(self.rows_a, within[0]) | _among(self.rows_b, within[1])
        if by_difference:
            return self.by_difference[keep[self.by_difference]]
        return np.flatnonzero(keep).astype(np.int32)


def _among(rows: NDArray[np.int32], wanted: Sequence[int]) -> NDArray[np.bool_]:
    """Return which rows are included, using a lookup table instead of sorting."""
    if isinstance(wanted, range):
        return np.asarray((rows >= wanted.start) & (rows < wanted.stop))
    numbers = np.asarray(wanted, dtype=np.int64)
    marked = np.zeros(max(int(rows.max(initial=0)), int(numbers.max(initial=0))) + 1, np.bool_)
    marked[numbers] = True
    return np.asarray(marked[rows])


def joined(store: Store, a: Side, b: Side) -> Joined:
    """Return the records that two runs have in common, matched by unit and attempt.

    Pairs are in the order of A's table. Raises if there are too many.
    """
    labelled = a.label is not None and b.label is not None
    sides = [_selected(side, labelled) for side in (a, b)]
    selected = "a.row AS rows_a, b.row AS rows_b, a.v AS values_a, b.v AS values_b, "
    selected += "(a.content <> b.content AND a.content <> 0 AND b.content <> 0) AS others"
    if labelled:
        selected += ", a.label AS labels, coalesce(a.label <> b.label, false) AS relabelled"
    found = store.table(
        a.table,
        f"SELECT {selected} FROM ({sides[0][0]}) a JOIN ({sides[1][0]}) b "  # noqa: S608
        f"ON a.unit_id = b.unit_id AND a.attempt = b.attempt LIMIT {_AT_MOST + 1}",
        [*sides[0][1], *sides[1][1]],
        limit_s=_JOIN_S,
    )
    if len(found["rows_a"]) > _AT_MOST:
        raise ArtifactError(
            f"the runs have more than {_AT_MOST:,} pairs of records in common, too many to show"
        )
    counts = [_count(store, side) for side in (a, b)]
    return _ordered(found, counts)


def _selected(side: Side, labelled: bool) -> tuple[str, list[Any]]:
    """Return the SQL for the records of one side and its parameters; column names are quoted."""
    column = quoted(side.column)
    label = ""
    if labelled and side.label is not None:
        state = quoted(f"{side.label}.status")
        label = f", CASE WHEN {state} = 'ok' THEN TRY_CAST({quoted(side.label)} AS TINYINT) END AS label"
    sql = (
        "SELECT file_row_number AS row, unit_id, attempt, "  # noqa: S608
        "CASE WHEN content_hash <> '' THEN hash(content_hash) ELSE 0 END AS content, "
        f"CASE WHEN {quoted(f'{side.column}.status')} = 'ok' THEN {column} END AS v{label} "
        "FROM read_parquet(?, file_row_number = true, hive_partitioning = false) WHERE slice = ? AND scorer = ?"
    )
    return sql, [pattern(side.table), side.slice, side.scorer]


def _count(store: Store, side: Side) -> int:
    sql = "SELECT count(*) FROM read_parquet(?, hive_partitioning = false) WHERE slice = ? AND scorer = ?"
    found = store.query(side.table, sql, [pattern(side.table), side.slice, side.scorer])
    return int(found[0][0])


def _ordered(found: Mapping[str, Any], counts: Sequence[int]) -> Joined:
    def numbers(name: str) -> NDArray[np.float64]:
        values = _filled(found[name], np.nan, np.float64)
        return np.asarray(np.where(np.isinf(values), np.nan, values)[order])

    rows = _filled(found["rows_a"], 0, np.int32)
    order = np.argsort(rows, kind="stable")
    others = _filled(found["others"], False, np.bool_)
    labels = None
    if "labels" in found:
        others |= _filled(found["relabelled"], False, np.bool_)
        labels = _filled(found["labels"], -1, np.int8)[order]
    rows_b = _filled(found["rows_b"], 0, np.int32)[order]
    return Joined(
        rows_a=rows[order],
        rows_b=rows_b,
        values_a=numbers("values_a"),
        values_b=numbers("values_b"),
        labels=labels,
        others=others[order],
        n_only_a=counts[0] - _n_distinct(rows),
        n_only_b=counts[1] - _n_distinct(rows_b),
    )


def _filled(column: Any, absent: Any, kind: Any) -> NDArray[Any]:
    """Return a duckdb column with missing values filled."""
    return np.asarray(np.ma.filled(np.ma.asarray(column).astype(kind), absent))


def _n_distinct(rows: NDArray[np.int32]) -> int:
    marked = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.bool_)
    marked[rows] = True
    return int(marked.sum())
