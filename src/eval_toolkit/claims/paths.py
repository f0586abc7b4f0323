"""Lookup by path in a results payload, in which names may contain dots."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.metric_specs.names import stored_name
from eval_toolkit.runs.results import Results
from eval_toolkit.scorecards.parts import WHOLE

MetricPath: TypeAlias = str | Sequence[str]
"""Nested keys, or their names joined by dots."""

_BOUNDS = ("ci_low", "ci_high")


@dataclass(frozen=True, slots=True)
class _Trail:
    """State of a lookup: the last object found, its path, and cells on the path without values."""

    value: Any
    complete: bool
    rest: str
    absent: str = ""


def shown(path: MetricPath) -> str:
    """Return a path as a string for names and messages."""
    if isinstance(path, str):
        keys: Sequence[str] = [path]
    elif isinstance(path, Sequence):
        keys = path
    else:
        raise InvalidTypeError(f"a path must be a string or a list of keys, got {path!r}")
    if not keys or not all(isinstance(key, str) and key for key in keys):
        raise InvalidInputError(f"a path must be a non-empty string or list of keys, got {path!r}")
    return ".".join(keys)


def lookup(payload: Any, path: MetricPath) -> Any:
    """Return the object at a path, or raise `MissingColumnError` (a KeyError).

    A string is matched greedily: the longest existing key is used, so
    ``recall_at_fpr_0.01.value`` finds the key ``recall_at_fpr_0.01``. The bounds of a cell's
    interval are attributes of the cell itself, ``pr_auc.ci_low``.

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
        return f"the cell has no interval: {node.get('reason') or 'none was computed'}"
    have = ", ".join(map(repr, node)) if isinstance(node, Mapping) else ""
    return f"there is no {trail.rest!r}; available: {have or 'nothing'}"


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
    for n_parts in range(len(parts), 0, -1):
        found = _step(node, ".".join(parts[:n_parts]))
        if found is None:
            continue
        if n_parts == len(parts):
            return _Trail(found[0], True, "", absent)
        trail = _greedy(found[0], ".".join(parts[n_parts:]))
        if trail.complete:
            return trail
        if len(trail.rest) < len(furthest.rest):
            furthest = trail
    return furthest


def _step(node: Any, key: str) -> tuple[Any] | None:
    """Return the value of a key as a 1-tuple, or None if the key is missing."""
    if isinstance(node, Mapping):
        if key in node:
            return (node[key],)
        if "@" in key or "=" in key:  # f1@0.5 and other spellings
            stored = stored_name(key)
            if stored in node:
                return (node[stored],)
        interval = node.get("ci")
        if key in _BOUNDS and isinstance(interval, Mapping) and key in interval:
            return (interval[key],)
    elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
        return (node[int(key)],)
    return None


def absence(node: Any) -> str:
    """Return the reason why a cell or a scorer's results lack a value; "" if they have one.

    A mean over folds has no value if any fold has none, because the other folds contain different
    rows.
    """
    if not isinstance(node, Mapping):
        return ""
    details = node.get("details")
    if isinstance(details, Mapping) and is_over_folds(node):
        return _absent_folds(node, details)
    if node.get("status") in ("skipped", "error"):
        return f"{node['status']}: {node.get('reason') or 'no reason given'}"
    for state in ("skipped", "error"):
        if isinstance(node.get(state), str):
            return f"{state}: {node[state] or 'no reason given'}"
    return ""


def is_over_folds(cell: Any) -> bool:
    """Return whether a stored cell is a mean over folds."""
    details = cell.get("details") if isinstance(cell, Mapping) else None
    return isinstance(details, Mapping) and details.get("over") == "folds"


def _absent_folds(cell: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    n_folds, n_failed = (
        count if isinstance(count := details.get(key), int) else 0
        for key in ("n_folds", "n_failed")
    )
    if n_failed > 0:
        why = "; ".join(map(str, details.get("failures") or ())) or "no reason given"
        return f"error: {n_failed} of {n_folds + n_failed} folds have no value: {why}"
    if cell.get("status") == "ok" and cell.get("ci"):
        return ""
    return f"skipped: {cell.get('reason') or 'no reason given'}"


def was(reason: str) -> str:
    """Return "was skipped: reason" or "failed: reason", to complete a sentence."""
    state, _, why = reason.partition(": ")
    return f"was skipped: {why}" if state == "skipped" else f"failed: {why}"


def entry_of(results: Results, name: str) -> Mapping[str, Any]:
    """Return the stored results of a slice or part by name."""
    return results.entry(*_place(results, name))


def tested_entries(results: Results, name: str) -> list[Mapping[str, Any]]:
    """Return the stored results of a slice; with folds, one entry per fold."""
    return [results.entry(*place) for place in _tested(results, name)]


def block_of(results: Results, name: str, scorer: str) -> Mapping[str, Any]:
    """Return a scorer's results on a slice or part; with folds, the means over them."""
    slice_name, part = _place(results, name)
    return results.block(slice_name, scorer, part)


def tested_blocks(results: Results, name: str, scorer: str) -> list[Mapping[str, Any]]:
    """Return a scorer's results on a slice; with folds, one entry per fold."""
    places = _tested(results, name)
    return [results.block(slice_name, scorer, part) for slice_name, part in places]


def _tested(results: Results, name: str) -> list[tuple[str, str]]:
    slice_name, part = _place(results, name)
    folds = [(slice_name, own) for own in results.parts(slice_name) if own in results.folds]
    return folds if part == WHOLE and folds else [(slice_name, part)]


def _place(results: Results, name: str) -> tuple[str, str]:
    """Return the slice and the part to which a name refers."""
    found = results.named(name)
    if not found:
        results.entry(name)  # raises an error that lists the existing names
    if len(found) > 1:
        listed = ", ".join(repr(results.place(*place)) for place in found)
        raise InvalidInputError(f"{name!r} is ambiguous: {listed}; specify the slice as well")
    return found[0]


def number_at(payload: Any, path: MetricPath) -> tuple[float | None, str, Any]:
    """Return the number at a path, or None with the reason, and the object at the path.

    The path may end at a number, or at a cell, whose value is used if its status is "ok".
    """
    trail = _follow(payload, path)
    absent = trail.absent or (absence(trail.value) if trail.complete else "")
    if absent:
        return None, was(absent), trail.value
    if not trail.complete:
        return None, f"is missing: {_nothing_at(trail)}", None
    found = value = trail.value
    if isinstance(found, Mapping):
        if "value" not in found:
            return (
                None,
                f"is not a number but an object with {', '.join(map(repr, found)) or 'no keys'}",
                found,
            )
        value = found["value"]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None, f"is {value!r}, which is not a number", found
    if not math.isfinite(value):
        return None, f"is {value}, which is not finite", found
    return float(value), "", found


def blocks(results: Results) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield (location, scorer, results) for every scorer: slices, then their parts and folds."""
    for slice_name, part, scorer, block in results.blocks():
        yield slice_name if part == WHOLE else f"{slice_name}, {part}", scorer, block


def has(payload: Mapping[str, Any], path: MetricPath) -> bool:
    """Return whether there is a non-empty object at a path."""
    try:
        return lookup(payload, path) not in (None, {}, [])
    except MissingColumnError:
        return False
