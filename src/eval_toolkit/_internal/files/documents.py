"""Parsing of JSON, TOML and YAML into plain values, with limits on size and depth.

YAML is first scanned as events, to check depth, cycles and alias expansion before any value is
constructed. TOML is scanned for long dotted keys. All parser errors become one-line messages.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import limits
from eval_toolkit._internal.files.regular import read_regular
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ArtifactError, InvalidInputError

_TOO_DEEP = f"nested too deeply (more than {limits.DEPTH} levels)"
Refusal = type[ArtifactError] | type[InvalidInputError]


def read_document(
    path: str | Path,
    *,
    suffix: str | None = None,
    loader: Any = None,
    error: Refusal = InvalidInputError,
) -> Any:
    """Return the content of a TOML, YAML or JSON file, chosen by suffix; YAML is the default.

    Files are limited to `limits.DOCUMENT_BYTES` bytes. ``loader`` is a PyYAML loader that supports
    more tags than the safe loader.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.toml"
    >>> _ = path.write_text("a.b = 1")
    >>> read_document(path)
    {'a': {'b': 1}}
    """
    try:
        text = str(read_regular(path, most=limits.DOCUMENT_BYTES), "utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise error(f"{path}: byte {wrong.start} is not UTF-8") from None
    except ArtifactError as wrong:
        raise error(str(wrong)) from None
    suffix = suffix or Path(path).suffix.lower()
    if suffix == ".json":
        return parse_json(text, path, error=error)
    if suffix == ".toml":
        return parse_toml(text, path, error=error)
    return parse_yaml(text, path, loader=loader, error=error)


# --- JSON ---------------------------------------------------------------------------------------


def parse_json(
    text: str | bytes, place: str | Path, *, strict: bool = True, error: Refusal = ArtifactError
) -> Any:
    """Parse a JSON value.

    ``strict`` rejects ``NaN``, ``Infinity`` and numbers beyond the largest float, such as 1e999,
    which other tools write. ``place`` is the location of the value in messages.

    Examples
    --------
    >>> parse_json('{"a": [1]}', "line 1")
    {'a': [1]}
    >>> parse_json("[" * 500 + "]" * 500, "line 1")
    Traceback (most recent call last):
    ...
    eval_toolkit.errors.ArtifactError: line 1: malformed JSON: nested too deeply (more than 100 levels)
    """
    try:
        text = (str(text, "utf-8") if isinstance(text, bytes) else text).removeprefix("\ufeff")
        value = _decoded(text) if strict else _LENIENT.decode(text)
        deep, large = _extremes(value, limits.DEPTH)
        if not deep:
            return _STRICT_LARGE.decode(text) if strict and large else value
        problem = _TOO_DEEP
    except RecursionError:
        problem = _TOO_DEEP
    except UnicodeDecodeError as wrong:
        raise error(f"{place}: not UTF-8 at byte {wrong.start}") from None
    except json.JSONDecodeError as wrong:
        line = f": line {wrong.lineno}" if "\n" in text else ""
        raise error(f"{place}{line}: malformed JSON: {wrong.msg} (column {wrong.colno})") from None
    except _NotFiniteError as wrong:
        raise error(f"{place}: {wrong} is not valid JSON; use null for missing values") from None
    except ValueError as wrong:  # an integer with thousands of digits
        problem = str(wrong)
    raise error(f"{place}: malformed JSON: {problem}")


class _NotFiniteError(ValueError):
    """A number is not valid JSON or overflows a float."""


def _refused(constant: str) -> Any:
    raise _NotFiniteError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refused(f"{digits:.40}")


def _integer(digits: str) -> int:
    if len(digits) > limits.DIGITS:
        raise ValueError(
            f"an integer has {len(digits)} digits; at most {limits.DIGITS} are allowed"
        )
    return int(digits)


# Created once, since `json.loads` with options creates a decoder per call. Few texts contain a
# number that could be too large; only those have every number checked.
_LENIENT = json.JSONDecoder()
_STRICT = json.JSONDecoder(parse_constant=_refused)
_STRICT_LARGE = json.JSONDecoder(parse_constant=_refused, parse_float=_finite, parse_int=_integer)
_LARGE = 1e300


def _decoded(text: str) -> Any:
    """Return a JSON value without `NaN` and `Infinity`; numbers may be too large."""
    try:
        return _STRICT.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer with thousands of digits
        return _STRICT_LARGE.decode(text)


def _extremes(value: Any, most: int) -> tuple[bool, bool]:
    """Return whether a value is nested deeper than ``most``, and whether it has large numbers."""
    large = False
    level: list[Any] = [[value]]
    for _ in range(most + 1):
        deeper: list[Any] = []
        for outer in level:
            for inner in outer.values() if isinstance(outer, dict) else outer:
                kind = type(inner)
                if kind is dict or kind is list:
                    deeper.append(inner)
                elif (kind is float or kind is int) and not -_LARGE < inner < _LARGE:
                    large = True
        if not deeper:
            return False, large
        level = deeper
    return True, large


# --- TOML ---------------------------------------------------------------------------------------

_TOML_APART = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"""|'
    r"'''(?:[^']|'(?!''))*+'''|"
    r'"(?:[^"\\\n]|\\.)*+"|'
    r"'[^'\n]*+'|"
    r"#[^\n]*+",
    re.DOTALL,
)
_TOML_KEY = re.compile(r"[A-Za-z0-9_-]++(?:[ \t]*+\.[ \t]*+[A-Za-z0-9_-]++)*+")
_BRACKETS = re.compile(r"[\[\]{}]")


