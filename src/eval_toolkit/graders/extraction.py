r"""Graders that look for the answer inside a text: by pattern, as a number, as a letter.

A text in which no answer is found is a wrong answer (0), and the column ``<name>_found`` says so: a
model that does not know and a model that does not keep to the form are told apart. The patterns
used here look at every character a bounded number of times.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from eval_toolkit._validate import choice, integer, number
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
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
    response_types = COMPLETIONS
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

# First whatever looks like a number is found, with all that hangs together with it, then read
# strictly: "1,2" is 1.2 to some and two numbers to others, and a wrong value is worse than none.
# The lengths that are read are bounded, so that no number costs more than a moment to compare.
_SPACES = " \u00a0\u2007\u2009\u202f"
_RUN = rf"(?:(?<!\.)\.)?[0-9](?:[0-9]|[.,:/{_SPACES}](?=[0-9]))*"
_MONEY = r"(?:USD|EUR|GBP|INR|JPY|CNY|RMB|CHF|CAD|AUD|Rs\.?)[ \u00a0]?"
_COIN = r"[$£€¥₹]"
# A sign belongs to a number unless something it could be subtracted from stands before it.
_FRONT = rf"(?:(?<![)\]}}])[-+](?:{_MONEY})?{_COIN}?|{_MONEY}{_COIN}?[-+]?|{_COIN}[-+]?)?"
_ARGUMENT = r"\s?(?:\{[^{}]{1,100}\}|[0-9])"
_QUOTIENT = rf"\\[dt]?frac{_ARGUMENT}{_ARGUMENT}"
_TOKEN = re.compile(
    # not inside a word, a version or an index: v2, a.2, x_2
    rf"(?<![^\W_])(?<![^\W_][._])(?<![^\W_]__)(?P<front>{_FRONT})"
    rf"(?:(?P<run>{_RUN})(?:[eE](?P<power>[-+]?[0-9]{{1,3}})(?![0-9]))?(?:[ ]?(?P<rest>{_QUOTIENT}))?"
    rf"|(?P<quotient>{_QUOTIENT}))(?:(?=[eE][-+]?[0-9]|(?<=0)[xX][0-9a-fA-F])(?P<odd>))?"
    # what computes with numbers is none
    r"|(?P<formula>\\[dt]?frac[^\s$=]{0,200}|\\sqrt(?:\{[^{}]{0,100}\})?|\\(?:pi|log|ln)"
    r"|\^(?!\{?\\circ)\{?[-+]?\w{0,20})"
)
_PLAIN = re.compile(r"(?:[0-9]{1,300}|[0-9]{1,3}(?:,[0-9]{3}){1,20})?(?:\.[0-9]{1,300})?")
_ARGUMENTS = re.compile(rf"\\[dt]?frac({_ARGUMENT})({_ARGUMENT})")
_SPLIT = re.compile(rf"[{_SPACES}]")
_THREE_DIGITS = re.compile(r"[0-9]{3}(?:\.[0-9]{1,300})?")
_SPACED = re.compile(
    rf"[1-9][0-9]{{0,2}}([{_SPACES}])[0-9]{{3}}(?:\1[0-9]{{3}}){{0,19}}(?:\.[0-9]{{1,300}})?"
)
_BOXED = re.compile(r"\\f?boxed\s*\{")
_HASHES = "####"
_LATEX = re.compile(r"\{(,)\}|\\[,!](?=[0-9]{3}(?![0-9]))|\\(?=[$%])")
r"""``1{,}000`` and ``1\,000`` are one number."""
_AREA = re.compile(
    r"(?:\\(?:text|mathrm|mbox)\{[^{}]{1,40}\}|(?<![A-Za-z])(?:[cdkm]?m|ft|in|yd|units?))"
    r"\s?\^\{?[23](?![0-9])\}?"
)
"""Of units such as cm^2 the power is no part of the number."""
_SLASH = re.compile(r"(?<=[0-9])[ ]?/[ ]?(?=[0-9])")


def read_number(text: str) -> Fraction | None:
    r"""Return the number that a text is, exactly; None if it is something else.

    Thousands by commas or spaces, the sign of a currency or per cent, ``a/b``, ``3 1/2`` and
    ``\frac{a}{b}`` are understood; what the sign stands for is left to the reader.

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
    bare = _tidy(text).strip().rstrip(".").strip("$ ").removesuffix("%").rstrip()
    match = _TOKEN.fullmatch(bare)
    return None if match is None or _is_list(match) else _value(match)


def _tidy(text: str) -> str:
    return _SLASH.sub("/", _AREA.sub("", _LATEX.sub(r"\1", text.replace("−", "-"))))


def _is_list(match: re.Match[str]) -> bool:
    """Return whether a token is several numbers, the last of which is taken: 1 2 3, 5/6/2024."""
    run = match["run"] or ""
    return run.count("/") > 1 or (_SPLIT.search(run) is not None and not _hangs_together(run))


