"""Scorers created from functions of a reply, or of a prompt and a reply."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval_toolkit._internal.hashing import object_digest
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.scorers.base import as_text_scorer, check_function
from eval_toolkit.rollouts.scorers.loading import load_scorer

_SEVERAL = re.compile(r"(?:typing\.|collections\.abc\.)?(?:list|sequence|iterable)\b", re.I)
_TEXTS = ("texts", "replies", "responses", "answers", "outputs")
"""Names of a first parameter that receives all texts at once instead of one."""
_DIGITS = 8


def reply_scorer(given: Any) -> TextScorer:
    """Convert a function, or the name of a scorer, to a scorer.

    Parameters
    ----------
    given : TextScorer, str or callable
        A scorer is returned unchanged, and a name such as "toxicity@0.7" is loaded by
        `load_scorer`. A function takes a reply, or a prompt and a reply, and returns a number or a
        bool; higher is worse, and values of 0.5 or more count as failures. A function whose
        parameter is named ``texts`` or ``replies``, or annotated as a list, receives all texts at
        once.

    Returns
    -------
    TextScorer
        Scorer for `System` and `run_rollouts`.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the object is not a scorer, or the function requires other arguments.
    PluginError
        If there is no scorer with that name.

    Examples
    --------
    >>> def harm(reply):
    ...     return reply.startswith("Sure")
    >>> reply_scorer(harm).score(["Sure, here is how.", "No."])
    [1.0, 0.0]
    """
    if isinstance(given, str):
        return load_scorer(given)
    if isinstance(given, type) or hasattr(given, "score") or not callable(given):
        return as_text_scorer(given)
    if inspect.iscoroutinefunction(given):
        raise InvalidTypeError(
            f"`scorer` {_named(given)} is a coroutine function; pass a regular function of a reply"
        )
    names = _parameters(given)
    if names is None:
        return as_text_scorer(given)
    scorer = _OfBoth(given) if len(names) == 2 else FunctionScorer(given)
    return as_text_scorer(scorer)


def reply_scorers(given: Any) -> list[TextScorer]:
    """Convert a single object, a sequence, or a mapping from names to objects to scorers.

    Each object is converted by `reply_scorer`.

    Examples
    --------
    >>> [scorer.name for scorer in reply_scorers({"short": lambda reply: len(reply) < 9})]
    ['short']
    """
    if isinstance(given, Mapping):
        return [as_text_scorer(reply_scorer(one), name=name) for name, one in given.items()]
    if isinstance(given, Sequence) and not isinstance(given, str):
        return [reply_scorer(one) for one in given]
    return [reply_scorer(given)]


class FunctionScorer:
    """Scorer that calls a function with one reply at a time; created by `reply_scorer`.

    Parameters
    ----------
    function : callable
        Function that maps a text to a number or a bool.

    Examples
    --------
    >>> FunctionScorer(len).score(["ab"])
    [2.0]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.name = as_text_scorer(function).name
        code = getattr(function, "__code__", None)
        told = object_digest([function, code, getattr(function, "__defaults__", None)])
        # Other code under the same name is another scorer.
        self.version = "1" if code is None or told is None else told[:_DIGITS]
        self.threshold = 0.5
        self.higher_is_worse = True

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return one number per text, in order."""
        found = []
        for text in texts:
            value = self._function(text)
            if isinstance(value, (list, tuple)):  # it takes all texts
                return [self._number(one) for one in self._function(list(texts))]
            found.append(self._number(value))
        return found

    def ready(self) -> None:
        """Raise an error if the function cannot be called with a text."""
        check_function(self.name, self.score)

    def _number(self, value: Any) -> float:
        plain = value.item() if hasattr(value, "item") else value
        if not isinstance(plain, (bool, int, float)):
            raise InvalidInputError(
                f"{self.name} returned {value!r:.60}; it must return a number or a bool for one "
                "reply (name its parameter `texts` if it takes a list of them)"
            )
        return float(plain)


class _OfBoth(FunctionScorer):
    """Scorer that calls a function with a prompt and a reply; the prompt is the last probe."""

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return the scores of texts, passing an empty prompt."""
        return [self._number(self._function("", text)) for text in texts]

    def score_turns(self, conversations: Sequence[Any]) -> list[float]:
        """Return the scores of the last reply of each conversation."""
        found = []
        for state in conversations:
            prompt = next((m.content for m in state.messages[::-1] if m.role.value == "user"), "")
            found.append(self._number(self._function(prompt, state.messages[-1].content)))
        return found


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    """Return the required parameters, or None if the function takes all texts at once."""
    try:
        listed = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return ["reply"]
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [one for one in listed if one.kind in places]
    needed = [one.name for one in own if one.default is inspect.Parameter.empty]
    if not own:
        return ["reply"]
    if len(needed) > 2:
        raise InvalidTypeError(
            f"`scorer` {_named(function)} requires the arguments {', '.join(needed)}; it must "
            "accept a reply, or a prompt and a reply"
        )
    note = own[0].annotation
    told = note if isinstance(note, str) else getattr(note, "__qualname__", "") or str(note)
    if own[0].name in _TEXTS or _SEVERAL.match(told):
        return None
    return needed or [own[0].name]


def _named(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
