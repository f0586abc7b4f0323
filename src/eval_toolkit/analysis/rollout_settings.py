"""Comparability of two rollout runs: settings and censored conversations."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from eval_toolkit.analysis.differences import CurveOf, Task
from eval_toolkit.runs.kind_display import kind_named

_SETTINGS = ("policy", "depth", "keep", "stop_on_success", "scored_by", "on_error")
"""Settings that affect the conversations or the metrics computed from them."""
_OF_SCORER = ("threshold", "higher_is_worse", "mode")
_SHOWN = 60
_CUT = (
    "cut short; only their earlier failures are known, so the mean of the others is biased "
    "towards failures"
)
_INSTEAD = (
    "for the paired difference in failure rates, see the table by turn (`eval-toolkit compare`, "
    "`rollouts.compare_survival`)"
)
_ONE_PATH = ("first", "best")
"""Policies under which a tree counts as one path."""


def have_turns(manifest_a: Mapping[str, Any], manifest_b: Mapping[str, Any]) -> bool:
    """Return whether both manifests describe multi-turn conversations.

    Examples
    --------
    >>> have_turns({"config": {"kind": "rollout"}}, {})
    False
    """
    return _configs(manifest_a, manifest_b) is not None


def changed_settings(
    manifest_a: Mapping[str, Any], manifest_b: Mapping[str, Any]
) -> dict[str, tuple[str, str]]:
    """Return the settings in which two rollout runs differ; empty for other runs.

    Participants may differ, because they are what is being compared.

    Examples
    --------
    >>> a, b = ({"config": {"kind": "rollout", "depth": depth}} for depth in (2, 3))
    >>> changed_settings(a, b)
    {'setting:depth': ('2', '3')}
    """
    configs = _configs(manifest_a, manifest_b)
    if configs is None:
        return {}
    a, b = configs
    found = {name: (a.get(name), b.get(name)) for name in _SETTINGS}
    wide, other_wide = list(a.get("width") or ()), list(b.get("width") or ())
    turns = min(len(wide), len(other_wide))  # a different number is a separate setting
    found["width"] = (wide[:turns], other_wide[:turns])
    changed = {f"setting:{name}": pair for name, pair in found.items() if pair[0] != pair[1]}
    for name, one, other in _in_both(a.get("scorers"), b.get("scorers")):
        if one.get("version") == other.get("version"):
            changed |= {
                f"text_scorer:{name}, {key}": (one.get(key), other.get(key))
                for key in _OF_SCORER
                if one.get(key) != other.get(key)
            }
    return {name: (_told(one), _told(other)) for name, (one, other) in changed.items()}


def curves_of(manifest_a: Mapping[str, Any], manifest_b: Mapping[str, Any]) -> dict[str, CurveOf]:
    """Return the failure rates of two runs that can be estimated by survival curves, by metric.

    This requires that every rollout counts as one path with the same plan in both runs; the records
    then contain the turn of the failure or the last turn observed without a failure.

    Examples
    --------
    >>> config = {"kind": "rollout", "depth": 1, "width": [1], "policy": "expectation"}
    >>> list(curves_of({"config": config}, {"config": config}))
    ['failed_by_turn_1', 'attack_success']
    """
    configs = _configs(manifest_a, manifest_b)
    if configs is None:
        return {}
    a, b = configs
    if any(a.get(name) != b.get(name) for name in ("depth", "policy", "on_error")):
        return {}
    chains = all(set(config.get("width") or (2,)) == {1} for config in configs)
    if not (chains or a.get("policy") in _ONE_PATH) or not isinstance(a.get("depth"), int):
        return {}
    depth, broken_failed = int(a["depth"]), a.get("on_error") == "as_zero"
    turns = {f"failed_by_turn_{turn}": turn for turn in range(1, depth + 1)}
    turns["attack_success"] = depth
    return {name: CurveOf(turn, depth, broken_failed) for name, turn in turns.items()}


def withheld(
    task: Task,
    block_a: Mapping[str, Any],
    block_b: Mapping[str, Any],
    curves: Mapping[str, CurveOf],
) -> Task:
    """Return the task; if conversations were cut short, its spec is replaced by the reason.

    A mean over complete observations would be biased, because the outcome of a conversation that
    was cut short is only known if it had failed before. If there is a survival curve for the
    metric, it is used instead.
    """
    counts = {
        side: count
        for side, block in (("A", block_a), ("B", block_b))
        if (count := _censored(block, task.name))
    }
    if not counts:
        return task
    cut = " and ".join(f"{_counted(n)} of {side}" for side, n in counts.items())
    reason = f"{cut} {_CUT}; {_INSTEAD}"
    return replace(task, spec=None, reason=reason, curve=curves.get(task.name))


def cut_short_note(cells: Mapping[str, Any], metric: str) -> str:
    """Return a note on the censored conversations behind a value, their effect and a remedy."""
    count = _censored(cells, metric)
    return f"{metric}: {_counted(count)} {_CUT}; {_INSTEAD}" if count else ""


def _censored(cells: Mapping[str, Any], metric: str) -> float:
    """Return the number of censored conversations of a cell, or of the mean over its parts."""
    for name in (metric, metric.removesuffix("_macro")):
        cell = cells.get(name)
        details = cell.get("details") if isinstance(cell, Mapping) else None
        if isinstance(details, Mapping) and details.get("censored"):
            return float(details["censored"])
    return 0.0


def _counted(n: float) -> str:
    return "1 rollout" if n == 1 else f"{n:g} rollouts"


def _configs(
    manifest_a: Mapping[str, Any], manifest_b: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Return the settings of both runs; None if one has no turns."""
    a, b = (manifest.get("config") or {} for manifest in (manifest_a, manifest_b))
    return (a, b) if _has_turns(a) and _has_turns(b) else None


def _has_turns(config: Mapping[str, Any]) -> bool:
    """Return whether the attempts of a run are conversations."""
    return kind_named(str(config.get("kind") or "")).words.multi_turn


def _in_both(a: Any, b: Any) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for name in a or {}:
        if name in (b or {}):
            yield name, a[name], b[name]


def _told(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split())
    if not text:
        return "none"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