def _hangs_together(run: str) -> bool:
    """Return whether a run with spaces can be one number: 3 1/2, 5 000."""
    *_, before, last = _SPLIT.split(run)
    return before.isdecimal() and (
        last.count("/") == 1 or (len(before) <= 3 and _THREE_DIGITS.fullmatch(last) is not None)
    )


def _value(match: re.Match[str]) -> Fraction | None:
    """Return the number of a token; None where it is none, or could be one or another."""
    if match["formula"] is not None or match["odd"] is not None:
        return None
    run, quotient = match["run"], match["rest"] or match["quotient"]
    value = Fraction(0) if run is None else _read_run(run)
    if value is not None and quotient is not None:
        part = _quotient(*_ARGUMENTS.fullmatch(quotient).groups())  # type: ignore[union-attr]
        value = part if run is None else _mixed(run, part)
    if value is None:
        return None
    negative = "-" in match["front"] and not _is_list(match)
    return (-value if negative else value) * Fraction(10) ** int(match["power"] or 0)


def _read_run(run: str) -> Fraction | None:
    *before, last = _SPLIT.split(run)
    if not before or not _hangs_together(run):
        return _quotient(*last.split("/")) if last.count("/") == 1 else _plain(last.split("/")[-1])
    if "/" in last:
        return _mixed(before[0], _quotient(*last.split("/"))) if len(before) == 1 else None
    return _plain(_SPLIT.sub("", run)) if _SPACED.fullmatch(run) else None


def _mixed(whole: str, part: Fraction | None) -> Fraction | None:
    """Return 3 1/2; with anything but a proper fraction it could be a product, or two numbers."""
    count = _plain(whole) if whole.isdecimal() else None
    return None if count is None or part is None or not 0 < part < 1 else count + part


def _quotient(above: str, below: str) -> Fraction | None:
    parts = [part.strip().strip("{}").strip() for part in (above, below)]
    one, other = (_plain(part.removeprefix("-")) for part in parts)
    if one is None or not other:
        return None
    negative = parts[0].startswith("-") != parts[1].startswith("-")
    return -one / other if negative else one / other


def _plain(text: str) -> Fraction | None:
    return Fraction(text.replace(",", "")) if text and _PLAIN.fullmatch(text) else None


def _boxed(text: str) -> str | None:
    r"""Return what stands in the last ``\boxed{…}`` whose braces are closed."""
    for start in reversed([match.end() for match in _BOXED.finditer(text)][-20:]):
        depth = 1
        for at in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                return text[start:at]
    return None


def _hashed(text: str) -> str | None:
    """Return what stands after the last ``####`` up to the end of its line."""
    _, mark, after = text.rpartition(_HASHES)
    return after.strip().partition("\n")[0] if mark else None


def _last(text: str) -> Fraction | None:
    """Return the last number; None also where the last thing like a number is not certain."""
    found = None
    for match in _TOKEN.finditer(_tidy(text)):
        found = match
    return None if found is None else _value(found)


