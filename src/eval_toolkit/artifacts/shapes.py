"""Lightweight checks of stored payloads against the types in their schemas.

The schemas of this package use few keywords of JSON Schema; they are interpreted here without a
library, so every run is checked before use. Missing and null values are accepted, since
readers check for them; `schema_problems` is strict.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from eval_toolkit.artifacts.validation import load_schema

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
}


def shape_problem(payload: Any, schema: str | dict[str, Any]) -> str:
    """Return the first violation of a schema by a payload, or "" if there is none.

    The schema is one of `schema_names`, or a schema that uses only the keywords of this package's
    schemas. The violation has the form ``location: problem``.

    Examples
    --------
    >>> shape_problem({"by_slice": {"x": {}}}, "results.v1")
    ''
    >>> shape_problem({"by_slice": {"x": 1}}, "results.v1")
    'by_slice → x: is 1; it must be object'
    """
    rules = _schema(schema) if isinstance(schema, str) else schema
    found = _first(payload, rules, rules, ())
    if found is None:
        return ""
    place, problem = found
    return f"{' → '.join(place) or 'the payload'}: {problem}"


_schema = cache(load_schema)

Problem = tuple[tuple[str, ...], str]


def _first(value: Any, schema: Any, root: dict[str, Any], place: tuple[str, ...]) -> Problem | None:
    """Return the first violation in a value, in document order."""
    if schema is True:
        return None
    if "$ref" in schema:
        found = _first(value, _target(schema["$ref"], root), root, place)
        if found is not None:
            return found
    problem = _own_problem(value, schema)
    if problem:
        return place, problem
    return _combined(value, schema, root, place) or _inner(value, schema, root, place)


def _target(ref: str, root: dict[str, Any]) -> Any:
    return root["$defs"][ref.removeprefix("#/$defs/")]


def _own_problem(value: Any, schema: Mapping[str, Any]) -> str:
    types = schema.get("type")
    if types is not None:
        named = [types] if isinstance(types, str) else types
        absent = value is None and "object" not in named
        if not absent and not any(_TYPES[name](value) for name in named):
            return f"is {_shown(value)}; it must be {' or '.join(named)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"is {_shown(value)}; it must be one of {', '.join(map(repr, schema['enum']))}"
    if "minimum" in schema and _TYPES["number"](value) and value < schema["minimum"]:
        return f"is {_shown(value)}; it must be at least {schema['minimum']}"
    if "maximum" in schema and _TYPES["number"](value) and value > schema["maximum"]:
        return f"is {_shown(value)}; it must be at most {schema['maximum']}"
    return ""


def _holds(value: Any, condition: Mapping[str, Any]) -> bool:
    """Return whether a value satisfies a condition on its type, its keys and their values."""
    if "type" in condition and not _TYPES[condition["type"]](value):
        return False
    if not isinstance(value, dict):
        return "required" not in condition
    if any(name not in value for name in condition.get("required", ())):
        return False
    for name, inner in condition.get("properties", {}).items():
        if name in value and value[name] != inner.get("const", value[name]):
            return False
    return "anyOf" not in condition or any(_holds(value, one) for one in condition["anyOf"])


def _combined(
    value: Any, schema: Mapping[str, Any], root: dict[str, Any], place: tuple[str, ...]
) -> Problem | None:
    for part in schema.get("allOf", ()):
        if found := _first(value, part, root, place):
            return found
    if "anyOf" in schema:
        tried = []
        for part in schema["anyOf"]:
            problem = _one_of(value, part, root, place)
            if problem is None:
                break
            tried.append(problem)
        else:
            return max(tried, key=lambda one: len(one[0]))
    if "if" in schema:
        branch = "then" if _holds(value, schema["if"]) else "else"
        return _first(value, schema.get(branch, True), root, place)
    return None


def _one_of(
    value: Any, schema: Any, root: dict[str, Any], place: tuple[str, ...]
) -> Problem | None:
    """Return the violation of an alternative, reporting missing required keys first."""
    schema = _target(schema["$ref"], root) if "$ref" in schema else schema
    for name in schema.get("required", ()) if isinstance(value, dict) else ():
        if name not in value:
            return place, f"is {_shown(value)}; {name!r} is missing"
    return _first(value, schema, root, place)


def _inner(
    value: Any, schema: Mapping[str, Any], root: dict[str, Any], place: tuple[str, ...]
) -> Problem | None:
    if isinstance(value, dict):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, inner in value.items():
            if found := _first(inner, known.get(name, other), root, (*place, name)):
                return found
    elif isinstance(value, list) and "items" in schema:
        for at, inner in enumerate(value):
            if found := _first(inner, schema["items"], root, (*place, str(at))):
                return found
    return None


def _shown(value: Any) -> str:
    return f"{json.dumps(value, default=str):.60}"
