"""JSON schemas supplied by tasks, applied to model output.

Most schemas take time that grows with the value. Patterns and ``uniqueItems`` can take much longer
on some values, a schema that refers to itself can take twice as long for every level of them, and
one that asks what was evaluated looks twice at every schema inside it. A schema is itself checked
against a schema with such parts. Schemas with these words, long schemas, and long values are
therefore checked in a worker process, which is stopped in time.
"""

import functools
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError

__all__ = ["SECONDS", "follows", "schema_text"]

SECONDS = 5.0
"""Seconds that a check in a worker may take."""

_FEATURE = "a JSON schema"
_MEMORY_MB = 1024
_SLOW = (
    *('"pattern', '"uniqueItems"', '"unevaluated'),
    *('"$ref"', '"$dynamicRef"', '"$recursiveRef"'),
)
_SHORT = 2_000
"""Characters of a schema that is looked at in this process."""
_STEPS = 5_000_000
"""Characters of a schema times values inside a value: less than a second."""
_FRAMES = 10_000
"""Maximum recursion depth: a hundred per level of a value."""


def schema_text(given: Any) -> str:
    """Return a schema, given as a table or as JSON, in a canonical text form.

    Parameters
    ----------
    given : mapping or str
        The schema.

    Returns
    -------
    str
        JSON with sorted keys.

    Raises
    ------
    InvalidInputError
        If it is no schema, or takes too long to check.
    MissingExtraError
        If jsonschema is not installed (extra ``validation``).

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
    """Return why a text is no schema, "" where it is one."""
    if len(schema) <= _SHORT:
        return _problem_here(schema)
    require("jsonschema", feature=_FEATURE, extra="validation")
    from eval_toolkit._internal.sandbox import Overrun

    try:
        return str(_in_worker(_problem_here)(schema))
    except Overrun as overrun:
        much = f"more than {_MEMORY_MB} MB" if overrun.kind == "memory" else f"over {SECONDS:g} s"
        return f"takes {much} to check; shorten it"


def _problem_here(schema: str) -> str:
    jsonschema = require("jsonschema", feature=_FEATURE, extra="validation")
    table = json.loads(schema)
    try:
        _kind(table).check_schema(table)
    except jsonschema.SchemaError as error:
        return f"is no JSON schema: {error.message[:200]}"
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
    """Return what checks values against a schema; it fetches nothing from anywhere."""
    referencing = require("referencing", feature=_FEATURE, extra="validation")
    table = json.loads(schema)
    return _kind(table)(table, registry=referencing.Registry())


def follows(value: Any, schema: str) -> bool:
    """Return whether a value conforms to a schema.

    Parameters
    ----------
    value : object
        Value of plain JSON types.
    schema : str
        Schema as returned by `schema_text`.

    Returns
    -------
    bool
        Whether it does.

    Raises
    ------
    Overrun
        If the check takes too long.
    Exception
        Whatever the schema makes the check raise, such as a reference that leads nowhere.

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
    """Return how many values there are inside a value, itself included."""
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
        _follows(None, schema)  # a schema that goes in circles whatever the value raises again
        return False


def _follows(value: Any, schema: str) -> bool:
    return bool(_validator(schema).is_valid(value))
