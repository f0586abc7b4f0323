"""Extraction of the letter of the selected choice."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from eval_toolkit._internal.validation import integer
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, ColumnInfo, Grade, options_version, references
from eval_toolkit.graders.extraction.forms import boxed, found_columns, found_grades
from eval_toolkit.models.responses import Completion

_LETTER = r"[(\[*_`$\"' ]{0,4}([A-Z])(?![\w'’])"
_ANSWER_IS = re.compile(
    r"(?:(?i:answer|choice|option)(?i: is|:| would be| =)[ :]{0,3}(?i:option |choice )?"
    rf"|<(?i:answer|choice|option)>\s{{0,3}}){_LETTER}"
)
_CLOSING = r"[)\]*_`$\"']{0,4}"
_IS_RIGHT = re.compile(
    rf"\b([A-Z]){_CLOSING} (?i:is|must be|has to be|would be)"
    r"(?i: clearly| therefore| thus| indeed)?(?i: the| our| my)?(?i: only| most| best| single)? "
    r"(?i:correct|right|best|answer|choice|option)\b"
)
_OPTION = re.compile(rf"(?i:answer|choice|option)[ ]{_LETTER}")
_AT_START = re.compile(r"[(\[*_`$\"' \n]{0,8}([A-Z])(?!['’]\w)(?=[)\].:,*_`$\"'\n]|$)")
_STANDING_OUT = re.compile(
    r"[(\[*]([A-Z])[)\]*]|(?:^|\n)[ ]{0,3}([A-Z])(?=[.):]|\n|$)|\b([A-Z])[.!]?$"
)
_RULED_OUT_BEFORE = re.compile(
    r"(?i:\bnot|n['’]t|\bnever|\bneither|\bnor|\bexcept|\binstead of|\brather than"
    r"|\beliminated?|\brule[sd]? out|\bexcluded?|\bif|\bwhether)(?i: be| the)?"
    r"(?i: option| choice| answer)?"
    r"[(\[*_`$\"' ]{0,4}$"
)
_RULED_OUT_AFTER = re.compile(
    rf"{_CLOSING} (?i:(?:is|are|was|seems|would be|must be)(?: also| clearly| therefore)? "
    r"(?:not|wrong|incorrect|false|impossible|ruled out|eliminated|excluded)\b"
    r"|isn['’]t|can ?not\b|can['’]t|does not\b|doesn['’]t)"
)
# "A and B" and "A, B" select neither, but in "A and B is wrong" a new clause begins.
_AND = rf"{_CLOSING}(?:,? (?:and|or|&) |[,;] ?| ?/ ?)(?i:option |choice )?[(\[*_`$\"']{{0,4}}"
_PAIR_ENDS = rf"{_CLOSING}(?:[.,;:!?\n]|$| (?i:are|were|both)\b)"
_FIRST_OF_TWO = re.compile(rf"(?:{_AND}[A-Z]){{1,25}}{_PAIR_ENDS}")
_SECOND_OF_TWO = re.compile(rf"\b[A-Z]{_AND}$")
_ENDS_A_PAIR = re.compile(_PAIR_ENDS)
_BEFORE = 40
"""Number of characters searched for a negation before a letter."""
# "A" and "I" are ordinary words in "A cat" and "I think", but not in "A because".
_WORD_AFTER = re.compile(
    r" (?!(?i:because|since|as|and|but|which|for|due|based|given|so|is|not)\b)\w"
)


def find_letter(text: str, n_choices: int | None = None) -> str | None:
    r"""Return the letter of the choice selected in a response, or None.

    The following forms are searched in this order: ``\boxed{B}``, the last "answer is B" (also
    "Answer: (B)", "the option is B", ``<answer>B</answer>``), a letter at the start of the response
    ("B", "(B)", "B. Rome"), the last "B is correct" (also "the right answer", "the best choice"),
    the last "option B", and the last letter in brackets, on its own line, or at the end. Lower-case
    letters, the words "A" and "I" in sentences, rejected options ("not (A)", "A is wrong") and
    several options at once ("both A and B", "A, B, C") are ignored.

    Parameters
    ----------
    text : str
        Model response.
    n_choices : int, optional
        Number of choices; letters beyond the last choice are ignored. By default 26, with "I"
        treated as a word unless it is marked, e.g. by brackets.

    Returns
    -------
    str or None
        Capital letter; None if no choice is selected.

    Examples
    --------
    >>> find_letter("I think A is wrong. The answer is (C).", 4)
    'C'
    >>> find_letter(" B"), find_letter("A cat sat there.")
    ('B', None)
    """
    n = 26 if n_choices is None else integer(n_choices, "n_choices", low=1)
    stripped = text.strip()
    box = boxed(stripped)
    if box and _among(letter := box.replace("\\text", "").strip("{}() ."), n):
        return letter
    start = _AT_START.match(stripped)
    for match in (
        *reversed([*_ANSWER_IS.finditer(stripped)]),
        *([start] if start else []),
        *reversed([*_IS_RIGHT.finditer(stripped)]),
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
    """Return whether a letter is negated, one of several, or an ordinary word."""
    before = text[max(0, at - _BEFORE) : at]
    return (
        _RULED_OUT_BEFORE.search(before) is not None
        or _RULED_OUT_AFTER.match(text, at + 1) is not None
        or _FIRST_OF_TWO.match(text, at + 1) is not None
        or (_SECOND_OF_TWO.search(before) and _ENDS_A_PAIR.match(text, at + 1)) is not None
        or (text[at] in "AI" and _WORD_AFTER.match(text, at + 1) is not None)
    )


def _marked(text: str, at: int) -> bool:
    """Return whether a letter is marked as the answer or is the whole response."""
    return len(text) == 1 or (at > 0 and text[at - 1] in "([*_`$")


@dataclass(frozen=True, slots=True)
class LetterMatch:
    """Whether the letter selected in a response denotes the correct choice.

    Parameters
    ----------
    n_choices : int, optional
        Number of choices; letters beyond the last choice are ignored. By default, taken from
        ``choices`` of the response or its ``context``, or else the default of `find_letter`.
    name : str, default "letter_match"
        Name of the column.

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
            raise InvalidInputError(f"`n_choices` is {self.n_choices}; it must be at most 26")

    version = options_version("4")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return found_columns(self.name)

    def answer(self, response: Completion) -> str | None:
        """Return the extracted letter, or None."""
        return find_letter(response.completion, self._n(response))

    def _n(self, response: Completion) -> int | None:
        return _counted(response) if self.n_choices is None else self.n_choices

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the letter is correct, and whether one was found."""
        n = self._n(response)
        truths = [_letter(truth, n or 26) for truth in references(response)]
        found = find_letter(response.completion, n)
        return found_grades(self.name, found is not None, found in truths)


def _counted(response: Completion) -> int | None:
    """Return the number of choices stored with the response."""
    context = response.context if isinstance(response.context, Mapping) else {}
    choices = getattr(response, "choices", None) or context.get("choices")
    return len(choices) if isinstance(choices, (list, tuple)) and 2 <= len(choices) <= 26 else None


def _letter(truth: str, n: int) -> str:
    letter = truth.strip(" ().:")
    if not _among(letter, n):
        raise InvalidInputError(f"the reference {truth[:80]!r} is not one of the first {n} letters")
    return letter
