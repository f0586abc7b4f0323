"""Results of an evaluator: graphs, metrics, records and estimates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.hashing import content_hash, unit_ids
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.rollouts.graphs import Graph
from eval_toolkit.rollouts.seeds import SeedPrompt, seed_prompts
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.scorecards import Records, Scorecard

JSONLike: TypeAlias = dict[str, Any] | list[Any]
"""Nested dicts and lists of JSON-compatible values."""


@dataclass(repr=False)
class GraphMetrics(Displayed):
    """Metrics of one rollout.

    Parameters
    ----------
    overall : dict
        Metrics of the whole rollout; every number is also averaged over rollouts.
    per_turn : list of dict
        Metrics of each turn.

    Examples
    --------
    >>> GraphMetrics(overall={"num_turns": 1}, per_turn=[{"turn": 1}]).overall["num_turns"]
    1
    """

    overall: dict[str, Any]
    per_turn: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Identity:
    """Unit id, content hash and group of a seed."""

    unit_id: str
    content_hash: str = ""
    group: str = ""
    slices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvaluatedRollout:
    """One rollout of an evaluation, whether or not it could be measured.

    Examples
    --------
    >>> failed = EvaluatedRollout("Hi", Identity("a1"), status="error", reason="no answer")
    >>> failed.rollout_id, failed.metrics is None
    ('a1#1', True)
    """

    seed: Any
    identity: Identity = field(repr=False)
    attempt: int = 1
    graph: Graph[Any, Any] | None = field(default=None, repr=False)
    metrics: GraphMetrics | None = field(default=None, repr=False)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Values to store in the records; only numbers become columns."""
    status: str = "ok"
    """"ok", "error" or "skipped"; only "ok" rollouts have metrics."""
    reason: str = ""

    @property
    def rollout_id(self) -> str:
        """Unit id and attempt of the rollout, joined by "#"."""
        return f"{self.identity.unit_id}#{self.attempt}"


@dataclass(frozen=True)
class EvaluatorRun:
    """Result of `Evaluator.evaluate`, including all failures.

    Parameters
    ----------
    rollouts : tuple of EvaluatedRollout
        All rollouts, in the order of the seeds.
    result : object
        Result of ``aggregate_metrics``.
    records : Records or None
        One row per rollout and one column per number in ``overall``; None if there are no numbers.
        Missing values have the status "skipped", non-finite values "error".
    specs : tuple of MetricSpec
        Metrics summarised in `card`.
    confidence : float
        Confidence level of the intervals.
    outcome : Outcome, optional
        Outcome of the underlying run: records, cells and counts.

    Examples
    --------
    >>> run = EvaluatorRun((), {"summary": {}}, None)
    >>> run.n_rollouts, run.estimates
    (0, {})
    """

    rollouts: tuple[EvaluatedRollout, ...] = field(repr=False)
    result: Any = field(repr=False)
    records: Records | None = field(repr=False)
    specs: tuple[MetricSpec, ...] = field(default=(), repr=False)
    confidence: float = 0.95
    outcome: Outcome | None = field(default=None, repr=False)

    @property
    def n_rollouts(self) -> int:
        """Number of rollouts requested."""
        return len(self.rollouts)

    @property
    def n_errors(self) -> int:
        """Number of failed rollouts; excluded from averages."""
        return sum(rollout.status == "error" for rollout in self.rollouts)

    @property
    def n_skipped(self) -> int:
        """Number of rollouts that ended early or could not be measured; excluded from averages."""
        return sum(rollout.status == "skipped" for rollout in self.rollouts)

    @property
    def graphs(self) -> list[Graph[Any, Any]]:
        """Graphs of all rollouts that have one, including failed rollouts."""
        return [rollout.graph for rollout in self.rollouts if rollout.graph is not None]

    @property
    def metrics(self) -> list[GraphMetrics]:
        """Metrics of the measured rollouts, as passed to ``aggregate_metrics``."""
        return [rollout.metrics for rollout in self.rollouts if rollout.metrics is not None]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about failures and empty replies."""
        notes = []
        for status, n in (("error", self.n_errors), ("skipped", self.n_skipped)):
            if n:
                first = next(r for r in self.rollouts if r.status == status)
                what = "failed" if status == "error" else "could not be measured"
                notes.append(
                    f"{n} of {self.n_rollouts} rollouts {what} and are excluded from averages; "
                    f"the first, {first.rollout_id}: {first.reason}"
                )
        empty = [node for graph in self.graphs for node in graph.nodes() if node.response == ""]
        if empty:
            notes.append(f"{len(empty)} replies are empty")
        return tuple(notes)

    @property
    def card(self) -> Scorecard:
        """Scorecard of the columns: means over seeds, with confidence intervals."""
        there = self.outcome is not None and self.outcome.cards
        return self.outcome.card if there else Scorecard({})  # type: ignore[union-attr]

    @property
    def estimates(self) -> dict[str, dict[str, Any]]:
        """Estimates keyed by metric, with confidence intervals, counts, status and reason."""
        return {
            name: {
                "value": cell.value,
                "se": cell.details.get("standard_error"),
                "ci_low": cell.ci.ci_low if cell.ci else None,
                "ci_high": cell.ci.ci_high if cell.ci else None,
                "n": cell.n_units,
                "method": cell.ci.method if cell.ci else None,
                "n_errors": cell.n_errors,
                "n_skipped": cell.n_skipped,
                "status": cell.status,
                "reason": cell.reason,
            }
            for name, cell in self.card.items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, estimates and rollout outcomes as a JSON-serialisable dict."""
        return {
            "n_rollouts": self.n_rollouts,
            "n_errors": self.n_errors,
            "n_skipped": self.n_skipped,
            "notes": list(self.notes),
            "estimates": self.estimates,
            "rollouts": [
                {"rollout_id": r.rollout_id, "status": r.status, "reason": r.reason}
                for r in self.rollouts
            ],
        }


