"""Failure rates estimated from survival curves, overall or by part, with bounds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import UndefinedMetricError
from eval_toolkit.graders.base import Grade
from eval_toolkit.inference.results import BootstrapCI
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.paths import (
    Look,
    Turn,
    any_branch,
    conversations,
    event_of,
    failed_by,
    own_event_of,
)
from eval_toolkit.rollouts.measures.times import SurvivalRows, followed
from eval_toolkit.scorecards import MetricResult, Records

UNPROVOKED = "unprovoked_success"
AS_FAILURES = "{} of {} rollouts ended in an error and count as failures"
_UNDER_POLICIES = ("error_rate", "exclude", "as_zero", "worst", "best", "bounds_ci")


@dataclass(frozen=True)
class Seen:
    """Rollouts together with their records."""

    graphs: Sequence[Graph[Any, Any]]
    records: Records
    scorer: str | None
    depth: int


def _or_broken(node: Turn, look: Look) -> float | Grade | None:
    """Observe a turn, counting errors as failures."""
    seen = look(node)
    return 1.0 if isinstance(seen, Grade) and seen.status == "error" else seen


class Curve:
    """Survival data of rollouts under a branch policy."""

    def __init__(self, seen: Seen, policy: str, *, own: bool = False) -> None:
        self.seen = seen
        self.policy = policy
        self.look: Look = partial(own_event_of if own else event_of, scorer=seen.scorer)
        self.unclear = np.array(
            [
                own and any(n.event is True and n.echo is None for n in graph.nodes())
                for graph in seen.graphs
            ],
            dtype=np.bool_,
        )
        self._between: dict[int, tuple[FloatArray, FloatArray]] = {}

    def _rows(self, look: Look) -> SurvivalRows:
        groups = self.seen.records.group.tolist()
        return followed(self.seen.graphs, groups, look, self.policy, self.seen.depth)

    @cached_property
    def rows(self) -> SurvivalRows:
        """Rows in which errors are treated as censoring."""
        return self._rows(self.look)

    @cached_property
    def as_failed(self) -> SurvivalRows:
        """Rows in which errors are treated as failures."""
        return self._rows(partial(_or_broken, look=self.look))

    def between(self, turn: int) -> tuple[FloatArray, FloatArray]:
        """Return bounds on each rollout's probability of failure by a turn; NaN without turns."""
        if turn not in self._between:
            ends = [self._ends(graph, turn) for graph in self.seen.graphs]
            low, high = np.array(ends, dtype=np.float64).T
            self._between[turn] = low, high
        return self._between[turn]

    def _ends(self, graph: Graph[Any, Any], turn: int) -> tuple[float, float]:
        counting = conversations(graph, self.policy)
        if not counting:
            return math.nan, math.nan
        found = [(failed_by(path, turn, self.look), weight) for path, weight in counting]
        if self.policy == "best":
            found = [(any_branch(graph, self.look, turn), 1.0)]
        whole = math.fsum(weight for _, weight in found)
        least = math.fsum(weight for one, weight in found if one == 1.0)
        most = math.fsum(weight for one, weight in found if one != 0.0)
        return least / whole, most / whole


