"""Rules for words and letters: keywords, case, commas, beginnings and endings.

Keywords are matched literally, including characters such as ``+`` or ``.``.
"""

import re
from collections.abc import Sequence

from eval_toolkit.graders.ifeval.counts import compared, count_capital_words
from eval_toolkit.graders.ifeval.languages import is_in_language


def has_keywords(text: str, *, keywords: Sequence[str]) -> bool:
    """Return whether every keyword occurs in the text, possibly as part of a word."""
    return all(re.search(re.escape(word), text, re.IGNORECASE) for word in keywords)


def keyword_frequency(text: str, *, keyword: str, frequency: int, relation: str) -> bool:
    """Return whether the keyword occurs with the required frequency."""
    found = re.finditer(re.escape(keyword.strip()), text, re.IGNORECASE)
    return compared(sum(1 for _ in found), relation, frequency)


def no_forbidden_words(text: str, *, forbidden_words: Sequence[str]) -> bool:
    """Return whether no forbidden word occurs in the text as a whole word."""
    return not any(
        # Not \b: after a word that ends in punctuation, such as "C++", it would require a letter.
        re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)
        for word in forbidden_words
    )


def letter_frequency(text: str, *, letter: str, let_frequency: int, let_relation: str) -> bool:
    """Return whether the letter occurs with the required frequency, ignoring case."""
    return compared(text.lower().count(letter.strip().lower()), let_relation, let_frequency)


def capital_words(text: str, *, capital_frequency: int, capital_relation: str) -> bool:
    """Return whether the text has the required number of words in capital letters."""
    return compared(count_capital_words(text), capital_relation, capital_frequency)


def all_upper_case(text: str) -> bool:
    """Return whether the text is English and entirely in capital letters."""
    return text.isupper() and is_in_language(text, "en")


def all_lower_case(text: str) -> bool:
    """Return whether the text is English and contains no capital letters."""
    return text.islower() and is_in_language(text, "en")


def no_comma(text: str) -> bool:
    """Return whether the text contains no comma."""
    return "," not in text


def repeats_prompt(text: str, *, prompt_to_repeat: str) -> bool:
    """Return whether the text begins with the prompt."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def ends_with(text: str, *, end_phrase: str) -> bool:
    """Return whether the text ends with the phrase; quotation marks around the text are ignored."""
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def in_quotes(text: str) -> bool:
    """Return whether the text is enclosed in double quotation marks."""
    inner = text.strip()
    return len(inner) > 1 and inner[0] == inner[-1] == '"'
