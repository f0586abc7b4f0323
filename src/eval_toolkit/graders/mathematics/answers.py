r"""Extraction of mathematical answers as a list of candidates, most likely first."""

import re
from collections import deque
from collections.abc import Callable

from eval_toolkit.graders.extraction.characters import ascii_numerals
from eval_toolkit.graders.extraction.forms import box_spans, hashed
from eval_toolkit.graders.mathematics.normal import normal_form
from eval_toolkit.graders.mathematics.notation import WORDS_OF_FORMULAS

_LONGEST = 500
"""Maximum number of characters of an answer."""
_LINE, _PHRASES = 2_000, 20
"""Maximum number of characters searched per line, and of phrases tried, last ones first."""
_END = 4_000
"""Number of characters, from the end of a response, searched for the last formula or number."""
_MARKS = r"[*_: \t\r]{0,20}+"
_FINAL = re.compile(rf"(?i)final answer[*_ ]{{0,9}}(?:(?:is|are|would be)\b|[:=]){_MARKS}(?=[^\n])")
_HEADING = re.compile(rf"(?i)final answer[*_ ]{{0,9}}(?:is|are|would be)?{_MARKS}\n")
_ANSWER_IS = re.compile(r"(?i)\banswer(?: is|:)")
_LEADING = re.compile(
    r"[\s:*_#]{0,20}(?:(?i:is|would be|are|=)\b)?[\s:*_]{0,20}(?:\\?[\"“](?=[^\"“]))?"
)
_ANYTHING, _MATHEMATICS = re.compile(""), re.compile(r"[0-9$\\]")
_ONE = r"(?:\$\$?(?:[^$\\]|\\.){1,500}\$\$?|\\\(.{1,500}?\\\)|\\\[.{1,500}?\\\])"
_SEVERAL = re.compile(rf"(?s){_ONE}(?:,?(?: and| or)? {_ONE}){{0,9}}")
_CLOSING = re.compile(r"(?<!\\)\$\$?(?![0-9$])|\\[)\]]")
"""Closing delimiters; a dollar sign before a digit is a price."""
_OPENING = {"$$": "$$", "$": "$", r"\)": r"\(", r"\]": r"\["}
_JOINT = re.compile(r"(?:,?( and| or)|,) $")
_ASSIGNED = re.compile(r"\\?[A-Za-z]{1,12}(?:_\{?\w{1,5}\}?)?\s?=[^=]{1,200}")
_DELIMITER = re.compile(r"(?<!\\)(?:\$\$?|\\[()\[\]])")
_NUMBER = re.compile(
    r"(?<![\w.\\^{/])[-+]?[$€£]?[0-9](?:[0-9]|[.,](?=[0-9])|[ ](?=[0-9]{3}(?![0-9])))*(?:/[0-9]+|"
    r" [0-9]{1,3}/[0-9]{1,3})?(?:\s?(?:\\?%|(?i:percent(?:age)?|pct)\b))?"
)
# Words that occur in sentences but not in answers.
_SENTENCE = re.compile(
    r"(?i:\b(?:the|is|are|was|were|we|it|there|has|have|because|since|so|thus|hence|therefore|gives?"
    r"|makes?|not|this|that)\b)|\bI\b"
)
_WORD = re.compile(r"(?<!\S)[A-Za-z]{3,}(?![^\s.,;:!?])")
_WORDS = 4
"""Minimum number of words of a sentence."""
_VERB = re.compile(
    r"(?i:\b(?:is|are|was|be|equals?|equal to|gives?|makes?)):?\s{1,3}(?=[-+(\[{$\\0-9.])"
)
# An answer ends where a reason or another sentence begins.
_REASON = re.compile(r"(?i:[.,;]?\s\(?(?:because|since|but|(?:and )?not)\b)")
_NEXT = re.compile(r"(?i:,?\s(?:which|where|as)|[,;]\s(?:so|thus))\b|[.!]\s{1,3}(?=[A-Z<(\[])")
# Text between boxes of one answer: "\boxed{1} and \boxed{2}", but not "\boxed{1} and then".
_BETWEEN = re.compile(r"(?:[A-Za-z() ]{0,30}(?:,|;|\band\b|\bor\b|&)(?:\s?(?:and|or))?)?")
_SPACING = re.compile(r"\\text\{([^{}]{0,40})\}|\\q?quad|\\[,;:! ()\[\]]|[$~]")
_VALUE_OF = re.compile(r"(?<!\S)[\w{}\\|()']{1,20} ?=$")


