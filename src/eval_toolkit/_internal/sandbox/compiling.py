"""Patterns that files bring are compiled here, within a share of the processor's time.

Python compiles a pattern in this process, and some take far longer than their length lets expect: a
set of wide ranges is written out character by character. No pattern may be longer than `LONGEST` or
have more than `WIDE` such ranges, and all of them together get `SECONDS` and a small part of the time
that passes.
"""

import re
import time
from typing import Any

from eval_toolkit.errors import InvalidInputError

__all__ = ["LONGEST", "SECONDS", "WIDE", "compile_pattern", "compiled"]

LONGEST = 50_000
"""Characters of a pattern."""
WIDE = 300
"""Ranges in a pattern that end at U+1000 or later, by code or escape."""
SECONDS = 5.0
"""Of the processor, for compiling patterns."""
_REFILLED = 0.05
"""Seconds that are given back for each that passes: many tasks in one process do without limit."""
_IS_WIDE = re.compile("-(?:[\u1000-\U0010ffff]|\\\\[uUN])")


class _Time:
    """Seconds that were spent, less those that were given back."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._seen = time.monotonic()

    def refill(self) -> None:
        now = time.monotonic()
        self.spent = max(0.0, self.spent - _REFILLED * (now - self._seen))
        self._seen = now


_TIME = _Time()


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    r"""Return a pattern that is ready to be searched for.

    Parameters
    ----------
    pattern : str
        A regular expression.
    flags : int
        As in `re.compile`.

    Returns
    -------
    re.Pattern
        The compiled pattern.

    Raises
    ------
    re.error
        If it is no regular expression, is too long, or takes too long to compile.
    TypeError, OverflowError, RecursionError
        As `re.compile` does.

    Examples
    --------
    >>> compile_pattern(r"\d+").search("no 7")[0]
    '7'
    >>> compile_pattern("a" * 60_000)
    Traceback (most recent call last):
    re.error: it has 60000 characters; at most 50000 are read
    """
    if isinstance(pattern, str):
        _refuse_size(pattern)
    _TIME.refill()
    if _TIME.spent > SECONDS:
        raise re.error(
            f"patterns have taken more than {SECONDS:g} s to compile; use fewer or shorter ones"
        )
    started = time.thread_time()
    try:
        return re.compile(pattern, flags)
    finally:
        _TIME.spent += time.thread_time() - started


def _refuse_size(pattern: str) -> None:
    if len(pattern) > LONGEST:
        raise re.error(f"it has {len(pattern)} characters; at most {LONGEST} are read")
    wide = len(_IS_WIDE.findall(pattern)) if "-" in pattern else 0
    if wide > WIDE:
        raise re.error(f"it has {wide} wide ranges of characters; at most {WIDE} are read")


def compiled(pattern: Any, name: str, flags: int = 0) -> re.Pattern[str]:
    """Return a caller's pattern, or raise a line that says what is wrong with it."""
    try:
        return compile_pattern(pattern, flags)
    except (re.error, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise InvalidInputError(
            f"`{name}` is {pattern!r:.200}; it is no pattern: {error}"
        ) from None
