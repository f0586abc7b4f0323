"""Matching of user-supplied patterns on model output, in the sandbox unless provably fast.

Python's ``re`` backtracks, so a pattern can explore exponentially many paths. `is_simple` computes
an upper bound of their number. Patterns with few paths run in this process; other patterns run in a
worker that is stopped after `SECONDS`.
"""

import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

PATTERN_LIMIT = 20_000
"""Maximum number of characters searched, counted from the end of the string."""
SECONDS = 1.0
"""Time limit in seconds for a complex pattern on one string."""
_WAYS = PATTERN_LIMIT + 1
"""Maximum number of paths of a simple pattern; a search over that many takes about two seconds."""


def find_in(text: str, pattern: re.Pattern[str], which: str) -> str | None:
    """Return the match of a pattern near the end of a string.

    Only the last `PATTERN_LIMIT` characters are searched. Returns the first group that matched, the
    whole match if there are no groups, or None without a match. Raises `Overrun` if the search
    takes too long.

    Examples
    --------
    >>> find_in("1 and 2", re.compile(r"[0-9]"), "last")
    '2'
    """
    end = text[-PATTERN_LIMIT:]
    found = _runner(pattern, _found)(pattern.pattern, pattern.flags, end, which)
    return None if found is None else str(found)


def take_out(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    r"""Remove all matches of patterns from a string; see `find_in` for the limits.

    Examples
    --------
    >>> take_out("$1,000", (re.compile(","), re.compile(r"\$")))
    '1000'
    """
    text = text[-PATTERN_LIMIT:]
    for pattern in patterns:
        text = str(_runner(pattern, _without)(pattern.pattern, pattern.flags, text))
    return text


def groups_in(text: str, pattern: re.Pattern[str]) -> dict[str, str | None] | None:
    r"""Return the named groups of a pattern's first match in a string, or None.

    Raises `Overrun` if the search takes too long.

    Examples
    --------
    >>> groups_in("7 apples", re.compile(r"(?P<n>\d+) (?P<what>\w+)"))
    {'n': '7', 'what': 'apples'}
    """
    found = _runner(pattern, _groups, text)(pattern.pattern, pattern.flags, text)
    return None if found is None else dict(found)


def replace_in(text: str, pattern: str, repl: str, count: int = 0) -> str:
    """Replace the matches of a pattern in a string (used by templates in a worker)."""
    return re.sub(pattern, repl, text, count=count)


def _runner(
    pattern: re.Pattern[str], function: Callable[..., Any], text: str = ""
) -> Callable[..., Any]:
    if len(text) <= PATTERN_LIMIT and is_simple(pattern.pattern, pattern.flags):
        return function
    # Import lazily: most graders have no patterns, and most patterns are simple.
    from eval_toolkit._internal.sandbox.limits import Limits
    from eval_toolkit._internal.sandbox.workers import Contained

    return Contained(f"{__name__}:{function.__name__}", Limits(seconds=SECONDS, memory_mb=512))


def _found(pattern: str, flags: int, text: str, which: str) -> str | None:
    found: str | None = None
    for match in re.compile(pattern, flags).finditer(text):
        found = next((group for group in match.groups() if group is not None), match[0])
        if which == "first":
            break
    return found


def _groups(pattern: str, flags: int, text: str) -> dict[str, str | None] | None:
    found = re.compile(pattern, flags).search(text)
    return None if found is None else found.groupdict()


def _without(pattern: str, flags: int, text: str) -> str:
    return re.compile(pattern, flags).sub("", text)


@lru_cache(maxsize=512)
def is_simple(pattern: str, flags: int = 0) -> bool:
    r"""Return whether a pattern is always fast on strings of `PATTERN_LIMIT` characters.

    Patterns with two unbounded repetitions, backreferences or lookarounds are not simple. The test
    is conservative: some fast patterns are not simple either and run in a worker.

    Examples
    --------
    >>> is_simple(r"answer is (\w+)"), is_simple(r"(a+)+$"), is_simple(r".*=.*;")
    (True, False, False)
    """
    try:
        parser: Any = import_module("re._parser")
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # "[[a]" may mean a set in a later Python
            return _ways(parser.parse(pattern, flags)) <= _WAYS
    except (ImportError, AttributeError, ArithmeticError, TypeError, ValueError, RecursionError):
        return False  # unknown version of the parser: assume the worst


def _ways(parts: Any) -> float:
    """Return an upper bound on the number of paths of a parsed pattern from one position."""
    ways = 1.0
    for kind, argument in parts:
        ways *= _ways_of(str(kind), argument)
    return ways


def _ways_of(kind: str, argument: Any) -> float:
    if kind in ("LITERAL", "NOT_LITERAL", "IN", "ANY", "AT", "CATEGORY", "RANGE"):
        return 1.0
    if kind == "SUBPATTERN":
        return _ways(argument[-1])
    if kind == "BRANCH":
        return float(sum(_ways(branch) for branch in argument[1]))
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, inner = argument
        ways, most = _ways(inner), min(int(most), PATTERN_LIMIT)
        if ways == 1.0:
            return float(most - int(least) + 1)
        # Each iteration chooses independently.
        return ways**most * (most - int(least) + 1) if most < 32 else float("inf")
    return float("inf")