def find_math_answers(text: str) -> list[str]:
    r"""Return the candidate answers in a response, most likely first, without duplicates.

    The following places are searched in this order: the part after the last "final answer is" (or
    "final answer:") on its line, if it contains mathematics; the last ``\boxed{}`` (or several,
    joined by commas, "and" or "or"); the line below the last "final answer"; the part after the
    last "####"; the part after the last "answer is"; the last formula between dollar signs (or
    ``\(…\)``, ``\[…\]``); and a one-line response as a whole. In a response without any of these
    forms, the answer is the last number if it comes after the last formula. If a place begins with
    a formula, or several joined by "and", "or" or commas, the rest is ignored; in a sentence, the
    answer follows the last "is".

    Parameters
    ----------
    text : str
        Model response.

    Returns
    -------
    list of str
        Candidates without enclosing dollar signs or boxes; empty if there are none.

    Examples
    --------
    >>> find_math_answers(r"As $x = 2$, the final answer is $\boxed{\frac{1}{2}}$. I hope it is correct.")
    ['\\frac{1}{2}']
    >>> find_math_answers("Final answer: the largest $n$ is 34.")
    ['34', 'n']
    >>> find_math_answers("7")
    ['7']
    >>> find_math_answers("I do not know.\nSorry.")
    []
    """
    text = ascii_numerals(text)
    places: tuple[Callable[[str], str | None], ...] = (
        lambda text: _after(text, _FINAL, _MATHEMATICS),
        _boxes,
        lambda text: _after(text, _HEADING),
        hashed,
        lambda text: _after(text, _ANSWER_IS),
    )
    found: dict[str, None] = {}
    for find in places:
        inside = _in_box if find is _boxes else _inner
        if (place := find(text)) is not None and (answer := inside(place)):
            found.setdefault(answer)
    formula, number = _last(text)
    if not found and (bare := _bare(text, formula)):
        found.setdefault(bare)
    if not found and number:
        found.setdefault(number)
    if formula:
        found.setdefault(formula)
    return [*found]


def reference_answer(truth: str) -> str:
    r"""Return the answer in a reference: boxed, after ``####``, or the whole reference.

    Examples
    --------
    >>> reference_answer(r"Hence $x = \boxed{3}$.")
    '3'
    """
    truth = ascii_numerals(truth)
    for find in (_boxes, hashed):
        if (answer := find(truth)) is not None:
            return answer.strip()
    if "\n" in truth.strip() or _is_sentence(truth):
        return next(iter(find_math_answers(truth)), "")
    return _stripped(_DELIMITER.sub("", truth))


def _after(text: str, phrase: re.Pattern[str], content: re.Pattern[str] = _ANYTHING) -> str | None:
    """Return the rest of the line after the last matching phrase with valid content."""
    for match in reversed(deque(phrase.finditer(text), maxlen=_PHRASES)):
        leading = _LEADING.match(text, match.end())
        start = leading.end() if leading else match.end()
        line = text[start : start + _LINE].partition("\n")[0]
        if content.search(line):
            return line
    return None


def _boxes(text: str) -> str | None:
    """Return the content of the last box and of preceding boxes that belong to the same answer."""
    spans = box_spans(text)
    if not spans:
        return None
    parts, begin = list[str](), None
    for command, start, end in reversed(spans):
        if begin is not None and (end >= begin or not _joins(text[end + 1 : begin])):
            break
        parts.insert(0, text[start:end])
        begin = command
    several = {normal_form(part): part for part in parts}
    return ",".join(several.values())


def _joins(between: str) -> bool:
    if len(between) > 80 or "\n\n" in between:
        return False
    words = " ".join(_SPACING.sub(lambda match: f" {match[1] or ''} ", between).split())
    return _BETWEEN.fullmatch(_VALUE_OF.sub("", words).strip()) is not None


