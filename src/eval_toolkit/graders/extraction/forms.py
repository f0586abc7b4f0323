r"""Common answer forms, ``\boxed{}`` and ``####``, and columns of graders that extract answers."""

import re
from collections import deque

from eval_toolkit.graders.base import RATE, ColumnInfo, Grade

# Also matches after JSON has parsed "\\b" as a backspace, or without the backslash.
_BOXED = re.compile(r"(?:\\(?:begin)?(?:boxed|fbox)|\x08oxed|(?<![A-Za-z\\])boxed)\s*\{")
_BRACE = re.compile(r"[{}]")
_BOXES = 20
"""Maximum number of boxes searched, starting from the end."""


def found_columns(name: str) -> dict[str, ColumnInfo]:
    """Build the columns of a grader that extracts an answer."""
    return {name: RATE, f"{name}_found": RATE}


def found_grades(name: str, found: bool, right: bool) -> dict[str, float | Grade]:
    """Build the grades of a grader that extracts an answer."""
    return {name: float(right), f"{name}_found": float(found)}


def box_spans(text: str) -> list[tuple[int, int, int]]:
    r"""Return the positions of the last boxes with balanced braces, in order.

    Each box is a tuple: start of the command, start of the content, end of the content.

    Examples
    --------
    >>> box_spans(r"\boxed{1} or \boxed{23}")
    [(0, 7, 8), (13, 20, 22)]
    """
    starts = deque(_BOXED.finditer(text), maxlen=_BOXES)
    if not starts:
        return []
    begins = {match.end(): match.start() for match in starts}
    opened, closed, depth = list[tuple[int, int]](), list[tuple[int, int, int]](), 0
    for brace in _BRACE.finditer(text, starts[0].end() - 1):
        if brace[0] == "{":
            depth += 1
            if brace.end() in begins:
                opened.append((depth, brace.end()))
            continue
        if opened and opened[-1][0] == depth:
            start = opened.pop()[1]
            closed.append((begins[start], start, brace.start()))
        depth -= 1
    return sorted(closed)


def boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}`` with balanced braces.

    Examples
    --------
    >>> boxed(r"So \boxed{1}, no, \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    spans = box_spans(text)
    return text[spans[-1][1] : spans[-1][2]] if spans else None


def hashed(text: str) -> str | None:
    r"""Return the text after the last ``####`` up to the end of its line.

    Examples
    --------
    >>> hashed("9 * 2 = 18\n#### 18")
    '18'
    """
    _, mark, after = text.rpartition("####")
    return after.strip().partition("\n")[0] if mark else None
