r"""Where the answer to a mathematical question stands in a text: every place it may be in, in order."""

import re
from collections import deque
from collections.abc import Callable

from eval_toolkit.graders.extraction.forms import boxed, hashed

__all__ = ["find_math_answers", "reference_answer"]

_LONGEST = 500
"""Characters; what is longer is no answer."""
_LINE, _PHRASES = 2_000, 20
"""Characters of a line, and phrases from the end of a text, that are looked at."""
_MARKS = r"[*_: \t\r]{0,20}+"
_FINAL = re.compile(rf"(?i)final answer[*_ ]{{0,9}}(?:(?:is|are|would be)\b|[:=]){_MARKS}(?=[^\n])")
_HEADING = re.compile(rf"(?i)final answer[*_ ]{{0,9}}(?:is|are|would be)?{_MARKS}\n")
_ANSWER_IS = re.compile(r"(?i)\banswer(?: is|:)")
_LEADING = re.compile(r"[\s:*_#]{0,20}(?:(?i:is|would be|are|=)\b)?[\s:*_]{0,20}")
_ANYTHING, _MATHEMATICS = re.compile(""), re.compile(r"[0-9$\\]")
_DOLLARS = re.compile(r"(?<!\\)\$\$?")
_ONE = r"(?:\$\$?(?:[^$\\]|\\.){1,500}\$\$?|\\\(.{1,500}?\\\)|\\\[.{1,500}?\\\])"
_SEVERAL = re.compile(rf"(?s){_ONE}(?:,?(?: and| or)? {_ONE}){{0,9}}")
_DELIMITER = re.compile(r"(?<!\\)(?:\$\$?|\\[()\[\]])")
_BRACKETS = ((r"\(", r"\)"), (r"\[", r"\]"))


def find_math_answers(text: str) -> list[str]:
    r"""Return what may be the answer in a text, the likeliest first, each once.

    In this order: what follows the last "final answer is" (or "final answer:") on its line, if there
    is mathematics in it, the last ``\boxed{}``, the line below the last "final answer", what follows
    the last ``####``, what follows the last "answer is", the last formula between dollars (or
    ``\(…\)``, ``\[…\]``), and a text of one line as it is. Of a place that begins with a formula, or
    with several by "and", "or" or commas, what comes after them is no part of the answer.

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
        lambda text: _after(text, _FINAL, _MATHEMATICS),
        boxed,
        lambda text: _after(text, _HEADING),
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


def _after(text: str, phrase: re.Pattern[str], wanted: re.Pattern[str] = _ANYTHING) -> str | None:
    """Return the line that follows the last such phrase, of those that have what is wanted."""
    for match in reversed(deque(phrase.finditer(text), maxlen=_PHRASES)):
        leading = _LEADING.match(text, match.end())
        start = leading.end() if leading else match.end()
        line = text[start : start + _LINE].partition("\n")[0].partition(". I hope")[0]
        if wanted.search(line):
            return line
    return None


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
    inner = boxed(place)
    if inner is None and (first := _SEVERAL.match(place)):
        inner = _DELIMITER.sub("", first[0])
    elif inner is None:
        inner = _formula(place)
    answer = (place if inner is None else inner).strip().rstrip(".").strip("*_$ \t\n")
    return answer if len(answer) <= _LONGEST else ""
