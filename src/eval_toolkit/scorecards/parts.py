r"""Names of parts of the data: ``language=de``, ``subject=Africa``, ``fold=3``, joined by ``&``.

A part of a slice is named by the conditions that its units satisfy: one ``key=value`` per
condition, in the order of the run, or ``all`` for the whole slice. A key or value that is empty or
contains a space or one of ``& = / @ " \`` is written as a JSON string, ``subject="high school
physics"``; quotes are optional for values with inner spaces. In a run with several slices, the
slice comes first, ``slice=test&language=de``.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import InvalidInputError

WHOLE = "all"
"""Name of the part with all units of a slice."""
SLICE = "slice"
"""Key of the slice name, used in runs with several slices."""
FOLD, SEED = "fold", "seed"
"""Keys of a fold: its number, and its seed if there are several."""

_BARE = re.compile(r'[^\s"&=/@\\]+')
_KEY = re.compile(r'\s*([^\s"&=/@\\]+)\s*=\s*')
_VALUE = re.compile(r'[^"&/\\]*[^"&/\\\s]')
PART_START = re.compile(
    r'\s*(?:all(?=\s*(?:/|$))|(?:"(?:[^"\\]|\\.)*"|[^\s"&=/@\\]+)\s*=)', re.DOTALL
)
"""Pattern that matches the start of a part, but not of a metric name."""


def quoted(text: str) -> str:
    r"""Return a key or value as written in a part, quoted if necessary.

    Examples
    --------
    >>> print(quoted("Africa"), quoted("R&D"), quoted('say "no"'))
    Africa "R&D" "say \"no\""
    """
    return text if _BARE.fullmatch(text) and text.isprintable() else json_string(text)


def json_string(text: str) -> str:
    r"""Return a text as a JSON string of printable characters.

    Examples
    --------
    >>> print(json_string("zwölf"), json_string(chr(10)))
    "zwölf" "\n"
    """
    encoded = json.dumps(text, ensure_ascii=False)
    if encoded.isprintable():
        return encoded
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in encoded)


def format_part(pairs: Mapping[str, str]) -> str:
    """Return the name of a part from its conditions (none for the whole slice).

    Examples
    --------
    >>> format_part({"language": "de"}), format_part({"seed": "42", "fold": "3"}), format_part({})
    ('language=de', 'seed=42&fold=3', 'all')
    """
    if "" in pairs:
        raise InvalidInputError("a part has an empty key; every part needs a name for its values")
    named = (f"{quoted(str(key))}={quoted(str(value))}" for key, value in pairs.items())
    return "&".join(named) or WHOLE


def parse_part(text: str) -> dict[str, str]:
    """Parse the name of a part into its conditions, in order (none for the whole slice).

    Examples
    --------
    >>> parse_part("seed=42 & fold=3"), parse_part('subject="A & B"'), parse_part("all")
    ({'seed': '42', 'fold': '3'}, {'subject': 'A & B'}, {})
    """
    pairs, rest = read_part(text)
    if rest.strip():
        raise _malformed(text, f"unexpected {rest.strip()!r} at the end")
    return pairs


def read_part(text: str) -> tuple[dict[str, str], str]:
    """Parse the part at the beginning of a string; return it and the rest.

    Examples
    --------
    >>> read_part("language=de / guard")
    ({'language': 'de'}, '/ guard')
    """
    if re.match(r"\s*all(?=\s*(?:/|$))", text):
        return {}, text.lstrip()[len(WHOLE) :].lstrip()
    pairs: dict[str, str] = {}
    rest = text
    while True:
        key, rest = _key(rest, text)
        value, rest = _value(rest, text)
        if key in pairs:
            raise _malformed(text, f"the key {key!r} occurs twice")
        pairs[key] = value
        if not rest.startswith("&"):
            return pairs, rest
        rest = rest[1:]


def _key(rest: str, text: str) -> tuple[str, str]:
    if rest.lstrip().startswith('"'):
        key, after = _string(rest.lstrip(), text)
        if key and after.startswith("="):
            return key, after[1:].lstrip()
    elif bare := _KEY.match(rest):
        return bare[1], rest[bare.end() :]
    raise _malformed(text, "write conditions such as language=de, joined by &, or all")


def _value(rest: str, text: str) -> tuple[str, str]:
    if rest.startswith('"'):
        value, rest = _string(rest, text)
    else:
        bare = _VALUE.match(rest)
        if bare is None:
            raise _malformed(text, 'a value is missing; write "" for an empty value')
        value, rest = bare[0], rest[bare.end() :].lstrip()
    if rest and rest[0] not in "&/":
        raise _malformed(text, 'a value with special characters must be quoted, as in "a & b"')
    return value, rest


def _string(rest: str, text: str) -> tuple[str, str]:
    """Return the quoted string at the start, and the rest without leading spaces."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(rest)
    except (ValueError, RecursionError):
        raise _malformed(
            text, "a double quote is not closed, or a backslash escapes nothing"
        ) from None
    return str(value), rest[end:].lstrip()


def _malformed(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{text.strip()!r:.200} is not a valid part: {why}")


def rows_of_folds(parts: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of test rows and positives over all folds (minimum over seeds).

    The result is empty if there are no folds, or if the size of a fold is unknown.

    Examples
    --------
    >>> rows_of_folds({"fold=0": {"n": 5, "n_positive": 2}, "fold=1": {"n": 4, "n_positive": 2}})
    {'n': 9, 'n_positive': 4}
    """
    sums: dict[str, list[int]] = {}
    for name, part in parts.items():
        pairs = parse_part(name)
        if set(pairs) - {SEED, FOLD} or FOLD not in pairs or not isinstance(part, Mapping):
            continue
        counts = [part.get("n"), part.get("n_positive")]
        if not all(isinstance(count, int) for count in counts):
            return {}
        total = sums.setdefault(pairs.get(SEED, ""), [0, 0])
        total[:] = [old + int(new or 0) for old, new in zip(total, counts, strict=True)]
    if not sums:
        return {}
    return dict(zip(("n", "n_positive"), min(sums.values()), strict=True))
