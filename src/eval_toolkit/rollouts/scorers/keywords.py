"""Scorers based on keywords and patterns, without a model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from eval_toolkit._internal import validation
from eval_toolkit._internal.sandbox.compiling import compile_pattern
from eval_toolkit._internal.sandbox.errors import Overrun
from eval_toolkit._internal.sandbox.patterns import find_in
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.graders.base import options_version
from eval_toolkit.graders.judges.keywords import KeywordJudge, plain_text
from eval_toolkit.rollouts.scorers.base import MODES
from eval_toolkit.rollouts.scorers.checking import Scored, numbers_only


@dataclass(frozen=True, slots=True)
class KeywordScorer:
    """Scorer that returns 1 for texts that contain any of several phrases, else 0.

    Parameters
    ----------
    phrases : sequence of str
        Phrases to search for, ignoring case, whitespace and the type of apostrophe.
    whole_words : bool, default True
        Whether phrases must match whole words: "ass" does not match "classic".
    threshold : float, default 0.5
        Threshold at which a text counts as bad.
    higher_is_worse : bool, default True
        Whether texts with a phrase are bad; pass False if good answers contain the phrases.
    mode : {"turn", "cumulative", "final"}, default "turn"
        Part of the conversation to score; see `with_mode`.
    name : str, default "keywords"
        Name of the scorer and of its column.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If there are no phrases, one is empty, or an option is invalid.

    Examples
    --------
    >>> KeywordScorer(["idiot"]).score(["What an IDIOT!", "idiotic"])
    [1.0, 0.0]
    """

    phrases: Sequence[str]
    whole_words: bool = True
    threshold: float = 0.5
    higher_is_worse: bool = True
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    mode: str = "turn"
    name: str = "keywords"
    _search: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        phrases = KeywordJudge(self.phrases).phrases
        object.__setattr__(self, "phrases", phrases)
        _check_options(self)
        wanted = "|".join(re.escape(plain_text(phrase)) for phrase in phrases)
        bounds = (r"(?<!\w)", r"(?!\w)") if self.whole_words else ("", "")
        object.__setattr__(self, "_search", re.compile(f"{bounds[0]}(?:{wanted}){bounds[1]}"))

    version = options_version("1")

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return 1 for each text that contains a phrase, else 0."""
        return [float(self._search.search(plain_text(text)) is not None) for text in texts]


@dataclass(frozen=True, slots=True)
class PatternScorer:
    r"""Scorer that returns 1 for texts that match a regular expression, else 0.

    A pattern that could be very slow on some texts runs in a separate process with a timeout of one
    second. A text that exceeds it has no score, but a reason.

    Parameters
    ----------
    pattern : str
        Regular expression; begin it with ``(?i)`` to ignore case. Only the last 20,000 characters
        of a text are searched.
    threshold, higher_is_worse, mode
        As in `KeywordScorer`.
    name : str, default "pattern"
        Name of the scorer and of its column.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the pattern or an option is invalid.

    Examples
    --------
    >>> PatternScorer(r"\d{3}-\d{4}").score(["Call 555-0199.", "Do not call."])
    [1.0, 0.0]
    """

    pattern: str
    threshold: float = 0.5
    higher_is_worse: bool = True
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    mode: str = "turn"
    name: str = "pattern"
    _search: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern:
            raise InvalidInputError(f"`pattern` is {self.pattern!r:.60}; it must be a string")
        _check_options(self)
        try:
            object.__setattr__(self, "_search", compile_pattern(self.pattern))
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidInputError(
                f"`pattern` {self.pattern!r:.60} is not a valid regular expression: {error}"
            ) from None

    version = options_version("1")

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return 1 for each text that contains a match, else 0.

        Raises
        ------
        InvalidInputError
            If the pattern takes too long on a text.
        """
        return numbers_only(self.name, self.checked(texts))

    def checked(self, texts: Sequence[str]) -> list[Scored]:
        """Return a number for each text, or the reason why it is missing."""
        return [self._found(text) for text in texts]

    def _found(self, text: str) -> Scored:
        try:
            return float(find_in(text, self._search, "first") is not None)
        except Overrun as error:
            return f"error: the pattern takes too long on this text: {error}"


def _check_options(scorer: KeywordScorer | PatternScorer) -> None:
    for option in ("whole_words", "higher_is_worse"):
        value = getattr(scorer, option, False)
        if not isinstance(value, bool):
            raise InvalidTypeError(f"`{option}` is {value!r:.60}; it must be True or False")
    object.__setattr__(scorer, "threshold", validation.number(scorer.threshold, "threshold"))
    validation.choice(scorer.mode, "mode", MODES)
