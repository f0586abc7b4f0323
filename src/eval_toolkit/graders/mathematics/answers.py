r"""Where the answer to a mathematical question stands in a text: every place it may be in, in order."""

import re
from collections import deque
from collections.abc import Callable

from eval_toolkit.graders.extraction.forms import boxed, hashed

__all__ = ["find_math_answers", "reference_answer"]

_LONGEST = 500
"""Characters; what is longer is no answer."""
_FINAL = re.compile(r"(?i)final answer")
_ANSWER_IS = re.compile(r"(?i)\banswer(?: is|:)")
_LEADING = re.compile(r"[\s:*_#]{0,20}(?:(?i:is|would be|are|=)\b)?[\s:*_]{0,20}")
_DOLLARS = re.compile(r"(?<!\\)\$\$?")
_BRACKETS = ((r"\(", r"\)"), (r"\[", r"\]"))


def find_math_answers(text: str) -> list[str]:
    r"""Return what may be the answer in a text, the likeliest first, each once.

    In this order: what follows the last "final answer", the last ``\boxed{}``, what follows the last
    ``####``, what follows the last "answer is", the last formula between dollars (or ``\(…\)``,
    ``\[…\]``), and a text of one line as it is.

    Parameters
    ----------
    text : str
        What a model wrote.

    Returns
    -------
    list of str
        Without the dollars or the box around it; empty if there is nothing of the kind.

    Examples
    --------
    >>> find_math_answers(r"As $x = 2$, the final answer is $\boxed{\frac{1}{2}}$. I hope it is correct.")
    ['\\frac{1}{2}']
    >>> find_math_answers("7")
    ['7']
    >>> find_math_answers("I do not know.\nSorry.")
    []
    """
    places: tuple[Callable[[str], str | None], ...] = (
        lambda text: _after(text, _FINAL),
        boxed,
        hashed,
        lambda text: _after(text, _ANSWER_IS),
        _formula,
        _bare,
    )
    found: dict[str, None] = {}
    for find in places:
        if (place := find(text)) is not None and (answer := _inner(place)):
            found.setdefault(answer)
        if find is _formula and found:
            break  # a text that has a form is not an answer as a whole
    return [*found]


def reference_answer(truth: str) -> str:
    r"""Return the answer of a reference: in a box or after ``####`` in a worked solution, or itself.

    Examples
    --------
    >>> reference_answer(r"Hence $x = \boxed{3}$.")
    '3'
    """
    for find in (boxed, hashed):
        if (answer := find(truth)) is not None:
            return answer.strip()
    return _inner(truth)


def _after(text: str, phrase: re.Pattern[str]) -> str | None:
    """Return the line that follows the last such phrase."""
    last = None
    for match in phrase.finditer(text):
        last = match
    if last is None:
        return None
    start = _LEADING.match(text, last.end())
    line = text[start.end() if start else last.end() :].partition("\n")[0]
    return line.partition(". I hope")[0]


def _formula(text: str) -> str | None:
    """Return the last formula, by whichever delimiter ends last."""
    pairs = [(text.rfind(one), text.rfind(other)) for one, other in _BRACKETS]
    found = [(end, text[start + 2 : end]) for start, end in pairs if 0 <= start < end]
    dollars = deque(_DOLLARS.finditer(text), maxlen=2)
    if len(dollars) == 2 and dollars[0][0] == dollars[1][0]:
        found.append((dollars[1].start(), text[dollars[0].end() : dollars[1].start()]))
    return max(found)[1] if found else None


def _bare(text: str) -> str | None:
    stripped = text.strip()
    return stripped if stripped and "\n" not in stripped and len(stripped) <= _LONGEST else None


def _inner(place: str) -> str:
    """Return an answer without what stands around it; "" for what cannot be one."""
    box = boxed(place)
    inner = _formula(place) if box is None else box
    answer = (place if inner is None else inner).strip().rstrip(".").strip("*_$ \t\n")
    return answer if len(answer) <= _LONGEST else ""
