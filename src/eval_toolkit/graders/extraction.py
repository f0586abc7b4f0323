r"""Graders that look for the answer inside a text: by pattern, as a number, as a letter.

A text in which no answer is found is a wrong answer (0), and the column ``<name>_found`` says so: a
model that does not know and a model that does not keep to the form are told apart. The patterns
used here look at every character a bounded number of times.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from eval_toolkit._validate import choice, integer, number
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import RATE, ColumnInfo, Grade, options_version, references
from eval_toolkit.graders.texts import PATTERN_LIMIT, TextRules, compiled
from eval_toolkit.responses import Completion

__all__ = ["LetterMatch", "NumberMatch", "RegexMatch", "find_letter", "find_number", "read_number"]


def _found_columns(name: str) -> dict[str, ColumnInfo]:
    return {name: RATE, f"{name}_found": RATE}


def _found(name: str, found: bool, right: bool) -> dict[str, float | Grade]:
    return {name: float(right), f"{name}_found": float(found)}


# --- by pattern ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegexMatch:
    r"""Whether what a pattern finds in the text is one of the references.

    Parameters
    ----------
    pattern : str
        What is compared is its first group that took part, or the whole match without groups. It
        sees the last 20 000 characters; `eval_toolkit.graders.texts` says why.
    which : {"last", "first"}, default "last"
        Which of several matches counts.
    ignore_case, ignore_punctuation, ignore : as in `TextRules`
        For the comparison of what was found; references are not searched.
    name : str, default "regex_match"
        Of the column.

    Examples
    --------
    >>> grader = RegexMatch(r"answer is (\w+)")
    >>> grader.grade(Completion("So the answer is Rome.", ground_truth="Rome"))
    {'regex_match': 1.0, 'regex_match_found': 1.0}
    """

    pattern: str
    which: str = "last"
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore: Sequence[str] = ()
    name: str = "regex_match"
    _search: Any = field(default=None, init=False, repr=False, compare=False)
    _rules: TextRules = field(default=TextRules(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        choice(self.which, "which", ("last", "first"))
        flags = re.IGNORECASE if self.ignore_case else 0
        object.__setattr__(self, "_search", compiled(self.pattern, "pattern", flags))
        rules = TextRules(self.ignore_case, self.ignore_punctuation, ignore=self.ignore)
        object.__setattr__(self, "ignore", rules.ignore)
        object.__setattr__(self, "_rules", rules)

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return _found_columns(self.name)

    def find(self, text: str) -> str | None:
        """Return what the pattern finds, or None."""
        found = None
        for match in self._search.finditer(text[-PATTERN_LIMIT:]):
            found = next((group for group in match.groups() if group is not None), match[0])
            if self.which == "first":
                break
        return found

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether it was right, and whether anything was found."""
        truths = references(response)
        found = self.find(response.completion)
        if found is None:
            return _found(self.name, False, False)
        text = self._rules.apply(found)
        return _found(self.name, True, any(text == self._rules.apply(truth) for truth in truths))


# --- numbers ------------------------------------------------------------------------------------

# A sign belongs to a number unless something it could be subtracted from stands before it. Digits
# in threes after commas come first: "1,000" is one number, "1,2" is two. The lengths are bounded,
# so that no number costs more than a moment to compare.
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,20}(?![0-9])|[0-9]{1,300})"
_PLAIN = rf"(?:{_DIGITS}(?:\.[0-9]{{1,300}})?|\.[0-9]{{1,300}})(?:[eE][-+]?[0-9]{{1,3}}(?![0-9]))?"
_WHOLE = re.compile(rf"[-+]?{_PLAIN}")
_SIGN = r"(?:(?<![)\]}])[-+])?\$?"
_NUMBER = re.compile(rf"(?<![\w./]){_SIGN}{_PLAIN}/{_DIGITS}(?![\w/])|(?<![\w.]){_SIGN}{_PLAIN}")
_FRACTION = re.compile(
    r"\\[dt]?frac\{([^{}]{1,100})\}\{([^{}]{1,100})\}|([^/]{1,100})/([^/]{1,100})"
)
_BOXED = re.compile(r"\\f?boxed\s*\{")
_HASHES = "####"
_DECORATION = str.maketrans({"−": "-", "\u2009": "", "\u202f": "", "$": "", "%": "", "\\": ""})
_LATEX_COMMAS = re.compile(r"\{(,)\}|\\[,!]")
r"""``1{,}000`` and ``1\,000`` are one number."""


