"""Which language a text is in; the same answer every time."""

from functools import cache, lru_cache
from typing import Any

from eval_toolkit._optional import require

__all__ = ["is_in_language", "require_langdetect"]

_READ = 50_000
"""Characters that are looked at; langdetect itself uses 10,000 once addresses are taken out."""


def require_langdetect() -> Any:
    """Return the package that knows languages, or say how to install it."""
    return require("langdetect", feature="the grader 'ifeval'", extra="text")


@cache
def _factory() -> Any:
    require_langdetect()
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    # A factory of our own: the seed of langdetect's belongs to the whole process.
    factory = DetectorFactory()
    factory.seed = 0
    factory.load_profile(PROFILES_DIRECTORY)
    return factory


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
    return _language(text[:_READ]) in (language, None)


@lru_cache(maxsize=16)  # several instructions ask it about one response
def _language(text: str) -> str | None:
    langdetect = require_langdetect()
    detector = _factory().create()
    detector.append(text)
    try:
        return str(detector.detect())
    except langdetect.LangDetectException:
        return None