_WHERE: Mapping[str, Callable[[str], str | None]] = {
    "boxed": _boxed,
    "hashes": _hashed,
    "last": str,
}


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
        None if there is none in that place, or if what stands there could be read in several ways
        ("1,2", "10:30", "1.000,50"): a wrong value is worse than none.

    Examples
    --------
    >>> find_number("3 apples and 4 more are 7.")
    Fraction(7, 1)
    >>> find_number("So #### 1,234") == find_number(r"Thus \boxed{1234}.") == 1234
    True
    """
    forms = _WHERE if where == "auto" else {where: _WHERE[where]}
    for find in forms.values():
        place = find(text)
        if place is not None:
            value = read_number(place)
            return _last(place) if value is None else value
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
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        choice(self.where, "where", ("auto", *_WHERE))
        number(self.tolerance, "tolerance", low=0.0)

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "2")

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
_ANSWER_IS = re.compile(
    r"(?i:answer|choice|option)(?i: is|:| would be| =)[ :]{0,3}(?i:option |choice )?" + _LETTER
)
_OPTION = re.compile(rf"(?i:answer|choice|option)[ ]{_LETTER}")
_AT_START = re.compile(r"[(\[*_`$\"' \n]{0,8}([A-Z])(?!['’]\w)(?=[)\].:,*_`$\"'\n]|$)")
_STANDING_OUT = re.compile(
    r"[(\[*]([A-Z])[)\]*]|(?:^|\n)[ ]{0,3}([A-Z])(?=[.):]|\n|$)|\b([A-Z])[.!]?$"
)
_RULED_OUT_BEFORE = re.compile(
    r"(?i:\bnot|n['’]t|\bnever|\bneither|\bnor|\bexcept|\binstead of|\brather than"
    r"|\beliminated?|\brule[sd]? out|\bexcluded?)(?i: be| the)?(?i: option| choice| answer)?"
    r"[(\[*_`$\"' ]{0,4}$"
)
_RULED_OUT_AFTER = re.compile(
    r"[)\]*_`$\"']{0,4} (?i:(?:is|are|was|seems|would be|must be)(?: also| clearly| therefore)? "
    r"(?:not|wrong|incorrect|false|impossible|ruled out|eliminated|excluded)\b"
    r"|isn['’]t|can ?not\b|can['’]t|does not\b|doesn['’]t)"
)
_BEFORE = 40
"""Characters before a letter in which it can be ruled out."""
# "A cat" and "I think" are words of a sentence, "A because" is not.
_WORD_AFTER = re.compile(
    r" (?!(?i:because|since|as|and|but|which|for|due|based|given|so|is|not)\b)\w"
)


def find_letter(text: str, n_choices: int | None = None) -> str | None:
    r"""Return the letter of the choice that a text settles on, or None.

    In this order: ``\boxed{B}``, the last "answer is B" (also "Answer: (B)", "the option is B"), a
    letter that opens the text ("B", "(B)", "B. Rome"), the last "option B", the last letter that
    stands out by brackets, on a line of its own, or at the very end. Lower-case letters, words
    such as "A" and "I" in a sentence, and options that are ruled out ("not (A)", "A is wrong") are
    not taken.

    Parameters
    ----------
    text : str
        What a model wrote.
    n_choices : int, optional
        Later letters are none of the choices. Where it is not known there may be 26, and an "I"
        that is not marked by brackets or the like is taken for the word.

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
    n = 26 if n_choices is None else integer(n_choices, "n_choices", low=1)
    stripped = text.strip()
    boxed = _boxed(stripped)
    if boxed and _among(letter := boxed.replace("\\text", "").strip("{}() ."), n):
        return letter
    start = _AT_START.match(stripped)
    for match in (
        *reversed([*_ANSWER_IS.finditer(stripped)]),
        *([start] if start else []),
        *reversed([*_OPTION.finditer(stripped)]),
        *reversed([*_STANDING_OUT.finditer(stripped)]),
    ):
        at = match.start(match.lastindex or 0)
        if not _among(stripped[at], n) or _ruled_out(stripped, at):
            continue
        if n_choices is None and stripped[at] == "I" and not _marked(stripped, at):
            continue
        return stripped[at]
    return None


def _among(letter: str, n: int) -> bool:
    return len(letter) == 1 and 0 <= ord(letter) - ord("A") < n


def _ruled_out(text: str, at: int) -> bool:
    """Return whether the letter there is not meant: denied, or a word of a sentence."""
    before = text[max(0, at - _BEFORE) : at]
    return (
        _RULED_OUT_BEFORE.search(before) is not None
        or _RULED_OUT_AFTER.match(text, at + 1) is not None
        or (text[at] in "AI" and _WORD_AFTER.match(text, at + 1) is not None)
    )


def _marked(text: str, at: int) -> bool:
    """Return whether a letter is set apart, or all there is."""
    return len(text) == 1 or (at > 0 and text[at - 1] in "([*_`$")


@dataclass(frozen=True, slots=True)
class LetterMatch:
    """Whether the letter that a text settles on is that of the right choice.

    Parameters
    ----------
    n_choices : int, optional
        How many choices there are; later letters are not taken for one. By default what the
        response says: its ``choices``, or those of its ``context`` where that is a mapping; else
        it is not known, as in `find_letter`.
    name : str, default "letter_match"
        Of the column.

    Examples
    --------
    >>> LetterMatch(4).grade(Completion("Answer: (B) Rome", ground_truth=" B"))
    {'letter_match': 1.0, 'letter_match_found': 1.0}
    """

    n_choices: int | None = None
    name: str = "letter_match"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        if self.n_choices is not None and integer(self.n_choices, "n_choices", low=2) > 26:
            raise InvalidInputError(f"`n_choices` is {self.n_choices}; there are 26 letters")

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return _found_columns(self.name)

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether it was right, and whether a letter was found."""
        n = _counted(response) if self.n_choices is None else self.n_choices
        truths = [_letter(truth, n or 26) for truth in references(response)]
        found = find_letter(response.completion, n)
        return _found(self.name, found is not None, found in truths)


def _counted(response: Completion) -> int | None:
    """Return how many choices the response says there were."""
    context = response.context if isinstance(response.context, Mapping) else {}
    choices = getattr(response, "choices", None) or context.get("choices")
    return len(choices) if isinstance(choices, (list, tuple)) and 2 <= len(choices) <= 26 else None


def _letter(truth: str, n: int) -> str:
    letter = truth.strip(" ().:")
    if not _among(letter, n):
        raise InvalidInputError(f"the reference {truth[:80]!r} is not one of the {n} letters")
    return letter
