"""Whether a text is in a language; the same answer every time."""

from functools import lru_cache
from typing import Any

from eval_toolkit._optional import require
from eval_toolkit.graders.languages import detect_language

__all__ = ["is_in_language", "require_langdetect"]

# Several instructions ask it about one response.
_language = lru_cache(maxsize=16)(detect_language)


def require_langdetect() -> Any:
    """Return the package that knows languages, or say how to install it."""
    return require("langdetect", feature="the grader 'ifeval'", extra="text")


def is_in_language(text: str, language: str) -> bool:
    """Return whether a text is in a language; one without letters could be in any.

    Parameters
    ----------
    text : str
        Any text.
    language : str
        As langdetect spells it: "en", "de", "zh-cn".

    Examples
    --------
    >>> is_in_language("Das ist ein ganz gewöhnlicher deutscher Satz.", "de")
    True
    >>> is_in_language("1 + 1 = 2", "de")
    True
    """
    return _language(text) in (language, None)
