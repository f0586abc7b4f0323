"""Which language a text is in, by langdetect: the one asked for, or that of the question.

langdetect draws random numbers; they are seeded here, without touching the state it shares with
others, so that a text always has the same language. It reads the first `TEXT_LIMIT` characters. A
text without letters, or without a language that it finds likely, has none: the grade is skipped.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._optional import require
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, RATE, ColumnInfo, Grade, options_version
from eval_toolkit.graders.context import told_or_raise
from eval_toolkit.responses import Completion

__all__ = ["TEXT_LIMIT", "LanguageConsistency", "LanguageMatch", "detect_language"]

TEXT_LIMIT = 10_000
"""So many characters of a text are read, its first ones."""

_SEED = 0


def _langdetect() -> Any:
    return require("langdetect", feature="the language of a text", extra="text")


@functools.lru_cache(maxsize=1)
def _factory() -> Any:
    """Return langdetect's languages, read once; a factory of our own, seeded."""
    place = _langdetect().detector_factory
    factory = place.DetectorFactory()
    factory.load_profile(place.PROFILES_DIRECTORY)
    factory.set_seed(_SEED)
    return factory


def detect_language(text: str) -> str | None:
    """Return the code of the language that a text is most likely in.

    Parameters
    ----------
    text : str
        The longer it is, the more certain the answer; a few words are often taken for another
        language.

    Returns
    -------
    str or None
        Such as "de", "en", "zh-cn"; None where no language can be told.

    Raises
    ------
    MissingExtraError
        If langdetect is not installed (extra ``text``).

    Examples
    --------
    >>> detect_language("Das ist ein kurzer Satz in deutscher Sprache.")
    'de'
    >>> detect_language("12345") is None
    True
    """
    detector = _factory().create()
    detector.append(text[:TEXT_LIMIT])
    try:
        found = detector.get_probabilities()
    except _langdetect().LangDetectException:
        return None
    return str(found[0].lang) if found else None


def _known(language: Any) -> str:
    """Return the code of a language as langdetect writes it."""
    codes = set(_factory().get_lang_list())
    code = str(language).strip().lower().replace("_", "-")
    if code in codes or any(one.startswith(f"{code}-") for one in codes):
        return code
    short = code.partition("-")[0]
    if short in codes:  # de-AT
        return short
    raise InvalidInputError(
        f"`language` is {language!r}; it must be a code such as 'de', one of "
        f"{', '.join(sorted(codes))}"
    )


def _same(found: str, wanted: str) -> bool:
    return found == wanted or found.startswith(f"{wanted}-")


@dataclass(frozen=True, slots=True)
class LanguageMatch:
    """Whether a text is in the language that is asked for.

    Skipped where the language of the text cannot be told.

    Parameters
    ----------
    language : str, optional
        Its code, such as "de"; "zh" stands for "zh-cn" and "zh-tw". Otherwise the sample's context
        has it under ``language``.
    name : str, default "language_match"
        Of the column.

    Raises
    ------
    InvalidInputError
        If langdetect does not know the language.
    MissingExtraError
        If langdetect is not installed (extra ``text``).

    Examples
    --------
    >>> grader = LanguageMatch("de")
    >>> grader.grade(Completion("Das ist ein kurzer Satz in deutscher Sprache."))
    {'language_match': 1.0}
    >>> grader.grade(Completion("1 + 1 = 2"))["language_match"].status
    'skipped'
    """

    language: str | None = None
    name: str = "language_match"
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        _langdetect()
        if self.language is not None:
            object.__setattr__(self, "language", _known(self.language))

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return {self.name: RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether it is."""
        wanted = self.language
        if wanted is None:
            wanted = _known(told_or_raise(response, "language"))
        found = detect_language(response.completion)
        if found is None:
            return {self.name: Grade.skipped("the language of the text cannot be told")}
        return {self.name: float(_same(found, wanted))}


@dataclass(frozen=True, slots=True)
class LanguageConsistency:
    """Whether a text is in the language of what the user said last.

    Skipped where the language of either cannot be told.

    Parameters
    ----------
    raw : bool, default False
        Whether the text is taken as the model gave it, before the task's post-processing.

    Raises
    ------
    MissingExtraError
        If langdetect is not installed (extra ``text``).

    Examples
    --------
    >>> asked = [{"role": "user", "content": "Was ist die Hauptstadt von Italien?"}]
    >>> answer = Completion("The capital of Italy is the city of Rome.", messages=asked)
    >>> LanguageConsistency().grade(answer)
    {'language_consistency': 0.0}
    """

    raw: bool = False
    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        _langdetect()

    @property
    def name(self) -> str:
        """``language_consistency``, or ``raw_language_consistency``."""
        return "raw_language_consistency" if self.raw else "language_consistency"

    @property
    def version(self) -> str:
        """Changes when the numbers may."""
        return options_version(self, "1")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return what is filled and how it is to be read."""
        return {self.name: RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether both are in one language."""
        asked = detect_language(response.last_user_instruction)
        if asked is None:
            return {self.name: Grade.skipped("the language of the question cannot be told")}
        found = detect_language(response.raw_completion if self.raw else response.completion)
        if found is None:
            return {self.name: Grade.skipped("the language of the text cannot be told")}
        return {self.name: float(found == asked)}
