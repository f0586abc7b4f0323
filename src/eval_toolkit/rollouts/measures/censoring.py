"""Cells of rollouts that were cut short: an estimate that allows for it, and bounds in any case.

A failure before a break is known; that there would have been none is not. The mean of what is known is
of a sample that the outcome has chosen, so shares of failures come from the survival curve instead.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from eval_toolkit._validate import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.graders.base import Grade
from eval_toolkit.inference.missing import bounded_mean
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
    stopped,
)
from eval_toolkit.rollouts.measures.times import SurvivalRows, followed
from eval_toolkit.scorecards import MetricResult, Records, Scorecard

__all__ = ["beside", "cut_short", "with_curves"]

_FAILED, _OWN, _ANY = "attack_success", "attack_success_own", "attack_success_any"
_SEEN_EARLY_IS_KNOWN = (_ANY, "unprovoked_success", "probe_flagged")
"""Known as soon as something was seen, so that what is known is seen too often."""
_OF_ANY_LENGTH = ("n_turns", "first_event_turn", "empty_replies", "probe_distinct_2")
_OF_FIRST_TURN = ("refused_first", "over_refusal", "unsafe_refusal")
_IN_TURN = re.compile(r"(.+)_turn_(\d+)")
_UNDER_POLICIES = ("error_rate", "exclude", "as_zero", "worst", "best", "bounds_ci")


def beside(records: Records, graphs: Sequence[Graph[Any, Any]]) -> list[Graph[Any, Any]]:
    """Return rollouts in the order of their records.

    Raises
    ------
    InvalidInputError
        If they are not the same.

    Examples
    --------
    >>> records = Records.from_columns({"n_turns": [1.0]}, unit_id=["s"])
    >>> [graph.unit_id for graph in beside(records, [Graph("Hi", [], unit_id="s")])]
    ['s']
    """
    places = {(graph.unit_id, graph.attempt): graph for graph in graphs}
    keys = list(zip(records.unit_id.tolist(), records.attempt.tolist(), strict=True))
    if len(keys) != len(graphs) or places.keys() != set(keys):
        raise InvalidInputError("`graphs` are not the rollouts that the records are of")
    return [places[key] for key in keys]


def cut_short(
    records: Records, graphs: Sequence[Graph[Any, Any]], policy: str, depth: int
) -> dict[str, BoolArray]:
    """Return by column which records have no value for a reason that depends on the outcome.

    Parameters
    ----------
    records : Records
        What `measure_rollouts` returned.
    graphs : sequence of Graph
        Beside them.
    policy, depth
        As in `measure_rollouts`.

    Returns
    -------
    dict of str to ndarray of bool
        Of whether something was seen in any turn, what broke before; of a later turn, what broke or
        was stopped at a failure; where conversations stop at failures, of all other columns what
        broke, since longer ones break more often.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> graph = Graph("", [Node("", "a", None, status="skipped")], unit_id="s")
    >>> columns = {"unprovoked_success": [None], "n_turns": [0.0]}
    >>> records = Records.from_columns(columns, unit_id=["s"])
    >>> cut_short(records, [graph], "expectation", 1)
    {'unprovoked_success': array([ True])}
    """
    counting = [_counting(graph, policy) for graph in graphs]
    stops = any(stopped(path, depth) for paths in counting for path in paths)
    broke = np.array([any(not _whole(path) for path in paths) for paths in counting])
    seen = np.array([bool(graph.children) for graph in graphs])
    counted = np.array([bool(paths) for paths in counting])
    found = {}
    for column, status in records.status.items():
        turn = _IN_TURN.fullmatch(column)
        if column in _SEEN_EARLY_IS_KNOWN:
            mine = seen if column == _ANY else counted
        elif turn and turn[1] != "failed_by":
            mine = np.array([_gone_by(paths, int(turn[2])) for paths in counting])
        elif turn or not stops or column in (_FAILED, _OWN, *_OF_ANY_LENGTH, *_OF_FIRST_TURN):
            continue
        else:
            mine = broke
        mine = mine & (status != "ok")
        if mine.any():
            found[column] = mine
    return found


def _counting(graph: Graph[Any, Any], policy: str) -> list[list[Turn]]:
    """Return the conversations that a rollout's numbers are of; none where they are of none."""
    if graph.selected and policy != "best":
        return []
    return [path for path, _ in conversations(graph, policy)]


