"""Grader for JSON output: validity, conformance to a schema, and equality with a reference.

JSON is parsed as I-JSON (RFC 7493): duplicate keys, numbers outside the range of doubles, and
``NaN`` are invalid, since parsers disagree about them. Nesting beyond `DEPTH_LIMIT` and responses
of more than `TEXT_LIMIT` characters are also invalid, which bounds the parsing time of model
output.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from eval_toolkit._internal.sandbox.errors import Overrun
from eval_toolkit.graders.base import COMPLETIONS, KEPT, RATE, ColumnInfo, Grade, options_version
from eval_toolkit.graders.context import context_value
from eval_toolkit.graders.schemas import follows, schema_text
from eval_toolkit.models.responses import Completion

DEPTH_LIMIT = 100
"""Maximum nesting depth of arrays and objects."""
TEXT_LIMIT = 250_000
"""Maximum number of characters of a response."""

_PLACES = 100
"""Maximum number of opening brackets tried as the start of JSON inside other text."""
_OPENING = re.compile(r"[\[{]")
_WHITE_SPACE = " \t\n\r"
_DIGITS = 310
"""Maximum number of digits of an integer in the range of doubles."""


class _TooDeepError(ValueError):
    """Raised for JSON that is nested too deeply."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice in an object")
    return found


def _float(text: str) -> float | int:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("the number is outside the range of doubles")
    # 1 and 1.0 are the same number in JSON.
    return int(value) if value.is_integer() else value


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("the number is outside the range of doubles")
    return int(text)


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not valid JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_float, parse_int=_integer, parse_constant=_constant
)


def read_json(text: str) -> Any:
    """Parse a string as I-JSON.

    Raises ValueError if the string is invalid, too deeply nested or too long.

    Examples
    --------
    >>> read_json(' {"a": [1, 2.0]} ')
    {'a': [1, 2]}
    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    ValueError: a key occurs twice in an object
    """
    if len(text) > TEXT_LIMIT:
        raise ValueError(f"the text has more than {TEXT_LIMIT} characters")
    text = text.strip(_WHITE_SPACE)
    value, end = _read_at(text, 0)
    if end < len(text):
        raise ValueError("there is text after the value")
    return value


def _read_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that starts at a position in a string, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise _TooDeepError("the value is nested too deeply") from None
    # Independent of the caller's stack depth.
    if _is_too_deep(value):
        raise _TooDeepError("the value is nested too deeply")
    return value, end


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(inner, (dict, list)) for inner in level)


def _inside(text: str) -> list[Any]:
    """Return a list of the longest array or object inside a string; empty if there is none."""
    best: list[Any] = []
    length = at = 0
    for _ in range(_PLACES if len(text) <= TEXT_LIMIT else 0):
        match = _OPENING.search(text, at)
        if match is None:
            break
        start = match.start()
        try:
            value, at = _read_at(text, start)
        except _TooDeepError:  # skip its content too
            return []
        except ValueError:
            at = start + 1
            continue
        if at - start > length:
            best, length = [value], at - start
    return best


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """Whether a response is pure JSON, conforms to a schema, and equals a reference.

    The columns, each 0 or 1:

    - ``<name>_is_just_json``: the whole response is one JSON value, without a code fence.
    - ``<name>_is_valid_json``: the response is or contains JSON. If other text surrounds several
      arrays or objects, all columns refer to the longest one.
    - ``<name>_fulfills_schema``: the value conforms to the schema; skipped without a schema. If the
      check exceeds the time limit, the value does not conform, and ``<name>_timed_out`` is 1.
    - ``<name>_exact_match``: the value equals a reference, ignoring the order of keys, whitespace,
      and the difference between 1 and 1.0; skipped without a reference.

    Parameters
    ----------
    schema : mapping or str, optional
        JSON schema (2020-12 unless ``$schema`` differs); by default ``schema`` in the sample's
        context. References to other files are not resolved.
    name : str, default "json_format"
        Name of the columns.

    Raises
    ------
    InvalidInputError
        If the schema is invalid.
    MissingExtraError
        If there is a schema and jsonschema is not installed (extra ``validation``).

    Examples
    --------
    >>> grader = JsonFormat({"type": "object", "required": ["city"]})
    >>> grades = grader.grade(Completion('Sure: {"city": "Rome"}', ground_truth='{"city":"Rome"}'))
    >>> list(grades.values())
    [0.0, 1.0, 1.0, 1.0, 0.0]
    """

    schema: Mapping[str, Any] | str | None = None
    name: str = "json_format"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        if self.schema is not None:
            object.__setattr__(self, "schema", schema_text(self.schema))

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        parts = ("is_just_json", "is_valid_json", "fulfills_schema", "exact_match")
        return {**{f"{self.name}_{part}": RATE for part in parts}, f"{self.name}_timed_out": KEPT}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return one grade for each requirement."""
        try:
            found, alone = [read_json(response.completion)], True
        except ValueError:
            found, alone = _inside(response.completion), False
        late = False
        try:
            follows_schema = self._follows(found, response)
        except Overrun:  # the time limit was exceeded
            follows_schema, late = 0.0, True
        grades = (
            float(alone),
            float(bool(found)),
            follows_schema,
            _equals(found, response),
            float(late),
        )
        return dict(zip(self.columns(), grades, strict=True))

    def _follows(self, found: list[Any], response: Completion) -> float | Grade:
        given = context_value(response, "schema") if self.schema is None else self.schema
        if given is None:
            return Grade.skipped("the sample has no schema")
        schema = schema_text(given)
        try:
            return float(bool(found) and follows(found[0], schema))
        except Overrun:
            raise
        except Exception as failure:  # dangling references, invalid patterns …
            kind = type(failure).__name__
            return Grade.error(f"the schema cannot be checked: {kind}: {failure}"[:300])


def _equals(found: list[Any], response: Completion) -> float | Grade:
    truths = [truth for truth in response.ground_truth_list if truth is not None]
    if not truths:
        return Grade.skipped("the sample has no reference")
    try:
        references = {_canonical(read_json(truth)) for truth in truths}
    except ValueError as error:
        return Grade.error(f"the reference is not JSON: {error}"[:300])
    return float(bool(found) and _canonical(found[0]) in references)
