"""Compilation of untrusted regular expressions within a CPU time budget.

Patterns are compiled in this process, and some are slow to compile: wide character ranges are
expanded character by character. A pattern is limited to `LONGEST` characters and `WIDE` such
ranges; all patterns share a budget of `SECONDS`, which refills slowly.
"""

import re
import time
import warnings
from typing import Any

from eval_toolkit.errors import InvalidInputError

LONGEST = 50_000
"""Maximum number of characters of a pattern."""
WIDE = 300
"""Maximum number of ranges in a pattern that end at U+1000 or later, literally or escaped."""
SECONDS = 5.0
"""CPU seconds available for compiling patterns."""
_REFILLED = 0.05
"""Seconds refunded per elapsed second, for long-running processes."""
_IS_WIDE = re.compile("-(?:[\u1000-\U0010ffff]|\\\\[uUN])")


class _Time:
    """Budget of CPU time: seconds used, minus seconds refunded."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._seen = time.monotonic()

    def refill(self) -> None:
        now = time.monotonic()
        self.spent = max(0.0, self.spent - _REFILLED * (now - self._seen))
        self._seen = now


_TIME = _Time()


def compile_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    r"""Compile a pattern within the limits on size and time.

    Raises `re.error` if the pattern is invalid, too long or too slow to compile.

    Examples
    --------
    >>> compile_pattern(r"\d+").search("no 7")[0]
    '7'
    >>> compile_pattern("a" * 60_000)
    Traceback (most recent call last):
    re.error: it has 60000 characters; at most 50000 are allowed
    """
    if isinstance(pattern, str):
        if len(pattern) > LONGEST:
            raise re.error(f"it has {len(pattern)} characters; at most {LONGEST} are allowed")
        wide = len(_IS_WIDE.findall(pattern)) if "-" in pattern else 0
        if wide > WIDE:
            raise re.error(f"it has {wide} wide ranges of characters; at most {WIDE} are allowed")
    _TIME.refill()
    if _TIME.spent > SECONDS:
        raise re.error(
            f"patterns have taken more than {SECONDS:g} s to compile; use fewer or shorter ones"
        )
    started = time.thread_time()
    try:
        with warnings.catch_warnings():  # what Python may read otherwise one day is valid today
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern, flags)
    finally:
        _TIME.spent += time.thread_time() - started


def compiled(pattern: Any, name: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a user-supplied pattern; raise a one-line error if it is invalid."""
    try:
        return compile_pattern(pattern, flags)
    except (re.error, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise InvalidInputError(
            f"`{name}` is {pattern!r:.200}; it is not a valid pattern: {error}"
        ) from None
