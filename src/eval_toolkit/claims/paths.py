"""Finding things in a results payload: names may hold dots, and absence keeps its reason."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError

__all__ = [
    "MetricPath",
    "absence",
    "block_of",
    "blocks",
    "blocks_of",
    "has",
    "lookup",
    "number_at",
    "parts_of",
    "shown",
    "slice_of",
    "was",
]

MetricPath: TypeAlias = str | Sequence[str]
"""Keys one inside the other, or one text of them joined by dots."""

_BOUNDS = ("ci_low", "ci_high")


@dataclass(frozen=True, slots=True)
class _Trail:
    """Where a path led: the last thing found, how far it got, and absent cells on the way."""

    value: Any
    complete: bool
    rest: str
    absent: str = ""


def shown(path: MetricPath) -> str:
    """Return a path as text, for names and messages."""
    if isinstance(path, str):
        keys: Sequence[str] = [path]
    elif isinstance(path, Sequence):
        keys = path
    else:
        raise InvalidTypeError(f"a path is a text or a list of keys, got {path!r}")
    if not keys or not all(isinstance(key, str) and key for key in keys):
        raise InvalidInputError(f"a path is a text or a list of keys, not empty, got {path!r}")
    return ".".join(keys)


def lookup(payload: Any, path: MetricPath) -> Any:
    """Return what lies at a path, or raise `MissingColumnError` (a KeyError).

    A text is read greedily: the longest key that leads somewhere wins, so that
    ``recall_at_fpr_0.01.value`` finds the key ``recall_at_fpr_0.01``. The bounds of a cell's
    interval are found on the cell itself, ``pr_auc.ci_low``.

    Examples
    --------
    >>> lookup({"op_f1_at_0.5": {"value": 0.7}}, "op_f1_at_0.5.value")
    0.7
    """
    trail = _follow(payload, path)
    if trail.complete:
        return trail.value
    if trail.absent:
        raise MissingColumnError(trail.absent)
    raise MissingColumnError(_nothing_at(trail))


def _nothing_at(trail: _Trail) -> str:
    node = trail.value
    if trail.rest in _BOUNDS and not isinstance(node, Mapping):
        return f"{node!r} is a number without an interval"
    if trail.rest in _BOUNDS and "value" in node:
        return f"the cell has no interval: {node.get('reason') or 'none was made'}"
    have = ", ".join(map(repr, node)) if isinstance(node, Mapping) else ""
    return f"there is no {trail.rest!r}; there is {have or 'nothing'}"


def _follow(node: Any, path: MetricPath) -> _Trail:
    if isinstance(path, str):
        return _greedy(node, path)
    shown(path)
    absent = ""
    for at, key in enumerate(path):
        absent = absence(node) or absent
        found = _step(node, key)
        if found is None:
            return _Trail(node, False, ".".join(path[at:]), absent)
        node = found[0]
    return _Trail(node, True, "", absent)


def _greedy(node: Any, text: str) -> _Trail:
    absent = absence(node)
    furthest = _Trail(node, False, text, absent)
    parts = text.split(".")
    for taken in range(len(parts), 0, -1):
        found = _step(node, ".".join(parts[:taken]))
        if found is None:
            continue
        if taken == len(parts):
            return _Trail(found[0], True, "", absent)
        trail = _greedy(found[0], ".".join(parts[taken:]))
        if trail.complete:
            return trail
        if len(trail.rest) < len(furthest.rest):
            furthest = trail
    return furthest


def _step(node: Any, key: str) -> tuple[Any] | None:
    """Return what a key leads to, in a tuple, or None."""
    if isinstance(node, Mapping):
        if key in node:
            return (node[key],)
        interval = node.get("ci")
        if key in _BOUNDS and isinstance(interval, Mapping) and key in interval:
            return (interval[key],)
    elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
        return (node[int(key)],)
    return None


def absence(node: Any) -> str:
    """Return why a cell or a scorer's block has no value, or "" when it has one or is neither.

    A mean over folds has no value when a fold has none: the rest is another set of rows.
    """
    if not isinstance(node, Mapping):
        return ""
    n_folds, n_failed = node.get("n_folds"), node.get("n_failed")
    if isinstance(n_folds, int) and isinstance(n_failed, int) and n_failed > 0:
        why = "; ".join(map(str, node.get("failures") or ())) or "no reason given"
        return f"error: {n_failed} of {n_folds + n_failed} folds have no value: {why}"
    if node.get("status") in ("skipped", "error"):
        return f"{node['status']}: {node.get('reason') or 'no reason given'}"
    for state in ("skipped", "error"):
        if isinstance(node.get(state), str):
            return f"{state}: {node[state] or 'no reason given'}"
    return ""


def was(reason: str) -> str:
    """Return "skipped: why" and "error: why" as the end of a sentence."""
    state, _, why = reason.partition(": ")
    return f"was skipped: {why}" if state == "skipped" else f"failed: {why}"


def slice_of(result: Mapping[str, Any], slice_name: str) -> Mapping[str, Any]:
    """Return a slice's part of the results."""
    slices = result.get("by_slice")
    return _named(slices if isinstance(slices, Mapping) else {}, slice_name, "slice", "the run")