def read_number(text: str) -> Fraction | None:
    r"""Return the number that a text is, exactly; None if it is something else.

    Thousands commas, a dollar or per cent sign, ``a/b`` and ``\frac{a}{b}`` are understood; what
    the sign stands for is left to the reader.

    Parameters
    ----------
    text : str
        The whole of it must be the number.

    Returns
    -------
    Fraction or None
        So that 0.1 is a tenth.

    Examples
    --------
    >>> read_number("1,000") == read_number(" $1000.00 ") == 1000
    True
    >>> read_number(r"\frac{1}{2}") == read_number("0.5")
    True
    >>> read_number("12 apples") is None
    True
    """
    bare = text.strip().rstrip(".").strip("$ ")
    sign = 1
    if bare[:1] in "-−" and bare[1:].lstrip().startswith("\\"):
        sign, bare = -1, bare[1:].lstrip()
    if match := _FRACTION.fullmatch(bare):
        above, below = (_simple(part) for part in match.groups() if part is not None)
        return None if above is None or not below else sign * above / below
    value = _simple(bare)
    return None if value is None else sign * value


def _simple(text: str) -> Fraction | None:
    bare = text.translate(_DECORATION).strip()
    if not _WHOLE.fullmatch(bare):
        return None
    return Fraction(bare.replace(",", ""))


def _boxed(text: str) -> str | None:
    r"""Return what stands in the last ``\boxed{…}`` whose braces are closed."""
    for start in reversed([match.end() for match in _BOXED.finditer(text)][-20:]):
        depth = 1
        for at in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                return _LATEX_COMMAS.sub(r"\1", text[start:at])
    return None


def _hashed(text: str) -> str | None:
    """Return what stands after the last ``####`` up to the end of its line."""
    _, mark, after = text.rpartition(_HASHES)
    return after.strip().partition("\n")[0] if mark else None


def _last(text: str) -> str | None:
    found = None
    if read_number(text) is not None:
        return text
    for match in _NUMBER.finditer(text.replace("−", "-")):
        found = match[0]
    return found


_WHERE = {"boxed": _boxed, "hashes": _hashed, "last": _last}


def find_number(text: str, where: str = "auto") -> Fraction | None:
    r"""Return the number a text ends in, by one of the usual forms.

    Parameters
    ----------
    text : str
        What a model wrote.
    where : {"auto", "boxed", "hashes", "last"}, default "auto"
        In the last ``\boxed{}``, after the last ``####``, or the last number there is; "auto"
        takes the first of these forms that the text has.

    Returns
    -------
    Fraction or None
        None if there is none in that place.

    Examples
    --------
    >>> find_number("3 apples and 4 more are 7.")
    Fraction(7, 1)
    >>> find_number("So #### 1,234") == find_number(r"Thus \boxed{1234}.") == 1234
    True
    """
    forms = _WHERE if where == "auto" else {where: _WHERE[where]}
    for form, find in forms.items():
        place = find(text)
        if place is None:
            continue
        value = read_number(place)
        inside = None if value is not None or form == "last" else _last(place)
        return value if inside is None else read_number(inside)
    return None


