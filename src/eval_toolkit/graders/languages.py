"""Language identification with py3langid, and graders for a required or matching language.

Only the first `TEXT_LIMIT` characters are read, and URLs are ignored. The grade is skipped if a
response has no letters or no likely language. See docs/adr/0024 for the choice of package.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, RATE, ColumnInfo, Grade, options_version
from eval_toolkit.graders.context import required_context_value
from eval_toolkit.models.responses import Completion

TEXT_LIMIT = 10_000
"""Maximum number of characters read from the start of a response."""

_LISTED = """
af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl
no pa pl pt ro ru sk sl so sq sv sw ta te th tl tr uk ur vi zh-cn zh-tw
"""
LANGUAGES = tuple(_LISTED.split())
"""Supported languages, without Bosnian and Galician, which attract short texts in others.
"""

_LEAST_PROBABILITY = 0.1
_ADDRESS = re.compile(r"(?:https?://|www\.)[!-~]+|[\w.+-]{1,64}@[\w.-]+", re.ASCII)
_HAN = re.compile("[\u4e00-\u9fff]")
_CODES = {"nn": "no"}  # both written forms of Norwegian
_ASKED = ({*LANGUAGES} - {"zh-cn", "zh-tw"}) | {"zh", "nn"}


def require_detector(feature: str = "the language of a text") -> Any:
    """Return the language identification package, or raise with installation instructions."""
    return require("py3langid.langid", feature=feature, extra="text")


@functools.lru_cache(maxsize=1)
def _identifier() -> Any:
    """Load py3langid's model once, restricted to the supported languages."""
    package = require_detector()
    identifier = package.LanguageIdentifier.from_model_file(
        package.MODEL_FILE, norm_probs=True, min_confidence=_LEAST_PROBABILITY
    )
    identifier.set_languages(_ASKED)
    return identifier


def _chinese(text: str) -> str:
    """Return the likelier script of a Chinese text, by coverage of its character set."""
    characters = "".join(_HAN.findall(text))
    simplified, traditional = (
        len(characters.encode(name, "ignore")) for name in ("gb2312", "big5")
    )
    return "zh-tw" if traditional > simplified else "zh-cn"


def _read(text: str) -> str:
    return _ADDRESS.sub(" ", text[:TEXT_LIMIT])


def has_letters(text: str) -> bool:
    """Return whether a string contains a letter of any script.

    Examples
    --------
    >>> has_letters("1 + 1 = 2"), has_letters("https://example.com"), has_letters("да")
    (False, False, True)
    """
    return any(map(str.isalpha, _read(text)))


def detect_language(text: str) -> str | None:
    """Return the code of the most likely language of a text.

    Parameters
    ----------
    text : str
        Text to identify; longer texts are identified more reliably.

    Returns
    -------
    str or None
        One of `LANGUAGES`, such as "de", "en" or "zh-cn"; None if no language is identified.

    Raises
    ------
    MissingExtraError
        If py3langid is not installed (extra ``text``).

    Examples
    --------
    >>> detect_language("Das ist ein kurzer Satz in deutscher Sprache.")
    'de'
    >>> detect_language("12345") is None
    True
    """
    identifier = _identifier()
    read = _read(text)
    code, _ = identifier.classify(read)
    if code == "und" or not has_letters(text):  # undetermined language
        return None
    return _chinese(read) if code == "zh" else _CODES.get(code, code)


def _known(language: Any) -> str:
    """Return the supported codes for a language; "zh" stands for both Chinese scripts."""
    code = str(language).strip().lower().replace("_", "-")
    short = code.partition("-")[0]
    for form in (code, short):  # de-AT
        if form in LANGUAGES or form == "zh":
            return form
    raise InvalidInputError(
        f"`language` is {language!r}; it must be a code such as 'de', one of {', '.join(LANGUAGES)}"
    )


def _same(found: str, required: str) -> bool:
    return found == required or found.startswith(f"{required}-")


@dataclass(frozen=True, slots=True)
class LanguageMatch:
    """Whether a response is in the required language.

    Skipped if the language of the response is unknown.

    Parameters
    ----------
    language : str, optional
        Language code, such as "de"; "zh" stands for "zh-cn" and "zh-tw". By default ``language`` in
        the sample's context.
    name : str, default "language_match"
        Name of the column.

    Raises
    ------
    InvalidInputError
        If the language is not one of `LANGUAGES`.
    MissingExtraError
        If py3langid is not installed (extra ``text``).

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
        require_detector()
        if self.language is not None:
            object.__setattr__(self, "language", _known(self.language))

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether the response is in the required language."""
        required = self.language
        if required is None:
            required = _known(required_context_value(response, "language"))
        found = detect_language(response.completion)
        if found is None:
            return {self.name: Grade.skipped("the language of the response is unknown")}
        return {self.name: float(_same(found, required))}


@dataclass(frozen=True, slots=True)
class LanguageConsistency:
    """Whether a response is in the language of the last user message.

    Skipped if either language is unknown.

    Parameters
    ----------
    raw : bool, default False
        Whether to use the raw output of the model, before the task's post-processing.

    Raises
    ------
    MissingExtraError
        If py3langid is not installed (extra ``text``).

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
        require_detector()

    @property
    def name(self) -> str:
        """Name of the grader: ``language_consistency`` or ``raw_language_consistency``."""
        return "raw_language_consistency" if self.raw else "language_consistency"

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        return {self.name: RATE}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return whether both responses are in the same language."""
        question = detect_language(response.last_user_instruction)
        if question is None:
            return {self.name: Grade.skipped("the language of the question is unknown")}
        found = detect_language(response.raw_completion if self.raw else response.completion)
        if found is None:
            return {self.name: Grade.skipped("the language of the response is unknown")}
        return {self.name: float(found == question)}
