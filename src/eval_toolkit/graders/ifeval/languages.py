"""Deterministic language check."""

from functools import lru_cache

from eval_toolkit.graders.languages import detect_language, has_letters

# Cached: several instructions check the same response.
_language = lru_cache(maxsize=16)(detect_language)


def is_in_language(text: str, language: str) -> bool:
    """Return whether a text is in a language; always true for texts without letters.

    Language codes are those of the published data, such as "en", "de" or "zh-cn".

    Examples
    --------
    >>> is_in_language("Das ist ein ganz gewöhnlicher deutscher Satz.", "de")
    True
    >>> is_in_language("1 + 1 = 2", "de")
    True
    """
    return _language(text) == language or not has_letters(text)