def parse_toml(text: str, place: str | Path, *, error: Refusal = InvalidInputError) -> Any:
    """Parse a TOML document.

    Examples
    --------
    >>> parse_toml("a = [1, 2]", "x.toml")
    {'a': [1, 2]}
    >>> parse_toml("a." * 200 + "a = 1", "x.toml")
    Traceback (most recent call last):
    ...
    eval_toolkit.errors.InvalidInputError: x.toml: not TOML: line 1: nested too deeply (more than 100 levels)
    """
    import tomllib

    # Replace each string by one letter, so that quoted keys look like bare keys.
    bare = _TOML_APART.sub(lambda found: "q" + "\n" * found[0].count("\n"), text)
    line = _deep_toml_line(bare)
    if line:
        raise error(f"{place}: not TOML: line {line}: {_TOO_DEEP}")
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise error(f"{place}: not TOML: {_line(wrong)}") from None
    _check_integers(value, place, "TOML", error)
    return value


def _deep_toml_line(bare: str) -> int:
    """Return the first line with too deeply nested keys or brackets, or 0."""
    for found in _TOML_KEY.finditer(bare):
        if found[0].count(".") >= limits.DEPTH:
            return bare.count("\n", 0, found.start()) + 1
    depth = 0
    for found in _BRACKETS.finditer(bare):
        depth = max(0, depth + (1 if found[0] in "[{" else -1))
        if depth > limits.DEPTH:
            return bare.count("\n", 0, found.start()) + 1
    return 0


# --- YAML ---------------------------------------------------------------------------------------


def parse_yaml(
    text: str, place: str | Path, *, loader: Any = None, error: Refusal = InvalidInputError
) -> Any:
    """Parse a YAML document into plain Python values.

    Examples
    --------
    >>> parse_yaml("a: [1, 2]", "x.yaml")
    {'a': [1, 2]}
    >>> parse_yaml("a: &a [*a]", "x.yaml")
    Traceback (most recent call last):
    ...
    eval_toolkit.errors.InvalidInputError: x.yaml: not YAML: line 1: the alias *a is inside the node it refers to
    """
    yaml = require("yaml", feature=f"the file {Path(place).name}", extra="yaml")
    loader = loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        problem = _yaml_problem(yaml, text, loader)
        value = None if problem else yaml.load(text, Loader=loader)
    except yaml.YAMLError as wrong:
        raise error(f"{place}: not YAML: {_line(wrong)}") from None
    except Exception as wrong:  # bad dates and numbers raise various errors: !!int ""
        raise error(
            f"{place}: not YAML: a value cannot be read: {type(wrong).__name__}: {_line(wrong)}"
        ) from None
    if problem:
        raise error(f"{place}: not YAML: {problem}")
    _check_integers(value, place, "YAML", error)
    return value


_NUMERAL = re.compile(r"[-+]?[0-9][0-9A-Fa-f_:.xob]*+").fullmatch
"""Matches numerals, whose length is limited because base-60 integers take quadratic time."""


def _yaml_problem(yaml: Any, text: str, loader: Any) -> str:
    """Describe a structural problem of a YAML document, or return "" if there is none."""
    sizes: dict[str, int | None] = {}
    """Expanded size of each anchor in characters; None while the anchor is open."""
    counts: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(text, Loader=loader):
        line = f"line {event.start_mark.line + 1}"
        anchor, size = getattr(event, "anchor", None), 1
        if isinstance(event, yaml.CollectionStartEvent):
            counts.append((anchor, 1))
            if anchor:
                sizes[anchor] = None
            if len(counts) > limits.DEPTH + 1:
                return f"{line}: {_TOO_DEEP}"
            continue
        if isinstance(event, yaml.AliasEvent):
            found = sizes.get(str(anchor), 1)
            if found is None:
                return f"{line}: the alias *{anchor} is inside the node it refers to"
            size = found
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = counts.pop()
        elif isinstance(event, yaml.ScalarEvent):
            size = 1 + len(event.value)
            typed = event.tag or not event.style  # quoted scalars are never numbers
            if size > limits.NUMBER_LENGTH and typed and _NUMERAL(event.value):
                return f"{line}: a number has {size - 1} characters; at most {limits.NUMBER_LENGTH} are allowed"
        else:
            continue
        if anchor and not isinstance(event, yaml.AliasEvent):
            sizes[anchor] = size
        outer, sum_ = counts.pop()
        counts.append((outer, sum_ + size))
        if sum_ + size > limits.EXPANDED:
            return f"{line}: aliases expand to more than {limits.EXPANDED} characters"
    return ""


def _check_integers(value: Any, place: str | Path, what: str, error: Refusal) -> None:
    """Reject integers that are too large; a few characters can denote gigabytes."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if type(one) is int and one.bit_length() > limits.INTEGER_BITS:
            raise error(
                f"{place}: not {what}: an integer has {one.bit_length()} bits; at most "
                f"{limits.INTEGER_BITS} are allowed"
            )
        if isinstance(one, (Mapping, list, set, tuple)) and id(one) not in seen:
            seen.add(id(one))
            waiting += [*one, *one.values()] if isinstance(one, Mapping) else one


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