def _whole(path: Sequence[Turn]) -> bool:
    return all(node.status == "ok" for node in path)


def _gone_by(paths: Sequence[Sequence[Turn]], turn: int) -> bool:
    """Return whether a conversation did not get to a later turn, for another reason than its own."""
    return turn > 1 and any(stopped(path, turn) or not _whole(path[:turn]) for path in paths)


def with_curves(
    card: Scorecard,
    records: Records,
    graphs: Sequence[Graph[Any, Any]],
    *,
    scorer: str | None,
    policy: str,
    depth: int,
    by: str | None,
    on_error: str,
    confidence: float,
) -> Scorecard:
    """Return a card whose shares of failures come from survival curves.

    Parameters
    ----------
    card : Scorecard
        Of the means, with ``by`` as its parts.
    records : Records
        What it is of.
    graphs : sequence of Graph
        Beside them.
    scorer : str or None
        Who decided about failures.
    policy, depth, by, on_error, confidence
        As in `rollout_scorecard`.

    Returns
    -------
    Scorecard
        ``attack_success``, ``attack_success_own``, ``attack_success_any`` and
        ``failed_by_turn_<t>``, over all and per part, are `SurvivalCurve.failure_by`, the others as
        they were. So they stay where there is one conversation per independent seed prompt and none
        was cut short: the curve is then the plain share.

    Examples
    --------
    >>> from eval_toolkit.rollouts import SeedPrompt, measure_rollouts
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> from eval_toolkit.rollouts.measures.reporting import rollout_scorecard
    >>> def rolled_out(n):  # one of four fails at once, another breaks in turn 2
    ...     after = [Node("", "", "No.", event=False), Node("", "", None, status="error")][n == 1]
    ...     first = Node("", "", "Hm.", event=n == 0, echo=False, children=[] if n == 0 else [after])
    ...     return Graph("", [first], unit_id=f"s{n}")
    >>> graphs = [rolled_out(n) for n in range(4)]
    >>> records = measure_rollouts(graphs, [SeedPrompt("Hi", id=g.unit_id) for g in graphs], [])
    >>> cell = rollout_scorecard(records, graphs=graphs)["attack_success"]
    >>> cell.value, cell.details["censored"], cell.details["best"], cell.details["worst"]
    (0.25, 1, 0.25, 0.5)
    """
    seen = _Seen(graphs, records, scorer, depth)
    whole = policy == "best" or not any(graph.selected for graph in graphs)
    names = {_FAILED: depth, **{f"failed_by_turn_{t}": t for t in range(1, depth + 1)}}
    families = {"best": {_ANY: depth}} if policy != "best" else {}
    if whole:
        families = {policy: names | ({_ANY: depth} if policy == "best" else {})} | families
    curves = [(_Curve(seen, kind), turns) for kind, turns in families.items()]
    if whole:
        curves.append((_Curve(seen, policy, own=True), {_OWN: depth}))
    everyone = np.ones(len(records), dtype=np.bool_)
    places = [(everyone, dict(card))]
    for name, part in card.slices.items():
        places.append((records.slices[str(by)].astype(str) == name, dict(part)))
    for mine, cells in places:
        of_curves = {name for _, turns in curves for name in turns if name in cells}
        for name in cells.keys() - of_curves:
            cells[name] = _noted(cells[name], int(mine.sum()))
        for curve, turns in curves:
            for name in turns.keys() & cells.keys():
                place = _Place(curve, turns[name], mine, confidence)
                cells[name] = place.cell(cells[name], on_error)
    parts = zip(card.slices, (Scorecard(cells) for _, cells in places[1:]), strict=True)
    return Scorecard(places[0][1], dict(parts))


