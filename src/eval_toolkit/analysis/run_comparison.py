"""`RunComparison`: differences between two runs, one cell per slice, part, scorer and metric."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.display import CellLike, Estimate, Number, Status, Table, Tabled
from eval_toolkit.analysis.configs import ConfigDifference
from eval_toolkit.analysis.differences import RunDifference
from eval_toolkit.analysis.directions import direction_hint
from eval_toolkit.errors import MissingColumnError
from eval_toolkit.runs.addresses import Address, written
from eval_toolkit.scorecards.parts import SLICE, WHOLE, format_part, parse_part


@dataclass(frozen=True, slots=True, repr=False)
class RunComparison(Tabled):
    """Comparison of two runs: one cell per slice, part, scorer and metric.

    Examples
    --------
    >>> from eval_toolkit import Records
    >>> from eval_toolkit.analysis import compare_records
    >>> a = Records.from_columns({"correct": [0, 1, 0, 1, 0]}, unit_id=list("vwxyz"))
    >>> b = Records.from_columns({"correct": [1, 1, 1, 1, 1]}, unit_id=list("zyxwv"))
    >>> compare_records({"all": a}, {"all": b}, ["correct"])["correct"].delta
    0.6
    """

    run_a: str
    """Name of A: its run id, followed by a setting that differs if both ids are equal."""
    run_b: str
    cells: tuple[RunDifference, ...]
    adjust: str
    """Correction of the p-values for the number of metrics and slices."""
    confidence: float
    seed: int
    only_in_a: tuple[tuple[str, str], ...] = ()
    """Pairs (slice, scorer) of A without a counterpart in B."""
    only_in_b: tuple[tuple[str, str], ...] = ()
    version_changes: Mapping[str, tuple[str | None, str | None]] | None = None
    """Objects with different versions and rollout settings that differ, if this was allowed."""
    config_differences: tuple[ConfigDifference, ...] = ()
    """Settings in which the runs differ: model, prompts, decoding, data."""
    notes: tuple[str, ...] = ()
    """Notes that qualify the differences."""

    def __getitem__(
        self, key: str | tuple[str, str, str] | tuple[str, str, str, str]
    ) -> RunDifference:
        """Return the cell at an address, or at (slice, scorer, metric) or (slice, part, …)."""
        if isinstance(key, str):
            return self._at(key)
        names = (key[0], WHOLE, *key[1:]) if len(key) == 3 else key
        for cell in self.cells:
            if (cell.slice, cell.part, cell.scorer, cell.metric) == names:
                return cell
        raise MissingColumnError(f"the comparison has no {key!r}; it has {self._have()}")

    def _at(self, address: str) -> RunDifference:
        named = {cell.metric for cell in self.cells}
        requested = Address(address) if address in named else Address.parse(address)
        pairs = dict(requested.part or {})
        found = [
            cell
            for cell in self.cells
            if cell.metric == requested.metric
            and requested.system in (None, cell.scorer)
            and pairs in (own := parse_part(cell.part), {SLICE: cell.slice, **own})
        ]
        if len(found) == 1:
            return found[0]
        why = "several cells for" if found else "no"
        raise MissingColumnError(f"the comparison has {why} {address!r}; it has {self._have()}")

    def _have(self) -> str:
        return ", ".join(repr(self.address(cell)) for cell in self.cells) or "no cells"

    def place(self, cell: RunDifference) -> str:
        """Return the display name of a slice, or of a part within it."""
        if cell.part == WHOLE:
            return cell.slice
        several = len({one.slice for one in self.cells}) > 1
        return f"{format_part({SLICE: cell.slice})}&{cell.part}" if several else cell.part

    def address(self, cell: RunDifference) -> str:
        """Return the address of a cell, ``metric @ part / scorer of A``."""
        several = len({one.slice for one in self.cells}) > 1
        part = format_part({SLICE: cell.slice}) if several else cell.part
        part = f"{part}&{cell.part}" if several and cell.part != WHOLE else part
        return written(cell.metric, part, cell.scorer or None)

    def __len__(self) -> int:
        return len(self.cells)

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict per cell."""
        return [cell.to_dict() for cell in self.cells]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "run_a": self.run_a,
            "run_b": self.run_b,
            "adjust": self.adjust,
            "confidence": self.confidence,
            "seed": self.seed,
            "cells": self.rows(),
            "only_in_a": [list(subject) for subject in self.only_in_a],
            "only_in_b": [list(subject) for subject in self.only_in_b],
            "version_changes": {
                name: list(pair) for name, pair in (self.version_changes or {}).items()
            },
            "config_differences": [one.to_dict() for one in self.config_differences],
            "notes": list(self.notes),
        }

    @property
    def left_out(self) -> tuple[str, ...]:
        """Describe which units were not compared, for each slice and scorer."""
        return tuple(
            dict.fromkeys(
                f"{in_words(cell.slice, cell.part, cell.scorer)}: left out {cell.n_only_a} units only in A, {cell.n_only_b} only in B, "
                f"{cell.n_mismatched} that differ"
                for cell in self.cells
                if cell.n_only_a or cell.n_only_b or cell.n_mismatched
            )
        )

    @property
    def undirected(self) -> tuple[str, ...]:
        """Describe the metrics that differ but have no known direction."""
        names = dict.fromkeys(cell.metric for cell in self.cells if cell.verdict == "different")
        return (direction_hint([*names]),) if names else ()

    @property
    def without_value(self) -> tuple[str, ...]:
        """Describe the cells in which units failed or were skipped."""
        metrics: dict[str, list[str]] = {}
        for cell in self.cells:
            if cell.n_failed and cell.n_units:
                metrics.setdefault(
                    f"{in_words(cell.slice, cell.part, cell.scorer)}: {_absent(cell)}", []
                ).append(cell.metric)
        return tuple(f"{line} ({', '.join(names)})" for line, names in metrics.items())

    def _as_table(self) -> Table:
        header = ["slice", "part", "scorer", "metric", "A", "B", "B − A"]
        header += [f"{100 * self.confidence:g} %", "p, adjusted", "units", "verdict", "reason"]
        sides = [f"A is {self.run_a}, B is {self.run_b}"]
        if self.adjust != "none":
            sides.append(f"p-values corrected for the number of metrics and slices ({self.adjust})")
        counted = (*self.left_out, *self.without_value, *self.undirected)
        differ = [
            f"{one.what}: {a} in A, {b} in B"
            for one in self.config_differences
            for a, b in [one.shown()]
        ]
        return Table(header, map(_line, self.cells), notes=[*sides, *differ, *self.notes, *counted])


def _line(cell: RunDifference) -> list[CellLike]:
    return [
        *(cell.slice, cell.part, cell.scorer, cell.metric),
        *(Number(cell.value_a), Number(cell.value_b)),
        *Estimate(cell.delta, cell.ci_low, cell.ci_high, "+").split(),
        Number(cell.p_adjusted, "p"),
        cell.n_units,
        Status(cell.verdict),
        cell.reason,
    ]


def in_words(slice_name: str, part: str, scorer: str) -> str:
    """Describe a slice, part and scorer.

    Examples
    --------
    >>> in_words("quiz", "subject=Africa", "m")
    "slice 'quiz', part 'subject=Africa', scorer 'm'"
    """
    inside = "" if part == WHOLE else f", part {part!r}"
    return f"slice {slice_name!r}{inside}" + (f", scorer {scorer!r}" if scorer else "")


def _absent(cell: RunDifference) -> str:
    """Describe in which run units have no value; units without a value in both count for A."""
    in_a, in_b = cell.n_failed - cell.n_lost, cell.n_lost
    if not in_a:
        return f"{in_b} units have no value in B"
    return f"{in_a} units have no value in A" + (
        f" and {in_b} others have none in B" if in_b else ""
    )
