r"""Extraction of numbers such as 1,000, $1000.00, 3 1/2 and \frac{1}{2} from text."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from eval_toolkit._internal.validation import choice, number
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, ColumnInfo, Grade, options_version, references
from eval_toolkit.graders.extraction.characters import ascii_numerals
from eval_toolkit.graders.extraction.forms import boxed, found_columns, found_grades, hashed
from eval_toolkit.models.responses import Completion

# Candidates are found first, with all adjoining characters, and then parsed strictly: "1,2" may be
# 1.2 or two numbers, and a wrong value is worse than none. Lengths are bounded, so that all numbers
# can be compared quickly.
_SPACES = " \u00a0\u2007\u2009\u202f"
_RUN = rf"(?:(?<!\.)\.)?[0-9](?:[0-9]|[.,:/{_SPACES}](?=[0-9]))*"
_MONEY = r"(?:USD|EUR|GBP|INR|JPY|CNY|RMB|CHF|CAD|AUD|Rs\.?)[ \u00a0]?"
_COIN = r"[$£€¥₹]"
# A minus sign belongs to a number unless it follows something to subtract from.
_FRONT = rf"(?:(?<![)\]}}])[-+](?:{_MONEY})?{_COIN}?|{_MONEY}{_COIN}?[-+]?|{_COIN}[-+]?)?"
_ARGUMENT = r"\s?(?:\{[^{}]{1,100}\}|[0-9])"
_QUOTIENT = rf"\\[dt]?frac{_ARGUMENT}{_ARGUMENT}"
_TOKEN = re.compile(
    # not inside a word, a version or an index: v2, a.2, x_2; Chinese has no space before numbers
    rf"(?<![^\W_\u3040-\u30ff\u3400-\u9fff])(?<![^\W_][._])(?<![^\W_]__)(?P<front>{_FRONT})"
    rf"(?:(?P<run>{_RUN})(?:[eE](?P<power>[-+]?[0-9]{{1,3}})(?![0-9]))?(?:[ ]?(?P<rest>{_QUOTIENT}))?"
    rf"|(?P<quotient>{_QUOTIENT}))(?:(?=[eE][-+]?[0-9]|(?<=0)[xX][0-9a-fA-F])(?P<odd>))?"
    # arithmetic expressions are not numbers
    r"|(?P<formula>\\[dt]?frac[^\s$=]{0,200}|\\sqrt(?:\{[^{}]{0,100}\})?|\\(?:pi|log|ln)"
    r"|\^(?!\{?\\circ)\{?[-+]?\w{0,20})"
)
_PLAIN = re.compile(r"(?:[0-9]{1,300}|[1-9][0-9]{0,2}(?:,[0-9]{3}){1,20})?(?:\.[0-9]{1,300})?")
_ARGUMENTS = re.compile(rf"\\[dt]?frac({_ARGUMENT})({_ARGUMENT})")
_SPLIT = re.compile(rf"[{_SPACES}]")
_THREE_DIGITS = re.compile(r"[0-9]{3}(?:\.[0-9]{1,300})?")
_SPACED = re.compile(
    rf"[1-9][0-9]{{0,2}}([{_SPACES}])[0-9]{{3}}(?:\1[0-9]{{3}}){{0,19}}(?:\.[0-9]{{1,300}})?"
)
_LATEX = re.compile(r"\{(,)\}|\\[,!](?=[0-9]{3}(?![0-9]))|\\(?=[$%])")
r"""Thousands separators in LaTeX: ``1{,}000`` and ``1\,000``."""
_AREA = re.compile(
    r"(?:\\(?:text|mathrm|mbox)\{[^{}]{1,40}\}|(?<![A-Za-z])(?:[cdkm]?m|ft|in|yd|units?))"
    r"\s?\^\{?[23](?![0-9])\}?"
)
"""Units with exponents, such as cm^2, whose exponent is not part of the number."""
_SLASH = re.compile(r"(?<=[0-9])[ ]?/[ ]?(?=[0-9])")
_LONGEST = 5_000
"""Maximum length of a number in characters."""
_MOST = 1_000_000
"""Number of characters, from the end of a response, searched for every number."""
_END, _PART = 20_000, 1_000
"""Number of characters at the end of a long text that are searched first, and the number at their
start where a token may be cut off."""


def read_number(text: str) -> Fraction | None:
    r"""Parse a string as an exact number; None if it is not a number.

    Thousands separators (commas or spaces) are accepted, as are currency and percent signs (which
    are ignored), ``a/b``, ``3 1/2``, "3½", ``\frac{a}{b}`` and digits of any script.

    Parameters
    ----------
    text : str
        String that contains a number and nothing else.

    Returns
    -------
    Fraction or None
        Exact value; 0.1 is one tenth.

    Examples
    --------
    >>> read_number("1,000") == read_number(" $1000.00 ") == 1000
    True
    >>> read_number(r"\frac{1}{2}") == read_number("0.5")
    True
    >>> read_number("12 apples") is None
    True
    """
    if len(text := text.strip()) > _LONGEST:
        return None
    bare = _tidy(text).strip().rstrip(".").strip("$ ").removesuffix("%").rstrip()
    match = _TOKEN.fullmatch(bare)
    return None if match is None or _is_list(match) else _value(match)


def _tidy(text: str) -> str:
    return _SLASH.sub("/", _AREA.sub("", _LATEX.sub(r"\1", ascii_numerals(text))))


def _is_list(match: re.Match[str]) -> bool:
    """Return whether a token is a list such as 1 2 3 or 5/6/2024; its last number is used."""
    run = match["run"] or ""
    return run.count("/") > 1 or (_SPLIT.search(run) is not None and not _hangs_together(run))


def _hangs_together(run: str) -> bool:
    """Return whether a token with spaces can be a single number: 3 1/2, 5 000."""
    *_, before, last = _SPLIT.split(run)
    return before.isdecimal() and (
        last.count("/") == 1 or (len(before) <= 3 and _THREE_DIGITS.fullmatch(last) is not None)
    )


def _value(match: re.Match[str]) -> Fraction | None:
    """Return the value of a token; None if it has none or is ambiguous."""
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
    """Return the value of a mixed number such as 3 1/2; its fraction must be proper."""
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


def _last(text: str) -> Fraction | None:
    """Return the last number; None if it is ambiguous."""
    end = _last_token(text[-_END:])
    # A token at the cut may be incomplete, unless it exceeds the maximum length anyway.
    if len(text) > _END and (end is None or max(end.start(), len(end[0])) < _PART):
        end = _last_token(text)
    return None if end is None else _value(end)


def _last_token(text: str) -> re.Match[str] | None:
    found = None
    for match in _TOKEN.finditer(_tidy(text)):
        found = match
    return found


def _first(text: str) -> Fraction | None:
    """Return the first number; None if it is ambiguous."""
    found = _TOKEN.search(_tidy(text))
    return None if found is None else _value(found)


def _every(text: str) -> list[Fraction]:
    """Return all unambiguous numbers in a response."""
    found = map(_value, _TOKEN.finditer(_tidy(text[-_MOST:])))
    return [one for one in found if one is not None]


_WHERE: Mapping[str, Callable[[str], str | None]] = {
    "boxed": boxed,
    "hashes": hashed,
    "last": str,
}
_PLACES: Mapping[str, Callable[[str], Fraction | None]] = {"exact": read_number, "first": _first}
_ANY = "any"
_ALSO = {"begin": "first", "end": "last"}
"""Aliases of the values of ``where``."""


def find_number(text: str, where: str = "auto") -> Fraction | None:
    r"""Return the final number of a response, in one of the usual forms.

    Parameters
    ----------
    text : str
        Model response.
    where : {"auto", "boxed", "hashes", "last", "first", "exact"}, default "auto"
        Where to look: the last ``\boxed{}``, the text after the last ``####``, or the last number;
        "auto" uses the first of these that occurs. "first" uses the first number; "exact" requires
        the whole response to be a number.

    Returns
    -------
    Fraction or None
        Value of the number; None if it is missing or ambiguous ("1,2", "10:30", "1.000,50"), since
        no value is better than a wrong one.

    Examples
    --------
    >>> find_number("3 apples and 4 more are 7.")
    Fraction(7, 1)
    >>> find_number("So #### 1,234") == find_number(r"Thus \boxed{1234}.") == 1234
    True
    """
    if where in _PLACES:
        return _PLACES[where](text)
    forms = _WHERE if where == "auto" else {where: _WHERE[where]}
    for find in forms.values():
        place = find(text)
        if place is not None:
            value = read_number(place)
            return _last(place) if value is None else value
    return None


@dataclass(frozen=True, slots=True)
class NumberMatch:
    """Whether the number in the response equals that of a reference.

    "1,000" equals "1000.0". A reference may be a number or a worked solution, from which the number
    is extracted in the same way.

    Parameters
    ----------
    where : {"auto", "boxed", "hashes", "last", "first", "any", "exact"}, default "auto"
        As in `find_number`; "any" requires any of the numbers in the response to be correct.
        "begin" and "end" are aliases of "first" and "last".
    tolerance : float, default 0.0
        Relative tolerance: largest difference from the reference, as a fraction of it.
    name : str, default "number_match"
        Name of the column.

    Examples
    --------
    >>> NumberMatch().grade(Completion("That makes $1,000.", ground_truth="so … #### 1000"))
    {'number_match': 1.0, 'number_match_found': 1.0}
    >>> NumberMatch("any").grade(Completion("6, since 2 * 3 = 6 and 5 + 1 = 6", ground_truth="3"))
    {'number_match': 1.0, 'number_match_found': 1.0}
    """

    where: str = "auto"
    tolerance: float = 0.0
    name: str = "number_match"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", _ALSO.get(self.where, self.where))
        choice(self.where, "where", ("auto", *_WHERE, *_PLACES, _ANY))
        number(self.tolerance, "tolerance", low=0.0)

    version = options_version("3")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return found_columns(self.name)

    def answer(self, response: Completion) -> str | None:
        """Return the extracted number, or None."""
        found = self._found(response)
        return str(found[-1]) if found else None

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the number is correct, and whether one was found."""
        truths = [self._reference(truth) for truth in references(response)]
        found = self._found(response)
        slack = Fraction(self.tolerance)
        right = any(abs(one - truth) <= slack * abs(truth) for one in found for truth in truths)
        return found_grades(self.name, bool(found), right)

    def _found(self, response: Completion) -> list[Fraction]:
        if self.where == _ANY:
            return _every(response.completion)
        found = find_number(response.completion, self.where)
        return [] if found is None else [found]

    def _reference(self, truth: str) -> Fraction:
        value = read_number(truth)
        value = find_number(truth) if value is None else value
        if value is None:
            raise InvalidInputError(f"the reference {truth[:80]!r} contains no number")
        return value
