"""Graders for the length of responses.

How words, sentences and paragraphs are counted:

- A **word** is a maximal sequence of letters, digits and underscores; an apostrophe or a hyphen
  between two of them joins them, so "don't" and "well-known" are one word each. In scripts
  without spaces, such as Chinese, each such sequence counts as one word.
- A **sentence** ends at ``.``, ``!`` or ``?`` before whitespace or the end (optionally after
  closing quotes and brackets), at ``…`` before a capital letter, at ``。``, ``！`` and ``？``, and at
  the end of a paragraph. A dot after an abbreviation ("Dr.", "e.g."), an initial ("J. Smith") or a
  number at the start of a line does not end a sentence.
- **Paragraphs** are non-empty and separated by one or more empty lines.
- **Characters** are counted without leading and trailing whitespace.

Only the first `TEXT_LIMIT` characters of a response are counted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.validation import choice, number
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import (
    COMPLETIONS,
    KEPT,
    RATE,
    ColumnInfo,
    Grade,
    options_version,
    references,
)
from eval_toolkit.graders.context import comparison, context_value, required_context_value
from eval_toolkit.graders.ifeval import counts
from eval_toolkit.graders.json_format import read_json
from eval_toolkit.models.responses import Completion

TEXT_LIMIT = 500_000
"""Maximum number of characters counted from the start of a response."""

_WORD_START = re.compile(r"(?<!\w)(?<!\w['’\-])\w")
_EMPTY_LINES = re.compile(r"\n[^\S\n]*+\n")
_ITEM_NUMBER = re.compile(r"^[^\S\n]{0,20}[0-9]{1,3}[.)](?=\s)", re.MULTILINE)
_WIDE_ENDS = str.maketrans({"。": ". ", "！": "! ", "？": "? "})


def count_words(text: str) -> int:
    """Return the number of words in a text, as defined in this module.

    Parameters
    ----------
    text : str
        Text to count.

    Returns
    -------
    int
        Number of words.

    Examples
    --------
    >>> count_words("Don't panic: it's a well-known 42.")
    6
    """
    return len(_WORD_START.findall(text[:TEXT_LIMIT]))


def count_sentences(text: str) -> int:
    """Return the number of sentences in a text, as defined in this module.

    Parameters
    ----------
    text : str
        Text to count.

    Returns
    -------
    int
        Number of sentences.

    Examples
    --------
    >>> count_sentences("Dr. J. Smith paid 3.50 today. Really?! He did")
    3
    """
    text = _ITEM_NUMBER.sub("", text[:TEXT_LIMIT]).translate(_WIDE_ENDS)
    return sum(map(counts.count_sentences, _EMPTY_LINES.split(text)))


def count_paragraphs(text: str) -> int:
    r"""Return the number of paragraphs in a text, as defined in this module.

    Parameters
    ----------
    text : str
        Text to count.

    Returns
    -------
    int
        Number of paragraphs.

    Examples
    --------
    >>> count_paragraphs("One\nand the same.\n\n \nTwo.")
    2
    """
    return sum(map(bool, map(str.strip, _EMPTY_LINES.split(text[:TEXT_LIMIT]))))


def _count_characters(text: str) -> int:
    return len(text[:TEXT_LIMIT].strip())


_COUNTERS: Mapping[str, Callable[[str], int]] = {
    "words": count_words,
    "sentences": count_sentences,
    "paragraphs": count_paragraphs,
    "characters": _count_characters,
}


@dataclass(frozen=True, slots=True)
class UnitCount:
    """Whether a response has the required number of words, sentences, paragraphs or characters.

    The sample's context specifies the requirement with ``comparison`` ("less than", "at most",
    "exactly", "at least" or "more than") and ``n``. The count is stored in ``<name>_n``.

    Parameters
    ----------
    unit : {"words", "sentences", "paragraphs", "characters"}, default "words"
        Unit to count; see `eval_toolkit.graders.lengths`.

    Raises
    ------
    InvalidInputError
        If the unit is invalid.

    Examples
    --------
    >>> asked = {"comparison": "at least", "n": 3}
    >>> UnitCount("words").grade(Completion("Rome it is.", context=asked))
    {'word_count': 1.0, 'word_count_n': 3.0}
    """

    unit: str = "words"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        choice(self.unit, "unit", tuple(_COUNTERS))

    @property
    def name(self) -> str:
        """Name: ``word_count``, ``sentence_count``, ``paragraph_count`` or ``character_count``."""
        return f"{self.unit.removesuffix('s')}_count"

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE, f"{self.name}_n": KEPT}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the count meets the requirement, and the count itself."""
        keeps = comparison(response)
        n = _COUNTERS[self.unit](response.completion)
        return {self.name: float(keeps(n)), f"{self.name}_n": float(n)}


