"""Counts of words, sentences and capital words in linear time.

The published checker counts sentences and capital words with tokenizers trained on or designed for
newspaper text. The rules here need no data and rely on punctuation.
"""

import re
from collections.abc import Callable

from eval_toolkit.errors import InvalidInputError

_WORD = re.compile(r"\w+")
_END = re.compile(r"(?<![.!?…])[.!?…]++(?=[\"'”’»)\]}*_]*(?:\s|$))")
_NEXT = re.compile(r"\S*\s+(\S)")
_SPACE = re.compile(r"\s")
_LONGEST_ABBREVIATION = 12

_NEVER_LAST = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "rev", "gen", "col", "capt", "lt", "sgt", "sen", "rep"),
        *("gov", "hon", "st", "mt", "fig", "vol", "pp", "vs", "cf", "e.g", "i.e", "approx", "dept"),
    )
)
_SELDOM_LAST = frozenset(
    (
        *("etc", "inc", "ltd", "co", "corp", "jr", "sr", "al", "ave", "blvd", "ph.d", "b.a", "m.a"),
        *("a.m", "p.m", "u.s", "u.k", "u.n", "d.c", "jan", "feb", "apr", "jun", "jul", "aug"),
        *("sep", "sept", "oct", "nov", "dec"),
    )
)
"""Abbreviations that end a sentence only before a capital letter."""

_BETWEEN = re.compile(r"[\s,;:@#$%&?!\"“”()\[\]{}<>]+|--+")
_CONTRACTED = re.compile(r"(?i)(?:'(?:s|m|d|ll|re|ve)|n't)$")


def compared(count: int, relation: str, bound: int) -> bool:
    """Return whether a count is "less than" or "at least" a bound.

    Examples
    --------
    >>> compared(3, "less than", 3), compared(3, "at least", 3)
    (False, True)
    """
    if relation == "less than":
        return count < bound
    if relation == "at least":
        return count >= bound
    raise InvalidInputError(f"the relation is {relation!r}; it must be 'less than' or 'at least'")


def number_of_words(text: str, *, num_words: int, relation: str) -> bool:
    """Return whether the text has the required number of words."""
    return compared(count_words(text), relation, num_words)


def number_of_sentences(text: str, *, num_sentences: int, relation: str) -> bool:
    """Return whether the text has the required number of sentences."""
    return compared(count_sentences(text), relation, num_sentences)


def count_words(text: str) -> int:
    """Return the number of words: maximal sequences of letters, digits and underscores.

    Examples
    --------
    >>> count_words("It's 5 o'clock.")
    5
    """
    return sum(1 for _ in _WORD.finditer(text))


def count_sentences(text: str) -> int:
    """Return the number of sentences that end with ``.``, ``!``, ``?`` or ``…`` before a space.

    A full stop after an abbreviation or an initial does not end a sentence, and neither does an
    ellipsis unless a capital letter follows. Line breaks do not end sentences, so a heading belongs
    to the following sentence, and the number of a list item ("1.") counts as a sentence, as in the
    published checker. Text after the last sentence end counts as another sentence.

    Examples
    --------
    >>> count_sentences("Dr. Smith met J. Doe at 5 p.m. today. Why? He won't say")
    3
    """
    n, end = 0, 0
    for match in _END.finditer(text):
        if _ends_sentence(text, match):
            n += 1
            end = match.end()
    rest = text[end:]
    return n + any(sign.isalnum() for sign in rest)


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    sign = match[0]
    if "!" in sign or "?" in sign:
        return True
    if len(sign) > 1 or sign == "…":
        return _next_is(text, match.end(), str.isupper)
    start = max(0, match.start() - _LONGEST_ABBREVIATION)
    word = _SPACE.split(text[start : match.start()])[-1].lstrip("\"'“‘([*_")
    if len(word) == 1 and word.isupper() and word != "I":
        return False
    plain = word.lower()
    if plain in _NEVER_LAST:
        return False
    if plain in _SELDOM_LAST:
        return _next_is(text, match.end(), str.isupper)
    if word.isdecimal():
        return not _next_is(text, match.end(), str.islower)
    return True


def _next_is(text: str, at: int, test: Callable[[str], bool]) -> bool:
    """Return whether the text after a sentence end starts with a given kind of character."""
    found = _NEXT.match(text, at)
    return found is not None and test(found[1])


def count_capital_words(text: str) -> int:
    """Return the number of words in capital letters.

    A hyphenated word counts once; a contraction counts twice ("DON'T" is "DO" and "N'T"), as in the
    published checker.

    Examples
    --------
    >>> count_capital_words("I said DON'T touch the TOP-SECRET box, OK?")
    5
    """
    n = 0
    for word in _BETWEEN.split(text):
        if word.isupper():
            ending = _CONTRACTED.search(word)
            n += 1 + bool(ending and word[: ending.start()].isupper())
        elif "'" in word:  # "I'm": only the pronoun is in capitals
            ending = _CONTRACTED.search(word)
            n += bool(ending and word[: ending.start()].isupper())
    return n