def parts_of(result: Mapping[str, Any], slice_name: str) -> list[list[Mapping[str, Any]]]:
    """Return a slice's parts, in folds or whole: one list per seed, one part per fold."""
    folds = result.get("by_fold")
    if not (isinstance(folds, Mapping) and folds) or slice_name in (result.get("by_slice") or {}):
        return [[slice_of(result, slice_name)]]
    by_seed: dict[Any, list[Mapping[str, Any]]] = {}
    for key, fold in folds.items():
        slices = fold.get("by_slice") if isinstance(fold, Mapping) else None
        known = slices if isinstance(slices, Mapping) else {}
        part = _named(known, slice_name, "slice", f"the run, in {key},")
        by_seed.setdefault(fold.get("seed"), []).append(part)
    return list(by_seed.values())


def block_of(result: Mapping[str, Any], slice_name: str, scorer: str) -> Mapping[str, Any]:
    """Return a scorer's block on a slice; of a run in folds, its means over them."""
    over_folds = result.get("fold_summary")
    if over_folds and slice_name not in (result.get("by_slice") or {}):
        scorers: Any = _named(over_folds, slice_name, "slice", "the run")
    else:
        scorers = slice_of(result, slice_name).get("by_scorer")
    return _scorer(scorers, slice_name, scorer)


def blocks_of(result: Mapping[str, Any], slice_name: str, scorer: str) -> list[Mapping[str, Any]]:
    """Return a scorer's block on a slice; of a run in folds, one for each of them."""
    return [
        _scorer(part.get("by_scorer"), slice_name, scorer)
        for parts in parts_of(result, slice_name)
        for part in parts
    ]


def _scorer(scorers: Any, slice_name: str, scorer: str) -> Mapping[str, Any]:
    known = scorers if isinstance(scorers, Mapping) else {}
    return _named(known, scorer, "scorer", f"slice {slice_name!r}")


def _named(known: Mapping[str, Any], name: str, what: str, where: str) -> Mapping[str, Any]:
    if name not in known:
        have = ", ".join(map(repr, known)) or "none"
        raise MissingColumnError(f"{where} has no {what} {name!r}; it has {have}")
    found = known[name]
    if not isinstance(found, Mapping):
        raise InvalidTypeError(f"{what} {name!r} of {where} is {found!r}; it must be an object")
    return found


def number_at(payload: Any, path: MetricPath) -> tuple[float | None, str, Any]:
    """Return the number at a path, else None and why, as the end of a sentence; and what is there.

    At the end of the path may be a number, a cell, whose value is taken if its status is "ok", or
    a mean over folds.
    """
    trail = _follow(payload, path)
    absent = trail.absent or (absence(trail.value) if trail.complete else "")
    if absent:
        return None, was(absent), trail.value
    if not trail.complete:
        return None, f"is not there: {_nothing_at(trail)}", None
    found = value = trail.value
    if isinstance(found, Mapping):
        part = next((key for key in ("value", "mean") if key in found), None)
        if part is None:
            return None, f"is an object with {', '.join(map(repr, found)) or 'nothing'}", found
        value = found[part]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None, f"is {value!r}, which is not a number", found
    if not math.isfinite(value):
        return None, f"is {value}, which is not finite", found
    return float(value), "", found


def blocks(payload: Any, where: str = "") -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield (where, scorer, block) of every scorer in a payload: slices, strata and folds."""
    if not isinstance(payload, Mapping):
        return
    for key, node in payload.items():
        if key == "by_scorer" and isinstance(node, Mapping):
            for scorer, block in node.items():
                if isinstance(block, Mapping):
                    yield where, str(scorer), block
        elif key in ("by_slice", "by_fold", "strata") and isinstance(node, Mapping):
            for name, part in node.items():
                yield from blocks(part, f"{where}/{name}" if where else str(name))


def has(payload: Mapping[str, Any], path: MetricPath) -> bool:
    """Return whether something that is not empty lies at a path."""
    try:
        return lookup(payload, path) not in (None, {}, [])
    except MissingColumnError:
        return False