@dataclass(frozen=True, slots=True)
class LengthControl:
    """Deviation of a response from the required length.

    The reference specifies the requirement as JSON: ``{"unit": "words", "type": "target", "count":
    100}``. The unit is "words", "sentences", "paragraphs" or "characters", and the type "target",
    "min" or "max". The distance is (length - count) / count, or 0 if a minimum or maximum is met.

    The columns are ``<name>``, 1 if the distance is within the tolerance (for "target") or 0 (for
    "min" and "max"); ``<name>_distance``, which is signed; and ``<name>_absolute_distance``.

    Parameters
    ----------
    tolerance : float, default 1/6
        Maximum relative deviation from the target.
    name : str, default "length_control"
        Name of the columns.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the tolerance is negative or not a number.

    Examples
    --------
    >>> asked = '{"unit": "words", "type": "target", "count": 4}'
    >>> grades = LengthControl().grade(Completion("Rome it is.", ground_truth=asked))
    >>> list(grades.values())
    [0.0, -0.25, 0.25]
    """

    tolerance: float = 1 / 6
    name: str = "length_control"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        number(self.tolerance, "tolerance", low=0.0)

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {
            self.name: RATE,
            f"{self.name}_distance": ColumnInfo(None, (-1.0, float("inf"))),
            f"{self.name}_absolute_distance": ColumnInfo(False, (0.0, float("inf"))),
        }

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the length is within the tolerance, and its deviation from the target."""
        requirement = _requirement(references(response)[0])
        kind = choice(str(requirement.get("type")), "type", ("target", "min", "max"))
        unit = choice(str(requirement.get("unit")), "unit", tuple(_COUNTERS))
        count = number(requirement.get("count", ""), "count", low=0.0, include_low=False)
        distance = (_COUNTERS[unit](response.completion) - count) / count
        if kind != "target":
            distance = max(distance, 0.0) if kind == "max" else min(distance, 0.0)
        kept = abs(distance) <= (self.tolerance if kind == "target" else 0.0)
        return dict(zip(self.columns(), (float(kept), distance, abs(distance)), strict=True))


def _requirement(reference: str) -> Mapping[str, Any]:
    try:
        table = read_json(reference)
    except ValueError:
        table = None
    if not isinstance(table, dict):
        raise InvalidInputError(
            f"the reference is {reference[:80]!r}; it must be JSON with 'unit', 'type' and 'count'"
        )
    return table


@dataclass(frozen=True, slots=True)
class LengthRatio:
    """Ratio of the word count of a response to that of its original.

    The original is stored in the sample's context under ``original``. If the context also has
    ``comparison`` and ``n``, as in `UnitCount`, ``<name>_kept`` is 1 if the ratio satisfies them
    and 0 otherwise; without them, it is skipped.

    Parameters
    ----------
    name : str, default "length_ratio"
        Name of the columns.

    Examples
    --------
    >>> asked = {"original": "one two three four", "comparison": "at most", "n": 0.5}
    >>> LengthRatio().grade(Completion("one two", context=asked))
    {'length_ratio': 0.5, 'length_ratio_kept': 1.0}
    """

    name: str = "length_ratio"
    response_types = COMPLETIONS

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: ColumnInfo(None, (0.0, float("inf"))), f"{self.name}_kept": RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the ratio, and whether it meets the requirement."""
        words = count_words(str(required_context_value(response, "original")))
        if not words:
            raise InvalidInputError("`original` in the sample's context has no words")
        ratio = count_words(response.completion) / words
        kept: float | Grade = Grade.skipped("the sample does not require a ratio")
        if context_value(response, "comparison") is not None:
            kept = float(comparison(response)(ratio))
        return {self.name: ratio, f"{self.name}_kept": kept}