def metric_distributions(all_metrics: Sequence[GraphMetrics]) -> dict[str, dict[str, Any]]:
    """Describe the distribution of each number in ``overall``, for use in `aggregate_metrics`.

    Each entry has mean, median, min, max, ``n`` (rollouts with a finite number) and ``n_missing``
    (all other rollouts). Names without any finite number are omitted.

    Examples
    --------
    >>> found = metric_distributions([GraphMetrics({"x": n}, []) for n in (1, 2, 6, None)])
    >>> found["x"]
    {'mean': 3.0, 'median': 2.0, 'min': 1.0, 'max': 6.0, 'n': 3, 'n_missing': 1}
    """
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for metrics in all_metrics for name in metrics.overall):
        given: list[Any] = [metrics.overall.get(name) for metrics in all_metrics]
        numbers = [float(value) for value in given if _is_number(value) and np.isfinite(value)]
        if numbers:
            found[name] = {
                "mean": float(np.mean(numbers)),
                "median": float(np.median(numbers)),
                "min": min(numbers),
                "max": max(numbers),
                "n": len(numbers),
                "n_missing": len(given) - len(numbers),
            }
    return found


def identities(seeds: Sequence[Any]) -> list[Identity]:
    """Return the identity of each seed; equal seeds share a group, and their ids end in ~2, ~3, ….

    Strings, rows and seed prompts are identified as in `seed_prompts`, integers by their value, and
    other data by content. An integer has the group of the prompt that it selects.
    """
    if all(isinstance(seed, (str, Mapping, SeedPrompt)) for seed in seeds):
        return [
            Identity(seed.id, seed.content_hash, seed.group, _slices(seed))
            for seed in seed_prompts(seeds)
        ]
    hashes = [content_hash(seed, None) for seed in seeds]
    return [
        Identity(f"seed-{seed}{known[16:]}")
        if isinstance(seed, (int, np.integer))
        else Identity(known, digest, digest[:16])
        for seed, digest, known in zip(seeds, hashes, unit_ids(hashes), strict=True)
    ]


def _slices(seed: SeedPrompt) -> dict[str, str]:
    safe = "" if seed.safe is None else "safe" if seed.safe else "unsafe"
    return {"category": seed.category, "safe": safe}


def records_of(rollouts: Sequence[EvaluatedRollout]) -> Records | None:
    """Return records with a row per rollout and a column per number, or None without numbers."""
    names = dict.fromkeys(name for rollout in rollouts for name in rollout.values)
    columns: dict[str, list[float | None]] = {}
    status: dict[str, list[str]] = {}
    reason: dict[str, list[str]] = {}
    for name in names:
        cells = [_cell(rollout, name) for rollout in rollouts]
        given = [rollout.values[name] for rollout in rollouts if name in rollout.values]
        if not all(value is None for value in given) and not any(map(_is_number, given)):
            continue  # strings and lists are not measurements
        columns[name] = [value for value, _, _ in cells]
        status[name] = [state for _, state, _ in cells]
        reason[name] = [why for _, _, why in cells]
    if not columns:
        return None
    settled = _settled(rollouts)
    slices = {
        key: [identity.slices.get(key) or "(none)" for identity in settled]
        for key in ("category", "safe")
        if any(identity.slices.get(key) for identity in settled)
    }
    return Records.from_columns(
        columns,
        unit_id=[identity.unit_id for identity in settled],
        attempt=[rollout.attempt for rollout in rollouts],
        group=[identity.group for identity in settled],
        content_hash=[identity.content_hash for identity in settled],
        slices=slices,
        status=status,
        reason=reason,
    )


def _settled(rollouts: Sequence[EvaluatedRollout]) -> list[Identity]:
    """Return the identities, giving every numeric seed the group of the prompt it selected.

    Two seeds may select the same prompt, and rollouts from one prompt are not independent.
    """
    prompts: dict[str, str] = {}
    for rollout in rollouts:
        picked = getattr(rollout.graph, "context", None)
        if not rollout.identity.group and picked is not None:
            goal = getattr(picked, "goal", picked)
            prompts.setdefault(rollout.identity.unit_id, content_hash(goal, None))
    return [
        rollout.identity
        if rollout.identity.group
        else Identity(
            rollout.identity.unit_id,
            prompts.get(rollout.identity.unit_id, ""),
            prompts.get(rollout.identity.unit_id, rollout.identity.unit_id)[:16],
        )
        for rollout in rollouts
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_)) and not isinstance(
        value, (complex, np.complexfloating)
    )


def _cell(rollout: EvaluatedRollout, name: str) -> tuple[float | None, str, str]:
    """Return a rollout's value in a column, with status and reason."""
    if rollout.status != "ok":
        return None, rollout.status, rollout.reason
    if name not in rollout.values:
        return None, "skipped", f"this rollout has no {name!r}"
    value = rollout.values[name]
    if value is None:
        return None, "skipped", f"{name} is None"
    if not _is_number(value):
        return None, "error", f"{name} is {type(value).__name__}; it must be a number"
    number = float(value)
    if not math.isfinite(number):
        return None, "error", f"{name} is {number}; it must be finite"
    return number, "ok", ""
