"""Checks of manifest fields that readers rely on, beyond the schema.

Manifests are untrusted. Fields that are only displayed may have any type, but fields used in
computations must have the expected type, even if all hashes are valid.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from eval_toolkit.artifacts.shapes import shape_problem

_OBJECT = {"type": "object"}
_TEXT = {"type": "string"}
_TRUTH = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 10_000}
_COUNTS = {"type": "array", "items": _COUNT}
_MAYBE = {"type": ["object", "null"]}
_DATA = {**_MAYBE, "properties": {"n_rows": _MAYBE}}
_SPEAKER = {"type": "object", "properties": {"name": _TEXT, "kind": _TEXT}}
_ROLLOUT = {
    "seed": {"type": "integer"},
    "depth": _COUNT,
    "width": _COUNTS,
    "keep": _COUNT,
    "asr_at": _COUNTS,
    "rollouts_per_seed": _COUNT,
    "policy": _TEXT,
    "on_error": _TEXT,
    "scored_by": _TEXT,
    "stopped_by": _TEXT,
    "stop_on_success": _TRUTH,
    "scorers": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"version": _TEXT, "mode": _TEXT, "higher_is_worse": _TRUTH},
        },
    },
    "system": {
        "type": "object",
        "properties": {
            "tester": _SPEAKER,
            "target": _SPEAKER,
            "decoding": _OBJECT,
            "reasoning_tags": {"type": "array", "items": {"type": "array", "items": _TEXT}},
        },
    },
    "seeds": {"type": "object", "properties": {"name": _TEXT}},
}
_ANY_KIND = {
    "kind": _TEXT,
    "task": {"type": ["object", "string"], "properties": {"dataset": _DATA}},
    "decoding": _OBJECT,
    "thresholds": {"type": ["object", "array"]},  # by scorer, or the criteria of selectors
    "higher_is_better": {"type": "object", "additionalProperties": _TRUTH},
}
_MANIFEST = {"config": _OBJECT, "versioned_objects": _OBJECT, "inputs": _OBJECT, "units": _OBJECT}


def missing_setting(config: Mapping[str, Any], needed: Iterable[str]) -> str:
    """Return the first missing setting of a configuration; "" if there is none.

    Nested settings are written as ``system.target``.

    Examples
    --------
    >>> missing_setting({"system": {"target": "x"}}, ["system.target", "system.tester"])
    'system.tester'
    """
    for place in needed:
        found: Any = config
        for key in place.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        if found is None:
            return place
    return ""


def manifest_problem(manifest: Mapping[str, Any]) -> str:
    """Describe the first field that readers cannot use; return "" if there is none.

    Examples
    --------
    >>> manifest_problem({"config": {"kind": "rollout", "depth": 3, "width": [1]}})
    ''
    >>> manifest_problem({"config": {"kind": "rollout", "depth": "deep"}})
    'config → depth: is "deep"; it must be integer'
    """
    config = manifest.get("config")
    rollout = isinstance(config, Mapping) and config.get("kind") == "rollout"
    known = {**_ANY_KIND, **(_ROLLOUT if rollout else {})}
    parts = {**_MANIFEST, "config": {**_OBJECT, "properties": known}}
    return shape_problem(
        {name: manifest[name] for name in _MANIFEST if manifest.get(name) is not None},
        {"type": "object", "properties": parts},
    )


def results_problem(results: Any) -> str:
    """Describe the first violation of the schema of results; return "" if there is none.

    This is checked when a run is written and when it is read, so stored results are always
    readable.

    Examples
    --------
    >>> results_problem({"by_slice": {"x": 1}})
    'by_slice → x: is 1; it must be object (schema results.v1)'
    """
    problem = shape_problem(results, "results.v1")
    return f"{problem} (schema results.v1)" if problem else ""
