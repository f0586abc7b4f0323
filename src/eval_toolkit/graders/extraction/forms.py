r"""Where answers stand: in ``\boxed{}``, after ``####``; and what graders say about having found one."""

import re
from collections import deque

from eval_toolkit.graders.base import RATE, ColumnInfo, Grade

__all__ = ["boxed", "found_columns", "found_grades", "hashed"]

_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"[{}]")
_BOXES = 20
"""So many of the last boxes are looked at."""


def found_columns(name: str) -> dict[str, ColumnInfo]:
    """Return the columns of a grader that looks for an answer."""
    return {name: RATE, f"{name}_found": RATE}


def found_grades(name: str, found: bool, right: bool) -> dict[str, float | Grade]:
    """Return the grades of a grader that looks for an answer."""
    return {name: float(right), f"{name}_found": float(found)}


def boxed(text: str) -> str | None:
    r"""Return what stands in the last ``\boxed{…}`` whose braces are closed.

    Examples
    --------
    >>> boxed(r"So \boxed{1}, no, \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    starts = deque((match.end() for match in _BOXED.finditer(text)), maxlen=_BOXES)
    if not starts:
        return None
    begins, opened, depth = set(starts), list[tuple[int, int]](), 0
    best = None
    for brace in _BRACE.finditer(text, starts[0] - 1):
        if brace[0] == "{":
            depth += 1
            if brace.end() in begins:
                opened.append((depth, brace.end()))
            continue
        if opened and opened[-1][0] == depth:
            start = opened.pop()[1]
            best = max(best or (0, 0), (start, brace.start()))
        depth -= 1
    return None if best is None else text[slice(*best)]


def hashed(text: str) -> str | None:
    r"""Return what stands after the last ``####`` up to the end of its line.

    Examples
    --------
    >>> hashed("9 * 2 = 18\n#### 18")
    '18'
    """
    _, mark, after = text.rpartition("####")
    return after.strip().partition("\n")[0] if mark else None