def _noted(cell: MetricResult, n: int) -> MetricResult:
    """Say in words that a mean is over those that the outcome has left."""
    censored = cell.details.get("censored")
    if not censored or cell.value is None:
        return cell
    note = (
        f"over those that are known; whether the {censored} cut short among {n} rollouts are "
        "depends on whether the target failed"
    )
    return replace(cell, reason="; ".join(filter(None, (note, cell.reason))))


@dataclass(frozen=True)
class _Seen:
    """Rollouts beside their records."""

    graphs: Sequence[Graph[Any, Any]]
    records: Records
    scorer: str | None
    depth: int


def _or_broken(node: Turn, look: Look) -> float | Grade | None:
    """Return what is seen of a turn, an error counting as a failure."""
    seen = look(node)
    return 1.0 if isinstance(seen, Grade) and seen.status == "error" else seen


class _Curve:
    """The rows of rollouts under a policy, and what each could have come to."""

    def __init__(self, seen: _Seen, policy: str, *, own: bool = False) -> None:
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
        """Rows in which what broke is not known."""
        return self._rows(self.look)

    @cached_property
    def as_failed(self) -> SurvivalRows:
        """Rows in which what broke has failed."""
        return self._rows(partial(_or_broken, look=self.look))

    def between(self, turn: int) -> tuple[FloatArray, FloatArray]:
        """Return the least and the most that each rollout can come to by a turn; NaN without turns."""
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
class _Place:
    """A share of failures by a turn, over all rollouts or those of a part."""

    curve: _Curve
    turn: int
    mine: BoolArray
    confidence: float

    def cell(self, cell: MetricResult, on_error: str) -> MetricResult:
        """Return the cell of the curve; the one given where the curve is the plain share."""
        rows, here = self.curve.rows, self.mine[self.curve.rows.rollouts]
        low, high = self.curve.between(self.turn)
        cut = np.zeros(len(self.mine), dtype=np.bool_)
        cut[rows.rollouts[here & (rows.cut != "") & (rows.times < self.turn)]] = True
        cut |= self.mine & (high > low)
        censored = int(cut.sum())
        one_each = len(set(rows.groups_of(here))) == int(here.sum())
        units, groups = self._counts(rows, here)
        if (not censored and one_each) or (cell.value is None and not units):
            return cell
        details = dict(cell.details)
        if censored:
            details = {name: details[name] for name in details if name not in _UNDER_POLICIES}
            details.pop("standard_error", None)
            details |= self._whatever_happened(cell.n_errors, censored)
        found = self._failed_by(self.curve.as_failed if on_error == "as_zero" else rows)
        note = f"{censored} of {int(self.mine.sum())} rollouts were cut short"
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
            value = cell.value  # the same without the rounding of many weights
        ends = details.get("bounds_ci")
        if ends is not None:
            details["bounds_ci"] = [min(ends[0], found.ci_low), max(ends[1], found.ci_high)]
        counted = f"{note} and count up to where they were seen" if censored else ""
        return replace(
            cell,
            value=value,
            status="ok",
            reason="; ".join(filter(None, (counted, found.reason))),
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

    def _counts(self, rows: SurvivalRows, here: BoolArray) -> tuple[int, int]:
        """Return how many seed prompts and groups were seen at all."""
        records = self.curve.seen.records
        there = np.unique(rows.rollouts[here & (rows.times > 0)])
        return len(set(records.unit_id[there].tolist())), len(set(records.group[there].tolist()))

    def _failed_by(self, rows: SurvivalRows) -> BootstrapCI | str:
        """Return the share that has failed, or why it is not known."""
        unclear = int((self.curve.unclear & self.mine).sum())
        if unclear:
            return f"whether the failures of {unclear} rollouts repeat the tester is not known"
        if self.turn <= rows.blind:
            return "the scorer looks at the end of a conversation alone"
        try:
            here = self.mine[rows.rollouts]
            return rows.curve(self.confidence, only=here).failure_by(self.turn)
        except UndefinedMetricError as error:
            return str(error)

    def _whatever_happened(self, n_errors: int, censored: int) -> dict[str, Any]:
        """Return the share under each policy, and where it lies in any case."""
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
