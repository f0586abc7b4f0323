"""JSON schemas supplied by tasks, applied to model output.

Most schemas take time that grows with the value. Patterns and ``uniqueItems`` can take much longer
on some values, and a schema that refers to itself can take twice as long for every level of them:
schemas with patterns, ``uniqueItems`` or references are checked in a worker process, which is
stopped in time.
"""

import functools
import json
import sys
from collections.abc import Mapping
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError

__all__ = ["SECONDS", "follows", "schema_text"]

SECONDS = 5.0
"""Seconds that a check in a worker may take."""

_FEATURE = "a JSON schema"
_SLOW = ('"pattern', '"uniqueItems"', '"$ref"', '"$dynamicRef"', '"$recursiveRef"')
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
        If it is no schema.
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
    _validator(text)
    return text


@functools.lru_cache(maxsize=64)
def _validator(schema: str) -> Any:
    """Return a validator of a schema that never resolves remote references."""
    jsonschema = require("jsonschema", feature=_FEATURE, extra="validation")
    referencing = require("referencing", feature=_FEATURE, extra="validation")
    table = json.loads(schema)
    kind = jsonschema.validators.validator_for(table, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(table)
    except jsonschema.SchemaError as error:
        raise InvalidInputError(f"`schema` is not a JSON schema: {error.message[:200]}") from None
    return kind(table, registry=referencing.Registry())


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
    if not any(word in schema for word in _SLOW):
        return _follows(value, schema)
    from eval_toolkit._internal.sandbox import Contained, Limits

    check = Contained(f"{__name__}:_follows_in_worker", Limits(seconds=SECONDS, memory_mb=1024))
    return bool(check(value, schema))


def _follows_in_worker(value: Any, schema: str) -> bool:
    sys.setrecursionlimit(_FRAMES)
    try:
        return _follows(value, schema)
    except RecursionError:
        _follows(None, schema)  # a schema that goes in circles whatever the value raises again
        return False


def _follows(value: Any, schema: str) -> bool:
    return bool(_validator(schema).is_valid(value))