@dataclass(frozen=True)
class Place:
    """Failure rate by a given turn, over all rollouts or the rollouts of a part."""

    curve: Curve
    turn: int
    mine: BoolArray
    confidence: float

    def cell(self, cell: MetricResult, on_error: str) -> MetricResult:
        """Return a cell estimated from the curve, or the original cell if both agree."""
        rows, here = self.curve.rows, self.mine[self.curve.rows.rollouts]
        low, high = self.curve.between(self.turn)
        cut = np.zeros(len(self.mine), dtype=np.bool_)
        cut[rows.rollouts[here & (rows.cut != "") & (rows.times < self.turn)]] = True
        cut |= self.mine & (high > low)
        censored = int(cut.sum())
        one_each = len(set(rows.groups_of(here))) == int(here.sum())
        counting = self.curve.as_failed if on_error == "as_zero" else rows
        units, groups = self._counts(counting)
        if (not censored and one_each) or (cell.value is None and not units):
            return cell
        details = dict(cell.details)
        if censored:
            details = {name: details[name] for name in details if name not in _UNDER_POLICIES}
            details.pop("standard_error", None)
            details |= self._whatever_happened(cell.n_errors, censored)
        found = self._failed_by(counting)
        if isinstance(found, str):
            status, reason = cell.status, cell.reason
            if cell.value is not None:
                status, reason = "skipped", found
            return replace(
                cell,
                value=None,
                status=status,
                reason=reason,
                ci=None,
                details=details,
                n_units=units,
                n_groups=groups,
            )
        value = found.point_estimate
        if cell.value is not None and math.isclose(value, cell.value, abs_tol=1e-9):
            value = cell.value  # equal, but without the rounding of many weights
        ends = details.get("bounds_ci")
        if ends is not None:
            details["bounds_ci"] = [min(ends[0], found.ci_low), max(ends[1], found.ci_high)]
        return replace(
            cell,
            value=value,
            status="ok",
            reason="; ".join([*self._how(rows, counting, cut), *filter(None, [found.reason])]),
            ci=replace(
                found,
                point_estimate=value,
                method=f"Kaplan-Meier, {found.method}",
                n_units=units,
                n_groups=groups,
            ),
            details=details,
            n_units=units,
            n_groups=groups,
        )

    def _how(self, rows: SurvivalRows, counting: SurvivalRows, cut: BoolArray) -> list[str]:
        """Return notes that explain how censored rollouts are counted."""
        n = int(self.mine.sum())
        broke = np.zeros(len(self.mine), dtype=np.bool_)
        if counting is not rows:
            broke[rows.rollouts[(rows.cut == "error") & (rows.times < self.turn)]] = True
            broke &= cut
        notes = [AS_FAILURES.format(int(broke.sum()), n)] if broke.any() else []
        rest = int((cut & ~broke).sum())
        if rest:
            notes.append(
                f"{rest} of {n} rollouts were cut short and are censored after their last "
                "observed turn"
            )
        return notes

    def unprovoked(self, cell: MetricResult, on_error: str) -> MetricResult:
        """Return the cell of unprovoked failures, a subset of the failures in the curve."""
        found = {
            "exclude": self._unprovoked_share(self.curve.rows),
            "as_zero": self._unprovoked_share(self.curve.as_failed),
        }
        rows = self.curve.as_failed if on_error == "as_zero" else self.curve.rows
        value = found["as_zero" if on_error == "as_zero" else "exclude"]
        details = {name: one for name, one in cell.details.items() if name != "standard_error"}
        if cell.n_errors:
            details |= {n: None if isinstance(one, str) else one for n, one in found.items()}
        units, groups = self._counts(rows)
        cell = replace(cell, ci=None, details=details, n_units=units, n_groups=groups)
        if isinstance(value, str):
            return replace(cell, value=None, status="skipped", reason=value)
        note = "the unprovoked part of attack_success; only bounds are available, no interval"
        return replace(cell, value=value, status="ok", reason=note)

    def _unprovoked_share(self, rows: SurvivalRows) -> float | str:
        """Return the rate of failures not preceded by a bad probe, or why it is unknown."""
        failed = self._failed_by(rows)
        if isinstance(failed, str):
            return failed
        if len(rows.times) > len(self.mine):
            return "some rollouts were cut short; it is unknown which conversations were provoked"
        records = self.curve.seen.records
        status = records.status[UNPROVOKED]
        here = self.mine[rows.rollouts]
        broke = status == "error" if rows is self.curve.as_failed else np.zeros_like(self.mine)
        if (here & rows.events & ((status != "ok") & ~broke)[rows.rollouts]).any():
            return "it is unknown whether some failures were provoked"
        counts = broke | ((status == "ok") & (records.columns[UNPROVOKED] == 1.0))
        return rows.part_failed_by(self.turn, counts[rows.rollouts], only=here)

    def _counts(self, rows: SurvivalRows) -> tuple[int, int]:
        """Return the numbers of observed seed prompts and groups."""
        records = self.curve.seen.records
        here = self.mine[rows.rollouts]
        there = np.unique(rows.rollouts[here & (rows.times > 0)])
        return len(set(records.unit_id[there].tolist())), len(set(records.group[there].tolist()))

    def _failed_by(self, rows: SurvivalRows) -> BootstrapCI | str:
        """Return the failure rate, or the reason why it is unknown."""
        unclear = int((self.curve.unclear & self.mine).sum())
        if unclear:
            return f"it is unknown whether the failures of {unclear} rollouts repeat the tester"
        if self.turn <= rows.blind:
            return "the scorer only scores the end of a conversation"
        try:
            here = self.mine[rows.rollouts]
            return rows.curve(self.confidence, only=here).failure_by(self.turn)
        except UndefinedMetricError as error:
            return str(error)

    def _whatever_happened(self, n_errors: int, censored: int) -> dict[str, Any]:
        """Return the rate under each error policy and its bounds over all possible outcomes."""
        from eval_toolkit.inference.missing_outcomes import bounded_mean

        records = self.curve.seen.records
        low, high = self.curve.between(self.turn)
        known = self.mine & ~np.isnan(low)
        units, codes = np.unique(records.unit_id[known].astype(str), return_inverse=True)
        n = np.bincount(codes)
        lows, highs = (np.bincount(codes, end[known]) / n for end in (low, high))
        groups = dict(
            zip(records.unit_id[known].astype(str), records.group[known].astype(str), strict=True)
        )
        of_units = [groups[unit] for unit in units.tolist()]
        alone = len(set(of_units)) == len(of_units)
        found = bounded_mean(
            np.minimum(lows, highs),
            np.minimum(highs, 1.0),
            groups=None if alone else of_units,
            confidence=self.confidence,
        )
        values: Mapping[str, BootstrapCI | str] = {
            "exclude": self._failed_by(self.curve.rows),
            "as_zero": self._failed_by(self.curve.as_failed),
        }
        return {
            "censored": censored,
            **({"error_rate": n_errors / int(self.mine.sum())} if n_errors else {}),
            **{
                name: None if isinstance(one, str) else one.point_estimate
                for name, one in values.items()
            },
            "worst": found.high,
            "best": found.low,
            "bounds_ci": [found.ci_low, found.ci_high],
        }