@dataclass(frozen=True, slots=True)
class NumberMatch:
    """Whether the number in the text equals the number of a reference, as numbers.

    "1,000" equals "1000.0". A reference may be a number, or a worked solution in which it is
    found the same way.

    Parameters
    ----------
    where : {"auto", "boxed", "hashes", "last"}, default "auto"
        As in `find_number`.
    tolerance : float, default 0.0
        Largest difference that counts as equal, relative to the reference.
    name : str, default "number_match"
        Of the column.

    Examples
    --------
    >>> NumberMatch().grade(Completion("That makes $1,000.", ground_truth="so … #### 1000"))
    {'number_match': 1.0, 'number_match_found': 1.0}
    """

    where: str = "auto"
    tolerance: float = 0.0
    name: str = "number_match"

    def __post_init__(self) -> None:
        choice(self.where, "where", ("auto", *_WHERE))
        number(self.tolerance, "tolerance", low=0.0)

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return _found_columns(self.name)

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether it was right, and whether a number was found."""
        truths = [self._reference(truth) for truth in references(response)]
        found = find_number(response.completion, self.where)
        if found is None:
            return _found(self.name, False, False)
        slack = Fraction(self.tolerance)
        return _found(
            self.name, True, any(abs(found - truth) <= slack * abs(truth) for truth in truths)
        )

    def _reference(self, truth: str) -> Fraction:
        value = read_number(truth)
        value = find_number(truth) if value is None else value
        if value is None:
            raise InvalidInputError(f"the reference {truth[:80]!r} has no number in it")
        return value


# --- letters ------------------------------------------------------------------------------------

_LETTER = r"[(\[*_`$\"' ]{0,4}([A-Z])(?![\w'’])"
_ANSWER_IS = re.compile(rf"(?i:answer|choice|option)(?i: is|:| would be| =)?[ :]{{0,3}}{_LETTER}")
_AT_START = re.compile(r"[(\[*_`$\"' \n]{0,8}([A-Z])(?=[)\].:,*_`$\"'\n]|$)")
_STANDING_OUT = re.compile(
    r"[(\[*]([A-Z])[)\]*]|(?:^|\n)[ ]{0,3}([A-Z])(?=[.):]|\n|$)|\b([A-Z])[.!]?$"
)


def find_letter(text: str, n_choices: int = 26) -> str | None:
    r"""Return the letter of the choice that a text settles on, or None.

    In this order: ``\boxed{B}``, the last "answer is B" (also "Answer: (B)", "option B"), a letter
    that opens the text ("B", "(B)", "B. Rome"), the last letter that stands out by brackets, on a
    line of its own, or at the very end. Lower-case letters and words such as "A" and "I" in a
    sentence are not taken for choices.

    Parameters
    ----------
    text : str
        What a model wrote.
    n_choices : int, default 26
        Later letters are none of the choices.

    Returns
    -------
    str or None
        A capital letter.

    Examples
    --------
    >>> find_letter("I think A is wrong. The answer is (C).", 4)
    'C'
    >>> find_letter(" B"), find_letter("A cat sat there.")
    ('B', None)
    """
    n = integer(n_choices, "n_choices", low=1)
    stripped = text.strip()
    boxed = _boxed(stripped)
    boxed = boxed.replace("\\text", "").strip("{}() .") if boxed else None
    said: list[str] = [match[1] for match in _ANSWER_IS.finditer(stripped)]
    start = _AT_START.match(stripped)
    out = [next(filter(None, match.groups())) for match in _STANDING_OUT.finditer(stripped)]
    candidates: list[str | None] = [
        boxed,
        *reversed(said),
        start[1] if start else None,
        *reversed(out),
    ]
    for letter in candidates:
        if letter and len(letter) == 1 and 0 <= ord(letter) - ord("A") < n:
            return letter
    return None


@dataclass(frozen=True, slots=True)
class LetterMatch:
    """Whether the letter that a text settles on is that of the right choice.

    Parameters
    ----------
    n_choices : int, default 26
        How many choices there are; later letters are not taken for one.
    name : str, default "letter_match"
        Of the column.

    Examples
    --------
    >>> LetterMatch(4).grade(Completion("Answer: (B) Rome", ground_truth=" B"))
    {'letter_match': 1.0, 'letter_match_found': 1.0}
    """

    n_choices: int = 26
    name: str = "letter_match"

    def __post_init__(self) -> None:
        if integer(self.n_choices, "n_choices", low=2) > 26:
            raise InvalidInputError(f"`n_choices` is {self.n_choices}; there are 26 letters")

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return _found_columns(self.name)

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether it was right, and whether a letter was found."""
        truths = [self._reference(truth) for truth in references(response)]
        found = find_letter(response.completion, self.n_choices)
        return _found(self.name, found is not None, found in truths)

    def _reference(self, truth: str) -> str:
        letter = truth.strip(" ().:")
        if len(letter) != 1 or not 0 <= ord(letter) - ord("A") < self.n_choices:
            raise InvalidInputError(
                f"the reference {truth[:80]!r} is not one of the {self.n_choices} letters"
            )
        return letter
