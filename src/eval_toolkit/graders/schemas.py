"""JSON schemas supplied by tasks, applied to model output.

The time to check most schemas grows with the size of the value. Patterns and ``uniqueItems`` can
take much longer on some values, recursive schemas can double the time with every level, and
``unevaluated…`` keywords evaluate nested schemas twice. Schemas are themselves validated against a
metaschema with such keywords. Schemas with these keywords, long schemas and long values are
therefore validated in a worker process with a time limit.
"""

import functools
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError

SECONDS = 5.0
"""Time limit in seconds for a check in a worker process."""

_FEATURE = "a JSON schema"
_MEMORY_MB = 1024
_SLOW = (
    *('"pattern', '"uniqueItems"', '"unevaluated'),
    *('"$ref"', '"$dynamicRef"', '"$recursiveRef"'),
)
_SHORT = 2_000
"""Maximum length of a schema that is checked in this process."""
_STEPS = 5_000_000
"""Maximum schema length times number of values checked in this process (under a second)."""
_FRAMES = 10_000
"""Maximum recursion depth, which allows about a hundred frames per level of a value."""


def schema_text(given: Any) -> str:
    """Serialise a schema, given as a mapping or a JSON string, with sorted keys.

    Raises an error if the schema is invalid or takes too long to check.

    Examples
    --------
    >>> schema_text({"type": "array", "items": {}})
    '{"items": {}, "type": "array"}'
    """
    try:
        table = json.loads(given) if isinstance(given, str) else given
        if not isinstance(table, Mapping):
            raise TypeError
        text = json.dumps(table, sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        raise InvalidInputError(
            f"`schema` is {str(given)[:80]!r}; it must be a JSON object"
        ) from None
    problem = _problem(text)
    if problem:
        raise InvalidInputError(f"`schema` {problem}")
    return text


@functools.lru_cache(maxsize=64)
def _problem(schema: str) -> str:
    """Return why a string is not a valid schema; "" if it is valid."""
    if len(schema) <= _SHORT:
        return _problem_here(schema)
    require("jsonschema", feature=_FEATURE, extra="validation")
    from eval_toolkit._internal.sandbox import Overrun

    try:
        return str(_in_worker(_problem_here)(schema))
    except Overrun as overrun:
        much = (
            f"more than {_MEMORY_MB} MB" if overrun.kind == "memory" else f"more than {SECONDS:g} s"
        )
        return f"takes {much} to check; shorten it"


def _problem_here(schema: str) -> str:
    jsonschema = require("jsonschema", feature=_FEATURE, extra="validation")
    table = json.loads(schema)
    try:
        _kind(table).check_schema(table)
    except jsonschema.SchemaError as error:
        return f"is not a valid JSON schema: {error.message[:200]}"
    except RecursionError:
        return "is nested too deeply"
    return ""


def _kind(table: Any) -> Any:
    validators = require("jsonschema", feature=_FEATURE, extra="validation").validators
    return validators.validator_for(table, default=validators.Draft202012Validator)


def _in_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    from eval_toolkit._internal.sandbox import Contained, Limits

    limits = Limits(seconds=SECONDS, memory_mb=_MEMORY_MB)
    return Contained(f"{__name__}:{function.__name__}", limits)


@functools.lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    """Return a validator for a schema; it never fetches remote references."""
    referencing = require("referencing", feature=_FEATURE, extra="validation")
    table = json.loads(schema)
    return _kind(table)(table, registry=referencing.Registry())


def follows(value: Any, schema: str) -> bool:
    """Return whether a value conforms to a schema.

    Raises `Overrun` if the check takes too long, and any exception caused by the schema, such as
    for an unresolvable reference.

    Examples
    --------
    >>> follows([1, 2], schema_text({"type": "array", "maxItems": 1}))
    False
    """
    slow = len(schema) > _SHORT or any(word in schema for word in _SLOW)
    if not slow and _n_values(value) * len(schema) <= _STEPS:
        return _follows(value, schema)
    return bool(_in_worker(_follows_in_worker)(value, schema))


def _n_values(value: Any) -> int:
    """Return the number of values nested in a value, including itself."""
    n, level = 0, [value]
    while level:
        n += len(level)
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return n


def _follows_in_worker(value: Any, schema: str) -> bool:
    sys.setrecursionlimit(_FRAMES)
    try:
        return _follows(value, schema)
    except RecursionError:
        _follows(None, schema)  # circular schemas raise again for any value
        return False


def _follows(value: Any, schema: str) -> bool:
    return bool(_validator(schema).is_valid(value))
