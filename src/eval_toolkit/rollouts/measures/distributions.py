"""Distributions of scores by column, seed and turn."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, MissingColumnError, UndefinedMetricError
from eval_toolkit.inference.proportions import wilson_interval
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.graphs import ENDED, Graph, Node
from eval_toolkit.rollouts.measures.columns import Detector, detector_of
from eval_toolkit.scorecards import Records, unit_starts

_BINS = 10
_Weighted: TypeAlias = tuple[Node[Any, Any], float]


def describe(values: ArrayLike) -> dict[str, float | None]:
    """Compute descriptive statistics: mean, standard deviation, extremes and quartiles.

    Parameters
    ----------
    values : array-like of shape (n,)
        Finite numbers.

    Returns
    -------
    dict
        ``n``, ``mean``, ``sd`` (with n − 1 in the denominator; None for a single number), ``min``,
        ``q1``, ``median``, ``q3`` and ``max``. Quartiles are linearly interpolated.

    Raises
    ------
    UndefinedMetricError
        If there are no numbers.
    InvalidInputError
        If a number is not finite.

    Examples
    --------
    >>> described = describe([0.1, 0.6, 0.7])
    >>> round(described["mean"], 4), described["median"], described["max"]
    (0.4667, 0.6, 0.7)
    """
    numbers = _numbers(values)
    if not len(numbers):
        raise UndefinedMetricError("`values` is empty; at least one number is needed")
    low, q1, median, q3, high = np.quantile(numbers, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return {
        "n": len(numbers),
        "mean": float(numbers.mean()),
        "sd": float(numbers.std(ddof=1)) if len(numbers) > 1 else None,
        "min": low,
        "q1": q1,
        "median": median,
        "q3": q3,
        "max": high,
    }


def _numbers(values: ArrayLike) -> FloatArray:
    return np.empty(0) if np.size(values) == 0 else validation.vector(values, "values")


def histogram(
    values: ArrayLike, *, bins: int = _BINS, bounds: tuple[float, float] | None = None
) -> dict[str, list[float] | list[int]]:
    """Count numbers in bins of equal width.

    ``bounds`` are the lower edge of the first and the upper edge of the last bin; by default the
    smallest and largest number. ``edges`` has one more entry than ``counts``. Bins include their
    lower edge; the last one also includes its upper edge.

    Examples
    --------
    >>> histogram([0.0, 0.1, 0.6, 1.0], bins=2, bounds=(0.0, 1.0))
    {'edges': [0.0, 0.5, 1.0], 'counts': [2, 2]}
    """
    numbers = _numbers(values)
    if not len(numbers):
        raise UndefinedMetricError("`values` is empty; at least one number is needed")
    low, high = bounds or (float(numbers.min()), float(numbers.max()))
    outside = (numbers < low) | (numbers > high)
    if outside.any():
        raise InvalidInputError(
            f"values[{int(np.argmax(outside))}] is {numbers[outside][0]:g}, outside the bounds "
            f"{low:g} and {high:g}"
        )
    n_bins = validation.bin_count(bins, "bins", low=1)
    counts, edges = np.histogram(numbers, bins=n_bins, range=(low, high))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def column_distributions(
    records: Records, columns: Sequence[str] | None = None, *, bins: int = _BINS
) -> dict[str, dict[str, Any]]:
    """Describe the distribution of each column over all attempts, and count missing values.

    Parameters
    ----------
    records : Records
        One row per (unit, attempt).
    columns : sequence of str, optional
        Columns to describe; by default all.
    bins : int, default 10
        Number of histogram bins. If all numbers are within [0, 1], the bins cover that range.

    Returns
    -------
    dict of str to dict
        For each column, ``n``, ``n_errors``, ``n_skipped``, the values returned by `describe`, and
        ``histogram``; a column without values has only the counts and a ``reason``.

    Raises
    ------
    MissingColumnError
        If a column does not exist.

    Examples
    --------
    >>> records = Records.from_columns({"toxicity_max": [0.1, 0.9, None]})
    >>> found = column_distributions(records)["toxicity_max"]
    >>> found["n"], found["n_skipped"], found["median"], found["histogram"]["counts"][1]
    (2, 1, 0.5, 1)
    """
    found: dict[str, dict[str, Any]] = {}
    for name in records.numbers if columns is None else columns:
        if name not in records.numbers:
            raise MissingColumnError(
                f"`columns` contains {name!r}, which does not exist; the columns are "
                f"{', '.join(records.numbers)}"
            )
        status = records.status[name]
        counts = {
            "n_errors": int((status == "error").sum()),
            "n_skipped": int((status == "skipped").sum()),
        }
        values = records.columns[name][status == "ok"]
        if not len(values):
            why = next(filter(None, records.reason[name].tolist()), "no value")
            found[name] = {"n": 0, **counts, "reason": why}
            continue
        share = bool(((values >= 0.0) & (values <= 1.0)).all())
        counted = histogram(values, bins=bins, bounds=(0.0, 1.0) if share else None)
        found[name] = {**describe(values), **counts, "histogram": counted}
    return found


def seed_table(
    records: Records, column: str = "attack_success", *, confidence: float = DEFAULT_CONFIDENCE
) -> list[dict[str, Any]]:
    """Summarise the rollouts by seed prompt.

    Parameters
    ----------
    records : Records
        Records returned by `measure_rollouts`.
    column : str, default "attack_success"
        Column to average over the rollouts of a seed.
    confidence : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    list of dict
        For each seed, ``unit_id``, ``group``, ``n`` (rollouts with a value), ``n_errors``,
        ``n_skipped``, ``value`` (the mean, or None), and ``ci_low`` and ``ci_high`` (Wilson
        interval for this seed) if the value of every rollout is 0 or 1. There is no interval if
        values are missing, since missingness may depend on the outcome.

    Raises
    ------
    MissingColumnError
        If the records have no such column.

    Examples
    --------
    >>> records = Records.from_columns({"attack_success": [1, 0, 0]}, unit_id=["a", "a", "b"])
    >>> [(row["unit_id"], row["n"], row["value"]) for row in seed_table(records)]
    [('a', 2, 0.5), ('b', 1, 0.0)]
    """
    if column not in records.columns:
        raise MissingColumnError(
            f"`column` is {column!r}, which does not exist; the columns are "
            f"{', '.join(records.columns)}"
        )
    starts = unit_starts(records.unit_id)
    rows = []
    for start, end in zip(starts, [*starts[1:], len(records)], strict=True):
        at = slice(int(start), int(end))
        status, values = records.status[column][at], records.columns[column][at]
        there = values[status == "ok"]
        row: dict[str, Any] = {
            "unit_id": str(records.unit_id[start]),
            "group": str(records.group[start]),
            "n": len(there),
            "n_errors": int((status == "error").sum()),
            "n_skipped": int((status == "skipped").sum()),
            "value": float(there.mean()) if len(there) else None,
            "ci_low": None,
            "ci_high": None,
        }
        if len(there) and len(there) == len(values) and np.isin(there, (0.0, 1.0)).all():
            found = wilson_interval(int(there.sum()), len(there), confidence=confidence)
            row |= {"ci_low": found.low, "ci_high": found.high}
        rows.append(row)
    return rows


def turn_table(
    graphs: Iterable[Graph[Any, Any]], *, refusal: TextScorer | str | None = None
) -> list[dict[str, Any]]:
    """Summarise each turn over all rollouts that reached it.

    Parameters
    ----------
    graphs : iterable of Graph
        Scored rollouts.
    refusal : TextScorer or str, optional
        Refusal scorer; scores at or above its threshold count as refusals. If only a name is passed
        ("refusal" by default), the threshold is 0.5.

    Returns
    -------
    list of dict
        For each turn, ``turn``, ``n`` (turns requested), ``n_errors``, ``n_skipped``, ``n_empty``,
        ``event_rate``, ``echo_rate`` (fraction of the failures), ``refusal_rate``, ``probe_length``
        and ``response_length`` (mean number of characters), and ``<scorer>_mean``,
        ``<scorer>_probe_mean``. Means are taken over turns with a value and are None without any;
        ``event_n``, ``echo_n``, ``refusal_n``, ``<scorer>_n`` and ``<scorer>_probe_n`` are the
        numbers of such turns. Turns are weighted by path; if only selected branches were continued,
        all turns of a rollout have equal weight. Since rollouts that failed early may lack later
        turns, different turns may cover different rollouts; see `survival`.

    Examples
    --------
    >>> last = Node("", "And?", "Grr!", event=True, scores={"toxicity": 0.9})
    >>> first = Node("", "Hello", "No.", event=False, scores={"toxicity": 0.1}, children=[last])
    >>> [(row["turn"], row["event_rate"], row["toxicity_mean"]) for row in turn_table(
    ...     [Graph("", [first])])]
    [(1, 0.0, 0.1), (2, 1.0, 0.9)]
    """
    by_turn: dict[int, list[_Weighted]] = {}
    for graph in graphs:
        at_depth: dict[int, list[Node[Any, Any]]] = {}
        for node in graph.nodes():
            if node.status != ENDED:  # placeholder for the end of an attack, not a turn
                at_depth.setdefault(node.depth, []).append(node)
        for depth, turns in at_depth.items():
            by_turn.setdefault(depth, []).extend(
                (node, 1.0 / len(turns) if graph.selected else node.weight) for node in turns
            )
    keys = sorted({key for turns in by_turn.values() for node, _ in turns for key in node.scores})
    detector = detector_of([], refusal)
    return [_turn_row(turn, by_turn[turn], keys, detector) for turn in sorted(by_turn)]


def _turn_row(
    turn: int, weighted: Sequence[_Weighted], keys: Sequence[str], detector: Detector
) -> dict[str, Any]:
    nodes = [node for node, _ in weighted]
    said = [node for node in nodes if node.status == "ok"]
    row: dict[str, Any] = {
        "turn": turn,
        "n": len(nodes),
        "n_errors": sum(node.status == "error" for node in nodes),
        "n_skipped": sum(node.status == "skipped" for node in nodes),
        "n_empty": sum(node.response is None or not str(node.response).strip() for node in said),
    }
    refused = {
        id(node): detector.finds(node.scores[detector.key])
        for node in nodes
        if detector.key in node.scores
    }
    rates: dict[str, Callable[[Node[Any, Any]], float | None]] = {
        "event": lambda node: node.event,
        "echo": lambda node: node.echo if node.event else None,
        "refusal": lambda node: refused.get(id(node)),
    }
    for name, look in rates.items():
        row[f"{name}_rate"], row[f"{name}_n"] = _mean(weighted, look)
    row["probe_length"], _ = _mean(weighted, lambda node: len(str(node.probe)) or None)
    answered = [(node, w) for node, w in weighted if node.status == "ok"]
    row["response_length"], _ = _mean(
        answered, lambda node: None if node.response is None else len(str(node.response))
    )
    for key in keys:
        if key != detector.key and not key.startswith(f"{detector.key}:"):
            name = f"{key.removesuffix(':probe')}_probe" if key.endswith(":probe") else key
            found = _mean(weighted, lambda node, key=key: node.scores.get(key))  # type: ignore[misc]
            row[f"{name}_mean"], row[f"{name}_n"] = found
    return row


def _mean(
    weighted: Iterable[_Weighted], look: Callable[[Node[Any, Any]], float | None]
) -> tuple[float | None, int]:
    """Return the weighted mean of the non-missing values, and their number."""
    pairs = [(weight, look(node)) for node, weight in weighted]
    there = [(weight, float(value)) for weight, value in pairs if value is not None]
    whole = math.fsum(weight for weight, _ in there)
    mean = math.fsum(weight * value for weight, value in there) / whole if there else None
    return mean, len(there)


def turn_latencies(graphs: Iterable[Graph[Any, Any]]) -> list[dict[str, Any]]:
    """Describe the latency of tester and target in each turn, in seconds.

    Parameters
    ----------
    graphs : iterable of Graph
        Rollouts as sampled; stored runs do not contain latencies.

    Returns
    -------
    list of dict
        For each turn, ``turn``, and ``probe`` and ``response`` with the values returned by
        `describe` for all answers with a latency, or None without any. Cached answers are excluded.

    Examples
    --------
    >>> usage = {"response": {"latency_s": 0.25, "cached": False}}
    >>> row = turn_latencies([Graph("", [Node("", "Hello", "Hi.", usage=usage)])])[0]
    >>> row["probe"], row["response"]["median"]
    (None, 0.25)
    """
    by_turn: dict[int, dict[str, list[float]]] = {}
    for graph in graphs:
        for node in graph.nodes():
            parts = by_turn.setdefault(node.depth, {"probe": [], "response": []})
            for part, seconds in parts.items():
                usage = node.usage.get(part) or {}
                if usage.get("latency_s") is not None and not usage.get("cached"):
                    seconds.append(float(usage["latency_s"]))
    return [
        {"turn": turn} | {part: describe(s) if s else None for part, s in by_turn[turn].items()}
        for turn in sorted(by_turn)
    ]
