"""Graders for generated responses: exact match, inclusion and token F1, after normalisation.

User-supplied patterns are applied to at most the last `PATTERN_LIMIT` characters of a response. A
pattern that could be slow on some responses, such as ``(a+)+$``, runs in a worker process and is
stopped after a second; the response then counts as having no match, and the column
``<name>_timed_out`` is 1. Only graders with such a pattern have that column.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit._internal.sandbox.errors import Overrun
from eval_toolkit._internal.sandbox.patterns import PATTERN_LIMIT, is_simple, take_out
from eval_toolkit._internal.validation import choice
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
from eval_toolkit.models.responses import Completion

__all__ = ["PATTERN_LIMIT", "ExactMatch", "Includes", "TextRules", "TokenF1"]

_ARTICLES = re.compile(r"\b(?:a|an|the)\b", re.IGNORECASE)
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class TextRules:
    """Normalisation of responses and references before a comparison.

    Leading and trailing whitespace is always ignored, and strings are normalised to Unicode NFC.

    Parameters
    ----------
    ignore_case, ignore_punctuation, ignore_articles : bool, default False
        Whether to ignore case, punctuation and articles. Punctuation is every Unicode character of
        category P, and the ASCII characters ``$+<=>^`|~``; articles are "a", "an" and "the".
    ignore_whitespace : bool, default True
        Whether whitespace of any length is equivalent to one space.
    ignore : sequence of str
        Patterns whose matches are removed first, in this order. Only the end of a long response is
        searched; see `eval_toolkit.graders.texts`, also for slow patterns.

    Examples
    --------
    >>> TextRules(ignore_case=True, ignore_punctuation=True).apply(" The  Answer: 4! ")
    'the answer 4'
    """

    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_articles: bool = False
    ignore_whitespace: bool = True
    ignore: Sequence[str] = ()
    _patterns: tuple[re.Pattern[str], ...] = field(
        default=(), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if isinstance(self.ignore, str):
            raise InvalidInputError(f"`ignore` is {self.ignore!r}; it must be a list of patterns")
        object.__setattr__(self, "ignore", tuple(self.ignore))
        patterns = [compiled(one, f"ignore[{at}]") for at, one in enumerate(self.ignore)]
        object.__setattr__(self, "_patterns", tuple(patterns))

    @property
    def may_overrun(self) -> bool:
        """Whether a pattern may exceed the time limit on some responses."""
        return not all(is_simple(one.pattern, one.flags) for one in self._patterns)

    def apply(self, text: str) -> str:
        """Return the normalised string.

        Raises RuntimeError if a pattern of ``ignore`` exceeds the time limit.
        """
        if self._patterns:
            text = take_out(text, self._patterns)
        if not text.isascii():
            text = unicodedata.normalize("NFC", text)
        if self.ignore_case:
            text = text.casefold()
        if self.ignore_punctuation:
            text = without_punctuation(text)
        if self.ignore_articles:
            text = _ARTICLES.sub(" ", text)
        return " ".join(text.split()) if self.ignore_whitespace else text.strip()


def applied(rules: TextRules, response: Completion) -> list[str]:
    """Return the normalised references; a timeout is a task error."""
    try:
        return [rules.apply(truth) for truth in references(response)]
    except Overrun as error:
        raise InvalidInputError(
            f"`ignore` exceeds the time limit on a reference: {error}"
        ) from error


def timed_out_columns(name: str, may_overrun: bool) -> dict[str, ColumnInfo]:
    """Return the timeout column if a pattern may exceed the time limit."""
    return {f"{name}_timed_out": KEPT} if may_overrun else {}


def without_punctuation(text: str) -> str:
    """Remove Unicode and ASCII punctuation from a string."""
    text = text.translate(_ASCII_PUNCTUATION)
    if text.isascii():
        return text
    return "".join(sign for sign in text if not unicodedata.category(sign).startswith("P"))


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """Whether the response equals one of the references after normalisation.

    Parameters
    ----------
    ignore_case, ignore_punctuation, ignore_articles, ignore_whitespace, ignore
        Normalisation of the response and the references; see `TextRules`.
    name : str, default "exact_match"
        Name of the column; different names allow several exact-match graders.

    Examples
    --------
    >>> answer = Completion(" Rome.", ground_truth=["Rome", "Roma"])
    >>> ExactMatch().grade(answer)
    {'exact_match': 0.0}
    >>> ExactMatch(ignore_punctuation=True).grade(answer)
    {'exact_match': 1.0}
    """

    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_articles: bool = False
    ignore_whitespace: bool = True
    ignore: Sequence[str] = ()
    name: str = "exact_match"
    response_types = COMPLETIONS
    _rules: TextRules = field(default=TextRules(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = TextRules(
            self.ignore_case,
            self.ignore_punctuation,
            self.ignore_articles,
            self.ignore_whitespace,
            self.ignore,
        )
        object.__setattr__(self, "ignore", rules.ignore)
        object.__setattr__(self, "_rules", rules)

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE, **timed_out_columns(self.name, self._rules.may_overrun)}

    def answer(self, response: Completion) -> str | None:
        """Return the normalised response; None if it is empty or the time limit is exceeded."""
        try:
            return self._rules.apply(response.completion) or None
        except Overrun:
            return None

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return 1 if the response equals any reference, else 0."""
        truths = applied(self._rules, response)
        late = dict.fromkeys(timed_out_columns(self.name, self._rules.may_overrun), 0.0)
        try:
            right = self._rules.apply(response.completion) in truths
        except Overrun:  # the time limit was exceeded
            return {self.name: 0.0, **dict.fromkeys(late, 1.0)}
        return {self.name: float(right), **late}


@dataclass(frozen=True, slots=True)
class Includes:
    """Whether the response contains one of the references.

    By default, a reference must not be part of a longer word or number: neither "art" nor "1"
    matches in "party of 10". An empty reference matches only an empty response.

    Parameters
    ----------
    where : {"any", "begin", "end"}, default "any"
        Required position of the reference; punctuation around it is ignored at the end of the
        response.
    ignore_case : bool, default True
        Whether to ignore case.
    ignore_punctuation, ignore_articles : bool, default False
        See `TextRules`.
    whole_words : bool, default True
        Whether to reject matches inside a longer word or number.
    name : str, default "includes"
        Name of the column.

    Examples
    --------
    >>> Includes().grade(Completion("It is Rome, I think.", ground_truth=["Rome", "Roma"]))
    {'includes': 1.0}
    >>> Includes().grade(Completion("14", ground_truth="4"))
    {'includes': 0.0}
    """

    where: str = "any"
    ignore_case: bool = True
    ignore_punctuation: bool = False
    ignore_articles: bool = False
    whole_words: bool = True
    name: str = "includes"
    response_types = COMPLETIONS
    _rules: TextRules = field(default=TextRules(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        choice(self.where, "where", ("any", "begin", "end"))
        rules = TextRules(self.ignore_case, self.ignore_punctuation, self.ignore_articles)
        object.__setattr__(self, "_rules", rules)

    version = options_version("1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return 1 if the response contains any reference, else 0."""
        text = self._rules.apply(response.completion)
        return {
            self.name: float(any(self._is_in(one, text) for one in applied(self._rules, response)))
        }

    def _is_in(self, truth: str, text: str) -> bool:
        if not truth:
            return not text
        at = text.find(truth)
        while at >= 0:
            before, after = text[:at], text[at + len(truth) :]
            apart = not (self.whole_words and _continues(before, truth, after))
            if apart and (
                self.where == "any"
                or (self.where == "begin" and not before.strip(_AROUND))
                or (self.where == "end" and not after.strip(_AROUND))
            ):
                return True
            at = text.find(truth, at + 1)
        return False


_AROUND = string.punctuation + string.whitespace + "«»“”‘’„…。！？"
_WORD = r"[^\W_\u3040-\u30ff\u3400-\u9fff]"
"""Matches a word character, except in Chinese and Japanese, which have no spaces between words."""
_WITHIN = re.compile(rf"{_WORD}\x00{_WORD}|[0-9][.,]?\x00[0-9]|[0-9]\x00[.,][0-9]")
"""Matches a position inside a word or number."""


def _continues(before: str, inner: str, after: str) -> bool:
    """Return whether a match is part of a longer word or number in the response."""
    sides = f"{before[-2:]}\0{inner[:2]}", f"{inner[-2:]}\0{after[:2]}"
    return any(_WITHIN.search(side) for side in sides)


_PLAIN = TextRules(ignore_case=True)
_SQUAD = TextRules(ignore_case=True, ignore_punctuation=True, ignore_articles=True)
_WITH_ARTICLES = TextRules(ignore_case=True, ignore_punctuation=True)


@dataclass(frozen=True, slots=True)
class TokenF1:
    """Token F1 of the response and its best reference.

    F1 is 2·common / (words of the response + words of the reference), with common words counted
    with multiplicity. An empty response scores 1 against an empty reference and 0 otherwise.
    SQuAD's rules would remove all words of a reference such as "A" or "?"; such a reference keeps
    its articles and, if it is still empty, its punctuation, so that no empty response matches it.

    Parameters
    ----------
    normalise : {"squad", "plain"}, default "squad"
        "squad" ignores case, punctuation and English articles; "plain" only case. Words are
        separated by whitespace.

    Examples
    --------
    >>> TokenF1().grade(Completion("the red cat", ground_truth="A cat!"))["f1"]
    0.6666666666666666
    """

    normalise: str = "squad"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        choice(self.normalise, "normalise", ("squad", "plain"))

    @property
    def name(self) -> str:
        """Name of the grader: ``f1`` or ``f1_plain``."""
        return "f1" if self.normalise == "squad" else "f1_plain"

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: ColumnInfo(bounds=(0.0, 1.0))}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the best F1 over the references."""
        rules = (_SQUAD, _WITH_ARTICLES, _PLAIN) if self.normalise == "squad" else (_PLAIN,)
        scores = []
        for truth in references(response):
            by = next((one for one in rules if one.apply(truth)), rules[0])
            scores.append(_f1(by.apply(response.completion).split(), by.apply(truth).split()))
        return {self.name: max(scores)}


def _f1(words: list[str], reference: list[str]) -> float:
    if not words or not reference:
        return float(words == reference)
    common = sum((Counter(words) & Counter(reference)).values())
    return 2.0 * common / (len(words) + len(reference))
