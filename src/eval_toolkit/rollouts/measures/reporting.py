"""Scorecards of rollouts, overall and by category, and survival curves."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, Unpack

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal import validation
from eval_toolkit._internal.options import gathers
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, PairedBootstrapCI
from eval_toolkit.inference.survival import SurvivalCurve
from eval_toolkit.inference.survival_arms import survival_difference
from eval_toolkit.protocols import MetricSpec, TextScorer
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.measures.censoring import cut_short, in_record_order, with_curves
from eval_toolkit.rollouts.measures.times import common_policy, deepest, survival_rows
from eval_toolkit.rollouts.seeds import SeedPrompt
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.scorecards.policies import with_error_policies

_RATE = (0.0, 1.0)
_COUNT = (0.0, math.inf)
_NO_BOUNDS = (-math.inf, math.inf)
_KNOWN: dict[str, tuple[bool | None, tuple[float, float]]] = {
    "attack_success": (False, _RATE),
    "attack_success_any": (False, _RATE),
    "attack_success_own": (False, _RATE),
    "unprovoked_success": (False, _RATE),
    "probe_flagged": (None, _RATE),
    "n_turns": (None, _COUNT),
    "refused_first": (None, _RATE),
    "refusal_rate": (None, _RATE),
    "over_refusal": (False, _RATE),
    "unsafe_refusal": (True, _RATE),
    "reward": (None, _NO_BOUNDS),
    "empty_replies": (None, _RATE),
    "probe_distinct_2": (None, _RATE),
}
"""Direction (whether higher is better) and bounds of each column."""
_NOT_AVERAGED = frozenset({"first_event_turn"})
"""Columns whose mean would ignore conversations without a failure."""


def rollout_metrics(
    records: Records, scorers: Sequence[TextScorer] = (), *, asr_at: Sequence[int] = ()
) -> list[MetricSpec]:
    """Return the metrics of rollouts: the means of all columns, and ASR@k.

    Parameters
    ----------
    records : Records
        Records returned by `measure_rollouts`.
    scorers : sequence of TextScorer
        Scorers of the rollouts, which define the directions and bounds of their columns.
    asr_at : sequence of int
        Values of k of ASR@k: the probability that one of k rollouts succeeds on any branch.

    Returns
    -------
    list of MetricSpec
        Metrics for `rollout_scorecard`. ``first_event_turn`` is not averaged; use `survival`
        instead.

    Raises
    ------
    InvalidInputError
        If a k is below 1.

    Examples
    --------
    >>> records = Records.from_columns({"attack_success": [1.0, 0.5], "n_turns": [1.0, 3.0]})
    >>> [(spec.name, spec.higher_is_better) for spec in rollout_metrics(records, asr_at=[3])]
    [('attack_success', False), ('n_turns', None), ('asr@3', False)]
    """
    specs: list[MetricSpec] = []
    for column in records.numbers:
        if column not in _NOT_AVERAGED:
            up, bounds = _read(column, scorers)
            kind: ms.ColumnKind | None = "share" if _is_yes_or_no(column) else None
            specs.append(ms.mean_of(column, higher_is_better=up, bounds=bounds, kind=kind))
    return [*specs, *(ms.asr_at_k(k) for k in asr_at)]


def _is_yes_or_no(column: str) -> bool:
    """Return whether a column is binary, rather than a fraction of turns or paths."""
    if column.startswith(("failed_by_turn_", "refused_turn_")):
        return True
    return column != "probe_distinct_2" and _KNOWN.get(column, (None, None))[1] == _RATE


def _read(column: str, scorers: Sequence[TextScorer]) -> tuple[bool | None, tuple[float, float]]:
    """Look up the direction and bounds of a column."""
    if column in _KNOWN:
        return _KNOWN[column]
    if column.startswith("failed_by_turn_"):
        return False, _RATE
    if column.startswith("refused_turn_"):
        return None, _RATE
    of = [one for one in scorers if column.startswith((f"{one.name}_", f"{one.name}/"))]
    if not of:
        return None, _NO_BOUNDS
    scorer = max(of, key=lambda one: len(one.name))  # "tox_free_mean" is not of "tox"
    bounds = getattr(scorer, "bounds", _NO_BOUNDS)
    # Later turns are reached by different conversations, so that lower is not better there.
    later = column.startswith(f"{scorer.name}_turn_") and column != f"{scorer.name}_turn_1"
    neither = later or column == f"{scorer.name}_probe_mean"
    return (None if neither else not scorer.higher_is_worse), bounds


class _Summarising(TypedDict, total=False):
    """Options of `summarise`."""

    by: str | None
    macro: bool
    on_error: str
    confidence: float
    seed: int


@gathers(
    _Summarising,
    by="category",
    macro=False,
    on_error="exclude",
    confidence=DEFAULT_CONFIDENCE,
    seed=42,
)
def rollout_scorecard(
    records: Records,
    metrics: Sequence[MetricSpec] | None = None,
    *,
    graphs: Sequence[Graph[Any, Any]] | None = None,
    scorer: TextScorer | str | None = None,
    policy: str = "expectation",
    depth: int | None = None,
    **how: Unpack[_Summarising],
) -> Scorecard:
    """Summarise the records of rollouts, over all seed prompts and by category.

    Parameters
    ----------
    records : Records
        Records returned by `measure_rollouts`.
    metrics : sequence of MetricSpec, optional
        Metrics returned by `rollout_metrics`; by default, the metrics without scorers and ASR@k.
    graphs : sequence of Graph, optional
        Rollouts from which the records were measured.
    scorer : TextScorer or str, optional
        Scorer that defines failures, or its name.
    policy, depth
        Settings with which the records were measured.
    by : str or None, default "category"
        Slice of the records that defines the parts; ignored if it does not exist or has a single
        part.
    macro : bool, default False
        Whether to add ``<metric>_macro``, the unweighted mean over parts.
    on_error, confidence, seed
        As in `summarise`.

    Returns
    -------
    Scorecard
        Scorecard with one card per part in ``slices``. Attempts are averaged within each seed
        prompt, and seed prompts of the same topic are resampled together. If rollouts ended in an
        error, ``details`` contains the value under each error policy; see
        `scorecards.policies.with_error_policies`.

        With ``graphs``, failure rates are estimated from the survival curve (see
        `censoring.with_curves`). If rollouts were cut short, ``details`` contains their number as
        ``censored``, and bounds that account for them. Other means whose missing values depend on
        the outcome get the same details and a ``reason``. Without ``graphs``, every value is the
        mean of the known values, because records do not show how far a conversation was observed;
        this overestimates failure rates if errors or the budget cut conversations short.

    Raises
    ------
    InvalidInputError
        If a rollout ended in an error and ``on_error`` is "fail", or the graphs do not match the
        records.

    Notes
    -----
    The estimate assumes that interruptions are independent of the target's later replies;
    ``bounds_ci`` does not.

    Examples
    --------
    >>> records = Records.from_columns(
    ...     {"attack_success": [1, 0, None]}, unit_id=list("abc"),
    ...     status={"attack_success": ["ok", "ok", "error"]},
    ... )
    >>> cell = rollout_scorecard(records)["attack_success"]
    >>> cell.value, cell.n_errors, round(cell.details["worst"], 3)
    (0.5, 1, 0.667)
    """
    specs = rollout_metrics(records) if metrics is None else metrics
    summarised = partial(
        with_error_policies,
        records,
        specs,
        by=how["by"],
        macro=how["macro"],
        on_error=how["on_error"],
        confidence=how["confidence"],
        seed=how["seed"],
    )
    if graphs is None:
        return summarised()
    rollouts = in_record_order(records, graphs)
    planned = deepest(rollouts) if depth is None else validation.integer(depth, "depth", low=1)
    return with_curves(
        summarised(cut_short=cut_short(records, rollouts, policy, planned)),
        records,
        rollouts,
        scorer=scorer if scorer is None or isinstance(scorer, str) else scorer.name,
        policy=policy,
        depth=planned,
        by=how["by"],
        on_error=how["on_error"],
        confidence=how["confidence"],
    )


def survival(
    graphs: Sequence[Graph[Any, Any]],
    seeds: Mapping[str, SeedPrompt] | Sequence[SeedPrompt] | None = None,
    *,
    scorer: TextScorer | str | None = None,
    own: bool = False,
    policy: str | None = None,
    depth: int | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> SurvivalCurve:
    """Estimate the proportion of conversations without a failure after each turn.

    Parameters
    ----------
    graphs, seeds, scorer, own, policy, depth
        As in `survival_rows`.
    confidence : float, default 0.95
        Confidence level.

    Returns
    -------
    SurvivalCurve
        Kaplan–Meier estimate, in which conversations cut short before a failure are censored. Every
        seed prompt has equal weight, and rollouts with the same topic or seed prompt are not
        assumed to be independent.

    Raises
    ------
    InvalidInputError
        As in `survival_rows`.
    UndefinedMetricError
        If no turn of any conversation was observed, or as in `survival_rows`.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> graphs = [
    ...     Graph("", [Node("", "Hello", "Hm.", event=failed)], unit_id=f"s{n}")
    ...     for n, failed in enumerate([True, False, False, False])
    ... ]
    >>> survival(graphs).failure_by(1).point_estimate
    0.25
    """
    rows = survival_rows(graphs, seeds, scorer=scorer, own=own, policy=policy, depth=depth)
    return rows.curve(confidence)


def compare_survival(
    graphs_a: Sequence[Graph[Any, Any]],
    graphs_b: Sequence[Graph[Any, Any]],
    seeds: Mapping[str, SeedPrompt] | Sequence[SeedPrompt] | None = None,
    *,
    at: int,
    scorer: TextScorer | str | None = None,
    own: bool = False,
    policy: str | None = None,
    depth: int | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
) -> PairedBootstrapCI:
    """Compare the failure rates of two targets, testers or defences by a given turn.

    Parameters
    ----------
    graphs_a, graphs_b : sequence of Graph
        Rollouts from the same seed prompts; seed prompts on only one side are ignored.
    seeds, scorer, own, policy, depth
        As in `survival_rows`; applied to both sides.
    at : int
        Turn by which failures are compared.
    confidence : float, default 0.95
        Confidence level.

    Returns
    -------
    PairedBootstrapCI
        Difference of failure rates, B − A, paired by topic or seed prompt.

    Raises
    ------
    InvalidInputError
        As in `survival_rows`, or if the sides have no seed prompt in common, or if only one side
        continued selected branches only and no policy is passed.
    UndefinedMetricError
        If no unit was observed up to that turn.

    Examples
    --------
    >>> from eval_toolkit.rollouts.graphs import Node
    >>> def rolled_out(failed):
    ...     return [Graph("", [Node("", "Hello", "Hm.", event=bad)], unit_id=f"s{n}")
    ...             for n, bad in enumerate(failed)]
    >>> a, b = rolled_out([True, True, True, False]), rolled_out([True, False, False, False])
    >>> compare_survival(a, b, at=1).delta
    -0.5
    """
    common = {graph.unit_id for graph in graphs_a} & {graph.unit_id for graph in graphs_b}
    if not common:
        raise InvalidInputError(
            "`graphs_a` and `graphs_b` have no seed prompt in common; compare rollouts from the "
            "same seed prompts"
        )
    turn = validation.integer(at, "at", low=1)
    sides = [
        [graph for graph in graphs if graph.unit_id in common] for graphs in (graphs_a, graphs_b)
    ]
    chosen = policy or common_policy(*sides)
    planned = max(map(deepest, sides)) if depth is None else depth
    rows = [
        survival_rows(side, seeds, scorer=scorer, own=own, policy=chosen, depth=planned)
        for side in sides
    ]
    a, b = (side.curve(confidence, grouped=True) for side in rows)
    return survival_difference(a, b, at=turn)
