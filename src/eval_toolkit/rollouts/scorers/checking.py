"""Scorer calls with validated output.

All scorers are called through these functions, so that a failure on one text does not affect other
texts and invalid values are never used as scores.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from eval_toolkit._internal import validation
from eval_toolkit._internal.redaction import one_line
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingExtraError,
    ModelError,
)
from eval_toolkit.graders.base import Grade
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.scorers.base import categories_of

Scored: TypeAlias = float | str
"""Score, or the reason why it is missing: "error: …" or "skipped: …"."""
_LONGEST_REASON = 200
_ABOUT_THE_TEXT = frozenset({"too_long", "refused", "bad_request"})
"""Kinds of model failures that affect only a single text."""


def checked_scores(scorer: TextScorer, texts: Sequence[str]) -> list[Scored]:
    """Score texts in one call and validate the result.

    Parameters
    ----------
    scorer : TextScorer
        Scorer. If it has a method ``checked(texts)``, which reports texts without a score, that
        method is called instead of ``score``.
    texts : sequence of str
        Texts to score; None for missing ones.

    Returns
    -------
    list of float or str
        Score of each text, or "error: …" if it is invalid or the scorer failed. If scoring all
        texts in one call fails, each text is scored individually.

    Raises
    ------
    InvalidInputError
        If the number of scores differs from the number of texts.
    MissingExtraError, ArtifactError, ModelError
        If no text could be scored because something is not installed, missing or unavailable.

    Examples
    --------
    >>> from eval_toolkit.rollouts.scorers import as_text_scorer
    >>> scorer = as_text_scorer(lambda texts: [1 / len(text) for text in texts], name="brief")
    >>> checked_scores(scorer, ["ab", ""])
    [0.5, 'error: ZeroDivisionError: division by zero']
    """
    told = getattr(scorer, "checked", None)
    return _asked(scorer.name, told if callable(told) else scorer.score, text_list(texts))


def checked_turns(
    scorer: Any, conversations: Sequence[Any], keys: Sequence[Any] | None = None
) -> list[Scored]:
    """Score conversations with a scorer that needs the question; see `checked_scores`.

    Parameters
    ----------
    scorer : TextScorer
        Scorer with a method ``score_turns(conversations)``, which may return a `graders.Grade` with
        a reason instead of a number.
    conversations : sequence of Conversation
        Conversations that end with the answer to score.
    keys : sequence of (str, int, str), optional
        Unit id, attempt and position of each conversation, for scorers that store their requests
        (``keeps_keys``).

    Returns
    -------
    list of float or str
        As in `checked_scores`.

    Raises
    ------
    InvalidInputError, MissingExtraError, ArtifactError, ModelError
        As in `checked_scores`.
    """
    listed = list(conversations)
    if keys is None or not getattr(scorer, "keeps_keys", False):
        return _asked(scorer.name, scorer.score_turns, listed)

    def ask(pairs: Sequence[Any]) -> Any:
        return scorer.score_turns([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    return _asked(scorer.name, ask, list(zip(listed, keys, strict=True)))


def checked_categories(scorer: Any, texts: Sequence[str]) -> dict[str, list[Scored]]:
    """Score texts by harm category; see `checked_scores`.

    Parameters
    ----------
    scorer : TextScorer
        Scorer with ``categories`` and ``score_categories(texts)``, which returns lists of numbers
        by category.
    texts : sequence of str
        Texts to score.

    Returns
    -------
    dict of str to list of float or str
        For each category, the list returned by `checked_scores`.

    Raises
    ------
    InvalidInputError
        If a category is missing, or the number of its scores differs from the number of texts.
    MissingExtraError, ArtifactError, ModelError
        As in `checked_scores`.
    """
    names = categories_of(scorer)

    def ask(some: Sequence[str]) -> list[list[Any]]:
        found = scorer.score_categories(some)
        if not isinstance(found, Mapping) or any(name not in found for name in names):
            raise _WrongShapeError(
                f"the scorer {scorer.name!r} must return one number per text for each of "
                f"{', '.join(names)}"
            )
        columns = [_listed(scorer.name, found[name], len(some)) for name in names]
        return [list(row) for row in zip(*columns, strict=True)]

    rows = _tried(ask, text_list(texts))
    return {
        name: [row if isinstance(row, str) else _number(row[at]) for row in rows]
        for at, name in enumerate(names)
    }


def text_list(texts: Any) -> list[str]:
    """Return texts as a list of strings; other types of states are converted.

    Raises an error for a single string, and for None in the list.

    Examples
    --------
    >>> text_list(("a", 1))
    ['a', '1']
    """
    if isinstance(texts, str):
        raise InvalidTypeError(f"`texts` is a single string, {texts!r:.60}; pass a list of strings")
    listed = list(texts)
    for at, text in enumerate(listed):
        if text is None:
            raise InvalidTypeError(f"texts[{at}] is None; it must be a string")
    return [str(text) for text in listed]


def numbers_only(name: str, found: Sequence[Scored]) -> list[float]:
    """Return the scores as numbers; raise an error if one is missing.

    ``found`` is a result of `checked_scores`.

    Examples
    --------
    >>> numbers_only("x", [1.0])
    [1.0]
    """
    for at, value in enumerate(found):
        if isinstance(value, str):
            raise InvalidInputError(
                f"the scorer {name!r} returned no score for texts[{at}]: {value}"
            )
    return [float(value) for value in found]


# --- scorer calls ---------------------------------------------------------------------------------


class _WrongShapeError(InvalidInputError):
    """Raised if a scorer does not return one number per text."""


def _asked(name: str, ask: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> list[Scored]:
    found = _tried(lambda some: _listed(name, ask(some), len(some)), items)
    return [_number(value) for value in found]


def _tried(ask: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Score all texts in one call, or individually if that call fails."""
    if not items:
        return []
    try:
        return ask(items)
    except (_WrongShapeError, MissingExtraError, ArtifactError):  # no text would succeed
        raise
    except Exception as failure:  # a scorer may fail in any way
        if isinstance(failure, ModelError) and failure.kind not in _ABOUT_THE_TEXT:
            raise
        if len(items) > 1:
            return [_tried(ask, [item])[0] for item in items]
        return [f"error: {failure_line(failure)}"]


def _listed(name: str, found: Any, n: int) -> list[Any]:
    try:
        values = list(found)
    except TypeError:
        raise _WrongShapeError(
            f"the scorer {name!r} returned {found!r:.60}; it must return one number per text"
        ) from None
    if isinstance(found, (str, Mapping)) or len(values) != n:
        raise _WrongShapeError(
            f"the scorer {name!r} returned {len(values)} scores for {n} texts; it must return one "
            "number per text, in their order"
        )
    return values


def _number(value: Any) -> Scored:
    """Return a valid score, or the reason why the value is invalid."""
    if isinstance(value, str) and value.startswith(("error: ", "skipped: ")):
        return value
    if isinstance(value, Grade):
        return f"{value.status}: {value.reason}" if value.value is None else float(value.value)
    if type(value).__name__ in ("bool", "bool_"):
        return float(value)
    try:
        number = validation.as_float(value)
    except (TypeError, ValueError, OverflowError):
        return f"error: the scorer returned {value!r:.60}, which is not a number"
    if not math.isfinite(number):
        return f"error: the scorer returned {number}, which is not finite"
    return number


def failure_line(failure: Exception) -> str:
    """Format an exception as one short line, with secrets redacted."""
    return one_line(failure)[:_LONGEST_REASON]