def _last(text: str) -> tuple[str, str]:
    """Return the last formulas and the last number if it follows them; "" if there are none."""
    text = text[-_END:]
    closing = next(iter(deque(_CLOSING.finditer(text), maxlen=1)), None)
    end = closing.end() if closing else 0
    parts: list[str] = []
    joint = None
    while (formula := _formula_ending(text, end)) is not None:
        start, inside = formula
        if parts and not _one_kind(inside, parts[0], joined_by_word=bool(joint and joint[1])):
            break
        parts.insert(0, inside)
        joint = _JOINT.search(text, max(0, start - 9), start)
        end = joint.start() if joint else 0
    after = closing.end() if closing and parts else 0
    numbers = deque(_NUMBER.finditer(text, after), maxlen=1)
    several = ",".join(_boxes(part) or part for part in parts)
    return _stripped(several), _stripped(numbers[0][0]) if numbers else ""


def _formula_ending(text: str, end: int) -> tuple[int, str] | None:
    """Return the start of the formula that ends at a position, and its content."""
    for closing, opening in _OPENING.items():
        if text.endswith(closing, 0, end):
            inside = end - len(closing)
            start = text.rfind(opening, 0, inside)
            while start > 0 and text[start - 1] == "\\" and opening == "$":
                start = text.rfind(opening, 0, start)
            return None if start < 0 else (start, text[start + len(opening) : inside])
    return None


def _one_kind(one: str, other: str, *, joined_by_word: bool) -> bool:
    """Return whether two formulas form one answer, unlike steps such as $x^2 = 4$, $x = 2$."""
    if "=" not in one + other:
        return True
    return joined_by_word and all(_ASSIGNED.fullmatch(part.strip()) for part in (one, other))


def _bare(text: str, formula: str) -> str:
    """Return a one-line string if it is an answer as a whole; "" otherwise."""
    stripped = text.strip()
    if formula or "\n" in stripped or not 0 < len(stripped) <= _LONGEST:
        return ""
    n_numbers, words = len(_NUMBER.findall(stripped)), {*_WORD.findall(stripped.lower())}
    if n_numbers and _is_sentence(stripped):
        parts = reversed(_NEXT.split(stripped))
        return _stated_answer(next((part for part in parts if _NUMBER.search(part)), stripped))
    if n_numbers == 1 and words - WORDS_OF_FORMULAS:
        return _last(stripped)[1]
    return _stripped(stripped)


def _inner(place: str) -> str:
    """Return an answer without surrounding text; "" if it cannot be an answer."""
    if (inner := _boxes(place)) is not None:
        return _in_box(inner)
    return _several(place) or _stated_answer(_before(place, _NEXT))


def _in_box(inner: str) -> str:
    return _stated_answer(inner) if _is_sentence(inner) else _stripped(_DELIMITER.sub("", inner))


def _stated_answer(sentence: str) -> str:
    """Return the answer stated in a sentence or phrase."""
    sentence = _before(sentence, _REASON)
    if not _is_sentence(sentence):
        return _last(sentence)[0] or _stripped(sentence)
    if verb := next(iter(deque(_VERB.finditer(sentence), maxlen=1)), None):
        sentence = sentence[verb.end() :]
        if several := _several(sentence):
            return several
        if not _is_sentence(sentence):
            return _stripped(sentence)
    formula, number = _last(sentence)
    return number or formula or _stripped(sentence)


def _several(place: str) -> str:
    """Return the leading formulas of a string; "" if there are none."""
    first = _SEVERAL.match(place)
    return "" if first is None else _stripped(_DELIMITER.sub("", first[0]))


def _before(place: str, end: re.Pattern[str]) -> str:
    """Return the leading mathematical part of a string."""
    found = end.search(place)
    return (
        place[: found.start()] if found and _MATHEMATICS.search(place, 0, found.start()) else place
    )


def _is_sentence(text: str) -> bool:
    return _SENTENCE.search(text) is not None or len(_WORD.findall(text)) >= _WORDS


def _stripped(answer: str) -> str:
    answer = answer.strip().rstrip(".").strip('*_$ \t\n"“”').lstrip("=: ")
    return answer if len(answer) <= _LONGEST else ""
